//! This node's identity and version, and the cluster's nodes.
//!
//! reads   what the caller gave
//! source  `getClusterNodes` of `solana-rpc` 4.2

use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::Api;
use crate::config::ClusterNode;
use crate::jsonrpc::Failure;
use crate::params::Params;

impl Api {
    /// `solana-core` names the release whose interface is implemented, since clients adapt to it. If the feature set is
    /// unknown its key is missing: web3.js accepts a missing key and refuses `null`.
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
        Ok(json!({ "identity": *encode_32(&(self.identity)()) }))
    }

    pub fn get_cluster_nodes(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        let (identity, others) = ((self.identity)(), (self.cluster_nodes)());
        let others = others.iter().filter(|node| node.identity != identity).map(node_json);
        let own = ClusterNode { rpc: Some(self.http), pubsub: Some(self.websocket), ..self.own() };
        Ok([node_json(&own)].into_iter().chain(others).collect())
    }

    /// This node's contact info: the published one, or defaults outside a cluster.
    fn own(&self) -> ClusterNode {
        let identity = (self.identity)();
        let contact = (self.cluster_nodes)().into_iter().find(|node| node.identity == identity);
        ClusterNode {
            identity,
            gossip: contact.as_ref().map_or(Some(self.gossip), |contact| contact.gossip),
            // Votes share the port of other transactions.
            tpu_vote: contact.as_ref().map_or(Some(self.tpu), |contact| contact.tpu_vote),
            // A node that produces no blocks advertises no TPU.
            tpu: contact.as_ref().map_or(Some(self.tpu), |contact| contact.tpu),
            tpu_quic: contact.as_ref().map_or(Some(self.tpu_quic), |contact| contact.tpu_quic),
            version: crate::VERSION.into(),
            client: "Hearth".into(),
            feature_set: self.feature_set,
            shred_version: self.shred_version,
            ..contact.unwrap_or_default()
        }
    }
}

fn node_json(node: &ClusterNode) -> Value {
    json!({
        "pubkey": *encode_32(&node.identity),
        "gossip": node.gossip,
        "tvu": node.tvu,
        "tpu": node.tpu,
        "tpuQuic": node.tpu_quic,
        "tpuForwards": null,
        "tpuForwardsQuic": node.tpu_forwards_quic,
        "tpuVote": node.tpu_vote,
        "serveRepair": node.serve_repair,
        "rpc": node.rpc,
        "pubsub": node.pubsub,
        "version": node.version,
        "clientId": node.client,
        "featureSet": node.feature_set,
        "shredVersion": node.shred_version,
    })
}
