//! A node killed without warning keeps what it has confirmed, and continues from there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use hearth_ledger::genesis::funded_account_key;
use hearth_wire::Signature;
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Sender, fresh_address, signature_of, transfer};
use super::node::{Process, Rpc, Setup, same, wait_until};

/// The kill comes after this many confirmations, while more transfers are in flight.
const CONFIRMED: usize = 300;

/// The transfers of the load, by number. Each pays a distinct address, whose balance shows whether it landed.
#[derive(Default)]
struct Load {
    sent: Mutex<Vec<Vec<u8>>>,
    stop: AtomicBool,
}

fn amount(number: usize) -> u64 {
    1_000_000 + number as u64
}

impl Load {
    fn run(&self, node: SocketAddr, rpc: Rpc) {
        let mut sender = Sender::connect(node, 1);
        let blockhash = rpc.latest_blockhash();
        for number in 0.. {
            let to = fresh_address(1, number);
            let bytes = transfer(&funded_account_key(number % 64), &to, amount(number), &blockhash);
            self.sent.lock().push(bytes.clone());
            while !sender.try_send(&bytes) {
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
            }
            if self.stop.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn signatures(&self) -> Vec<Signature> {
        self.sent.lock().iter().map(|bytes| signature_of(bytes)).collect()
    }
}

fn is_confirmed(status: &Value) -> bool {
    let commitment = status["confirmationStatus"].as_str();
    status["err"].is_null() && commitment.is_some_and(|c| c == "confirmed" || c == "finalized")
}

/// Asks until enough are confirmed; gives their numbers.
fn wait_for_confirmed(load: &Load, rpc: Rpc) -> BTreeSet<usize> {
    let mut confirmed = BTreeSet::new();
    wait_until("confirmed transfers", || {
        let signatures = load.signatures();
        let open: Vec<usize> = (0..signatures.len()).filter(|number| !confirmed.contains(number)).collect();
        let asked: Vec<Signature> = open.iter().map(|number| signatures[*number]).collect();
        let statuses = rpc.statuses(&asked);
        confirmed.extend(open.into_iter().zip(&statuses).filter(|(_, s)| is_confirmed(s)).map(|(number, _)| number));
        if confirmed.len() < CONFIRMED { Err(format!("{} confirmed", confirmed.len())) } else { Ok(()) }
    });
    confirmed
}

/// Returns the numbers of the transfers that have landed. A receiver has the whole amount, or nothing.
fn landed(rpc: Rpc, sent: usize) -> BTreeSet<usize> {
    let balances = (0..sent).map(|number| (number, rpc.balance(&fresh_address(1, number))));
    let landed = balances.filter(|(_, lamports)| *lamports > 0).inspect(|(number, lamports)| {
        assert_eq!(*lamports, amount(*number));
    });
    landed.map(|(number, _)| number).collect()
}

fn slot(rpc: Rpc) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": "processed" }])).as_u64().expect("a slot")
}

/// Returns the bank hashes up to a confirmed slot, by slot, from the sysvar that programs read.
fn bank_hashes(rpc: Rpc) -> BTreeMap<u64, String> {
    let confirmed = rpc.call("getSlot", json!([{ "commitment": "confirmed" }])).as_u64().expect("a slot");
    let options = json!({ "encoding": "jsonParsed", "commitment": "processed" });
    let account = rpc.call("getAccountInfo", json!(["SysvarS1otHashes111111111111111111111111111", options]));
    let entries = account["value"]["data"]["parsed"]["info"].as_array().expect("the slot hashes").clone();
    let entry = |entry: Value| Some((entry["slot"].as_u64()?, entry["hash"].as_str()?.to_owned()));
    entries.into_iter().filter_map(entry).filter(|(slot, _)| *slot <= confirmed).collect()
}

/// Banks known to both have the same hashes; there is at least one.
fn same_hashes(live: &BTreeMap<u64, String>, again: &BTreeMap<u64, String>) {
    let both: Vec<_> = live.iter().filter(|(slot, _)| again.contains_key(slot)).collect();
    assert!(both.len() > 1, "{live:?} {again:?}");
    assert!(both.into_iter().all(|(slot, hash)| again[slot] == *hash), "{live:?} {again:?}");
}

#[test]
fn kill_9_under_load_and_restart() {
    let setup = Setup::new("restart");
    let node = setup.start();
    let (rpc, quic, load) = (node.rpc(), node.quic(), Load::default());
    let (confirmed, count, slot_before, hashes) = std::thread::scope(|scope| {
        scope.spawn(|| load.run(quic, rpc));
        let confirmed = wait_for_confirmed(&load, rpc);
        let count = rpc.call("getTransactionCount", json!([{ "commitment": "confirmed" }])).as_u64().expect("a count");
        let slot = rpc.call("getSlot", json!([{ "commitment": "confirmed" }])).as_u64().expect("a slot");
        let hashes = bank_hashes(rpc);
        node.kill();
        load.stop.store(true, Ordering::Release);
        (confirmed, count, slot, hashes)
    });
    let (signatures, sent) = (load.signatures(), load.sent.into_inner());
    assert!(count >= confirmed.len() as u64 && sent.len() > confirmed.len());

    let node = setup.start();
    let rpc = node.rpc();
    same_hashes(&hashes, &bank_hashes(rpc));
    let landed_then = landed(rpc, sent.len());
    let lost: Vec<_> = confirmed.difference(&landed_then).collect();
    assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
    // Each transaction is in the chain once, and no other.
    assert_eq!(rpc.transaction_count(), landed_then.len() as u64);
    assert!(rpc.transaction_count() >= count);
    let asked: Vec<Signature> = landed_then.iter().map(|number| signatures[*number]).collect();
    assert!(rpc.statuses(&asked).iter().all(|status| status["err"].is_null() && status["slot"].is_u64()));
    wait_until("the chain goes on", || if slot(rpc) > slot_before + 1 { Ok(()) } else { Err(slot(rpc).to_string()) });

    // The filters of verify and dedup start empty: only the blocks know what landed before the kill.
    let again = *confirmed.first().expect("some are confirmed");
    let late = sent.len();
    let blockhash = rpc.latest_blockhash();
    let fresh = transfer(&funded_account_key(0), &fresh_address(1, late), amount(late), &blockhash);
    let landed_now = landed_then.len() as u64 + 1;
    Sender::connect(node.quic(), 2).send_all(&[sent[again].clone(), fresh.clone()]);
    wait_until("both transactions", || {
        let metrics = node.metrics();
        same((metrics.total("bank_landed"), metrics.total("bank_dropped_already_processed")), (1, 1))
    });
    assert_eq!(rpc.transaction_count(), landed_now);
    wait_until("the late one", || same(is_confirmed(&rpc.statuses(&[signature_of(&fresh)])[0]), true));
    let balances = |rpc: Rpc| -> Vec<u64> {
        let senders = (0..64).map(|n| rpc.balance(&funded_account_key(n).public_key()));
        senders.chain([rpc.balance(&rpc.identity()), rpc.balance(&fresh_address(1, late))]).collect()
    };
    let before = balances(rpc);
    node.stop();

    let node = setup.start();
    assert_eq!(balances(node.rpc()), before);
    assert_eq!(landed(node.rpc(), sent.len()), landed_then);
    assert_eq!(node.rpc().transaction_count(), landed_now);
    node.stop();
}

/// Whether the process has taken over SIGINT.
fn catches_ctrl_c(process: &Process) -> Result<(), String> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).map_err(|e| e.to_string())?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).ok_or("no mask")?;
    let mask = u64::from_str_radix(mask.trim(), 16).map_err(|e| e.to_string())?;
    same(mask & (1 << (Signal::INT.as_raw() - 1)) > 0, true)
}

