//! Measures how long a cache line takes from one core to another.
//!
//! reads   the cores that this process may use
//! memory  8 B for each 256 round trips
//! source  a ping and its answer in one line, like a frag's metadata and its credit between two tiles; half a round
//!         trip is one way

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hearth_tile::sys::thread::{allowed_cores, pin_to};

use super::ScoreError;
use super::measure::percentiles;

/// Maximum number of cores that are paired: 24 make 276 pairs.
pub const CORES_MAX: usize = 24;
/// Round trips between two readings of the clock.
const ROUND_TRIPS: u64 = 256;
/// Minimum time per pair.
const PAIR_MIN: Duration = Duration::from_millis(2);
/// Spins between two checks of the stop conditions.
const SPINS: u32 = 4096;

/// The result for pairs of cores.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreMatrix {
    /// The cores that were measured.
    pub cores: Vec<usize>,
    /// Allowed cores that were left out, because there would be too many pairs.
    pub left_out: Vec<usize>,
    /// One way in nanoseconds, the median of each pair, indexed by the positions in `cores`; none from a core to
    /// itself.
    pub matrix: Vec<Vec<Option<f64>>>,
    /// The 5th percentile, the median and the 95th percentile of all batches of all pairs.
    pub spread: [f64; 3],
    /// Number of measured batches of 256 round trips.
    pub calls: u64,
}

impl CoreMatrix {
    /// Returns the least, the median and the greatest of all pairs.
    pub fn range(&self) -> [f64; 3] {
        let mut pairs: Vec<f64> = self.matrix.iter().flatten().flatten().copied().collect();
        pairs.sort_by(f64::total_cmp);
        let at = |place: usize| pairs.get(place).copied().unwrap_or_default();
        [at(0), at(pairs.len() / 2), at(pairs.len().saturating_sub(1))]
    }
}

