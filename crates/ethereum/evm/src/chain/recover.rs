//! Opens a chain from its folder.
//!
//! reads   the blocks and the state there
//! writes  the state of the blocks after the state's newest, by executing them again
//! drops   after a power failure, the newest blocks if what they build on is missing and nothing says that it was on
//!         disk
//!
//! A block is in the log before the state has its changes and after the side ledger has its record, so this module
//! makes up for whatever a killed process leaves. The same order holds on disk: see [`keep_synced`].

use std::path::Path;
use std::sync::{Arc, OnceLock};

use alloy_consensus::Header;
use alloy_primitives::B256;
use hearth_wal::files;
use parking_lot::Mutex;

use super::durability::SyncWaiters;
use super::work::{Credits, execute_in_order};
use super::{ChainConfig, ChainError, schedule};
use crate::block::{Block, Body, Roots};
use crate::blocks::{BlockStore, RunEnd, SyncOrder};
use crate::exec::SpecId;
use crate::import::env_of;
use crate::side::{SideLedger, SideStart};
use crate::state::{State, Syncer};

/// Opens the blocks of a folder and brings the state to the newest of them; returns that block.
pub(super) fn recover(
    config: &ChainConfig,
    state: &mut State,
    zero: &Arc<Block>,
) -> Result<(Option<BlockStore>, Arc<Block>), ChainError> {
    let Some(dir) = &config.dir else { return Ok((None, zero.clone())) };
    let mut store = BlockStore::open(&dir.join("blocks"), config.genesis.chain_id, zero.hash)?;
    store.retain(config.retain_blocks);
    store.sync_in_background(config.background_sync);
    let newest = store.newest();
    let ahead = state.head().number();
    if ahead > newest {
        let missing = || ChainError::StateAhead { dir: dir.clone(), state: ahead, blocks: newest };
        // A power failure may have cost the log its last blocks: the kernel may write in any order. An orderly stop
        // costs none.
        if store.run_end() == RunEnd::Stopped {
            return Err(missing());
        }
        state.rewind(newest).map_err(|_| missing())?;
    }
    let from = state.head().number();
    let kept = |number: u64| match number {
        0 => Ok(zero.clone()),
        number => {
            let missing = || ChainError::StateBehind { dir: dir.clone(), state: number, first: store.first() };
            store.block(number)?.ok_or_else(missing)
        }
    };
    if kept(from)?.hash != state.head().block_hash() {
        return Err(ChainError::OtherState { number: from });
    }
    state.complete_hashes(|number| {
        let header = if number == 0 { None } else { store.header(number)? };
        let zero = (number == 0).then_some(zero.hash);
        Ok::<_, ChainError>(header.map(|header| header.hash_slow()).or(zero))
    })?;
    schedule::check(dir, &config.genesis, &*kept(newest)?)?;
    for number in from + 1..=newest {
        let block = kept(number)?;
        replay(config, state, &store, &block)?;
    }
    let head = kept(newest)?;
    Ok((Some(store), head))
}

/// Opens the side ledger as it is after `head`. The kernel may write in any order: if records are missing that the
/// newest blocks build on, and these blocks were never reported as synced, the blocks are removed, too.
pub(super) fn recover_side(
    config: &ChainConfig,
    state: &mut State,
    store: Option<&BlockStore>,
    zero: &Arc<Block>,
    mut head: Arc<Block>,
) -> Result<(Option<Box<dyn SideLedger>>, Arc<Block>), ChainError> {
    let Some(genesis) = &config.genesis.side else { return Ok((None, head)) };
    let view = state.head();
    let block = |number| store.map_or(Ok(None), |store| store.block(number));
    let hash_of = |number| view.hash_of(number).or_else(|| Some(block(number).ok()??.hash));
    let newest = head.number();
    let synced = store.map_or(u64::MAX, BlockStore::synced);
    let side = loop {
        let start = SideStart {
            dir: config.dir.as_deref(),
            chain_id: config.genesis.chain_id,
            items: genesis.items(),
            items_commitment: genesis.commitment(),
            head: &head,
            hash_of: &hash_of,
            synced,
            retain_blocks: config.retain_blocks,
        };
        match genesis.kind().open(&start) {
            Err(error) if genesis.kind().is_behind(&error) && head.number() > synced => {
                head = block(head.number() - 1)?.unwrap_or_else(|| zero.clone());
            }
            opened => break opened?,
        }
    };
    if let Some(store) = store.filter(|_| head.number() < newest) {
        tracing::warn!(from = head.number() + 1, to = newest, "blocks go whose outputs were never synced");
        state.rewind(head.number())?;
        store.truncate(head.number())?;
    }
    Ok((Some(side), head))
}

