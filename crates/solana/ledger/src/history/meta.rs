//! meta: the stored metadata of a transaction and of a block, and their encoding.
//!
//! reads   an entry's or a block's bytes, whose checksum has been verified
//! writes  the same
//! memory  the decoded metadata
//! drops   nothing; bytes that do not decode are `None`
//! source  `TransactionStatusMeta` of `solana-transaction-status` 4.2 for what to store
//!
//! Numbers are LEB128: balances and fees are mostly small, or near the number before. A transfer takes about 130 B.

use std::sync::LazyLock;

use hearth_wire::base58::decode_32;
use hearth_wire::consts::MEMO_PROGRAM;
use hearth_wire::{CompiledInstruction, Hash, Pubkey, Signature, Txn};

use super::record::{array_at, u32_at, u64_at};
use crate::bank::{InnerCall, TokenAmount};
use crate::block::{Reward, RewardKind};
use crate::error::{PackedStatus, TransactionError};

/// Metadata that is stored only with extended metadata enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The lines that the transaction logged, in order.
    pub logs: Vec<String>,
    /// Inner instructions: for each instruction that made some, its index and the calls.
    pub inner: Vec<(u8, Vec<InnerCall>)>,
    /// Program and data of the last return value.
    pub return_data: Option<(Pubkey, Vec<u8>)>,
}

/// The same as [`Details`], borrowed.
#[derive(Clone, Copy, Debug)]
pub struct DetailsParts<'a> {
    /// The lines that the transaction logged, in order.
    pub logs: &'a [String],
    /// Inner instructions: for each instruction that made some, its index and the calls.
    pub inner: &'a [(u8, Vec<InnerCall>)],
    /// Program and data of the last return value.
    pub return_data: Option<&'a (Pubkey, Vec<u8>)>,
}

/// The stored metadata of a transaction that landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionMeta {
    /// The first signature, which identifies the transaction.
    pub signature: Signature,
    /// Success, or why it failed.
    pub result: Result<(), TransactionError>,
    /// The fee in lamports.
    pub fee: u64,
    /// Compute units that its execution used.
    pub compute_units: u64,
    /// The transaction's cost in its block, in compute units.
    pub cost_units: u64,
    /// Lamports before and after, of each account: the static ones, then the loaded.
    pub balances: Vec<(u64, u64)>,
    /// Balances of its token accounts before it was executed.
    pub pre_token_balances: Vec<TokenAmount>,
    /// Balances of its token accounts after it was executed.
    pub post_token_balances: Vec<TokenAmount>,
    /// Writable accounts from lookup tables.
    pub loaded_writable: Vec<Pubkey>,
    /// Read-only accounts from lookup tables.
    pub loaded_readonly: Vec<Pubkey>,
    /// The memos, in the format of `getSignaturesForAddress`.
    pub memo: Option<String>,
    /// Logs and inner calls, where they are stored.
    pub details: Option<Details>,
}

/// A borrowed [`TransactionMeta`], for writers of many.
#[derive(Clone, Copy, Debug)]
pub struct MetaParts<'a> {
    /// The fields are those of [`TransactionMeta`].
    pub signature: &'a Signature,
    /// The accounts in the message itself.
    pub static_accounts: &'a [Pubkey],
    /// Success, or why it failed.
    pub result: Result<(), TransactionError>,
    /// The fee in lamports.
    pub fee: u64,
    /// Compute units that its execution used.
    pub compute_units: u64,
    /// Cost in the block, in compute units.
    pub cost_units: u64,
    /// Lamports before and after, of the static and then of the loaded accounts.
    pub balances: &'a [(u64, u64)],
    /// Balances of its token accounts before it was executed.
    pub pre_token_balances: &'a [TokenAmount],
    /// Balances of its token accounts after it was executed.
    pub post_token_balances: &'a [TokenAmount],
    /// Writable accounts from lookup tables.
    pub loaded_writable: &'a [Pubkey],
    /// Read-only accounts from lookup tables.
    pub loaded_readonly: &'a [Pubkey],
    /// The memos joined, in the format of `getSignaturesForAddress`; `None` if there are none.
    pub memo: Option<&'a str>,
    /// Logs and inner calls, where they are stored.
    pub details: Option<DetailsParts<'a>>,
}

/// The stored metadata of a block, without its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// The slot of the block.
    pub slot: u64,
    /// The slot of the parent block.
    pub parent: u64,
    /// The number of blocks before it.
    pub height: u64,
    /// The chain's clock in the block, in Unix seconds.
    pub time: i64,
    /// The hash of its last entry.
    pub blockhash: Hash,
    /// The last hash of the parent block.
    pub previous_blockhash: Hash,
    /// Number of its transactions.
    pub transaction_count: u32,
    /// Payments in it: rewards of inflation, then the leader's fees.
    pub rewards: Vec<Reward>,
    /// In the first block of an epoch: the number of blocks after it that pay rewards to stakes.
    pub num_partitions: Option<u64>,
}

