//! Damage to every file that a start reads: it refuses by name, rebuilds from the blocks, or reports what it truncated.
//!
//! HEARTH_SEED runs another seed; HEARTH_FAULTS sets the number of mutations, instead of the few of a normal run. A
//! failed trial names its file and its mutation. At the end there is a line for each kind of file, and one of figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hearth_command::output;
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::builders;
use hearth_ledger::genesis::funded_account_key;
use hearth_testkit::damage::{Mutation, Outcome, Tally, copy_folder, files};
use hearth_testkit::random::Random;
use hearth_testkit::wait_until;
use hearth_wire::{Signature, Txn};

use super::*;
use crate::replay::Replayer;

const SLOTS: u64 = 66;
const TRANSFERS: u64 = 40;
/// Slots between two snapshots: at the end there are those of 40 and 60.
const INTERVAL: u64 = 20;

/// A chain with several segments of blocks and of history, two snapshots, and its confirmed transfers.
struct MadeChain {
    folder: tempfile::TempDir,
    config: Config,
    /// Slot, signature, receiver, amount.
    transfers: Vec<(u64, Signature, Pubkey, u64)>,
    blocks: BTreeMap<u64, Vec<u8>>,
}

fn settings() -> Config {
    let mut config = config(false);
    config.development.genesis.fund_initial_accounts = 64;
    config.ledger.limit_size = 8 << 20;
    config.rpc.history_limit_size = 4 << 20;
    config.snapshots.full_snapshot_interval_slots = INTERVAL;
    config
}

fn transfer(number: u64, blockhash: &[u8; 32]) -> (Vec<u8>, Pubkey, u64) {
    let (from, mut to) = (funded_account_key(number as usize % 64), [7; 32]);
    to[..8].copy_from_slice(&number.to_le_bytes());
    let amount = 1_000_000 + number;
    (builders::transfer(&from, &to, amount, blockhash), to, amount)
}

/// A block with these transactions: its data, and its last hash.
fn block_of(transactions: &[Vec<u8>], before: [u8; 32], ticks: usize) -> (Vec<u8>, [u8; 32]) {
    let (mut data, mut tree) = (vec![], MixinTree::default());
    write_batch_header(ticks + 1, &mut data);
    transactions.iter().for_each(|bytes| tree.push(Txn::parse(bytes).unwrap().first_signature()));
    let mut hash = sha256_mix(before, tree.take_root());
    write_entry(1, &hash, transactions.len(), &transactions.concat(), &mut data);
    for _ in 0..ticks {
        hash = sha256_chain(hash, 1);
        write_entry(1, &hash, 0, &[], &mut data);
    }
    (data, hash)
}

fn make() -> MadeChain {
    let (folder, config) = (tempfile::tempdir().unwrap(), settings());
    let mut made = MadeChain { folder, config, transfers: vec![], blocks: BTreeMap::new() };
    let mut chain = open(&made.config, made.folder.path()).unwrap();
    let mut history = chain.history.take().unwrap();
    let mut before = *chain.genesis.hash();
    for slot in 1..=SLOTS {
        let blockhash = chain.ledger.recent_blocks(1)[0].blockhash;
        let mut bytes = vec![];
        for number in (slot - 1) * TRANSFERS..slot * TRANSFERS {
            let (transaction, to, amount) = transfer(number, &blockhash);
            made.transfers.push((slot, *Txn::parse(&transaction).unwrap().first_signature(), to, amount));
            bytes.push(transaction);
        }
        let (data, hash) = block_of(&bytes, before, 4);
        let set = FecSetRecord {
            slot,
            parent_slot: slot - 1,
            fec_set_index: 0,
            reference_tick: 0,
            last_in_slot: true,
            ends_batch: None,
            merkle_root: hash,
            chained_root: before,
            signature: [0; 64],
            data: &data,
        };
        chain.store.append_set(&set).unwrap();
        let block = chain.store.reader().block(slot).unwrap().unwrap();
        Replayer::new(&chain.ledger, &chain.genesis, Some((&mut history, false))).block(&block).unwrap();
        chain.ledger.hash_all();
        made.blocks.insert(slot, data);
        before = hash;
        let snapshots = chain.taker.as_ref().unwrap().snapshots();
        wait_until("the snapshot", || slot % INTERVAL != 0 || snapshots.newest_slot() == Some(slot));
    }
    wait_until("all is indexed", || history.indexed_slot() == SLOTS);
    made
}

