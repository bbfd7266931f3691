//! `hearth validator`: runs a node in a cluster with the options of `agave-validator`, and controls one that runs.
//!
//! reads   the configuration, options; for the subcommands, the node's admin socket and its RPC
//! writes  a configuration, with which the node of `hearth run` starts; requests
//! drops   nothing: an option that cannot be applied is an error that names it, and nothing has been started
//! source  `agave-validator` 4.2.2; `docs/validator.md` lists its options one by one
//!
//! The node is that of [`crate::run`] with two differences. It has the socket of [`crate::admin`]. Its ports do not
//! move when other programs use them, since operators open them in firewalls.

mod authorized_voter;
mod contact_info;
mod exit;
mod options;
mod restart_window;
mod set_identity;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::output::{CommandOutput, WriteError};
use hearth_command::stop::StopSignal;
use hearth_ledger::Genesis;
use hearth_ledger::genesis::GENESIS_NAME;
use hearth_ledger::hard_forks::shred_version_with;
use hearth_rpc_client::RpcError;
use hearth_wire::base58::decode_32;

use crate::admin::{AdminError, AdminState};
use crate::boot::{self, BootError, Instruments};
use crate::config::{self, Config, ConfigError, ConfigFile, LoadedConfig, LocalNode};
use crate::developer::Flags;
use crate::peers::join::JoinError;
use crate::restore::Declared;
use crate::run::{self, RunError};

pub use options::{NodeOptions, PortRange};
pub use restart_window::Window;

