//! Profiles the node while it is under load, by its own profiler, switched on from outside.
//!
//! reads   `hearth_profileFetch`, or `/debug/pprof/profile` of a Go server
//! writes  `hearth_profileStart`, `hearth_profileStop`; a [`Profile`]
//! memory  one profile, 48 MiB at most
//! drops   nothing: if there is no profile, a message says why, and the load continues

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use hearth_rpc_client::http::{self, Patience};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::pprof::{self, PprofError};
use crate::rpc::{Rpc, RpcError};

/// The longest time for which one of our nodes is sampled.
const SECONDS_MAX: u64 = 600;
/// How often the profile is polled.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest wait for a block and its end.
const BLOCK_MAX: Duration = Duration::from_secs(120);
/// How long symbolizing may take on a busy machine.
const NAMING_MAX: Duration = Duration::from_secs(120);
/// Length of one sampling request to a Go server, which cannot be stopped early.
const PIECE_SECONDS: u64 = 5;
/// The longest pprof answer, compressed.
const PPROF_MAX: u64 = 16 << 20;

/// How long to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// During the next block.
    NextBlock,
    /// For this long, or until stopped.
    Time(Duration),
}

impl Span {
    fn in_words(self) -> String {
        match self {
            Self::NextBlock => "the next block".into(),
            Self::Time(time) => format!("{} s", time.as_secs().max(1)),
        }
    }
}

/// The node to profile, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// URL of the node's RPC.
    pub node: String,
    /// The node's admin token, if it requires one.
    pub token: Option<String>,
    /// A Go server's pprof, like `http://127.0.0.1:6060`; without it, the node's RPC is used.
    pub pprof: Option<String>,
    /// How long to sample.
    pub span: Span,
}

/// A CPU profile of the node, as folded stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// The profiler that took it.
    pub source: String,
    /// The requested span, in words.
    pub asked: String,
    /// How long the node was sampled, in seconds.
    pub seconds: f64,
    /// Folded stacks, `caller;callee 17`.
    pub folded: String,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The node does not support the profiling methods.
    #[error(
        "the node has no profiler that its RPC switches on; of a Go server, as geth, start it with --pprof and name that \
         with --pprof http://127.0.0.1:6060"
    )]
    NoProfiler,
    /// The node refuses, or does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The node could not take the profile.
    #[error("the node took no profile: {0}")]
    Failed(String),
    /// The profile does not finish.
    #[error("the node's profile still runs after {0} s")]
    Late(u64),
    /// The URL serves no pprof.
    #[error("no pprof at {url}: {why}")]
    Pprof {
        /// URL of the server.
        url: String,
        /// Why the request failed.
        why: String,
    },
    /// The answer is not a profile.
    #[error("pprof at {url} answers with something else: {why}")]
    NoProfile {
        /// URL of the server.
        url: String,
        /// The first fault found in the answer.
        why: PprofError,
    },
    /// Nothing ran while it was taken, or it was too short.
    #[error("the node ran too little to be seen in {0:.1} s")]
    Empty(f64),
    /// The load ended before the profile began.
    #[error("the load ended before the profile began")]
    Stopped,
}

/// Takes a profile. `begun` is called when sampling starts; `stop` ends it early with what was sampled.
pub fn take(plan: &Plan, begun: &dyn Fn(), stop: &dyn Fn() -> bool) -> Result<Profile, ProfileError> {
    let taken = match &plan.pprof {
        Some(url) => of_go(plan, url, begun, stop),
        None => of_ours(plan, begun, stop),
    }?;
    match taken.folded.is_empty() {
        true => Err(ProfileError::Empty(taken.seconds)),
        false => Ok(taken),
    }
}

