//! `hearth profile`: where a live node spends its CPU time.
//!
//! reads   the node's answers, over its RPC: from another machine too, where the node has a token
//! writes  a flame graph as SVG, its stacks as folded lines, and which tile used how much
//! memory  one profile

mod chain;
mod options;
mod service;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearth_bench::profile::words;
use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::node_rpc::{self, Rpc, RpcError};
use hearth_command::output::{self, CommandOutput, WriteError, note};
use hearth_command::stop::StopSignal;
use hearth_node::config::LocalNode;
use hearth_ring::Observer;
use serde_json::{Value, json};

use crate::local_nodes;
use crate::why::{self, WhyError};

pub use chain::ChainService;
pub use options::{NodeOptions, Options, ProfileTarget};
pub use service::Service;

/// Fewer samples do not show where the time goes.
const FEW: u64 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest wait for a block, and for its end.
const BLOCK_MAX: Duration = Duration::from_secs(60);
/// Extra time allowed: one second of sampling-free baseline, and symbolizing on a busy machine.
const NAMING_MAX: Duration = Duration::from_secs(120);
/// Environment variable with the token. Unlike a command line, other users cannot read it.
const TOKEN: &str = "HEARTH_ADMIN_TOKEN";

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No running node was found.
    #[error(transparent)]
    Place(#[from] WhyError),
    /// The node does not answer.
    #[error("{0}")]
    Rpc(RpcError),
    /// The node refused the request.
    #[error("the node at {url} refuses: {why}{hint}")]
    Refused {
        /// The RPC URL of the node.
        url: String,
        /// The reason that the node gave.
        why: String,
        /// Advice to the user; may be empty.
        hint: &'static str,
    },
    /// The node could not take the profile.
    #[error("the node took no profile: {0}")]
    Failed(String),
    /// The profile does not end.
    #[error("profile {id} still runs after {seconds} s, longer than it can take; is the node stuck?")]
    Late {
        /// Number of the profile that already runs.
        id: u64,
        /// How long the command waited.
        seconds: u64,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The node's process is stopped.
    #[error("the node (pid {0}) is stopped, and does not answer: `kill -CONT {0}` continues it")]
    Stopped(u32),
    /// The profile was written, but holds too few samples to be useful.
    #[error(
        "only {samples} samples fell into what was asked for, too few to tell where the time goes: it used {cpu_ms:.0} ms \
         of CPU time. Send load meanwhile, or take longer (--duration), or more (--hz)"
    )]
    Few {
        /// Samples on the graph.
        samples: u64,
        /// CPU time of the process meanwhile.
        cpu_ms: f64,
    },
    /// Ctrl-C, twice, or to a node that cannot stop early.
    #[error("interrupted; the node continues profile {0}, and keeps it for a while: `hearth_profileFetch` returns it")]
    Interrupted(u64),
}

impl ExitCode for ProfileError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Rpc(RpcError::Url { .. } | RpcError::Host(_)) => WRONG_USE,
            _ => FAILED,
        }
    }
}

impl ProfileError {
    fn of(url: &str, error: RpcError) -> Self {
        let (code, why) = match error {
            RpcError::Refused { code, message, .. } => (code, message),
            RpcError::Url { .. } | RpcError::Host(_) => return Self::Rpc(error),
            other => return WhyError::Connection(url.into(), other.reason()).into(),
        };
        let hint = match code {
            -32040 => "; give it in HEARTH_ADMIN_TOKEN, with --token, or by the node's own file with --config",
            -32601 => "; it is not a node of this release",
            _ => "",
        };
        Self::Refused { url: url.into(), why, hint }
    }
}

/// Asks the node to sample itself, waits, and writes the result. Ctrl-C ends the profile early. `admin_token` comes
/// from the configuration and is empty if that has none.
pub fn run(
    node: &LocalNode,
    admin_token: &str,
    options: &NodeOptions,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), ProfileError> {
    let folded = options.folded.clone().unwrap_or_else(|| options.flame.with_extension("folded"));
    // Check before the profile that its files can be written.
    [&options.flame, &folded].into_iter().try_for_each(|path| output::can_be_written(path))?;
    let mut node = ProfiledNode::of(node, admin_token, options)?;
    let id = node.start(options)?;
    note(format_args!("profiling {}; Ctrl-C ends it early, and what there is is written", node.url));
    let span = if options.next_block { 2 * BLOCK_MAX } else { Duration::from_secs(options.duration) };
    let taken = node.wait(id, span + NAMING_MAX, stop)?;
    write(&options.flame, &node.fetch(id, "svg")?)?;
    write(&folded, &node.fetch(id, "folded")?)?;
    say.text(words::of(&taken));
    let (graph, stacks) = (std::path::absolute(&options.flame), folded.display());
    let graph = graph.unwrap_or_else(|_| options.flame.clone());
    say.line(format_args!("  graph      file://{}\n  stacks     {stacks}", graph.display()));
    say.line(
        "             open the graph in a browser: a click on a bar makes it as wide as the page, Ctrl-F searches",
    );
    let number = |key: &str| taken[key].as_f64().unwrap_or_default();
    match number("samples") as u64 {
        samples if samples < FEW => Err(ProfileError::Few { samples, cpu_ms: 1e3 * number("cpuSeconds") }),
        _ => Ok(()),
    }
}

