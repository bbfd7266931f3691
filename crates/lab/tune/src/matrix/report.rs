//! The final report of a study: the answer, the cost of builds, and the recommendation.
//!
//! reads   the answer of the analysis, and the effects of layouts
//! writes  text and JSON

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;

use hearth_stats::paired_bootstrap::{ROUNDS_MIN, Scale, Verdict};
use serde_json::{Map, Value, json};

use super::layout::Gain;
use super::rounds::RoundEvents;
use crate::analysis::Answer;
use crate::recipe::CargoRecipe;
use crate::text::{chance, percent, text};

/// Trade-offs that a sentence names.
const NAMED: usize = 3;
/// A build compiles faster if it takes less time by at least this fraction: most are timed only once.
const FASTER: f64 = 0.1;

/// The cost of a build.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Name of the build.
    pub name: String,
    /// Build time in seconds, the median of several timings.
    pub seconds: f64,
    /// Number of timings; zero if others disturbed them.
    pub times: usize,
    /// Size of the program in bytes.
    pub bytes: u64,
    /// Digest of the program.
    pub digest: String,
}

/// The effect of other function orders on the finalists.
#[derive(Clone, Debug)]
pub enum Layouts {
    /// No build is better than the reference.
    NoFinalist,
    /// Layouts could not be measured.
    NotChecked {
        /// Builds that are better than the reference in their only layout.
        finalists: Vec<String>,
        /// Why they could not be measured.
        why: String,
    },
    /// The finalists were linked and measured in several layouts.
    Checked {
        /// Names of the finalists.
        finalists: Vec<String>,
        /// Builds that are also better, but were not made here.
        others: Vec<String>,
        /// Names of the goals.
        goals: Vec<String>,
        /// The gain of each build in each goal.
        gains: Vec<Vec<Option<Gain>>>,
        /// Number of layouts in which each build was linked.
        layouts: u32,
        /// Number of disturbed runs.
        rejected: usize,
    },
}

/// A build that is better in something and worse in something else.
#[derive(Clone, Debug, PartialEq)]
pub struct TradeOff {
    /// Name of the build.
    pub build: String,
    /// Goals in which it is better, each with the amount.
    pub better: Vec<String>,
    /// Goals in which it is worse, each with the amount.
    pub worse: Vec<String>,
    /// Probability that no build dominates it; none if there are too few rounds.
    pub p_front: Option<f64>,
}

impl fmt::Display for TradeOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (build, better, worse) = (&self.build, self.better.join(", "), self.worse.join(", "));
        write!(f, "`{build}` ({better} at the price of {worse}; P(front) {})", chance(self.p_front))
    }
}

/// The report of a study.
#[derive(Debug)]
pub struct Report {
    /// The answer from the rounds.
    pub answer: Answer,
    /// The costs of the builds.
    pub costs: Vec<Cost>,
    /// Builds that cannot be made here, and why.
    pub left_out: Vec<(String, String)>,
    /// Builds that failed, and why.
    pub failed: BTreeMap<String, String>,
    /// Disturbed, failed and dropped runs of the rounds.
    pub happened: RoundEvents,
    /// The effect of layouts.
    pub layouts: Layouts,
    /// Whether beaten builds were dropped.
    pub race: bool,
    /// Why disturbances cannot be detected, if so.
    pub blind: Option<String>,
    /// Folder of the study.
    pub folder: PathBuf,
    /// How to make each build by hand.
    pub recipes: BTreeMap<String, CargoRecipe>,
}

impl Report {
    /// Returns the recommended build; none if no difference was found, or the study is not to be trusted.
    pub fn recommended(&self) -> Option<&str> {
        let Layouts::Checked { finalists, gains, .. } = &self.layouts else { return None };
        if self.is_short() || !self.answer.copy_differs_in().is_empty() {
            return None;
        }
        let sum = |gains: &[Option<Gain>]| gains.iter().flatten().filter(|gain| gain.is_better).count();
        // In a goal without a known gain it may be worse.
        let is_better = |gains: &[Option<Gain>]| {
            gains.iter().flatten().any(|gain| gain.is_better)
                && gains.iter().all(|gain| gain.as_ref().is_some_and(|gain| !gain.is_worse))
        };
        // Finalists are sorted by certainty, so ties keep the most certain one first.
        let mut found: Vec<usize> = (0..finalists.len()).filter(|at| is_better(&gains[*at])).collect();
        found.sort_by_key(|at| std::cmp::Reverse(sum(&gains[*at])));
        found.first().map(|at| finalists[*at].as_str())
    }

