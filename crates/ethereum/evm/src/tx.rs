//! A transaction in the node: decoded once, its sender recovered once, then shared.
//!
//! reads   raw transactions as clients send them
//! writes  [`SharedTx`]: the pool, the blocks and the answers to clients share it
//! memory  of a transaction at most [`SIZE_MAX`] bytes and their decoded form, [`NETWORK_SIZE_MAX`] with blobs; one
//!         `Recoverer` per recovering thread
//! drops   input that does not decode or has no valid sender, with an error in geth's words
//! source  EIP-155, 2718, 2930, 1559, 4844, 7594, 7702; the words are geth's
//!
//! A blob transaction has two forms. Clients send the network form, which includes the sidecar; blocks, hashes and
//! [`Tx::raw`] use the form without. The sidecar is verified on arrival, and stored separately ([`crate::blobs`]). The
//! pool's limits do not apply to transactions of imported blocks ([`decode_in_block`]).

use std::cell::RefCell;
use std::sync::Arc;

use alloy_consensus::transaction::SignableTransaction;
use alloy_consensus::{EthereumTxEnvelope, EthereumTypedTransaction, Transaction, TxEip4844};
use alloy_eips::eip2718::{Decodable2718, Eip2718Error, Encodable2718};
use alloy_eips::eip7594::{Decodable7594, Encodable7594};
use alloy_eips::eip7702::{RecoveredAuthority, RecoveredAuthorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, U256};
use hearth_crypto::keccak::{keccak256, keccak256_burst};
use hearth_crypto::secp256k1::{Arithmetic, HighS, RecoverItem, Recoverer, Signer, address_burst};
use revm::context::either::Either;
use revm::primitives::hardfork::SpecId;

use crate::blobs::{self, SharedSidecar, Sidecar, SidecarError};
use crate::limits::TX_GAS_CAP;

/// The largest raw transaction, in bytes: geth's limit.
pub const SIZE_MAX: usize = 128 * 1024;

/// The largest blob transaction with its sidecar, in bytes: geth's limit. Six blobs with proofs of cells have 824 KB.
pub const NETWORK_SIZE_MAX: usize = 1 << 20;

/// EIP-2718's byte of a blob transaction.
const BLOB_TYPE: u8 = 3;

/// Transactions of the types that Ethereum has.
pub type TxEnvelope = EthereumTxEnvelope<TxEip4844>;

/// The signed part of a transaction.
pub type TypedTransaction = EthereumTypedTransaction<TxEip4844>;

/// A transaction with its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tx {
    /// The EIP-2718 encoding as in a block: without a sidecar.
    pub raw: Bytes,
    /// The decoded transaction with its signature.
    pub envelope: TxEnvelope,
    /// Keccak-256 of `raw`: the hash by which clients name the transaction.
    pub hash: B256,
    /// The address that signed it.
    pub sender: Address,
    /// The authority of each tuple of the authorization list, in order; `None` for an invalid signature.
    pub authorities: Vec<Option<Address>>,
}

/// A transaction that the pool, blocks and threads share without copying it.
pub type SharedTx = Arc<Tx>;

impl Tx {
    /// Creates a transaction with a known sender: that of an impersonated account, or one whose sender a trusted store
    /// remembers.
    pub fn with_sender(envelope: TxEnvelope, sender: Address) -> Self {
        let authorities = recover_authorities(&envelope);
        Self::with_authorities(envelope, sender, authorities)
    }

    /// As [`Tx::with_sender`], if the store also remembers the authorities.
    pub fn with_authorities(envelope: TxEnvelope, sender: Address, authorities: Vec<Option<Address>>) -> Self {
        let raw = Bytes::from(envelope.encoded_2718());
        let hash = B256::from(keccak256(&raw));
        Self { raw, envelope, hash, sender, authorities }
    }

    /// Creates a transaction that `signer` signs, with its address as the sender.
    pub fn signed(transaction: TypedTransaction, signer: &Signer) -> Self {
        let signature = signer.sign(&transaction.signature_hash().0);
        let (r, s) = (U256::from_be_bytes(signature.r), U256::from_be_bytes(signature.s));
        let envelope = TxEnvelope::new_unhashed(transaction, Signature::new(r, s, signature.odd));
        Self::with_sender(envelope, Address::from(signer.address()))
    }

    /// Returns the fake signature of an impersonated account's transaction. It contains the account, so that equal
    /// transactions of different accounts have different hashes.
    pub fn impersonated_signature(account: &Address) -> Signature {
        let account = U256::from_be_slice(account.as_slice());
        Signature::new(account, account, false)
    }

