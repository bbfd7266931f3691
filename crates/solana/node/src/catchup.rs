//! `hearth catchup`: compares a node's slot with a reference node's until it has caught up.
//!
//! reads   the slots and identities of two nodes, over their RPC
//! writes  the distance on standard error, and the outcome
//! source  `solana catchup` of `solana-cli` 4.2.2

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::node_rpc::{self, Rpc, RpcError};
use hearth_command::output::CommandOutput;
use hearth_command::progress::Progress;
use serde_json::{Value, json};

use crate::config::Address;

/// Interval of looks at both nodes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A question is asked this many times more before its error counts.
const RETRIES_MAX: usize = 5;
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The arguments of `hearth catchup`.
#[derive(Args)]
pub struct Options {
    /// The node's identity; without NODE_RPC_URL its RPC is found by gossip.
    #[arg(value_name = "NODE_PUBKEY")]
    pub node: Option<Address>,
    /// The node's RPC: `http://host:port`.
    #[arg(value_name = "NODE_RPC_URL")]
    pub node_url: Option<String>,
    /// The RPC of the reference node: `http://host:port`.
    #[arg(short = 'u', long, value_name = "URL")]
    pub url: String,
    /// The node is the one on this machine whose RPC has this port, as without NODE_PUBKEY and NODE_RPC_URL.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "8899", conflicts_with = "node_url")]
    pub our_localhost: Option<u16>,
    /// Continue to compare after the node has caught up.
    #[arg(long)]
    pub follow: bool,
    /// The commitment of the compared slots.
    #[arg(long, value_name = "LEVEL", default_value = "confirmed")]
    pub commitment: Level,
}

/// How sure a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Executed by the node.
    Processed,
    /// Voted for by two thirds of the stake.
    Confirmed,
    /// Rooted by two thirds of the stake.
    Finalized,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Processed => "processed",
            Self::Confirmed => "confirmed",
            Self::Finalized => "finalized",
        }
    }
}

/// The port of the RPC, unless another one is named.
const RPC_PORT: u16 = 8899;

/// Why two nodes cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CatchupError {
    /// A node does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The RPC is another node's.
    #[error("the node at {url} is {found}, and not {expected}")]
    OtherNode {
        /// The URL of the RPC that was queried.
        url: String,
        /// The identity of the node there.
        found: String,
        /// The identity that was given.
        expected: String,
    },
    /// A node is compared with itself.
    #[error("both RPCs are of the node {0}: name the RPC of another node as the reference (--url)")]
    SameNode(String),
    /// A node's answer has no slot or no identity.
    #[error("{url} answers {method} with something else: {answer}")]
    Garbled {
        /// The URL of the RPC that was queried.
        url: String,
        /// The JSON-RPC method that was called.
        method: &'static str,
        /// The node's answer, as JSON text.
        answer: String,
    },
}

impl ExitCode for CatchupError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Rpc(RpcError::Url { .. }) => WRONG_USE,
            _ => FAILED,
        }
    }
}

/// The slots of both nodes at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    /// Since the first look.
    at: Duration,
    node: u64,
    reference: u64,
}

impl Sample {
    /// Slots that the node is behind; negative if it is ahead.
    fn behind(&self) -> i64 {
        self.reference.cast_signed().saturating_sub(self.node.cast_signed())
    }

    /// Whether the node has what the reference had at the look before, and more.
    fn has_caught_up(&self, before: Option<&Self>) -> bool {
        self.node > before.map_or(u64::MAX, |before| before.reference).min(self.reference)
    }

    /// Slots a second by which the distance became less since an earlier sample.
    fn gain(&self, since: &Self) -> Option<f64> {
        let seconds = self.at.checked_sub(since.at)?.as_secs_f64();
        (seconds > 0.0).then(|| (since.behind() - self.behind()) as f64 / seconds)
    }

    /// The distance in words, and how it changes since the first sample and the one before.
    fn describe(&self, first: &Self, before: &Self) -> String {
        let behind = self.behind();
        let side = if behind >= 0 { "behind" } else { "ahead" };
        let mut text = format!("{} slots {side} (us:{} them:{})", behind.abs(), self.node, self.reference);
        if let Some(gain) = self.gain(before) {
            let trend = if gain < 0.0 { "falling behind" } else { "gaining" };
            text += &format!(", {trend} at {:.1} slots/second", gain.abs());
        }
        if let Some(average) = self.gain(first).filter(|gain| *gain > 0.0 && behind > 0) {
            let seconds = behind as f64 / average;
            text += &format!(" (average {average:.1} slots/second, about {seconds:.0} s left)");
        }
        text
    }
}

