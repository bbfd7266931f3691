//! The cluster's snapshot archives: `hearth ledger snapshot create`, and a node that serves what that made, or writes
//! its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Output;

use hearth_ledger::archive::ArchiveName;
use hearth_ledger::genesis::funded_account_key;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::client::{fresh_address, transfer};
use super::developer::{an_epoch_ends, landed};
use super::node::{Setup, hearth, output, wait_until};

const OPTIONS: [&str; 4] = ["--slots-per-epoch", "64", "--slot-ms", "50"];

fn ledger(setup: &Setup, arguments: &[&str]) -> Output {
    output(hearth().arg("ledger").args(arguments).current_dir(setup.folder.path()))
}

/// `hearth ledger snapshot create …` for the test's chain.
fn create(setup: &Setup, more: &[&str]) -> Output {
    let config = setup.config().display().to_string();
    ledger(setup, &[&["snapshot", "create", "--config", &config][..], more].concat())
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output, part: &str) {
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(why.contains(part), "`{part}` is not in: {why}");
}

/// The slot and the hash in a line such as `bank      slot 7, hash …`.
fn bank(said: &str, name: &str) -> (u64, String) {
    let line = said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {said}"));
    let slot = line.split("slot ").nth(1).and_then(|rest| rest.split(',').next()).expect("a slot");
    let hash = line.split("hash ").nth(1).expect("a hash");
    (slot.parse().expect("a number"), hash.to_owned())
}

/// The file that `create` names.
fn archive(said: &str) -> String {
    let path = said.lines().find_map(|line| line.strip_prefix("archive")).expect("a line");
    path.trim().to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(name).collect()
}

/// Head and body of the answer to a path.
fn get(port: u16, path: &str) -> (String, Vec<u8>) {
    request(port, "GET", path)
}

/// The same for a request by this method.
fn request(port: u16, method: &str, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec())
}

/// A chain that voted, paid, failed to pay, and turned an epoch.
fn chain(setup: &Setup) {
    let node = setup.start_with(&OPTIONS);
    let rpc = node.rpc();
    let payer = funded_account_key(0);
    for (number, lamports) in [(1, 1_000_000), (2, u64::MAX / 2), (3, 2_000_000)] {
        let bytes = transfer(&payer, &fresh_address(0xa0, number), lamports, &rpc.latest_blockhash());
        let status = landed(rpc, &bytes, "confirmed");
        assert_eq!(status["err"] == Value::Null, lamports < u64::MAX / 2, "{status}");
    }
    an_epoch_ends(rpc);
    node.stop();
}

