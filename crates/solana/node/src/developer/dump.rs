//! Accounts and programs in files, as dumped by the Solana tools.
//!
//! reads   the JSON of `solana account --output json`, or an ELF file
//! writes  an account, or a program's bytes
//! memory  the file, 64 MiB at most
//! drops   nothing: an error names the file
//! source  `CliAccount` of `solana-cli-output` 4.2, `UiAccount` of `solana-account-decoder-client-types`

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hearth_ledger::Account;
use hearth_wire::Pubkey;
use hearth_wire::base58::decode_32;
use serde_json::Value;

const FILE_BYTES_MAX: u64 = 64 << 20;
const ELF: &[u8] = b"\x7fELF";
/// Files are also searched here, as by `solana-test-validator`.
const FIXTURES: &str = "tests/fixtures";

/// The contents of a dump.
#[derive(Debug, PartialEq)]
pub enum Dump {
    /// An account and its address.
    Account(Pubkey, Account),
    /// A program's ELF file.
    Program(Vec<u8>),
}

/// Reads a dump: the JSON of `solana account --output json`, or an ELF file.
pub fn read(path: &Path) -> Result<Dump, String> {
    let bytes = bytes_of(path)?;
    if bytes.starts_with(ELF) {
        return Ok(Dump::Program(bytes));
    }
    let wrong = |why: String| {
        format!("{} is neither the JSON of `solana account --output json` nor an ELF file: {why}", path.display())
    };
    let json: Value = serde_json::from_slice(&bytes).map_err(|why| wrong(why.to_string()))?;
    let key = json["pubkey"].as_str().ok_or("no `pubkey`").and_then(|text| decode_32(text).map_err(|_| "its `pubkey`"));
    let key = key.map_err(|why| wrong(why.to_owned()))?;
    Ok(Dump::Account(key, account(&json["account"]).map_err(wrong)?))
}

/// Reads a file that must be a program.
pub fn read_program(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = bytes_of(path)?;
    match bytes.starts_with(ELF) {
        true => Ok(bytes),
        false => Err(format!(
            "{} is not a program: it is not an ELF file. `cargo build-sbf` makes one, target/deploy/NAME.so",
            path.display()
        )),
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let place = found(path);
    let cannot = |why: std::io::Error| format!("cannot read {}: {why}", path.display());
    let size = std::fs::metadata(&place).map_err(cannot)?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("{} is longer than an account can be: {size} bytes", path.display()));
    }
    std::fs::read(&place).map_err(cannot)
}

fn found(path: &Path) -> PathBuf {
    let fixture = Path::new(FIXTURES).join(path);
    if !path.exists() && fixture.exists() { fixture } else { path.to_owned() }
}

/// Parses an account from the JSON of a file or an RPC response.
pub fn account(json: &Value) -> Result<Account, String> {
    let lamports = json["lamports"].as_u64().filter(|n| *n > 0).ok_or("no `lamports`, or none in the account")?;
    let owner = json["owner"].as_str().and_then(|text| decode_32(text).ok()).ok_or("no `owner` that is an address")?;
    let (text, encoding) = match &json["data"] {
        Value::String(text) => (text.as_str(), "base58"),
        Value::Array(both) => match both.as_slice() {
            [Value::String(text), Value::String(encoding)] => (text.as_str(), encoding.as_str()),
            _ => return Err("`data` is not a text and its encoding".into()),
        },
        _ => return Err("no `data` as base64: dump it with `solana account ADDRESS --output json`".into()),
    };
    let data = match encoding {
        "base64" => BASE64_STANDARD.decode(text).map_err(|why| format!("`data`: {why}"))?,
        "base58" => bs58::decode(text).into_vec().map_err(|why| format!("`data`: {why}"))?,
        other => return Err(format!("`data` is {other}; base64 is read")),
    };
    if let Some(space) = json["space"].as_u64().filter(|space| *space != data.len() as u64) {
        return Err(format!("`space` is {space}, `data` has {} bytes: it was cut or changed", data.len()));
    }
    let executable = json["executable"].as_bool().ok_or("no `executable`")?;
    let mut account = Account::with_data(lamports, owner, &data);
    account.executable = executable;
    Ok(account)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OWNER: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

    #[test]
    fn accounts_come_as_the_tools_write_them() {
        let with = |data: Value| {
            account(
                &json!({ "lamports": 5, "data": data, "owner": OWNER, "executable": true, "rentEpoch": 1.8e19, "space": 3 }),
            )
        };
        let mut expected = Account::with_data(5, decode_32(OWNER).unwrap(), b"abc");
        expected.executable = true;
        for data in [json!(["YWJj", "base64"]), json!(["ZiCa", "base58"]), json!("ZiCa")] {
            assert_eq!(with(data), Ok(expected.clone()));
        }
        for (data, why) in [
            (json!(["YW!", "base64"]), "`data`: "),
            (json!(["YWJj", "base64+zstd"]), "base64+zstd"),
            (json!({ "parsed": {} }), "solana account"),
            (json!(["YWJj"]), "encoding"),
            (json!(["YWI=", "base64"]), "`space` is 3, `data` has 2 bytes"),
        ] {
            let error = with(data).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        for missing in ["lamports", "owner", "executable", "data"] {
            let mut whole = json!({ "lamports": 5, "data": ["", "base64"], "owner": OWNER, "executable": false });
            whole.as_object_mut().unwrap().remove(missing);
            assert!(account(&whole).unwrap_err().contains(missing));
        }
    }
}