/// Compares the nodes until one has caught up, or, with `--follow`, for ever.
pub fn run(options: &Options, say: &CommandOutput) -> Result<(), CatchupError> {
    let reference = node_rpc::at(&options.url)?;
    let them = identity(&reference)?;
    let mut shown = Progress::new();
    let node = node_rpc::at(&node_url(options, &reference, &mut shown)?)?;
    let us = loop {
        match identity(&node) {
            // It may not have started so far.
            Err(CatchupError::Rpc(RpcError::Connection { url, why })) => {
                shown.tell(|| format!("no answer from {url}: {why}"));
                std::thread::sleep(LOOK_EVERY);
            }
            answered => break answered?,
        }
    };
    if let Some(expected) = options.node.map(|node| node.to_string()).filter(|expected| *expected != us) {
        return Err(CatchupError::OtherNode { url: node.url().to_owned(), found: us, expected });
    }
    if us == them {
        return Err(CatchupError::SameNode(us));
    }
    let begun = Instant::now();
    let look = || -> Result<Sample, CatchupError> {
        let reference = slot(&reference, options.commitment)?;
        Ok(Sample { at: begun.elapsed(), node: slot(&node, options.commitment)?, reference })
    };
    let first = look()?;
    let (mut now, mut before) = (first, None);
    loop {
        if !options.follow && now.has_caught_up(before.as_ref()) {
            shown.clear();
            say.line(format_args!("{us} has caught up (us:{} them:{})", now.node, now.reference));
            return Ok(());
        }
        shown.tell(|| now.describe(&first, before.as_ref().unwrap_or(&first)));
        std::thread::sleep(LOOK_EVERY);
        before = Some(now);
        now = look()?;
    }
}

/// The URL of the node's RPC; waits until the reference knows it, if the node is given by its identity alone.
fn node_url(options: &Options, reference: &Rpc, shown: &mut Progress) -> Result<String, CatchupError> {
    if let Some(url) = &options.node_url {
        return Ok(url.clone());
    }
    let Some(node) = options.node.filter(|_| options.our_localhost.is_none()) else {
        return Ok(format!("http://127.0.0.1:{}", options.our_localhost.unwrap_or(RPC_PORT)));
    };
    let address = node.to_string();
    loop {
        let nodes = reference.call("getClusterNodes", &json!([]))?;
        let found = nodes.as_array().into_iter().flatten().find(|node| node["pubkey"] == address.as_str());
        match found.map(|node| node["rpc"].as_str()) {
            Some(Some(rpc)) => return Ok(format!("http://{rpc}")),
            Some(None) => shown.tell(|| format!("the node {address} tells no RPC: give NODE_RPC_URL")),
            None => shown.tell(|| format!("the node {address} is not known so far")),
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn identity(rpc: &Rpc) -> Result<String, CatchupError> {
    let answer = rpc.call("getIdentity", &json!([]))?;
    let identity = answer["identity"].as_str().map(str::to_owned);
    identity.ok_or_else(|| garbled(rpc, "getIdentity", &answer))
}

/// The node's slot. A node under load may miss a question.
fn slot(rpc: &Rpc, level: Level) -> Result<u64, CatchupError> {
    let mut tried = 0;
    loop {
        match rpc.call("getSlot", &json!([{ "commitment": level.name() }])) {
            Ok(answer) => return answer.as_u64().ok_or_else(|| garbled(rpc, "getSlot", &answer)),
            Err(why) if tried == RETRIES_MAX => return Err(why.into()),
            Err(_) => {
                tried += 1;
                std::thread::sleep(RETRY_EVERY);
            }
        }
    }
}

fn garbled(rpc: &Rpc, method: &'static str, answer: &Value) -> CatchupError {
    CatchupError::Garbled { url: rpc.url().to_owned(), method, answer: answer.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, node: u64, reference: u64) -> Sample {
        Sample { at: Duration::from_secs(seconds), node, reference }
    }

    #[test]
    fn caught_up_is_what_the_reference_had_before() {
        let before = sample(0, 90, 100);
        assert!(!sample(2, 100, 105).has_caught_up(Some(&before)), "it has just what the reference had");
        assert!(sample(2, 101, 105).has_caught_up(Some(&before)));
        assert!(!sample(0, 100, 100).has_caught_up(None));
        assert!(sample(0, 101, 100).has_caught_up(None), "it is ahead");
    }

    #[test]
    fn distance_is_described_with_its_trend() {
        let first = sample(0, 1_000, 2_000);
        assert_eq!(first.describe(&first, &first), "1000 slots behind (us:1000 them:2000)");
        let gaining = sample(10, 1_525, 2_025);
        assert_eq!(
            gaining.describe(&first, &sample(8, 1_500, 2_020)),
            "500 slots behind (us:1525 them:2025), gaining at 10.0 slots/second (average 50.0 slots/second, about 10 s \
             left)"
        );
        let falling = sample(2, 1_000, 2_010);
        assert_eq!(
            falling.describe(&first, &first),
            "1010 slots behind (us:1000 them:2010), falling behind at 5.0 slots/second"
        );
        let ahead = sample(2, 2_012, 2_010);
        assert!(ahead.describe(&first, &first).starts_with("2 slots ahead (us:2012 them:2010), gaining at "));
    }

    #[test]
    fn wrong_urls_are_wrong_use() {
        let why = CatchupError::from(node_rpc::at("nowhere").unwrap_err());
        assert_eq!(why.exit_code(), WRONG_USE);
        assert_eq!(CatchupError::SameNode("abc".into()).exit_code(), FAILED);
    }
}
