//! Runs Prometheus' own `promtool` on a node's metrics and on the rules and dashboards in `config/`.
//!
//! reads   `config/`; the metrics of a node; Debian's archive, until the tool is installed
//! writes  the tool, among the build outputs; a node in a temporary folder; each query of the dashboard as a rule
//! memory  the dashboard, one scrape

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::debian;
use crate::node::{self, Node};
use crate::rpc;
use crate::run::{self, TempFolder, target_dir};

/// Returns the path of the tool: named, installed, or taken out of Debian's package without installing its daemon.
fn tool() -> Result<PathBuf, String> {
    let folder = target_dir().join("prometheus");
    let fetched = folder.join("usr/bin/promtool");
    let named = std::env::var_os("PROMTOOL").map(PathBuf::from);
    let is_there = |tool: &PathBuf| run::answers(Command::new(tool).arg("--version"));
    if let Some(tool) = named.into_iter().chain(["promtool".into(), fetched.clone()]).find(is_there) {
        return Ok(tool);
    }
    debian::unpack(&folder, &["prometheus"]).map_err(|why| {
        format!(
            "{why}; promtool is needed: `apt-get install prometheus`, or PROMTOOL=/path/to/one (https://prometheus.io)"
        )
    })?;
    if is_there(&fetched) { Ok(fetched) } else { Err(format!("{} does not run", fetched.display())) }
}

/// The scrape's configuration, the alerts and their tests, the dashboard's queries, and the metrics of a node.
pub fn check(binary: &Path) -> Result<(), String> {
    let tool = tool()?;
    let config = run::root().join("config");
    let promtool = |args: &[&str]| run::run(Command::new(&tool).args(args).current_dir(&config));
    promtool(&["check", "config", "prometheus.yml"])?;
    promtool(&["test", "rules", "alerts.test.yml"])?;
    let folder = TempFolder::new("prometheus")?;
    let cannot = |error| format!("cannot write into {}: {error}", folder.path().display());
    let dashboard = std::fs::read_to_string(config.join("grafana-dashboard.json")).map_err(cannot)?;
    let rules = folder.path().join("queries.yml");
    std::fs::write(&rules, as_rules(&dashboard)?).map_err(cannot)?;
    run::run(Command::new(&tool).args(["check", "rules"]).arg(&rules))?;

    let port = node::free_ports()?;
    let node = Node::start(binary, folder.path(), port)?;
    let scrape = folder.path().join("metrics.txt");
    // The node's third port: see `config_text`.
    let metrics = rpc::get(Ipv4Addr::LOCALHOST, port + 2, "/metrics").map_err(|why| node.explain(&why))?;
    std::fs::write(&scrape, metrics).map_err(cannot)?;
    let input = std::fs::File::open(&scrape).map_err(cannot)?;
    run::run(Command::new(&tool).args(["check", "metrics"]).stdin(input))?;
    node.stop()
}

/// Converts each query of a dashboard to a rule, with values for Grafana's variables. JSON is valid YAML.
fn as_rules(dashboard: &str) -> Result<String, String> {
    let dashboard: Value = serde_json::from_str(dashboard).map_err(|error| format!("the dashboard: {error}"))?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let queries = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = queries.filter_map(|target| target["expr"].as_str());
    let rule = |(index, query): (usize, &str)| {
        let filled = [("$__rate_interval", "1m"), ("$instance", "127.0.0.1:7999"), ("$tile", "verify:0")];
        let query = filled.iter().fold(query.to_owned(), |query, (name, value)| query.replace(name, value));
        json!({ "record": format!("dashboard:query:{index}"), "expr": query })
    };
    let rules: Vec<Value> = queries.enumerate().map(rule).collect();
    if rules.is_empty() {
        return Err("the dashboard has no queries".into());
    }
    Ok(json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_become_rules_with_nothing_left_to_fill_in() {
        let expr = "rate(a_total{instance=\"$instance\"}[$__rate_interval])";
        let dashboard = json!({ "panels": [{ "type": "row" }, { "targets": [{ "expr": expr }, { "expr": "b" }] }] });
        let rules: Value = serde_json::from_str(&as_rules(&dashboard.to_string()).unwrap()).unwrap();
        let rules = rules["groups"][0]["rules"].as_array().unwrap();
        assert_eq!(rules[0]["expr"], "rate(a_total{instance=\"127.0.0.1:7999\"}[1m])");
        assert_eq!(rules[1]["record"], "dashboard:query:1");
        assert!(as_rules("{}").unwrap_err().contains("no queries"));
        assert!(as_rules("{").is_err());
    }
}
