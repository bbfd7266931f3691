//! Computes the figures of a run.
//!
//! reads   blocks, counts, the senders' results, CPU times
//! writes  a [`Report`]

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::blocks::Block;
use crate::options::RunOptions;
use crate::outcome::{Counts, Outcomes, histogram};
use crate::process::cores;
use crate::reading::Chain;
use crate::receipts::Receipts;
use crate::refusal::Reason;
use crate::report::{BlockLine, Limit, Percentiles, Report, distribution, median_of_seconds};
use crate::rpc::RpcError;
use crate::run_clock::{self, SenderLag, SenderTally};
use crate::spans::Spans;
use crate::tx_mix::TxKinds;
use crate::window::Window;

/// A block that is not full leaves at most this share of what it took behind.
const LEFT_BEHIND: f64 = 0.1;
/// A reader that is behind by less than this is not late.
const READS_LATE_US: u64 = 100_000;
/// A thread that is busy for this share of its time has no capacity left.
const BUSY: f64 = 0.9;
/// The node stood still if it took more than a second per answer, or made no block, for this share of the time; the
/// load did if its own threads did not run for this share.
const STOOD_STILL: f64 = 0.05;
/// A time without a block is a pause if it is at least this long, and as long as this many usual block times.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_BLOCKS: u32 = 5;
/// If a block takes this share of the transactions that may be under way, it could not have been fuller.
const EMPTIED: f64 = 0.9;
/// A rate counts as kept if the p99 lag of requests is no higher than this.
const LAG_MS_MAX: f64 = 100.0;
/// If others take more than this share of a thread's or of the cores' time, another run would measure something else.
const TAKEN: f64 = 0.1;
/// The same for time that the hypervisor gives to other guests.
const STOLEN: f64 = 0.05;

/// Everything that a report is computed from.
pub struct ReportInputs<'a, K> {
    /// Name of the node.
    pub client: String,
    /// Options of the run.
    pub asked: &'a RunOptions<K>,
    /// How transactions were sent to the node.
    pub way: String,
    /// Number of sending accounts.
    pub accounts: usize,
    /// The measured time, and what was used in it.
    pub window: Window,
    /// The blocks that were read, and how they were read.
    pub chain: Chain,
    /// The outcomes of all transactions.
    pub outcomes: &'a Outcomes,
    /// The results of each sender, for the senders' shares of time.
    pub tallies: Vec<SenderTally>,
    /// Counts of the receipts.
    pub receipts: Receipts,
}

/// How the senders spent their time: the busiest one's busy share, the longest wait for a core, and the mean shares of
/// waiting for answers, of stalled answers, and of idling.
#[derive(Clone, Copy, Default)]
struct Shares {
    busy: f64,
    waited: f64,
    answers: f64,
    stalled: f64,
    idle: f64,
}

impl Shares {
    fn of(tallies: &[SenderTally]) -> Self {
        let shares = tallies.iter().map(|tally| {
            let all = tally.spent.all.as_secs_f64().max(1e-9);
            let share = |part: std::time::Duration| (part.as_secs_f64() / all).min(1.0);
            let run_clock::SenderTimes { answers, stalled, idle, busy, waited, .. } = tally.spent;
            Self {
                busy: share(busy),
                waited: share(waited),
                answers: share(answers),
                stalled: share(stalled),
                idle: share(idle),
            }
        });
        let senders = tallies.len().max(1) as f64;
        shares.fold(Self::default(), |sum, one| Self {
            busy: sum.busy.max(one.busy),
            waited: sum.waited.max(one.waited),
            answers: sum.answers + one.answers / senders,
            stalled: sum.stalled + one.stalled / senders,
            idle: sum.idle + one.idle / senders,
        })
    }
}

/// Observations of a run apart from how the senders spent their time.
#[derive(Clone, Copy)]
struct RunObservations {
    /// Cores that the load used, and how many it can use.
    client_cores: f64,
    threads: f64,
    /// Whether there was a rate, and whether it was kept.
    rate: bool,
    kept: bool,
    /// At a given rate: how long the senders were behind, because of the node and by themselves.
    behind: SenderLag,
    /// At a given rate: whether the node had no room at the end for some of what was due.
    no_room: bool,
    /// Whether the load read blocks so late that most transactions that seemed under way were already in blocks.
    reads_late: bool,
    /// Median time from when a block became readable to when the load had read it.
    reading_lag: Duration,
    /// The longest time without a readable block, if blocks usually come much faster and something waited for one.
    pause: Option<Duration>,
    /// When the node gave its last answer, after measuring began, if it was gone from then to the end.
    gone_from: Option<Duration>,
    /// How long any thread waited for an answer that took more than a second.
    stalled: Duration,
    /// How long the load itself did not run; none of this is attributed to the node.
    halted: Duration,
    /// Length of the measured time.
    measured: Duration,
    /// Whether blocks took nearly all that may be under way, so that they could not be fuller.
    emptied: bool,
    /// Whether accounts ran out of money.
    poor: bool,
}

