//! What a study says with all its builds and metrics taken together: estimates paired by round, intervals that hold
//! for all at once, and how sure it is who is on the front.
//!
//! reads   a [`Table`], the [`Goal`]s, and which build is the reference
//! writes  [`Paired`]
//! memory  16 B a value; 8 B a build, goal and round
//! source  Yuen for the trimmed mean and its error; Westfall and Young for the least probability of all comparisons
//!         under random signs; Efron for the bootstrap over rounds
//!
//! What a machine does in a round it does to all builds of that round, so each build is compared with the reference
//! within the round, and rounds are what is drawn again. A value's logarithm is used: a difference of logarithms is a
//! ratio. Of the differences a fifth is cut off at each end before the mean is taken, which keeps what one disturbed
//! run does out of it. Where a metric has values that are not positive, differences are used as they are.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::article::median;
use super::goal::{Goal, front};
use super::table::Table;

/// A fifth of the rounds is cut off at each end.
const CUT: f64 = 0.2;
/// Fewer rounds than this tell nothing of the noise that one could rely on.
pub const ROUNDS_MIN: usize = 6;
/// Of so many steps the work may be, before fewer resamples are drawn.
const WORK_MAX: usize = 600_000_000;
/// Fewer resamples than this are never drawn.
const RESAMPLES_MIN: usize = 200;
/// Resamples that are worked on side by side.
const LANES: usize = 8;

/// A number for each of the resamples that are worked on.
type Lanes = [f64; LANES];

/// How a study is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Resamples, at most.
    pub resamples: usize,
    /// Where randomness begins.
    pub seed: u64,
    /// In how many of all studies no interval at all may miss the truth.
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
    /// By their ratio.
    Ratio,
    /// By their difference: a ratio of such values says nothing.
    Difference,
}

impl Scale {
    /// A difference that is given as a part of one, as differences are on this scale.
    pub fn of_part(self, part: f64) -> f64 {
        if self == Self::Ratio { part.ln_1p() } else { part }
    }
}

/// What can be said of a build beside the reference, in one goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better, beyond the noise and by more than what matters.
    Better,
    /// Worse, beyond the noise and by more than what matters.
    Worse,
    /// The interval has «no difference» in it, or one that does not matter.
    NoDifference,
    /// Too few rounds.
    Unknown,
}

/// A build beside the reference, in one goal.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// The ratio to the reference, or the difference; NaN where they have no round in common.
    pub value: f64,
    /// The interval that holds together with all others.
    pub interval: Option<(f64, f64)>,
    /// Rounds that both have.
    pub rounds: usize,
    /// What that says.
    pub verdict: Verdict,
}

/// What a study says.
#[derive(Clone, Debug)]
pub struct Paired {
    /// How each goal is compared.
    pub scales: Vec<Scale>,
    /// Each build's estimates, goal by goal; the reference's own are 1 or 0.
    pub estimates: Vec<Vec<Estimate>>,
    /// How likely each build is on the front.
    pub on_front: Vec<f64>,
    /// How likely each build is better than the reference in every goal; none without a reference.
    pub better: Option<Vec<f64>>,
    /// Resamples that were drawn.
    pub resamples: usize,
    /// Some build had no round in common with the reference, and was paired with it in the order of appearance.
    pub paired_by_order: bool,
}

/// A build's differences from the base, in one goal.
struct Cell {
    /// By size, each with its round.
    sorted: Vec<(f64, usize)>,
}

impl Cell {
    /// The mean of what is left when a fifth is cut off at each end, each round taken as often as its weight says.
    fn locations(&self, weights: &[Lanes]) -> Lanes {
        let mut total = [0.0; LANES];
        for (_, round) in &self.sorted {
            each(|lane| total[lane] += weights[*round][lane]);
        }
        let cut = total.map(|total| (total * CUT).floor());
        let (mut before, mut sum) = ([0.0f64; LANES], [0.0; LANES]);
        for (value, round) in &self.sorted {
            let weights = &weights[*round];
            each(|lane| {
                let after = before[lane] + weights[lane];
                let taken = (after.min(total[lane] - cut[lane]) - before[lane].max(cut[lane])).max(0.0);
                sum[lane] += taken * value;
                before[lane] = after;
            });
        }
        // Without a round of it, 0 by 0: it is not known.
        std::array::from_fn(|lane| sum[lane] / (total[lane] - 2.0 * cut[lane]))
    }

    /// The same of all rounds, each once.
    fn location(&self, rounds: usize) -> f64 {
        self.locations(&vec![[1.0; LANES]; rounds])[0]
    }

    fn cut(&self) -> usize {
        (self.sorted.len() as f64 * CUT) as usize
    }

