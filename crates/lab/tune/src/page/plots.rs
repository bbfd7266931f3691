//! Plots of a study: box plots per build, scatters of two goals, effects of options.
//!
//! reads   an [`Answer`]
//! writes  HTML with SVG, positions in percent, so that circles stay round at any page width
//! memory  [`BOXES_MAX`] boxes per metric, [`POINTS_MAX`] points per pair of goals, besides the reference
//! drops   builds beyond these; it says how many

use std::fmt::{self, Write};

use hearth_page::text::escape;
use hearth_stats::paired_bootstrap::Scale;
use hearth_stats::unit::Dimension;

use super::axis::Axis;
use crate::analysis::{Answer, Rule};

const BOXES_MAX: usize = 60;
const POINTS_MAX: usize = 400;
/// Maximum pairs of goals.
const PAIRS_MAX: usize = 6;
/// A value further from its box than this many box lengths is an outlier.
const FENCE: f64 = 1.5;
/// Size of a name in a scatter, in percent of the plot, per character and per line.
const NAME: (f64, f64) = (0.95, 5.0);

/// Returns a build's class in the style sheet.
pub fn class(answer: &Answer, build: usize) -> &'static str {
    match () {
        () if Some(build) == answer.reference => "reference",
        () if answer.exact.contains(&build) => "front",
        () if answer.near.contains(&build) => "near",
        () => "other",
    }
}

/// The values of a build as a box plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Quartiles {
    /// The first quartile, the median and the third quartile.
    pub box_: [f64; 3],
    /// The least and the greatest value that is not an outlier.
    pub whiskers: [f64; 2],
    /// The values beyond the whiskers, in ascending order.
    pub outliers: Vec<f64>,
}

impl Quartiles {
    /// Computes the quartiles; none without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quantile = |part: f64| {
            let at = part * last as f64;
            let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
            below + (above - below) * at.fract()
        };
        let box_ = [0.25, 0.5, 0.75].map(quantile);
        let reach = FENCE * (box_[2] - box_[0]);
        let is_in = |value: &f64| (box_[0] - reach..=box_[2] + reach).contains(value);
        let (inside, outliers): (Vec<f64>, Vec<f64>) = sorted.iter().partition(|value| is_in(value));
        let whiskers = [inside.first().copied().unwrap_or(box_[0]), inside.last().copied().unwrap_or(box_[2])];
        Some(Self { box_, whiskers, outliers })
    }
}

