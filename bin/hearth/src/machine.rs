//! `hearth machine`: describes this machine, and what else competes for its cores.
//!
//! reads   the machine
//! writes  a table, or JSON

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hearth_command::exit_code::Failure;
use hearth_command::output::{self, CommandOutput};
use hearth_machine::neighbours::CpuSample;
use hearth_machine::{Machine, Root};

/// How long neighbours are looked at.
const SAMPLE: Duration = Duration::from_secs(1);

/// The options of `hearth machine`.
#[derive(Args)]
pub struct Options {
    /// Write everything as JSON to FILE, or to standard output without FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// The folder of another machine's files, if one is given.
    #[command(flatten)]
    pub root: RootOption,
}

/// The folder that a machine is read from.
#[derive(Args, Default)]
pub struct RootOption {
    /// Take the machine from the `proc` and `sys` in this folder.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub root: Option<PathBuf>,
}

impl RootOption {
    /// The folder that everything is read below.
    pub fn root(&self) -> Root {
        self.root.as_deref().map_or_else(Root::default, Root::new)
    }
}

/// Samples the machine for a second and prints a description.
pub fn run(options: &Options, say: &CommandOutput) -> Result<(), Failure> {
    let root = options.root.root();
    let neighbours = Some(CpuSample::sample(&root, SAMPLE));
    let machine = Machine { neighbours, ..Machine::read(&root) };
    match &options.json {
        Some(path) => output::json(path, serde_json::to_string_pretty(&machine)?, say)?,
        None => say.text(machine.table()),
    }
    Ok(())
}
