//! The highest rate at which transactions are in blocks in time.
//!
//! reads   reports of runs at rates that the search asks for
//! writes  a [`Ramped`]: each step, and the report of the best
//! memory  a report
//!
//! The rate doubles until a step is bad, then goes to the middle between the best good one and the least bad one,
//! until these are a tenth apart. What is under way ends before the next step begins.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::asked::{Asked, LoadError};
use super::course::Progress;
use super::mix::Named;
use super::report::{Limit, Report};

/// Good and bad are near enough when the bad rate is no more than so many times the good one.
const NEAR: f64 = 1.1;
/// Below one transaction in so many seconds nothing is looked for.
const RATE_MIN: f64 = 0.1;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// 99 of 100 transactions are in a block that can be read within this after they were due.
    pub p99: Duration,
    /// The first rate, in transactions a second.
    pub begin: f64,
}

/// A rate that was tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The rate asked for.
    pub rate: f64,
    /// What was in blocks, per second.
    pub tps: f64,
    /// The latency of 99 of 100, in milliseconds.
    pub p99_ms: Option<f64>,
    /// Who was the limit.
    pub limit: Limit,
    /// What is wrong with it; none if it is good.
    pub wrong: Option<String>,
}

impl Step {
    fn of(report: &Report, p99: Duration) -> Self {
        let p99_ms = report.latency.map(|latency| latency.p99_ms);
        let ended_else = report.rejected + report.dropped + report.unknown;
        let wrong = match p99_ms {
            _ if report.limit == Limit::Funds => Some("the load's accounts had no money left".into()),
            _ if ended_else > 0 => Some(format!("{ended_else} were rejected, dropped or left")),
            _ if report.limit != Limit::Rate => {
                let lag = report.send_lag.map_or(0.0, |lag| lag.p99_ms);
                Some(format!("not kept: sent {lag:.0} ms late (p99), {} not at all", report.unsent))
            }
            None => Some("nothing was included".into()),
            Some(p99_ms) if p99_ms > p99.as_secs_f64() * 1e3 => Some(format!("p99 {p99_ms:.0} ms")),
            Some(_) => None,
        };
        Self { rate: report.rate.unwrap_or_default(), tps: report.tps, p99_ms, limit: report.limit, wrong }
    }

    /// Whether the bound holds at this rate.
    pub fn good(&self) -> bool {
        self.wrong.is_none()
    }
}

/// What a ramp found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ramped {
    /// The bound, in milliseconds.
    pub p99_ms_max: f64,
    /// The highest good rate; none if there is none.
    pub highest: Option<f64>,
    /// Whether a bad step was the load's own fault: the node may do more.
    pub limited_by_load: bool,
    /// Whether the search ended as the load's accounts had no money left: the node may do more.
    #[serde(default)]
    pub out_of_money: bool,
    /// All steps, in their order.
    pub steps: Vec<Step>,
    /// The report of the highest good rate.
    pub report: Option<Report>,
}

impl Ramped {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::from("  asked txn/s   in blocks    p99, ms\n");
        for step in &self.steps {
            let p99 = step.p99_ms.map_or("–".into(), |p99| format!("{p99:.0}"));
            let wrong = step.wrong.as_deref().unwrap_or("good");
            writeln!(text, "{:>13.1} {:>11.1} {p99:>10}  {wrong}", step.rate, step.tps).expect("a string takes all");
        }
        let bound = self.p99_ms_max;
        let found = match self.highest {
            Some(rate) => format!("highest rate with p99 below {bound:.0} ms: {rate:.1} txn/s"),
            None => format!("no rate has its p99 below {bound:.0} ms"),
        };
        let limit = if self.limited_by_load { "; the load was the limit above it" } else { "" };
        let money = if self.out_of_money {
            "; then the load's accounts had no money left: take more --accounts, or fund them by `hearth load fund`"
        } else {
            ""
        };
        text + &found + limit + money + "\n"
    }
}

/// Which rate comes next.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    good: Option<f64>,
    bad: Option<f64>,
}

impl Search {
    fn note(&mut self, rate: f64, good: bool) {
        let side = if good { &mut self.good } else { &mut self.bad };
        *side = Some(rate);
    }

    fn next(&self, begin: f64) -> Option<f64> {
        match (self.good, self.bad) {
            (None, None) => Some(begin),
            (Some(good), None) => Some(good * 2.0),
            (None, Some(bad)) => Some(bad / 2.0).filter(|rate| *rate >= RATE_MIN),
            (Some(good), Some(bad)) => (bad > good * NEAR).then_some((good * bad).sqrt()),
        }
    }
}

/// Looks for the highest rate, by runs that `drive` makes of `asked` at other rates. Each step takes the time that it
/// has; `stop` ends the search with what there is.
pub fn ramp<K: Named, T: FnMut(Progress<'_>)>(
    asked: &Asked<K>,
    bound: Bound,
    stop: &dyn Fn() -> bool,
    mut told: T,
    drive: impl Fn(&Asked<K>, &mut T) -> Result<Report, LoadError>,
) -> Result<Ramped, LoadError> {
    let p99_ms_max = bound.p99.as_secs_f64() * 1e3;
    let mut found =
        Ramped { p99_ms_max, highest: None, limited_by_load: false, out_of_money: false, steps: vec![], report: None };
    let mut search = Search::default();
    while let Some(rate) = search.next(bound.begin).filter(|_| !stop()) {
        told(Progress::Step(&format!("{rate:.1} transactions a second")));
        let report = drive(&asked.at(rate), &mut told);
        if stop() {
            break;
        }
        let report = report?;
        let step = Step::of(&report, bound.p99);
        search.note(rate, step.good());
        if step.good() {
            (found.highest, found.report) = (Some(rate), Some(report));
        } else {
            found.limited_by_load |= matches!(step.limit, Limit::Load | Limit::RoundTrips | Limit::UnderWay);
            found.out_of_money |= step.limit == Limit::Funds;
        }
        found.steps.push(step);
        // Every step after it would be one of accounts that cannot pay.
        if found.out_of_money {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_a_tenth_below_what_is_possible() {
        for (possible, begin) in [(1234.0, 100.0), (1234.0, 5000.0), (99.0, 100.0), (0.3, 100.0)] {
            let (mut search, mut steps) = (Search::default(), 0);
            while let Some(rate) = search.next(begin) {
                search.note(rate, rate <= possible);
                steps += 1;
            }
            let found = search.good.unwrap();
            assert!(found <= possible && found * NEAR >= possible, "{found} of {possible}");
            assert!(steps <= 14, "{steps}");
        }
        let mut search = Search::default();
        while let Some(rate) = search.next(100.0) {
            search.note(rate, false);
        }
        assert_eq!(search.good, None);
    }
}
