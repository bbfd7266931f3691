//! Analyzes all builds and metrics of a study together: estimates paired by round, intervals that hold simultaneously,
//! and how certain the front is.
//!
//! reads   a [`Table`], the [`Goal`]s, and which build is the reference
//! writes  [`PairedAnalysis`]
//! memory  16 B per value; 8 B per build, goal and round
//! source  Yuen for the trimmed mean and its error; Westfall and Young for the least p-value of all comparisons under
//!         random signs; Efron for the bootstrap over rounds
//!
//! A disturbance in a round affects all builds of that round. So each build is compared with the reference within the
//! round, and the bootstrap resamples rounds. Values are compared by their logarithms: a difference of logarithms is a
//! ratio. A fifth of the differences is trimmed at each end before taking the mean, which removes the effect of single
//! disturbed runs. If a metric has values that are not positive, plain differences are used.

mod cell;
mod interval;

use self::cell::{Cell, base, cell};
use self::interval::intervals;
use crate::objective::{Goal, front};
use crate::table::Table;

/// With fewer rounds than this, no reliable statement about noise is possible.
pub const ROUNDS_MIN: usize = 6;
/// Above this many steps of work, fewer resamples are drawn.
const WORK_MAX: usize = 600_000_000;
/// The fewest resamples that are drawn, however much work they are.
const RESAMPLES_MIN: usize = 200;
/// Resamples that are computed side by side.
const LANES: usize = 8;

/// A number for each resample of a group.
type Lanes = [f64; LANES];

/// Settings of the analysis.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum number of resamples.
    pub resamples: usize,
    /// Seed of the resampling: the same seed gives the same intervals.
    pub seed: u64,
    /// The share of studies in which no interval at all may miss the true value.
    pub level: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { resamples: 2_000, seed: 1, level: 0.95 }
    }
}

/// How a build's values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By their ratio, because all values of the metric are positive.
    Ratio,
    /// By their difference, because a ratio of such values is meaningless.
    Difference,
}

impl Scale {
    /// Returns the value on the scale on which differences are taken.
    pub fn on(self, value: f64) -> f64 {
        if self == Self::Ratio { value.ln() } else { value }
    }

    /// Converts a fractional difference to this scale.
    pub fn of_part(self, part: f64) -> f64 {
        if self == Self::Ratio { part.ln_1p() } else { part }
    }
}

/// The verdict on a build compared with the reference, in one goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better, beyond the noise and by more than what matters.
    Better,
    /// Worse, beyond the noise and by more than what matters.
    Worse,
    /// The interval includes "no difference", or one that does not matter.
    NoDifference,
    /// There is no interval, because there are too few rounds.
    Unknown,
}

/// A build compared with the reference, in one goal.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// The ratio to the reference, or the difference; NaN if they have no round in common.
    pub value: f64,
    /// The interval, which holds simultaneously with all others.
    pub interval: Option<(f64, f64)>,
    /// Rounds that both have.
    pub rounds: usize,
    /// Verdict by the interval, in the goal's direction.
    pub verdict: Verdict,
}

/// The result of the analysis.
#[derive(Clone, Debug)]
pub struct PairedAnalysis {
    /// How each goal is compared.
    pub scales: Vec<Scale>,
    /// Each build's estimates, goal by goal; the reference's own are 1 or 0.
    pub estimates: Vec<Vec<Estimate>>,
    /// Probability that each build is on the front, however few its rounds are: see [`Self::p_front`].
    pub on_front: Vec<f64>,
    /// Probability that each build is better than the reference in every goal; none without a reference.
    pub better: Option<Vec<f64>>,
    /// Number of resamples drawn.
    pub resamples: usize,
    /// Whether some build had no round in common with the reference, and was paired with it in the order of appearance.
    pub paired_by_order: bool,
}

impl PairedAnalysis {
    /// Returns the probability that a build is on the front; none if it has too few rounds.
    pub fn p_front(&self, build: usize) -> Option<f64> {
        self.is_known(build).then(|| self.on_front[build])
    }

    /// Returns the probability that it is better than the reference in every goal; none without a reference, or with
    /// too few rounds.
    pub fn p_better(&self, build: usize) -> Option<f64> {
        self.better.as_ref().filter(|_| self.is_known(build)).map(|all| all[build])
    }

    fn is_known(&self, build: usize) -> bool {
        self.estimates[build].iter().all(|one| one.rounds >= ROUNDS_MIN)
    }
}

