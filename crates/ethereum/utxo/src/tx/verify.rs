//! Signatures of transactions, in bursts.

use std::sync::Arc;

use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig, VerifyItem};
use parking_lot::Mutex;

use super::{SharedTx, Tx, TxError};
use crate::address::OwnerKey;

/// Prefix of the id in the signed message, so that no other protocol's message is a valid signature here.
const DOMAIN: &[u8; 19] = b"hearth utxo spend 1";

/// An owner and the owner's signature.
pub(super) struct Witness {
    pub owner: OwnerKey,
    pub signature: [u8; 64],
}

/// A transaction that decodes; nothing is known of its signatures.
#[derive(Clone, Debug)]
pub struct UnverifiedTx {
    pub(super) tx: Tx,
    pub(super) signatures: Vec<[u8; 64]>,
}

impl UnverifiedTx {
    /// Accepts a transaction of our own log without verification; its signatures were verified before it was written.
    pub(crate) fn trusted(self) -> SharedTx {
        Arc::new(self.tx)
    }

    /// Id of the transaction.
    pub fn id(&self) -> alloy_primitives::B256 {
        self.tx.id
    }

    /// The asset that it makes, where it makes one.
    pub fn new_asset(&self) -> Option<crate::AssetId> {
        self.tx.new_asset()
    }

    fn message(&self) -> [u8; 51] {
        message(&self.tx.id)
    }
}

fn message(id: &alloy_primitives::B256) -> [u8; 51] {
    let mut message = [0; 51];
    message[..19].copy_from_slice(DOMAIN);
    message[19..].copy_from_slice(&id.0);
    message
}

pub(super) fn sign(id: &alloy_primitives::B256, key: &SigningKey) -> Witness {
    Witness { owner: OwnerKey(key.public_key()), signature: key.sign(&message(id)) }
}

/// Verifies bursts, and is faster for owners that it meets again.
///
/// memory  8 MB of tables at most
pub struct Checker(Mutex<Verifier>);

impl Default for Checker {
    fn default() -> Self {
        let config = VerifierConfig { cache_bytes: 8 << 20, ..VerifierConfig::default() };
        Self(Mutex::new(Verifier::new(config)))
    }
}

impl Checker {
    /// Verifies all signatures of `burst`; one result per transaction, in order.
    pub fn verify(&self, burst: Vec<UnverifiedTx>) -> Vec<Result<SharedTx, TxError>> {
        // A verifier that panicked half way holds tables only, and a table is whole before it is found.
        verify(&mut self.0.lock(), burst)
    }
}

/// Verifies all signatures of `burst`; one result per transaction, in order.
pub fn verify(verifier: &mut Verifier, burst: Vec<UnverifiedTx>) -> Vec<Result<SharedTx, TxError>> {
    let messages: Vec<[u8; 51]> = burst.iter().map(UnverifiedTx::message).collect();
    let items: Vec<VerifyItem<'_>> = burst
        .iter()
        .zip(&messages)
        .flat_map(|(one, message)| {
            let signed = one.tx.owners.iter().zip(&one.signatures);
            signed.map(|(owner, signature)| VerifyItem { public_key: &owner.0, signature, message })
        })
        .collect();
    let mut verdicts = Vec::new();
    verifier.verify_burst(&items, &mut verdicts);
    let mut verdicts = verdicts.into_iter();
    let judge = |one: &UnverifiedTx| {
        // Each transaction consumes all of its own verdicts, even if the first one fails.
        let own: Vec<_> = verdicts.by_ref().take(one.tx.owners.len()).collect();
        own.iter().position(Result::is_err)
    };
    let wrong: Vec<Option<usize>> = burst.iter().map(judge).collect();
    burst
        .into_iter()
        .zip(wrong)
        .map(|(one, wrong)| match wrong {
            Some(at) => Err(TxError::Signature(one.tx.owners[at])),
            None => Ok(one.trusted()),
        })
        .collect()
}
