//! Transactions and accounts in the encodings that clients use.
//!
//! reads   base58 or base64 texts; accounts
//! writes  wire bytes; the JSON of accounts and token amounts
//! memory  one transaction, or one account's text
//! drops   texts that are too long or malformed: error -32602; accounts too large for the encoding: -32600
//! source  `decode_and_deserialize` of `solana-rpc` 4.2

pub mod account;
pub mod instructions;
pub mod token;
pub mod transaction;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hearth_wire::{PACKET_DATA_SIZE, Txn};

use crate::jsonrpc::Failure;
use crate::params::Options;

/// Maximum base58 length of a transaction of 1,232 bytes.
const BASE58_TEXT_MAX: usize = 1_683;
/// Maximum base64 length of the same.
const BASE64_TEXT_MAX: usize = PACKET_DATA_SIZE.div_ceil(3) * 4;
const _: () = assert!(BASE64_TEXT_MAX == 1_644);

/// Encodes bytes in base64.
pub fn base64_text(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Decodes base64; `what` names the text in the error.
pub fn base64_bytes(text: &str, what: &str) -> Result<Vec<u8>, Failure> {
    BASE64.decode(text).map_err(|error| Failure::invalid_params(format!("{what}: not base64: {error}")))
}

/// Decodes a transaction's wire bytes in the encoding that the options name (base58 by default).
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

/// Parses a transaction, or fails with an invalid-params error.
pub fn transaction(bytes: &[u8]) -> Result<Txn<'_>, Failure> {
    Txn::parse(bytes).map_err(|error| Failure::invalid_params(format!("parameter 1: not a transaction: {error}")))
}