/// The arguments of `hearth validator`.
#[derive(Args)]
pub struct Options {
    /// The node to start, or the one that the subcommand is about.
    #[command(flatten)]
    pub node: NodeSelector,
    /// The options of the node that starts.
    #[command(flatten)]
    pub given: NodeOptions,
    /// The action on a node that runs; without one, a node starts.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The options that select a node.
#[derive(Args, Clone, Debug, Default)]
pub struct NodeSelector {
    /// Configuration file [default: none; `hearth config show --default` prints the values in effect then].
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// The node's name.
    #[arg(long, value_name = "NAME", global = true)]
    pub name: Option<String>,
    /// The ledger folder, which has the admin socket too.
    #[arg(short = 'l', long, value_name = "DIR", global = true)]
    pub ledger: Option<PathBuf>,
}

/// The subcommands of `hearth validator`.
#[derive(Subcommand)]
pub enum Command {
    /// End the node at a good time, and wait until it has ended.
    ///
    /// Waits for a restart window first, as `wait-for-restart-window` does, unless --force is given.
    Exit(exit::Exit),
    /// Wait for a good time to restart the node.
    ///
    /// At such a time the node is healthy and does not lead for a while, has taken a snapshot since the wait began, and
    /// enough other stake votes to carry the cluster. With another exit code than 0 there was no such time.
    WaitForRestartWindow(restart_window::WaitForRestartWindow),
    /// Change which keys sign the node's votes while it runs.
    ///
    /// A change lasts until the node ends; --authorized-voter names the keys of its next start.
    #[command(subcommand)]
    AuthorizedVoter(authorized_voter::AuthorizedVoter),
    /// Show the node's contact info in gossip.
    ContactInfo(contact_info::ContactInfoOptions),
    /// Give the node another identity while it runs.
    ///
    /// It votes with that identity's tower if the ledger folder has it, else with the votes that the chain has of its
    /// vote account. The change lasts until the node ends; --identity names the key of its next start.
    SetIdentity(set_identity::SetIdentity),
}

/// Why the node does not start, or a subcommand fails.
#[derive(Debug, thiserror::Error)]
pub enum ValidatorError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An option is invalid.
    #[error("{option}: {what}")]
    Option {
        /// The option with its dashes, such as `--name`.
        option: &'static str,
        /// The problem with its value, as a clause.
        what: String,
    },
    /// The configuration with the options is invalid.
    #[error("these options with the configuration make `{key}` wrong: {what}")]
    Together {
        /// The configuration key as a dotted path.
        key: &'static str,
        /// The problem with its value.
        what: String,
    },
    /// A key's file cannot be found.
    #[error("cannot read {}: {source}", path.display())]
    KeyFile {
        /// The path of the key's file, as given.
        path: PathBuf,
        /// Why it cannot be read, as the system says it.
        source: std::io::Error,
    },
    /// Options of the node come with a subcommand.
    #[error("a subcommand takes no options that start a node; choose the node by --ledger, --name or --config")]
    Misplaced,
    /// There is neither a chain nor a cluster to take one from.
    #[error(
        "there is no genesis in {}, and no --entrypoint (gossip.entrypoints) of a cluster to take it from; `hearth \
         genesis create` makes one",
        folder.display()
    )]
    NoGenesis {
        /// The ledger folder, which has no genesis.
        folder: PathBuf,
    },
    /// The folder's chain has another shred version than the operator named.
    #[error(
        "the chain in {} has shred version {own}, and consensus.expected_shred_version is {expected}: name another \
         folder (--ledger), or the hard forks that the chain has had (--hard-fork)",
        folder.display()
    )]
    OtherShredVersion {
        /// The ledger folder with that chain.
        folder: PathBuf,
        /// The chain's shred version.
        own: u16,
        /// The value of `consensus.expected_shred_version`.
        expected: u16,
    },
    /// The node cannot start, or has failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The signal handlers cannot be installed.
    #[error(transparent)]
    Signals(std::io::Error),
    /// The node does not answer on its admin socket.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The node does not answer on its admin socket, but other nodes run.
    #[error("{why}; these nodes run on this machine: {}", running.join(", "))]
    OtherNode {
        /// Why the node does not answer.
        why: AdminError,
        /// The names of those that run, for `--name`.
        running: Vec<String>,
    },
    /// The node's RPC does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The node's start is not complete.
    #[error("the node does not run yet: its start is at the stage {0}; `exit --force` ends it anyway")]
    Starting(String),
    /// The node's answer does not have the form of Agave's methods.
    #[error("{method}: the node answers {answer}")]
    Garbled {
        /// The method of the admin socket that was called.
        method: &'static str,
        /// The node's answer, as JSON text.
        answer: String,
    },
    /// The node refuses another identity.
    #[error("the identity stays {identity}: {why}")]
    IdentityStays {
        /// The identity that the node keeps, in base58.
        identity: String,
        /// Why the node refuses, as its admin socket says it.
        why: String,
    },
    /// The node leads too often for the requested idle time.
    #[error(
        "the node has no idle window of at least {wanted} slots; its longest one until slot {to} has {longest} slots \
         (--min-idle-time)"
    )]
    NoWindow {
        /// The requested length in slots.
        wanted: u64,
        /// The longest window's slots.
        longest: u64,
        /// The first slot of which the leader is not known.
        to: u64,
    },
    /// The result cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ExitCode for ValidatorError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Option { .. } | Self::Together { .. } => WRONG_USE,
            Self::Misplaced | Self::NoGenesis { .. } => WRONG_USE,
            Self::Run(why) => why.exit_code(),
            _ => FAILED,
        }
    }
}

impl NodeSelector {
    fn file(&self) -> ConfigFile {
        ConfigFile { config: self.config.clone() }
    }

    /// The file's configuration, with the name and the folder that were given.
    fn load(&self) -> Result<LoadedConfig, ConfigError> {
        let mut loaded = self.file().load()?;
        if let Some(name) = &self.name {
            loaded.config.name.clone_from(name);
        }
        if let Some(ledger) = &self.ledger {
            loaded.config.ledger.path.clone_from(ledger);
        }
        Ok(loaded)
    }

    /// Adds the names of the nodes that run to the error, if the selected node does not run.
    fn with_running(&self, why: ValidatorError) -> ValidatorError {
        let ValidatorError::Admin(why @ AdminError::NoNode { .. }) = why else { return why };
        let running = self.load().map(|loaded| LocalNode::of(&loaded.config).running()).unwrap_or_default();
        match running.is_empty() {
            true => ValidatorError::Admin(why),
            false => ValidatorError::OtherNode { why, running },
        }
    }