/// Compares each build with the reference, with intervals that hold for all builds and goals together.
pub fn paired(table: &Table, goals: &[Goal], reference: Option<usize>, settings: &Settings) -> PairedAnalysis {
    let scales: Vec<Scale> = goals.iter().map(|goal| scale(table, goal)).collect();
    let mut by_order = false;
    let cells: Vec<Vec<Cell>> = goals
        .iter()
        .zip(&scales)
        .map(|(goal, scale)| {
            let base = base(table, goal.metric, reference, *scale);
            (0..table.builds.len())
                .map(|build| cell(table.of(goal.metric, build), &base, *scale, &mut by_order))
                .collect()
        })
        .collect();
    let size = cells.len() * table.builds.len() * table.rounds.len();
    let resamples = settings.resamples.min((WORK_MAX / size.max(1)).max(RESAMPLES_MIN)).max(1);
    let settings = Settings { resamples, ..*settings };
    let errors = intervals(&cells, table.rounds.len(), &settings, reference);
    let estimates = (0..table.builds.len()).map(|build| {
        let of = |(at, goal): (usize, &Goal)| {
            let location = cells[at][build].location(table.rounds.len());
            estimate(location, &cells[at][build], errors[at][build], goal, scales[at])
        };
        goals.iter().enumerate().map(of).collect()
    });
    let estimates = estimates.collect();
    let (on_front, better) = chances(table, goals, &cells, &settings);
    let better = reference.map(|_| better);
    PairedAnalysis { scales, estimates, on_front, better, resamples, paired_by_order: by_order }
}

fn scale(table: &Table, goal: &Goal) -> Scale {
    let positive = table.metrics[goal.metric].values.iter().all(|value| value.is_nan() || *value > 0.0);
    if positive { Scale::Ratio } else { Scale::Difference }
}

/// Runs `work` for each lane.
fn each(mut work: impl FnMut(usize)) {
    (0..LANES).for_each(&mut work);
}

fn estimate(location: f64, cell: &Cell, half_width: Option<f64>, goal: &Goal, scale: Scale) -> Estimate {
    let back = |value: f64| if scale == Scale::Ratio { value.exp() } else { value };
    let interval = half_width.map(|half| (location - half, location + half));
    let matters = scale.of_part(goal.matters);
    let verdict = match interval {
        None => Verdict::Unknown,
        Some((low, high)) => match (goal.gain(low).min(goal.gain(high)), goal.gain(low).max(goal.gain(high))) {
            (low, _) if low > matters => Verdict::Better,
            (_, high) if high < -matters => Verdict::Worse,
            _ => Verdict::NoDifference,
        },
    };
    let interval = interval.map(|(low, high)| (back(low), back(high)));
    Estimate { value: back(location), interval, rounds: cell.sorted.len(), verdict }
}

/// For each build, how often it is on the front of a resample, and how often better than the base in every goal.
fn chances(table: &Table, goals: &[Goal], cells: &[Vec<Cell>], settings: &Settings) -> (Vec<f64>, Vec<f64>) {
    let (builds, rounds) = (table.builds.len(), table.rounds.len());
    let found = in_parallel(settings.resamples.div_ceil(LANES), |group| {
        let mut random = fastrand::Rng::with_seed(settings.seed.wrapping_mul(0x51_7cc1).wrapping_add(!group as u64));
        let mut weights = vec![[0.0; LANES]; rounds];
        for draw in 0..LANES * rounds {
            weights[random.usize(..rounds)][draw % LANES] += 1.0;
        }
        let mut points = vec![vec![0.0; builds * goals.len()]; LANES];
        for (at, (goal, cells)) in goals.iter().zip(cells).enumerate() {
            for (build, cell) in cells.iter().enumerate() {
                let found = cell.locations(&weights);
                each(|lane| points[lane][build * goals.len() + at] = goal.gain(found[lane]));
            }
        }
        let lanes = LANES.min(settings.resamples - group * LANES);
        // For each build, how often it is on the front of these, and how often better than the base.
        let mut counts = vec![[0u32; 2]; builds];
        for points in &points[..lanes] {
            let on = front(points, goals.len());
            for ((counts, on), gains) in counts.iter_mut().zip(on).zip(points.chunks(goals.len())) {
                counts[0] += u32::from(on);
                counts[1] += u32::from(gains.iter().all(|gain| *gain > 0.0));
            }
        }
        counts
    });
    let share = |which: usize| {
        let count = |build: usize| found.iter().map(|counts| counts[build][which]).sum::<u32>();
        (0..builds).map(|build| f64::from(count(build)) / settings.resamples as f64).collect()
    };
    (share(0), share(1))
}

