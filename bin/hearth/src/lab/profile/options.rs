//! The options of `hearth profile`, but those of a bench's.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hearth_bench::profile::ReportOptions;
use hearth_node::config::ConfigFile;

/// The options of `hearth profile`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    /// Not a node that runs, but a bench.
    #[command(subcommand)]
    pub of: Option<ProfileTarget>,
    /// The node, and the form and length of its profile.
    #[command(flatten)]
    pub node: NodeOptions,
}

/// Targets of a profile other than a running node.
#[derive(Subcommand)]
pub enum ProfileTarget {
    /// Profile a bench, and write one report of it: a self-contained HTML file.
    ///
    /// Takes the options of `hearth bench`. The report has the rate over time, what limited it, tiles, links, latency
    /// by stage, the flame graph of node and load, the configuration and the machine.
    Bench(ReportOptions),
}

/// Profiles a running node.
#[derive(Args)]
pub struct NodeOptions {
    /// The configuration file, if one is given.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The node, by its `--name`.
    #[arg(long, value_name = "NODE", conflicts_with = "url")]
    pub name: Option<String>,
    /// The URL of its RPC, on this machine or another.
    #[arg(long, short, value_name = "URL")]
    pub url: Option<String>,
    /// The length of the profile.
    #[arg(
        long,
        alias = "seconds",
        value_name = "SECONDS",
        default_value_t = 10,
        conflicts_with = "next_block",
        value_parser = clap::value_parser!(u64).range(1..=600)
    )]
    pub duration: u64,
    /// The next block, from its start to its end.
    #[arg(long)]
    pub next_block: bool,
    /// Profile only this kind of tile.
    #[arg(long, value_name = "KIND")]
    pub tile: Option<String>,
    /// Samples per second of CPU time.
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub hz: u32,
    /// The graph, to be opened in a browser.
    #[arg(long, short = 'o', alias = "output", value_name = "FILE", default_value = "hearth-profile.svg")]
    pub flame: PathBuf,
    /// The stacks, one a line, for other tools [default: beside the graph, `.folded`].
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// The node's `rpc.admin_token`. Other users of this machine can read a command line, so prefer the variable
    /// `HEARTH_ADMIN_TOKEN` [default: this configuration's].
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}
