//! The result of a bench, as `--json` writes it.
//!
//! reads   samples of the transaction count, counters before and after
//! writes  a JSON object; [`super::summary`] makes a text of it
//! source  percentiles are nearest rank over whole seconds after warm-up

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use hearth_monitor::Stage;

/// Order statistics of the rate, in transactions a second. Of fewer than [`SECONDS_LEAST`] seconds the 5th percentile
/// is the worst and the 95th the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Arithmetic mean: all transactions of the measured seconds over their time.
    pub mean: f64,
    /// Median second.
    pub median: f64,
    /// 5th percentile second.
    pub p5: f64,
    /// 95th percentile second.
    pub p95: f64,
    /// Best second.
    pub max: f64,
}

/// CPU time per committed transaction, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuPerTxn {
    /// The node's tiles and its RPC; absent where its process is another and not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<f64>,
    /// The part of the node's that checks signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signatures: Option<f64>,
    /// The load generator's tiles.
    pub load: f64,
    /// The part of both that looked for work and found none: before a core without work sleeps, it polls.
    pub polling: f64,
}

/// The tile that limits the rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Its kind.
    pub tile: String,
    /// The figures that say so.
    pub why: String,
}

/// One thread's time for one stock ed25519-dalek operation, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct YardstickNs {
    /// Sign.
    pub sign: f64,
    /// Strict verification, the key decoded each time.
    pub verify_strict: f64,
}

/// The machine's description.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Share of CPU time that the hypervisor gave to others while measuring, 0 to 1.
    pub steal: f64,
}

/// What the load was told to be. The other settings are in [`Report::config`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Asked {
    /// Transfers a second; null is flat out.
    pub rate: Option<f64>,
    /// Share of the transfers that pay to one account.
    pub conflict: f64,
    /// Accounts that send.
    pub accounts_from: usize,
    /// Accounts that receive.
    pub accounts_to: usize,
}

