//! The options of a run, on any chain.
//!
//! writes  the configuration that a report contains

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::LoadError;
use crate::liveness::NodeLiveness;
use crate::process;
use crate::profile::Plan;
use crate::rpc::{Rpc, RpcError};
use crate::series::Pool;
use crate::tx_mix::{Mix, TxKinds};

/// The pace and the size of the senders' requests.
#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    /// Transactions per second of all senders together; none sends as many as the node accepts.
    pub rate: Option<f64>,
    /// The most transactions in a request.
    pub batch: usize,
    /// The most transactions under way, if no rate is given.
    pub under_way: usize,
    /// The most transactions of each account.
    pub count: Option<u64>,
    /// Transactions signed per account before the first is sent.
    pub presign: u64,
}

/// When a run is measured, and what is measured besides.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Time before measuring begins.
    pub warmup: Duration,
    /// The longest that the measured time may be.
    pub duration: Duration,
    /// The node's processes on this machine.
    pub pids: Vec<u32>,
    /// Further measurements during the run.
    pub beside: SideMeasurements,
    /// Ends the wait for transactions under way.
    pub give_up: GiveUp,
}

/// Ends even the wait for transactions under way, as a second Ctrl-C does: those without an outcome by then are
/// unknown.
#[derive(Clone, Default)]
pub struct GiveUp(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl GiveUp {
    /// Gives up once `asked` returns true.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Returns whether to stop waiting.
    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }
}

impl fmt::Debug for GiveUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("GiveUp").field(&self.is_asked()).finish()
    }
}

/// Measurements while a run sends and reads blocks.
#[derive(Clone, Debug, Default)]
pub struct SideMeasurements {
    /// The source of the pool's depth.
    pub pool: Pool,
    /// The profile to take of the node during the measured time.
    pub profile: Option<Plan>,
}

/// The options of a run.
#[derive(Clone)]
pub struct RunOptions<K> {
    /// URLs of the nodes: the first is read from, all are sent to in turn.
    pub networks: Vec<String>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long the node that is read from may return only errors, and how long the queries at the end of the run may
    /// take.
    pub patience: Duration,
    /// The transactions to send.
    pub mix: Mix<K>,
    /// Number of sending threads.
    pub senders: usize,
    /// The rate and the size of requests.
    pub pace: SendOptions,
    /// When and what to measure.
    pub timing: Timing,
}

impl<K: TxKinds> RunOptions<K> {
    /// Returns the same options at this rate, for the whole measured time.
    pub fn at(&self, rate: f64) -> Self {
        Self { pace: SendOptions { rate: Some(rate), count: None, ..self.pace }, ..self.clone() }
    }

    /// RPC clients of the nodes.
    pub(super) fn rpcs(&self) -> Result<Vec<Rpc>, RpcError> {
        self.networks.iter().map(|url| Rpc::new(url, self.timeout)).collect()
    }

    /// Verifies that the node's processes exist.
    pub(super) fn check_processes(&self) -> Result<(), LoadError> {
        match self.timing.pids.iter().find(|&&pid| process::cpu_time(pid).is_none()) {
            Some(&gone) => Err(LoadError::Process(gone)),
            None => Ok(()),
        }
    }

    /// The pace for this many accounts: no more is signed in advance than can be sent.
    pub(super) fn pace_of(&self, accounts: usize) -> SendOptions {
        let time = (self.timing().warmup + self.timing.duration).as_secs_f64();
        let usable = self.pace.rate.map_or(u64::MAX, |rate| (rate * time / accounts.max(1) as f64).ceil() as u64 + 1);
        SendOptions { presign: self.pace.presign.min(usable).min(self.pace.count.unwrap_or(u64::MAX)), ..self.pace }
    }

    /// The timing; without a warm-up if each account sends a fixed number.
    pub(super) fn timing(&self) -> Timing {
        let warmup = if self.pace.count.is_some() { Duration::ZERO } else { self.timing.warmup };
        Timing { warmup, ..self.timing.clone() }
    }

    /// Returns whether the time for the queries at the end of the run is over. A node that died during the run gets no
    /// more than the rest of its silence.
    pub(super) fn end_of_patience<'a>(&self, silence: &'a NodeLiveness) -> impl Fn() -> bool + use<'a, K> {
        let (begun, patience, give_up) = (Instant::now(), self.patience, self.timing.give_up.clone());
        move || Instant::now() > silence.settling_ends(begun, patience) || give_up.is_asked()
    }

    /// The options as a report shows them; `way` is how transactions were sent.
    pub(super) fn configuration(&self, way: &str) -> Vec<(String, String)> {
        let (SendOptions { rate, under_way, count, presign, .. }, timing) = (self.pace, self.timing());
        let or_default = |number: Option<String>, none: &str| number.unwrap_or(none.into());
        let mut all = vec![
            ("nodes", self.networks.join(", ")),
            ("way", way.into()),
            ("transactions", self.mix.to_string()),
            ("a second", or_default(rate.map(|rate| rate.to_string()), "as many as the node takes")),
            ("of each account", or_default(count.map(|count| count.to_string()), "no bound")),
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
