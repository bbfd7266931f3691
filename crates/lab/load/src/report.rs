//! The figures of a run, as text and as JSON.
//!
//! reads   blocks, counts, CPU times
//! writes  a [`Report`]
//! memory  100 B per line of blocks

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::profile::Profile;
use crate::series::RunSample;

/// Above this median reading lag, the report mentions it.
const READING_LAG_MS: f64 = 100.0;
/// Tolerated clock difference between two machines, in seconds.
const CLOCK_APART_S: f64 = 5.0;
/// A rate over fewer blocks than this is reported with their number.
const FEW_BLOCKS: u64 = 10;

/// Percentiles of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Percentiles {
    /// Median, in milliseconds; within 0.1 %.
    pub p50_ms: f64,
    /// 90th percentile, in milliseconds.
    pub p90_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// 99.9th percentile, in milliseconds.
    pub p999_ms: f64,
    /// Greatest value, in milliseconds; within 0.1 %.
    pub max_ms: f64,
}

impl Percentiles {
    /// Reads the percentiles of a histogram of µs; none if it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: histogram.max() as f64 / 1e3,
        })
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50_ms, p90_ms, p99_ms, p999_ms, max_ms } = self;
        write!(out, "p50 {p50_ms:.1} ms, p90 {p90_ms:.1}, p99 {p99_ms:.1}, p99.9 {p999_ms:.1}, max {max_ms:.1}")
    }
}

/// Number of latencies between two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bin {
    /// Lower bound in milliseconds, inclusive.
    pub from_ms: f64,
    /// Upper bound in milliseconds, exclusive.
    pub to_ms: f64,
    /// Number of values in the bin.
    pub count: u64,
}

/// Bins of a histogram of µs, ten per decade, from the first non-empty one to the last.
pub fn distribution(histogram: &Histogram<u64>) -> Vec<Bin> {
    let edge = |bin: i32| 10f64.powf(f64::from(bin) / 10.0);
    let mut bins: BTreeMap<i32, u64> = BTreeMap::new();
    for step in histogram.iter_recorded() {
        let ms = step.value_iterated_to().max(1) as f64 / 1e3;
        *bins.entry((ms.log10() * 10.0).floor() as i32).or_default() += step.count_since_last_iteration();
    }
    let (Some((&first, _)), Some((&last, _))) = (bins.first_key_value(), bins.last_key_value()) else { return vec![] };
    let count = |bin| bins.get(&bin).copied().unwrap_or_default();
    (first..=last).map(|bin| Bin { from_ms: edge(bin), to_ms: edge(bin + 1), count: count(bin) }).collect()
}

/// A block of the run, or several consecutive ones if there are too many to list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockLine {
    /// Number of the first block.
    pub first: u64,
    /// Number of the last block.
    pub number: u64,
    /// Number of blocks. If there are several, the fields below are sums, except those of the last block.
    pub count: u64,
    /// When the last block could be read, in seconds since measuring began; below 0 in the warm-up.
    pub seen_s: f64,
    /// Transactions in these blocks.
    pub transactions: u64,
    /// Transactions of the load among them.
    pub ours: u64,
    /// Failed transactions of the load; none if not all receipts were read.
    pub failed: Option<u64>,
    /// Timestamp of the last block, in seconds since 1970.
    pub timestamp: u64,
    /// Gas that the transactions used.
    pub gas_used: u64,
    /// Share of the gas limit that was used.
    pub fullness: f64,
    /// The load's transactions under way after the last block.
    pub under_way: usize,
}

impl Default for BlockLine {
    fn default() -> Self {
        Self {
            first: 0,
            number: 0,
            // The default for reports from before a line could stand for several blocks.
            count: 1,
            seen_s: 0.0,
            transactions: 0,
            ours: 0,
            failed: None,
            timestamp: 0,
            gas_used: 0,
            fullness: 0.0,
            under_way: 0,
        }
    }
}

/// The cause that kept the rate of a run from being higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The node: the load had more to send but had to wait, or reached its limit of transactions under way.
    Node,
    /// The load's own threads: the node may handle more.
    Load,
    /// Round trips: the load's threads waited for answers nearly all the time, so more threads may get more.
    RoundTrips,
    /// The limit of transactions under way: blocks took nearly all of them, so they could not be fuller.
    UnderWay,
    /// The requested rate, which was kept.
    Rate,
    /// The money of the load's accounts ran out.
    Funds,
    /// The run ended before anything was measured.
    #[default]
    Unknown,
}

