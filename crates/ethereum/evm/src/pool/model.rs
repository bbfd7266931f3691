//! The pool against a naive one, and its rules one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip7702, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Bytes, Signature, TxKind, U256};
use proptest::prelude::*;

use super::rank::Fees;
use super::*;
use crate::blobs::BlobParams;
use crate::tx::TxEnvelope;

const GAS_LIMIT: u64 = 30_000_000;

/// All accounts after one block.
#[derive(Clone, Debug, Default)]
struct World {
    number: u64,
    accounts: Arc<BTreeMap<Address, SenderState>>,
}

impl Accounts for World {
    fn number(&self) -> u64 {
        self.number
    }

    fn sender(&self, address: &Address) -> SenderState {
        self.accounts.get(address).copied().unwrap_or_default()
    }
}

impl World {
    /// `senders` accounts, each with `balance`.
    fn new(senders: u8, balance: u64) -> Self {
        let state = SenderState { balance: U256::from(balance), ..SenderState::default() };
        Self { number: 0, accounts: Arc::new((0..senders).map(|number| (sender(number), state)).collect()) }
    }

    /// The next block, which left one account so.
    fn with(&self, address: Address, change: impl FnOnce(&mut SenderState)) -> Self {
        let mut accounts = (*self.accounts).clone();
        change(accounts.entry(address).or_default());
        Self { number: self.number + 1, accounts: Arc::new(accounts) }
    }
}

/// A fake signature, different for each account, and not that of an impersonated one.
fn signature(account: &Address) -> Signature {
    Signature::new(U256::from_be_slice(account.as_slice()), U256::ONE, false)
}

fn sender(number: u8) -> Address {
    Address::repeat_byte(number + 1)
}

fn dynamic(from: u8, nonce: u64, cap: u128, tip: u128, data_size: usize) -> SharedTx {
    let tx = TxEip1559 {
        chain_id: 1,
        nonce,
        gas_limit: 21_000 + 40 * data_size as u64,
        max_fee_per_gas: cap,
        max_priority_fee_per_gas: tip,
        to: TxKind::Call(Address::ZERO),
        value: U256::from(1),
        input: Bytes::from(vec![1; data_size]),
        ..TxEip1559::default()
    };
    let from = sender(from);
    Arc::new(Tx::with_sender(tx.into_signed(signature(&from)).into(), from))
}

fn legacy(from: u8, change: impl FnOnce(&mut TxLegacy)) -> SharedTx {
    let mut tx = TxLegacy { gas_limit: 21_000, gas_price: 10, ..TxLegacy::default() };
    tx.to = TxKind::Call(Address::ZERO);
    change(&mut tx);
    let from = sender(from);
    Arc::new(Tx::with_sender(tx.into_signed(signature(&from)).into(), from))
}

fn add(pool: &Pool, tx: &SharedTx, world: &World) -> Result<(), PoolError> {
    pool.add(vec![tx.clone()], world, 0, GAS_LIMIT).remove(0)
}

fn words(pool: &Pool, tx: &SharedTx, world: &World) -> String {
    add(pool, tx, world).expect_err("it is refused").to_string()
}

fn pool(change: impl FnOnce(&mut PoolConfig)) -> Pool {
    let mut config = PoolConfig::default();
    change(&mut config);
    Pool::new(config, SpecId::OSAKA)
}

/// A naive pool: one list, everything looked up by going through it.
struct Model {
    config: PoolConfig,
    base_fee: u64,
    world: World,
    /// With the arrival of each.
    txs: Vec<(SharedTx, u64)>,
    joined: BTreeMap<Address, u64>,
    arrivals: u64,
}

fn fees(tx: &Tx) -> Fees {
    Fees::new(tx.envelope.max_fee_per_gas(), tx.envelope.priority_fee_or_price())
}

fn cost(tx: &Tx) -> U256 {
    U256::from(tx.envelope.gas_limit()) * U256::from(tx.envelope.max_fee_per_gas()) + tx.envelope.value()
}

impl Model {
    /// An account's transactions: executable ones, and those behind a gap.
    fn of(&self, from: &Address) -> (Vec<SharedTx>, Vec<SharedTx>) {
        let mut all: Vec<_> = self.txs.iter().map(|(tx, _)| tx).filter(|tx| tx.sender == *from).cloned().collect();
        all.sort_by_key(|tx| tx.envelope.nonce());
        let first = self.world.sender(from).nonce;
        let ready = (0..all.len()).take_while(|at| all[*at].envelope.nonce() == first + *at as u64).count();
        let gapped = all.split_off(ready);
        (all, gapped)
    }

    fn senders(&self) -> Vec<Address> {
        self.joined.keys().copied().collect()
    }

