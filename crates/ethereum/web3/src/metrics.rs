//! The node's metrics for Prometheus: `GET /metrics`.
//!
//! reads   the counters of chain, pool and server
//! writes  text, format 0.0.4
//! memory  one answer, about 12 KiB
//! source  Prometheus naming: base units last, counters end in `_total`

use std::fmt::Write;

use hearth_evm::chain::{BlockTimes, Metrics};
use hearth_evm::state::RetentionWindow;

use crate::counters::{Counters, is_gauge};

/// The parts of a block's time.
const PARTS: [(&str, fn(&BlockTimes) -> u64); 6] = [
    ("begin", |times| times.begin_us),
    ("check", |times| times.check_us),
    ("deliver", |times| times.deliver_us),
    ("end", |times| times.end_us),
    ("commit", |times| times.commit_us),
    ("evm_commit", |times| times.evm_commit_us),
];

/// A metric as the metrics page declares it.
pub struct MetricDeclaration {
    /// The full name, such as `hearth_evm_blocks_total`.
    pub name: String,
    /// The type: `counter` or `gauge`.
    pub kind: String,
    /// The help text, one sentence.
    pub help: String,
    /// The names of its labels.
    pub labels: Vec<&'static str>,
}

/// Returns every metric that a node serves.
pub fn declared() -> Vec<MetricDeclaration> {
    let text = text(&Metrics::default(), &Counters::default());
    let mut declared: Vec<MetricDeclaration> = vec![];
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                declared.push(MetricDeclaration {
                    name: name.into(),
                    kind: String::new(),
                    help: help.into(),
                    labels: vec![],
                });
            }
            (Some("#"), Some("TYPE"), _, Some(kind)) => {
                declared.iter_mut().next_back().into_iter().for_each(|metric| metric.kind = kind.into());
            }
            (Some(sample), ..) if sample.contains("{part=") => {
                declared.iter_mut().next_back().into_iter().for_each(|metric| metric.labels = vec!["part"]);
            }
            _ => {}
        }
    }
    declared
}

/// Formats all metrics as Prometheus reads them.
pub fn text(chain: &Metrics, web3: &Counters) -> String {
    let mut page = Page::default();
    of_blocks(&mut page, chain);
    of_states(&mut page, &chain.states);
    of_pool(&mut page, chain);
    for (name, help, value) in web3.all() {
        let help = help.trim();
        match is_gauge(name) {
            true => page.one(&format!("hearth_web3_{name}"), "gauge", help, value as f64),
            false => page.one(&format!("hearth_web3_{name}_total"), "counter", help, value as f64),
        }
    }
    page.text
}

fn of_blocks(page: &mut Page, chain: &Metrics) {
    page.one("hearth_evm_head", "gauge", "Height of the newest block made here.", chain.head as f64);
    for (name, help, value) in [
        ("blocks", "Blocks made here.", chain.blocks),
        ("blocks_ahead", "Blocks made here that were executed while the one before was being sealed.", chain.ahead),
        ("transactions", "Transactions in blocks made here.", chain.txs),
        ("gas", "Gas that transactions in blocks made here used.", chain.gas),
        ("submitted", "Transactions that were submitted.", chain.submitted),
        ("refused", "Submitted transactions that were refused.", chain.refused),
    ] {
        page.one(&format!("hearth_evm_{name}_total"), "counter", help, value as f64);
    }
    for (name, help, ns) in [
        ("recover", "Time of decoding transactions and recovering their senders; threads add up.", chain.recover_ns),
        ("pool", "Time in which the pool checked submitted transactions, summed over threads.", chain.pool_ns),
    ] {
        page.one(&format!("hearth_evm_{name}_seconds_total"), "counter", help, ns as f64 / 1e9);
    }
    let seconds = |part: fn(&BlockTimes) -> u64, times: &BlockTimes| part(times) as f64 / 1e6;
    page.head("hearth_evm_block_seconds_total", "counter", "Time of making blocks, by its parts; check runs beside.");
    PARTS.iter().for_each(|(name, part)| page.part("hearth_evm_block_seconds_total", name, seconds(*part, &chain.sum)));
    page.head("hearth_evm_last_block_seconds", "gauge", "Time of making the newest block, by its parts.");
    PARTS.iter().for_each(|(name, part)| page.part("hearth_evm_last_block_seconds", name, seconds(*part, &chain.last)));
}

fn of_states(page: &mut Page, states: &RetentionWindow) {
    for (name, help, value) in [
        ("states", "Blocks whose state is kept in memory.", states.blocks),
        ("states_oldest", "Height of the oldest block whose state is kept.", states.oldest),
        ("states_bytes", "Memory that only older states need.", states.bytes),
    ] {
        page.one(&format!("hearth_evm_{name}"), "gauge", help, value as f64);
    }
    let help = "Old states dropped because their memory, --history-mib, was used up.";
    page.one("hearth_evm_states_evicted_total", "counter", help, states.evicted as f64);
}

fn of_pool(page: &mut Page, chain: &Metrics) {
    let (status, stats) = (chain.pool_status, chain.pool);
    for (name, help, value) in [
        ("pending", "Transactions that wait and can be executed.", status.pending),
        ("queued", "Transactions that wait behind a gap in their account's nonces.", status.queued),
        ("held_bytes", "Memory of the transactions that wait.", status.bytes),
    ] {
        page.one(&format!("hearth_pool_{name}"), "gauge", help, value as f64);
    }
    for (name, help, value) in [
        ("added", "Transactions accepted into the pool.", stats.added),
        ("known", "Transactions refused: the pool has them already.", stats.known),
        ("full", "Transactions refused: the pool is full of better-paying ones.", stats.full),
        ("refused", "Transactions refused: nonce, funds, gas or fees.", stats.refused),
        ("replaced", "Transactions replaced by better-paying ones of the same nonce.", stats.replaced),
        ("evicted", "Transactions evicted for others, or because too many wait behind a nonce gap.", stats.evicted),
        ("expired", "Transactions given up because they had waited too long.", stats.expired),
        ("invalid", "Transactions given up because no block could hold them any more.", stats.invalid),
        ("removed", "Transactions given up on demand.", stats.removed),
        ("rechecked", "Accounts looked at again after blocks.", stats.rechecked),
    ] {
        page.one(&format!("hearth_pool_{name}_total"), "counter", help, value as f64);
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        let _ = writeln!(self.text, "{name} {value}");
    }

    fn part(&mut self, name: &str, part: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{part=\"{part}\"}} {value}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn every_metric_is_declared_once_and_has_its_value() {
        let last = BlockTimes { deliver_us: 1_500, ..BlockTimes::default() };
        let chain = Metrics { head: 7, txs: 20, last, ..Metrics::default() };
        let web3 = Counters::default();
        web3.connections_open.store(3, Ordering::Relaxed);
        let text = text(&chain, &web3);
        for line in [
            "hearth_evm_head 7",
            "hearth_evm_transactions_total 20",
            "hearth_evm_last_block_seconds{part=\"deliver\"} 0.0015",
            "hearth_web3_connections_open 3",
            "hearth_web3_requests_total 0",
            "# TYPE hearth_pool_pending gauge",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
        let declared: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(declared.iter().collect::<BTreeSet<_>>().len(), declared.len());
        let of = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
        let values = text.lines().filter(|line| !line.starts_with('#')).map(of);
        assert!(values.into_iter().all(|name| declared.iter().any(|line| line.split(' ').nth(2) == Some(&name))));
    }
}