/// Syncs from now on to disk what is kept: first the side ledger, then the blocks that build on it, then the state,
/// which can be rebuilt from the blocks.
pub(super) fn keep_synced(
    store: &mut BlockStore,
    side: Option<&dyn SideLedger>,
    state: Arc<Mutex<Syncer>>,
    waiters: SyncWaiters,
    failure: Arc<OnceLock<String>>,
) -> Result<(), ChainError> {
    let nothing = || -> Box<dyn Fn() -> Result<(), String> + Send + Sync> { Box::new(|| Ok(())) };
    store.start(SyncOrder {
        before: side.map_or_else(nothing, |side| side.syncer()),
        after: Box::new(move || {
            let state = state.lock().clone();
            state.sync().map_err(|error| error.to_string())
        }),
        synced: Box::new(move || waiters.wake()),
        failed: Box::new(move |why| {
            tracing::error!(%why, "no more blocks can be made");
            let _ = failure.set(why);
        }),
    })?;
    Ok(())
}

/// Brings the names in the chain's folder, and the folder's own, to disk: a synced file in a folder that is not there
/// after a power loss is of no use.
pub(super) fn sync_names(dir: &Path) -> Result<(), ChainError> {
    files::sync_dir(dir).map_err(|source| ChainError::Folder { what: "sync", path: dir.to_owned(), source })?;
    if let Some(parent) = dir.parent() {
        // A user who may write into a folder need not be able to read the one above.
        let _ = files::sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    }
    Ok(())
}

/// Executes a block again; the result must be the same block.
fn replay(config: &ChainConfig, state: &mut State, store: &BlockStore, block: &Arc<Block>) -> Result<(), ChainError> {
    let view = state.head();
    let number = block.number();
    let env = env_of(&block.header, &config.genesis);
    let (mut executed, in_block) = execute_in_order(&view, &env, &block.txs)?;
    Credits::of(&block.header, &block.ommers, &block.withdrawals, &config.genesis).add(&view, &mut executed.changes)?;
    executed.changes.append(store.altered(number)?);
    let state_root = state.root_after(&executed.changes);
    let withdrawals = block.withdrawals.clone();
    let mut body = Body { withdrawals, ..Body::new(&block.txs, executed.verdicts, env.base_fee) };
    body.set_roots(&in_block);
    let Roots { transactions, receipts, bloom } = Roots::of(&body);
    let again = if env.spec.is_enabled_in(SpecId::MERGE) {
        let (roots, extra_data) = (Roots { transactions, receipts, bloom }, block.header.extra_data.clone());
        Block::seal(&env, body, roots, executed.requests, state_root, extra_data).hash
    } else {
        let (transactions_root, receipts_root, logs_bloom) = (transactions, receipts, bloom);
        let of_kept = block.header.clone();
        Header { state_root, transactions_root, receipts_root, logs_bloom, ..of_kept }.hash_slow()
    };
    if again != block.hash {
        let (kept, executed): (B256, B256) = (block.hash, again);
        return Err(ChainError::Replay { number, kept, executed });
    }
    state.commit(number, block.hash, executed.changes)?;
    Ok(())
}
