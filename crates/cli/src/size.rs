//! Byte counts on the command line and in tables: `8GiB`, `448MiB`, `1.5 GB`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, as flags take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || {
            format!("{text:?} is not a size; write a number with a unit, e.g. 8GiB, 448MiB, 2GB")
        };
        let text_trimmed = text.trim();
        let unit = UNITS.iter().find(|(name, _)| text_trimmed.ends_with(name));
        let (digits, factor) = match unit {
            Some((name, factor)) => (&text_trimmed[..text_trimmed.len() - name.len()], *factor),
            None => (text_trimmed, 1),
        };
        let number: f64 = digits.trim().parse().map_err(|_| rule())?;
        let bytes = number * factor as f64;
        if !(0.0..1e18).contains(&bytes) {
            return Err(rule());
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for ByteSize {
    /// Binary units with one decimal, as memory is counted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS[..4].iter().rev().find(|(_, size)| self.0 >= *size);
        match unit {
            Some((name, size)) => write!(f, "{:.1} {name}", self.0 as f64 / *size as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ByteSize;

    #[test]
    fn sizes_parse_with_and_without_units() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("8GiB", 8 << 30),
            ("1.5 KiB", 1536),
            ("2GB", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "GiB", "-1MiB", "1e30", "8 gigs", "nan"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_in_binary_units() {
        for (bytes, text) in [(5, "5 B"), (1536, "1.5 KiB"), (448 << 20, "448.0 MiB")] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }
}
