//! The outcome of a transaction, a method of our own: no transaction vanishes without an explanation.
//!
//! reads   statuses and history of landed transactions, drops by the tiles, the resend queue
//! writes  the outcome, also in words
//! memory  one response
//!
//! A landed copy takes precedence over all other copies, then the last drop, then the resend queue. If nothing is
//! known, the answer says how far back the records reach.

use hearth_ledger::drop_log::{DropEntry, DropRecord};
use hearth_ledger::{Commitment, TransactionError};
use hearth_wire::Signature;
use hearth_wire::base58::encode_64;
use serde_json::{Value, json};

use super::{Api, with_context};
use crate::jsonrpc::Failure;
use crate::params::Params;

/// A transaction that is in a block.
struct LandedTransaction {
    slot: u64,
    result: Result<(), TransactionError>,
    commitment: Commitment,
}

impl Api {
    pub fn get_transaction_fate(&self, params: Params<'_>) -> Result<Value, Failure> {
        let signature = params.at_most(1)?.signature(0, "signature")?;
        // Read before the statuses, so that a transaction that lands between the two reads counts as landed.
        let fate = self.fates.of(&signature);
        let landed = self.landed(&signature)?;
        let dropped = fate.and_then(|fate| fate.dropped);
        let waits = self.is_resent(&signature);
        let duplicates = fate.filter(|fate| fate.duplicates > 0);
        let (name, explanation, hint) = match (&landed, &dropped) {
            (Some(landed), _) => ("landed", landed_text(landed), None),
            // It is still being resent and may land, so a client that signs another one now may pay twice.
            (None, Some(dropped)) if waits => ("pending", waits_text(dropped), None),
            (None, Some(dropped)) => ("dropped", dropped_text(dropped), Some(dropped.hint())),
            (None, None) if waits => ("pending", WAITS.to_owned(), None),
            (None, None) => ("unknown", self.unknown_text(duplicates), Some(UNKNOWN_HINT)),
        };
        let slot = self.ledger.slot(Commitment::Processed);
        let answer = json!({
            "signature": &*encode_64(&signature),
            "fate": name,
            "slot": landed.as_ref().map(|landed| landed.slot),
            "err": landed.as_ref().and_then(|landed| landed.result.err()),
            "confirmationStatus": landed.as_ref().map(|landed| landed.commitment),
            "drop": dropped.as_ref().map(drop_json),
            "duplicates": duplicates.map_or(Value::Null, duplicates_json),
            "explanation": explanation,
            "hint": hint,
            "window": self.window_json(),
        });
        Ok(with_context(slot, answer))
    }

    fn landed(&self, signature: &Signature) -> Result<Option<LandedTransaction>, Failure> {
        if let Some(status) = self.ledger.signature_status(signature) {
            return Ok(Some(LandedTransaction {
                slot: status.slot,
                result: status.result,
                commitment: status.commitment,
            }));
        }
        let Some(history) = &self.history else { return Ok(None) };
        let found = history.log.transaction(signature).map_err(super::history::failed)?;
        Ok(found.map(|found| {
            let slot = found.place.slot;
            let sure =
                [Commitment::Finalized, Commitment::Confirmed].into_iter().find(|c| slot <= self.ledger.slot(*c));
            LandedTransaction { slot, result: found.meta.result, commitment: sure.unwrap_or(Commitment::Processed) }
        }))
    }

    /// The Unix time in seconds from which every drop is known.
    fn drops_known_from(&self) -> u64 {
        self.fates.window().forgotten_unix_s.map_or(self.began_unix_s, |last| u64::from(last) + 1)
    }

    fn window_json(&self) -> Value {
        let window = self.fates.window();
        json!({ "capacity": window.capacity, "kept": window.kept, "from": self.drops_known_from() })
    }

    fn unknown_text(&self, duplicates: Option<DropRecord>) -> String {
        let landed = match (self.transaction_history, &self.history) {
            (false, _) => "This node does not keep what landed (`rpc.transaction_history` is off).".to_owned(),
            (true, None) => "It has not landed in the last 300 blocks; there is no history to look further.".to_owned(),
            (true, Some(_)) => {
                format!("It has not landed since slot {}, where the history begins.", self.first_available_slot())
            }
        };
        let copies = duplicates.map_or(String::new(), |fate| {
            format!(" {} came after the first and went as duplicates.", copies(fate.duplicates))
        });
        let capacity = self.fates.window().capacity;
        let dropped = match (self.fates.window().forgotten_unix_s, capacity) {
            (_, 0) => "Drops are not remembered (`rpc.fate_capacity` is 0).".to_owned(),
            (None, _) => "No tile has dropped it since the node began.".to_owned(),
            (Some(_), _) => format!(
                "No tile has dropped it since {} (Unix time); what was dropped before may be forgotten, only the last {capacity} are kept.",
                self.drops_known_from()
            ),
        };
        format!("{landed}{copies} {dropped}")
    }
}

/// The pseudo-tile of transactions that the RPC refuses before they reach a tile.
const RPC: &str = "rpc";
const WAITS: &str = "It came over RPC and has neither landed nor been dropped yet. It is resent until it lands or its blockhash expires.";
const UNKNOWN_HINT: &str =
    "It may be on its way still, or never have come here: was it sent to this node, and is this its first signature?";

fn landed_text(landed: &LandedTransaction) -> String {
    let sure = match landed.commitment {
        Commitment::Processed => "processed",
        Commitment::Confirmed => "confirmed",
        Commitment::Finalized => "finalized",
    };
    match landed.result {
        Ok(()) => format!("It landed in slot {} ({sure}).", landed.slot),
        Err(error) => format!(
            "It landed in slot {} ({sure}) and failed; the fee was paid. The error: {}",
            landed.slot,
            sentence(&error)
        ),
    }
}

/// Explains a transaction that was dropped and is being resent.
fn waits_text(dropped: &DropEntry) -> String {
    match dropped.reason.tile() {
        // It failed the preflight, and was sent again without one.
        RPC => WAITS.to_owned(),
        tile => {
            let (counter, why) = (dropped.reason.counter(), dropped.reason.text());
            format!(
                "{tile} dropped it ({counter}). {why} It came over RPC and is resent until it lands or its blockhash expires."
            )
        }
    }
}

fn dropped_text(dropped: &DropEntry) -> String {
    let reason = dropped.reason;
    let error = dropped.error.map_or(String::new(), |error| format!(" The error: {}", sentence(&error)));
    let place = if reason.tile() == RPC { "the RPC refused it" } else { &format!("{} dropped it", reason.tile()) };
    format!("It did not land: {place} ({}). {}{error}", reason.counter(), reason.text())
}

/// The error's text, ended by a full stop.
fn sentence(error: &TransactionError) -> String {
    let text = error.to_string();
    if text.ends_with('.') { text } else { text + "." }
}

fn copies(count: u16) -> String {
    match count {
        1 => "1 copy".into(),
        u16::MAX => "65,535 copies or more".into(),
        count => format!("{count} copies"),
    }
}

fn drop_json(dropped: &DropEntry) -> Value {
    let reason = dropped.reason;
    json!({
        "tile": reason.tile(),
        "counter": format!("{}_{}", reason.tile(), reason.counter()),
        "reason": reason.text(),
        "err": dropped.error,
        "unixTimestamp": dropped.unix_s,
    })
}

fn duplicates_json(fate: DropRecord) -> Value {
    let last = fate.duplicate.map(|reason| format!("{}_{}", reason.tile(), reason.counter()));
    json!({ "count": fate.duplicates, "lastCounter": last })
}
