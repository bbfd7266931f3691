//! The result of a bench, as `--json` writes it.
//!
//! reads   samples of the transaction count, counters before and after
//! writes  a JSON object; [`super::summary`] formats it as text
//! source  percentiles are nearest rank over whole seconds after warm-up

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use hearth_monitor::Stage;

/// Order statistics of the rate, in transactions per second. With fewer than [`SECONDS_LEAST`] seconds the 5th
/// percentile is the worst and the 95th the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Arithmetic mean: all transactions of the measured seconds over their time.
    pub mean: f64,
    /// Rate of the median second.
    pub median: f64,
    /// Rate of the second at the 5th percentile, by nearest rank.
    pub p5: f64,
    /// Rate of the second at the 95th percentile, by nearest rank.
    pub p95: f64,
    /// Rate of the best second.
    pub max: f64,
}

/// CPU time per committed transaction, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuPerTxn {
    /// The node's tiles and its RPC; absent if its process is another and not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<f64>,
    /// The node's share that checks signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signatures: Option<f64>,
    /// The load generator's tiles.
    pub load: f64,
    /// The share of both that looked for work and found none: a core without work polls before it sleeps.
    pub polling: f64,
}

/// The tile that limits the rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Kind of the tile.
    pub tile: String,
    /// The figures that show it.
    pub why: String,
}

/// One thread's time for one stock ed25519-dalek operation, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct YardstickNs {
    /// Time of one signature.
    pub sign: f64,
    /// Time of one strict verification, with the key decoded each time.
    pub verify_strict: f64,
}

/// The machine on which node and load ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Processor model, as the kernel names it.
    pub cpu: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// Share of CPU time that the hypervisor gave to others while measuring, 0 to 1.
    pub steal: f64,
}

/// The load's settings. The other settings are in [`Report::config`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LoadSettings {
    /// Transfers per second; null means as many as possible.
    pub rate: Option<f64>,
    /// Share of the transfers that pay to one account.
    pub conflict: f64,
    /// Number of sending accounts.
    pub accounts_from: usize,
    /// Number of receiving accounts.
    pub accounts_to: usize,
}

/// The complete result. The names are a contract: `bench --json` writes them as they are.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Transactions executed and committed per second.
    pub txn_per_s: Rate,
    /// Whether a whole second was measured. If not, it was interrupted in the warm-up or before: all fields about the
    /// measured seconds are null in the JSON, and the counts cover what was sent until then.
    pub measured: bool,
    /// Measured time, warm-up excluded.
    pub duration_s: f64,
    /// Warm-up before the measured time, in seconds.
    pub warmup_s: f64,
    /// Cores that the process may use: affinity ∩ cgroup quota.
    #[serde(serialize_with = "whole_if_it_is")]
    pub cores: f64,
    /// CPU time of node and load while measuring, divided by the time, in cores.
    pub cores_used: f64,
    /// Cores that their threads waited for while others ran there.
    pub cores_waited_for: f64,
    /// The load's settings, as the command line asked for them.
    pub asked: LoadSettings,
    /// Transactions that the load generator's transport accepted per measured second.
    pub sent_per_s: f64,
    /// With a requested rate, the worst lag of a transfer in seconds; checked every 20 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_s_max: Option<f64>,
    /// Transactions that the load generator's transport accepted from first to last, including the warm-up.
    pub sent: u64,
    /// Transactions committed with success.
    pub landed: u64,
    /// Transactions committed with an error; the fee was paid.
    pub failed: u64,
    /// Dropped transactions by the place that dropped and counted them: a tile's kind and the name of its counter.
    pub dropped: BTreeMap<String, u64>,
    /// Transactions that were sent and are not accounted for.
    pub unresolved: i64,
    /// CPU time per committed transaction.
    pub cpu_us_per_txn: CpuPerTxn,
    /// Highest resident memory of the process, bytes; with a target it is the load's alone.
    pub rss_bytes_max: u64,
    /// Growth of resident memory in bytes from 10 s after the start of measuring to its end; null if it was shorter.
    pub rss_growth_bytes: Option<i64>,
    /// Bytes of memory reserved at the start for the statuses of all transactions that may land in warm-up and measured
    /// time; absent for a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_statuses_bytes: Option<u64>,
    /// The longest time in which no transaction was executed, in seconds; checked every 20 ms. For a target, in which
    /// it acknowledged none of those in flight (every 20 ms), or its count did not grow (every second).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_stall_s: Option<f64>,
    /// Age of transactions at each stage in the measured seconds; unknown for a target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Stage>,
    /// The tile that limits the rate.
    pub bottleneck: Bottleneck,
    /// Checks and work that are switched off, for speed or by the configuration.
    pub switched_off: Vec<String>,
    /// Time for one stock operation, the mean of before and after the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick_ns: Option<YardstickNs>,
    /// Rate × (sign + verify) ÷ cores; with transfers signed in advance, rate × verify ÷ cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// Rate of each whole second without warm-up; a mean for seconds in which the node did not answer.
    pub seconds: Vec<f64>,
    /// How each tile spent the measured time, as shares from 0 to 1.
    pub tiles: Vec<TileUse>,
    /// The configuration in effect, with the resulting tile counts.
    pub config: Value,
    /// The machine on which node and load ran.
    pub machine: Machine,
    /// Commit that the binary was built from; empty when unknown.
    pub commit: String,
    /// Whether it was interrupted early.
    pub interrupted: bool,
    /// Whether the wait for transactions in flight was interrupted, which leaves them unresolved.
    pub drain_interrupted: bool,
    /// Whether transfers were signed before measuring.
    pub presigned: bool,
    /// Whether they were all sent before the time was up, which ended the measurement.
    pub presigned_ran_dry: bool,
    /// The target node, if it is not the bench's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// A node that was driven from outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Target {
    /// URL of its RPC.
    pub url: String,
    /// Public key of its identity, in base58, as `getIdentity` returns it.
    pub identity: String,
    /// The version that it reports.
    pub version: String,
    /// Address where it receives transactions.
    pub tpu: String,
    /// Cores that its process used while measuring; null if the process is not named.
    pub cores_used: Option<f64>,
    /// Highest resident memory of its process, bytes; null if it is not named.
    pub rss_bytes_max: Option<u64>,
    /// Why the wait for transactions in flight ended.
    pub waited: WaitEnd,
    /// Landed ÷ sent. Landed transactions are counted by the fees that the senders paid, so failed ones are included.
    pub landed_share: f64,
    /// Other transactions per second in the node's count, including its votes and the probes; rates do not include
    /// these.
    pub others_per_s: f64,
    /// How long clients waited.
    pub latency: Latency,
}