    /// Returns whether there are too few rounds for any verdict.
    fn is_short(&self) -> bool {
        let of = |build: usize| self.answer.paired.estimates[build].iter().any(|one| one.rounds < ROUNDS_MIN);
        self.answer.reference.is_some_and(of)
    }

    /// Returns the build with the shortest build time among those known not to be worse than the reference; the
    /// reference itself if none is much faster to build.
    pub fn cheapest(&self) -> Option<&Cost> {
        let all = self.costs.iter().filter(|cost| self.is_no_worse(cost));
        let found = all.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let reference = self.cost_of_reference();
        let is_faster = |cost: &Cost| reference.is_none_or(|own| cost.seconds < own.seconds * (1.0 - FASTER));
        found.filter(|cost| is_faster(cost)).or(reference)
    }

    fn cost_of_reference(&self) -> Option<&Cost> {
        let name = &self.answer.table.builds[self.answer.reference?].name;
        self.costs.iter().find(|cost| cost.name == *name)
    }

    /// Returns whether a build is known not to be worse: in each goal its whole interval is above what matters. Not
    /// having found a difference is insufficient, because its value may be unknown.
    fn is_no_worse(&self, cost: &Cost) -> bool {
        let answer = &self.answer;
        let Some(build) = answer.table.build(&cost.name) else { return false };
        if Some(build) == answer.reference || self.happened.dropped.contains_key(&cost.name) {
            return false;
        }
        answer.paired.estimates[build].iter().enumerate().all(|(at, one)| {
            let (goal, scale) = (&answer.goals[at], answer.paired.scales[at]);
            let on_scale = |value: f64| if scale == Scale::Ratio { value.ln() } else { value };
            let least = |(low, high): (f64, f64)| goal.gain(on_scale(low)).min(goal.gain(on_scale(high)));
            one.interval.is_some_and(|interval| least(interval) >= -scale.of_part(goal.matters))
        })
    }

    fn cheapest_text(&self) -> String {
        let timed = |cost: &Cost| match cost.times {
            0 | 1 => format!("{:.1} s, timed once", cost.seconds),
            many => format!("{:.1} s, the median of {many}", cost.seconds),
        };
        let reference = self.cost_of_reference();
        match self.cheapest() {
            Some(cost) if reference.is_none_or(|own| own.name != cost.name) => {
                format!(
                    "the cheapest build that is known not to be worse by what matters is `{}` ({})",
                    cost.name,
                    timed(cost)
                )
            }
            Some(own) if self.costs.iter().any(|cost| self.is_no_worse(cost)) => {
                format!(
                    "no build that is known not to be worse is made noticeably faster than `{}` ({})",
                    own.name,
                    timed(own)
                )
            }
            Some(own) => format!("of no build beside `{}` is it known that it is not worse", own.name),
            None => "nothing was built here that could be cheaper".into(),
        }
    }

    /// Returns the builds that are better at a price, those most certain to be on the front first.
    pub fn trade_offs(&self) -> Vec<TradeOff> {
        let answer = &self.answer;
        let is_asked = |build: &usize| {
            let name = &answer.table.builds[*build].name;
            ![answer.reference, answer.copy].contains(&Some(*build)) && !self.happened.dropped.contains_key(name)
        };
        let of = |build: usize| {
            let goals = |verdict: Verdict| -> Vec<String> {
                let all = answer.paired.estimates[build].iter().enumerate();
                let of_verdict = all.filter(|(_, one)| one.verdict == verdict);
                let said = |at: usize, value: f64| percent(value, answer.paired.scales[at], answer.dimension(at));
                of_verdict.map(|(at, one)| format!("{} {}", answer.name(at), said(at, one.value))).collect()
            };
            TradeOff {
                build: answer.table.builds[build].name.clone(),
                better: goals(Verdict::Better),
                worse: goals(Verdict::Worse),
                p_front: answer.paired.p_front(build),
            }
        };
        let all = (0..answer.table.builds.len()).filter(is_asked).map(of);
        let mut all: Vec<TradeOff> = all.filter(|one| !one.better.is_empty() && !one.worse.is_empty()).collect();
        let surest = |one: &TradeOff| one.p_front.unwrap_or(0.0);
        all.sort_by(|a, b| surest(b).total_cmp(&surest(a)));
        all
    }

