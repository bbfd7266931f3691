//! `hearth ledger export`: blocks and transactions as JSON, one a line.
//!
//! reads   blocks
//! writes  a file, or standard output; progress on standard error
//! memory  one block
//! source  names as in Solana's JSON-RPC; a transaction's bytes are in base64

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hearth_command::numbers::grouped;
use hearth_command::output::CommandOutput;
use hearth_command::progress::Progress;
use hearth_wire::base58::{encode_32, encode_64};
use serde_json::{Value, json};

use super::command::Slots;
use super::{LedgerError, OfflineChain};

/// Writes a line for each whole block, followed by a line for each of its transactions.
pub fn run(chain: &OfflineChain, slots: &Slots, out: Option<&Path>, say: &CommandOutput) -> Result<(), LedgerError> {
    let Some(path) = out else {
        return each(chain, slots, Progress::beside_lines(), |line| {
            say.line(line);
            Ok(!say.is_closed())
        });
    };
    let failed = |source| LedgerError::Write { path: path.into(), source };
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    each(chain, slots, Progress::new(), |line| writeln!(file, "{line}").map(|()| true).map_err(failed))?;
    file.flush().map_err(failed)
}

fn each(
    chain: &OfflineChain,
    slots: &Slots,
    mut progress: Progress,
    mut write: impl FnMut(Value) -> Result<bool, LedgerError>,
) -> Result<(), LedgerError> {
    let (mut count, whole) = (0, chain.recovery.last_whole_slot.unwrap_or(0));
    let last = slots.to.unwrap_or(u64::MAX).min(whole);
    for info in chain.blocks(slots)?.filter(|info| info.whole) {
        progress.tell(|| format!("exporting: slot {} of {last}, {} transactions", info.slot, grouped(count)));
        let (block, slot) = (chain.block(info.slot)?, info.slot);
        let entries = block.entries().map_err(|source| LedgerError::Entries { slot, source })?;
        let txns: Vec<_> = entries.iter().flat_map(|entry| entry.transactions()).collect();
        let blockhash = entries.last().map(|entry| encode_32(entry.hash).to_string());
        let head = json!({
            "type": "block", "slot": slot, "parentSlot": info.parent_slot, "blockhash": blockhash,
            "blockId": *encode_32(&block.block_id), "entries": entries.len(), "transactions": txns.len(),
        });
        if !write(head)? {
            return Ok(());
        }
        count += txns.len() as u64;
        for (index, txn) in txns.iter().enumerate() {
            let signatures: Vec<String> = txn.signatures().iter().map(|s| encode_64(s).to_string()).collect();
            let line = json!({
                "type": "transaction", "slot": slot, "index": index, "signatures": signatures,
                "transaction": BASE64_STANDARD.encode(txn.bytes()),
            });
            if !write(line)? {
                return Ok(());
            }
        }
    }
    Ok(())
}
