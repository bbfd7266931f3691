//! `hearth ledger replay`: replays the blocks, from the genesis or from a snapshot.
//!
//! reads   blocks, snapshots
//! writes  a line per block: slot and bank hash; progress on standard error if standard output is redirected
//! memory  the state
//!
//! If there is a snapshot of a replayed slot, its bank hash is compared.

use std::collections::BTreeMap;

use hearth_command::numbers::grouped;
use hearth_command::output::{CommandOutput, plural};
use hearth_command::progress::Progress;
use hearth_ledger::Commitment;
use hearth_ledger::snapshot;
use hearth_wire::base58::encode_32;

use super::{LedgerError, OfflineChain, options, snapshot_of};
use crate::config::Config;
use crate::replay;
use crate::restore::{self, Declared, RestoreError, RestoredState};

/// Replays from after `from` (a snapshot's slot; 0 is the genesis) up to `to`.
pub fn run(
    chain: &OfflineChain,
    config: &Config,
    from: u64,
    to: Option<u64>,
    say: &CommandOutput,
) -> Result<(), LedgerError> {
    let mut progress = Progress::beside_lines();
    let declared = Declared::of(config, &chain.folder)?.all;
    let restored = match from {
        0 => restore::from_genesis(config, &chain.genesis, &declared),
        slot => {
            let file = snapshot_of(chain, &restore::folder(config, &chain.folder), slot)?;
            let loaded = snapshot::load(&file.path, chain.genesis.hash(), &restore::status_cache(config))?;
            restore::from_snapshot(config, &chain.genesis, &declared, loaded)
        }
    };
    let RestoredState { ledger, block_id } = restored.map_err(RestoreError::from)?;
    ledger.check_features()?;
    // Only readable snapshots: `verify` reports the others.
    let mut recorded = BTreeMap::new();
    for file in chain.snapshots.iter().filter(|file| file.slot > from) {
        progress.tell(|| format!("reading the snapshot of slot {}", file.slot));
        if let Ok((manifest, _)) = snapshot::verify(&file.path, Some(chain.genesis.hash())) {
            recorded.insert(file.slot, manifest.bank_hash());
        }
    }
    let mut wrong = 0;
    let until = to.unwrap_or(u64::MAX);
    let last = chain.recovery.last_whole_slot.unwrap_or(0).min(until);
    let done = replay::replay_until(&ledger, block_id, &chain.genesis, &chain.reader, until, |done| {
        let (slot, hash) = ledger.hash_all();
        assert_eq!(slot, done.last_slot, "the hash is of the block that was executed");
        let note = match recorded.get(&slot) {
            Some(expected) if *expected == hash => "  as its snapshot has it",
            Some(_) => {
                wrong += 1;
                "  WRONG: its snapshot has another"
            }
            None => "",
        };
        say.line(format_args!("{slot:>10}  {}{note}", encode_32(&hash)));
        progress.tell(|| format!("executing: slot {slot} of {last}, {} transactions", grouped(done.transactions)));
    })?;
    progress.clear();
    let (blocks, transactions) = (done.blocks, done.transactions);
    let (capitalization, count) = (ledger.accounts().total_lamports(), ledger.transaction_count(Commitment::Processed));
    say.line(format_args!(
        "{blocks} {}, {transactions} {} executed; {count} since genesis, {capitalization} lamports in all",
        plural(blocks, "block"),
        plural(transactions, "transaction")
    ));
    if wrong > 0 { Err(LedgerError::Wrong { count: wrong, options: options(config) }) } else { Ok(()) }
}
