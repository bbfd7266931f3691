//! Parsing of a request's parameters. Each error names the parameter and its position.
//!
//! reads   the `params` of a request
//! memory  borrows the request
//! drops   parameters of the wrong type, missing or surplus: error -32602. Unknown keys of an options object are
//!         ignored, as on the cluster, so that clients made for a newer release work

use hearth_ledger::Commitment;
use hearth_wire::base58::{decode_32, decode_64};
use hearth_wire::{Pubkey, Signature};
use serde_json::{Map, Value};

use crate::jsonrpc::{Failure, kind};

/// The parameters of one request, by position.
#[derive(Clone, Copy)]
pub struct Params<'a>(&'a [Value]);

impl<'a> Params<'a> {
    /// Accepts an array, or no parameters at all.
    pub fn of(params: Option<&'a Value>) -> Result<Self, Failure> {
        match params {
            None | Some(Value::Null) => Ok(Self(&[])),
            Some(Value::Array(values)) => Ok(Self(values)),
            Some(other) => Err(Failure::invalid_params(format!(
                "params: expected an array, found {}; parameters go by position",
                kind(other)
            ))),
        }
    }

    /// Fails if there are more than `count` parameters.
    pub fn at_most(self, count: usize) -> Result<Self, Failure> {
        if self.0.len() > count {
            let given = self.0.len();
            return Err(Failure::invalid_params(format!("expected at most {count} parameters, found {given}")));
        }
        Ok(self)
    }

    /// Parameter `index`; `null` counts as missing.
    fn get(self, index: usize) -> Option<&'a Value> {
        self.0.get(index).filter(|value| !value.is_null())
    }

    fn required(self, index: usize, name: &str) -> Result<&'a Value, Failure> {
        self.get(index).ok_or_else(|| Failure::invalid_params(format!("{} is missing", place(index, name))))
    }

    /// The string at `index`. An error calls it `name` if it is missing or is no string.
    pub fn text(self, index: usize, name: &str) -> Result<&'a str, Failure> {
        let value = self.required(index, name)?;
        value.as_str().ok_or_else(|| wrong(&place(index, name), "a string", value))
    }

    /// A required unsigned integer.
    pub fn number(self, index: usize, name: &str) -> Result<u64, Failure> {
        let value = self.required(index, name)?;
        value.as_u64().ok_or_else(|| wrong(&place(index, name), "a whole number", value))
    }

    /// The array at `index`. An error calls it `name` if it is missing or is no array.
    pub fn list(self, index: usize, name: &str) -> Result<&'a [Value], Failure> {
        let value = self.required(index, name)?;
        value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(&place(index, name), "an array", value))
    }

    /// A required array of at most `count` addresses.
    pub fn pubkeys(self, index: usize, name: &str, count: usize) -> Result<Vec<Pubkey>, Failure> {
        let place = |at: usize| format!("{}, element {at}", place(index, name));
        let texts = texts(self.list(index, name)?, count, &place)?;
        texts.iter().enumerate().map(|(at, text)| pubkey(text, || place(at))).collect()
    }

    /// A required array of at most `count` signatures.
    pub fn signatures(self, index: usize, name: &str, count: usize) -> Result<Vec<Signature>, Failure> {
        let place = |at: usize| format!("{}, element {at}", place(index, name));
        let texts = texts(self.list(index, name)?, count, &place)?;
        texts.iter().enumerate().map(|(at, text)| signature(text, || place(at))).collect()
    }

    /// Parameter `index` as any JSON value; `None` if it is missing or `null`.
    pub fn value(self, index: usize) -> Option<&'a Value> {
        self.get(index)
    }

    /// A required address in base58.
    pub fn pubkey(self, index: usize, name: &str) -> Result<Pubkey, Failure> {
        pubkey(self.text(index, name)?, || place(index, name))
    }

    /// A required signature in base58.
    pub fn signature(self, index: usize, name: &str) -> Result<Signature, Failure> {
        signature(self.text(index, name)?, || place(index, name))
    }

    /// An options object, empty if it is missing.
    pub fn options(self, index: usize) -> Result<Options<'a>, Failure> {
        match self.get(index) {
            None => Ok(Options(None)),
            Some(Value::Object(map)) => Ok(Options(Some(map))),
            Some(other) => Err(wrong(&place(index, "options"), "an object", other)),
        }
    }
}

