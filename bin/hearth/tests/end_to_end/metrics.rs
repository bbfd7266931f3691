//! A running node's metrics are exactly those that the reference declares.

use std::collections::BTreeMap;

use super::evm::Chain;
use super::node::{Setup, hearth, output};

/// Heading of the reference's section on a node of the Ethereum chain.
const EVM: &str = "an EVM node\n";

/// Marks the sections of threads that only a node in a cluster has.
const CLUSTER: &str = "Only of a node in a cluster.";

/// Metrics of the reference by name with their type, of the sections that are wanted by their text; those of a bench's
/// load apart.
fn declared(wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let page = output(hearth().args(["config", "show", "--counters"]));
    let page = String::from_utf8(page.stdout).expect("text");
    let sections =
        page.split("\n## ").skip(1).filter(|section| !section.contains("Only in a bench.") && wanted(section));
    let rows = sections.flat_map(str::lines).filter_map(|line| line.strip_prefix("| `"));
    let row = |row: &str| {
        let mut cells = row.split(" | ");
        let name = cells.next()?.trim_end_matches('`').to_owned();
        Some((name, cells.next()?.to_owned()))
    };
    rows.filter_map(row).collect()
}

/// Parses a page into metric names and types. Each metric has help and a type, which come first, and has samples unless
/// the system does not provide them.
fn served(page: &str) -> BTreeMap<String, String> {
    let (mut served, mut help) = (BTreeMap::new(), "");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').expect("a name and a text").0;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert_eq!(name, help, "its help goes before");
            assert_eq!(served.insert(name.to_owned(), kind.to_owned()), None, "{name} comes twice");
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a sample and its value");
            assert!(sample.starts_with(help), "{line} stands under {help}");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        }
    }
    served
}

#[test]
fn metrics_of_an_evm_node_are_those_declared() {
    let chain = Chain::start(&[]);
    assert_eq!(served(&chain.metrics()), declared(|section| section.starts_with(EVM)));
    chain.stop();
}

#[test]
fn metrics_of_a_cluster_node_are_those_declared() {
    let mut setup = Setup::new("metrics-cluster");
    setup.in_cluster(None);
    let node = setup.start();
    assert_eq!(served(node.metrics().text()), declared(|section| !section.starts_with(EVM)));
    node.stop();
}

#[test]
fn served_metrics_are_those_declared() {
    let mut setup = Setup::new("metrics");
    setup.with("consensus.vote", true);
    let node = setup.start();
    let metrics = node.metrics();
    assert_eq!(served(metrics.text()), declared(|section| !section.starts_with(EVM) && !section.contains(CLUSTER)));
    let started = metrics.text().lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
    let now = hearth_tile::clock::unix_time().as_secs_f64();
    let age = now - started.and_then(|text| text.parse::<f64>().ok()).expect("when it began");
    assert!((0.0..3600.0).contains(&age), "{age} s old");
    node.stop();
}
