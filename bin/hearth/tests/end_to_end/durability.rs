//! Snapshots, a full disk, and the commands that look at a chain on disk.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use hearth_ledger::genesis::funded_account_key;
use serde_json::{Value, json};

use super::client::{Sender, fresh_address, transfer};
use super::node::{Node, Process, Rpc, Setup, hearth, output, wait_until};

/// Slots of 100 ms, a snapshot every 20.
fn setup(test: &str) -> Setup {
    let mut setup = Setup::new(test);
    setup.with("development.genesis.ticks_per_slot", 16).with("snapshots.full_snapshot_interval_slots", 20);
    setup
}

fn amount(number: usize) -> u64 {
    1_000_000 + number as u64
}

/// Sends numbered transfers to distinct addresses, and waits until all are confirmed.
fn pay(node: &Node, numbers: std::ops::Range<usize>) {
    let rpc = node.rpc();
    let before = confirmed(rpc);
    let blockhash = rpc.latest_blockhash();
    let of = |n: usize| transfer(&funded_account_key(n % 64), &fresh_address(1, n), amount(n), &blockhash);
    let transactions: Vec<_> = numbers.map(of).collect();
    Sender::connect(node.quic(), 1).send_all(&transactions);
    let expected = before + transactions.len() as u64;
    wait_until("all transfers", || match confirmed(rpc) {
        count if count >= expected => Ok(()),
        count => Err(format!("{count} of {expected}")),
    });
}

fn confirmed(rpc: Rpc) -> u64 {
    rpc.call("getTransactionCount", json!([{ "commitment": "confirmed" }])).as_u64().expect("a count")
}

fn slot(rpc: Rpc) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": "processed" }])).as_u64().expect("a slot")
}

fn wait_for_snapshot(node: &Node, after: u64) -> u64 {
    wait_until("a snapshot", || match node.metrics().gauge("store_snapshot_slot") {
        slot if slot > after => Ok(slot),
        slot => Err(format!("slot {slot}")),
    })
}

/// Runs `hearth ledger …`.
fn ledger(setup: &Setup, command: &str, arguments: &[&str]) -> Output {
    output(hearth().args(["ledger", command, "--config"]).arg(setup.config()).args(arguments))
}

/// The poh tile's last heartbeat, by the node's own clock, in seconds.
fn poh_heartbeat_s(node: &Node) -> f64 {
    let metrics = node.metrics();
    let is_it = |line: &&str| line.starts_with("hearth_tile_heartbeat_unix_seconds{tile=\"poh:0\"");
    let line = metrics.text().lines().find(is_it).expect("a heartbeat of poh");
    line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a number")
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn snapshots(setup: &Setup) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(setup.ledger().join("snapshots")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "snapshot"));
    files.sort();
    files
}

fn balances(rpc: Rpc, count: usize) -> Vec<u64> {
    let receivers = (0..count).step_by(37).map(|n| rpc.balance(&fresh_address(1, n)));
    let senders = (0..64).map(|n| rpc.balance(&funded_account_key(n).public_key()));
    receivers.chain(senders).chain([rpc.balance(&rpc.identity()), rpc.transaction_count()]).collect()
}

