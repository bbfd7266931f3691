//! Answers a question about a study's results: which builds are best, and how certain that is.
//!
//! reads   a [`Table`], and a [`Question`]
//! writes  an [`Answer`]: as text ([`mod@crate::text`]) and as JSON ([`Answer::json`])
//! memory  the table, and some words per build and goal

use std::collections::BTreeMap;

use hearth_stats::median_rule::{MedianRuleResult, article};
use hearth_stats::objective::{GOALS_MAX, Goal, front};
use hearth_stats::paired_bootstrap::{Estimate, PairedAnalysis, ROUNDS_MIN, Scale, Settings, Verdict, paired};
use hearth_stats::table::Table;
use hearth_stats::unit::Dimension;
use serde_json::{Map, Value, json};

use crate::dominance::beaten;
use crate::effects::{Effect, Effects, effects};
use crate::options::{DEFAULT, NO_OPTION};
use crate::quantization;
use crate::recipe::CargoRecipe;

/// The statistical rule of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Resamples paired rounds: see [`hearth_stats::paired_bootstrap`].
    #[default]
    Bootstrap,
    /// Compares medians and their half-widths: see [`hearth_stats::median_rule`].
    Article,
}

/// A question about a study.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Names of the metrics to maximize.
    pub max: Vec<String>,
    /// Names of the metrics to minimize.
    pub min: Vec<String>,
    /// The build that others are compared with.
    pub reference: Option<String>,
    /// Name of a byte-identical copy of the reference.
    pub copy: Option<String>,
    /// Names of the builds to leave out.
    pub exclude: Vec<String>,
    /// By metric, the smallest difference that matters, as a fraction.
    pub matters: BTreeMap<String, f64>,
    /// The same for metrics that are not listed there. If values are not positive, every difference then matters.
    pub matters_else: f64,
    /// The rule by which builds are compared.
    pub rule: Rule,
    /// Settings of the bootstrap.
    pub settings: Settings,
}

/// Why a question cannot be answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// The table has no metric of this name.
    #[error("there is no metric `{0}`; the metrics are {1}")]
    NoMetric(String, String),
    /// The table has no build of this name.
    #[error("there is no build `{0}`")]
    NoBuild(String),
    /// A metric is named twice, or both to maximize and to minimize.
    #[error("metric `{0}` is named twice: name it once, by --max or --min")]
    Twice(String),
    /// No metric is to be maximized or minimized.
    #[error("say with --max or --min which metrics matter; they are {0}")]
    NoGoal(String),
    /// The reference or its copy is excluded.
    #[error("build `{0}` is excluded and the reference, or its copy")]
    Excluded(String),
    /// The reference has no value of a goal's metric.
    #[error(
        "the reference `{reference}` has no value of `{metric}`, so nothing can be compared with it: name another, or leave that metric out"
    )]
    Nothing {
        /// Name of the reference.
        reference: String,
        /// Name of the metric.
        metric: String,
    },
    /// More goals than are supported.
    #[error("--max and --min name {0} metrics: {GOALS_MAX} at most")]
    TooMany(usize),
    /// Every build is excluded.
    #[error("no build is left")]
    NoBuilds,
}

/// The answer of a study.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The results, without excluded builds.
    pub table: Table,
    /// The goals, one per metric to maximize or minimize.
    pub goals: Vec<Goal>,
    /// The build that others are compared with.
    pub reference: Option<usize>,
    /// The copy of the reference.
    pub copy: Option<usize>,
    /// The rule that was applied.
    pub rule: Rule,
    /// The result of the median rule.
    pub article: MedianRuleResult,
    /// The result of the paired bootstrap.
    pub paired: PairedAnalysis,
    /// Builds that no other dominates, by the rule's estimates.
    pub exact: Vec<usize>,
    /// Builds that cannot be distinguished from the front: none is better in every goal, beyond the noise by the rule.
    pub near: Vec<usize>,
    /// Builds that are better than the reference in every goal, by the rule.
    pub better: Vec<usize>,
    /// The effects of the options.
    pub effects: Effects,
    /// Caveats to read before trusting the answer.
    pub notes: Vec<String>,
}

