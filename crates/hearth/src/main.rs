//! hearth: the one binary. Commands, configuration, wiring.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong use (command line or configuration), 3 to 5 what `hearth why` says, 3 a
//! machine that does not come to what `hearth tune machine` was asked for, or what `--fail-on-worse` found, 101 a
//! panic, 130 interrupted: `tune machine` has told what there was by then, the others had nothing to say.

#![deny(clippy::print_stdout, clippy::print_stderr)] // `say` does not panic when nobody reads.

mod bench;
mod boot;
mod check;
mod cli;
mod cluster;
mod config;
mod configure;
mod developer;
mod draw;
mod evm;
mod exit_code;
mod history_repair;
mod keys;
mod ledger_command;
mod load;
mod machine;
mod memory;
mod metrics;
mod monitor;
mod node_rpc;
mod out;
mod pages;
mod panics;
mod peers;
mod ports;
mod preflight;
mod profile;
mod progress;
mod replay;
mod restore;
mod run;
mod say;
mod secrets;
mod shell;
mod stop;
mod tile_kinds;
mod tune;
mod wallet;
mod why;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, ConfigCommand, ConfigFile, Keys};
use config::{Config, ConfigError};
use developer::FlagError;
use exit_code::{Failure, INTERRUPTED};
use say::{Say, note};
use stop::StopSignal;

fn main() -> ExitCode {
    panics::install();
    let command = Cli::parse().command;
    if matches!(command, Command::Run(_) | Command::Evm(_)) {
        stop::never_for_readers();
    }
    let (quiet, log) = match &command {
        Command::Run(run) => (run.flags.quiet, run.flags.log),
        Command::Evm(evm::EvmCommand::Run(run)) => (run.quiet, run.log),
        _ => (false, false),
    };
    // RUST_LOG sets how much is said; warnings by default.
    let level = if log { "info" } else { "warn" };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| level.into()))
        .with_writer(std::io::stderr)
        // It would panic where standard error is closed.
        .log_internal_errors(false)
        .init();
    let say = if quiet { Say::nothing() } else { Say::default() };
    match dispatch(command, &say).and_then(|()| Ok(say.end()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ended(&failure, &say),
    }
}

/// Ends the process: says why the command failed, with the code that its error has.
fn ended(failure: &Failure, say: &Say) -> ExitCode {
    let code = failure.exit_code();
    match code {
        _ if failure.is_printed() => {}
        // An interruption is no fault, and who stopped reading asked for nothing more.
        INTERRUPTED if say.is_closed() => return ExitCode::SUCCESS,
        INTERRUPTED => note(failure),
        _ => note(format_args!("error: {failure}")),
    }
    ExitCode::from(code)
}

fn dispatch(command: Command, say: &Say) -> Result<(), Failure> {
    match command {
        Command::Bench(options) => {
            let config = read(&options.config)?;
            let stop = StopSignal::install()?;
            if let Some(parent) = options.parent {
                stop.set_when_orphaned(parent)?;
            }
            Ok(bench::run(config, &options, &stop, say)?)
        }
        Command::Run(options) => {
            let config::Loaded { mut config, keys, .. } = load_config(&options.config)?;
            options.flags.apply(&mut config)?;
            let stop = StopSignal::install()?;
            if let Some(parent) = options.parent {
                stop.set_when_orphaned(parent)?;
            }
            let ran = run::run(config, &keys, &options.flags, &stop, say);
            Ok(ran.map_err(|why| why.of_file(&options.config))?)
        }
        Command::Why(options) => Ok(why::run(&named(&options.config, options.name.as_deref())?, &options, say)?),
        Command::Monitor(options) => {
            let config = read(&options.config)?;
            Ok(monitor::run(&config, &options, &StopSignal::install()?, say)?)
        }
        Command::Profile(cli::Profile { of: Some(cli::ProfileOf::Bench(options)), .. }) => {
            let config = read(&options.bench.config)?;
            Ok(profile::bench::run(config, &options, &StopSignal::install()?, say)?)
        }
        Command::Profile(cli::Profile { node: options, .. }) => {
            let config = named(&options.config, options.name.as_deref())?;
            Ok(profile::run(&config, &options, &StopSignal::install()?, say)?)
        }
        Command::Ledger(command) => {
            let chain = command.chain();
            let mut config = named(&chain.config, chain.name.as_deref())?;
            config.ledger.path = chain.ledger.clone().unwrap_or(config.ledger.path);
            Ok(ledger_command::run(&command, &config, say)?)
        }
        Command::Load(options) => Ok(load::run(&options, &StopSignal::install()?, say)?),
        Command::Tune(command) => Ok(tune::run(&command, say)?),
        Command::Cluster(command) => Ok(cluster::run(&command, say)?),
        Command::Evm(command) => Ok(evm::run(&command, &StopSignal::install()?, say)?),
        Command::Machine(options) => Ok(machine::run(&options, say)?),
        Command::Configure(command) => Ok(configure::run(&read(&command.options().config)?, &command, say)?),
        Command::Keys(Keys::New { path }) => {
            say.line(format_args!("{}  {}", keys::create(&path)?.address(), path.display()));
            Ok(())
        }
        Command::Keys(Keys::Pubkey { path }) => {
            say.line(keys::read(&path)?.address());
            Ok(())
        }
        Command::Wallet(command) => Ok(wallet::run(&command, say)?),
        Command::Config(command) => configuration(command, say),
    }
}

fn configuration(command: ConfigCommand, say: &Say) -> Result<(), Failure> {
    match command {
        ConfigCommand::Show { default: true, .. } => say.text(Config::annotated_default()),
        ConfigCommand::Show { counters: true, .. } => say.text(metrics::markdown()),
        ConfigCommand::Show { tiles: true, .. } => say.text(tile_kinds::markdown()),
        ConfigCommand::Show { config, memory: true, .. } => say.text(memory::table(&read(&config)?)?),
        ConfigCommand::Show { config, .. } => say.text(toml::to_string_pretty(&read(&config)?)?),
        ConfigCommand::Check { file, config } => check::run(file.or(config).as_deref(), say)?,
    }
    Ok(())
}

/// Reads the configuration and says what was noticed.
fn load_config(file: &ConfigFile) -> Result<config::Loaded, ConfigError> {
    let Some(path) = &file.config else { return Ok(config::Loaded::default()) };
    let loaded = config::load(Path::new(path))?;
    for notice in &loaded.notices {
        note(format_args!("notice: {notice}"));
    }
    Ok(loaded)
}

fn read(file: &ConfigFile) -> Result<Config, ConfigError> {
    load_config(file).map(|loaded| loaded.config)
}

/// The configuration of the node of this name.
fn named(file: &ConfigFile, name: Option<&str>) -> Result<Config, Failure> {
    let mut config = read(file)?;
    if let Some(name) = name {
        config.name = name.to_owned();
        config::check(&config).map_err(|(_, what)| FlagError::value("--name", what))?;
    }
    Ok(config)
}