impl Limit {
    /// Describes the limit in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Node => "the node",
            Self::Load => "the load itself: the node may have more to give",
            Self::RoundTrips => "waiting for answers: with a higher --threads the node may give more",
            Self::UnderWay => {
                "what may be under way, of which blocks took all: with a higher --under-way the node may give more"
            }
            Self::Rate => "the rate asked for, which was kept",
            Self::Funds => "the funds of the load's accounts: take more --accounts, or fund them by `hearth load fund`",
            Self::Unknown => "not known: nothing was measured",
        }
    }
}

/// The figures of a run. A field that an older report lacks is read as zero or empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The node's name, as returned by `web3_clientVersion`.
    pub client: String,
    /// Kinds of transactions sent.
    pub kind: String,
    /// Number of sending accounts.
    pub accounts: usize,
    /// When measuring began, in seconds since 1970.
    pub began_unix_s: u64,
    /// Options of the run: names and values.
    pub configuration: Vec<(String, String)>,
    /// The machine on which the load ran, if known.
    pub machine: Option<String>,
    /// The requested rate in transactions per second; `None` for as many as the node accepts.
    pub rate: Option<f64>,
    /// Length of the measured time, in seconds.
    pub seconds: f64,
    /// Included transactions per second of the measured time. A block's transactions are spread evenly over the time
    /// since the block before.
    pub tps: f64,
    /// Blocks that first became readable in the measured time.
    pub blocks_measured: u64,
    /// Median of the rate over the whole seconds.
    pub tps_median: f64,
    /// Gas used per second by the same blocks, in millions.
    pub mgas_per_s: f64,
    /// Mean block time in seconds; none with fewer than two blocks.
    pub block_time_s: Option<f64>,
    /// Transactions sent in the whole run: the sum of the following four.
    pub sent: u64,
    /// Transactions in a block.
    pub included: u64,
    /// Transactions that the node refused for good.
    pub rejected: u64,
    /// Transactions that the node accepted and no longer knows.
    pub dropped: u64,
    /// Transactions still pending at the end, or whose outcome could not be found out.
    pub unknown: u64,
    /// Transactions due at the end but not sent, or not accepted for lack of room. They are in no latency.
    pub unsent: u64,
    /// Receipts read of the included transactions; fewer if the node does not return them all in time.
    pub receipts_seen: u64,
    /// Failed transactions among them; none if the node does not report it.
    pub failed: Option<u64>,
    /// Number of refusals by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Time from when a transaction was due to when its block could be read.
    pub latency: Option<Percentiles>,
    /// The same latency in bins.
    pub latency_distribution: Vec<Bin>,
    /// At a given rate, time from when a request was due to when it was sent; until the end for unsent ones.
    pub send_lag: Option<Percentiles>,
    /// Time from when a block became readable to when the load had read it, once for each of the load's transactions in
    /// it. This delay is the load's own and in no latency.
    pub reading_lag: Option<Percentiles>,
    /// CPU time of the node per included transaction, in µs, if its process is known.
    pub server_cpu_us: Option<f64>,
    /// Cores that the node used.
    pub server_cores: Option<f64>,
    /// Resident memory of the node at the end, in bytes.
    pub server_resident: Option<u64>,
    /// CPU time of the load per included transaction, in µs; none if none was included in the measured time.
    pub client_cpu_us: Option<f64>,
    /// Cores that the load used.
    pub client_cores: f64,
    /// At a given rate, seconds for which a thread of the load was behind because the node did not answer or had no
    /// room, averaged over the threads.
    pub behind_for_node_s: f64,
    /// The same, because the thread computed or waited for a core.
    pub behind_by_itself_s: f64,
    /// Other programs' use of the machine, if so much that another run would measure something else.
    pub noise: Option<String>,
    /// Share of the time in which the busiest of the load's threads ran or waited for a core.
    pub senders_busy: f64,
    /// Share of the time in which the threads waited for the node's answers, on average.
    pub senders_waiting: f64,
    /// The cause that kept the rate from being higher.
    pub limit: Limit,
    /// The figures that show it, if the limit's name alone does not.
    pub limit_reason: Option<String>,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Why the last of them had no answer.
    pub last_error: Option<String>,
    /// The node's message about a request that was too long; requests were shortened.
    pub too_long: Option<String>,
    /// How often the pool had no room.
    pub pool_full: u64,
    /// The node's last message about a full pool.
    pub pool_full_words: Option<String>,
    /// How often the node asked for a higher fee than the load paid.
    pub dearer: u64,
    /// Blocks in which gas cost more than the load paid at the beginning: its transactions had to wait.
    pub blocks_too_dear: u64,
    /// Transactions that the node had lost and that were sent again.
    pub healed: u64,
    /// On Solana, how often transactions were sent again because no block contained them after a while.
    pub sent_again: u64,
    /// Transactions signed again because their blockhash expired without a block containing them.
    pub resigned: u64,
    /// Transactions signed while sending although the load signs ahead: the signed ones had run out or were too old.
    pub signed_late: u64,
    /// When the first of these was signed, in seconds since measuring began; below 0 in the warm-up.
    pub signed_late_from_s: Option<f64>,
    /// Transactions of the load's accounts in its blocks, by the receipts read, that the load did not send.
    pub foreign: u64,
    /// Answers with a hash other than that of the sent transaction.
    pub other_hash: u64,
    /// How often an account's nonce was queried again.
    pub renonced: u64,
    /// How often the node reported a block that it could not serve.
    pub number_ahead: u64,
    /// How often a block's parent was not the block before.
    pub reorganised: u64,
    /// Why blocks could not be read to the end: the outcome of what was sent since then is unknown.
    pub reading_ended: Option<String>,
    /// Source of the pool's depth; none if the node does not report it.
    pub pool_source: Option<String>,
    /// The blocks in order.
    pub blocks: Vec<BlockLine>,
    /// Samples of the run's state, twice a second.
    pub moments: Vec<RunSample>,
    /// The node's CPU profile, if requested.
    pub profile: Option<Profile>,
    /// Why the requested profile is missing.
    pub no_profile: Option<String>,
}

