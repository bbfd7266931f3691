//! What a run gave: figures, as text and as JSON.
//!
//! reads   blocks, counts, CPU times
//! writes  a [`Report`]
//! memory  100 B a line of blocks

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::profile::Profile;
use crate::series::Moment;

/// A load that reads blocks later than this says so.
const READING_LAG_MS: f64 = 100.0;
/// Clocks of two machines may be so many seconds apart.
const CLOCK_APART_S: f64 = 5.0;
/// A rate over fewer blocks than this is told with their number.
const FEW_BLOCKS: u64 = 10;

/// Percentiles, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Percentiles {
    /// Half are below.
    pub p50_ms: f64,
    /// Nine of ten.
    pub p90_ms: f64,
    /// 99 of a hundred.
    pub p99_ms: f64,
    /// 999 of a thousand.
    pub p999_ms: f64,
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

/// How many had a latency within these bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bin {
    /// From here on, in milliseconds.
    pub from_ms: f64,
    /// Below this.
    pub to_ms: f64,
    /// So many.
    pub count: u64,
}

/// A histogram of µs in bins, ten for each power of ten; from the first that has some to the last.
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

/// A block of the run, or several that follow each other where there were more than are kept one by one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockLine {
    /// The number of the first.
    pub first: u64,
    /// That of the last.
    pub number: u64,
    /// How many there are: with more than one, what follows is their sum, but for what is of the last.
    pub count: u64,
    /// When the last could be read, in seconds after the measuring began; below 0 in the warm-up.
    pub seen_s: f64,
    /// Transactions in them.
    pub transactions: u64,
    /// Of these, the load's.
    pub ours: u64,
    /// Of the load's, those that failed; none where not all receipts were looked at.
    pub failed: Option<u64>,
    /// The last one's own time, in seconds since 1970.
    pub timestamp: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Share of the blocks' gas limit.
    pub fullness: f64,
    /// Transactions of the load under way after the last.
    pub under_way: usize,
}

