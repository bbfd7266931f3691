//! Metrics have names that Prometheus accepts, and every metric named in `config/` and the docs exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hearth_pipeline::metric::families;
use hearth_pipeline::metric::served::Type;
use serde_json::Value;

use super::*;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Metrics of nodes of both ledgers.
fn all() -> Vec<Metric> {
    families::declared(&topology()).into_iter().chain(of_evm()).collect()
}

/// Names of samples: a histogram has three.
fn samples() -> BTreeMap<String, Metric> {
    let mut samples = BTreeMap::new();
    for metric in all() {
        let suffixes: &[&str] = if metric.kind == Type::Histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
        for suffix in suffixes {
            samples.insert(format!("{}{suffix}", metric.name), metric.clone());
        }
    }
    samples
}

/// The words of a text that could be metrics of ours, but for the recording rules' (`hearth:…`).
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let ours = words.filter(|word| word.starts_with("hearth_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn names_are_as_prometheus_wants_them() {
    let metrics = all();
    assert!(metrics.len() > 150, "{}", metrics.len());
    for Metric { name, kind, help, labels } in metrics {
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), kind == Type::Counter, "{name}: {kind:?}");
        let reserved = ["_count", "_sum", "_bucket"];
        assert!(!reserved.iter().any(|suffix| name.ends_with(suffix)), "{name}: a histogram's suffix");
        let base = name.trim_end_matches("_total");
        let unit = ["ns", "us", "ms", "micros", "millis", "nanos", "kib", "mib", "kb", "mb", "percent"];
        assert!(!base.split('_').any(|word| unit.contains(&word)), "{name}: no base unit");
        let is_unit = |word: &str| ["seconds", "bytes"].contains(&word);
        let last = base.rsplit('_').next().unwrap_or_default();
        assert!(!base.split('_').any(is_unit) || is_unit(last), "{name}: the unit goes last");
        assert!(help.ends_with('.') && !help.contains("nanosecond"), "{name}: {help}");
        // Where Prometheus shows it, nothing stands before it.
        let leans = help.starts_with("The same") || help.starts_with("Their ") || help.contains(" in them.");
        assert!(!leans && help.split(' ').count() >= 3, "{name}: `{help}` does not stand alone");
        assert!(labels.iter().all(|label| label.bytes().all(|b| b.is_ascii_lowercase())), "{name}: {labels:?}");
    }
}

#[test]
fn the_page_has_every_metric_once() {
    let page = markdown();
    for metric in all() {
        let row = format!("| `{}` | {} | {} |", metric.name, metric.kind.name(), metric.help);
        assert_eq!(page.matches(&row).count(), 1, "{row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, all().len());
}

#[test]
fn metrics_of_dashboard_and_alerts_are_served() {
    let samples = samples();
    for path in ["config/grafana-dashboard.json", "config/alerts.yml", "config/alerts.test.yml", "docs/observing.md"] {
        let text = text_of(path);
        let names = named(&text);
        assert!(!names.is_empty(), "{path} names none");
        for name in names {
            assert!(samples.contains_key(&name), "{path} names {name}, which no node serves");
        }
    }
}

/// Every label used in a query exists on the metric that the query names.
#[test]
fn the_labels_that_the_dashboard_and_the_alerts_name_are_served() {
    let samples = samples();
    // Labels that Prometheus adds when it scrapes.
    let added = ["job", "instance", "le"];
    for path in ["config/grafana-dashboard.json", "config/alerts.yml"] {
        let text = text_of(path).replace("\\\"", "\"");
        for (name, metric) in &samples {
            for (at, _) in text.match_indices(&format!("{name}{{")) {
                let selector = text[at + name.len() + 1..].split('}').next().unwrap_or_default();
                for matcher in selector.split(',').filter(|matcher| !matcher.is_empty()) {
                    let label = matcher.trim().split(['=', '!']).next().unwrap_or_default();
                    let is_known = metric.labels.contains(&label) || added.contains(&label);
                    assert!(is_known, "{path}: {name}{{{selector}}} has no label {label}");
                }
            }
        }
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&text_of("config/grafana-dashboard.json")).expect("JSON")
}

#[test]
fn the_dashboard_is_one_that_grafana_takes() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
    assert!(dashboard["uid"].as_str().is_some_and(|uid| (1..=40).contains(&uid.len())));
    assert_eq!(dashboard["id"], Value::Null, "Grafana gives the id");
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let of_type = |kind: &str| variables.iter().filter(|it| it["type"] == kind).count();
    assert_eq!((of_type("datasource"), of_type("query")), (1, 2), "the source; which node, which tile");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: an id twice");
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_else(|| panic!("{title}: gridPos.{key}"));
        assert!(at("w") > 0 && at("h") > 0 && at("x") + at("w") <= 24, "{title}: outside the 24 columns");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{title}: lies over another panel");
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title}: what does it show?");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}: no unit");
        let targets = panel["targets"].as_array().unwrap_or_else(|| panic!("{title}: no queries"));
        let references: BTreeSet<&str> = targets.iter().filter_map(|it| it["refId"].as_str()).collect();
        assert_eq!(references.len(), targets.len(), "{title}: each query has a refId of its own");
        for target in targets.iter().chain([panel]) {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
        for target in targets {
            let expr = target["expr"].as_str().expect("an expression");
            assert!(expr.contains("$instance"), "{title}: {expr} is of all nodes at once");
        }
    }
    assert!(panels.len() >= 12, "{}", panels.len());
}

/// Every drop reason and every latency stage has a metric.
#[test]
fn the_dashboard_shows_every_drop_and_every_latency() {
    let names = named(&dashboard().to_string());
    for metric in all() {
        let name = &metric.name;
        let is_drop = name.contains("_dropped_") && !name.starts_with("hearth_metric_");
        if is_drop {
            assert!(names.contains(name), "{name} is not in the dashboard");
        }
        if metric.kind == Type::Histogram {
            assert!(names.contains(&format!("{name}_bucket")), "{name} is not in the dashboard");
        }
    }
}

/// Every alert states its severity, how long it must last, what it means and what to do.
#[test]
fn every_alert_says_what_to_do_and_is_tested() {
    let (rules, tests, page) =
        (text_of("config/alerts.yml"), text_of("config/alerts.test.yml"), text_of("docs/observing.md"));
    let mut alerts = 0;
    for block in rules.split("- alert: ").skip(1) {
        alerts += 1;
        let name = block.lines().next().unwrap_or_default().trim();
        for key in ["expr: ", "for: ", "severity: ", "summary: ", "description: ", "action: "] {
            assert!(block.contains(key), "{name} has no {key}");
        }
        assert!(block.contains("severity: critical") || block.contains("severity: warning"), "{name}");
        assert!(tests.contains(&format!("alertname=\"{name}\"")), "{name} has no test");
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/observing.md");
    }
    assert!(alerts >= 10, "{alerts}");
}