/// Answers a question about a table.
pub fn analyze(table: Table, question: &Question) -> Result<Answer, QuestionError> {
    let named = |name: &String| table.build(name).ok_or_else(|| QuestionError::NoBuild(name.clone()));
    let excluded = question.exclude.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    for name in question.reference.iter().chain(&question.copy) {
        named(name)?;
        if question.exclude.contains(name) {
            return Err(QuestionError::Excluded(name.clone()));
        }
    }
    let goals = goals(&table, question)?;
    let table = table.without(&excluded);
    if table.builds.is_empty() {
        return Err(QuestionError::NoBuilds);
    }
    let place = |name: &Option<String>| name.as_ref().and_then(|name| table.build(name));
    let (reference, copy) = (place(&question.reference), place(&question.copy));
    is_there(&table, &goals, reference)?;
    let article = article(&table, &goals, reference);
    let paired = paired(&table, &goals, reference, &question.settings);
    let (exact, near, better) = match question.rule {
        Rule::Article => (article.exact.clone(), article.boxes.clone(), article.better.clone()),
        Rule::Bootstrap => by_rounds(&paired, &goals, reference),
    };
    // The copy would count its build twice.
    let effects = effects(&table, &goals, &copy.into_iter().collect::<Vec<_>>());
    let mut notes = notes(&table, &goals, &paired, reference, copy);
    notes.extend(confounded_notes(&table, &effects));
    Ok(Answer {
        table,
        goals,
        reference,
        copy,
        rule: question.rule,
        article,
        paired,
        exact,
        near,
        better,
        effects,
        notes,
    })
}

/// Refuses a reference that lacks a value of some goal.
fn is_there(table: &Table, goals: &[Goal], reference: Option<usize>) -> Result<(), QuestionError> {
    let Some(build) = reference else { return Ok(()) };
    match goals.iter().find(|goal| table.present(goal.metric, build).is_empty()) {
        None => Ok(()),
        Some(goal) => Err(QuestionError::Nothing {
            reference: table.builds[build].name.clone(),
            metric: table.metrics[goal.metric].name.clone(),
        }),
    }
}

fn goals(table: &Table, question: &Question) -> Result<Vec<Goal>, QuestionError> {
    let metrics = || table.metrics.iter().map(|metric| format!("`{}`", metric.name)).collect::<Vec<_>>().join(", ");
    let mut goals: Vec<Goal> = Vec::new();
    for (names, more) in [(&question.max, true), (&question.min, false)] {
        for name in names {
            let metric = table.metric(name).ok_or_else(|| QuestionError::NoMetric(name.clone(), metrics()))?;
            if goals.iter().any(|goal| goal.metric == metric) {
                return Err(QuestionError::Twice(name.clone()));
            }
            let is_positive = table.metrics[metric].values.iter().all(|value| value.is_nan() || *value > 0.0);
            let matters = if is_positive { question.matters_else } else { 0.0 };
            goals.push(Goal { metric, more, matters: question.matters.get(name).copied().unwrap_or(matters) });
        }
    }
    match goals.len() {
        0 => Err(QuestionError::NoGoal(metrics())),
        1..=GOALS_MAX => Ok(goals),
        many => Err(QuestionError::TooMany(many)),
    }
}

/// The front of the estimates, the builds that no other beats beyond the noise, and those that beat the reference
/// beyond the noise.
fn by_rounds(
    paired: &PairedAnalysis,
    goals: &[Goal],
    reference: Option<usize>,
) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let gains = |all: &Vec<Estimate>| all.iter().zip(goals).map(|(one, goal)| goal.gain(one.value)).collect::<Vec<_>>();
    let points: Vec<f64> = paired.estimates.iter().flat_map(gains).collect();
    let on = front(&points, goals.len());
    let beaten = beaten(paired, goals, reference);
    let has_all = |build: &usize| paired.estimates[*build].iter().all(|one| one.value.is_finite());
    let all = 0..paired.estimates.len();
    let better = |build: &usize| {
        reference.is_some()
            && Some(*build) != reference
            && paired.estimates[*build].iter().all(|one| one.verdict == Verdict::Better)
    };
    (
        all.clone().filter(|at| on[*at]).collect(),
        all.clone().filter(|at| !beaten[*at] && has_all(at)).collect(),
        all.filter(better).collect(),
    )
}