impl RunObservations {
    /// Observations apart from the senders' lag, which decides whether a rate was kept and whether there was room.
    fn of<K: TxKinds>(found: &ReportInputs<'_, K>, counts: &Counts, inside: &[&Block]) -> Self {
        let ReportInputs { window, chain, .. } = found;
        let machine = std::thread::available_parallelism().map_or(1, usize::from);
        let reading_lag_us = &chain.reading_lag_us.0;
        let (begin, end) = (window.begin, window.end);
        Self {
            client_cores: cores(window.client, window.counted),
            threads: found.asked.senders.min(machine) as f64,
            rate: found.asked.pace.rate.is_some(),
            kept: true,
            behind: behind(&found.tallies),
            no_room: false,
            reads_late: reads_late(&counts.latency_us, reading_lag_us),
            reading_lag: Duration::from_micros(reading_lag_us.value_at_quantile(0.5)),
            pause: pause(inside, &window.halts, begin, end).filter(|_| is_owed(counts)),
            gone_from: gone_from(chain, begin, end),
            stalled: stalled(&found.tallies, &window.halts, begin, end),
            halted: window.halts.time(),
            measured: end.duration_since(begin),
            emptied: emptied(inside, found.asked.pace.under_way),
            poor: counts.rejected.keys().any(|words| Reason::of(words) == Reason::Funds),
        }
    }

    /// Returns whether that is a notable part of the measured time.
    fn is_notable(&self, time: Duration) -> bool {
        time.as_secs_f64() > STOOD_STILL * self.measured.as_secs_f64()
    }

    /// Returns whether no block came for a notable part of the time.
    fn is_paused(&self) -> bool {
        self.pause.is_some_and(|pause| self.is_notable(pause))
    }

    /// Returns whether the load itself did not run for a notable part of the time, and for longer than the node stood
    /// still.
    fn is_halted(&self) -> bool {
        let node = self.stalled.max(self.pause.unwrap_or_default());
        self.is_notable(self.halted) && self.halted >= node
    }
}

/// The cause that kept the rate from being higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The rate was kept.
    Kept,
    /// Accounts ran out of money.
    Money,
    /// No sender has any measured time, so the cause is unknown.
    Nothing,
    /// The node had no room at the end, answered late, or accepted no more.
    Node,
    /// The load itself stood still.
    Halted,
    /// At a given rate: the senders were behind by themselves.
    SendersLate,
    /// Without a rate: a sender had no time left.
    SenderFull,
    /// Without a rate: the senders used all the cores that they can have.
    CoresFull,
    /// Blocks were read late.
    ReaderLate,
    /// Without a rate: the senders computed for longer than they waited for answers, and were hardly idle.
    SendersCompute,
    /// Answers took nearly all the time, each less than a second.
    RoundTrips,
    /// Blocks took all that may be under way.
    UnderWay,
}

impl Cause {
    fn of(shares: &Shares, seen: &RunObservations) -> Self {
        match () {
            () if shares.busy + shares.answers + shares.idle == 0.0 && !seen.poor => Self::Nothing,
            // A node that is gone refuses connections at once, so no thread seems to wait for it.
            () if seen.gone_from.is_some() => Self::Node,
            // The load may send on time while the node stands still and takes nothing in.
            () if seen.rate && seen.kept && seen.is_paused() => Self::Node,
            () if seen.rate && seen.kept => Self::Kept,
            () if seen.poor => Self::Money,
            () if seen.is_halted() => Self::Halted,
            () if seen.rate => Self::at_a_rate(shares, seen),
            () => Self::without_a_rate(shares, seen),
        }
    }