    /// Formats the report as text; with `all` every build is listed.
    pub fn text(&self, all: bool) -> String {
        let mut out = text(&self.answer, all);
        self.costs_text(&mut out);
        for (name, why) in &self.left_out {
            let _ = writeln!(out, "left out: {name}: {why}");
        }
        for (name, why) in &self.failed {
            let _ = writeln!(out, "failed: {name}: {why}");
        }
        if let Some(why) = &self.blind {
            let _ = writeln!(out, "{why}");
        }
        let RoundEvents { rejected, given_up, slow, dropped, saved, ran, .. } = &self.happened;
        if *rejected > 0 {
            let _ = writeln!(out, "{rejected} runs were disturbed and done again; {given_up} were given up");
        }
        if *slow > 0 {
            let _ = writeln!(out, "{}", slow_words(*slow));
        }
        if self.race {
            let minutes = *saved as f64 * ran.0 / (ran.1.max(1) as f64) / 60.0;
            let names: Vec<String> = dropped.iter().map(|(name, round)| format!("{name} after {round}")).collect();
            let _ = match names.is_empty() {
                true => writeln!(out, "race: no build was beaten beyond doubt before the end"),
                false if ran.1 == 0 => writeln!(out, "race: {saved} runs saved; dropped {}", names.join(", ")),
                false => writeln!(out, "race: {saved} runs ({minutes:.1} min) saved; dropped {}", names.join(", ")),
            };
        }
        self.layouts_text(&mut out);
        let _ = writeln!(out, "\n{}", self.conclusion());
        if let Some((name, recipe)) = self.recommended().and_then(|name| self.recipes.get_key_value(name)) {
            let _ = write!(out, "to build {name}:\n{recipe}");
        }
        let _ = writeln!(out, "results and builds: {}", self.folder.display());
        out
    }

    fn costs_text(&self, out: &mut String) {
        let width = self.costs.iter().map(|cost| cost.name.chars().count()).max().unwrap_or(0);
        if !self.costs.is_empty() {
            let _ = writeln!(out, "what builds cost");
        }
        for cost in &self.costs {
            let mib = cost.bytes as f64 / (1 << 20) as f64;
            let same = self.costs.iter().find(|other| other.digest == cost.digest && other.name != cost.name);
            let same = same.map_or(String::new(), |other| format!("  the same program as {}", other.name));
            let _ = writeln!(out, "  {:<width$}  {:>8.1} s  {mib:>8.2} MiB{same}", cost.name, cost.seconds);
        }
    }

    fn layouts_text(&self, out: &mut String) {
        let Layouts::Checked { finalists, goals, gains, layouts, .. } = &self.layouts else { return };
        let _ = writeln!(out, "\n{layouts} layouts each, beside the reference (and what the layout alone does)");
        for (finalist, gains) in finalists.iter().zip(gains) {
            let each = goals
                .iter()
                .zip(gains)
                .map(|(goal, gain)| format!("{goal} {}", gain.as_ref().map_or("–".into(), said)));
            let _ = writeln!(out, "  {finalist}: {}", each.collect::<Vec<_>>().join(", "));
        }
    }

    /// Returns the recommendation in one sentence.
    pub fn conclusion(&self) -> String {
        let differs = self.answer.copy_differs_in();
        if self.is_short() {
            return format!("nothing can be said: there are too few rounds, and {ROUNDS_MIN} are needed at least");
        }
        if !differs.is_empty() {
            return format!(
                "nothing is recommended: the reference and its copy, which are one program, differ in {}: the machine was \
                 not the same to both",
                differs.join(", ")
            );
        }
        if let Some(name) = self.recommended() {
            return format!("recommended: `{name}`: it beats the reference by more than layouts differ");
        }
        let cheapest = self.cheapest_text();
        let is_or_are = |names: &[String]| match names {
            [one] => format!("`{one}` is"),
            many => format!("`{}` are", many.join("`, `")),
        };
        match &self.layouts {
            Layouts::NoFinalist => match &self.trade_offs()[..] {
                [] => format!("{}; {cheapest}", self.none_is_better()),
                all => {
                    let named: Vec<String> = all.iter().take(NAMED).map(TradeOff::to_string).collect();
                    let more = all.len().saturating_sub(NAMED);
                    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                    format!(
                        "no build is better without a price. Better at one: {}{more}. Which to take is a choice; \
                         {cheapest}",
                        named.join(", ")
                    )
                }
            },
            Layouts::NotChecked { finalists, why } => format!(
                "nothing is recommended: {} better in the layout that was linked, and what another layout would do is \
                 not known: {why}",
                is_or_are(finalists)
            ),
            Layouts::Checked { others, gains, .. } => {
                let others = match &others[..] {
                    [] => String::new(),
                    some => format!("; {} better, but not built here, and in one layout", is_or_are(some)),
                };
                let is_unknown = gains.iter().flatten().any(Option::is_none);
                let unknown = if is_unknown { "; of some goal too few layouts have a value" } else { "" };
                format!(
                    "no difference found: no build is better by more than layouts differ{unknown}{others}; {cheapest}"
                )
            }
        }
    }

