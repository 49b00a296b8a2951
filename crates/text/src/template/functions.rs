//! The functions and filters that real templates use beyond the engine's own.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::value::{Kwargs, Object, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use regex::Regex;
use serde_json::Value as Json;

use crate::limits::MAX_VALUE_DEPTH;

/// The text given to `raise_exception`, carried as the cause of the engine's error.
#[derive(Debug)]
pub(super) struct Raised(pub(super) String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

pub(super) fn register(environment: &mut Environment<'static>) {
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", to_text);
    environment.set_formatter(format_value);
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// Prints as Python does where the engine differs: `True`, `False`, `None`.
fn format_value(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let written = match value.kind() {
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::None => out.write_str("None"),
        _ => {
            charge(state, value, 0)?;
            return minijinja::escape_formatter(out, state, value);
        }
    };
    written.map_err(|_| Error::new(ErrorKind::WriteFailure, "output"))
}

/// `{% generation %}` marks the assistant's text for training; for a prompt it means nothing.
pub(super) fn drop_generation_tags(source: &str) -> Cow<'_, str> {
    static TAG: OnceLock<Option<Regex>> = OnceLock::new();
    let tag = TAG.get_or_init(|| Regex::new(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}").ok());
    let Some(tag) = tag else {
        return Cow::Borrowed(source);
    };
    tag.replace_all(source, |hit: &regex::Captures<'_>| {
        let word = if hit.get(2).is_some() {
            "endif"
        } else {
            "if true"
        };
        format!("{{%{} {word} {}%}}", &hit[1], &hit[3])
    })
}

/// Price of an item to be written: a JSON value takes 72 bytes, one of fuel stands for 64.
const FUEL_PER_ITEM: u64 = 2;

/// Pays for a list or map before it is walked whole.
///
/// The engine's `+` and `*` of lists are lazy: a few bytes of template make a list of 2^32 items, which costs only
/// when it is written.
fn charge(state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    let is_map = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => false,
        ValueKind::Map => true,
        // Of a text alone the engine knows the price.
        _ if depth == 0 => return Ok(()),
        _ => return state.consume_fuel(value.as_str().map_or(0, |text| text.len() as u64 / 16)),
    };
    if depth > 2 * MAX_VALUE_DEPTH {
        return Err(bad("a value to be written is nested too deep"));
    }
    // All at once where the length is known: it may be 2^32.
    let len = value.len();
    state.consume_fuel(FUEL_PER_ITEM.saturating_mul(len.unwrap_or(0) as u64))?;
    for item in value.try_iter()? {
        if len.is_none() {
            state.consume_fuel(FUEL_PER_ITEM)?;
        }
        charge(state, &item, depth + 1)?;
        if is_map {
            charge(state, &value.get_item(&item)?, depth + 1)?;
        }
    }
    Ok(())
}

/// The engine's `string`, paid for before it is made.
fn to_text(state: &State, value: &Value) -> Result<Value, Error> {
    charge(state, value, 0)?;
    minijinja::filters::string(state, value)
}

/// `tojson` as Hugging Face defines it: Python's `json.dumps` without ASCII escapes.
fn to_json(state: &State, value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent = match kwargs.get::<Option<usize>>("indent")? {
        Some(indent) if indent > 16 => return Err(bad("tojson: indent must be at most 16")),
        indent => indent,
    };
    let ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sorted = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    if ascii {
        return Err(bad("tojson: ensure_ascii=true is not supported"));
    }
    charge(state, value, 0)?;
    let json = serde_json::to_value(value).map_err(|error| bad(&format!("tojson: {error}")))?;
    let mut out = String::new();
    Dumper {
        state,
        out: &mut out,
        indent,
        sorted,
    }
    .value(&json, 0)?;
    Ok(out)
}

fn bad(detail: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail.to_owned())
}

/// Writes JSON with Python's default separators.
struct Dumper<'o, 's> {
    state: &'o State<'s, 's>,
    out: &'o mut String,
    indent: Option<usize>,
    sorted: bool,
}

impl Dumper<'_, '_> {
    fn value(&mut self, json: &Json, depth: usize) -> Result<(), Error> {
        if depth > 2 * MAX_VALUE_DEPTH {
            return Err(bad("tojson: the value is nested too deep"));
        }
        match json {
            Json::Array(list) if !list.is_empty() => {
                self.out.push('[');
                for (index, value) in list.iter().enumerate() {
                    self.separate(index, depth + 1)?;
                    self.value(value, depth + 1)?;
                }
                self.close(']', depth)?;
            }
            Json::Object(map) if !map.is_empty() => {
                let mut entries: Vec<_> = map.iter().collect();
                if self.sorted {
                    entries.sort_by_key(|entry| entry.0);
                }
                self.out.push('{');
                for (index, (key, value)) in entries.into_iter().enumerate() {
                    self.separate(index, depth + 1)?;
                    self.out.push_str(&Json::String(key.clone()).to_string());
                    self.out.push_str(": ");
                    self.value(value, depth + 1)?;
                }
                self.close('}', depth)?;
            }
            other => self.out.push_str(&other.to_string()),
        }
        Ok(())
    }

