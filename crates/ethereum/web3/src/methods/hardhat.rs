//! Hardhat's behaviour of sending: a transaction that is mined and fails is answered with an error.
//!
//! reads   the transaction's block, and the state before it
//! writes  Hardhat's words, with what the contract said in `data`
//! memory  what the block's transactions up to that one change
//! source  the answers of Hardhat 2.29's node

use std::sync::Arc;

use alloy_primitives::B256;
use hearth_evm::block::Block;
use hearth_evm::chain::BlockTime;
use hearth_evm::exec::{BlockExecutor, BlockExtras, Checks, SimulateError, simulate};
use hearth_evm::tx::to_tx_env;
use revm::context::result::{ExecutionResult, HaltReason};

use super::Api;
use super::send::Answer;
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::trace::{Budget, DeadlineInspector};

/// The beginning of Hardhat's client version.
const HARDHAT: &str = "HardhatNetwork/";

impl Api {
    /// Returns whether the node's client version is Hardhat's, on a development chain.
    pub(super) fn is_hardhat(&self) -> bool {
        self.config.dev && self.config.client_version.starts_with(HARDHAT)
    }

    /// Converts the answer to a send into Hardhat's: a failure is an error, if known.
    pub(super) async fn as_hardhat(self: &Arc<Self>, sent: Answer) -> Answer {
        let hash = sent?;
        if !self.is_hardhat() || self.chain.block_time() != BlockTime::Instant {
            return Ok(hash);
        }
        let failed = |(block, index): &(Arc<Block>, usize)| !block.receipts[*index].status;
        let Some((block, index)) = self.chain.tx(&hash).filter(failed) else { return Ok(hash) };
        let api = Arc::clone(self);
        let why = move |deadline| api.execute_again(&block, index, deadline);
        Err(failure(&hash, &self.heavy.run(why).await?))
    }

    /// Executes a transaction of a block again and returns its result.
    fn execute_again(&self, block: &Block, index: usize, deadline: Deadline) -> Result<ExecutionResult, Failure> {
        let number = block.number().checked_sub(1);
        let view = number.and_then(|number| self.chain.view_at(number));
        let view = view.ok_or_else(|| Failure::server("the state before the transaction is no more"))?;
        let env = self.chain.env_of(block);
        let mut executor = BlockExecutor::new(&view, &env);
        executor.begin();
        for tx in &block.txs[..index] {
            deadline.check()?;
            executor.run(tx);
        }
        let tx = &block.txs[index];
        let mut watch = DeadlineInspector::new(Budget { bytes: usize::MAX, deadline });
        let done =
            simulate(&*executor.database(), &env, &BlockExtras::default(), to_tx_env(tx), Checks::of(tx), &mut watch);
        watch.check()?;
        done.map(|done| done.result).map_err(|why| match why {
            SimulateError::State(why) => Failure::state(why),
            why => Failure::server(why),
        })
    }
}

/// Builds Hardhat's error for a transaction with this result.
fn failure(hash: &B256, result: &ExecutionResult) -> Failure {
    let output = result.output().map(|output| &output[..]).unwrap_or_default();
    match result {
        ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. } => {
            Failure::failed_transaction(-32000, "Transaction ran out of gas", hash, output)
        }
        ExecutionResult::Revert { .. } if output.is_empty() => {
            Failure::failed_transaction(-32603, "Error: Transaction reverted without a reason string", hash, output)
        }
        _ => {
            let why = match result {
                ExecutionResult::Halt { reason: HaltReason::OpcodeNotFound | HaltReason::InvalidFEOpcode, .. } => {
                    "invalid opcode".into()
                }
                ExecutionResult::Halt { reason, .. } => crate::trace::halt_words(reason),
                _ => reverted(output),
            };
            let message = format!("Error: VM Exception while processing transaction: {why}");
            Failure::failed_transaction(-32603, &message, hash, output)
        }
    }
}

fn reverted(output: &[u8]) -> String {
    let data = alloy_primitives::hex::encode_prefixed(output);
    let custom = || format!("reverted with an unrecognized custom error (return data: {data})");
    match output.get(..4) {
        Some([0x08, 0xc3, 0x79, 0xa0]) => crate::failure::revert_reason(output)
            .map_or_else(custom, |reason| format!("reverted with reason string '{reason}'")),
        Some([0x4e, 0x48, 0x7b, 0x71]) if output.len() >= 36 => {
            let code = alloy_primitives::U256::from_be_slice(&output[4..36]);
            let name = u64::try_from(code).ok().and_then(panic_words).unwrap_or("Unknown panic code");
            format!("reverted with panic code {code:#x} ({name})")
        }
        _ => custom(),
    }
}

/// Returns Hardhat's words for a Solidity panic.
fn panic_words(code: u64) -> Option<&'static str> {
    Some(match code {
        0x01 => "Assertion error",
        0x11 => "Arithmetic operation overflowed outside of an unchecked block",
        0x12 => "Division or modulo division by zero",
        0x21 => "Tried to convert a value into an enum, but the value was too big or negative",
        0x22 => "Incorrectly encoded storage byte array",
        0x31 => ".pop() was called on an empty array",
        0x32 => "Array accessed at an out-of-bounds or negative index",
        0x41 => "Too much memory was allocated, or an array was created that is too large",
        0x51 => "Called a zero-initialized variable of internal function type",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::solidity_error;

    #[test]
    fn reverts_are_in_hardhats_words() {
        assert_eq!(reverted(&solidity_error("no way")), "reverted with reason string 'no way'");
        let mut panic = alloy_primitives::hex!("4e487b71").to_vec();
        panic.extend(alloy_primitives::U256::from(0x11).to_be_bytes::<32>());
        let said = "reverted with panic code 0x11 (Arithmetic operation overflowed outside of an unchecked block)";
        assert_eq!(reverted(&panic), said);
        let custom = "reverted with an unrecognized custom error (return data: 0xcb362b34)";
        assert_eq!(reverted(&alloy_primitives::hex!("cb362b34")), custom);
        // Only the beginning of such data.
        assert!(reverted(&alloy_primitives::hex!("08c379a0")).contains("custom error"));
        assert!(reverted(&panic[..20]).contains("custom error"));
    }
}
