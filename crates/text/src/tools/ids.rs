//! Ids of calls as a template wants them.

use std::borrow::Cow;

use serde_json::Value;

use crate::template::Message;

/// What templates that demand ids of a certain form test for.
const DEMAND: &str = "length != 9";
/// Letters and digits that they want.
const ID_BYTES: usize = 9;

/// The messages with ids that the template does not refuse: Mistral's older ones want 9 letters and digits. The last 9 of an id
/// stand for it, so ids that differ there stay apart.
pub fn with_fitting_ids<'m>(template: &str, messages: &'m [Message]) -> Cow<'m, [Message]> {
    if !template.contains(DEMAND) {
        return Cow::Borrowed(messages);
    }
    let mut messages = messages.to_vec();
    for message in &mut messages {
        if let Some(id) = &mut message.tool_call_id {
            *id = fitting(id);
        }
        for call in message.tool_calls.iter_mut().flatten() {
            if let Some(Value::String(id)) = call.get_mut("id") {
                *id = fitting(id);
            }
        }
    }
    Cow::Owned(messages)
}

fn fitting(id: &str) -> String {
    let letters: Vec<char> = id.chars().filter(char::is_ascii_alphanumeric).collect();
    let last = &letters[letters.len().saturating_sub(ID_BYTES)..];
    let last: String = last.iter().collect();
    format!("{last:0>ID_BYTES$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_short_where_the_template_demands_it() {
        let mut call = Message::new("assistant", "");
        call.tool_calls = Some(vec![json!({"id": "call_0123456789abcd", "function": {}})]);
        let mut result = Message::new("tool", "");
        result.tool_call_id = Some("call_0123456789abcd".to_owned());
        let messages = [call, result];
        assert!(matches!(
            with_fitting_ids("{{ x }}", &messages),
            Cow::Borrowed(_)
        ));
        let fitted = with_fitting_ids("{% if call.id | length != 9 %}", &messages);
        assert_eq!(fitted[0].tool_calls.as_ref().unwrap()[0]["id"], "56789abcd");
        assert_eq!(fitted[1].tool_call_id.as_deref(), Some("56789abcd"));
        assert_eq!(fitting("é-7"), "000000007");
    }
}
