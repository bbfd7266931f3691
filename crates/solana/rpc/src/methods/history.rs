//! Past transactions and blocks, as far back as the history reaches.
//!
//! reads   the history and the block store
//! writes  transactions, blocks, the signatures of an address
//! memory  one block, and its JSON
//! drops   requests below the commitment, pruned blocks and unsupported versions: the cluster's error codes
//! source  `rpc.rs` of `solana-rpc` 4.2 for the rules, `solana-transaction-status` 4.2 for the shapes
//!
//! Only confirmed and finalized blocks are served. Their chain has no forks, and every durable block is complete.

use hearth_ledger::history::{AddressEntry, HistoryError, TransactionPosition};
use hearth_ledger::{Commitment, SlotHistory};
use hearth_wire::base58::{decode_64, encode_32, encode_64};
use hearth_wire::{Pubkey, Signature};
use serde_json::{Value, json};
use solana_transaction_status::{
    BlockEncodingOptions, ConfirmedBlock, EncodeError, TransactionDetails, TransactionWithStatusMeta,
    UiTransactionEncoding,
};

use super::Api;
use crate::encoding::transaction as encode;
use crate::history::HistoryView;
use crate::jsonrpc::Failure;
use crate::params::{Options, Params};

/// Maximum slot range and list length of `getBlocks`.
const BLOCKS_MAX: u64 = 500_000;
/// Maximum signatures of `getSignaturesForAddress`.
const SIGNATURES_MAX: u64 = 1_000;

/// The encoding, details and maximum version that a client requests.
struct TransactionFormat {
    encoding: UiTransactionEncoding,
    commitment: Commitment,
    version_max: Option<u8>,
}

impl TransactionFormat {
    /// Parses the options at `index`, or the bare name of an encoding, which older clients send.
    fn of<'a>(params: Params<'a>, index: usize) -> Result<(Self, Options<'a>), Failure> {
        let bare = params.value(index).and_then(Value::as_str);
        let options = if bare.is_some() { Options::default() } else { params.options(index)? };
        let encoding = match bare.or(options.text("encoding")?).unwrap_or("json") {
            "json" => UiTransactionEncoding::Json,
            "jsonParsed" => UiTransactionEncoding::JsonParsed,
            "base58" => UiTransactionEncoding::Base58,
            "base64" => UiTransactionEncoding::Base64,
            "binary" => UiTransactionEncoding::Binary,
            other => {
                return Err(Failure::invalid_params(format!(
                    "encoding: {other:?} is none of \"json\", \"jsonParsed\", \"base58\", \"base64\", \"binary\""
                )));
            }
        };
        let version_max = options.number("maxSupportedTransactionVersion")?;
        let version_max = version_max.map(|version| {
            let wrong = || Failure::invalid_params(format!("maxSupportedTransactionVersion: {version} is above 255"));
            u8::try_from(version).map_err(|_| wrong())
        });
        let commitment = at_least_confirmed(options)?;
        Ok((Self { encoding, commitment, version_max: version_max.transpose()? }, options))
    }
}

impl Api {
    /// The history; fails if the node keeps none.
    pub fn history(&self) -> Result<&HistoryView, Failure> {
        self.history.as_ref().ok_or_else(Failure::no_history)
    }

    pub async fn get_transaction(&self, params: Params<'_>) -> Result<Value, Failure> {
        let signature = params.at_most(2)?.signature(0, "signature")?;
        let (wanted, _) = TransactionFormat::of(params, 1)?;
        let history = self.history()?;
        let found = history.log.transaction(&signature).map_err(failed)?;
        let Some(found) = found.filter(|found| found.place.slot <= self.ledger.slot(wanted.commitment)) else {
            return Ok(Value::Null);
        };
        let TransactionPosition { slot, index } = found.place;
        let Some(block) = history.block(slot)? else { return Ok(Value::Null) };
        let bytes = block.transaction(index as usize).ok_or_else(|| disagree(slot))?;
        let confirmed = encode::confirmed(bytes, found.meta, (slot, index), found.block_time)?;
        let encoded = confirmed.encode(wanted.encoding, wanted.version_max).map_err(unsupported)?;
        serde_json::to_value(encoded).map_err(Failure::internal)
    }

