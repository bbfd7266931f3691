//! The cost of observing a bench: monitor on a terminal, dashboard in a browser, metrics scraped each second.
//!
//! reads   the bench's own metrics and the kernel's CPU accounting of its threads, at both ends of windows of some
//!         seconds
//! writes  one line per pair of windows, one unobserved and one observed; the judged figures
//! memory  a few numbers a pair
//!
//! Both windows of a pair use the same bench, back to back, and the order alternates between pairs, so that machine
//! noise affects both alike. On few cores the observers take CPU time from the bench, so their CPU time is reported
//! too.

mod bench;
mod observers;

use std::time::Duration;

use serde_json::{Value, json};

use super::Outcome;
use crate::clients;
use crate::node::free_ports;
use crate::run::{self, Args, TempFolder};
use bench::{Bench, Reading};
use observers::Observers;

/// From the coming or going of the observers to the window: a browser takes a second or two of CPU time to start.
const SETTLE: Duration = Duration::from_secs(4);
/// Lower bound for the rate ratio. Met if the interval is above, missed if below; undecided if it straddles the bound,
/// which does not pass.
const RATIO_MIN: f64 = 0.99;

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let pairs = args.number("--pairs", 12)?;
    let seconds = Duration::from_secs(args.number("--seconds", 6)?);
    let (binary, rate) = (args.value("--binary")?, args.value("--rate")?.map(str::to_owned));
    args.end()?;
    let binary = run::hearth(binary)?;
    let browser =
        clients::a_browser().inspect_err(|why| println!("{why}; the dashboard's stream is read without one")).ok();
    let folder = TempFolder::new("soak-observe")?;
    let longest = (SETTLE + seconds) * 2 * (pairs as u32 + 1) + Duration::from_secs(60);
    let bench = Bench::start(&binary, folder.path(), free_ports()?, longest, rate.as_deref())?;
    let watch = || Observers::attach(&binary, browser.as_deref(), folder.path(), &bench);
    let mut found = Vec::new();
    for number in 0..pairs {
        let mut pair = Pair::default();
        for is_watched in [number % 2 == 0, number % 2 != 0] {
            let observers = if is_watched { Some(watch()?) } else { None };
            std::thread::sleep(SETTLE);
            let window = Window::measure(&bench, observers.as_ref(), seconds)?;
            *(if is_watched { &mut pair.watched } else { &mut pair.alone }) = window;
        }
        println!("{}", pair.line(number + 1));
        found.push(pair);
    }
    bench.stop()?;
    Ok(judge(&found, browser.is_some()))
}

/// Activity during one window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    txn_per_s: f64,
    /// CPU time of the bench without its load, microseconds.
    node_us_per_txn: f64,
    /// Milliseconds a second in the node's threads that serve RPC, dashboard and metrics.
    serving: f64,
    /// Monitor CPU time, milliseconds per second.
    monitor: f64,
    browser: f64,
    /// The median time of a scrape, milliseconds.
    scrape_ms: f64,
}

impl Window {
    fn measure(bench: &Bench, observers: Option<&Observers>, seconds: Duration) -> Result<Self, String> {
        let cpu = || observers.map_or((0, 0), Observers::cpu_ns);
        let (begin, watching) = (Reading::take(bench)?, cpu());
        std::thread::sleep(seconds);
        let (end, watched) = (Reading::take(bench)?, cpu());
        let passed = (end.at - begin.at).as_secs_f64();
        let transactions = (end.transactions - begin.transactions) as f64;
        let ms_per_s = |then: u64, now: u64| now.saturating_sub(then) as f64 / 1e6 / passed;
        Ok(Self {
            txn_per_s: transactions / passed,
            node_us_per_txn: end.node_ns.saturating_sub(begin.node_ns) as f64 / 1e3 / transactions.max(1.0),
            serving: ms_per_s(begin.serving_ns, end.serving_ns),
            monitor: ms_per_s(watching.0, watched.0),
            browser: ms_per_s(watching.1, watched.1),
            scrape_ms: observers.map_or(0.0, Observers::scrape_ms),
        })
    }
}

/// Two windows of the same bench, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    alone: Window,
    watched: Window,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.watched.txn_per_s / self.alone.txn_per_s.max(1.0)
    }

    fn line(&self, number: u64) -> String {
        let Self { alone, watched } = self;
        format!(
            "pair {number:>2}: {:>7.0} txn/s alone, {:>7.0} watched, ratio {:.4}; \
             ms/s: serving {:.1} and {:.1}, monitor {:.1}, browser {:.1}",
            alone.txn_per_s,
            watched.txn_per_s,
            self.ratio(),
            alone.serving,
            watched.serving,
            watched.monitor,
            watched.browser,
        )
    }
}

