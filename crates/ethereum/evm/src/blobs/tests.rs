//! Sidecars good and bad, the pool's rules for blobs, and blocks with them.

use std::sync::{Arc, LazyLock};

use alloy_consensus::{TxEip1559, TxEip4844};
use alloy_primitives::{Address, Bytes, TxKind, U256};

use super::*;
use crate::builders::{account, rich, riches, sidecar, sidecar_by_cell, signer, with_blobs};
use crate::chain::{BlockTime, Chain, ChainConfig, SubmitError};
use crate::exec::{BlockEnv, Verdict, execute};
use crate::genesis::Genesis;
use crate::parallel::execute_parallel;
use crate::pool::PoolConfig;
use crate::state::{AccountChange, State};
use crate::tx::{SharedTx, Tx, TypedTransaction, join_network};

const CHAIN: u64 = 31337;

/// Made once: the proofs take a moment.
static PLAIN: LazyLock<Sidecar> = LazyLock::new(|| sidecar(1));
static BY_CELL: LazyLock<Sidecar> = LazyLock::new(|| sidecar_by_cell(1));

fn hashes(sidecar: &Sidecar) -> Vec<B256> {
    sidecar.versioned_hashes().collect()
}

/// The same with another proof, commitment or blob.
fn changed(change: impl FnOnce(&mut alloy_eips::eip4844::BlobTransactionSidecar)) -> Sidecar {
    let mut plain = PLAIN.clone().into_eip4844().expect("it has a proof a blob");
    change(&mut plain);
    Sidecar::Eip4844(plain)
}

#[test]
fn a_sidecar_is_of_its_forks_version() {
    let named = hashes(&PLAIN);
    assert_eq!(verify(PLAIN.clone(), &named, SpecId::PRAGUE).as_ref(), Ok(&*PLAIN));
    assert_eq!(verify(BY_CELL.clone(), &named, SpecId::OSAKA).as_ref(), Ok(&*BY_CELL));
    assert_eq!(verify(PLAIN.clone(), &named, SpecId::OSAKA).as_ref(), Ok(&*BY_CELL), "an older client's is converted");
    let early = verify(BY_CELL.clone(), &named, SpecId::PRAGUE);
    assert_eq!(early, Err(SidecarError::Version { want: 0, got: 1 }));
}

#[test]
fn a_wrong_sidecar_is_refused_in_geths_words() {
    let named = hashes(&PLAIN);
    let said =
        |sidecar: Sidecar, named: &[B256]| verify(sidecar, named, SpecId::PRAGUE).expect_err("it is wrong").to_string();
    let wrong_proof = said(changed(|sidecar| sidecar.proofs[0] = sidecar.commitments[0]), &named);
    assert!(wrong_proof.starts_with("KZG verification error: "), "{wrong_proof}");
    let wrong_blob = said(changed(|sidecar| sidecar.blobs[0][31] ^= 1), &named);
    assert!(wrong_blob.starts_with("KZG verification error: "), "{wrong_blob}");
    let other = changed(|sidecar| sidecar.commitments[0] = sidecar.proofs[0]);
    let wrong_commitment = said(other.clone(), &named);
    assert!(wrong_commitment.contains("mismatches transaction one"), "{wrong_commitment}");
    // A commitment to another blob stays wrong where the transaction names it.
    let named_so = said(other.clone(), &hashes(&other));
    assert!(named_so.starts_with("KZG verification error: "), "{named_so}");
    let wrong_hash = said(PLAIN.clone(), &[B256::repeat_byte(1)]);
    assert!(wrong_hash.starts_with("blob 0: computed hash 0x01"), "{wrong_hash}");
    assert_eq!(said(PLAIN.clone(), &[]), "invalid number of 1 blobs compared to 0 blob hashes");
    let commitments = said(changed(|sidecar| sidecar.commitments.clear()), &named);
    assert_eq!(commitments, "invalid number of 0 blob commitments compared to 1 blob hashes");
    let proofs = said(changed(|sidecar| sidecar.proofs.clear()), &named);
    assert_eq!(proofs, "invalid number of 0 blob proofs expected 1");
}

