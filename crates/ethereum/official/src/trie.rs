//! Trie tests: the root of what is put into a trie.
//!
//! source  `TrieTests` of ethereum/tests

use std::collections::BTreeMap;

use alloy_primitives::{B256, keccak256};
use serde_json::Value;

use crate::files::Keys;
use crate::hex;
use crate::score::Ending;

/// Computes the root of a case's trie, and compares it with the wanted one.
pub fn run(keys: Keys, case: &Value) -> Ending {
    match keys {
        Keys::Hashed => hashed(case).into(),
        Keys::Plain => Ending::Unrun("tries here have only hashed keys of 32 bytes"),
        Keys::Neighbours => Ending::Unrun("tries here have no query for a key's neighbours"),
    }
}

fn hashed(case: &Value) -> Result<(), String> {
    let mut values: BTreeMap<[u8; 32], Vec<u8>> = BTreeMap::new();
    let text = |json: &Value| json.as_str().map(str::to_owned);
    let pairs: Vec<(String, Option<String>)> = match case.get("in") {
        Some(Value::Object(pairs)) => pairs.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
        Some(Value::Array(pairs)) => {
            let pair = |pair: &Value| Some((text(pair.get(0)?)?, pair.get(1).and_then(text)));
            pairs.iter().map(|one| pair(one).ok_or("a pair is none")).collect::<Result<_, _>>()?
        }
        _ => return Err("it has no `in`".into()),
    };
    for (key, value) in pairs {
        let key = keccak256(data(&key)?).0;
        match value {
            Some(value) => values.insert(key, data(&value)?),
            None => values.remove(&key),
        };
    }
    let (wanted, root) = (hex::word(hex::text(case, "root")?)?, hearth_evm::trie_root_of(&values));
    if root == wanted { Ok(()) } else { Err(differs(root, wanted)) }
}

fn differs(root: B256, wanted: B256) -> String {
    format!("the root is {root}, not {wanted}")
}

/// Bytes in hexadecimal, or of a text.
fn data(text: &str) -> Result<Vec<u8>, String> {
    if text.starts_with("0x") { hex::bytes(text).map(|bytes| bytes.to_vec()) } else { Ok(text.as_bytes().to_vec()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_root_is_compared() {
        let empty = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";
        let case = |root: &str| json!({ "in": [["a", "b"], ["a", null]], "root": root });
        assert_eq!(run(Keys::Hashed, &case(empty)), Ending::Passed);
        assert!(matches!(run(Keys::Hashed, &case("0x07")), Ending::Failed(_)));
        assert!(matches!(run(Keys::Plain, &case(empty)), Ending::Unrun(_)));
    }
}
