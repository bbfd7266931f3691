//! Determinism: no tile and no protocol core asks the machine for what the host provides, or depends on the iteration
//! order of a map, which differs in each process.
//!
//! reads   the sources of the crates whose code runs on virtual time
//! writes  findings
//!
//! The standard library's maps draw their hash keys from the system, so a loop over a `HashMap` is the same mistake as
//! `Instant::now`. Lookups, and dropping entries one by one, are allowed.

use std::collections::BTreeSet;

use super::RuleFindings;
use super::code::{is_word, line_of, words};
use super::tree::{File, Tree};

/// Sources that take time, chance and I/O from their host.
const HOSTED: [&str; 8] = [
    "crates/solana/pipeline/src/",
    "crates/solana/quic/src/",
    "crates/solana/consensus/src/",
    "crates/solana/gossip/src/",
    "crates/solana/turbine/src/",
    "crates/solana/wire/src/",
    "crates/base/netem/src/",
    "crates/base/crypto/src/",
];

const TIME: [&str; 6] =
    ["Instant::now", "SystemTime::now", "UNIX_EPOCH.elapsed", ".elapsed()", "Clock::real", "unix_time"];

const CHANCE: [&str; 9] = [
    "thread_rng",
    "rand::rng",
    "rand::random",
    "fastrand::u64",
    "Rng::new",
    "OsRng",
    "getrandom",
    "sys::random",
    "RandomState",
];

const IO: [&str; 14] = [
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "std::fs",
    "File::open",
    "File::create",
    "OpenOptions",
    "sys::udp",
    "sys::tcp",
    "sys::disk",
    "thread::sleep",
];

const THREADS: [&str; 4] = ["thread::spawn", "thread::Builder", "thread::scope", "thread::park"];

/// Sources that may make such calls, with the reason for each.
const EXCEPTIONS: [(&str, &[&[&str]], &str); 9] = [
    ("crates/solana/pipeline/src/net/", &[&IO], "the sockets, and the file of emulated links"),
    (
        "crates/solana/pipeline/src/metric/",
        &[&IO, &THREADS],
        "scrapes; a thread that asks how full the disk is may hang",
    ),
    ("crates/solana/pipeline/src/benchs/", &[&IO], "the load's own sockets"),
    ("crates/solana/pipeline/src/bencho/", &[&IO], "it asks the RPC"),
    (
        "crates/solana/pipeline/src/tower/saved.rs",
        &[&IO, &THREADS],
        "what is behind tower's `Files`: writes that are synced",
    ),
    (
        "crates/solana/pipeline/src/poh/check.rs",
        &[&THREADS],
        "a command verifies a ledger on several threads; no tile does",
    ),
    ("crates/solana/pipeline/src/replay/pool.rs", &[&THREADS], "executes blocks at the start, before there are tiles"),
    (
        "crates/base/crypto/src/ed25519/cache.rs",
        &[&CHANCE],
        "peers choose the keys; which get a table changes the pace alone",
    ),
    ("crates/base/netem/src/world.rs", &[&["std::fs"]], "a map is a file"),
];

/// Methods that iterate over a map in its order. `retain` judges each entry by itself.
const LOOPS: [&str; 8] = ["iter", "iter_mut", "into_iter", "keys", "into_keys", "values", "values_mut", "drain"];

/// Loops over maps without an order that changes nothing, and why.
const UNORDERED: [(&str, &str, &str); 6] = [
    ("crates/solana/gossip/src/bounded.rs", "map.values_mut", "its callers change each value by itself"),
    ("crates/solana/gossip/src/stakes.rs", "map.values", "whether there is a stake"),
    ("crates/base/netem/src/lib.rs", "places.iter", "it is collected into a map"),
    ("crates/solana/turbine/src/nodes.rs", "stakes.iter", "it is sorted by stake and identity"),
    ("crates/solana/pipeline/src/repair/mod.rs", "asked_at.values", "the least of them"),
    ("crates/solana/quic/src/stake.rs", "by_key.values", "the sum of them"),
];

/// The sources of crates whose code runs on virtual time, without test files.
fn hosted(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.rust().filter(|file| HOSTED.iter().any(|folder| file.path.starts_with(folder)) && !file.is_test())
}

/// A call that asks the machine in place of the host, outside tests.
pub fn gives(tree: &Tree, found: &mut RuleFindings) {
    for file in hosted(tree) {
        let excepted = EXCEPTIONS.iter().filter(|(path, ..)| file.path.starts_with(path));
        let allowed: Vec<&str> = excepted.flat_map(|(_, calls, _)| calls.concat()).collect();
        let calls = TIME.iter().chain(&CHANCE).chain(&IO).chain(&THREADS).filter(|call| !allowed.contains(call));
        let tests_from = file.tests_from().unwrap_or(usize::MAX);
        for (call, at) in calls.flat_map(|call| words(&file.code, call).map(move |at| (call, at))) {
            let line = line_of(&file.code, at);
            if line < tests_from {
                found.at(&file.path, line, format!("`{call}`: the host gives time, chance and I/O"));
            }
        }
    }
}

/// Finds loops over maps with unstable order, outside tests.
pub fn loops(tree: &Tree, found: &mut RuleFindings) {
    for file in hosted(tree) {
        let tests_from = file.tests_from().unwrap_or(usize::MAX);
        let mut excepted: Vec<&str> =
            UNORDERED.iter().filter(|(path, ..)| file.path == *path).map(|(_, call, _)| *call).collect();
        for name in maps(&file.code) {
            for (at, call) in words(&file.code, name).filter_map(|at| Some((at, looped(&file.code, at, name)?))) {
                let line = line_of(&file.code, at);
                if line < tests_from && !UNORDERED.iter().any(|(path, other, _)| file.path == *path && call == *other) {
                    let why = "its order is another in each process; loop over a `BTreeMap`";
                    found.at(&file.path, line, format!("`{call}`: {why}"));
                }
                excepted.retain(|other| *other != call);
            }
        }
        for call in excepted {
            found.at(&file.path, 0, format!("`{call}` is not there: tidy need not except it"));
        }
    }
}

/// The names that a text gives to maps and sets of the standard library with its own hasher.
fn maps(code: &str) -> BTreeSet<&str> {
    let places = ["HashMap", "HashSet"].into_iter().flat_map(|kind| words(code, kind));
    let name = |at: usize| {
        if code[at..].lines().next().is_some_and(|line| line.contains("BuildHasher")) {
            return None;
        }
        let before = code[..at].trim_end_matches("std::collections::").trim_end();
        let before = before.trim_end_matches("mut").trim_end().trim_end_matches('&').trim_end();
        let before = before.strip_suffix(':').or_else(|| before.strip_suffix('='))?.trim_end();
        let name = before.rsplit(|c: char| !is_word(c)).next()?;
        (!name.is_empty()).then_some(name)
    };
    places.filter_map(name).collect()
}

/// The loop over the map of this name that begins there, if one does: `name.method`, or `name` behind `in`.
fn looped(code: &str, at: usize, name: &str) -> Option<String> {
    let after = code[at + name.len()..].trim_start();
    if let Some(method) = after.strip_prefix('.') {
        let method = method.trim_start().split(|c: char| !is_word(c)).next()?;
        return LOOPS.contains(&method).then(|| format!("{name}.{method}"));
    }
    let owner = code[..at].trim_end_matches(|c: char| is_word(c) || c == '.');
    let before = owner.trim_end_matches("mut ").trim_end_matches('&');
    before.ends_with(" in ").then(|| name.to_owned())
}
