//! The parts of an imported block besides its transactions: withdrawals, and before the merge rewards and the
//! intermediate state roots.
//!
//! writes  changes; roots
//! memory  what one block changes

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, U256};

use crate::exec::{BlockEnv, BlockExecution, BlockExecutor, SpecId, credit, credit_wei, execute};
use crate::genesis::Genesis;
use crate::import::rewards;
use crate::state::{Changes, StateError, StateView};
use crate::tx::SharedTx;

/// Amounts that a block credits after its transactions.
pub(super) struct Credits {
    withdrawals: Vec<Withdrawal>,
    rewards: Vec<(Address, U256)>,
}

impl Credits {
    /// Computes the credits of a block with these parts.
    pub fn of(header: &Header, ommers: &[Header], withdrawals: &[Withdrawal], genesis: &Genesis) -> Self {
        Self { withdrawals: withdrawals.to_vec(), rewards: rewards(header, ommers, genesis) }
    }

    /// Adds them to the changes of the block's transactions in `view`.
    pub fn add(&self, view: &StateView, changes: &mut Changes) -> Result<(), StateError> {
        credit(view, changes, &self.withdrawals)?;
        credit_wei(view, changes, self.rewards.iter().copied())
    }
}

/// Executes a block on the state `view`, one transaction after the other; before Byzantium with the state root after
/// each of them, which costs what that transaction changed.
pub(super) fn execute_in_order(
    view: &StateView,
    env: &BlockEnv,
    txs: &[SharedTx],
) -> Result<(BlockExecution, Vec<B256>), StateError> {
    if env.spec.is_enabled_in(SpecId::BYZANTIUM) {
        return Ok((execute(view, env, txs), Vec::new()));
    }
    let clear_empty = env.spec.is_enabled_in(SpecId::SPURIOUS_DRAGON);
    let mut after = view.hypothetical()?;
    let mut block = BlockExecutor::new(view, env);
    block.begin();
    after.apply(&block.database().changes)?;
    let (mut verdicts, mut roots) = (Vec::with_capacity(txs.len()), Vec::with_capacity(txs.len()));
    for tx in txs {
        let mut changes = Changes::default();
        verdicts.push(block.run_observed(tx, |state| changes.absorb_under(state.clone(), clear_empty)));
        after.apply(&changes)?;
        roots.push(after.root());
    }
    Ok((block.finish(verdicts), roots))
}

#[cfg(test)]
mod tests;
