//! Files of accounts and of nodes with stake, as `solana-genesis` reads them.
//!
//! reads   JSON, or the part of YAML that such files use: blocks by indentation, lists of `-`, plain and quoted texts
//! writes  records: a name, and texts by key
//! memory  the file, 64 MiB at most
//! drops   nothing: an error names the line or the key

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hearth_ledger::Account;
use hearth_wire::Pubkey;
use hearth_wire::base58::decode_32;
use serde_json::Value;

const FILE_BYTES_MAX: u64 = 64 << 20;
/// The key under which nodes with stake are listed.
const VALIDATORS: &str = "validator_accounts";
/// How a file says that an account has no data.
const NO_DATA: &str = "~";

/// A node with stake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StakedNode {
    /// The addresses of the identity, the vote account and the stake account.
    pub keys: [Pubkey; 3],
    /// Lamports of the identity.
    pub lamports: u64,
    /// Lamports of the stake account.
    pub stake_lamports: u64,
}

/// A record of a file: its name, which is empty in a list, and its values.
#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    name: String,
    values: BTreeMap<String, String>,
}

impl Record {
    fn text(&self, key: &str) -> Result<&str, String> {
        self.values.get(key).map(String::as_str).ok_or_else(|| format!("{}has no `{key}`", self.place()))
    }

    fn number(&self, key: &str) -> Result<u64, String> {
        let text = self.text(key)?;
        text.parse().map_err(|_| format!("{}`{key}` is `{text}`, no whole number", self.place()))
    }

    fn address(&self, key: &str) -> Result<Pubkey, String> {
        let text = self.text(key)?;
        decode_32(text).map_err(|_| format!("{}`{key}` is `{text}`, no address", self.place()))
    }

    fn place(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!("{}: ", self.name) }
    }
}

/// Reads a file of accounts.
pub fn accounts(path: &Path) -> Result<Vec<(Pubkey, Account)>, String> {
    records(&text(path)?)?.iter().map(account).collect()
}

/// Reads a file of nodes with stake.
pub fn validators(path: &Path) -> Result<Vec<StakedNode>, String> {
    records(&text(path)?)?.iter().map(staked).collect()
}

fn text(path: &Path) -> Result<String, String> {
    let cannot = |why: std::io::Error| format!("cannot read {}: {why}", path.display());
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(cannot)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("{} is longer than {FILE_BYTES_MAX} bytes", path.display())),
        false => Ok(text),
    }
}

fn account(record: &Record) -> Result<(Pubkey, Account), String> {
    let key = decode_32(&record.name).map_err(|_| format!("`{}` is not an address", record.name))?;
    let data = match record.text("data")? {
        NO_DATA | "" => vec![],
        text => BASE64_STANDARD.decode(text).map_err(|why| format!("{}`data`: {why}", record.place()))?,
    };
    let executable = match record.text("executable")? {
        "true" => true,
        "false" => false,
        other => return Err(format!("{}`executable` is `{other}`, neither true nor false", record.place())),
    };
    let mut account = Account::with_data(record.number("balance")?, record.address("owner")?, &data);
    (account.executable, account.rent_epoch) = (executable, 0);
    Ok((key, account))
}

fn staked(record: &Record) -> Result<StakedNode, String> {
    if record.values.get("bls_pubkey").is_some_and(|key| key != NO_DATA && key != "null") {
        return Err("`bls_pubkey` is of a consensus that this program does not know".to_owned());
    }
    let keys = ["identity_account", "vote_account", "stake_account"];
    let [identity, vote, stake] = keys.map(|key| record.address(key));
    Ok(StakedNode {
        keys: [identity?, vote?, stake?],
        lamports: record.number("balance_lamports")?,
        stake_lamports: record.number("stake_lamports")?,
    })
}

/// The records of a file.
fn records(text: &str) -> Result<Vec<Record>, String> {
    if text.trim_start().starts_with('{') {
        let json: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
        return of_json(&json);
    }
    let mut records: Vec<Record> = vec![];
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.split_once(" #").map_or(line, |(line, _)| line).trim_end();
        let inner = line.trim_start();
        if inner.is_empty() || inner.starts_with('#') || inner == "---" {
            continue;
        }
        let (is_item, inner) = inner.strip_prefix("- ").map_or((false, inner), |inner| (true, inner.trim_start()));
        let (key, value) = pair(inner).ok_or_else(|| format!("line {number} is not a `key: value`"))?;
        if is_item {
            records.push(Record::default());
        } else if value.is_empty() && line == inner {
            records.push(Record { name: key, ..Record::default() });
            continue;
        }
        let record = records.last_mut().ok_or_else(|| format!("line {number} is in no account"))?;
        if let Some(twice) = record.values.insert(key, value) {
            return Err(format!("line {number} sets again what is `{twice}` already"));
        }
    }
    // The name of a list has no values of its own.
    records.retain(|record| record.name != VALIDATORS || !record.values.is_empty());
    Ok(records)
}