/// A node that is being profiled over RPC.
struct ProfiledNode {
    rpc: Rpc,
    url: String,
    token: Option<String>,
    /// Its process, of a node on this machine.
    pid: Option<u32>,
}

impl ProfiledNode {
    fn of(node: &LocalNode, admin_token: &str, options: &NodeOptions) -> Result<Self, ProfileError> {
        let (url, pid) = match &options.url {
            Some(url) => (url.clone(), None),
            None => {
                let (place, pid) = place(node, options.name.is_some())?;
                (format!("http://{place}"), pid)
            }
        };
        if let Some(token) = options.token.as_deref().filter(|token| !token.is_empty()) {
            hearth_command::secrets::warn_of_arguments("--token", token, "in the variable HEARTH_ADMIN_TOKEN");
        }
        let of_environment = std::env::var(TOKEN).ok();
        let token = options.token.clone().or(of_environment.filter(|token| !token.is_empty()));
        let configured = Some(admin_token.to_owned()).filter(|token| !token.is_empty());
        let rpc = node_rpc::at(&url).map_err(ProfileError::Rpc)?;
        Ok(Self { rpc, url, token: token.or(configured), pid })
    }

    fn call(&mut self, method: &str, mut options: Value) -> Result<Value, ProfileError> {
        if let Some(token) = &self.token {
            options["token"] = token.clone().into();
        }
        // A stopped process accepts connections, but never answers.
        if let Some(pid) = self.pid.filter(|pid| is_stopped(*pid)) {
            return Err(ProfileError::Stopped(pid));
        }
        self.rpc.call(method, &json!([options])).map_err(|error| ProfileError::of(&self.url, error))
    }

    /// The number of the profile that begins.
    fn start(&mut self, options: &NodeOptions) -> Result<u64, ProfileError> {
        let mut plan = json!({ "tile": options.tile, "hz": options.hz });
        match options.next_block {
            true => plan["nextBlock"] = true.into(),
            false => plan["seconds"] = options.duration.into(),
        }
        let begun = self.call("hearth_profileStart", plan)?;
        Ok(begun["id"].as_u64().unwrap_or_default())
    }

    /// Its figures, once it has been taken.
    fn wait(&mut self, id: u64, most: Duration, stop: &StopSignal) -> Result<Value, ProfileError> {
        let (begun, mut presses) = (Instant::now(), 0);
        loop {
            let answer = self.fetch(id, "summary")?;
            match answer["state"].as_str() {
                Some("running") if stop.presses() > presses => {
                    let is_first = std::mem::replace(&mut presses, stop.presses()) == 0;
                    let stopped = is_first && self.call("hearth_profileStop", json!({ "id": id })).is_ok();
                    if !stopped {
                        return Err(ProfileError::Interrupted(id));
                    }
                    note("  … ending early");
                }
                Some("running") if begun.elapsed() >= most => {
                    return Err(ProfileError::Late { id, seconds: most.as_secs() });
                }
                Some("running") => std::thread::sleep(LOOK_EVERY),
                _ => return Ok(answer),
            }
        }
    }

    fn fetch(&mut self, id: u64, format: &str) -> Result<Value, ProfileError> {
        let answer = self.call("hearth_profileFetch", json!({ "format": format, "id": id }))?;
        match answer["state"].as_str() {
            Some("running" | "done") => Ok(answer),
            _ => Err(ProfileError::Failed(answer["why"].as_str().unwrap_or("it does not say why").into())),
        }
    }
}

/// Returns the RPC and the process of the named node; without a name those of the configuration's, then a bench's, then
/// the only running node's.
fn place(node: &LocalNode, is_named: bool) -> Result<(SocketAddr, Option<u32>), WhyError> {
    let of = |node: &LocalNode| {
        let found = why::place(node, true)?;
        Ok((found, Observer::attach(&node.workspace()).ok().map(|node| node.pid())))
    };
    match of(node) {
        Err(_) if !is_named => of(&node.named(hearth_bench::NAME)).or_else(|_| match &local_nodes::running(node)[..] {
            [only] => of(&node.named(only)),
            _ => Ok((why::place(node, false)?, None)),
        }),
        found => found,
    }
}

/// Whether a process was stopped by a signal.
fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it, in brackets, may have any letters.
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
}

fn write(path: &Path, taken: &Value) -> Result<(), WriteError> {
    let text = taken["profile"].as_str().unwrap_or_default();
    fs::write(path, text).map_err(|source| WriteError { path: PathBuf::from(path), source })
}
