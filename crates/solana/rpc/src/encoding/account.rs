//! Accounts as JSON, in the encoding and with the slice of the data that a client requests.
//!
//! reads   accounts; for token accounts their mint
//! memory  one account's text
//! drops   data too long for base58: error -32600. Data without a parser falls back from `jsonParsed` to base64
//! source  `UiAccount` of `solana-account-decoder-client-types` for the shape; `solana-account-decoder` parses
//!
//! That decoder is the cluster's own, so nonces, tokens with all their extensions, votes, stakes, sysvars, lookup
//! tables and program accounts look the same here.

use hearth_ledger::Account;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};
use solana_account_decoder::parse_account_data::{AccountAdditionalDataV3, parse_account_data_v3};

use super::base64_text;
use super::token::{TokenView, is_token_program};
use crate::jsonrpc::Failure;
use crate::params::Options;

/// Maximum bytes of account data in base58, whose encoding is quadratic in the length.
const BASE58_DATA_MAX: usize = 128;

/// Encodings of account data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataEncoding {
    /// Base58 as a bare string: the default for clients that name no encoding.
    Binary,
    Base58,
    Base64,
    Base64Zstd,
    JsonParsed,
}

/// The encoding of an account, and the slice of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountFormat {
    encoding: DataEncoding,
    /// Offset and length of the slice.
    slice: Option<(u64, u64)>,
}

impl AccountFormat {
    /// Parses the options; `default` is the encoding if they name none.
    pub fn of(options: Options<'_>, default: &str) -> Result<Self, Failure> {
        let encoding = match options.text("encoding")?.unwrap_or(default) {
            "binary" => DataEncoding::Binary,
            "base58" => DataEncoding::Base58,
            "base64" => DataEncoding::Base64,
            "base64+zstd" => DataEncoding::Base64Zstd,
            "jsonParsed" => DataEncoding::JsonParsed,
            other => {
                let message = format!(
                    "encoding: {other:?} is none of \"base58\", \"base64\", \"base64+zstd\", \"jsonParsed\", \"binary\""
                );
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

    /// Whether the data is written in base58.
    pub fn is_base58(&self) -> bool {
        matches!(self.encoding, DataEncoding::Binary | DataEncoding::Base58)
    }

    /// Whether the data is parsed.
    pub fn is_parsed(&self) -> bool {
        self.encoding == DataEncoding::JsonParsed
    }

    /// The requested slice of the data.
    pub fn part<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let Some((offset, length)) = self.slice else { return data };
        let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(data.len());
        &data[bound(offset)..bound(offset.saturating_add(length))]
    }

    /// The account as JSON. `tokens` looks up the mints of token accounts.
    pub fn json(&self, key: &Pubkey, account: &Account, tokens: &mut TokenView<'_>) -> Result<Value, Failure> {
        if self.is_parsed()
            && let Some(parsed) = parsed(key, account, tokens)
        {
            return Ok(shaped(account, parsed));
        }
        let part = self.part(account.data());
        if self.is_base58() && part.len() > BASE58_DATA_MAX {
            return Err(Failure::invalid_request(format!(
                "Encoded binary (base 58) data should be less than {BASE58_DATA_MAX} bytes, please use Base64 encoding."
            )));
        }
        let data = match self.encoding {
            DataEncoding::Binary => json!(bs58::encode(part).into_string()),
            DataEncoding::Base58 => json!([bs58::encode(part).into_string(), "base58"]),
            DataEncoding::Base64 | DataEncoding::JsonParsed => json!([base64_text(part), "base64"]),
            DataEncoding::Base64Zstd => match zstd::encode_all(part, 0) {
                Ok(packed) => json!([base64_text(&packed), "base64+zstd"]),
                Err(_) => json!([base64_text(part), "base64"]),
            },
        };
        Ok(shaped(account, data))
    }

    /// The account together with its address, as JSON. `None` for a token account that should be parsed but cannot be,
    /// which the cluster leaves out of lists.
    pub fn keyed(&self, key: &Pubkey, account: &Account, tokens: &mut TokenView<'_>) -> Result<Option<Value>, Failure> {
        let shown = self.json(key, account, tokens)?;
        let left_out = self.is_parsed() && is_token_program(&account.owner) && !shown["data"].is_object();
        Ok((!left_out).then(|| json!({ "pubkey": &*encode_32(key), "account": shown })))
    }
}

fn shaped(account: &Account, data: Value) -> Value {
    json!({
        "data": data,
        "executable": account.executable,
        "lamports": account.lamports,
        "owner": &*encode_32(&account.owner),
        "rentEpoch": account.rent_epoch,
        "space": account.data().len(),
    })
}

/// The parsed data of the account, if a parser knows its program.
fn parsed(key: &Pubkey, account: &Account, tokens: &mut TokenView<'_>) -> Option<Value> {
    let additional = match is_token_program(&account.owner) {
        true => tokens
            .mint_of(account.data())
            .map(|mint| AccountAdditionalDataV3 { spl_token_additional_data: Some(mint.additional) }),
        false => None,
    };
    let parsed = parse_account_data_v3(&(*key).into(), &account.owner.into(), account.data(), additional).ok()?;
    serde_json::to_value(parsed).ok()
}
