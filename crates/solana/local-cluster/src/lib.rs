//! local-cluster: `hearth cluster`: block propagation among many nodes, simulated or on this machine.
//!
//! reads   a map of regions, a file of stakes
//! writes  the simulation's result as text, as JSON and as a page; starts nodes
//! memory  see `hearth_netsim`

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

mod local;
mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hearth_command::NO_LAB;
use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::output::{CommandOutput, WriteError, can_be_written, is_stdout};
use hearth_netem::{World, WorldError};
use hearth_netsim::{Plan, PlanError, Stakes, calibrate, calibration_text, text};
use hearth_turbine::FANOUT;
use serde_json::json;

pub use local::demo::{Meter, OpenMeter, Traffic};
pub use local::gather;

/// Default number of simulated nodes.
const SIMULATED: usize = 2_000;

/// The subcommands of `hearth cluster`.
#[derive(Subcommand)]
pub enum Command {
    /// Simulate block propagation in a cluster that is too large for this machine.
    ///
    /// Every datagram of a slot on virtual time: the leader cuts FEC sets as transactions come, each shred goes down
    /// the Turbine tree that the cluster would draw for it, nodes send their datagrams one by one at their region's
    /// rate, recover what parity allows, and request repair for the rest. The report gives the time until a given share
    /// of the stake has the block, what leader and followers send and receive, and how much was repaired.
    ///
    /// Exit codes: 0 done; 1 a file cannot be written; 2 the command line, the map or the stakes are wrong.
    Simulate(Box<Simulate>),
    /// Start a cluster on this machine: a leader and followers, each a process with an address of its own, with the
    /// latency, jitter, loss and rate of a map between them.
    ///
    /// Each node's configuration, log and chain are in the cluster's folder. An existing cluster continues. If a node
    /// does not come up, or the command is interrupted, no node is left running.
    ///
    /// Exit codes: 0 all nodes serve; 1 one does not come up, or a file cannot be read or written; 2 the command line
    /// or the map is wrong.
    Up(local::UpOptions),
    /// Show each node of the cluster: its slot, its transactions a second, how far it is behind the newest one, its
    /// memory.
    ///
    /// Exit codes: 0 done; 1 there is no cluster, or a file cannot be read.
    Status(local::Status),
    /// Kill a node without warning, as a crash does.
    ///
    /// Exit codes: 0 it has ended; 1 there is no cluster; 2 there is no such node, or it does not run.
    Kill(local::Node),
    /// Start a killed node.
    ///
    /// Exit codes: 0 it serves; 1 it does not come up, or there is no cluster; 2 there is no such node, or it runs.
    Start(local::Node),
    /// Partition the network between nodes, for all UDP traffic.
    ///
    /// Exit codes: 0 the network is cut; 1 there is no cluster; 2 there is no such node, or one is on both sides.
    Partition(local::Partition),
    /// Remove all partitions.
    ///
    /// Exit codes: 0 no partition is left; 1 there is no cluster.
    Heal(local::ClusterSelector),
    /// Stop all nodes.
    ///
    /// Exit codes: 0 none runs; 1 there is no cluster.
    Down(local::ClusterSelector),
    /// Demonstrate a cluster end to end: a leader and followers all over a map, a load within the limits of a block,
    /// then the limits lifted.
    ///
    /// The demo first measures the rate at which leader and followers keep up on this machine. If that is less than
    /// the cluster's limits, the first load is half of it, and labelled so. The report has the rates of the leader and
    /// of each follower in the same time, whether each kept up, and whether all have the same block at the end.
    ///
    /// Exit codes: 0 done; 1 a node ended or did not come up, or a file cannot be written; 2 the command line or the
    /// map is wrong.
    Demo(local::demo::Demo),
}