impl Report {
    /// Formats the figures for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, value: String| writeln!(text, "{what:<18}{value}").expect("a string takes all");
        line("node", self.client.clone());
        let rate = self.rate.map_or("as many as it takes".into(), |rate| format!("{rate} a second"));
        line("load", format!("{}, {} accounts, {rate}", self.kind, self.accounts));
        line("rate", self.rate_text());
        let gas = self.mgas_per_s;
        let gas = if gas > 0.0 { format!(", {gas:.1} Mgas/s") } else { String::new() };
        let every = self.block_time_s.map_or_else(String::new, |time| match time < 0.1 {
            true => format!(", every {:.1} ms", time * 1e3),
            false => format!(", every {time:.2} s"),
        });
        let together = self.blocks_together();
        let together =
            if together > 1 { format!(" (up to {together} on a line of the report)") } else { String::new() };
        line("blocks", format!("{} in all{every}{gas}{together}", self.block_count()));
        let per_second: Vec<_> = self.per_second().iter().map(|second| second.1).collect();
        if per_second.len() > 1 {
            line("txn/s over time", sparks(&per_second));
        }
        let Self { sent, included, rejected, dropped, unknown, .. } = self;
        line(
            "sent",
            format!("{sent} = included {included} + rejected {rejected} + dropped {dropped} + unknown {unknown}"),
        );
        if self.unsent > 0 {
            line("not sent", format!("{} more were due at the end: latency does not have them", self.unsent));
        }
        match self.failed {
            Some(failed) if self.receipts_seen >= *included => line("failed in blocks", failed.to_string()),
            Some(failed) => line("failed in blocks", format!("{failed} of {} looked at", self.receipts_seen)),
            None => line("failed in blocks", "not available from this node, or not in time".into()),
        }
        for (reason, count) in &self.reasons {
            line("", format!("{count} × {reason}"));
        }
        self.delays(&mut line);
        if let Some((median, highest)) = self.pool_depth() {
            line("node's pool", format!("{median} waiting in the median, {highest} at most"));
        }
        let each = |cpu: Option<f64>| cpu.map_or(String::new(), |cpu| format!("{cpu:.1} µs a transaction, "));
        if let Some(cores) = self.server_cores {
            let memory = self.server_resident.map_or(String::new(), |bytes| format!(", {} MB", bytes / 1_000_000));
            line("node's CPU", format!("{}{cores:.2} cores{memory}", each(self.server_cpu_us)));
        }
        line("load's CPU", format!("{}{:.2} cores", each(self.client_cpu_us), self.client_cores));
        let (busy, waiting) = (self.senders_busy * 100.0, self.senders_waiting * 100.0);
        // The two shares belong to different threads, so their sum may exceed 100 %.
        let threads =
            format!("the busiest was busy {busy:.0} % of its time; on average they waited {waiting:.0} % for answers");
        line("load's threads", threads);
        line("limit", self.limit_text());
        if let Some(noise) = &self.noise {
            line("machine", noise.clone());
        }
        if let Some(profile) = &self.profile {
            line("profile", format!("{}, {}, {:.1} s", profile.asked, profile.source, profile.seconds));
        }
        if let Some(why) = &self.no_profile {
            line("profile", format!("none: {why}"));
        }
        self.oddities(&mut line);
        text
    }

    /// The limit, and the figures that show it.
    pub fn limit_text(&self) -> String {
        let reason = self.limit_reason.as_ref().map_or(String::new(), |reason| format!("; {reason}"));
        format!("{}{reason}", self.limit.in_words())
    }

    /// How far the chain's clock was ahead of this machine's at the last block, in seconds, and at the first one; none
    /// if the last is within the tolerated difference.
    pub fn clock_ahead_s(&self) -> Option<(f64, f64)> {
        let ahead = |line: &BlockLine| line.timestamp as f64 - (self.began_unix_s as f64 + line.seen_s);
        let first = self.blocks.first().map(ahead)?;
        let last = self.blocks.last().map(ahead).filter(|last| *last > CLOCK_APART_S)?;
        Some((last, first.max(0.0)))
    }

    /// Returns [`Self::clock_ahead_s`] in words; none if the clocks agree.
    pub fn clock_text(&self) -> Option<String> {
        let (last, first) = self.clock_ahead_s()?;
        Some(format!(
            "{last:.0} s ahead of this machine's at the last block, {first:.0} s at the first: contracts see that time"
        ))
    }

    /// The rate, with the number of blocks if there are few.
    fn rate_text(&self) -> String {
        let few = match self.blocks_measured {
            count if (1..FEW_BLOCKS).contains(&count) => format!("; of few blocks, {count}: measure for longer"),
            _ => String::new(),
        };
        format!("{:.0} txn/s over {:.1} s (median second {:.0}){few}", self.tps, self.seconds, self.tps_median)
    }

    /// Prints the latency, and how late the load was.
    fn delays(&self, line: &mut impl FnMut(&str, String)) {
        if let Some(latency) = &self.latency {
            line("latency", format!("{latency} (due → block readable)"));
        }
        if let Some(lag) = &self.send_lag {
            line("send lag", lag.to_string());
        }
        if let Some(lag) = self.reading_lag.filter(|lag| lag.p99_ms >= READING_LAG_MS) {
            line("reading lag", format!("{lag} (block readable → read by the load; no latency has it)"));
        }
        let (for_node, by_itself) = (self.behind_for_node_s, self.behind_by_itself_s);
        // If the load was the limit, the reason contains both figures.
        if !matches!(self.limit, Limit::Rate | Limit::Load) && for_node + by_itself >= 0.1 {
            line("", format!("behind the rate for {for_node:.1} s by the node, {by_itself:.1} s by the load itself"));
        }
        if let Some(from) = self.signed_late_from_s {
            let count = self.signed_late;
            line(
                "signed ahead",
                format!("ran out at {from:.1} s: {count} were signed while the load sent; see --presign"),
            );
        }
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> u64 {
        self.blocks.iter().map(|line| line.count).sum()
    }

    /// Returns the largest number of blocks in one line.
    pub fn blocks_together(&self) -> u64 {
        self.blocks.iter().map(|line| line.count).max().unwrap_or(1)
    }

    /// Included transactions per second, as pairs of second and rate. A block's transactions are spread evenly over the
    /// time since the block before.
    pub fn per_second(&self) -> Vec<(f64, f64)> {
        let pairs = self.blocks.windows(2);
        let intervals: Vec<_> = pairs.map(|pair| (pair[0].seen_s, pair[1].seen_s, pair[1].ours)).collect();
        let seconds = counts_of_seconds(&intervals, self.seconds);
        seconds.into_iter().enumerate().map(|(second, count)| (second as f64, count)).collect()
    }

    /// Median and maximum depth of the node's pool in the measured time.
    pub fn pool_depth(&self) -> Option<(u64, u64)> {
        let measured = self.moments.iter().filter(|moment| (0.0..=self.seconds).contains(&moment.at_s));
        let depth = |moment: &RunSample| Some(moment.pool_pending? + moment.pool_queued.unwrap_or_default());
        let mut depths: Vec<_> = measured.filter_map(depth).collect();
        depths.sort_unstable();
        Some((*depths.get(depths.len() / 2)?, *depths.last()?))
    }

    /// Prints irregularities that occurred.
    fn oddities(&self, line: &mut impl FnMut(&str, String)) {
        for (label, what, count) in self.odd_counts() {
            if count > 0 {
                line(label, format!("{count} {what}"));
            }
        }
        for (label, what, words) in self.odd_words() {
            if let Some(words) = words {
                line(label, format!("{what}: {words}"));
            }
        }
        if let Some(clock) = self.clock_text() {
            line("chain's clock", clock);
        }
    }

    /// Irregularities: the label of the row, a description, and how often each occurred.
    pub fn odd_counts(&self) -> [(&'static str, &'static str, u64); 12] {
        let foreign = "transactions of the load's accounts that it did not send: another load has their keys";
        [
            ("answers", "requests without an answer", self.unanswered),
            ("pool", "times the pool was full", self.pool_full),
            ("fees", "times the node asked for a higher fee", self.dearer),
            ("fees", "blocks asked more for gas than the load paid at first", self.blocks_too_dear),
            ("nonces", "nonces asked for again", self.renonced),
            ("sent again", "transactions that the node had lost, sent again", self.healed),
            ("sent again", "transactions sent again, as they were in no block after 2 s", self.sent_again),
            ("signed again", "transactions signed again, as their blockhash had expired", self.resigned),
            ("keys", foreign, self.foreign),
            ("answers", "answers with another hash", self.other_hash),
            ("reading", "block numbers ahead of their block", self.number_ahead),
            ("reading", "blocks on another parent", self.reorganised),
        ]
    }

    /// The last messages for some of them, after the label of their row.
    pub fn odd_words(&self) -> [(&'static str, &'static str, &Option<String>); 4] {
        [
            ("requests", "requests were too long for the node, and became shorter", &self.too_long),
            ("answers", "the last request without an answer", &self.last_error),
            ("pool", "the pool said", &self.pool_full_words),
            ("reading", "blocks could not be read to the end", &self.reading_ended),
        ]
    }
}