/// Draws a box plot of a metric: one line per build, the best first, or the greatest if the metric is no goal.
pub fn boxes(html: &mut String, answer: &Answer, metric: usize) -> fmt::Result {
    let table = &answer.table;
    let (name, dimension) = (&table.metrics[metric].name, table.metrics[metric].dimension);
    let goal = answer.goals.iter().find(|goal| goal.metric == metric);
    let all = (0..table.builds.len()).filter_map(|build| Some((build, Quartiles::of(&table.present(metric, build))?)));
    let mut all: Vec<(usize, Quartiles)> = all.collect();
    let gain = |one: &Quartiles| goal.map_or(one.box_[1], |goal| goal.gain(one.box_[1]));
    all.sort_by(|a, b| gain(&b.1).total_cmp(&gain(&a.1)));
    let there = all.len();
    let mut rank = 0;
    all.retain(|(build, _)| {
        rank += 1;
        rank <= BOXES_MAX || Some(*build) == answer.reference
    });
    let values = || all.iter().flat_map(|(_, one)| one.outliers.iter().chain(&one.whiskers).copied());
    let Some(axis) = Axis::of(values(), dimension) else {
        return writeln!(html, "<p class=\"quiet\">{}: no value.</p>", escape(name));
    };
    let wanted = match goal.map(|goal| goal.more) {
        Some(true) => "more is better",
        Some(false) => "less is better",
        None => "for information",
    };
    let unit = if axis.unit.is_empty() { String::new() } else { format!("{}, ", axis.unit) };
    writeln!(
        html,
        "<figure class=\"plot lanes\" data-plot=\"values of {0}\"><figcaption>{0} <small>{1}{wanted}</small></figcaption>",
        escape(name),
        escape(&unit)
    )?;
    let base = all.iter().find(|(build, _)| Some(*build) == answer.reference).map(|(_, one)| one.box_[1]);
    for (build, one) in &all {
        lane(
            html,
            answer,
            *build,
            &format!(
                "{}, quartiles {} and {}, {} values{}",
                axis.said(one.box_[1]),
                axis.said(one.box_[0]),
                axis.said(one.box_[2]),
                table.present(metric, *build).len(),
                match one.outliers.len() {
                    0 => String::new(),
                    many => format!(", {many} of them outliers"),
                }
            ),
        )?;
        lines(html, &axis, base)?;
        let [q1, q2, q3] = one.box_.map(|value| axis.at(value));
        let [low, high] = one.whiskers.map(|value| axis.at(value));
        write!(html, "<line class=\"whisker\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"50%\" y2=\"50%\"/>")?;
        for end in [low, high] {
            write!(html, "<line class=\"whisker\" x1=\"{end:.2}%\" x2=\"{end:.2}%\" y1=\"32%\" y2=\"68%\"/>")?;
        }
        write!(html, "<rect class=\"box\" x=\"{q1:.2}%\" y=\"20%\" width=\"{:.2}%\" height=\"60%\"/>", q3 - q1)?;
        for value in &one.outliers {
            write!(html, "<circle class=\"outlier\" cx=\"{:.2}%\" cy=\"50%\" r=\"2.6\"/>", axis.at(*value))?;
        }
        write!(html, "<line class=\"median\" x1=\"{q2:.2}%\" x2=\"{q2:.2}%\" y1=\"14%\" y2=\"86%\"/>")?;
        writeln!(html, "</svg><b>{}</b></div>", axis.said(one.box_[1]))?;
    }
    across(html, &axis)?;
    left_out(html, there, all.len(), goal.is_some())?;
    html.push_str("</figure>\n");
    Ok(())
}

/// Says how many boxes were left out.
fn left_out(html: &mut String, there: usize, drawn: usize, is_goal: bool) -> fmt::Result {
    if there == drawn {
        return Ok(());
    }
    let which = if is_goal { "best" } else { "greatest" };
    let beside = if drawn > BOXES_MAX { " and the reference" } else { "" };
    writeln!(html, "<p class=\"quiet\">The {BOXES_MAX} {which}{beside}; {} more are not drawn.</p>", there - drawn)
}

/// Begins a line of a plot, up to its drawing.
fn lane(html: &mut String, answer: &Answer, build: usize, says: &str) -> fmt::Result {
    let name = escape(&answer.table.builds[build].name);
    let class = class(answer, build);
    write!(
        html,
        "<div class=\"lane {class}\"><span>{name}</span><svg role=\"img\" aria-label=\"{name}: {says}\">\
         <title>{name}: {says}</title>"
    )
}

fn lines(html: &mut String, axis: &Axis, base: Option<f64>) -> fmt::Result {
    for (at, _) in axis.steps() {
        write!(html, "<line class=\"grid\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"100%\"/>")?;
    }
    match base.map(|base| axis.at(base)) {
        Some(at) => write!(html, "<line class=\"base\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"100%\"/>"),
        None => Ok(()),
    }
}

fn across(html: &mut String, axis: &Axis) -> fmt::Result {
    html.push_str("<div class=\"lane steps\"><span></span><div>");
    for (at, word) in axis.steps() {
        write!(html, "<i style=\"left:{at:.2}%\">{word}</i>")?;
    }
    html.push_str("</div><b></b></div>\n");
    Ok(())
}

/// The position of a build in a goal, with its interval.
#[derive(Clone, Copy)]
struct PlotPoint {
    value: f64,
    low: f64,
    high: f64,
}

