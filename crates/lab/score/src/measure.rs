//! The measuring loop: like `polkadot benchmark machine`, plus the spread and CPU time.
//!
//! reads   the clock after each call, the CPU time of the calling thread after each slice
//! memory  24 B per half second
//! source  the behaviour of frame-benchmarking-cli 64.0.0: one call that is not measured, then calls until the time is
//!         over; the score is all work divided by all time

use std::time::{Duration, Instant};

use hearth_tile::sys::thread;

/// The spread is that of scores over this long: single calls hide what happens between them.
const SLICE: Duration = Duration::from_millis(500);

/// A score over a slice of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Per second of wall time.
    pub wall: f64,
    /// Per second of CPU time, if the clock counted any.
    pub cpu: Option<f64>,
}

/// The result of repeated calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Per second of wall time: all work divided by all time.
    pub wall: f64,
    /// Per second of CPU time of the measuring thread, for use if others have the core, too. None if the clock counted
    /// no time.
    pub cpu: Option<f64>,
    /// The same for each half second, or for a call if that takes longer.
    pub slices: Vec<Slice>,
    /// Number of measured calls.
    pub calls: u64,
}

impl Measurement {
    /// Returns the 5th percentile, the median and the 95th percentile of slices, by wall time or by CPU time.
    pub fn spread(&self, by_cpu: bool) -> [f64; 3] {
        let of = |slice: &Slice| if by_cpu { slice.cpu } else { Some(slice.wall) };
        percentiles(self.slices.iter().filter_map(of).collect())
    }
}

/// Calls once without measuring, then until the limit is reached; none if stopped. Each call does `amount` of work.
///
/// # Errors
/// The first error of a call.
pub fn measure<E>(
    amount: f64,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
    call: impl FnMut() -> Result<(), E>,
) -> Result<Option<Measurement>, E> {
    measure_by(SLICE, amount, limit, is_stopped, call)
}

fn measure_by<E>(
    slice: Duration,
    amount: f64,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
    mut call: impl FnMut() -> Result<(), E>,
) -> Result<Option<Measurement>, E> {
    call()?;
    let (begin, cpu_begin) = (Instant::now(), thread::cpu_ns());
    let (mut calls, mut last) = (0u64, Duration::ZERO);
    let rates = |calls: u64, wall: Duration, cpu_ns: u64| {
        let all = amount * calls as f64;
        let cpu = (cpu_ns > 0).then(|| all / (cpu_ns as f64 / 1e9));
        Slice { wall: all / wall.as_secs_f64().max(1e-9), cpu }
    };
    let mut slices = Vec::new();
    let mut from = (0, Duration::ZERO, cpu_begin);
    while last < limit || calls == 0 {
        call()?;
        last = begin.elapsed();
        calls += 1;
        if last - from.1 >= slice {
            let cpu = thread::cpu_ns();
            slices.push(rates(calls - from.0, last - from.1, cpu.saturating_sub(from.2)));
            from = (calls, last, cpu);
        }
        if is_stopped() {
            return Ok(None);
        }
    }
    let cpu = thread::cpu_ns();
    let whole = rates(calls, last, cpu.saturating_sub(cpu_begin));
    // The remainder counts if it is nearly as long as a slice, or if there are no slices.
    if slices.is_empty() || 2 * (last - from.1) >= slice {
        slices.push(rates(calls - from.0, last - from.1, cpu.saturating_sub(from.2)));
    }
    Ok(Some(Measurement { wall: whole.wall, cpu: whole.cpu, slices, calls }))
}

/// Returns the 5th percentile, the median and the 95th percentile; zeros without values.
pub fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values.get((values.len().saturating_sub(1) as f64 * part).round() as usize);
    [0.05, 0.5, 0.95].map(|part| at(part).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn one_call_is_not_measured_and_the_rest_add_up() {
        let calls = Cell::new(0);
        let measured = measure(10.0, Duration::from_millis(5), &|| false, || {
            calls.set(calls.get() + 1);
            Ok::<(), Infallible>(())
        });
        let measured = measured.expect("infallible").expect("not stopped");
        assert_eq!(measured.calls + 1, calls.get());
        assert!(measured.wall <= 10.0 * measured.calls as f64 / 0.005, "it lasted the limit at least");
        let [slow, median, fast] = measured.spread(false);
        assert!(slow <= median && median <= fast, "{measured:?}");
        assert_eq!(measured.slices.len(), 1, "it was shorter than a slice");
    }

    #[test]
    fn stopped_has_no_score_and_failure_a_reason() {
        let hour = Duration::from_secs(3600);
        assert_eq!(measure(1.0, hour, &|| true, || Ok::<(), Infallible>(())), Ok(None));
        assert_eq!(measure(1.0, hour, &|| false, || Err("full")), Err("full"));
    }

    #[test]
    fn rates_are_of_the_time_that_passed() {
        // Each call works for a millisecond, even if others use the core.
        let work = || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(1) {}
            Ok::<(), Infallible>(())
        };
        let measured = measure(1.0, Duration::from_millis(30), &|| false, work).expect("infallible").expect("there");
        assert!(measured.wall <= 1000.0 && measured.spread(false)[2] <= 1000.0, "{measured:?}");
        // Its CPU time is at most the wall time, apart from the clocks' resolution.
        assert!(measured.cpu.expect("counted") >= measured.wall * 0.99, "{measured:?}");
    }

    #[test]
    fn the_spread_is_that_of_the_score() {
        let busy = |ms: f64| {
            let begin = Instant::now();
            while begin.elapsed().as_secs_f64() < ms / 1e3 {}
        };
        // One of ten calls lasts as long as fifty others, so single calls hardly show the work per second.
        let count = Cell::new(0u32);
        let work = || {
            count.set(count.get() + 1);
            busy(if count.get() % 10 == 0 { 5.0 } else { 0.1 });
            Ok::<(), Infallible>(())
        };
        let slice = Duration::from_millis(18);
        let measured = measure_by(slice, 1.0, Duration::from_millis(120), &|| false, work);
        let measured = measured.expect("infallible").expect("there");
        let [slow, median, fast] = measured.spread(false);
        assert!(measured.slices.len() >= 2, "{measured:?}");
        assert!(slow <= measured.wall * 1.5 && median <= measured.wall * 2.0, "{measured:?}");
        assert!(median >= measured.wall / 2.0 && fast >= measured.wall * 0.75, "{measured:?}");
        let [slow, _, fast] = measured.spread(true);
        let cpu = measured.cpu.expect("counted");
        assert!(slow <= cpu * 1.5 && fast >= cpu * 0.75, "by the same clock: {measured:?}");
    }

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values = (0..=100).rev().map(f64::from).collect();
        assert_eq!(percentiles(values), [5.0, 50.0, 95.0]);
        assert_eq!(percentiles(vec![7.0]), [7.0; 3]);
        assert_eq!(percentiles(Vec::new()), [0.0; 3]);
    }
}
