//! What is asked of a run, whatever the chain.
//!
//! writes  what a report tells of it

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::LoadError;
use crate::process;
use crate::profile::Plan;
use crate::rpc::{Rpc, RpcError};
use crate::series::Pool;
use crate::silence::Silence;
use crate::tx_mix::{Mix, Named};

/// How to send.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Transactions a second, of all senders together; none sends as many as the node takes.
    pub rate: Option<f64>,
    /// Transactions in a request, at most.
    pub batch: usize,
    /// The most that are under way at once, where no rate is given.
    pub under_way: usize,
    /// The most that each account sends.
    pub count: Option<u64>,
    /// How many of each account are signed before the first is sent.
    pub presign: u64,
}

/// When a run counts, and whose CPU time.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Before it counts.
    pub warmup: Duration,
    /// How long it counts.
    pub duration: Duration,
    /// The node's processes on this machine.
    pub pids: Vec<u32>,
    /// What is looked at beside the blocks.
    pub beside: Beside,
    /// What ends the waiting for what is under way.
    pub give_up: GiveUp,
}

/// Ends even the waiting for what is under way, as a second Ctrl-C does: what has no end by then is unknown.
#[derive(Clone, Default)]
pub struct GiveUp(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl GiveUp {
    /// When this says so.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Whether nothing is to be waited for any more.
    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }
}

impl fmt::Debug for GiveUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("GiveUp").field(&self.is_asked()).finish()
    }
}

/// What is looked at while a run sends and reads blocks.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Who tells how many transactions wait.
    pub pool: Pool,
    /// The node's profiler, where it is to be switched on in the measured time.
    pub profile: Option<Plan>,
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