#[test]
fn the_price_follows_what_was_used() {
    let cancun = BlobEnv::after(BlobParams::cancun(), 0, 6 * GAS_PER_BLOB, 1_000_000_000);
    assert_eq!((cancun.excess_gas, cancun.price()), (3 * GAS_PER_BLOB, 1));
    assert_eq!(BlobEnv::after(BlobParams::cancun(), cancun.excess_gas, 0, 0).excess_gas, 0);
    // EIP-7918: if blobs cost nearly nothing compared with gas, the excess never falls.
    let osaka = BlobParams::osaka();
    let full = BlobEnv::after(osaka, 10 * GAS_PER_BLOB, 9 * GAS_PER_BLOB, 1_000_000_000);
    assert_eq!(full.excess_gas, 13 * GAS_PER_BLOB, "10 and 9 × (9 - 6) / 9");
    assert_eq!(BlobEnv::after(osaka, 10 * GAS_PER_BLOB, 0, 1_000_000_000).excess_gas, 10 * GAS_PER_BLOB);
    assert_eq!(BlobEnv::after(osaka, 10 * GAS_PER_BLOB, 0, 7).excess_gas, 4 * GAS_PER_BLOB);
    // What no chain comes to, but a genesis may say.
    let absurd = BlobEnv::after(osaka, u64::MAX, GAS_PER_BLOB, 7);
    assert_eq!((absurd.excess_gas, absurd.price()), (u64::MAX - 6 * GAS_PER_BLOB, u128::MAX));
}

#[test]
fn sidecars_are_kept_within_bounds() {
    let one = Arc::new(PLAIN.clone());
    let sidecars = Sidecars::new(2 * one.size(), 4);
    let [a, b, c] = [1, 2, 3].map(B256::repeat_byte);
    assert!(sidecars.put(a, one.clone()) && sidecars.put(b, one.clone()) && sidecars.put(a, one.clone()));
    assert!(!sidecars.put(c, one.clone()), "both of the others wait");
    sidecars.include(1, [&a]);
    sidecars.forget(&a);
    assert!(sidecars.get(&a).is_some(), "a block has it");
    assert!(sidecars.put(c, one.clone()), "it takes the place of an included one");
    assert!(sidecars.get(&a).is_some(), "unless the pool refuses it");
    sidecars.forget(&c);
    sidecars.make_room();
    assert!(sidecars.get(&a).is_some() && sidecars.put(c, one.clone()));
    sidecars.make_room();
    assert!(sidecars.get(&a).is_none() && sidecars.get(&b).is_some());
    sidecars.include(10, [&b]);
    sidecars.include(14, []);
    assert!(sidecars.get(&b).is_some());
    sidecars.include(15, []);
    assert!(sidecars.get(&b).is_none(), "its block is five blocks back");
    assert_eq!(sidecars.bytes(), one.size());
    sidecars.put(a, one.clone());
    sidecars.include(16, [&a]);
    sidecars.rewind(16);
    assert!(sidecars.get(&a).is_some());
    sidecars.rewind(15);
    assert!(sidecars.get(&a).is_none() && sidecars.put(a, one.clone()), "as if it had never been in a block");
    sidecars.forget(&a);
    assert!(sidecars.find_blob(&hashes(&one)[0]).is_some() && sidecars.find_blob(&a).is_none());
    sidecars.forget(&c);
    assert_eq!(sidecars.bytes(), 0);
}

fn config(block_time: BlockTime) -> ChainConfig {
    let genesis = Genesis::dev(CHAIN, &rich(1..=60), 500_000_000);
    ChainConfig { block_time, ..ChainConfig::new(genesis) }
}

fn chain() -> Chain {
    Chain::open(config(BlockTime::Manual)).expect("it opens")
}

fn signed(tx: TxEip4844, seed: u8) -> Tx {
    Tx::signed(TypedTransaction::Eip4844(tx), &signer(seed))
}

fn network(tx: &Tx, sidecar: &Sidecar) -> Bytes {
    join_network(tx, sidecar).into()
}

