//! The course of a search: trials in rounds, a second look at what seems better, and a last comparison by fresh runs.
//!
//! reads   an [`Evaluate`]
//! writes  a [`Found`]
//! memory  the trials, 1,000 at most
//!
//! A round tries the best so far and some others, in an order that is drawn. What seems better meets the best again,
//! once or twice, and takes its place if it is so both times. When no round wins any more, or the budget nears its end,
//! the best meets the default in pairs of fresh runs, and is told as better only by what those show. So however many
//! layouts are tried, a default that cannot be beaten is kept in 95 of 100 searches.
//!
//! All is drawn from the seed and from what was measured, so the same trials lead the same way.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::decide::{PAIRS_LEAST, PAIRS_MOST, PAIRS_ROBUST, Verdict, judge, looks};
use super::model::Costs;
use super::propose::{Position, Proposal, propose};
use super::space::{Layout, Signature, Space};
use super::{Evaluate, Measured, Outcome};

/// Others in a round, beside the best.
const ROUND: usize = 3;
/// Rounds without a win after which there is none.
const PATIENCE: usize = 7;
/// After so many of them those that came nearest are looked at again.
const AGAIN: usize = 3;
/// Layouts of a round that get a second look.
const SECOND_LOOKS: usize = 2;
/// A gain of which nobody would speak.
const NOTABLE: f64 = 0.015;
/// A gain as a part of a run's noise, below which a layout gets no second look.
const OF_NOISE: f64 = 0.5;
/// The most trials a budget may have.
pub const TRIALS_MOST: usize = 1_000;

/// What a search may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Trials, repeated ones included.
    pub trials: usize,
    /// Seconds of all trials.
    pub seconds: f64,
    /// Where randomness begins.
    pub seed: u64,
}

/// Why trying ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// No move won any more.
    NoMoveWins,
    /// There is no other layout left to try.
    NothingLeft,
    /// As many trials as were allowed.
    Trials,
    /// The time was up.
    Time,
}

/// What became of a layout that was tried against the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It took the place of the best.
    Taken,
    /// It is no better.
    NoBetter,
    /// It does not work.
    Failed(String),
}

/// A layout that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The round, from 0.
    pub round: usize,
    /// The layout.
    pub layout: Layout,
    /// What it was tried against.
    pub against: Layout,
    /// Why it was tried.
    pub why: String,
    /// Its rates, and those of the best in the same pairs.
    pub pairs: Vec<(f64, f64)>,
    /// What became of it.
    pub fate: Fate,
    /// What limited it, in a sentence.
    pub says: String,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The layout to take; the default where none is shown to be better.
    pub layout: Layout,
    /// The default.
    pub default: Layout,
    /// What the default did when it was first tried.
    pub first: Measured,
    /// The best of the trials.
    pub candidate: Layout,
    /// What the last comparison says of the candidate; nothing where there was none.
    pub verdict: Option<Verdict>,
    /// Rates of the last comparison: the default's and the candidate's.
    pub pairs: Vec<(f64, f64)>,
    /// What limits the layout to take, in a sentence.
    pub says: String,
    /// All that was tried, in order.
    pub steps: Vec<Step>,
    /// Why trying ended.
    pub ended: Ended,
    /// Trials, repeated ones included.
    pub trials: usize,
    /// Layouts among them.
    pub layouts: usize,
    /// Seconds of all trials.
    pub seconds: f64,
    /// How much a run differs from the next of the same layout, as a part of the rate; nothing where none was repeated.
    pub noise: Option<f64>,
}

impl Found {
    /// Whether another layout than the default is to be taken.
    pub fn is_better(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Better(_)))
    }
}

/// Why a search has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchError<E> {
    /// Nothing can be tried any more.
    Evaluate(E),
    /// The default does not work, or cannot be measured.
    Default(String),
}

impl<E> From<E> for SearchError<E> {
    fn from(error: E) -> Self {
        Self::Evaluate(error)
    }
}

/// What the search knows of a layout.
struct Known {
    signature: Signature,
    layout: Layout,
    runs: Vec<Measured>,
}

