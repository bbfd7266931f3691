//! Parts of the page: bars and tables from plain elements.
//!
//! reads   figures
//! writes  HTML

use std::fmt::Write;

use hearth_command::numbers::grouped_rate;
use hearth_monitor::{Regimes, Stage, Table, TileSample, time};

use crate::profile::Second;

/// Regimes in the order in which a bar stacks them: style class, index in [`Regimes::shares`], meaning.
const REGIMES: [(&str, usize, &str); 9] = [
    ("finish", 7, "useful work"),
    ("filt2", 6, "dropped after reading"),
    ("filt1", 5, "filtered by metadata"),
    ("hkeep", 0, "housekeeping"),
    ("ovrnr", 4, "lapped while reading"),
    ("ovrnp", 3, "lapped while polling"),
    ("backp", 1, "a reliable consumer has no room"),
    ("elsewhere", 8, "the core ran other tiles"),
    ("wait", 2, "nothing to do"),
];

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes text and marks what is between backquotes as code.
pub fn marked(text: &str) -> String {
    let mut parts = text.split('`');
    let mut html = escape(parts.next().unwrap_or_default());
    for (at, part) in parts.enumerate() {
        html.push_str(if at % 2 == 0 { "<code>" } else { "</code>" });
        html.push_str(&escape(part));
    }
    html
}

/// Draws a bar per second, scaled to the highest.
pub fn bars(seconds: &[Second]) -> String {
    let highest = seconds.iter().map(|second| second.txn_per_s).fold(1.0, f64::max);
    let mut html = format!(
        "<div class=\"bars-scale quiet\">{} txn/s</div><div class=\"bars\" role=\"img\" \
         aria-label=\"Transactions a second over time\">",
        grouped_rate(highest)
    );
    for (at, Second { txn_per_s, measured }) in seconds.iter().enumerate() {
        let (class, note) = if *measured { ("", "") } else { (" class=\"warmup\"", ", warm-up") };
        let height = 100.0 * txn_per_s / highest;
        let _ = write!(
            html,
            "<i{class} style=\"height:{height:.1}%\" title=\"second {}: {} txn/s{note}\"></i>",
            at + 1,
            grouped_rate(*txn_per_s)
        );
    }
    let _ =
        write!(html, "</div><div class=\"bars-foot quiet\"><span>1 s</span><span>{} s</span></div>\n", seconds.len());
    html
}

/// Draws each tile's time as a bar of its regimes, with a legend.
pub fn regimes(tiles: &[TileSample]) -> String {
    let names = Regimes::columns();
    let mut html = String::from("<ul class=\"legend\" aria-label=\"Regimes of a tile's time\">");
    for (class, at, meaning) in REGIMES {
        let name = escape(names[at].trim_start_matches("% "));
        let _ = write!(html, "<li title=\"{meaning}\"><span class=\"swatch {class}\"></span>{name}: {meaning}</li>");
    }
    html.push_str("</ul>\n<div class=\"regimes\">");
    for tile in tiles {
        let core = tile.core.map_or("floats".into(), |core| format!("core {core}"));
        let load = if tile.load { ", load" } else { "" };
        let _ = write!(
            html,
            "<div class=\"regime\"><b>{} <small>{core}{load}</small></b><div class=\"stack\">",
            escape(&tile.tile)
        );
        let shares = tile.regimes.shares();
        for (class, at, meaning) in REGIMES.iter().filter(|(_, at, _)| shares[*at] >= 0.0005) {
            let percent = 100.0 * shares[*at];
            let _ = write!(
                html,
                "<i class=\"swatch {class}\" style=\"width:{percent:.2}%\" title=\"{percent:.1} % {meaning}\"></i>"
            );
        }
        let _ = write!(html, "</div><span>{:.1} % busy</span></div>", 100.0 * tile.regimes.busy());
    }
    html.push_str("</div>\n");
    html
}

