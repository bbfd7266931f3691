//! Runs the search: trials in rounds, a second look at what seems better, and a last comparison by fresh runs.
//!
//! reads   an [`Evaluate`]
//! writes  a [`SearchResult`]
//! memory  the trials, 1,000 at most
//!
//! A round tries the best layout so far and some others, in random order. A layout that seems better meets the best
//! again, once or twice, and replaces it if it wins again. When no round wins any more, or the budget nears its end,
//! the best meets the default in pairs of fresh runs. Only these decide whether it is reported as better, and only if
//! the gain is large enough to matter. So however many layouts are tried, a default that cannot be beaten is kept in 95
//! of 100 searches.
//!
//! A disturbed trial says nothing about its layout and does not count: it is repeated. If one after the other is
//! disturbed, the search ends.
//!
//! All random choices depend on the seed and the measurements alone, so the same trials lead the same way.

use std::collections::BTreeSet;

use hearth_stats::median_rule::median;

use super::decide::{InterimLook, LEVEL, PAIRS_LEAST, PAIRS_MOST, PAIRS_ROBUST, Verdict, judge, looks};
use super::model::Costs;
use super::propose::{Position, Proposal, propose};
use super::search_result::{NoVerdict, SearchEnd, SearchResult, Step, TrialVerdict, line, words};
use super::space::{Layout, Signature, Space};
use super::{Evaluate, LayoutMeasurement, Outcome};

/// Other layouts in a round, besides the best.
const ROUND: usize = 3;
/// The search ends after this many rounds without a win.
const PATIENCE: usize = 7;
/// After this many of them the closest losers are looked at again.
const AGAIN: usize = 3;
/// Layouts per round that get a second look.
const SECOND_LOOKS: usize = 2;
/// The smallest gain worth a second look.
const NOTABLE: f64 = 0.015;
/// The same as a share of a run's noise.
const OF_NOISE: f64 = 0.5;
/// Disturbed trials in a row after which the machine counts as busy.
const BUSY: usize = 3;
/// The last comparison may extend the time budget to this many times.
pub const OVERTIME: f64 = 1.2;
/// The most trials of a budget.
pub const TRIALS_MOST: usize = 1_000;
/// The fewest trials with which another layout can be tried: the default, a round of both, a second look, and enough
/// pairs for a verdict.
pub const TRIALS_LEAST: usize = 1 + 2 + 2 + 2 * PAIRS_LEAST;
/// Default of the least gain for which the default layout is given up.
pub const LEAST_GAIN: f64 = 0.005;

/// The budget and settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Maximum trials, including repetitions.
    pub trials: usize,
    /// Maximum seconds of all trials.
    pub seconds: f64,
    /// Seed of all random choices: the same trials lead the same way.
    pub seed: u64,
    /// The least gain for which the default is given up, as a fraction of its rate.
    pub least_gain: f64,
}

/// Why a search has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchError<E> {
    /// No further layout can be tried.
    Evaluate(E),
    /// The default does not work.
    Default(String),
    /// Others disturb every trial; the cause of the last disturbance.
    Busy(String),
}

impl<E> From<E> for SearchError<E> {
    fn from(error: E) -> Self {
        Self::Evaluate(error)
    }
}

/// Why a trial gave no rate.
#[derive(Clone)]
enum TrialFailure {
    /// The layout does not work.
    Broken(String),
    /// Others disturbed every run of it; the cause of the last disturbance.
    Disturbed(String),
}

impl TrialFailure {
    fn why(self) -> String {
        match self {
            Self::Broken(why) => why,
            Self::Disturbed(why) => format!("others disturbed each run, the last since {why}"),
        }
    }
}

/// Results of two layouts that ran one after the other.
type PairResult = (Result<LayoutMeasurement, TrialFailure>, Result<LayoutMeasurement, TrialFailure>);
/// The result of a last comparison.
type ComparisonResult = (Result<Verdict, NoVerdict>, Vec<(f64, f64)>);

/// A layout with its runs so far.
struct LayoutRecord {
    signature: Signature,
    layout: Layout,
    runs: Vec<LayoutMeasurement>,
}

struct Search<'a, E: Evaluate> {
    space: &'a Space,
    budget: Budget,
    evaluate: &'a mut E,
    tell: &'a dyn Fn(&str),
    random: fastrand::Rng,
    known: Vec<LayoutRecord>,
    /// Layouts that ran, but had nothing to be compared with.
    open: BTreeSet<Signature>,
    steps: Vec<Step>,
    trials: usize,
    seconds: f64,
    disturbed: usize,
    /// The cause of the last disturbance.
    disturbed_by: String,
    /// Whether the best so far beats the default by more than noise.
    has_candidate: bool,
    /// Whether the last comparison has shown a better layout.
    is_shown: bool,
}

