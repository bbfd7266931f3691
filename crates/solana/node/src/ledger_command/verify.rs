//! `hearth ledger verify`: checks everything that can be checked without executing.
//!
//! reads   all of the log, all blocks, all of the history, all snapshots
//! writes  each problem with its place; progress on standard error
//! memory  one block, the state of one snapshot
//!
//! It checks every record's checksum; that blocks follow each other; the leader's signature of each FEC set, and that
//! each set chains to the one before; the hash chain with its ticks; the signatures of all transactions; every
//! snapshot's checksums, and that its accounts match its bank hash; every record of the history and every page of its
//! tables and, outside a cluster, that it has each block with all its transactions. It does not check that a set's
//! Merkle root is that of its shreds, which are not stored.

use std::collections::{BTreeMap, BTreeSet};

use hearth_command::numbers::grouped;
use hearth_command::output::{CommandOutput, plural};
use hearth_command::progress::{Progress, megabytes};
use hearth_crypto::ed25519::verify_strict;
use hearth_keys as keys;
use hearth_ledger::blockstore::Block;
use hearth_ledger::history::{self, HistoryError};
use hearth_ledger::lattice::Lattice;
use hearth_ledger::snapshot;
use hearth_pipeline::poh;
use hearth_pipeline::shred::Slot0;
use hearth_pipeline::tower::{is_root_damaged, saved_tower};
use hearth_wire::base58::encode_32;
use hearth_wire::entry::Entry;
use hearth_wire::{Hash, Pubkey, Txn};

use super::command::Slots;
use super::{LedgerError, OfflineChain, options};
use crate::config::Config;
use crate::replay::signatures_are_valid;
use crate::restore;

/// The findings so far.
struct Findings<'s> {
    say: &'s CommandOutput,
    wrong: u64,
    /// Reported problems: a damaged record is found in the log, and again in its block.
    reported: BTreeSet<String>,
    progress: Progress,
}

impl Findings<'_> {
    fn wrong(&mut self, what: impl std::fmt::Display) {
        let what = what.to_string();
        if self.reported.contains(&what) {
            return;
        }
        self.wrong += 1;
        self.line(format_args!("WRONG     {what}"));
        self.reported.insert(what);
    }

    fn line(&mut self, what: impl std::fmt::Display) {
        self.progress.clear();
        self.say.line(what);
    }
}

/// A position in a chain of blocks.
#[derive(Clone, Copy)]
struct ChainPosition {
    slot: u64,
    /// The last blockhash; `None` if unknown.
    blockhash: Option<Hash>,
    block_id: Option<Hash>,
}

/// Runs all checks of a chain, reports each problem, and fails if there was one.
pub fn run(chain: &OfflineChain, config: &Config, say: &CommandOutput) -> Result<(), LedgerError> {
    let mut found = Findings { say, wrong: 0, reported: BTreeSet::new(), progress: Progress::new() };
    say.line(format_args!("blocks    {}", chain.recovery));
    let (mut read, all) = (0, chain.reader.bytes_after(u64::MAX));
    let damage = chain.reader.verify_telling(|bytes| {
        read = bytes;
        found.progress.tell(|| format!("checking the records of the log: {}", megabytes(bytes, all)));
    })?;
    damage.iter().for_each(|damage| found.wrong(damage));
    found.line(format_args!("log       {} bytes: the checksum of every record, {} wrong", grouped(read), damage.len()));
    let recorded = history(chain, &mut found)?;
    votes(chain, config, &mut found);
    let known = snapshots(chain, config, &mut found);
    let leaders = leaders(chain, config);
    let began = chain.genesis.config().genesis_slot;
    let block_id = Some(slot_0(chain, &mut found));
    let mut at = ChainPosition { slot: began, blockhash: Some(*chain.genesis.slot_0_hash()), block_id };
    let (mut blocks, mut txns) = (0u64, 0u64);
    for info in chain.blocks(&Slots::default())?.filter(|info| info.whole && info.slot > began) {
        let (slot, to) = (info.slot, chain.recovery.last_whole_slot.unwrap_or(info.slot));
        found.progress.tell(|| format!("checking blocks: slot {slot} of {to}, {} transactions", grouped(txns)));
        if info.parent_slot != at.slot {
            if blocks > 0 {
                found
                    .wrong(format_args!("slot {} follows on slot {}, which is not there", info.slot, info.parent_slot));
            }
            let snapshot = known.iter().find(|at| at.slot == info.parent_slot).copied();
            at = snapshot.unwrap_or(ChainPosition { slot: info.parent_slot, blockhash: None, block_id: None });
        }
        match chain.block(info.slot) {
            Ok(block) => {
                sets(chain, &block, &leaders, at.block_id, &mut found)?;
                let before = txns;
                let last = hashes(chain, &block, at, &mut txns, &mut found);
                if !config.gossip.enabled {
                    compare(&recorded, slot, txns - before, &mut found);
                }
                at = ChainPosition { slot: info.slot, blockhash: last, block_id: Some(block.block_id) };
            }
            Err(why) => {
                found.wrong(why);
                at = ChainPosition { slot: info.slot, blockhash: None, block_id: None };
            }
        }
        blocks += 1;
    }
    found.line(checked(blocks, txns, chain.snapshots.len() as u64));
    if found.wrong > 0 {
        return Err(LedgerError::Wrong { count: found.wrong, options: options(config) });
    }
    say.line("nothing is wrong");
    Ok(())
}