/// The arguments of `hearth cluster simulate`.
#[derive(Args)]
pub struct Simulate {
    /// Number of nodes, including the leader [default: 2000, or those of a file of stakes].
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Transfers a second.
    #[arg(long, alias = "tps", value_name = "TPS", default_value_t = 1e6)]
    pub rate: f64,
    /// How stake is spread: `equal`, `zipf` (the k-th has 1/k^0.9 of the first one's), `zipf:POWER`, or a file with a
    /// stake in lamports at each line's end.
    #[arg(long, value_name = "SPREAD", default_value = "zipf")]
    pub stakes: Stakes,
    /// The map: regions, and the links between them [default: London, New York, Frankfurt, Singapore].
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// The share of datagrams lost everywhere, whatever the map says.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub loss: Option<f64>,
    /// The share of dead nodes.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub dead: f64,
    /// The fanout: how many nodes a node sends to, at most.
    #[arg(long, value_name = "N", default_value_t = FANOUT)]
    pub fanout: usize,
    /// Milliseconds of a slot.
    #[arg(long, value_name = "MS", default_value_t = 400.0)]
    pub slot_ms: f64,
    /// Slots to simulate, each with another leader, other trees, another seed.
    #[arg(long, value_name = "N", default_value_t = Plan::default().seeds)]
    pub seeds: u32,
    /// The first seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Maximum FEC sets to simulate per slot.
    #[arg(long, value_name = "N", default_value_t = Plan::default().sets)]
    pub sets: u16,
    /// Simulate the ten nodes of a public talk instead, and compare their bandwidths with those that the talk showed.
    #[arg(long, conflicts_with_all = ["nodes", "rate", "stakes", "map", "loss", "dead", "fanout", "slot_ms", "seeds", "seed", "sets", "html"])]
    pub calibrate: bool,
    /// Write the result there as JSON, too; with `-`, all other output goes to standard error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Also write the result as a page with charts.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The requested simulation is impossible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The map is invalid.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A command about a cluster on this machine failed.
    #[error(transparent)]
    Local(#[from] local::LocalError),
    /// The demonstration needs the lab.
    #[error("a demonstration needs the lab's load and its monitor: {}", NO_LAB)]
    NoLab,
    /// A result file cannot be created.
    #[error(transparent)]
    Unwritable(#[from] WriteError),
    /// A result cannot be written.
    #[error("cannot write the result to {}: {source}", path.display())]
    Write {
        /// The file of the JSON or of the page, `-` for standard output.
        path: PathBuf,
        /// Why it cannot be written, as the system says it.
        source: io::Error,
    },
}

impl ExitCode for ClusterError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Plan(PlanError::Asked(_)) | Self::World(_) | Self::NoLab => WRONG_USE,
            Self::Local(why) => why.exit_code(),
            _ => FAILED,
        }
    }
}

/// Runs the command. `open_meter` gives the demonstration access to nodes' traffic; a program without the lab has none.
pub fn run(command: &Command, open_meter: Option<OpenMeter>, say: &CommandOutput) -> Result<(), ClusterError> {
    match command {
        Command::Simulate(options) => return simulate(options, say),
        Command::Up(options) => local::up(options, say)?,
        Command::Status(options) => local::status(options, say)?,
        Command::Kill(options) => local::kill(options, say)?,
        Command::Start(options) => local::start(options, say)?,
        Command::Partition(options) => local::partition(options, say)?,
        Command::Heal(which) => local::heal(which, say)?,
        Command::Down(which) => local::down(which, say)?,
        Command::Demo(options) => local::demo::run(options, open_meter.ok_or(ClusterError::NoLab)?, say)?,
    }
    Ok(())
}

fn simulate(options: &Simulate, say: &CommandOutput) -> Result<(), ClusterError> {
    results_can_be_written(options.json.as_deref(), options.html.as_deref())?;
    let say = if is_stdout(options.json.as_deref()) { &CommandOutput::stderr() } else { say };
    if options.calibrate {
        let calibration = calibrate()?;
        say.text(calibration_text(&calibration));
        return write_json(options.json.as_deref(), &json!(calibration));
    }
    let mut world = options.map.as_deref().map_or_else(|| Ok(World::shipped()), World::load)?;
    if let Some(loss) = options.loss {
        world = world.with_loss(loss);
    }
    let is_file = matches!(options.stakes, Stakes::File(_));
    if is_file && options.nodes.is_some() {
        return Err(PlanError::Asked("a file of stakes has its own number of nodes: leave --nodes out".into()).into());
    }
    let plan = Plan {
        nodes: options.nodes.unwrap_or(SIMULATED),
        tps: options.rate,
        slot_ms: options.slot_ms,
        stakes: options.stakes.clone(),
        world,
        dead: options.dead,
        fanout: options.fanout,
        seeds: options.seeds,
        seed: options.seed,
        sets: options.sets,
        leader: None,
    };
    let report = plan.run()?;
    say.text(text(&report));
    write_json(options.json.as_deref(), &json!(report))?;
    write(options.html.as_deref(), || page::of(&report))
}

fn results_can_be_written(json: Option<&Path>, html: Option<&Path>) -> Result<(), WriteError> {
    let json = json.filter(|path| !is_stdout(Some(path)));
    json.into_iter().chain(html).try_for_each(can_be_written)
}

fn write_json(path: Option<&Path>, result: &serde_json::Value) -> Result<(), ClusterError> {
    if let Some(path) = path.filter(|path| is_stdout(Some(path))) {
        let data = CommandOutput::default();
        data.text(format_args!("{result:#}\n"));
        return data.end().map_err(|source| ClusterError::Write { path: path.into(), source });
    }
    write(path, || format!("{result:#}\n"))
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), ClusterError> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text()).map_err(|source| ClusterError::Write { path: path.into(), source })
}

fn share(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "it is not from 0 to 1".into())
}
