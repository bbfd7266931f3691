//! Finds the highest rate at which transactions are included in time.
//!
//! reads   reports of runs at the rates that the search tries
//! writes  a [`RampResult`]: each step, and the report of the best
//! memory  a report
//!
//! The rate doubles until a step fails. Then the search bisects between the highest good and the lowest bad rate until
//! they are a tenth apart. While no rate is good, it tries the rate that was included, or half. If blocks take longer
//! than the bound at two rates alike, no rate can be good, and the search ends. Each step waits until nothing of the
//! step before is under way.
//!
//! A step may fail because of the node or because of the load. A load that got no core in time says nothing about the
//! node, so such a step is repeated, [`TRIES`] times in all, and the load is reported as the limit if it is late each
//! time.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::report::{Limit, Report};
use crate::tx_mix::TxKinds;

/// The search ends when the bad rate is at most this many times the good one.
const NEAR: f64 = 1.1;
/// How often a step is tried if the load itself could not send on time.
const TRIES: usize = 3;
/// Transactions that may be due but unsent at the end of a step, in seconds of the rate: they fell due just then.
const UNSENT_S: f64 = 0.1;
/// The search does not go below this many transactions per second.
const RATE_MIN: f64 = 1.0;
/// Two block times count as the same if one is at most this many times the other.
const SAME_BLOCK_TIME: f64 = 1.1;

/// The condition that a rate must meet.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// 99 of 100 transactions must be readable in a block within this time after they were due.
    pub p99: Duration,
    /// The first rate, in transactions per second.
    pub begin: f64,
}

/// A rate that was tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The requested rate, in transactions per second.
    pub rate: f64,
    /// Included transactions per second.
    pub tps: f64,
    /// 99th percentile of the latency, in milliseconds.
    pub p99_ms: Option<f64>,
    /// The limit of the step; the node, if the rate was kept and blocks came too late.
    pub limit: Limit,
    /// The fault of the step; none if it is good.
    pub wrong: Option<String>,
    /// Whether the load was at fault and the rate was tried again, so that this step decides nothing.
    #[serde(default)]
    pub again: bool,
}

/// Returns whether blocks took transactions as fast as they were sent. If the bound is short compared with the step,
/// the latency shows a node that falls behind. Otherwise the whole backlog may still be included in time after the
/// sending has ended, at a rate that a longer step could not sustain.
fn got_through(report: &Report, rate: f64, p99: Duration) -> bool {
    let seconds = report.seconds;
    let shows_in_latency = p99.as_secs_f64() <= (NEAR - 1.0) * seconds;
    // One transaction may be due just before the end.
    shows_in_latency || (report.tps * seconds + 1.0) * NEAR >= rate * seconds
}

impl Step {
    fn of(report: &Report, p99: Duration) -> Self {
        let p99_ms = report.latency.map(|latency| latency.p99_ms);
        let rate = report.rate.unwrap_or_default();
        let lag_ms = report.send_lag.map_or(0.0, |lag| lag.p99_ms);
        let bound_ms = p99.as_secs_f64() * 1e3;
        let ended_else = report.rejected + report.dropped + report.unknown;
        let is_unsent = report.unsent as f64 > (rate * UNSENT_S).max(1.0);
        let gone = node_failure(report);
        let (limit, wrong) = match p99_ms {
            _ if report.limit == Limit::Funds => (Limit::Funds, Some("the load's accounts had no money left".into())),
            _ if gone.is_some() => (Limit::Node, gone),
            _ if ended_else > 0 => (Limit::Node, Some(format!("{ended_else} were rejected, dropped or left"))),
            _ if is_unsent => (report.limit, Some(not_sent(report, lag_ms))),
            None => (Limit::Node, Some("nothing was included".into())),
            Some(p99_ms) if p99_ms <= bound_ms && !got_through(report, rate, p99) => {
                (Limit::Node, Some(format!("{:.1} txn/s in blocks, the rest piled up; see --duration", report.tps)))
            }
            // Latency counts from the due time, so a late load that still meets the bound is good.
            Some(p99_ms) if p99_ms <= bound_ms => (report.limit, None),
            Some(p99_ms) if report.limit == Limit::Load && p99_ms - lag_ms <= bound_ms => {
                (Limit::Load, Some(not_sent(report, lag_ms)))
            }
            Some(p99_ms) => {
                let limit = if report.limit == Limit::RoundTrips { Limit::RoundTrips } else { Limit::Node };
                (limit, Some(format!("p99 {p99_ms:.0} ms")))
            }
        };
        Self { rate, tps: report.tps, p99_ms, limit, wrong, again: false }
    }

