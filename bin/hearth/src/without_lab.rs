//! Stand-ins for the lab's parts in a build without the lab.

use hearth_local_cluster::OpenMeter;
use hearth_node::boot::{BootError, Instruments};
use hearth_node::config::Rpc;

/// No instruments for a node of tiles.
pub const INSTRUMENTS: Option<Instruments> = None;
/// No instruments for an EVM node.
pub const INSTRUMENTS_OF_CHAIN: Option<hearth_evm_node::Instruments> = None;
/// No meter for the nodes of a demonstration.
pub const OPEN_METER: Option<OpenMeter> = None;

/// Returns `None`: without a bench no memory for its statuses is shown.
pub fn bench_status_capacity(_: &Rpc) -> Result<Option<usize>, BootError> {
    Ok(None)
}
