//! Loads for long: their memory stays flat, and every transaction ends in a block.
//!
//! reads   the loads' memory, every few seconds; their reports
//! writes  progress; the figures that are judged
//! memory  a figure for each look

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Outcome;
use crate::node::{Node, free_ports};
use crate::run::{self, Args, TempFolder};

/// Targets of the loads: a name, and the function that starts it.
const NODES: [(&str, fn(&Path, &Path, u16) -> Result<Node, String>); 2] =
    [("solana", Node::start_whole), ("ethereum", |binary, folder, port| Node::start_evm(binary, folder, port, &[]))];
/// Looks at a load's memory, in all.
const LOOKS: u32 = 60;
/// With fewer samples, growth cannot be judged.
const LOOKS_MIN: usize = LOOKS as usize / 2;
/// Extra time for a load beyond its duration: funding, warm-up, and transactions in flight at the end.
const REST: Duration = Duration::from_secs(300);
/// Allowed memory growth from the second quarter of the time to the last: blocks, samples, and memory that the
/// allocator retains. A leak of 100 bytes per transaction exceeds it within a minute.
const GROWTH_MAX: i64 = 8 << 20;

/// A load that runs.
struct Load {
    name: &'static str,
    process: Child,
    report: PathBuf,
    resident: Vec<i64>,
    node: Node,
}

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let (seconds, rate) = (args.number("--seconds", 600)?, args.number("--rate", 2_000)?);
    let binary = args.value("--binary")?;
    args.end()?;
    let binary = run::hearth(binary)?;
    let folder = TempFolder::new("soak-load")?;
    let mut loads = Vec::new();
    for (name, start_node) in NODES {
        let (folder, port) = (folder.path().join(name), free_ports()?);
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let node = start_node(&binary, &folder, port)?;
        let report = folder.join("report.json");
        let process = start(&binary, port, seconds, rate, &report)?;
        loads.push(Load { name, process, report, resident: vec![], node });
    }
    watch(&mut loads, Duration::from_secs(seconds))?;
    let (mut figures, mut wrong) = (json!({}), vec![]);
    for load in loads {
        let report = std::fs::read_to_string(&load.report).map_err(|error| format!("no report: {error}"))?;
        let report = serde_json::from_str(&report).map_err(|error| format!("the report is no JSON: {error}"))?;
        let judged = judge(&report, &load.resident).map_err(|why| format!("{}: {why}", load.name))?;
        figures[load.name] = judged.figures;
        wrong.extend(judged.wrong.into_iter().map(|why| format!("{}: {why}", load.name)));
        load.node.stop()?;
    }
    Ok(Outcome { figures, wrong })
}

fn start(binary: &Path, port: u16, seconds: u64, rate: u64, report: &Path) -> Result<Child, String> {
    let mut load = Command::new(binary);
    load.args(["load", "run", "--url", &format!("http://127.0.0.1:{port}"), "--rate", &rate.to_string()])
        .args(["--accounts", "1000", "--duration", &seconds.to_string(), "--json"])
        .arg(report)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    load.spawn().map_err(|error| format!("the load does not start: {error}"))
}

/// Looks at the loads' memory until they end.
fn watch(loads: &mut [Load], time: Duration) -> Result<(), String> {
    let begin = Instant::now();
    for look in 1.. {
        let mut at_work = false;
        for load in &mut *loads {
            match load.process.try_wait().map_err(|error| error.to_string())? {
                None => {
                    at_work = true;
                    // `None` if the process is just exiting.
                    load.resident.extend(resident_of(load.process.id()));
                }
                Some(status) if !status.success() => {
                    return Err(load.node.explain(&format!("the load on {} ended with {status}", load.name)));
                }
                Some(_) => {}
            }
        }
        if !at_work {
            return Ok(());
        }
        if begin.elapsed() > time + REST {
            loads.iter_mut().for_each(|load| drop(load.process.kill()));
            return Err("the loads do not end".into());
        }
        if look % 6 == 0 {
            let now = loads.iter().map(|load| format!("{} {:.1} MB", load.name, last_mb(load))).collect::<Vec<_>>();
            println!("{:.0} s: {}", begin.elapsed().as_secs_f64(), now.join(", "));
        }
        std::thread::sleep((begin + time * look / LOOKS).saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn last_mb(load: &Load) -> f64 {
    load.resident.last().copied().unwrap_or_default() as f64 / 1e6
}

fn resident_of(pid: u32) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()? * 1024)
}

/// Returns the memory growth from the second quarter of the samples to the last, by their medians.
fn growth(resident: &[i64]) -> i64 {
    let median = |looks: &[i64]| {
        let mut looks = looks.to_vec();
        looks.sort_unstable();
        looks[looks.len() / 2]
    };
    let quarter = resident.len() / 4;
    median(&resident[resident.len() - quarter..]) - median(&resident[quarter..2 * quarter])
}

fn judge(report: &Value, resident: &[i64]) -> Result<Outcome, String> {
    let number = |name: &str| report[name].as_u64().ok_or_else(|| format!("the report lacks {name:?}"));
    let (sent, included, unsent) = (number("sent")?, number("included")?, number("unsent")?);
    if resident.len() < LOOKS_MIN {
        return Err(format!("{} looks at its memory tell nothing", resident.len()));
    }
    let (growth, most) = (growth(resident), resident.iter().max());
    let mut wrong = vec![];
    if included != sent || sent == 0 {
        wrong.push(format!("{included} of {sent} transactions are in blocks"));
    }
    if growth > GROWTH_MAX {
        wrong.push(format!(
            "memory grew by {:.1} MB from the second quarter of the time to the last",
            growth as f64 / 1e6
        ));
    }
    let figures = json!({
        "sent": sent, "included": included, "unsent": unsent, "tps": report["tps"],
        "resident_most": most, "resident_last": resident.last(), "growth": growth,
    });
    Ok(Outcome { figures, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_judged() {
        let report = json!({ "sent": 10, "included": 10, "unsent": 0, "tps": 5.0 });
        let wrong = |report: &Value, each: i64| {
            let resident: Vec<i64> = (0..60).map(|look| (50 << 20) + look * each).collect();
            judge(report, &resident).unwrap().wrong.len()
        };
        assert_eq!((wrong(&report, 10 << 10), wrong(&report, 300 << 10)), (0, 1));
        assert_eq!(wrong(&json!({ "sent": 10, "included": 9, "unsent": 0 }), 0), 1);
        assert_eq!(wrong(&json!({ "sent": 0, "included": 0, "unsent": 0 }), 0), 1);
        assert!(judge(&json!({}), &[1; 60]).is_err() && judge(&report, &[1; 7]).is_err());
    }

    #[test]
    fn a_jump_at_the_start_is_no_growth() {
        let resident: Vec<i64> = (0..60).map(|look| if look < 10 { 1 << 20 } else { 90 << 20 }).collect();
        assert_eq!(growth(&resident), 0);
    }
}