#[test]
fn a_chain_outlives_its_first_blocks() {
    const ROUND: usize = 6000;
    let mut setup = setup("outlive");
    setup.with("ledger.limit_size", 4 << 20);
    let node = setup.start();
    let first = wait_for_snapshot(&node, 0);
    // More than the store may take.
    let mut sent = 0;
    for _ in 0..5 {
        pay(&node, sent..sent + ROUND);
        sent += ROUND;
    }
    let newest = wait_for_snapshot(&node, first + 20);
    assert_eq!(node.rpc().call("getHighestSnapshotSlot", json!([]))["full"], newest);
    let before = balances(node.rpc(), sent);
    node.kill();

    let process = Process::start(&mut setup.command("run"));
    let said = process.wait_for_line("ready;");
    assert!(said.iter().any(|line| line.contains("snapshot  of slot")), "{said:#?}");
    let node = Node { process, ports: setup.ports };
    assert_eq!(balances(node.rpc(), sent), before);
    node.stop();

    // The first blocks are pruned; the blocks that the older snapshot needs are kept.
    let listed = lines(&ledger(&setup, "blocks", &[]));
    let slot_of = |line: &String| line.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    assert!(slot_of(&listed[1]) > 1, "{}", listed[1]);
    let verified = lines(&ledger(&setup, "verify", &[]));
    assert_eq!(verified.last().unwrap(), "nothing is wrong", "{verified:#?}");
    for command in ["blocks", "export"] {
        let failed = ledger(&setup, command, &["--from", "5", "--to", "3"]);
        assert!(String::from_utf8_lossy(&failed.stderr).contains("--from 5 is after --to 3"), "{failed:?}");
    }
    let failed = ledger(&setup, "replay", &[]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("are gone"), "{failed:?}");

    // From either snapshot the same hashes follow.
    let files = snapshots(&setup);
    assert_eq!(files.len(), 2, "{files:?}");
    let slots: Vec<String> = files
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().trim_start_matches('0').to_owned())
        .collect();
    let [older, newer] = [&slots[0], &slots[1]].map(|slot| lines(&ledger(&setup, "replay", &["--from", slot])));
    assert!(older.iter().any(|line| line.ends_with("as its snapshot has it")), "{older:#?}");
    let tail = newer.len().saturating_sub(1);
    assert_eq!(older[older.len() - 1 - tail..older.len() - 1], newer[..tail]);

    // A damaged snapshot is named, and the one before is used.
    let mut bytes = fs::read(&files[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&files[1], &bytes).unwrap();
    let wrong = ledger(&setup, "verify", &[]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stdout).contains("checksum mismatch"), "{wrong:?}");
    let node = setup.start();
    let said = node.process.errors();
    assert!(said.contains(&slots[1]) && said.contains("is damaged at byte"), "{said}");
    assert_eq!(balances(node.rpc(), sent), before);
    // The ledger is locked meanwhile.
    let refused = ledger(&setup, "blocks", &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("in use by process"), "{refused:?}");
    node.stop();
}