    /// Returns whether its account is impersonated. No signed transaction is mistaken for one: a signature of this form
    /// that recovers to its own account would have to be found among 2^160.
    pub fn is_impersonated(&self) -> bool {
        *self.envelope.signature() == Self::impersonated_signature(&self.sender)
    }

    /// Wei per unit of gas that this transaction pays in a block of that base fee.
    pub fn effective_gas_price(&self, base_fee: u64) -> u128 {
        self.envelope.effective_gas_price(Some(base_fee))
    }
}

/// Why a transaction is not taken, in geth's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TxError {
    /// Not one RLP item of the shape that the type has.
    #[error("rlp: {0}")]
    Rlp(String),
    /// Nothing, or a type and nothing else.
    #[error("typed transaction too short")]
    TooShort,
    /// A type that does not exist.
    #[error("transaction type not supported")]
    Type,
    /// The sidecar of a blob transaction is missing or invalid.
    #[error(transparent)]
    Sidecar(#[from] SidecarError),
    /// It is signed for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    ChainId {
        /// The transaction's chain id.
        have: u64,
        /// The chain id (EIP-155) of this chain.
        want: u64,
    },
    /// The signature is invalid.
    #[error("invalid sender")]
    Sender,
    /// Less gas than its authorization list costs.
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas {
        /// The transaction's gas limit.
        gas: u64,
        /// The least gas of a transaction with so many authorizations.
        needed: u64,
    },
    /// More gas than a transaction with an authorization list may have here, under whatever fork (EIP-7825).
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas})")]
    GasLimitTooHigh {
        /// The most gas of a transaction with authorizations.
        cap: u64,
        /// The transaction's gas limit.
        gas: u64,
    },
    /// Larger than [`SIZE_MAX`], or with blobs than [`NETWORK_SIZE_MAX`].
    #[error("oversized data: transaction size {size}, limit {limit}")]
    Oversized {
        /// The size, in bytes.
        size: usize,
        /// The maximum, in bytes.
        limit: usize,
    },
}

/// A transaction that decodes; its sender is not known yet.
#[derive(Clone, Debug)]
pub struct UnrecoveredTx {
    raw: Bytes,
    envelope: TxEnvelope,
}

/// Decodes a raw transaction for the chain `chain_id`. A legacy transaction may be for any chain, as before EIP-155.
pub fn decode(raw: &[u8], chain_id: u64) -> Result<UnrecoveredTx, TxError> {
    if raw.len() > SIZE_MAX {
        return Err(TxError::Oversized { size: raw.len(), limit: SIZE_MAX });
    }
    let envelope = decode_envelope(raw)?;
    check_authorizations(&envelope)?;
    match envelope.chain_id() {
        Some(have) if have != chain_id => Err(TxError::ChainId { have, want: chain_id }),
        _ => Ok(UnrecoveredTx { raw: Bytes::copy_from_slice(raw), envelope }),
    }
}

/// Decodes a raw transaction of a given block. The pool's limits do not hold there: any size, any gas, and blobs. That
/// it is for this chain its execution checks.
pub fn decode_in_block(raw: &[u8]) -> Result<UnrecoveredTx, TxError> {
    Ok(UnrecoveredTx { raw: Bytes::copy_from_slice(raw), envelope: decode_envelope(raw)? })
}

/// Decodes a transaction as clients send it: a blob transaction comes with its sidecar, which is checked for a block
/// of the fork `spec`.
pub fn decode_network(
    raw: &[u8],
    chain_id: u64,
    spec: SpecId,
) -> Result<(UnrecoveredTx, Option<SharedSidecar>), TxError> {
    if raw.first() == Some(&BLOB_TYPE) && raw.len() > NETWORK_SIZE_MAX {
        return Err(TxError::Oversized { size: raw.len(), limit: NETWORK_SIZE_MAX });
    }
    let Some((signed, sidecar)) = split_network(raw)? else {
        let tx = decode(raw, chain_id)?;
        return if tx.envelope.is_eip4844() { Err(SidecarError::Missing.into()) } else { Ok((tx, None)) };
    };
    let tx = decode(&signed, chain_id)?;
    let hashes = tx.envelope.blob_versioned_hashes().unwrap_or_default();
    let sidecar = fitted(blobs::verify(sidecar, hashes, spec)?);
    Ok((tx, Some(Arc::new(sidecar))))
}

