//! An answer in pieces to thoughts, text and calls: whole, in pieces and by single characters it is the same.
//!
//! An input is a byte that says how the parser is made, a byte that says how the text is cut, then the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ucuz_fuzz::bounded;
use ucuz_text::tools::{FAMILIES, ToolEvent};
use ucuz_text::{AnswerEvent, AnswerForm, AnswerParser};

fuzz_target!(|data: &[u8]| {
    bounded(data.len(), || check(data));
});

fn check(data: &[u8]) {
    let [how, cut, text @ ..] = data else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let family = FAMILIES[usize::from(how % 4)];
    let form = AnswerForm {
        thoughts: [None, Some(false), Some(true)][usize::from(how / 4 % 3)],
        calls: Some((family, vec!["add".to_owned(), "f".to_owned()])),
        one_call: how / 12 % 2 == 1,
    };
    let whole = read(&form, [text.as_ref()]);
    let letters: Vec<&str> = text.split("").collect();
    assert_eq!(read(&form, letters), whole);
    assert_eq!(read(&form, pieces(&text, *cut)), whole);
    if whole.calls.is_empty() && form.thoughts.is_none() && !form.one_call {
        assert_eq!(whole.text, text);
    }
}

/// Pieces of the text whose lengths follow from `cut`.
fn pieces(text: &str, cut: u8) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut rest, mut state) = (text, usize::from(cut));
    while !rest.is_empty() {
        state = state * 5 + 3;
        let end = rest.ceil_char_boundary((state / 7 % 13).min(rest.len()));
        let (piece, left) = rest.split_at(end);
        pieces.push(piece);
        (rest, state) = (left, state % 1021);
    }
    pieces
}

/// What an answer comes to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    reasoning: String,
    text: String,
    calls: Vec<(String, String)>,
    num_ended: usize,
}

fn read<'t>(form: &AnswerForm, pieces: impl IntoIterator<Item = &'t str>) -> Answer {
    let mut parser = AnswerParser::new(form);
    let mut answer = Answer::default();
    for piece in pieces {
        take(&mut answer, parser.push(piece));
    }
    take(&mut answer, parser.finish());
    assert_eq!(answer.num_ended, answer.calls.len(), "every call ends");
    answer
}

fn take(answer: &mut Answer, events: Vec<AnswerEvent>) {
    for event in events {
        match event {
            AnswerEvent::Reasoning(text) => answer.reasoning.push_str(&text),
            AnswerEvent::Answer(ToolEvent::Text(text)) => answer.text.push_str(&text),
            AnswerEvent::Answer(ToolEvent::CallBegin { index, name }) => {
                assert_eq!(index, answer.calls.len(), "calls are numbered");
                answer.calls.push((name, String::new()));
            }
            AnswerEvent::Answer(ToolEvent::Arguments { index, delta }) => {
                assert_eq!(answer.num_ended, index, "arguments of a call under way");
                answer.calls[index].1.push_str(&delta);
            }
            AnswerEvent::Answer(ToolEvent::CallEnd { index }) => {
                assert_eq!(answer.num_ended, index, "calls end in order");
                answer.num_ended += 1;
            }
        }
    }
}
