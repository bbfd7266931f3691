//! Executing a block on several threads, with the results of executing it in order.
//!
//! reads   the state after the parent block, by any thread
//! writes  [`BlockExecution`], equal to that of [`crate::exec::execute`] but for accounts that were touched and not
//!         changed, which are not among the changes
//! memory  one cell per account and slot that the block touches; an EVM per thread
//! drops   nothing: a transaction that cannot be in the block has a refusal
//! source  Block-STM (Gelashvili et al., 2022)
//!
//! ```text
//!  transactions ─► plain ──► runs of plain transfers ─► transfers   split by account, no validation
//!                    │                                     ▲ ▼ cells
//!                    └─────► all others ─────────────► general     ahead on all threads, settled in order
//!                                                          │ ▲ pace: ahead, or in order on one thread
//!                                                          ▼
//!                                             verdicts, gas, fees ─► changes
//! ```
//!
//! All threads go through the same stages and meet between them ([`thread_team`]). On one thread the same stages run
//! without meetings, and nothing is executed ahead.

mod adaptive;
mod collect;
mod memory;
mod plain_transfer;
mod scheduler;
mod stages;
#[cfg(test)]
mod tests;
mod thread_team;
mod transfers;
mod worker;

use crate::exec::{BlockEnv, BlockExecution};
use crate::state::Accounts;
use crate::tx::SharedTx;
use alloy_consensus::Transaction;
use stages::Block;

/// Gas that a block's transactions may use together below which a second thread is not worth its start.
const GAS_PER_THREAD: u64 = 2_000_000;

/// Executes a block on the state of its parent with up to `threads` threads: the system calls before, the
/// transactions, the calls after. Panics if the state cannot be read or a thread cannot be started.
pub fn execute_parallel<D: Accounts + Sync>(
    view: &D,
    env: &BlockEnv,
    txs: &[SharedTx],
    threads: usize,
) -> BlockExecution {
    let worth =
        || (txs.iter().map(|tx| tx.envelope.gas_limit()).fold(0, u64::saturating_add) / GAS_PER_THREAD) as usize;
    let threads = if threads > 1 { threads.min(txs.len()).min(worth()).clamp(1, memory::SHARDS) } else { 1 };
    execute_on(view, env, txs, threads)
}

/// As [`execute_parallel`], with exactly this many threads even for little work: for tests.
#[doc(hidden)]
pub fn execute_on<D: Accounts + Sync>(view: &D, env: &BlockEnv, txs: &[SharedTx], threads: usize) -> BlockExecution {
    let memory = memory::Memory::new(view, txs.len(), threads > 1);
    let block = Block::new(&memory, env, txs, threads);
    std::thread::scope(|scope| {
        let block = &block;
        block.work_on_all(move |thread| {
            scope.spawn(move || block.work(thread));
        });
    });
    block.finish()
}
