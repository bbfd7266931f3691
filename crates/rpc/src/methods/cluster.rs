//! Who the node is. It is alone, and leads every slot.
//!
//! reads   what the caller gave
//! writes  results
//! memory  none kept
//! source  `getClusterNodes` of `solana-rpc` 4.2

use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

impl Api {
    /// `solana-core` names the release whose interface is followed, since clients adapt to it. There is no feature
    /// set, and so no key for it: web3.js takes a missing one and refuses `null`.
    pub fn get_version(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        Ok(json!({ "solana-core": crate::INTERFACE_VERSION, "hearth": crate::VERSION }))
    }

    pub fn get_identity(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        Ok(json!({ "identity": self.leader() }))
    }

    pub fn get_cluster_nodes(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        Ok(json!([{
            "pubkey": self.leader(),
            "gossip": null,
            "tvu": null,
            "tpu": self.tpu,
            "tpuQuic": self.tpu_quic,
            "tpuForwards": null,
            "tpuForwardsQuic": null,
            "tpuVote": null,
            "serveRepair": null,
            "rpc": self.http,
            "pubsub": self.websocket,
            "version": crate::VERSION,
            "clientId": "Hearth",
            "featureSet": null,
            "shredVersion": self.shred_version,
        }]))
    }
}
