//! A run over time: transactions under way, the node's pool, and CPU use of both sides.
//!
//! reads   counts; CPU times of processes; `txpool_status`, or `num_unconfirmed_txs` of CometBFT
//! writes  a [`RunSample`] twice a second
//! memory  100 B per moment, [`MOMENTS_MAX`] of them: a longer run is sampled less often
//! drops   nothing: if the node does not report its pool in time, the moment has no figure for it

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::outcome::Outcomes;
use crate::process::{self, cores};
use crate::rpc::{Rpc, RpcError, to_quantity};

/// Initial time between two moments.
const EVERY: Duration = Duration::from_millis(500);
/// Beyond this, every second moment is dropped and the interval doubles.
const MOMENTS_MAX: usize = 1_200;
/// How often the watcher checks whether the run is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the node may take to report its pool.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of a run at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSample {
    /// Seconds since measuring began; below 0 in the warm-up.
    pub at_s: f64,
    /// Transactions included so far.
    pub included: u64,
    /// Transactions refused so far.
    pub rejected: u64,
    /// Transactions of the load that were accepted and are not yet in a block.
    pub under_way: usize,
    /// Transactions in the node's pool that could be in the next block; none if the node did not report it.
    pub pool_pending: Option<u64>,
    /// Transactions in the pool behind a gap in their account's nonces.
    pub pool_queued: Option<u64>,
    /// Cores that the node used since the moment before, if its process is known.
    pub server_cores: Option<f64>,
    /// Cores that the load used since the moment before.
    pub client_cores: f64,
}

/// All moments of a run.
#[derive(Clone, Debug, Default)]
pub struct Series {
    moments: Vec<(Instant, RunSample)>,
    /// Source of the pool's depth.
    pub pool_source: Option<&'static str>,
}

impl Series {
    /// Returns the moments, with times relative to `begin`.
    pub fn since(&self, begin: Instant) -> Vec<RunSample> {
        let after = |at: Instant| match at.checked_duration_since(begin) {
            Some(after) => after.as_secs_f64(),
            None => -begin.duration_since(at).as_secs_f64(),
        };
        self.moments.iter().map(|(at, moment)| RunSample { at_s: after(*at), ..moment.clone() }).collect()
    }

    fn push(&mut self, at: Instant, moment: RunSample) {
        self.moments.push((at, moment));
    }

    /// Drops every second moment if there are too many. Returns whether it did.
    fn is_thinned(&mut self) -> bool {
        if self.moments.len() < MOMENTS_MAX {
            return false;
        }
        let mut index = 0;
        self.moments.retain(|_| {
            index += 1;
            index % 2 == 0
        });
        true
    }
}

/// Source of the pool's depth.
#[derive(Clone, Debug, Default)]
pub enum Pool {
    /// An Ethereum node, by `txpool_status`.
    Ethereum(Rpc),
    /// CometBFT, by `num_unconfirmed_txs` of its RPC.
    Comet(Rpc),
    /// No source: the depth is not reported.
    #[default]
    Silent,
}

impl Pool {
    /// The pool of CometBFT at `comet`, or else of the node at `node`, if it reports its depth.
    pub fn of(node: &str, comet: Option<&str>) -> Result<Self, RpcError> {
        let pool = match comet {
            Some(url) => Self::Comet(Rpc::new(url, PATIENCE)?),
            None => Self::Ethereum(Rpc::new(node, PATIENCE)?),
        };
        Ok(match pool.depth() {
            Err(RpcError::Refused { .. }) => Self::Silent,
            _ => pool,
        })
    }