/// On a chain whose blocks take seconds to rehash, Ctrl-C ends the start between two blocks and harms nothing.
#[test]
fn ctrl_c_ends_a_replay() {
    let mut setup = Setup::new("ctrl-c-replay");
    setup.with("development.genesis.ticks_per_slot", 16).with("development.genesis.hashes_per_tick", 40_000);
    setup.with("snapshots.enabled", false);
    let node = setup.start();
    wait_until("blocks", || if slot(node.rpc()) > 25 { Ok(()) } else { Err(slot(node.rpc()).to_string()) });
    let last = node.rpc().call("getSlot", json!([{ "commitment": "confirmed" }])).as_u64().expect("a slot");
    // Slot 0 is a block of ticks, on which the first is built.
    let [zero, one] = [0, 1].map(|slot| node.rpc().call("getBlock", json!([slot, { "commitment": "confirmed" }])));
    assert_ne!(zero["blockhash"], node.rpc().call("getGenesisHash", json!([])));
    assert_eq!(one["previousBlockhash"], zero["blockhash"]);
    node.stop();

    let process = Process::start(&mut setup.command("run"));
    wait_until("the node listens for Ctrl-C", || catches_ctrl_c(&process));
    process.signal(Signal::INT);
    let (status, lines) = process.wait();
    assert!(status.success() && lines.iter().any(|line| line.contains("stopping")), "{status}: {lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("ready;")), "it has not begun to run: {lines:#?}");

    let node = setup.start();
    assert!(slot(node.rpc()) >= last);
    node.stop();
}
