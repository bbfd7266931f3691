//! Makes the notifications of each subscription.
//!
//! reads   [`Changes`], the ledger
//! writes  the texts of notifications; what has not reached its commitment is held in the subscription
//! memory  held-back values, over all subscriptions at most [`HELD_BYTES_MAX`]
//! drops   a connection for which more would have to be held back
//! source  the shapes of `rpc_subscriptions.rs` of `solana-rpc` 4.2

use hearth_ledger::notifier::LandedTransaction;
use hearth_ledger::{Account, Commitment, Ledger};
use hearth_serve::websocket::Utf8Bytes;
use hearth_wire::base58::{encode_32, encode_64};
use hearth_wire::{Pubkey, Txn};
use serde_json::{Value, json};
use solana_vote_interface::instruction::VoteInstruction;

use super::changes::Changes;
use super::watch::{LogsFilter, Watch};
use crate::encoding::account::AccountFormat;
use crate::encoding::token::TokenView;
use crate::jsonrpc::notification;

/// Maximum bytes held back until they reach their commitment.
pub const HELD_BYTES_MAX: usize = 256 << 20;

/// A notification for a subscription.
pub struct Notification {
    /// The number that the client got when it subscribed.
    pub id: u64,
    /// The text; `None` if the subscription must end because it would hold back too much.
    pub text: Option<Utf8Bytes>,
    /// Whether this is the subscription's last notification.
    pub last: bool,
}

/// Makes the notifications of one poll.
pub struct NotificationBuilder<'a> {
    /// The changes since the last poll.
    pub changes: &'a Changes,
    /// The source of accounts and statuses.
    pub ledger: &'a Ledger,
    /// Bytes held back for all subscriptions.
    pub held_bytes: &'a mut usize,
    /// The notifications made so far.
    pub notifications: Vec<Notification>,
}

/// The approximate size of a transaction's logs as a value, in bytes.
fn size_of_logs(landed: &LandedTransaction) -> usize {
    256 + landed.logs.iter().map(|line| 32 + line.len()).sum::<usize>()
}

fn size_of_account(account: &Account) -> usize {
    size_of::<(u64, Pubkey, Account)>() + account.data().len()
}

/// A value with its slot, in the shape of a notification.
fn with_slot(slot: u64, value: Value) -> Value {
    json!({ "context": { "slot": slot }, "value": value })
}

impl NotificationBuilder<'_> {
    /// Makes the notifications of one subscription.
    pub fn tell(&mut self, id: u64, watch: &mut Watch) {
        let name = watch.name();
        let changes = self.changes;
        match watch {
            Watch::Slot => {
                for (slot, parent) in &changes.slots {
                    let root = changes.now.slot(Commitment::Finalized);
                    self.say(id, name, &json!({ "parent": parent, "root": root, "slot": slot }), false);
                }
            }
            Watch::Root => changes.roots.iter().for_each(|root| self.say(id, name, &json!(root), false)),
            Watch::SlotsUpdates => changes.updates.iter().for_each(|update| self.say(id, name, update, false)),
            Watch::Vote => {
                let votes = changes.landed.iter().filter(|landed| landed.is_vote).filter_map(vote_json);
                votes.for_each(|vote| self.say(id, name, &vote, false));
            }
            Watch::Account { key, format, commitment, last } => {
                if !changes.fresh && !changes.may_have_changed(*commitment) {
                    return;
                }
                let (slot, account) = {
                    let state = self.ledger.state(*commitment);
                    (state.slot, state.account(key))
                };
                if account != *last {
                    // A deleted account is shown as an empty one.
                    let shown = account.clone().unwrap_or_default();
                    *last = account;
                    self.say_account(id, name, slot, (key, &shown), format);
                }
            }
            Watch::Program { .. } => self.program(id, watch),
            Watch::Logs { .. } => self.logs(id, watch),
            Watch::Signature { .. } => self.signature(id, watch),
        }
    }

    fn say(&mut self, id: u64, name: &str, result: &Value, last: bool) {
        let text = notification(&format!("{name}Notification"), result, id);
        self.notifications.push(Notification { id, text: Some(text.into()), last });
    }

    /// Notifies an account; a program subscription gets its address too.
    fn say_account(&mut self, id: u64, name: &str, slot: u64, one: (&Pubkey, &Account), format: &AccountFormat) {
        let look = |key: &_| self.ledger.account(key);
        let mut tokens = TokenView::new(&look);
        let (key, account) = one;
        let shown = match name {
            "program" => format.keyed(key, account, &mut tokens),
            _ => format.json(key, account, &mut tokens).map(Some),
        };
        // If the account cannot be written in the requested encoding there is no notification.
        if let Ok(Some(shown)) = shown {
            self.say(id, name, &with_slot(slot, shown), false);
        }
    }

    fn signature(&mut self, id: u64, watch: &mut Watch) {
        let Watch::Signature { signature, commitment, received } = watch else { return };
        let wanted = if *received { Commitment::Processed } else { *commitment };
        if !self.changes.fresh && !self.changes.may_have_landed(wanted) {
            return;
        }
        let Some(status) = self.ledger.signature_status(signature) else { return };
        if std::mem::take(received) {
            self.say(id, "signature", &with_slot(status.slot, json!("receivedSignature")), false);
        }
        if status.commitment >= *commitment {
            let slot = self.changes.now.slot(*commitment).max(status.slot);
            self.say(id, "signature", &with_slot(slot, json!({ "err": status.result.err() })), true);
        }
    }

    fn program(&mut self, id: u64, watch: &mut Watch) {
        let Watch::Program { program, filters, format, commitment, held } = watch else { return };
        let sure = self.changes.now.slot(*commitment);
        for changed in self.changes.of_program(program).filter(|changed| filters.allow(changed.account.data())) {
            if *commitment == Commitment::Processed {
                self.say_account(id, "program", changed.slot, (&changed.key, &changed.account), format);
                continue;
            }
            if !self.hold(id, size_of_account(&changed.account)) {
                return;
            }
            let before = held.insert((changed.slot, changed.key), changed.account.clone());
            *self.held_bytes -= before.map_or(0, |before| size_of_account(&before));
        }
        while let Some(entry) = held.first_entry().filter(|entry| entry.key().0 <= sure) {
            let ((slot, key), account) = entry.remove_entry();
            *self.held_bytes -= size_of_account(&account);
            self.say_account(id, "program", slot, (&key, &account), format);
        }
    }

    fn logs(&mut self, id: u64, watch: &mut Watch) {
        let Watch::Logs { filter, commitment, held } = watch else { return };
        let sure = self.changes.now.slot(*commitment);
        let landed: Vec<&LandedTransaction> = match filter {
            LogsFilter::All => self.changes.landed.iter().filter(|landed| !landed.is_vote).collect(),
            LogsFilter::AllWithVotes => self.changes.landed.iter().collect(),
            LogsFilter::Mentions(key) => self.changes.naming(key).collect(),
        };
        for landed in landed {
            let Some(value) = logs_json(landed) else { continue };
            if *commitment == Commitment::Processed {
                self.say(id, "logs", &with_slot(landed.slot, value), false);
                continue;
            }
            if !self.hold(id, size_of_logs(landed)) {
                return;
            }
            held.push_back((landed.slot, value));
        }
        while let Some((slot, value)) = held.pop_front_if(|(slot, _)| *slot <= sure) {
            *self.held_bytes -= held_size(&value);
            self.say(id, "logs", &with_slot(slot, value), false);
        }
    }

    /// Whether this many more bytes may be held back; if not, ends the subscription.
    fn hold(&mut self, id: u64, bytes: usize) -> bool {
        if *self.held_bytes + bytes > HELD_BYTES_MAX {
            self.notifications.push(Notification { id, text: None, last: true });
            return false;
        }
        *self.held_bytes += bytes;
        true
    }
}

