//! `hearth cluster demo`: a leader and followers all over a map, loaded within the cluster's limits and beyond them.
//!
//! reads   nodes, which it starts
//! writes  rates as they are measured, a table, JSON, a page
//! memory  a line per node and second
//!
//! It starts a leader, followers join, their common rate is measured, a load runs at the limits of a block, the limits
//! are lifted, a load runs beyond them, and finally the states of all nodes are compared.

mod blocks;
mod load;
mod measure;
mod page;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use hearth_command::output::{CommandOutput, is_stdout};
use hearth_command::shell;
use hearth_command::stop::StopSignal;
use hearth_ledger::BlockLimits;
use serde::Serialize;
use serde_json::json;

use super::member::{Cluster, Limits, NODES_MAX, Role};
use super::start::StartedNodes;
use super::{ClusterSelector, LocalError, NODES, UpOptions, cores, nodes, prepare};
use load::Load;
pub use measure::{Meter, OpenMeter, Traffic};
use measure::{Second, Watcher, Window};

/// The fraction of the common rate to which blocks are limited if the machine does not reach the cluster's limits.
const SCALED: f64 = 0.5;
/// The fraction of the common rate that a load beyond the limits sends.
const BEYOND: f64 = 0.9;
/// The fraction of the time with full blocks above which the cluster's limits are what bounds a load.
const FULL: f64 = 0.2;
/// A follower keeps up if it is slower than the leader by at most this fraction.
const SAME: f64 = 0.01;
/// Seconds before a measurement.
const WARMUP: u64 = 3;
/// The lowest rate that can be distinguished from votes.
const RATE_MIN: u64 = 100;

/// The arguments of `hearth cluster demo`.
#[derive(Args)]
pub struct Demo {
    /// Number of nodes, including the leader.
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = nodes)]
    pub nodes: usize,
    /// The map: regions, and the links between them [default: London, New York, Frankfurt, Singapore].
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Seconds of each load that are measured: a slot more or less is 2 % of 20 s.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=3_600))]
    pub duration: u64,
    /// Limit blocks to this many transactions a second for the first load, instead of measuring first, and send twice
    /// as many for the second.
    #[arg(long, value_name = "TPS", value_parser = clap::value_parser!(u64).range(RATE_MIN..))]
    pub rate: Option<u64>,
    /// The cluster's name, from which its folder and its nodes' shared memory get their names.
    #[arg(long, value_name = "NAME", default_value = "demo")]
    pub name: String,
    /// The cluster's folder; the files of an earlier demonstration there are deleted [default: `.hearth/NAME`].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// The first node's loopback address; the others get the next ones.
    #[arg(long, value_name = "IP", default_value = "127.0.0.2")]
    pub address: std::net::Ipv4Addr,
    /// Do not stop the nodes at the end.
    #[arg(long)]
    pub keep: bool,
    /// Write the result there as JSON, too; with `-`, all other output goes to standard error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Where to write the result as a page with charts [default: `report.html` in the cluster's folder].
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

const _: () = assert!(NODES <= NODES_MAX);

/// The results of a demonstration.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The state of each node at the end.
    pub nodes: Vec<NodeReport>,
    /// Cores of the machine, shared by all nodes and the load.
    pub cores: usize,
    /// Seconds until the leader served.
    pub leader_started_s: f64,
    /// Seconds until all followers served.
    pub followers_joined_s: f64,
    /// The common rate that all nodes hold, in transactions per second; `null` if a rate was given.
    pub held_txn_per_s: Option<f64>,
    /// The results of each load.
    pub loads: Vec<LoadReport>,
    /// The slot at which the bank hashes were compared.
    pub slot: u64,
    /// Whether all nodes have the same bank hash there.
    pub is_same_state: bool,
}

/// A node's state at the end.
#[derive(Debug, Serialize)]
pub struct NodeReport {
    /// The node's name: `node-1` and so on.
    pub node: String,
    /// Its part in the cluster: leader, validator or follower.
    pub role: Role,
    /// The map's name of its region.
    pub region: String,
    /// Whether it runs. A follower whose bank hash differs from the leader's ends.
    pub alive: bool,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
}

/// The results of a load.
#[derive(Debug, Serialize)]
pub struct LoadReport {
    /// Name of the load.
    pub what: String,
    /// The limits of a block.
    pub limits: Limits,
    /// Transactions per second that were sent; `null` for as many as the leader accepts.
    pub asked_txn_per_s: Option<f64>,
    /// Transactions per second of each node in the same window, votes included.
    pub txn_per_s: Vec<f64>,
    /// Length of the window in seconds.
    pub window_s: f64,
    /// The difference in rate that still counts as keeping up: 1 %, or one slot of the window if that is more.
    pub tolerance: f64,
    /// Whether no follower was slower than the leader by more than `tolerance`.
    pub is_kept_up: bool,
    /// Seconds after the load until all followers had caught up; `null` if some did not.
    pub caught_up_s: Option<f64>,
    /// The activity in each second.
    pub seconds: Vec<Second>,
}

