//! Formats an [`Answer`] for a terminal.

use std::fmt::Write;

use hearth_stats::paired_bootstrap::{Estimate, Scale, Verdict};
use hearth_stats::unit::{Dimension, figure, scale};

use crate::analysis::{Answer, Rule};

/// Builds that are listed if there are more.
const LISTED: usize = 25;

/// Formats the answer; with `all` every build is listed.
pub fn text(answer: &Answer, all: bool) -> String {
    let mut out = String::new();
    let goals: Vec<String> = answer
        .goals
        .iter()
        .enumerate()
        .map(|(at, goal)| format!("{} {}", answer.name(at), if goal.more { "↑" } else { "↓" }))
        .collect();
    let rule = match answer.rule {
        Rule::Bootstrap => format!(
            "paired by round, {} resamples, intervals that hold together in 95 of 100 studies",
            answer.paired.resamples
        ),
        Rule::Article => "medians with half-widths, each interval by itself in 95 of 100 studies".into(),
    };
    let (builds, rounds) = (answer.table.builds.len(), answer.table.rounds.len());
    let _ = writeln!(out, "{builds} builds, {rounds} repetitions; {}\n{rule}\n", goals.join(", "));
    table(&mut out, answer, all);
    summary(&mut out, answer);
    effects(&mut out, answer);
    for note in &answer.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn table(out: &mut String, answer: &Answer, all: bool) {
    let mut order: Vec<usize> = (0..answer.table.builds.len()).collect();
    let is_near = |build: &usize| answer.near.contains(build);
    order.sort_by(|a, b| {
        let front = answer.paired.on_front[*b].total_cmp(&answer.paired.on_front[*a]);
        is_near(b).cmp(&is_near(a)).then(front).then(a.cmp(b))
    });
    let mut rows = vec![heading(answer)];
    let listed = if all { order.len() } else { LISTED };
    let shown = order.iter().take(listed).chain(order.iter().skip(listed).filter(|at| Some(**at) == answer.reference));
    rows.extend(shown.map(|build| row(answer, *build)));
    let columns = rows[0].len();
    let has_options = has_options(answer);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &rows {
        let mut line = format!("{:<w$}", row[0], w = widths[0]);
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate().skip(1) {
            let _ = match has_options && at + 1 == columns {
                true => write!(line, "  {cell}"),
                false => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if order.len() > rows.len() - 1 {
        let _ = writeln!(out, "… and {} more: --all lists them", order.len() + 1 - rows.len());
    }
    out.push('\n');
}

fn heading(answer: &Answer) -> Vec<String> {
    let mut row = vec!["build".to_owned()];
    row.extend((0..answer.goals.len()).map(|goal| answer.name(goal).to_owned()));
    row.push("P(front)".into());
    row.extend(answer.paired.better.is_some().then(|| "P(better)".into()));
    row.extend(has_options(answer).then(|| "options".into()));
    row
}

/// Returns whether some build has options that its name does not contain.
fn has_options(answer: &Answer) -> bool {
    (0..answer.table.builds.len()).any(|build| answer.options_of(build).is_some())
}

fn row(answer: &Answer, build: usize) -> Vec<String> {
    let mut name = answer.table.builds[build].name.clone();
    if Some(build) == answer.reference {
        name.push_str(" (reference)");
    } else if answer.exact.contains(&build) {
        name.push_str(" *");
    }
    let mut row = vec![name];
    row.extend((0..answer.goals.len()).map(|goal| cell(answer, build, goal)));
    row.push(chance(answer.paired.p_front(build)));
    row.extend(answer.paired.better.as_ref().map(|_| chance(answer.paired.p_better(build))));
    row.extend(has_options(answer).then(|| answer.options_of(build).unwrap_or_default()));
    row
}

/// Formats a probability, if known.
pub fn chance(of: Option<f64>) -> String {
    of.map_or("–".into(), |of| format!("{of:.2}"))
}

fn cell(answer: &Answer, build: usize, goal: usize) -> String {
    let median = &answer.article.medians[build][goal];
    let is_compared = answer.rule == Rule::Bootstrap && answer.reference.is_some() && Some(build) != answer.reference;
    if median.count == 0 {
        "–".into()
    } else if is_compared {
        compared(&answer.paired.estimates[build][goal], answer.paired.scales[goal], answer.dimension(goal))
    } else {
        let (one, unit) = in_terminal(median.median, answer.dimension(goal));
        let half_width = median.known_half_width().map_or("–".into(), |half| figure(half / one));
        format!("{} ±{half_width}{unit}", figure(median.median / one))
    }
}

/// The factor and the unit in which values of this size are printed. Plain numbers stay as they are.
fn in_terminal(size: f64, dimension: Dimension) -> (f64, String) {
    match dimension {
        Dimension::Number => (1.0, String::new()),
        _ => {
            let (one, unit) = scale(size.abs(), dimension);
            (one, format!(" {unit}"))
        }
    }
}

/// Formats a ratio as percent above one, or a difference in its unit.
pub fn percent(value: f64, scale: Scale, dimension: Dimension) -> String {
    match scale {
        Scale::Ratio => format!("{:+.1} %", (value - 1.0) * 100.0),
        Scale::Difference => {
            let (one, unit) = in_terminal(value, dimension);
            format!("{:+.4}{unit}", value / one)
        }
    }
}

fn compared(one: &Estimate, scale: Scale, dimension: Dimension) -> String {
    let say = |value: f64| percent(value, scale, dimension);
    let mark = match one.verdict {
        Verdict::Better => " better",
        Verdict::Worse => " worse",
        Verdict::NoDifference | Verdict::Unknown => "",
    };
    match one.interval {
        Some((low, high)) => format!("{} [{}, {}]{mark}", say(one.value), say(low), say(high)),
        None => say(one.value),
    }
}

fn summary(out: &mut String, answer: &Answer) {
    let _ = writeln!(out, "on the front by estimate (*): {}", listed(&answer.names(&answer.exact)));
    let _ = writeln!(out, "not distinguishable from it:  {}", listed(&answer.names(&answer.near)));
    let Some(reference) = answer.reference else { return };
    if answer.better.is_empty() {
        let name = &answer.table.builds[reference].name;
        let _ = writeln!(
            out,
            "better than {name} in every goal: none{}",
            if answer.rule == Rule::Bootstrap { " beyond the noise" } else { "" }
        );
    }
    for build in &answer.better {
        let by = (0..answer.goals.len()).map(|goal| format!("{} {}", answer.name(goal), beside(answer, *build, goal)));
        let by = by.collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "better than the reference:    {} ({by})", answer.table.builds[*build].name);
    }
    if let Some(build) = answer.best() {
        recipe(out, answer, build);
    }
    out.push('\n');
}

/// Writes how to make a build, if its options are known.
pub(super) fn recipe(out: &mut String, answer: &Answer, build: usize) {
    if let Some(recipe) = answer.recipe(build) {
        let _ = write!(out, "to build {}:\n{recipe}", answer.table.builds[build].name);
    }
}

/// Formats a build relative to the reference in a goal, by the rule: in percent, or as a difference where percentages
/// are undefined.
pub fn beside(answer: &Answer, build: usize, goal: usize) -> String {
    match (answer.percents(build)[goal], answer.difference(build, goal)) {
        (Some(by), _) => format!("{by:+.2} %"),
        (None, Some(by)) => percent(by, Scale::Difference, answer.dimension(goal)),
        (None, None) => "–".into(),
    }
}

fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn effects(out: &mut String, answer: &Answer) {
    let found = &answer.effects;
    if found.effects.is_empty() {
        return;
    }
    let explained: Vec<String> = found
        .explained
        .iter()
        .enumerate()
        .map(|(goal, part)| format!("{} {:.0} %", answer.name(goal), part * 100.0))
        .collect();
    let _ = writeln!(
        out,
        "what options do, beside the mean of all builds (they explain of what differs: {})",
        explained.join(", ")
    );
    for one in &found.effects {
        let parts = one.parts.iter().enumerate().filter(|(_, part)| part.is_finite());
        let parts: Vec<String> =
            parts.map(|(goal, part)| format!("{} {:+.1} %", answer.name(goal), part * 100.0)).collect();
        let _ =
            writeln!(out, "  {} = {}: {}", answer.table.options[one.level.option], one.level.value, parts.join(", "));
    }
    if let Some(bad) = &found.bad {
        let terms: Vec<String> =
            bad.terms.iter().map(|term| format!("{} = {}", answer.table.options[term.option], term.value)).collect();
        let _ = writeln!(
            out,
            "very bad builds: {} of {}; of the {} with {}, {} are",
            bad.bad_in_all.len(),
            answer.table.builds.len(),
            bad.builds,
            terms.join(" and "),
            bad.bad,
        );
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use hearth_stats::table::Table;

    use super::*;
    use crate::analysis::{Question, analyze};

    #[test]
    fn a_study_is_reported_in_lines() {
        let mut rows = "build,lto,metric,value,repetition\n".to_owned();
        for round in 0..8 {
            let drift = 1.0 + f64::from(round) / 100.0;
            for (build, lto, speed) in [("plain", "off", 100.0), ("fat", "fat", 130.0), ("slow", "thin", 40.0)] {
                let jitter = f64::from((round * 7 + speed as i32) % 5) / 10.0;
                rows.push_str(&format!("{build},{lto},speed,{},{round}\n", speed * drift + jitter));
            }
        }
        let table = Table::read(rows.as_bytes()).expect("fine");
        let question = Question { max: vec!["speed".into()], reference: Some("plain".into()), ..Question::default() };
        let said = text(&analyze(table, &question).expect("answered"), false);
        for part in [
            "3 builds, 8 repetitions; speed ↑",
            "plain (reference)",
            "fat *",
            "] better",
            "] worse",
            "1.00",
            "lto = fat",
            "to build fat:\n  Cargo.toml:\n    [profile.release]\n    lto = \"fat\"\n",
        ] {
            assert!(said.contains(part), "`{part}` is not in:\n{said}");
        }
        assert!(said.contains("better than the reference:    fat (speed +2") || said.contains("(speed +3"), "{said}");
    }

    #[test]
    fn numbered_builds_show_their_options() {
        let mut rows = "nb_build,lto,codegen-units,metric,value,repetition\n".to_owned();
        for round in 0..8 {
            for (build, lto, units, speed) in [("1", "off", "16", 100), ("2", "true", "1", 130), ("3", "off", "1", 110)]
            {
                rows.push_str(&format!("{build},{lto},{units},speed,{},{round}\n", speed + round));
            }
        }
        let table = Table::read(rows.as_bytes()).expect("fine");
        let question = Question { max: vec!["speed".into()], reference: Some("1".into()), ..Question::default() };
        let answer = analyze(table, &question).expect("answered");
        let said = text(&answer, false);
        assert!(
            said.lines().any(|line| line.starts_with("2 *") && line.ends_with("lto=true, codegen-units=1")),
            "{said}"
        );
        assert!(said.contains("    codegen-units = 1\n") && said.contains("    lto = \"fat\"\n"), "{said}");
        assert_eq!(answer.json()["options"]["3"]["codegen-units"], "1");
    }

    #[test]
    fn confounded_design_is_noted() {
        let mut rows = "nb_build,lto,units,metric,value,repetition\n".to_owned();
        for round in 0..8 {
            for (build, lto, units, speed) in [("1", "off", "16", 100), ("2", "fat", "1", 130), ("3", "off", "16", 101)]
            {
                rows.push_str(&format!("{build},{lto},{units},speed,{},{round}\n", speed + round));
            }
        }
        let table = Table::read(rows.as_bytes()).expect("fine");
        let question = Question { max: vec!["speed".into()], reference: Some("1".into()), ..Question::default() };
        let said = text(&analyze(table, &question).expect("answered"), false);
        assert!(said.contains("note: the design is confounded: `lto` and `units` always change together"), "{said}");
    }

    /// Rows of `metric` without a header, from `(build, value)`, the same in each round.
    fn rows(metric: &str, rounds: usize, all: &[(&str, &str)]) -> String {
        let row = |round: usize| all.iter().map(move |(build, value)| format!("{build},{metric},{value},{round}\n"));
        (0..rounds).flat_map(row).collect()
    }

    fn answer(rows: &str, max: &str, rule: Rule) -> Answer {
        let table = Table::read(format!("build,metric,value,repetition\n{rows}").as_bytes()).expect("fine");
        let (max, reference) = (vec![max.into()], Some("a".into()));
        analyze(table, &Question { max, reference, rule, ..Question::default() }).expect("answered")
    }

    #[test]
    fn one_repetition_proves_nothing() {
        let found = answer(&rows("x", 1, &[("a", "10"), ("b", "11")]), "x", Rule::Bootstrap);
        let said = text(&found, true);
        assert!(said.contains("10.00 ±–") && !said.contains("±0") && !said.contains("1.00\n"), "{said}");
        let json = found.json();
        let none = serde_json::Value::Null;
        assert_eq!((&json["p_front"]["b"], &json["p_better"]["b"]), (&none, &none));
        assert_eq!(json["estimates"]["b"][0]["half_width"], none);
    }

    #[test]
    fn beside_a_reference_that_is_not_above_zero_there_are_no_percent() {
        let all = rows("x", 8, &[("a", "-0.5"), ("b", "12")]);
        for rule in [Rule::Article, Rule::Bootstrap] {
            let found = answer(&all, "x", rule);
            assert_eq!(found.names(&found.better), ["b"]);
            let said = text(&found, true);
            assert!(said.contains("b (x +12.5000)") && !said.contains(" %)"), "{said}");
            assert_eq!(found.json()["relative_table"][0]["x"], serde_json::Value::Null);
        }
    }

    #[test]
    fn values_keep_their_units() {
        let all = rows("lat", 3, &[("a", "9.905 ms"), ("b", "9.8 ms")]) + &rows("rate", 3, &[("a", "1.02 GiB/s")]);
        let found = answer(&all, "lat", Rule::Article);
        assert!(text(&found, true).contains("9.905 ±0 ms"), "{}", text(&found, true));
        let json = found.json();
        assert_eq!((&json["goals"][0]["unit"], &json["estimates"]["a"][0]["unit"]), (&"s".into(), &"s".into()));
        let rate = answer(&all, "rate", Rule::Article);
        assert!(text(&rate, true).contains("1.095 ±0 GB/s"), "{}", text(&rate, true));
        let zero = rows("lat", 8, &[("a", "0 ms"), ("b", "2.5 ms")]);
        let said = text(&answer(&zero, "lat", Rule::Bootstrap), true);
        assert!(said.contains("+2.5000 ms"), "{said}");
    }
}
