//! Recent prioritization fees: the minimum of each recent block, also per written account.
//!
//! reads   the block store; the history, for addresses from lookup tables
//! memory  32 B and a price for each account of the last [`BLOCKS`] blocks whose minimum is above its block's
//! source  `solana-runtime` 4.2, `prioritization_fee.rs` and its cache: votes and transactions without compute units
//!         do not count, failed ones do, and blocks in which none counts are left out; `transaction_meta.rs` of
//!         `solana-runtime-transaction` 4.2 for the price, which is that of the fee in whole lamports
//!
//! Nothing is recorded while blocks are made: a request reads the confirmed blocks that no earlier one has read. That
//! takes about a second per million transactions, and runs one request at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hearth_ledger::{Budget, Commitment, notifier};
use hearth_wire::{Pubkey, Txn};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Maximum number of blocks in an answer.
const BLOCKS: usize = 150;
/// Maximum number of blocks that are read for it: all whose summaries are kept.
const READ_MAX: usize = 512;
const MICRO_LAMPORTS: u128 = 1_000_000;
/// Maximum addresses of a request.
const ACCOUNTS_MAX: usize = 128;

/// The minimum prices of a block, in micro-lamports per compute unit.
#[derive(Debug, Default, PartialEq, Eq)]
struct BlockPrices {
    slot: u64,
    /// The minimum over all transactions; `None` if none counts.
    least: Option<u64>,
    /// The minimum per written account, if it is above `least`.
    accounts: HashMap<Pubkey, u64>,
}

impl BlockPrices {
    fn of_accounts(&self, keys: &[Pubkey]) -> u64 {
        keys.iter()
            .filter_map(|key| self.accounts.get(key))
            .fold(self.least.unwrap_or(0), |most, price| most.max(*price))
    }

    /// Scans a block's transactions; `loaded` gives the addresses that transaction `i` write-locks through lookup
    /// tables.
    fn new<'a>(slot: u64, transactions: impl Iterator<Item = &'a [u8]>, loaded: impl Fn(usize) -> Vec<Pubkey>) -> Self {
        let mut least: Option<u64> = None;
        let mut accounts = HashMap::new();
        for (index, bytes) in transactions.enumerate() {
            let Ok(txn) = Txn::parse(bytes) else { continue };
            let Some(price) = price_of(&txn) else { continue };
            least = Some(least.map_or(price, |least| least.min(price)));
            let own = txn.account_keys().iter().enumerate().filter(|(at, _)| txn.is_writable(*at)).map(|(_, key)| *key);
            let through_tables = if txn.loaded_count() > 0 { loaded(index) } else { vec![] };
            for key in own.chain(through_tables) {
                accounts.entry(key).and_modify(|least: &mut u64| *least = price.min(*least)).or_insert(price);
            }
        }
        accounts.retain(|_, price| least.is_some_and(|least| *price > least));
        Self { slot, least, accounts }
    }
}

/// The price per compute unit that a transaction pays, with a fee that is rounded up to whole lamports; `None` if it
/// does not count.
fn price_of(txn: &Txn<'_>) -> Option<u64> {
    if notifier::is_vote(txn) {
        return None;
    }
    let budget = Budget::of(txn).ok().filter(|budget| budget.compute_unit_limit > 0)?;
    let price = u128::from(budget.priority_fee()) * MICRO_LAMPORTS / u128::from(budget.compute_unit_limit);
    // So does the cluster's software.
    Some(u64::try_from(price).unwrap_or(0))
}

/// Cache of the prices of recent blocks.
#[derive(Default)]
pub struct Prices(Mutex<BTreeMap<u64, Arc<BlockPrices>>>);

impl Prices {
    fn of(&self, slot: u64) -> Option<Arc<BlockPrices>> {
        self.0.lock().get(&slot).cloned()
    }

    fn keep(&self, block: &Arc<BlockPrices>) {
        let mut known = self.0.lock();
        known.insert(block.slot, Arc::clone(block));
        if known.len() > READ_MAX {
            known.pop_first();
        }
    }

    /// Forgets the blocks before a slot.
    fn forget_before(&self, slot: u64) {
        let mut known = self.0.lock();
        *known = known.split_off(&slot);
    }
}

/// The prices of the first [`BLOCKS`] of these slots in whose blocks transactions count.
fn counted<E>(slots: &[u64], prices: impl Fn(u64) -> Result<Arc<BlockPrices>, E>) -> Result<Vec<Arc<BlockPrices>>, E> {
    let mut found = vec![];
    for slot in slots {
        found.extend(Some(prices(*slot)?).filter(|block| block.least.is_some()));
        if found.len() == BLOCKS {
            break;
        }
    }
    Ok(found)
}