/// Runs `hearth cluster demo`, and writes the report as text, JSON and a page.
pub fn run(options: &Demo, open_meter: OpenMeter, say: &CommandOutput) -> Result<(), super::super::ClusterError> {
    let (json, html) = (options.json.as_deref(), options.html.as_deref());
    super::super::results_can_be_written(json, html)?;
    let say = if is_stdout(json) { &CommandOutput::stderr() } else { say };
    let which = ClusterSelector { name: options.name.clone(), folder: options.folder.clone() };
    which.check()?;
    let _held = which.hold()?;
    let stop = StopSignal::install().map_err(LocalError::Signals)?;
    let (nodes, map) = (Some(options.nodes), options.map.clone());
    let up = UpOptions { which, nodes, validators: None, map, address: Some(options.address), reset: true };
    let mut cluster = prepare(&up, false)?;
    let report = tell(&mut cluster, options, open_meter, &stop, say)?;
    if !options.keep {
        let all: Vec<usize> = (0..cluster.nodes.len()).collect();
        let stopped = cluster.stop(&all);
        cluster.save()?;
        stopped?;
    }
    super::super::write_json(json, &json!(report))?;
    let html = options.html.clone().unwrap_or_else(|| cluster.folder.join("report.html"));
    super::super::write(Some(&html), || page::of(&report))?;
    say.line(format_args!("report  {}", html.display()));
    Ok(())
}

