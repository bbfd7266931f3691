//! What has changed between two looks at the ledger, and what each subscription is told of it.
//!
//! reads   the ledger
//! writes  the texts of notifications
//! memory  a pair of numbers for each slot that has gone by: 512 at most
//! source  the shapes of `rpc_subscriptions.rs` of `solana-rpc` 4.2

use axum::extract::ws::Utf8Bytes;
use hearth_ledger::{Commitment, Ledger};
use serde_json::{Value, json};

use super::Watch;
use crate::encoding::token::TokenView;
use crate::jsonrpc::notification;
use crate::methods::with_context;

/// Blocks that the ledger is asked for when slots have gone by: all that it remembers.
const BLOCKS_MAX: usize = 512;

/// The numbers that change when anything does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    transactions: u64,
    processed: u64,
    confirmed: u64,
    finalized: u64,
}

impl Seen {
    pub fn now(ledger: &Ledger) -> Self {
        Self {
            // First: what lands after it is seen at the next look.
            transactions: ledger.transaction_count(Commitment::Processed),
            processed: ledger.slot(Commitment::Processed),
            confirmed: ledger.slot(Commitment::Confirmed),
            finalized: ledger.slot(Commitment::Finalized),
        }
    }

    fn slot(&self, commitment: Commitment) -> u64 {
        match commitment {
            Commitment::Processed => self.processed,
            Commitment::Confirmed => self.confirmed,
            Commitment::Finalized => self.finalized,
        }
    }

    /// Whether a transaction may have come to `commitment` since `before`.
    fn may_have_landed(&self, before: &Self, commitment: Commitment) -> bool {
        match commitment {
            Commitment::Processed => self.transactions != before.transactions,
            surer => self.slot(surer) != before.slot(surer),
        }
    }
}

/// A notification for a subscription.
pub struct Told {
    pub id: u64,
    pub text: Utf8Bytes,
    /// Whether the subscription ends with it.
    pub last: bool,
}

/// What has changed between two looks.
pub struct Changes {
    before: Seen,
    now: Seen,
    fresh: bool,
    /// Slots that have begun, each with its parent, the oldest first.
    slots: Vec<(u64, u64)>,
    /// Slots that have become final.
    roots: Vec<u64>,
}

impl Changes {
    pub fn between(ledger: &Ledger, before: &Seen, now: Seen, fresh: bool) -> Self {
        let (mut slots, mut roots) = (Vec::new(), Vec::new());
        if now.processed != before.processed || now.finalized != before.finalized {
            let working = ledger.working_bank().map(|bank| (bank.slot(), bank.parent()));
            let mut blocks = ledger.recent_blocks(BLOCKS_MAX);
            blocks.reverse();
            let begun = blocks.iter().map(|block| (block.slot, block.parent)).chain(working);
            // A slot that began after the numbers were read is told at the next look.
            slots = begun.filter(|(slot, _)| *slot > before.processed && *slot <= now.processed).collect();
            let final_now = blocks.iter().map(|block| block.slot);
            roots = final_now.filter(|slot| *slot > before.finalized && *slot <= now.finalized).collect();
        }
        Self { before: *before, now, fresh, slots, roots }
    }

    /// Adds to `told` what one subscription is to be told.
    pub fn tell(&self, ledger: &Ledger, id: u64, watch: &mut Watch, told: &mut Vec<Told>) {
        let name = watch.name();
        let mut tell = |result: Value, last: bool| {
            let text = notification(&format!("{name}Notification"), &result, id);
            told.push(Told { id, text: text.into(), last });
        };
        match watch {
            Watch::Slot => {
                for (slot, parent) in &self.slots {
                    tell(json!({ "parent": parent, "root": self.now.finalized, "slot": slot }), false);
                }
            }
            Watch::Root => self.roots.iter().for_each(|root| tell(json!(root), false)),
            Watch::Account { key, format, last } => {
                let moved =
                    self.now.transactions != self.before.transactions || self.now.processed != self.before.processed;
                if !moved && !self.fresh {
                    return;
                }
                let account = ledger.account(key);
                if account == *last {
                    return;
                }
                // One that is gone is told as one that is empty.
                let look = |key: &_| ledger.account(key);
                let shown = format.json(key, &account.clone().unwrap_or_default(), &mut TokenView::new(&look));
                *last = account;
                // What cannot be written as it was asked for has been asked for wrongly: nothing to tell.
                if let Ok(shown) = shown {
                    tell(with_context(self.now.processed, shown), false);
                }
            }
            Watch::Signature { signature, commitment, received } => {
                let wanted = if *received { Commitment::Processed } else { *commitment };
                if !self.fresh && !self.now.may_have_landed(&self.before, wanted) {
                    return;
                }
                let Some(status) = ledger.signature_status(signature) else { return };
                if std::mem::take(received) {
                    tell(with_context(status.slot, json!("receivedSignature")), false);
                }
                if status.commitment >= *commitment {
                    let slot = self.now.slot(*commitment).max(status.slot);
                    tell(with_context(slot, json!({ "err": status.result.err() })), true);
                }
            }
        }
    }
}