impl Api {
    pub async fn get_prioritization_fees(&self, params: Params<'_>) -> Result<Value, Failure> {
        let params = params.at_most(1)?;
        let keys = match params.value(0) {
            Some(_) => params.pubkeys(0, "addresses", ACCOUNTS_MAX)?,
            None => vec![],
        };
        let confirmed = self.ledger.slot(Commitment::Confirmed);
        let blocks = self.ledger.recent_blocks(READ_MAX);
        // The newest first.
        let slots: Vec<u64> = blocks.iter().map(|block| block.slot).filter(|slot| *slot <= confirmed).collect();
        let prices = match counted(&slots, |slot| self.prices.of(slot).ok_or(())) {
            Ok(known) => known,
            Err(()) => self.at_length(|| counted(&slots, |slot| self.block_prices(slot))).await?,
        };
        if let Some(oldest) = prices.get(BLOCKS - 1) {
            self.prices.forget_before(oldest.slot);
        }
        let oldest_first = prices.iter().rev();
        Ok(oldest_first
            .map(|block| json!({ "slot": block.slot, "prioritizationFee": block.of_accounts(&keys) }))
            .collect())
    }

    /// The prices of a block; none if the block is not kept.
    fn block_prices(&self, slot: u64) -> Result<Arc<BlockPrices>, Failure> {
        if let Some(known) = self.prices.of(slot) {
            return Ok(known);
        }
        let nothing = || Ok(Arc::new(BlockPrices { slot, ..BlockPrices::default() }));
        let Some(history) = &self.history else { return nothing() };
        let Some(block) = history.block_unkept(slot)? else { return nothing() };
        let metas = std::cell::OnceCell::new();
        let loaded = |index: usize| {
            // If the history lags behind, addresses from lookup tables are left out.
            let metas = metas.get_or_init(|| history.log.transactions(slot).ok().flatten().unwrap_or_default());
            metas.get(index).map(|meta| meta.loaded_writable.clone()).unwrap_or_default()
        };
        let transactions = (0..block.len()).filter_map(|index| block.transaction(index));
        let prices = Arc::new(BlockPrices::new(slot, transactions, loaded));
        self.prices.keep(&prices);
        Ok(prices)
    }
}

#[cfg(test)]
mod tests {
    use hearth_wire::message::{Instruction, Message};
    use hearth_wire::program::compute_budget::ComputeBudgetInstruction::{SetComputeUnitLimit, SetComputeUnitPrice};
    use hearth_wire::program::system;

    use super::*;

    fn transfer(from: u8, to: u8, budget: &[Instruction]) -> Vec<u8> {
        let instructions = [budget, &[system::transfer(&[from; 32], &[to; 32], 1)]].concat();
        Message::compile(&[from; 32], &instructions, &[9; 32]).unwrap().sign_with(|_, _| [0; 64])
    }

    fn priced(from: u8, to: u8, price: u64) -> Vec<u8> {
        transfer(from, to, &[SetComputeUnitPrice(price).instruction()])
    }

    fn prices(transactions: &[Vec<u8>]) -> BlockPrices {
        BlockPrices::new(3, transactions.iter().map(Vec::as_slice), |_| vec![])
    }

    #[test]
    fn an_account_has_the_least_price_of_those_that_wrote_it() {
        let free = transfer(6, 7, &[SetComputeUnitLimit(0).instruction()]);
        let paid = [priced(1, 2, 5_000), priced(3, 2, 2_000), priced(4, 5, 1_000), priced(1, 8, 7_000), free];
        let block = prices(&paid);
        let of = |keys: &[u8]| block.of_accounts(&keys.iter().map(|n| [*n; 32]).collect::<Vec<_>>());
        assert_eq!((block.slot, block.least), (3, Some(1_000)));
        let expected = [1_000, 5_000, 2_000, 2_000, 1_000, 7_000];
        assert_eq!([of(&[]), of(&[1]), of(&[2]), of(&[3]), of(&[4]), of(&[8])], expected);
        assert_eq!([of(&[9]), of(&[2, 1]), of(&[0, 4])], [1_000, 5_000, 1_000]);
        // The called program is not written.
        assert_eq!(block.accounts.len(), 4);
    }

    #[test]
    fn free_transaction_makes_the_lowest_price_zero() {
        let block = prices(&[priced(1, 2, 500), transfer(3, 4, &[])]);
        assert_eq!((block.least, block.of_accounts(&[[1; 32]]), block.of_accounts(&[[3; 32]])), (Some(0), 500, 0));
        assert_eq!(prices(&[]), BlockPrices { slot: 3, ..BlockPrices::default() });
    }

    #[test]
    fn the_price_is_of_whole_lamports() {
        // 450 units at 1,000 micro-lamports each are 0.45 lamports, and cost one.
        let budget = [SetComputeUnitLimit(450).instruction(), SetComputeUnitPrice(1_000).instruction()];
        assert_eq!(prices(&[transfer(1, 2, &budget)]).least, Some(2_222));
    }

    #[test]
    fn blocks_in_which_nothing_counts_are_left_out() {
        let of = |slot: u64| {
            let least = (slot % 2 == 0).then_some(slot);
            Ok::<_, ()>(Arc::new(BlockPrices { slot, least, ..BlockPrices::default() }))
        };
        let slots: Vec<u64> = (0..400).rev().collect();
        let found: Vec<u64> = counted(&slots, of).unwrap().iter().map(|block| block.slot).collect();
        assert_eq!((found.len(), found[0], found[BLOCKS - 1]), (BLOCKS, 398, 100));
        assert_eq!(counted(&slots[..5], of).unwrap().len(), 2);
        assert_eq!(counted(&[3, 2], |slot| if slot == 3 { of(slot) } else { Err(()) }), Err(()));
    }
}