fn one(mut results: Vec<Result<B256, SubmitError>>) -> Result<B256, String> {
    results.pop().expect("one for one").map_err(|error| error.to_string())
}

/// The pool's answer to a transaction without its sidecar.
fn bare(chain: &Chain, tx: TxEip4844, seed: u8) -> Result<B256, String> {
    one(chain.submit_bare(vec![signed(tx, seed).raw]))
}

#[test]
fn a_blob_transaction_lands_and_its_sidecar_is_kept() {
    let chain = chain();
    let tx = signed(with_blobs(CHAIN, 0, &BY_CELL), 1);
    let missing = Err("missing sidecar in blob transaction".to_owned());
    assert_eq!(one(chain.submit(vec![tx.raw.clone()])), missing);
    assert_eq!(one(chain.submit(vec![network(&tx, &PLAIN)])), Ok(tx.hash), "an older client's");
    assert_eq!(one(chain.submit(vec![network(&tx, &BY_CELL)])), Err("already known".to_owned()));
    let block = chain.mine().expect("it is made");
    assert_eq!(block.txs.iter().map(|tx| tx.hash).collect::<Vec<_>>(), [tx.hash]);
    assert_eq!(block.txs[0].raw, tx.raw, "a block has no blobs");
    assert_eq!((block.header.blob_gas_used, block.header.excess_blob_gas), (Some(GAS_PER_BLOB), Some(0)));
    assert_eq!(chain.pool().sidecars().get(&tx.hash).as_deref(), Some(&*BY_CELL));
    let spent = riches() - chain.view().account(&account(1)).expect("it is there").balance;
    let gas = block.receipts[0].effective_gas_price * 21_000;
    assert_eq!(spent, U256::from(gas + u128::from(GAS_PER_BLOB) + 1), "at one wei for a unit of blob gas");
    let late = one(chain.submit(vec![network(&tx, &BY_CELL)])).expect_err("it is in a block");
    assert!(late.starts_with("nonce too low"), "{late}");
    assert!(chain.pool().sidecars().get(&tx.hash).is_some(), "what is refused takes nothing away");
}

#[test]
fn a_refused_transaction_leaves_no_sidecar() {
    let chain = chain();
    let poor = signed(with_blobs(CHAIN, 0, &BY_CELL), 200);
    let refused = one(chain.submit(vec![network(&poor, &BY_CELL)])).expect_err("it has nothing");
    assert!(refused.starts_with("insufficient funds"), "{refused}");
    assert_eq!(chain.pool().sidecars().bytes(), 0);
    let proof = changed(|sidecar| sidecar.proofs[0] = sidecar.commitments[0]);
    let tx = signed(with_blobs(CHAIN, 0, &proof), 1);
    let refused = one(chain.submit(vec![network(&tx, &proof)])).expect_err("its proof is wrong");
    assert!(refused.starts_with("KZG verification error"), "{refused}");
    assert!(chain.pool().get(&tx.hash).is_none());
}

#[test]
fn the_pool_judges_as_geths_pool_of_blobs() {
    let chain = chain();
    let tx = |nonce: u64| with_blobs(CHAIN, nonce, &PLAIN);
    let said = |tx: TxEip4844| bare(&chain, tx, 1).expect_err("it is refused");
    let many = TxEip4844 { blob_versioned_hashes: vec![hashes(&PLAIN)[0]; 7], ..tx(0) };
    assert_eq!(said(many), "too many blobs in transaction: have 7, permitted 6");
    assert_eq!(said(TxEip4844 { blob_versioned_hashes: vec![], ..tx(0) }), "blobless blob transaction");
    let version = TxEip4844 { blob_versioned_hashes: vec![B256::repeat_byte(2)], ..tx(0) };
    assert_eq!(said(version), "blob 0 has invalid hash version");
    let free = said(TxEip4844 { max_fee_per_blob_gas: 0, ..tx(0) });
    assert_eq!(free, "transaction gas price below minimum: blob fee cap 0, minimum needed 1");
    let dear = said(TxEip4844 { max_fee_per_blob_gas: 10u128.pow(22), ..tx(0) });
    assert!(dear.starts_with("insufficient funds"), "{dear}");
    assert_eq!(said(tx(1)), "nonce too high: tx nonce 1, gapped nonce 0");
    bare(&chain, tx(0), 1).expect("it is good");
    let plain = TxEip1559 { chain_id: CHAIN, nonce: 1, gas_limit: 21_000, max_fee_per_gas: 1 << 40, ..tx_to() };
    let plain = Tx::signed(plain.into(), &signer(1)).raw;
    assert_eq!(one(chain.submit(vec![plain])), Err("address already reserved".to_owned()));
    for nonce in 1..16 {
        bare(&chain, tx(nonce), 1).expect("it follows");
    }
    assert_eq!(said(tx(16)), "account limit exceeded: pooled 16 txs");
}

