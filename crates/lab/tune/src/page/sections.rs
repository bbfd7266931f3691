//! The sections of a study's page, from the recommendation to the inputs.
//!
//! reads   an [`Answer`], a [`Report`]
//! writes  HTML

use std::fmt::{self, Write};

use hearth_page::text::escape;
use hearth_stats::paired_bootstrap::Verdict;

use super::axis::Axis;
use super::plots::{self, class};
use crate::analysis::{Answer, Rule};
use crate::matrix::report::{Layouts, Report, said, slow_words};
use crate::text::{beside, chance, percent};

/// Maximum builds in the table.
const ROWS_MAX: usize = 200;

/// Writes the body of the page.
pub fn all(answer: &Answer, study: Option<&Report>) -> String {
    let mut html = String::new();
    // Writing to a String cannot fail.
    let _ = head(&mut html, answer, study);
    html.push_str("<main>\n");
    let _ = estimates(&mut html, answer);
    if answer.goals.len() > 1 {
        html.push_str("<section class=\"card\" id=\"front\"><h2>The front</h2>\n");
        let _ = keys(&mut html, answer);
        let _ = plots::scatters(&mut html, answer);
        html.push_str("</section>\n");
    }
    html.push_str("<section class=\"card\" id=\"values\"><h2>Values of each build</h2>\n");
    html.push_str(
        "<p class=\"quiet\">The line is the median, the box has half of the values, circles are outliers.</p>\n",
    );
    let goals: Vec<usize> = answer.goals.iter().map(|goal| goal.metric).collect();
    let rest = (0..answer.table.metrics.len()).filter(|metric| !goals.contains(metric));
    for metric in goals.iter().copied().chain(rest) {
        let _ = plots::boxes(&mut html, answer, metric);
    }
    html.push_str("</section>\n");
    let _ = effects(&mut html, answer);
    if let Some(study) = study {
        let _ = layouts(&mut html, study);
        let _ = costs(&mut html, study);
    }
    html.push_str("</main>\n");
    html
}

