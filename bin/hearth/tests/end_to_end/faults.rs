//! Damage to every file of an Ethereum chain on disk: a start names the damaged file and refuses, or has all
//! acknowledged data, or reports what it truncated. Solana ledgers are tested next to `open_chain`, without processes.
//!
//! HEARTH_SEED selects another seed; HEARTH_FAULTS sets the number of mutations, instead of the few of a normal run.

use std::path::Path;

use hearth_testkit::damage::{Mutation, Outcome, Tally, copy_folder, files};
use hearth_testkit::random::Random;
use rustix::process::Signal;
use serde_json::json;

use super::evm::{AcknowledgedTransfer, Chain, funded, send_count};
use super::node::wait_until;

/// Transfers of each sender.
const TRANSFERS: u64 = 40;

fn arguments(folder: &Path) -> [&str; 4] {
    ["--data-dir", folder.to_str().expect("a plain path"), "--block-time", "instant"]
}

/// Builds a chain, kills it, and returns the transactions that it acknowledged.
fn made(folder: &Path) -> Vec<AcknowledgedTransfer> {
    let chain = Chain::start(&arguments(folder));
    let senders = funded(&chain);
    let sent: Vec<AcknowledgedTransfer> =
        senders.into_iter().flat_map(|number| send_count(chain.rpc(), number, TRANSFERS)).collect();
    for sent in &sent {
        wait_until("a receipt", || match look(&chain, sent, "none") {
            Outcome::Whole => Ok(()),
            _ => Err("none yet".into()),
        });
    }
    chain.process.signal(Signal::KILL);
    chain.process.wait();
    sent
}

/// Damages one file of a copy and starts on it.
fn trial(made: &Path, sent: &[AcknowledgedTransfer], file: &Path, mutation: Mutation) -> Outcome {
    let copy = tempfile::tempdir().expect("a folder");
    copy_folder(made, copy.path()).expect("a copy");
    if !mutation.apply(&copy.path().join(file)).expect("the file is there") {
        return Outcome::Whole;
    }
    let name = file.file_name().and_then(|name| name.to_str()).expect("a plain name");
    let chain = match Chain::start_or_end(&arguments(copy.path())) {
        Err((status, said)) if !status.success() && said.contains(name) => return Outcome::Refused,
        Err(_) => return Outcome::Silent,
        Ok(chain) => chain,
    };
    let mut worst = Outcome::Whole;
    for sent in sent {
        worst = worst.max(look(&chain, sent, name));
    }
    let said = chain.said();
    chain.process.signal(Signal::KILL);
    if worst == Outcome::Silent && said.contains(name) { Outcome::Cut } else { worst }
}

/// Checks a transfer's receipt and the balance that it paid.
fn look(chain: &Chain, sent: &AcknowledgedTransfer, name: &str) -> Outcome {
    let receipt = chain.rpc().try_call("eth_getTransactionReceipt", json!([sent.hash]));
    let balance = chain.rpc().try_call("eth_getBalance", json!([sent.to, "latest"]));
    match (receipt, balance) {
        (Ok(receipt), Ok(balance)) if receipt["status"] == "0x1" && balance == format!("{:#x}", sent.wei) => {
            Outcome::Whole
        }
        (Err(why), _) | (_, Err(why)) if why.contains(name) => Outcome::Named,
        _ => Outcome::Silent,
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_damage_to_ethereum_is_silent() {
    let seed = number("HEARTH_SEED").unwrap_or(3);
    let folder = tempfile::tempdir().expect("a folder");
    let sent = made(folder.path());
    let kinds = files(folder.path()).expect("a folder");
    let names: Vec<&String> = kinds.keys().collect();
    let (mut random, mut tally) = (Random(seed), Tally::default());
    for trial_number in 0..number("HEARTH_FAULTS").unwrap_or(names.len() as u64) {
        let kind = names[(trial_number % names.len() as u64) as usize];
        let file = &kinds[kind][random.index(kinds[kind].len())];
        let length = std::fs::metadata(folder.path().join(file)).expect("it is there").len();
        let mutation = Mutation::random(&mut random, length);
        let outcome = trial(folder.path(), &sent, file, mutation);
        tally.add(kind, outcome, format_args!("{}: {mutation}", file.display()));
    }
    let (trials, silent) = (tally.trials(), tally.silent());
    println!("{tally}\nseed {seed}: {trials} mutations of an Ethereum chain, {} silently wrong", silent.len());
    assert!(silent.is_empty(), "HEARTH_SEED={seed}: {silent:#?}");
}