/// Draws figures as a row of bars scaled to the highest; more than 60 figures are averaged.
fn sparks(figures: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = figures.iter().copied().fold(0.0, f64::max).max(1e-9);
    let together = figures.len().div_ceil(60);
    let bars = figures.chunks(together).map(|chunk| {
        let mean = chunk.iter().sum::<f64>() / chunk.len() as f64;
        BARS[((mean / highest * 7.0).round() as usize).min(7)]
    });
    let each = if together > 1 { format!(" ({together} s each)") } else { String::new() };
    bars.collect::<String>() + &each
}

/// Transactions in each whole second. The transactions of each `(from, to, count)` are spread evenly over that
/// interval, because a block holds what arrived since the block before.
pub fn counts_of_seconds(intervals: &[(f64, f64, u64)], seconds: f64) -> Vec<f64> {
    let mut counts = vec![0.0; seconds.floor() as usize];
    for &(from, to, count) in intervals {
        // Several blocks may have become readable at once.
        if to <= from {
            if let Some(sum) = counts.get_mut(to as usize).filter(|_| to >= 0.0) {
                *sum += count as f64;
            }
            continue;
        }
        let rate = count as f64 / (to - from).max(1e-9);
        let end = (to.max(0.0).ceil() as usize).min(counts.len());
        for (second, sum) in counts.iter_mut().enumerate().take(end).skip(from.max(0.0) as usize) {
            let overlap = to.min(second as f64 + 1.0) - from.max(second as f64);
            *sum += rate * overlap.max(0.0);
        }
    }
    counts
}

