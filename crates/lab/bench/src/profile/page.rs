//! A bench as one self-contained page; apart from the flame graph, without scripts.
//!
//! reads   the bench's result, the monitor's sample, the profile
//! writes  HTML in the dashboard's style
//! memory  the page, some hundred KiB

mod parts;

use std::fmt::Write;

use hearth_command::numbers::grouped_rate;
use hearth_machine::Machine;
use hearth_monitor::{Sample, Table};
use hearth_profile::Profile;

use super::Second;
use crate::Report;
use parts::{bars, escape, latencies, marked, regimes, table};

/// The styles that only this page has; the others are the dashboard's.
const STYLE: &str = include_str!("page/style.css");
/// Ctrl-F stays the browser's search here, because there is more than a graph to search.
const SCRIPT: &str = "addEventListener('keydown', (event) => { if (event.key === 'F3' || (event.ctrlKey && event.key === 'f')) \
                      event.stopImmediatePropagation(); }, true);";

/// The contents of the page.
pub struct Page<'a> {
    /// The bench's result, from the same run as the profile.
    pub report: &'a Report,
    /// The rate of each second.
    pub seconds: &'a [Second],
    /// The monitor's sample over all measured seconds.
    pub sample: &'a Sample,
    /// The stacks sampled while the bench measured.
    pub profile: &'a Profile,
    /// The machine, and what else ran on it.
    pub machine: &'a Machine,
    /// Each tile's share of the samples, in words.
    pub tiles: &'a str,
    /// The cost of taking the profile, in words.
    pub cost: &'a str,
}

impl Page<'_> {
    /// Returns the page as self-contained HTML.
    pub fn html(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut page);
        page
    }

    fn write(&self, page: &mut String) -> std::fmt::Result {
        let title = format!("Hearth bench: {} txn/s", grouped_rate(self.report.txn_per_s.mean));
        write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{}{STYLE}</style>\n\
             <script>{SCRIPT}</script>\n</head>\n<body>\n",
            hearth_serve::dashboard::STYLE
        )?;
        self.write_head(page)?;
        page.push_str("<main>\n");
        self.write_sections(page)?;
        page.push_str("</main>\n</body>\n</html>\n");
        Ok(())
    }

    /// Writes the most important figures.
    fn write_head(&self, page: &mut String) -> std::fmt::Result {
        let Report { txn_per_s: rate, cpu_us_per_txn: cpu, latency, duration_s, cores, commit, .. } = self.report;
        let executed = latency.iter().find(|stage| stage.stage == "executed");
        let p99 = executed.map_or("–".into(), |stage| hearth_monitor::time(stage.p99_us));
        let us = cpu.node.unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        let commit = if commit.is_empty() { String::new() } else { format!(", commit {}", escape(commit)) };
        write!(
            page,
            "<header class=\"title\"><h1>Hearth bench</h1><p class=\"quiet\">{duration_s:.0} s on {cores} cores \
             of {}; hearth {version}{commit}</p></header>\n<section class=\"now\" aria-label=\"Result\">\
             <dl class=\"figures\">",
            escape(&self.report.machine.cpu)
        )?;
        let figures = [
            ("txn/s, mean", grouped_rate(rate.mean)),
            ("median second", grouped_rate(rate.median)),
            ("worst, best second", format!("{} – {}", grouped_rate(self.worst()), grouped_rate(rate.max))),
            ("receipt to executed, p99", p99),
            ("CPU a transaction, node", format!("{us:.1} µs")),
        ];
        for (at, (name, figure)) in figures.iter().enumerate() {
            let class = if at == 0 { " class=\"first\"" } else { "" };
            write!(page, "<div{class}><dt>{name}</dt><dd>{figure}</dd></div>")?;
        }
        let limit = marked(&self.report.bottleneck.why);
        writeln!(page, "</dl>\n<div class=\"diagnosis\"><p id=\"says\">{limit}</p></div></section>")
    }

    fn worst(&self) -> f64 {
        self.report.seconds.iter().copied().reduce(f64::min).unwrap_or_default()
    }

    fn write_sections(&self, page: &mut String) -> std::fmt::Result {
        let Self { report, sample, profile, machine, .. } = self;
        let mut section = |title: &str, note: &str, body: &str| {
            write!(page, "<section class=\"card\"><h2>{title} <small>{note}</small></h2>\n{body}</section>\n")
        };
        section("Transactions a second", "each second; pale is warm-up", &bars(self.seconds))?;
        let svg = profile.svg("CPU time of node and load").unwrap_or_else(|why| why.to_string());
        let svg = svg.find("<svg").map_or(escape(&svg), |at| svg[at..].to_owned());
        let flame = format!(
            "<div class=\"flame\">{svg}</div>\n<div class=\"scroll\"><pre>{}\n{}</pre></div>\n",
            escape(self.tiles),
            escape(self.cost)
        );
        section("Flame graph", "of the measured seconds, by thread and tile; a click zooms, “Search” marks", &flame)?;
        let whole = format!("{}{}", regimes(&sample.tiles), table(&Table::of_tiles(sample)));
        section("Tiles", "where their time went, in all of the measured seconds", &whole)?;
        section(
            "Latency",
            "from receipt to each stage; the bar goes from the median to p99",
            &latencies(&report.latency),
        )?;
        section("Links", "each consumer of each", &table(&Table::of_links(sample)))?;
        section("Result", "as the bench prints it", &preformatted(&report.summary()))?;
        section("Machine", "and who else wanted its cores meanwhile", &preformatted(&machine.table()))?;
        let configuration = toml::to_string_pretty(&report.config)
            .or_else(|_| serde_json::to_string_pretty(&report.config))
            .unwrap_or_default();
        let folded = format!("<details><summary>All keys</summary>{}</details>", preformatted(&configuration));
        section("Configuration", "in effect, with the counts of tiles that it came to", &folded)
    }
}