fn notes(
    table: &Table,
    goals: &[Goal],
    paired: &PairedAnalysis,
    reference: Option<usize>,
    copy: Option<usize>,
) -> Vec<String> {
    let has_reference = reference.is_some();
    let mut notes: Vec<String> =
        (0..table.metrics.len()).filter_map(|metric| quantization::odd(table, metric)).collect();
    if table.missing() > 0 {
        notes.push(format!("{} rows say that they have no value", table.missing()));
    }
    if table.numbered {
        notes.push("there is no column `repetition`: rows are paired in the order in which they come".into());
    }
    if paired.paired_by_order {
        notes.push("some builds have no repetition in common with the reference: they are paired in order".into());
    }
    for goal in goals {
        let name = &table.metrics[goal.metric].name;
        let counts: Vec<usize> = (0..table.builds.len()).map(|build| table.present(goal.metric, build).len()).collect();
        let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        let none = counts.iter().filter(|count| **count == 0).count();
        if none > 0 {
            notes.push(format!("`{name}`: {none} builds have no value, and are on no front"));
        } else if least < most {
            notes.push(format!("`{name}`: builds have {least} to {most} values"));
        }
        if most < ROUNDS_MIN {
            notes.push(format!("`{name}`: {most} repetitions are too few to know the noise; {ROUNDS_MIN} are needed"));
        }
        let first = table.metrics[goal.metric].values.iter().find(|value| !value.is_nan());
        if table.metrics[goal.metric].values.iter().all(|value| value.is_nan() || Some(value) == first) {
            let than = if has_reference { ": by it none is better than the reference in every goal" } else { "" };
            notes.push(format!("`{name}` is the same for all builds, and tells none from another{than}"));
        }
    }
    notes.extend(copy.map(|copy| copied(table, goals, paired, copy)));
    notes
}

/// Names the options that the design does not separate. Otherwise a reader would attribute their effects to the options
/// themselves.
fn confounded_notes(table: &Table, effects: &Effects) -> Vec<String> {
    let name = |option: usize| format!("`{}`", table.options[option]);
    let aliased = effects.aliased.iter().map(|(first, again)| {
        format!(
            "the design is confounded: {} and {} always change together, so no effect is of one of them alone",
            name(*first),
            name(*again)
        )
    });
    let explained = effects.confounded.iter().map(|one| {
        let with = one.with.iter().map(|option| name(*option)).collect::<Vec<_>>().join(" and ");
        match one.is_whole {
            true => format!(
                "the design is confounded: in these builds {} follows from {with}, so the effects of these options cannot be \
                 separated; add builds that change one of them alone",
                name(one.option)
            ),
            false => format!(
                "the design is nearly confounded: in most builds {} changes together with {with}, so little is known of its \
                 own effect; add builds that change one of them alone",
                name(one.option)
            ),
        }
    });
    aliased.chain(explained).collect()
}

/// Says whether the reference and its copy are equal, as they should be.
fn copied(table: &Table, goals: &[Goal], paired: &PairedAnalysis, copy: usize) -> String {
    if paired.estimates[copy].iter().any(|one| one.verdict == Verdict::Unknown) {
        return format!("whether the reference and its copy are equal is not known: {ROUNDS_MIN} rounds are needed");
    }
    match unequal(table, goals, paired, copy) {
        none if none.is_empty() => "the reference and its copy are equal, as they should be".into(),
        wrong => format!("the reference and its copy differ in {}: do not trust this study", wrong.join(", ")),
    }
}

/// The goals in which a build differs from the reference.
fn unequal<'a>(table: &'a Table, goals: &[Goal], paired: &PairedAnalysis, build: usize) -> Vec<&'a str> {
    let claimed = |(one, _): &(&Estimate, &Goal)| matches!(one.verdict, Verdict::Better | Verdict::Worse);
    let differing = paired.estimates[build].iter().zip(goals).filter(claimed);
    differing.map(|(_, goal)| table.metrics[goal.metric].name.as_str()).collect()
}

