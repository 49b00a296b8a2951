//! What all families keep: the same events however the text is cut, nothing lost, nothing hoarded.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::limits::MAX_HELD_CALL_BYTES;

/// What a whole answer comes to.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    text: String,
    /// Names and arguments.
    calls: Vec<(String, String)>,
    ended: Vec<usize>,
}

fn parse<'t>(family: &Family, parts: impl IntoIterator<Item = &'t str>) -> Answer {
    let offered = vec!["get_weather".to_owned(), "add".to_owned()];
    let mut parser = family.parser(offered);
    let mut events = Vec::new();
    for part in parts {
        parser.push(part, &mut events);
    }
    parser.finish(&mut events);
    let mut answer = Answer::default();
    for event in events {
        match event {
            ToolEvent::Text(text) => answer.text.push_str(&text),
            ToolEvent::CallBegin { index, name } => {
                assert_eq!(index, answer.calls.len(), "calls are numbered in order");
                answer.calls.push((name, String::new()));
            }
            ToolEvent::Arguments { index, delta } => {
                assert_eq!(index + 1, answer.calls.len(), "one call at a time");
                assert_eq!(answer.ended.len(), index, "a call that is not over");
                answer.calls[index].1.push_str(&delta);
            }
            ToolEvent::CallEnd { index } => answer.ended.push(index),
        }
    }
    let all: Vec<usize> = (0..answer.calls.len()).collect();
    assert_eq!(answer.ended, all, "every call ends once");
    answer
}

fn check(family: &Family, text: &str, content: &str, calls: &[(&str, &str)]) {
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    for parts in [vec![text], letters] {
        let answer = parse(family, parts);
        let found: Vec<(&str, &str)> = answer
            .calls
            .iter()
            .map(|(name, arguments)| (name.as_str(), arguments.as_str()))
            .collect();
        assert_eq!(
            (answer.text.as_str(), found.as_slice()),
            (content, calls),
            "{family:?}: {text:?}"
        );
    }
}

/// Texts that are no calls to a family.
fn check_text(family: &Family, texts: &[&str]) {
    for text in texts {
        check(family, text, text, &[]);
    }
}

