//! `hearth config`: shows and checks the configuration.

use std::path::PathBuf;

use clap::Subcommand;
use hearth_command::exit_code::Failure;
use hearth_command::output::CommandOutput;
use hearth_node::config::{Config, ConfigFile};
use hearth_node::{check, memory, tile_kinds};

use crate::{lab, metrics};

/// The subcommands of `hearth config`.
#[derive(Subcommand)]
pub enum Command {
    /// Print the configuration in effect.
    Show {
        /// The configuration file, if one is given.
        #[command(flatten)]
        config: ConfigFile,
        /// Print the default file with a comment for every key.
        #[arg(long, conflicts_with_all = ["config", "memory", "counters", "tiles"])]
        default: bool,
        /// Print how much memory `hearth run` and `hearth bench` take at the start, part by part.
        #[arg(long, conflicts_with_all = ["counters", "tiles"])]
        memory: bool,
        /// Print every counter with its meaning, as Markdown.
        #[arg(long, conflicts_with_all = ["config", "tiles"])]
        counters: bool,
        /// Print every kind of tile: which nodes have it, how many, and what it needs; as Markdown.
        #[arg(long, conflicts_with = "config")]
        tiles: bool,
    },
    /// Check a configuration: keys, values, and whether the layout fits this machine.
    ///
    /// Prints which tile runs on which core, in `hearth run` and in `hearth bench`. All mistakes in the file are listed
    /// at once, with their lines: types, unknown keys and the nearest right ones, places of tiles, what excludes each
    /// other.
    Check {
        /// The file to check; without one, the defaults are checked.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// The file, given as other commands take it.
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
    },
}

/// Runs a `hearth config` subcommand and prints its result.
pub fn run(command: Command, say: &CommandOutput) -> Result<(), Failure> {
    match command {
        Command::Show { default: true, .. } => say.text(Config::annotated_default()),
        Command::Show { counters: true, .. } => say.text(metrics::markdown()),
        Command::Show { tiles: true, .. } => say.text(tile_kinds::markdown()),
        Command::Show { config, memory: true, .. } => {
            let config = config.read()?;
            say.text(memory::table(&config, lab::bench_status_capacity(&config.rpc)?)?);
        }
        Command::Show { config, .. } => say.text(toml::to_string_pretty(&config.read()?)?),
        Command::Check { file, config } => check::run(file.or(config).as_deref(), say)?,
    }
    Ok(())
}
