//! Account filters of `getProgramAccounts` and similar methods.
//!
//! reads   the `filters` of a request; account data
//! memory  at most [`FILTERS_MAX`] filters of [`BYTES_MAX`] bytes
//! drops   filters that are too many, too long or malformed: error -32602
//! source  `filter.rs` of `solana-rpc-client-types` and of `solana-rpc` 4.2

use serde_json::Value;

use crate::encoding::token::is_token_account;
use crate::encoding::{base64_bytes, base64_text};
use crate::jsonrpc::{Failure, kind};
use crate::params::Options;

/// Maximum filters of one request.
pub const FILTERS_MAX: usize = 4;
/// Maximum bytes that a filter compares.
pub const BYTES_MAX: usize = 128;

/// Accepted encodings of a comparison's bytes. An array of numbers is "bytes", whatever the encoding says.
const ENCODINGS: &str = "\"base58\", \"base64\", \"bytes\"";

/// One condition on an account's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The data is this many bytes long.
    DataSize(u64),
    /// The data contains these bytes at this offset.
    Memcmp {
        /// Offset of the first byte.
        offset: usize,
        /// The bytes that must be there, decoded: at most [`BYTES_MAX`].
        bytes: Vec<u8>,
    },
    /// The data is that of a token account.
    TokenAccountState,
}

/// All filters of a request; an account must match every one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters(Vec<Filter>);

impl Filters {
    /// Parses the `filters` of a request's options.
    pub fn of(options: Options<'_>) -> Result<Self, Failure> {
        let Some(values) = options.list("filters")? else { return Ok(Self::default()) };
        if values.len() > FILTERS_MAX {
            return Err(Failure::refused_params(format!("Too many filters provided; max {FILTERS_MAX}")));
        }
        values.iter().enumerate().map(|(index, value)| read(index, value)).collect::<Result<_, _>>().map(Self)
    }

    /// These filters and `more`.
    pub fn and(mut self, more: impl IntoIterator<Item = Filter>) -> Self {
        self.0.extend(more);
        self
    }

    /// Whether the data matches every filter.
    pub fn allow(&self, data: &[u8]) -> bool {
        self.0.iter().all(|filter| match filter {
            Filter::DataSize(size) => data.len() as u64 == *size,
            Filter::Memcmp { offset, bytes } => data.get(*offset..).is_some_and(|rest| rest.starts_with(bytes)),
            Filter::TokenAccountState => is_token_account(data),
        })
    }
}

fn read(index: usize, value: &Value) -> Result<Filter, Failure> {
    let place = format!("filters, element {index}");
    let wrong = |what: &str| Failure::invalid_params(format!("{place}: {what}"));
    if value.as_str() == Some("tokenAccountState") {
        return Ok(Filter::TokenAccountState);
    }
    let one_key = value.as_object().filter(|map| map.len() == 1).and_then(|map| map.iter().next());
    match one_key {
        Some((key, size)) if key == "dataSize" => {
            size.as_u64().map(Filter::DataSize).ok_or_else(|| wrong("dataSize must be a whole number"))
        }
        Some((key, Value::Object(map))) if key == "memcmp" => memcmp(Options::from(map), &place),
        Some((key, Value::Null)) if key == "tokenAccountState" => Ok(Filter::TokenAccountState),
        _ => Err(wrong(&format!(
            "expected one of {{\"dataSize\": n}}, {{\"memcmp\": {{...}}}}, \"tokenAccountState\"; found {}",
            kind(value)
        ))),
    }
}

