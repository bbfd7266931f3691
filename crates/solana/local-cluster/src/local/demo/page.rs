//! The page of a demonstration: the nodes' rates, and what each sends and receives.
//!
//! reads   a [`Report`]
//! writes  HTML that needs no other file and no network, and has no script
//! memory  the page

use std::fmt::Write;

use hearth_netsim::SHOWN;
use hearth_page::document;
use hearth_page::text::escape;

use super::measure::Second;
use super::{LoadReport, Report, text};
use crate::page::{HEIGHT, STYLE, WIDTH, chart};

/// Hue difference in degrees between consecutive nodes, so that neighbours differ.
const HUE_STEP: usize = 47;

/// Renders the report of a demonstration as an HTML document.
pub fn of(report: &Report) -> String {
    let mut body = format!("<h1>A leader and {} followers on one machine</h1>\n", report.nodes.len() - 1);
    let _ = writeln!(body, "<section><pre>{}</pre></section>", escape(text(report).trim_start()));
    let names: Vec<String> = report.nodes.iter().map(|node| format!("{} ({})", node.node, node.region)).collect();
    for (number, load) in report.loads.iter().enumerate() {
        let head = format!("Load {}: {}", number + 1, load.what);
        let _ = writeln!(body, "<section><h2>{}</h2>\n{}", escape(&head), legend(&names));
        body += &rates(load, &names);
        body += &stacked(load, &names, "Mb/s that each node sends, stacked", |second| &second.sent_bps);
        body += &stacked(load, &names, "Mb/s that each node receives, stacked", |second| &second.received_bps);
        body += "</section>\n";
    }
    body += &talk_section(report);
    document("A cluster on one machine", STYLE, "", &body)
}

fn colour(number: usize) -> String {
    format!("hsl({} 65% 50%)", number * HUE_STEP % 360)
}

fn legend(names: &[String]) -> String {
    let name = |(number, name): (usize, &String)| {
        format!("<span style=\"color:{}\">■</span> {} ", colour(number), escape(name))
    };
    format!("<p class=\"quiet\">{}</p>\n", names.iter().enumerate().map(name).collect::<String>())
}

/// The times of the first and the last second.
fn span(load: &LoadReport) -> (f64, f64) {
    let at = |second: Option<&Second>| second.map_or(0.0, |second| second.at_s);
    let (first, last) = (at(load.seconds.first()), at(load.seconds.last()));
    (first, (last - first).max(1.0))
}

