//! hearth: the one binary. It holds the command line and joins crates that must not depend on each other.
//!
//! Exit codes: 0 success; 1 failure; 2 wrong use (command line or configuration); 3 to 5 the fates that `hearth why`
//! reports; 3 also a machine that misses the requirements of `hearth tune machine`, and a regression found by
//! `--fail-on-worse`; 6 a chain whose rules this program lacks; 101 a panic; 130 an interruption. Before it ends with
//! 130, `tune machine` prints its partial result; other commands print nothing.

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

mod cli;
mod config_command;
mod configure;
mod examples;
mod help;
mod keys;
#[cfg(feature = "lab")]
mod lab;
#[cfg(not(feature = "lab"))]
#[path = "without_lab.rs"]
mod lab;
mod local_nodes;
mod machine;
mod metrics;
mod panics;
mod renamed;
mod shell_files;
mod why;

use std::io::IsTerminal;
use std::process::ExitCode;

use hearth_command::exit_code::{Failure, INTERRUPTED};
use hearth_command::output::{CommandOutput, note};
use hearth_command::stop::{self, StopSignal};
use hearth_evm_node::EvmCommand;
use hearth_node::{apart, catchup, config, genesis_command, ledger_command, run, validator};

use cli::{Cli, Command};

fn main() -> ExitCode {
    // Before anything else, since it has its own rules for panics and may have one thread.
    apart::become_tile_if_asked();
    panics::install();
    let command = Cli::of_args().command;
    let starts_validator = matches!(&command, Command::Validator(options) if options.starts_node());
    if starts_validator || matches!(command, Command::Run(_) | Command::Evm(_)) {
        stop::never_for_readers();
    }
    let (quiet, log) = match &command {
        Command::Run(run) => (run.flags.quiet, run.flags.log),
        Command::Evm(EvmCommand::Run(run)) => (run.quiet, run.log),
        _ => (false, false),
    };
    // RUST_LOG sets the log level; warnings by default.
    let level = if log { "info" } else { "warn" };
    // A file or a service's journal would keep the escape sequences of colours.
    let has_colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| level.into()))
        .with_writer(std::io::stderr)
        .with_ansi(has_colours)
        // The subscriber would report its own errors to standard error, and panic where that is closed.
        .log_internal_errors(false)
        .init();
    let say = if quiet { CommandOutput::nothing() } else { CommandOutput::default() };
    match dispatch(command, &say).and_then(|()| Ok(say.end()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ended(&failure, &say),
    }
}

/// Prints why the command failed, and returns the error's exit code.
fn ended(failure: &Failure, say: &CommandOutput) -> ExitCode {
    let code = failure.exit_code();
    match code {
        _ if failure.is_printed() => {}
        // An interruption is not an error when the reader of the output has already gone away.
        INTERRUPTED if say.is_closed() => return ExitCode::SUCCESS,
        INTERRUPTED => note(failure),
        _ => note(format_args!("error: {failure}")),
    }
    ExitCode::from(code)
}

fn dispatch(command: Command, say: &CommandOutput) -> Result<(), Failure> {
    match command {
        #[cfg(feature = "lab")]
        Command::Bench(options) => lab::bench(&options, say),
        Command::Run(options) => {
            let config::LoadedConfig { mut config, keys, .. } = options.config.load()?;
            options.flags.apply(&mut config)?;
            let stop = StopSignal::install()?;
            if let Some(parent) = options.parent {
                stop.set_when_orphaned(parent)?;
            }
            let ran = run::run(config, &keys, &options.flags, lab::INSTRUMENTS, None, &stop, say);
            Ok(ran.map_err(|why| why.of_file(&options.config))?)
        }
        Command::Validator(options) => Ok(validator::run(&options, lab::INSTRUMENTS, say)?),
        Command::Catchup(options) => Ok(catchup::run(&options, say)?),
        Command::Why(options) => {
            let node = config::LocalNode::of(&options.config.named(options.name.as_deref())?);
            Ok(why::run(&node, &options, say)?)
        }
        #[cfg(feature = "lab")]
        Command::Monitor(options) => lab::monitor(&options, say),
        #[cfg(feature = "lab")]
        Command::Profile(options) => lab::profile(&options, say),
        Command::Genesis(command) => Ok(genesis_command::run(&command, say)?),
        Command::Ledger(command) => Ok(ledger_command::run(&command, &command.config()?, say)?),
        #[cfg(feature = "lab")]
        Command::Load(options) => lab::load(&options, say),
        #[cfg(feature = "lab")]
        Command::Tune(command) => lab::tune(&command, say),
        Command::Cluster(command) => Ok(hearth_local_cluster::run(&command, lab::OPEN_METER, say)?),
        Command::Evm(command) => {
            let stop = StopSignal::install()?;
            Ok(hearth_evm_node::run(&command, lab::INSTRUMENTS_OF_CHAIN, &stop, say)?)
        }
        Command::Machine(options) => machine::run(&options, say),
        Command::Configure(command) => Ok(configure::run(&command.options().config.read()?, &command, say)?),
        Command::Keys(command) => Ok(keys::run(&command, say)?),
        Command::Wallet(command) => Ok(hearth_wallet::run(&command, say)?),
        Command::Config(command) => config_command::run(command, say),
        Command::Completions(options) => {
            shell_files::completions(&options, cli::program(), say);
            Ok(())
        }
        Command::Man(options) => Ok(shell_files::man(&options, cli::manual(), say)?),
    }
}

#[cfg(test)]
mod tests;