    /// What each round does to the location, such that the error is that of these numbers' mean; by round.
    fn influences(&self, rounds: usize) -> Vec<f64> {
        let (count, cut) = (self.sorted.len(), self.cut());
        let (low, high) = (self.sorted[cut].0, self.sorted[count - 1 - cut].0);
        let clamped = || self.sorted.iter().map(|(value, _)| value.clamp(low, high));
        let mean = clamped().sum::<f64>() / count as f64;
        let mut all = vec![0.0; rounds];
        for (value, (_, round)) in clamped().zip(&self.sorted) {
            all[*round] = (value - mean) / (1.0 - 2.0 * cut as f64 / count as f64);
        }
        all
    }
}

/// Looks at a study.
pub fn paired(table: &Table, goals: &[Goal], reference: Option<usize>, settings: &Settings) -> Paired {
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
    Paired { scales, estimates, on_front, better, resamples, paired_by_order: by_order }
}

fn scale(table: &Table, goal: &Goal) -> Scale {
    let positive = table.metrics[goal.metric].values.iter().all(|value| value.is_nan() || *value > 0.0);
    if positive { Scale::Ratio } else { Scale::Difference }
}

fn on_scale(value: f64, scale: Scale) -> f64 {
    if scale == Scale::Ratio { value.ln() } else { value }
}

/// What values are compared with, round by round: the reference's, or the median of all builds.
fn base(table: &Table, metric: usize, reference: Option<usize>, scale: Scale) -> Vec<f64> {
    let all = |round: usize| -> Vec<f64> {
        let values = (0..table.builds.len()).map(|build| table.of(metric, build)[round]);
        values.filter(|value| !value.is_nan()).collect()
    };
    let value = |round: usize| reference.map_or_else(|| median(&all(round)), |build| table.of(metric, build)[round]);
    (0..table.rounds.len()).map(|round| on_scale(value(round), scale)).collect()
}

fn cell(values: &[f64], base: &[f64], scale: Scale, by_order: &mut bool) -> Cell {
    let difference = |(round, (value, base)): (usize, (&f64, &f64))| (on_scale(*value, scale) - base, round);
    let mut sorted: Vec<(f64, usize)> =
        values.iter().zip(base).enumerate().map(difference).filter(|(value, _)| !value.is_nan()).collect();
    if sorted.len() < 2 {
        let there = |all: &[f64]| all.iter().copied().filter(|value| !value.is_nan()).collect::<Vec<_>>();
        let (values, base) = (there(values), there(base));
        if values.len().min(base.len()) > sorted.len() {
            *by_order = true;
            sorted = values.iter().zip(&base).enumerate().map(difference).collect();
        }
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    Cell { sorted }
}

/// For each goal and build the half-width that holds for all together; 0 where nothing varies, nothing where it is not
/// known.
fn intervals(
    cells: &[Vec<Cell>],
    rounds: usize,
    settings: &Settings,
    reference: Option<usize>,
) -> Vec<Vec<Option<f64>>> {
    // Each with the sum of its squares; the reference beside itself is no comparison.
    let mut compared: Vec<(Vec<f64>, f64, usize)> = Vec::new();
    let mut places: Vec<Vec<Option<usize>>> = Vec::new();
    for goal in cells {
        let mut place = |(build, cell): (usize, &Cell)| {
            (Some(build) != reference && cell.sorted.len() >= ROUNDS_MIN).then(|| {
                let influences = cell.influences(rounds);
                let squares = influences.iter().map(|one| one * one).sum::<f64>();
                compared.push((influences, squares, cell.sorted.len()));
                compared.len() - 1
            })
        };
        places.push(goal.iter().enumerate().map(&mut place).collect());
    }
    let beyond = beyond(&compared, rounds, settings);
    let half_width = |place: &Option<usize>, cell: &Cell| {
        let (_, squares, count) = &compared[(*place)?];
        let error = (squares / (count - 1) as f64 / *count as f64).sqrt();
        // The cut tails leave fewer degrees of freedom than there are rounds.
        Some(error * -student(count - 2 * cell.cut()).inverse_cdf(beyond[kind(*count)]))
    };
    places
        .iter()
        .zip(cells)
        .map(|(places, cells)| places.iter().zip(cells).map(|(p, c)| half_width(p, c)).collect())
        .collect()
}

/// From so many values on comparisons are of one kind, and below of another.
const KINDS: [usize; 3] = [0, 8, 12];

fn kind(count: usize) -> usize {
    KINDS.iter().rposition(|from| *from <= count).unwrap_or_default()
}

/// For each kind of comparisons how unlikely |t| is to be as great as it is now and then among all of them when the
/// signs of rounds are drawn: the probability to one side.
///
/// Few values are of one sign every so often, and |t| is as great as one likes then: a comparison of six rounds would
/// widen all others. So each kind has a part of what may miss, by how many comparisons it has. Within a kind |t| of
/// different counts is told by its probability.
fn beyond(compared: &[(Vec<f64>, f64, usize)], rounds: usize, settings: &Settings) -> [f64; KINDS.len()] {
    let mut counts: Vec<usize> = compared.iter().map(|(_, _, count)| *count).collect();
    counts.sort_unstable();
    counts.dedup();
    let place = |count: usize| counts.binary_search(&count).unwrap_or_default();
    let places: Vec<usize> = compared.iter().map(|(_, _, count)| place(*count)).collect();
    let least = in_parallel(settings.resamples.div_ceil(LANES), |group| {
        let mut random = fastrand::Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9).wrapping_add(group as u64));
        let sign = |random: &mut fastrand::Rng| if random.bool() { 1.0 } else { -1.0 };
        let signs: Vec<Lanes> = (0..rounds).map(|_| std::array::from_fn(|_| sign(&mut random))).collect();
        // Of equally many values the greatest |t| is the least likely one.
        let mut greatest = vec![[0.0f64; LANES]; counts.len()];
        for ((influences, squares, count), place) in compared.iter().zip(&places) {
            let found = t(influences, &signs, *squares, *count);
            each(|lane| greatest[*place][lane] = greatest[*place][lane].max(found[lane]));
        }
        let mut least = [[0.5f64; KINDS.len()]; LANES];
        for (greatest, count) in greatest.iter().zip(&counts) {
            let of = kind(*count);
            each(|lane| least[lane][of] = least[lane][of].min(student(*count).sf(greatest[lane])));
        }
        least
    });
    let least: Vec<_> = least.into_iter().flatten().take(settings.resamples).collect();
    std::array::from_fn(|of| {
        let many = compared.iter().filter(|(_, _, count)| kind(*count) == of).count();
        let may_miss = (1.0 - settings.level) * many as f64 / compared.len().max(1) as f64;
        // The greatest first, as of |t|. What is rarer than one resample is taken to be as much less likely.
        let found = -quantile(least.iter().map(|least| -least[of]).collect(), 1.0 - may_miss);
        let rarer = (may_miss * (least.len() + 1) as f64).min(1.0);
        (found * rarer).max(f64::MIN_POSITIVE)
    })
}

