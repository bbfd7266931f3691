//! What is asked of a run, whatever the chain, and why there is none.
//!
//! writes  what a report tells of it

use std::time::{Duration, Instant};

use super::course::{Pace, Timing};
use super::mix::{Mix, Named};
use super::patient::NoAnswer;
use super::process;
use super::rpc::{Rpc, RpcError};
use super::series::Pool;
use super::silence::Silence;
use super::solana::tpu::TpuError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The node.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// A transaction of the set-up.
    #[error("{what}: {why}")]
    SetUp {
        /// Which.
        what: &'static str,
        /// What happened.
        why: String,
    },
    /// Stopped before anything was measured.
    #[error("stopped before the load began")]
    Stopped,
    /// A further node is of another chain.
    #[error("{url} is of another chain than {first}: its {what} is {theirs}, not {ours}")]
    OtherChain {
        /// Its address.
        url: String,
        /// The first node's.
        first: String,
        /// What differs.
        what: &'static str,
        /// The first node's.
        ours: String,
        /// Its own.
        theirs: String,
    },
    /// A further node does not know what nodes of this chain are asked.
    #[error("{url} is no node of the chain that {first} is of: {why}")]
    OtherKind {
        /// Its address.
        url: String,
        /// The first node's.
        first: String,
        /// What it says.
        why: RpcError,
    },
    /// A process that was named is not there.
    #[error("there is no process {0}")]
    Process(u32),
    /// The way to the TPU.
    #[error(transparent)]
    Tpu(#[from] TpuError),
    /// The node tells no address for transactions.
    #[error("the node names no QUIC address for transactions: give it with --tpu, or send with --rpc-send")]
    NoTpu,
    /// One account has nobody to pay.
    #[error("a load needs two accounts or more: each pays the others")]
    TooFew,
}

impl From<NoAnswer> for LoadError {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Stopped => Self::Stopped,
            NoAnswer::Rpc(why) => why.into(),
        }
    }
}

/// What is asked for.
#[derive(Clone)]
pub struct Asked<K> {
    /// Nodes: the first is asked and read from, all are sent to, in turn.
    pub networks: Vec<String>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long the node that is read from may give nothing but errors, and how long it is asked for each of what is
    /// known only at the end.
    pub patience: Duration,
    /// What to send.
    pub mix: Mix<K>,
    /// The threads that send.
    pub senders: usize,
    /// How.
    pub pace: Pace,
    /// When it counts.
    pub timing: Timing,
}

impl<K: Named> Asked<K> {
    /// The same at this rate, for as long as it is measured.
    pub fn at(&self, rate: f64) -> Self {
        Self { pace: Pace { rate: Some(rate), count: None, ..self.pace }, ..self.clone() }
    }

    /// The nodes' RPCs.
    pub(super) fn rpcs(&self) -> Result<Vec<Rpc>, RpcError> {
        self.networks.iter().map(|url| Rpc::new(url, self.timeout)).collect()
    }

    /// That the node's processes are there.
    pub(super) fn check_processes(&self) -> Result<(), LoadError> {
        match self.timing.pids.iter().find(|&&pid| process::cpu_time(pid).is_none()) {
            Some(&gone) => Err(LoadError::Process(gone)),
            None => Ok(()),
        }
    }

    /// The pace for so many accounts: no more is signed ahead than can be sent.
    pub(super) fn pace_of(&self, accounts: usize) -> Pace {
        let time = (self.timing().warmup + self.timing.duration).as_secs_f64();
        let usable = self.pace.rate.map_or(u64::MAX, |rate| (rate * time / accounts.max(1) as f64).ceil() as u64 + 1);
        Pace { presign: self.pace.presign.min(usable).min(self.pace.count.unwrap_or(u64::MAX)), ..self.pace }
    }

    /// When it counts: where a number is sent, all of it.
    pub(super) fn timing(&self) -> Timing {
        let warmup = if self.pace.count.is_some() { Duration::ZERO } else { self.timing.warmup };
        Timing { warmup, ..self.timing.clone() }
    }

    /// For how long the node is asked about what is known only at the end: whether that is over. A node that died in
    /// the run has no more time than what is left of its silence.
    pub(super) fn end_of_patience<'a>(&self, silence: &'a Silence) -> impl Fn() -> bool + use<'a, K> {
        let (begun, patience, give_up) = (Instant::now(), self.patience, self.timing.give_up.clone());
        move || Instant::now() > silence.settling_ends(begun, patience) || give_up.is_asked()
    }

    /// What was asked for, as a report tells it; `way` is how transactions went.
    pub(super) fn configuration(&self, way: &str) -> Vec<(String, String)> {
        let (Pace { rate, under_way, count, presign, .. }, timing) = (self.pace, self.timing());
        let told = |number: Option<String>, none: &str| number.unwrap_or(none.into());
        let mut all = vec![
            ("nodes", self.networks.join(", ")),
            ("way", way.into()),
            ("transactions", self.mix.to_string()),
            ("a second", told(rate.map(|rate| rate.to_string()), "as many as the node takes")),
            ("of each account", told(count.map(|count| count.to_string()), "no bound")),
            ("signed ahead, of each account", presign.to_string()),
            ("threads that send", self.senders.to_string()),
            ("under way at most", under_way.to_string()),
            ("warm-up", format!("{} s", timing.warmup.as_secs_f64())),
            ("measured", format!("{} s", timing.duration.as_secs_f64())),
            ("an answer may take", format!("{} s", self.timeout.as_secs_f64())),
        ];
        if let Pool::Comet(comet) = &timing.beside.pool {
            all.push(("CometBFT", comet.url().into()));
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
