//! The machine as a table that a person reads.
//!
//! reads   a [`Machine`]
//! writes  text, at most 120 columns

use std::fmt::Write;

use crate::core_list::show;
use crate::memory::Memory;
use crate::neighbours::Neighbours;
use crate::network::Interface;
use crate::processor::Processor;
use crate::settings::Limit;
use crate::{Machine, cores::Cores};

/// Share of stolen time, or of waiting for cores, from which on a remark is printed.
const NOISE: f64 = 0.02;
/// Columns of a line.
const WIDTH: usize = 118;

/// The table, and below it remarks where there are any.
pub fn of(machine: &Machine) -> String {
    let mut rows: Vec<(String, String)> = vec![];
    let mut row = |name: &str, text: String| rows.push((name.into(), text));
    processor(&machine.processor, &mut row);
    cores(&machine.cores, &mut row);
    for cache in &machine.caches {
        let kind = if cache.kind == "Unified" { String::new() } else { format!(" {}", cache.kind.to_lowercase()) };
        let groups: Vec<String> = cache.shared_by.iter().map(|cores| show(cores)).collect();
        row(
            &format!("cache L{}{kind}", cache.level),
            format!("{} × {}, shared by {}", groups.len(), bytes(cache.bytes), groups.join(" | ")),
        );
    }
    memory(&machine.memory, &mut row);
    machine.network.iter().filter(|i| i.is_device).for_each(|interface| network(interface, &mut row));
    row("kernel", machine.settings.kernel.clone());
    for (name, value) in &machine.settings.sysctls {
        row(name, value.clone());
    }
    limit("open files", machine.settings.open_files, &|count| count.to_string(), &mut row);
    limit("locked memory", machine.settings.locked_memory, &bytes, &mut row);
    if let Some(neighbours) = &machine.neighbours {
        row("neighbours", neighbours_seen(neighbours));
    }
    let names = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        wrapped(name, names, value, &mut text);
    }
    for remark in remarks(machine) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{remark}");
    }
    text
}

