//! Kills under load at random moments, repeatedly: every confirmed transaction survives, and the chain continues.
//!
//! HEARTH_SEED selects one seed instead of three; HEARTH_KILLS sets the kills per seed; with HEARTH_FULL_RATE, `hearth
//! bench` drives the node at full rate in addition to the tracked transfers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

use hearth_ledger::genesis::funded_account_key;
use hearth_testkit::pause;
use hearth_testkit::random::Random;
use hearth_wire::Signature;
use hearth_wire::base58::decode_32;
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Sender, fresh_address, signature_of, transfer};
use super::node::{Process, Rpc, Setup, hearth, output, wait_until};

/// Kills of each seed.
const KILLS: u64 = 3;
/// At least this many transfers are newly confirmed before each kill.
const CONFIRMED: usize = 1000;
/// The kill comes within so long after: some slots.
const WITHIN_MS: u64 = 400;

/// Transfers signed with one blockhash.
const BLOCKHASH_FOR: usize = 500;

/// Transfers offered between two polls of the socket.
const AT_ONCE: usize = 8;

/// First signatures of all transfers sent, over all starts; the index is the transfer's number.
type SentSignatures = Mutex<Vec<Signature>>;

fn amount(number: usize) -> u64 {
    1_000_000 + number as u64
}

/// Sends as fast as the node accepts, until `stop`.
fn load(quic: SocketAddr, rpc: Rpc, sent: &SentSignatures, stop: &AtomicBool) {
    let mut sender = Sender::connect(quic, 1);
    let mut blockhash = rpc.latest_blockhash();
    while !stop.load(Acquire) {
        let number = sent.lock().len();
        if number % BLOCKHASH_FOR == 0
            && let Ok(latest) = rpc.try_call("getLatestBlockhash", json!([{ "commitment": "processed" }]))
        {
            blockhash = decode_32(latest["value"]["blockhash"].as_str().expect("a text")).expect("a blockhash");
        }
        let bytes = transfer(&funded_account_key(number % 64), &fresh_address(1, number), amount(number), &blockhash);
        sent.lock().push(signature_of(&bytes));
        // Several between two looks at the socket, so that the pipeline is never without work.
        while !sender.offer(&bytes) && !stop.load(Acquire) {
            sender.step(Duration::from_millis(1));
        }
        if number % AT_ONCE == 0 {
            sender.step(Duration::from_micros(200));
        }
    }
}

/// Drives the node as fast as it goes, and waits until it does; ended by being dropped. Gives the rate of a second too.
pub fn bench(setup: &Setup) -> (Process, f64) {
    let config = setup.folder.path().join("bench.toml");
    std::fs::write(&config, format!("name = \"{}-bench\"\n", setup.name)).expect("a file");
    let mut bench = hearth();
    bench.current_dir(setup.folder.path()).args(["bench", "--warmup", "0", "--duration", "600", "--probes", "0"]);
    bench.arg("--config").arg(config).args(["--url", &format!("http://127.0.0.1:{}", setup.ports.rpc)]);
    let process = Process::start(&mut bench);
    let lines = process.wait_for_line("   1 s ");
    let rate = lines.last().and_then(|line| line.split_whitespace().nth(2)?.replace(',', "").parse().ok());
    (process, rate.expect("a line has a rate"))
}

fn is_confirmed(status: &Value) -> bool {
    let commitment = status["confirmationStatus"].as_str();
    status["err"].is_null() && commitment.is_some_and(|c| c == "confirmed" || c == "finalized")
}

/// Polls the statuses of transfers from number `from` on until enough new ones are confirmed.
fn wait_for_confirmed(sent: &SentSignatures, confirmed: &mut BTreeSet<usize>, rpc: Rpc, from: usize) {
    let enough = confirmed.len() + CONFIRMED;
    wait_until("confirmed transfers", || {
        let signatures = sent.lock()[from..].to_vec();
        let statuses = rpc.statuses(&signatures);
        let newly = statuses.iter().enumerate().filter(|(_, status)| is_confirmed(status));
        confirmed.extend(newly.map(|(at, _)| from + at));
        if confirmed.len() < enough { Err(confirmed.len().to_string()) } else { Ok(()) }
    });
}

/// Returns which transfers from number `from` on have landed, each whole. All confirmed ones must have landed.
fn landed(sent: usize, confirmed: &BTreeSet<usize>, rpc: Rpc, from: usize) -> BTreeSet<usize> {
    let balances = (from..sent).map(|number| (number, rpc.balance(&fresh_address(1, number))));
    let paid = balances.filter(|(_, lamports)| *lamports > 0).inspect(|(number, lamports)| {
        assert_eq!(*lamports, amount(*number), "transfer {number}");
    });
    let landed: BTreeSet<usize> = paid.map(|(number, _)| number).collect();
    let lost: Vec<_> = confirmed.range(from..).filter(|number| !landed.contains(number)).collect();
    assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
    landed
}