struct Search<'a, E: Evaluate> {
    space: &'a Space,
    budget: Budget,
    evaluate: &'a mut E,
    tell: &'a dyn Fn(&str),
    random: fastrand::Rng,
    known: Vec<Known>,
    steps: Vec<Step>,
    trials: usize,
    seconds: f64,
    /// Whether another than the default is the best so far.
    has_candidate: bool,
}

/// Looks for a layout that is better than the default. `tell` takes a line of progress.
pub fn search<E: Evaluate>(
    space: &Space,
    default: &Layout,
    budget: Budget,
    evaluate: &mut E,
    tell: &dyn Fn(&str),
) -> Result<Found, SearchError<E::Error>> {
    let budget = Budget { trials: budget.trials.min(TRIALS_MOST), ..budget };
    let random = fastrand::Rng::with_seed(budget.seed);
    let (known, steps) = (Vec::new(), Vec::new());
    let (trials, seconds, has_candidate) = (0, 0.0, false);
    let mut search = Search { space, budget, evaluate, tell, random, known, steps, trials, seconds, has_candidate };
    let first = search.run(default)?.map_err(SearchError::Default)?;
    tell(&format!("the default: {:.0} a second; {}", first.rate, first.says));
    let (candidate, ended) = search.explore(default)?;
    let (verdict, pairs) = match candidate == *default {
        true => (None, Vec::new()),
        false => search.compare(default, &candidate)?,
    };
    let is_better = matches!(verdict, Some(Verdict::Better(_)));
    let layout = if is_better { candidate.clone() } else { default.clone() };
    let says = search.runs(&layout).last().map_or(String::new(), |run| run.says.clone());
    let noise = search.noise();
    let layouts = search.known.len();
    let Search { steps, trials, seconds, .. } = search;
    let default = default.clone();
    Ok(Found { layout, default, first, candidate, verdict, pairs, says, steps, ended, trials, layouts, seconds, noise })
}