/// Everything that was measured. The names are a contract: `bench --json` writes them as they are.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Transactions executed and committed per second.
    pub txn_per_s: Rate,
    /// Whether a whole second was measured. If not, it was interrupted in the warm-up or before: the JSON has null for
    /// all that is of the measured seconds, and the counts are of what was sent until then.
    pub measured: bool,
    /// Measured time, warm-up excluded.
    pub duration_s: f64,
    /// Warm-up, not measured.
    pub warmup_s: f64,
    /// Cores that the process may use: affinity ∩ cgroup quota.
    #[serde(serialize_with = "whole_if_it_is")]
    pub cores: f64,
    /// Cores that node and load had while measuring: their CPU time ÷ the time.
    pub cores_used: f64,
    /// Cores that their threads waited for while others ran there.
    pub cores_waited_for: f64,
    /// What the load was told to be.
    pub asked: Asked,
    /// Transactions that the load generator's transport took in a measured second.
    pub sent_per_s: f64,
    /// With a rate asked for: how late the latest transfer was, at the worst, seconds; looked at every 20 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_s_max: Option<f64>,
    /// Transactions that the load generator's transport took from the first to the last, warm-up included.
    pub sent: u64,
    /// Committed with success.
    pub landed: u64,
    /// Committed with an error; the fee was paid.
    pub failed: u64,
    /// Dropped, by the place that dropped and counted them: a tile's kind and the name of its counter.
    pub dropped: BTreeMap<String, u64>,
    /// Sent and accounted for nowhere.
    pub unresolved: i64,
    /// CPU time per committed transaction.
    pub cpu_us_per_txn: CpuPerTxn,
    /// Highest resident memory of the process, bytes; with a target it is the load's alone.
    pub rss_bytes_max: u64,
    /// Growth of resident memory from 10 s after the start of measuring to its end, bytes; null when that is all.
    pub rss_growth_bytes: Option<i64>,
    /// Part of the memory that was taken at the start, for the statuses of all that may land in warm-up and measured
    /// time, bytes; absent where the node is another's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_statuses_bytes: Option<u64>,
    /// The longest time in which no transaction was executed, seconds; looked at every 20 ms. Of a target: in which it
    /// acknowledged none of those under way, or its count did not grow, which is looked at every second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_stall_s: Option<f64>,
    /// How old transactions were at each stage in the measured seconds; of a target it is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Stage>,
    /// The tile that limits the rate.
    pub bottleneck: Bottleneck,
    /// Checks and work that are switched off, for speed or by the configuration.
    pub switched_off: Vec<String>,
    /// Time for one stock operation, the mean of before and after the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick_ns: Option<YardstickNs>,
    /// Rate × (sign + verify) ÷ cores; with transfers signed ahead, rate × verify ÷ cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// Each whole second's rate, warm-up excluded. Where the node did not answer for some, each has their mean.
    pub seconds: Vec<f64>,
    /// Share of its own time that each tile was busy while measuring, 0 to 1, and of all of a core's time.
    pub tiles: Vec<TileUse>,
    /// The configuration in effect, with the counts of tiles that it came to.
    pub config: Value,
    /// The machine.
    pub machine: Machine,
    /// Commit that the binary was built from; empty when unknown.
    pub commit: String,
    /// Whether it was interrupted before its time.
    pub interrupted: bool,
    /// Whether the wait for what was still under way was interrupted: that is then unresolved.
    pub drain_interrupted: bool,
    /// Whether transfers were signed before measuring.
    pub presigned: bool,
    /// Whether they were all sent before the time was up, which ended the measurement.
    pub presigned_ran_dry: bool,
    /// The node that was driven, where it is not the bench's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// A node that was driven from outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Target {
    /// Its RPC.
    pub url: String,
    /// Its identity.
    pub identity: String,
    /// What it says it is.
    pub version: String,
    /// Where it takes transactions.
    pub tpu: String,
    /// Cores that its process had while measuring; null where the process is not named.
    pub cores_used: Option<f64>,
    /// Highest resident memory of its process, bytes; null where it is not named.
    pub rss_bytes_max: Option<u64>,
    /// Why the wait for what was under way ended.
    pub waited: Waited,
    /// Landed ÷ sent. What landed is counted by the fees that the senders paid, so it includes what failed.
    pub landed_share: f64,
    /// Transactions of others in the node's count, its votes and the probes among them; rates are less these.
    pub others_per_s: f64,
    /// How long clients waited.
    pub latency: Latency,
}

/// Why the wait for what is under way in a target ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waited {
    /// All that was sent has landed.
    #[default]
    AllLanded,
    /// The last blockhash that the load used has expired, and nothing more landed: nothing more can.
    Expired,
    /// Nothing landed for a while, though it still could: the last blockhash is valid.
    StoodStill,
    /// By Ctrl-C.
    Interrupted,
}

/// Order statistics of times, milliseconds. Of fewer than [`TIMES_LEAST`] the 99th percentile is the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Of fewer seconds the 5th percentile is nothing but the worst.
pub const SECONDS_LEAST: usize = 20;
/// Of fewer times the 99th percentile is nothing but the longest.
pub const TIMES_LEAST: u64 = 100;

/// How long clients of the RPC waited while the load ran, each from when its request was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Transactions submitted to measure.
    pub probes: u64,
    /// Those that the node refused.
    pub probes_refused: u64,
    /// Those that were never confirmed.
    pub probes_lost: u64,
    /// Until `sendTransaction` answered.
    pub submitted_ms: Waits,
    /// Until the status was there.
    pub processed_ms: Waits,
    /// Until it was confirmed.
    pub confirmed_ms: Waits,
    /// Questions without an answer.
    pub questions_failed: u64,
    /// Until questions were answered.
    pub answers_ms: Waits,
}

/// How a tile spent the measured time, each a share from 0 to 1; they sum to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TileUse {
    /// Full name.
    pub tile: String,
    /// The core it ran on; none floats.
    pub core: Option<usize>,
    /// Useful work and housekeeping.
    pub busy: f64,
    /// Held up by a consumer.
    pub backpressure: f64,
    /// Nothing to do.
    pub wait: f64,
    /// The core ran other tiles.
    pub elsewhere: f64,
}

