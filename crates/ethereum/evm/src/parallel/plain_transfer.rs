//! The plain transfer: value from an account without code to another, no data, no list; its rule in a few lines.
//!
//! reads   a transaction and the block's rules
//! writes  [`PlainTransfer`]: the rule's inputs, extracted from the transaction once
//! memory  one [`PlainTransfer`] per such transaction of the block
//! drops   nothing: other transactions, and those to be refused, go to the EVM, which reports why
//! source  the steps that revm's mainnet handler takes for such a transaction; the differential tests compare them

use super::memory::{MemoryAccount, shard_of};
use crate::exec::{BlockEnv, Outcome};
use crate::tx::{SharedTx, Tx};
use alloy_consensus::{Transaction, TxType};
use alloy_primitives::{Address, U256};
use revm::context_interface::Cfg;
use revm::primitives::hardfork::SpecId;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Gas of a plain transfer.
pub(super) const GAS: u64 = 21_000;

/// Leading zero bytes of an address that may be a precompile: 18 of 20, as 0x0100 is one.
const PRECOMPILE_ZEROS: usize = 18;

/// A balance from which sums within a block could overflow is none for the rule.
const BALANCE_BITS_MAX: usize = 128;

/// The block's parameters for transfers.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    applies: bool,
    chain_id: u64,
    base_fee: u128,
    gas_limit_max: u64,
    beneficiary: Address,
}

impl Rules {
    pub fn new(env: &BlockEnv) -> Self {
        Self {
            // Before London fees go another way; after Osaka a transfer's gas depends on its accounts.
            applies: env.spec.is_enabled_in(SpecId::LONDON) && !env.spec.is_enabled_in(SpecId::AMSTERDAM),
            chain_id: env.chain_id,
            base_fee: u128::from(env.base_fee),
            gas_limit_max: env.cfg().tx_gas_limit_cap().min(env.gas_limit),
            beneficiary: env.beneficiary,
        }
    }

    /// The transaction as a plain transfer; none if it is anything else, or touches the beneficiary, or is refused
    /// whatever the state.
    pub fn plain(&self, tx: &Tx) -> Option<PlainTransfer> {
        let envelope = &tx.envelope;
        let to = envelope.to()?;
        let value = envelope.value();
        let gas_limit = envelope.gas_limit();
        let listed = envelope.access_list().is_some_and(|list| !list.is_empty());
        let is_plain = self.applies
            // Of the later types one sets code and the other pays for blobs.
            && matches!(envelope.tx_type(), TxType::Legacy | TxType::Eip2930 | TxType::Eip1559)
            && envelope.input().is_empty()
            && !listed
            && !value.is_zero()
            && to[..PRECOMPILE_ZEROS].iter().any(|byte| *byte != 0)
            && to != self.beneficiary
            && tx.sender != self.beneficiary
            && envelope.chain_id().is_none_or(|id| id == self.chain_id)
            && (GAS..=self.gas_limit_max).contains(&gas_limit)
            && envelope.nonce() != u64::MAX;
        if !is_plain {
            return None;
        }
        let price_max = envelope.max_fee_per_gas();
        let price = match envelope.max_priority_fee_per_gas() {
            Some(tip) if tip > price_max => return None,
            Some(tip) => price_max.min(self.base_fee.saturating_add(tip)),
            None => price_max,
        };
        let tip = price.checked_sub(self.base_fee)?;
        let spent_max = U256::from(price_max.checked_mul(u128::from(gas_limit))?).checked_add(value)?;
        Some(PlainTransfer {
            sender: tx.sender,
            to,
            value,
            gas_limit,
            spent_max,
            // Below `spent_max`'s product, as the price is and the gas.
            spent: U256::from(price * u128::from(GAS)) + value,
            fee: U256::from(tip * u128::from(GAS)),
            nonce: envelope.nonce(),
            sender_shard: shard_of(&tx.sender) as u8,
            to_shard: shard_of(&to) as u8,
        })
    }
}

/// A plain transfer's inputs.
#[derive(Clone, Debug)]
pub(super) struct PlainTransfer {
    pub sender: Address,
    pub to: Address,
    pub value: U256,
    pub gas_limit: u64,
    /// The balance that the sender must have.
    spent_max: U256,
    /// The amount it pays: value, base fee and tip.
    spent: U256,
    /// The part of that which the beneficiary gets.
    pub fee: U256,
    nonce: u64,
    pub sender_shard: u8,
    pub to_shard: u8,
}

/// Whether the rule knows what an account does: it has no code, and no sum of balances overflows.
pub(super) fn is_simple(held: &MemoryAccount) -> bool {
    held.is_bare() && held.balance.bit_len() <= BALANCE_BITS_MAX
}

