//! Pool: what a transaction costs from its arrival to the block that has it, for 2,000 accounts.
//!
//! reads   the bench's name filter
//! memory  160,000 transactions
//! source  transfers of one price in bursts of 64; blocks of 5,000
//!
//! cargo bench -p hearth-evm --bench pool

use std::sync::Arc;

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, TxKind, U256};
use hearth_evm::pool::{Accounts, Pool, PoolConfig, SenderState};
use hearth_evm::tx::{SharedTx, Tx};
use hearth_testkit::bench::{Bench, Unit};
use revm::primitives::hardfork::SpecId;

const SENDERS: u64 = 2_000;
const EACH: u64 = 20;
const BLOCK: u64 = 5_000;
const GAS_LIMIT: u64 = 1 << 40;
const BASE_FEE: u64 = 1_000_000_000;

#[derive(Clone)]
struct World {
    number: u64,
    nonces: Arc<AddressMap<u64>>,
}

impl Accounts for World {
    fn number(&self) -> u64 {
        self.number
    }

    fn sender(&self, address: &Address) -> SenderState {
        let nonce = self.nonces.get(address).copied().unwrap_or(0);
        SenderState { nonce, balance: U256::MAX >> 1, ..Default::default() }
    }
}

fn transfer(from: u64, nonce: u64) -> SharedTx {
    let sender = Address::from_word(U256::from(from + 1).into());
    let tx = TxEip1559 {
        chain_id: 1,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(Address::ZERO),
        ..TxEip1559::default()
    };
    Arc::new(Tx::with_sender(tx.into_signed(Tx::impersonated_signature(&sender)).into(), sender))
}

fn main() {
    let bench = Bench::from_args();
    let config = PoolConfig { capacity: 200_000, max_bytes: 1 << 30, ..PoolConfig::default() };
    let all: Vec<SharedTx> = (0..EACH).flat_map(|nonce| (0..SENDERS).map(move |from| transfer(from, nonce))).collect();
    let start = World { number: 0, nonces: Arc::default() };
    // What falls to the pool alone of a transaction that comes over RPC: 40,000/s have 25,000 ns each.
    let fill = |pool: &Pool| {
        for burst in all.chunks(64) {
            let results = pool.add(burst.to_vec(), &start, BASE_FEE, GAS_LIMIT);
            assert!(results.iter().all(Result::is_ok));
        }
        all.len() as u64
    };
    bench.run("pool add, bursts of 64, ns a transaction", Unit::NanosPerItem, Some(2_500.0), || {
        fill(&Pool::new(config.clone(), SpecId::OSAKA))
    });
    let pool = Pool::new(config.clone(), SpecId::OSAKA);
    fill(&pool);
    let mut base_fee = BASE_FEE;
    bench.run("pool best of 40,000, blocks of 5,000, ns each", Unit::NanosPerItem, Some(2_500.0), || {
        base_fee = base_fee * 9 / 8 % 90_000_000_000 + 7;
        let taken = pool.best(base_fee, BLOCK * 21_000).len() as u64;
        assert_eq!(taken, BLOCK);
        taken
    });
    bench.run("pool add, best and after_block, ns each", Unit::NanosPerItem, Some(5_000.0), || {
        let pool = Pool::new(config.clone(), SpecId::OSAKA);
        fill(&pool);
        let mut world = start.clone();
        let mut included = 0;
        while included < all.len() as u64 {
            let block = pool.best(BASE_FEE, BLOCK * 21_000);
            let mut nonces = (*world.nonces).clone();
            for tx in &block {
                *nonces.entry(tx.sender).or_default() += 1;
            }
            world = World { number: world.number + 1, nonces: Arc::new(nonces) };
            pool.after_block(&block, world.nonces.keys(), &world, BASE_FEE);
            included += block.len() as u64;
        }
        assert_eq!(pool.status().pending, 0);
        included
    });
}
