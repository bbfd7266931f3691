//! Another node's RPC: its slot, and accounts to clone.
//!
//! reads   answers over HTTP
//! writes  one request each
//! memory  an answer, 64 MiB at most
//! drops   nothing: what goes wrong is said in one line
//! source  RFC 9112 for what of HTTP is needed

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hearth_ledger::Account;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::dump;

const ANSWER_MAX: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// How sure the other node must be of what is read from it: a program that a tool has just deployed is, by the time
/// that the tool ends.
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

fn call(url: &str, method: &str, params: &Value) -> Result<Value, String> {
    let (host, path) = place(url)?;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let short = ["l", "localhost"].contains(&url);
    let named = if short { format!("http://{host} (`{url}`)") } else { url.to_owned() };
    let answer = exchange(&host, &request)
        .map_err(|why| format!("cannot ask {named}: {why}; a node must be listening there to be cloned from"))?;
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").ok_or_else(|| format!("{url} does not speak HTTP"))?;
    let json: Value = serde_json::from_slice(&answer[end + 4..]).map_err(|_| {
        let status = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        format!("{url} does not answer with JSON: {status}")
    })?;
    match (json.get("result"), json.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (_, error) => Err(format!("{url} refuses {method}: {}", error.unwrap_or(&Value::Null))),
    }
}

/// Host with port, and path.
fn place(url: &str) -> Result<(String, &str), String> {
    let url = if ["l", "localhost"].contains(&url) { "http://127.0.0.1:8899" } else { url };
    let rest = url.strip_prefix("http://").filter(|rest| !rest.is_empty()).ok_or_else(|| {
        format!("`{url}` is not http://host:port (nor `l`, for http://127.0.0.1:8899); elsewhere, dump with `solana account ADDRESS --output json` and give the file")
    })?;
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    Ok((if host.contains(':') { host.to_owned() } else { format!("{host}:80") }, path))
}

/// In HTTP/1.0 the answer ends with the connection.
fn exchange(host: &str, request: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = vec![];
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that answers one request with `result`, and the request.
    fn node(result: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![];
            while !request.ends_with(b"]}") {
                let mut part = [0; 1024];
                let length = stream.read(&mut part).unwrap();
                assert!(length > 0, "{}", String::from_utf8_lossy(&request));
                request.extend(&part[..length]);
            }
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}").unwrap();
            String::from_utf8(request).unwrap()
        });
        (url, answers)
    }

    #[test]
    fn what_is_confirmed_is_cloned() {
        let (url, request) = node("{\"value\":null}");
        assert_eq!(account(&url, &[7; 32]), Ok(None));
        let request = request.join().unwrap();
        assert!(request.contains("getAccountInfo") && request.contains("\"commitment\":\"confirmed\""), "{request}");
        let (url, request) = node("17");
        assert_eq!(slot(&url), Ok(17));
        assert!(request.join().unwrap().contains("\"commitment\":\"confirmed\""));
    }

    #[test]
    fn places_are_hosts_with_ports() {
        assert_eq!(place("http://127.0.0.1:8899"), Ok(("127.0.0.1:8899".into(), "/")));
        assert_eq!(place("http://node/rpc/1"), Ok(("node:80".into(), "/rpc/1")));
        assert_eq!(place("l"), Ok(("127.0.0.1:8899".into(), "/")));
        for elsewhere in ["https://api.mainnet-beta.solana.com", "m", "http://", ""] {
            assert!(place(elsewhere).unwrap_err().contains("dump"), "{elsewhere}");
        }
    }
}
