//! The lab commands of this program, which measure, watch and tune nodes, and the instruments that observe a node from
//! within its process.
//!
//! All of it is behind the feature `lab`; `without_lab.rs` stands in for it.

mod instruments;
pub mod monitor;
pub mod profile;
mod purse;
#[cfg(test)]
mod tests;

use hearth_command::exit_code::Failure;
use hearth_command::output::CommandOutput;
use hearth_command::stop::StopSignal;
use hearth_local_cluster::OpenMeter;
use hearth_node::boot::{BootError, Instruments};
use hearth_node::config::{LocalNode, Rpc};

/// Instruments of a node of tiles.
pub const INSTRUMENTS: Option<Instruments> = Some(instruments::OF_NODE);
/// Instruments of an EVM node.
pub const INSTRUMENTS_OF_CHAIN: Option<hearth_evm_node::Instruments> = Some(instruments::OF_CHAIN);
/// Opens the meter with which the cluster demonstration measures its nodes.
pub const OPEN_METER: Option<OpenMeter> = Some(instruments::open_meter);

/// Returns how many statuses a usual bench takes memory for.
pub fn bench_status_capacity(rpc: &Rpc) -> Result<Option<usize>, BootError> {
    hearth_bench::usual_status_capacity(rpc).map(Some)
}

/// Runs `hearth bench` with the configuration that the options name.
pub fn bench(options: &hearth_bench::Options, say: &CommandOutput) -> Result<(), Failure> {
    let config = options.config.read()?;
    let stop = StopSignal::install()?;
    if let Some(parent) = options.parent {
        stop.set_when_orphaned(parent)?;
    }
    Ok(hearth_bench::run(config, options, instruments::PROGRAM, &stop, say)?)
}

/// Runs `hearth monitor` on the configured node.
pub fn monitor(options: &monitor::Options, say: &CommandOutput) -> Result<(), Failure> {
    let config = options.config.read()?;
    Ok(monitor::run(&LocalNode::of(&config), options, &StopSignal::install()?, say)?)
}

/// Runs `hearth profile` on a bench or a node.
pub fn profile(options: &profile::Options, say: &CommandOutput) -> Result<(), Failure> {
    if let Some(profile::ProfileTarget::Bench(options)) = &options.of {
        let config = options.bench.config.read()?;
        let stop = StopSignal::install()?;
        return Ok(hearth_bench::profile::run(config, options, instruments::PROGRAM, &stop, say)?);
    }
    let options = &options.node;
    let config = options.config.named(options.name.as_deref())?;
    let stop = StopSignal::install()?;
    Ok(profile::run(&LocalNode::of(&config), &config.rpc.admin_token, options, &stop, say)?)
}

/// Runs `hearth load`, which may take funds from the UTXO ledger.
pub fn load(options: &hearth_load::Options, say: &CommandOutput) -> Result<(), Failure> {
    Ok(hearth_load::run(options, purse::open, &StopSignal::install()?, say)?)
}

/// Runs `hearth tune` with this binary's level of optimization.
pub fn tune(command: &hearth_tune::Command, say: &CommandOutput) -> Result<(), Failure> {
    Ok(hearth_tune::run(command, env!("HEARTH_OPT_LEVEL"), say)?)
}
