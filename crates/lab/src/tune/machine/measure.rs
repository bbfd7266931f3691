//! The measuring loop: as `polkadot benchmark machine` has it, with the spread and CPU time beside.
//!
//! reads   the clock after each call, the CPU time of the calling thread
//! writes  nothing
//! memory  at most 8 MB of single calls' times: of more calls a random part is kept
//! source  the behaviour of frame-benchmarking-cli 64.0.0: one call that is not measured, then calls until the time is
//!         over; all that was done by all the time

use std::time::{Duration, Instant};

use hearth_tile::sys::thread;

/// Times of single calls that are kept.
const KEPT_MAX: usize = 1 << 20;

/// What calls came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// A second of wall time: all that was done by all the time.
    pub wall: f64,
    /// A second of CPU time of the measuring thread: what to look at where others have the core, too. Nothing where the
    /// clock counted no time.
    pub cpu: Option<f64>,
    /// The 5th percentile, the median and the 95th percentile of single calls, by wall time.
    pub spread: [f64; 3],
    /// Calls that were measured.
    pub calls: u64,
}

/// Calls once without measuring, then until the limit is reached; nothing where it was stopped. Each call does
/// `amount`.
///
/// # Errors
/// The first one of a call.
pub fn measure<E>(
    amount: f64,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
    mut call: impl FnMut() -> Result<(), E>,
) -> Result<Option<Measured>, E> {
    call()?;
    let (mut kept, mut random) = (Vec::new(), fastrand::Rng::with_seed(1));
    let (begin, cpu_begin) = (Instant::now(), thread::cpu_ns());
    let (mut calls, mut last) = (0, Duration::ZERO);
    while last < limit || calls == 0 {
        call()?;
        let elapsed = begin.elapsed();
        calls += 1;
        let seconds = (elapsed - last).as_secs_f64();
        last = elapsed;
        // Every call has the same chance to be among those that are kept.
        if kept.len() < KEPT_MAX {
            kept.push(seconds);
        } else if let Some(place) = kept.get_mut(random.u64(..calls) as usize) {
            *place = seconds;
        }
        if is_stopped() {
            return Ok(None);
        }
    }
    let cpu_ns = thread::cpu_ns().saturating_sub(cpu_begin);
    let all = amount * calls as f64;
    let [fast, median, slow] = percentiles(kept).map(|seconds| amount / seconds.max(1e-9));
    Ok(Some(Measured {
        wall: all / last.as_secs_f64().max(1e-9),
        cpu: (cpu_ns > 0).then(|| all / (cpu_ns as f64 / 1e9)),
        spread: [slow, median, fast],
        calls,
    }))
}

/// The 5th percentile, the median and the 95th percentile; of no values zeros.
pub fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values.get((values.len().saturating_sub(1) as f64 * part).round() as usize);
    [0.05, 0.5, 0.95].map(|part| at(part).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::convert::Infallible;

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
        let [slow, median, fast] = measured.spread;
        assert!(slow <= median && median <= fast, "{measured:?}");
    }

    #[test]
    fn what_is_stopped_has_no_score_and_what_fails_says_why() {
        let hour = Duration::from_secs(3600);
        assert_eq!(measure(1.0, hour, &|| true, || Ok::<(), Infallible>(())), Ok(None));
        assert_eq!(measure(1.0, hour, &|| false, || Err("full")), Err("full"));
    }

    #[test]
    fn rates_are_of_the_time_that_passed() {
        // Each call lasts a millisecond of work, whoever else has the core.
        let work = || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(1) {}
            Ok::<(), Infallible>(())
        };
        let measured = measure(1.0, Duration::from_millis(30), &|| false, work).expect("infallible").expect("there");
        assert!(measured.wall <= 1000.0 && measured.spread[2] <= 1000.0, "{measured:?}");
        // Its CPU time is at most the wall time, but for the clocks' steps.
        assert!(measured.cpu.expect("counted") >= measured.wall * 0.99, "{measured:?}");
    }

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values = (0..=100).rev().map(f64::from).collect();
        assert_eq!(percentiles(values), [5.0, 50.0, 95.0]);
        assert_eq!(percentiles(vec![7.0]), [7.0; 3]);
        assert_eq!(percentiles(Vec::new()), [0.0; 3]);
    }
}
