//! Positional parameters of a method, as geth reads them.
//!
//! reads   the JSON of `params`
//! writes  numbers, addresses, hashes, bytes, block tags
//! memory  the parsed values; the JSON itself is borrowed
//! drops   missing, surplus or malformed parameters: error -32602 in geth's words
//! source  `rpc/json.go` and `rpc/types.go` of go-ethereum 1.16

use std::borrow::Cow;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::hexadecimal;

/// The parameters of one request.
#[derive(Clone, Debug, Default)]
pub struct Params<'a> {
    values: Vec<&'a RawValue>,
}

/// Maximum parameters that are read: no method takes as many.
const PARAMS_MOST: usize = 16;

/// The first `MOST` items of a list, and its length: items beyond that take no memory.
#[derive(Clone, Debug, Default)]
pub struct FirstItems<'a, const MOST: usize> {
    /// At most `MOST`, each as raw JSON.
    pub items: Vec<&'a RawValue>,
    /// The length of the whole list.
    pub count: usize,
}

impl<'de: 'a, 'a, const MOST: usize> Deserialize<'de> for FirstItems<'a, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de: 'a, 'a, const MOST: usize> Visitor<'de> for FirstItems<'a, MOST> {
    type Value = Self;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self, A::Error> {
        while self.items.len() < MOST
            && let Some(item) = items.next_element()?
        {
            self.items.push(item);
        }
        self.count = self.items.len();
        while items.next_element::<IgnoredAny>()?.is_some() {
            self.count += 1;
        }
        Ok(self)
    }
}

/// A type that a parameter can have.
pub trait Param: Sized {
    /// Parses the JSON; the error has geth's words.
    fn read(json: &str) -> Result<Self, String>;
}

impl<'a> Params<'a> {
    /// Reads the parameters in the JSON of `params`; none if there is no such field.
    pub fn of(json: Option<&'a RawValue>) -> Result<Self, Failure> {
        let Some(json) = json.filter(|json| json.get() != "null") else { return Ok(Self::default()) };
        if !json.get().starts_with('[') {
            return Err(Failure::invalid_params("non-array args"));
        }
        let first: FirstItems<'a, PARAMS_MOST> =
            serde_json::from_str(json.get()).map_err(|why| Failure::invalid_params(why.to_string()))?;
        Ok(Self { values: first.items })
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the parameters if there are no more than `most`.
    pub fn at_most(self, most: usize) -> Result<Self, Failure> {
        match self.values.len() > most {
            true => Err(Failure::invalid_params(format!("too many arguments, want at most {most}"))),
            false => Ok(self),
        }
    }

    /// Returns the JSON of one, unless it is missing or null.
    pub fn json(&self, index: usize) -> Option<&'a str> {
        self.values.get(index).map(|value| value.get()).filter(|json| *json != "null")
    }

    /// Parses a required parameter.
    pub fn required<T: Param>(&self, index: usize) -> Result<T, Failure> {
        self.optional(index)?
            .ok_or_else(|| Failure::invalid_params(format!("missing value for required argument {index}")))
    }

    /// Parses a parameter that may be missing or null.
    pub fn optional<T: Param>(&self, index: usize) -> Result<Option<T>, Failure> {
        self.json(index).map(|json| T::read(json).map_err(|why| Failure::argument(index, why))).transpose()
    }

    /// Parses a required object or another value by serde.
    pub fn shape<T: Deserialize<'a>>(&self, index: usize) -> Result<T, Failure> {
        self.shape_or_none(index)?
            .ok_or_else(|| Failure::invalid_params(format!("missing value for required argument {index}")))
    }

    /// As [`shape`](Self::shape), but it may be missing or null.
    pub fn shape_or_none<T: Deserialize<'a>>(&self, index: usize) -> Result<Option<T>, Failure> {
        let read = |json| serde_json::from_str(json).map_err(|why| Failure::argument(index, shape_error(&why)));
        self.json(index).map(read).transpose()
    }
}

/// A parameter within an object that serde reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field<T>(pub T);