/// Without the room that decoding leaves for blobs that did not come, 128 KiB each.
fn fitted(mut sidecar: Sidecar) -> Sidecar {
    match &mut sidecar {
        Sidecar::Eip4844(sidecar) => sidecar.shrink_to_fit(),
        Sidecar::Eip7594(sidecar) => sidecar.shrink_to_fit(),
    }
    sidecar
}

/// Splits a blob transaction in its network form into the form without sidecar, and the unverified sidecar. Returns
/// `None` for everything else, transaction or not.
pub fn split_network(raw: &[u8]) -> Result<Option<(Vec<u8>, Sidecar)>, TxError> {
    let Some((&BLOB_TYPE, mut payload)) = raw.split_first() else { return Ok(None) };
    let Ok(header) = alloy_rlp::Header::decode(&mut payload) else { return Ok(None) };
    // In the form without a sidecar the first item is the chain's id.
    if !header.list || payload.first().is_none_or(|first| *first < alloy_rlp::EMPTY_LIST_CODE) {
        return Ok(None);
    }
    if header.payload_length != payload.len() {
        return Err(TxError::Rlp("input contains more than one value".into()));
    }
    let mut fields = payload;
    alloy_rlp::Header::decode_bytes(&mut fields, true).map_err(rlp_error)?;
    let signed = [&[BLOB_TYPE][..], &payload[..payload.len() - fields.len()]].concat();
    let sidecar = Sidecar::decode_7594(&mut fields).map_err(rlp_error)?;
    match fields {
        [] => Ok(Some((signed, fitted(sidecar)))),
        _ => Err(TxError::Rlp("input contains more than one value".into())),
    }
}

/// The network form of a blob transaction.
pub fn join_network(tx: &Tx, sidecar: &Sidecar) -> Vec<u8> {
    let signed = tx.raw.get(1..).unwrap_or_default();
    let header = alloy_rlp::Header { list: true, payload_length: signed.len() + sidecar.encode_7594_len() };
    let mut out = Vec::with_capacity(1 + header.length_with_payload());
    out.push(BLOB_TYPE);
    header.encode(&mut out);
    out.extend_from_slice(signed);
    sidecar.encode_7594(&mut out);
    out
}

/// Each tuple costs a recovery before anything else is known of the transaction, so its gas must be there.
fn check_authorizations(envelope: &TxEnvelope) -> Result<(), TxError> {
    let (count, gas) = (authorization_list(envelope).len() as u64, envelope.gas_limit());
    let needed = 21_000 + 25_000 * count;
    match count {
        0 => Ok(()),
        _ if gas < needed => Err(TxError::IntrinsicGas { gas, needed }),
        _ if gas > TX_GAS_CAP => Err(TxError::GasLimitTooHigh { cap: TX_GAS_CAP, gas }),
        _ => Ok(()),
    }
}

/// Decodes a raw transaction of whatever chain and size.
pub fn decode_envelope(raw: &[u8]) -> Result<TxEnvelope, TxError> {
    match raw.first() {
        None => return Err(TxError::TooShort),
        Some(1..=4) if raw.len() == 1 => return Err(TxError::TooShort),
        Some(1..=4 | 0xc0..) => {}
        Some(0..0x80) => return Err(TxError::Type),
        Some(0x80..) => return Err(TxError::Rlp("expected input list for types.LegacyTx".into())),
    }
    if raw[0] >= 0xc0 {
        // Otherwise truncated input would get the same error as malformed input.
        alloy_rlp::Header::decode(&mut &raw[..]).map_err(rlp_error)?;
    }
    let mut rest = raw;
    let envelope = TxEnvelope::decode_2718(&mut rest).map_err(|error| match error {
        Eip2718Error::RlpError(error) => rlp_error(error),
        _ if raw[0] >= 0xc0 => TxError::Rlp("too few elements for types.LegacyTx".into()),
        _ => TxError::Type,
    })?;
    match rest {
        [] => Ok(envelope),
        _ => Err(TxError::Rlp("input contains more than one value".into())),
    }
}

fn rlp_error(error: alloy_rlp::Error) -> TxError {
    match error {
        alloy_rlp::Error::InputTooShort => TxError::Rlp("unexpected EOF".into()),
        error => TxError::Rlp(error.to_string()),
    }
}

thread_local! {
    static RECOVERER: RefCell<Recoverer> = RefCell::new(Recoverer::new(Arithmetic::Detect));
}