    fn bytes(&self) -> usize {
        self.txs.iter().map(|(tx, _)| footprint(tx)).sum()
    }

    fn drop_tx(&mut self, hash: &B256) {
        let at = self.txs.iter().position(|(tx, _)| tx.hash == *hash).expect("it is there");
        let (tx, _) = self.txs.remove(at);
        if !self.txs.iter().any(|(other, _)| other.sender == tx.sender) {
            self.joined.remove(&tx.sender);
        }
    }

    fn push(&mut self, tx: SharedTx) {
        self.arrivals += 1;
        self.joined.entry(tx.sender).or_insert(self.arrivals);
        self.txs.push((tx, self.arrivals));
    }

    /// The worst accounts first, by the least of their executable transactions or of those behind gaps.
    fn worst(&self, gapped: bool, but: &Address) -> Vec<(i128, Vec<SharedTx>)> {
        let mut all: Vec<_> = vec![];
        for from in self.senders().into_iter().filter(|from| from != but) {
            let (ready, behind) = self.of(&from);
            let txs = if gapped { behind } else { ready };
            if let Some(floor) = txs.iter().map(|tx| fees(tx).value(self.base_fee)).min() {
                all.push((floor, !self.joined[&from], txs));
            }
        }
        all.sort_by_key(|(floor, earlier, _)| (*floor, *earlier));
        all.into_iter().map(|(floor, _, txs)| (floor, txs)).collect()
    }

    fn add(&mut self, tx: &SharedTx) -> Result<(), PoolError> {
        let (nonce, state) = (tx.envelope.nonce(), self.world.sender(&tx.sender));
        let funds = || PoolError::InsufficientFunds("".into());
        if self.txs.iter().any(|(other, _)| other.hash == tx.hash) {
            return Err(PoolError::AlreadyKnown);
        }
        if nonce < state.nonce {
            return Err(PoolError::NonceTooLow { next: state.nonce, nonce });
        }
        let (ready, gapped) = self.of(&tx.sender);
        let missing = state.nonce + ready.len() as u64;
        let spent: U256 = ready.iter().filter(|old| old.envelope.nonce() != nonce).map(|tx| cost(tx)).sum();
        if cost(tx) > state.balance || spent + cost(tx) > state.balance {
            return Err(funds());
        }
        let old = ready.iter().chain(&gapped).find(|old| old.envelope.nonce() == nonce);
        if let Some(old) = old {
            if !fees(tx).replaces(fees(old), self.config.price_bump_percent) {
                return Err(PoolError::ReplaceUnderpriced);
            }
            if self.bytes() - footprint(old) + footprint(tx) > self.config.max_bytes {
                return Err(PoolError::Full);
            }
            let joined = self.joined[&tx.sender];
            self.drop_tx(&old.hash);
            self.push(tx.clone());
            self.joined.insert(tx.sender, joined);
            return Ok(());
        }
        let pooled = ready.len() + gapped.len();
        let mut gone = vec![];
        if pooled >= self.config.per_sender || nonce > missing && gapped.len() >= self.config.gap {
            match gapped.last() {
                Some(last) if nonce < last.envelope.nonce() => gone.push(last.clone()),
                _ if nonce > missing && gapped.len() >= self.config.gap => {
                    return Err(PoolError::NonceTooHigh { nonce, gapped: missing });
                }
                _ => return Err(PoolError::AccountLimit { pooled }),
            }
        }
        self.make_room(tx, nonce > missing, &ready, &mut gone)?;
        gone.iter().for_each(|tx| self.drop_tx(&tx.hash));
        self.push(tx.clone());
        Ok(())
    }

    fn make_room(
        &self,
        tx: &SharedTx,
        gapped: bool,
        ready: &[SharedTx],
        gone: &mut Vec<SharedTx>,
    ) -> Result<(), PoolError> {
        let all_gapped: usize = self.senders().iter().map(|from| self.of(from).1.len()).sum();
        let over_gapped = gapped && gone.is_empty() && all_gapped >= self.config.gaps;
        let mut seen = 0;
        let enough = |gone: &Vec<SharedTx>| {
            self.txs.len() + 1 - gone.len() <= self.config.capacity
                && self.bytes() + footprint(tx)
                    <= self.config.max_bytes + gone.iter().map(|tx| footprint(tx)).sum::<usize>()
                && !(over_gapped && gone.is_empty())
        };
        let with = if gapped { &[] } else { ready };
        let offers = with.iter().map(|tx| fees(tx)).fold(fees(tx), Fees::least);
        let worth = offers.value(self.base_fee);
        for (floor, txs) in self.worst(true, &tx.sender) {
            for victim in txs.iter().rev().filter(|_| !gapped || floor < worth) {
                if !enough(gone) {
                    gone.push(victim.clone());
                }
            }
        }
        for (_, txs) in self.worst(false, &tx.sender).into_iter().filter(|(floor, _)| *floor < worth) {
            for victim in txs.iter().rev() {
                if !enough(gone) && gapped {
                    return Err(if over_gapped { PoolError::Full } else { PoolError::FutureReplacePending });
                }
                if !enough(gone) {
                    gone.push(victim.clone());
                }
            }
        }
        seen += self.worst(false, &Address::ZERO).first().map_or(0, |(floor, _)| usize::from(worth < *floor));
        match (enough(gone), seen > 0 && !over_gapped) {
            (true, _) => Ok(()),
            (false, true) => Err(PoolError::Underpriced),
            (false, false) => Err(PoolError::Full),
        }
    }

