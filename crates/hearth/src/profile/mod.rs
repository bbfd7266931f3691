//! `hearth profile`: where a live node spends its CPU time.
//!
//! reads   the node's answers, over its RPC: from another machine too, where the node has a token
//! writes  a flame graph as SVG, its stacks as folded lines, and which tile used how much
//! memory  one profile

pub mod bench;
mod page;
mod service;
mod words;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli;
use crate::config::Config;
use crate::node_rpc::{Rpc, RpcError, message};
use crate::out::{self, Unwritable};
use crate::say::Say;
use crate::stop::StopSignal;
use crate::why::{self, WhyError};

pub use service::Service;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest wait for a block, and for its end.
const BLOCK_MAX: Duration = Duration::from_secs(60);
/// What may come on top: a second before, and naming the functions on a machine that is full.
const NAMING_MAX: Duration = Duration::from_secs(120);
/// More stacks of one profile are summed up by thread and tile.
const STACKS_MAX: usize = 10_000;
/// Where the token is looked for: unlike a command line, nobody else sees it.
const TOKEN: &str = "HEARTH_ADMIN_TOKEN";

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No node.
    #[error(transparent)]
    Place(#[from] WhyError),
    /// The node does not answer.
    #[error("{0}")]
    Rpc(RpcError),
    /// The node refuses.
    #[error("the node at {url} refuses: {why}{hint}")]
    Refused {
        /// Its RPC.
        url: String,
        /// What it says.
        why: String,
        /// What to try.
        hint: &'static str,
    },
    /// It could not be taken.
    #[error("the node took no profile: {0}")]
    Failed(String),
    /// It does not end.
    #[error("profile {id} is still under way after {seconds} s, longer than it can take; is the node stuck?")]
    Late {
        /// Its number.
        id: u64,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] Unwritable),
    /// Ctrl-C.
    #[error("interrupted; the node goes on with profile {0}, and keeps it for a while: `hearth_profileFetch` gives it")]
    Interrupted(u64),
}

impl ProfileError {
    /// Whether the command line is at fault.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Rpc(RpcError::Url(_) | RpcError::Host(_)))
    }

    fn of(url: &str, error: RpcError) -> Self {
        let RpcError::Refused { error, .. } = error else { return Self::Rpc(error) };
        let hint = match error["code"].as_i64() {
            Some(-32040) => "; give it in HEARTH_ADMIN_TOKEN, with --token, or by the node's own file with --config",
            Some(-32601) => "; it is no node of this release",
            _ => "",
        };
        Self::Refused { url: url.into(), why: message(&error), hint }
    }
}

/// Has the node sample itself, waits, and writes what it saw.
pub fn run(config: &Config, options: &cli::ProfileNode, stop: &StopSignal, say: &Say) -> Result<(), ProfileError> {
    let folded = options.folded.clone().unwrap_or_else(|| options.output.with_extension("folded"));
    // Better known now than after the profile.
    [&options.output, &folded].into_iter().try_for_each(|path| out::can_be_written(path))?;
    let mut node = Asked::of(config, options)?;
    let id = node.start(options)?;
    let span = if options.next_block { 2 * BLOCK_MAX } else { Duration::from_secs(options.seconds) };
    let taken = node.wait(id, span + NAMING_MAX, stop)?;
    write(&options.output, &node.fetch(id, "svg")?)?;
    write(&folded, &node.fetch(id, "folded")?)?;
    say.text(words::of(&taken));
    say.line(format_args!("  graph      {}\n  stacks     {}", options.output.display(), folded.display()));
    Ok(())
}

/// A node that is asked for a profile.
struct Asked {
    rpc: Rpc,
    url: String,
    token: Option<String>,
}

impl Asked {
    fn of(config: &Config, options: &cli::ProfileNode) -> Result<Self, ProfileError> {
        let url = match &options.url {
            Some(url) => url.clone(),
            None => format!("http://{}", place(config, options.name.is_some())?),
        };
        let of_environment = std::env::var(TOKEN).ok();
        let token = options.token.clone().or(of_environment.filter(|token| !token.is_empty()));
        let configured = Some(config.rpc.admin_token.clone()).filter(|token| !token.is_empty());
        let rpc = Rpc::at(&url).map_err(ProfileError::Rpc)?;
        Ok(Self { rpc, url, token: token.or(configured) })
    }

    fn call(&mut self, method: &str, mut options: Value) -> Result<Value, ProfileError> {
        if let Some(token) = &self.token {
            options["token"] = token.clone().into();
        }
        self.rpc.call(method, json!([options])).map_err(|error| ProfileError::of(&self.url, error))
    }

    /// The number of the profile that begins.
    fn start(&mut self, options: &cli::ProfileNode) -> Result<u64, ProfileError> {
        let mut plan = json!({ "tile": options.tile, "hz": options.hz });
        match options.next_block {
            true => plan["nextBlock"] = true.into(),
            false => plan["seconds"] = options.seconds.into(),
        }
        let begun = self.call("hearth_profileStart", plan)?;
        Ok(begun["id"].as_u64().unwrap_or_default())
    }

    /// Its figures, once it has been taken.
    fn wait(&mut self, id: u64, most: Duration, stop: &StopSignal) -> Result<Value, ProfileError> {
        let begun = Instant::now();
        loop {
            let told = self.fetch(id, "summary")?;
            match told["state"].as_str() {
                Some("running") if stop.is_set() => return Err(ProfileError::Interrupted(id)),
                Some("running") if begun.elapsed() >= most => {
                    return Err(ProfileError::Late { id, seconds: most.as_secs() });
                }
                Some("running") => std::thread::sleep(LOOK_EVERY),
                _ => return Ok(told),
            }
        }
    }

    fn fetch(&mut self, id: u64, format: &str) -> Result<Value, ProfileError> {
        let told = self.call("hearth_profileFetch", json!({ "format": format, "id": id }))?;
        match told["state"].as_str() {
            Some("running" | "done") => Ok(told),
            _ => Err(ProfileError::Failed(told["why"].as_str().unwrap_or("it does not say why").into())),
        }
    }
}

/// The RPC of the node that was named; without a name that of the configuration, or else a bench's.
fn place(config: &Config, is_named: bool) -> Result<SocketAddr, WhyError> {
    let bench = Config { name: crate::bench::NAME.into(), ..config.clone() };
    match why::place(config, true) {
        Err(_) if !is_named => why::place(&bench, true).or_else(|_| why::place(config, false)),
        found => found,
    }
}

fn write(path: &Path, taken: &Value) -> Result<(), Unwritable> {
    let text = taken["profile"].as_str().unwrap_or_default();
    fs::write(path, text).map_err(|source| Unwritable { path: PathBuf::from(path), source })
}