/// Checks that the block of slot 0, if it is stored, is that of the genesis; returns its id.
fn slot_0(chain: &OfflineChain, found: &mut Findings<'_>) -> Hash {
    let made = *Slot0::of(&chain.genesis).block_id();
    match chain.reader.block(0) {
        Ok(Some(block)) if block.block_id != made => {
            let (stored, made) = (encode_32(&block.block_id), encode_32(&made));
            found.wrong(format_args!("slot 0: its block is {stored}, that of the genesis {made}"));
        }
        Ok(_) => {}
        Err(why) => found.wrong(why),
    }
    made
}

/// A summary of what was checked.
fn checked(blocks: u64, txns: u64, snapshots: u64) -> String {
    format!(
        "checked   {} {}, {} {}, {snapshots} {}",
        grouped(blocks),
        plural(blocks, "block"),
        grouped(txns),
        plural(txns, "transaction"),
        plural(snapshots, "snapshot")
    )
}

/// Checks the history, if there is one; returns its number of transactions per block.
fn history(chain: &OfflineChain, found: &mut Findings<'_>) -> Result<BTreeMap<u64, u32>, HistoryError> {
    let dir = chain.folder.join("history");
    if !dir.is_dir() {
        return Ok(BTreeMap::new());
    }
    found.progress.tell(|| "checking the history");
    let checked = history::check(&dir, chain.genesis.hash(), |_| ())?;
    checked.damage.iter().for_each(|damage| found.wrong(damage));
    if let Some(torn) = &checked.torn {
        found.line(format_args!("history   {torn}, nor behind it: an unfinished end, which the next start cuts off"));
    }
    let counted = |count: u64, thing| format!("{} {}", grouped(count), plural(count, thing));
    let (segments, tables) = (counted(checked.segments, "segment"), counted(checked.tables, "table"));
    let (blocks, bytes) = (counted(checked.blocks.len() as u64, "block"), grouped(checked.bytes));
    let wrong = checked.damage.len();
    found.line(format_args!(
        "history   {blocks} in {segments} and {tables}, {bytes} bytes: every record and every page, {wrong} wrong"
    ));
    Ok(checked.blocks.into_iter().collect())
}

/// Checks that the history has all of a block, if it has blocks before and after it.
fn compare(recorded: &BTreeMap<u64, u32>, slot: u64, txns: u64, found: &mut Findings<'_>) {
    let first = recorded.first_key_value().map(|(slot, _)| *slot);
    let last = recorded.last_key_value().map(|(slot, _)| *slot);
    match recorded.get(&slot) {
        Some(count) if u64::from(*count) != txns => {
            found.wrong(format_args!("slot {slot}: the history has {count} transactions of it, its block {txns}"));
        }
        None if first < Some(slot) && Some(slot) < last => {
            found.wrong(format_args!("slot {slot}: the history lacks it, its block is stored"));
        }
        _ => {}
    }
}

/// The node's current identity, if its key is readable.
fn identity(chain: &OfflineChain, config: &Config) -> Option<Pubkey> {
    let given = config.expand(&config.consensus.identity_path);
    let path = if given.as_os_str().is_empty() { chain.folder.join("identity.json") } else { given };
    keys::read(&path).ok().map(|identity| identity.public)
}

/// The possible signers of a set: the identity at genesis, and the current one.
fn leaders(chain: &OfflineChain, config: &Config) -> Vec<Pubkey> {
    std::iter::once(chain.genesis.config().identity).chain(identity(chain, config)).collect()
}