/// The positions of builds in a goal: relative to the reference in percent if all are compared with it, otherwise their
/// medians.
fn places(answer: &Answer, goal: usize) -> (Vec<Option<PlotPoint>>, Dimension, String) {
    let name = answer.name(goal);
    let all = 0..answer.table.builds.len();
    if answer.rule == Rule::Bootstrap && answer.reference.is_some() && answer.paired.scales[goal] == Scale::Ratio {
        let place = |build: usize| {
            let one = &answer.paired.estimates[build][goal];
            let (low, high) = one.interval.unwrap_or((one.value, one.value));
            let [value, low, high] = [one.value, low, high].map(|ratio| ratio - 1.0);
            value.is_finite().then_some(PlotPoint { value, low, high })
        };
        return (all.map(place).collect(), Dimension::Share, format!("{name}, beside the reference"));
    }
    let place = |build: usize| {
        let one = &answer.article.medians[build][goal];
        let (value, half) = (one.median, one.half_width);
        (one.count > 0).then_some(PlotPoint { value, low: value - half, high: value + half })
    };
    (all.map(place).collect(), answer.table.metrics[answer.goals[goal].metric].dimension, format!("median {name}"))
}

/// Draws each pair of goals as a scatter of the builds.
pub fn scatters(html: &mut String, answer: &Answer) -> fmt::Result {
    let goals = answer.goals.len();
    let pairs = (0..goals).flat_map(|a| (a + 1..goals).map(move |b| (a, b)));
    for (a, b) in pairs.take(PAIRS_MAX) {
        scatter(html, answer, a, b)?;
    }
    Ok(())
}

fn scatter(html: &mut String, answer: &Answer, a: usize, b: usize) -> fmt::Result {
    let ((xs, x_kind, x_name), (ys, y_kind, y_name)) = (places(answer, a), places(answer, b));
    let mut points: Vec<(usize, PlotPoint, PlotPoint)> =
        (0..xs.len()).filter_map(|build| Some((build, xs[build]?, ys[build]?))).collect();
    // The important builds are drawn last, on top of the rest.
    let order = |class: &str| ["front", "reference", "near", "other"].iter().position(|one| *one == class);
    points.sort_by_key(|(build, ..)| order(class(answer, *build)));
    let mut rank = 0;
    let (points, left): (Vec<_>, Vec<_>) = points.into_iter().partition(|(build, ..)| {
        rank += 1;
        rank <= POINTS_MAX || Some(*build) == answer.reference
    });
    let x = Axis::of(points.iter().flat_map(|(_, x, _)| [x.value, x.low, x.high]), x_kind);
    let y = Axis::of(points.iter().flat_map(|(_, _, y)| [y.value, y.low, y.high]), y_kind);
    let (Some(x), Some(y)) = (x, y) else { return Ok(()) };
    let named = |name: &str, axis: &Axis, goal: usize| {
        let arrow = if answer.goals[goal].more { "more is better" } else { "less is better" };
        let unit = if axis.unit.is_empty() { String::new() } else { format!(", {}", axis.unit) };
        escape(&format!("{name}{unit} ({arrow})"))
    };
    let (x_name, y_name) = (named(&x_name, &x, a), named(&y_name, &y, b));
    writeln!(
        html,
        "<figure class=\"plot scatter\" data-plot=\"{} and {}\"><figcaption><small>up: {y_name}</small></figcaption>\n\
         <div class=\"pane\"><div class=\"up\">",
        escape(answer.name(a)),
        escape(answer.name(b))
    )?;
    for (at, word) in y.steps() {
        write!(html, "<i style=\"bottom:{at:.2}%\">{word}</i>")?;
    }
    write!(html, "</div>\n<svg role=\"img\" aria-label=\"{x_name} and {y_name}\">")?;
    for (at, _) in x.steps() {
        write!(html, "<line class=\"grid\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"100%\"/>")?;
    }
    for (at, _) in y.steps() {
        write!(html, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0:.2}%\" y2=\"{0:.2}%\"/>", 100.0 - at)?;
    }
    for (build, across, up) in points.iter().rev() {
        point(html, answer, *build, (&x, across, a), (&y, up, b))?;
    }
    names(html, answer, &points, &x, &y)?;
    html.push_str("</svg>\n<div class=\"steps\">");
    for (at, word) in x.steps() {
        write!(html, "<i style=\"left:{at:.2}%\">{word}</i>")?;
    }
    writeln!(html, "</div><div class=\"unit\">{x_name}</div></div>")?;
    if !left.is_empty() {
        let near = left.iter().filter(|(build, ..)| ["front", "near"].contains(&class(answer, *build))).count();
        let near = if near > 0 {
            format!("{near} of them on the front or near it")
        } else {
            "none of them near the front".into()
        };
        writeln!(html, "<p class=\"quiet\">{} more builds, {near}, are not drawn.</p>", left.len())?;
    }
    html.push_str("</figure>\n");
    Ok(())
}