impl MadeChain {
    /// Damages one file of a copy and starts from it.
    fn trial(&self, file: &Path, mutation: Mutation) -> Outcome {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), copy.path()).unwrap();
        if !mutation.apply(&copy.path().join(file)).unwrap() {
            return Outcome::Whole;
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        output::take_notes();
        let chain = match open(&self.config, copy.path()) {
            Err(why) if why.to_string().contains(name) => return Outcome::Refused,
            Err(_) => return Outcome::Silent,
            Ok(chain) => chain,
        };
        let said = output::take_notes().join("\n") + &chain.recovery.to_string();
        match self.look(&chain, name) {
            Outcome::Silent if said.contains(name) => Outcome::Cut,
            outcome => outcome,
        }
    }

    /// Looks for everything that was confirmed.
    fn look(&self, chain: &Chain, name: &str) -> Outcome {
        let (history, blocks) = (chain.history.as_ref().unwrap(), chain.store.reader());
        // The history's own thread indexes what is recorded again.
        wait_until("all is indexed", || history.indexed_slot() >= history.last_slot());
        let history = history.reader();
        let mut worst = Outcome::Whole;
        let mut found = |outcome: Outcome| worst = worst.max(outcome);
        let error = |why: String| if why.contains(name) { Outcome::Named } else { Outcome::Silent };
        for (slot, data) in &self.blocks {
            found(match blocks.block(*slot) {
                Ok(Some(block)) if block.info.whole && block.data == *data => Outcome::Whole,
                Ok(_) => Outcome::Silent,
                Err(why) => error(why.to_string()),
            });
        }
        for (slot, signature, to, amount) in &self.transfers {
            found(match history.transaction(signature) {
                Ok(Some(there)) if there.place.slot == *slot && there.meta.result.is_ok() => Outcome::Whole,
                Ok(_) => Outcome::Silent,
                Err(why) => error(why.to_string()),
            });
            let lamports = chain.ledger.account(to).map(|account| account.lamports);
            found(if lamports == Some(*amount) { Outcome::Whole } else { Outcome::Silent });
        }
        worst
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_damage_is_silent() {
    let (made, seed) = (make(), number("HEARTH_SEED").unwrap_or(41));
    let kinds = files(made.folder.path()).unwrap();
    for kind in ["blocks/*.log", "history/*.history", "history/*.table", "snapshots/*.snapshot"] {
        assert!(kinds.get(kind).is_some_and(|files| files.len() > 1), "{kind}: {kinds:?}");
    }
    let (mut random, mut tally) = (Random(seed), Tally::default());
    let names: Vec<&String> = kinds.keys().collect();
    for trial in 0..number("HEARTH_FAULTS").unwrap_or(6 * names.len() as u64) {
        let kind = names[(trial % names.len() as u64) as usize];
        let file = &kinds[kind][random.index(kinds[kind].len())];
        let length = fs::metadata(made.folder.path().join(file)).unwrap().len();
        let mutation = Mutation::random(&mut random, length);
        let outcome = made.trial(file, mutation);
        tally.add(kind, outcome, format_args!("{}: {mutation}", file.display()));
    }
    let silent = tally.silent();
    println!("{tally}\nseed {seed}: {} mutations of a Solana ledger, {} silently wrong", tally.trials(), silent.len());
    assert!(silent.is_empty(), "HEARTH_SEED={seed}: {silent:#?}");
}

/// Damage of the history that a start can repair, each kind at places of each kind.
#[test]
fn damaged_history_is_rebuilt_from_blocks() {
    let made = make();
    let kinds = files(made.folder.path()).unwrap();
    let segments = &kinds["history/*.history"];
    for file in [&segments[0], &segments[1], segments.last().unwrap(), &kinds["history/*.table"][0]] {
        let length = fs::metadata(made.folder.path().join(file)).unwrap().len();
        for mutation in Mutation::around(&[0, length / 2], length).into_iter().step_by(2) {
            let outcome = made.trial(file, mutation);
            assert_eq!(outcome, Outcome::Whole, "{}: {mutation}", file.display());
        }
    }
}

/// A history that was disabled for a while, or is gone: the replay is announced, and its duration reported.
#[test]
fn rebuilding_the_history_is_announced() {
    let made = make();
    fs::remove_dir_all(made.folder.path().join("history")).unwrap();
    output::take_notes();
    let chain = open(&made.config, made.folder.path()).unwrap();
    let notes = output::take_notes();
    let at = |text: &str| notes.iter().position(|note| note.contains(text)).unwrap_or_else(|| panic!("{notes:#?}"));
    assert!(at("are executed, from the state of slot 0") < at("blocks were executed in"), "{notes:#?}");
    let history = chain.history.as_ref().unwrap().reader();
    assert!(made.transfers.iter().all(|(_, signature, ..)| matches!(history.transaction(signature), Ok(Some(_)))));
}

/// A start that cannot replay the lost blocks keeps all others, and an error names the place.
#[test]
fn history_without_older_state_keeps_the_rest() {
    let made = make();
    let file = &files(made.folder.path()).unwrap()["history/*.history"][0];
    // Without the first blocks the genesis leads nowhere, and the snapshots are of slots after the damage.
    let first = &files(made.folder.path()).unwrap()["blocks/*.log"][0];
    fs::remove_file(made.folder.path().join(first)).unwrap();
    fs::remove_file(made.folder.path().join(first).with_extension("index")).unwrap();
    let path = made.folder.path().join(file);
    let at = fs::metadata(&path).unwrap().len() / 2;
    Mutation::Flip { at, bit: 1 }.apply(&path).unwrap();
    output::take_notes();
    let chain = open(&made.config, made.folder.path()).unwrap();
    let said = output::take_notes().join("\n");
    assert!(said.contains("0000000001.history at byte") && said.contains("cannot be read or recorded again"), "{said}");
    let history = chain.history.as_ref().unwrap().reader();
    let lost = made.transfers.iter().filter(|(_, signature, ..)| {
        let found = history.transaction(signature).map_err(|why| why.to_string());
        assert!(found.as_ref().is_ok_and(Option::is_some) || found.as_ref().is_err_and(|why| why.contains("at byte")));
        found.is_err()
    });
    // The flipped bit is in the batch of one block, or in a mark between two.
    let lost = lost.count() as u64;
    assert!(lost == TRANSFERS || lost == 0, "{lost} are lost, one block has {TRANSFERS}");
}
