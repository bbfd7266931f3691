//! Attacks at stated rates on running nodes, one after another, while `hearth load run` sends legitimate transactions.
//!
//! Without an environment it is a short test: every attack must show in a counter, the nodes must stay alive, and every
//! legitimate transaction must land. With `HEARTH_SECONDS` the traffic of so many seconds is measured before, during
//! and after each attack, and judged; `HEARTH_RATE` is its rate in transactions per second, and `HEARTH_ATTACK` names
//! the only attack to make. `cargo xtask soak hostile` sets them.

mod attacker;
mod attacks;
pub mod packets;
mod quic;
mod tcp;
mod traffic;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread::{Scope, ScopedJoinHandle};

use serde_json::{Value, json};

use super::cluster_soak::number;
use super::evm::Chain;
use super::follow::{follower, leader, reaches};
use super::node::{Node, Setup, hearth, output, page, wait_until};
use super::storm::EndOnDrop;
use super::two_blocks::shred_version;
use attacker::{Progress, Reached};
use attacks::{EVM, Plan, SOLANA, SolanaTarget};
use tcp::Servers;
use traffic::{Load, Window, held_bytes};

/// The rate of the legitimate traffic in the short test, in transactions per second.
const BRIEF_RATE: u64 = 50;
/// The load of the short test is stopped long before this.
const BRIEF_SECONDS: u64 = 600;
/// Traffic before a window is measured, in seconds.
const WARMUP_SECONDS: u64 = 1;
/// The slowest hundredth of the traffic may take this many times as long as without an attack.
const SLOWER_MAX: f64 = 3.0;
/// Memory that the stated bound leaves out, in bytes: the accounts of this small chain, what the RPC reads and
/// answers, and what the allocator keeps.
const BESIDE: u64 = 128 << 20;
/// Maximum growth of an EVM node, in bytes, from before the first window on: 256 MiB of requests under way, 64 KiB for
/// each of 768 connections, and 512 MiB for the pool, the states of recent blocks and what subscribers have not read.
const EVM_MORE: u64 = (256 << 20) + 768 * (64 << 10) + (512 << 20);

/// The nodes under attack.
struct Victim<T> {
    chain: &'static str,
    target: T,
    /// The URL to which the legitimate traffic goes.
    url: String,
    pids: Vec<u32>,
    /// Ports that serve counters.
    metrics: Vec<u16>,
    /// The stated bound of a node's memory, in bytes.
    memory_max: u64,
    folder: PathBuf,
}

/// Sums of the counters, by name.
type Counters = BTreeMap<String, u64>;

/// Adds the counters of a page, `hearth_NAME_total`, summed over their labels.
fn add_counters(page: &str, counters: &mut Counters) {
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let name = name.split_once('{').map_or(name, |(name, _)| name);
        let name = name.strip_prefix("hearth_").and_then(|name| name.strip_suffix("_total"));
        if let (Some(name), Ok(value)) = (name, value.parse::<u64>()) {
            *counters.entry(name.to_owned()).or_default() += value;
        }
    }
}

/// By how much each of the counters that an attack names has risen, those alone that have.
fn risen(names: &[&str], before: &Counters, after: &Counters) -> Counters {
    let value = |counters: &Counters, name: &str| counters.get(name).copied().unwrap_or(0);
    let names = names.iter().flat_map(|names| names.split('|'));
    let rises = names.map(|name| (name.to_owned(), value(after, name).saturating_sub(value(before, name))));
    rises.filter(|(_, rise)| *rise > 0).collect()
}

/// The part of each rise that goes beyond that of the legitimate traffic alone, in a window of the same length.
fn beyond(mut risen: Counters, alone: &Counters) -> Counters {
    risen.iter_mut().for_each(|(name, rise)| *rise = rise.saturating_sub(alone.get(name).copied().unwrap_or(0)));
    risen.retain(|_, rise| *rise > 0);
    risen
}

/// A window without an attack, and the counters before and after it.
struct Quiet {
    window: Window,
    before: Counters,
    after: Counters,
}

