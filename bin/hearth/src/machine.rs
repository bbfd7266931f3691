//! `hearth machine`: describes this machine, and what else competes for its cores.
//!
//! reads   the machine
//! writes  a table, or JSON

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hearth_command::output::Say;
use hearth_machine::neighbours::Moment;
use hearth_machine::{Machine, Root};

/// How long neighbours are looked at.
const SAMPLE: Duration = Duration::from_secs(1);

/// `hearth machine`
#[derive(Args)]
pub struct Options {
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
    /// Another machine.
    #[command(flatten)]
    pub root: RootOption,
}

/// Where the machine is.
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
pub fn run(options: &Options, say: &Say) -> serde_json::Result<()> {
    let root = options.root.root();
    let neighbours = Some(Moment::sample(&root, SAMPLE));
    let machine = Machine { neighbours, ..Machine::read(&root) };
    match options.json {
        true => say.line(serde_json::to_string_pretty(&machine)?),
        false => say.text(machine.table()),
    }
    Ok(())
}
