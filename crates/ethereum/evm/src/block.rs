//! Blocks as Ethereum has them: header, transactions, receipts, and the roots and blooms that commit to them.
//!
//! reads   what execution says of a block's transactions
//! writes  [`Block`], shared and never changed
//! memory  of a block its transactions, shared with the pool, and its logs
//! source  the yellow paper, EIP-658, 1559, 2718, 4399, 4788, 4844, 4895, 7685, 7934

use std::sync::Arc;

use alloy_consensus::constants::EMPTY_OMMER_ROOT_HASH;
use alloy_consensus::proofs::calculate_withdrawals_root;
use alloy_consensus::{Header, Transaction, TxType};
use alloy_eips::eip1559::{BaseFeeParams, calc_next_block_base_fee};
use alloy_eips::eip4895::Withdrawal;
use alloy_eips::eip7685::Requests;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, Log, Sealed, U256};
use alloy_rlp::{BufMut, Encodable};
use hearth_crypto::keccak::keccak256_burst;
use revm::primitives::hardfork::SpecId;

use crate::blobs::{self, BlobEnv, BlobParams};
use crate::exec::{BlockEnv, BlockExecution, Outcome, Verdict};
use crate::trie::ordered_root;
use crate::tx::{SharedTx, Tx};

/// Bytes of a block's RLP from Osaka on (EIP-7934): 10 MiB less a margin of 2 MiB.
pub const SIZE_MAX: u64 = (10 << 20) - (2 << 20);

/// A block and what its transactions did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The consensus header, which commits to the transactions, receipts, ommers and withdrawals.
    pub header: Header,
    /// Keccak-256 of the header.
    pub hash: B256,
    /// The transactions in the order of execution.
    pub txs: Vec<SharedTx>,
    /// One receipt for each transaction.
    pub receipts: Vec<Receipt>,
    /// The ommers' headers; none since the merge.
    pub ommers: Vec<Header>,
    /// The withdrawals; none before Shanghai.
    pub withdrawals: Vec<Withdrawal>,
}

/// The effects of an included transaction: those that its block commits to, and others that clients ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The transaction's EIP-2718 type; the receipt's encoding begins with it unless it is legacy.
    pub tx_type: TxType,
    /// Whether it took effect; else it only paid.
    pub status: bool,
    /// The root of the state after the transaction, which the block commits to before Byzantium instead of the status.
    pub root: Option<B256>,
    /// Units of gas it paid for.
    pub gas_used: u64,
    /// Units of gas that it and all before it in the block paid for.
    pub cumulative_gas_used: u64,
    /// The bloom of the logs.
    pub bloom: Bloom,
    /// The logs, in order.
    pub logs: Vec<Log>,
    /// The address of the contract that it created, or tried to.
    pub contract_address: Option<Address>,
    /// Wei it paid for a unit of gas.
    pub effective_gas_price: u128,
}

impl Receipt {
    /// The receipt of a transaction that used `gas_used` after others used `gas_before`, in a block of that base fee.
    pub fn new(tx: &Tx, status: bool, gas_used: u64, logs: Vec<Log>, gas_before: u64, base_fee: u64) -> Self {
        let mut receipt = Self::without_bloom(tx, status, gas_used, logs, gas_before, base_fee);
        add_blooms(std::slice::from_mut(&mut receipt));
        receipt
    }

    fn without_bloom(tx: &Tx, status: bool, gas_used: u64, logs: Vec<Log>, gas_before: u64, base_fee: u64) -> Self {
        let envelope = &tx.envelope;
        Self {
            tx_type: envelope.tx_type(),
            status,
            root: None,
            gas_used,
            cumulative_gas_used: gas_before + gas_used,
            bloom: Bloom::ZERO,
            logs,
            contract_address: envelope.kind().is_create().then(|| tx.sender.create(envelope.nonce())),
            effective_gas_price: tx.effective_gas_price(base_fee),
        }
    }

    /// As the trie of receipts holds it.
    pub fn encode_2718(&self, out: &mut dyn BufMut) {
        if self.tx_type != TxType::Legacy {
            out.put_u8(self.tx_type as u8);
        }
        let outcome = self.root.map_or(self.status.length(), |root| root.length());
        let payload_length = outcome + self.cumulative_gas_used.length() + self.bloom.length() + self.logs.length();
        alloy_rlp::Header { list: true, payload_length }.encode(out);
        match &self.root {
            Some(root) => root.encode(out),
            None => self.status.encode(out),
        }
        self.cumulative_gas_used.encode(out);
        self.bloom.encode(out);
        self.logs.encode(out);
    }
}

/// Adds to each receipt the bloom of its logs: what all of them hash is hashed side by side.
fn add_blooms(receipts: &mut [Receipt]) {
    let of_log = |log: &Log| 1 + log.topics().len();
    let mut messages: Vec<&[u8]> = Vec::new();
    for log in receipts.iter().flat_map(|receipt| &receipt.logs) {
        messages.push(log.address.as_slice());
        messages.extend(log.topics().iter().map(|topic| topic.as_slice()));
    }
    let mut hashes = vec![[0; 32]; messages.len()];
    keccak256_burst(&messages, &mut hashes);
    let mut hashes = hashes.into_iter().map(B256::from);
    for receipt in receipts {
        let count = receipt.logs.iter().map(of_log).sum();
        for hash in hashes.by_ref().take(count) {
            receipt.bloom.m3_2048_hashed(&hash);
        }
    }
}

