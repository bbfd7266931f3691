//! Searches on a machine that others disturb, or with layouts that fail.

use std::convert::Infallible;

use hearth_tune::layout::search::{SearchError, search};
use hearth_tune::layout::search_result::{NoVerdict, TrialVerdict};
use hearth_tune::layout::{Budget, Evaluate, Layout, Outcome, SearchResult, Trial, Verdict, report};

use super::machines::planted;
use super::sim::{Machine, Trials};
use super::{budget, trials};

/// Replaces the outcome of a trial, by its number and by how often its layout has run.
type Instead = fn(usize, &Layout, &Layout, usize) -> Option<Outcome>;

struct Meddled<'a> {
    inner: Trials<'a>,
    default: &'a Layout,
    ran: Vec<Layout>,
    instead: Instead,
}

impl Evaluate for Meddled<'_> {
    type Error = Infallible;

    fn evaluate(&mut self, layout: &Layout, left: f64) -> Result<Trial, Infallible> {
        let before = self.ran.iter().filter(|one| *one == layout).count();
        let at = self.ran.len();
        self.ran.push(layout.clone());
        match (self.instead)(at, layout, self.default, before) {
            Some(outcome) => Ok(Trial { outcome, seconds: 5.0 }),
            None => self.inner.evaluate(layout, left),
        }
    }
}

fn found(
    machine: &Machine,
    budget: Budget,
    instead: Instead,
) -> (Result<SearchResult, SearchError<Infallible>>, usize) {
    let inner = trials(machine, budget.seed);
    let mut meddled = Meddled { inner, default: &machine.default, ran: Vec::new(), instead };
    let found = search(&machine.space, &machine.default, budget, &mut meddled, &|_| {});
    (found, meddled.ran.len())
}

fn disturbed() -> Option<Outcome> {
    Some(Outcome::Disturbed("a neighbour".into()))
}

fn failed() -> Option<Outcome> {
    Some(Outcome::Failed("a wall".into()))
}

#[test]
fn a_machine_that_stays_busy_ends_it() {
    let known = planted(8, 0);
    let (never, tried) = found(&known.machine, budget(1), |_, _, _, _| disturbed());
    assert_eq!((never, tried), (Err(SearchError::Busy("a neighbour".into())), 3));
    let (later, tried) = found(&known.machine, budget(1), |at, _, _, _| (at >= 20).then(disturbed).flatten());
    assert_eq!((later, tried), (Err(SearchError::Busy("a neighbour".into())), 23));
}

#[test]
fn a_default_that_fails_is_reported() {
    let known = planted(8, 0);
    let of = |instead: Instead| found(&known.machine, budget(1), instead).0;
    assert_eq!(of(|_, _, _, _| failed()), Err(SearchError::Default("a wall".into())));
    let disturbed_first = of(|at, _, _, _| if at < 2 { disturbed() } else { None });
    assert!(disturbed_first.is_ok(), "it was measured at the third try");
}

#[test]
fn disturbed_layout_stays_in() {
    let known = planted(8, 0);
    let machine = &known.machine;
    let mut near = 0;
    for seed in 0..20 {
        // Two of five trials, with any layout.
        let (found, _) = found(machine, budget(seed), |at, _, _, _| if at * 7 % 5 < 2 { disturbed() } else { None });
        let found = found.unwrap_or_else(|why| panic!("{why:?}"));
        assert!(found.disturbed > 5 && found.trials <= 40, "{found:?}");
        assert!(found.steps.iter().all(|step| !matches!(step.fate, TrialVerdict::Failed(_))), "none failed");
        let unknown = found.steps.iter().filter(|step| matches!(step.fate, TrialVerdict::NotCompared(_)));
        assert!(unknown.clone().all(|step| step.pairs.is_empty()));
        near += usize::from(machine.rate(&found.layout) > 0.95 * known.best);
    }
    assert!(near >= 18, "{near} of 20 come near");
}

#[test]
fn uncompared_layout_is_tried_again() {
    let known = planted(8, 0);
    // The default fails in the first round, including its repetition.
    let instead: Instead = |at, layout, default, _| if at > 0 && at < 6 && layout == default { failed() } else { None };
    let found = found(&known.machine, budget(1), instead).0.unwrap_or_else(|why| panic!("{why:?}"));
    let lost: Vec<&Layout> = found
        .steps
        .iter()
        .filter(|step| matches!(step.fate, TrialVerdict::NotCompared(_)))
        .map(|step| &step.layout)
        .collect();
    assert!(!lost.is_empty(), "{}", report::text(&known.machine.space, &found));
    let again = found.steps.iter().filter(|step| lost.contains(&&step.layout) && !step.pairs.is_empty());
    assert!(again.count() > 0, "{}", report::text(&known.machine.space, &found));
}

#[test]
fn reason_without_a_verdict_is_reported_unchanged() {
    let known = planted(8, 0);
    let machine = &known.machine;
    let budget = Budget { trials: 16, ..budget(1) };
    let of = |budget, instead: Instead| {
        let found = found(machine, budget, instead).0.unwrap_or_else(|why| panic!("{why:?}"));
        (report::answer(&machine.space, &found), found)
    };
    let (_, whole) = of(budget, |_, _, _, _| None);
    assert!(matches!(whole.verdict, Ok(Verdict::Better(_))), "{}", report::text(&machine.space, &whole));

    let (said, found) =
        of(budget, |_, layout, default, before| if layout != default && before == 3 { failed() } else { None });
    assert_eq!(found.verdict, Err(NoVerdict::Candidate("a wall".into())));
    assert!(said.contains("it failed when it met the default again") && said.contains("a wall"), "{said}");

    let (said, found) = of(budget, |at, layout, default, _| if at > 8 && layout == default { failed() } else { None });
    assert_eq!(found.verdict, Err(NoVerdict::Default("a wall".into())));
    assert!(said.contains("the default failed"), "{said}");

    // Every trial must be tried three times, and there is no time for that.
    let short = Budget { seconds: 90.0, ..budget };
    let (said, found) = of(short, |at, _, _, _| if at > 8 && at % 3 > 0 { disturbed() } else { None });
    assert_eq!(found.verdict, Err(NoVerdict::Disturbed("a neighbour".into())), "{said}");
    assert!(said.contains("others disturbed too many runs") && found.trials <= 16, "{said}");

    let (said, found) = of(Budget { trials: 3, ..budget }, |_, _, _, _| None);
    assert_eq!(found.verdict, Err(NoVerdict::NothingTried));
    assert!(said.contains("no room to try"), "{said}");
}
