//! Transactions and accounts as clients write and read them.
//!
//! reads   base58 or base64 texts; accounts
//! writes  wire bytes; the JSON of accounts
//! memory  one transaction, or one account's text
//! drops   texts that are too long or wrong: error -32602; accounts too big for the encoding asked for: -32600
//! source  `UiAccount`, `UiAccountEncoding` of `solana-account-decoder`, `decode_and_deserialize` of `solana-rpc` 4.2

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hearth_ledger::Account;
use hearth_wire::base58::encode_32;
use hearth_wire::{PACKET_DATA_SIZE, Txn};
use serde_json::{Value, json};

use crate::jsonrpc::Failure;
use crate::params::Options;

/// Characters of a transaction of 1,232 bytes in base58, at most.
const BASE58_TEXT_MAX: usize = 1_683;
/// And in base64.
const BASE64_TEXT_MAX: usize = PACKET_DATA_SIZE.div_ceil(3) * 4;
const _: () = assert!(BASE64_TEXT_MAX == 1_644);

/// Bytes of account data that are given in base58, at most: the encoding takes the square of the size in time.
const BASE58_DATA_MAX: usize = 128;

/// The bytes of base64, named by `what` when they are none.
pub fn base64_bytes(text: &str, what: &str) -> Result<Vec<u8>, Failure> {
    BASE64.decode(text).map_err(|error| Failure::invalid_params(format!("{what}: not base64: {error}")))
}

/// The wire bytes of a transaction, in the encoding that the options name (base58 by default).
pub fn transaction_bytes(text: &str, options: Options<'_>) -> Result<Vec<u8>, Failure> {
    let what = "parameter 1 (transaction)";
    let encoding = options.text("encoding")?.unwrap_or("base58");
    let text_max = match encoding {
        "base58" => BASE58_TEXT_MAX,
        "base64" => BASE64_TEXT_MAX,
        other => {
            let message = format!("encoding: {other:?} is none of \"base58\", \"base64\"");
            return Err(Failure::invalid_params(message));
        }
    };
    if text.len() > text_max {
        let message = format!("{what}: {} characters; a transaction has at most {text_max} in {encoding}", text.len());
        return Err(Failure::invalid_params(message));
    }
    if encoding == "base64" {
        return base64_bytes(text, what);
    }
    let bytes = bs58::decode(text).into_vec();
    bytes.map_err(|error| Failure::invalid_params(format!("{what}: not base58: {error}; is it base64?")))
}

/// Parses a transaction.
pub fn transaction(bytes: &[u8]) -> Result<Txn<'_>, Failure> {
    Txn::parse(bytes).map_err(|error| Failure::invalid_params(format!("parameter 1: not a transaction: {error}")))
}

/// How account data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataEncoding {
    /// Base58 as a bare text: what clients get that name no encoding.
    Binary,
    Base58,
    Base64,
}

/// How an account is written: its encoding, and which part of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountFormat {
    encoding: DataEncoding,
    /// Offset and length.
    slice: Option<(u64, u64)>,
}

impl AccountFormat {
    /// What the options ask for; `default` is the encoding of those that name none.
    pub fn of(options: Options<'_>, default: &str) -> Result<Self, Failure> {
        let encoding = match options.text("encoding")?.unwrap_or(default) {
            "binary" => DataEncoding::Binary,
            "base58" => DataEncoding::Base58,
            // What no parser knows comes as base64, and this node has no parsers.
            "base64" | "jsonParsed" => DataEncoding::Base64,
            "base64+zstd" => {
                let message = "encoding: \"base64+zstd\" is not offered by this node; use \"base64\"";
                return Err(Failure::invalid_params(message));
            }
            other => {
                let message =
                    format!("encoding: {other:?} is none of \"base58\", \"base64\", \"jsonParsed\", \"binary\"");
                return Err(Failure::invalid_params(message));
            }
        };
        let slice = match options.options("dataSlice")? {
            None => None,
            Some(slice) => match (slice.number("offset")?, slice.number("length")?) {
                (Some(offset), Some(length)) => Some((offset, length)),
                _ => return Err(Failure::invalid_params("dataSlice: needs an offset and a length")),
            },
        };
        Ok(Self { encoding, slice })
    }

    /// The part of the data that is asked for.
    pub fn part<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let Some((offset, length)) = self.slice else { return data };
        let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(data.len());
        &data[bound(offset)..bound(offset.saturating_add(length))]
    }

    /// The account's JSON.
    pub fn json(&self, account: &Account) -> Result<Value, Failure> {
        let part = self.part(account.data());
        if self.encoding != DataEncoding::Base64 && part.len() > BASE58_DATA_MAX {
            return Err(Failure::invalid_request(format!(
                "{} bytes of account data are too many for base58 (at most {BASE58_DATA_MAX}): use base64",
                part.len()
            )));
        }
        let data = match self.encoding {
            DataEncoding::Binary => json!(bs58::encode(part).into_string()),
            DataEncoding::Base58 => json!([bs58::encode(part).into_string(), "base58"]),
            DataEncoding::Base64 => json!([BASE64.encode(part), "base64"]),
        };
        Ok(json!({
            "data": data,
            "executable": account.executable,
            "lamports": account.lamports,
            "owner": &*encode_32(&account.owner),
            "rentEpoch": account.rent_epoch,
            "space": account.data().len(),
        }))
    }
}