    pub async fn get_block(&self, params: Params<'_>) -> Result<Value, Failure> {
        let slot = params.at_most(2)?.number(0, "slot")?;
        let (wanted, options) = TransactionFormat::of(params, 1)?;
        let details = match options.text("transactionDetails")?.unwrap_or("full") {
            "full" => TransactionDetails::Full,
            "accounts" => TransactionDetails::Accounts,
            "signatures" => TransactionDetails::Signatures,
            "none" => TransactionDetails::None,
            other => {
                return Err(Failure::invalid_params(format!(
                    "transactionDetails: {other:?} is none of \"full\", \"accounts\", \"signatures\", \"none\""
                )));
            }
        };
        let show_rewards = options.flag_or("rewards", true)?;
        let history = self.history()?;
        self.check_there(slot, wanted.commitment)?;
        let options = BlockEncodingOptions {
            transaction_details: details,
            show_rewards,
            max_supported_transaction_version: wanted.version_max,
        };
        if slot == self.genesis_slot {
            return self.genesis_block(wanted.encoding, options);
        }
        self.at_length(|| block_json(history, slot, wanted.encoding, options)).await
    }

    /// Builds slot 0's block: no transactions, and the blockhash that the first block names. As on the cluster it is
    /// its own parent, down to the blockhash.
    fn genesis_block(&self, encoding: UiTransactionEncoding, options: BlockEncodingOptions) -> Result<Value, Failure> {
        let blockhash = encode_32(self.ledger.slot_0_hash()).to_string();
        let block = ConfirmedBlock {
            previous_blockhash: blockhash.clone(),
            blockhash,
            parent_slot: self.genesis_slot,
            transactions: vec![],
            rewards: vec![],
            num_partitions: None,
            block_time: Some(self.genesis_time),
            block_height: Some(0),
        };
        let block = block.encode_with_options(encoding, options).map_err(unsupported)?;
        serde_json::to_value(block).map_err(Failure::internal)
    }

    /// Fails with the cluster's error if a slot's block cannot be served.
    fn check_there(&self, slot: u64, commitment: Commitment) -> Result<(), Failure> {
        if slot > self.ledger.slot(commitment) {
            return Err(Failure::no_block(slot));
        }
        let first = self.first_available_slot();
        if slot < first {
            return Err(Failure::cleaned_up(slot, first));
        }
        if slot == self.genesis_slot {
            return Ok(());
        }
        let is_there = self.blocks.as_ref().and_then(|blocks| blocks.slot(slot)).is_some_and(|block| block.whole);
        let is_left = || SlotHistory::of(&self.ledger).is_some_and(|history| !history.may_have(slot));
        if is_there && !is_left() { Ok(()) } else { Err(Failure::skipped(slot)) }
    }

    pub fn get_block_time(&self, params: Params<'_>) -> Result<Value, Failure> {
        let slot = params.at_most(1)?.number(0, "slot")?;
        if slot == 0 {
            return Ok(json!(self.genesis_time));
        }
        self.check_there(slot, Commitment::Confirmed)?;
        if slot == self.genesis_slot {
            return Ok(json!(self.genesis_time));
        }
        let history = self.history()?;
        let time = history.log.block_time(slot).map_err(failed)?;
        time.map(|time| json!(time)).ok_or_else(|| Failure::status_not_yet(slot))
    }

