//! The page of a simulation: when nodes have the block, and what each sends.
//!
//! reads   a [`Report`]
//! writes  HTML that needs no other file and no network, and has no script
//! memory  the page

use std::fmt::Write;

use hearth_netsim::{Report, Seed, text};
use hearth_page::text::{escape, figure};
use hearth_page::{document, even};

pub(super) const STYLE: &str = include_str!("style.css");
/// A chart's width, in its own units.
pub(super) const WIDTH: f64 = 800.0;
pub(super) const HEIGHT: f64 = 300.0;
/// Maximum number of bars: with more followers each bar stands for several.
const BARS: usize = 100;

/// Renders the report of a simulation as an HTML document.
pub fn of(report: &Report) -> String {
    let mut body = format!("<h1>How blocks spread over {} nodes</h1>\n", report.nodes);
    let _ = writeln!(body, "<section>\n{}</section>", summary(report));
    let _ = writeln!(body, "<section><h2>Who has the block when</h2>\n{}</section>", curves(report));
    if let Some(seed) = report.seeds.first() {
        let _ = writeln!(body, "<section><h2>What nodes send</h2>\n{}</section>", bandwidth(report, seed));
    }
    document("How blocks spread", STYLE, "", &body)
}

/// The report's text: its table scrolls on a narrow screen, its sentences wrap.
fn summary(report: &Report) -> String {
    let lines = |part: &str, tag: &str| part.lines().map(|line| format!("{}{tag}", escape(line))).collect::<String>();
    let block = |part: &str| match part.contains("   ") {
        true => format!("<pre class=\"scroll\" tabindex=\"0\">{}</pre>\n", lines(part, "\n")),
        false => format!("<p>{}</p>\n", lines(part, "<br>")),
    };
    text(report).trim().split("\n\n").map(block).collect()
}

/// Dash patterns of the curves, in the chart's units, so that they differ without colour.
const DASHES: [&str; 6] = ["none", "9 4", "2 3", "12 4 2 4", "5 3", "16 4"];
/// Maximum number of curves with a label: more would cover each other, and the table has them all.
const LABELS: usize = 8;
/// Heights of a curve, as shares of the stake, at which its label may stand; the first that is free is taken.
const LEVELS: [f64; 9] = [0.5, 0.7, 0.3, 0.9, 0.1, 0.6, 0.4, 0.8, 0.2];
/// A label's height, in the chart's units.
const LABEL_HEIGHT: f64 = 15.0;

/// One line per slot: the share of the stake over time.
fn curves(report: &Report) -> String {
    let last = |seed: &Seed| seed.curve.last().map_or(0.0, |point| point[0]);
    let most = report.seeds.iter().map(last).fold(1.0, f64::max);
    let line = |(at, seed): (usize, &Seed)| {
        let mut before = 0.0;
        let mut points = String::from("0,300");
        for [at, part] in &seed.curve {
            // A step: before this time nobody has it.
            let x = at / most * WIDTH;
            let _ = write!(points, " {x:.1},{:.1} {x:.1},{:.1}", (1.0 - before) * HEIGHT, (1.0 - part) * HEIGHT);
            before = *part;
        }
        let dashes = DASHES[at % DASHES.len()];
        format!(
            "<polyline class=\"{}\" stroke-dasharray=\"{dashes}\" points=\"{points}\"><title>seed {}</title></polyline>",
            tint(at),
            seed.seed
        )
    };
    let lines: String = report.seeds.iter().enumerate().map(line).collect();
    let lines = lines + &labels(&report.seeds, most);
    let more = match report.seeds.len() > LABELS {
        true => format!(" The first {LABELS} curves have labels; the table above has all."),
        false => String::new(),
    };
    chart(most, "ms from the slot's last shred", 100.0, "% of all stake that has the block", &lines)
        + &format!(
            "<p class=\"quiet\">Each curve is a slot, labelled with its seed. It begins with the stake of the leader, \
             which has the block at once.{more}</p>"
        )
}

/// The class of the curve at this index, which colours it and its label.
fn tint(at: usize) -> &'static str {
    ["one", "two", "three"][at % 3]
}

