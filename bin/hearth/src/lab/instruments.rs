//! What looks at a node from within its process: the dashboard's view, and the profiler.
//!
//! reads   the node's workspace; of a cluster on this machine what its nodes serve
//! writes  a second of the node as JSON, for the dashboard
//!
//! A node does not know the lab, whose tools these are, so they are joined here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hearth_bench::Program;
use hearth_evm::chain::Chain;
use hearth_ledger::Ledger;
use hearth_local_cluster::gather::{Gatherer, Membership, Shown};
use hearth_local_cluster::{Meter, Traffic};
use hearth_monitor::{Second, Seconds, Watch};
use hearth_node::boot::Instruments;
use hearth_node::config::{Config, workspace_path};
use hearth_rpc::Profiler;
use hearth_serve::dashboard::LookAt;

use super::profile::{self, ChainService};

/// What a bench takes from this program.
pub const PROGRAM: Program = Program { commit: env!("HEARTH_COMMIT"), instruments: OF_NODE };

/// Those of a node of tiles.
pub const OF_NODE: Instruments = Instruments { look_at: look_at_node, profiler };

fn look_at_node(config: &Config) -> LookAt {
    look_at(Arc::new(workspace_path(config).into()), Membership::of(config))
}

/// Those of an EVM node.
pub const OF_CHAIN: hearth_evm_node::Instruments =
    hearth_evm_node::Instruments { look_at: look_at_chain, profiler: profiler_of_chain };

/// The dashboard's view of an EVM node, whose workspace is known once it has a port.
fn look_at_chain(workspace: Arc<OnceLock<PathBuf>>) -> LookAt {
    look_at(workspace, None)
}

/// How the demonstration of a cluster sees what a node sends and receives: as the monitor does.
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

/// How the dashboard sees the node: as the monitor does, by its workspace, once that is known; and the cluster on this
/// machine that it is of.
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
    cluster: &'a Shown,
}

impl InCluster<'_> {
    fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}
