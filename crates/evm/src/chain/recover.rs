//! A chain that goes on from a folder.
//!
//! reads   the blocks and the state there
//! writes  the state of the blocks after the state's newest, by executing them again
//!
//! A block is in the log before the state has its changes, so the end of the program never leaves the state ahead.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes};

use super::{ChainConfig, ChainError};
use crate::block::{Block, Body, Roots};
use crate::blocks::BlockStore;
use crate::state::State;

/// Opens the blocks of a folder and brings the state to the newest of them; gives that.
pub(super) fn recover(
    config: &ChainConfig,
    state: &mut State,
    zero: &Arc<Block>,
) -> Result<(Option<BlockStore>, Arc<Block>), ChainError> {
    let Some(dir) = &config.dir else { return Ok((None, zero.clone())) };
    let syncer = state.syncer();
    let sync = move || {
        if let Err(error) = syncer.sync() {
            tracing::error!(%error, "the state cannot be synced to the disk");
        }
    };
    let store = BlockStore::open(&dir.join("blocks"), config.genesis.chain_id, zero.hash, sync)?;
    let newest = store.newest();
    let ahead = state.head().number();
    if ahead > newest {
        // The machine's end may have cost the log its last blocks: nothing says in which order the kernel writes.
        state.rewind(newest).map_err(|_| ChainError::StateAhead { state: ahead, blocks: newest })?;
    }
    let from = state.head().number();
    let kept = |number: u64| match number {
        0 => Ok(zero.clone()),
        number => Ok::<_, ChainError>(store.block(number)?.expect("it is not after the newest")),
    };
    if kept(from)?.hash != state.head().block_hash() {
        return Err(ChainError::OtherState { number: from });
    }
    for number in from + 1..=newest {
        let block = kept(number)?;
        replay(config, state, &store, &block)?;
    }
    let head = kept(newest)?;
    Ok((Some(store), head))
}

/// Executes a block again; what comes of it must be the same block.
fn replay(config: &ChainConfig, state: &mut State, store: &BlockStore, block: &Arc<Block>) -> Result<(), ChainError> {
    let view = state.head();
    let number = block.number();
    let env = block.env(config.genesis.chain_id, config.genesis.spec(number, block.header.timestamp));
    let mut executed = crate::exec::execute(&view, &env, &block.txs);
    crate::prism::credit(&view, &mut executed.changes, &block.withdrawals)?;
    executed.changes.append(store.altered(number)?);
    let state_root = state.root_after(&executed.changes);
    let withdrawals = block.withdrawals.clone();
    let body = Body { withdrawals, ..Body::new(&block.txs, executed.verdicts, env.base_fee) };
    let roots = Roots::of(&body);
    let extra_data: Bytes = block.header.extra_data.clone();
    let again = Block::seal(&env, body, roots, executed.requests, state_root, extra_data);
    if again.hash != block.hash {
        let (kept, executed): (B256, B256) = (block.hash, again.hash);
        return Err(ChainError::Replay { number, kept, executed });
    }
    state.commit(number, block.hash, executed.changes)?;
    Ok(())
}
