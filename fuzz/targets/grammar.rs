//! Schemas, expressions and grammars of clients: compiled within their bounds or refused, then followed for some tokens.
//!
//! An input is a letter for the kind (`s`chema, `r`egular expression, `g`rammar, `c`hoices), the source up to a zero byte,
//! then a byte a token that picks one of those allowed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ucuz_fuzz::{bounded_above, check_error};
use ucuz_text::{
    Grammar, GrammarCompiler, GrammarSource, NextTokens, Tokenizer, TokenizerConfig,
};

const TOKENIZER: &[u8] = include_bytes!("../../tests/golden/tiny/qwen2/tokenizer.json");
const CONFIG: &[u8] = include_bytes!("../../tests/golden/tiny/qwen2/tokenizer_config.json");
/// Automata that fuel of a million pays for, their copy for a text, and the cache.
const AUTOMATA_BYTES: usize = 384 << 20;

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
    bounded_above(AUTOMATA_BYTES, data.len(), || compile(data));
});

fn compile(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let cut = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let text = String::from_utf8_lossy(&rest[..cut]).into_owned();
    let source = match kind {
        b's' => GrammarSource::JsonSchema(text),
        b'r' => GrammarSource::Regex(text),
        b'g' => GrammarSource::Grammar(text),
        b'c' => GrammarSource::Choice(text.lines().map(str::to_owned).collect()),
        _ => GrammarSource::JsonObject,
    };
    match MODEL.compiler.compile(&source, 0) {
        Ok(grammar) => follow(&grammar, &rest[cut..]),
        Err(error) => check_error(&error),
    }
}

/// Every allowed token stands for text or ends it, and is taken.
fn follow(grammar: &Grammar, picks: &[u8]) {
    let mut matcher = grammar.matcher(true);
    for pick in picks.iter().take(24) {
        let bits = match matcher.next_tokens() {
            Ok(NextTokens::Ids(bits)) => bits,
            Ok(NextTokens::End) => return,
            Err(error) => return check_error(&error),
        };
        let ids = (0..bits.len() as u32 * 32).filter(|id| bits[*id as usize / 32] >> (id % 32) & 1 == 1);
        let ids: Vec<u32> = ids.collect();
        let id = ids[usize::from(*pick) % ids.len()];
        if MODEL.tokenizer.is_eog(id) {
            return;
        }
        assert!(!MODEL.tokenizer.is_special(id), "{id}");
        if let Err(error) = matcher.accept(id) {
            return check_error(&error);
        }
    }
}