/// Draws a build with its box of uncertainty.
fn point(
    html: &mut String,
    answer: &Answer,
    build: usize,
    (x, across, a): (&Axis, &PlotPoint, usize),
    (y, up, b): (&Axis, &PlotPoint, usize),
) -> fmt::Result {
    let (left, right, low, high) = (x.at(across.low), x.at(across.high), y.at(up.low), y.at(up.high));
    let says = |goal: usize, axis: &Axis, place: &PlotPoint| {
        let name = escape(answer.name(goal));
        format!("{name} {} [{}, {}]", axis.said(place.value), axis.said(place.low), axis.said(place.high))
    };
    writeln!(
        html,
        "<g class=\"point {}\"><rect class=\"error\" x=\"{left:.2}%\" y=\"{:.2}%\" width=\"{:.2}%\" height=\"{:.2}%\"/>\
         <circle cx=\"{:.2}%\" cy=\"{:.2}%\" r=\"4.5\"/><title>{}: {}, {}</title></g>",
        class(answer, build),
        100.0 - high,
        right - left,
        high - low,
        x.at(across.value),
        100.0 - y.at(up.value),
        escape(&answer.table.builds[build].name),
        says(a, x, across),
        says(b, y, up),
    )
}

/// Draws names next to points, those of the front first, skipping those that would overlap.
fn names(
    html: &mut String,
    answer: &Answer,
    points: &[(usize, PlotPoint, PlotPoint)],
    x: &Axis,
    y: &Axis,
) -> fmt::Result {
    let mut taken: Vec<[f64; 4]> = Vec::new();
    for (build, across, up) in points {
        let name = &answer.table.builds[*build].name;
        let (left, top) = (x.at(across.value), 100.0 - y.at(up.value));
        let width = NAME.0 * name.chars().count() as f64 + 1.5;
        let is_left = left + width > 98.0;
        let from = if is_left { left - width } else { left };
        // Above, or below.
        let place = [-NAME.1, NAME.1 * 0.4].map(|down| [from, top + down, from + width, top + down + NAME.1]);
        let is_free = |one: &[f64; 4]| {
            let meets =
                |other: &[f64; 4]| one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
            one[0] >= 0.0 && one[1] >= 0.0 && one[3] <= 100.0 && !taken.iter().any(meets)
        };
        let Some(at) = place.iter().position(is_free) else { continue };
        taken.push(place[at]);
        writeln!(
            html,
            "<text class=\"{}\" x=\"{left:.2}%\" y=\"{top:.2}%\" dx=\"{}\" dy=\"{}\" text-anchor=\"{}\">{}</text>",
            class(answer, *build),
            if is_left { -8 } else { 8 },
            if at == 0 { -6 } else { 15 },
            if is_left { "end" } else { "start" },
            escape(name)
        )?;
    }
    Ok(())
}

