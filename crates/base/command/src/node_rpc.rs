//! A client for a node's JSON-RPC that ignores proxies from the environment.

use std::time::Duration;

use hearth_rpc_client::Options;
use hearth_rpc_client::http::Patience;

pub use hearth_rpc_client::{RpcClient as Rpc, RpcError};

/// Returns a client for the RPC at `url`, whose host must resolve.
pub fn at(url: &str) -> Result<Rpc, RpcError> {
    connect(url, &Options::default())
}

/// The same, with `time` as the longest wait for each step of an answer.
pub fn within(url: &str, time: Duration) -> Result<Rpc, RpcError> {
    connect(url, &Options { patience: Patience::Step(time), ..Options::default() })
}

fn connect(url: &str, options: &Options) -> Result<Rpc, RpcError> {
    let rpc = Rpc::new(url, options)?;
    rpc.address()?;
    Ok(rpc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_urls_are_refused_before_they_are_asked() {
        for url in ["127.0.0.1:8899", "https://127.0.0.1:8899"] {
            assert!(matches!(at(url), Err(RpcError::Url { .. })), "{url}");
        }
        assert_eq!(at("http://127.0.0.1/path").unwrap().address().unwrap().port(), 80);
    }
}
