//! The course of a search: trials in rounds, a second look at what seems better, and a last comparison by fresh runs.
//!
//! reads   an [`Evaluate`]
//! writes  a [`Found`]
//! memory  the trials, 1,000 at most
//!
//! A round tries the best so far and some others, in an order that is drawn. What seems better meets the best again,
//! once or twice, and takes its place if it is so both times. When no round wins any more, or the budget nears its end,
//! the best meets the default in pairs of fresh runs, and is told as better only by what those show, and only where
//! that is enough to matter. So however many
//! layouts are tried, a default that cannot be beaten is kept in 95 of 100 searches.
//!
//! A trial that others disturbed says nothing of its layout, and is no trial: it is done again. Where one after the
//! other is disturbed there is nothing to be had, and the search ends.
//!
//! All is drawn from the seed and from what was measured, so the same trials lead the same way.

use std::collections::BTreeSet;

use hearth_stats::median_rule::median;

use super::decide::{LEVEL, Look, PAIRS_LEAST, PAIRS_MOST, PAIRS_ROBUST, Verdict, judge, looks};
use super::found::{Ended, Fate, Found, NoVerdict, Step, line, words};
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
/// A layout that others disturbed in so many trials in a row: the machine is busy.
const BUSY: usize = 3;
/// The last comparison may take so many times the time of the budget.
pub const OVERTIME: f64 = 1.2;
/// The most trials a budget may have.
pub const TRIALS_MOST: usize = 1_000;
/// The fewest with which another layout than the default is tried: the default, a round of both, a second look, and as
/// many pairs as tell both apart.
pub const TRIALS_LEAST: usize = 1 + 2 + 2 + 2 * PAIRS_LEAST;
/// A gain for which somebody would leave the default, where nobody says otherwise.
pub const LEAST_GAIN: f64 = 0.005;

/// What a search may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Trials, repeated ones included.
    pub trials: usize,
    /// Seconds of all trials.
    pub seconds: f64,
    /// Where randomness begins.
    pub seed: u64,
    /// The least gain, as a part of the default's rate, for which the default is left.
    pub least_gain: f64,
}

/// Why a search has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchError<E> {
    /// Nothing can be tried any more.
    Evaluate(E),
    /// The default does not work.
    Default(String),
    /// Others disturb whatever is tried; the last trial by this.
    Busy(String),
}

impl<E> From<E> for SearchError<E> {
    fn from(error: E) -> Self {
        Self::Evaluate(error)
    }
}

/// Why a trial gave no rate.
#[derive(Clone)]
enum Lost {
    /// The layout does not work.
    Broken(String),
    /// Others disturbed it.
    Disturbed(String),
}

impl Lost {
    fn why(self) -> String {
        match self {
            Self::Broken(why) => why,
            Self::Disturbed(why) => format!("others disturbed each run, the last since {why}"),
        }
    }
}

/// What two layouts did, one after the other.
type Both = (Result<Measured, Lost>, Result<Measured, Lost>);
/// What a last comparison came to.
type Compared = (Result<Verdict, NoVerdict>, Vec<(f64, f64)>);

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
    /// Layouts that ran, and had nothing to be compared with.
    open: BTreeSet<Signature>,
    steps: Vec<Step>,
    trials: usize,
    seconds: f64,
    disturbed: usize,
    /// By what, the last time.
    disturbed_by: String,
    /// Whether another than the default is the best so far, by more than noise would have it.
    has_candidate: bool,
    /// Whether the last comparison has shown one to be better.
    is_shown: bool,
}