/// Why the wait for transactions in flight to a target ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitEnd {
    /// Everything that was sent has landed.
    #[default]
    AllLanded,
    /// The load's last blockhash has expired and nothing more landed, so nothing more can.
    Expired,
    /// Nothing landed for a while, although the last blockhash is still valid.
    StoodStill,
    /// Ctrl-C ended the wait.
    Interrupted,
}

/// Order statistics of times, milliseconds. With fewer than [`TIMES_LEAST`] the 99th percentile is the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitTimes {
    /// How many times the percentiles are taken from.
    pub count: u64,
    /// Median of the times, by nearest rank.
    pub p50: f64,
    /// The 99th percentile of the times, by nearest rank.
    pub p99: f64,
    /// The longest of the times.
    pub max: f64,
}

/// With fewer seconds the 5th percentile is just the worst.
pub const SECONDS_LEAST: usize = 20;
/// With fewer times the 99th percentile is just the longest.
pub const TIMES_LEAST: u64 = 100;

/// How long clients of the RPC waited while the load ran, each from its request's due time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Transactions submitted to measure latency.
    pub probes: u64,
    /// Probes that the node refused.
    pub probes_refused: u64,
    /// Probes that were never confirmed.
    pub probes_lost: u64,
    /// Time until `sendTransaction` answered.
    pub submitted_ms: WaitTimes,
    /// Time until the status was available.
    pub processed_ms: WaitTimes,
    /// Time until the transaction was confirmed.
    pub confirmed_ms: WaitTimes,
    /// Queries without an answer.
    pub questions_failed: u64,
    /// Time until queries were answered.
    pub answers_ms: WaitTimes,
}

/// How a tile spent the measured time, each a share from 0 to 1; they sum to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TileUse {
    /// Full name of the tile.
    pub tile: String,
    /// The core it ran on; none if it floats.
    pub core: Option<usize>,
    /// Useful work and housekeeping.
    pub busy: f64,
    /// A reliable consumer downstream had no room.
    pub backpressure: f64,
    /// Nothing to do, parked time included.
    pub wait: f64,
    /// The core ran other tiles.
    pub elsewhere: f64,
}

/// Writes 2 rather than 2.0; a quota may be 1.5.
fn whole_if_it_is<S: serde::Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 { to.serialize_u64(*value as u64) } else { to.serialize_f64(*value) }
}

/// Fields that are null if no whole second was measured.
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
    /// Computes the statistics of seconds; `total` transactions in `elapsed_s`.
    pub fn of(seconds: &[f64], total: u64, elapsed_s: f64) -> Self {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |q| sorted.get(nearest_rank(q, sorted.len())).copied().unwrap_or(0.0);
        let mean = if elapsed_s > 0.0 { total as f64 / elapsed_s } else { 0.0 };
        Self { mean, median: at(0.5), p5: at(0.05), p95: at(0.95), max: at(1.0) }
    }
}

impl WaitTimes {
    /// Computes the statistics by nearest rank.
    pub fn of(times: &mut [f64]) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |q| times.get(nearest_rank(q, times.len())).copied().unwrap_or(0.0);
        Self { count: times.len() as u64, p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

impl Latency {
    /// Returns the number of probes that landed.
    pub fn confirmed(&self) -> u64 {
        self.confirmed_ms.count
    }
}

/// Index of a quantile's value among `count` sorted values.
fn nearest_rank(q: f64, count: usize) -> usize {
    ((count as f64 * q).ceil() as usize).clamp(1, count.max(1)) - 1
}

impl Report {
    /// Returns the JSON, without what was not measured.
    pub fn json(&self) -> String {
        let mut json = serde_json::to_value(self).expect("plain data");
        if !self.measured {
            for name in OF_MEASURED_SECONDS {
                json.get_mut(name).into_iter().for_each(|value| *value = Value::Null);
            }
        }
        serde_json::to_string_pretty(&json).expect("plain data") + "\n"
    }

    /// Returns sent − landed − failed − all drops.
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
    fn unmeasured_fields_are_null() {
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
