//! RLP tests: bytes that are RLP, bytes that are not, and what values encode to.
//!
//! source  `RLPTests` of ethereum/tests

use alloy_primitives::U512;
use alloy_rlp::Encodable;
use hearth_evm::import::check_rlp;
use serde_json::Value;

use crate::hex;
use crate::score::Ending;

/// Decodes the bytes of a case, or encodes its value and compares.
pub fn run(case: &Value) -> Ending {
    check(case).into()
}

fn check(case: &Value) -> Result<(), String> {
    let bytes = hex::bytes(hex::text(case, "out")?)?;
    let checked = check_rlp(&bytes, 0);
    let input = case.get("in").ok_or("it has no `in`")?;
    match (input.as_str(), checked) {
        (Some("INVALID"), Ok(())) => Err("it is taken for RLP".into()),
        (Some("INVALID"), Err(_)) | (Some("VALID"), Ok(())) => Ok(()),
        (_, Err(fault)) => Err(format!("it is RLP: {fault}")),
        (_, Ok(())) => {
            let mut encoded = Vec::new();
            encode(input, &mut encoded)?;
            if encoded == bytes { Ok(()) } else { Err("it encodes to other bytes".into()) }
        }
    }
}

fn encode(value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    match value {
        Value::Array(items) => {
            let mut payload = Vec::new();
            items.iter().try_for_each(|item| encode(item, &mut payload))?;
            alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(out);
            out.extend_from_slice(&payload);
        }
        Value::String(text) => match text.strip_prefix('#') {
            // Some are longer than 256 bits.
            Some(number) => {
                let number = U512::from_str_radix(number, 10).map_err(|error| error.to_string())?;
                number.to_be_bytes_trimmed_vec().as_slice().encode(out);
            }
            None => text.as_bytes().encode(out),
        },
        Value::Number(number) => number.as_u64().ok_or("a number of more than 64 bits")?.encode(out),
        other => return Err(format!("{other} is not a value of RLP")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_and_bytes_are_compared() {
        let run = |input: Value, out: &str| run(&json!({ "in": input, "out": out }));
        assert_eq!(run(json!(["cat", 5, "#1024", []]), "0xc98363617405820400c0"), Ending::Passed);
        assert!(matches!(run(json!("dog"), "0x83646f68"), Ending::Failed(_)));
        assert_eq!([run(json!("VALID"), "0xc0"), run(json!("INVALID"), "0xc1")], [Ending::Passed, Ending::Passed]);
        assert!(matches!(run(json!("INVALID"), "0xc0"), Ending::Failed(_)));
        assert!(matches!(run(json!("VALID"), "0xc1"), Ending::Failed(_)));
    }
}
