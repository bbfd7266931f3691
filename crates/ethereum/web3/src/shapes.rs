//! The JSON of blocks, transactions, receipts and logs.
//!
//! reads   blocks
//! writes  JSON
//! memory  the text
//! source  the schemas of the execution API of ethereum.org

use alloy_consensus::{Header, Transaction};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Log, Sealable, U256};
use hearth_evm::blobs;
use hearth_evm::block::{Block, Receipt};
use hearth_evm::tx::{SharedTx, Tx};

use crate::json::{self, Object};

/// The place of a transaction.
#[derive(Clone, Copy)]
pub struct TxPosition<'a> {
    /// The block that contains it.
    pub block: &'a Block,
    /// Its index in the block.
    pub index: usize,
}

impl<'a> TxPosition<'a> {
    /// Returns the transaction there.
    pub fn tx(&self) -> &'a SharedTx {
        &self.block.txs[self.index]
    }

    fn receipt(&self) -> &'a Receipt {
        &self.block.receipts[self.index]
    }

    /// Returns how many logs the block has before this transaction's.
    fn logs_before(&self) -> u64 {
        self.block.receipts[..self.index].iter().map(|receipt| receipt.logs.len() as u64).sum()
    }
}

/// Appends the fields of a header, in geth's order, without the hash: a pending block has none.
pub fn push_header(object: &mut Object<'_>, header: &Header) {
    object.data("parentHash", header.parent_hash.as_slice());
    object.data("sha3Uncles", header.ommers_hash.as_slice());
    object.data("stateRoot", header.state_root.as_slice());
    object.data("transactionsRoot", header.transactions_root.as_slice());
    object.data("receiptsRoot", header.receipts_root.as_slice());
    object.data("logsBloom", header.logs_bloom.as_slice());
    object.quantity_256("difficulty", &header.difficulty);
    object.quantity("number", header.number);
    object.quantity("gasLimit", header.gas_limit);
    object.quantity("gasUsed", header.gas_used);
    object.quantity("timestamp", header.timestamp);
    object.data("extraData", &header.extra_data);
    object.data("mixHash", header.mix_hash.as_slice());
    let quantities = [
        ("baseFeePerGas", header.base_fee_per_gas),
        ("blobGasUsed", header.blob_gas_used),
        ("excessBlobGas", header.excess_blob_gas),
    ];
    for (name, number) in quantities {
        if let Some(number) = number {
            object.quantity(name, number);
        }
    }
    let hashes = [
        ("withdrawalsRoot", header.withdrawals_root),
        ("parentBeaconBlockRoot", header.parent_beacon_block_root),
        ("requestsHash", header.requests_hash),
    ];
    for (name, hash) in hashes {
        if let Some(hash) = hash {
            object.data(name, hash.as_slice());
        }
    }
}

/// Whether a block is part of the chain. A pending one has no hash, no nonce and no miner yet, as in geth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The block is part of the chain.
    Made,
    /// The block is pending.
    Pending,
}

fn push_maker(object: &mut Object<'_>, block: &Block, stage: Stage) {
    let made = (stage == Stage::Made).then_some(block);
    object.data_or_null("hash", made.map(|block| block.hash.as_slice()));
    object.data_or_null("nonce", made.map(|block| block.header.nonce.as_slice()));
    object.data_or_null("miner", made.map(|block| block.header.beneficiary.as_slice()));
}

/// Formats a header, with its hash.
pub fn head(block: &Block, stage: Stage) -> String {
    json::object(|object| {
        push_maker(object, block, stage);
        push_header(object, &block.header);
    })
}

/// Formats a block with the hashes of its transactions, or with whole ones.
pub fn block(block: &Block, stage: Stage, with_transactions: bool) -> String {
    let mut out = String::with_capacity(2_048 + block.txs.len() * if with_transactions { 900 } else { 70 });
    json::push_object(&mut out, |object| {
        push_maker(object, block, stage);
        push_header(object, &block.header);
        object.quantity("size", block.size());
        push_uncles(object, block);
        if block.header.withdrawals_root.is_some() {
            push_withdrawals(object, &block.withdrawals);
        }
        object.array("transactions", 0..block.txs.len(), |out, index| match with_transactions {
            true => push_transaction(out, &block.txs[index], Some(TxPosition { block, index })),
            false => json::push_data(out, block.txs[index].hash.as_slice()),
        });
    });
    out
}

