//! Asks nodes on this machine: their RPC, and pages.
//!
//! reads   answers of a node's RPC, metrics
//! writes  requests to it
//! memory  one answer

use std::net::Ipv4Addr;
use std::time::Duration;

use hearth_rpc_client::http::{self, Patience};
use hearth_rpc_client::{Options, RpcClient, RpcError};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest page.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// A node's RPC on 127.0.0.1.
#[derive(Clone, Copy)]
pub struct Rpc {
    /// Its port.
    pub port: u16,
}

impl Rpc {
    /// The result of one call.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, String> {
        let options = Options { patience: Patience::Step(TIMEOUT), ..Options::default() };
        let client = RpcClient::new(&format!("http://127.0.0.1:{}", self.port), &options).expect("a URL");
        client.call(method, &params).map_err(|error| match &error {
            RpcError::Refused { data: Some(data), .. } => format!("{error}: {data}"),
            RpcError::Refused { .. } => error.to_string(),
            other => format!("{method}: {other}"),
        })
    }
}

/// The text at a path of what serves HTTP on a port.
pub fn get(host: Ipv4Addr, port: u16, path: &str) -> Result<String, String> {
    let agent = http::direct(Patience::Step(TIMEOUT));
    let page = http::get(&agent, &format!("http://{host}:{port}{path}"), PAGE_BYTES_MAX);
    page.map_err(|error| format!("GET {path}: {}", http::why(&error)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// Answers one request with `answer`, and gives the request back.
    fn serve_once(answer: &'static str) -> (Rpc, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let rpc = Rpc { port: listener.local_addr().unwrap().port() };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            // The body, an object without others in it, ends with the first brace.
            while !request.ends_with(b"}") {
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        (rpc, server)
    }

    #[test]
    fn a_call_gives_its_result() {
        let (rpc, server) =
            serve_once("HTTP/1.1 200 OK\r\n\r\n{\"jsonrpc\":\"2.0\",\"result\":{\"value\":7},\"id\":1}");
        assert_eq!(rpc.call("getBalance", json!([])), Ok(json!({ "value": 7 })));
        assert!(server.join().unwrap().contains("\"method\":\"getBalance\""));
    }

    #[test]
    fn an_error_is_told_with_its_method() {
        let (rpc, server) = serve_once("HTTP/1.1 200 OK\r\n\r\n{\"error\":{\"code\":-32601,\"message\":\"no\"}}");
        let error = rpc.call("getNothing", json!([])).unwrap_err();
        assert!(error.contains("getNothing") && error.contains("-32601"), "{error}");
        server.join().unwrap();
    }
}