/// The addresses of the memo program's three versions.
static MEMO_PROGRAMS: LazyLock<[Pubkey; 3]> = LazyLock::new(|| {
    let address = |text| decode_32(text).expect("the text of an address");
    let first = address("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo");
    [first, MEMO_PROGRAM, address("Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH")]
});

/// The memos of a transaction in the format of `getSignaturesForAddress`: each with its length, joined.
pub fn memos(txn: &Txn<'_>) -> Option<String> {
    let keys = txn.account_keys();
    let is_memo = |instruction: &CompiledInstruction<'_>| {
        MEMO_PROGRAMS.contains(&keys[usize::from(instruction.program_id_index)])
    };
    let text = |instruction: CompiledInstruction<'_>| {
        let text = str::from_utf8(instruction.data).unwrap_or("(unparseable)");
        format!("[{}] {text}", instruction.data.len())
    };
    let memos: Vec<String> = txn.instructions().filter(is_memo).map(text).collect();
    (!memos.is_empty()).then(|| memos.join("; "))
}

const HAS_ERROR: u8 = 1;
const HAS_TOKENS: u8 = 2;
const HAS_LOADED: u8 = 4;
const HAS_MEMO: u8 = 8;
const HAS_DETAILS: u8 = 16;

impl MetaParts<'_> {
    /// Appends everything but the signature and the accounts' hashes, which precede it in a batch.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let tokens = !(self.pre_token_balances.is_empty() && self.post_token_balances.is_empty());
        let loaded = !(self.loaded_writable.is_empty() && self.loaded_readonly.is_empty());
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.result.is_err(), HAS_ERROR)
                | flag(tokens, HAS_TOKENS)
                | flag(loaded, HAS_LOADED)
                | flag(self.memo.is_some(), HAS_MEMO)
                | flag(self.details.is_some(), HAS_DETAILS),
        );
        if self.result.is_err() {
            put(out, PackedStatus::pack(self.result).to_bits());
        }
        [self.fee, self.compute_units, self.cost_units].into_iter().for_each(|number| put(out, number));
        for &(before, after) in self.balances {
            put(out, before);
            put(out, zigzag(after.wrapping_sub(before) as i64));
        }
        if tokens {
            put_tokens(out, self.pre_token_balances);
            put_tokens(out, self.post_token_balances);
        }
        if loaded {
            put_keys(out, self.loaded_writable);
            put_keys(out, self.loaded_readonly);
        }
        if let Some(memo) = self.memo {
            put_bytes(out, memo.as_bytes());
        }
        if let Some(details) = self.details {
            details.encode(out);
        }
    }
}

impl TransactionMeta {
    /// Decodes the output of [`MetaParts::encode`] for a transaction with `account_count` accounts.
    pub(super) fn decode(signature: Signature, account_count: usize, bytes: &[u8]) -> Option<Self> {
        let r = &mut Cursor(bytes);
        let flags = r.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let result = if has(HAS_ERROR) { PackedStatus::from_bits(r.number()?).unpack() } else { Ok(()) };
        let (fee, compute_units, cost_units) = (r.number()?, r.number()?, r.number()?);
        let balance = |r: &mut Cursor<'_>| {
            let before = r.number()?;
            Some((before, before.wrapping_add(unzigzag(r.number()?) as u64)))
        };
        let balances = (0..account_count).map(|_| balance(r)).collect::<Option<_>>()?;
        let mut meta = Self {
            signature,
            result,
            fee,
            compute_units,
            cost_units,
            balances,
            pre_token_balances: vec![],
            post_token_balances: vec![],
            loaded_writable: vec![],
            loaded_readonly: vec![],
            memo: None,
            details: None,
        };
        if has(HAS_TOKENS) {
            (meta.pre_token_balances, meta.post_token_balances) = (r.list(take_token)?, r.list(take_token)?);
        }
        if has(HAS_LOADED) {
            (meta.loaded_writable, meta.loaded_readonly) = (r.list(Cursor::array)?, r.list(Cursor::array)?);
        }
        if has(HAS_MEMO) {
            meta.memo = Some(String::from_utf8(r.bytes()?.to_vec()).ok()?);
        }
        if has(HAS_DETAILS) {
            meta.details = Some(Details::decode(r)?);
        }
        r.0.is_empty().then_some(meta)
    }
}