#[test]
fn an_archive_is_made_and_served() {
    let mut setup = Setup::new("archives");
    setup.with("consensus.vote", true);
    chain(&setup);
    let (out, full) = (setup.folder.path().join("out"), setup.folder.path().join("full"));
    fs::create_dir(&out).unwrap();
    fs::create_dir(&full).unwrap();
    let [out_text, full_text] = [&out, &full].map(|path| path.display().to_string());

    let made = said(&create(&setup, &["--out", &out_text]));
    let (slot, hash) = bank(&made, "bank");
    let genesis = setup.ledger().join("genesis.bin").display().to_string();
    let verified = said(&ledger(&setup, &["snapshot", "verify", &archive(&made), "--genesis", &genesis]));
    assert_eq!(bank(&verified, "bank"), (slot, hash.clone()));
    assert!(verified.contains("whole: "), "{verified}");
    let config = setup.config().display().to_string();
    let replayed = said(&ledger(&setup, &["replay", "--config", &config]));
    let line = format!("{slot}  {hash}");
    assert!(replayed.lines().any(|of| of.trim().starts_with(&line)), "no {line}: {replayed}");

    // What is there stays; what cannot be written leaves nothing.
    refused(&create(&setup, &["--out", &out_text]), "cannot be written");
    assert_eq!(names(&out).len(), 1);
    std::os::unix::fs::symlink("/dev/full", full.join(format!("tmp-snapshot-archive-{slot}.tar.zst"))).unwrap();
    refused(&create(&setup, &["--out", &full_text]), "No space left on device");
    assert_eq!(names(&full), [""; 0]);
    refused(&create(&setup, &["--out", &format!("{}/none", archive(&made))]), "cannot be written");
    let made_folder = out.join("new/folder");
    said(&create(&setup, &["--out", &made_folder.display().to_string()]));
    assert_eq!(names(&made_folder).len(), 1);
    refused(&create(&setup, &["--slot", "99999999"]), "no leader's block of that slot is here");

    // An earlier state, into the folder of the snapshots, which the node serves.
    let (parent, parent_hash) = bank(&verified, "parent");
    let made = said(&create(&setup, &["--slot", &parent.to_string()]));
    assert_eq!(bank(&made, "bank"), (parent, parent_hash));
    let file = archive(&made);
    let name = Path::new(&file).file_name().unwrap().to_str().unwrap();
    assert_eq!(Path::new(&file).parent().unwrap(), setup.ledger().join("snapshots"));

    setup.with("snapshots.serve_archives", true);
    let node = setup.start_with(&OPTIONS);
    let (head, _) = get(node.ports.rpc, "/snapshot.tar.bz2");
    assert!(head.starts_with("HTTP/1.1 303 ") && head.contains(&format!("location: /{name}")), "{head}");
    let (head, body) = get(node.ports.rpc, &format!("/{name}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body == fs::read(&file).unwrap(), "{} bytes", body.len());
    let (head, none) = request(node.ports.rpc, "HEAD", &format!("/{name}"));
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert!(none.is_empty(), "{} bytes", none.len());
    for path in ["/incremental-snapshot.tar.bz2", &format!("/../{name}"), &format!("//{name}")] {
        let (head, _) = get(node.ports.rpc, path);
        assert!(head.starts_with("HTTP/1.1 405 "), "{path}: {head}");
    }
    assert_eq!(node.rpc().call("getHighestSnapshotSlot", json!([]))["full"], parent);
    refused(&create(&setup, &[]), "");
    node.stop();
}

/// The newest incremental archive of a folder, and the full one on which it builds.
fn newest(folder: &Path) -> Option<(ArchiveName, ArchiveName)> {
    let names = names(folder);
    let archives: Vec<_> = names.iter().filter_map(|name| ArchiveName::parse(name).ok()).collect();
    let incremental = archives.iter().filter(|name| name.base.is_some()).max_by_key(|name| name.slot)?;
    let full = archives.iter().find(|name| name.base.is_none() && Some(name.slot) == incremental.base)?;
    Some((*full, *incremental))
}

/// Starts a node in a new folder, with the chain's genesis and keys and these archives. Returns the balance that it has
/// for an address once it has made blocks after them.
fn balance_after(from: &Setup, archives: [&Path; 2], slot: u64, address: &str) -> Value {
    let setup = Setup::new("from-archives");
    fs::create_dir(setup.ledger()).unwrap();
    for entry in fs::read_dir(from.ledger()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_file() && !["root.bin", "tower.bin"].contains(&name) {
            fs::copy(&path, setup.ledger().join(name)).unwrap();
        }
    }
    for archive in archives {
        fs::copy(archive, setup.ledger().join(archive.file_name().unwrap())).unwrap();
    }
    let node = setup.start_with(&OPTIONS);
    wait_until("blocks after the archive", || {
        let at = node.rpc().call("getSlot", json!([{ "commitment": "confirmed" }]));
        if at.as_u64() > Some(slot) { Ok(()) } else { Err(at.to_string()) }
    });
    let balance = node.rpc().call("getBalance", json!([address, { "commitment": "confirmed" }]));
    node.stop();
    balance["value"].clone()
}

#[test]
fn a_running_node_writes_archives_and_another_starts_from_them() {
    let mut setup = Setup::new("written");
    setup
        .with("consensus.vote", true)
        .with("snapshots.write_archives", true)
        .with("snapshots.serve_archives", true)
        .with("snapshots.full_snapshot_interval_slots", 64)
        .with("snapshots.incremental_snapshot_interval_slots", 16);
    let folder = setup.ledger().join("snapshots").join("archives");
    let node = setup.start_with(&OPTIONS);
    let rpc = node.rpc();
    let to = fresh_address(0xa1, 1);
    let status = landed(rpc, &transfer(&funded_account_key(0), &to, 1_234_567, &rpc.latest_blockhash()), "confirmed");
    let paid = status["slot"].as_u64().expect("a slot");
    wait_until("an incremental archive with the payment", || {
        let found = if folder.exists() { newest(&folder) } else { None };
        if found.is_some_and(|(_, newest)| newest.slot > paid) { Ok(()) } else { Err(format!("{found:?}")) }
    });
    let (head, _) = get(node.ports.rpc, "/snapshot.tar.bz2");
    let name = head.lines().find_map(|line| line.strip_prefix("location: ")).expect("it is served");
    let (head, body) = get(node.ports.rpc, name.trim());
    assert!(head.starts_with("HTTP/1.1 200 ") && !body.is_empty(), "{head}");
    assert!(node.rpc().call("getHighestSnapshotSlot", json!([]))["full"].as_u64() > Some(0));
    node.stop();

    let (full, incremental) = newest(&folder).expect("they stay");
    let [full_path, path] = [full, incremental].map(|name| folder.join(name.to_string()));
    let unfinished = names(&folder).into_iter().find(|name| name.starts_with("tmp-"));
    assert_eq!(unfinished, None);
    let genesis = setup.ledger().join("genesis.bin").display().to_string();
    let [full_text, text] = [&full_path, &path].map(|path| path.display().to_string());
    let verify = ["snapshot", "verify", &full_text, "--incremental", &text, "--genesis", &genesis];
    let verified = said(&ledger(&setup, &verify));
    let (slot, hash) = bank(&verified, "bank");
    assert_eq!(slot, incremental.slot);
    // The chain's blocks lead to the same bank.
    let config = setup.config().display().to_string();
    let replayed = said(&ledger(&setup, &["replay", "--config", &config]));
    let line = format!("{slot}  {hash}");
    assert!(replayed.lines().any(|of| of.trim().starts_with(&line)), "no {line}: {replayed}");
    let balance = balance_after(&setup, [&full_path, &path], slot, &encode_32(&to).to_string());
    assert_eq!(balance, 1_234_567);
}