    /// Returns whether the bound holds at this rate.
    pub fn good(&self) -> bool {
        self.wrong.is_none()
    }
}

/// When the node stopped answering, or why else it was the limit, if its blocks could not be read to the end.
fn node_failure(report: &Report) -> Option<String> {
    report.reading_ended.as_ref()?;
    let reason = report.limit_reason.as_ref().filter(|_| report.limit == Limit::Node)?;
    Some(format!("the node: {reason}"))
}

/// Says that a step was not sent on time, and why.
fn not_sent(report: &Report, lag_ms: f64) -> String {
    let by = if report.limit == Limit::Load { "by the load itself" } else { "as the node let it wait" };
    format!("sent {lag_ms:.0} ms late (p99) {by}, {} not at all", report.unsent)
}

/// The result of a search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RampResult {
    /// The bound, in milliseconds.
    pub p99_ms_max: f64,
    /// The highest good rate, if any.
    pub highest: Option<f64>,
    /// Whether the bad step above the highest good one was the load's own fault: the node may handle more.
    pub limited_by_load: bool,
    /// The limit in that step; none if no step was bad.
    #[serde(default)]
    pub limit_above: Option<Limit>,
    /// Whether the search ended because the load's accounts ran out of money: the node may handle more.
    #[serde(default)]
    pub out_of_money: bool,
    /// The block time in seconds, if the search ended because it exceeds the bound at any rate.
    #[serde(default)]
    pub block_time_s: Option<f64>,
    /// Why the last step's blocks could not be read to the end, if the search ended because the node was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading_ended: Option<String>,
    /// The rate of the step in which the search was interrupted: the highest rate may be higher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_at: Option<f64>,
    /// All steps in order.
    pub steps: Vec<Step>,
    /// The report of the highest good rate.
    pub report: Option<Report>,
}

impl RampResult {
    /// Formats the search for people.
    pub fn text(&self) -> String {
        let mut text = String::from("  asked txn/s   in blocks    p99, ms\n");
        for step in &self.steps {
            let p99 = step.p99_ms.map_or("–".into(), |p99| format!("{p99:.0}"));
            let wrong = step.wrong.as_deref().unwrap_or("good");
            let again = if step.again { "; tried again" } else { "" };
            writeln!(text, "{:>13.1} {:>11.1} {p99:>10}  {wrong}{again}", step.rate, step.tps)
                .expect("a string takes all");
        }
        let bound = self.p99_ms_max;
        let found = match self.highest {
            Some(rate) => format!("highest rate with p99 below {bound:.0} ms: {rate:.1} txn/s"),
            None => format!("no rate that was tried has its p99 below {bound:.0} ms{}", self.why_none()),
        };
        let limit = match self.limit_above {
            _ if self.block_time_s.is_some() => String::new(),
            // A node that is gone does not limit a rate.
            _ if self.reading_ended.is_some() => String::new(),
            // Printed below, with advice.
            None | Some(Limit::Funds) => String::new(),
            Some(Limit::Load) => {
                format!("; the limit was the load itself, late in each of {TRIES} tries, not the node")
            }
            Some(limit) => format!("; the limit was {}", limit.in_words()),
        };
        let money = if self.out_of_money {
            "; then the load's accounts had no money left: take more --accounts, or fund them by `hearth load fund`"
        } else {
            ""
        };
        let gone = match &self.reading_ended {
            Some(why) => format!("; the search ended as blocks could not be read any more: {why}"),
            None => String::new(),
        };
        text + &found + &limit + money + &gone + &self.interruption() + "\n"
    }
}

impl RampResult {
    /// Says that the search was interrupted, and what that leaves open.
    fn interruption(&self) -> String {
        let Some(rate) = self.interrupted_at else { return String::new() };
        let open = if self.highest.is_some() { "the highest rate may be higher" } else { "other rates were not tried" };
        format!("; the search was interrupted in the step at {rate:.1} txn/s: {open}")
    }

