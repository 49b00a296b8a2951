//! JSON from a client: bounded in depth and in values, no key twice, nothing guessed.
//!
//! Why not `serde_json::Value`: it keeps the last of two equal keys, and its depth limit is 128.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Number;

use crate::clip::Clip;
use crate::error::ApiError;

/// Nested lists and objects.
pub(crate) const MAX_DEPTH: usize = 64;
/// Values in a body; a value takes 32 bytes.
pub(crate) const MAX_VALUES: usize = 1 << 20;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// An object, keys in the order given, each once.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value as JSON text, keys in their order.
    pub(crate) fn to_text(&self) -> String {
        // Neither numbers nor keys can fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(value) => value.serialize(serializer),
            Json::String(value) => serializer.serialize_str(value),
            Json::Array(items) => serializer.collect_seq(items),
            Json::Object(entries) => {
                serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

impl From<Json> for serde_json::Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => Self::Number(number),
            Json::String(text) => Self::String(text),
            Json::Array(items) => items.into_iter().map(Self::from).collect(),
            Json::Object(entries) => {
                let entries = entries.into_iter();
                let entries = entries.map(|(key, value)| (key, Self::from(value)));
                Self::Object(entries.collect())
            }
        }
    }
}

/// Reads a whole body as one JSON value.
///
/// # Errors
/// 400 with line and column: not JSON, trailing bytes, too deep, too many values, a key twice.
pub(crate) fn parse(body: &[u8]) -> Result<Json, ApiError> {
    let state = State {
        values: Cell::new(0),
        duplicate: Cell::new(false),
    };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let parsed = Seed {
        depth: 0,
        state: &state,
    }
    .deserialize(&mut deserializer)
    .and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| {
        let code = if state.duplicate.get() {
            "duplicate_key"
        } else {
            "invalid_json"
        };
        ApiError::bad_request(code, format!("the body is not valid JSON: {error}"))
    })
}

/// What is counted over a whole body.
struct State {
    values: Cell<usize>,
    duplicate: Cell<bool>,
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    depth: usize,
    state: &'a State,
}

impl Seed<'_> {
    /// The seed of values inside this one.
    fn inner<E: Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let values = self.state.values.get() + 1;
        if values > MAX_VALUES {
            return Err(D::Error::custom(format!("more than {MAX_VALUES} values")));
        }
        self.state.values.set(values);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        Number::from_f64(value)
            .map(Json::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut seen = HashSet::new();
        let mut object = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                self.state.duplicate.set(true);
                return Err(A::Error::custom(format!(
                    "key {} is given twice",
                    Clip(&key)
                )));
            }
            let value = entries.next_value_seed(inner)?;
            object.push((key, value));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &[u8], code: &str, text: &str) {
        let error = parse(body).unwrap_err();
        assert_eq!(error.code(), Some(code), "{error:?}");
        assert!(error.message().contains(text), "{error:?}");
    }

    #[test]
    fn broken_bodies_are_refused_with_their_place() {
        check(b"", "invalid_json", "line 1 column 0");
        check(b"{\n  \"a\": 1,\n  oops", "invalid_json", "line 3 column 3");
        check(
            b"{} {}",
            "invalid_json",
            "trailing characters at line 1 column 4",
        );
        check(
            b"{\"a\":1,\"a\":2}",
            "duplicate_key",
            "key \"a\" is given twice",
        );
        check(
            b"{\"x\":{\"b\":1,\"b\":2}}",
            "duplicate_key",
            "key \"b\" is given twice",
        );
        check(b"{\"a\": NaN}", "invalid_json", "line 1");
        check(b"{\"a\": 1e999}", "invalid_json", "number out of range");
        check(b"{\"a\": \"\xff\"}", "invalid_json", "line 1");
        check(b"{\"a\": \"\\ud800\"}", "invalid_json", "line 1");
        check(
            "[".repeat(10_000).as_bytes(),
            "invalid_json",
            "nested deeper than 64",
        );
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        check(many.as_bytes(), "invalid_json", "more than 1048576 values");
    }

    #[test]
    fn depth_up_to_the_limit_is_read() {
        let body = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(parse(body.as_bytes()).is_ok());
    }

    #[test]
    fn a_value_is_written_as_it_was_read() {
        let body = r#"{"b":[1,-2,0.5,null,true],"a":"x\n\"","":{}}"#;
        assert_eq!(parse(body.as_bytes()).unwrap().to_text(), body);
    }

    #[test]
    fn values_keep_their_kind_and_order() {
        let value = parse(br#"{"b":[1,-2,0.5,null,true],"a":"x"}"#).unwrap();
        let list = vec![
            Json::Number(1u64.into()),
            Json::Number((-2i64).into()),
            Json::Number(Number::from_f64(0.5).unwrap()),
            Json::Null,
            Json::Bool(true),
        ];
        let expected = Json::Object(vec![
            ("b".to_owned(), Json::Array(list)),
            ("a".to_owned(), Json::String("x".to_owned())),
        ]);
        assert_eq!(value, expected);
    }
}