fn head(html: &mut String, answer: &Answer, study: Option<&Report>) -> fmt::Result {
    let goals = answer.goals.iter().enumerate();
    let goals: Vec<String> =
        goals.map(|(at, goal)| format!("{} {}", escape(answer.name(at)), if goal.more { "↑" } else { "↓" })).collect();
    let rule = match answer.rule {
        Rule::Bootstrap => "paired by round; the intervals hold together in 95 of 100 studies",
        Rule::Article => "medians with half-widths; each interval by itself in 95 of 100 studies",
    };
    writeln!(
        html,
        "<header><h1>Which build is best</h1><p class=\"quiet\">{} builds, {} rounds · {} · {rule}</p></header>",
        answer.table.builds.len(),
        answer.table.rounds.len(),
        goals.join(", ")
    )?;
    html.push_str("<section class=\"card\" id=\"answer\"><h2>Answer</h2>\n");
    let conclusion = study.map_or_else(|| short(answer), Report::conclusion);
    writeln!(html, "<p class=\"says\">{}</p>", escape(&capital(&conclusion)))?;
    html.push_str("<dl class=\"facts\">\n");
    let names = |builds: &[usize]| escape(&answer.names(builds).join(", "));
    let mut pair = |name: &str, value: String| {
        let value = if value.is_empty() { "none".into() } else { value };
        writeln!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>")
    };
    pair("reference", names(&answer.reference.into_iter().collect::<Vec<_>>()))?;
    pair("on the front by estimate", names(&answer.exact))?;
    pair("not distinguishable from it", names(&answer.near))?;
    pair("better than the reference in every goal", names(&answer.better))?;
    html.push_str("</dl>\n");
    let notes: Vec<&String> = study.and_then(|study| study.blind.as_ref()).into_iter().chain(&answer.notes).collect();
    if !notes.is_empty() {
        html.push_str("<ul class=\"notes\">\n");
        for note in notes {
            let bad = if note.contains("do not trust") { " class=\"bad\"" } else { "" };
            writeln!(html, "<li{bad}>{}</li>", escape(note))?;
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</section>\n");
    Ok(())
}

fn capital(text: &str) -> String {
    let mut all = text.chars();
    all.next().map_or(String::new(), |first| first.to_uppercase().chain(all).collect())
}

/// The answer in a sentence, if no study says more.
fn short(answer: &Answer) -> String {
    let differs = answer.copy_differs_in();
    match (answer.reference, &answer.names(&answer.better)[..]) {
        _ if !differs.is_empty() => {
            format!("the reference and its copy differ in {}: do not trust this", differs.join(", "))
        }
        (None, _) => format!("on the front by estimate: {}", answer.names(&answer.exact).join(", ")),
        (Some(_), []) => "no build is better than the reference in every goal".into(),
        (Some(_), some) => format!("better than the reference in every goal: {}", some.join(", ")),
    }
}

fn keys(html: &mut String, answer: &Answer) -> fmt::Result {
    html.push_str("<p class=\"quiet keys\">");
    for (class, word) in [
        ("front", "on the front by estimate"),
        ("near", "not distinguishable from it"),
        ("reference", "reference"),
        ("other", "others"),
    ] {
        if class != "reference" || answer.reference.is_some() {
            write!(html, "<span class=\"key {class}\"></span>{word} ")?;
        }
    }
    writeln!(html, "· boxes are where a build may be as well</p>")
}

/// Writes the table of estimates, builds near the front first.
fn estimates(html: &mut String, answer: &Answer) -> fmt::Result {
    let mut order: Vec<usize> = (0..answer.table.builds.len()).collect();
    let rank =
        |build: usize| ["front", "near", "reference", "other"].iter().position(|one| *one == class(answer, build));
    order.sort_by(|a, b| {
        let front = answer.paired.on_front[*b].total_cmp(&answer.paired.on_front[*a]);
        rank(*a).cmp(&rank(*b)).then(front).then(a.cmp(b))
    });
    html.push_str("<section class=\"card\" id=\"estimates\"><h2>Estimates</h2>\n<div class=\"scroll\"><table><thead><tr><th>build</th>");
    for goal in 0..answer.goals.len() {
        let name = escape(answer.name(goal));
        let is_compared = answer.reference.is_some();
        write!(html, "<th>median {name}</th>{}", if is_compared { "<th>beside the reference</th>" } else { "" })?;
    }
    html.push_str("<th>P(front)</th>");
    html.push_str(if answer.paired.better.is_some() { "<th>P(better)</th>" } else { "" });
    html.push_str("</tr></thead>\n<tbody>\n");
    for build in order.iter().take(ROWS_MAX) {
        row(html, answer, *build)?;
    }
    html.push_str("</tbody></table></div>\n");
    if order.len() > ROWS_MAX {
        writeln!(html, "<p class=\"quiet\">{} more builds are in the JSON.</p>", order.len() - ROWS_MAX)?;
    }
    html.push_str("</section>\n");
    Ok(())
}

fn row(html: &mut String, answer: &Answer, build: usize) -> fmt::Result {
    let class = class(answer, build);
    let what = match class {
        "reference" => " <small>reference</small>",
        "front" => " <small>on the front by estimate</small>",
        _ => "",
    };
    let name = escape(&answer.table.builds[build].name);
    let options = answer.options_of(build).map_or(String::new(), |all| format!(" <small>{}</small>", escape(&all)));
    write!(html, "<tr class=\"{class}\"><td><span class=\"key {class}\"></span>{name}{options}{what}</td>")?;
    for goal in 0..answer.goals.len() {
        let one = &answer.article.medians[build][goal];
        let kind = answer.table.metrics[answer.goals[goal].metric].dimension;
        match Axis::of([one.median].into_iter(), kind) {
            Some(axis) => {
                let median = axis.said(one.median);
                let half = one.known_half_width().map_or("–".into(), |half| axis.said(half));
                write!(html, "<td data-value=\"{}\">{median}<small>± {half}</small></td>", one.median)?;
            }
            None => html.push_str("<td>–</td>"),
        }
        if answer.reference.is_none() {
            continue;
        }
        match (Some(build) == answer.reference, answer.rule) {
            (true, _) => html.push_str("<td>–</td>"),
            (false, Rule::Article) => write!(html, "<td>{}</td>", beside(answer, build, goal))?,
            (false, Rule::Bootstrap) => by_rounds(html, answer, build, goal)?,
        }
    }
    write!(html, "<td>{}</td>", chance(answer.paired.p_front(build)))?;
    if answer.paired.better.is_some() {
        write!(html, "<td>{}</td>", chance(answer.paired.p_better(build)))?;
    }
    html.push_str("</tr>\n");
    Ok(())
}

/// Writes the paired estimate of a build relative to the reference.
fn by_rounds(html: &mut String, answer: &Answer, build: usize, goal: usize) -> fmt::Result {
    let one = &answer.paired.estimates[build][goal];
    if !one.value.is_finite() {
        html.push_str("<td>–</td>");
        return Ok(());
    }
    let said = |value: f64| percent(value, answer.paired.scales[goal], answer.dimension(goal));
    let interval = one.interval.map(|(low, high)| format!("<small>[{}, {}]</small>", said(low), said(high)));
    let (verdict, word) = match one.verdict {
        Verdict::Better => ("good", " better"),
        Verdict::Worse => ("bad", " worse"),
        Verdict::NoDifference | Verdict::Unknown => ("", ""),
    };
    write!(html, "<td class=\"{verdict}\">{}{word}{}</td>", said(one.value), interval.unwrap_or_default())
}

fn effects(html: &mut String, answer: &Answer) -> fmt::Result {
    let found = &answer.effects;
    if found.effects.is_empty() {
        return Ok(());
    }
    html.push_str("<section class=\"card\" id=\"effects\"><h2>What options do</h2>\n");
    for goal in 0..answer.goals.len() {
        plots::effects(html, answer, goal)?;
    }
    if let Some(bad) = &found.bad {
        let terms = bad.terms.iter().map(|term| format!("{} = {}", answer.table.options[term.option], term.value));
        writeln!(
            html,
            "<p class=\"says\">Very bad builds: {} of {}; of the {} with {}, {} are.</p>",
            bad.bad_in_all.len(),
            answer.table.builds.len(),
            bad.builds,
            escape(&terms.collect::<Vec<_>>().join(" and ")),
            bad.bad
        )?;
    }
    html.push_str("</section>\n");
    Ok(())
}

fn layouts(html: &mut String, study: &Report) -> fmt::Result {
    let Layouts::Checked { finalists, goals, gains, layouts, .. } = &study.layouts else { return Ok(()) };
    writeln!(
        html,
        "<section class=\"card\" id=\"layouts\"><h2>Other orders of the functions</h2>\n<p class=\"quiet\">{layouts} layouts \
         of each build beside as many of the reference; behind ± what the layout alone does.</p>\n\
         <div class=\"scroll\"><table><thead><tr><th>build</th>"
    )?;
    goals.iter().try_for_each(|goal| write!(html, "<th>{}</th>", escape(goal)))?;
    html.push_str("</tr></thead><tbody>\n");
    for (finalist, gains) in finalists.iter().zip(gains) {
        write!(html, "<tr><td>{}</td>", escape(finalist))?;
        for gain in gains {
            let class = match gain {
                Some(gain) if gain.is_better => "good",
                Some(gain) if gain.is_worse => "bad",
                _ => "",
            };
            write!(html, "<td class=\"{class}\">{}</td>", gain.as_ref().map_or("–".into(), said))?;
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></section>\n");
    Ok(())
}

fn costs(html: &mut String, study: &Report) -> fmt::Result {
    html.push_str(
        "<section class=\"card\" id=\"costs\"><h2>What builds cost</h2>\n<div class=\"scroll\"><table><thead><tr>",
    );
    html.push_str("<th>build</th><th>seconds</th><th>MiB</th><th class=\"words\">sha256</th></tr></thead><tbody>\n");
    for cost in &study.costs {
        let short: String = cost.digest.chars().take(16).collect();
        let mib = cost.bytes as f64 / f64::from(1 << 20);
        writeln!(
            html,
            "<tr><td>{}</td><td>{:.1}</td><td>{mib:.2}</td><td class=\"words\">{short}</td></tr>",
            escape(&cost.name),
            cost.seconds
        )?;
    }
    html.push_str("</tbody></table></div>\n");
    for (what, all) in [
        ("Left out", study.left_out.iter().map(|(name, why)| (name, why)).collect::<Vec<_>>()),
        ("Failed", study.failed.iter().collect()),
    ] {
        for (name, why) in all {
            writeln!(html, "<p><b>{what}:</b> {}: {}</p>", escape(name), escape(why))?;
        }
    }
    if study.happened.rejected > 0 {
        writeln!(
            html,
            "<p class=\"quiet\">{} runs were disturbed and done again; {} were given up.</p>",
            study.happened.rejected, study.happened.given_up
        )?;
    }
    if study.happened.slow > 0 {
        writeln!(html, "<p class=\"quiet\">{}.</p>", slow_words(study.happened.slow))?;
    }
    html.push_str("</section>\n");
    Ok(())
}
