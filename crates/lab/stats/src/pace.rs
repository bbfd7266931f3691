//! Measures how fast the cores are while something runs on them.
//!
//! reads   the clock, `/proc/stat`
//! writes  the nanoseconds that a fixed piece of work takes
//! memory  a thread for each allowed core while watching
//!
//! When a hypervisor runs something next to a guest, on the other thread of its core or on the same memory and power,
//! it takes no time that the guest's kernel could count: the cores are merely slower, often for a minute at a time. So
//! every core regularly runs a small timed piece of work next to the measured program.

use std::fs;
use std::hint::black_box;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hearth_tile::sys::thread::{allowed_cores, cpu_ns, pin_to};

/// Time between two looks: three pieces per interval are a third of a percent of a core.
const EVERY: Duration = Duration::from_millis(20);
/// Turns of a piece; 5 to 10 µs.
const TURNS: u32 = 10_000;
/// The fastest of this many pieces counts: the others met an interrupt, or came before the core was awake.
const PIECES: usize = 3;
/// With fewer looks there is no result.
const LOOKS_MIN: u32 = 10;

/// Measurements of the thread on one core.
#[derive(Clone, Copy, Debug, Default)]
struct CoreSample {
    /// Sum over all looks.
    ns: f64,
    looks: u32,
    cpu_ns: u64,
}

/// Measures the pace of every core until its end.
pub struct Watch {
    cores: Vec<(usize, JoinHandle<CoreSample>)>,
    /// Dropping these ends the threads.
    end: Vec<Sender<()>>,
    before: Vec<u64>,
}

/// The result of watching.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaceResult {
    /// Time of a piece on the working cores; none if the watch was too short.
    pub piece_ns: Option<f64>,
    /// CPU time that watching itself took, in seconds.
    pub cpu_s: f64,
}

impl Watch {
    /// Starts a thread on each allowed core, which measures the core's pace every 20 ms.
    pub fn begin() -> Self {
        let before = busy();
        let mut watch = Self { cores: Vec::new(), end: Vec::new(), before };
        for core in allowed_cores().unwrap_or_default() {
            let (end, ends) = channel::<()>();
            let looks = move || {
                let mut seen = CoreSample::default();
                // On another core it would say nothing about this one.
                if pin_to(&[core]).is_err() {
                    return seen;
                }
                while ends.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    seen.ns += (0..PIECES).map(|_| piece_ns()).fold(f64::INFINITY, f64::min);
                    seen.looks += 1;
                }
                seen.cpu_ns = cpu_ns();
                seen
            };
            if let Ok(thread) = thread::Builder::new().name(format!("pace{core}")).spawn(looks) {
                watch.cores.push((core, thread));
                watch.end.push(end);
            }
        }
        watch
    }

    /// Stops watching and returns the result.
    pub fn end(self) -> PaceResult {
        drop(self.end);
        let (before, after) = (self.before, busy());
        let at = |all: &[u64], core: usize| all.get(core).copied().unwrap_or_default();
        let mut cpu_s = 0.0;
        let mut all = Vec::new();
        for (core, thread) in self.cores {
            let Ok(seen) = thread.join() else { continue };
            cpu_s += seen.cpu_ns as f64 / 1e9;
            if seen.looks >= LOOKS_MIN {
                let busy = at(&after, core).saturating_sub(at(&before, core));
                all.push((seen.ns / f64::from(seen.looks), busy as f64));
            }
        }
        PaceResult { piece_ns: mean(&all), cpu_s }
    }
}

/// The mean over cores, weighted by how much each worked.
fn mean(cores: &[(f64, f64)]) -> Option<f64> {
    let worked: f64 = cores.iter().map(|(_, busy)| busy).sum();
    match worked > 0.0 {
        true => Some(cores.iter().map(|(ns, busy)| ns * busy).sum::<f64>() / worked),
        false if cores.is_empty() => None,
        false => Some(cores.iter().map(|(ns, _)| ns).sum::<f64>() / cores.len() as f64),
    }
}

fn piece_ns() -> f64 {
    let begin = Instant::now();
    black_box(piece(black_box(TURNS)));
    begin.elapsed().as_nanos() as f64
}

/// Uses the execution units that most programs need: several independent dependency chains.
#[inline(never)]
fn piece(turns: u32) -> u64 {
    let [mut a, mut b, mut c, mut d, mut e, mut f] = black_box([1u64, 2, 3, 4, 5, 6]);
    for turn in 0..u64::from(turns) {
        a = a.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        b = b.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        c = (c ^ turn).rotate_left(7);
        d = d.wrapping_add(c);
        e = (e ^ turn).wrapping_add(0x94d0_49bb_1331_11eb);
        f = f.wrapping_add(e);
    }
    a ^ b ^ c ^ d ^ e ^ f
}

/// Busy ticks of each core, by its number.
fn busy() -> Vec<u64> {
    busy_in(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

fn busy_in(stat: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let core = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok());
        let Some(core) = core.filter(|core| *core < 1 << 16) else { continue };
        all.resize(all.len().max(core + 1), 0);
        all[core] = words.take(3).filter_map(|word| word.parse::<u64>().ok()).sum();
    }
    all
}

/// Says how much slower the cores were than at their best, if above the limit; a limit of 1 or more disables this.
pub fn slower(limit: f64, piece_ns: Option<f64>, best_ns: Option<f64>) -> Option<String> {
    let (now, best) = (piece_ns?, best_ns?);
    let part = now / best - 1.0;
    (limit < 1.0 && part > limit).then(|| format!("the cores were {:.0} % slower than at their best", part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_counts_by_what_it_did() {
        assert_eq!(mean(&[(20.0, 300.0), (40.0, 100.0)]), Some(25.0));
        assert_eq!(mean(&[(20.0, 0.0), (40.0, 0.0)]), Some(30.0), "nothing was counted");
        assert_eq!(mean(&[]), None);
        let stat = "cpu  9 9 9 9\ncpu0 1 2 3 99 99\ncpu3 10 20 30 99\nintr 7\ncpufreq x\n";
        assert_eq!(busy_in(stat), [6, 0, 0, 60]);
    }

    #[test]
    fn slower_cores_are_reported_beyond_the_limit() {
        assert_eq!(slower(0.04, Some(20.5), Some(20.0)), None);
        let why = slower(0.04, Some(23.0), Some(20.0)).expect("slower");
        assert_eq!(why, "the cores were 15 % slower than at their best");
        assert_eq!(slower(1.0, Some(60.0), Some(20.0)), None, "switched off");
        assert_eq!(slower(0.04, Some(60.0), None), None, "the first one is the best");
    }

    #[test]
    fn a_watch_sees_every_core_and_says_what_it_took() {
        let (begin, watch) = (Instant::now(), Watch::begin());
        while begin.elapsed() < EVERY * LOOKS_MIN * 3 {
            black_box(piece(black_box(TURNS)));
        }
        let pace = watch.end();
        let wall = begin.elapsed().as_secs_f64();
        // Others may have used the cores all the time; then there were few looks.
        assert!(pace.piece_ns.is_none_or(|ns| ns > 1_000.0), "{pace:?}");
        assert!(pace.cpu_s > 0.0 && pace.cpu_s < wall * allowed_cores().expect("Linux").len() as f64, "{pace:?}");
        assert_eq!(Watch::begin().end().piece_ns, None, "too short to say");
    }
}
