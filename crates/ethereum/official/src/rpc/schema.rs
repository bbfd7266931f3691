//! The schemas that the execution API publishes for the results of its methods.
//!
//! reads   `tests/clients/ethereum/schemas.json`, which is compiled in; `validity.mjs` beside it names its source
//! writes  the first fault of an answer, with its place
//! memory  the schemas, and a compiled pattern for each that they have
//! source  <https://json-schema.org/draft/2019-09>; only the keywords that these schemas use

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::shape::short;

/// The published schemas: `methods` has the schema of each result, `errors` each method's own error numbers, `schemas`
/// what others refer to.
const PUBLISHED: &str = include_str!("../../../../../tests/clients/ethereum/schemas.json");
/// The beginning of a reference.
const REFERENCE: &str = "#/components/";
/// The keywords that are known. A schema with another one is refused, so that no rule is passed over.
const KEYWORDS: [&str; 14] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "items",
    "maximum",
    "minimum",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "type",
];
/// Error numbers that JSON-RPC reserves; others must be the method's own.
const RESERVED: std::ops::RangeInclusive<i64> = -32_768..=-32_000;

/// The schemas of all methods.
pub struct Schemas {
    document: Value,
    patterns: BTreeMap<String, Regex>,
}

impl Schemas {
    /// Returns the published schemas; an error if they use a keyword that is not known here.
    pub fn published() -> Result<Self, String> {
        let document = serde_json::from_str(PUBLISHED).map_err(|error| format!("schemas.json: {error}"))?;
        Self::of(document)
    }

    /// Reads schemas from a document with `methods`, `errors` and `schemas`.
    fn of(document: Value) -> Result<Self, String> {
        let mut patterns = BTreeMap::new();
        for part in ["methods", "schemas"] {
            for schema in document[part].as_object().into_iter().flat_map(Map::values) {
                learn(schema, &mut patterns)?;
            }
        }
        Ok(Self { document, patterns })
    }

    /// Refuses an answer whose result is not valid, or whose error has a number that its method does not have. A method
    /// without a schema may answer anything.
    pub fn check(&self, method: &str, answer: &Value) -> Result<(), String> {
        if let Some(error) = answer.get("error") {
            let code = error["code"].as_i64().ok_or_else(|| format!("{method}: an error without a number"))?;
            let own = self.document["errors"][method].as_array();
            let is_own = own.is_some_and(|own| own.iter().any(|number| number == code));
            return if is_own || RESERVED.contains(&code) {
                Ok(())
            } else {
                Err(format!("{method}: the schema has no error {code}"))
            };
        }
        match (self.document["methods"].get(method), answer.get("result")) {
            (Some(schema), Some(result)) => self.allows(schema, result, method),
            (None, Some(_)) => Ok(()),
            (_, None) => Err(format!("{method}: neither a result nor an error")),
        }
    }