/// One line per node.
fn rates(load: &LoadReport, names: &[String]) -> String {
    let (first, span) = span(load);
    let most = load.seconds.iter().flat_map(|second| &second.txn_per_s).copied().fold(1.0, f64::max);
    let mut lines = String::new();
    for (number, name) in names.iter().enumerate().rev() {
        let mut points = String::new();
        for second in &load.seconds {
            let (x, y) = ((second.at_s - first) / span * WIDTH, HEIGHT - second.txn_per_s[number] / most * HEIGHT);
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let width = if number == 0 { 3 } else { 1 };
        let _ = write!(
            lines,
            "<polyline points=\"{}\" style=\"stroke:{};stroke-width:{width}\"><title>{}</title></polyline>",
            points.trim_end(),
            colour(number),
            escape(name)
        );
    }
    chart(span, "s", most, "transactions a second", &lines)
}

/// One area per node.
fn stacked(load: &LoadReport, names: &[String], what: &str, of: impl Fn(&Second) -> &Vec<f64>) -> String {
    let (first, span) = span(load);
    let total = |second: &Second| of(second).iter().sum::<f64>() / 1e6;
    let most = load.seconds.iter().map(total).fold(1e-3, f64::max);
    let mut below = vec![0.0; load.seconds.len()];
    let mut areas = String::new();
    for (number, name) in names.iter().enumerate() {
        let place = |second: &Second, value: f64| {
            format!("{:.1},{:.1} ", (second.at_s - first) / span * WIDTH, HEIGHT - value / most * HEIGHT)
        };
        let lower: Vec<String> = load.seconds.iter().zip(&below).map(|(second, at)| place(second, *at)).collect();
        let mut mean = 0.0;
        for (second, at) in load.seconds.iter().zip(&mut below) {
            let value = of(second)[number] / 1e6;
            *at += value;
            mean += value / load.seconds.len() as f64;
        }
        let upper: String = load.seconds.iter().zip(&below).map(|(second, at)| place(second, *at)).collect();
        let lower: String = lower.into_iter().rev().collect();
        let _ = write!(
            areas,
            "<polygon points=\"{}{}\" style=\"fill:{}\"><title>{}: {mean:.1} Mb/s on average</title></polygon>",
            upper,
            lower.trim_end(),
            colour(number),
            escape(name)
        );
    }
    chart(span, "s", most, what, &areas)
}

/// One column's bandwidths, b/s: the leader sends, a follower sends, the leader receives from the load generator.
type Bands = [Option<f64>; 3];

/// Compares this demonstration with the ten machines of a public talk, each bandwidth in the same direction.
fn talk_section(report: &Report) -> String {
    let cell = |bps: &Option<f64>| bps.map_or("–".into(), |bps| format!("{:.1}", bps / 1e6));
    let row = |what: &str, tps: f64, bands: &Bands| {
        let cells: String = bands.iter().map(|bps| format!("<td>{}</td>", cell(bps))).collect();
        format!("<tr><td>{what}</td><td>{tps:.0}</td>{cells}</tr>")
    };
    let ratio = |what: &str, low: (f64, Bands), high: (f64, Bands)| {
        let ratios = low.1.iter().zip(&high.1).map(|(low, high)| Some(high.as_ref()? / low.as_ref()?));
        let cells: String = ratios
            .map(|ratio| format!("<td>{}</td>", ratio.map_or("–".into(), |ratio| format!("×{ratio:.1}"))))
            .collect();
        format!("<tr><td>{what}</td><td>×{:.1}</td>{cells}</tr>", high.0 / low.0)
    };
    let shown =
        SHOWN.map(|load| (load.tps, [Some(load.leader_sent_bps), Some(load.follower_sent_bps), load.load_sent_bps]));
    let here: Vec<(f64, Bands)> = report.loads.iter().map(|load| (load.txn_per_s[0], bands(load))).collect();
    let mut rows = String::new();
    for ((tps, bands), limits) in shown.iter().zip(["within limits", "limits lifted"]) {
        rows += &row(&format!("the talk, {limits}"), *tps, bands);
    }
    rows += &ratio("the talk, second load / first load", shown[0], shown[1]);
    for (number, (tps, bands)) in here.iter().enumerate() {
        rows += &row(&format!("load {} here", number + 1), *tps, bands);
    }
    if let [low, high] = here[..] {
        rows += &ratio("here, second load / first load", low, high);
    }
    format!(
        "<section><h2>Beside a public talk</h2>\n<p>The talk showed ten machines in four cities; here all nodes and the \
         load share {} cores. Bandwidths are in Mb/s, averaged over the load.</p>\n<table><tr><th></th><th>TPS</th>\
         <th>the leader sends</th><th>a follower sends</th><th>the load generator sends (here: the leader \
         receives)</th></tr>{rows}</table></section>\n",
        report.cores
    )
}

/// Averages a load's bandwidths over its seconds and followers.
fn bands(load: &LoadReport) -> Bands {
    let seconds = load.seconds.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Second) -> f64| load.seconds.iter().map(of).sum::<f64>() / seconds;
    let followers = load.txn_per_s.len().saturating_sub(1).max(1) as f64;
    [
        Some(mean(&|second| second.sent_bps[0])),
        Some(mean(&|second| second.sent_bps[1..].iter().sum::<f64>()) / followers),
        Some(mean(&|second| second.received_bps[0])),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, NodeReport, Role};
    use super::*;

    #[test]
    fn a_page_has_a_line_and_two_areas_a_node_and_load() {
        let second = |at: f64| Second {
            at_s: at,
            txn_per_s: vec![100.0, 99.0],
            slots_behind: vec![0, 1],
            sent_bps: vec![2e6, 1e6],
            received_bps: vec![1e6, 2e6],
            full: 0.0,
        };
        let load = |what: &str| LoadReport {
            what: what.into(),
            limits: Limits::Scaled(1_000_000),
            asked_txn_per_s: None,
            txn_per_s: vec![100.0, 99.5],
            window_s: 2.0,
            tolerance: 0.01,
            is_kept_up: true,
            caught_up_s: Some(0.5),
            seconds: vec![second(1.0), second(2.0), second(3.0)],
        };
        let node = |name: &str, role| NodeReport {
            node: name.into(),
            role,
            region: "London <b>".into(),
            alive: true,
            resident_bytes: Some(300_000_000),
        };
        let report = Report {
            nodes: vec![node("node-1", Role::Leader), node("node-2", Role::Follower)],
            cores: 2,
            leader_started_s: 1.0,
            followers_joined_s: 2.0,
            held_txn_per_s: Some(200.0),
            loads: vec![load("one"), load("two")],
            slot: 9,
            is_same_state: true,
        };
        let page = of(&report);
        assert_eq!((page.matches("<polyline").count(), page.matches("<polygon").count()), (4, 8));
        assert!(!page.contains("NaN") && !page.contains("London <b>"), "{page}");
        let shown = |row: &str| page.contains(&format!("<tr><td>the talk, {row}</td></tr>"));
        assert!(shown("within limits</td><td>81500</td><td>724.0</td><td>340.0</td><td>–"), "{page}");
        assert!(shown("limits lifted</td><td>1040000</td><td>5120.0</td><td>4300.0</td><td>2370.0"), "{page}");
        assert!(shown("second load / first load</td><td>×12.8</td><td>×7.1</td><td>×12.6</td><td>–"), "{page}");
        // The follower of this test sends 1 Mb/s and receives 2.
        assert!(page.contains("<td>load 1 here</td><td>100</td><td>2.0</td><td>1.0</td><td>1.0</td>"), "{page}");
        assert!(text(&report).contains("slot 9: all nodes have the same bank hash; no node ended"));
    }
}