/// Searches for a layout that is better than the default. `tell` receives lines of progress.
pub fn search<E: Evaluate>(
    space: &Space,
    default: &Layout,
    budget: Budget,
    evaluate: &mut E,
    tell: &dyn Fn(&str),
) -> Result<SearchResult, SearchError<E::Error>> {
    let mut search = Search {
        space,
        budget: Budget { trials: budget.trials.min(TRIALS_MOST), ..budget },
        evaluate,
        tell,
        random: fastrand::Rng::with_seed(budget.seed),
        known: Vec::new(),
        open: BTreeSet::new(),
        steps: Vec::new(),
        trials: 0,
        seconds: 0.0,
        disturbed: 0,
        disturbed_by: String::new(),
        has_candidate: false,
        is_shown: false,
    };
    let first = search.first(default)?;
    tell(&format!("the default: {:.0} a second; {}", first.rate, first.says));
    let (candidate, ended) = search.explore(default, default)?;
    let candidate = search.likeliest(default, candidate);
    let (verdict, pairs) = match candidate == *default {
        true if search.steps.is_empty() => (Err(NoVerdict::NothingTried), Vec::new()),
        true => (Err(NoVerdict::NothingBetter), Vec::new()),
        false => search.compare(default, &candidate)?,
    };
    search.is_shown = matches!(verdict, Ok(Verdict::Better(_)));
    // A clear win saves trials; use them to search on from there.
    let (layout, ended) = match search.is_shown {
        true => match search.explore(default, &candidate) {
            // A shown win stays valid, however busy the machine is by now.
            Err(SearchError::Busy(_)) => (candidate.clone(), SearchEnd::Busy),
            further => further?,
        },
        false => (default.clone(), ended),
    };
    let says = search.runs(&layout).last().map_or(String::new(), |run| run.says.clone());
    let (noise, layouts) = (search.noise(), search.known.len());
    let Search { steps, trials, seconds, disturbed, .. } = search;
    Ok(SearchResult {
        layout,
        default: default.clone(),
        first,
        candidate,
        verdict,
        pairs,
        says,
        steps,
        ended,
        trials,
        disturbed,
        layouts,
        seconds,
        noise,
    })
}