impl<'de, T: Param> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        T::read(json.get()).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Returns serde's message without the position.
pub fn shape_error(why: &serde_json::Error) -> String {
    let text = why.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

/// Parses a JSON string.
pub fn string<'a>(json: &'a str, type_name: &str) -> Result<Cow<'a, str>, String> {
    let within = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match within {
        None => Err(format!("json: cannot unmarshal non-string into Go value of type {type_name}")),
        Some(text) if text.contains('\\') => serde_json::from_str(json).map(Cow::Owned).map_err(|why| why.to_string()),
        Some(text) => Ok(Cow::Borrowed(text)),
    }
}

fn within_type(why: impl std::fmt::Display, type_name: &str) -> String {
    format!("json: cannot unmarshal {why} into Go value of type {type_name}")
}

impl Param for bool {
    fn read(json: &str) -> Result<Self, String> {
        match json {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(within_type(kind(other), "bool")),
        }
    }
}

impl Param for String {
    fn read(json: &str) -> Result<Self, String> {
        string(json, "string").map(Cow::into_owned)
    }
}

impl Param for Address {
    fn read(json: &str) -> Result<Self, String> {
        let name = "common.Address";
        let text = string(json, name)?;
        hexadecimal::fixed(&text, name).map(Self::new).map_err(|why| within_type(why, name))
    }
}

impl Param for B256 {
    fn read(json: &str) -> Result<Self, String> {
        let name = "common.Hash";
        let text = string(json, name)?;
        hexadecimal::fixed(&text, name).map(Self::new).map_err(|why| within_type(why, name))
    }
}

impl Param for Bytes {
    fn read(json: &str) -> Result<Self, String> {
        let name = "hexutil.Bytes";
        let text = string(json, name)?;
        hexadecimal::data(&text).map(Self::from).map_err(|why| within_type(why, name))
    }
}

/// A quantity; also a JSON number, which development tools send.
impl Param for u64 {
    fn read(json: &str) -> Result<Self, String> {
        if let Ok(number) = json.parse() {
            return Ok(number);
        }
        let name = "hexutil.Uint64";
        let text = string(json, name)?;
        hexadecimal::quantity(&text).map_err(|why| within_type(why, name))
    }
}

/// A quantity; also a JSON number, which development tools send.
impl Param for U256 {
    fn read(json: &str) -> Result<Self, String> {
        if let Ok(number) = json.parse::<u128>() {
            return Ok(Self::from(number));
        }
        let name = "hexutil.Big";
        let text = string(json, name)?;
        hexadecimal::quantity_256(&text).map_err(|why| within_type(why, name))
    }
}

/// A storage key: a quantity or a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageKey(pub U256);

impl Param for StorageKey {
    fn read(json: &str) -> Result<Self, String> {
        let text = string(json, "common.Hash")?;
        hexadecimal::word(&text).map(Self).map_err(|why| format!("unable to decode storage key: {why}"))
    }
}

/// The block that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockId {
    /// The newest block (`latest`).
    Latest,
    /// The next block, executed on demand.
    Pending,
    /// The genesis block (`earliest`).
    Earliest,
    /// The newest block that is on disk; of a chain in memory, the newest block.
    Safe,
    /// The same block as [`BlockId::Safe`].
    Finalized,
    /// A block by its number.
    Number(u64),
    /// A block by its hash.
    Hash(B256),
}

impl BlockId {
    /// Parses a number or a tag.
    pub fn number_or_tag(text: &str) -> Result<Self, String> {
        Ok(match text {
            "latest" => Self::Latest,
            "pending" => Self::Pending,
            "earliest" => Self::Earliest,
            "safe" => Self::Safe,
            "finalized" => Self::Finalized,
            // geth's own check: its numbers are signed.
            number => match hexadecimal::quantity(number).map_err(|why| why.to_string())? {
                number if i64::try_from(number).is_err() => return Err("block number larger than int64".into()),
                number => Self::Number(number),
            },
        })
    }
}

/// A number, a tag, a hash, or an object of EIP-1898.
impl Param for BlockId {
    fn read(json: &str) -> Result<Self, String> {
        if json.starts_with('{') {
            return read_object(json);
        }
        if let Ok(number) = json.parse() {
            return Ok(Self::Number(number));
        }
        let text = string(json, "rpc.BlockNumberOrHash")?;
        match text.len() {
            66 => hexadecimal::fixed(&text, "common.Hash").map(|hash| Self::Hash(hash.into())),
            _ => Self::number_or_tag(&text),
        }
    }
}