/// Formats one row; text that is too long wraps below its beginning.
fn wrapped(name: &str, names: usize, value: &str, text: &mut String) {
    let mut line = format!("{name:names$}  ");
    for (index, word) in value.split(' ').enumerate() {
        if index > 0 && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(names + 2);
        } else if index > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn processor(processor: &Processor, row: &mut impl FnMut(&str, String)) {
    let guest = if processor.is_guest { ", a guest's: its cores are the host's to give" } else { "" };
    row("processor", format!("{}, {}{guest}", processor.model, processor.architecture));
    for one in &processor.instructions {
        row(one.name, format!("{} ({})", if one.present { "yes" } else { "no" }, one.used_for));
    }
    let governors = processor.governors.iter().map(|(name, cores)| format!("{name} on {}", show(cores)));
    let mut clock: Vec<String> = governors.collect();
    clock.extend(processor.boost.map(|on| format!("boost {}", if on { "on" } else { "off" })));
    clock.extend(processor.frequency_khz_max.map(|khz| format!("at most {:.2} GHz", khz as f64 / 1e6)));
    let not_ours = "the kernel does not govern it: the host or the firmware does";
    row("frequency", if clock.is_empty() { not_ours.into() } else { clock.join(", ") });
}

fn cores(cores: &Cores, row: &mut impl FnMut(&str, String)) {
    let offline = if cores.offline.is_empty() { String::new() } else { format!("; offline: {}", show(&cores.offline)) };
    row("cores", format!("{} online: {}{offline}", cores.online.len(), show(&cores.online)));
    let quota = cores.quota.map_or(String::new(), |q| format!(", and at most {q:.2} cores' time by its control group"));
    row("for this process", format!("{}: {}{quota}", cores.allowed.len(), show(&cores.allowed)));
    let groups: Vec<String> = cores.siblings.iter().filter(|group| group.len() > 1).map(|group| show(group)).collect();
    row("hyperthreads", if groups.is_empty() { "one a core, or unknown".into() } else { groups.join(" | ") });
    for (package, list) in &cores.packages {
        row(&format!("socket {package}"), show(list));
    }
    row("isolated", format!("isolcpus: {}; nohz_full: {}", show(&cores.isolated), show(&cores.tickless)));
}

fn memory(memory: &Memory, row: &mut impl FnMut(&str, String)) {
    row("memory", format!("{}, {} to be had", bytes(memory.total_bytes), bytes(memory.available_bytes)));
    for node in &memory.nodes {
        let distances: Vec<String> = node.distances.iter().map(u32::to_string).collect();
        let (total, free) = (bytes(node.total_bytes), bytes(node.free_bytes));
        let text = format!("{total}, {free} free, cores {}, distances {}", show(&node.cores), distances.join(" "));
        row(&format!("NUMA node {}", node.number), text);
    }
    for pool in &memory.huge_pages {
        let more =
            if pool.overcommit > 0 { format!(", {} more when asked for", pool.overcommit) } else { String::new() };
        let text = format!("{} reserved, {} free{more}", pool.total, pool.free);
        row(&format!("pages of {}", bytes(pool.page_bytes)), text);
    }
    let shared = memory.transparent_shared.as_ref().map(|mode| format!(", shared memory {mode}")).unwrap_or_default();
    row("transparent pages", memory.transparent.as_ref().map(|mode| format!("{mode}{shared}")).unwrap_or_default());
}

fn network(interface: &Interface, row: &mut impl FnMut(&str, String)) {
    let mut parts = vec![interface.state.clone()];
    parts.extend((!interface.driver.is_empty()).then(|| interface.driver.clone()));
    parts.extend(interface.speed_mbit.map(|mbit| format!("{mbit} Mbit/s")));
    parts.push(format!("queues {} in, {} out", interface.receive_queues, interface.send_queues));
    parts.extend(interface.node.map(|node| format!("node {node}")));
    parts.push(format!("{} packets missed", interface.missed));
    let to = interface.interrupts.iter().map(|i| format!("{} {} → {}", i.number, i.name, show(i.cores())));
    let interrupts: Vec<String> = to.collect();
    row(&interface.name, parts.join(", "));
    row(&format!("{} interrupts", interface.name), interrupts.join(", "));
}

fn limit(name: &str, limit: Option<Limit>, show: &impl Fn(u64) -> String, row: &mut impl FnMut(&str, String)) {
    let value = |value: u64| if value == u64::MAX { "unlimited".into() } else { show(value) };
    row(
        name,
        limit.map(|l| format!("at most {}, may be raised to {}", value(l.soft), value(l.hard))).unwrap_or_default(),
    );
}

fn neighbours_seen(seen: &Neighbours) -> String {
    let mut parts = vec![
        format!("in {:.1} s: stolen {}", seen.seconds, percent(seen.steal)),
        format!("busy {}", percent(seen.busy)),
    ];
    parts.extend(seen.pressure.map(|share| format!("some thread waited for a core {} of the time", percent(share))));
    parts.extend(seen.pressure_five_minutes.map(|share| format!("{} in five minutes", percent(share))));
    parts.extend(seen.load.map(|load| format!("load {load:.2}")));
    parts.join(", ")
}

/// Remarks for measurements on this machine.
fn remarks(machine: &Machine) -> Vec<String> {
    let mut remarks = vec![];
    let seen = machine.neighbours.unwrap_or_default();
    if seen.steal >= NOISE {
        remarks.push(format!(
            "Noisy neighbours: the hypervisor gave {} of the cores' time to others. What is measured now is lower for it;\n\
             compare figures of one run only.",
            percent(seen.steal)
        ));
    }
    let waited = seen.pressure.unwrap_or(0.0);
    if waited >= NOISE {
        remarks.push(format!(
            "Other programs want the cores: in {} of the time some thread waited for one ({} of the cores were busy).\n\
             Stop them before measuring (`top` names them); tiles on cores of their own suffer less.",
            percent(waited),
            percent(seen.busy)
        ));
    }
    if machine.processor.instructions.iter().any(|i| i.name == "AVX2" && !i.present) {
        remarks.push(
            "Without AVX2 and FMA signatures are checked one by one: 59.9 rather than 108.6 K/s on one core where that was\n\
             measured (docs/performance.md)."
                .into(),
        );
    }
    if machine.cores.usable() < machine.cores.online.len() as f64 {
        remarks.push(format!(
            "This process may use {} of the {} cores: by its affinity, its cpuset or its quota.",
            machine.cores.usable(),
            machine.cores.online.len()
        ));
    }
    remarks
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `48 KiB`, `1.25 MiB`, `64 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((size, unit)) = units.into_iter().find(|(size, _)| bytes >= *size) else { return format!("{bytes} B") };
    let digits = if bytes.is_multiple_of(size) { 0 } else { 2 };
    format!("{:.digits$} {unit}", bytes as f64 / size as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, container, guest, server};

    fn has(table: &str, parts: &[&str]) {
        for part in parts {
            assert!(table.contains(part), "`{part}` is not in:\n{table}");
        }
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 120, "{widest} columns:\n{table}");
    }

    #[test]
    fn a_server() {
        let table = Machine::read(&server().root).table();
        has(&table, &["Intel(R) Xeon(R) Gold 6338", "powersave on 0-15, boost off, at most 3.20 GHz"]);
        has(
            &table,
            &["0,8 | 1,9 | 2,10 | 3,11 | 4,12 | 5,13 | 6,14 | 7,15", "socket 1", "isolcpus: 6-7; nohz_full: 6-7"],
        );
        has(&table, &["8 × 48 KiB, shared by 0,8", "2 × 48 MiB, shared by 0-3,8-11 | 4-7,12-15"]);
        has(&table, &["32 GiB, 16 GiB free, cores 4-7,12-15, distances 20 10", "8 reserved, 5 free"]);
        has(&table, &["70 eth0-TxRx-0 → 0, 71 eth0-TxRx-1 → 3", "18 packets missed", "may be raised to unlimited"]);
        assert!(!table.contains("Noisy"), "nothing was sampled:\n{table}");
        assert!(!table.contains("Without AVX2"), "it has them:\n{table}");
        let old = server();
        old.write("proc/cpuinfo", "model name\t: Old\nflags\t\t: sse2 avx2\n");
        has(&Machine::read(&old.root).table(), &["AVX2", "no (ed25519", "Without AVX2 and FMA signatures"]);
    }

    #[test]
    fn neighbours_are_reported() {
        let mut machine = Machine::read(&guest().root);
        assert!(machine.table().contains("a guest's: its cores are the host's to give"));
        machine.neighbours = Some(Neighbours { seconds: 1.0, steal: 0.123, busy: 0.5, ..Neighbours::default() });
        let table = machine.table();
        has(&table, &["stolen 12.3 %", "Noisy neighbours: the hypervisor gave 12.3 %"]);
        assert!(!table.contains("Other programs"), "{table}");
        machine.neighbours = Some(Neighbours { seconds: 1.0, pressure: Some(0.7), ..Neighbours::default() });
        has(&machine.table(), &["waited for a core 70.0 % of the time", "Other programs want the cores: in 70.0 %"]);
    }

    #[test]
    fn machines_that_tell_little_have_short_tables() {
        has(
            &Machine::read(&container().root).table(),
            &["This process may use 2.5 of the 8 cores", "4: 2-5, and at most"],
        );
        has(&Machine::read(&board().root).table(), &["Raspberry Pi 4", "ondemand on 0-3", "4 GiB"]);
    }

    #[test]
    fn sizes() {
        assert_eq!((bytes(49_152), bytes(1_310_720), bytes(7)), ("48 KiB".into(), "1.25 MiB".into(), "7 B".into()));
    }
}