impl DetailsParts<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.logs.len() as u64);
        self.logs.iter().for_each(|line| put_bytes(out, line.as_bytes()));
        put(out, self.inner.len() as u64);
        for (index, calls) in self.inner {
            out.push(*index);
            put(out, calls.len() as u64);
            for call in calls {
                out.extend_from_slice(&[call.program_id_index, call.stack_height]);
                put_bytes(out, &call.accounts);
                put_bytes(out, &call.data);
            }
        }
        out.push(self.return_data.is_some().into());
        if let Some((program, data)) = self.return_data {
            out.extend_from_slice(program);
            put_bytes(out, data);
        }
    }
}

impl Details {
    /// Borrows all of it.
    pub fn parts(&self) -> DetailsParts<'_> {
        DetailsParts { logs: &self.logs, inner: &self.inner, return_data: self.return_data.as_ref() }
    }

    fn decode(r: &mut Cursor<'_>) -> Option<Self> {
        let logs = r.list(|r| String::from_utf8(r.bytes()?.to_vec()).ok())?;
        let inner = r.list(|r| {
            let index = r.byte()?;
            let calls = r.list(|r| {
                let (program_id_index, stack_height) = (r.byte()?, r.byte()?);
                let (accounts, data) = (r.bytes()?.to_vec(), r.bytes()?.to_vec());
                Some(InnerCall { program_id_index, accounts, data, stack_height })
            })?;
            Some((index, calls))
        })?;
        let return_data = match r.byte()? {
            0 => None,
            _ => Some((r.array()?, r.bytes()?.to_vec())),
        };
        Some(Self { logs, inner, return_data })
    }
}

impl BlockMeta {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(112);
        for word in [self.slot, self.parent, self.height, self.time as u64] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.blockhash);
        out.extend_from_slice(&self.previous_blockhash);
        out.extend_from_slice(&self.transaction_count.to_le_bytes());
        put(&mut out, self.rewards.len() as u64);
        for reward in &self.rewards {
            out.extend_from_slice(&reward.pubkey);
            put(&mut out, zigzag(reward.lamports));
            put(&mut out, reward.post_balance);
            out.push(reward.kind as u8);
            out.push(u8::from(reward.commission.is_some()) | u8::from(reward.commission_bps.is_some()) << 1);
            out.push(reward.commission.unwrap_or(0));
            reward.commission_bps.into_iter().for_each(|bps| put(&mut out, bps.into()));
        }
        // Only the first block of an epoch has it, so that other records are as they always were.
        self.num_partitions.into_iter().for_each(|count| put(&mut out, count));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_at_checked(100)?;
        let r = &mut Cursor(rest);
        let rewards = r.list(|r| {
            let (pubkey, lamports, post_balance) = (r.array()?, unzigzag(r.number()?), r.number()?);
            let kind = match r.byte()? {
                0 => RewardKind::Fee,
                1 => RewardKind::Staking,
                2 => RewardKind::Voting,
                3 => RewardKind::DeactivatedStake,
                _ => return None,
            };
            let (has, percent) = (r.byte()?, r.byte()?);
            let commission = (has & 1 != 0).then_some(percent);
            let commission_bps = if has & 2 != 0 { Some(u16::try_from(r.number()?).ok()?) } else { None };
            Some(Reward { pubkey, lamports, post_balance, kind, commission, commission_bps })
        })?;
        let num_partitions = if r.0.is_empty() { None } else { Some(r.number()?) };
        Some(Self {
            slot: u64_at(fixed, 0),
            parent: u64_at(fixed, 8),
            height: u64_at(fixed, 16),
            time: u64_at(fixed, 24) as i64,
            blockhash: array_at(fixed, 32),
            previous_blockhash: array_at(fixed, 64),
            transaction_count: u32_at(fixed, 96),
            rewards,
            num_partitions,
        })
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

const fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_keys(out: &mut Vec<u8>, keys: &[Pubkey]) {
    put(out, keys.len() as u64);
    out.extend_from_slice(keys.as_flattened());
}

fn put_tokens(out: &mut Vec<u8>, balances: &[TokenAmount]) {
    put(out, balances.len() as u64);
    for balance in balances {
        out.extend_from_slice(&[balance.account_index, balance.decimals]);
        [&balance.mint, &balance.owner, &balance.program_id].into_iter().for_each(|key| out.extend_from_slice(key));
        put(out, balance.amount);
    }
}

fn take_token(r: &mut Cursor<'_>) -> Option<TokenAmount> {
    let (account_index, decimals) = (r.byte()?, r.byte()?);
    let (mint, owner, program_id) = (r.array()?, r.array()?, r.array()?);
    Some(TokenAmount { account_index, mint, owner, program_id, amount: r.number()?, decimals })
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn list<T>(&mut self, mut take: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // At most as many as there are bytes, whatever the count says.
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())?;
        (0..count).map(|_| take(self)).collect()
    }
}