    /// A block that has moved one account.
    fn recheck(&mut self, from: &Address) {
        let state = self.world.sender(from);
        let gone =
            |tx: &SharedTx| tx.sender == *from && (tx.envelope.nonce() < state.nonce || cost(tx) > state.balance);
        let gone: Vec<_> = self.txs.iter().map(|(tx, _)| tx).filter(|tx| gone(tx)).cloned().collect();
        gone.iter().for_each(|tx| self.drop_tx(&tx.hash));
        while self.of(from).1.len() > self.config.gap {
            let last = self.of(from).1.pop().expect("there are some");
            self.drop_tx(&last.hash);
        }
        while self.senders().iter().map(|from| self.of(from).1.len()).sum::<usize>() > self.config.gaps {
            let last = self.worst(true, &Address::ZERO)[0].1.pop_last();
            self.drop_tx(&last.hash);
        }
    }

    fn best(&self, gas_limit: u64) -> Vec<B256> {
        let (mut taken, mut left) = (vec![], gas_limit);
        let mut open: BTreeMap<Address, Vec<SharedTx>> =
            self.senders().into_iter().map(|from| (from, self.of(&from).0)).collect();
        loop {
            let place = |tx: &SharedTx| {
                let arrival = self.txs.iter().find(|(other, _)| other.hash == tx.hash).expect("it is there").1;
                (fees(tx).value(self.base_fee), !arrival)
            };
            let heads = open.iter().filter_map(|(from, txs)| txs.first().map(|tx| (place(tx), *from)));
            let Some(((value, _), from)) = heads.max() else { break };
            if value < 0 || left < 21_000 {
                break;
            }
            let tx = open.get_mut(&from).expect("it has one").remove(0);
            if tx.envelope.gas_limit() > left {
                open.remove(&from);
                continue;
            }
            left -= tx.envelope.gas_limit();
            taken.push(tx.hash);
        }
        taken
    }
}

/// Removes the last item of a collection.
trait PopLast {
    fn pop_last(&self) -> SharedTx;
}

impl PopLast for Vec<SharedTx> {
    fn pop_last(&self) -> SharedTx {
        self.last().expect("there are some").clone()
    }
}

/// A step of a test on both pools.
#[derive(Clone, Debug)]
enum Step {
    Add { from: u8, ahead: u64, tip: u128, more: u128, data_size: usize },
    Again(usize),
    Include(usize),
    Balance(u8, u64),
    BaseFee(u64),
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![4 => Just(0usize), 1 => Just(700)];
    prop_oneof![
        12 => (0u8..5, 0u64..7, 0u128..40, 0u128..40, size)
            .prop_map(|(from, ahead, tip, more, data_size)| Step::Add { from, ahead, tip, more, data_size }),
        1 => (0usize..12).prop_map(Step::Again),
        2 => (1usize..6).prop_map(Step::Include),
        1 => (0u8..5, 0u64..9_000_000).prop_map(|(from, balance)| Step::Balance(from, balance)),
        1 => (0u64..60).prop_map(Step::BaseFee),
        1 => (0usize..12).prop_map(Step::Remove),
    ]
}