impl<E: Evaluate> Search<'_, E> {
    /// Runs the default for the first time.
    fn first(&mut self, default: &Layout) -> Result<LayoutMeasurement, SearchError<E::Error>> {
        self.run(default)?.map_err(|lost| match lost {
            TrialFailure::Broken(why) => SearchError::Default(why),
            TrialFailure::Disturbed(why) => SearchError::Busy(why),
        })
    }

    /// Runs a layout once, repeating it while it is disturbed and there is time.
    fn run(&mut self, layout: &Layout) -> Result<Result<LayoutMeasurement, TrialFailure>, SearchError<E::Error>> {
        let mut in_a_row = 0;
        let outcome = loop {
            let left = OVERTIME * self.budget.seconds - self.seconds;
            let trial = self.evaluate.evaluate(layout, left)?;
            self.seconds += trial.seconds;
            let Outcome::Disturbed(why) = trial.outcome else { break trial.outcome };
            in_a_row += 1;
            self.disturbed += 1;
            if in_a_row == BUSY {
                return Err(SearchError::Busy(why));
            }
            if self.seconds >= OVERTIME * self.budget.seconds {
                return Ok(Err(TrialFailure::Disturbed(why)));
            }
            self.disturbed_by = why;
        };
        self.trials += 1;
        let signature = self.space.signature(layout);
        let at = self.known.iter().position(|known| known.signature == signature).unwrap_or_else(|| {
            self.known.push(LayoutRecord { signature, layout: layout.clone(), runs: Vec::new() });
            self.known.len() - 1
        });
        Ok(match outcome {
            Outcome::Measured(measured) if measured.rate > 0.0 && measured.rate.is_finite() => {
                self.known[at].runs.push(measured.clone());
                Ok(measured)
            }
            Outcome::Measured(_) => Err(TrialFailure::Broken("no transaction landed".into())),
            Outcome::Failed(why) | Outcome::Disturbed(why) => Err(TrialFailure::Broken(why)),
        })
    }

    /// Runs two layouts once each, in random order.
    fn both(&mut self, ours: &Layout, theirs: &Layout) -> Result<PairResult, SearchError<E::Error>> {
        Ok(match self.random.bool() {
            true => (self.run(ours)?, self.run(theirs)?),
            false => {
                let theirs = self.run(theirs)?;
                (self.run(ours)?, theirs)
            }
        })
    }

    fn runs(&self, layout: &Layout) -> &[LayoutMeasurement] {
        let signature = self.space.signature(layout);
        self.known.iter().find(|known| known.signature == signature).map_or(&[], |known| &known.runs)
    }

    /// Returns how many trials the budget still allows, by number and by time.
    fn left(&self) -> (usize, SearchEnd) {
        let by_count = self.budget.trials.saturating_sub(self.trials);
        let mean = self.seconds / self.trials.max(1) as f64;
        let seconds = (self.budget.seconds - self.seconds).max(0.0);
        let by_time = if mean > 0.0 { (seconds / mean) as usize } else { usize::MAX };
        if by_time < by_count { (by_time, SearchEnd::Time) } else { (by_count, SearchEnd::Trials) }
    }

    /// Trials reserved for the last comparison. While there is nothing to compare, or nothing that it would likely
    /// show, more go to the search; after it, all do.
    fn reserve(&self) -> usize {
        if self.is_shown {
            return 0;
        }
        let all = self.trials + self.left().0;
        let most = if self.has_candidate { 2 * PAIRS_ROBUST } else { 2 * PAIRS_LEAST + 2 };
        (9 * all / 20).clamp(2 * PAIRS_LEAST, most)
    }

    /// The median of the logarithms of a layout's rates.
    fn level(&self, layout: &Layout) -> Option<f64> {
        let logs: Vec<f64> = self.runs(layout).iter().map(|run| run.rate.ln()).collect();
        (!logs.is_empty()).then(|| median(&logs))
    }

    /// The spread of runs of the same layout: their median deviation.
    fn noise(&self) -> Option<f64> {
        let of = |known: &LayoutRecord| {
            let logs: Vec<f64> = known.runs.iter().map(|run| run.rate.ln()).collect();
            let middle = median(&logs);
            // Correct for the deviations being taken from the median of the same runs.
            let spared = (logs.len() as f64 / (logs.len() as f64 - 1.0)).sqrt();
            logs.into_iter().map(|log| (log - middle).abs() * spared).collect::<Vec<_>>()
        };
        let all: Vec<f64> = self.known.iter().filter(|known| known.runs.len() > 1).flat_map(of).collect();
        (all.len() >= 3).then(|| 1.4826 * median(&all))
    }

    /// A gain below this gets no second look.
    fn threshold(&self) -> f64 {
        NOTABLE.max(OF_NOISE * self.noise().unwrap_or(0.0))
    }

    /// Tries others against the best, starting from `from`, until none wins.
    fn explore(&mut self, default: &Layout, from: &Layout) -> Result<(Layout, SearchEnd), SearchError<E::Error>> {
        let mut best = from.clone();
        let (mut lost, mut round) = (0, self.steps.last().map_or(0, |step| step.round + 1));
        while lost < PATIENCE {
            let gain = self.level(&best).zip(self.level(default)).map_or(0.0, |(best, default)| best - default);
            self.has_candidate = gain > 2.0 * self.threshold();
            let (left, ended) = self.left();
            // A win needs a second look.
            let room = left.saturating_sub(self.reserve() + 2);
            if room < 2 {
                return Ok((best, ended));
            }
            if lost == AGAIN
                && let Some(better) = self.again(&best)?
            {
                (best, lost, round) = (better, 0, round + 1);
                continue;
            }
            let proposals = self.proposals(&best, round, ROUND.min(room - 1));
            if proposals.is_empty() {
                return Ok((best, SearchEnd::NothingLeft));
            }
            match self.round(&best, proposals, round)? {
                (Some(better), _) => (best, lost) = (better, 0),
                (None, is_compared) => lost += usize::from(is_compared),
            }
            round += 1;
        }
        Ok((best, SearchEnd::NoMoveWins))
    }

    /// Looks again at the closest losers, each while it seems better. Returns the first that is.
    fn again(&mut self, best: &Layout) -> Result<Option<Layout>, SearchError<E::Error>> {
        let gain = |step: &Step| mean(&step.pairs);
        let is_near = |step: &Step| step.against == *best && step.fate == TrialVerdict::NoBetter && gain(step) > 0.0;
        let mut near: Vec<usize> = (0..self.steps.len()).filter(|at| is_near(&self.steps[*at])).collect();
        near.sort_by(|a, b| gain(&self.steps[*b]).total_cmp(&gain(&self.steps[*a])));
        for at in near.into_iter().take(SECOND_LOOKS) {
            let mut step = self.steps[at].clone();
            let is_better = self.is_so_again(&mut step, best)?;
            if is_better {
                step.fate = TrialVerdict::Taken;
            }
            (self.tell)(&line(self.space, &step));
            self.steps[at] = step;
            if is_better {
                return Ok(Some(self.steps[at].layout.clone()));
            }
        }
        Ok(None)
    }

    /// If none has won: the closest loser, if the remaining runs could show that it is better.
    fn likeliest(&self, default: &Layout, candidate: Layout) -> Layout {
        if candidate != *default || self.left().0 < 2 * PAIRS_LEAST {
            return candidate;
        }
        let usual = self.level(default).unwrap_or(f64::INFINITY);
        let compared = self.steps.iter().filter(|step| matches!(step.fate, TrialVerdict::NoBetter));
        let gains = compared.filter_map(|step| Some((self.level(&step.layout)? - usual, &step.layout)));
        let best = gains.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(gain, _)| *gain > self.threshold());
        best.map_or(candidate, |(_, layout)| layout.clone())
    }

    fn proposals(&mut self, best: &Layout, round: usize, count: usize) -> Vec<Proposal> {
        let tried = self.known.iter().map(|known| &known.signature).filter(|one| !self.open.contains(*one));
        let tried: BTreeSet<Signature> = tried.cloned().collect();
        let limit = self.runs(best).last().and_then(|run| run.limit);
        let of = |known: &'_ LayoutRecord| {
            known.runs.iter().map(|run| (known.layout.clone(), run.clone())).collect::<Vec<_>>()
        };
        let trials: Vec<(Layout, LayoutMeasurement)> = self.known.iter().flat_map(of).collect();
        let trials: Vec<(&Layout, &LayoutMeasurement)> = trials.iter().map(|(layout, run)| (layout, run)).collect();
        let costs = Costs::of(self.space, best, &trials);
        let at = Position { space: self.space, best, costs: &costs, limit, tried: &tried };
        propose(&at, round, count, &mut self.random)
    }

    /// Runs one round. Returns the winner, if any, and whether any layout was compared.
    fn round(
        &mut self,
        best: &Layout,
        proposals: Vec<Proposal>,
        round: usize,
    ) -> Result<(Option<Layout>, bool), SearchError<E::Error>> {
        let mut order: Vec<Option<usize>> = (0..proposals.len()).map(Some).chain([None]).collect();
        self.random.shuffle(&mut order);
        let mut rates = vec![Err(TrialFailure::Broken(String::new())); proposals.len()];
        let mut usual = Err(TrialFailure::Broken(String::new()));
        for one in order {
            match one {
                Some(at) => rates[at] = self.run(&proposals[at].layout)?,
                None => usual = self.run(best)?,
            }
        }
        // Without the best's result the others cannot be compared.
        if usual.is_err() && self.left().0 > self.reserve() {
            usual = self.run(best)?;
        }
        let mut steps: Vec<Step> = Vec::new();
        for (Proposal { layout, why }, run) in proposals.into_iter().zip(rates) {
            let (pairs, fate, says) = match (run, &usual) {
                (Ok(run), Ok(usual)) => (vec![(run.rate, usual.rate)], TrialVerdict::NoBetter, run.says),
                (Ok(run), Err(lost)) => {
                    let why = format!("of the best beside it, {}", lost.clone().why());
                    (Vec::new(), TrialVerdict::NotCompared(why), run.says)
                }
                (Err(TrialFailure::Broken(why)), _) => (Vec::new(), TrialVerdict::Failed(why), String::new()),
                (Err(lost), _) => (Vec::new(), TrialVerdict::NotCompared(lost.why()), String::new()),
            };
            let signature = self.space.signature(&layout);
            match &fate {
                TrialVerdict::NotCompared(_) => self.open.insert(signature),
                _ => self.open.remove(&signature),
            };
            steps.push(Step { round, layout, against: best.clone(), why, pairs, fate, says });
        }
        let won = self.second_looks(&mut steps, best)?;
        for step in &steps {
            (self.tell)(&line(self.space, step));
        }
        let is_compared = steps.iter().any(|step| !matches!(step.fate, TrialVerdict::NotCompared(_)));
        self.steps.extend(steps);
        Ok((won, is_compared))
    }

    /// Looks again at layouts of a round that seem better. Returns the first that is.
    fn second_looks(&mut self, steps: &mut [Step], best: &Layout) -> Result<Option<Layout>, SearchError<E::Error>> {
        let gain = |step: &Step| mean(&step.pairs);
        let mut likely: Vec<usize> = (0..steps.len()).filter(|at| gain(&steps[*at]) > self.threshold()).collect();
        likely.sort_by(|a, b| gain(&steps[*b]).total_cmp(&gain(&steps[*a])));
        for at in likely.into_iter().take(SECOND_LOOKS) {
            if self.is_so_again(&mut steps[at], best)? {
                steps[at].fate = TrialVerdict::Taken;
                return Ok(Some(steps[at].layout.clone()));
            }
        }
        Ok(None)
    }

    /// Returns whether a gain is confirmed by a second look, or by a third if the two disagree.
    fn is_so_again(&mut self, step: &mut Step, best: &Layout) -> Result<bool, SearchError<E::Error>> {
        let mut look = 2;
        while self.left().0 >= 2 + self.reserve() {
            let (ours, theirs) = match self.both(&step.layout, best)? {
                (Ok(ours), Ok(theirs)) => (ours, theirs),
                (Err(TrialFailure::Broken(why)), _) => {
                    step.fate = TrialVerdict::Failed(why);
                    return Ok(false);
                }
                (_, Err(TrialFailure::Broken(_))) => return Ok(false),
                // The time is up.
                _ => return Ok(false),
            };
            step.pairs.push((ours.rate, theirs.rate));
            let gain = (ours.rate / theirs.rate).ln();
            match gain {
                gain if gain > self.threshold() => return Ok(true),
                gain if look == 2 && gain > 0.0 => look += 1,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Compares the candidate with the default in pairs of fresh runs.
    fn compare(&mut self, default: &Layout, candidate: &Layout) -> Result<ComparisonResult, SearchError<E::Error>> {
        let mut looks = looks((self.left().0 / 2).min(PAIRS_MOST));
        let (mut pairs, mut verdict, before) = (Vec::new(), Err(NoVerdict::NoRoom), self.disturbed);
        for at in 0..looks.len() {
            while pairs.len() < looks[at].pairs {
                // Disturbed runs take time that was not planned for.
                if self.trials + 2 > self.budget.trials || self.seconds > OVERTIME * self.budget.seconds {
                    if pairs.len() >= PAIRS_LEAST && at.checked_sub(1).is_none_or(|at| looks[at].pairs < pairs.len()) {
                        looks[at] = InterimLook { pairs: pairs.len(), level: LEVEL };
                        verdict = Ok(self.looked(&pairs, &looks[..=at]));
                    }
                    if verdict.is_err() && self.disturbed > before {
                        verdict = Err(NoVerdict::Disturbed(self.disturbed_by.clone()));
                    }
                    return Ok((verdict, pairs));
                }
                // A candidate must work every time.
                match self.both(default, candidate)? {
                    (Ok(usual), Ok(ours)) => pairs.push((usual.rate, ours.rate)),
                    (_, Err(TrialFailure::Broken(why))) => return Ok((Err(NoVerdict::Candidate(why)), pairs)),
                    (Err(TrialFailure::Broken(why)), _) => return Ok((Err(NoVerdict::Default(why)), pairs)),
                    // The time is up.
                    _ => {}
                }
            }
            let now = self.looked(&pairs, &looks[..=at]);
            verdict = Ok(now);
            let middle = median(&pairs.iter().map(|(usual, ours)| ours / usual).collect::<Vec<f64>>());
            // A candidate that loses half of the pairs has no chance.
            if matches!(now, Verdict::Better(_)) || middle <= 1.0 {
                break;
            }
        }
        Ok((verdict, pairs))
    }

    fn looked(&self, pairs: &[(f64, f64)], looks: &[InterimLook]) -> Verdict {
        let now = match judge(pairs, looks) {
            Verdict::Better(gain) if gain.value < self.budget.least_gain => Verdict::TooSmall(gain),
            other => other,
        };
        (self.tell)(&format!("the best beside the default, {} pairs: {}", pairs.len(), words(&now)));
        now
    }
}

/// The mean gain of pairs, as a logarithm.
fn mean(pairs: &[(f64, f64)]) -> f64 {
    match pairs.len() {
        0 => f64::NEG_INFINITY,
        count => pairs.iter().map(|(ours, theirs)| (ours / theirs).ln()).sum::<f64>() / count as f64,
    }
}
