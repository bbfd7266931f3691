//! The subcommands of `hearth`. Each command declares its options in its own module.

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use hearth_command::NO_LAB;
use hearth_evm_node::EvmCommand;
use hearth_node::{catchup, genesis_command, ledger_command, run, validator};

#[cfg(feature = "lab")]
use crate::lab::{monitor, profile};
use crate::{config_command, configure, help, keys, machine, renamed, shell_files, why};

/// The commands of the lab, which a program without the feature `lab` does not have.
const OF_THE_LAB: [&str; 5] = ["bench", "monitor", "profile", "load", "tune"];

/// Hearth: a transaction-processing node and the lab that goes with it.
///
/// Begin with `hearth bench`: it needs no configuration, no root and no preparation, and says how many transactions a
/// second this machine can do and what limits it.
#[derive(Parser)]
#[command(bin_name = "hearth", version, arg_required_else_help = true)]
#[cfg_attr(
    not(feature = "lab"),
    command(about = "Hearth: a transaction-processing node, built without its lab", long_about = None)
)]
pub struct Cli {
    /// The subcommand that was given.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the process's arguments; on an error it prints the reason and exits.
    pub fn of_args() -> Self {
        let first = std::env::args_os().nth(1).and_then(|word| word.into_string().ok());
        let parsed = program().try_get_matches().and_then(|matches| {
            renamed::note_old_names(&matches, std::env::args_os());
            Self::from_arg_matches(&matches).map_err(|why| why.format(&mut program()))
        });
        parsed.unwrap_or_else(|why| explained(why, first.as_deref(), &mut program()).exit())
    }
}

/// Returns the command line, with its help as users see it.
pub fn program() -> clap::Command {
    help::program(Cli::command())
}

/// Returns the command line as the man pages show it.
pub fn manual() -> clap::Command {
    help::manual(Cli::command())
}

/// Explains that a command of the lab is missing because this program was built without the lab.
fn explained(why: clap::Error, first: Option<&str>, program: &mut clap::Command) -> clap::Error {
    let is_missing = |name: &&str| OF_THE_LAB.contains(name) && program.find_subcommand(name).is_none();
    match first.filter(is_missing) {
        Some(name) if why.kind() == ErrorKind::InvalidSubcommand => {
            let what = format!("`hearth {name}` is a command of the lab, and {NO_LAB} (feature `lab`)");
            program.error(ErrorKind::InvalidSubcommand, what)
        }
        _ => why,
    }
}

/// The subcommands, in the order of the help.
#[derive(Subcommand)]
pub enum Command {
    /// Measure transactions per second on this machine.
    ///
    /// Boots a node with a new chain, signs transfers, sends them over QUIC on loopback, and prints once a second
    /// how many transactions the chain has executed. Ctrl-C ends it with the summary so far. The ledger is in
    /// `ledger.path`, by default `.hearth/` in the current folder, and is removed at the end.
    #[cfg(feature = "lab")]
    Bench(hearth_bench::Options),
    /// Run a node with a local Solana chain.
    ///
    /// Solana clients connect to http://127.0.0.1:8899. The chain is kept in `ledger.path`. Ctrl-C stops it. The options
    /// are those of `solana-test-validator` where the meaning is the same.
    Run(Box<run::Options>),
    /// Run a node in a cluster, or control one.
    ///
    /// Without a subcommand a node joins the cluster of --entrypoint: it takes the genesis and a snapshot, catches up,
    /// follows, and with --vote-account votes and leads. Ctrl-C stops it. The subcommands talk to a running one by the
    /// socket `admin.rpc` in its ledger folder. The options are those of `agave-validator` where the meaning is the
    /// same.
    Validator(Box<validator::Options>),
    /// Compare a node's slot with another node's.
    ///
    /// Shows how far the node is behind the one at --url, and ends when it has caught up.
    Catchup(catchup::Options),
    /// Say where a transaction landed or was dropped.
    ///
    /// The answer comes from a running node and names the reason.
    ///
    /// Exit codes: 0 it landed successfully, or waits to be resent; 3 it landed and failed; 4 it was dropped or
    /// refused; 5 it is unknown; 1 no node answers; 2 wrong use.
    Why(why::Options),
    /// Watch a running node: where the time goes.
    ///
    /// Shows tiles, links, and what limits the node.
    ///
    /// When the node ends, its last second stays on the screen until a node of that name starts. Ctrl-C or `q` ends the
    /// monitor. With --count, a node that has ended is an error (exit code 1).
    #[cfg(feature = "lab")]
    Monitor(monitor::Options),
    /// Draw a flame graph of a node's CPU time.
    ///
    /// The node samples itself, asked over its RPC: from this machine, or with `rpc.admin_token` from another. Writes
    /// an SVG and the stacks for other tools, and says which tile used how much. Ctrl-C ends it early. With too few
    /// samples for a result the exit code is 1. `hearth profile bench` profiles a bench.
    #[cfg(feature = "lab")]
    Profile(profile::Options),
    /// Make the genesis of a cluster, or show one.
    #[command(subcommand)]
    Genesis(genesis_command::Command),
    /// Check, replay and export a chain on disk.
    ///
    /// No node may run on it meanwhile. Exit code 1 when something is wrong with it.
    #[command(subcommand)]
    Ledger(ledger_command::Command),
    /// Put load on a node over its RPC, and measure it.
    ///
    /// The node speaks Ethereum's JSON-RPC or Solana's, and may be another program.
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Load(hearth_load::Options),
    /// Find the best build or layout, with statistics.
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Tune(hearth_tune::Command),
    /// Run or simulate a cluster of many nodes.
    #[command(subcommand)]
    Cluster(hearth_local_cluster::Command),
    /// Run an EVM chain; import, export, verify blocks.
    ///
    /// Ethereum's wallets and tools talk to it.
    #[command(subcommand)]
    Evm(EvmCommand),
    /// Describe this machine, and what competes for it.
    ///
    /// Shows cores, caches, memory, network, settings, and competition for the cores.
    Machine(machine::Options),
    /// Set this machine up for a node, or check it.
    #[command(subcommand)]
    Configure(configure::Command),
    /// Create keys, and show public keys.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Hold and pay assets on an EVM node's UTXO ledger.
    ///
    /// Shows balances, pays, and moves native assets to the EVM and back.
    #[command(subcommand)]
    Wallet(hearth_wallet::Command),
    /// Show and check the configuration.
    #[command(subcommand)]
    Config(config_command::Command),
    /// Print completions for a shell.
    ///
    /// Source the output, or write it to the file that the shell loads completions from.
    Completions(shell_files::Completions),
    /// Write the man pages to a folder.
    ///
    /// Writes one page for each command and subcommand, as `hearth-evm-run.1`. Existing pages are replaced.
    Man(shell_files::Man),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_has_the_lab_only_by_its_feature() {
        for name in OF_THE_LAB {
            assert_eq!(Cli::command().find_subcommand(name).is_some(), cfg!(feature = "lab"), "{name}");
        }
    }

    #[test]
    fn missing_lab_is_named() {
        let program =
            || clap::Command::new("hearth").subcommand(clap::Command::new("evm").subcommand(clap::Command::new("run")));
        let said = |words: &[&str]| {
            let why = program().try_get_matches_from([&["hearth"][..], words].concat()).unwrap_err();
            explained(why, words.first().copied(), &mut program()).to_string()
        };
        assert!(said(&["load", "run"]).contains("`hearth load` is a command of the lab"), "{}", said(&["load", "run"]));
        for other in [&["lode"][..], &["evm", "load"]] {
            assert!(!said(other).contains("lab"), "{}", said(other));
        }
    }
}