impl Answer {
    /// Returns a build's options like `lto=fat, panic=abort`, or none if its name contains them already.
    pub fn options_of(&self, build: usize) -> Option<String> {
        let build = &self.table.builds[build];
        let set = self.table.options.iter().zip(&build.options);
        let set: Vec<_> = set.filter(|(_, value)| ![DEFAULT, NO_OPTION, ""].contains(&&***value)).collect();
        if set.is_empty() || set.iter().all(|(_, value)| build.name.contains(value.as_str())) {
            return None;
        }
        Some(set.iter().map(|(option, value)| format!("{option}={value}")).collect::<Vec<_>>().join(", "))
    }

    /// Returns the recommended build among those that are better than the reference in every goal: the one most likely
    /// to be on the front.
    pub fn best(&self) -> Option<usize> {
        let chance = |build: &usize| self.paired.p_front(*build).unwrap_or(0.0);
        self.better.iter().copied().rev().max_by(|a, b| chance(a).total_cmp(&chance(b)))
    }

    /// Returns how to build with a build's options.
    pub fn recipe(&self, build: usize) -> Option<CargoRecipe> {
        let options = self.table.options.iter().zip(&self.table.builds[build].options);
        CargoRecipe::of(options.map(|(name, value)| (name.as_str(), value.as_str())))
    }

    /// Returns the names of builds.
    pub fn names(&self, builds: &[usize]) -> Vec<&str> {
        builds.iter().map(|build| self.table.builds[*build].name.as_str()).collect()
    }

    /// Returns the goals in which the reference and its copy differ although they are the same program, which makes the
    /// study worthless.
    pub fn copy_differs_in(&self) -> Vec<&str> {
        self.copy.map_or_else(Vec::new, |copy| unequal(&self.table, &self.goals, &self.paired, copy))
    }

    /// Returns the builds that are worse than the reference in a goal beyond the noise, each with the metrics. The copy
    /// of the reference is not among them, because it is the same program.
    pub fn worse_than_reference(&self) -> Vec<String> {
        let with = |build: usize| {
            let worse = |(one, _): &(&Estimate, &Goal)| one.verdict == Verdict::Worse;
            let goals = self.paired.estimates[build].iter().zip(&self.goals).filter(worse);
            let names: Vec<_> = goals.map(|(_, goal)| self.table.metrics[goal.metric].name.as_str()).collect();
            (!names.is_empty()).then(|| format!("{} in {}", self.table.builds[build].name, names.join(", ")))
        };
        self.compared().filter_map(with).collect()
    }

    /// Returns why it cannot be said that no build is worse than the reference; none if it can.
    pub fn undecided(&self) -> Option<String> {
        if let Some(copy) = self.copy.filter(|_| !self.copy_differs_in().is_empty()) {
            return Some(copied(&self.table, &self.goals, &self.paired, copy));
        }
        if self.compared().next().is_none() {
            return Some("there is no build beside the reference".into());
        }
        let is_unknown =
            |build: &usize| self.paired.estimates[*build].iter().any(|one| one.verdict == Verdict::Unknown);
        let unknown: Vec<usize> = self.compared().filter(is_unknown).collect();
        (!unknown.is_empty()).then(|| {
            let rounds = unknown.iter().flat_map(|build| &self.paired.estimates[*build]).map(|one| one.rounds);
            let (names, least) = (self.names(&unknown).join(", "), rounds.min().unwrap_or(0));
            format!("too few repetitions to tell a change from noise: {ROUNDS_MIN} are needed, and {names} has {least}")
        })
    }

    /// Returns the builds that are compared with the reference.
    fn compared(&self) -> impl Iterator<Item = usize> {
        let (reference, copy) = (self.reference, self.copy);
        (0..self.table.builds.len()).filter(move |build| Some(*build) != reference && Some(*build) != copy)
    }

