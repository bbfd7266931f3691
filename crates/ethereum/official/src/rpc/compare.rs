//! Whether an answer is the one that a test has recorded.
//!
//! reads   two answers
//! writes  the first difference, with its place
//!
//! Of errors the message is left out of the comparison: it is the client's own.

use serde_json::Value;

use super::shape::{Shape, short};

/// The part of an answer that must be like the recorded one. Either way both are results, or both are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The same value at each place.
    Values,
    /// The form of each value.
    Form,
    /// Nothing else: a schema decides.
    Outcome,
}

/// Compares an answer with the one that a test wants.
pub fn answers(found: &Value, wanted: &Value, likeness: Likeness) -> Result<(), String> {
    let parts = |answer: &Value| {
        let mut answer = answer.clone();
        let message = answer.get_mut("error").and_then(Value::as_object_mut).and_then(|error| error.remove("message"));
        (answer, message)
    };
    let ((found_rest, found_message), (wanted_rest, wanted_message)) = (parts(found), parts(wanted));
    match (&found_message, &wanted_message) {
        (None, Some(message)) => return Err(format!("no error: it must be like {message}, and is {}", short(found))),
        (Some(message), None) => return Err(format!("an error: {message}")),
        (Some(message), Some(_)) if !message.is_string() => return Err("an error without a message".into()),
        _ => {}
    }
    match likeness {
        Likeness::Values => difference(&found_rest, &wanted_rest, "").map_or(Ok(()), Err),
        Likeness::Form => Shape::of(&wanted_rest).check(&found_rest, ""),
        Likeness::Outcome => Ok(()),
    }
}

/// The first difference between two values at a place.
fn difference(found: &Value, wanted: &Value, at: &str) -> Option<String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let missing = wanted.keys().find(|name| !found.contains_key(*name));
            let other = found.keys().find(|name| !wanted.contains_key(*name));
            let presence = missing.map(|name| format!("{at}.{name} is missing"));
            let presence = presence.or_else(|| other.map(|name| format!("{at}.{name} is there")));
            let mut both = wanted.iter().filter_map(|(name, wanted)| Some((name, found.get(name)?, wanted)));
            presence
                .or_else(|| both.find_map(|(name, found, wanted)| difference(found, wanted, &format!("{at}.{name}"))))
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            let mut both = found.iter().zip(wanted).enumerate();
            both.find_map(|(index, (found, wanted))| difference(found, wanted, &format!("{at}[{index}]")))
        }
        _ if found == wanted => None,
        _ => Some(format!("{at} is {}, not {}", short(found), short(wanted))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Likeness::{Form, Outcome, Values};
    use super::*;

    #[test]
    fn answers_are_equal_but_for_messages() {
        let result = |result: Value| json!({ "id": 1, "result": result });
        let one = result(json!({ "a": ["0x1", null], "b": {} }));
        assert_eq!(answers(&one, &one, Values), Ok(()));
        let said = |found: Value| answers(&result(found), &one, Values).expect_err("they differ");
        assert_eq!(said(json!({ "a": ["0x1", null] })), ".result.b is missing");
        assert_eq!(said(json!({ "a": ["0x1", null], "b": {}, "c": 1 })), ".result.c is there");
        assert_eq!(said(json!({ "a": ["0x1", 7], "b": {} })), ".result.a[1] is 7, not null");
        assert!(said(json!({ "a": ["0x1"], "b": {} })).starts_with(".result.a is"));
        let error = |code: i64, message: &str| json!({ "id": 1, "error": { "code": code, "message": message } });
        assert_eq!(answers(&error(-32000, "no"), &error(-32000, "never"), Values), Ok(()));
        assert!(answers(&error(-32000, "no"), &error(-32602, "no"), Values).is_err());
        assert!(answers(&error(-32000, "no"), &one, Values).is_err());
        assert!(answers(&one, &error(-32000, "no"), Form).is_err());
        let other = result(json!([7]));
        assert_eq!(answers(&other, &one, Outcome), Ok(()));
        assert!(answers(&other, &one, Form).is_err());
        assert!(answers(&other, &error(-32000, "no"), Outcome).is_err());
        assert!(answers(&json!({ "id": 1, "error": { "code": 3, "message": 3 } }), &error(3, "no"), Values).is_err());
    }
}