/// Transactions that execution let into a block, and their receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The transactions, in order.
    pub txs: Vec<SharedTx>,
    /// One receipt for each transaction.
    pub receipts: Vec<Receipt>,
    /// The withdrawals; none before Shanghai.
    pub withdrawals: Vec<Withdrawal>,
}

impl Body {
    /// Builds a body from the verdicts on `txs`; refused ones are left out.
    pub fn new(txs: &[SharedTx], verdicts: Vec<Verdict>, base_fee: u64) -> Self {
        assert_eq!(txs.len(), verdicts.len(), "a verdict for each transaction");
        let mut body = Self { txs: Vec::with_capacity(txs.len()), ..Self::default() };
        body.receipts.reserve(txs.len());
        let mut gas_used = 0;
        for (tx, verdict) in txs.iter().zip(verdicts) {
            if let Verdict::Included(Outcome { status, gas_used: used, logs, .. }) = verdict {
                let receipt = Receipt::without_bloom(tx, status, used, logs, gas_used, base_fee);
                gas_used = receipt.cumulative_gas_used;
                body.txs.push(tx.clone());
                body.receipts.push(receipt);
            }
        }
        add_blooms(&mut body.receipts);
        body
    }

    /// The receipts say the roots of the state after each transaction, as before Byzantium.
    pub fn set_roots(&mut self, roots: &[B256]) {
        for (receipt, root) in self.receipts.iter_mut().zip(roots) {
            receipt.root = Some(*root);
        }
    }

    /// The root of the trie of transactions.
    pub fn transactions_root(&self) -> B256 {
        transactions_root(&self.txs)
    }

    /// The root of the trie of receipts.
    pub fn receipts_root(&self) -> B256 {
        ordered_root(&self.receipts, |receipt, out| receipt.encode_2718(out))
    }

    /// Returns the blob gas of all transactions.
    pub fn blob_gas_used(&self) -> u64 {
        self.txs.iter().map(|tx| blobs::gas_of(&tx.envelope)).sum()
    }

    /// Returns the bloom of all logs.
    pub fn bloom(&self) -> Bloom {
        let logged = self.receipts.iter().filter(|receipt| !receipt.logs.is_empty());
        logged.fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom)
    }
}

/// The root of the trie of transactions.
pub(crate) fn transactions_root(txs: &[SharedTx]) -> B256 {
    ordered_root(txs, |tx, out| out.extend_from_slice(&tx.raw))
}

/// The header's fields that follow from the body alone, and cost the most to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The root of the trie of transactions.
    pub transactions: B256,
    /// The root of the trie of receipts.
    pub receipts: B256,
    /// The bloom of all logs.
    pub bloom: Bloom,
}

impl Roots {
    /// Computes the roots of a body.
    pub fn of(body: &Body) -> Self {
        Self { transactions: body.transactions_root(), receipts: body.receipts_root(), bloom: body.bloom() }
    }
}

impl Block {
    /// A block of a header alone: that of the genesis.
    pub fn zero(header: Sealed<Header>) -> Self {
        let (header, hash) = header.into_parts();
        let (txs, receipts, ommers, withdrawals) = Default::default();
        Self { header, hash, txs, receipts, ommers, withdrawals }
    }

    /// The block of an executed body and its roots, given the root of the state after it.
    pub fn seal(
        env: &BlockEnv,
        body: Body,
        roots: Roots,
        requests: Vec<Bytes>,
        state_root: B256,
        extra_data: Bytes,
    ) -> Arc<Self> {
        let from = |fork: SpecId| env.spec.is_enabled_in(fork);
        let header = Header {
            parent_hash: env.parent_hash.expect("a block is sealed once its parent is"),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: env.beneficiary,
            state_root,
            transactions_root: roots.transactions,
            receipts_root: roots.receipts,
            logs_bloom: roots.bloom,
            number: env.number,
            gas_limit: env.gas_limit,
            gas_used: body.receipts.last().map_or(0, |receipt| receipt.cumulative_gas_used),
            timestamp: env.timestamp,
            extra_data,
            mix_hash: if from(SpecId::MERGE) { env.prevrandao } else { B256::ZERO },
            difficulty: if from(SpecId::MERGE) { U256::ZERO } else { env.prevrandao.into() },
            nonce: B64::ZERO,
            base_fee_per_gas: from(SpecId::LONDON).then_some(env.base_fee),
            withdrawals_root: from(SpecId::SHANGHAI).then(|| calculate_withdrawals_root(&body.withdrawals)),
            blob_gas_used: from(SpecId::CANCUN).then(|| body.blob_gas_used()),
            excess_blob_gas: from(SpecId::CANCUN).then_some(env.blobs.excess_gas),
            parent_beacon_block_root: env.parent_beacon_block_root.filter(|_| from(SpecId::CANCUN)),
            requests_hash: from(SpecId::PRAGUE).then(|| Requests::new(requests).requests_hash()),
            ..Default::default()
        };
        let hash = header.hash_slow();
        let Body { txs, receipts, withdrawals } = body;
        Arc::new(Self { header, hash, txs, receipts, ommers: Vec::new(), withdrawals })
    }