/// The median; of an even number the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

/// Rank, counted from 1 and from each end, of the order statistics that enclose the true median with at least 95 %
/// confidence; 1 if the samples are too few.
pub(super) fn rank_of_interval(count: usize) -> usize {
    let (mut below, mut term) = (0.0, 0.5_f64.powi(count as i32));
    for rank in 0..count {
        below += term;
        if below > 0.025 {
            return rank.max(1);
        }
        term *= (count - rank) as f64 / (rank + 1) as f64;
    }
    1
}

fn judge(pairs: &[Pair], has_browser: bool) -> Outcome {
    let mut ratios: Vec<f64> = pairs.iter().map(Pair::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let rank = rank_of_interval(ratios.len());
    let (low, high) = (ratios[rank - 1], ratios[ratios.len() - rank]);
    let of = |figure: fn(&Pair) -> f64| median(pairs.iter().map(figure).collect());
    let round = |value: f64, digits: f64| Value::from((value * digits).round() / digits);
    let both = |alone: f64, watched: f64| json!({ "alone": round(alone, 100.0), "watched": round(watched, 100.0) });
    let mut figures = json!({
        "pairs": pairs.len(),
        "ratio": { "median": round(median(ratios.clone()), 1e4), "low": round(low, 1e4), "high": round(high, 1e4) },
        "txn_per_s": both(of(|p| p.alone.txn_per_s), of(|p| p.watched.txn_per_s)),
        "node_us_per_txn": both(of(|p| p.alone.node_us_per_txn), of(|p| p.watched.node_us_per_txn)),
        "serving_ms_per_s": both(of(|p| p.alone.serving), of(|p| p.watched.serving)),
        "monitor_ms_per_s": round(of(|p| p.watched.monitor), 100.0),
        "browser_ms_per_s": if has_browser { round(of(|p| p.watched.browser), 100.0) } else { Value::Null },
        "scrape_ms": round(of(|p| p.watched.scrape_ms), 100.0),
    });
    let cost = |ratio: f64| 100.0 * (1.0 - ratio);
    let (verdict, wrong) = match (low >= RATIO_MIN, high < RATIO_MIN) {
        (true, _) => ("met", None),
        (_, true) => {
            ("missed", Some(format!("being watched costs more than 1 %: {:.1} %", cost(median(ratios.clone())))))
        }
        _ => {
            let range = format!("{:.1} to {:.1} %", cost(high), cost(low));
            (
                "not decided",
                Some(format!("not decided: being watched costs {range}; a quiet machine or more pairs tell")),
            )
        }
    };
    figures["verdict"] = verdict.into();
    Outcome { figures, wrong: wrong.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        // As the tables have it.
        let ranks: Vec<usize> = [5, 6, 8, 12, 20, 30].map(rank_of_interval).into();
        assert_eq!(ranks, [1, 1, 1, 3, 6, 10]);
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
    }

    #[test]
    fn the_target_is_met_or_missed_only_where_it_is_no_noise() {
        let judged = |ratios: [f64; 6]| {
            let window = |txn_per_s| Window { txn_per_s, ..Window::default() };
            let pair = |ratio| Pair { alone: window(1e5), watched: window(1e5 * ratio) };
            let Outcome { figures, wrong } = judge(&ratios.map(pair), false);
            assert_eq!(figures["browser_ms_per_s"], Value::Null);
            (figures["verdict"].clone(), figures["ratio"]["median"].clone(), wrong)
        };
        let (verdict, median, wrong) = judged([1.0, 0.995, 0.99, 1.01, 0.992, 0.998]);
        assert_eq!((verdict, median, wrong), (json!("met"), json!(0.9965), vec![]));
        let (verdict, median, wrong) = judged([0.95, 1.04, 0.98, 1.01, 0.97, 1.02]);
        assert_eq!((verdict, median, wrong.len()), (json!("not decided"), json!(0.995), 1));
        assert!(wrong[0].contains("-4.0 to 5.0 %"), "{wrong:?}");
        let (verdict, _, wrong) = judged([0.96, 0.97, 0.96, 0.98, 0.97, 0.96]);
        assert_eq!((verdict, wrong.len()), (json!("missed"), 1));
        assert!(wrong[0].contains("3.5 %"), "{wrong:?}");
    }
}