/// The strings of an array of at most `count`.
fn texts<'a>(values: &'a [Value], count: usize, place: &dyn Fn(usize) -> String) -> Result<Vec<&'a str>, Failure> {
    if values.len() > count {
        return Err(Failure::refused_params(format!("Too many inputs provided; max {count}")));
    }
    let text = |(at, value): (usize, &'a Value)| value.as_str().ok_or_else(|| wrong(&place(at), "a string", value));
    values.iter().enumerate().map(text).collect()
}

/// Parses an address; `place` names it in the error.
pub fn pubkey(text: &str, place: impl Fn() -> String) -> Result<Pubkey, Failure> {
    decode_32(text).map_err(|error| Failure::invalid_params(format!("{}: {error}", place())))
}

/// Parses a signature; `place` names it in the error.
pub fn signature(text: &str, place: impl Fn() -> String) -> Result<Signature, Failure> {
    decode_64(text).map_err(|error| Failure::invalid_params(format!("{}: {error}", place())))
}

/// An object of options, each of them optional.
#[derive(Clone, Copy, Default)]
pub struct Options<'a>(Option<&'a Map<String, Value>>);

impl<'a> From<&'a Map<String, Value>> for Options<'a> {
    fn from(map: &'a Map<String, Value>) -> Self {
        Self(Some(map))
    }
}

impl<'a> Options<'a> {
    /// The value of a key; `null` counts as missing.
    pub fn get(self, key: &str) -> Option<&'a Value> {
        self.0?.get(key).filter(|value| !value.is_null())
    }

    /// An optional unsigned integer.
    pub fn number(self, key: &str) -> Result<Option<u64>, Failure> {
        self.get(key).map(|value| value.as_u64().ok_or_else(|| wrong(key, "a whole number", value))).transpose()
    }

    /// A flag, false if it is missing.
    pub fn flag(self, key: &str) -> Result<bool, Failure> {
        self.get(key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(key, "true or false", value)))
    }

    /// A flag, `default` if it is missing.
    pub fn flag_or(self, key: &str, default: bool) -> Result<bool, Failure> {
        self.get(key).map_or(Ok(default), |_| self.flag(key))
    }

    /// The string under `key`; `None` if it is missing. Any other type is an error.
    pub fn text(self, key: &str) -> Result<Option<&'a str>, Failure> {
        self.get(key).map(|value| value.as_str().ok_or_else(|| wrong(key, "a string", value))).transpose()
    }

    /// The array under `key`; `None` if it is missing. Any other type is an error.
    pub fn list(self, key: &str) -> Result<Option<&'a [Value]>, Failure> {
        let list = |value: &'a Value| value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(key, "an array", value));
        self.get(key).map(list).transpose()
    }

    /// An optional address in base58.
    pub fn pubkey(self, key: &str) -> Result<Option<Pubkey>, Failure> {
        self.text(key)?.map(|text| pubkey(text, || key.to_owned())).transpose()
    }

    /// A nested options object.
    pub fn options(self, key: &str) -> Result<Option<Self>, Failure> {
        self.get(key)
            .map(|value| value.as_object().map(|map| Self(Some(map))).ok_or_else(|| wrong(key, "an object", value)))
            .transpose()
    }

    /// `commitment`, finalized if it is missing.
    pub fn commitment(self) -> Result<Commitment, Failure> {
        Ok(self.commitment_of("commitment")?.unwrap_or_default())
    }

    /// The commitment under `key`, if any.
    pub fn commitment_of(self, key: &str) -> Result<Option<Commitment>, Failure> {
        Ok(Some(match self.text(key)? {
            None => return Ok(None),
            Some("processed") => Commitment::Processed,
            Some("confirmed") => Commitment::Confirmed,
            Some("finalized") => Commitment::Finalized,
            Some(other) => {
                let message = format!("{key}: {other:?} is none of \"processed\", \"confirmed\", \"finalized\"");
                return Err(Failure::invalid_params(message));
            }
        }))
    }
}

fn place(index: usize, name: &str) -> String {
    format!("parameter {} ({name})", index + 1)
}

fn wrong(place: &str, expected: &str, found: &Value) -> Failure {
    Failure::invalid_params(format!("{place}: expected {expected}, found {}", kind(found)))
}