/// Looks for a layout that is better than the default. `tell` takes a line of progress.
pub fn search<E: Evaluate>(
    space: &Space,
    default: &Layout,
    budget: Budget,
    evaluate: &mut E,
    tell: &dyn Fn(&str),
) -> Result<Found, SearchError<E::Error>> {
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
    // With the trials that a clear win has spared, from there.
    let (layout, ended) = match search.is_shown {
        true => match search.explore(default, &candidate) {
            // What is shown stays shown, however busy the machine is by now.
            Err(SearchError::Busy(_)) => (candidate.clone(), Ended::Busy),
            further => further?,
        },
        false => (default.clone(), ended),
    };
    let says = search.runs(&layout).last().map_or(String::new(), |run| run.says.clone());
    let (noise, layouts) = (search.noise(), search.known.len());
    let Search { steps, trials, seconds, disturbed, .. } = search;
    Ok(Found {
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
    fn first(&mut self, default: &Layout) -> Result<Measured, SearchError<E::Error>> {
        self.run(default)?.map_err(|lost| match lost {
            Lost::Broken(why) => SearchError::Default(why),
            Lost::Disturbed(why) => SearchError::Busy(why),
        })
    }

    /// Runs a layout once; what others disturbed, until it is measured or there is no time.
    fn run(&mut self, layout: &Layout) -> Result<Result<Measured, Lost>, SearchError<E::Error>> {
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
                return Ok(Err(Lost::Disturbed(why)));
            }
            self.disturbed_by = why;
        };
        self.trials += 1;
        let signature = self.space.signature(layout);
        let at = self.known.iter().position(|known| known.signature == signature).unwrap_or_else(|| {
            self.known.push(Known { signature, layout: layout.clone(), runs: Vec::new() });
            self.known.len() - 1
        });
        Ok(match outcome {
            Outcome::Measured(measured) if measured.rate > 0.0 && measured.rate.is_finite() => {
                self.known[at].runs.push(measured.clone());
                Ok(measured)
            }
            Outcome::Measured(_) => Err(Lost::Broken("no transaction landed".into())),
            Outcome::Failed(why) | Outcome::Disturbed(why) => Err(Lost::Broken(why)),
        })
    }

    /// Runs two layouts once each, in an order that is drawn.
    fn both(&mut self, ours: &Layout, theirs: &Layout) -> Result<Both, SearchError<E::Error>> {
        Ok(match self.random.bool() {
            true => (self.run(ours)?, self.run(theirs)?),
            false => {
                let theirs = self.run(theirs)?;
                (self.run(ours)?, theirs)
            }
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

    /// What the last comparison is to have left. As long as there is nothing to compare, or nothing that it would be
    /// likely to show, more is for looking; after it, all is.
    fn reserve(&self) -> usize {
        if self.is_shown {
            return 0;
        }
        let all = self.trials + self.left().0;
        let most = if self.has_candidate { 2 * PAIRS_ROBUST } else { 2 * PAIRS_LEAST + 2 };
        (9 * all / 20).clamp(2 * PAIRS_LEAST, most)
    }

    /// What is known of a layout's rate by all of its runs, as a logarithm.
    fn level(&self, layout: &Layout) -> Option<f64> {
        let logs: Vec<f64> = self.runs(layout).iter().map(|run| run.rate.ln()).collect();
        (!logs.is_empty()).then(|| median(&logs))
    }

    /// The spread of runs of the same layout, by what half of them keep within.
    fn noise(&self) -> Option<f64> {
        let of = |known: &Known| {
            let logs: Vec<f64> = known.runs.iter().map(|run| run.rate.ln()).collect();
            let middle = median(&logs);
            // What is left over by the middle of so many is less than what they spread.
            let spared = (logs.len() as f64 / (logs.len() as f64 - 1.0)).sqrt();
            logs.into_iter().map(|log| (log - middle).abs() * spared).collect::<Vec<_>>()
        };
        let all: Vec<f64> = self.known.iter().filter(|known| known.runs.len() > 1).flat_map(of).collect();
        (all.len() >= 3).then(|| 1.4826 * median(&all))
    }

    /// Below this a gain gets no second look.
    fn threshold(&self) -> f64 {
        NOTABLE.max(OF_NOISE * self.noise().unwrap_or(0.0))
    }

    /// Tries others against the best, which is `from` at first, until none wins.
    fn explore(&mut self, default: &Layout, from: &Layout) -> Result<(Layout, Ended), SearchError<E::Error>> {
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
                return Ok((best, Ended::NothingLeft));
            }
            match self.round(&best, proposals, round)? {
                (Some(better), _) => (best, lost) = (better, 0),
                (None, is_compared) => lost += usize::from(is_compared),
            }
            round += 1;
        }
        Ok((best, Ended::NoMoveWins))
    }

    /// Looks again at those that came nearest to the best, each as long as it seems better; the first that is.
    fn again(&mut self, best: &Layout) -> Result<Option<Layout>, SearchError<E::Error>> {
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

    /// Where none has won: the one that came nearest, if the runs that are left would show it.
    fn likeliest(&self, default: &Layout, candidate: Layout) -> Layout {
        if candidate != *default || self.left().0 < 2 * PAIRS_LEAST {
            return candidate;
        }
        let usual = self.level(default).unwrap_or(f64::INFINITY);
        let compared = self.steps.iter().filter(|step| matches!(step.fate, Fate::NoBetter));
        let gains = compared.filter_map(|step| Some((self.level(&step.layout)? - usual, &step.layout)));
        let best = gains.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(gain, _)| *gain > self.threshold());
        best.map_or(candidate, |(_, layout)| layout.clone())
    }

    fn proposals(&mut self, best: &Layout, round: usize, count: usize) -> Vec<Proposal> {
        let tried = self.known.iter().map(|known| &known.signature).filter(|one| !self.open.contains(*one));
        let tried: BTreeSet<Signature> = tried.cloned().collect();
        let limit = self.runs(best).last().and_then(|run| run.limit);
        let of =
            |known: &'_ Known| known.runs.iter().map(|run| (known.layout.clone(), run.clone())).collect::<Vec<_>>();
        let trials: Vec<(Layout, Measured)> = self.known.iter().flat_map(of).collect();
        let trials: Vec<(&Layout, &Measured)> = trials.iter().map(|(layout, run)| (layout, run)).collect();
        let costs = Costs::of(self.space, best, &trials);
        let at = Position { space: self.space, best, costs: &costs, limit, tried: &tried };
        propose(&at, round, count, &mut self.random)
    }

    /// One round; the layout that has won, if one has, and whether any was compared.
    fn round(
        &mut self,
        best: &Layout,
        proposals: Vec<Proposal>,
        round: usize,
    ) -> Result<(Option<Layout>, bool), SearchError<E::Error>> {
        let mut order: Vec<Option<usize>> = (0..proposals.len()).map(Some).chain([None]).collect();
        self.random.shuffle(&mut order);
        let mut rates = vec![Err(Lost::Broken(String::new())); proposals.len()];
        let mut usual = Err(Lost::Broken(String::new()));
        for one in order {
            match one {
                Some(at) => rates[at] = self.run(&proposals[at].layout)?,
                None => usual = self.run(best)?,
            }
        }
        // Without it the others have been tried for nothing.
        if usual.is_err() && self.left().0 > self.reserve() {
            usual = self.run(best)?;
        }
        let mut steps: Vec<Step> = Vec::new();
        for (Proposal { layout, why }, run) in proposals.into_iter().zip(rates) {
            let (pairs, fate, says) = match (run, &usual) {
                (Ok(run), Ok(usual)) => (vec![(run.rate, usual.rate)], Fate::NoBetter, run.says),
                (Ok(run), Err(lost)) => {
                    let why = format!("of the best beside it, {}", lost.clone().why());
                    (Vec::new(), Fate::NotCompared(why), run.says)
                }
                (Err(Lost::Broken(why)), _) => (Vec::new(), Fate::Failed(why), String::new()),
                (Err(lost), _) => (Vec::new(), Fate::NotCompared(lost.why()), String::new()),
            };
            let signature = self.space.signature(&layout);
            match &fate {
                Fate::NotCompared(_) => self.open.insert(signature),
                _ => self.open.remove(&signature),
            };
            steps.push(Step { round, layout, against: best.clone(), why, pairs, fate, says });
        }
        let won = self.second_looks(&mut steps, best)?;
        for step in &steps {
            (self.tell)(&line(self.space, step));
        }
        let is_compared = steps.iter().any(|step| !matches!(step.fate, Fate::NotCompared(_)));
        self.steps.extend(steps);
        Ok((won, is_compared))
    }

    /// Looks again at those of a round that seem better; the first that is.
    fn second_looks(&mut self, steps: &mut [Step], best: &Layout) -> Result<Option<Layout>, SearchError<E::Error>> {
        let gain = |step: &Step| mean(&step.pairs);
        let mut likely: Vec<usize> = (0..steps.len()).filter(|at| gain(&steps[*at]) > self.threshold()).collect();
        likely.sort_by(|a, b| gain(&steps[*b]).total_cmp(&gain(&steps[*a])));
        for at in likely.into_iter().take(SECOND_LOOKS) {
            if self.is_so_again(&mut steps[at], best)? {
                steps[at].fate = Fate::Taken;
                return Ok(Some(steps[at].layout.clone()));
            }
        }
        Ok(None)
    }

    /// Whether what seems better is so at a second look, or at a third where both differ.
    fn is_so_again(&mut self, step: &mut Step, best: &Layout) -> Result<bool, SearchError<E::Error>> {
        let mut look = 2;
        while self.left().0 >= 2 + self.reserve() {
            let (ours, theirs) = match self.both(&step.layout, best)? {
                (Ok(ours), Ok(theirs)) => (ours, theirs),
                (Err(Lost::Broken(why)), _) => {
                    step.fate = Fate::Failed(why);
                    return Ok(false);
                }
                (_, Err(Lost::Broken(_))) => return Ok(false),
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

    /// The candidate and the default in pairs of fresh runs.
    fn compare(&mut self, default: &Layout, candidate: &Layout) -> Result<Compared, SearchError<E::Error>> {
        let mut looks = looks((self.left().0 / 2).min(PAIRS_MOST));
        let (mut pairs, mut verdict, before) = (Vec::new(), Err(NoVerdict::NoRoom), self.disturbed);
        for at in 0..looks.len() {
            while pairs.len() < looks[at].pairs {
                // Runs that others disturbed take a time that nobody has counted on.
                if self.trials + 2 > self.budget.trials || self.seconds > OVERTIME * self.budget.seconds {
                    if pairs.len() >= PAIRS_LEAST && at.checked_sub(1).is_none_or(|at| looks[at].pairs < pairs.len()) {
                        looks[at] = Look { pairs: pairs.len(), level: LEVEL };
                        verdict = Ok(self.looked(&pairs, &looks[..=at]));
                    }
                    if verdict.is_err() && self.disturbed > before {
                        verdict = Err(NoVerdict::Disturbed(self.disturbed_by.clone()));
                    }
                    return Ok((verdict, pairs));
                }
                // What does not work every time is no candidate.
                match self.both(default, candidate)? {
                    (Ok(usual), Ok(ours)) => pairs.push((usual.rate, ours.rate)),
                    (_, Err(Lost::Broken(why))) => return Ok((Err(NoVerdict::Candidate(why)), pairs)),
                    (Err(Lost::Broken(why)), _) => return Ok((Err(NoVerdict::Default(why)), pairs)),
                    // The time is up.
                    _ => {}
                }
            }
            let now = self.looked(&pairs, &looks[..=at]);
            verdict = Ok(now);
            let middle = median(&pairs.iter().map(|(usual, ours)| ours / usual).collect::<Vec<f64>>());
            // What half of the pairs speak against has no chance.
            if matches!(now, Verdict::Better(_)) || middle <= 1.0 {
                break;
            }
        }
        Ok((verdict, pairs))
    }

    fn looked(&self, pairs: &[(f64, f64)], looks: &[Look]) -> Verdict {
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