impl Default for BlockLine {
    fn default() -> Self {
        Self {
            first: 0,
            number: 0,
            // As reports have it that were written before a line could stand for several.
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

/// What kept the rate of a run from being higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The node: the load had more to send and was told to wait, or had as much under way as it may.
    Node,
    /// The load's own threads: the node may have more to give.
    Load,
    /// The load's threads waited for answers nearly all the time: with more of them the node may give more.
    RoundTrips,
    /// What may be under way: blocks took nearly all of it, so that they could not be fuller.
    UnderWay,
    /// The rate that was asked for: it was kept.
    Rate,
    /// The money of the load's accounts: there was no more of it.
    Funds,
    /// The run ended before anything was measured.
    #[default]
    Unknown,
}

impl Limit {
    /// In words.
    pub fn told(self) -> &'static str {
        match self {
            Self::Node => "the node",
            Self::Load => "the load itself: the node may have more to give",
            Self::RoundTrips => "waiting for answers: with a higher --max-parallelism the node may give more",
            Self::UnderWay => {
                "what may be under way, of which blocks took all: with a higher --under-way the node may give more"
            }
            Self::Rate => "the rate asked for, which was kept",
            Self::Funds => "the money of the load's accounts: take more --accounts, or fund them by `hearth load fund`",
            Self::Unknown => "not known: nothing was measured",
        }
    }
}

/// A run's figures. One that was written before a figure was known is read as if that were nought.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The node's name, as `web3_clientVersion` gives it.
    pub client: String,
    /// What was sent.
    pub kind: String,
    /// Accounts that sent.
    pub accounts: usize,
    /// When measuring began, in seconds since 1970.
    pub began_unix_s: u64,
    /// What was asked for: names and values.
    pub configuration: Vec<(String, String)>,
    /// The machine on which the load ran, where that is told.
    pub machine: Option<String>,
    /// The rate asked for.
    pub rate: Option<f64>,
    /// Seconds measured.
    pub seconds: f64,
    /// Of the load's transactions in blocks, those that came in the measured time, per second of it: a block's came
    /// evenly since the block before.
    pub tps: f64,
    /// Blocks that could first be read in the measured time.
    pub blocks_measured: u64,
    /// The median over its whole seconds.
    pub tps_median: f64,
    /// Gas used per second, in millions, by the same blocks.
    pub mgas_per_s: f64,
    /// Time between blocks, the mean, in seconds; of fewer than two there is none.
    pub block_time_s: Option<f64>,
    /// Sent in the whole run: the sum of the four that follow.
    pub sent: u64,
    /// In a block.
    pub included: u64,
    /// Refused.
    pub rejected: u64,
    /// Taken, by the node's words, and known no more.
    pub dropped: u64,
    /// Waiting at the end, or nobody ever said what became of it.
    pub unknown: u64,
    /// Due at the end and not sent, or not taken for want of room: no latency has them.
    pub unsent: u64,
    /// Of those included, how many receipts were looked at, fewer where the node does not give them all in time.
    pub receipts_seen: u64,
    /// Of these, how many failed; none where the node does not tell.
    pub failed: Option<u64>,
    /// Refusals by reason.
    pub reasons: BTreeMap<String, u64>,
    /// From when a transaction was due to when its block could be read.
    pub latency: Option<Percentiles>,
    /// The same in bins.
    pub latency_distribution: Vec<Bin>,
    /// From when a request was due to when it was sent, at a given rate; to the end, for what was not.
    pub send_lag: Option<Percentiles>,
    /// From when a block could first be read to when the load had read it, for each of the load's transactions in it:
    /// the load's own delay, which no latency has.
    pub reading_lag: Option<Percentiles>,
    /// CPU time of the node per included transaction, in µs, where its process is known.
    pub server_cpu_us: Option<f64>,
    /// Cores it used.
    pub server_cores: Option<f64>,
    /// Its memory at the end, in bytes.
    pub server_resident: Option<u64>,
    /// CPU time of the load per included transaction, in µs; none where none was included in the measured time.
    pub client_cpu_us: Option<f64>,
    /// Cores the load used.
    pub client_cores: f64,
    /// At a given rate: seconds for which a thread of the load was behind it as the node did not answer or had no room,
    /// the mean of all threads.
    pub behind_for_node_s: f64,
    /// The same as the thread computed, or waited for a core.
    pub behind_by_itself_s: f64,
    /// What others took of the machine, where it is so much that another run would measure something else.
    pub noise: Option<String>,
    /// The share of their time that the load's threads ran or waited for a core: of the busiest.
    pub senders_busy: f64,
    /// The share of their time that they waited for the node's answers, the mean.
    pub senders_waiting: f64,
    /// What kept the rate from being higher.
    pub limit: Limit,
    /// The figures that say so, where the limit's name alone does not.
    pub limit_reason: Option<String>,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Why the last of them had none.
    pub last_error: Option<String>,
    /// What the node said of requests that were too long for it: they became shorter.
    pub too_long: Option<String>,
    /// Times the pool had no room.
    pub pool_full: u64,
    /// The node's last words to that.
    pub pool_full_words: Option<String>,
    /// Times the node asked for a higher fee than the load paid.
    pub dearer: u64,
    /// Blocks in which a unit of gas cost more than the load paid at the beginning: its transactions had to wait.
    pub blocks_too_dear: u64,
    /// Transactions that the node had lost, and that were sent again.
    pub healed: u64,
    /// Transactions that were sent again, each time that they were in no block after a while: on Solana.
    pub sent_again: u64,
    /// Transactions signed anew, as their time had run out and no block had them.
    pub resigned: u64,
    /// Transactions that were signed while the load sent, though it signed ahead: those had run out, or were too old.
    pub signed_late: u64,
    /// When the first of these was, in seconds after measuring began; below 0 in the warm-up.
    pub signed_late_from_s: Option<f64>,
    /// Transactions of the load's accounts in its blocks, as far as receipts were looked at, that it did not send.
    pub foreign: u64,
    /// Answers with another hash than that of what was sent.
    pub other_hash: u64,
    /// Times an account's nonce was asked for anew.
    pub renonced: u64,
    /// Times the node named a block that it could not give.
    pub number_ahead: u64,
    /// Times a block's parent was not the block before.
    pub reorganised: u64,
    /// Why blocks could not be read to the end: what was sent since then is unknown.
    pub reading_ended: Option<String>,
    /// Who told how many transactions wait in the node's pool; none where nobody did.
    pub pool_source: Option<String>,
    /// The blocks, in order.
    pub blocks: Vec<BlockLine>,
    /// How it went, twice a second.
    pub moments: Vec<Moment>,
    /// Where the node's CPU time went, if that was asked for.
    pub profile: Option<Profile>,
    /// Why there is none.
    pub no_profile: Option<String>,
}

impl Report {
    /// The figures for people.
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
            None => line("failed in blocks", "not told by this node, or not in time".into()),
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
        // The two are not of the same thread, so they may be more than all together.
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

    /// What kept the rate from being higher, and the figures that say so.
    pub fn limit_text(&self) -> String {
        let reason = self.limit_reason.as_ref().map_or(String::new(), |reason| format!("; {reason}"));
        format!("{}{reason}", self.limit.told())
    }

    /// How far the chain's clock was ahead of this machine's when its last block could be read, in seconds, where that
    /// is more than the clocks of two machines may be apart; and the same of the first block.
    pub fn clock_ahead_s(&self) -> Option<(f64, f64)> {
        let ahead = |line: &BlockLine| line.timestamp as f64 - (self.began_unix_s as f64 + line.seen_s);
        let first = self.blocks.first().map(ahead)?;
        let last = self.blocks.last().map(ahead).filter(|last| *last > CLOCK_APART_S)?;
        Some((last, first.max(0.0)))
    }

