//! A request's parameters: taken one by one, each mistake told with its place and name.
//!
//! reads   the `params` of a request
//! writes  typed values
//! memory  borrows the request
//! drops   parameters of the wrong type, missing or too many: error -32602; unknown keys of an options object are
//!         ignored, as the cluster does, so that a client made for a newer release is served

use hearth_ledger::Commitment;
use hearth_wire::base58::{decode_32, decode_64};
use hearth_wire::{Pubkey, Signature};
use serde_json::{Map, Value};

use crate::jsonrpc::{Failure, kind};

/// The parameters of one request, by position.
#[derive(Clone, Copy)]
pub struct Params<'a>(&'a [Value]);

impl<'a> Params<'a> {
    /// Parameters as the request has them: an array, or nothing.
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

    /// Refuses more than `count` parameters.
    pub fn at_most(self, count: usize) -> Result<Self, Failure> {
        if self.0.len() > count {
            let given = self.0.len();
            return Err(Failure::invalid_params(format!("expected at most {count} parameters, found {given}")));
        }
        Ok(self)
    }

    /// Parameter `index`; `null` is as good as none.
    fn get(self, index: usize) -> Option<&'a Value> {
        self.0.get(index).filter(|value| !value.is_null())
    }

    fn required(self, index: usize, name: &str) -> Result<&'a Value, Failure> {
        self.get(index).ok_or_else(|| Failure::invalid_params(format!("{} is missing", place(index, name))))
    }

    /// A text.
    pub fn text(self, index: usize, name: &str) -> Result<&'a str, Failure> {
        let value = self.required(index, name)?;
        value.as_str().ok_or_else(|| wrong(&place(index, name), "a string", value))
    }

    /// A whole number.
    pub fn number(self, index: usize, name: &str) -> Result<u64, Failure> {
        let value = self.required(index, name)?;
        value.as_u64().ok_or_else(|| wrong(&place(index, name), "a whole number", value))
    }

    /// A list.
    pub fn list(self, index: usize, name: &str) -> Result<&'a [Value], Failure> {
        let value = self.required(index, name)?;
        value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(&place(index, name), "an array", value))
    }

    /// A list of at most `count` addresses.
    pub fn pubkeys(self, index: usize, name: &str, count: usize) -> Result<Vec<Pubkey>, Failure> {
        let place = |at: usize| format!("{}, element {at}", place(index, name));
        let texts = texts(self.list(index, name)?, count, &place)?;
        texts.iter().enumerate().map(|(at, text)| pubkey(text, || place(at))).collect()
    }

    /// A list of at most `count` signatures.
    pub fn signatures(self, index: usize, name: &str, count: usize) -> Result<Vec<Signature>, Failure> {
        let place = |at: usize| format!("{}, element {at}", place(index, name));
        let texts = texts(self.list(index, name)?, count, &place)?;
        texts.iter().enumerate().map(|(at, text)| signature(text, || place(at))).collect()
    }

    /// A parameter as it stands.
    pub fn value(self, index: usize) -> Option<&'a Value> {
        self.get(index)
    }

    /// An address.
    pub fn pubkey(self, index: usize, name: &str) -> Result<Pubkey, Failure> {
        pubkey(self.text(index, name)?, || place(index, name))
    }

    /// A signature.
    pub fn signature(self, index: usize, name: &str) -> Result<Signature, Failure> {
        signature(self.text(index, name)?, || place(index, name))
    }

    /// An options object, empty when it is left out.
    pub fn options(self, index: usize) -> Result<Options<'a>, Failure> {
        match self.get(index) {
            None => Ok(Options(None)),
            Some(Value::Object(map)) => Ok(Options(Some(map))),
            Some(other) => Err(wrong(&place(index, "options"), "an object", other)),
        }
    }
}

/// The texts of a list of at most `count`.
fn texts<'a>(values: &'a [Value], count: usize, place: &dyn Fn(usize) -> String) -> Result<Vec<&'a str>, Failure> {
    if values.len() > count {
        let given = values.len();
        return Err(Failure::invalid_params(format!("Too many inputs provided; max {count}, found {given}")));
    }
    let text = |(at, value): (usize, &'a Value)| value.as_str().ok_or_else(|| wrong(&place(at), "a string", value));
    values.iter().enumerate().map(text).collect()
}

/// An address from its text; `place` names it when it is none.
pub fn pubkey(text: &str, place: impl Fn() -> String) -> Result<Pubkey, Failure> {
    decode_32(text).map_err(|error| Failure::invalid_params(format!("{}: {error}", place())))
}

/// A signature from its text.
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
    /// The value of a key; `null` is as good as none.
    pub fn get(self, key: &str) -> Option<&'a Value> {
        self.0?.get(key).filter(|value| !value.is_null())
    }

    /// A whole number.
    pub fn number(self, key: &str) -> Result<Option<u64>, Failure> {
        self.get(key).map(|value| value.as_u64().ok_or_else(|| wrong(key, "a whole number", value))).transpose()
    }

    /// A flag, false when it is left out.
    pub fn flag(self, key: &str) -> Result<bool, Failure> {
        self.get(key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(key, "true or false", value)))
    }

    /// A flag, `default` when it is left out.
    pub fn flag_or(self, key: &str, default: bool) -> Result<bool, Failure> {
        self.get(key).map_or(Ok(default), |_| self.flag(key))
    }

    /// A text.
    pub fn text(self, key: &str) -> Result<Option<&'a str>, Failure> {
        self.get(key).map(|value| value.as_str().ok_or_else(|| wrong(key, "a string", value))).transpose()
    }

    /// A list.
    pub fn list(self, key: &str) -> Result<Option<&'a [Value]>, Failure> {
        let list = |value: &'a Value| value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(key, "an array", value));
        self.get(key).map(list).transpose()
    }

    /// An address.
    pub fn pubkey(self, key: &str) -> Result<Option<Pubkey>, Failure> {
        self.text(key)?.map(|text| pubkey(text, || key.to_owned())).transpose()
    }

    /// Options within options.
    pub fn options(self, key: &str) -> Result<Option<Self>, Failure> {
        self.get(key)
            .map(|value| value.as_object().map(|map| Self(Some(map))).ok_or_else(|| wrong(key, "an object", value)))
            .transpose()
    }

    /// `commitment`, finalized when it is left out.
    pub fn commitment(self) -> Result<Commitment, Failure> {
        Ok(self.commitment_of("commitment")?.unwrap_or_default())
    }

    /// A commitment by its name.
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