/// Checks the tower and the root of a node in a cluster.
fn votes(chain: &OfflineChain, config: &Config, found: &mut Findings<'_>) {
    let tower = identity(chain, config).map(|node| saved_tower(&chain.folder, &node));
    if let Some(Err(why)) = tower {
        found.wrong(why);
    }
    if is_root_damaged(&chain.folder) {
        found.wrong(format_args!("{} is not whole", chain.folder.join("root.bin").display()));
    }
}

/// Checks every snapshot; returns the positions of the valid ones.
fn snapshots(chain: &OfflineChain, config: &Config, found: &mut Findings<'_>) -> Vec<ChainPosition> {
    let mut known = vec![];
    for file in &chain.snapshots {
        found.progress.tell(|| format!("checking the snapshot of slot {}", file.slot));
        let statuses = restore::status_cache(config);
        let loaded = match snapshot::load(&file.path, chain.genesis.hash(), &statuses) {
            Ok(loaded) => loaded,
            Err(why) => {
                found.wrong(why);
                continue;
            }
        };
        let mut sum = Lattice::default();
        loaded.accounts.for_each(|key, account| sum.add(key, account));
        if sum != loaded.manifest.lattice() {
            found.wrong(format_args!("{}: its accounts are not those that its bank's hash is of", file.path.display()));
            continue;
        }
        let (slot, accounts, bytes) = (file.slot, grouped(loaded.summary.accounts), grouped(loaded.summary.bytes));
        found.line(format_args!("snapshot  slot {slot}: {accounts} accounts, {bytes} bytes"));
        let (blockhash, block_id) = (Some(loaded.manifest.last().blockhash), Some(loaded.manifest.block_id));
        known.push(ChainPosition { slot, blockhash, block_id });
    }
    known
}

/// Checks the FEC sets of a block: signed by a leader, each chained to the one before.
fn sets(
    chain: &OfflineChain,
    block: &Block,
    leaders: &[Pubkey],
    parent: Option<Hash>,
    found: &mut Findings<'_>,
) -> Result<(), LedgerError> {
    let slot = block.info.slot;
    let mut heads = vec![];
    chain.reader.sets(slot, |set| heads.push((set.fec_set_index, set.merkle_root, set.chained_root, set.signature)))?;
    heads.sort_unstable_by_key(|(index, ..)| *index);
    let mut before = parent;
    for (index, root, chained, signature) in heads {
        if !leaders.iter().any(|leader| verify_strict(leader, &signature, &root).is_ok()) {
            found.wrong(format_args!("slot {slot}, FEC set {index}: no signature of the chain's leader"));
        }
        if before.is_some_and(|before| before != chained) {
            found.wrong(format_args!("slot {slot}, FEC set {index}: it does not name the set before it"));
        }
        before = Some(root);
    }
    Ok(())
}

/// Checks the entries of a block; returns its last hash, if it can be determined.
fn hashes(
    chain: &OfflineChain,
    block: &Block,
    at: ChainPosition,
    txns: &mut u64,
    found: &mut Findings<'_>,
) -> Option<Hash> {
    let slot = block.info.slot;
    let entries = match block.entries() {
        Ok(entries) => entries,
        Err(why) => {
            found.wrong(format_args!("slot {slot}: {why}"));
            return None;
        }
    };
    if let Some(parent) = at.blockhash {
        let config = chain.genesis.config();
        let (ticks, threads) = (config.ticks_per_slot * (slot - at.slot), threads());
        if let Err(why) = poh::check::verify_entries(&parent, &entries, config.hashes_per_tick, ticks, threads) {
            found.wrong(format_args!("slot {slot}: {why}"));
        }
    }
    let all: Vec<Txn<'_>> = entries.iter().flat_map(Entry::transactions).collect();
    *txns += all.len() as u64;
    let part = all.len().div_ceil(threads()).max(1);
    let unsigned: usize = std::thread::scope(|scope| {
        let bad = |txns: &[Txn<'_>]| txns.iter().filter(|txn| !signatures_are_valid(txn)).count();
        let parts: Vec<_> = all.chunks(part).map(|txns| scope.spawn(move || bad(txns))).collect();
        parts.into_iter().map(|part| part.join().expect("checking does not panic")).sum()
    });
    if unsigned > 0 {
        found.wrong(format_args!(
            "slot {slot}: {unsigned} {} with a wrong signature",
            plural(unsigned as u64, "transaction")
        ));
    }
    entries.last().map(|entry| *entry.hash)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_thing_is_no_plural() {
        assert_eq!(checked(1, 1, 1), "checked   1 block, 1 transaction, 1 snapshot");
        assert_eq!(checked(0, 1_200, 2), "checked   0 blocks, 1,200 transactions, 2 snapshots");
    }
}