impl PlainTransfer {
    /// Deducts value and fee from the sender, or changes nothing if the transfer must be refused.
    pub fn pay(&self, sender: &mut MemoryAccount) -> bool {
        if !is_simple(sender) || sender.nonce != self.nonce || sender.balance < self.spent_max {
            return false;
        }
        sender.balance -= self.spent;
        sender.nonce += 1;
        true
    }

    /// Credits the value to the recipient, or changes nothing if the rule does not apply.
    pub fn receive(&self, recipient: &mut Option<MemoryAccount>) -> bool {
        match recipient {
            None => *recipient = Some(MemoryAccount::of_balance(self.value)),
            Some(held) => match held.balance.checked_add(self.value).filter(|_| held.is_bare()) {
                Some(balance) => held.balance = balance,
                None => return false,
            },
        }
        true
    }
}

/// How many transactions are looked at in one go.
const CHUNK: usize = 128;

/// One end of a plain transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferEnd {
    Sender,
    Recipient,
}

/// The plain transfers among [`CHUNK`] transactions.
struct Chunk {
    plains: Vec<Option<PlainTransfer>>,
    /// For each thread the ends in its shards, in order, so that no thread scans those of others.
    ends: Vec<Vec<(u8, TransferEnd)>>,
}

const _: () = assert!(CHUNK <= 1 << u8::BITS);

impl Chunk {
    fn new(rules: &Rules, txs: &[SharedTx], threads: usize) -> Self {
        let plains: Vec<_> = txs.iter().map(|tx| rules.plain(tx)).collect();
        let mut ends = vec![Vec::with_capacity(2 * CHUNK / threads); threads];
        for (at, plain) in (0..=u8::MAX).zip(&plains) {
            let Some(plain) = plain else { continue };
            ends[usize::from(plain.sender_shard) % threads].push((at, TransferEnd::Sender));
            ends[usize::from(plain.to_shard) % threads].push((at, TransferEnd::Recipient));
        }
        Self { plains, ends }
    }
}

/// The plain transfers among a block's transactions, by index; found by all threads together.
pub(super) struct PlainTransfers {
    chunks: Vec<OnceLock<Chunk>>,
    threads: usize,
    /// The next chunk that no thread has taken.
    next: AtomicUsize,
}

impl PlainTransfers {
    pub fn new(count: usize, threads: usize) -> Self {
        let chunks = (0..count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        Self { chunks, threads, next: AtomicUsize::new(0) }
    }

    /// One thread's part in finding them: as many chunks as it gets to, since some threads begin later than others.
    pub fn find(&self, rules: &Rules, txs: &[SharedTx]) {
        loop {
            // The barrier after this stage makes the chunks visible.
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = self.chunks.get(at) else { return };
            let txs = &txs[at * CHUNK..txs.len().min((at + 1) * CHUNK)];
            chunk.get_or_init(|| Chunk::new(rules, txs, self.threads));
        }
    }

    fn chunk(&self, at: usize) -> &Chunk {
        self.chunks[at].get().expect("all are found")
    }

    /// The transaction as a plain transfer. All must have been found.
    pub fn get(&self, index: usize) -> Option<&PlainTransfer> {
        self.chunk(index / CHUNK).plains[index % CHUNK].as_ref()
    }

    /// Of the plain transfers among those of `range` the ends that are a thread's, in order.
    pub fn ends(
        &self,
        thread: usize,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, &PlainTransfer, TransferEnd)> {
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        chunks.flat_map(move |number| {
            let (chunk, first) = (self.chunk(number), number * CHUNK);
            let ends = &chunk.ends[thread];
            // All of it but at the ends of the range.
            let before = |index: usize| ends.partition_point(|(at, _)| first + usize::from(*at) < index);
            let from = if first < range.start { before(range.start) } else { 0 };
            let to = if first + CHUNK > range.end { before(range.end) } else { ends.len() };
            ends[from..to].iter().map(move |(at, end)| {
                let plain = chunk.plains[usize::from(*at)].as_ref().expect("ends are those of plain transfers");
                (first + usize::from(*at), plain, *end)
            })
        })
    }

    /// The plain transfers among those of `range`.
    pub fn within(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &PlainTransfer)> {
        range.filter_map(|index| self.get(index).map(|plain| (index, plain)))
    }
}

/// Returns the outcome of a plain transfer that is in the block.
pub(super) fn transferred() -> Outcome {
    Outcome { status: true, gas_used: GAS, logs: Vec::new() }
}
