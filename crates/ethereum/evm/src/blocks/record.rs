//! The encoding of a block in the log.
//!
//! The form is RLP: the header; the transactions, each after its recovered sender; the receipts without redundant
//! fields; the withdrawals; accounts changed by no transaction; the recovered authorities of each transaction with an
//! authorization list; for blocks before the merge, their additional parts.

use std::sync::Arc;

use alloy_consensus::{Header, Transaction};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Bloom, Bytes, Log, U256};
use alloy_rlp::{Decodable, Encodable, RlpDecodable, RlpEncodable};
use hearth_crypto::keccak::{keccak256, keccak256_burst};

use revm::state::{AccountInfo, Bytecode};

use crate::block::{Block, Receipt};
use crate::state::{AccountChange, Changes, bytecode};
use crate::tx::{Tx, decode_envelope};

/// The hashes by which a block and its transactions are found.
pub(super) struct Hashes {
    pub block: B256,
    pub txs: Vec<B256>,
    pub bloom: Bloom,
}

/// Offset of the bloom in a header's payload: after five hashes of 33 B, an address of 21 B, and the three bytes of its
/// length.
const BLOOM_AT: usize = 5 * 33 + 21 + 3;
/// The first bytes of a record that contain the bloom: two list heads come before the header's payload.
pub(super) const BLOOM_WITHIN: usize = 9 + 9 + BLOOM_AT + 256;

/// Reads the bloom of a block from the record's first [`BLOOM_WITHIN`] bytes.
pub(super) fn bloom(record: &[u8]) -> Option<Bloom> {
    let header = list(list(record)?)?;
    header.get(BLOOM_AT..BLOOM_AT + 256).map(Bloom::from_slice)
}

/// The first bytes of a record that contain the header of any known fork, with room to spare.
pub(super) const HEADER_WITHIN: usize = 1024;

/// Decodes the header from a record's first bytes; `None` if it is longer than these.
pub(super) fn header(record: &[u8]) -> Option<Header> {
    Header::decode(&mut list(record)?).ok()
}

/// Returns the bytes after a list's head; the list may be longer than they are.
fn list(bytes: &[u8]) -> Option<&[u8]> {
    let head = match *bytes.first()? {
        0xc0..=0xf7 => 1,
        long @ 0xf8.. => 2 + usize::from(long - 0xf8),
        _ => return None,
    };
    bytes.get(head..)
}

impl Hashes {
    pub(super) fn of(block: &Block) -> Self {
        Self { block: block.hash, txs: block.txs.iter().map(|tx| tx.hash).collect(), bloom: block.header.logs_bloom }
    }

    /// Reads the hashes of a record without decoding all of it.
    pub(super) fn read(mut record: &[u8]) -> alloy_rlp::Result<Self> {
        let bloom = bloom(record).ok_or(alloy_rlp::Error::InputTooShort)?;
        let record = &mut alloy_rlp::Header::decode_bytes(&mut record, true)?;
        let whole = *record;
        alloy_rlp::Header::decode_bytes(record, true)?;
        let block = B256::from(keccak256(&whole[..whole.len() - record.len()]));
        let mut list = alloy_rlp::Header::decode_bytes(record, true)?;
        let mut raws = Vec::new();
        while !list.is_empty() {
            let signed = alloy_rlp::Header::decode_bytes(&mut list, false)?;
            raws.push(signed.get(Address::len_bytes()..).ok_or(alloy_rlp::Error::InputTooShort)?);
        }
        let mut hashes = vec![[0; 32]; raws.len()];
        keccak256_burst(&raws, &mut hashes);
        Ok(Self { block, txs: hashes.into_iter().map(B256::from).collect(), bloom })
    }
}

#[derive(RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
struct Record {
    header: Header,
    /// For each transaction its sender (20 B), followed by its raw bytes.
    txs: Vec<Bytes>,
    receipts: Vec<Outcome>,
    withdrawals: Vec<Withdrawal>,
    altered: Vec<AccountUpdate>,
    /// For each transaction with an authorization list, 20 B a tuple: its authority, zeros if the signature is invalid.
    authorities: Vec<Bytes>,
    /// Parts that only blocks before the merge have; `None` from Byzantium on if there are no ommers.
    work: Option<Work>,
}

/// The additional parts of a block before the merge.
#[derive(Default, RlpEncodable, RlpDecodable)]
struct Work {
    ommers: Vec<Header>,
    /// The state root after each transaction; empty from Byzantium on.
    roots: Vec<B256>,
}

impl Work {
    fn of(block: &Block) -> Option<Self> {
        let roots: Vec<B256> = block.receipts.iter().filter_map(|receipt| receipt.root).collect();
        let has_work = !roots.is_empty() || !block.ommers.is_empty();
        has_work.then(|| Self { ommers: block.ommers.clone(), roots })
    }
}

/// The fields of a receipt that do not follow from the transactions.
#[derive(RlpEncodable, RlpDecodable)]
struct Outcome {
    status: bool,
    gas_used: u64,
    logs: Vec<Log>,
}

/// An account that was set outside of transactions, with its new content.
#[derive(RlpEncodable, RlpDecodable)]
struct AccountUpdate {
    address: Address,
    balance: U256,
    nonce: u64,
    code: Bytes,
    slots: Vec<Slot>,
}

#[derive(RlpEncodable, RlpDecodable)]
struct Slot {
    index: U256,
    value: U256,
}

