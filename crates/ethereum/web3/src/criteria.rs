//! The criteria of a log query or filter.
//!
//! reads   the object that `eth_getLogs`, `eth_newFilter` and `eth_subscribe` take
//! writes  [`Criteria`]
//! memory  at most a thousand addresses, four positions and a thousand topics in each
//! drops   anything that is no such object: error -32602 or -32000, in geth's words
//! source  `eth/filters/api.go` of go-ethereum 1.16

use alloy_primitives::{Address, B256, Bloom, Log};
use hearth_crypto::keccak::keccak256;
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::hexadecimal;
use crate::params::{BlockId, Params};

/// Positions of topics that a log has.
const POSITIONS: usize = 4;
/// Maximum addresses, and maximum topics of one position.
const ALTERNATIVES_MAX: usize = 1_000;

/// The blocks whose logs are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// A range, both ends included.
    Range {
        /// If missing, the newest.
        from: Option<BlockId>,
        /// If missing, the newest.
        to: Option<BlockId>,
    },
    /// The block of this hash.
    Hash(B256),
}

/// The blocks, addresses and topics that a log must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// The blocks to search.
    pub blocks: Blocks,
    addresses: Vec<Address>,
    /// By position, the accepted topics; an empty list accepts any.
    topics: Vec<Vec<B256>>,
    /// The bloom bits of the addresses and of each position: a bloom must have those of one alternative of each.
    bits: Vec<Vec<Bits>>,
}

/// The three bits that a value sets in a bloom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits([u16; 3]);

impl Bits {
    fn of(bytes: &[u8]) -> Self {
        let hash = keccak256(bytes);
        Self([0, 2, 4].map(|at| u16::from_be_bytes([hash[at], hash[at + 1]]) % 2_048))
    }