/// Splits `key: value`, either of which may be quoted.
fn pair(line: &str) -> Option<(String, String)> {
    let (key, value) = line.strip_suffix(':').map(|key| (key, "")).or_else(|| line.split_once(": "))?;
    let bare = |text: &str| {
        let text = text.trim();
        let quoted = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
        quoted.unwrap_or(text).to_owned()
    };
    Some((bare(key), bare(value)))
}

fn of_json(json: &Value) -> Result<Vec<Record>, String> {
    let record = |name: &str, value: &Value| -> Result<Record, String> {
        let values = value.as_object().ok_or_else(|| format!("`{name}` is not an object"))?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values = values.iter().map(|(key, value)| (key.clone(), text(value))).collect();
        Ok(Record { name: name.to_owned(), values })
    };
    if let Some(list) = json.get(VALIDATORS) {
        let list = list.as_array().ok_or_else(|| format!("`{VALIDATORS}` is not a list"))?;
        return list.iter().map(|value| record("", value)).collect();
    }
    let records = json.as_object().into_iter().flatten();
    records.map(|(name, value)| record(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "11111111111111111111111111111112";
    const B: &str = "11111111111111111111111111111113";
    const OWNER: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn accounts_are_read_from_yaml_and_json() {
        let yaml = format!(
            "---\n# two accounts\n{A}:\n  balance: 5\n  owner: {OWNER}\n  data: YWJj # abc\n  executable: true\n\
             \"{B}\":\n    executable: false\n    data: \"~\"\n    owner: '{A}'\n    balance: 7\n"
        );
        let json = format!(
            r#"{{"{A}":{{"balance":5,"owner":"{OWNER}","data":"YWJj","executable":true}},
                "{B}":{{"balance":7,"owner":"{A}","data":"~","executable":false}}}}"#
        );
        for text in [yaml, json] {
            let accounts = accounts(file(&text).path()).unwrap();
            let [(a, first), (b, second)] = &accounts[..] else { panic!("{accounts:?}") };
            assert_eq!((a[31], first.lamports, first.data(), first.executable), (1, 5, &b"abc"[..], true));
            assert_eq!((b[31], second.lamports, second.data(), second.owner[31]), (2, 7, &b""[..], 1));
            assert_eq!((first.owner, first.rent_epoch), (decode_32(OWNER).unwrap(), 0));
        }
    }

    #[test]
    fn nodes_are_read_from_yaml_and_json() {
        let yaml = format!(
            "validator_accounts:\n- balance_lamports: 3\n  stake_lamports: 4\n  identity_account: {A}\n  \
             vote_account: {B}\n  stake_account: {OWNER}\n- balance_lamports: 5\n  stake_lamports: 6\n  \
             identity_account: {B}\n  vote_account: {A}\n  stake_account: {OWNER}\n  bls_pubkey: ~\n"
        );
        let json = format!(
            r#"{{"validator_accounts":[
                {{"balance_lamports":3,"stake_lamports":4,"identity_account":"{A}","vote_account":"{B}",
                  "stake_account":"{OWNER}","bls_pubkey":null}},
                {{"balance_lamports":5,"stake_lamports":6,"identity_account":"{B}","vote_account":"{A}",
                  "stake_account":"{OWNER}"}}]}}"#
        );
        for text in [yaml, json] {
            let nodes = validators(file(&text).path()).unwrap();
            assert_eq!(nodes.len(), 2);
            assert_eq!((nodes[0].lamports, nodes[0].stake_lamports, nodes[1].lamports), (3, 4, 5));
            assert_eq!(nodes[0].keys.map(|key| key[31]), [1, 2, decode_32(OWNER).unwrap()[31]]);
        }
    }

    #[test]
    fn mistake_is_named() {
        for (text, why) in [
            (format!("{A}:\n  balance: x\n  owner: {A}\n  data: ~\n  executable: false\n"), "no whole number"),
            (format!("{A}:\n  balance: 1\n  data: ~\n  executable: false\n"), "has no `owner`"),
            (format!("{A}:\n  balance: 1\n  owner: {A}\n  data: '!'\n  executable: false\n"), "`data`"),
            (format!("{A}:\n  balance: 1\n  owner: {A}\n  data: ~\n  executable: 1\n"), "neither true nor false"),
            (format!("{A}:\n  balance: 1\n  balance: 2\n"), "sets again"),
            ("  balance: 1\n".to_owned(), "line 1 is in no account"),
            (format!("{A}:\n  [1]\n"), "line 2 is no"),
            ("nobody:\n  balance: 1\n".to_owned(), "not an address"),
            ("{\"a\":1}".to_owned(), "not an object"),
            ("{".to_owned(), "EOF"),
        ] {
            let error = accounts(file(&text).path()).unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
        }
        assert!(accounts(Path::new("/nonexistent")).unwrap_err().contains("cannot read /nonexistent"));
    }
}