/// Median of the same counts.
pub fn median_of_seconds(intervals: &[(f64, f64, u64)], seconds: f64) -> f64 {
    let mut counts = counts_of_seconds(intervals, seconds);
    counts.sort_unstable_by(f64::total_cmp);
    match counts.len() {
        0 => 0.0,
        n if n % 2 == 1 => counts[n / 2],
        n => (counts[n / 2 - 1] + counts[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_what_came_since_the_one_before() {
        let of_four_seconds = [(-2.0, 2.0, 400), (2.0, 6.0, 800), (6.0, 10.0, 800), (10.0, 14.0, 4)];
        assert_eq!(median_of_seconds(&of_four_seconds, 10.5), 200.0);
        let quick = [(0.0, 0.1, 10), (0.1, 0.9, 10), (0.9, 2.5, 32), (2.5, 3.2, 0)];
        assert_eq!(median_of_seconds(&quick, 3.9).round(), 20.0);
        assert_eq!(median_of_seconds(&[(0.0, 1.0, 6)], 4.0), 0.0, "seconds without anything count");
        assert_eq!(median_of_seconds(&[], 0.5), 0.0);
        assert_eq!(counts_of_seconds(&[(0.25, 1.25, 8), (1.25, 1.25, 5)], 2.0), [6.0, 7.0], "two at one time");
    }

    #[test]
    fn latencies_come_in_bins_of_a_tenth_of_a_power() {
        let mut histogram = crate::outcome::histogram();
        for ms in [1.0, 1.1, 9.0, 100.0] {
            histogram.record((ms * 1e3) as u64).unwrap();
        }
        let bins = distribution(&histogram);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 4);
        assert_eq!((bins[0].count, bins.len()), (2, 21), "{bins:?}");
        assert!(bins.windows(2).all(|pair| pair[0].to_ms == pair[1].from_ms));
        assert!(distribution(&crate::outcome::histogram()).is_empty());
    }

    #[test]
    fn every_oddity_has_a_label() {
        let report = Report {
            unanswered: 545,
            sent_again: 798,
            last_error: Some("connection refused".into()),
            reading_ended: Some("connection refused".into()),
            ..Report::default()
        };
        let text = report.text();
        for row in [
            "answers           545 requests without an answer",
            "sent again        798 transactions sent again, as they were in no block after 2 s",
            "answers           the last request without an answer: connection refused",
            "reading           blocks could not be read to the end: connection refused",
        ] {
            assert!(text.lines().any(|line| line == row), "{row}\n{text}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_is_reported() {
        let block = |seen_s, timestamp| BlockLine { seen_s, timestamp, ..BlockLine::default() };
        let of = |blocks: &[BlockLine]| Report { began_unix_s: 1000, blocks: blocks.to_vec(), ..Report::default() };
        // Blocks that are made faster than one per second.
        let fast = of(&[block(0.5, 1002), block(10.0, 1103)]);
        assert_eq!(fast.clock_ahead_s(), Some((93.0, 1.5)));
        let said = "93 s ahead of this machine's at the last block, 2 s at the first";
        assert!(
            fast.text().lines().any(|line| line.starts_with("chain's clock") && line.contains(said)),
            "{}",
            fast.text()
        );
        for quiet in [of(&[block(0.5, 1000), block(10.0, 1014)]), of(&[block(0.5, 0)]), of(&[])] {
            assert!(!quiet.text().contains("chain's clock"), "{}", quiet.text());
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written_and_an_older_one_too() {
        let block = |seen_s, ours| BlockLine { seen_s, ours, failed: Some(1), ..BlockLine::default() };
        let moment = RunSample { at_s: 0.5, pool_pending: Some(7), ..RunSample::default() };
        let report = Report {
            seconds: 2.0,
            limit: Limit::RoundTrips,
            blocks: vec![block(0.0, 9), block(1.0, 30), block(2.0, 50)],
            moments: vec![moment.clone(), RunSample { pool_pending: Some(9), ..moment.clone() }],
            ..Report::default()
        };
        let again: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again.per_second(), [(0.0, 30.0), (1.0, 50.0)]);
        assert_eq!(
            (again.limit, again.pool_depth(), again.blocks[1].failed),
            (Limit::RoundTrips, Some((9, 9)), Some(1))
        );
        assert!(again.text().contains("9 waiting in the median") && again.text().contains("▅█"), "{}", again.text());
        let older: Report =
            serde_json::from_str(r#"{"tps": 3.5, "latency": {"p50_ms": 1.0}, "blocks": [{}]}"#).unwrap();
        assert_eq!((older.tps, older.pool_depth(), older.moments.len()), (3.5, None, 0));
    }
}
