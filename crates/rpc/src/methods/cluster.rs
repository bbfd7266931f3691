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
    /// `solana-core` names the release whose interface is followed, since clients adapt to it. Without a feature set
    /// there is no key for it: web3.js takes a missing one and refuses `null`.
    pub fn get_version(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        let mut version = json!({ "solana-core": crate::INTERFACE_VERSION, "hearth": crate::VERSION });
        if let Some(feature_set) = self.feature_set {
            version["feature-set"] = json!(feature_set);
        }
        Ok(version)
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
            "featureSet": self.feature_set,
            "shredVersion": self.shred_version,
        }]))
    }
}