#[test]
fn hermes_calls_are_found() {
    let weather = r#"{"city": "Z\u00fcrich", "days":[1, 2]}"#;
    let call = format!(
        "<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {weather}}}\n</tool_call>"
    );
    check(&HERMES, &call, "", &[("get_weather", weather)]);
    check(
        &HERMES,
        &format!("Let me look.\n{call}\n{call}\n"),
        "Let me look.",
        &[("get_weather", weather), ("get_weather", weather)],
    );
    check(
        &HERMES,
        &format!("{call}\nDone.</tool_call>"),
        "\nDone.</tool_call>",
        &[("get_weather", weather)],
    );
    let list = r#"<tool_call>[{"name": "add", "arguments": {"a":1}}, {"name":"add","arguments":{}}]</tool_call>"#;
    check(&HERMES, list, "", &[("add", r#"{"a":1}"#), ("add", "{}")]);
}

#[test]
fn order_of_keys_and_missing_arguments_do_not_matter() {
    for (object, name, arguments) in [
        (
            r#"{"arguments":{"a": "\"name\"}"},"name":"add"}"#,
            "add",
            r#"{"a": "\"name\"}"}"#,
        ),
        (r#"{"id":7,"name":"x.y","arguments":{}}"#, "x.y", "{}"),
        (r#"{"name":"add"}"#, "add", "{}"),
        (
            r#"{"name":"add","arguments":{"name":"b"},"type":{"f":[]}}"#,
            "add",
            r#"{"name":"b"}"#,
        ),
        (
            r#"{ "n\u0061me" : "add" , "parameters" : { } }"#,
            "add",
            "{ }",
        ),
    ] {
        let text = format!("<tool_call>{object}</tool_call>");
        check(&HERMES, &text, "", &[(name, arguments)]);
    }
}

#[test]
fn what_breaks_the_form_is_text() {
    check_text(
        &HERMES,
        &[
            "",
            " plain \n",
            "a <tool_cal",
            "<tool_call>",
            "<tool_call> ",
            "<tool_call>hello</tool_call>",
            "<tool_call>{\"name\": \"add\"",
            "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
            "<tool_call>{\"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"add\", \"arguments\": [1]}</tool_call>",
            "<tool_call>{\"name\": \"add\", \"arguments\": \"{}\"}</tool_call>",
            "<tool_call>{\"name\": \"add\", \"arguments\": null}</tool_call>",
            "<tool_call>{'name': 'add'}</tool_call>",
            "<tool_call>[]</tool_call>",
            "</tool_call> é<",
            "{\"name\":\"add\",\"arguments\":{}}",
        ],
    );
    check(
        &HERMES,
        "<tool_call><tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>",
        "<tool_call>",
        &[("add", "{}")],
    );
}

#[test]
fn a_call_that_breaks_off_ends_there() {
    let begun = "<tool_call>{\"name\":\"add\",\"arguments\":";
    check(
        &HERMES,
        &format!("{begun}{{\"a\": \"b"),
        "",
        &[("add", "{\"a\": \"b")],
    );
    check(
        &HERMES,
        &format!("{begun}{{\"a\": x}} y"),
        "x} y",
        &[("add", "{\"a\": ")],
    );
    check(&HERMES, &format!("{begun}{{}}\n"), "", &[("add", "{}")]);
    // The object's own brace is forgotten now and then.
    check(
        &HERMES,
        &format!("{begun}{{}}\n</tool_call>"),
        "",
        &[("add", "{}")],
    );
    check(
        &HERMES,
        &format!("{begun}{{}} x</tool_call>"),
        " x</tool_call>",
        &[("add", "{}")],
    );
}

#[test]
fn llama3_calls_are_found() {
    let call = r#"{"name": "get_weather", "parameters": {"city": "Oslo"}}"#;
    let found = ("get_weather", r#"{"city": "Oslo"}"#);
    check(&LLAMA3, call, "", &[found]);
    check(&LLAMA3, &format!("\n{call}\n"), "", &[found]);
    check(
        &LLAMA3,
        &format!("<|python_tag|>{call}; {call};{call}"),
        "",
        &[found, found, found],
    );
    check(
        &LLAMA3,
        &format!("Well: <|python_tag|>{call}"),
        "Well:",
        &[found],
    );
    check(
        &LLAMA3,
        &format!("{call}; and so on"),
        "; and so on",
        &[found],
    );
    check_text(
        &LLAMA3,
        &[
            r#"{"name": "Ada", "parameters": {"born": 1815}}"#,
            r#"{"name": "add", "age": 3}"#,
            r#"{"city": "Oslo"}"#,
            r#"See {"name": "add", "parameters": {}}"#,
            "<|python_tag|>print(1)",
            "; x",
        ],
    );
}

#[test]
fn mistral_calls_are_found() {
    let add = ("add", r#"{"a": 1}"#);
    check(
        &MISTRAL,
        r#"[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}]"#,
        "",
        &[add],
    );
    check(
        &MISTRAL,
        "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}},\n {\"arguments\": {}, \"name\": \"add\"}]",
        "",
        &[add, ("add", "{}")],
    );
    check(
        &MISTRAL,
        r#"Two: [TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]add{"a": 1}[TOOL_CALLS]add[CALL_ID]x9[ARGS] {"a": 1}"#,
        "Two:",
        &[add, add, add],
    );
    check_text(
        &MISTRAL,
        &[
            "[TOOL_CALLS]",
            "[TOOL_CALLS]add",
            "[TOOL_CALLS]add[ARGS]",
            "[TOOL_CALLS]add[ARG]{}",
            "[TOOL_CALLS]add[CALL_ID]x{}",
            "[TOOL_CALLS][1]",
            "[TOOL",
            "[[TOOL_CALLS",
        ],
    );
    check(&MISTRAL, "[[TOOL_CALLS]add{}", "[", &[("add", "{}")]);
}

#[test]
fn gemma_calls_are_found() {
    for (text, arguments) in [
        (
            "```tool_code\nadd(a=1, b='x\\'y', c=[True, None, -0.5], d={\"e\": \"f\"},)\n```",
            r#"{"a":1,"b":"x'y","c":[true,null,-0.5],"d":{"e":"f"}}"#,
        ),
        (
            "```tool_code\nprint(add(a=\"\\u00e9\"))\n```\n",
            r#"{"a":"é"}"#,
        ),
        ("```tool_code [add()]```", "{}"),
        (
            "```tool_code\n{\"name\": \"add\", \"parameters\": {\"a\": 1}}\n```",
            r#"{"a": 1}"#,
        ),
        (
            "```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n```",
            r#"{"a": 1}"#,
        ),
        (r#"{"name": "add", "parameters": {"a": 1}}"#, r#"{"a": 1}"#),
        (
            "<start_function_call>call:add{a:<escape>x{\"y\"}<escape>,b:2,c:{d:[true,<escape>z<escape>]}}<end_function_call>",
            r#"{"a":"x{\"y\"}","b":2,"c":{"d":[true,"z"]}}"#,
        ),
        (
            "<|tool_call>call:add{a:<|\"|>x<|\"|>}<tool_call|>",
            r#"{"a":"x"}"#,
        ),
    ] {
        check(&GEMMA, text, "", &[("add", arguments)]);
    }
    check(
        &GEMMA,
        "```tool_code\nadd(a=1)\nget_weather(city='Oslo')\n```",
        "",
        &[("add", r#"{"a":1}"#), ("get_weather", r#"{"city":"Oslo"}"#)],
    );
    check_text(
        &GEMMA,
        &[
            "```json\n{\"name\": \"Ada\", \"born\": 1815}\n```",
            "```json\n[1, 2]\n```",
            "```tool_code\nother(a=1)\n```",
            "```tool_code\nadd(1)\n```",
            "```tool_code\nx = add(a=1)\n```",
            "```tool_code\nadd(a=1)",
            "```tool_code\nadd(a='x)\n```",
            "```python\nadd(a=1)\n```",
            "<start_function_call>call:add{a:<escape>x}<end_function_call>",
            "<start_function_call>call:add<end_function_call>",
        ],
    );
}

#[test]
fn what_is_held_back_is_bounded() {
    let long = "x".repeat(2 * MAX_HELD_CALL_BYTES);
    for (family, text) in [
        (&HERMES, format!("<tool_call>{{\"k\":\"{long}")),
        (
            &HERMES,
            format!("<tool_call>{}", " ".repeat(2 * MAX_HELD_CALL_BYTES)),
        ),
        (&MISTRAL, format!("[TOOL_CALLS]{long}")),
        (
            &MISTRAL,
            format!(
                "[TOOL_CALLS]add[ARGS]{}",
                " ".repeat(2 * MAX_HELD_CALL_BYTES)
            ),
        ),
        (&GEMMA, format!("```tool_code\nadd(a='{long}")),
        (&LLAMA3, format!("{{\"name\":\"{long}")),
        (&LLAMA3, " ".repeat(2 * MAX_HELD_CALL_BYTES)),
    ] {
        let mut parser = family.parser(Vec::new());
        let mut events = Vec::new();
        parser.push(&text, &mut events);
        let [ToolEvent::Text(shown)] = events.as_slice() else {
            panic!("{family:?}: {} events", events.len());
        };
        assert!(text.len() - shown.len() <= MAX_HELD_CALL_BYTES);
        check(family, &text, &text, &[]);
    }
    // Arguments before the name are held as well, and too many of them are text.
    let late = |bytes: usize| {
        let value = "x".repeat(bytes);
        format!("<tool_call>{{\"arguments\":{{\"v\":\"{value}\"}},\"name\":\"add\"}}</tool_call>")
    };
    assert_eq!(parse(&HERMES, [late(1000).as_str()]).calls.len(), 1);
    check_text(&HERMES, &[&late(MAX_HELD_CALL_BYTES)]);
    // Arguments after the name are not held at all.
    let early =
        format!("<tool_call>{{\"name\":\"add\",\"arguments\":{{\"v\":\"{long}\"}}}}</tool_call>");
    assert_eq!(
        parse(&HERMES, [early.as_str()]).calls[0].1.len(),
        long.len() + 8
    );
}

#[test]
fn arguments_stream_as_they_come() {
    let mut parser = HERMES.parser(Vec::new());
    let mut deltas = Vec::new();
    for part in [
        "<tool_call>{\"name\": \"add\", \"arguments\": {",
        "\"a\":",
        " 1",
        "}}",
    ] {
        let mut events = Vec::new();
        parser.push(part, &mut events);
        deltas.push(events);
    }
    let argument = |delta: &str| ToolEvent::Arguments {
        index: 0,
        delta: delta.to_owned(),
    };
    let begin = ToolEvent::CallBegin {
        index: 0,
        name: "add".to_owned(),
    };
    let expected = [
        vec![begin, argument("{")],
        vec![argument("\"a\":")],
        vec![argument(" 1")],
        vec![argument("}"), ToolEvent::CallEnd { index: 0 }],
    ];
    assert_eq!(deltas, expected);
}

#[test]
fn families_are_chosen_by_template_and_architecture() {
    for (template, architecture, family) in [
        (
            "{{ tools }} <tool_call></tool_call>",
            "qwen2",
            Some("hermes"),
        ),
        ("{{ tools }} [TOOL_CALLS]", "llama", Some("mistral")),
        ("{{ tools }} <|python_tag|>", "llama", Some("llama3")),
        (
            "{{ tools }} <|start_header_id|> {\"name\": .., \"parameters\": ..}",
            "llama",
            Some("llama3"),
        ),
        ("{{ tools }} <start_function_call>", "gemma3", Some("gemma")),
        ("{{ tools }}", "gemma3", Some("gemma")),
        ("{{ tools }} <tool_call>", "gemma3", Some("hermes")),
        ("{{ tools }} <tool_call><function=", "qwen3", None),
        ("{{ tools }} <unknown>", "llama", None),
    ] {
        let mut facts = Facts {
            template,
            reads_tools: true,
            architecture,
        };
        assert_eq!(
            choose(&facts).map(|family| family.name),
            family,
            "{template}"
        );
        facts.reads_tools = false;
        assert_eq!(choose(&facts).map(|family| family.name), Some("hermes"));
    }
    for family in FAMILIES {
        assert_eq!(
            Family::named(family.name).map(|found| found.name),
            Some(family.name)
        );
    }
    assert!(Family::named("none").is_none());
}

fn offer(choice: ToolChoice, parallel: bool) -> ToolOffer {
    let tool = |name: &str| Tool {
        name: name.to_owned(),
        strict: false,
        parameters: Some(json!({"properties": {"a  b": {"type": "integer"}}})),
        description: json!({}),
    };
    ToolOffer {
        tools: vec![tool("add"), tool("sub")],
        choice,
        parallel,
    }
}

fn grammar_of(family: &Family, tools: &ToolOffer, template: &str, thoughts: Thoughts) -> String {
    let offer = Offer {
        tools,
        template,
        thoughts,
    };
    let token = |text: &str| (text == "[TOOL_CALLS]").then_some(9);
    // How JSON is written is every schema's own note.
    let note = crate::grammar::schema::with_options(json!({}))["x-guidance"].to_string();
    constraint(family, &offer, &token).replace(&format!(",\"x-guidance\":{note}"), "")
}

#[test]
fn grammars_hold_calls_to_their_schemas() {
    let object = |name: &str, key: &str| {
        format!(
            r#""{{\"name\": \"{name}\", \"{key}\": " %json {{"properties":{{"a  b":{{"type":"integer"}}}},"type":"object"}} "}}""#
        )
    };
    let common = "TEXT: /(.|\\n)*/\nSPACE: /\\s{0,16}/\n";
    let thoughts =
        "thoughts: \"<think>\" end_of_thoughts\nend_of_thoughts[lazy]: TEXT \"</think>\"\n";
    let named = offer(ToolChoice::Named("sub".to_owned()), true);
    let expected = format!(
        "start: call\ncall: \"<tool_call>\" \"\\n\" body \"\\n\" \"</tool_call>\"\nbody: {}\n{thoughts}{common}",
        object("sub", "arguments")
    );
    assert_eq!(grammar_of(&HERMES, &named, "", Thoughts::None), expected);

    let both = format!(
        "{} | {}",
        object("add", "parameters"),
        object("sub", "parameters")
    );
    let required = offer(ToolChoice::Required, true);
    let found = grammar_of(&LLAMA3, &required, "", Thoughts::Possible);
    let expected = format!(
        "start: (thoughts SPACE)? call (\";\" call)*\ncall: body\nbody: {both}\n{thoughts}{common}"
    );
    assert_eq!(found, expected);

    let check = |family: &Family, tools: &ToolOffer, template: &str, thoughts, head: &str| {
        let found = grammar_of(family, tools, template, thoughts);
        assert!(found.starts_with(head), "{found}");
    };
    let one = offer(ToolChoice::Required, false);
    let head = "start: call\ncall: <[9]> body\nbody: \"add\" \"[ARGS]\" %json {";
    check(&MISTRAL, &one, "[ARGS]", Thoughts::None, head);
    let head = "start: call\ncall: <[9]> body\nbody: \"[\" item \"]\"\nitem: \"{";
    check(&MISTRAL, &one, "", Thoughts::None, head);
    let head = "start: call\ncall: <[9]> body\nbody: \"[\" item (\", \" item)* \"]\"\nitem: ";
    check(&MISTRAL, &required, "", Thoughts::None, head);

    let auto = offer(ToolChoice::Auto, true);
    let head = "start: end_of_thoughts SPACE call* TEXT\ncall: head \"\\n\" body \"\\n\" \"</tool_call>\"\nhead[lazy]: TEXT \"<tool_call>\"\n";
    check(&HERMES, &auto, "", Thoughts::Open, head);
    let head = "start: TEXT call*\ncall: <[9]> body SPACE\n";
    check(&MISTRAL, &auto, "[ARGS]", Thoughts::Possible, head);
    let head = "start: SPACE ( call (\";\" call)* | OTHER )\n";
    check(&LLAMA3, &auto, "", Thoughts::None, head);
    let one = offer(ToolChoice::Auto, false);
    let head = "start: ( call SPACE | TEXT )\n";
    check(&GEMMA, &one, "", Thoughts::Possible, head);
}

/// Pieces of which calls, nearly calls and text are made.
const PIECES: &str = r#"(<tool_call>|</tool_call>|\[TOOL_CALLS\]|\[ARGS\]|<\|python_tag\|>|```tool_code|```|<start_function_call>call:|<end_function_call>|<escape>|\{"name": "add", "arguments": |\{"name":"get_weather","parameters":\{"a":"é\\n🙂"\}\}|\{"name":"x","arguments":\{|\{"a": \[1\]\}|\{\}|\}|\]|\[|add|\(a='é'\)|\{a:1\}|;|,| |\n|é|🙂|<|x){0,3}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn events_do_not_depend_on_how_a_text_is_cut(parts in prop::collection::vec(PIECES, 0..8)) {
        let whole = parts.concat();
        let letters: Vec<String> = whole.chars().map(String::from).collect();
        for family in FAMILIES {
            let expected = parse(family, [whole.as_str()]);
            prop_assert_eq!(&parse(family, parts.iter().map(String::as_str)), &expected);
            prop_assert_eq!(&parse(family, letters.iter().map(String::as_str)), &expected);
            if expected.calls.is_empty() {
                prop_assert_eq!(&expected.text, &whole);
            }
            // Text is a part of the answer, in order.
            let mut rest = whole.chars();
            prop_assert!(expected.text.chars().all(|letter| rest.any(|other| other == letter)));
        }
    }
}