/// Recovers the senders of a burst, and the authorities of their authorization lists, in order; an invalid transaction
/// does not affect the others. Larger bursts cost less per transaction.
pub fn recover(burst: Vec<UnrecoveredTx>) -> Vec<Result<SharedTx, TxError>> {
    let mut messages = Messages::default();
    for UnrecoveredTx { envelope, .. } in &burst {
        messages.push(envelope.signature(), |out| encode_for_signing(envelope, out));
        for authorization in authorization_list(envelope) {
            messages.push_authorization(authorization);
        }
    }
    let mut signers = messages.signers().into_iter();
    let raws: Vec<&[u8]> = burst.iter().map(|tx| &tx.raw[..]).collect();
    let mut hashes = vec![[0; 32]; raws.len()];
    keccak256_burst(&raws, &mut hashes);
    let with_hash = burst.into_iter().zip(hashes);
    with_hash
        .map(|(UnrecoveredTx { raw, envelope }, hash)| {
            let sender = signers.next().flatten();
            let authorities = signers.by_ref().take(authorization_list(&envelope).len()).collect();
            let sender = sender.ok_or(TxError::Sender)?;
            Ok(Arc::new(Tx { raw, envelope, hash: B256::from(hash), sender, authorities }))
        })
        .collect()
}

/// Decodes and recovers one transaction.
pub fn decode_one(raw: &[u8], chain_id: u64) -> Result<SharedTx, TxError> {
    recover(vec![decode(raw, chain_id)?]).pop().unwrap_or(Err(TxError::Sender))
}

/// The same of a blob transaction in its network form, too. Its sidecar is not looked at.
pub fn decode_one_as_sent(raw: &[u8], chain_id: u64) -> Result<SharedTx, TxError> {
    match split_network(raw)? {
        Some((signed, _)) => decode_one(&signed, chain_id),
        None => decode_one(raw, chain_id),
    }
}

/// Recovers the authority of each tuple of a transaction's authorization list.
fn recover_authorities(envelope: &TxEnvelope) -> Vec<Option<Address>> {
    let mut messages = Messages::default();
    authorization_list(envelope).iter().for_each(|authorization| messages.push_authorization(authorization));
    messages.signers()
}

fn authorization_list(envelope: &TxEnvelope) -> &[SignedAuthorization] {
    envelope.authorization_list().unwrap_or_default()
}

fn encode_for_signing(envelope: &TxEnvelope, out: &mut Vec<u8>) {
    match envelope {
        TxEnvelope::Legacy(tx) => tx.tx().encode_for_signing(out),
        TxEnvelope::Eip2930(tx) => tx.tx().encode_for_signing(out),
        TxEnvelope::Eip1559(tx) => tx.tx().encode_for_signing(out),
        TxEnvelope::Eip4844(tx) => tx.tx().encode_for_signing(out),
        TxEnvelope::Eip7702(tx) => tx.tx().encode_for_signing(out),
    }
}

/// The signed payloads, one after the other in one buffer, and the signatures.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    /// The end of each message in `bytes`.
    ends: Vec<usize>,
    /// Items whose hashes are not computed yet.
    items: Vec<RecoverItem>,
}

impl Messages {
    fn push(&mut self, signature: &Signature, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
        let (r, s) = (signature.r().to_be_bytes(), signature.s().to_be_bytes());
        self.items.push(RecoverItem { hash: [0; 32], r, s, odd: signature.v() });
    }

    /// A parity that is neither 0 nor 1 is invalid: its r becomes 0, which is refused.
    fn push_authorization(&mut self, authorization: &SignedAuthorization) {
        let r = if authorization.y_parity() > 1 { Default::default() } else { authorization.r() };
        let signature = Signature::new(r, authorization.s(), authorization.y_parity() == 1);
        self.push(&signature, |out| {
            out.push(alloy_eips::eip7702::constants::MAGIC);
            alloy_rlp::Encodable::encode(authorization.inner(), out);
        });
    }

    fn signers(mut self) -> Vec<Option<Address>> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let slices: Vec<&[u8]> = starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end]).collect();
        let mut hashes = vec![[0; 32]; slices.len()];
        keccak256_burst(&slices, &mut hashes);
        self.items.iter_mut().zip(hashes).for_each(|(item, hash)| item.hash = hash);

        let mut results = Vec::new();
        RECOVERER.with_borrow_mut(|recoverer| recoverer.recover_burst(&self.items, HighS::Refuse, &mut results));
        let keys: Vec<_> = results.iter().filter_map(|result| result.ok()).collect();
        let mut addresses = Vec::new();
        address_burst(&keys, &mut addresses);
        let mut addresses = addresses.into_iter().map(Address::from);
        results.iter().map(|result| result.ok().and_then(|_| addresses.next())).collect()
    }
}