fn preformatted(text: &str) -> String {
    format!("<div class=\"scroll\"><pre>{}</pre></div>\n", escape(text.trim_matches('\n')))
}

#[cfg(test)]
mod tests {
    use hearth_monitor::{Stage, TileSample};
    use hearth_profile::Stack;

    use super::*;

    #[test]
    fn the_page_is_whole_and_asks_for_nothing() {
        let stage = Stage { stage: "executed".into(), count: 9, p50_us: 900.0, p99_us: 4_200.0, ..Stage::default() };
        let mut report = Report { latency: vec![stage], seconds: vec![10.0, 12.0], ..Report::default() };
        report.machine.cpu = "a <fast> one".into();
        report.config = serde_json::json!({ "name": "x", "layout": { "affinity": "auto" } });
        report.txn_per_s.mean = 12_345.6;
        report.bottleneck.why = "the limit & `its.key`".into();
        let tile = TileSample { tile: "bank:0".into(), ..TileSample::default() };
        let sample = Sample { tiles: vec![tile], ..Sample::default() };
        let stack = Stack { thread: "core 0".into(), tile: Some("bank".into()), calls: vec!["bank::on_frag".into()] };
        let profile = Profile { stacks: [(stack, 7)].into(), ..Profile::default() };
        let page = Page {
            report: &report,
            seconds: &[Second { txn_per_s: 5.0, measured: false }, Second { txn_per_s: 12.0, measured: true }],
            sample: &sample,
            profile: &profile,
            machine: &Machine::default(),
            tiles: "  bank 100.0 %",
            cost: "  cost nothing",
        };
        let html = page.html();
        for part in [
            "<title>Hearth bench: 12,346 txn/s</title>",
            "a &lt;fast&gt; one",
            "4.20 ms",
            "the limit &amp; <code>its.key</code>",
            "bank::on_frag",
            "% finish",
            "tot TPS",
            "affinity = &quot;auto&quot;",
            "prefers-color-scheme: dark",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert_eq!(html.matches("<svg").count(), 2, "the graph, whose script takes the first, and its frames");
        let asks = ["src=", "<link", "@import", "url(http"];
        asks.iter().for_each(|ask| assert!(!html.contains(ask), "{ask}"));
    }
}
