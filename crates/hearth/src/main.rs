//! hearth: the one binary. Commands, configuration, wiring.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong use (command line or configuration).

mod bench;
mod boot;
mod cli;
mod config;
mod draw;
mod keys;
mod memory;
mod monitor;
mod replay;
mod run;
mod stop;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, ConfigCommand, ConfigFile, Keys};
use config::{Config, ConfigError};
use stop::StopSignal;

fn main() -> ExitCode {
    // RUST_LOG sets how much is said; warnings by default.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()))
        .with_writer(std::io::stderr)
        .init();
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let wrong_use =
                error.is::<ConfigError>() || matches!(error.downcast_ref(), Some(bench::BenchError::Option(_)));
            ExitCode::from(if wrong_use { 2 } else { 1 })
        }
    }
}

fn dispatch(command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Bench(options) => {
            let config = read(&options.config)?;
            Ok(bench::run(config, &options, &StopSignal::install()?)?)
        }
        Command::Run(options) => Ok(run::run(&read(&options.config)?, &StopSignal::install()?)?),
        Command::Monitor(options) => {
            let config = read(&options.config)?;
            Ok(monitor::run(&config, options.name.as_deref(), options.count, &StopSignal::install()?)?)
        }
        Command::Keys(Keys::New { path }) => {
            println!("{}  {}", keys::create(&path)?.address(), path.display());
            Ok(())
        }
        Command::Keys(Keys::Pubkey { path }) => {
            println!("{}", keys::read(&path)?.address());
            Ok(())
        }
        Command::Config(command) => configuration(command),
    }
}

fn configuration(command: ConfigCommand) -> Result<(), Box<dyn Error>> {
    match command {
        ConfigCommand::Show { default: true, .. } => print!("{}", Config::annotated_default()),
        ConfigCommand::Show { counters: true, .. } => print!("{}", memory::counters_markdown()),
        ConfigCommand::Show { config, memory: true, .. } => print!("{}", memory::table(&read(&config)?)?),
        ConfigCommand::Show { config, .. } => print!("{}", toml::to_string_pretty(&read(&config)?)?),
        ConfigCommand::Check { config } => {
            let config = read(&config)?;
            let cores = boot::cores(&config)?;
            for (with_load, what) in [(false, "hearth run"), (true, "hearth bench")] {
                let topology = boot::topology(&config, &cores, with_load)?;
                println!("{what}:\n{}", draw::layout(&topology));
            }
            println!("the configuration is good");
        }
    }
    Ok(())
}

/// Reads the configuration and says what was noticed.
fn read(file: &ConfigFile) -> Result<Config, ConfigError> {
    let Some(path) = &file.config else { return Ok(Config::default()) };
    let loaded = config::load(Path::new(path))?;
    for notice in &loaded.notices {
        eprintln!("notice: {notice}");
    }
    Ok(loaded.config)
}