    /// Height; that of the genesis is 0.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Wei per unit of gas that this block burns; 0 before London.
    pub fn base_fee(&self) -> u64 {
        self.header.base_fee_per_gas.unwrap_or_default()
    }

    /// Bytes of the block's RLP, as `eth_getBlockByNumber` tells it.
    pub fn size(&self) -> u64 {
        let (payload_length, _) = self.payload_lengths();
        alloy_rlp::Header { list: true, payload_length }.length_with_payload() as u64
    }

    /// The block's RLP: header, transactions, ommers and, from Shanghai on, withdrawals.
    pub fn encode(&self, out: &mut dyn BufMut) {
        let (payload_length, txs_length) = self.payload_lengths();
        alloy_rlp::Header { list: true, payload_length }.encode(out);
        self.header.encode(out);
        alloy_rlp::Header { list: true, payload_length: txs_length }.encode(out);
        for tx in &self.txs {
            match tx.envelope.tx_type() {
                TxType::Legacy => out.put_slice(&tx.raw),
                _ => tx.raw.encode(out),
            }
        }
        self.ommers.encode(out);
        if self.header.withdrawals_root.is_some() {
            self.withdrawals.encode(out);
        }
    }

    /// Bytes within the list that the block is, and within that of its transactions.
    fn payload_lengths(&self) -> (usize, usize) {
        let listed = |payload_length| alloy_rlp::Header { list: true, payload_length }.length_with_payload();
        let txs = self.txs.iter().map(|tx| match tx.envelope.tx_type() {
            TxType::Legacy => tx.raw.len(),
            _ => tx.raw.length(),
        });
        let txs: usize = txs.sum();
        let withdrawals = self.header.withdrawals_root.map_or(0, |_| self.withdrawals.length());
        (self.header.length() + listed(txs) + self.ommers.length() + withdrawals, txs)
    }

    /// Whether it is larger than the rules let a block be.
    pub fn is_too_large(&self, spec: SpecId) -> bool {
        spec.is_enabled_in(SpecId::OSAKA) && self.size() > SIZE_MAX
    }

    /// Returns the blob environment of the block after this one, under its `params`.
    pub fn blobs_after(&self, params: BlobParams) -> BlobEnv {
        BlobEnv::after_header(params, &self.header)
    }
}

/// The base fee of the block after one of this use, by EIP-1559.
pub fn next_base_fee(gas_used: u64, gas_limit: u64, base_fee: u64) -> u64 {
    // A limit below the elasticity would make a target of 0.
    calc_next_block_base_fee(gas_used, gas_limit.max(2), base_fee, BaseFeeParams::ethereum())
}

/// Seals what execution made of `txs`; the changes remain with the caller.
pub fn seal(
    env: &BlockEnv,
    txs: &[SharedTx],
    executed: &mut BlockExecution,
    state_root: B256,
    extra_data: Bytes,
) -> Arc<Block> {
    let body = Body::new(txs, std::mem::take(&mut executed.verdicts), env.base_fee);
    let roots = Roots::of(&body);
    Block::seal(env, body, roots, std::mem::take(&mut executed.requests), state_root, extra_data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx::TxEnvelope;
    use alloy_consensus::TxLegacy;
    use alloy_primitives::{Signature, logs_bloom};

    #[test]
    fn blooms_are_those_of_each_receipts_logs() {
        let envelope = TxEnvelope::new_unhashed(TxLegacy::default().into(), Signature::test_signature());
        let tx = Arc::new(Tx::with_sender(envelope, Address::ZERO));
        let log = |number: u8| {
            let topics = (0..number % 5).map(|topic| B256::repeat_byte(topic ^ number)).collect();
            Log::new_unchecked(Address::repeat_byte(number), topics, Bytes::new())
        };
        let outcome = |number: u8| Outcome {
            status: true,
            gas_used: 21_000,
            logs: (0..number % 4).map(|at| log(number + at)).collect(),
        };
        let verdicts = (0..40).map(|number| Verdict::Included(outcome(number))).collect();
        let body = Body::new(&vec![tx.clone(); 40], verdicts, 0);
        for receipt in &body.receipts {
            assert_eq!(receipt.bloom, logs_bloom(&receipt.logs));
            let alone = Receipt::new(&tx, true, 21_000, receipt.logs.clone(), 0, 0);
            assert_eq!(alone.bloom, receipt.bloom);
        }
        assert!(body.receipts.iter().any(|receipt| !receipt.bloom.is_zero()));
    }
}