fn tx_to() -> TxEip1559 {
    TxEip1559 { to: TxKind::Call(Address::repeat_byte(0x77)), ..Default::default() }
}

#[test]
fn a_replacement_pays_twice_as_much() {
    let chain = chain();
    let old = with_blobs(CHAIN, 0, &BY_CELL);
    let first = signed(old.clone(), 1);
    one(chain.submit(vec![network(&first, &BY_CELL)])).expect("it is good");
    let twice = TxEip4844 {
        max_fee_per_gas: 2 * old.max_fee_per_gas,
        max_priority_fee_per_gas: 2 * old.max_priority_fee_per_gas,
        max_fee_per_blob_gas: 2 * old.max_fee_per_blob_gas,
        ..old.clone()
    };
    let too_little = [
        TxEip4844 { max_fee_per_gas: twice.max_fee_per_gas - 1, ..twice.clone() },
        TxEip4844 { max_priority_fee_per_gas: twice.max_priority_fee_per_gas - 1, ..twice.clone() },
        TxEip4844 { max_fee_per_blob_gas: twice.max_fee_per_blob_gas - 1, ..twice.clone() },
    ];
    for tx in too_little {
        let tx = signed(tx, 1);
        let said = one(chain.submit(vec![network(&tx, &BY_CELL)]));
        assert_eq!(said, Err("replacement transaction underpriced".to_owned()));
        assert!(chain.pool().sidecars().get(&tx.hash).is_none());
    }
    let second = signed(twice, 1);
    one(chain.submit(vec![network(&second, &BY_CELL)])).expect("it pays enough");
    let sidecars = chain.pool().sidecars();
    assert!(sidecars.get(&first.hash).is_none() && sidecars.get(&second.hash).is_some());
}

#[test]
fn a_block_holds_as_many_blobs_as_its_fork_allows() {
    let chain = chain();
    for seed in 1..=12 {
        bare(&chain, with_blobs(CHAIN, 0, &PLAIN), seed).expect("it is good");
    }
    let first = chain.mine().expect("it is made");
    assert_eq!((first.txs.len(), first.header.blob_gas_used), (9, Some(9 * GAS_PER_BLOB)));
    let second = chain.mine().expect("it is made");
    assert_eq!((second.txs.len(), second.header.blob_gas_used), (3, Some(3 * GAS_PER_BLOB)));
    assert!(second.header.excess_blob_gas > Some(0));
    assert_eq!(chain.env_of(&second).blobs, chain.blobs_after(&first));
}

#[test]
fn a_transaction_waits_until_blobs_are_cheap_enough() {
    let genesis = Genesis { excess_blob_gas: 50_000_000, ..config(BlockTime::Manual).genesis };
    let chain = Chain::open(ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) });
    let chain = chain.expect("it opens");
    let price = chain.blobs_after(&chain.head()).price();
    assert!(price > 1_000, "{price}");
    let cheap = TxEip4844 { max_fee_per_blob_gas: price - 1, ..with_blobs(CHAIN, 0, &PLAIN) };
    let hash = bare(&chain, cheap, 1).expect("it may wait");
    let obstacle = chain.pool().obstacle(&hash).expect("there is one").to_string();
    assert!(obstacle.contains("blob gas") && chain.pool().are_next([&hash]) == [false], "{obstacle}");
    assert!(chain.mine().expect("it is made").txs.is_empty());
    let enough = TxEip4844 { max_fee_per_blob_gas: price, ..with_blobs(CHAIN, 0, &PLAIN) };
    let hash = bare(&chain, enough, 2).expect("it is good");
    assert_eq!(chain.mine().expect("it is made").txs.iter().map(|tx| tx.hash).collect::<Vec<_>>(), [hash]);
}