    /// Returns by how many percent a build is above the reference in each goal, by the rule; none where percentages are
    /// undefined.
    pub fn percents(&self, build: usize) -> Vec<Option<f64>> {
        let Some(reference) = self.reference else { return vec![None; self.goals.len()] };
        let median = |build: usize, goal: usize| self.article.medians[build][goal].median;
        let percent = |goal: usize| match (self.rule, self.paired.scales[goal]) {
            // A reference that is not above zero has no percentages.
            (_, Scale::Difference) => None,
            (Rule::Article, Scale::Ratio) => Some((median(build, goal) / median(reference, goal) - 1.0) * 100.0),
            (Rule::Bootstrap, Scale::Ratio) => Some((self.paired.estimates[build][goal].value - 1.0) * 100.0),
        };
        (0..self.goals.len()).map(|goal| percent(goal).filter(|percent| percent.is_finite())).collect()
    }

    /// Returns by how much a build is above the reference where percentages are undefined, by the rule.
    pub fn difference(&self, build: usize, goal: usize) -> Option<f64> {
        let reference = self.reference.filter(|_| self.paired.scales[goal] == Scale::Difference)?;
        let by = match self.rule {
            Rule::Article => self.article.medians[build][goal].median - self.article.medians[reference][goal].median,
            Rule::Bootstrap => self.paired.estimates[build][goal].value,
        };
        by.is_finite().then_some(by)
    }

    /// Returns the dimension of a goal's values.
    pub fn dimension(&self, goal: usize) -> Dimension {
        self.table.metrics[self.goals[goal].metric].dimension
    }

    /// Returns the unit of a goal's values in [`Self::json`]; none for plain numbers.
    fn unit(&self, goal: usize) -> Option<&'static str> {
        Some(self.dimension(goal).base()).filter(|unit| !unit.is_empty())
    }

    /// Returns the name of a goal's metric.
    pub fn name(&self, goal: usize) -> &str {
        &self.table.metrics[self.goals[goal].metric].name
    }

    /// Returns the whole answer as JSON.
    pub fn json(&self) -> Value {
        let by_name = |value: &dyn Fn(usize) -> Value| {
            let pairs = self.table.builds.iter().enumerate().map(|(at, build)| (build.name.clone(), value(at)));
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        let relative = self.better.iter().map(|build| {
            let mut row = Map::from_iter([("build".into(), json!(self.table.builds[*build].name))]);
            row.extend(
                self.percents(*build).iter().enumerate().map(|(goal, one)| (self.name(goal).into(), json!(one))),
            );
            Value::Object(row)
        });
        json!({
            "rule": if self.rule == Rule::Article { "article" } else { "bootstrap" },
            "goals": self.goals.iter().enumerate().map(|(at, goal)| {
                let better = if goal.more { "higher" } else { "lower" };
                json!({ "metric": self.name(at), "better": better, "unit": self.unit(at) })
            }).collect::<Vec<_>>(),
            "reference": self.reference.map(|build| &self.table.builds[build].name),
            "builds": self.table.builds.len(),
            "repetitions": self.table.rounds.len(),
            "resamples": self.paired.resamples,
            "exact_pareto": self.names(&self.exact),
            "pareto_boxes": self.names(&self.near),
            "better_than_reference": self.names(&self.better),
            "relative_table": relative.collect::<Vec<_>>(),
            "p_front": by_name(&|build| json!(self.paired.p_front(build))),
            "p_better": self.reference.map(|_| by_name(&|build| json!(self.paired.p_better(build)))),
            "estimates": by_name(&|build| Value::Array(self.estimates(build))),
            "options": by_name(&|build| json!(self.options_json(build))),
            "effects": self.effects_json(),
            "notes": self.notes,
        })
    }

    fn estimates(&self, build: usize) -> Vec<Value> {
        let one = |goal: usize| {
            let (estimate, median) = (&self.paired.estimates[build][goal], &self.article.medians[build][goal]);
            json!({
                "metric": self.name(goal),
                "unit": self.unit(goal),
                "median": median.median,
                "half_width": median.known_half_width(),
                "values": median.count,
                "compared_by": if self.paired.scales[goal] == Scale::Ratio { "ratio" } else { "difference" },
                "estimate": estimate.value,
                "interval": estimate.interval.map(|(low, high)| [low, high]),
                "rounds": estimate.rounds,
                "verdict": verdict(estimate.verdict),
            })
        };
        (0..self.goals.len()).map(one).collect()
    }

    fn options_json(&self, build: usize) -> Map<String, Value> {
        let options = self.table.options.iter().zip(&self.table.builds[build].options);
        options.map(|(name, value)| (name.clone(), json!(value))).collect()
    }

    fn effects_json(&self) -> Value {
        let effect = |one: &Effect| {
            let parts =
                one.parts.iter().enumerate().map(|(goal, part)| (self.name(goal).to_owned(), json!(part * 100.0)));
            json!({
                "option": self.table.options[one.level.option],
                "value": one.level.value,
                "builds": one.level.builds.len(),
                "percent": parts.collect::<Map<_, _>>(),
            })
        };
        let bad = self.effects.bad.as_ref().map(|bad| {
            let terms = bad.terms.iter().map(|term| (self.table.options[term.option].clone(), json!(term.value)));
            json!({
                "options": terms.collect::<Map<_, _>>(),
                "builds": bad.builds,
                "of_them_bad": bad.bad,
                "bad": self.names(&bad.bad_in_all),
            })
        });
        json!({
            "main": self.effects.effects.iter().map(effect).collect::<Vec<_>>(),
            "explained": self.effects.explained,
            "very_bad": bad,
        })
    }
}