    /// The ledger folder of the node.
    fn folder(&self) -> Result<PathBuf, ValidatorError> {
        let config = self.load()?.config;
        checked(&config)?;
        Ok(config.expand(&config.ledger.path))
    }
}

impl Options {
    /// Whether a node starts.
    pub fn starts_node(&self) -> bool {
        self.command.is_none()
    }
}

/// Runs a node until it is stopped, or a subcommand.
pub fn run(options: &Options, instruments: Option<Instruments>, say: &CommandOutput) -> Result<(), ValidatorError> {
    let Some(command) = &options.command else { return start(options, instruments, say) };
    if options.given != NodeOptions::default() {
        return Err(ValidatorError::Misplaced);
    }
    let folder = options.node.folder()?;
    let done = match command {
        Command::Exit(exit) => exit.run(&folder, say),
        Command::WaitForRestartWindow(wait) => wait.run(&folder, say),
        Command::AuthorizedVoter(command) => command.run(&folder, say),
        Command::ContactInfo(info) => info.run(&folder, say),
        Command::SetIdentity(set) => set.run(&folder, say),
    };
    done.map_err(|why| options.node.with_running(why))
}

fn start(options: &Options, instruments: Option<Instruments>, say: &CommandOutput) -> Result<(), ValidatorError> {
    let LoadedConfig { mut config, mut keys, .. } = options.node.load()?;
    options.given.apply(&mut config)?;
    checked(&config)?;
    let unmoving = config::ports::movable(&mut config).map(|(key, _)| key.to_owned());
    keys.extend(unmoving);
    let folder = config.expand(&config.ledger.path);
    check_chain(&config, &folder)?;
    let is_new = !folder.exists();
    let stop = StopSignal::install().map_err(ValidatorError::Signals)?;
    let admin = Arc::new(AdminState::new(&stop));
    let ran = run::run(config, &keys, &Flags::default(), instruments, Some(&admin), &stop, say);
    if is_new && matches!(ran, Err(RunError::Boot(BootError::Join(JoinError::OtherCluster { .. })))) {
        forget(&folder);
    }
    Ok(ran.map_err(|why| why.of_file(&options.node.file()))?)
}

fn checked(config: &Config) -> Result<(), ValidatorError> {
    config::check(config).map_err(|(key, what)| match key {
        "name" => ValidatorError::Option { option: "--name", what },
        _ => ValidatorError::Together { key, what },
    })
}

/// Fails if the folder's chain is not the one that the operator named, or if there is neither a chain nor a cluster.
/// The shred version of a chain that is in a cluster is checked when the node joins.
fn check_chain(config: &Config, folder: &Path) -> Result<(), ValidatorError> {
    let failed = |why: BootError| ValidatorError::Run(why.into());
    if !boot::find_genesis(folder).map_err(failed)? {
        return match config.joins() {
            true => Ok(()),
            false => Err(ValidatorError::NoGenesis { folder: folder.to_owned() }),
        };
    }
    // The start reports a damaged chain.
    let Ok(genesis) = Genesis::load(&folder.join(GENESIS_NAME)) else { return Ok(()) };
    let other = |why: JoinError| failed(why.into());
    let own = *genesis.hash();
    let text = &config.consensus.expected_genesis_hash;
    if !text.is_empty() {
        let expected = decode_32(text).map_err(|_| other(JoinError::ExpectedGenesis(text.clone())))?;
        if own != expected {
            return Err(other(JoinError::OtherGenesis { own, expected }));
        }
    }
    let declared = Declared::of(config, folder).map_err(|why| failed(why.into()))?;
    let version = shred_version_with(&own, &declared.all);
    match config.consensus.expected_shred_version {
        expected if !config.joins() && expected != 0 && expected != version => {
            Err(ValidatorError::OtherShredVersion { folder: folder.to_owned(), own: version, expected })
        }
        _ => Ok(()),
    }
}

/// Removes a folder that was made for a cluster that turned out to be another one. The key in it is a moment old and
/// has no stake. A folder with any other file stays.
fn forget(folder: &Path) {
    let _ = fs::remove_file(folder.join("identity.json"));
    let _ = fs::remove_dir(folder);
}