/// Runs the demonstration. If anything fails, no node is left running.
fn tell(
    cluster: &mut Cluster,
    options: &Demo,
    open_meter: OpenMeter,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<Report, LocalError> {
    let followers: Vec<usize> = (1..cluster.nodes.len()).collect();
    let mut started = StartedNodes::of(cluster);
    if !options.keep {
        started.bind();
    }
    let begun = Instant::now();
    say.line(format_args!("a leader in {}", started.cluster().leader().region));
    started.start(&[0], stop)?;
    let leader_started_s = begun.elapsed().as_secs_f64();
    say.line(format_args!("  serves after {leader_started_s:.1} s at {}", started.cluster().leader().rpc()));
    let begun = Instant::now();
    let join = if followers.len() == 1 { "follower joins" } else { "followers join" };
    say.line(format_args!("{} {join}: {}", followers.len(), regions(started.cluster())));
    started.start(&followers, stop)?;
    let followers_joined_s = begun.elapsed().as_secs_f64();
    say.line(format_args!("  all serve after {followers_joined_s:.1} s"));

    let (held_txn_per_s, courses) = courses(started.cluster(), options, open_meter, stop, say)?;
    let mut loads = vec![];
    for course in courses {
        if course.limits != started.cluster().limits {
            say.line(format_args!("{}: all nodes start again", changed(course.limits)));
            let before = measure::newest(started.cluster())?;
            started.limit(course.limits, &cores()?)?;
            started.start(&[0], stop)?;
            started.start(&followers, stop)?;
            // A node serves before it has replayed all earlier blocks that are not final.
            measure::goes_on(started.cluster(), before, stop)?;
        }
        loads.push(measured(started.cluster(), course, options, open_meter, stop, say)?);
    }

    let (slot, is_same_state) = blocks::compare(started.cluster(), stop)?;
    let (nodes, cores) = (ends(started.cluster()), cores()?.len());
    let report =
        Report { nodes, cores, leader_started_s, followers_joined_s, held_txn_per_s, loads, slot, is_same_state };
    say.text(text(&report));
    if options.keep {
        let name = shell::word(&options.name);
        say.line(format_args!("the nodes run on; `hearth cluster down --name {name}` stops them"));
    }
    started.keep();
    Ok(report)
}

/// A load to run.
struct DemoLoad {
    /// Name of the load.
    what: String,
    limits: Limits,
    /// Transactions per second; `None` for as many as the leader accepts.
    rate: Option<f64>,
}

/// The loads to run, at and beyond the limits; measures the common rate if it is needed.
fn courses(
    cluster: &Cluster,
    options: &Demo,
    open_meter: OpenMeter,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(Option<f64>, [DemoLoad; 2]), LocalError> {
    let scaled = |why: &str, rate: f64| {
        let compute_units = blocks::cost_of(rate);
        let of = BlockLimits::default().block_cost;
        let what = format!("limits scaled to {why}: a block holds {compute_units} compute units, not {of}");
        DemoLoad { what, limits: Limits::Scaled(compute_units), rate: None }
    };
    let lifted = |what: &str, rate| DemoLoad { what: format!("limits lifted; {what}"), limits: Limits::Lifted, rate };
    if let Some(rate) = options.rate.map(|rate| rate as f64) {
        let within = scaled(&format!("the {rate:.0} transactions a second that were asked for"), rate);
        return Ok((None, [within, lifted("twice as many transactions", Some(2.0 * rate))]));
    }
    say.line("what all nodes hold together");
    let (rate, full) = hold(cluster, options, open_meter, stop, say)?;
    say.line(format_args!("  {rate:.0} transactions a second until the last follower had them"));
    let courses = if full > FULL {
        let within =
            DemoLoad { what: "at the cluster's limits of a block".into(), limits: Limits::Cluster, rate: None };
        [within, lifted("as much as the leader takes", None)]
    } else {
        let why = format!(
            "half of what {} nodes hold on this machine, which does not come to the cluster's",
            cluster.nodes.len()
        );
        let beyond = lifted("90 % of what all nodes hold on this machine", Some(rate * BEYOND));
        [scaled(&why, rate * SCALED), beyond]
    };
    Ok((Some(rate), courses))
}

/// Describes the limits with which the nodes restart.
fn changed(limits: Limits) -> &'static str {
    match limits {
        Limits::Cluster => "a block holds what it does on the cluster",
        Limits::Scaled(_) => "a block holds less than on the cluster",
        Limits::Lifted => "the limits of a block are lifted",
    }
}

/// The followers' regions, without duplicates.
fn regions(cluster: &Cluster) -> String {
    let mut names: Vec<&str> = cluster.nodes[1..].iter().map(|node| node.region.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// The common rate of all nodes: as much as the leader accepts, over the time until the last follower has it; and the
/// fraction of the time in which the leader's blocks were full.
fn hold(
    cluster: &Cluster,
    options: &Demo,
    open_meter: OpenMeter,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(f64, f64), LocalError> {
    let seconds = (options.duration / 2).clamp(5, 15);
    let mut watcher = Watcher::of(cluster, open_meter)?;
    watcher.all_there(stop)?;
    let mut load = Load::start(cluster, None, seconds)?;
    watcher.wait_for_load(&mut load, stop)?;
    let before = watcher.leader()?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut full = vec![];
    while Instant::now() < end {
        let second = watcher.second(stop)?;
        say.line(second.line());
        full.push(second.full);
    }
    load.end();
    let after = watcher.all_there(stop)?;
    let rate = after.transactions.saturating_sub(before.transactions) as f64 / (after.at - before.at).as_secs_f64();
    Ok((rate, full.iter().sum::<f64>() / full.len().max(1) as f64))
}

/// Runs and measures one load.
fn measured(
    cluster: &Cluster,
    DemoLoad { what, limits, rate }: DemoLoad,
    options: &Demo,
    open_meter: OpenMeter,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<LoadReport, LocalError> {
    say.line(match rate {
        Some(rate) => format!("load: {what} ({rate:.0} transactions a second)"),
        None => format!("load: {what}"),
    });
    let mut watcher = Watcher::of(cluster, open_meter)?;
    // A backlog from before is not part of this load.
    watcher.all_there(stop)?;
    let mut load = Load::start(cluster, rate, WARMUP + options.duration)?;
    watcher.wait_for_load(&mut load, stop)?;
    for _ in 0..WARMUP {
        watcher.second(stop)?;
    }
    let begin = watcher.edge(stop)?;
    let end = Instant::now() + Duration::from_secs(options.duration);
    let mut seconds = vec![];
    while Instant::now() < end {
        let second = watcher.second(stop)?;
        say.line(second.line());
        seconds.push(second);
    }
    let window = Window { begin, end: watcher.edge(stop)? };
    load.end();
    let ended = Instant::now();
    let caught_up_s = match watcher.catch_up(stop)? {
        Ok(_) => Some(ended.elapsed().as_secs_f64()),
        Err(behind) => {
            say.line(format_args!("  {behind}"));
            None
        }
    };
    let txn_per_s = window.rates();
    // A follower that was behind at the start of the window may be faster than the leader.
    let tolerance = SAME.max(window.slot_share());
    let is_kept_up = keeps_up(&txn_per_s, tolerance);
    let report = LoadReport {
        what,
        limits,
        asked_txn_per_s: rate,
        window_s: window.seconds(),
        txn_per_s,
        tolerance,
        is_kept_up,
        caught_up_s,
        seconds,
    };
    say.line(format_args!("  {}", summary(&report)));
    Ok(report)
}

/// Returns whether no follower was slower than the leader, the first of the rates, by more than `tolerance`.
fn keeps_up(txn_per_s: &[f64], tolerance: f64) -> bool {
    txn_per_s[1..].iter().all(|rate| rate / txn_per_s[0] >= 1.0 - tolerance)
}

/// Summarizes a load in a line.
fn summary(load: &LoadReport) -> String {
    let followers = load.txn_per_s[1..].iter();
    let least = followers.clone().copied().fold(f64::INFINITY, f64::min);
    let most = followers.copied().fold(0.0, f64::max);
    let within = match load.tolerance > SAME {
        true => format!("{:.1} %, one slot of the window", load.tolerance * 100.0),
        false => format!("{:.0} %", load.tolerance * 100.0),
    };
    let kept_up = match load.is_kept_up {
        true if most > load.txn_per_s[0] * (1.0 + load.tolerance) => {
            "each kept up; a faster one began behind and caught up".to_owned()
        }
        true => format!("each kept up, within {within}"),
        false => format!("not all kept up within {within}"),
    };
    let asked = load.asked_txn_per_s.map_or("as much as goes in".into(), |rate| format!("{rate:.0} a second"));
    format!(
        "sent {asked}; leader {:.0}, followers {least:.0} to {most:.0} transactions a second over {:.1} s: {kept_up}; {}",
        load.txn_per_s[0],
        load.window_s,
        match load.caught_up_s {
            Some(seconds) => format!("they had all of it {seconds:.1} s after the load"),
            None => "not all had all of it in the end".into(),
        }
    )
}

fn ends(cluster: &Cluster) -> Vec<NodeReport> {
    let end = |node: &super::member::Member| NodeReport {
        node: node.name.clone(),
        role: node.role,
        region: node.region.clone(),
        alive: node.process.is_some_and(|process| process.is_alive()),
        resident_bytes: node.process.and_then(|process| process.resident_bytes()),
    };
    cluster.nodes.iter().map(end).collect()
}

/// Formats the report in a few lines.
pub fn text(report: &Report) -> String {
    let mut text = format!("\n{} nodes on {} cores\n", report.nodes.len(), report.cores);
    text += &format!("{:<8} {:<12}", "node", "region");
    text +=
        &(1..=report.loads.len()).map(|number| format!(" {:>12}", format!("load {number} TPS"))).collect::<String>();
    text += &format!(" {:>8}\n", "memory");
    for (number, node) in report.nodes.iter().enumerate() {
        text += &format!("{:<8} {:<12}", node.node, node.region);
        text += &report.loads.iter().map(|load| format!(" {:>12.0}", load.txn_per_s[number])).collect::<String>();
        let memory = node.resident_bytes.map_or("ended".into(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6));
        text += &format!(" {memory:>8}\n");
    }
    for (number, load) in report.loads.iter().enumerate() {
        text += &format!("load {}: {}: {}\n", number + 1, load.what, summary(load));
    }
    let state = if report.is_same_state { "all nodes have the same bank hash" } else { "bank hashes differ" };
    let alive = report.nodes.iter().all(|node| node.alive);
    let ended = if alive { "no node ended" } else { "a node ended; its log says why" };
    text + &format!("slot {}: {state}; {ended}\n", report.slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(txn_per_s: &[f64], slots: f64) -> LoadReport {
        let tolerance = SAME.max(1.0 / slots);
        LoadReport {
            what: String::new(),
            limits: Limits::Lifted,
            asked_txn_per_s: None,
            txn_per_s: txn_per_s.to_vec(),
            window_s: slots * 0.4,
            tolerance,
            is_kept_up: keeps_up(txn_per_s, tolerance),
            caught_up_s: Some(0.0),
            seconds: vec![],
        }
    }

    #[test]
    fn one_slot_is_within_tolerance() {
        let short = summary(&load(&[450.0, 445.0, 450.0], 50.0));
        assert!(short.contains("each kept up, within 2.0 %, one slot of the window"), "{short}");
        let slow = summary(&load(&[450.0, 440.0, 450.0], 50.0));
        assert!(slow.contains("not all kept up within 2.0 %"), "{slow}");
        let long = summary(&load(&[450.0, 445.0, 450.0], 150.0));
        assert!(long.contains("not all kept up within 1 %"), "{long}");
        let faster = summary(&load(&[450.0, 458.0, 450.0], 50.0));
        assert!(faster.contains("each kept up, within 2.0 %"), "a faster follower within the tolerance: {faster}");
    }
}