/// Formats an uncle: a block of which only the header is known.
pub fn uncle(header: &Header) -> String {
    let block = Block::zero(header.clone().seal_slow());
    json::object(|object| {
        push_maker(object, &block, Stage::Made);
        push_header(object, &block.header);
        object.quantity("size", block.size());
        push_uncles(object, &block);
    })
}

/// Appends the hashes of a block's uncles, as a field of an object.
pub fn push_uncles(object: &mut Object<'_>, block: &Block) {
    object.array("uncles", &block.ommers, |out, uncle| json::push_data(out, uncle.hash_slow().as_slice()));
}

/// Appends a block's withdrawals, as a field of an object.
pub fn push_withdrawals(object: &mut Object<'_>, withdrawals: &[Withdrawal]) {
    object.array("withdrawals", withdrawals, |out, withdrawal| {
        json::push_object(out, |object| {
            object.quantity("index", withdrawal.index);
            object.quantity("validatorIndex", withdrawal.validator_index);
            object.data("address", withdrawal.address.as_slice());
            object.quantity("amount", withdrawal.amount);
        });
    });
}

/// Appends a transaction; one in the pool has no place.
pub fn push_transaction(out: &mut String, tx: &Tx, place: Option<TxPosition<'_>>) {
    let envelope = &tx.envelope;
    let is_dynamic = envelope.max_priority_fee_per_gas().is_some();
    json::push_object(out, |object| {
        match place {
            Some(TxPosition { block, index }) => {
                object.data("blockHash", block.hash.as_slice());
                object.quantity("blockNumber", block.number());
                object.quantity("blockTimestamp", block.header.timestamp);
                object.quantity("transactionIndex", index as u64);
            }
            None => {
                let names = ["blockHash", "blockNumber", "blockTimestamp", "transactionIndex"];
                names.iter().for_each(|name| object.null(name));
            }
        }
        object.data("hash", tx.hash.as_slice());
        object.quantity("type", envelope.tx_type() as u64);
        object.data("from", tx.sender.as_slice());
        object.data_or_null("to", envelope.to().as_ref().map(|to| to.as_slice()));
        object.quantity("nonce", envelope.nonce());
        object.quantity("gas", envelope.gas_limit());
        object.quantity_256("value", &envelope.value());
        object.data("input", envelope.input());
        let price = match place {
            Some(place) => tx.effective_gas_price(place.block.base_fee()),
            None => envelope.max_fee_per_gas(),
        };
        object.quantity_256("gasPrice", &U256::from(price));
        if is_dynamic {
            object.quantity_256("maxFeePerGas", &U256::from(envelope.max_fee_per_gas()));
            let tip = envelope.max_priority_fee_per_gas().unwrap_or_default();
            object.quantity_256("maxPriorityFeePerGas", &U256::from(tip));
        }
        if let Some(fee) = envelope.max_fee_per_blob_gas() {
            object.quantity_256("maxFeePerBlobGas", &U256::from(fee));
            let hashes = envelope.blob_versioned_hashes().unwrap_or_default();
            object.array("blobVersionedHashes", hashes, |out, hash| json::push_data(out, hash.as_slice()));
        }
        if let Some(list) = envelope.access_list() {
            object.array("accessList", &list.0, |out, item| {
                json::push_object(out, |object| {
                    object.data("address", item.address.as_slice());
                    object.array("storageKeys", &item.storage_keys, |out, key| json::push_data(out, key.as_slice()));
                });
            });
        }
        if let Some(list) = envelope.authorization_list() {
            object.array("authorizationList", list, |out, signed| {
                json::push_object(out, |object| {
                    object.quantity_256("chainId", signed.chain_id());
                    object.data("address", signed.address().as_slice());
                    object.quantity("nonce", signed.nonce());
                    object.quantity("yParity", signed.y_parity().into());
                    object.quantity_256("r", &signed.r());
                    object.quantity_256("s", &signed.s());
                });
            });
        }
        push_signature(object, tx);
    });
}

