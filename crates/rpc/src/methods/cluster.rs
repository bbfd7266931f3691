//! Who the node is. It is alone, and leads every slot.
//!
//! reads   what the caller gave; the ledger's slots
//! writes  results
//! memory  at most 5,000 addresses, for the leaders of as many slots
//! source  `getClusterNodes`, `getSlotLeaders` of `solana-rpc` 4.2

use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Slots whose leaders can be asked at once.
const LEADERS_MAX: u64 = 5_000;

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

    pub fn get_slot_leader(&self, params: Params<'_>) -> Result<Value, Failure> {
        let options = params.at_most(1)?.options(0)?;
        self.slot_for(options.commitment()?, options)?;
        Ok(json!(self.leader()))
    }

    pub fn get_slot_leaders(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(2)?.number(0, "start slot")?;
        let count = params.number(1, "limit")?;
        if count == 0 || count > LEADERS_MAX {
            return Err(Failure::invalid_params(format!("parameter 2 (limit): {count} is not in 1..={LEADERS_MAX}")));
        }
        Ok(json!(vec![self.leader(); count as usize]))
    }

    fn leader(&self) -> String {
        encode_32(&self.identity).to_string()
    }
}