/// The label of each of the first curves, on the curve, where no other label is.
fn labels(seeds: &[Seed], most: f64) -> String {
    // Left, right and middle height of each label that has a place.
    let mut taken: Vec<[f64; 3]> = Vec::new();
    let mut text = String::new();
    for (at, seed) in seeds.iter().enumerate().take(LABELS) {
        let label = format!("seed {}", seed.seed);
        let width = 7.0 * label.len() as f64 + 8.0;
        let place = |level: f64| {
            let [time, _] = seed.curve.iter().find(|[_, part]| *part >= level)?;
            let left = (time / most * WIDTH + 6.0).min(WIDTH - width);
            Some([left, left + width, (1.0 - level) * HEIGHT])
        };
        let is_free = |[left, right, y]: &[f64; 3]| {
            let covers =
                |other: &[f64; 3]| *left < other[1] && *right > other[0] && (y - other[2]).abs() < LABEL_HEIGHT;
            !taken.iter().any(covers)
        };
        let places = || LEVELS.into_iter().filter_map(place);
        let Some(place) = places().find(is_free).or_else(|| places().next()) else { continue };
        let [left, _, y] = place;
        let tint = tint(at);
        let _ = write!(text, "<text class=\"label {tint}\" x=\"{left:.1}\" y=\"{:.1}\">{label}</text>", y + 4.0);
        taken.push(place);
    }
    text
}

/// One bar per follower, in descending order of bytes sent; in front of them a line for what the leader sends.
fn bandwidth(report: &Report, seed: &Seed) -> String {
    let all = &seed.followers_bps;
    let several = all.len().div_ceil(BARS).max(1);
    let groups: Vec<[f64; 2]> = all
        .chunks(several)
        .map(|group| [0, 1].map(|at| group.iter().map(|one| one[at]).sum::<f64>() / group.len() as f64 / 1e6))
        .collect();
    let leader = seed.leader_out_bps / 1e6;
    let median = seed.follower_in_bps[0] / 1e6;
    let most = groups.iter().flatten().copied().fold(leader, f64::max).max(1e-9);
    let width = WIDTH / groups.len().max(1) as f64;
    let mut bars = String::new();
    for (at, [sent, received]) in groups.iter().enumerate() {
        let (x, height) = (at as f64 * width, sent / most * HEIGHT);
        let _ = write!(
            bars,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>sends {sent:.0} Mb/s, receives \
             {received:.0} Mb/s</title></rect>",
            HEIGHT - height,
            width * 0.9
        );
    }
    let height = |mbps: f64| HEIGHT - mbps / most * HEIGHT;
    let [over, under] = label_heights(height(leader), height(median));
    bars += &line(height(median), under, "in", &format!("the median follower receives {median:.0} Mb/s"));
    // Last, so that nothing covers it: often both send and receive about the same.
    bars += &line(height(leader), over, "leader", &format!("the leader sends {leader:.0} Mb/s, as shreds"));
    let group = if several > 1 { format!(", {several} a bar") } else { String::new() };
    let what = format!("followers of seed {}, the one that sends most first{group}", seed.seed);
    let other = report.leader_other_bps / 1e6;
    chart(all.len() as f64, &what, most, "Mb/s that each follower sends", &bars)
        + &format!(
            "<p class=\"quiet\">In front of the bars, solid: what the leader sends as shreds, {leader:.0} Mb/s (beside \
             them {other:.0} Mb/s by a model). Dashed: what the median follower receives, {median:.0} Mb/s.</p>"
        )
}

/// A horizontal line with its label, whose baseline is at `label`.
fn line(y: f64, label: f64, class: &str, what: &str) -> String {
    let x = WIDTH - 4.0;
    format!(
        "<path class=\"{class}\" d=\"M0 {y:.1}H800\"><title>{what}</title></path>\
         <text class=\"label end {class}\" x=\"{x:.1}\" y=\"{label:.1}\">{what}</text>"
    )
}