/// Draws the effect of each value of an option on a goal, the others being equal.
pub fn effects(html: &mut String, answer: &Answer, goal: usize) -> fmt::Result {
    let found = &answer.effects;
    let parts = || found.effects.iter().map(|one| one.parts[goal]);
    let Some(axis) = Axis::of(parts().chain([0.0]), Dimension::Share) else { return Ok(()) };
    let name = escape(answer.name(goal));
    writeln!(
        html,
        "<figure class=\"plot lanes\" data-plot=\"effects on {name}\"><figcaption>{name} <small>% beside the mean of all \
         builds; options one by one explain {:.0} % of what differs</small></figcaption>",
        found.explained[goal] * 100.0
    )?;
    for one in &found.effects {
        let part = one.parts[goal];
        let option = escape(&format!("{} = {}", answer.table.options[one.level.option], one.level.value));
        let is_good = answer.goals[goal].gain(part) > 0.0;
        let class = if is_good { "good" } else { "poor" };
        let said = if part > 0.0 { format!("+{}", axis.said(part)) } else { axis.said(part) };
        let says = format!("{option}: {said}, {} builds", one.level.builds.len());
        write!(
            html,
            "<div class=\"lane {class}\"><span>{option}</span><svg role=\"img\" aria-label=\"{says}\"><title>{says}</title>"
        )?;
        lines(html, &axis, Some(0.0))?;
        if part.is_finite() {
            let (from, to) = (axis.at(part.min(0.0)), axis.at(part.max(0.0)));
            write!(
                html,
                "<rect class=\"bar\" x=\"{from:.2}%\" y=\"22%\" width=\"{:.2}%\" height=\"56%\"/>",
                to - from
            )?;
        }
        writeln!(html, "</svg><b>{said}</b></div>")?;
    }
    across(html, &axis)?;
    html.push_str("</figure>\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use hearth_stats::paired_bootstrap::Settings;
    use hearth_stats::table::Table;

    use super::*;
    use crate::analysis::{Question, analyze};

    /// An answer with `count` builds, each faster and larger than the one before, and the reference, which is the worst
    /// of all.
    fn answer(count: usize) -> Answer {
        let mut text = "nb_build,metric,value,repetition\n".to_owned();
        for round in 1..=6 {
            for build in 0..count {
                let (speed, size) = (100 + 2 * build + round, 100 + 2 * build + round % 2);
                text.push_str(&format!("b{build},speed,{speed},{round}\nb{build},size,{size},{round}\n"));
                text.push_str(&format!("b{build},other,{build},{round}\n"));
            }
            text.push_str(&format!(
                "plain,speed,{},{round}\nplain,size,5000,{round}\nplain,other,-1,{round}\n",
                50 + round
            ));
        }
        let question = Question {
            max: vec!["speed".into()],
            min: vec!["size".into()],
            reference: Some("plain".into()),
            settings: Settings { resamples: 8, ..Settings::default() },
            ..Question::default()
        };
        analyze(Table::read(text.as_bytes()).expect("a table"), &question).expect("an answer")
    }

    #[test]
    fn undrawn_builds_are_counted_and_the_reference_drawn() {
        for (builds, said) in
            [(60, None), (61, Some("and the reference; 1 more are")), (70, Some("reference; 10 more"))]
        {
            let answer = answer(builds);
            for (metric, which) in [("speed", "The 60 best"), ("other", "The 60 greatest")] {
                let mut html = String::new();
                boxes(&mut html, &answer, answer.table.metric(metric).expect("there")).expect("written");
                let drawn = html.matches("class=\"box\"").count();
                assert_eq!((drawn, html.contains("are not drawn")), (61, said.is_some()), "{builds}");
                assert!(said.is_none_or(|said| html.contains(said) && html.contains(which)), "{html}");
                assert!(html.contains("<span>plain</span>"));
            }
        }
    }

    #[test]
    fn a_scatter_that_is_full_has_the_reference_and_says_what_it_lacks() {
        let mut html = String::new();
        scatter(&mut html, &answer(410), 0, 1).expect("written");
        assert!(html.contains("<g class=\"point reference\">"), "the reference is in it");
        assert!(html.contains("<p class=\"quiet\">10 more builds, 10 of them on the front or near it, are not"));
    }

    #[test]
    fn quartiles_are_as_by_hand() {
        let found = Quartiles::of(&[5.0, 1.0, 2.0, 3.0, 4.0, 40.0, f64::NAN]).expect("values");
        // With six sorted values a quartile is at a quarter of five steps: 1.25, 2.5, 3.75.
        assert_eq!(found.box_, [2.25, 3.5, 4.75]);
        assert_eq!((found.whiskers, found.outliers), ([1.0, 5.0], vec![40.0]));
        assert_eq!(Quartiles::of(&[7.0]).expect("one").box_, [7.0; 3]);
        assert_eq!(Quartiles::of(&[]), None);
    }
}
