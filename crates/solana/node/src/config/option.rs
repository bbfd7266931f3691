//! `--config`: the option that names the configuration file, and reading it.

use std::path::PathBuf;

use clap::Args;
use hearth_command::output::note;

use super::{Config, ConfigError, LoadedConfig, check, load};

/// The option that names the configuration file.
#[derive(Args, Default)]
pub struct ConfigFile {
    /// Configuration file [default: none; `hearth config show --default` prints the values in effect then].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads the file, or takes the defaults without one, and prints the notices.
    pub fn load(&self) -> Result<LoadedConfig, ConfigError> {
        let Some(path) = &self.config else { return Ok(LoadedConfig::default()) };
        let loaded = load(path)?;
        for notice in &loaded.notices {
            note(format_args!("notice: {notice}"));
        }
        Ok(loaded)
    }

    /// Reads the configuration without the notices.
    pub fn read(&self) -> Result<Config, ConfigError> {
        self.load().map(|loaded| loaded.config)
    }

    /// The configuration of the node with this name, which overrides the file's.
    pub fn named(&self, name: Option<&str>) -> Result<Config, ConfigError> {
        let mut config = self.read()?;
        if let Some(name) = name {
            config.name = name.to_owned();
            check(&config).map_err(|(_, what)| ConfigError::Name(what))?;
        }
        Ok(config)
    }
}