impl<E: Evaluate> Search<'_, E> {
    /// Runs a layout once; a layout that does not work says why.
    fn run(&mut self, layout: &Layout) -> Result<Result<Measured, String>, E::Error> {
        let trial = self.evaluate.evaluate(layout)?;
        self.trials += 1;
        self.seconds += trial.seconds;
        let signature = self.space.signature(layout);
        let at = self.known.iter().position(|known| known.signature == signature).unwrap_or_else(|| {
            self.known.push(Known { signature, layout: layout.clone(), runs: Vec::new() });
            self.known.len() - 1
        });
        Ok(match trial.outcome {
            Outcome::Measured(measured) if measured.rate > 0.0 && measured.rate.is_finite() => {
                self.known[at].runs.push(measured.clone());
                Ok(measured)
            }
            Outcome::Measured(_) => Err("no transaction landed".into()),
            Outcome::Failed(why) => Err(why),
        })
    }

    fn runs(&self, layout: &Layout) -> &[Measured] {
        let signature = self.space.signature(layout);
        self.known.iter().find(|known| known.signature == signature).map_or(&[], |known| &known.runs)
    }

    /// How many trials there is room for, by their number and by how long they have taken.
    fn left(&self) -> (usize, Ended) {
        let by_count = self.budget.trials.saturating_sub(self.trials);
        let mean = self.seconds / self.trials.max(1) as f64;
        let seconds = (self.budget.seconds - self.seconds).max(0.0);
        let by_time = if mean > 0.0 { (seconds / mean) as usize } else { usize::MAX };
        if by_time < by_count { (by_time, Ended::Time) } else { (by_count, Ended::Trials) }
    }

    /// What the last comparison is to have left; as long as there is nothing to compare, more is for looking.
    fn reserve(&self) -> usize {
        let all = self.trials + self.left().0;
        let most = if self.has_candidate { 2 * PAIRS_ROBUST } else { 2 * PAIRS_LEAST + 2 };
        (9 * all / 20).clamp(2 * PAIRS_LEAST, most)
    }

    /// The spread of runs of the same layout, by what half of them keep within.
    fn noise(&self) -> Option<f64> {
        let of = |known: &Known| {
            let logs: Vec<f64> = known.runs.iter().map(|run| run.rate.ln()).collect();
            let middle = median(logs.clone());
            // What is left over by the middle of so many is less than what they spread.
            let spared = (logs.len() as f64 / (logs.len() as f64 - 1.0)).sqrt();
            logs.into_iter().map(|log| (log - middle).abs() * spared).collect::<Vec<_>>()
        };
        let all: Vec<f64> = self.known.iter().filter(|known| known.runs.len() > 1).flat_map(of).collect();
        (all.len() >= 3).then(|| 1.4826 * median(all))
    }

    /// Below this a gain gets no second look.
    fn threshold(&self) -> f64 {
        NOTABLE.max(OF_NOISE * self.noise().unwrap_or(0.0))
    }

    /// Tries others against the best, until none wins.
    fn explore(&mut self, default: &Layout) -> Result<(Layout, Ended), E::Error> {
        let mut best = default.clone();
        let (mut lost, mut round) = (0, 0);
        while lost < PATIENCE {
            self.has_candidate = best != *default;
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
                return Ok((best, Ended::NothingLeft));
            }
            match self.round(&best, proposals, round)? {
                Some(better) => (best, lost) = (better, 0),
                None => lost += 1,
            }
            round += 1;
        }
        Ok((best, Ended::NoMoveWins))
    }

    /// Looks again at those that came nearest to the best, each as long as it seems better; the first that is.
    fn again(&mut self, best: &Layout) -> Result<Option<Layout>, E::Error> {
        let gain = |step: &Step| mean(&step.pairs);
        let is_near = |step: &Step| step.against == *best && step.fate == Fate::NoBetter && gain(step) > 0.0;
        let mut near: Vec<usize> = (0..self.steps.len()).filter(|at| is_near(&self.steps[*at])).collect();
        near.sort_by(|a, b| gain(&self.steps[*b]).total_cmp(&gain(&self.steps[*a])));
        for at in near.into_iter().take(SECOND_LOOKS) {
            let mut step = self.steps[at].clone();
            let is_better = self.is_so_again(&mut step, best)?;
            if is_better {
                step.fate = Fate::Taken;
            }
            (self.tell)(&line(self.space, &step));
            self.steps[at] = step;
            if is_better {
                return Ok(Some(self.steps[at].layout.clone()));
            }
        }
        Ok(None)
    }

    fn proposals(&mut self, best: &Layout, round: usize, count: usize) -> Vec<Proposal> {
        let tried: BTreeSet<Signature> = self.known.iter().map(|known| known.signature.clone()).collect();
        let limit = self.runs(best).last().and_then(|run| run.limit);
        let of =
            |known: &'_ Known| known.runs.iter().map(|run| (known.layout.clone(), run.clone())).collect::<Vec<_>>();
        let trials: Vec<(Layout, Measured)> = self.known.iter().flat_map(of).collect();
        let trials: Vec<(&Layout, &Measured)> = trials.iter().map(|(layout, run)| (layout, run)).collect();
        let costs = Costs::of(self.space, best, &trials);
        let at = Position { space: self.space, best, costs: &costs, limit, tried: &tried };
        propose(&at, round, count, &mut self.random)
    }

    /// One round; the layout that has won, if one has.
    fn round(&mut self, best: &Layout, proposals: Vec<Proposal>, round: usize) -> Result<Option<Layout>, E::Error> {
        let mut order: Vec<Option<usize>> = (0..proposals.len()).map(Some).chain([None]).collect();
        self.random.shuffle(&mut order);
        let (mut rates, mut usual) = (vec![Err(String::new()); proposals.len()], None);
        for one in order {
            match one {
                Some(at) => rates[at] = self.run(&proposals[at].layout)?,
                None => usual = self.run(best)?.ok().map(|run| run.rate),
            }
        }
        let mut steps: Vec<Step> = Vec::new();
        for (proposal, run) in proposals.into_iter().zip(rates) {
            let Proposal { layout, why } = proposal;
            let (pairs, fate, says) = match (run, usual) {
                (Ok(run), Some(usual)) => (vec![(run.rate, usual)], Fate::NoBetter, run.says),
                (Ok(run), None) => (Vec::new(), Fate::NoBetter, run.says),
                (Err(why), _) => (Vec::new(), Fate::Failed(why), String::new()),
            };
            steps.push(Step { round, layout, against: best.clone(), why, pairs, fate, says });
        }
        let gain = |step: &Step| mean(&step.pairs);
        let mut likely: Vec<usize> = (0..steps.len()).filter(|at| gain(&steps[*at]) > self.threshold()).collect();
        likely.sort_by(|a, b| gain(&steps[*b]).total_cmp(&gain(&steps[*a])));
        let mut won = None;
        for at in likely.into_iter().take(SECOND_LOOKS) {
            if self.is_so_again(&mut steps[at], best)? {
                steps[at].fate = Fate::Taken;
                won = Some(steps[at].layout.clone());
                break;
            }
        }
        for step in &steps {
            (self.tell)(&line(self.space, step));
        }
        self.steps.extend(steps);
        Ok(won)
    }

    /// Whether what seems better is so at a second look, or at a third where both differ.
    fn is_so_again(&mut self, step: &mut Step, best: &Layout) -> Result<bool, E::Error> {
        for look in 2..=3 {
            if self.left().0 < 2 + self.reserve() {
                return Ok(false);
            }
            let (ours, theirs) = match self.random.bool() {
                true => (self.run(&step.layout)?, self.run(best)?),
                false => {
                    let theirs = self.run(best)?;
                    (self.run(&step.layout)?, theirs)
                }
            };
            let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return Ok(false) };
            step.pairs.push((ours.rate, theirs.rate));
            let gain = (ours.rate / theirs.rate).ln();
            match gain {
                gain if gain > self.threshold() => return Ok(true),
                gain if look == 2 && gain > 0.0 => {}
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// The candidate and the default in pairs of fresh runs.
    #[allow(clippy::type_complexity)]
    fn compare(
        &mut self,
        default: &Layout,
        candidate: &Layout,
    ) -> Result<(Option<Verdict>, Vec<(f64, f64)>), E::Error> {
        let looks = looks((self.left().0 / 2).min(PAIRS_MOST));
        let (mut pairs, mut verdict) = (Vec::new(), None);
        for (until, level) in looks {
            while pairs.len() < until {
                // A trial that others disturbed takes as long as several.
                if self.left().0 < 2 && self.seconds > 1.2 * self.budget.seconds {
                    return Ok((verdict, pairs));
                }
                let (usual, ours) = match self.random.bool() {
                    true => (self.run(default)?, self.run(candidate)?),
                    false => {
                        let ours = self.run(candidate)?;
                        (self.run(default)?, ours)
                    }
                };
                // What does not work every time is no candidate.
                let (Ok(usual), Ok(ours)) = (usual, ours) else { return Ok((None, pairs)) };
                pairs.push((usual.rate, ours.rate));
            }
            let now = judge(&pairs, level);
            verdict = Some(now);
            (self.tell)(&format!("the best beside the default, {} pairs: {}", pairs.len(), words(&now)));
            match now {
                Verdict::NotShown(gain) if gain.value > 0.0 => {}
                _ => break,
            }
        }
        Ok((verdict, pairs))
    }
}

/// A verdict in words.
pub fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Better(gain) => {
            format!("{:+.1} %, at least {:+.1} %", 100.0 * gain.value, 100.0 * gain.at_least)
        }
        Verdict::NotShown(gain) => format!("{:+.1} %, which may be noise", 100.0 * gain.value),
    }
}

/// A step in a line.
pub fn line(space: &Space, step: &Step) -> String {
    let gains: Vec<String> =
        step.pairs.iter().map(|(ours, theirs)| format!("{:+.1} %", 100.0 * (ours / theirs - 1.0))).collect();
    let fate = match &step.fate {
        Fate::Taken => format!("{}: taken", gains.join(", ")),
        Fate::NoBetter if gains.is_empty() => "nothing to compare it with".into(),
        Fate::NoBetter => format!("{}: no better", gains.join(", ")),
        Fate::Failed(why) => format!("does not work: {why}"),
    };
    format!("{} ({}): {fate}", step.why, space.change(&step.against, &step.layout))
}

/// The mean gain of pairs, as a logarithm.
fn mean(pairs: &[(f64, f64)]) -> f64 {
    match pairs.len() {
        0 => f64::NEG_INFINITY,
        count => pairs.iter().map(|(ours, theirs)| (ours / theirs).ln()).sum::<f64>() / count as f64,
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => 0.0,
        count if count % 2 == 1 => all[count / 2],
        count => (all[count / 2 - 1] + all[count / 2]) / 2.0,
    }
}
