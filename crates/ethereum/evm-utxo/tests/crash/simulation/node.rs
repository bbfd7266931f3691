//! The node under test: keys, configuration, and invariants of every chain of it.

use std::path::Path;

use alloy_primitives::{Address, U256};
use hearth_crypto::ed25519::SigningKey;
use hearth_evm::block::Block;
use hearth_evm::builders::{account, rich, riches};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig, ChainError};
use hearth_evm::state::Entry;
use hearth_evm_utxo::{UtxoChain, genesis};
use hearth_utxo::OwnerKey;
use hearth_utxo::amount::to_wei;
use hearth_utxo::prism::ADDRESS;

pub const CHAIN: u64 = 31337;
/// Number of accounts and of owners.
pub const N: u8 = 4;
/// Minimum number of blocks kept. A file has as many, so a run begins a third file and removes the first.
pub const RETAINED: u64 = 16;
/// From each block to the next: the chain's time is virtual.
const BLOCK_S: u64 = 12;

pub fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&[n; 32])
}

pub fn owner(n: u8) -> OwnerKey {
    OwnerKey(key(n).public_key())
}

/// Opens the chain in `dir`, or one in memory. Blocks, syncs and checkpoints happen only on demand.
pub fn open(dir: Option<&Path>) -> Result<Chain, ChainError> {
    let config = ChainConfig {
        dir: dir.map(Path::to_owned),
        block_time: BlockTime::Manual,
        beneficiary: account(N),
        retain_blocks: RETAINED,
        overlap: false,
        background_sync: false,
        ..ChainConfig::new(genesis::dev(CHAIN, &rich(1..=N), 30_000_000))
    };
    let chain = Chain::open(config)?;
    chain.set_timestamp_interval(Some(BLOCK_S));
    Ok(chain)
}

/// Stops a chain cleanly and closes its files.
pub fn close(chain: Chain) {
    chain.stop();
    drop(chain);
}

/// Fees that these blocks have burnt, in wei.
pub fn burnt<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> U256 {
    let of = |block: &Block| U256::from(block.header.gas_used) * U256::from(block.base_fee());
    blocks.into_iter().map(of).sum()
}

/// Checks the sums of the native asset, after blocks that have burnt `burnt` wei.
pub fn check_sums(chain: &Chain, burnt: U256) -> Result<(), String> {
    let balance = |entry: Entry| match entry {
        // The contract keeps what went through it, as the outputs' backing.
        Entry::Account { address, account } if address != ADDRESS => account.balance,
        _ => U256::ZERO,
    };
    let accounts: U256 = chain.view().dump().map(balance).sum();
    let totals = chain.outputs().totals();
    let all = accounts + burnt + to_wei(totals.native) + to_wei(totals.burnt);
    let given = riches() * U256::from(N);
    if all != given {
        return Err(format!("there are {all} wei in accounts, fees and outputs, and the genesis gave {given}"));
    }
    if !totals.balanced() {
        return Err(format!("the outputs' totals do not add up: {totals:?}"));
    }
    let held = balance_of(chain, &ADDRESS);
    if held != to_wei(totals.received) {
        return Err(format!("the contract holds {held} wei, and {} units went through it", totals.received));
    }
    Ok(())
}

fn balance_of(chain: &Chain, of: &Address) -> U256 {
    chain.view().account(of).map_or(U256::ZERO, |account| account.balance)
}
