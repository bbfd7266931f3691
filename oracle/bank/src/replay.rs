//! Executes recorded ledgers again on Agave's bank: checks that a recording says all that a replay needs, and measures
//! how long the bank takes, to compare with `hearth ledger replay --recorded`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_runtime::bank::Bank;
use solana_runtime::bank_forks::BankForks;
use solana_runtime::leader_schedule_utils::leader_schedule;
use solana_transaction::TransactionVerificationMode;
use solana_transaction::versioned::VersionedTransaction;

use crate::block::commit;
use crate::chain::{ROOT_DEPTH, end, open, set_root};
use crate::snapshot::read_genesis;

/// A block as it is recorded.
struct RecordedBlock {
    slot: u64,
    parent: u64,
    blockhash: Hash,
    bank_hash: Hash,
    hard_fork: bool,
    txs: Vec<VersionedTransaction>,
}

/// Replays the ledger in `folder`, or each in a folder of it, and prints a line of JSON for each.
pub fn run(folder: &Path) -> Result<(), String> {
    let mut ledgers = vec![];
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        ledgers.push(entry.map_err(|error| error.to_string())?.path());
    }
    ledgers.push(folder.to_path_buf());
    ledgers.retain(|ledger| ledger.join("genesis.bin.zst").exists());
    ledgers.sort();
    ledgers.iter().try_for_each(replay)
}

fn replay(folder: &PathBuf) -> Result<(), String> {
    let blocks = read(&folder.join("blocks.jsonl.zst")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let genesis = read_genesis(&folder.join("genesis.bin.zst"))?;
    let accounts = tempfile::tempdir().map_err(|error| error.to_string())?;
    let first = open(&genesis, accounts.path());
    blocks.iter().filter(|block| block.hard_fork).for_each(|block| first.register_hard_fork(block.slot));
    let forks = BankForks::new_rw_arc(first);
    let (mut checks, mut transactions) = (Duration::ZERO, 0);
    let start = Instant::now();
    for (n, block) in blocks.iter().enumerate() {
        if n > 0 {
            let parent = forks.read().expect("no thread panicked").get(block.parent);
            let parent = parent.ok_or_else(|| format!("slot {} has no parent", block.slot))?;
            let (epoch, index) = parent.get_epoch_and_slot_index(block.slot);
            let leader = leader_schedule(epoch, &parent).ok_or("the stakes of an epoch are unknown")?[index];
            // A new bank reads the forks, so it is made before they are locked.
            let bank = Bank::new_from_parent(parent, leader, block.slot);
            forks.write().expect("no thread panicked").insert(bank);
        }
        let bank = forks.read().expect("no thread panicked").get_with_scheduler(block.slot);
        let bank = bank.expect("it was made just now");
        for tx in &block.txs {
            let before = Instant::now();
            let checked = bank.verify_transaction(tx.clone(), TransactionVerificationMode::FullVerification);
            let checked = checked.map_err(|error| format!("slot {}: {error}", block.slot))?;
            checks += before.elapsed();
            commit(&bank, &checked, false).map_err(|error| format!("slot {}: {error}", block.slot))?;
            transactions += 1;
        }
        end(&bank, block.blockhash);
        if bank.hash() != block.bank_hash {
            return Err(format!("{}: slot {}: {} differs", folder.display(), block.slot, bank.hash()));
        }
        // What no later block builds on, nor goes back behind, is final.
        let needed = blocks[n + 1..].iter().map(|block| block.parent).min().unwrap_or(0);
        let root = bank.parents().into_iter().nth(ROOT_DEPTH).filter(|root| root.slot() <= needed);
        if let Some(root) = root {
            set_root(&mut forks.write().expect("no thread panicked"), root.slot());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({
            "ledger": folder.display().to_string(), "blocks": blocks.len(), "transactions": transactions,
            "seconds": seconds, "seconds_checking_signatures": checks.as_secs_f64(),
        })
    );
    Ok(())
}

fn read(path: &Path) -> Result<Vec<RecordedBlock>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let lines = BufReader::new(zstd::Decoder::new(file).map_err(|error| error.to_string())?).lines();
    lines.map(|line| parse(&line.map_err(|error| error.to_string())?).ok_or("a line is no block".into())).collect()
}

fn parse(line: &str) -> Option<RecordedBlock> {
    let block: Value = serde_json::from_str(line).ok()?;
    let hash = |name: &str| block[name].as_str()?.parse().ok();
    let tx = |tx: &Value| bincode::deserialize(&STANDARD.decode(tx["tx"].as_str()?).ok()?).ok();
    Some(RecordedBlock {
        slot: block["slot"].as_u64()?,
        parent: block["parent"].as_u64()?,
        blockhash: hash("blockhash")?,
        bank_hash: hash("bank_hash")?,
        hard_fork: block["hard_fork"].as_bool().unwrap_or_default(),
        txs: block["txs"].as_array()?.iter().map(tx).collect::<Option<_>>()?,
    })
}