/// The counters that should have risen, and have not.
fn missing<'a>(names: &'a [&'a str], risen: &Counters) -> Vec<&'a str> {
    let is_risen = |names: &str| names.split('|').any(|name| risen.contains_key(name));
    names.iter().copied().filter(|names| !is_risen(names)).collect()
}

impl<T: Sync> Victim<T> {
    /// The counters of all nodes together.
    fn counters(&self) -> Result<Counters, String> {
        let mut counters = Counters::new();
        for port in &self.metrics {
            add_counters(&page(*port, "/metrics").map_err(|why| why.to_string())?, &mut counters);
        }
        Ok(counters)
    }

    /// The same; a node whose connections are all in use is asked again.
    fn counters_in_time(&self) -> Counters {
        wait_until("counters", || self.counters())
    }

    /// Runs an attack on its own thread until `progress.done` is set.
    fn attack<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        plan: &'env Plan<T>,
        progress: &'env Progress,
    ) -> ScopedJoinHandle<'scope, Reached> {
        scope.spawn(move || {
            let mut attack = (plan.start)(&self.target);
            attacker::run(&mut *attack, plan.rate, progress)
        })
    }

    /// The short test: each attack lasts until it has been made and its counters have risen.
    fn withstands_briefly(&self, plans: &[Plan<T>]) {
        let load = Load::start(&self.url, &self.folder, BRIEF_RATE, 0, BRIEF_SECONDS);
        load.has_begun();
        for plan in plans {
            println!("{}: {}", self.chain, plan.name);
            let (before, progress) = (self.counters_in_time(), Progress::default());
            std::thread::scope(|scope| {
                let ends = EndOnDrop(&progress.done);
                let attack = self.attack(scope, plan, &progress);
                wait_until(plan.name, || {
                    let risen = risen(plan.counters, &before, &self.counters()?);
                    let missing = missing(plan.counters, &risen);
                    let made = progress.made.load(Ordering::Acquire);
                    let shown = made > 0 && missing.is_empty();
                    if shown { Ok(()) } else { Err(format!("{made} attempts; {missing:?} have not risen")) }
                });
                drop(ends);
                attack.join().expect("it only attacks");
            });
        }
        let report = load.stop();
        assert!(report["sent"].as_u64() > Some(0), "{report:#}");
        assert_eq!(report["included"], report["sent"], "{report:#}");
    }

    fn window(&self, rate: u64, seconds: u64) -> Window {
        Load::start(&self.url, &self.folder, rate, WARMUP_SECONDS, seconds).watch(&self.pids)
    }

    fn quiet(&self, rate: u64, seconds: u64) -> Quiet {
        let before = self.counters_in_time();
        let window = self.window(rate, seconds);
        Quiet { window, before, after: self.counters_in_time() }
    }

    /// Measures the traffic before, during and after each attack.
    fn rows(&self, plans: &[&Plan<T>], rate: u64, seconds: u64) -> Vec<Row> {
        let mut before = self.quiet(rate, seconds);
        let mut rows = vec![];
        for plan in plans {
            let (counters, progress) = (self.counters_in_time(), Progress::default());
            let (during, reached) = std::thread::scope(|scope| {
                let ends = EndOnDrop(&progress.done);
                let attack = self.attack(scope, plan, &progress);
                let during = self.window(rate, seconds);
                drop(ends);
                (during, attack.join().expect("it only attacks"))
            });
            let alone = risen(plan.counters, &before.before, &before.after);
            let risen = beyond(risen(plan.counters, &counters, &self.counters_in_time()), &alone);
            let missing = missing(plan.counters, &risen).into_iter().map(str::to_owned).collect();
            let after = self.quiet(rate, seconds);
            let row = Row {
                chain: self.chain,
                attack: plan.name,
                unit: plan.unit,
                rate: plan.rate,
                reached,
                before: before.window,
                during,
                after: after.window,
                memory_max: self.memory_max,
                risen,
                missing,
            };
            println!("{}", row.line());
            rows.push(row);
            before = after;
        }
        rows
    }

    /// Attacks as the environment says.
    fn withstands(&self, plans: &[Plan<T>]) {
        let (seconds, rate) = (number("HEARTH_SECONDS", 0), number("HEARTH_RATE", 1_000));
        if seconds == 0 {
            return self.withstands_briefly(plans);
        }
        let only = std::env::var("HEARTH_ATTACK").ok();
        let is_chosen = |plan: &&Plan<T>| only.as_ref().is_none_or(|only| plan.name == only);
        let chosen: Vec<&Plan<T>> = plans.iter().filter(is_chosen).collect();
        if chosen.is_empty() {
            return;
        }
        let rows = self.rows(&chosen, rate, seconds);
        let wrong: Vec<String> = rows.iter().flat_map(Row::wrong).collect();
        let shown: Vec<Value> = rows.iter().map(Row::json).collect();
        println!("figures {}", json!({ "seconds": seconds, "rate": rate, "rows": shown, "wrong": wrong }));
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// One attack, and the traffic around it.
struct Row {
    chain: &'static str,
    attack: &'static str,
    unit: &'static str,
    rate: u64,
    reached: Reached,
    before: Window,
    during: Window,
    after: Window,
    memory_max: u64,
    risen: Counters,
    missing: Vec<String>,
}

impl Row {
    /// The p99 without an attack: the mean of before and after, in milliseconds.
    fn undisturbed_p99_ms(&self) -> f64 {
        f64::midpoint(self.before.p99_ms, self.after.p99_ms)
    }

    /// The most memory of a node in the three windows, in bytes.
    fn held_bytes(&self) -> u64 {
        [&self.before, &self.during, &self.after].map(|window| window.held_bytes).into_iter().fold(0, u64::max)
    }

    /// Returns the conditions that do not hold, a sentence each.
    fn wrong(&self) -> Vec<String> {
        let Self { chain, attack, during, .. } = self;
        let mut wrong = vec![];
        let mut expect = |holds: bool, what: String| {
            if !holds {
                wrong.push(format!("{chain}, {attack}: {what}"));
            }
        };
        let Window { sent, included, unsent, p99_ms, .. } = *during;
        expect(self.reached.count > 0, "no attempt was made".into());
        expect(sent > 0 && included == sent, format!("{included} of {sent} transactions landed"));
        expect(unsent == 0, format!("{unsent} transactions could not be sent in time"));
        let undisturbed = self.undisturbed_p99_ms();
        let what = format!("a p99 of {p99_ms:.0} ms, {undisturbed:.0} ms without the attack");
        expect(p99_ms <= SLOWER_MAX * undisturbed, what);
        let (held, most) = (self.held_bytes() >> 20, self.memory_max >> 20);
        expect(held <= most, format!("{held} MiB of memory, {most} MiB at most"));
        expect(self.missing.is_empty(), format!("no rise of {}", self.missing.join(" and ")));
        wrong
    }

    fn json(&self) -> Value {
        json!({
            "chain": self.chain,
            "attack": self.attack,
            "unit": self.unit,
            "rate": self.rate,
            "reached": self.reached.rate(),
            "cores": self.reached.cores,
            "sent": self.during.sent,
            "landed": self.during.included,
            "before": self.before.latency(),
            "during": self.during.latency(),
            "after": self.after.latency(),
            "held_bytes": self.held_bytes(),
            "held_bytes_max": self.memory_max,
            "counters": self.risen,
            "passed": self.wrong().is_empty(),
        })
    }

    fn line(&self) -> String {
        let Self { chain, attack, rate, reached, before, during, after, .. } = self;
        format!(
            "{chain} {attack}: {:.0} of {rate} a second by {:.2} cores; {} of {} landed; p99 {:.0}, {:.0}, {:.0} ms; \
             {} MiB; {:?}",
            reached.rate(),
            reached.cores,
            during.included,
            during.sent,
            before.p99_ms,
            during.p99_ms,
            after.p99_ms,
            self.held_bytes() >> 20,
            self.risen
        )
    }
}

/// The bound of a node's memory as its configuration states it, in bytes.
fn stated_bytes(setup: &Setup) -> u64 {
    let table = output(hearth().args(["config", "show", "--memory", "--config"]).arg(setup.config()));
    assert!(table.status.success(), "{table:?}");
    let table = String::from_utf8(table.stdout).expect("text");
    bound_of(&table).unwrap_or_else(|| panic!("no bound in:\n{table}"))
}

/// Returns the most memory of a node, with that for hostile peers of its quic tile, in bytes.
fn bound_of(table: &str) -> Option<u64> {
    let mib = |words: &str| -> Option<f64> {
        let line = table.lines().find(|line| line.contains(words))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let mib = mib(" in all, accounts apart")? + mib(" more at most for each quic tile")?;
    Some((mib * f64::from(1 << 20)) as u64)
}

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// The UDP ports of a node in a cluster: transactions, gossip, repair, shreds.
fn udp_ports(setup: &Setup) -> [u16; 6] {
    let in_cluster = [
        "gossip.port",
        "tiles.repair.repair_serve_listen_port",
        "tiles.repair.repair_client_listen_port",
        "tiles.shred.shred_listen_port",
    ];
    let [gossip, serve, repair, tvu] = in_cluster.map(|path| setup.port(path));
    [setup.ports.quic, setup.ports.udp, gossip, serve, repair, tvu]
}

fn solana(setups: &[Setup; 2], nodes: &[Node; 2]) -> Victim<SolanaTarget> {
    let [leads, follows] = setups;
    let ports = leads.ports;
    let [quic, udp, gossip, repair, ..] = udp_ports(leads).map(local);
    let rpc = nodes[0].rpc();
    let target = SolanaTarget {
        servers: Servers { http: local(ports.rpc), websocket: local(ports.rpc + 1) },
        quic,
        udp,
        gossip,
        repair,
        tvu: local(follows.tvu()),
        ports: setups.iter().flat_map(udp_ports).map(local).collect(),
        identity: rpc.identity(),
        shred_version: shred_version(rpc),
        leader: rpc,
    };
    Victim {
        chain: "solana",
        target,
        url: format!("http://127.0.0.1:{}", ports.rpc),
        pids: nodes.iter().map(|node| node.process.id()).collect(),
        metrics: nodes.iter().map(|node| node.ports.metrics).collect(),
        memory_max: setups.iter().map(stated_bytes).fold(0, u64::max) + BESIDE,
        folder: leads.folder.path().to_owned(),
    }
}

#[test]
fn attacks_on_a_solana_node() {
    let (mut leads, gossip) = leader("hostile-lead");
    // The status of every transaction of the run stays known.
    leads.with("rpc.status_capacity", 1 << 20).with("tiles.pack.max_pending_transactions", 1 << 15);
    let follows = follower("hostile-follow", gossip);
    let setups = [leads, follows];
    let mut nodes = setups.each_ref().map(Setup::start);
    nodes.iter().for_each(|node| reaches(node, 3));
    solana(&setups, &nodes).withstands(&SOLANA);
    assert!(nodes.iter_mut().all(|node| node.process.is_alive()));
    nodes.into_iter().for_each(Node::stop);
}

#[test]
fn attacks_on_an_evm_node() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut chain = Chain::start(&[]);
    let server = local(chain.port);
    let victim = Victim {
        chain: "evm",
        target: Servers { http: server, websocket: server },
        url: format!("http://{server}"),
        pids: vec![chain.process.id()],
        metrics: vec![chain.port],
        memory_max: held_bytes(chain.process.id()) + EVM_MORE,
        folder: folder.path().to_owned(),
    };
    victim.withstands(&EVM);
    assert!(chain.process.is_alive());
    chain.stop();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let page = [
            "# TYPE hearth_a_b_total counter",
            "hearth_a_b_total{tile=\"a:0\"} 2",
            "hearth_a_b_total{tile=\"a:1\"} 3",
            "hearth_c_total 7",
            "hearth_seconds_total{tile=\"a b\"} 0.5",
            "hearth_open{tile=\"a:0\"} 9",
        ];
        let mut counters = Counters::new();
        add_counters(&page.join("\n"), &mut counters);
        assert_eq!(counters, Counters::from([("a_b".to_owned(), 5), ("c".to_owned(), 7)]));
    }

    #[test]
    fn one_of_the_alternatives_must_rise() {
        let counters = |b| Counters::from([("a", 1), ("b", b), ("c", 1)].map(|(name, value)| (name.to_owned(), value)));
        let (before, after) = (counters(1), counters(3));
        let names = ["a|b", "c", "d"];
        let risen = risen(&names, &before, &after);
        assert_eq!(risen, Counters::from([("b".to_owned(), 2)]));
        assert_eq!(missing(&names, &risen), ["c", "d"]);
    }

    #[test]
    fn counters_of_the_traffic_prove_no_attack() {
        let counters = |b| Counters::from([("a", 3), ("b", b)].map(|(name, value)| (name.to_owned(), value)));
        let alone = Counters::from([("b".to_owned(), 2)]);
        assert_eq!(beyond(counters(2), &alone), Counters::from([("a".to_owned(), 3)]));
        assert_eq!(beyond(counters(5), &alone), counters(3));
    }

    #[test]
    fn bound_has_what_hostile_peers_may_add() {
        let table = [
            "   hearth run  hearth bench",
            "     1.00 MiB      2.00 MiB  a part",
            "    10.50 MiB     20.00 MiB  in all, accounts apart (they grow with the chain)",
            "     2.00 MiB      2.00 MiB  more at most for each quic tile, while 512 hostile peers send streams",
        ];
        assert_eq!(bound_of(&table.join("\n")), Some((12 << 20) + (1 << 19)));
        assert_eq!(bound_of("nothing"), None);
    }

    #[test]
    fn each_promise_is_judged() {
        let window = |p99_ms| Window { sent: 10, included: 10, unsent: 0, p50_ms: 1.0, p99_ms, held_bytes: 5 << 20 };
        let good = || Row {
            chain: "solana",
            attack: "garbage",
            unit: "datagrams",
            rate: 10,
            reached: Reached { count: 10, seconds: 1.0, cores: 0.1 },
            before: window(10.0),
            during: window(60.0),
            after: window(30.0),
            memory_max: 5 << 20,
            risen: Counters::new(),
            missing: vec![],
        };
        assert_eq!(good().wrong(), [""; 0]);
        let during = |during| Row { during, ..good() };
        let wrongs = [
            Row { reached: Reached::default(), ..good() },
            during(Window { included: 9, ..window(60.0) }),
            during(Window { sent: 0, included: 0, ..window(60.0) }),
            during(Window { unsent: 1, ..window(60.0) }),
            during(window(61.0)),
            Row { memory_max: 4 << 20, ..good() },
            Row { missing: vec!["gossip_malformed".into()], ..good() },
        ];
        for row in wrongs {
            assert_eq!(row.wrong().len(), 1, "{}", row.line());
            assert_eq!(row.json()["passed"], false);
        }
    }
}