/// Baselines of the labels of two lines at these heights: apart from each other, and above the axis.
fn label_heights(leader: f64, median: f64) -> [f64; 2] {
    let above = |y: f64| y - 5.0;
    let below = |y: f64| y + 14.0;
    let upper = leader.min(median);
    let lower = leader.max(median);
    let is_tight = lower - upper < 2.0 * LABEL_HEIGHT;
    let [upper, lower] = match (is_tight, below(lower) < HEIGHT) {
        (false, _) => [above(upper), above(lower)],
        (true, true) => [above(upper), below(lower)],
        (true, false) => [above(upper) - LABEL_HEIGHT, above(upper)],
    };
    if leader <= median { [upper, lower] } else { [lower, upper] }
}

/// A chart with both axes from zero to their maximum. On a narrow screen it scrolls in its own frame.
pub(super) fn chart(x_most: f64, x: &str, y_most: f64, y: &str, inside: &str) -> String {
    let steps = |most: f64| -> Vec<f64> {
        let step = even(most / 6.0);
        (0..=20).map(|at| f64::from(at) * step).take_while(|value| *value <= most * 1.000_1).collect()
    };
    let mut grid = String::new();
    for value in steps(x_most) {
        let (at, value) = (value / x_most * WIDTH, figure(value));
        let _ = write!(grid, "<path class=\"grid\" d=\"M{at:.1} 0V300\"/><text x=\"{at:.1}\" y=\"316\">{value}</text>");
    }
    for value in steps(y_most) {
        let (at, value) = (HEIGHT - value / y_most * HEIGHT, figure(value));
        let _ = write!(
            grid,
            "<path class=\"grid\" d=\"M0 {at:.1}H800\"/><text class=\"y\" x=\"-6\" y=\"{:.1}\">{value}</text>",
            at + 4.0
        );
    }
    let (x, y) = (escape(x), escape(y));
    format!(
        "<figure><figcaption>{y}</figcaption><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{y}\">\
         <svg viewBox=\"-60 -12 880 340\" role=\"img\" aria-label=\"{y}, by {x}\">{grid}{inside}</svg></div>\
         <figcaption class=\"quiet\">{x}</figcaption></figure>\n"
    )
}

#[cfg(test)]
mod tests {
    use hearth_netsim::Plan;

    use super::*;

    #[test]
    fn a_page_has_a_line_a_seed_and_a_bar_a_follower() {
        let plan = Plan { nodes: 30, tps: 5_000.0, seeds: 2, ..Plan::default() };
        let page = of(&plan.run().expect("simulated"));
        assert_eq!(page.matches("<polyline").count(), 2);
        assert_eq!(page.matches("<rect").count(), 29);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        // Each curve and each line has its label in the drawing.
        for label in [">seed 1</text>", ">seed 2</text>", ">the leader sends ", ">the median follower receives "] {
            assert!(page.contains(label), "{label}: {page}");
        }
        let [leader, bar] = ["class=\"leader\"", "<rect"].map(|part| page.rfind(part).expect(part));
        assert!(leader > bar, "nothing is drawn over the leader's line");
    }

    #[test]
    fn labels_of_close_curves_do_not_overlap() {
        let plan = Plan { nodes: 30, tps: 5_000.0, seeds: 1, ..Plan::default() };
        let seed = plan.run().expect("simulated").seeds.remove(0);
        let text = labels(&[seed.clone(), seed.clone(), seed], 1_000.0);
        let heights: std::collections::BTreeSet<&str> =
            text.split(" y=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(heights.len(), 3, "{text}");
    }

    #[test]
    fn labels_of_close_lines_are_apart() {
        for [leader, median] in [[290.0, 290.0], [280.0, 299.0], [150.0, 151.0], [151.0, 150.0], [20.0, 290.0]] {
            let [over, under] = label_heights(leader, median);
            assert!((over - under).abs() >= LABEL_HEIGHT, "{leader} {median}: {over} {under}");
            assert!(over.max(under) < HEIGHT, "{leader} {median}: {over} {under}");
            assert_eq!(over <= under, leader <= median, "{leader} {median}: {over} {under}");
        }
    }
}