/// Converts a transaction to revm's form.
pub fn to_tx_env(tx: &Tx) -> revm::context::TxEnv {
    let envelope = &tx.envelope;
    let authorization_list = authorization_list(envelope).iter().zip(&tx.authorities);
    revm::context::TxEnv {
        tx_type: envelope.tx_type() as u8,
        caller: tx.sender,
        gas_limit: envelope.gas_limit(),
        gas_price: envelope.max_fee_per_gas(),
        kind: envelope.kind(),
        value: envelope.value(),
        data: envelope.input().clone(),
        nonce: envelope.nonce(),
        chain_id: envelope.chain_id(),
        access_list: envelope.access_list().cloned().unwrap_or_default(),
        gas_priority_fee: envelope.max_priority_fee_per_gas(),
        blob_hashes: envelope.blob_versioned_hashes().unwrap_or_default().to_vec(),
        max_fee_per_blob_gas: envelope.max_fee_per_blob_gas().unwrap_or_default(),
        authorization_list: authorization_list
            .map(|(signed, authority)| {
                let authority = authority.map_or(RecoveredAuthority::Invalid, RecoveredAuthority::Valid);
                Either::Right(RecoveredAuthorization::new_unchecked(signed.inner().clone(), authority))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{TxEip1559, TxEip2930, TxEip7702, TxLegacy};
    use alloy_eips::eip7702::Authorization;
    use alloy_primitives::{TxKind, hex};
    use proptest::prelude::*;

    const CHAIN: u64 = 31337;

    fn signer(seed: u8) -> Signer {
        Signer::new(&[seed; 32]).expect("a key")
    }

    fn legacy(chain_id: Option<u64>, nonce: u64) -> TypedTransaction {
        let to = TxKind::Call(Address::repeat_byte(9));
        TxLegacy { chain_id, nonce, gas_price: 7, gas_limit: 21_000, to, ..Default::default() }.into()
    }

    fn authorization(signer: &Signer, nonce: u64) -> SignedAuthorization {
        let inner = Authorization { chain_id: U256::from(CHAIN), address: Address::repeat_byte(3), nonce };
        let signature = signer.sign(&inner.signature_hash().0);
        let (r, s) = (U256::from_be_bytes(signature.r), U256::from_be_bytes(signature.s));
        SignedAuthorization::new_unchecked(inner, u8::from(signature.odd), r, s)
    }

    fn set_code(list: Vec<SignedAuthorization>) -> TypedTransaction {
        TxEip7702 { chain_id: CHAIN, authorization_list: list, gas_limit: 100_000, ..Default::default() }.into()
    }

    /// One of each type that is carried.
    fn samples() -> Vec<TypedTransaction> {
        vec![
            legacy(Some(CHAIN), 3),
            legacy(None, 4),
            TxEip2930 { chain_id: CHAIN, to: TxKind::Create, input: hex!("6001").into(), ..Default::default() }.into(),
            TxEip1559 { chain_id: CHAIN, max_fee_per_gas: 10, value: U256::MAX, ..Default::default() }.into(),
            set_code(vec![authorization(&signer(7), 0), authorization(&signer(8), u64::MAX)]),
            TxEip4844 { chain_id: CHAIN, blob_versioned_hashes: vec![B256::repeat_byte(1)], ..Default::default() }
                .into(),
        ]
    }

    #[test]
    fn signer_is_recovered() {
        let sent: Vec<Tx> = samples().into_iter().zip(1..).map(|(tx, seed)| Tx::signed(tx, &signer(seed))).collect();
        let burst = sent.iter().map(|tx| decode(&tx.raw, CHAIN).expect("it decodes")).collect();
        for ((tx, got), seed) in sent.iter().zip(recover(burst)).zip(1..) {
            let got = got.expect("it has a sender");
            assert_eq!(*got, *tx);
            assert_eq!(got.sender, Address::from(signer(seed).address()));
            assert_eq!(got.hash, *got.envelope.tx_hash(), "the hash that alloy makes");
        }
        let authorities = [7, 8].map(|seed| Some(Address::from(signer(seed).address())));
        assert_eq!(sent[4].authorities, authorities);
    }

    #[test]
    fn bad_signature_affects_no_other() {
        let mut burst = Vec::new();
        for seed in 1..=40 {
            let tx = Tx::signed(legacy(Some(CHAIN), seed), &signer(seed as u8));
            let tx = match seed % 5 {
                0 => {
                    let TxEnvelope::Legacy(inner) = tx.envelope else { unreachable!("it is one") };
                    let signature = Signature::new(inner.signature().r(), U256::MAX, false);
                    TxEnvelope::new_unhashed(inner.into_parts().0.into(), signature).encoded_2718()
                }
                _ => tx.raw.to_vec(),
            };
            burst.push(decode(&tx, CHAIN).expect("it decodes"));
        }
        for (seed, got) in (1u64..).zip(recover(burst)) {
            match seed % 5 {
                0 => assert_eq!(got, Err(TxError::Sender)),
                _ => assert_eq!(got.expect("good").sender, Address::from(signer(seed as u8).address())),
            }
        }
    }

    #[test]
    fn parity_of_two_is_refused() {
        let good = authorization(&signer(7), 1);
        let bad = SignedAuthorization::new_unchecked(good.inner().clone(), 2, good.r(), good.s());
        let tx = Tx::signed(set_code(vec![bad, good]), &signer(1));
        assert_eq!(tx.authorities, [None, Some(Address::from(signer(7).address()))]);
        let RecoveredAuthority::Invalid = (match &to_tx_env(&tx).authorization_list[0] {
            Either::Right(recovered) => {
                recovered.authority().map_or(RecoveredAuthority::Invalid, RecoveredAuthority::Valid)
            }
            Either::Left(_) => unreachable!("they are recovered"),
        }) else {
            panic!("revm gets no authority")
        };
    }

    #[test]
    fn an_authorization_list_without_its_gas_costs_no_recovery() {
        let one = authorization(&signer(7), 1);
        let of = |count: usize, gas_limit| {
            let list = vec![one.clone(); count];
            let tx = TxEip7702 { chain_id: CHAIN, authorization_list: list, gas_limit, ..Default::default() };
            let tx = TxEnvelope::new_unhashed(tx.into(), Signature::test_signature()).encoded_2718();
            assert!(tx.len() <= SIZE_MAX);
            decode(&tx, CHAIN)
        };
        assert_eq!(of(1_200, 30_020_999).err(), Some(TxError::IntrinsicGas { gas: 30_020_999, needed: 30_021_000 }));
        assert_eq!(of(1_200, 30_021_000).err(), Some(TxError::GasLimitTooHigh { cap: TX_GAS_CAP, gas: 30_021_000 }));
        assert!(of(660, 21_000 + 660 * 25_000).is_ok() && of(1, u64::MAX).is_err());
    }

    #[test]
    fn errors_are_in_geths_words() {
        let said = |raw: &[u8]| decode_one(raw, CHAIN).expect_err("it is wrong").to_string();
        let other_chain = Tx::signed(legacy(Some(1), 0), &signer(1));
        assert_eq!(said(&other_chain.raw), "invalid chain id for signer: have 1 want 31337");
        assert_eq!(said(&[]), "typed transaction too short");
        assert_eq!(said(&[2]), "typed transaction too short");
        assert_eq!(said(&[5, 0xc0]), "transaction type not supported");
        assert!(said(&hex!("03c0")).starts_with("rlp: "));
        let list = said(&hex!("c3010203"));
        assert!(list.starts_with("rlp: "), "{list}");
        assert!(said(b"hello").contains("not supported"));
        let good = Tx::signed(legacy(Some(CHAIN), 0), &signer(1));
        assert_eq!(said(&[&good.raw[..], &[0]].concat()), "rlp: input contains more than one value");
        assert_eq!(said(&good.raw[..good.raw.len() - 1]), "rlp: unexpected EOF");
        let size = SIZE_MAX + 1;
        assert_eq!(said(&vec![0xf9; size]), format!("oversized data: transaction size {size}, limit 131072"));
    }

    proptest! {
        #[test]
        fn garbage_is_an_error(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_one(&raw, CHAIN);
        }

        #[test]
        fn a_changed_byte_never_panics(sample in 0usize..6, at in any::<usize>(), byte in any::<u8>()) {
            let mut raw = Tx::signed(samples().swap_remove(sample), &signer(1)).raw.to_vec();
            let at = at % raw.len();
            raw[at] = byte;
            if let Ok(tx) = decode_one(&raw, CHAIN) {
                prop_assert_eq!(&tx.raw[..], &raw[..]);
                prop_assert_eq!(tx.hash, *tx.envelope.tx_hash());
            }
        }
    }
}
