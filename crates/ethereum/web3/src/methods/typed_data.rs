//! The hash of typed data for signing (EIP-712).
//!
//! reads   the JSON of types, domain and message
//! writes  a hash
//! memory  the tree of the JSON; 32 B a type
//! drops   data that does not fit its types, nests deeper than [`DEPTH_MAX`] or takes too long: an error says what
//! source  EIP-712

use std::collections::{BTreeMap, BTreeSet, HashMap};

use alloy_primitives::{I256, U256};
use hearth_crypto::keccak::keccak256;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::call_pool::Deadline;

/// Maximum nesting of structs and arrays.
const DEPTH_MAX: usize = 32;
const DOMAIN: &str = "EIP712Domain";

#[derive(Clone, Debug, Deserialize)]
struct Member {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypedData {
    types: BTreeMap<String, Vec<Member>>,
    primary_type: String,
    domain: Map<String, Value>,
    #[serde(default)]
    message: Map<String, Value>,
}

/// Returns the hash to sign of typed data in a JSON, or in a string of JSON. The cost may be the product of the types'
/// sizes and the number of values, so only `deadline` bounds it.
pub fn hash(json: &str, deadline: Deadline) -> Result<[u8; 32], String> {
    let parse = |text: &str| serde_json::from_str::<TypedData>(text).map_err(|why| why.to_string());
    let mut data = match json.starts_with('"') {
        true => parse(&serde_json::from_str::<String>(json).map_err(|why| why.to_string())?)?,
        false => parse(json)?,
    };
    if !data.types.contains_key(DOMAIN) {
        data.types.insert(DOMAIN.into(), domain_members(&data.domain));
    }
    let mut bytes = vec![0x19, 0x01];
    let mut work = Work { types: &data.types, type_hashes: HashMap::new(), deadline };
    bytes.extend(work.hash_struct(DOMAIN, &data.domain, 0)?);
    if data.primary_type != DOMAIN {
        bytes.extend(work.hash_struct(&data.primary_type, &data.message, 0)?);
    }
    Ok(keccak256(&bytes))
}

/// Returns the members of a domain without a type: those that it has.
fn domain_members(domain: &Map<String, Value>) -> Vec<Member> {
    [
        ("name", "string"),
        ("version", "string"),
        ("chainId", "uint256"),
        ("verifyingContract", "address"),
        ("salt", "bytes32"),
    ]
    .into_iter()
    .filter(|(name, _)| domain.contains_key(*name))
    .map(|(name, kind)| Member { name: name.into(), kind: kind.into() })
    .collect()
}

/// The state of hashing.
struct Work<'a> {
    types: &'a BTreeMap<String, Vec<Member>>,
    /// The hashes of types seen so far.
    type_hashes: HashMap<&'a str, [u8; 32]>,
    deadline: Deadline,
}

impl<'a> Work<'a> {
    fn hash_struct(&mut self, name: &str, values: &Map<String, Value>, depth: usize) -> Result<[u8; 32], String> {
        if depth > DEPTH_MAX {
            return Err("typed data nests too deep".into());
        }
        let mut bytes = self.type_hash(name)?.to_vec();
        for member in self.members(name)?.1 {
            let value = values.get(&member.name).unwrap_or(&Value::Null);
            let word = self.encode(&member.kind, value, depth);
            bytes.extend(word.map_err(|why| format!("{name:.80}.{:.80}: {why}", member.name))?);
        }
        Ok(keccak256(&bytes))
    }

    /// Returns a type by name: its name and its members.
    fn members(&self, name: &str) -> Result<(&'a str, &'a [Member]), String> {
        let found = self.types.get_key_value(name);
        found
            .map(|(name, members)| (&name[..], &members[..]))
            .ok_or_else(|| format!("no definition for type {name:.80}"))
    }

    fn in_time(&self) -> Result<(), String> {
        if self.deadline.has_passed() { Err("typed data takes too long to hash".into()) } else { Ok(()) }
    }

    /// Returns the hash of a type's encoding.
    fn type_hash(&mut self, name: &str) -> Result<[u8; 32], String> {
        if let Some(hash) = self.type_hashes.get(name) {
            return Ok(*hash);
        }
        let (name, _) = self.members(name)?;
        let hash = keccak256(self.encode_type(name)?.as_bytes());
        self.type_hashes.insert(name, hash);
        Ok(hash)
    }