/// Measures each pair of the allowed cores, within `limit` in all; none if stopped.
///
/// # Errors
/// Fewer than two cores, or an error of the system.
pub fn core_to_core(limit: Duration, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<Option<CoreMatrix>, ScoreError> {
    let allowed = allowed_cores().map_err(|source| ScoreError::System { what: "the allowed cores", source })?;
    if allowed.len() < 2 {
        return Err(ScoreError::OneCore);
    }
    let (cores, left_out) = chosen(&allowed);
    let pairs = (cores.len() * (cores.len() - 1) / 2) as u32;
    let limit = (limit / pairs).max(PAIR_MIN);
    let mut matrix = vec![vec![None; cores.len()]; cores.len()];
    let mut all = Vec::new();
    for from in 0..cores.len() {
        for to in from + 1..cores.len() {
            let Some(batches) = pair(cores[from], cores[to], limit, is_stopped)? else { return Ok(None) };
            let [_, median, _] = percentiles(batches.clone());
            (matrix[from][to], matrix[to][from]) = (Some(median), Some(median));
            all.extend(batches);
        }
    }
    let calls = all.len() as u64;
    Ok(Some(CoreMatrix { cores, left_out, matrix, spread: percentiles(all), calls }))
}

/// Picks evenly spaced cores if there are too many.
fn chosen(allowed: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let count = allowed.len().min(CORES_MAX);
    let cores: Vec<usize> = (0..count).map(|place| allowed[place * allowed.len() / count]).collect();
    let left_out = allowed.iter().filter(|core| !cores.contains(core)).copied().collect();
    (cores, left_out)
}

/// The ball that both threads share, on a cache line of its own plus the next, because processors prefetch lines in
/// pairs.
#[repr(align(128))]
#[derive(Default)]
struct Ball(AtomicU64);

/// Whether the other thread runs on its core.
const STARTING: u8 = 0;
const READY: u8 = 1;
const REFUSED: u8 = 2;

struct PingPong<'a> {
    ball: Ball,
    other: AtomicU8,
    is_over: AtomicBool,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> PingPong<'a> {
    fn new(is_stopped: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { ball: Ball::default(), other: AtomicU8::new(STARTING), is_over: AtomicBool::new(false), is_stopped }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || (self.is_stopped)()
    }

    /// Waits until the ball has this number; false if the measurement ends first.
    fn waits_for(&self, number: u64) -> bool {
        let mut spins = 0u32;
        while self.ball.0.load(Ordering::Acquire) != number {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(SPINS) && self.is_over() {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    /// Answers every ball with the next number, until the measurement ends.
    fn answer(&self) {
        let mut number = 1;
        while self.waits_for(number) {
            self.ball.0.store(number + 1, Ordering::Release);
            number += 2;
        }
    }

    /// Plays a batch of balls, waiting for each answer; false if the measurement ends first.
    fn play(&self, number: &mut u64) -> bool {
        (0..ROUND_TRIPS).all(|_| {
            self.ball.0.store(*number + 1, Ordering::Release);
            *number += 2;
            self.waits_for(*number)
        })
    }
}

/// Returns one way in nanoseconds, for each batch.
fn pair(
    from: usize,
    to: usize,
    limit: Duration,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Vec<f64>>, ScoreError> {
    let failed = |source| ScoreError::System { what: "a thread on a core of its own", source };
    let court = PingPong::new(is_stopped);
    thread::scope(|scope| {
        let answering = || {
            let pinned = pin_to(&[to]);
            court.other.store(if pinned.is_ok() { READY } else { REFUSED }, Ordering::Release);
            pinned.map(|()| court.answer())
        };
        let playing = || {
            let played = pin_to(&[from]).map(|()| play(&court, limit));
            court.end();
            played
        };
        let other = thread::Builder::new().spawn_scoped(scope, answering).map_err(failed)?;
        let player = thread::Builder::new().spawn_scoped(scope, playing).map_err(|source| {
            court.end();
            failed(source)
        })?;
        let batches = player.join().expect("playing does not panic").map_err(failed)?;
        other.join().expect("answering does not panic").map_err(failed)?;
        Ok(batches)
    })
}

fn play(court: &PingPong<'_>, limit: Duration) -> Option<Vec<f64>> {
    while court.other.load(Ordering::Acquire) == STARTING {
        thread::yield_now();
    }
    let (mut number, mut batches) = (0, Vec::new());
    if court.other.load(Ordering::Acquire) == REFUSED || !court.play(&mut number) {
        return None;
    }
    let begin = Instant::now();
    let mut last = Duration::ZERO;
    while last < limit {
        if !court.play(&mut number) || (court.is_stopped)() {
            return None;
        }
        let now = begin.elapsed();
        batches.push((now - last).as_nanos() as f64 / (2 * ROUND_TRIPS) as f64);
        last = now;
    }
    Some(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ball_goes_to_and_fro() {
        let court = PingPong::new(&|| false);
        let mut number = 0;
        thread::scope(|scope| {
            let other = scope.spawn(|| court.answer());
            assert!(court.play(&mut number) && court.play(&mut number));
            court.end();
            other.join().expect("it ends");
        });
        assert_eq!((number, court.ball.0.load(Ordering::Acquire)), (4 * ROUND_TRIPS, 4 * ROUND_TRIPS));
        assert!(!court.play(&mut number), "nobody answers any more");
    }

    #[test]
    fn each_pair_is_measured() {
        let allowed = allowed_cores().expect("Linux");
        match core_to_core(Duration::from_millis(20), &|| false) {
            Err(ScoreError::OneCore) => assert_eq!(allowed.len(), 1),
            other => {
                let found = other.expect("measured").expect("not stopped");
                assert_eq!(found.cores.len(), allowed.len().min(CORES_MAX));
                for (from, row) in found.matrix.iter().enumerate() {
                    for (to, ns) in row.iter().enumerate() {
                        assert_eq!(*ns, found.matrix[to][from]);
                        assert_eq!(ns.is_some(), from != to, "{found:?}");
                        assert!(ns.is_none_or(|ns| ns > 0.0));
                    }
                }
                let [least, median, most] = found.range();
                assert!(0.0 < least && least <= median && median <= most && found.calls > 0);
                assert_eq!(core_to_core(Duration::from_secs(3600), &|| true).expect("no error"), None);
                assert_eq!(allowed_cores().expect("Linux"), allowed, "this thread may run where it could");
            }
        }
    }

    #[test]
    fn of_many_cores_some_are_taken_at_equal_distances() {
        let all: Vec<usize> = (0..96).collect();
        let (cores, left_out) = chosen(&all);
        assert_eq!(cores, (0..24).map(|n| 4 * n).collect::<Vec<_>>());
        assert_eq!(left_out.len(), 72);
        let (cores, left_out) = chosen(&[1, 5, 9]);
        assert_eq!((cores, left_out), (vec![1, 5, 9], vec![]));
    }
}
