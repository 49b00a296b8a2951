//! Log-probabilities in the two forms of the protocol.

use serde::{Serialize, Serializer};
use ucuz_llm::TokenLogprob;

/// What stands for minus infinity, which JSON cannot write; OpenAI's value.
const LEAST: f32 = -9999.0;

/// Chat's form.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct ChatLogprobs {
    pub content: Vec<ChatToken>,
    refusal: Option<()>,
}

/// One token in chat's form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ChatToken {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
    top_logprobs: Vec<Alternative>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Alternative {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

impl From<Vec<TokenLogprob>> for ChatLogprobs {
    fn from(tokens: Vec<TokenLogprob>) -> Self {
        Self {
            content: tokens.into_iter().map(ChatToken::from).collect(),
            refusal: None,
        }
    }
}

impl From<TokenLogprob> for ChatToken {
    fn from(token: TokenLogprob) -> Self {
        let top = token
            .top
            .into_iter()
            .map(|(_, bytes, logprob)| Alternative {
                token: token_text(&bytes, ""),
                logprob: finite(logprob),
                bytes,
            });
        Self {
            top_logprobs: top.collect(),
            token: token_text(&token.bytes, ""),
            logprob: finite(token.logprob),
            bytes: token.bytes,
        }
    }
}

/// The form of completions: parallel lists.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct ListLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<TopMap>>,
    /// Characters of the answer before each token.
    text_offset: Vec<usize>,
}

impl ListLogprobs {
    /// Appends a token; `offset` is its place and is moved behind it.
    pub(super) fn push(&mut self, token: TokenLogprob, top: u32, offset: &mut usize) {
        let text = token_text(&token.bytes, "bytes:");
        let logprob = finite(token.logprob);
        let mut map = TopMap(vec![(text.clone(), logprob)]);
        for (_, bytes, logprob) in token.top.into_iter().take(top as usize) {
            map.add(token_text(&bytes, "bytes:"), finite(logprob));
        }
        self.append(
            text,
            Some(logprob),
            Some(map),
            offset,
            characters(&token.bytes),
        );
    }

    /// Appends the first token of a prompt, which nothing predicts; it takes `length` characters.
    pub(super) fn push_first(&mut self, text: String, length: usize, offset: &mut usize) {
        self.append(text, None, None, offset, length);
    }

    fn append(
        &mut self,
        text: String,
        logprob: Option<f32>,
        top: Option<TopMap>,
        offset: &mut usize,
        length: usize,
    ) {
        self.tokens.push(text);
        self.token_logprobs.push(logprob);
        self.top_logprobs.push(top);
        self.text_offset.push(*offset);
        *offset += length;
    }

    /// Whether there is no token.
    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Appends what came later.
    pub(super) fn extend(&mut self, later: Self) {
        self.tokens.extend(later.tokens);
        self.token_logprobs.extend(later.token_logprobs);
        self.top_logprobs.extend(later.top_logprobs);
        self.text_offset.extend(later.text_offset);
    }
}

/// Texts and log-probabilities; of ids with one text the likeliest stays. The chosen token is
/// always in it, with the very number of `token_logprobs` when it is the likeliest: evaluators
/// call an answer greedy when the two are equal.
#[derive(Debug, Clone, PartialEq)]
struct TopMap(Vec<(String, f32)>);

impl TopMap {
    fn add(&mut self, text: String, logprob: f32) {
        match self.0.iter_mut().find(|(known, _)| *known == text) {
            Some((_, known)) => *known = known.max(logprob),
            None => self.0.push((text, logprob)),
        }
    }
}

impl Serialize for TopMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(text, logprob)| (text, logprob)))
    }
}

/// Prompt scores in chat's form; nothing predicts the first token, so its entry is `null`.
pub(super) fn prompt_entries(scores: Vec<TokenLogprob>) -> Vec<Option<ChatToken>> {
    let scores = scores.into_iter().map(|score| Some(ChatToken::from(score)));
    std::iter::once(None).chain(scores).collect()
}

fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { LEAST }
}

/// Characters that begin in these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count()
}

/// A token's text; bytes that are no text by themselves as `\xNN`, after `prefix`.
fn token_text(bytes: &[u8], prefix: &str) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let escaped = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
            format!("{prefix}{}", escaped.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: u32, text: &[u8], logprob: f32, top: &[(&[u8], f32)]) -> TokenLogprob {
        let top = top
            .iter()
            .map(|(bytes, logprob)| (0, bytes.to_vec(), *logprob))
            .collect();
        TokenLogprob {
            id,
            bytes: text.to_vec(),
            logprob,
            top,
        }
    }

    #[test]
    fn lists_hold_the_chosen_token_and_one_value_a_text() {
        let mut list = ListLogprobs::default();
        let mut offset = 0;
        list.push_first("é".to_owned(), 1, &mut offset);
        list.push(
            token(1, b"a", -0.5, &[(b"a", -0.5), (b"b", -1.0), (b"b", -2.0)]),
            3,
            &mut offset,
        );
        list.push(
            token(2, b"z", -9.0, &[(b"a", -0.5), (b"b", -1.0)]),
            1,
            &mut offset,
        );
        list.push(
            token(3, b"\xf0\x9f", f32::NEG_INFINITY, &[]),
            1,
            &mut offset,
        );
        let json = serde_json::to_string(&list).unwrap();
        let expected = concat!(
            r#"{"tokens":["é","a","z","bytes:\\xf0\\x9f"],"token_logprobs":[null,-0.5,-9.0,-9999.0],"#,
            r#""top_logprobs":[null,{"a":-0.5,"b":-1.0},{"z":-9.0,"a":-0.5},"#,
            r#"{"bytes:\\xf0\\x9f":-9999.0}],"text_offset":[0,1,2,3]}"#
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn chat_tokens_carry_text_and_bytes() {
        let tokens = vec![token(1, b"\xe2\x82", -0.25, &[(b"a", -1.5)])];
        let json = serde_json::to_string(&ChatLogprobs::from(tokens)).unwrap();
        let expected = concat!(
            r#"{"content":[{"token":"\\xe2\\x82","logprob":-0.25,"bytes":[226,130],"#,
            r#""top_logprobs":[{"token":"a","logprob":-1.5,"bytes":[97]}]}],"refusal":null}"#
        );
        assert_eq!(json, expected);
    }
}
