//! Bounds what the template engine's parser does by recursion.
//!
//! The engine bounds nested blocks and brackets, but not chains: `- - - x`, `x.a.a.a`, `x|f|f`,
//! `{% elif %}` each cost a level of stack per link (measured: 1 to 2 KiB unoptimised). A chain
//! has at most a link per token of its tag, so counting tokens per tag bounds it. The scan follows
//! the engine's lexer: comments, raw blocks, strings, and brackets that hide an end of tag.

use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_ELIFS, MAX_TAG_TOKENS};

/// Refuses a template whose tags are too long to be parsed on a 2 MiB stack.
pub(super) fn check(source: &str) -> Result<()> {
    let mut num_elifs = 0;
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        rest = &rest[at..];
        let body = rest.get(2..).unwrap_or_default();
        match rest.as_bytes().get(1) {
            Some(b'#') => rest = body.split_once("#}").map_or("", |(_, after)| after),
            Some(b'%') => match basic_tag(body, "raw") {
                Some(after) => rest = after_raw(after),
                None => {
                    let tag = body.trim_start_matches(['-', '+']).trim_start();
                    num_elifs += usize::from(tag.starts_with("elif"));
                    rest = after_tag(body, b'%', source)?;
                }
            },
            Some(b'{') => rest = after_tag(body, b'}', source)?,
            _ => rest = &rest[1..],
        }
    }
    check_limit("chat template, elif tags,", num_elifs, MAX_ELIFS)
}

/// The text after `name %}`, if the tag is just that word.
fn basic_tag<'s>(body: &'s str, name: &str) -> Option<&'s str> {
    let word = body.strip_prefix(['-', '+']).unwrap_or(body).trim_start();
    let end = word.strip_prefix(name)?.trim_start();
    end.strip_prefix(['-', '+'])
        .unwrap_or(end)
        .strip_prefix("%}")
}

fn after_raw(mut rest: &str) -> &str {
    while let Some((_, body)) = rest.split_once("{%") {
        if let Some(after) = basic_tag(body, "endraw") {
            return after;
        }
        rest = body;
    }
    ""
}

/// The text after the tag that `body` starts within; `closer` then `}` ends it.
fn after_tag<'s>(body: &'s str, closer: u8, source: &str) -> Result<&'s str> {
    let bytes = body.as_bytes();
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let (mut at, mut balance, mut num_tokens) = (0, 0isize, 0);
    while let Some(&byte) = bytes.get(at) {
        if balance == 0 && byte == closer && bytes.get(at + 1) == Some(&b'}') {
            return Ok(body.get(at + 2..).unwrap_or_default());
        }
        num_tokens += usize::from(!byte.is_ascii_whitespace());
        if num_tokens > MAX_TAG_TOKENS {
            let offset = source.len() - body.len();
            let line = source.as_bytes()[..offset]
                .iter()
                .filter(|&&b| b == b'\n')
                .count()
                + 1;
            let reason = format!("one tag has more than {MAX_TAG_TOKENS} words and operators");
            return Err(TextError::TemplateSyntax { line, reason });
        }
        at += match byte {
            b'(' | b'[' | b'{' => {
                balance += 1;
                1
            }
            b')' | b']' | b'}' => {
                balance -= 1;
                1
            }
            b'\'' | b'"' => string_len(&bytes[at..]),
            _ if word(&byte) => bytes[at..].iter().take_while(|byte| word(byte)).count(),
            _ => 1,
        };
    }
    Ok("")
}

/// Bytes of a quoted string with its quotes.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if byte == bytes[0] => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_tags_are_refused() {
        let long = "-".repeat(MAX_TAG_TOKENS + 1);
        for (source, fits) in [
            (format!("{{{{ {long}1 }}}}"), false),
            (format!("{{% if {long}1 %}}{{% endif %}}"), false),
            (format!("{{{{ {{1:{{2:3}}}} + {long}1 }}}}"), false),
            (format!("{{{{ '}}}}' ~ \"\\\"}}}}\" ~ {long}1 }}}}"), false),
            (
                format!("{{% raw %}}{{#{{% endraw %}}{{{{ {long}1 }}}}{{# #}}"),
                false,
            ),
            (format!("{{# {{{{ #}}{{{{ {long}1 }}}}"), false),
            (format!("{{{{ '{long}' }}}}"), true),
            (
                format!("{{# {long} #}} {long} {{% raw %}}{{{{ {long} }}}}{{%- endraw %}}"),
                true,
            ),
            ("{{ x }}".repeat(MAX_TAG_TOKENS), true),
            (
                "{% if 1 %}".to_owned() + &"{% elif 1 %}".repeat(MAX_ELIFS + 1),
                false,
            ),
            ("{".repeat(99) + "\u{e9}{", true),
        ] {
            assert_eq!(
                check(&source).is_ok(),
                fits,
                "{}",
                &source[..source.len().min(40)]
            );
        }
    }
}
