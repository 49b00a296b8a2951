//! The fields of a JSON object, taken one by one with their types checked; what is left is unknown.

use crate::clip::{Clip, MAX_ECHO_BYTES, shown};
use crate::error::ApiError;
use crate::json::Json;

/// The fields of one object that nobody has taken yet. `null` counts as absent.
#[derive(Debug)]
pub(crate) struct Fields {
    /// Where the object stands, e.g. `messages[0].`; empty for the body itself.
    path: String,
    entries: Vec<(String, Json)>,
}

impl Fields {
    /// The fields of the body.
    ///
    /// # Errors
    /// 400 when it is not an object.
    pub(crate) fn of_body(value: Json) -> Result<Self, ApiError> {
        match value {
            Json::Object(entries) => Ok(Self {
                path: String::new(),
                entries,
            }),
            other => Err(ApiError::bad_request(
                "invalid_json",
                format!("the body is {}, it must be a JSON object", shown(&other)),
            )),
        }
    }

    /// The fields of an object inside another.
    pub(crate) fn nested(path: String, value: Json) -> Result<Self, ApiError> {
        match value {
            Json::Object(entries) => Ok(Self {
                path: format!("{path}."),
                entries,
            }),
            other => {
                let message = format!("{path} is {}, it must be an object", shown(&other));
                Err(ApiError::invalid(path, message))
            }
        }
    }

    /// A field's name with its place, as `param` and messages state it.
    pub(crate) fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// Takes a field whatever its type.
    pub(crate) fn take(&mut self, name: &str) -> Option<Json> {
        #[cfg(test)]
        taken::note(&self.full_name(name));
        let index = self.entries.iter().position(|(key, _)| key == name)?;
        match self.entries.swap_remove(index).1 {
            Json::Null => None,
            value => Some(value),
        }
    }

    /// Takes what nobody took, `null` too.
    pub(crate) fn rest(self) -> impl Iterator<Item = (String, Json)> {
        self.entries.into_iter()
    }

    /// Refuses whatever nobody took and is not `null`.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        let path = self.path.clone();
        match self.rest().find(|(_, value)| *value != Json::Null) {
            Some((name, _)) => Err(unknown(&format!("{path}{name}"))),
            None => Ok(()),
        }
    }

    /// Takes text.
    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, &other, "a string")),
        }
    }

    /// Takes `true` or `false`.
    pub(crate) fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong(name, &other, "true or false")),
        }
    }

    /// Takes a whole number from 0 to 4294967295; `1.0` is not one.
    pub(crate) fn u32(&mut self, name: &str) -> Result<Option<u32>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match as_u32(&value) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, &value, "an integer between 0 and 4294967295")),
        }
    }

    /// Takes a number that is finite in single precision.
    pub(crate) fn f32(&mut self, name: &str) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match as_f32(&value) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(
                name,
                &value,
                "a number of single precision (at most 3.4e38)",
            )),
        }
    }

    /// Takes a whole number as [`Fields::u32`] does, and -1, which other servers take for "as if not
    /// given" or "off", as `on_minus_one`.
    pub(crate) fn u32_or_minus_one(
        &mut self,
        name: &str,
        on_minus_one: Option<u32>,
    ) -> Result<Option<u32>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match as_u32(&value) {
            Some(number) => Ok(Some(number)),
            None if is_minus_one(&value) => Ok(on_minus_one),
            None => Err(self.wrong(name, &value, "an integer between -1 and 4294967295")),
        }
    }

    /// Takes a whole number from -2147483648 to 2147483647.
    pub(crate) fn i32(&mut self, name: &str) -> Result<Option<i32>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = match &value {
            Json::Number(number) => number.as_i64().and_then(|n| i32::try_from(n).ok()),
            _ => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(
                name,
                &value,
                "an integer between -2147483648 and 2147483647",
            )),
        }
    }

    /// Takes a seed: an integer of 64 bits; -1 asks for a drawn one, as no seed does.
    pub(crate) fn seed(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match &value {
            Json::Number(number) if number.as_u64().is_some() => Ok(number.as_u64()),
            value if is_minus_one(value) => Ok(None),
            value => Err(self.wrong(
                name,
                value,
                "an integer between 0 and 2^64 - 1, or -1 to draw one",
            )),
        }
    }

    /// Takes a list of token ids, at most `limit`.
    pub(crate) fn ids(&mut self, name: &str, limit: usize) -> Result<Vec<u32>, ApiError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Json::Array(items)) => {
                if items.len() > limit {
                    return Err(self.too_many(name, items.len(), limit));
                }
                token_ids(&self.full_name(name), items)
            }
            Some(other) => Err(self.wrong(name, &other, "a list of token ids")),
        }
    }

    /// The error for a value of another type.
    pub(crate) fn wrong(&self, name: &str, value: &Json, expected: &str) -> ApiError {
        let name = self.full_name(name);
        let message = format!("{name} is {}, it must be {expected}", shown(value));
        ApiError::invalid(name, message)
    }

    /// The error for a list that is too long.
    pub(crate) fn too_many(&self, name: &str, got: usize, limit: usize) -> ApiError {
        let name = self.full_name(name);
        let message = format!("{name} has {got} entries, the limit is {limit}");
        ApiError::invalid(name, message)
    }
}

/// 400: a field that this endpoint does not have.
pub(crate) fn unknown(name: &str) -> ApiError {
    let message = format!(
        "unknown field {}; leave it out or correct its name",
        Clip(name)
    );
    let end = name.floor_char_boundary(MAX_ECHO_BYTES);
    ApiError::bad_request("unknown_parameter", message).with_param(name[..end].to_owned())
}

/// A list as token ids; `name` is its place.
pub(crate) fn token_ids(name: &str, items: Vec<Json>) -> Result<Vec<u32>, ApiError> {
    let mut ids = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let Some(id) = as_u32(item) else {
            let message = format!(
                "{name}[{index}] is {}, it must be a token id (0 or more)",
                shown(item)
            );
            return Err(ApiError::invalid(name.to_owned(), message));
        };
        ids.push(id);
    }
    Ok(ids)
}

pub(crate) fn as_u32(value: &Json) -> Option<u32> {
    match value {
        Json::Number(number) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
        _ => None,
    }
}

fn is_minus_one(value: &Json) -> bool {
    matches!(value, Json::Number(number) if number.as_i64() == Some(-1))
}

pub(crate) fn as_f32(value: &Json) -> Option<f32> {
    let Json::Number(number) = value else {
        return None;
    };
    let narrow = number.as_f64()? as f32;
    narrow.is_finite().then_some(narrow)
}

/// Which fields this thread has taken, or looked for in vain, for the test that lists them.
#[cfg(test)]
pub(crate) mod taken {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static NAMES: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Notes a field by its place, without the numbers of entries.
    pub(super) fn note(name: &str) {
        let digits = |c: char| c.is_ascii_digit();
        let pieces = name
            .split('[')
            .map(|piece| piece.trim_start_matches(digits));
        let name = pieces.collect::<Vec<_>>().join("[");
        NAMES.with_borrow_mut(|names| names.insert(name));
    }

    /// What was noted since the last call.
    pub(crate) fn names() -> BTreeSet<String> {
        NAMES.take()
    }
}