    /// Refuses a value that a schema does not allow; `at` is the value's place.
    fn allows(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            self.allows(self.referred(reference)?, value, at)?;
        }
        self.is_of_its_kind(schema, value, at)?;
        self.combines(schema, value, at)?;
        match value {
            Value::Array(items) => schema.get("items").map_or(Ok(()), |of_each| {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| self.allows(of_each, item, &format!("{at}[{index}]")))
            }),
            Value::Object(fields) => self.has_its_fields(schema, fields, at),
            _ => Ok(()),
        }
    }

    /// Returns the schema that a reference names.
    fn referred(&self, reference: &str) -> Result<&Value, String> {
        let path = reference.strip_prefix(REFERENCE);
        let found = path.and_then(|path| self.document.pointer(&format!("/{path}")));
        found.ok_or_else(|| format!("schemas.json has nothing at {reference}"))
    }

    /// Checks the rules for a value as a whole: its type, its text, its bounds.
    fn is_of_its_kind(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let refused = |rule: &str| Err(format!("{at} is {}, which is not {rule}", short(value)));
        if let Some(kind) = schema["type"].as_str()
            && !is_a(value, kind)
        {
            return refused(&format!("of type {kind}"));
        }
        if let Some(wanted) = schema.get("const")
            && value != wanted
        {
            return refused(&short(wanted));
        }
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            return refused(&format!("in {}", short(&schema["enum"])));
        }
        if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
            && !self.patterns.get(pattern).is_some_and(|pattern| pattern.is_match(text))
        {
            return refused(&format!("like {pattern}"));
        }
        let Some(number) = value.as_f64() else { return Ok(()) };
        let is_less = schema["minimum"].as_f64().is_some_and(|least| number < least);
        let is_more = schema["maximum"].as_f64().is_some_and(|most| number > most);
        if is_less || is_more { refused("within its bounds") } else { Ok(()) }
    }

    /// Checks the schemas that a schema is made of.
    fn combines(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let list = |name: &str| schema[name].as_array().map(Vec::as_slice);
        list("allOf").into_iter().flatten().try_for_each(|part| self.allows(part, value, at))?;
        for (name, once) in [("anyOf", false), ("oneOf", true)] {
            let Some(parts) = list(name) else { continue };
            let faults: Vec<String> = parts.iter().filter_map(|part| self.allows(part, value, at).err()).collect();
            match parts.len() - faults.len() {
                0 => return Err(format!("{at} is of none of its forms: {}", faults.join("; "))),
                1 => {}
                count if once => return Err(format!("{at} is of {count} forms, and must be of one")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks an object's fields.
    fn has_its_fields(&self, schema: &Value, fields: &Map<String, Value>, at: &str) -> Result<(), String> {
        let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(name) = required.find(|name| !fields.contains_key(*name)) {
            return Err(format!("{at}.{name} is missing"));
        }
        let known = &schema["properties"];
        let others = &schema["additionalProperties"];
        fields.iter().try_for_each(|(name, value)| match (known.get(name), others) {
            (Some(of_it), _) => self.allows(of_it, value, &format!("{at}.{name}")),
            (None, Value::Bool(false)) => Err(format!("{at}.{name} is there, and the schema has no such field")),
            (None, Value::Object(_)) => self.allows(others, value, &format!("{at}.{name}")),
            (None, _) => Ok(()),
        })
    }
}

/// Whether a value is of a type, by the schema's name for it.
fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => false,
    }
}

/// Compiles the patterns of a schema and of all that it is made of; an error names a keyword that is not known.
fn learn(schema: &Value, patterns: &mut BTreeMap<String, Regex>) -> Result<(), String> {
    let Some(rules) = schema.as_object() else { return Ok(()) };
    for (name, rule) in rules {
        match name.as_str() {
            "pattern" => {
                let pattern = rule.as_str().unwrap_or_default();
                let compiled = Regex::new(pattern).map_err(|error| format!("schemas.json: {error}"))?;
                patterns.insert(pattern.to_owned(), compiled);
            }
            "properties" => {
                rule.as_object().into_iter().flat_map(Map::values).try_for_each(|part| learn(part, patterns))?;
            }
            "allOf" | "anyOf" | "oneOf" => {
                rule.as_array().into_iter().flatten().try_for_each(|part| learn(part, patterns))?;
            }
            "additionalProperties" | "items" => learn(rule, patterns)?,
            other if KEYWORDS.contains(&other) => {}
            other => return Err(format!("schemas.json: the keyword {other:?} is not known here")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(value: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": 1, "result": value })
    }

    #[test]
    fn published_schemas_refuse_what_is_wrong() {
        let schemas = Schemas::published().expect("each of their keywords is known");
        let check = |method: &str, value: Value| schemas.check(method, &result(value));
        assert_eq!(check("eth_chainId", json!("0x1")), Ok(()));
        assert_eq!(check("eth_getTransactionByHash", Value::Null), Ok(()));
        assert_eq!(check("hearth_noSuchMethod", json!(7)), Ok(()), "there is no schema for it");
        for wrong in [json!("0x01"), json!(1), json!("1"), Value::Null] {
            assert!(check("eth_chainId", wrong.clone()).is_err(), "{wrong}");
        }
        assert!(check("eth_getBlockByNumber", json!({})).unwrap_err().starts_with("eth_getBlockByNumber"));
        let pool = |hashes: Value| json!({ "pending": {}, "queued": hashes });
        assert_eq!(check("txpool_content", pool(json!({}))), Ok(()));
        assert!(check("txpool_content", pool(json!(7))).is_err());
        assert!(schemas.check("eth_chainId", &json!({ "id": 1 })).is_err());
    }

    #[test]
    fn an_error_has_a_number_of_its_method() {
        let schemas = Schemas::published().expect("each of their keywords is known");
        let error = |code: i64| json!({ "id": 1, "error": { "code": code, "message": "no" } });
        assert_eq!(schemas.check("eth_chainId", &error(-32_602)), Ok(()));
        assert_eq!(schemas.check("eth_call", &error(3)), Ok(()));
        assert!(schemas.check("eth_chainId", &error(3)).is_err());
        assert!(schemas.check("eth_call", &json!({ "id": 1, "error": {} })).is_err());
    }

    #[test]
    fn each_keyword_is_a_rule() {
        let named = json!({
            "short": { "type": "string", "pattern": "^.{0,2}$" },
            "deep": { "properties": { "inner": { "const": 4 } } },
        });
        let checks = |schema: Value| Schemas::of(json!({ "methods": { "m": schema }, "schemas": named }));
        let table = [
            (json!({ "$ref": "#/components/schemas/short" }), json!("ab"), json!("abc")),
            (json!({ "$ref": "#/components/schemas/deep/properties/inner" }), json!(4), json!(5)),
            (json!({ "enum": ["a", 2] }), json!(2), json!("b")),
            (json!({ "type": "integer", "minimum": 1, "maximum": 3 }), json!(3), json!(4)),
            (json!({ "minimum": 1 }), json!(1), json!(0)),
            (json!({ "type": "integer" }), json!(1), json!(1.5)),
            (json!({ "items": { "type": "null" } }), json!([null, null]), json!([null, 1])),
            (json!({ "required": ["a"] }), json!({ "a": 1 }), json!({ "b": 1 })),
            (json!({ "additionalProperties": false, "properties": { "a": {} } }), json!({ "a": 1 }), json!({ "b": 1 })),
            (json!({ "additionalProperties": { "type": "boolean" } }), json!({ "a": true }), json!({ "a": 1 })),
            (json!({ "allOf": [{ "minimum": 1 }, { "maximum": 2 }] }), json!(2), json!(3)),
            (json!({ "anyOf": [{ "minimum": 3 }, { "maximum": 1 }] }), json!(1), json!(2)),
            (json!({ "oneOf": [{ "minimum": 2 }, { "maximum": 2 }] }), json!(1), json!(2)),
        ];
        for (schema, right, wrong) in table {
            let schemas = checks(schema.clone()).expect("its keywords are known");
            assert_eq!(schemas.check("m", &result(right)), Ok(()), "{schema}");
            assert!(schemas.check("m", &result(wrong)).is_err(), "{schema}");
        }
        for unknown in [json!({ "minLength": 2 }), json!({ "anyOf": [{ "not": {} }] }), json!({ "pattern": "(" })] {
            assert!(checks(unknown.clone()).is_err(), "{unknown}");
        }
        let nowhere = checks(json!({ "$ref": "#/components/schemas/none" })).expect("its keywords are known");
        assert!(nowhere.check("m", &result(json!(1))).is_err());
    }
}