    /// Says that no build is better, and whether some are worse.
    fn none_is_better(&self) -> String {
        let answer = &self.answer;
        let others = (0..answer.table.builds.len()).filter(|at| ![answer.reference, answer.copy].contains(&Some(*at)));
        let is_worse = |build: &usize| answer.paired.estimates[*build].iter().any(|one| one.verdict == Verdict::Worse);
        let (worse, rest): (Vec<usize>, Vec<usize>) = others.partition(is_worse);
        match (worse.len(), rest.len()) {
            (0, _) => "no difference found: no build is better beyond the noise".into(),
            (1, 0) => "no build is better: the other is worse".into(),
            (all, 0) => format!("no build is better: all {all} others are worse"),
            (some, rest) => {
                let all = some + rest;
                format!(
                    "no build is better beyond the noise: {some} of {all} are worse, and of the rest no difference was found"
                )
            }
        }
    }

    /// Returns the whole report as JSON.
    pub fn json(&self) -> Value {
        let costs = self.costs.iter().map(
            |cost| json!({ "build": cost.name, "seconds": cost.seconds, "times": cost.times, "bytes": cost.bytes, "sha256": cost.digest }),
        );
        let trade_offs = self
            .trade_offs()
            .into_iter()
            .map(|one| json!({ "build": one.build, "better": one.better, "worse": one.worse, "p_front": one.p_front }));
        let layouts = match &self.layouts {
            Layouts::NoFinalist => json!({ "finalists": [] }),
            Layouts::NotChecked { finalists, why } => json!({ "finalists": finalists, "not_checked": why }),
            Layouts::Checked { finalists, others, goals, gains, layouts, rejected } => json!({
                "finalists": finalists,
                "not_built_here": others,
                "layouts": layouts,
                "rejected": rejected,
                "gains": finalists.iter().zip(gains).map(|(name, gains)| {
                    let json = |gain: &Option<Gain>| gain.as_ref().map_or(Value::Null, gain_json);
                    let all = goals.iter().zip(gains).map(|(goal, gain)| (goal.clone(), json(gain)));
                    (name.clone(), Value::Object(all.collect()))
                }).collect::<Map<_, _>>(),
            }),
        };
        json!({
            "answer": self.answer.json(),
            "costs": costs.collect::<Vec<_>>(),
            "left_out": self.left_out.iter().cloned().collect::<BTreeMap<_, _>>(),
            "failed": self.failed,
            "disturbance_not_seen": self.blind,
            "rejected": self.happened.rejected,
            "given_up": self.happened.given_up,
            "slow": self.happened.slow,
            "dropped_after_round": self.happened.dropped,
            "runs_saved": self.happened.saved,
            "layouts": layouts,
            "trade_offs": trade_offs.collect::<Vec<_>>(),
            "recommended": self.recommended(),
            "recipe": self.recommended().and_then(|name| self.recipes.get(name)).map(CargoRecipe::to_string),
            "cheapest": self.cheapest().map(|cost| &cost.name),
            "conclusion": self.conclusion(),
        })
    }
}

fn gain_json(gain: &Gain) -> Value {
    json!({
        "compared_by": if gain.is_ratio { "ratio" } else { "difference" },
        "estimate": gain.value,
        "interval": [gain.interval.0, gain.interval.1],
        "layout_spread": gain.spread,
        "better": gain.is_better,
        "worse": gain.is_worse,
    })
}

/// Formats a gain with its interval, its spread over layouts, and the verdict.
pub fn said(gain: &Gain) -> String {
    let verdict = if gain.is_better {
        " better"
    } else if gain.is_worse {
        " worse"
    } else {
        ""
    };
    let (low, high) = gain.interval;
    if gain.is_ratio {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let (value, low, high) = (percent(gain.value), percent(low), percent(high));
        format!("{value:+.1} % [{low:+.1} %, {high:+.1} %] (±{:.1} %){verdict}", gain.spread * 100.0)
    } else {
        format!("{:+.4} [{low:+.4}, {high:+.4}] (±{:.4}){verdict}", gain.value, gain.spread)
    }
}

