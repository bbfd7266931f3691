//! Recent prioritization fees: the minimum of each recent block, also per written account.
//!
//! reads   the block store; the history, for addresses from lookup tables
//! memory  32 B and a price for each account of the last [`BLOCKS`] blocks whose minimum is above its block's
//! source  `solana-runtime` 4.2, `prioritization_fee.rs` and its cache: votes and transactions without compute units
//!         do not count, failed ones do
//!
//! Nothing is recorded while blocks are made: a request reads the confirmed blocks that no earlier one has read. That
//! takes about a second per million transactions, and runs one request at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hearth_ledger::{Budget, Commitment, notifier};
use hearth_wire::{Pubkey, Txn};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Number of recent blocks that are covered.
const BLOCKS: usize = 150;
/// Maximum addresses of a request.
const ACCOUNTS_MAX: usize = 128;

/// The minimum prices of a block, in micro-lamports per compute unit.
#[derive(Debug, Default, PartialEq, Eq)]
struct BlockPrices {
    slot: u64,
    /// The minimum over all transactions.
    least: u64,
    /// The minimum per written account, if it is above `least`.
    accounts: HashMap<Pubkey, u64>,
}

impl BlockPrices {
    fn of_accounts(&self, keys: &[Pubkey]) -> u64 {
        keys.iter().filter_map(|key| self.accounts.get(key)).fold(self.least, |most, price| most.max(*price))
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
        let least = least.unwrap_or(0);
        accounts.retain(|_, price| *price > least);
        Self { slot, least, accounts }
    }
}

/// The price per compute unit that a transaction pays; `None` if it does not count.
fn price_of(txn: &Txn<'_>) -> Option<u64> {
    if notifier::is_vote(txn) {
        return None;
    }
    let budget = Budget::of(txn).ok().filter(|budget| budget.compute_unit_limit > 0)?;
    Some(budget.compute_unit_price)
}

/// Cache of the prices of recent blocks.
#[derive(Default)]
pub struct Prices(Mutex<VecDeque<Arc<BlockPrices>>>);

impl Prices {
    fn of(&self, slot: u64) -> Option<Arc<BlockPrices>> {
        let known = self.0.lock();
        known.iter().find(|block| block.slot == slot).cloned()
    }

    fn keep(&self, block: &Arc<BlockPrices>) {
        let mut known = self.0.lock();
        if known.len() >= BLOCKS {
            known.pop_front();
        }
        known.push_back(Arc::clone(block));
    }
}

impl Api {
    pub async fn get_prioritization_fees(&self, params: Params<'_>) -> Result<Value, Failure> {
        let params = params.at_most(1)?;
        let keys = match params.value(0) {
            Some(_) => params.pubkeys(0, "addresses", ACCOUNTS_MAX)?,
            None => vec![],
        };
        let confirmed = self.ledger.slot(Commitment::Confirmed);
        let blocks = self.ledger.recent_blocks(usize::MAX);
        let blocks = blocks.iter().map(|block| block.slot).filter(|slot| *slot <= confirmed).take(BLOCKS);
        let slots: Vec<u64> = blocks.collect();
        let prices = match slots.iter().map(|slot| self.prices.of(*slot)).collect::<Option<Vec<_>>>() {
            Some(known) => known,
            None => {
                self.at_length(|| slots.iter().map(|slot| self.block_prices(*slot)).collect::<Result<_, _>>()).await?
            }
        };
        let newest_first = prices.iter().rev();
        Ok(newest_first
            .map(|block| json!({ "slot": block.slot, "prioritizationFee": block.of_accounts(&keys) }))
            .collect())
    }

    /// The prices of a block; zero if the block is not kept.
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
        let block = prices(&[priced(1, 2, 50), priced(3, 2, 20), priced(4, 5, 10), priced(1, 8, 70), free]);
        let of = |keys: &[u8]| block.of_accounts(&keys.iter().map(|n| [*n; 32]).collect::<Vec<_>>());
        assert_eq!((block.slot, block.least), (3, 10));
        assert_eq!([of(&[]), of(&[1]), of(&[2]), of(&[3]), of(&[4]), of(&[8])], [10, 50, 20, 20, 10, 70]);
        assert_eq!([of(&[9]), of(&[2, 1]), of(&[0, 4])], [10, 50, 10]);
        // The called program is not written.
        assert_eq!(block.accounts.len(), 4);
    }

    #[test]
    fn whoever_pays_nothing_makes_the_least_nothing() {
        let block = prices(&[priced(1, 2, 50), transfer(3, 4, &[])]);
        assert_eq!((block.least, block.of_accounts(&[[1; 32]]), block.of_accounts(&[[3; 32]])), (0, 50, 0));
        assert_eq!(prices(&[]), BlockPrices { slot: 3, ..BlockPrices::default() });
    }
}