/// Draws one of the monitor's tables.
pub fn table(table: &Table) -> String {
    let class = |is_text: bool| if is_text { " class=\"text\"" } else { "" };
    let mut html = String::from("<div class=\"scroll live\"><table><thead><tr>");
    for (heading, is_text) in &table.headings {
        let _ = write!(html, "<th scope=\"col\"{}><span>{heading}</span></th>", class(*is_text));
    }
    html.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        html.push_str("<tr>");
        for (at, (cell, (_, is_text))) in row.iter().zip(&table.headings).enumerate() {
            let cell = escape(cell);
            let _ = match at {
                0 => write!(html, "<th scope=\"row\">{cell}</th>"),
                _ => write!(html, "<td{}>{cell}</td>", class(*is_text)),
            };
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// Draws the age of transactions at each stage, as bars on a logarithmic scale.
pub fn latencies(stages: &[Stage]) -> String {
    let low = stages.iter().map(|at| at.p50_us).fold(f64::INFINITY, f64::min).max(1.0).log10().floor();
    let high = stages.iter().map(|at| at.p99_us).fold(10.0, f64::max).log10().ceil();
    let place = |us: f64| (100.0 * (us.max(1.0).log10() - low) / (high - low).max(1.0)).clamp(0.0, 100.0);
    let mut html = String::from("<div class=\"scroll live\"><table><thead><tr>");
    for heading in ["stage", "p50", "p90", "p99", "max"] {
        let _ = write!(html, "<th scope=\"col\"><span>{heading}</span></th>");
    }
    let (from, to) = (time(10f64.powf(low)), time(10f64.powf(high)));
    let _ =
        write!(html, "<th scope=\"col\" class=\"range\"><span>{from}<span>{to}</span></span></th></tr></thead><tbody>");
    for Stage { stage, p50_us, p90_us, p99_us, max_us, .. } in stages {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(stage));
        for us in [p50_us, p90_us, p99_us, max_us] {
            let _ = write!(html, "<td>{}</td>", time(*us));
        }
        let (left, right) = (place(*p50_us), place(*p99_us));
        let width = (right - left).max(0.8);
        let _ = write!(html, "<td class=\"range\"><i style=\"left:{left:.1}%;width:{width:.1}%\"></i></td></tr>");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself() {
        assert_eq!(escape("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        assert_eq!(marked("do `x <y>` (`z`)"), "do <code>x &lt;y&gt;</code> (<code>z</code>)");
    }

    #[test]
    fn bars_are_shares_of_the_highest() {
        let html = bars(&[Second { txn_per_s: 500.0, measured: false }, Second { txn_per_s: 2_000.0, measured: true }]);
        assert!(html.contains("height:25.0%\" title=\"second 1: 500 txn/s, warm-up\""), "{html}");
        assert!(
            html.contains("height:100.0%\" title=\"second 2: 2,000 txn/s\"") && html.contains("2 s</span>"),
            "{html}"
        );
    }

    #[test]
    fn every_regime_has_its_place() {
        let mut places = REGIMES.map(|(_, at, _)| at);
        places.sort_unstable();
        assert_eq!(places, std::array::from_fn(|at| at));
        let names = Regimes::columns();
        let shown =
            REGIMES.iter().all(|(class, at, _)| names[*at].contains(class) || (*class == "elsewhere" && *at == 8));
        assert!(shown, "{names:?}");
        let regimes_of = Regimes { finish: 0.75, wait: 0.25, ..Regimes::default() };
        let html = regimes(&[TileSample { tile: "bank:0".into(), regimes: regimes_of, ..TileSample::default() }]);
        assert!(
            html.contains("finish\" style=\"width:75.00%\" title=\"75.0 % useful work\"")
                && html.contains("75.0 % busy")
        );
        assert_eq!(html.matches("<i ").count(), 2, "what is nought is not drawn");
    }

    #[test]
    fn stages_lie_on_a_scale_of_tens() {
        let stage = Stage { stage: "bank".into(), p50_us: 100.0, p99_us: 10_000.0, ..Stage::default() };
        let html = latencies(&[stage]);
        assert!(html.contains("left:0.0%;width:100.0%") && html.contains("10.0 ms"), "{html}");
    }
}
