//! What a run gave: figures, as text and as JSON.
//!
//! reads   blocks, counts, CPU times
//! writes  a [`Report`]
//! memory  100 B a block

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Percentiles, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    /// Half are below.
    pub p50_ms: f64,
    /// Nine of ten.
    pub p90_ms: f64,
    /// 99 of a hundred.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Percentiles {
    /// Of a histogram of µs; none of an empty one.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: histogram.max() as f64 / 1e3,
        })
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50_ms, p90_ms, p99_ms, max_ms } = self;
        write!(out, "p50 {p50_ms:.1} ms, p90 {p90_ms:.1}, p99 {p99_ms:.1}, max {max_ms:.1}")
    }
}

/// A block of the run.
#[derive(Clone, Debug, Serialize)]
pub struct BlockLine {
    /// Its number.
    pub number: u64,
    /// When it could be read, in seconds after the measuring began; below 0 in the warm-up.
    pub seen_s: f64,
    /// Transactions in it.
    pub transactions: u64,
    /// Of these, the load's.
    pub ours: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Share of the block's gas limit.
    pub fullness: f64,
    /// Transactions of the load under way after it.
    pub under_way: usize,
}

/// A run's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The node's name, as `web3_clientVersion` gives it.
    pub client: String,
    /// What was sent.
    pub kind: String,
    /// Accounts that sent.
    pub accounts: usize,
    /// The rate asked for.
    pub rate: Option<f64>,
    /// Seconds measured.
    pub seconds: f64,
    /// Of the load's transactions, those in blocks that could first be read in the measured time, per second of it.
    pub tps: f64,
    /// The median over its whole seconds.
    pub tps_median: f64,
    /// Gas used per second, in millions, by the same blocks.
    pub mgas_per_s: f64,
    /// Time between blocks, the mean, in seconds.
    pub block_time_s: f64,
    /// Sent in the whole run: the sum of the five that follow.
    pub sent: u64,
    /// In a block.
    pub included: u64,
    /// Refused.
    pub rejected: u64,
    /// Taken, and known no more.
    pub dropped: u64,
    /// Waiting at the end, or never answered.
    pub unknown: u64,
    /// Of those included, how many failed there; none where the node does not tell.
    pub failed: Option<u64>,
    /// Refusals by reason.
    pub reasons: BTreeMap<String, u64>,
    /// From when a transaction was due to when its block could be read.
    pub latency: Option<Percentiles>,
    /// From when a request was due to when it was sent, at a given rate.
    pub send_lag: Option<Percentiles>,
    /// CPU time of the node per included transaction, in µs, where its process is known.
    pub server_cpu_us: Option<f64>,
    /// Cores it used.
    pub server_cores: Option<f64>,
    /// Its memory at the end, in bytes.
    pub server_resident: Option<u64>,
    /// CPU time of the load per included transaction, in µs.
    pub client_cpu_us: f64,
    /// Cores the load used.
    pub client_cores: f64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Times the pool had no room.
    pub pool_full: u64,
    /// Times an account's nonce was asked for anew.
    pub renonced: u64,
    /// Times the node named a block that it could not give.
    pub number_ahead: u64,
    /// Times a block's parent was not the block before.
    pub reorganised: u64,
    /// Whether the load could have sent no more: it used what the threads it had could give.
    pub limited_by_load: bool,
    /// The blocks.
    pub blocks: Vec<BlockLine>,
}

impl Report {
    /// The figures for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, value: String| writeln!(text, "{what:<18}{value}").expect("a string takes all");
        line("node", self.client.clone());
        let rate = self.rate.map_or("as many as it takes".into(), |rate| format!("{rate} a second"));
        line("load", format!("{}, {} accounts, {rate}", self.kind, self.accounts));
        line(
            "rate",
            format!("{:.0} txn/s over {:.1} s (median second {:.0})", self.tps, self.seconds, self.tps_median),
        );
        let (gas, time) = (self.mgas_per_s, self.block_time_s);
        line("blocks", format!("{} in all, every {time:.2} s, {gas:.1} Mgas/s", self.blocks.len()));
        let Self { sent, included, rejected, dropped, unknown, .. } = self;
        line(
            "sent",
            format!("{sent} = included {included} + rejected {rejected} + dropped {dropped} + unknown {unknown}"),
        );
        match self.failed {
            Some(failed) => line("failed in blocks", failed.to_string()),
            None => line("failed in blocks", "not told by this node".into()),
        }
        for (reason, count) in &self.reasons {
            line("", format!("{count} × {reason}"));
        }
        if let Some(latency) = &self.latency {
            line("latency", format!("{latency} (due → block readable)"));
        }
        if let Some(lag) = &self.send_lag {
            line("send lag", lag.to_string());
        }
        if let (Some(cpu), Some(cores)) = (self.server_cpu_us, self.server_cores) {
            let memory = self.server_resident.map_or(String::new(), |bytes| format!(", {} MB", bytes / 1_000_000));
            line("node's CPU", format!("{cpu:.1} µs a transaction, {cores:.2} cores{memory}"));
        }
        let limit = if self.limited_by_load { "; the load was the limit" } else { "" };
        line(
            "load's CPU",
            format!("{:.1} µs a transaction, {:.2} cores{limit}", self.client_cpu_us, self.client_cores),
        );
        for (what, count) in [
            ("requests without an answer", self.unanswered),
            ("times the pool was full", self.pool_full),
            ("nonces asked for anew", self.renonced),
            ("block numbers ahead of their block", self.number_ahead),
            ("blocks on another parent", self.reorganised),
        ] {
            if count > 0 {
                line("", format!("{count} {what}"));
            }
        }
        text
    }
}

/// The median of counts per whole second.
pub fn median_of_seconds(blocks: &[(f64, u64)], seconds: f64) -> f64 {
    let mut counts = vec![0u64; seconds.floor() as usize];
    for &(at, count) in blocks {
        if let Some(second) = (at >= 0.0).then(|| counts.get_mut(at as usize)).flatten() {
            *second += count;
        }
    }
    counts.sort_unstable();
    match counts.len() {
        0 => 0.0,
        n if n % 2 == 1 => counts[n / 2] as f64,
        n => (counts[n / 2 - 1] + counts[n / 2]) as f64 / 2.0,
    }
}

/// A duration's share of another, in cores.
pub fn cores(cpu: Duration, time: Duration) -> f64 {
    cpu.as_secs_f64() / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_without_a_block_count() {
        assert_eq!(median_of_seconds(&[(-0.5, 9), (0.1, 10), (0.9, 10), (2.5, 30), (3.2, 99)], 3.9), 20.0);
        assert_eq!(median_of_seconds(&[(0.2, 6), (3.0, 2)], 4.0), 1.0);
        assert_eq!(median_of_seconds(&[], 0.5), 0.0);
    }
}