#[test]
fn serial_and_parallel_execution_agree() {
    let genesis = Genesis::dev(CHAIN, &rich(1..=120), 500_000_000);
    let state = State::open(None, &genesis).expect("in memory");
    let env = BlockEnv {
        number: 1,
        timestamp: 1,
        beneficiary: Address::repeat_byte(0xbe),
        gas_limit: 500_000_000,
        base_fee: 1_000_000_000,
        prevrandao: B256::ZERO,
        parent_hash: Some(B256::repeat_byte(1)),
        parent_beacon_block_root: Some(B256::ZERO),
        blobs: BlobEnv { excess_gas: 50_000_000, ..Default::default() },
        chain_id: CHAIN,
        spec: SpecId::OSAKA,
        limits: Default::default(),
        deposit_contract: Default::default(),
    };
    let price = env.blobs.price();
    let fee = 1_000_000_000;
    // Each as plain as a transfer but for its blob; every third one offers too little for that.
    let txs: Vec<SharedTx> = (1..=120u8)
        .map(|seed| {
            let cap = if seed % 3 == 0 { price - 1 } else { price };
            let tx = TxEip4844 { gas_limit: 400_000, max_fee_per_blob_gas: cap, ..with_blobs(CHAIN, 0, &PLAIN) };
            let plain = TxEip1559 { chain_id: CHAIN, gas_limit: 400_000, max_fee_per_gas: 2 * fee, ..tx_to() };
            let plain = TxEip1559 { value: U256::from(1), ..plain };
            let tx: TypedTransaction = if seed % 2 == 0 { tx.into() } else { plain.into() };
            Arc::new(Tx::signed(tx, &signer(seed)))
        })
        .collect();
    let serial = execute(&state.head(), &env, &txs);
    let is_in = |at: usize| matches!(serial.verdicts[at], Verdict::Included(_));
    let with_blobs = (0..txs.len()).filter(|at| txs[*at].envelope.is_eip4844());
    assert_eq!(with_blobs.filter(|at| is_in(*at)).count(), 9, "no more fit");
    assert!((0..txs.len()).filter(|at| !txs[*at].envelope.is_eip4844()).all(is_in));
    let spent = |seed: u8| {
        let info = serial.changes.accounts[&account(seed)].info.as_ref().expect("it is there");
        riches() - info.balance
    };
    let tip = 1_000_000_000;
    let expected = (fee + tip) * 21_000 + price * u128::from(GAS_PER_BLOB) + 1;
    assert_eq!(spent(2), U256::from(expected));
    for threads in [1, 2, 4] {
        let parallel = execute_parallel(&state.head(), &env, &txs, threads);
        assert_eq!(parallel.verdicts, serial.verdicts, "{threads} threads");
        let others = [env.beneficiary, Address::repeat_byte(0x77)];
        for address in (1..=120).map(account).chain(others) {
            let [one, other] = [&serial, &parallel].map(|executed| executed.changes.accounts.get(&address));
            let info = |change: Option<&AccountChange>| {
                let info = change.and_then(|change| change.info.as_ref());
                info.map(|info| (info.nonce, info.balance))
            };
            assert_eq!(info(one), info(other), "{address}, {threads} threads");
        }
    }
}

