//! What stands in for the lab where the program is built without it.

use hearth_local_cluster::OpenMeter;
use hearth_node::boot::{BootError, Instruments};
use hearth_node::config::Rpc;

/// Nothing looks at a node of tiles.
pub const INSTRUMENTS: Option<Instruments> = None;
/// Nothing looks at an EVM node.
pub const INSTRUMENTS_OF_CHAIN: Option<hearth_evm_node::Instruments> = None;
/// Nothing measures the nodes of a demonstration.
pub const OPEN_METER: Option<OpenMeter> = None;

/// There is no bench that would take memory for statuses.
pub fn bench_status_capacity(_: &Rpc) -> Result<Option<usize>, BootError> {
    Ok(None)
}