/// Takes the profile by our nodes' RPC methods.
fn of_ours(plan: &Plan, when_begun: &dyn Fn(), stop: &dyn Fn() -> bool) -> Result<Profile, ProfileError> {
    let rpc = Rpc::new(&plan.node, NAMING_MAX)?;
    let call = |method: &str, mut options: Value| {
        if let Some(token) = &plan.token {
            options["token"] = token.clone().into();
        }
        rpc.call(method, &json!([options])).map_err(|why| match why {
            RpcError::Refused { code: -32601, .. } => ProfileError::NoProfiler,
            why => why.into(),
        })
    };
    let (asked, span) = match plan.span {
        Span::NextBlock => (json!({ "nextBlock": true }), BLOCK_MAX),
        Span::Time(time) => (json!({ "seconds": time.as_secs().clamp(1, SECONDS_MAX) }), time),
    };
    let id = call("hearth_profileStart", asked)?["id"].clone();
    when_begun();
    let (begun, patience) = (Instant::now(), span + NAMING_MAX);
    let mut is_stopped = false;
    loop {
        let summary = call("hearth_profileFetch", json!({ "id": id, "format": "summary" }))?;
        match summary["state"].as_str() {
            Some("running") if begun.elapsed() > patience => return Err(ProfileError::Late(patience.as_secs())),
            Some("running") => {
                if stop() && !is_stopped {
                    is_stopped = true;
                    call("hearth_profileStop", json!({ "id": id }))?;
                }
                thread::sleep(LOOK_EVERY);
            }
            Some("done") => break,
            _ => return Err(ProfileError::Failed(words(&summary))),
        }
    }
    let summary = call("hearth_profileFetch", json!({ "id": id, "format": "folded" }))?;
    let folded = summary["profile"].as_str().ok_or_else(|| ProfileError::Failed(words(&summary)))?;
    let asked = summary["asked"].as_str().map_or_else(|| plan.span.in_words(), Into::into);
    let seconds = summary["seconds"].as_f64().unwrap_or_default();
    Ok(Profile { source: "by the node itself".into(), asked, seconds, folded: folded.into() })
}

fn words(summary: &Value) -> String {
    summary["why"].as_str().unwrap_or("it does not say why").into()
}

/// Takes the profile by pprof, in short pieces, because a request cannot be ended early.
fn of_go(plan: &Plan, url: &str, when_begun: &dyn Fn(), stop: &dyn Fn() -> bool) -> Result<Profile, ProfileError> {
    let block = || -> Result<u64, ProfileError> {
        Ok(Rpc::new(&plan.node, NAMING_MAX)?.number("eth_blockNumber", &json!([]))?)
    };
    let first = if plan.span == Span::NextBlock { block()? } else { 0 };
    when_begun();
    let (begun, mut stacks, mut seconds) = (Instant::now(), BTreeMap::<String, u64>::new(), 0);
    loop {
        if stop() {
            break;
        }
        let left = match plan.span {
            Span::NextBlock if seconds > 0 && (block()? > first || begun.elapsed() > BLOCK_MAX) => break,
            Span::NextBlock => 1,
            Span::Time(time) => time.as_secs().max(1).saturating_sub(seconds).min(PIECE_SECONDS),
        };
        if left == 0 {
            break;
        }
        for (stack, count) in piece(url, left)? {
            let sum = stacks.entry(stack).or_default();
            *sum = sum.saturating_add(count);
        }
        seconds += left;
    }
    if seconds == 0 {
        return Err(ProfileError::Stopped);
    }
    let folded = pprof::lines(&stacks);
    Ok(Profile { source: "by pprof".into(), asked: plan.span.in_words(), seconds: seconds as f64, folded })
}

/// Samples a Go server for this many seconds.
fn piece(url: &str, seconds: u64) -> Result<BTreeMap<String, u64>, ProfileError> {
    let place = format!("{}/debug/pprof/profile?seconds={seconds}", url.trim_end_matches('/'));
    let failed = |why: String| ProfileError::Pprof { url: url.into(), why };
    let agent = http::by_environment(Patience::Whole(Duration::from_secs(seconds) + NAMING_MAX));
    let mut answer = agent.get(&place).call().map_err(|error| failed(http::why(&error)))?;
    let body = answer.body_mut().with_config().limit(PPROF_MAX).read_to_vec();
    let body = body.map_err(|error| failed(http::why(&error)))?;
    match answer.status().as_u16() {
        200 => pprof::folded(&body).map_err(|why| ProfileError::NoProfile { url: url.into(), why }),
        status => Err(failed(format!("HTTP status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(span: Span) -> Plan {
        Plan { node: "http://127.0.0.1:1".into(), token: None, pprof: None, span }
    }

    #[test]
    fn absent_node_gives_a_message() {
        let none = take(&plan(Span::NextBlock), &|| {}, &|| false).unwrap_err().to_string();
        assert!(none.contains("http://127.0.0.1:1"), "{none}");
        let plan = Plan { pprof: Some("http://127.0.0.1:1".into()), ..plan(Span::Time(Duration::from_secs(1))) };
        let none = take(&plan, &|| {}, &|| false).unwrap_err().to_string();
        assert!(none.starts_with("no pprof at http://127.0.0.1:1: "), "{none}");
        assert!(matches!(take(&plan, &|| {}, &|| true), Err(ProfileError::Stopped)));
    }
}