    /// Encodes the struct itself, then those it refers to, by name.
    fn encode_type(&self, name: &'a str) -> Result<String, String> {
        let (mut found, mut open) = (BTreeSet::new(), vec![name]);
        while let Some(next) = open.pop() {
            self.in_time()?;
            for member in self.members(next)?.1 {
                let base = member.kind.split('[').next().unwrap_or_default();
                if self.types.contains_key(base) && base != name && found.insert(base) {
                    open.push(base);
                }
            }
        }
        let mut text = String::new();
        for name in std::iter::once(name).chain(found) {
            self.in_time()?;
            let members = self.members(name)?.1.iter().map(|member| format!("{} {}", member.kind, member.name));
            text += &format!("{name}({})", members.collect::<Vec<_>>().join(","));
        }
        Ok(text)
    }

    fn encode(&mut self, kind: &str, value: &Value, depth: usize) -> Result<[u8; 32], String> {
        self.in_time()?;
        if let Some((base, length)) = kind.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
            let Value::Array(items) = value else { return Err(format!("{kind:.80} wants an array")) };
            if !length.is_empty() && length.parse() != Ok(items.len()) {
                return Err(format!("{kind:.80} has {} items", items.len()));
            }
            if depth > DEPTH_MAX {
                return Err("typed data nests too deep".into());
            }
            let mut bytes = Vec::with_capacity(32 * items.len());
            for item in items {
                bytes.extend(self.encode(base, item, depth + 1)?);
            }
            return Ok(keccak256(&bytes));
        }
        if self.types.contains_key(kind) {
            return match value {
                Value::Object(values) => self.hash_struct(kind, values, depth + 1),
                // A struct that refers to itself ends there.
                Value::Null => Ok([0; 32]),
                _ => Err(format!("{kind:.80} wants an object")),
            };
        }
        atom(kind, value)
    }
}

fn atom(kind: &str, value: &Value) -> Result<[u8; 32], String> {
    let text = || value.as_str().ok_or_else(|| format!("{kind:.80} wants a string"));
    let bytes = || crate::hexadecimal::data(text()?).map_err(|why| why.to_string());
    match kind {
        "string" => Ok(keccak256(text()?.as_bytes())),
        "bytes" => Ok(keccak256(&bytes()?)),
        "bool" => {
            let flag = value.as_bool().ok_or("bool wants true or false")?;
            Ok(U256::from(u8::from(flag)).to_be_bytes())
        }
        "address" => {
            let address: [u8; 20] = crate::hexadecimal::fixed(text()?, "common.Address")?;
            Ok(U256::from_be_slice(&address).to_be_bytes())
        }
        _ => {
            if let Some(size) = kind.strip_prefix("bytes").and_then(|size| size.parse::<usize>().ok()) {
                let bytes = bytes()?;
                let mut word = [0; 32];
                if size > 32 || bytes.len() != size {
                    return Err(format!("{kind:.80} has {} bytes", bytes.len()));
                }
                word[..size].copy_from_slice(&bytes);
                return Ok(word);
            }
            number(kind, value)
        }
    }
}