    /// Why no rate is good, if known.
    fn why_none(&self) -> String {
        match self.block_time_s {
            Some(seconds) => {
                let ms = seconds * 1e3;
                format!(": a block comes every {ms:.0} ms, so a transaction waits that long for one at any rate")
            }
            None => String::new(),
        }
    }
}

/// Chooses the next rate.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    good: Option<f64>,
    bad: Option<f64>,
    /// Included transactions per second at the bad rate.
    landed: f64,
    /// The block time of the last bad step that failed only by its latency.
    block_time_s: Option<f64>,
}

impl Search {
    fn note(&mut self, rate: f64, good: bool, landed: f64) {
        let side = if good { &mut self.good } else { &mut self.bad };
        *side = Some(rate);
        self.landed = landed;
    }

    /// Notes the block time of a bad step. Returns it if it exceeds the bound and was the same at the previous bad
    /// rate, so that the rate did not cause it.
    fn note_block_time(&mut self, now: Option<f64>, bound: Duration) -> Option<f64> {
        let now = now.filter(|seconds| *seconds > bound.as_secs_f64());
        let before = std::mem::replace(&mut self.block_time_s, now);
        let (now, before) = now.zip(before)?;
        (now.max(before) <= SAME_BLOCK_TIME * now.min(before)).then_some(now)
    }

    fn next(&self, begin: f64) -> Option<f64> {
        match (self.good, self.bad) {
            (None, None) => Some(begin),
            (Some(good), None) => Some(good * 2.0),
            // The rate that was included is closer to the node's capacity than half of a far too high rate.
            (None, Some(bad)) => {
                let next = if self.landed > 0.0 { self.landed.min(bad / 2.0) } else { bad / 2.0 };
                let least = if bad > RATE_MIN { RATE_MIN } else { f64::INFINITY };
                Some(next.max(least)).filter(|next| next.is_finite())
            }
            (Some(good), Some(bad)) => (bad > good * NEAR).then_some((good * bad).sqrt()),
        }
    }
}

/// Searches for the highest rate by letting `drive` run `asked` at other rates. Each step takes the measured time of
/// `asked`; `stop` ends the search with what was found.
pub fn ramp<K: TxKinds, T: FnMut(Progress<'_>)>(
    asked: &RunOptions<K>,
    bound: Bound,
    stop: &dyn Fn() -> bool,
    mut on_progress: T,
    drive: impl Fn(&RunOptions<K>, &mut T) -> Result<Report, LoadError>,
) -> Result<RampResult, LoadError> {
    let mut found = RampResult {
        p99_ms_max: bound.p99.as_secs_f64() * 1e3,
        highest: None,
        limited_by_load: false,
        limit_above: None,
        out_of_money: false,
        block_time_s: None,
        reading_ended: None,
        interrupted_at: None,
        steps: vec![],
        report: None,
    };
    let mut search = Search::default();
    while let Some(rate) = search.next(bound.begin) {
        if stop() {
            found.interrupted_at = Some(rate);
            break;
        }
        let mut step = |number: usize| {
            let again = if number > 1 { format!(", try {number} of {TRIES}") } else { String::new() };
            on_progress(Progress::Step(&format!("{rate:.1} transactions a second{again}")));
            drive(&asked.at(rate), &mut on_progress)
        };
        let Some((step, report)) = decided(&mut found.steps, bound, stop, &mut step)? else {
            found.interrupted_at = Some(rate);
            break;
        };
        search.note(rate, step.good(), step.tps);
        found.reading_ended = report.reading_ended.clone();
        if step.good() {
            (found.highest, found.report) = (Some(rate), Some(report));
        } else {
            found.limit_above = Some(step.limit);
            found.limited_by_load = matches!(step.limit, Limit::Load | Limit::RoundTrips | Limit::UnderWay);
            found.out_of_money |= step.limit == Limit::Funds;
            if found.highest.is_none() {
                found.block_time_s = search.note_block_time(report.block_time_s, bound.p99);
            }
        }
        found.steps.push(step);
        // Blocks do not come sooner at lower rates.
        if found.block_time_s.is_some() {
            break;
        }
        // Every later step would have accounts that cannot pay, or a node that does not answer.
        if found.out_of_money || found.reading_ended.is_some() {
            break;
        }
    }
    Ok(found)
}