/// Bytes held back for a subscription.
pub fn held_bytes(watch: &Watch) -> usize {
    match watch {
        Watch::Program { held, .. } => held.values().map(size_of_account).sum(),
        Watch::Logs { held, .. } => held.iter().map(|(_, value)| held_size(value)).sum(),
        _ => 0,
    }
}

/// The size of a logs value, equal to what [`size_of_logs`] estimates before the value is made.
fn held_size(value: &Value) -> usize {
    let lines = value["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
    256 + lines.iter().map(|line| 32 + line.as_str().map_or(0, str::len)).sum::<usize>()
}

fn logs_json(landed: &LandedTransaction) -> Option<Value> {
    let txn = Txn::parse(&landed.wire).ok()?;
    let signature = encode_64(txn.first_signature());
    Some(json!({ "signature": &*signature, "err": landed.err, "logs": landed.logs }))
}

/// A vote in the cluster's format; `None` if the vote program would not read it as one.
fn vote_json(landed: &LandedTransaction) -> Option<Value> {
    let txn = Txn::parse(&landed.wire).ok()?;
    let instruction = txn.instructions().next()?;
    let account = txn.account_keys().get(usize::from(*instruction.accounts.first()?))?;
    let (slots, hash, timestamp) = match bincode::deserialize(instruction.data).ok()? {
        VoteInstruction::Vote(vote) | VoteInstruction::VoteSwitch(vote, _) => (vote.slots, vote.hash, vote.timestamp),
        VoteInstruction::UpdateVoteState(update)
        | VoteInstruction::UpdateVoteStateSwitch(update, _)
        | VoteInstruction::CompactUpdateVoteState(update)
        | VoteInstruction::CompactUpdateVoteStateSwitch(update, _) => {
            (update.lockouts.iter().map(|lockout| lockout.slot()).collect(), update.hash, update.timestamp)
        }
        VoteInstruction::TowerSync(sync) | VoteInstruction::TowerSyncSwitch(sync, _) => {
            (sync.lockouts.iter().map(|lockout| lockout.slot()).collect(), sync.hash, sync.timestamp)
        }
        _ => return None,
    };
    Some(json!({
        "votePubkey": &*encode_32(account),
        "slots": slots,
        "hash": &*encode_32(&hash.to_bytes()),
        "timestamp": timestamp,
        "signature": &*encode_64(txn.first_signature()),
    }))
}