fn memcmp(options: Options<'_>, place: &str) -> Result<Filter, Failure> {
    let wrong = |what: String| Failure::invalid_params(format!("{place}: memcmp: {what}"));
    let named = |failure: Failure| failure.within(&format!("{place}: memcmp"));
    let offset = options.number("offset").map_err(named)?.and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.ok_or_else(|| wrong("needs an offset".into()))?;
    let encoding = options.text("encoding").map_err(named)?.unwrap_or("base58");
    let bytes = match options.get("bytes") {
        Some(Value::String(text)) => {
            // Longer texts are not decoded: base58 decoding is quadratic in the length.
            if text.len() > base64_text(&[0; BYTES_MAX]).len().max(175) {
                return Err(wrong(format!("the bytes are too many, at most {BYTES_MAX}")));
            }
            match encoding {
                "base58" | "bytes" => {
                    bs58::decode(text).into_vec().map_err(|error| wrong(format!("not base58: {error}")))?
                }
                "base64" => base64_bytes(text, &format!("{place}: memcmp"))?,
                other => return Err(wrong(format!("encoding: {other:?} is none of {ENCODINGS}"))),
            }
        }
        Some(Value::Array(values)) => {
            let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
            let bytes: Option<Vec<u8>> = values.iter().map(byte).collect();
            bytes.ok_or_else(|| wrong("bytes: expected whole numbers of 0 to 255".into()))?
        }
        other => {
            let found = other.map_or("nothing".into(), kind);
            return Err(wrong(format!("bytes: expected a string or an array of numbers, found {found}")));
        }
    };
    if bytes.len() > BYTES_MAX {
        return Err(wrong(format!("the bytes are too many, at most {BYTES_MAX}")));
    }
    Ok(Filter::Memcmp { offset, bytes })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filters(value: Value) -> Result<Filters, Failure> {
        let object = json!({ "filters": value });
        Filters::of(Options::from(object.as_object().unwrap()))
    }

    #[test]
    fn each_condition_must_hold() {
        let found = filters(json!([{ "dataSize": 4 }, { "memcmp": { "offset": 1, "bytes": [2, 3] } }])).unwrap();
        assert!(found.allow(&[1, 2, 3, 4]));
        assert!(!found.allow(&[1, 2, 3]) && !found.allow(&[1, 2, 4, 4]));
        let texts = ["base58", "base64", "bytes"].map(|encoding| {
            let bytes = if encoding == "base64" { "AgM=".to_owned() } else { bs58::encode([2, 3]).into_string() };
            filters(json!([{ "memcmp": { "offset": 1, "bytes": bytes, "encoding": encoding } }])).unwrap()
        });
        assert!(texts.iter().all(|found| found.allow(&[0, 2, 3]) && !found.allow(&[2, 3])));
        // At the end of the data, and beyond it.
        let end = filters(json!([{ "memcmp": { "offset": 2, "bytes": "" } }])).unwrap();
        assert!(end.allow(&[0, 0]) && !end.allow(&[0]));
        let far = filters(json!([{ "memcmp": { "offset": u64::MAX, "bytes": "" } }])).unwrap();
        assert!(!far.allow(&[0; 64]));
        assert!(filters(Value::Null).unwrap().allow(&[]));
    }

    #[test]
    fn token_accounts_are_known_by_their_state() {
        let found = filters(json!(["tokenAccountState"])).unwrap();
        let mut data = [0; 165];
        assert!(!found.allow(&data));
        data[108] = 1;
        assert!(found.allow(&data) && !found.allow(&data[..164]));
    }

    #[test]
    fn a_refusal_names_the_place_and_all_that_could_stand_there() {
        let said = |memcmp: Value| {
            let filters = filters(json!([{ "dataSize": 1 }, { "memcmp": memcmp }])).unwrap_err();
            filters.message().to_owned()
        };
        for (memcmp, words) in [
            (
                json!({ "offset": 0, "bytes": "1", "encoding": "hex" }),
                "encoding: \"hex\" is none of \"base58\", \"base64\", \"bytes\"",
            ),
            (json!({ "offset": 0, "bytes": "1", "encoding": 5 }), "encoding: expected a string, found 5"),
            (json!({ "offset": -1, "bytes": "1" }), "offset: expected a whole number, found -1"),
            (json!({ "bytes": "1" }), "needs an offset"),
            (json!({ "offset": 0, "bytes": 7 }), "bytes: expected a string or an array of numbers, found 7"),
            (json!({ "offset": 0, "bytes": [256] }), "bytes: expected whole numbers of 0 to 255"),
        ] {
            let wanted = format!("Invalid params: filters, element 1: memcmp: {words}");
            assert_eq!(said(memcmp), wanted);
        }
    }

    #[test]
    fn wrong_filters_are_refused() {
        let long = bs58::encode([1; 129]).into_string();
        let cases = [
            json!(5),
            json!([5]),
            json!(["nonsense"]),
            json!([{}]),
            json!([{ "dataSize": -1 }]),
            json!([{ "dataSize": 1, "memcmp": {} }]),
            json!([{ "memcmp": { "bytes": "1" } }]),
            json!([{ "memcmp": { "offset": 0 } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": 7 } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": [256] } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": "0OIl" } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": "!", "encoding": "base64" } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": "1", "encoding": "hex" } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": long } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": vec![0; 129] } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": "1".repeat(50_000) } }]),
            json!(vec![json!({ "dataSize": 1 }); 5]),
        ];
        for case in cases {
            let error = filters(case.clone()).unwrap_err();
            assert_eq!(error.code(), -32602, "{case}");
        }
    }
}
