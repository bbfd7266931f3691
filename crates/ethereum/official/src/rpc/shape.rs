//! The form of an answer, learnt from the one that a test has recorded.
//!
//! reads   JSON
//! writes  the first place at which a value has another form
//! memory  a node for each field
//!
//! The items of an array are one form together, as a schema has them: what some of them lack is optional. An object
//! whose names are all digits, hexadecimal behind `0x` or decimal, is a map, and its values are one form together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Bytes of a value that are shown.
const SHOWN: usize = 90;

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Null,
    Flag,
    Number,
    /// Text of hexadecimal digits behind `0x`.
    Digits,
    /// Text of any other form.
    Text,
    List,
    Map,
    Object,
}

/// The form that a recorded value gives an answer.
#[derive(Debug, Default)]
pub struct Shape {
    kinds: BTreeSet<Kind>,
    /// The form of the items of an array, or of the values of a map.
    items: Option<Box<Shape>>,
    fields: BTreeMap<String, Shape>,
    /// Fields that every object has; nothing before the first.
    required: Option<BTreeSet<String>>,
}

fn is_digits(text: &str) -> bool {
    text.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether a name of a field is data: an address, a slot, a nonce.
fn is_key(name: &str) -> bool {
    is_digits(name) || name.bytes().all(|byte| byte.is_ascii_digit())
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Null => Kind::Null,
        Value::Bool(_) => Kind::Flag,
        Value::Number(_) => Kind::Number,
        Value::String(text) if is_digits(text) => Kind::Digits,
        Value::String(_) => Kind::Text,
        Value::Array(_) => Kind::List,
        Value::Object(fields) if !fields.is_empty() && fields.keys().all(|name| is_key(name)) => Kind::Map,
        Value::Object(_) => Kind::Object,
    }
}

impl Shape {
    /// The form of a value.
    pub fn of(value: &Value) -> Self {
        let mut shape = Self::default();
        shape.learn(value);
        shape
    }

    fn learn(&mut self, value: &Value) {
        let kind = kind(value);
        self.kinds.insert(kind);
        match value {
            Value::Array(items) => {
                let shape = self.items.get_or_insert_default();
                items.iter().for_each(|item| shape.learn(item));
            }
            Value::Object(fields) if kind == Kind::Map => {
                let shape = self.items.get_or_insert_default();
                fields.values().for_each(|item| shape.learn(item));
            }
            Value::Object(fields) => {
                let names: BTreeSet<String> = fields.keys().cloned().collect();
                self.required = Some(match self.required.take() {
                    Some(before) => before.intersection(&names).cloned().collect(),
                    None => names,
                });
                for (name, value) in fields {
                    self.fields.entry(name.clone()).or_default().learn(value);
                }
            }
            _ => {}
        }
    }

    /// Refuses a value of another form; `at` is its place.
    pub fn check(&self, value: &Value, at: &str) -> Result<(), String> {
        let kind = kind(value);
        // Nothing was recorded of what an empty array has in it.
        if self.kinds.is_empty() {
            return Ok(());
        }
        let is_empty = kind == Kind::Object && value.as_object().is_some_and(serde_json::Map::is_empty);
        if !self.kinds.contains(&kind) && !(is_empty && self.kinds.contains(&Kind::Map)) {
            return Err(format!("{at} is {}, of another form than {:?}", short(value), self.kinds));
        }
        match (value, &self.items) {
            (Value::Array(items), Some(shape)) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| shape.check(item, &format!("{at}[{index}]")))
            }
            (Value::Object(fields), Some(shape)) if kind == Kind::Map => {
                let mut fields = fields.iter();
                fields.try_for_each(|(name, item)| shape.check(item, &format!("{at}.{name}")))
            }
            (Value::Object(fields), _) if !is_empty || self.kinds.contains(&Kind::Object) => {
                let required = self.required.iter().flatten();
                if let Some(name) = required.into_iter().find(|name| !fields.contains_key(*name)) {
                    return Err(format!("{at}.{name} is missing"));
                }
                fields.iter().try_for_each(|(name, value)| match self.fields.get(name) {
                    Some(shape) => shape.check(value, &format!("{at}.{name}")),
                    None => Err(format!("{at}.{name} is there, as in no answer that was recorded")),
                })
            }
            _ => Ok(()),
        }
    }
}

/// The beginning of a value.
pub fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_differ_and_forms_do_not() {
        let step = |op: &str| json!({ "op": op, "stack": [] });
        let mut written = step("SSTORE");
        written["storage"] = json!({ "0x01": "0x02" });
        let shape = Shape::of(&json!({ "gas": 7, "steps": [step("PUSH1"), written.clone()] }));
        let check = |value: Value| shape.check(&value, "");
        assert_eq!(check(json!({ "gas": 8, "steps": [written, step("ADD"), step("MUL")] })), Ok(()));
        assert_eq!(check(json!({ "gas": 8, "steps": [] })), Ok(()));
        let mut full = step("ADD");
        full["stack"] = json!(["0x1"]);
        full["storage"] = json!({});
        assert_eq!(check(json!({ "gas": 8, "steps": [full] })), Ok(()));
        let wrong = [
            json!({ "gas": "0x8", "steps": [] }),
            json!({ "gas": 8 }),
            json!({ "gas": 8, "steps": [], "more": 1 }),
            json!({ "gas": 8, "steps": [{ "op": "ADD" }] }),
            json!({ "gas": 8, "steps": [{ "op": "ADD", "stack": [], "storage": { "0x01": 2 } }] }),
            json!({ "gas": null, "steps": [] }),
            json!([]),
        ];
        for value in wrong {
            assert!(check(value.clone()).is_err(), "{value}");
        }
        let pool = Shape::of(&json!({ "0xaa": { "0": { "to": null } } }));
        assert_eq!(pool.check(&json!({ "0xbb": { "7": { "to": null }, "8": { "to": null } } }), ""), Ok(()));
        assert!(pool.check(&json!({ "0xbb": { "7": {} } }), "").is_err());
        assert!(Shape::of(&json!("0x1")).check(&json!("one"), "").is_err());
    }
}
