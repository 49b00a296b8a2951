//! Files with numbers of tokens: `{"output_lengths": [13, 9]}`, `[13, 9]`, or plain numbers.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use ucuz_measure::bench::policy::{LENGTHS, REQUESTS_MAX};

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Longest answer that a file may ask for, in tokens.
const LENGTH_MAX: u32 = 1 << 20;

/// What a JSON file may hold; other keys are of no interest.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lengths {
    Named { output_lengths: Vec<u32> },
    Bare(Vec<u32>),
}

/// The lengths of the file, or the default ones.
///
/// # Errors
/// As [`read`], with the file's name.
pub fn or_default(path: Option<&Path>) -> Result<Vec<u32>> {
    let Some(path) = path else {
        return Ok(LENGTHS.to_vec());
    };
    read(path).with_context(|| format!("cannot read lengths from {}", path.display()))
}

/// Reads the lengths.
///
/// # Errors
/// A file that is missing, too large, or holds something else.
fn read(path: &Path) -> Result<Vec<u32>> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(FILE_BYTES_MAX + 1);
    let bytes = file.read_to_string(&mut text)?;
    ensure!(
        bytes as u64 <= FILE_BYTES_MAX,
        "the file has over {FILE_BYTES_MAX} bytes; give at most {REQUESTS_MAX} lengths"
    );
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<u32>> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let lengths = match is_json {
        true => match serde_json::from_str(text) {
            Ok(Lengths::Named { output_lengths } | Lengths::Bare(output_lengths)) => output_lengths,
            Err(_) => anyhow::bail!("it holds no {{\"output_lengths\": [13, 9, ...]}}"),
        },
        false => {
            let words = text.split(|c: char| c.is_whitespace() || c == ',');
            let words = words.filter(|word| !word.is_empty());
            let number = |word: &str| {
                let number = word.parse::<u32>();
                number.with_context(|| format!("{word:?} is no number of tokens"))
            };
            words.map(number).collect::<Result<Vec<u32>>>()?
        }
    };
    if let Some(long) = lengths.iter().find(|length| **length > LENGTH_MAX) {
        anyhow::bail!("a length is {long} tokens, the limit is {LENGTH_MAX}");
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn json_and_plain_numbers_are_read_and_nothing_else() {
        for text in [
            r#"{"output_lengths": [13, 9], "slots": 8}"#,
            "[13, 9]",
            "13 9",
            " 13,\n9\n",
        ] {
            assert_eq!(parse(text).unwrap(), [13, 9], "{text}");
        }
        for (text, told) in [
            ("{}", "output_lengths"),
            ("13 x", "\"x\" is no number"),
            ("-1", "is no number"),
            ("9999999", "the limit is"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