fn processed_slot(rpc: Rpc) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": "processed" }])).as_u64().expect("a slot")
}

/// The lines of `hearth ledger replay`: one for each block, with its bank's hash.
fn replay(setup: &Setup, arguments: &[&str]) -> Vec<String> {
    let output = output(hearth().args(["ledger", "replay", "--config"]).arg(setup.config()).args(arguments));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn kills(seed: u64, count: u64) {
    let mut setup = Setup::new(&format!("kills-{seed}"));
    setup.with("development.genesis.ticks_per_slot", 16).with("snapshots.full_snapshot_interval_slots", 4);
    // Where the node votes its votes are transactions too.
    let votes = seed % 2 == 0;
    setup.with("consensus.vote", votes);
    let full = number("HEARTH_FULL_RATE").is_some();
    if full {
        // The final replay needs all blocks.
        setup.with("ledger.limit_size", 100_000_000_000i64).with("tiles.verify.table_bytes", 512 << 20);
        setup.with("tiles.pack.max_pending_transactions", 65_524).with("rpc.status_capacity", 1 << 21);
        setup.with("snapshots.full_snapshot_interval_slots", 25);
    }
    let mut rates = vec![];
    let (mut random, sent, mut confirmed) = (Random(seed), SentSignatures::default(), BTreeSet::new());
    // The fate of transfers before `known` is settled; `landed_before` of them have landed.
    let (mut known, mut landed_before, mut last_slot) = (0, 0, 0);
    for kill in 0..=count {
        let node = setup.start();
        let rpc = node.rpc();
        let number_sent = sent.lock().len();
        landed_before += landed(number_sent, &confirmed, rpc, known).len();
        known = number_sent;
        if !votes && !full {
            let count_now = rpc.transaction_count();
            assert_eq!(
                count_now, landed_before as u64,
                "seed {seed}, kill {kill}: each is in the chain once, no other"
            );
        }
        wait_until("the chain goes on", || match processed_slot(rpc) {
            slot if slot > last_slot => Ok(()),
            slot => Err(format!("slot {slot} after slot {last_slot}")),
        });
        if kill == count {
            // Those of the first start, too, after all kills.
            assert_eq!(landed(known, &confirmed, rpc, 0).len(), landed_before);
            wait_until("a snapshot", || match node.metrics().gauge("store_snapshot_slot") {
                0 => Err("none".into()),
                _ => Ok(()),
            });
            node.stop();
            break;
        }
        let (stop, quic) = (AtomicBool::new(false), node.quic());
        let load_beside = full.then(|| bench(&setup));
        rates.extend(load_beside.iter().map(|(_, rate)| *rate));
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            scope.spawn(|| load(quic, rpc, &sent, &stop));
            wait_for_confirmed(&sent, &mut confirmed, rpc, known);
            last_slot = rpc.call("getSlot", json!([{ "commitment": "confirmed" }])).as_u64().expect("a slot");
            pause(Duration::from_micros(random.word() % (WITHIN_MS * 1000)));
            node.process.signal(Signal::KILL);
        });
        node.process.wait();
    }
    same_hashes(&setup);
    println!(
        "seed {seed}: {count} kills, {} transfers sent, {landed_before} landed, slot {last_slot}",
        sent.lock().len()
    );
    if full {
        rates.sort_by(f64::total_cmp);
        println!("seed {seed}: beside them {:.0} transactions a second, median of the starts", rates[rates.len() / 2]);
    }
}

/// An undisturbed replay from genesis reproduces the hashes recorded in snapshots and those that follow.
fn same_hashes(setup: &Setup) {
    let whole = replay(setup, &[]);
    let mut snapshots: Vec<u64> = std::fs::read_dir(setup.ledger().join("snapshots"))
        .unwrap()
        .filter_map(|file| file.unwrap().path().file_stem()?.to_str()?.parse().ok())
        .collect();
    snapshots.sort_unstable();
    assert!(!snapshots.is_empty(), "{} blocks and no snapshot", whole.len());
    let noted = whole.iter().filter(|line| line.ends_with("as its snapshot has it")).count();
    assert_eq!(noted, snapshots.len(), "{snapshots:?}");
    let newest = snapshots.last().expect("there is one").to_string();
    let part = replay(setup, &["--from", &newest]);
    // The last line is the count of executed transactions.
    let hashes = part.len() - 1;
    assert_eq!(part[..hashes], whole[whole.len() - 1 - hashes..whole.len() - 1]);
}

/// Stops the load when dropped, also on failure.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[test]
fn killed_at_any_moment() {
    let seeds = number("HEARTH_SEED").map_or(vec![1, 2, 3], |seed| vec![seed]);
    for seed in seeds {
        println!("HEARTH_SEED={seed}");
        kills(seed, number("HEARTH_KILLS").unwrap_or(KILLS));
    }
}