    /// Returns the source's name in a report.
    fn source(&self) -> Option<&'static str> {
        match self {
            Self::Ethereum(_) => Some("txpool_status"),
            Self::Comet(_) => Some("num_unconfirmed_txs of CometBFT"),
            Self::Silent => None,
        }
    }

    /// Reads how many transactions could be in the next block, and how many wait behind a gap.
    fn depth(&self) -> Result<(Option<u64>, Option<u64>), RpcError> {
        match self {
            Self::Ethereum(rpc) => {
                let status = rpc.call("txpool_status", &json!([]))?;
                let of = |key: &str| to_quantity(&status[key]).and_then(|value| value.try_into().ok());
                Ok((of("pending"), of("queued")))
            }
            Self::Comet(rpc) => {
                let status = rpc.call("num_unconfirmed_txs", &json!({}))?;
                Ok((comet_total(&status), None))
            }
            Self::Silent => Ok((None, None)),
        }
    }
}

/// `total` is the pool's depth, `n_txs` the number of listed transactions; both are strings.
fn comet_total(status: &Value) -> Option<u64> {
    let of = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    of(&status["total"]).or_else(|| of(&status["n_txs"]))
}

/// Takes samples of pool, CPU time and outcomes until `stop` is set.
pub fn watch(pool: &Pool, pids: &[u32], outcomes: &Outcomes, stop: &AtomicBool) -> Series {
    let cpu = || (Instant::now(), process::cpu_time_of_all(pids), process::cpu_time(std::process::id()));
    let mut series = Series { moments: vec![], pool_source: pool.source() };
    let (mut every, mut before) = (EVERY, cpu());
    while !stop.load(Ordering::Acquire) {
        let due = before.0 + every;
        let now = Instant::now();
        if now < due {
            thread::sleep(LOOK_EVERY.min(due - now));
            continue;
        }
        let after = cpu();
        let time = after.0.duration_since(before.0);
        let used =
            |after: Option<Duration>, before: Option<Duration>| Some(cores(after?.saturating_sub(before?), time));
        let (pool_pending, pool_queued) = pool.depth().unwrap_or_default();
        let (included, rejected) = outcomes.with(|counts| (counts.included, counts.rejected_sum()));
        series.push(
            after.0,
            RunSample {
                at_s: 0.0,
                included,
                rejected,
                under_way: outcomes.under_way(),
                pool_pending,
                pool_queued,
                server_cores: used(after.1, before.1).filter(|_| !pids.is_empty()),
                client_cores: used(after.2, before.2).unwrap_or_default(),
            },
        );
        if series.is_thinned() {
            every *= 2;
        }
        before = after;
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_start_of_measuring() {
        let begin = Instant::now() + Duration::from_secs(10);
        let mut series = Series::default();
        series.push(begin - Duration::from_secs(2), RunSample::default());
        series.push(begin + Duration::from_millis(500), RunSample { included: 7, ..RunSample::default() });
        let times: Vec<_> = series.since(begin).iter().map(|moment| (moment.at_s, moment.included)).collect();
        assert_eq!(times, [(-2.0, 0), (0.5, 7)]);
    }

    #[test]
    fn a_long_run_keeps_every_second_moment() {
        let mut series = Series::default();
        for included in 0..MOMENTS_MAX as u64 {
            assert!(!series.is_thinned());
            series.push(Instant::now(), RunSample { included, ..RunSample::default() });
        }
        assert!(series.is_thinned());
        assert_eq!(series.moments.len(), MOMENTS_MAX / 2);
        assert_eq!(series.moments.last().map(|(_, moment)| moment.included), Some(MOMENTS_MAX as u64 - 1));
    }

    #[test]
    fn a_pool_is_read_as_cometbft_tells_it() {
        assert_eq!(comet_total(&json!({ "n_txs": "30", "total": "812", "total_bytes": "9" })), Some(812));
        assert_eq!(comet_total(&json!({ "n_txs": "3" })), Some(3));
        assert_eq!(comet_total(&json!({ "total": "many" })), None);
    }

    #[test]
    fn absent_node_is_asked_again() {
        let pool = Pool::of("http://127.0.0.1:1", None).unwrap();
        assert!(pool.depth().is_err() && pool.source() == Some("txpool_status"));
        assert!(Pool::of("ftp://x", None).is_err());
    }
}