fn push_signature(object: &mut Object<'_>, tx: &Tx) {
    let signature = tx.envelope.signature();
    let parity = u64::from(signature.v());
    let chain_id = tx.envelope.chain_id();
    if let Some(chain_id) = chain_id {
        object.quantity("chainId", chain_id);
    }
    let v = match (tx.envelope.is_legacy(), chain_id) {
        (false, _) => {
            object.quantity("yParity", parity);
            U256::from(parity)
        }
        // EIP-155; a chain id may be as large as a word.
        (true, Some(chain_id)) => U256::from(chain_id) * U256::from(2) + U256::from(35 + parity),
        (true, None) => U256::from(27 + parity),
    };
    object.quantity_256("v", &v);
    object.quantity_256("r", &signature.r());
    object.quantity_256("s", &signature.s());
}

/// Appends a receipt; `blob_price` is the price of a unit of blob gas in its block, in wei.
pub fn push_receipt(out: &mut String, place: TxPosition<'_>, blob_price: u128) {
    push_receipt_after(out, place, blob_price, place.logs_before());
}

/// Formats all receipts of a block in which a unit of blob gas costs `blob_price` wei.
pub fn receipts(block: &Block, blob_price: u128) -> String {
    let mut logs_before = 0;
    json::array(0..block.txs.len(), |out, index| {
        push_receipt_after(out, TxPosition { block, index }, blob_price, logs_before);
        logs_before += block.receipts[index].logs.len() as u64;
    })
}

fn push_receipt_after(out: &mut String, place: TxPosition<'_>, blob_price: u128, logs_before: u64) {
    let (tx, receipt) = (place.tx(), place.receipt());
    json::push_object(out, |object| {
        object.data("transactionHash", tx.hash.as_slice());
        object.quantity("transactionIndex", place.index as u64);
        object.data("blockHash", place.block.hash.as_slice());
        object.quantity("blockNumber", place.block.number());
        object.data("from", tx.sender.as_slice());
        object.data_or_null("to", tx.envelope.to().as_ref().map(|to| to.as_slice()));
        object.quantity("cumulativeGasUsed", receipt.cumulative_gas_used);
        object.quantity("gasUsed", receipt.gas_used);
        object.quantity_256("effectiveGasPrice", &U256::from(receipt.effective_gas_price));
        if tx.envelope.is_eip4844() {
            object.quantity("blobGasUsed", blobs::gas_of(&tx.envelope));
            object.quantity_256("blobGasPrice", &U256::from(blob_price));
        }
        object.data_or_null("contractAddress", receipt.contract_address.as_ref().map(|made| made.as_slice()));
        object.data("logsBloom", receipt.bloom.as_slice());
        object.quantity("type", receipt.tx_type as u64);
        match &receipt.root {
            Some(root) => object.data("root", root.as_slice()),
            None => object.quantity("status", receipt.status.into()),
        }
        object.array("logs", receipt.logs.iter().zip(logs_before..), |out, (log, index)| {
            push_log(out, log, &place, index, false);
        });
    });
}

/// Appends a log; `index` is its index in the block, which may have been removed.
pub fn push_log(out: &mut String, log: &Log, place: &TxPosition<'_>, index: u64, is_gone: bool) {
    json::push_object(out, |object| {
        object.data("address", log.address.as_slice());
        object.array("topics", log.topics(), |out, topic: &B256| json::push_data(out, topic.as_slice()));
        object.data("data", &log.data.data);
        object.data("blockHash", place.block.hash.as_slice());
        object.quantity("blockNumber", place.block.number());
        object.quantity("blockTimestamp", place.block.header.timestamp);
        object.data("transactionHash", place.tx().hash.as_slice());
        object.quantity("transactionIndex", place.index as u64);
        object.quantity("logIndex", index);
        object.flag("removed", is_gone);
    });
}