    fn are_in(self, bloom: &Bloom) -> bool {
        self.0.iter().all(|bit| bloom.0[255 - usize::from(bit / 8)] >> (bit % 8) & 1 == 1)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCriteria {
    block_hash: Option<String>,
    from_block: Option<Value>,
    to_block: Option<Value>,
    #[serde(default)]
    address: Value,
    #[serde(default)]
    topics: Value,
}

impl Criteria {
    /// Reads the criteria in the parameter at `index`; if it is missing, they match all logs.
    pub fn of(params: &Params<'_>, index: usize) -> Result<Self, Failure> {
        let Some(wire) = params.shape_or_none::<WireCriteria>(index)? else {
            let blocks = Blocks::Range { from: None, to: None };
            return Ok(Self::new(blocks, Vec::new(), Vec::new()));
        };
        let wrong = |why: String| Failure::argument(index, why);
        let block = |value: &Option<Value>| value.as_ref().map(block_id).transpose();
        let blocks = match (wire.block_hash, block(&wire.from_block), block(&wire.to_block)) {
            (Some(_), Ok(Some(_)), _) | (Some(_), _, Ok(Some(_))) => {
                return Err(wrong(
                    "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other".into(),
                ));
            }
            (Some(hash), _, _) => {
                Blocks::Hash(hexadecimal::fixed(&hash, "common.Hash").map(B256::from).map_err(wrong)?)
            }
            (None, from, to) => Blocks::Range { from: from.map_err(wrong)?, to: to.map_err(wrong)? },
        };
        let addresses = addresses(&wire.address).map_err(wrong)?;
        let topics = topics(&wire.topics).map_err(wrong)?;
        if addresses.len() > ALTERNATIVES_MAX {
            return Err(Failure::invalid_params("exceed max addresses"));
        }
        if topics.len() > POSITIONS || topics.iter().any(|position| position.len() > ALTERNATIVES_MAX) {
            return Err(Failure::invalid_params("exceed max topics"));
        }
        Ok(Self::new(blocks, addresses, topics))
    }

    fn new(blocks: Blocks, addresses: Vec<Address>, topics: Vec<Vec<B256>>) -> Self {
        let of_addresses = addresses.iter().map(|address| Bits::of(address.as_slice())).collect();
        let of_topics = topics.iter().map(|position| position.iter().map(|topic| Bits::of(&topic.0)).collect());
        let bits = std::iter::once(of_addresses).chain(of_topics).filter(|all: &Vec<_>| !all.is_empty()).collect();
        Self { blocks, addresses, topics, bits }
    }

    /// Returns an error for a range that ends before it begins, in the words of the execution API's tests.
    pub fn check_order(&self) -> Result<(), Failure> {
        match self.blocks {
            Blocks::Range { from: Some(BlockId::Number(from)), to: Some(BlockId::Number(to)) } if from > to => {
                Err(Failure::invalid_params("invalid block range params"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the greatest block number in the range.
    pub fn last_number(&self) -> Option<u64> {
        let number = |id: Option<BlockId>| match id {
            Some(BlockId::Number(number)) => Some(number),
            _ => None,
        };
        match self.blocks {
            Blocks::Range { from, to } => number(from).max(number(to)),
            Blocks::Hash(_) => None,
        }
    }

    /// Returns whether a block or a receipt with this bloom may have a matching log.
    pub fn may_be_in(&self, bloom: &Bloom) -> bool {
        // Without bits nothing is logged.
        !bloom.is_zero() && self.bits.iter().all(|any| any.iter().any(|bits| bits.are_in(bloom)))
    }

    /// Returns whether a log matches.
    pub fn matches(&self, log: &Log) -> bool {
        let topics = log.topics();
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self.topics.iter().zip(topics).all(|(position, topic)| position.is_empty() || position.contains(topic))
    }
}

fn block_id(value: &Value) -> Result<BlockId, String> {
    match value {
        Value::String(text) => BlockId::number_or_tag(text),
        Value::Number(number) => number.as_u64().map(BlockId::Number).ok_or_else(|| "invalid block number".into()),
        _ => Err("json: cannot unmarshal non-string into Go value of type rpc.BlockNumber".into()),
    }
}

fn addresses(value: &Value) -> Result<Vec<Address>, String> {
    let one = |text: &str| hexadecimal::fixed(text, "common.Address").map(Address::from);
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![one(text).map_err(|why| format!("invalid address: {why}"))?]),
        Value::Array(list) => {
            let each = list.iter().enumerate().map(|(index, value)| match value {
                Value::String(text) => one(text).map_err(|why| format!("invalid address at index {index}: {why}")),
                _ => Err(format!("non-string address at index {index}")),
            });
            each.collect()
        }
        _ => Err("invalid addresses in query".into()),
    }
}

fn topics(value: &Value) -> Result<Vec<Vec<B256>>, String> {
    let Value::Array(positions) = value else {
        return if value.is_null() { Ok(Vec::new()) } else { Err("invalid topic(s)".into()) };
    };
    positions.iter().map(alternatives).collect()
}

/// Reads the accepted topics of a position: a missing position, null, or null among the alternatives accepts any.
fn alternatives(position: &Value) -> Result<Vec<B256>, String> {
    let one = |value: &Value| match value {
        Value::String(text) => hexadecimal::fixed(text, "topic").map(B256::from),
        _ => Err("invalid topic(s)".into()),
    };
    match position {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) if list.iter().any(Value::is_null) => Ok(Vec::new()),
        Value::Array(list) => list.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Bytes, LogData, logs_bloom};
    use serde_json::{json, value::RawValue};

    use super::*;

    fn criteria(value: Value) -> Result<Criteria, Failure> {
        let text = Value::Array(vec![value]).to_string();
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        Criteria::of(&Params::of(Some(raw)).unwrap(), 0)
    }

    fn word(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    fn log(address: u8, topics: &[u8]) -> Log {
        let topics = topics.iter().copied().map(word).collect();
        Log { address: Address::repeat_byte(address), data: LogData::new_unchecked(topics, Bytes::new()) }
    }

    #[test]
    fn null_is_anything_and_a_list_is_alternatives() {
        let (one, two) = (word(1).to_string(), word(2).to_string());
        let address = Address::repeat_byte(9).to_string();
        let table = [
            (json!({}), [true, true, true, true]),
            (json!({ "topics": [] }), [true, true, true, true]),
            (json!({ "topics": [one] }), [false, true, true, false]),
            (json!({ "topics": [null, two] }), [false, false, true, false]),
            (json!({ "topics": [[one, two]] }), [false, true, true, true]),
            (json!({ "topics": [[null, two]] }), [false, true, true, true]),
            (json!({ "topics": [null, null, null] }), [false, false, false, false]),
            (json!({ "address": address }), [true, false, true, false]),
            (json!({ "address": [address], "topics": [one] }), [false, false, true, false]),
        ];
        let logs = [log(9, &[]), log(8, &[1]), log(9, &[1, 2]), log(8, &[2, 1])];
        for (object, expected) in table {
            let criteria = criteria(object.clone()).unwrap();
            assert_eq!(logs.each_ref().map(|log| criteria.matches(log)), expected, "{object}");
            for log in &logs {
                // A bloom never hides a log.
                assert!(!criteria.matches(log) || criteria.may_be_in(&logs_bloom([log])), "{object}");
            }
        }
        assert!(!criteria(json!({ "address": address })).unwrap().may_be_in(&Bloom::ZERO));
    }

    #[test]
    fn errors_match_geths_words() {
        let hash = word(1).to_string();
        let many = vec![Address::ZERO.to_string(); 1_001];
        let table = [
            (json!({ "blockHash": hash, "fromBlock": "0x1" }), "cannot specify both BlockHash and FromBlock/ToBlock"),
            (json!({ "address": "0x12" }), "invalid address: hex string has length 2, want 40"),
            (json!({ "address": [hash] }), "invalid address at index 0"),
            (json!({ "address": [5] }), "non-string address at index 0"),
            (json!({ "address": 5 }), "invalid addresses in query"),
            (json!({ "topics": ["0x12"] }), "hex string has length 2, want 64 for topic"),
            (json!({ "topics": [5] }), "invalid topic(s)"),
            (json!({ "topics": [null, null, null, null, null] }), "exceed max topics"),
            (json!({ "address": many }), "exceed max addresses"),
            (json!({ "fromBlock": "first" }), "hex string without 0x prefix"),
            (json!({ "blockHash": "0x12" }), "hex string has length 2, want 64 for common.Hash"),
        ];
        for (object, expected) in table {
            let failure = criteria(object.clone()).unwrap_err();
            assert!(failure.message().contains(expected), "{object}: {}", failure.message());
        }
        criteria(json!(5)).unwrap_err();
    }
}
