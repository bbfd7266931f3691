//! Observes a node from within its process: the dashboard's view and the profiler.
//!
//! reads   the node's workspace; in a cluster on this machine, also the pages that its nodes serve
//! writes  one second of the node's activity as JSON, for the dashboard
//!
//! The node crates do not depend on the lab, which owns these tools, so the binary joins the two here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hearth_bench::Program;
use hearth_evm::chain::Chain;
use hearth_ledger::Ledger;
use hearth_local_cluster::gather::{ClusterSample, Gatherer, Membership};
use hearth_local_cluster::{Meter, Traffic};
use hearth_monitor::{Second, Seconds, Watch};
use hearth_node::boot::Instruments;
use hearth_node::config::{Config, workspace_path};
use hearth_rpc::Profiler;
use hearth_serve::dashboard::LookAt;

use super::profile::{self, ChainService};

/// The instruments that this program provides to a bench.
pub const PROGRAM: Program = Program { commit: env!("HEARTH_COMMIT"), instruments: OF_NODE };

/// The instruments of a node of tiles.
pub const OF_NODE: Instruments = Instruments { look_at: look_at_node, profiler };

fn look_at_node(config: &Config) -> LookAt {
    look_at(Arc::new(workspace_path(config).into()), Membership::of(config))
}

/// The instruments of an EVM node.
pub const OF_CHAIN: hearth_evm_node::Instruments =
    hearth_evm_node::Instruments { look_at: look_at_chain, profiler: profiler_of_chain };

/// Returns the dashboard's view of an EVM node. The workspace is known once the node has a port.
fn look_at_chain(workspace: Arc<OnceLock<PathBuf>>) -> LookAt {
    look_at(workspace, None)
}

/// Opens a node's traffic counters for the cluster demonstration, as the monitor does.
pub fn open_meter(workspace: &Path) -> Option<Meter> {
    let mut seconds = Seconds::of(Watch::attach(&[workspace.to_owned()]).ok()?);
    Some(Box::new(move || {
        let sample = seconds.next_second().sample;
        Traffic {
            sent_bps: sample.bandwidth.sent_bits_per_s,
            received_bps: sample.bandwidth.received_bits_per_s,
            full: sample.block_full.values().sum(),
        }
    }))
}

fn profiler(ledger: Arc<Ledger>, kinds: Vec<String>) -> Arc<dyn Profiler> {
    Arc::new(profile::Service::new(ledger, kinds))
}

fn profiler_of_chain(chain: Chain) -> Arc<dyn hearth_web3::Profiler> {
    Arc::new(ChainService::new(chain))
}

/// Returns the dashboard's view of the node: through the node's workspace, as the monitor does, once that is known, and
/// of the local cluster that it belongs to.
fn look_at(workspace: Arc<OnceLock<PathBuf>>, membership: Option<Membership>) -> LookAt {
    Box::new(move || {
        let mut seconds = Seconds::of(Watch::attach(std::slice::from_ref(workspace.get()?)).ok()?);
        let gatherer = membership.as_ref().and_then(Gatherer::start);
        Some(Box::new(move || {
            let second = seconds.next_second();
            Some(match gatherer.as_ref().and_then(Gatherer::newest) {
                None => second.json(),
                Some(cluster) => InCluster { second, cluster: &cluster }.json(),
            })
        }))
    })
}

/// A second of a node, and of its cluster.
#[derive(serde::Serialize)]
struct InCluster<'a> {
    #[serde(flatten)]
    second: Second,
    cluster: &'a ClusterSample,
}

impl InCluster<'_> {
    fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}