#[test]
fn blobs_that_wait_outlive_the_program() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = || {
        let config = ChainConfig { dir: Some(dir.path().to_owned()), ..config(BlockTime::Manual) };
        Chain::open(config).expect("it opens")
    };
    let tx = signed(with_blobs(CHAIN, 0, &BY_CELL), 1);
    let chain = open();
    one(chain.submit(vec![network(&tx, &BY_CELL)])).expect("it is good");
    chain.stop();
    drop(chain);
    let chain = open();
    assert_eq!(chain.pool().get(&tx.hash).map(|tx| tx.raw.clone()), Some(tx.raw.clone()));
    assert_eq!(chain.pool().sidecars().get(&tx.hash).as_deref(), Some(&*BY_CELL));
    let block = chain.mine().expect("it is made");
    assert_eq!(block.txs.len(), 1);
    chain.stop();
    drop(chain);
    let chain = open();
    assert_eq!(chain.head().hash, block.hash);
    let (kept, index) = chain.tx(&tx.hash).expect("it is in the block");
    assert_eq!(kept.txs[index].raw, tx.raw);
    assert_eq!(chain.mine().expect("it is made").header.parent_hash, block.hash);
}

/// Bytes of [`BY_CELL`] as it is stored.
fn fitted_size() -> usize {
    let Sidecar::Eip7594(mut sidecar) = BY_CELL.clone() else { panic!("it has proofs of cells") };
    sidecar.shrink_to_fit();
    sidecar.size()
}

/// Room for the sidecar of one transaction.
fn narrow(dir: Option<std::path::PathBuf>) -> ChainConfig {
    let pool = PoolConfig { sidecar_bytes: fitted_size(), ..PoolConfig::default() };
    ChainConfig { pool, dir, ..config(BlockTime::Manual) }
}

#[test]
fn unfunded_sender_evicts_no_sidecar() {
    let chain = Chain::open(narrow(None)).expect("it opens");
    let [first, second] = [1, 2].map(|seed| signed(with_blobs(CHAIN, 0, &BY_CELL), seed));
    one(chain.submit(vec![network(&first, &BY_CELL)])).expect("it is good");
    chain.mine().expect("it is made");
    let poor = signed(with_blobs(CHAIN, 0, &BY_CELL), 200);
    one(chain.submit(vec![network(&poor, &BY_CELL)])).expect_err("it has nothing");
    assert!(chain.pool().sidecars().get(&first.hash).is_some());
    one(chain.submit(vec![network(&second, &BY_CELL)])).expect("it is good");
    assert!(chain.pool().sidecars().get(&first.hash).is_none() && chain.pool().sidecars().get(&second.hash).is_some());
}

#[test]
fn after_a_restart_included_blobs_take_no_room_from_those_that_wait() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = || Chain::open(narrow(Some(dir.path().to_owned()))).expect("it opens");
    let [first, second] = [1, 2].map(|seed| signed(with_blobs(CHAIN, 0, &BY_CELL), seed));
    let chain = open();
    one(chain.submit(vec![network(&first, &BY_CELL)])).expect("it is good");
    chain.mine().expect("it is made");
    one(chain.submit(vec![network(&second, &BY_CELL)])).expect("it is good");
    chain.stop();
    drop(chain);
    let chain = open();
    assert!(chain.pool().get(&second.hash).is_some());
    assert_eq!(chain.pool().sidecars().get(&second.hash).as_deref(), Some(&*BY_CELL));
    assert_eq!(chain.pool().sidecars().bytes(), fitted_size());
}

#[test]
fn a_transaction_has_no_more_blobs_than_a_block_holds() {
    let bounds = r#"{"target": 1, "max": 2, "baseFeeUpdateFraction": 5007716}"#;
    let params: BlobParams = serde_json::from_str(bounds).expect("it reads");
    let blob_schedule = [("osaka".to_owned(), params)].into();
    let blobs = BlobSchedule::from_config(&alloy_genesis::ChainConfig { blob_schedule, ..Default::default() });
    let genesis = Genesis { blobs: blobs.expect("a good one"), ..config(BlockTime::Manual).genesis };
    let chain = Chain::open(ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) });
    let hash = hashes(&PLAIN)[0];
    let of = |count| TxEip4844 { blob_versioned_hashes: vec![hash; count], ..with_blobs(CHAIN, 0, &PLAIN) };
    let chain = chain.expect("it opens");
    let many = bare(&chain, of(3), 1);
    assert_eq!(many, Err("too many blobs in transaction: have 3, permitted 2".to_owned()));
    bare(&chain, of(2), 1).expect("they fit");
}
