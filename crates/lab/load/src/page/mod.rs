//! Reports as one self-contained HTML file. Several reports stand side by side, on the same scales.
//!
//! reads   reports, fresh or as `--json` wrote them
//! writes  HTML: figures, plots as SVG, the flame graph, the options of the run
//! memory  the page, some hundred KiB per report
//!
//! A report contains strings from an untrusted server: its name, its errors, names of its functions. They are escaped.

mod flame;
mod plot;
mod sections;

use hearth_page::{document, text};
use serde_json::Value;

use crate::ramp::Step;
use crate::report::Report;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A report on a page.
#[derive(Clone, Debug, Default)]
pub struct PageReport {
    /// Name of the report, taken from its file.
    pub name: String,
    /// The figures, as read from the JSON.
    pub report: Report,
    /// The steps of a search for the highest rate, and its bound in milliseconds.
    pub steps: Option<(Vec<Step>, f64)>,
}

/// Why a file cannot be shown as a report.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The JSON is not a report.
    #[error("{0} is not a report of `hearth load run --json`: it has no `tps` and `kind`")]
    NoReport(String),
    /// A field has the wrong type.
    #[error("{0}: {1}")]
    Shape(String, serde_json::Error),
    /// The search found no rate.
    #[error("{0}: a search in which no rate was good has no report")]
    NothingFound(String),
}

/// Reads a report as `--json` wrote it: of a run, or of a search for the highest rate.
pub fn read(name: &str, mut json: Value) -> Result<PageReport, PageError> {
    let shape = |why| PageError::Shape(name.into(), why);
    let steps = match json.get_mut("steps").map(Value::take) {
        Some(steps) => {
            let bound = json["p99_ms_max"].as_f64().unwrap_or_default();
            json = json["report"].take();
            if json.is_null() {
                return Err(PageError::NothingFound(name.into()));
            }
            Some((serde_json::from_value(steps).map_err(shape)?, bound))
        }
        None => None,
    };
    if !json["tps"].is_number() || !json["kind"].is_string() {
        return Err(PageError::NoReport(name.into()));
    }
    Ok(PageReport { name: name.into(), report: serde_json::from_value(json).map_err(shape)?, steps })
}

/// Writes the page of these reports.
pub fn html(reports: &[PageReport]) -> String {
    let title = match reports {
        [one] => format!("Hearth load: {} txn/s", text::figure(one.report.tps)),
        several => format!("Hearth load: {} reports", several.len()),
    };
    document(&title, STYLE, SCRIPT, &sections::all(reports))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::Profile;
    use crate::report::{Bin, BlockLine, Percentiles};
    use crate::series::RunSample;

    const EVIL: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

    fn report() -> Report {
        let block = |number: u64| BlockLine {
            number,
            seen_s: number as f64,
            ours: 100 * number,
            failed: Some(number),
            ..BlockLine::default()
        };
        let moment = |at: u64| RunSample {
            at_s: at as f64 / 2.0,
            pool_pending: Some(10 * at),
            server_cores: Some(0.5),
            ..RunSample::default()
        };
        Report {
            client: EVIL.into(),
            kind: EVIL.into(),
            reasons: [(EVIL.to_owned(), 3)].into(),
            last_error: Some(EVIL.into()),
            machine: Some(EVIL.into()),
            configuration: vec![(EVIL.into(), EVIL.into())],
            pool_source: Some(EVIL.into()),
            seconds: 4.0,
            tps: 1_234.5,
            unanswered: 1,
            rejected: 3,
            latency: Some(Percentiles { p50_ms: 12.0, p90_ms: 50.0, p99_ms: 99.0, p999_ms: 120.0, max_ms: 200.0 }),
            latency_distribution: vec![Bin { from_ms: 10.0, to_ms: 100.0, count: 9 }],
            blocks: (0..5).map(block).collect(),
            moments: (0..8).map(moment).collect(),
            profile: Some(Profile { folded: format!("{EVIL};f 3\ng 1\n"), source: EVIL.into(), ..Profile::default() }),
            ..Report::default()
        }
    }

    #[test]
    fn the_page_has_every_plot_and_asks_for_nothing() {
        let html = html(&[PageReport { name: "a.json".into(), report: report(), steps: None }]);
        for plot in [
            "transactions a second",
            "transactions in blocks",
            "block time",
            "latency",
            "waiting",
            "CPU",
            "flame graph",
        ] {
            assert!(html.contains(&format!("data-plot=\"{plot}\"")), "{plot}");
        }
        for part in ["1,235", "120 ms", "4 s: succeeded 396, failed 4", "the node"] {
            assert!(html.contains(part), "{part}");
        }
        for ask in ["src=\"", "href=", "@import", "url("] {
            assert!(!html.contains(ask), "{ask}");
        }
    }

    #[test]
    fn a_line_of_several_blocks_is_shown_as_one_of_them() {
        let mut report = report();
        let several = |line: &BlockLine| BlockLine { ours: 8 * line.ours, count: 8, ..line.clone() };
        report.blocks = report.blocks.iter().map(several).collect();
        let html = html(&[PageReport { name: "a.json".into(), report, steps: None }]);
        for part in ["4 s: succeeded 400, failed 0.5", "4 s: between blocks 125", "means of up to 8", "<dd>40</dd>"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn words_of_others_stay_words() {
        let shown = PageReport { name: EVIL.into(), report: report(), steps: None };
        for html in [html(&[shown.clone()]), html(&[shown.clone(), shown])] {
            assert_eq!(html.matches("<script").count(), 1);
            assert_eq!(html.matches("</script").count(), 1);
            assert!(!html.contains("<img") && html.contains("&lt;img src=x onerror=alert(2)&gt;&quot;&#39;&amp;"));
        }
    }

    #[test]
    fn the_script_makes_no_html() {
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("</"));
        assert!(html(&[PageReport::default()]).contains(SCRIPT));
    }

    #[test]
    fn saved_reports_are_read_and_others_refused() {
        let saved = serde_json::to_value(report()).unwrap();
        let shown = read("a.json", saved.clone()).unwrap();
        assert_eq!((shown.report.blocks.len(), shown.steps.is_none()), (5, true));
        let step = json!({ "rate": 5.0, "tps": 4.9, "p99_ms": 9.0, "limit": "rate", "wrong": null });
        let ramp = read("r", json!({ "p99_ms_max": 50.0, "steps": [step], "report": saved })).unwrap();
        assert!(ramp.steps.as_ref().is_some_and(|(steps, bound)| steps.len() == 1 && *bound == 50.0));
        assert!(html(&[ramp]).contains("Search for the highest rate"));
        let found_nothing = json!({ "p99_ms_max": 50.0, "steps": [], "report": null });
        assert!(matches!(read("r", found_nothing), Err(PageError::NothingFound(_))));
        for wrong in [json!({}), json!([]), json!(3), json!({ "tps": "x", "kind": 1 })] {
            assert!(matches!(read("x", wrong), Err(PageError::NoReport(_))));
        }
        assert!(matches!(read("x", json!({ "tps": 1.0, "kind": "y", "blocks": 3 })), Err(PageError::Shape(..))));
    }
}