    fn separate(&mut self, index: usize, depth: usize) -> Result<(), Error> {
        match (index, self.indent) {
            (0, None) => Ok(()),
            (_, None) => {
                self.out.push_str(", ");
                Ok(())
            }
            (0, Some(_)) => self.line(depth),
            (_, Some(_)) => {
                self.out.push(',');
                self.line(depth)
            }
        }
    }

    fn close(&mut self, bracket: char, depth: usize) -> Result<(), Error> {
        if self.indent.is_some() {
            self.line(depth)?;
        }
        self.out.push(bracket);
        Ok(())
    }

    fn line(&mut self, depth: usize) -> Result<(), Error> {
        let spaces = depth * self.indent.unwrap_or(0);
        // The engine's own price of text.
        self.state.consume_fuel(spaces as u64 / 64)?;
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', spaces));
        Ok(())
    }
}

/// `strftime_now`: formats the time it was given, in UTC.
#[derive(Debug)]
pub(super) struct Clock(pub(super) Option<i64>);

impl Object for Clock {
    fn call(self: &Arc<Self>, _state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (format,): (&str,) = minijinja::value::from_args(args)?;
        let now = self
            .0
            .ok_or_else(|| bad("strftime_now: no time was given"))?;
        strftime(now, format).map(Value::from)
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];

fn strftime(now: i64, format: &str) -> Result<String, Error> {
    let days = now.div_euclid(86_400);
    let second = now.rem_euclid(86_400);
    let (year, month, day) = civil(days.clamp(-100_000_000, 100_000_000));
    let weekday = DAYS[days.rem_euclid(7) as usize];
    let month_name = MONTHS[month - 1];
    let hour = second / 3600;
    let hour12 = (hour + 11) % 12 + 1;
    let year_day = days - days_before(year) + 1;
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut code = letters.next();
        let bare = code == Some('-');
        if bare {
            code = letters.next();
        }
        let padded = |value: i64| {
            if bare {
                value.to_string()
            } else {
                format!("{value:02}")
            }
        };
        out.push_str(&match code {
            Some('Y') => year.to_string(),
            Some('y') => padded(year.rem_euclid(100)),
            Some('m') => padded(month as i64),
            Some('d') => padded(day),
            Some('e') => format!("{day:2}"),
            Some('H') => padded(hour),
            Some('I') => padded(hour12),
            Some('M') => padded(second / 60 % 60),
            Some('S') => padded(second % 60),
            Some('j') if bare => year_day.to_string(),
            Some('j') => format!("{year_day:03}"),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => month_name[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{:02}:{:02}", second / 60 % 60, second % 60),
            Some('Z') => "UTC".to_owned(),
            Some('z') => "+0000".to_owned(),
            Some('%') => "%".to_owned(),
            other => {
                let code = other.map(String::from).unwrap_or_default();
                return Err(bad(&format!(
                    "strftime_now: format %{code} is not supported"
                )));
            }
        });
    }
    Ok(out)
}

/// Year, month (1 to 12) and day of a day count since 1970-01-01.
///
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, usize, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as usize, day)
}

/// Days from 1970-01-01 to January 1st of a year.
fn days_before(year: i64) -> i64 {
    let last = year - 1;
    365 * (year - 1970) + last.div_euclid(4) - last.div_euclid(100) + last.div_euclid(400) - 477
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_python_does() {
        for (now, format, expected) in [
            (0, "%d %b %Y", "01 Jan 1970"),
            (
                1_709_208_000,
                "%A, %B %-d, %Y %H:%M:%S %j",
                "Thursday, February 29, 2024 12:00:00 060",
            ),
            (
                1_735_689_599,
                "%F %T %p %I %a %y%%",
                "2024-12-31 23:59:59 PM 11 Tue 24%",
            ),
            (-1, "%F %j", "1969-12-31 365"),
        ] {
            assert_eq!(strftime(now, format).unwrap(), expected);
        }
        assert!(strftime(0, "%Q").unwrap_err().to_string().contains("%Q"));
        assert!(strftime(i64::MAX, "%F").is_ok() && strftime(i64::MIN, "%j").is_ok());
    }

    #[test]
    fn generation_tags_become_nothing() {
        let source = "a{%- generation -%} b {% endgeneration %}";
        assert_eq!(
            drop_generation_tags(source),
            "a{%- if true -%} b {% endif %}"
        );
    }
}