/// Describes runs that were accepted before a better pace was known.
pub fn slow_words(slow: usize) -> String {
    format!("{slow} runs were taken before a better pace was known, and the cores were slower than that")
}

#[cfg(test)]
mod tests {
    use hearth_stats::table::Table;

    use super::*;
    use crate::analysis::{Question, analyze};

    /// A study in which nothing is better: `noisy` is nearly unknown, `sure` equals the reference to a hundredth.
    fn report(costs: &[(&str, f64)]) -> Report {
        let mut text = "nb_build,metric,value,repetition\n".to_owned();
        for round in 0..8 {
            let (little, much) = ([0.1, -0.2, 0.3, -0.1][round % 4], [20.0, -30.0, 25.0, -20.0][round % 4]);
            for (name, value) in
                [("plain", 100.0), ("sure", 100.0 - little), ("noisy", 100.0 + much), ("near", 100.0 + little)]
            {
                text.push_str(&format!("{name},tps,{value},{round}\n"));
            }
        }
        report_of(&text, costs)
    }

    fn report_of(text: &str, costs: &[(&str, f64)]) -> Report {
        let question = Question {
            max: vec!["tps".into()],
            reference: Some("plain".into()),
            matters_else: 0.02,
            ..Question::default()
        };
        let cost = |(name, seconds): &(&str, f64)| Cost {
            name: (*name).into(),
            seconds: *seconds,
            times: 1,
            bytes: 1,
            digest: (*name).into(),
        };
        Report {
            answer: analyze(Table::read(text.as_bytes()).expect("a table"), &question).expect("an answer"),
            costs: costs.iter().map(cost).collect(),
            left_out: Vec::new(),
            failed: BTreeMap::new(),
            happened: RoundEvents::default(),
            layouts: Layouts::NoFinalist,
            race: false,
            blind: None,
            folder: "out".into(),
            recipes: BTreeMap::new(),
        }
    }

    #[test]
    fn the_cheapest_build_is_one_that_is_known_not_to_be_worse() {
        for (costs, name, said) in [
            // The values of the build with the shortest build time are unknown.
            (
                &[("plain", 100.0), ("noisy", 10.0), ("sure", 50.0)][..],
                "sure",
                "known not to be worse by what matters is `sure` (50.0 s, timed once)",
            ),
            (
                &[("plain", 100.0), ("noisy", 10.0)],
                "plain",
                "of no build beside `plain` is it known that it is not worse",
            ),
            // A single timing is not distinguishable from a slightly longer one.
            (
                &[("plain", 100.0), ("sure", 95.0)],
                "plain",
                "is made noticeably faster than `plain` (100.0 s, timed once)",
            ),
            (&[("plain", 100.0), ("near", 40.0), ("sure", 50.0)], "near", "is `near` (40.0 s, timed once)"),
        ] {
            let mut report = report(costs);
            assert_eq!(report.cheapest().map(|cost| cost.name.as_str()), Some(name), "{}", report.text(true));
            assert!(report.conclusion().contains(said), "{}", report.conclusion());
            assert!(!report.text(false).contains("cannot be seen"));
            report.blind = Some("cannot be seen here".into());
            assert!(report.text(false).contains("\ncannot be seen here\n"));
        }
    }

    #[test]
    fn builds_that_are_worse_are_not_announced_as_equal() {
        let of = |builds: &[(&str, f64)]| {
            let row = |round: usize| {
                let noise = [0.1, -0.2, 0.3, -0.1][round % 4];
                let row = move |(name, tps): &(&str, f64)| {
                    format!("{name},tps,{},{round}\n", tps + noise * (tps + round as f64).sin())
                };
                builds.iter().map(row).collect::<String>()
            };
            let rows: String = (0..8).map(row).collect();
            report_of(&format!("nb_build,metric,value,repetition\n{rows}"), &[("plain", 9.0)]).conclusion()
        };
        let said = of(&[("plain", 100.0), ("a", 57.0), ("b", 43.0)]);
        assert!(said.starts_with("no build is better: all 2 others are worse; "), "{said}");
        let said = of(&[("plain", 100.0), ("a", 57.0)]);
        assert!(said.starts_with("no build is better: the other is worse; "), "{said}");
        let said = of(&[("plain", 100.0), ("a", 57.0), ("same", 100.0)]);
        assert!(
            said.starts_with("no build is better beyond the noise: 1 of 2 are worse, and of the rest no "),
            "{said}"
        );
        let said = of(&[("plain", 100.0), ("same", 100.0)]);
        assert!(said.starts_with("no difference found: no build is better beyond the noise; "), "{said}");
    }
}