    /// Lists the blocks between two slots; the second parameter may be the options.
    pub fn get_blocks(&self, params: Params<'_>) -> Result<Value, Failure> {
        let start = params.at_most(3)?.number(0, "startSlot")?;
        let bare = params.value(1).is_none_or(Value::is_number);
        let end = if bare && params.value(1).is_some() { Some(params.number(1, "endSlot")?) } else { None };
        let options = params.options(if bare { 2 } else { 1 })?;
        let highest = self.slot_for(at_least_confirmed(options)?, options)?;
        let end = end.unwrap_or(start.saturating_add(BLOCKS_MAX)).min(highest);
        if end < start {
            return Ok(json!([]));
        }
        if end - start > BLOCKS_MAX {
            return Err(Failure::refused_params(format!("Slot range too large; max {BLOCKS_MAX}")));
        }
        Ok(self.blocks_json(start, end, usize::MAX))
    }

    pub fn get_blocks_with_limit(&self, params: Params<'_>) -> Result<Value, Failure> {
        let start = params.at_most(3)?.number(0, "startSlot")?;
        let limit = params.number(1, "limit")?;
        let options = params.options(2)?;
        let highest = self.slot_for(at_least_confirmed(options)?, options)?;
        if limit > BLOCKS_MAX {
            return Err(Failure::refused_params(format!("Limit too large; max {BLOCKS_MAX}")));
        }
        Ok(self.blocks_json(start, highest, limit as usize))
    }

    fn blocks_json(&self, start: u64, end: u64, limit: usize) -> Value {
        json!(self.block_slots(start, end, limit))
    }

    /// The slots of at most `limit` blocks from `start` to `end`, in order.
    pub fn block_slots(&self, start: u64, end: u64, limit: usize) -> Vec<u64> {
        let first = self.first_available_slot();
        let genesis = self.genesis_slot;
        let from = start.max(first).max(genesis + 1);
        let genesis = (first == genesis && (start..=end).contains(&genesis)).then_some(genesis);
        let stored = match &self.blocks {
            Some(blocks) if from <= end => blocks.slots(from..=end, usize::MAX),
            _ => vec![],
        };
        let history = SlotHistory::of(&self.ledger);
        let is_left = |slot| history.as_ref().is_some_and(|history| !history.may_have(slot));
        let stored = stored.iter().filter(|block| block.whole && !is_left(block.slot)).map(|block| block.slot);
        genesis.into_iter().chain(stored).take(limit).collect()
    }

    pub fn get_signatures_for_address(&self, params: Params<'_>) -> Result<Value, Failure> {
        let address = params.at_most(2)?.pubkey(0, "address")?;
        let options = params.options(1)?;
        let limit = options.number("limit")?.unwrap_or(SIGNATURES_MAX);
        if limit == 0 || limit > SIGNATURES_MAX {
            return Err(Failure::refused_params(format!("Invalid limit; max {SIGNATURES_MAX}")));
        }
        let history = self.history()?;
        let highest = self.slot_for(at_least_confirmed(options)?, options)?;
        let (before, until) = (place_of(history, options, "before")?, place_of(history, options, "until")?);
        let found = entries_of(history, &address, highest, (before, until), limit as usize)?;
        let final_slot = self.ledger.slot(Commitment::Finalized);
        // Entries of pruned blocks are left out.
        let first = self.first_available_slot();
        let kept = found.iter().filter(|entry| entry.place.slot >= first);
        Ok(kept.map(|entry| entry_json(entry, final_slot)).collect())
    }

    /// The status of a transaction that has left the ledger's status cache.
    pub fn older_status(&self, signature: &Signature) -> Result<Option<Value>, Failure> {
        let found = self.history()?.log.transaction(signature).map_err(failed)?;
        let found = found.filter(|found| found.place.slot <= self.ledger.slot(Commitment::Finalized));
        Ok(found.map(|found| {
            let result = found.meta.result;
            let status = match result {
                Ok(()) => json!({ "Ok": null }),
                Err(error) => json!({ "Err": error }),
            };
            json!({
                "slot": found.place.slot,
                "confirmations": null,
                "err": result.err(),
                "status": status,
                "confirmationStatus": Commitment::Finalized,
            })
        }))
    }
}

