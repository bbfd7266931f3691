//! Helpers for this crate's tests.

use alloy_primitives::B256;
use hearth_crypto::ed25519::SigningKey;

use crate::ledger::{Head, Ledger};
use crate::prism::Incoming;
use crate::tx::{Action, Builder, Checker, SharedTx, decode};
use crate::{AssetId, OutPoint, Output, OwnerKey};

pub const CHAIN: u64 = 31337;

pub fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&[n; 32])
}

pub fn owner(n: u8) -> OwnerKey {
    OwnerKey(key(n).public_key())
}

/// A ledger in memory without blocks.
pub fn empty() -> Ledger {
    Ledger::open(None, CHAIN, &Head { number: 0, hash_of: &|_| None, commitment: None }).unwrap()
}

pub fn hash(number: u64) -> B256 {
    B256::with_last_byte(number as u8)
}

/// Units for an owner, from the EVM.
pub fn came(n: u8, amount: u64, transaction: u64) -> Incoming {
    let transaction = B256::from(alloy_primitives::U256::from(transaction));
    Incoming { transaction, log: 0, sender: Default::default(), owner: owner(n), amount }
}

/// A ledger whose first block gives each of these owners this many units.
pub fn funded(of: &[(u8, u64)]) -> Ledger {
    let ledger = empty();
    let mut session = ledger.begin();
    let came: Vec<_> = of.iter().enumerate().map(|(at, (n, amount))| came(*n, *amount, at as u64)).collect();
    session.receive(1, &came);
    ledger.commit(1, hash(1), session).unwrap();
    ledger
}

pub fn all_of(ledger: &Ledger, n: u8) -> Vec<(OutPoint, Output)> {
    ledger.outputs_of(&owner(n), None, usize::MAX)
}

/// The transaction of these bytes, verified.
pub fn shared(raw: &[u8]) -> SharedTx {
    let checker = Checker::default();
    checker.verify(vec![decode(raw, CHAIN).unwrap()]).remove(0).unwrap()
}

/// Pays from one owner to another.
pub fn pay(available: &[(OutPoint, Output)], from: u8, to: u8, asset: AssetId, amount: u64) -> SharedTx {
    let outputs = vec![Output { asset, amount, owner: owner(to), memo: b"memo".as_slice().into() }];
    let key = key(from);
    let builder = Builder { chain_id: CHAIN, key: &key, available, outputs, action: Action::Transfer };
    shared(&builder.build().unwrap())
}