    /// Finds the cause if a rate was not kept: every moment in which a sender was behind is attributed to the node
    /// or to the sender.
    fn at_a_rate(shares: &Shares, seen: &RunObservations) -> Self {
        match () {
            () if seen.no_room => Self::Node,
            () if seen.is_paused() && seen.pause > Some(seen.behind.own) => Self::Node,
            () if seen.behind.own > seen.behind.node => Self::SendersLate,
            () if shares.answers - shares.stalled > BUSY => Self::RoundTrips,
            () => Self::Node,
        }
    }

    fn without_a_rate(shares: &Shares, seen: &RunObservations) -> Self {
        match () {
            () if shares.busy > BUSY => Self::SenderFull,
            () if seen.client_cores > BUSY * seen.threads => Self::CoresFull,
            // Answers that take seconds are not explained by a distant node.
            () if shares.stalled > STOOD_STILL && shares.stalled > shares.idle => Self::Node,
            // While no block comes nothing more may be sent, and no answer is pending.
            () if seen.is_paused() => Self::Node,
            () if seen.reads_late => Self::ReaderLate,
            // A sender is idle while the maximum is under way.
            () if shares.idle > 1.0 - BUSY && seen.emptied => Self::UnderWay,
            () if shares.idle > 1.0 - BUSY => Self::Node,
            () if shares.busy > shares.answers => Self::SendersCompute,
            () if shares.stalled > STOOD_STILL => Self::Node,
            () => Self::RoundTrips,
        }
    }

    fn limit(self) -> Limit {
        match self {
            Self::Kept => Limit::Rate,
            Self::Money => Limit::Funds,
            Self::Nothing => Limit::Unknown,
            Self::Node => Limit::Node,
            Self::Halted
            | Self::SendersLate
            | Self::SenderFull
            | Self::CoresFull
            | Self::ReaderLate
            | Self::SendersCompute => Limit::Load,
            Self::RoundTrips => Limit::RoundTrips,
            Self::UnderWay => Limit::UnderWay,
        }
    }

    /// The figures that show the cause, if the limit's name alone does not.
    fn reason(self, shares: &Shares, seen: &RunObservations) -> Option<String> {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let busy = percent(shares.busy);
        Some(match self {
            Self::Node => return stood_still(seen),
            Self::Halted => {
                let (halted, measured) = (seen.halted.as_secs_f64(), seen.measured.as_secs_f64());
                format!("the load's own threads did not run for {halted:.1} of {measured:.1} s, as after SIGSTOP")
            }
            Self::SendersLate => {
                let (own, node) = (seen.behind.own.as_secs_f64(), seen.behind.node.as_secs_f64());
                format!(
                    "its sending threads were behind the rate for {own:.1} s while they computed or waited for a core, \
                     and for {node:.1} s while the node did not answer"
                )
            }
            Self::SenderFull => format!("its busiest sending thread computed or waited for a core {busy} of the time"),
            Self::CoresFull => {
                format!("its threads used {:.1} of the {:.0} cores that they can have", seen.client_cores, seen.threads)
            }
            Self::ReaderLate => format!(
                "it read blocks {:.1} s after they could be read (median), so most of what seemed under way was in \
                 blocks already; its sending threads were not late",
                seen.reading_lag.as_secs_f64()
            ),
            Self::SendersCompute => format!(
                "its sending threads computed for longer ({busy} of the time) than they waited for answers ({}), and \
                 hardly rested; a higher --threads may send more",
                percent(shares.answers)
            ),
            Self::Kept | Self::Money | Self::Nothing | Self::RoundTrips | Self::UnderWay => return None,
        })
    }
}

/// When the node stopped answering, or for how long it stood still, if that was a notable part of the run by its
/// answers or its blocks.
fn stood_still(seen: &RunObservations) -> Option<String> {
    if let Some(from) = seen.gone_from {
        return Some(format!("it gave no answer from {:.1} s on", from.as_secs_f64()));
    }
    let pause = seen.pause.unwrap_or_default();
    let (longest, how) = match seen.stalled >= pause {
        true => (seen.stalled, "it owed answers for longer than a second"),
        false => (pause, "no block came"),
    };
    let (still, measured) = (longest.as_secs_f64(), seen.measured.as_secs_f64());
    seen.is_notable(longest).then(|| format!("it stood still for {still:.1} of {measured:.1} s, in which {how}"))
}

