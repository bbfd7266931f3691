//! A node that starts from the files left by a crash, compared with the model.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use hearth_evm::blocks::encode;
use hearth_evm::chain::{BlockInput, Chain, ChainError};
use hearth_evm::side::SideTx;
use hearth_evm_utxo::UtxoChain;
use hearth_wal::mount::mount;
use hearth_wal::simulated::{Files, SimulatedDisk, Trace};

use super::model::Model;
use super::node::{self, RETAINED};

/// The files of waiting transactions. They are never synced: if a power loss destroyed the beginning of one, a start
/// refuses and names it, and the user moves it away.
const WAITING: [&str; 2] = ["pool.log", "utxo.pool"];

/// The conditions that must hold after a start.
pub struct Promise<'a> {
    /// No older block is the newest.
    pub head: u64,
    /// These transactions are in blocks or wait.
    pub acknowledged: &'a [B256],
    /// Whether files of transactions that wait may be damaged.
    pub may_lose_waiting: bool,
    /// How many blocks are executed after the start.
    pub blocks: u64,
}

/// The result of a start.
pub struct Restart {
    /// The newest block that was there.
    pub head: u64,
    /// How many files of waiting transactions were moved away.
    pub moved_away: usize,
    /// All disk steps, up to a clean stop.
    pub trace: Trace,
}

/// Starts a node on these files, compares it with the model, lets it execute some blocks, and stops it.
pub fn restart(model: &Model, files: Files, promise: &Promise<'_>) -> Result<Restart, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let disk = SimulatedDisk::new(folder.path(), files).map_err(|error| error.to_string())?;
    let _mount = mount(folder.path(), Arc::new(disk.clone()));
    let dir = folder.path().join("chain");
    let mut moved_away = 0;
    let chain = loop {
        match node::open(Some(&dir)) {
            Ok(chain) => break chain,
            Err(error) if promise.may_lose_waiting && moved_away < WAITING.len() => {
                move_away(&dir, &error)?;
                moved_away += 1;
            }
            Err(error) => return Err(format!("the chain does not open: {error}")),
        }
    };
    let head = chain.head().number();
    compare(model, &chain, promise)?;
    go_on(model, &chain, promise.blocks)?;
    node::close(chain);
    Ok(Restart { head, moved_away, trace: disk.trace() })
}

/// Moves the file that an error names away, if it is one that may be damaged.
fn move_away(dir: &Path, error: &ChainError) -> Result<(), String> {
    let text = error.to_string();
    let named = WAITING.iter().find(|name| text.contains(&format!("{name} at byte")));
    let name = named.ok_or_else(|| format!("the chain does not open: {text}"))?;
    hearth_wal::store_file::remove(&dir.join(name)).map_err(|error| error.to_string())
}

fn ensure(is_so: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what()) }
}

fn compare(model: &Model, chain: &Chain, promise: &Promise<'_>) -> Result<(), String> {
    let head = chain.head();
    let number = head.number();
    ensure(number >= promise.head, || format!("block {number} is the newest, and {} was promised", promise.head))?;
    ensure(number <= model.end(), || format!("block {number} is the newest, and none such was ever made"))?;
    let first = chain.first_block().max(1);
    ensure(first + RETAINED <= number.max(RETAINED) + 1, || format!("blocks {first} to {number} are kept, too few"))?;
    for number in first..=number {
        let block = chain.block(number).ok_or_else(|| format!("block {number} is not there"))?;
        let expected = &model.blocks[number as usize];
        ensure(block.hash == expected.hash, || format!("block {number} is {}, not {}", block.hash, expected.hash))?;
        ensure(block.header.hash_slow() == block.hash, || format!("block {number} has another hash"))?;
        ensure(encode(&block) == encode(expected), || format!("block {number} has other bytes than the model's"))?;
    }
    let root = chain.view().state_root();
    ensure(root == head.header.state_root, || format!("the state after block {number} has the root {root}"))?;
    let at = number as usize;
    let totals = chain.outputs().totals();
    ensure(totals == model.totals[at], || format!("after block {number} the outputs' totals are {totals:?}"))?;
    let commitment = chain.outputs().commitment();
    ensure(commitment == model.commitments[at], || format!("after block {number} the outputs are {commitment}"))?;
    node::check_sums(chain, node::burnt(model.blocks[..=at].iter().map(|block| &**block)))?;
    promise.acknowledged.iter().try_for_each(|hash| is_kept(model, chain, number, hash))
}

/// Whether an acknowledged transaction is in a block or waits, unless the model knows that it was dropped.
fn is_kept(model: &Model, chain: &Chain, head: u64, hash: &B256) -> Result<(), String> {
    let Some(landed) = model.fates.get(hash) else { return Ok(()) };
    let is_in_block = landed.is_some_and(|number| number <= head);
    let waits = || chain.pool().get(hash).is_some() || chain.outputs_pool().get(hash).is_some();
    ensure(is_in_block || waits(), || format!("{hash} was acknowledged, and is in no block and does not wait"))
}

/// Executes the model's next blocks: from the same input they come out the same.
fn go_on(model: &Model, chain: &Chain, blocks: u64) -> Result<(), String> {
    let from = chain.head().number() + 1;
    for number in from..=model.end().min(from.saturating_add(blocks) - 1) {
        let expected = &model.blocks[number as usize];
        let raw: Vec<&Bytes> = model.side[number as usize].iter().collect();
        let side: Result<Vec<SideTx>, _> = chain.verify_side(&raw).into_iter().collect();
        let input = BlockInput {
            number,
            timestamp: expected.header.timestamp,
            beneficiary: expected.header.beneficiary,
            prevrandao: Some(expected.header.mix_hash),
            txs: expected.txs.clone(),
            side: side.map_err(|error| format!("block {number}: {error}"))?,
        };
        let ready = chain.execute_block(input).map_err(|error| format!("block {number}: {error}"))?;
        let block = ready.block.clone();
        ensure(block.hash == expected.hash, || {
            let (found, wanted) = (&block.header, &expected.header);
            format!("block {number} comes out as {found:?}, and in the model {wanted:?}")
        })?;
        chain.commit(ready).map_err(|error| format!("block {number}: {error}"))?;
        let commitment = chain.outputs().commitment();
        ensure(commitment == model.commitments[number as usize], || format!("block {number}: outputs {commitment}"))?;
    }
    Ok(())
}