/// Computes `work` of each number below `count`, in order, on all cores.
fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(count.max(1));
    let each = count.div_ceil(threads);
    std::thread::scope(|scope| {
        let part = |thread: usize| thread * each..((thread + 1) * each).min(count);
        let work = &work;
        let parts: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || part(thread).map(work).collect::<Vec<T>>())).collect();
        parts.into_iter().flat_map(|part| part.join().expect("nobody panicked")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal numbers with occasional outliers, as on a shared machine.
    struct Noise(fastrand::Rng);

    impl Noise {
        fn next(&mut self) -> f64 {
            let (a, b) = (1.0 - self.0.f64(), self.0.f64());
            let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
            if self.0.f64() < 0.05 { normal + 6.0 } else { normal }
        }
    }

    /// A study of builds with these true speeds, and a common effect of each round.
    fn study(seed: u64, speeds: &[f64], metrics: usize, rounds: usize) -> Table {
        let mut noise = Noise(fastrand::Rng::with_seed(seed));
        let mut text = "nb_build,metric,value,repetition\n".to_owned();
        for metric in 0..metrics {
            for round in 0..rounds {
                let of_round = 0.05 * noise.next();
                for (build, speed) in speeds.iter().enumerate() {
                    let value = 1000.0 * speed * (of_round + 0.02 * noise.next()).exp();
                    text.push_str(&format!("b{build},m{metric},{value},{round}\n"));
                }
            }
        }
        Table::read(text.as_bytes()).expect("fine")
    }

    fn goals(metrics: usize) -> Vec<Goal> {
        (0..metrics).map(|metric| Goal::new(metric, metric % 2 == 0)).collect()
    }

    fn look(table: &Table, metrics: usize, resamples: usize) -> PairedAnalysis {
        paired(table, &goals(metrics), Some(0), &Settings { resamples, ..Settings::default() })
    }

    fn claims(found: &PairedAnalysis) -> usize {
        let claimed = |one: &&Estimate| matches!(one.verdict, Verdict::Better | Verdict::Worse);
        found.estimates.iter().flatten().filter(claimed).count()
    }

    #[test]
    fn no_difference_is_claimed_where_there_is_none() {
        for (rounds, builds) in [(20, 12), (10, 6), (6, 3)] {
            let wrong =
                (0..1_000).filter(|seed| claims(&look(&study(*seed, &vec![1.0; builds], 3, rounds), 3, 400)) > 0);
            let wrong = wrong.count();
            println!("{rounds} rounds of {builds} builds: {wrong} of 1000");
            assert!(
                wrong <= 50,
                "{rounds} rounds of {builds} builds: a difference is claimed in {wrong} of 1000 studies"
            );
        }
    }

    #[test]
    fn intervals_hold_the_truth_all_at_once() {
        let speeds = [1.0, 1.01, 1.05, 0.9, 1.2, 0.99];
        let misses = |found: &PairedAnalysis| {
            let pairs = found.estimates.iter().zip(speeds).skip(1);
            pairs.flat_map(|(estimates, truth)| estimates.iter().map(move |one| (one, truth))).any(|(one, truth)| {
                let (low, high) = one.interval.expect("many rounds");
                truth < low || truth > high
            })
        };
        let missed = (0..1_000).filter(|seed| misses(&look(&study(*seed, &speeds, 2, 20), 2, 400))).count();
        assert!((5..=50).contains(&missed), "{missed} of 1000 studies have an interval that misses the truth");
    }

    #[test]
    fn a_build_of_few_rounds_does_not_blunt_the_others() {
        let few = |seed: u64| {
            let mut table = study(seed, &[1.0; 4], 2, 20);
            for metric in &mut table.metrics {
                metric.values[3 * 20 + 6..].fill(f64::NAN);
            }
            table
        };
        let width = |found: &PairedAnalysis| {
            let (low, high) = found.estimates[1][0].interval.expect("many rounds");
            (high / low).ln()
        };
        let (all, fewer) = (look(&study(3, &[1.0; 4], 2, 20), 2, 2_000), look(&few(3), 2, 2_000));
        let wider = width(&fewer) / width(&all);
        assert!((0.85..1.15).contains(&wider), "{wider}");
        let wrong = (0..1_000).filter(|seed| claims(&look(&few(*seed), 2, 400)) > 0).count();
        println!("with a build of 6 rounds: {wrong} of 1000");
        assert!(wrong <= 50, "a difference is claimed in {wrong} of 1000 studies");
    }

    #[test]
    fn irrelevant_factor_shows_no_difference() {
        let rounds = |build: &str, value: u32| (0..8).map(|n| format!("{build},x,{value},{n}\n")).collect::<String>();
        let all = rounds("a", 10_000) + &rounds("b", 10_001) + &rounds("c", 10_200) + &rounds("d", 9_800);
        let table = Table::read(format!("build,metric,value,repetition\n{all}").as_bytes()).expect("fine");
        let verdicts = |matters: f64| {
            let goals = [Goal { matters, ..Goal::new(0, false) }];
            let found = paired(&table, &goals, Some(0), &Settings::default());
            found.estimates[1..].iter().map(|all| all[0].verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(0.0), [Verdict::Worse, Verdict::Worse, Verdict::Better]);
        assert_eq!(verdicts(0.01), [Verdict::NoDifference, Verdict::Worse, Verdict::Better]);
        assert_eq!(verdicts(0.05), [Verdict::NoDifference; 3]);
    }

    #[test]
    fn a_true_difference_is_found() {
        let found = look(&study(7, &[1.0, 1.1, 0.9, 1.0], 2, 20), 2, 2_000);
        let verdicts: Vec<Vec<Verdict>> =
            found.estimates.iter().map(|all| all.iter().map(|one| one.verdict).collect()).collect();
        assert_eq!(verdicts[1], [Verdict::Better, Verdict::Worse]);
        assert_eq!(verdicts[2], [Verdict::Worse, Verdict::Better]);
        assert_eq!(verdicts[3], [Verdict::NoDifference; 2]);
        assert!((found.estimates[1][0].value - 1.1).abs() < 0.03, "{:?}", found.estimates[1]);
        // More of the first is better and less of the second: both ends are on the front, and none beats the reference.
        assert!(found.on_front[1] > 0.99 && found.on_front[2] > 0.99, "{:?}", found.on_front);
        assert_eq!(found.better.expect("a reference")[1], 0.0);
    }

    #[test]
    fn few_and_missing_rounds_are_handled() {
        let table =
            |text: &str| Table::read(format!("build,metric,value,repetition\n{text}").as_bytes()).expect("fine");
        // One round: a ratio of unknown error.
        let one = look(&table("a,x,10,1\nb,x,11,1\n"), 1, 100);
        assert!((one.estimates[1][0].value - 1.1).abs() < 1e-9 && one.estimates[1][0].verdict == Verdict::Unknown);
        // No round in common: paired by order.
        let apart = look(&table("a,x,10,1\na,x,10,2\nb,x,20,3\nb,x,20,4\n"), 1, 100);
        assert!(apart.paired_by_order && (apart.estimates[1][0].value - 2.0).abs() < 1e-9);
        // One build has no value at all.
        let none = look(&table("a,x,10,1\na,y,1,1\nb,y,1,1\n"), 2, 100);
        assert!(none.estimates[1][0].value.is_nan() && none.on_front == [1.0, 0.0]);
        // Values without variation differ exactly, or not at all.
        let rounds = |build: &str, value: u32| (0..8).map(|n| format!("{build},x,{value},{n}\n")).collect::<String>();
        let exact = look(&table(&(rounds("a", 10) + &rounds("b", 11) + &rounds("c", 10))), 1, 100);
        let verdicts: Vec<Verdict> = exact.estimates.iter().map(|all| all[0].verdict).collect();
        assert_eq!(verdicts[1..], [Verdict::Better, Verdict::NoDifference]);
        // Values that are not positive are subtracted.
        let negative = look(&table("a,x,-1,1\nb,x,2,1\n"), 1, 100);
        assert_eq!((negative.scales[0], negative.estimates[1][0].value), (Scale::Difference, 3.0));
    }

    #[test]
    fn the_same_seed_gives_the_same_answer() {
        let table = study(3, &[1.0, 1.02, 0.97], 2, 12);
        let [one, other] = [look(&table, 2, 300), look(&table, 2, 300)];
        assert_eq!((one.on_front, one.better), (other.on_front, other.better));
        assert_eq!(one.estimates[1][0].interval, other.estimates[1][0].interval);
    }
}