    /// The same in words.
    pub fn clock_text(&self) -> Option<String> {
        let (last, first) = self.clock_ahead_s()?;
        Some(format!(
            "{last:.0} s ahead of this machine's at the last block, {first:.0} s at the first: contracts see that time"
        ))
    }

    /// The rate, and of how many blocks it is where they are few.
    fn rate_text(&self) -> String {
        let few = match self.blocks_measured {
            count if (1..FEW_BLOCKS).contains(&count) => format!("; of few blocks, {count}: measure for longer"),
            _ => String::new(),
        };
        format!("{:.0} txn/s over {:.1} s (median second {:.0}){few}", self.tps, self.seconds, self.tps_median)
    }

    /// How long transactions took, and how late the load was.
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
        // Where the load was the limit, the reason has both figures.
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

    /// How many blocks there were.
    pub fn block_count(&self) -> u64 {
        self.blocks.iter().map(|line| line.count).sum()
    }

    /// The most that one line stands for.
    pub fn blocks_together(&self) -> u64 {
        self.blocks.iter().map(|line| line.count).max().unwrap_or(1)
    }

    /// The load's transactions in blocks, per second: second and rate. Those of a block came evenly since the one
    /// before.
    pub fn per_second(&self) -> Vec<(f64, f64)> {
        let pairs = self.blocks.windows(2);
        let intervals: Vec<_> = pairs.map(|pair| (pair[0].seen_s, pair[1].seen_s, pair[1].ours)).collect();
        let seconds = counts_of_seconds(&intervals, self.seconds);
        seconds.into_iter().enumerate().map(|(second, count)| (second as f64, count)).collect()
    }

    /// How many waited in the node's pool in the measured time: the median and the most.
    pub fn pool_depth(&self) -> Option<(u64, u64)> {
        let measured = self.moments.iter().filter(|moment| (0.0..=self.seconds).contains(&moment.at_s));
        let depth = |moment: &Moment| Some(moment.pool_pending? + moment.pool_queued.unwrap_or_default());
        let mut depths: Vec<_> = measured.filter_map(depth).collect();
        depths.sort_unstable();
        Some((*depths.get(depths.len() / 2)?, *depths.last()?))
    }

    /// What should not have happened, as far as it did.
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

    /// What should not have happened, and how often it did, behind the label of its row.
    pub fn odd_counts(&self) -> [(&'static str, &'static str, u64); 12] {
        let foreign = "transactions of the load's accounts that it did not send: another load has their keys";
        [
            ("answers", "requests without an answer", self.unanswered),
            ("pool", "times the pool was full", self.pool_full),
            ("fees", "times the node asked for a higher fee", self.dearer),
            ("fees", "blocks asked more for gas than the load paid at first", self.blocks_too_dear),
            ("nonces", "nonces asked for anew", self.renonced),
            ("sent again", "transactions that the node had lost, sent again", self.healed),
            ("sent again", "transactions sent again, as they were in no block after 2 s", self.sent_again),
            ("signed anew", "transactions signed anew, as their blockhash had expired", self.resigned),
            ("keys", foreign, self.foreign),
            ("answers", "answers with another hash", self.other_hash),
            ("reading", "block numbers ahead of their block", self.number_ahead),
            ("reading", "blocks on another parent", self.reorganised),
        ]
    }

    /// The last words to some of that, behind the label of their row.
    pub fn odd_words(&self) -> [(&'static str, &'static str, &Option<String>); 4] {
        [
            ("requests", "requests were too long for the node, and became shorter", &self.too_long),
            ("answers", "the last request without an answer", &self.last_error),
            ("pool", "the pool said", &self.pool_full_words),
            ("reading", "blocks could not be read to the end", &self.reading_ended),
        ]
    }
}

/// A row of bars, the highest figure's full; more than 60 figures are put together.
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

/// Transactions in each whole second. Each of `(from, to, count)` came evenly in between: a block has what came since
/// the block before.
pub fn counts_of_seconds(intervals: &[(f64, f64, u64)], seconds: f64) -> Vec<f64> {
    let mut counts = vec![0.0; seconds.floor() as usize];
    for &(from, to, count) in intervals {
        // Several blocks may have become readable at one time.
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

/// The median of the same.
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
    fn a_clock_that_is_ahead_is_told() {
        let block = |seen_s, timestamp| BlockLine { seen_s, timestamp, ..BlockLine::default() };
        let of = |blocks: &[BlockLine]| Report { began_unix_s: 1000, blocks: blocks.to_vec(), ..Report::default() };
        // Blocks that are made faster than one a second.
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
        let moment = Moment { at_s: 0.5, pool_pending: Some(7), ..Moment::default() };
        let report = Report {
            seconds: 2.0,
            limit: Limit::RoundTrips,
            blocks: vec![block(0.0, 9), block(1.0, 30), block(2.0, 50)],
            moments: vec![moment.clone(), Moment { pool_pending: Some(9), ..moment.clone() }],
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
