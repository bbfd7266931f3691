//! The metrics that a node serves: `hearth config show --counters`.
//!
//! reads   the topology of the default configuration
//! writes  Markdown
//! memory  the page

use std::fmt::Write;

use hearth_node::boot;
use hearth_node::config::Config;
use hearth_pipeline::kinds::{Kind, Role};
use hearth_pipeline::metric::families;
use hearth_pipeline::metric::served::{Metric, Type};
use hearth_tile::topology::Topology;

/// A node with everything that can count: the load's tiles too, and those of a cluster.
fn topology() -> Topology {
    let cores = hearth_tile::affinity::Cores { allowed: vec![0], siblings: Default::default() };
    let mut config = Config::default();
    config.gossip.enabled = true;
    boot::topology(&config, &cores, true).expect("the default layout fits any machine")
}

/// Metrics that an EVM node serves.
fn of_evm() -> Vec<Metric> {
    let declared = hearth_web3::metrics::declared().into_iter();
    declared
        .map(|it| Metric {
            name: it.name,
            kind: if it.kind == "counter" { Type::Counter } else { Type::Gauge },
            help: it.help,
            labels: it.labels,
        })
        .collect()
}

/// Every metric as a page.
pub fn markdown() -> String {
    let topology = topology();
    let mut text = String::from(HEAD);
    let mut section = |title: &str, labels: &str, metrics: Vec<Metric>| {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n## {title}\n\n{labels}\n\n| Metric | Type | Meaning |\n|---|---|---|\n");
        for it in metrics {
            let _ = writeln!(text, "| `{}` | {} | {} |", it.name, it.kind.name(), it.help);
        }
    };
    let counters = |area: &str, specs: &[_]| specs.iter().map(|spec| families::counter(area, spec)).collect();
    section(
        "every tile",
        "Labels: `tile` (`verify:0`), `kind` (`verify`); of the regimes `regime` too, with the names of the monitor's columns.",
        counters("tile", &families::of_every_tile()),
    );
    section(
        "every link",
        "Labels: `link` (`verify_dedup:0`), and `consumer` (`dedup:0`) except of `hearth_link_frags_total`.",
        counters("link", &families::of_every_link()),
    );
    section("the process", "No labels, but `version` of `hearth_build_info`.", families::of_the_process());
    let mut kinds: Vec<&str> = vec![];
    for tile in &topology.tiles {
        if !kinds.contains(&tile.kind.as_str()) {
            kinds.push(&tile.kind);
            let latencies = tile.latencies.iter().map(|spec| families::latency(&tile.kind, spec));
            let metrics: Vec<Metric> = counters(&tile.kind, &tile.counters);
            let of = match Kind::named(&tile.kind).map(|kind| kind.role) {
                Some(Role::Load) => "Label: `tile`. Only in a bench.",
                Some(Role::Cluster) => "Label: `tile`. Only of a node in a cluster.",
                Some(Role::Voter) => "Label: `tile`. Only of a node that votes or is in a cluster.",
                _ => "Label: `tile`.",
            };
            section(&tile.kind, of, metrics.into_iter().chain(latencies).collect());
        }
    }
    for service in &topology.services {
        section(&service.name, "Label: `service`.", counters(&service.name, &service.counters));
    }
    section(
        "an EVM node",
        "Of `hearth evm run`, on the port of its RPC: http://127.0.0.1:8545/metrics. No labels, but `part` of the times of \
         a block's parts.",
        of_evm(),
    );
    text
}

const HEAD: &str = "\
# Metrics

Served as Prometheus text on `tiles.metric.prometheus_listen_port`: http://127.0.0.1:7999/metrics. Units are seconds
and bytes. A histogram has `_bucket` (label `le`), `_sum` and `_count` of its name. `hearth why` names a counter without
`hearth_` and `_total`. [Observing](observing.md) says how to have them drawn and watched.
";

#[cfg(test)]
mod tests;
