//! What the node reports about itself to developers' tools: `nodeInfo` and `metadata`.
//!
//! reads   the newest block; the next block's rules
//! source  the answers of anvil 1.7 (`anvil_nodeInfo`, `anvil_metadata`) and of Hardhat 2.29 (`hardhat_metadata`)

use super::Caller;
use crate::json;

impl Caller<'_> {
    /// Returns anvil's fields, whatever the method's namespace.
    pub(super) fn node_info(&self) -> String {
        let chain = &self.api.chain;
        let head = chain.head();
        let next = chain.pending_env();
        json::object(|object| {
            object.quantity("currentBlockNumber", head.number());
            object.decimal("currentBlockTimestamp", head.header.timestamp);
            object.data("currentBlockHash", head.hash.as_slice());
            object.text("hardFork", next.spec.into());
            object.text("transactionOrder", "fees");
            object.object("environment", |object| {
                object.quantity("baseFee", next.base_fee);
                object.decimal("chainId", self.api.chain_id());
                object.quantity("gasLimit", next.gas_limit);
                object.quantity_256("gasPrice", &alloy_primitives::U256::from(self.api.suggested_price()));
            });
            object.object("forkConfig", |object| {
                for name in ["forkUrl", "forkBlockNumber", "forkRetryBackoff"] {
                    object.raw(name, "null");
                }
            });
        })
    }

    /// Returns the fields that anvil and Hardhat share and, in the namespace `anvil`, those of anvil alone.
    pub(super) fn metadata(&self, namespace: &str) -> String {
        let chain = &self.api.chain;
        let head = chain.head();
        json::object(|object| {
            object.text("clientVersion", &self.api.config.client_version);
            object.decimal("chainId", self.api.chain_id());
            object.data("instanceId", self.api.dev.instance().as_slice());
            object.decimal("latestBlockNumber", head.number());
            object.data("latestBlockHash", head.hash.as_slice());
            if namespace == "anvil" {
                object.raw("forkedNetwork", "null");
                object.object("snapshots", |object| {
                    let taken = chain.snapshots().into_iter().filter(|(id, ..)| !self.api.dev.is_beginning(*id));
                    for (id, number, hash) in taken {
                        object.raw(&format!("{id:#x}"), &format!("[{number},\"{hash}\"]"));
                    }
                });
            }
        })
    }
}