fn number(kind: &str, value: &Value) -> Result<[u8; 32], String> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err(format!("{kind:.80} wants a number")),
    };
    let wrong = || format!("{kind:.80} cannot be {text:.80}");
    let bits = |size: &str| match size {
        "" => Ok(256),
        size => size.parse::<usize>().ok().filter(|bits| (8..=256).contains(bits) && bits % 8 == 0).ok_or_else(wrong),
    };
    if let Some(size) = kind.strip_prefix("uint") {
        let bits = bits(size)?;
        let number: U256 = text.parse().map_err(|_| wrong())?;
        return if number.bit_len() <= bits { Ok(number.to_be_bytes()) } else { Err(wrong()) };
    }
    if let Some(size) = kind.strip_prefix("int") {
        let bits = bits(size)? as u32;
        let number: I256 = text.parse().map_err(|_| wrong())?;
        return if number.bits() <= bits { Ok(number.to_be_bytes()) } else { Err(wrong()) };
    }
    Err(format!("no definition for type {kind:.80}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn hash_in_time(json: &str) -> Result<[u8; 32], String> {
        hash(json, Deadline::after(Duration::from_secs(60)))
    }

    /// The example of EIP-712.
    fn mail() -> Value {
        json!({
            "types": {
                "EIP712Domain": [
                    { "name": "name", "type": "string" },
                    { "name": "version", "type": "string" },
                    { "name": "chainId", "type": "uint256" },
                    { "name": "verifyingContract", "type": "address" },
                ],
                "Person": [{ "name": "name", "type": "string" }, { "name": "wallet", "type": "address" }],
                "Mail": [
                    { "name": "from", "type": "Person" },
                    { "name": "to", "type": "Person" },
                    { "name": "contents", "type": "string" },
                ],
            },
            "primaryType": "Mail",
            "domain": {
                "name": "Ether Mail",
                "version": "1",
                "chainId": 1,
                "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
            },
            "message": {
                "from": { "name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826" },
                "to": { "name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB" },
                "contents": "Hello, Bob!",
            },
        })
    }

    fn hex_of(value: &Value) -> Result<String, String> {
        hash_in_time(&value.to_string()).map(alloy_primitives::hex::encode)
    }

    #[test]
    fn the_example_of_the_standard() {
        let expected = "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2";
        assert_eq!(hex_of(&mail()).as_deref(), Ok(expected));
        // As a string, and without the type of the domain.
        assert_eq!(hex_of(&Value::String(mail().to_string())).as_deref(), Ok(expected));
        let mut mail = mail();
        mail["types"].as_object_mut().unwrap().remove(DOMAIN);
        assert_eq!(hex_of(&mail).as_deref(), Ok(expected));
    }

    #[test]
    fn mismatch_is_refused() {
        let with = |kind: &str, value: Value| {
            let mut mail = mail();
            mail["types"]["Mail"][2]["type"] = kind.into();
            mail["message"]["contents"] = value;
            hex_of(&mail)
        };
        for (kind, value) in [
            ("uint8", json!(255)),
            ("int8", json!("-128")),
            ("int256", json!("-1")),
            ("uint256", json!("0xff")),
            ("bytes4", json!("0x01020304")),
            ("bytes", json!("0x")),
            ("bool", json!(true)),
            ("uint256[]", json!([1, 2])),
            ("uint256[2][]", json!([[1, 2], [3, 4]])),
        ] {
            with(kind, value).unwrap();
        }
        for (kind, value) in [
            ("uint8", json!(256)),
            ("uint8", json!(-1)),
            ("int8", json!(128)),
            ("uint7", json!(1)),
            ("uint264", json!(1)),
            ("bytes4", json!("0x0102")),
            ("bytes33", json!(format!("0x{}", "00".repeat(33)))),
            ("address", json!("0x12")),
            ("bool", json!("true")),
            ("Nobody", json!({})),
            ("uint256[2]", json!([1])),
            ("Person", json!(7)),
            ("string", json!(7)),
        ] {
            with(kind, value).unwrap_err();
        }
        let nested = format!("uint8{}", "[]".repeat(100));
        let value = (0..100).fold(json!(1), |value, _| json!([value]));
        assert!(with(&nested, value).unwrap_err().contains("too deep"));
        hash_in_time("{}").unwrap_err();
        hash_in_time("\"no\"").unwrap_err();
    }

    #[test]
    fn a_type_is_worked_out_once_however_many_are_of_it() {
        let mut mail = mail();
        mail["types"]["Nobody"] = json!([]);
        mail["types"]["Person"][0] = json!({ "name": "n".repeat(1 << 20), "type": "Nobody" });
        mail["types"]["Mail"][2]["type"] = "Person[]".into();
        let person = mail["message"]["from"].clone();
        mail["message"]["contents"] = vec![person; 5_000].into();
        // Once for each it would be hashed of 5 GB.
        hash(&mail.to_string(), Deadline::after(Duration::from_secs(30))).unwrap();
    }

    #[test]
    fn hashing_ends_with_its_time() {
        assert!(hash(&mail().to_string(), Deadline::after(Duration::ZERO)).unwrap_err().contains("too long"));
    }
}