/// Of so many values.
fn student(count: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, (count - 1) as f64).expect("two rounds at least")
}

/// |t| of numbers whose signs are changed.
fn t(values: &[f64], signs: &[Lanes], squares: f64, count: usize) -> Lanes {
    let count = count as f64;
    let mut sums = [0.0; LANES];
    for (value, signs) in values.iter().zip(signs) {
        each(|lane| sums[lane] += value * signs[lane]);
    }
    sums.map(|sum| {
        let mean = sum / count;
        let variance = (squares - count * mean * mean) / (count - 1.0);
        // All of one size and sign: what does not vary has no t.
        if variance <= squares * 1e-12 { 0.0 } else { mean.abs() * (count / variance).sqrt() }
    })
}

/// For each lane.
fn each(mut work: impl FnMut(usize)) {
    (0..LANES).for_each(&mut work);
}

fn quantile(mut values: Vec<f64>, level: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (level * (values.len() + 1) as f64).ceil() as usize;
    values[place.clamp(1, values.len()) - 1]
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

/// For each build how often it is on the front of a resample, and how often better than the base in every goal.
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
        // For each build how often it is on the front of these, and how often better than the base.
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

/// `work` of each number below `count`, in order, on all cores.
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

    /// Normal numbers, and now and then one far off, as a machine that others use gives them.
    struct Noise(fastrand::Rng);

    impl Noise {
        fn next(&mut self) -> f64 {
            let (a, b) = (1.0 - self.0.f64(), self.0.f64());
            let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
            if self.0.f64() < 0.05 { normal + 6.0 } else { normal }
        }
    }

    /// A study of builds whose true speeds these are, with what each round does to all.
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

    fn look(table: &Table, metrics: usize, resamples: usize) -> Paired {
        paired(table, &goals(metrics), Some(0), &Settings { resamples, ..Settings::default() })
    }

    fn claims(found: &Paired) -> usize {
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
        let misses = |found: &Paired| {
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
        let width = |found: &Paired| {
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
    fn what_does_not_matter_is_no_difference() {
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
        // One round: a ratio, and nothing known of it.
        let one = look(&table("a,x,10,1\nb,x,11,1\n"), 1, 100);
        assert!((one.estimates[1][0].value - 1.1).abs() < 1e-9 && one.estimates[1][0].verdict == Verdict::Unknown);
        // No round in common: by order.
        let apart = look(&table("a,x,10,1\na,x,10,2\nb,x,20,3\nb,x,20,4\n"), 1, 100);
        assert!(apart.paired_by_order && (apart.estimates[1][0].value - 2.0).abs() < 1e-9);
        // No value at all of one.
        let none = look(&table("a,x,10,1\na,y,1,1\nb,y,1,1\n"), 2, 100);
        assert!(none.estimates[1][0].value.is_nan() && none.on_front == [1.0, 0.0]);
        // What does not vary differs exactly, or not at all.
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