impl AccountUpdate {
    fn of((address, change): (&Address, &AccountChange)) -> Option<Self> {
        let info = change.info.as_ref()?;
        Some(Self {
            address: *address,
            balance: info.balance,
            nonce: info.nonce,
            code: info.code.as_ref().map(Bytecode::original_bytes).unwrap_or_default(),
            slots: change.storage.iter().map(|(index, value)| Slot { index: *index, value: *value }).collect(),
        })
    }

    fn change(self) -> (Address, AccountChange) {
        let mut info = AccountInfo { balance: self.balance, nonce: self.nonce, ..AccountInfo::default() };
        if !self.code.is_empty() {
            info.code_hash = B256::from(keccak256(&self.code));
            info.code = Some(bytecode(self.code));
        }
        let storage = self.slots.into_iter().map(|slot| (slot.index, slot.value)).collect();
        (self.address, AccountChange { info: Some(info), storage_cleared: false, storage })
    }
}

/// Appends a block to `out`.
pub(super) fn encode(block: &Block, altered: &Changes, out: &mut Vec<u8>) {
    let signed = |tx: &Arc<Tx>| [tx.sender.as_slice(), &tx.raw].concat().into();
    let outcome =
        |receipt: &Receipt| Outcome { status: receipt.status, gas_used: receipt.gas_used, logs: receipt.logs.clone() };
    let record = Record {
        header: block.header.clone(),
        txs: block.txs.iter().map(signed).collect(),
        receipts: block.receipts.iter().map(outcome).collect(),
        withdrawals: block.withdrawals.clone(),
        altered: altered.accounts.iter().filter_map(AccountUpdate::of).collect(),
        authorities: block.txs.iter().filter(|tx| !tx.authorities.is_empty()).map(|tx| authorities(tx)).collect(),
        work: Work::of(block),
    };
    out.reserve(record.length());
    record.encode(out);
}

fn authorities(tx: &Tx) -> Bytes {
    tx.authorities.iter().flat_map(|authority| authority.unwrap_or_default()).collect()
}

/// Returns whether a record has at most `txs_max` transactions, no more receipts and authorization lists than that, and
/// no account that was set. It walks over the record without allocating.
pub(super) fn is_within(mut record: &[u8], txs_max: u64) -> alloy_rlp::Result<bool> {
    let record = &mut alloy_rlp::Header::decode_bytes(&mut record, true)?;
    alloy_rlp::Header::decode_bytes(record, true)?;
    let (txs, receipts, _withdrawals) = (count(record)?, count(record)?, count(record)?);
    let (altered, authorities) = (count(record)?, count(record)?);
    Ok([txs, receipts, authorities].iter().all(|count| *count <= txs_max) && altered == 0)
}

/// Returns the number of items of the list that begins here, and advances past it.
fn count(bytes: &mut &[u8]) -> alloy_rlp::Result<u64> {
    let (mut list, mut count) = (alloy_rlp::Header::decode_bytes(bytes, true)?, 0);
    while !list.is_empty() {
        let length = alloy_rlp::Header::decode(&mut list)?.payload_length;
        list = list.get(length..).ok_or(alloy_rlp::Error::InputTooShort)?;
        count += 1;
    }
    Ok(count)
}

/// Decodes a record into the block and the account changes that execution does not produce. The error says what is
/// wrong.
pub(super) fn decode(mut bytes: &[u8]) -> Result<(Block, Changes), &'static str> {
    let record = Record::decode(&mut bytes).map_err(|_| "the record is not a block")?;
    if !bytes.is_empty() || record.txs.len() != record.receipts.len() {
        return Err("the record is not a block");
    }
    let hash = record.header.hash_slow();
    let base_fee = record.header.base_fee_per_gas.unwrap_or_default();
    let (mut txs, mut receipts) = (Vec::with_capacity(record.txs.len()), Vec::with_capacity(record.txs.len()));
    let (mut gas_used, mut authorities) = (0, record.authorities.iter());
    for (signed, outcome) in record.txs.into_iter().zip(record.receipts) {
        let (sender, raw) = signed.split_at_checked(Address::len_bytes()).ok_or("a transaction has no sender")?;
        let envelope = decode_envelope(raw).map_err(|_| "a transaction does not decode")?;
        let signed = match envelope.authorization_list().unwrap_or_default().len() {
            0 => Vec::new(),
            count => {
                let wrong = "the authorities of an authorization list are missing";
                let all = authorities.next().filter(|all| all.len() == count * Address::len_bytes()).ok_or(wrong)?;
                let each = all.chunks_exact(Address::len_bytes()).map(Address::from_slice);
                each.map(|address| (!address.is_zero()).then_some(address)).collect()
            }
        };
        let tx = Tx::with_authorities(envelope, Address::from_slice(sender), signed);
        let receipt = Receipt::new(&tx, outcome.status, outcome.gas_used, outcome.logs, gas_used, base_fee);
        gas_used = receipt.cumulative_gas_used;
        txs.push(Arc::new(tx));
        receipts.push(receipt);
    }
    let Work { ommers, roots } = record.work.unwrap_or_default();
    if !roots.is_empty() && roots.len() != receipts.len() {
        return Err("the record is not a block");
    }
    for (receipt, root) in receipts.iter_mut().zip(roots) {
        receipt.root = Some(root);
    }
    let accounts = record.altered.into_iter().map(AccountUpdate::change).collect();
    let block = Block { header: record.header, hash, txs, receipts, ommers, withdrawals: record.withdrawals };
    Ok((block, Changes { accounts }))
}
