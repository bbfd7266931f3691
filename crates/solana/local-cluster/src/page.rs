//! The page of a simulation: when nodes have the block, and what each sends.
//!
//! reads   a [`Report`]
//! writes  HTML that needs no other file and no network, and has no script
//! memory  the page

use std::fmt::Write;

use hearth_netsim::{Report, Seed, text};
use hearth_page::text::escape;
use hearth_page::{document, even};

pub(super) const STYLE: &str = include_str!("style.css");
/// A chart's width, in its own units.
pub(super) const WIDTH: f64 = 800.0;
pub(super) const HEIGHT: f64 = 300.0;
/// Maximum number of bars: with more followers each bar stands for several.
const BARS: usize = 100;

/// Renders the page.
pub fn of(report: &Report) -> String {
    let mut body = format!("<h1>How blocks spread over {} nodes</h1>\n", report.nodes);
    let summary = text(report);
    let _ = writeln!(body, "<section><pre>{}</pre></section>", escape(&summary));
    let _ = writeln!(body, "<section><h2>Who has the block when</h2>\n{}</section>", curves(report));
    if let Some(seed) = report.seeds.first() {
        let _ = writeln!(body, "<section><h2>What nodes send</h2>\n{}</section>", bandwidth(report, seed));
    }
    document("How blocks spread", STYLE, "", &body)
}

/// One line per slot: the share of the stake over time.
fn curves(report: &Report) -> String {
    let last = |seed: &Seed| seed.curve.last().map_or(0.0, |point| point[0]);
    let most = report.seeds.iter().map(last).fold(1.0, f64::max);
    let line = |seed: &Seed| {
        let mut before = 0.0;
        let mut points = String::from("0,300");
        for [at, part] in &seed.curve {
            // A step: before this time nobody has it.
            let x = at / most * WIDTH;
            let _ = write!(points, " {x:.1},{:.1} {x:.1},{:.1}", (1.0 - before) * HEIGHT, (1.0 - part) * HEIGHT);
            before = *part;
        }
        format!("<polyline points=\"{points}\"><title>seed {}</title></polyline>", seed.seed)
    };
    let lines: String = report.seeds.iter().map(line).collect();
    chart(most, "ms from the slot's last shred", 100.0, "% of all stake", &lines)
}

/// One bar per follower, in descending order of bytes sent.
fn bandwidth(report: &Report, seed: &Seed) -> String {
    let all = &seed.followers_bps;
    let several = all.len().div_ceil(BARS).max(1);
    let groups: Vec<[f64; 2]> = all
        .chunks(several)
        .map(|group| [0, 1].map(|at| group.iter().map(|one| one[at]).sum::<f64>() / group.len() as f64 / 1e6))
        .collect();
    let leader = seed.leader_out_bps / 1e6;
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
    let line = |bps: f64, class: &str, what: &str| {
        let y = HEIGHT - bps / most * HEIGHT;
        format!("<path class=\"{class}\" d=\"M0 {y:.1}H800\"><title>{what} {bps:.0} Mb/s</title></path>")
    };
    bars += &line(leader, "leader", "the leader sends, as shreds,");
    bars += &line(seed.follower_in_bps[0] / 1e6, "in", "the median follower receives");
    let group = if several > 1 { format!(", {several} a bar") } else { String::new() };
    let what = format!("followers of seed {}, the one that sends most first{group}", seed.seed);
    let other = report.leader_other_bps / 1e6;
    chart(all.len() as f64, &what, most, "Mb/s sent", &bars)
        + &format!(
            "<p class=\"quiet\"><span class=\"leader\">the leader, as shreds: {leader:.0} Mb/s (beside them {other:.0} \
             Mb/s by a model)</span> <span class=\"in\">the median follower receives {:.0} Mb/s</span></p>",
            seed.follower_in_bps[0] / 1e6
        )
}

/// A chart with both axes from zero to their maximum.
pub(super) fn chart(x_most: f64, x: &str, y_most: f64, y: &str, inside: &str) -> String {
    let steps = |most: f64| -> Vec<f64> {
        let step = even(most / 6.0);
        (0..=20).map(|at| f64::from(at) * step).take_while(|value| *value <= most * 1.000_1).collect()
    };
    let mut grid = String::new();
    for value in steps(x_most) {
        let at = value / x_most * WIDTH;
        let _ = write!(grid, "<path class=\"grid\" d=\"M{at:.1} 0V300\"/><text x=\"{at:.1}\" y=\"316\">{value}</text>");
    }
    for value in steps(y_most) {
        let at = HEIGHT - value / y_most * HEIGHT;
        let _ = write!(
            grid,
            "<path class=\"grid\" d=\"M0 {at:.1}H800\"/><text class=\"y\" x=\"-6\" y=\"{:.1}\">{value}</text>",
            at + 4.0
        );
    }
    format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"-60 -12 880 340\" role=\"img\" aria-label=\"{}\">{grid}{inside}\
         </svg><figcaption class=\"quiet\">{}</figcaption></figure>\n",
        escape(y),
        escape(y),
        escape(x)
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
    }
}