/// Applies one step to both pools and compares the results.
fn run(pool: &Pool, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Add { from, ahead, tip, more, data_size } => {
            let nonce = (model.world.sender(&sender(from)).nonce + ahead).saturating_sub(1);
            let tx = dynamic(from, nonce, tip + more, tip, data_size);
            let (ours, theirs) = (add(pool, &tx, &model.world), model.add(&tx));
            let kind = |result: &Result<(), PoolError>| result.as_ref().err().map(std::mem::discriminant);
            prop_assert_eq!(kind(&ours), kind(&theirs), "{:?} {:?}", ours, theirs);
        }
        Step::Again(at) => {
            if let Some((tx, _)) = model.txs.get(at) {
                prop_assert_eq!(add(pool, tx, &model.world), Err(PoolError::AlreadyKnown));
            }
        }
        Step::Include(count) => {
            let mut included = pool.best(model.base_fee, GAS_LIMIT);
            included.truncate(count);
            let mut next = model.world.clone();
            for tx in &included {
                let paid = U256::from(21_000 * tx.effective_gas_price(model.base_fee));
                next = next.with(tx.sender, |state| {
                    (state.nonce, state.balance) = (state.nonce + 1, state.balance.saturating_sub(paid));
                });
            }
            let touched: Vec<Address> = included.iter().map(|tx| tx.sender).collect();
            let mut taken = NextNonces::default();
            included.iter().for_each(|tx| taken.include(tx));
            let mut ahead = pool.best_after(model.base_fee, GAS_LIMIT, &taken);
            pool.after_block(&included, &touched, &next, model.base_fee);
            let after = pool.best(model.base_fee, GAS_LIMIT);
            // An account may not have the means any more: those of it that are given up are not looked for before.
            ahead.retain(|tx| pool.fate(&tx.hash).is_none() && after.contains(tx));
            prop_assert_eq!(ahead, after);
            // One account after the other, as the pool does it.
            for from in touched {
                model.world = model.world.with(from, |state| *state = next.sender(&from));
                model.recheck(&from);
            }
            model.world.number = next.number;
        }
        Step::Balance(from, balance) => {
            let from = sender(from);
            model.world = model.world.with(from, |state| state.balance = U256::from(balance));
            pool.after_block(&[], [&from], &model.world, model.base_fee);
            model.recheck(&from);
        }
        Step::BaseFee(base_fee) => {
            model.base_fee = base_fee;
            pool.after_block(&[], [], &model.world, base_fee);
        }
        Step::Remove(at) => {
            if let Some((tx, _)) = model.txs.get(at).cloned() {
                prop_assert!(pool.remove(&tx.hash, DropReason::Demand));
                prop_assert_eq!(pool.fate(&tx.hash), Some(DropReason::Demand));
                model.drop_tx(&tx.hash);
                model.recheck(&tx.sender);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn pool_equals_a_naive_model(
        capacity in 4usize..16, per_sender in 2usize..8, gap in 1usize..5, gaps in 1usize..8,
        bytes in prop_oneof![Just(1usize << 30), 3_000usize..12_000],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let pool = pool(|config| {
            (config.capacity, config.per_sender, config.gap, config.gaps) = (capacity, per_sender, gap, gaps);
            config.max_bytes = bytes;
        });
        let mut model = Model {
            config: pool.config.clone(),
            base_fee: 0,
            world: World::new(5, 20_000_000),
            txs: vec![],
            joined: BTreeMap::new(),
            arrivals: 0,
        };
        for step in steps {
            run(&pool, &mut model, step.clone())?;
            let mut content = pool.content();
            content.sort_by_key(|content| content.sender);
            let ours: Vec<_> = content.into_iter().map(|all| (all.sender, (all.pending, all.queued))).collect();
            let theirs: Vec<_> = model.senders().into_iter().map(|from| (from, model.of(&from))).collect();
            prop_assert_eq!(&ours, &theirs, "after {:?}", step);
            let (pending, queued) = ours.iter().fold((0, 0), |sum, (_, (pending, queued))| {
                (sum.0 + pending.len(), sum.1 + queued.len())
            });
            prop_assert_eq!(pool.status(), Status { pending, queued, bytes: model.bytes() });
            prop_assert!(pending + queued <= capacity && queued <= gaps && model.bytes() <= bytes);
            for gas_limit in [60_000, GAS_LIMIT] {
                let best: Vec<B256> = pool.best(model.base_fee, gas_limit).iter().map(|tx| tx.hash).collect();
                prop_assert_eq!(best, model.best(gas_limit));
            }
            for (from, (pending, _)) in ours {
                let nonce = model.world.sender(&from).nonce;
                prop_assert_eq!(pool.next_nonce(&from, nonce), nonce + pending.len() as u64);
            }
        }
    }
}

#[test]
fn each_error_matches_geths_words() {
    let world = World::new(3, 10_000_000);
    let pool = pool(|config| (config.min_tip, config.gap) = (1, 2));
    let plain = |change: fn(&mut TxLegacy)| legacy(0, change);
    for (tx, expected) in [
        (plain(|tx| tx.gas_limit = 20_999), "intrinsic gas too low: gas 20999, minimum needed 21000"),
        (plain(|tx| tx.gas_limit = GAS_LIMIT + 1), "transaction gas limit too high (cap: 16777216, tx: 30000001)"),
        (plain(|tx| tx.nonce = u64::MAX), "nonce has max value"),
        (plain(|tx| tx.gas_price = 0), "transaction gas price below minimum: gas tip cap 0, minimum needed 1"),
        (
            plain(|tx| (tx.input, tx.gas_limit) = (vec![1; 100].into(), 23_000)),
            "insufficient gas for floor data gas cost: gas 23000, minimum needed 25000",
        ),
        (
            plain(|tx| (tx.to, tx.input) = (TxKind::Create, vec![0; TxLimits::default().init_code_size() + 1].into())),
            "max initcode size exceeded: code size 49153, limit 49152",
        ),
        (
            plain(|tx| tx.value = U256::from(10_000_000)),
            "insufficient funds for gas * price + value: balance 10000000, tx cost 10210000, overshot 210000",
        ),
        (
            plain(|tx| (tx.gas_price, tx.value) = (u128::MAX, U256::MAX)),
            "insufficient funds for gas * price + value: balance 10000000, tx cost \
             115792089237316195423570985008687914999199690005348296770324340075045570194935, overshot \
             115792089237316195423570985008687914999199690005348296770324340075045560194935",
        ),
        (dynamic(0, 0, 5, 6, 0), "max priority fee per gas higher than max fee per gas"),
        (set_code(0, 0, &[]), "set code tx must have at least one authorization tuple"),
    ] {
        assert_eq!(words(&pool, &tx, &world), expected);
    }
    let first = plain(|tx| tx.value = U256::from(9_000_000));
    assert_eq!(add(&pool, &first, &world), Ok(()));
    assert_eq!(words(&pool, &first, &world), "already known");
    assert_eq!(
        words(&pool, &plain(|tx| (tx.nonce, tx.value) = (1, U256::from(700_000))), &world),
        "insufficient funds for gas * price + value: balance 10000000, queued cost 9210000, tx cost 910000, \
         overshot 120000"
    );
    assert_eq!(
        words(&pool, &plain(|tx| (tx.gas_price, tx.value) = (11, U256::from(9_769_001))), &world),
        "insufficient funds for gas * price + value: balance 10000000, tx cost 10000001, overshot 1"
    );
    assert_eq!(words(&pool, &plain(|tx| tx.gas_price = 10), &world), "replacement transaction underpriced");
    assert_eq!(add(&pool, &legacy(1, |tx| tx.nonce = 5), &world), Ok(()));
    assert_eq!(add(&pool, &legacy(1, |tx| tx.nonce = 7), &world), Ok(()));
    assert_eq!(words(&pool, &legacy(1, |tx| tx.nonce = 9), &world), "nonce too high: tx nonce 9, gapped nonce 0");
    let world = world.with(sender(2), |state| state.nonce = 3);
    assert_eq!(words(&pool, &legacy(2, |tx| tx.nonce = 1), &world), "nonce too low: next nonce 3, tx nonce 1");
    let old = Pool::new(PoolConfig::default(), SpecId::BERLIN);
    assert_eq!(
        words(&old, &dynamic(0, 0, 9, 9, 0), &world),
        "transaction type not supported: type 2 rejected, pool not yet in London"
    );
    old.set_spec(SpecId::CANCUN);
    assert_eq!(words(&old, &legacy(0, |tx| tx.gas_limit = GAS_LIMIT + 1), &world), "exceeds block gas limit");
}

fn set_code(from: u8, nonce: u64, authorities: &[u8]) -> SharedTx {
    let authorization = |_: &u8| {
        let tuple = Authorization { chain_id: U256::ZERO, address: Address::ZERO, nonce: 0 };
        SignedAuthorization::new_unchecked(tuple, 0, U256::from(1), U256::from(1))
    };
    let tx = TxEip7702 {
        chain_id: 1,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 9,
        max_priority_fee_per_gas: 9,
        authorization_list: authorities.iter().map(authorization).collect(),
        ..TxEip7702::default()
    };
    let envelope: TxEnvelope = tx.into_signed(signature(&sender(from))).into();
    let hash = *envelope.tx_hash();
    let authorities = authorities.iter().map(|authority| Some(sender(*authority))).collect();
    Arc::new(Tx { raw: envelope.encoded_2718().into(), hash, sender: sender(from), authorities, envelope })
}

#[test]
fn a_delegated_account_has_one_transaction_in_flight() {
    let world = World::new(6, 10_000_000).with(sender(0), |state| state.delegated = true);
    let pool = pool(|_| {});
    let send = |from: u8, nonce: u64, price: u128| {
        add(&pool, &legacy(from, |tx| (tx.nonce, tx.gas_price) = (nonce, price)), &world)
    };
    assert_eq!(send(0, 1, 9), Err(PoolError::DelegatedGapped));
    assert_eq!(send(0, 0, 9), Ok(()));
    assert_eq!(send(0, 1, 9), Err(PoolError::DelegatedInFlight));
    assert_eq!(send(0, 0, 10), Ok(()), "a replacement is no second one");
    // One that is about to be delegated, and one that has too many in flight for that.
    assert_eq!(add(&pool, &set_code(2, 0, &[1]), &world), Ok(()));
    assert_eq!(send(1, 0, 9), Ok(()));
    assert_eq!(send(1, 1, 9), Err(PoolError::DelegatedInFlight));
    assert_eq!((send(3, 0, 9), send(3, 1, 9)), (Ok(()), Ok(())));
    let late = set_code(4, 0, &[5, 3]);
    assert_eq!(add(&pool, &late, &world), Err(PoolError::AuthorityReserved));
    // Without the authorization the limit no longer applies.
    assert!(pool.remove(&set_code(2, 0, &[1]).hash, DropReason::Demand));
    assert_eq!(send(1, 1, 9), Ok(()));
}

#[test]
fn drops_have_reasons_and_reach_subscribers() {
    let world = World::new(4, 10_000_000);
    let pool = pool(|config| config.capacity = 2);
    let reported = Arc::new(Mutex::new(vec![]));
    let notes = reported.clone();
    assert!(
        pool.on_drop(move |dropped| notes.lock().extend(dropped.iter().map(|one| (one.tx.hash, one.reason.clone()))))
    );
    assert!(!pool.on_drop(|_| {}));
    let mut feed = pool.subscribe();
    let price = |from: u8, price: u128| legacy(from, move |tx| tx.gas_price = price);
    let (a, b, c, d) = (price(0, 10), price(1, 20), price(0, 11), price(2, 30));
    assert_eq!(pool.add(vec![a.clone(), b.clone(), c.clone()], &world, 0, GAS_LIMIT), [Ok(()), Ok(()), Ok(())]);
    assert_eq!(words(&pool, &price(2, 10), &world), "transaction underpriced");
    assert_eq!(words(&pool, &price(2, 11), &world), "txpool is full");
    assert_eq!(
        words(&pool, &legacy(2, |tx| (tx.nonce, tx.gas_price) = (1, 12)), &world),
        "future transaction tries to replace pending"
    );
    assert_eq!(add(&pool, &d, &world), Ok(()));
    let world = world.with(sender(1), |state| state.nonce = 1).with(sender(2), |state| state.balance = U256::ZERO);
    pool.after_block(&[], [&sender(1), &sender(2)], &world, 0);
    let expected = [
        (a.hash, format!("replaced by transaction {}", c.hash)),
        (c.hash, "evicted: txpool is full and this transaction paid the least".into()),
        (b.hash, "nonce too low: next nonce 1, tx nonce 0".into()),
        (d.hash, "insufficient funds for gas * price + value: balance 0, tx cost 630000, overshot 630000".into()),
    ];
    for (hash, reason) in &expected {
        assert_eq!(pool.fate(hash).map(|reason| reason.to_string()).as_ref(), Some(reason));
    }
    assert_eq!(reported.lock().iter().map(|(hash, _)| *hash).collect::<Vec<_>>(), expected.map(|(hash, _)| hash));
    assert_eq!(feed.take(), FeedBatch { hashes: vec![a.hash, b.hash, c.hash, d.hash], before: 0, missed: 0 });
    let world = world.with(sender(2), |state| state.balance = U256::from(10_000_000));
    assert_eq!(add(&pool, &d, &world), Ok(()), "the pool has not heard of this block, and takes the caller's word");
    assert_eq!(pool.fate(&d.hash), None);
    let stats = pool.stats();
    assert_eq!((stats.added, stats.full, stats.replaced, stats.evicted, stats.invalid), (5, 3, 1, 1, 2));
}

#[test]
fn the_next_nonce_does_not_go_back_when_a_block_takes_all_that_waits() {
    let (pool, world) = (pool(|_| {}), World::new(1, 20_000_000));
    let txs = [dynamic(0, 0, 10, 1, 0), dynamic(0, 1, 10, 1, 0)];
    txs.iter().for_each(|tx| add(&pool, tx, &world).expect("it is taken"));
    let nonce = world.sender(&sender(0)).nonce;
    assert_eq!(pool.next_nonce(&sender(0), nonce), 2);
    pool.after_block(&txs, &[sender(0)], &world.with(sender(0), |state| state.nonce = 2), 0);
    assert_eq!(pool.next_nonce(&sender(0), nonce), 2, "though the caller has not seen the block");
}

#[test]
fn an_old_view_does_not_deceive_the_pool() {
    let world = World::new(2, 10_000_000);
    let pool = pool(|_| {});
    let later = world.with(sender(0), |state| state.nonce = 4);
    pool.after_block(&[], [], &later, 7);
    assert_eq!(words(&pool, &legacy(0, |_| {}), &world), "nonce too low: next nonce 4, tx nonce 0");
    let tx = legacy(0, |tx| tx.nonce = 4);
    assert_eq!(add(&pool, &tx, &world), Ok(()));
    // Back to the beginning: executable transactions get behind a gap, and become executable again.
    pool.reset(&world, 7);
    assert_eq!(pool.status().queued, 1);
    pool.after_block(&[], [&sender(0)], &later, 7);
    assert_eq!(pool.best(7, GAS_LIMIT), [tx]);
}

#[test]
fn only_the_accounts_a_block_touched_are_looked_at() {
    let world = World::new(5, 10_000_000);
    let pool = pool(|_| {});
    let txs: Vec<_> = (0..5).map(|from| legacy(from, |_| {})).collect();
    assert!(pool.add(txs.clone(), &world, 0, GAS_LIMIT).iter().all(Result::is_ok));
    let next = world.with(sender(1), |state| state.nonce = 1);
    pool.after_block(&txs[1..2], [&sender(1), &Address::ZERO], &next, 0);
    assert_eq!(pool.stats().rechecked, 1);
    assert_eq!(pool.fate(&txs[1].hash), None, "it was included");
    assert_eq!(pool.best(0, GAS_LIMIT).len(), 4);
}

#[test]
fn overdue_transactions_are_dropped() {
    let world = World::new(2, 10_000_000);
    let mut config = PoolConfig { lifetime: Duration::from_secs(5), ..PoolConfig::default() };
    config.gap = 1;
    let mut table = Table::new(config);
    let rules = Rules {
        spec: SpecId::OSAKA,
        gas_limit: GAS_LIMIT,
        min_tip: 0,
        limits: TxLimits::default(),
        blobs: BlobParams::osaka(),
    };
    let mut effects = Effects::default();
    for (nonce, at_ms) in [(0, 0), (1, 1_000), (2, 2_000), (3, 3_000)] {
        let new = check(legacy(0, |tx| tx.nonce = nonce), &rules).expect("it is well");
        table.insert(new, world.sender(&sender(0)), 0, at_ms, &mut effects).expect("it is taken");
    }
    table.sweep(4_000, 100, &mut effects);
    table.sweep(5_000, 100, &mut effects);
    assert!(effects.dropped.is_empty());
    table.sweep(6_500, 100, &mut effects);
    let reasons: Vec<_> = effects.dropped.iter().map(|one| one.reason.to_string()).collect();
    let expired = "expired: not included within 5 s";
    assert_eq!(reasons, [expired, expired, "evicted: nonce too high: too many transactions behind a nonce gap"]);
    assert_eq!(table.counts().0, 0);
    assert_eq!(table.counts().1, 1);
}

#[test]
fn gas_is_counted_as_revm_counts_it() {
    use revm::context_interface::cfg::gas::calculate_initial_tx_gas;
    for spec in
        [SpecId::HOMESTEAD, SpecId::BYZANTIUM, SpecId::ISTANBUL, SpecId::LONDON, SpecId::SHANGHAI, SpecId::OSAKA]
    {
        for to in [TxKind::Create, TxKind::Call(Address::ZERO)] {
            for data in [vec![], vec![0; 33], vec![1; 64], [[0, 5]; 500].concat()] {
                let tx = legacy(0, |tx| (tx.to, tx.input) = (to, data.clone().into()));
                let theirs = calculate_initial_tx_gas(spec, &data, to.is_create(), 0, 0, 0, None);
                assert_eq!(least_gas(&tx, spec), (theirs.initial_regular_gas, theirs.floor_gas), "{spec:?}");
            }
        }
    }
    let theirs = calculate_initial_tx_gas(SpecId::OSAKA, &[], false, 0, 0, 3, None);
    assert_eq!(least_gas(&set_code(0, 0, &[1, 2, 3]), SpecId::OSAKA).0, theirs.initial_regular_gas);
}

#[test]
fn txpool_inspect_has_geths_line() {
    let tx = legacy(0, |tx| (tx.value, tx.gas_price) = (U256::from(7), 12));
    let zero = "0x0000000000000000000000000000000000000000";
    assert_eq!(inspect_line(&tx), format!("{zero}: 7 wei + 21000 gas × 12 wei"));
    let tx = legacy(0, |tx| tx.to = TxKind::Create);
    assert_eq!(inspect_line(&tx), "contract creation: 0 wei + 21000 gas × 10 wei");
}

/// Threads send while a sequencer takes and includes: everything that was taken is included once, in the order of its
/// nonce, and no lock is held while accounts are read.
#[test]
fn many_senders_and_a_sequencer() {
    const SENDERS: u8 = 12;
    const EACH: u64 = 300;
    let pool = Arc::new(pool(|config| config.capacity = 1_000_000));
    let world = Arc::new(Mutex::new(World::new(SENDERS, u64::MAX)));
    let senders = (0..4u8).map(|thread| {
        let (pool, world) = (pool.clone(), world.clone());
        std::thread::spawn(move || {
            let mine: Vec<u8> = (0..SENDERS).filter(|from| from % 4 == thread).collect();
            for start in (0..EACH).step_by(20) {
                let burst: Vec<_> = (start..start + 20)
                    .flat_map(|nonce| mine.iter().map(move |from| dynamic(*from, nonce, 99, 1 + u128::from(*from), 0)))
                    .collect();
                let view = world.lock().clone();
                for result in pool.add(burst, &view, 0, GAS_LIMIT) {
                    result.expect("it is taken");
                }
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut included = 0;
    while included < u64::from(SENDERS) * EACH {
        assert!(Instant::now() < deadline, "{included} are included");
        let block = pool.best(0, 21_000 * 97);
        let mut next = world.lock().clone();
        next.number += 1;
        let mut accounts = (*next.accounts).clone();
        for tx in &block {
            let state = accounts.get_mut(&tx.sender).expect("it is known");
            assert_eq!(tx.envelope.nonce(), state.nonce);
            state.nonce += 1;
        }
        next.accounts = Arc::new(accounts);
        *world.lock() = next.clone();
        pool.after_block(&block, block.iter().map(|tx| &tx.sender), &next, 0);
        included += block.len() as u64;
    }
    senders.into_iter().for_each(|thread| thread.join().expect("it ends well"));
    assert_eq!(pool.status(), Status::default());
}

#[test]
fn a_block_is_made_of_no_more_bytes_than_it_may_have() {
    let (pool, world) = (pool(|_| {}), World::new(64, u64::MAX));
    for from in 0..64 {
        let tx = legacy(from, |tx| (tx.input, tx.gas_limit) = (Bytes::from(vec![0; 120_000]), 2_000_000));
        assert_eq!(add(&pool, &tx, &world), Ok(()));
    }
    let bytes: usize = pool.best(0, 1 << 30).iter().map(|tx| tx.raw.len()).sum();
    assert!((BLOCK_BYTES - 130_000..=BLOCK_BYTES).contains(&bytes), "{bytes}");
    // EIP-7934, with the block's other parts: the side ledger's transactions withdraw at most once in 150 bytes.
    let withdrawals = crate::side::BLOCK_BYTES_MAX / 150 * 45;
    assert!((BLOCK_BYTES + withdrawals + 10_000) as u64 <= crate::block::SIZE_MAX);
}

#[test]
fn a_view_of_blocks_that_are_taken_back_does_not_deceive_the_pool() {
    let world = World::new(2, 10_000_000);
    let pool = pool(|_| {});
    let seen = pool.resets();
    let undone = world.with(sender(0), |state| state.nonce = 4).with(sender(1), |state| state.nonce = 1);
    pool.after_block(&[], [], &undone, 7);
    pool.reset(&world, 7);
    // A caller comes with the state of a block that is gone, though of a greater height.
    let tx = legacy(0, |_| {});
    assert_eq!(pool.add_seen(vec![tx.clone()], &undone, 7, GAS_LIMIT, seen), [Ok(())]);
    let next = world.with(sender(0), |state| state.nonce = 1);
    pool.after_block(&[tx], [&sender(0)], &next, 7);
    assert_eq!((pool.status().pending, pool.status().queued), (0, 0));
}

#[test]
fn whatever_comes_and_goes_at_once_has_a_fate_or_is_here() {
    let (pool, world) = (pool(|_| {}), World::new(1, 10_000_000));
    let tx = legacy(0, |_| {});
    for _ in 0..300 {
        std::thread::scope(|scope| {
            scope.spawn(|| add(&pool, &tx, &world));
            scope.spawn(|| while !pool.remove(&tx.hash, DropReason::Demand) {});
            scope.spawn(|| add(&pool, &tx, &world));
        });
        assert_ne!(pool.get(&tx.hash).is_some(), pool.fate(&tx.hash).is_some());
        pool.remove(&tx.hash, DropReason::Demand);
    }
}