/// How long after `begin` the node gave its last answer, if it accepted no connections from then on for a notable part
/// of the measured time.
fn gone_from(chain: &Chain, begin: Instant, end: Instant) -> Option<Duration> {
    let is_gone = matches!(chain.lost, Some(RpcError::Connection { .. }));
    let last = chain.lost_from.filter(|_| is_gone)?;
    let gone = end.saturating_duration_since(last.max(begin));
    let measured = end.saturating_duration_since(begin);
    (gone.as_secs_f64() > STOOD_STILL * measured.as_secs_f64()).then(|| last.saturating_duration_since(begin))
}

/// Whether the node ever had a transaction for longer than a second, or to the end: if nothing waits for a block, none
/// has to come.
fn is_owed(counts: &Counts) -> bool {
    Duration::from_micros(counts.latency_us.max()) > PAUSE_MIN || counts.unknown + counts.dropped > 0
}

/// How long any thread waited for an answer that took more than a second, without the time in which the load itself did
/// not run. Threads without a pending request at that time say nothing.
fn stalled(tallies: &[SenderTally], halts: &Spans, begin: Instant, end: Instant) -> Duration {
    let all = Spans::union(tallies.iter().map(|tally| &tally.stalls)).within(begin, end);
    all.time().saturating_sub(all.overlap_with(halts))
}

/// The longest part of the measured time in which no block first became readable; none if less than a second, or usual
/// for the chain. Time in which the load did not run does not count, because it could not read blocks then.
fn pause(blocks: &[&Block], halts: &Spans, begin: Instant, end: Instant) -> Option<Duration> {
    let ends = blocks.iter().map(|line| line.seen).chain([end]);
    let begins = [begin].into_iter().chain(blocks.iter().map(|line| line.seen));
    let count: u64 = blocks.iter().map(|line| line.count).sum();
    let seen =
        |(from, to): (Instant, Instant)| to.saturating_duration_since(from).saturating_sub(halts.overlap(from, to));
    let longest = begins.zip(ends).map(seen).max()?;
    let others = end.duration_since(begin).saturating_sub(longest + halts.time());
    let usual = others.div_f64(count.max(1) as f64);
    (count > 0 && longest >= PAUSE_MIN && longest > usual * PAUSE_BLOCKS).then_some(longest)
}

/// Describes what others took of the machine, if so much that another run would measure something else. Without the
/// node's process its use cannot be separated from that of other programs.
fn noise(shares: &Shares, window: &Window) -> Option<String> {
    let mut parts = vec![];
    let machine = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    if let (Some((busy, _)), Some(server)) = (window.machine, window.server) {
        let known = (cores(window.client, window.counted) + cores(server, window.counted)) / machine;
        if busy - known > TAKEN {
            parts.push(format!("other programs used {:.0} % of the cores' time", 100.0 * (busy - known)));
        }
    }
    if shares.waited > TAKEN {
        let whose = if window.server.is_some() { "" } else { ", which the node or other programs had" };
        let waited = 100.0 * shares.waited;
        parts.push(format!("a thread of the load waited {waited:.0} % of its time for a core{whose}"));
    }
    if let Some((_, stolen)) = window.machine.filter(|(_, stolen)| *stolen > STOLEN) {
        parts.push(format!("the hypervisor gave {:.0} % of the time to others", 100.0 * stolen));
    }
    (!parts.is_empty()).then(|| format!("the machine is not quiet: {}", parts.join("; ")))
}

/// Each block's transactions of the load with the time since the block before became readable, in seconds of the
/// window.
fn intervals(chain: &Chain, seen: impl Fn(&Block) -> f64) -> Vec<(f64, f64, u64)> {
    let lines = chain.blocks.lines();
    let pairs = lines.windows(2).map(|pair| (seen(&pair[0]), seen(&pair[1]), pair[1].ours));
    // The first block's interval is unknown: assume one second.
    let first = lines.first().map(|block| (seen(block) - 1.0, seen(block), block.ours));
    first.into_iter().chain(pairs).collect()
}

/// The share of each line's transactions that fall into the measured time. A block's transactions are spread evenly
/// over the time since the block before, so a rate over few blocks is not quantized to whole blocks. Sending begins at
/// `start` and ends with the measured time: the first later block that leaves nothing behind holds nothing that came
/// later.
fn parts(lines: &[Block], start: Instant, (begin, end): (Instant, Instant)) -> Vec<f64> {
    let mut before = start;
    let part = |line: &Block| {
        let from = before.max(start);
        let is_first_after = from < end && line.seen > end;
        let is_drained = line.under_way as f64 <= LEFT_BEHIND * line.ours as f64;
        let to = if is_first_after && is_drained { end } else { line.seen };
        before = before.max(line.seen);
        let all = to.saturating_duration_since(from);
        if all.is_zero() {
            return f64::from(u8::from(line.seen >= begin && line.seen <= end));
        }
        let inside = to.min(end).saturating_duration_since(from.max(begin));
        inside.as_secs_f64() / all.as_secs_f64()
    };
    lines.iter().map(part).collect()
}