/// Returns a verdict as one word.
fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "no difference found",
        Verdict::Unknown => "too few rounds",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "nb_build,lto,metric,value,repetition\n\
        1,off,speed,10,1\n1,off,speed,11,2\n1,off,size,5,1\n1,off,size,5,2\n\
        2,fat,speed,20,1\n2,fat,speed,21,2\n2,fat,size,4,1\n2,fat,size,4,2\n\
        3,fat,speed,15,1\n3,fat,speed,15,2\n3,fat,size,9,1\n3,fat,size,9,2\n";

    fn ask(question: &Question) -> Result<Answer, QuestionError> {
        analyze(Table::read(STUDY.as_bytes()).expect("fine"), question)
    }

    fn question() -> Question {
        Question {
            max: vec!["speed".into()],
            min: vec!["size".into()],
            reference: Some("1".into()),
            rule: Rule::Article,
            ..Question::default()
        }
    }

    #[test]
    fn names_are_texts_even_where_they_look_like_numbers() {
        let json = ask(&question()).expect("answered").json();
        assert_eq!((&json["exact_pareto"], &json["better_than_reference"]), (&json!(["2"]), &json!(["2"])));
        assert_eq!(json["relative_table"][0]["build"], "2");
        let percent = json["relative_table"][0]["speed"].as_f64().expect("a number");
        assert!((percent - (20.5 / 10.5 - 1.0) * 100.0).abs() < 1e-9, "{percent}");
        assert_eq!(json["p_front"]["2"], Value::Null, "of two rounds nothing is said");
        assert!(json["notes"][0].as_str().is_some_and(|note| note.contains("too few to know the noise")), "{json}");
    }

    /// Equal builds with one metric, N(1000, 10); the second is a copy of the first.
    fn equal_builds(seed: u64, builds: usize, rounds: usize) -> Table {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut normal = || {
            let (a, b) = (1.0 - random.f64(), random.f64());
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        };
        let mut text = "build,metric,value,repetition\n".to_owned();
        for round in 0..rounds {
            (0..builds).for_each(|build| text += &format!("b{build},speed,{},{round}\n", 1000.0 + 10.0 * normal()));
        }
        Table::read(text.as_bytes()).expect("fine")
    }

    /// Whether anything in the answer claims that builds differ.
    fn claims(answer: &Answer) -> bool {
        let claimed = |one: &Estimate| matches!(one.verdict, Verdict::Better | Verdict::Worse);
        answer.near.len() < answer.table.builds.len()
            || !answer.better.is_empty()
            || answer.paired.estimates.iter().flatten().any(claimed)
            || !answer.copy_differs_in().is_empty()
    }

    #[test]
    fn of_equal_builds_none_is_left_out_and_nothing_is_claimed() {
        for (builds, rounds, has_reference) in [(6, 20, true), (6, 20, false), (3, 8, true)] {
            let name = |at: usize| has_reference.then(|| format!("b{at}"));
            let question = Question {
                max: vec!["speed".into()],
                reference: name(0),
                copy: name(1),
                settings: Settings { resamples: 400, ..Settings::default() },
                ..Question::default()
            };
            let is_wrong = |seed: &u64| claims(&analyze(equal_builds(*seed, builds, rounds), &question).expect("fine"));
            let wrong = (0..1_000).filter(is_wrong).count();
            println!("{builds} builds, {rounds} rounds, reference: {has_reference}: {wrong} of 1000");
            assert!(
                wrong <= 50,
                "{builds} builds, {rounds} rounds: a difference is claimed in {wrong} of 1000 studies"
            );
        }
    }

    #[test]
    fn a_build_that_is_worse_is_named_where_rounds_tell() {
        let study = |rounds: usize, speeds: [f64; 3]| {
            let mut table = equal_builds(5, 3, rounds);
            for metric in &mut table.metrics {
                for (build, speed) in speeds.iter().enumerate() {
                    metric.values[build * rounds..(build + 1) * rounds].iter_mut().for_each(|value| *value *= speed);
                }
            }
            let (max, name) = (vec!["speed".into()], |at: usize| Some(format!("b{at}")));
            let question = Question { max, reference: name(0), copy: name(1), ..Question::default() };
            analyze(table, &question).expect("fine")
        };
        let equal = study(12, [1.0; 3]);
        assert_eq!((equal.worse_than_reference(), equal.undecided()), (vec![], None));
        let slower = study(12, [1.0, 1.0, 0.9]);
        assert_eq!((slower.worse_than_reference(), slower.undecided()), (vec!["b2 in speed".into()], None));
        assert_eq!(study(12, [1.0, 1.0, 1.1]).worse_than_reference(), Vec::<String>::new());
        let few = study(3, [1.0, 1.0, 0.5]);
        assert_eq!(few.worse_than_reference(), Vec::<String>::new());
        assert!(few.undecided().is_some_and(|why| why.contains("6 are needed, and b2 has 3")));
        let odd = study(12, [1.0, 0.9, 1.0]);
        assert!(odd.undecided().is_some_and(|why| why.contains("do not trust this study")));
    }

    #[test]
    fn excluded_builds_take_no_part() {
        let without = Question { exclude: vec!["2".into()], ..question() };
        assert_eq!(ask(&without).expect("answered").json()["exact_pareto"], json!(["1", "3"]));
    }

    #[test]
    fn invalid_request_is_reported() {
        let error = |question: Question| ask(&question).expect_err("wrong").to_string();
        let metric = error(Question { max: vec!["sped".into()], ..question() });
        assert_eq!(metric, "there is no metric `sped`; the metrics are `speed`, `size`");
        assert!(error(Question { min: vec!["speed".into()], ..question() }).contains("named twice"));
        assert!(error(Question { max: vec![], min: vec![], ..question() }).starts_with("say with --max or --min"));
        assert_eq!(error(Question { reference: Some("7".into()), ..question() }), "there is no build `7`");
        let rows = "build,metric,value,repetition\na,lat,NA,1\na,x,2,1\nb,lat,7,1\nb,x,3,1\n";
        let question_of = |reference: &str| Question {
            max: vec!["x".into()],
            min: vec!["lat".into()],
            reference: Some(reference.into()),
            ..Question::default()
        };
        let of = |reference: &str| analyze(Table::read(rows.as_bytes()).expect("fine"), &question_of(reference));
        let nothing = of("a").expect_err("nothing to compare with").to_string();
        assert!(nothing.starts_with("the reference `a` has no value of `lat`"), "{nothing}");
        assert!(of("b").is_ok());
        assert!(error(Question { exclude: vec!["1".into()], ..question() }).contains("is excluded and the reference"));
    }
}
