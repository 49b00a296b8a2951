//! Tools with any schema, calls that must come, and the parser behind: what the grammar lets through are calls of these tools.
//!
//! An input is a byte that says the form and the choice, the schema of a tool's arguments up to a zero byte, then a byte a
//! token that picks one of those allowed.
#![no_main]

use std::collections::HashMap;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use ucuz_fuzz::{bounded_above, check_error};
use ucuz_text::tools::{
    FAMILIES, Family, Offer, Thoughts, Tool, ToolChoice, ToolEvent, ToolOffer, enforced,
};
use ucuz_text::{
    AnswerEvent, AnswerForm, AnswerParser, DecodeOptions, GrammarCompiler, LeadingSpace, Matcher,
    NextTokens, SpecialText, Tokenizer, TokenizerConfig,
};

const TOKENIZER: &[u8] = include_bytes!("../../tests/golden/tiny/qwen2/tokenizer.json");
const CONFIG: &[u8] = include_bytes!("../../tests/golden/tiny/qwen2/tokenizer_config.json");
/// Automata that fuel of a million pays for, their copy for a text, and the cache.
const AUTOMATA_BYTES: usize = 384 << 20;
/// Tokens of an answer; one that has not ended by then says nothing.
const TOKENS_MAX: usize = 160;

const OPTIONS: DecodeOptions = DecodeOptions {
    special: SpecialText::Show,
    leading_space: LeadingSpace::Keep,
};

struct Model {
    tokenizer: Tokenizer,
    compiler: GrammarCompiler,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let config = TokenizerConfig::from_json(CONFIG).expect("a good file");
    let tokenizer = Tokenizer::from_json(TOKENIZER, &config).expect("a good file");
    let compiler = GrammarCompiler::new(&tokenizer, tokenizer.eog_ids()).expect("a good file");
    Model {
        tokenizer,
        compiler,
    }
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&MODEL);
    bounded_above(AUTOMATA_BYTES, data.len(), || check(data));
});

fn check(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let cut = rest.iter().position(|byte| *byte == 0);
    let (schema, picks) = rest.split_at(cut.unwrap_or(rest.len()));
    let Ok(schema @ Value::Object(_)) = serde_json::from_slice(schema) else {
        return;
    };
    let family = FAMILIES[usize::from(how % 4)];
    let tools = offer(schema, usize::from(how / 4 % 3), how / 12 % 2 == 1);
    let asked = Offer {
        tools: &tools,
        template: "",
        thoughts: Thoughts::None,
    };
    let grammar = enforced(family, &asked).and_then(|source| MODEL.compiler.compile(&source, 0));
    let mut matcher = match grammar {
        Ok(grammar) => grammar.matcher(true),
        Err(error) => return check_error(&error),
    };
    if let Some(text) = answer(&mut matcher, picks) {
        judge(family, &tools, &text);
    }
}

fn offer(schema: Value, choice: usize, parallel: bool) -> ToolOffer {
    let tool = |name: &str, parameters| Tool {
        name: name.to_owned(),
        parameters,
        strict: true,
        description: json!({}),
    };
    let choices = [
        ToolChoice::Auto,
        ToolChoice::Required,
        ToolChoice::Named("add".to_owned()),
    ];
    ToolOffer {
        tools: vec![tool("add", Some(schema)), tool("f", None)],
        choice: choices[choice].clone(),
        parallel,
    }
}

/// The text that the picks make, and when they are used up the first of what is allowed; `None` when it does not end.
fn answer(matcher: &mut Matcher, picks: &[u8]) -> Option<String> {
    let mut ids = Vec::new();
    for place in 0..TOKENS_MAX {
        let bits = match matcher.next_tokens() {
            Ok(NextTokens::Ids(bits)) => bits,
            Ok(NextTokens::End) => break,
            Err(error) => return check_none(&error),
        };
        let is_allowed = |id: &u32| bits[*id as usize / 32] >> (id % 32) & 1 == 1;
        let allowed: Vec<u32> = (0..bits.len() as u32 * 32).filter(is_allowed).collect();
        let end = allowed.iter().find(|id| MODEL.tokenizer.is_eog(**id));
        let id = match (picks.get(place), end) {
            (Some(pick), _) => allowed[usize::from(*pick) % allowed.len()],
            (None, Some(end)) => *end,
            (None, None) => allowed[place % 3 % allowed.len()],
        };
        if MODEL.tokenizer.is_eog(id) {
            break;
        }
        if let Err(error) = matcher.accept(id) {
            return check_none(&error);
        }
        ids.push(id);
    }
    (ids.len() < TOKENS_MAX).then(|| MODEL.tokenizer.decode(&ids, OPTIONS))
}

fn check_none(error: &ucuz_text::TextError) -> Option<String> {
    check_error(error);
    None
}

/// The calls in a whole answer: as many as asked for, of tools that were offered, with an object each.
fn judge(family: &'static Family, tools: &ToolOffer, text: &str) {
    let form = AnswerForm {
        thoughts: None,
        calls: Some((family, tools.names())),
        one_call: !tools.parallel,
    };
    let mut parser = AnswerParser::new(&form);
    let mut calls: Vec<(String, String)> = Vec::new();
    let events = parser.push(text);
    for event in events.into_iter().chain(parser.finish()) {
        match event {
            AnswerEvent::Answer(ToolEvent::CallBegin { name, .. }) => {
                calls.push((name, String::new()));
            }
            AnswerEvent::Answer(ToolEvent::Arguments { index, delta }) => {
                calls[index].1.push_str(&delta);
            }
            _ => {}
        }
    }
    let least = usize::from(tools.choice != ToolChoice::Auto);
    assert!(calls.len() >= least, "no call in {text:?}");
    assert!(tools.parallel || calls.len() <= 1, "{calls:?} in {text:?}");
    for (name, arguments) in &calls {
        assert!(tools.names().contains(name), "{name} in {text:?}");
        // JSON sets numbers no range, a `Value` does.
        let arguments: Result<HashMap<String, IgnoredAny>, _> = serde_json::from_str(arguments);
        assert!(arguments.is_ok(), "{arguments:?} in {text:?}");
        let is_named = |named: &String| named == name;
        if let ToolChoice::Named(named) = &tools.choice {
            assert!(is_named(named), "{name} in {text:?}");
        }
    }
}