fn block_json(
    history: &HistoryView,
    slot: u64,
    encoding: UiTransactionEncoding,
    options: BlockEncodingOptions,
) -> Result<Value, Failure> {
    let meta = history.log.block(slot).map_err(failed)?.ok_or_else(|| Failure::status_not_yet(slot))?;
    let transactions = match options.transaction_details {
        TransactionDetails::None => vec![],
        _ => transactions_of(history, slot)?,
    };
    let block = encode::block(&meta, transactions).encode_with_options(encoding, options).map_err(unsupported)?;
    serde_json::to_value(block).map_err(Failure::internal)
}

fn transactions_of(history: &HistoryView, slot: u64) -> Result<Vec<TransactionWithStatusMeta>, Failure> {
    let metas = history.log.transactions(slot).map_err(failed)?.ok_or_else(|| Failure::status_not_yet(slot))?;
    let block = history.block(slot)?.ok_or_else(|| Failure::skipped(slot))?;
    if block.len() != metas.len() {
        return Err(disagree(slot));
    }
    let bytes = (0..block.len()).filter_map(|index| block.transaction(index));
    bytes.zip(metas).map(|(bytes, meta)| encode::with_meta(bytes, meta)).collect()
}

fn entries_of(
    history: &HistoryView,
    address: &Pubkey,
    highest: u64,
    bounds: (Option<TransactionPosition>, Option<TransactionPosition>),
    limit: usize,
) -> Result<Vec<AddressEntry>, Failure> {
    history.log.of_address(address, highest, bounds, limit).map_err(failed)
}

/// The position of the transaction whose signature is under `key`.
fn place_of(history: &HistoryView, options: Options<'_>, key: &str) -> Result<Option<TransactionPosition>, Failure> {
    let Some(text) = options.text(key)? else { return Ok(None) };
    let signature = decode_64(text).map_err(|error| Failure::invalid_params(format!("{key}: {error}")))?;
    let place = history.log.place(&signature).map_err(failed)?;
    place.map(Some).ok_or_else(|| Failure::filter_not_found(text))
}

fn entry_json(entry: &AddressEntry, final_slot: u64) -> Value {
    let is_final = entry.place.slot <= final_slot;
    json!({
        "signature": &*encode_64(&entry.signature),
        "slot": entry.place.slot,
        "err": entry.err,
        "memo": entry.memo,
        "blockTime": entry.block_time,
        "confirmationStatus": if is_final { Commitment::Finalized } else { Commitment::Confirmed },
        "transactionIndex": entry.place.index,
    })
}

/// The commitment, which must be at least confirmed; finalized if it is missing.
pub fn at_least_confirmed(options: Options<'_>) -> Result<Commitment, Failure> {
    match options.commitment()? {
        Commitment::Processed => Err(Failure::refused_params("Method does not support commitment below `confirmed`")),
        commitment => Ok(commitment),
    }
}

fn unsupported(error: EncodeError) -> Failure {
    let EncodeError::UnsupportedTransactionVersion(version) = error;
    Failure::unsupported_version(version)
}

pub fn failed(error: HistoryError) -> Failure {
    Failure::stored("the transaction history cannot be read", error)
}

fn disagree(slot: u64) -> Failure {
    Failure::internal(format!("history and block store disagree on slot {slot}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_history_names_no_file() {
        let file = std::path::PathBuf::from("/srv/node/history/00000001.log");
        for error in [
            HistoryError::Corrupt { file: file.clone(), offset: 7, what: "the record does not verify" },
            HistoryError::Io { doing: "cannot read", file: file.clone(), source: std::io::ErrorKind::NotFound.into() },
            HistoryError::NoRoom { file, source: std::io::ErrorKind::StorageFull.into() },
        ] {
            let failure = failed(error);
            assert_eq!(failure.code(), -32603);
            assert!(!failure.message().contains('/') && !failure.message().contains(".log"), "{}", failure.message());
        }
    }
}