/// Runs a step until it says something about the node, or until the load was late in every try. All tries are added to
/// `steps`. Returns none if stopped.
fn decided(
    steps: &mut Vec<Step>,
    bound: Bound,
    stop: &dyn Fn() -> bool,
    run: &mut dyn FnMut(usize) -> Result<Report, LoadError>,
) -> Result<Option<(Step, Report)>, LoadError> {
    for number in 1.. {
        let report = run(number);
        if stop() {
            break;
        }
        let report = report?;
        let step = Step::of(&report, bound.p99);
        let decides = step.good() || step.limit != Limit::Load || report.reading_ended.is_some();
        if decides || number == TRIES {
            return Ok(Some((step, report)));
        }
        steps.push(Step { again: true, ..step });
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::ethereum::workload::Kind;
    use crate::options::{GiveUp, SendOptions, SideMeasurements, Timing};
    use crate::report::Percentiles;

    #[test]
    fn the_search_ends_a_tenth_below_what_is_possible() {
        for (possible, begin) in [(1234.0, 100.0), (1234.0, 5000.0), (99.0, 100.0), (3.0, 100.0), (3.0, 999_999.0)] {
            let (mut search, mut steps) = (Search::default(), 0);
            while let Some(rate) = search.next(begin) {
                search.note(rate, rate <= possible, rate.min(possible));
                steps += 1;
            }
            let found = search.good.unwrap();
            assert!(found <= possible && found * NEAR >= possible, "{found} of {possible}");
            assert!(steps <= 14, "{steps}");
        }
        let (mut search, mut last) = (Search::default(), 0.0);
        while let Some(rate) = search.next(100.0) {
            search.note(rate, false, 0.0);
            last = rate;
        }
        assert_eq!((search.good, last), (None, RATE_MIN));
    }

    #[test]
    fn blocks_longer_than_the_bound_end_the_search() {
        let blocks = |rate: f64| {
            let latency = Some(Percentiles { p99_ms: 2100.0, ..Percentiles::default() });
            // A rate far above capacity makes them longer still.
            let block_time_s = Some(if rate > 5000.0 { 4.0 } else { 2.0 });
            Report { latency, block_time_s, tps: rate.min(5000.0), ..report(rate) }
        };
        let drive = |asked: &RunOptions<Kind>, _: &mut fn(Progress<'_>)| Ok(blocks(asked.pace.rate.expect("a rate")));
        let bound = Bound { p99: Duration::from_millis(1500), begin: 999_999.0 };
        let found = ramp(&asked(), bound, &|| false, (|_| {}) as fn(Progress<'_>), drive).unwrap();
        assert_eq!((found.highest, found.block_time_s, found.steps.len()), (None, Some(2.0), 3), "{}", found.text());
        let text = found.text();
        let said = "no rate that was tried has its p99 below 1500 ms: a block comes every 2000 ms, so a transaction";
        assert!(text.contains(said) && !text.contains("the limit was"), "{text}");
        // A node that is too slow at any rate is tried down to the lowest.
        let slow = search(|rate, _| Report { block_time_s: Some(0.4), ..node(rate.max(4000.0)) });
        assert!(slow.block_time_s.is_none() && slow.highest.is_none(), "{}", slow.text());
    }

    /// Options of a load that contacts no node: the test supplies its reports.
    fn asked() -> RunOptions<Kind> {
        RunOptions {
            networks: vec![],
            timeout: Duration::ZERO,
            patience: Duration::ZERO,
            mix: Kind::Transfer.into(),
            senders: 1,
            pace: SendOptions { rate: None, batch: 1, under_way: 1, count: None, presign: 0 },
            timing: Timing {
                warmup: Duration::ZERO,
                duration: Duration::ZERO,
                pids: vec![],
                beside: SideMeasurements::default(),
                give_up: GiveUp::default(),
            },
        }
    }

    /// A step that went well, except for what the test changes.
    fn report(rate: f64) -> Report {
        let ms = |p99_ms| Some(Percentiles { p99_ms, ..Percentiles::default() });
        Report {
            rate: Some(rate),
            tps: rate,
            latency: ms(50.0),
            send_lag: ms(1.0),
            limit: Limit::Rate,
            ..Report::default()
        }
    }

    /// Searches with reports from `run`, which gets the rate and the number of steps before.
    fn search(run: impl Fn(f64, usize) -> Report) -> RampResult {
        let count = Cell::new(0);
        let drive = |asked: &RunOptions<Kind>, _: &mut fn(Progress<'_>)| {
            count.set(count.get() + 1);
            Ok(run(asked.pace.rate.expect("a ramp has one"), count.get() - 1))
        };
        let bound = Bound { p99: Duration::from_millis(1500), begin: 100.0 };
        ramp(&asked(), bound, &|| false, (|_| {}) as fn(Progress<'_>), drive).unwrap()
    }

    /// A step that the load sent too late, because it got no core.
    fn late(rate: f64) -> Report {
        let ms = |p99_ms| Some(Percentiles { p99_ms, ..Percentiles::default() });
        Report { unsent: rate as u64, latency: ms(1900.0), send_lag: ms(1850.0), limit: Limit::Load, ..report(rate) }
    }

    /// The node handles 3,500 per second; beyond that its blocks take longer and longer.
    fn node(rate: f64) -> Report {
        let p99_ms = if rate <= 3500.0 { 50.0 } else { 9000.0 };
        Report { latency: Some(Percentiles { p99_ms, ..Percentiles::default() }), ..report(rate) }
    }

    #[test]
    fn a_step_that_the_load_sent_late_is_tried_again() {
        let quiet = search(|rate, _| node(rate));
        assert!((3180.0..=3500.0).contains(&quiet.highest.unwrap()), "{}", quiet.text());
        assert_eq!((quiet.limit_above, quiet.limited_by_load), (Some(Limit::Node), false));
        // On a busy machine every second run gets no core in time.
        let busy = search(|rate, count| if count % 2 == 0 { late(rate) } else { node(rate) });
        assert_eq!(busy.highest, quiet.highest, "{}", busy.text());
        assert!(busy.steps.iter().any(|step| step.again), "{}", busy.text());
        assert!(busy.steps.iter().filter(|step| step.again).all(|step| step.limit == Limit::Load));
        assert_eq!((busy.limit_above, busy.limited_by_load), (Some(Limit::Node), false), "{}", busy.text());
    }

    #[test]
    fn a_node_that_is_gone_ends_the_search() {
        let found = search(|rate, count| {
            let reading_ended = (count == 2).then(|| "connection refused".to_owned());
            Report { reading_ended, unknown: if count == 2 { 7 } else { 0 }, ..report(rate) }
        });
        assert_eq!((found.steps.len(), found.highest), (3, Some(200.0)), "{}", found.text());
        assert_eq!(found.reading_ended.as_deref(), Some("connection refused"));
        let text = found.text();
        assert!(
            text.ends_with("the search ended as blocks could not be read any more: connection refused\n"),
            "{text}"
        );
        assert!(!text.contains("the limit was"), "{text}");
        assert!(text.contains("7 were rejected, dropped or left"), "{text}");
        let why = Some("it gave no answer from 5.2 s on".into());
        let refused = Some("connection refused".into());
        let dead =
            Report { limit: Limit::Node, limit_reason: why, reading_ended: refused, unknown: 7, ..report(100.0) };
        let step = Step::of(&dead, Duration::from_millis(1500));
        assert_eq!(step.wrong.as_deref(), Some("the node: it gave no answer from 5.2 s on"));
        // The step is not repeated although the load was late, too.
        let late = search(|rate, _| Report { reading_ended: Some("connection refused".into()), ..late(rate) });
        assert_eq!((late.steps.len(), late.highest), (1, None), "{}", late.text());
        assert_eq!(search(|rate, _| node(rate)).reading_ended, None);
    }

    #[test]
    fn an_interrupted_search_says_so() {
        let count = Cell::new(0);
        let drive = |asked: &RunOptions<Kind>, _: &mut fn(Progress<'_>)| {
            count.set(count.get() + 1);
            Ok(node(asked.pace.rate.expect("a ramp has one")))
        };
        let bound = Bound { p99: Duration::from_millis(1500), begin: 100.0 };
        let stop_in = |step: usize| {
            count.set(0);
            let stop = || count.get() == step;
            ramp(&asked(), bound, &stop, (|_| {}) as fn(Progress<'_>), drive).unwrap()
        };
        let found = stop_in(3);
        assert_eq!((found.highest, found.interrupted_at), (Some(200.0), Some(400.0)), "{}", found.text());
        let said = "200.0 txn/s; the search was interrupted in the step at 400.0 txn/s: the highest rate may be higher";
        assert!(found.text().trim_end().ends_with(said), "{}", found.text());
        let found = stop_in(1);
        assert_eq!((found.highest, found.interrupted_at), (None, Some(100.0)));
        assert!(found.text().contains("at 100.0 txn/s: other rates were not tried"), "{}", found.text());
        assert_eq!(search(|rate, _| node(rate)).interrupted_at, None);
    }

    #[test]
    fn a_load_that_is_always_late_is_named() {
        let found = search(|rate, _| if rate > 150.0 { late(rate) } else { node(rate) });
        assert_eq!((found.limit_above, found.limited_by_load), (Some(Limit::Load), true), "{}", found.text());
        let at = |rate: f64| found.steps.iter().filter(|step| step.rate == rate).count();
        assert_eq!((at(100.0), at(200.0)), (1, TRIES));
        let text = found.text();
        assert!(text.contains("sent 1850 ms late (p99) by the load itself, 200 not at all; tried again"), "{text}");
        assert!(text.contains("the limit was the load itself, late in each of 3 tries, not the node"), "{text}");
    }

    #[test]
    fn a_bound_longer_than_the_step_hides_no_backlog() {
        // Five seconds at 1,000 per second, while blocks take 100: the last one still meets a bound of a minute.
        let ms = |p99_ms| Some(Percentiles { p99_ms, ..Percentiles::default() });
        let full = |rate: f64| {
            let backlog_ms = 5e3 * (rate / 100.0 - 1.0).max(0.0);
            Report { seconds: 5.0, tps: rate.min(100.0), latency: ms(50.0 + backlog_ms), ..report(rate) }
        };
        let minute = Duration::from_secs(60);
        let step = Step::of(&full(1000.0), minute);
        assert!(step.p99_ms < Some(60e3) && !step.good() && step.limit == Limit::Node, "{step:?}");
        assert!(step.wrong.unwrap().starts_with("100.0 txn/s in blocks, the rest piled up"));
        assert!(Step::of(&full(100.0), minute).good());
        let drive = |asked: &RunOptions<Kind>, _: &mut fn(Progress<'_>)| Ok(full(asked.pace.rate.expect("a rate")));
        let bound = Bound { p99: minute, begin: 50.0 };
        let found = ramp(&asked(), bound, &|| false, (|_| {}) as fn(Progress<'_>), drive).unwrap();
        assert!((100.0 / NEAR..=100.0 * NEAR).contains(&found.highest.unwrap()), "{}", found.text());
        // One of three may have fallen due just before the end.
        let few = Report { seconds: 3.0, tps: 2.0 / 3.0, ..report(1.0) };
        assert!(Step::of(&few, minute).good());
    }

    #[test]
    fn a_late_load_within_the_bound_is_good() {
        // Latency counts from the due time, so the bound holds whatever the lag was.
        let ms = |p99_ms| Some(Percentiles { p99_ms, ..Percentiles::default() });
        let step = Report { latency: ms(900.0), send_lag: ms(400.0), limit: Limit::Load, ..report(100.0) };
        assert!(Step::of(&step, Duration::from_millis(1500)).good());
        // A load that was late by a tenth of a second does not excuse a node that takes nine.
        let slow = Report { latency: ms(9000.0), send_lag: ms(120.0), limit: Limit::Load, ..report(100.0) };
        let slow = Step::of(&slow, Duration::from_millis(1500));
        assert_eq!((slow.limit, slow.wrong.as_deref()), (Limit::Node, Some("p99 9000 ms")));
    }
}
