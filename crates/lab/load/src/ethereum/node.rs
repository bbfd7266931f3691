//! A node of an Ethereum chain: its name, its fees and its chain.
//!
//! reads   the node's RPC

use std::time::Duration;

use alloy_primitives::U256;
use serde_json::json;

use super::workload::Terms;
use crate::chain::Marks;
use crate::rpc::{Rpc, RpcError, to_quantity};

/// A node and its fees.
pub struct Node {
    /// RPC client for the node.
    pub rpc: Rpc,
    /// Client name and version.
    pub client: String,
    /// Fees and chain id.
    pub terms: Terms,
}

/// Connects to a node and reads its name and fees.
pub fn connect(url: &str, timeout: Duration) -> Result<Node, RpcError> {
    let rpc = Rpc::new(url, timeout)?;
    let chain_id = rpc.number("eth_chainId", &json!([]))?;
    let client = match rpc.call("web3_clientVersion", &json!([])) {
        Ok(name) => name.as_str().unwrap_or("a node without a name").to_owned(),
        Err(RpcError::Refused { .. }) => "a node without a name".into(),
        Err(why) => return Err(why),
    };
    let block = rpc.call("eth_getBlockByNumber", &json!(["latest", false]))?;
    let base_fee = block.get("baseFeePerGas").and_then(to_quantity).unwrap_or_default();
    let tip = match rpc.quantity("eth_maxPriorityFeePerGas", &json!([])) {
        Ok(tip) => tip,
        Err(RpcError::Refused { .. }) => rpc.quantity("eth_gasPrice", &json!([]))?,
        Err(why) => return Err(why),
    };
    // A full block raises the base fee by an eighth: this covers 27 full blocks, and at least 2 gwei.
    let max_fee = (base_fee * U256::from(24) + tip).max(U256::from(2_000_000_000u64));
    let small = |value: U256| u128::try_from(value).unwrap_or(u128::MAX >> 8);
    Ok(Node { rpc, client, terms: Terms { chain_id, max_fee: small(max_fee), tip: small(tip).min(small(max_fee)) } })
}

/// The marks that identify a node's chain: its id and its genesis hash, as far as the node reports them.
pub fn marks(rpc: &Rpc) -> Result<Marks, RpcError> {
    let id = rpc.number("eth_chainId", &json!([]))?;
    let first = match rpc.call("eth_getBlockByNumber", &json!(["0x0", false])) {
        Ok(block) => block["hash"].as_str().map(str::to_owned),
        Err(RpcError::Refused { .. }) => None,
        Err(why) => return Err(why),
    };
    Ok([("chain id", id.to_string())].into_iter().chain(first.map(|hash| ("first block", hash))).collect())
}
