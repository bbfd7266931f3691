//! The cluster's snapshot archives: `hearth ledger snapshot create`, and a node that serves what that made.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Output;

use hearth_ledger::genesis::funded_account_key;
use serde_json::{Value, json};

use super::client::{fresh_address, transfer};
use super::developer::{an_epoch_ends, landed};
use super::node::{Setup, hearth, output};

const OPTIONS: [&str; 4] = ["--slots-per-epoch", "64", "--slot-ms", "50"];

/// `hearth ledger …`
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
