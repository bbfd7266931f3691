//! A client for nodes on this machine: JSON-RPC and plain pages.
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
/// Upper bound for a page, in bytes.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// The address of a node's RPC.
#[derive(Clone, Copy)]
pub struct Rpc {
    /// IPv4 address of the RPC.
    pub host: Ipv4Addr,
    /// TCP port of the RPC.
    pub port: u16,
}

impl Rpc {
    /// The RPC at a port of 127.0.0.1.
    pub const fn local(port: u16) -> Self {
        Self { host: Ipv4Addr::LOCALHOST, port }
    }

    /// Calls a method and returns its result.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, String> {
        let options = Options { patience: Patience::Step(TIMEOUT), ..Options::default() };
        let client = RpcClient::new(&format!("http://{}:{}", self.host, self.port), &options).expect("a URL");
        client.call(method, &params).map_err(|error| match &error {
            RpcError::Refused { data: Some(data), .. } => format!("{error}: {data}"),
            RpcError::Refused { .. } => error.to_string(),
            other => format!("{method}: {other}"),
        })
    }
}

/// Fetches an HTTP path as text.
pub fn get(host: Ipv4Addr, port: u16, path: &str) -> Result<String, String> {
    let agent = http::direct(Patience::Step(TIMEOUT));
    let page = http::get(&agent, &format!("http://{host}:{port}{path}"), PAGE_BYTES_MAX);
    page.map_err(|error| format!("GET {path}: {}", http::why(&error)))
}

#[cfg(test)]
mod tests {
    use hearth_testkit::http::{Refusal, serve_calls};
    use serde_json::json;

    use super::*;

    fn served(call: fn(&str, &Value) -> Result<Value, Refusal>) -> Rpc {
        let url = serve_calls(call);
        let (_, port) = url.rsplit_once(':').unwrap();
        Rpc::local(port.parse().unwrap())
    }

    #[test]
    fn a_call_gives_its_result() {
        let rpc = served(|method, params| Ok(json!({ method: params })));
        assert_eq!(rpc.call("getBalance", json!([7])), Ok(json!({ "getBalance": [7] })));
    }

    #[test]
    fn an_error_has_its_method() {
        let rpc = served(|_, _| Err((-32601, "no".into())));
        let error = rpc.call("getNothing", json!([])).unwrap_err();
        assert!(error.contains("getNothing") && error.contains("-32601"), "{error}");
    }
}
