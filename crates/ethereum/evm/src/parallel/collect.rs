//! Collects a block's changes from the multi-version memory, once all writers are done.
//!
//! reads   the memory's newest versions, which it removes
//! writes  [`Changes`]
//! memory  the changes
//! drops   slots that were written before their account's storage was wiped

use super::memory::{Memory, MemoryAccount, SHARDS, WriterIndex};
use crate::state::{AccountChange, Changes};
use alloy_primitives::map::HashMap;
use alloy_primitives::{Address, U256};
use revm::DatabaseRef;
use revm::state::AccountInfo;

/// The changes that one thread collected from its shards.
#[derive(Default)]
pub(super) struct Part {
    accounts: Vec<(Address, Option<AccountInfo>)>,
    slots: Vec<(Address, U256, WriterIndex, U256)>,
    wipes: Vec<(Address, WriterIndex)>,
}

/// One thread's part: every `threads`th shard.
pub(super) fn collect<D: DatabaseRef>(memory: &Memory<'_, D>, thread: usize, threads: usize) -> Part {
    let shards = || (thread..SHARDS).step_by(threads);
    // Growing would copy them all several times over, and in a block of transfers there is little else to do.
    let count = shards().map(|index| memory.shard(index).cells.len()).sum();
    let mut part = Part { accounts: Vec::with_capacity(count), ..Part::default() };
    for index in shards() {
        let shard = memory.shard(index);
        part.slots.extend(shard.storage_written());
        part.wipes.extend(shard.wiped());
        for cell in &shard.cells {
            if let Some(held) = cell.written() {
                part.accounts.push((cell.address, held.map(|held| account_info(memory, held))));
            }
        }
    }
    part
}

/// Returns the account, with its code if the block read or wrote that; a code cache has the others.
fn account_info<D: DatabaseRef>(memory: &Memory<'_, D>, held: MemoryAccount) -> AccountInfo {
    let code = if held.is_bare() { None } else { memory.known_code(&held.code_hash) };
    held.with_code(code)
}

/// Merges the threads' parts; drops slots that were written before their account's storage was wiped.
pub(super) fn merge<D: DatabaseRef>(memory: &Memory<'_, D>, parts: Vec<Part>) -> Result<Changes, D::Error> {
    let count = parts.iter().map(|part| part.accounts.len()).sum();
    let mut accounts: HashMap<Address, AccountChange> = HashMap::with_capacity_and_hasher(count, Default::default());
    let (mut slots, mut wipes) = (Vec::new(), HashMap::<Address, WriterIndex>::default());
    for part in parts {
        let changed = part.accounts.into_iter();
        accounts.extend(changed.map(|(address, info)| (address, AccountChange { info, ..AccountChange::default() })));
        slots.push(part.slots);
        wipes.extend(part.wipes);
    }
    for address in wipes.keys() {
        // A transaction that wipes the storage also writes the account.
        accounts.entry(*address).or_default().storage_cleared = true;
    }
    for (address, slot, place, value) in slots.into_iter().flatten() {
        if wipes.get(&address).is_some_and(|wiped| *wiped > place) {
            continue;
        }
        if !accounts.contains_key(&address) {
            let (held, _) = memory.account(&address, WriterIndex::MAX)?;
            accounts.insert(
                address,
                AccountChange { info: held.map(|held| account_info(memory, held)), ..AccountChange::default() },
            );
        }
        accounts.get_mut(&address).expect("inserted above").storage.insert(slot, value);
    }
    Ok(Changes { accounts })
}