/// Seconds from `begin` to a time; negative before it.
fn seconds_after(at: Instant, begin: Instant) -> f64 {
    match at.checked_duration_since(begin) {
        Some(after) => after.as_secs_f64(),
        None => -begin.duration_since(at).as_secs_f64(),
    }
}

/// Computes the report of a run from what was collected.
pub fn report<K: TxKinds>(found: &ReportInputs<'_, K>) -> Report {
    let ReportInputs { window, chain, outcomes, tallies, receipts, .. } = found;
    let rate = found.asked.pace.rate;
    let seconds = window.end.duration_since(window.begin).as_secs_f64();
    let seen = |block: &Block| seconds_after(block.seen, window.begin);
    let lines = chain.blocks.lines();
    let inside: Vec<_> = lines.iter().filter(|line| line.seen >= window.begin && line.seen <= window.end).collect();
    let start = window.begin.checked_sub(found.asked.timing().warmup).unwrap_or(window.begin);
    let parts = parts(lines, start, (window.begin, window.end));
    let measured =
        |of: fn(&Block) -> u64| lines.iter().zip(&parts).map(|(line, part)| of(line) as f64 * part).sum::<f64>();
    let (ours, gas) = (measured(|line| line.ours), measured(|line| line.gas_used));
    let mut lag = histogram();
    tallies.iter().for_each(|tally| lag.add(&tally.lag_us).expect("of one shape"));
    let send_lag = Percentiles::of(&lag);
    let sum = |of: fn(&SenderTally) -> u64| tallies.iter().map(of).sum::<u64>();
    // Without any transaction there is no cost per transaction.
    let each = |cpu: std::time::Duration| (ours > 0.0).then(|| cpu.as_secs_f64() * 1e6 / ours);
    let client_cores = cores(window.client, window.counted);
    let (late, no_room) = (sum(|tally| tally.unsent), outcomes.unsent() as u64);
    let shares = Shares::of(tallies);
    // What fell due just before the end may be as late as what was sent.
    let late_max = rate.map_or(0.0, |rate| (rate * LAG_MS_MAX / 1e3).max(1.0));
    let kept = no_room == 0 && late as f64 <= late_max && send_lag.is_none_or(|lag| lag.p99_ms < LAG_MS_MAX);
    let seen_of_run = outcomes.with(|counts| RunObservations {
        kept,
        no_room: no_room > 0,
        ..RunObservations::of(found, counts, &inside)
    });
    let cause = Cause::of(&shares, &seen_of_run);
    outcomes.with(|counts| Report {
        seconds,
        tps: ours / seconds.max(1e-9),
        tps_median: median_of_seconds(&intervals(chain, seen), seconds),
        mgas_per_s: gas / 1e6 / seconds.max(1e-9),
        blocks_measured: inside.iter().map(|line| line.count).sum(),
        block_time_s: block_time(&inside),
        sent: counts.sent,
        included: counts.included,
        rejected: counts.rejected_sum(),
        dropped: counts.dropped,
        unknown: counts.unknown,
        unsent: late + no_room,
        receipts_seen: receipts.seen,
        failed: (receipts.seen > 0 || counts.included == 0).then_some(receipts.failed),
        reasons: counts.rejected.clone(),
        latency: Percentiles::of(&counts.latency_us),
        latency_distribution: distribution(&counts.latency_us),
        send_lag,
        server_cpu_us: window.server.and_then(each),
        client_cpu_us: each(window.client),
        client_cores,
        noise: noise(&shares, window),
        senders_busy: shares.busy,
        senders_waiting: shares.answers,
        limit: cause.limit(),
        limit_reason: cause.reason(&shares, &seen_of_run),
        blocks: lines.iter().map(|block| line(block, seen(block), receipts)).collect(),
        ..beside(found)
    })
}

/// How long a sender was behind on average, by cause.
fn behind(tallies: &[SenderTally]) -> SenderLag {
    let senders = tallies.len().max(1) as u32;
    tallies.iter().fold(SenderLag::default(), |sum, tally| SenderLag {
        node: sum.node + tally.behind.node / senders,
        own: sum.own + tally.behind.own / senders,
    })
}