/// 2 and not 2.0; a quota may be 1.5.
fn whole_if_it_is<S: serde::Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 { to.serialize_u64(*value as u64) } else { to.serialize_f64(*value) }
}

/// What is null when no whole second was measured.
const OF_MEASURED_SECONDS: [&str; 10] = [
    "txn_per_s",
    "duration_s",
    "sent_per_s",
    "lag_s_max",
    "cores_used",
    "cores_waited_for",
    "cpu_us_per_txn",
    "longest_stall_s",
    "bottleneck",
    "efficiency",
];

impl Rate {
    /// Order statistics over seconds; `total` transactions in `elapsed_s`.
    pub fn of(seconds: &[f64], total: u64, elapsed_s: f64) -> Self {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |q| sorted.get(nearest_rank(q, sorted.len())).copied().unwrap_or(0.0);
        let mean = if elapsed_s > 0.0 { total as f64 / elapsed_s } else { 0.0 };
        Self { mean, median: at(0.5), p5: at(0.05), p95: at(0.95), max: at(1.0) }
    }
}

impl Waits {
    /// Order statistics by nearest rank.
    pub fn of(times: &mut [f64]) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |q| times.get(nearest_rank(q, times.len())).copied().unwrap_or(0.0);
        Self { count: times.len() as u64, p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

impl Latency {
    /// Probes that landed.
    pub fn confirmed(&self) -> u64 {
        self.confirmed_ms.count
    }
}

/// Where the value of a quantile is among so many in order.
fn nearest_rank(q: f64, count: usize) -> usize {
    ((count as f64 * q).ceil() as usize).clamp(1, count.max(1)) - 1
}

impl Report {
    /// The JSON, without what was not measured.
    pub fn json(&self) -> String {
        let mut json = serde_json::to_value(self).expect("plain data");
        if !self.measured {
            for name in OF_MEASURED_SECONDS {
                json.get_mut(name).into_iter().for_each(|value| *value = Value::Null);
            }
        }
        serde_json::to_string_pretty(&json).expect("plain data") + "\n"
    }

    /// sent − landed − failed − every kind of drop.
    pub fn balance(&self) -> i64 {
        let accounted = self.landed + self.failed + self.dropped.values().sum::<u64>();
        self.sent as i64 - accounted as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let seconds: Vec<f64> = (1..=20).map(f64::from).collect();
        let rate = Rate::of(&seconds, 210, 20.0);
        assert_eq!((rate.mean, rate.median, rate.p5, rate.p95, rate.max), (10.5, 10.0, 1.0, 19.0, 20.0));
        assert_eq!(Rate::of(&[], 0, 0.0), Rate::default());
    }

    #[test]
    fn cores_are_a_whole_number_where_they_are() {
        let json = |cores| serde_json::to_value(Report { cores, ..Default::default() }).unwrap()["cores"].to_string();
        assert_eq!((json(2.0), json(1.5)), ("2".to_owned(), "1.5".to_owned()));
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let of = |measured| {
            let report = Report { measured, sent: 7, longest_stall_s: Some(1.0), ..Default::default() };
            serde_json::from_str::<Value>(&report.json()).unwrap()
        };
        let (all, none) = (of(true), of(false));
        assert!(all["txn_per_s"]["mean"] == 0.0 && all["measured"] == true && all["longest_stall_s"] == 1.0);
        assert!(none["txn_per_s"].is_null() && none["measured"] == false && none["longest_stall_s"].is_null());
        assert!(none["sent"] == 7 && none.get("efficiency").is_none(), "{none:#}");
    }

    #[test]
    fn the_sum_is_checked() {
        let dropped = [("pack_expired".to_owned(), 3), ("verify_signature".to_owned(), 2)].into();
        let report = Report { sent: 100, landed: 90, failed: 5, dropped, ..Default::default() };
        assert_eq!(report.balance(), 0);
        let report = Report { sent: 101, ..report };
        assert_eq!(report.balance(), 1);
    }
}