/// Parses an object of EIP-1898. The node knows only blocks of the one chain, so `requireCanonical` always holds.
fn read_object(json: &str) -> Result<BlockId, String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Object {
        block_number: Option<String>,
        block_hash: Option<String>,
    }
    let object: Object = serde_json::from_str(json).map_err(|why| shape_error(&why))?;
    match (object.block_number, object.block_hash) {
        (Some(_), Some(_)) => Err("cannot specify both BlockHash and BlockNumber, choose one or the other".into()),
        (Some(number), None) => BlockId::number_or_tag(&number),
        (None, Some(hash)) => hexadecimal::fixed(&hash, "common.Hash").map(|hash| BlockId::Hash(hash.into())),
        (None, None) => Err("neither BlockNumber nor BlockHash is given".into()),
    }
}

/// Returns the kind of a JSON value, in the words of Go.
fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "bool",
        _ => "number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(json: &str) -> Params<'_> {
        Params::of(Some(serde_json::from_str(json).unwrap())).unwrap()
    }

    fn why<T: Param + std::fmt::Debug>(json: &str) -> String {
        params(json).required::<T>(0).unwrap_err().message().to_owned()
    }

    #[test]
    fn parameter_errors_match_geths_words() {
        assert_eq!(why::<Address>("[]"), "missing value for required argument 0");
        assert_eq!(why::<Address>("[null]"), "missing value for required argument 0");
        assert_eq!(
            why::<Address>(r#"["12"]"#),
            "invalid argument 0: json: cannot unmarshal hex string without 0x prefix into Go value of type \
             common.Address"
        );
        assert_eq!(
            why::<Bytes>(r#"["0x1"]"#),
            "invalid argument 0: json: cannot unmarshal hex string of odd length into Go value of type hexutil.Bytes"
        );
        assert_eq!(why::<BlockId>(r#"["lastest"]"#), "invalid argument 0: hex string without 0x prefix");
        assert!(why::<Address>("[5]").contains("non-string into Go value of type common.Address"));
        let many = params("[1,2,3]").at_most(2).unwrap_err();
        assert_eq!((many.code(), many.message()), (-32602, "too many arguments, want at most 2"));
        let many = format!("[{}]", vec!["1"; 100_000].join(","));
        assert_eq!(params(&many).len(), PARAMS_MOST);
        let few: FirstItems<'_, 3> = serde_json::from_str(&many).unwrap();
        assert_eq!((few.items.len(), few.count), (3, 100_000));
        let object: &RawValue = serde_json::from_str("{}").unwrap();
        assert_eq!(Params::of(Some(object)).unwrap_err().message(), "non-array args");
    }

    #[test]
    fn blocks_are_named_in_every_way() {
        let hash = format!("0x{}", "11".repeat(32));
        let table = [
            (r#""latest""#.to_owned(), BlockId::Latest),
            (r#""pending""#.into(), BlockId::Pending),
            (r#""0x10""#.into(), BlockId::Number(16)),
            ("16".into(), BlockId::Number(16)),
            (format!("\"{hash}\""), BlockId::Hash([0x11; 32].into())),
            (format!(r#"{{"blockHash":"{hash}","requireCanonical":true}}"#), BlockId::Hash([0x11; 32].into())),
            (r#"{"blockNumber":"0x2"}"#.into(), BlockId::Number(2)),
            (r#"{"blockNumber":"safe"}"#.into(), BlockId::Safe),
        ];
        for (json, expected) in table {
            assert_eq!(BlockId::read(&json), Ok(expected), "{json}");
        }
        for bad in [r#""0xffffffffffffffff""#, "{}", r#"{"blockHash":"0x12"}"#, r#""""#, "true", "[]", "-1"] {
            BlockId::read(bad).unwrap_err();
        }
    }

    #[test]
    fn quantities_may_be_json_numbers() {
        assert_eq!(params("[7]").required::<u64>(0).unwrap(), 7);
        assert_eq!(params(r#"["0x7"]"#).required::<U256>(0).unwrap(), U256::from(7));
        assert!(why::<u64>("[-7]").contains("non-string"));
        assert!(why::<u64>(r#"["0x10000000000000000"]"#).contains("hex number > 64 bits"));
    }
}
