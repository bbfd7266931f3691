//! A recorded session comes to the same blocks again: that of a simulated node, and those that are kept.

use std::fs;
use std::path::Path;

use hearth_node::capture::folder::{SESSION, read, sessions_below};
use hearth_node::capture::format::{Session, SessionEvent};
use hearth_pipeline::capture::PacketSource;
use hearth_sim::plan::Plan;
use hearth_sim::session::{SessionError, replay, replay_session};
use hearth_sim::world::run_recorded;

/// The node of a simulated cluster whose session is recorded.
const NODE: usize = 1;
/// The folder of sessions of real nodes.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sessions");
/// The sessions that are there: one that is lost, or that nobody listed, fails the test.
const KEPT_NAMES: &[&str] = &[];
/// Maximum bytes of all kept sessions.
const KEPT_BYTES_MAX: u64 = 30_000_000;

fn is_from(event: &SessionEvent, source: PacketSource) -> bool {
    matches!(event, SessionEvent::Packet(packet) if packet.source == source)
}

#[test]
fn simulated_session_roots_the_same_blocks_again() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let plan = Plan::of(11).only("none").expect("no faults are always there");
    let (outcome, totals) = run_recorded(&plan, NODE, folder.path());
    assert_eq!(outcome.violation, None);
    assert!(totals.rooted > 30 && totals.left_out > 500 && totals.dropped == 0, "{totals:?}");
    let session = read(folder.path()).expect("it was written now");
    for source in [PacketSource::Turbine, PacketSource::Gossip, PacketSource::Transaction, PacketSource::Own] {
        assert!(session.events.iter().any(|event| is_from(event, source)), "{source:?}");
    }
    let replayed = replay(folder.path()).expect("it comes to the same blocks");
    assert_eq!(replayed.compared, totals.rooted);
    assert_eq!(replayed.packets, totals.packets);
    assert!(replayed.votes.len() > 30, "{} votes", replayed.votes.len());
    let again = replay(folder.path()).expect("it comes to the same blocks");
    assert_eq!(again, replayed, "a session is the same run each time");
    // What is missing or changed is seen.
    let mut without_own = session.clone();
    without_own.events.retain(|event| !is_from(event, PacketSource::Own));
    let why = replay_session(folder.path(), &without_own).expect_err("the node's own blocks are missing");
    assert!(matches!(why, SessionError::NotRooted { .. }), "{why:?}");
    let mut changed = session.clone();
    let hash = changed.events.iter_mut().rev().find_map(|event| match event {
        SessionEvent::Rooted { bank_hash, .. } => Some(bank_hash),
        SessionEvent::Packet(_) => None,
    });
    hash.expect("blocks were rooted")[0] ^= 1;
    let why = replay_session(folder.path(), &changed).expect_err("a bank hash is another");
    assert!(matches!(why, SessionError::Differs { .. }), "{why:?}");
    let incomplete = Session { dropped: 3, ..session };
    let why = replay_session(folder.path(), &incomplete).expect_err("packets are missing");
    assert!(matches!(why, SessionError::Incomplete(3)), "{why:?}");
}

#[test]
fn recorded_run_is_the_same_each_time() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let plan = Plan::of(12).only("none").expect("no faults are always there");
    let runs = ["first", "second"].map(|name| {
        let folder = folder.path().join(name);
        let (outcome, totals) = run_recorded(&plan, NODE, &folder);
        assert_eq!(outcome.violation, None);
        (outcome.digest, totals)
    });
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn kept_sessions_root_the_same_blocks_again() {
    let folders = sessions_below(Path::new(KEPT)).expect("the folder can be listed");
    let names: Vec<_> = folders.iter().filter_map(|folder| folder.file_name()?.to_str()).collect();
    assert_eq!(names, KEPT_NAMES, "the sessions in {KEPT}, and those that are listed here");
    let mut bytes = 0;
    let mut blocks = 0;
    for folder in &folders {
        let replayed = replay(folder).unwrap_or_else(|why| panic!("{}: {why:?}", folder.display()));
        let size = size_of_files(folder);
        let packed = fs::metadata(folder.join(SESSION)).expect("it was read").len();
        println!(
            "{}: {} blocks and {} packets in {:.1} s, {size} bytes, {packed} of them packets",
            folder.display(),
            replayed.compared,
            replayed.packets,
            replayed.virtual_ns as f64 / 1e9
        );
        assert!(replayed.compared > 0, "{} has no rooted block", folder.display());
        bytes += size;
        blocks += replayed.compared;
    }
    if folders.is_empty() {
        return println!("SKIPPED: no session is kept in {KEPT}; `cargo xtask soak agave --capture DIR` records some");
    }
    println!("{} kept sessions, {blocks} rooted blocks, {bytes} bytes", folders.len());
    assert!(bytes <= KEPT_BYTES_MAX, "{bytes} bytes of sessions, at most {KEPT_BYTES_MAX}");
}

/// Bytes of all files in a folder and its folders.
fn size_of_files(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    let size = entries.map(|entry| {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() { size_of_files(&path) } else { fs::metadata(&path).expect("it is there").len() }
    });
    size.sum()
}