/// Whether transactions waited longer for the load to read their block than for the block.
fn reads_late(latency_us: &Histogram<u64>, reading_lag_us: &Histogram<u64>) -> bool {
    let [waited, unread] = [latency_us, reading_lag_us].map(|all| all.value_at_quantile(0.5));
    unread > waited.max(READS_LATE_US)
}

/// Whether half of the blocks with transactions of the load took nearly all that may be under way.
fn emptied(blocks: &[&Block], under_way: usize) -> bool {
    let mut each: Vec<_> = blocks.iter().map(|line| line.ours / line.count).filter(|ours| *ours > 0).collect();
    each.sort_unstable();
    each.get(each.len() / 2).is_some_and(|median| *median as f64 >= EMPTIED * under_way as f64)
}

/// The further figures of a report.
fn beside<K: TxKinds>(found: &ReportInputs<'_, K>) -> Report {
    let Window { series, profile, begin, began_unix_s, server, counted, resident, .. } = &found.window;
    let ReportInputs { chain, tallies, receipts, .. } = found;
    let mut signed_late = run_clock::SignedLate::default();
    tallies.iter().for_each(|tally| signed_late.add(&tally.signed_late));
    let sum = |of: fn(&SenderTally) -> u64| tallies.iter().map(of).sum::<u64>();
    let behind = behind(tallies);
    Report {
        client: found.client.clone(),
        kind: found.asked.mix.to_string(),
        accounts: found.accounts,
        rate: found.asked.pace.rate,
        reading_lag: Percentiles::of(&chain.reading_lag_us.0),
        behind_for_node_s: behind.node.as_secs_f64(),
        behind_by_itself_s: behind.own.as_secs_f64(),
        server_cores: server.map(|cpu| cores(cpu, *counted)),
        server_resident: *resident,
        unanswered: sum(|tally| tally.unanswered) + chain.errors,
        too_long: tallies.iter().filter_map(|tally| tally.too_long.as_ref()).next_back().map(ToString::to_string),
        last_error: tallies.iter().filter_map(|tally| tally.error.as_ref()).next_back().map(ToString::to_string),
        pool_full: sum(|tally| tally.full),
        pool_full_words: tallies.iter().find_map(|tally| tally.full_words.clone()),
        dearer: sum(|tally| tally.dearer),
        blocks_too_dear: chain.blocks.lines().iter().map(|line| line.too_dear).sum(),
        healed: sum(|tally| tally.healed),
        sent_again: sum(|tally| tally.sent_again),
        resigned: sum(|tally| tally.resigned),
        signed_late: signed_late.count,
        signed_late_from_s: signed_late.first.map(|first| seconds_after(first, *begin)),
        foreign: receipts.foreign(chain.blocks.lines()),
        other_hash: sum(|tally| tally.other_hash),
        renonced: sum(|tally| tally.renonced),
        number_ahead: chain.number_ahead,
        reorganised: chain.reorganised,
        reading_ended: chain.lost.as_ref().map(ToString::to_string),
        began_unix_s: *began_unix_s,
        configuration: found.asked.configuration(&found.way),
        pool_source: series.pool_source.map(Into::into),
        moments: series.since(*begin),
        profile: profile.as_ref().and_then(|profile| profile.as_ref().ok().cloned()),
        no_profile: profile.as_ref().and_then(|profile| Some(profile.as_ref().err()?.to_string())),
        ..Report::default()
    }
}

/// Mean time between two blocks.
fn block_time(blocks: &[&Block]) -> Option<f64> {
    let (first, last) = (blocks.first()?, blocks.last()?);
    let gaps = blocks.iter().map(|line| line.count).sum::<u64>() - 1;
    (gaps > 0).then(|| last.seen.duration_since(first.first_seen).as_secs_f64() / gaps as f64)
}

fn line(block: &Block, seen_s: f64, receipts: &Receipts) -> BlockLine {
    BlockLine {
        first: block.first,
        number: block.number,
        count: block.count,
        seen_s,
        transactions: block.transactions,
        ours: block.ours,
        failed: receipts.failed_in(block),
        timestamp: block.timestamp,
        gas_used: block.gas_used,
        fullness: block.gas_used as f64 / block.gas_limit.max(1) as f64,
        under_way: block.under_way,
    }
}

#[cfg(test)]
mod tests;