#[test]
fn blocks_and_transactions_are_exported() {
    let setup = setup("export");
    let node = setup.start();
    pay(&node, 0..50);
    node.stop();
    let exported = lines(&ledger(&setup, "export", &[]));
    let exported: Vec<Value> = exported.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let blocks: Vec<&Value> = exported.iter().filter(|line| line["type"] == "block").collect();
    let transactions = exported.len() - blocks.len();
    assert_eq!(transactions, 50);
    assert_eq!(blocks.iter().map(|block| block["transactions"].as_u64().unwrap()).sum::<u64>(), 50);
    assert!(blocks.windows(2).all(|pair| pair[1]["parentSlot"] == pair[0]["slot"]));
    // Into a file, a part.
    let file = setup.folder.path().join("blocks.jsonl");
    lines(&ledger(&setup, "export", &["--from", "2", "--to", "3", "--out", file.to_str().unwrap()]));
    let part = fs::read_to_string(&file).unwrap();
    assert!(
        part.lines()
            .all(|line| [2, 3].contains(&serde_json::from_str::<Value>(line).unwrap()["slot"].as_u64().unwrap()))
    );
    assert_eq!(ledger(&setup, "export", &["--out", "/does/not/exist"]).status.code(), Some(1));
    // A changed bit in the log, behind the block of slot 0, is named.
    let log = setup.ledger().join("blocks/0000000001.log");
    let mut bytes = fs::read(&log).unwrap();
    bytes[1500] ^= 1;
    fs::write(&log, bytes).unwrap();
    let wrong = ledger(&setup, "verify", &[]);
    assert_eq!(wrong.status.code(), Some(1));
    // Once, though the log and the block have it.
    let named = String::from_utf8_lossy(&wrong.stdout).matches("0000000001.log at byte").count();
    assert!(named == 1 && String::from_utf8_lossy(&wrong.stderr).contains("one thing is wrong"), "{wrong:?}");
    // If the start needs the snapshot, the error says what to do.
    snapshots(&setup).iter().for_each(|file| fs::remove_file(file).unwrap());
    let refused = setup.output("run", &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in ["0000000001.log at byte", "checksum mismatch", "`hearth ledger verify --", " --reset`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let nothing = Setup::new("nothing-there");
    let output = ledger(&nothing, "blocks", &[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no chain in"), "{output:?}");
}

/// A ledger on a file system of 48 MiB, mounted where only the node sees it. Not every machine lets us mount one.
#[test]
fn a_full_disk_stops_the_chain_until_there_is_room() {
    const SIZE: usize = 48 << 20;
    let mut setup = setup("full");
    let small = setup.folder.path().join("small");
    fs::create_dir(&small).unwrap();
    setup.with("ledger.path", small.display().to_string());
    setup.with("snapshots.full_snapshot_interval_slots", 10);
    let mount = format!("mount -t tmpfs -o size={SIZE} none {}", small.display());
    let within = |script: String| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
        command
    };
    if !within(mount.clone()).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let (binary, config) = (env!("CARGO_BIN_EXE_hearth"), setup.config());
    let script = format!("{mount} && exec {binary} run --config {}", config.display());
    let process = Process::start(&mut within(script));
    process.wait_for_line("ready;");
    let node = Node { process, ports: setup.ports };
    let rpc = node.rpc();
    pay(&node, 0..500);
    let snapshot = wait_for_snapshot(&node, 0);

    // Fill the disk. It is reached through the node, which has a mount namespace of its own.
    let seen = |path: &std::path::Path| PathBuf::from(format!("/proc/{}/root{}", node.process.id(), path.display()));
    let ballast = seen(&small.join("ballast"));
    let filled = fs::write(&ballast, vec![1; SIZE]);
    assert!(filled.is_err(), "the disk is full now");
    let waiting = || node.metrics().gauge("store_waiting_for_room");
    wait_until("the chain to stand", || if waiting() == 1 { Ok(()) } else { Err(slot(rpc).to_string()) });
    // The current slot ends and no new one begins. The tile that would begin it keeps running meanwhile, for the time
    // of ten slots.
    let (mut at, mut beats) = (slot(rpc), vec![]);
    wait_until("no slot while poh runs", || {
        let (beat, now) = (poh_heartbeat_s(&node), slot(rpc));
        if now != at {
            (at, beats) = (now, vec![]);
        }
        if beats.last() != Some(&beat) {
            beats.push(beat);
        }
        if beats.len() > 10 && beat > beats[0] + 1.0 { Ok(()) } else { Err(format!("slot {now}, beats {beats:?}")) }
    });
    // Once each time: a snapshot that is given up makes room for a moment.
    let said = node.process.errors();
    let times = |what: &str| said.matches(what).count();
    assert_eq!(times("no room for blocks"), times("blocks are stored again") + 1, "{said}");
    let parts = |extension: &str| {
        let files = fs::read_dir(seen(&small.join("snapshots"))).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == extension)).count()
    };
    assert_eq!(node.metrics().gauge("store_snapshot_slot") >= snapshot, true);

    fs::remove_file(&ballast).unwrap();
    wait_until("the chain to go on", || if slot(rpc) > at + 5 { Ok(()) } else { Err(slot(rpc).to_string()) });
    assert_eq!(waiting(), 0);
    pay(&node, 500..600);
    let after = wait_for_snapshot(&node, at);
    assert!(after > at && parts("snapshot") >= 1);
    assert!((0..600).step_by(7).all(|n| rpc.balance(&fresh_address(1, n)) == amount(n)));
    node.stop();
}
