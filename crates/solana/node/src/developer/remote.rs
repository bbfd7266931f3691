//! A client of another node's RPC: its slot, and accounts to clone.
//!
//! reads   responses over HTTP
//! writes  one request each
//! memory  a response, 64 MiB at most
//! drops   nothing: errors are one line

use std::time::Duration;

use hearth_ledger::Account;
use hearth_rpc_client::http::Patience;
use hearth_rpc_client::{Options, RpcClient, RpcError};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::dump;

const PATIENCE: Duration = Duration::from_secs(30);
/// Accounts that a node answers for in one request.
const ACCOUNTS_MAX: usize = 100;

/// The commitment at which the other node is read: a program that a tool has just deployed has reached it by the time
/// the tool exits.
pub const COMMITMENT: &str = "confirmed";
/// The same, for messages.
pub const AS_OF: &str = "as of the newest confirmed block";

/// The slot of the node.
pub fn slot(url: &str) -> Result<u64, String> {
    let answer = call(url, "getSlot", &json!([{ "commitment": COMMITMENT }]))?;
    answer.as_u64().ok_or_else(|| format!("{url} answers getSlot with {answer}"))
}

/// An account of the node, if it has it.
pub fn account(url: &str, key: &Pubkey) -> Result<Option<Account>, String> {
    let answer =
        call(url, "getAccountInfo", &json!([&*encode_32(key), { "encoding": "base64", "commitment": COMMITMENT }]))?;
    match answer.get("value") {
        Some(Value::Null) => Ok(None),
        Some(account) => dump::account(account).map(Some).map_err(|why| format!("the answer of {url}: {why}")),
        None => Err(format!("{url} answers getAccountInfo without a value")),
    }
}

/// Accounts of the node, `None` for those that it lacks.
pub fn accounts(url: &str, keys: &[Pubkey]) -> Result<Vec<Option<Account>>, String> {
    let mut accounts = Vec::with_capacity(keys.len());
    for keys in keys.chunks(ACCOUNTS_MAX) {
        let texts: Vec<String> = keys.iter().map(|key| encode_32(key).to_string()).collect();
        let params = json!([texts, { "encoding": "base64", "commitment": COMMITMENT }]);
        let answer = call(url, "getMultipleAccounts", &params)?;
        let found = answer["value"].as_array().filter(|found| found.len() == keys.len());
        for account in found.ok_or_else(|| format!("{url} answers getMultipleAccounts without the accounts"))? {
            accounts.push(match account {
                Value::Null => None,
                account => Some(dump::account(account).map_err(|why| format!("the answer of {url}: {why}"))?),
            });
        }
    }
    Ok(accounts)
}

fn call(url: &str, method: &str, params: &Value) -> Result<Value, String> {
    let place = place(url)?;
    let options = Options { patience: Patience::Step(PATIENCE), ..Options::default() };
    let node = RpcClient::new(place, &options).map_err(|_| no_place(url))?;
    node.call(method, params).map_err(|why| match why {
        RpcError::Refused { .. } => format!("{url} refuses {why}"),
        RpcError::Garbled { .. } => format!("{url} does not answer with JSON-RPC: {}", why.reason()),
        why => {
            let named = if place == url { url.to_owned() } else { format!("{place} (`{url}`)") };
            format!("cannot ask {named}: {}; a node must be listening there to be cloned from", why.reason())
        }
    })
}

/// Resolves a moniker of Solana's tools to its URL; a URL is returned unchanged.
fn place(url: &str) -> Result<&str, String> {
    match url {
        "l" | "localhost" => Ok("http://127.0.0.1:8899"),
        _ if url.starts_with("http://") => Ok(url),
        _ => Err(no_place(url)),
    }
}

fn no_place(url: &str) -> String {
    format!(
        "`{url}` is not http://host:port (nor `l`, for http://127.0.0.1:8899); elsewhere, dump with \
         `solana account ADDRESS --output json` and give the file"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use hearth_testkit::http::{Reply, serve};

    use super::*;

    /// A node that answers each request with `result`, and the received requests.
    fn node(result: &'static str) -> (String, Receiver<String>) {
        let (sender, requests) = channel();
        let url = serve(move |body| {
            sender.send(String::from_utf8(body.to_vec()).unwrap()).expect("the test waits for it");
            Reply::Answer(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}"))
        });
        (url, requests)
    }

    #[test]
    fn confirmed_account_is_cloned() {
        let (url, requests) = node("{\"value\":null}");
        assert_eq!(account(&url, &[7; 32]), Ok(None));
        let request = requests.recv().unwrap();
        assert!(request.contains("getAccountInfo") && request.contains("\"commitment\":\"confirmed\""), "{request}");
        let (url, requests) = node("17");
        assert_eq!(slot(&url), Ok(17));
        assert!(requests.recv().unwrap().contains("\"commitment\":\"confirmed\""));
    }

    #[test]
    fn places_are_hosts_with_ports() {
        assert_eq!(place("http://node/rpc/1"), Ok("http://node/rpc/1"));
        assert_eq!(place("l"), Ok("http://127.0.0.1:8899"));
        for elsewhere in ["https://api.mainnet-beta.solana.com", "m", "http://", ""] {
            assert!(slot(elsewhere).unwrap_err().contains("dump"), "{elsewhere}");
        }
    }
}
