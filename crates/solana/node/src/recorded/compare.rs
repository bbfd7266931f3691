//! Compares what the ledger came to with what was recorded.
//!
//! reads   blocks, transactions, the ledger before and after each
//! writes  the first difference, with our side of it: the account's fields, or what the block changed
//! memory  the accounts of one transaction

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::{Debug, Display, Write};

use hearth_crypto::sha256::sha256;
use hearth_ledger::{Account, BlockSummary, CommittedTransaction, Ledger, Outcome, SlotError, TransactionError};
use hearth_wire::base58::{encode_32, encode_64};
use hearth_wire::consts::*;
use hearth_wire::txn::Txn;
use hearth_wire::{ParseErrorKind, Pubkey};

use super::Difference;
use super::format::{Block, LandedTransaction, RefusedTransaction};
use crate::replay::signatures_are_valid;

/// Instructions beyond which the cluster refuses a transaction before it checks signatures.
const MAX_INSTRUCTIONS: usize = 64;
/// Bytes of an account's data that a difference shows.
const SHOWN_BYTES: usize = 48;

type ComparisonResult = Result<(), Box<Difference>>;

/// The place of a difference: a block, or a transaction in it.
struct DifferencePlace {
    slot: u64,
    transaction: Option<String>,
}

impl DifferencePlace {
    fn block(slot: u64) -> Self {
        Self { slot, transaction: None }
    }

    fn transaction(slot: u64, number: impl Display, txn: &Txn<'_>) -> Self {
        Self { slot, transaction: Some(format!("{number} ({})", encode_64(txn.first_signature()))) }
    }

    fn differs(&self, what: impl Display) -> ComparisonResult {
        Err(Box::new(Difference { slot: self.slot, transaction: self.transaction.clone(), what: what.to_string() }))
    }

    fn same<T: PartialEq + Debug>(&self, what: &str, ours: T, recorded: T) -> ComparisonResult {
        match ours == recorded {
            true => Ok(()),
            false => self.differs(format_args!("{what} is {ours:?} here, {recorded:?} as recorded")),
        }
    }
}

fn text(key: &Pubkey) -> String {
    encode_32(key).to_string()
}

/// Compares slot 0, which nobody executes.
pub(super) fn first_block(ledger: &Ledger, recorded: &Block) -> ComparisonResult {
    ledger.hash_all();
    let ours = ledger.recent_blocks(1)[0];
    DifferencePlace::block(recorded.slot).same("the last hash", text(&ours.blockhash), text(&recorded.blockhash))?;
    block(ledger, recorded, &ours)
}

/// The difference that the ledger does not begin a slot: it lacks a rule of the chain.
pub(super) fn cannot_begin(slot: u64, why: &SlotError) -> Box<Difference> {
    Box::new(Difference { slot, transaction: None, what: why.to_string() })
}

/// Compares the leader of a slot.
pub(super) fn leader(ledger: &Ledger, recorded: &Block) -> ComparisonResult {
    let ours = ledger.leader_at(recorded.slot).map(|leader| text(&leader.node));
    DifferencePlace::block(recorded.slot).same("the leader", ours, Some(text(&recorded.leader)))
}

/// Compares a block that has ended and is hashed.
pub(super) fn block(ledger: &Ledger, recorded: &Block, ours: &BlockSummary) -> ComparisonResult {
    let place = DifferencePlace::block(recorded.slot);
    place.same("the height", ours.height, recorded.height)?;
    place.same("the time", ours.unix_timestamp, recorded.time)?;
    let paid = recorded.rewards.iter().find(|reward| reward.kind == "Fee");
    let paid = paid.map(|reward| (text(&reward.key), reward.lamports, reward.balance));
    let pays = ours.reward.map(|reward| (text(&reward.collector), reward.lamports as i64, reward.post_balance));
    place.same("the leader's fee, as account, lamports and balance,", pays, paid)?;
    rewards(&place, ledger, recorded, ours)?;
    place.same("the capitalization", ledger.capitalization(), recorded.capitalization)?;
    let (hash, hash_there) = (ledger.hash_all().1, recorded.bank_hash);
    match hash == hash_there {
        true => Ok(()),
        false => place.differs(format_args!(
            "the bank's hash is {} here, {} as recorded{}",
            encode_32(&hash),
            encode_32(&hash_there),
            changed_besides(ledger, recorded)
        )),
    }
}

/// Compares what inflation paid as a block began, in whatever order.
fn rewards(place: &DifferencePlace, ledger: &Ledger, recorded: &Block, ours: &BlockSummary) -> ComparisonResult {
    let paid = ledger.rewards(ours).unwrap_or_default();
    let here: BTreeSet<_> = paid
        .rewards
        .iter()
        .map(|reward| (text(&reward.pubkey), format!("{:?}", reward.kind), reward.lamports, reward.post_balance))
        .collect();
    let there: BTreeSet<_> = recorded
        .rewards
        .iter()
        .filter(|reward| reward.kind != "Fee")
        .map(|reward| (text(&reward.key), reward.kind.clone(), reward.lamports, reward.balance))
        .collect();
    let only_here = here.difference(&there).next();
    let only_there = there.difference(&here).next();
    place.same("a reward, as account, kind, lamports and balance,", only_here, only_there)
}

/// The accounts that a block changed and none of its transactions did, whose changes are equal: one of these differs.
fn changed_besides(ledger: &Ledger, recorded: &Block) -> String {
    let mut said = format!("; the checksum of all accounts is {}", encode_32(&ledger.lattice().checksum()));
    let Some(changes) = ledger.slot_changes(recorded.slot, None, usize::MAX) else { return said };
    let by_txs: HashSet<&String> = recorded.txs.iter().flat_map(|landed| landed.changed.keys()).collect();
    said += "; changed besides what its transactions did:";
    for account in changes.accounts.iter().filter(|account| !by_txs.contains(&text(&account.key))) {
        let _ = write!(said, "\n  {}{}", text(&account.key), name(&account.key).unwrap_or_default());
        let _ =
            write!(said, ": {}", ledger.account(&account.key).map_or_else(|| String::from("gone"), |now| fields(&now)));
    }
    said
}

/// A sysvar's name, with a space before it.
fn name(key: &Pubkey) -> Option<&'static str> {
    let names = [
        (SYSVAR_CLOCK, " (clock)"),
        (SYSVAR_EPOCH_REWARDS, " (epoch rewards)"),
        (SYSVAR_EPOCH_SCHEDULE, " (epoch schedule)"),
        (SYSVAR_LAST_RESTART_SLOT, " (last restart slot)"),
        (SYSVAR_RECENT_BLOCKHASHES, " (recent blockhashes)"),
        (SYSVAR_RENT, " (rent)"),
        (SYSVAR_SLOT_HASHES, " (slot hashes)"),
        (SYSVAR_SLOT_HISTORY, " (slot history)"),
        (SYSVAR_STAKE_HISTORY, " (stake history)"),
    ];
    names.into_iter().find(|(sysvar, _)| sysvar == key).map(|(_, name)| name)
}

/// An account's fields as a text.
fn fields(account: &Account) -> String {
    let data = account.data();
    let shown = &data[..data.len().min(SHOWN_BYTES)];
    let begins = match shown {
        [] => String::new(),
        shown => format!(" that begin with {}", hex(shown)),
    };
    let executable = if account.executable { ", executable" } else { "" };
    let Account { lamports, owner, .. } = account;
    format!("{lamports} lamports of {}{executable}, {} bytes{begins}", encode_32(owner), data.len())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of an account's content: 8 bytes of a hash in hex; empty if it does not exist.
pub(super) fn digest(account: Option<&Account>) -> String {
    let Some(account) = account.filter(|account| account.lamports != 0) else { return String::new() };
    let lamports = account.lamports.to_le_bytes();
    hex(&sha256(&[&lamports, &account.owner, &[u8::from(account.executable)], account.data()])[..8])
}

/// The result of a transaction that was executed here.
pub(super) struct LocalResult {
    pub(super) outcome: Outcome,
    pub(super) logs: Vec<String>,
    /// All accounts that it names, also by lookup tables.
    pub(super) keys: Vec<Pubkey>,
    /// These accounts before it.
    pub(super) before: Vec<Option<Account>>,
    /// These accounts after it.
    pub(super) after: Vec<Option<Account>>,
}

/// Compares a transaction that is part of the block of `slot`, which `run` executes.
pub(super) fn landed(
    slot: u64,
    number: usize,
    recorded: &LandedTransaction,
    run: impl FnOnce(&Txn<'_>) -> LocalResult,
) -> ComparisonResult {
    let txn = match Txn::parse(&recorded.bytes) {
        Ok(txn) => txn,
        Err(why) => {
            let place = DifferencePlace { slot, transaction: Some(number.to_string()) };
            return place.differs(format_args!("it is not a transaction here: {why}"));
        }
    };
    let place = DifferencePlace::transaction(slot, number, &txn);
    if !signatures_are_valid(&txn) {
        return place.differs("a signature is invalid here");
    }
    let ran = run(&txn);
    let Outcome::Committed(CommittedTransaction { err, fee, compute_units, .. }) = ran.outcome else {
        return place.differs(format_args!("it does not land here: {:?}", ran.outcome));
    };
    if err != recorded.err {
        let log = ran.logs.join("\n  ");
        return place.differs(format_args!("its error is {err:?} here, {:?} as recorded\n  {log}", recorded.err));
    }
    place.same("its fee", fee, recorded.fee)?;
    compare_logs(&place, &ran.logs, &recorded.logs)?;
    place.same("its number of compute units", compute_units, recorded.units)?;
    compare_accounts(&place, &ran, &recorded.changed)
}

fn compare_logs(place: &DifferencePlace, ours: &[String], recorded: &[String]) -> ComparisonResult {
    let end = String::from("the end");
    for line in 0..ours.len().max(recorded.len()) {
        let (here, there) = (ours.get(line).unwrap_or(&end), recorded.get(line).unwrap_or(&end));
        place.same(&format!("line {} of its log", line + 1), here, there)?;
    }
    Ok(())
}

fn compare_accounts(
    place: &DifferencePlace,
    ran: &LocalResult,
    recorded: &BTreeMap<String, String>,
) -> ComparisonResult {
    let fields_of = |account: &Option<Account>| account.as_ref().map_or_else(|| String::from("no account"), fields);
    for (key, (before, after)) in ran.keys.iter().zip(ran.before.iter().zip(&ran.after)) {
        let (digest_before, ours) = (digest(before.as_ref()), digest(after.as_ref()));
        let there = recorded.get(&text(key)).unwrap_or(&digest_before);
        if ours != *there {
            return place.differs(format_args!(
                "the account {} has the digest {ours:?} here, {there:?} as recorded; before: {}; now: {}",
                text(key),
                fields_of(before),
                fields_of(after)
            ));
        }
    }
    let named: HashSet<String> = ran.keys.iter().map(text).collect();
    match recorded.keys().find(|key| !named.contains(*key)) {
        Some(key) => place.differs(format_args!("it changes the account {key} as recorded, which it does not name")),
        None => Ok(()),
    }
}

/// Compares the reason for which the cluster's bank refused a transaction, which `run` executes in the block of `slot`.
pub(super) fn refused(
    slot: u64,
    recorded: &RefusedTransaction,
    run: impl FnOnce(&Txn<'_>) -> Outcome,
) -> ComparisonResult {
    let txn = match Txn::parse(&recorded.bytes) {
        Ok(txn) => txn,
        Err(why) => {
            let place = DifferencePlace { slot, transaction: Some("that was refused".into()) };
            let reason = match why.kind {
                ParseErrorKind::UnsupportedVersion => TransactionError::UnsupportedVersion,
                // The cluster's bank verifies the signatures that have a key before it looks at the header.
                ParseErrorKind::SignatureCountMismatch if recorded.err == TransactionError::SignatureFailure => {
                    return Ok(());
                }
                _ => TransactionError::SanitizeFailure,
            };
            return place.same("the reason", reason, recorded.err);
        }
    };
    let place = DifferencePlace::transaction(slot, "that was refused", &txn);
    if txn.instruction_count() <= MAX_INSTRUCTIONS && !signatures_are_valid(&txn) {
        return place.same("the reason", TransactionError::SignatureFailure, recorded.err);
    }
    match run(&txn) {
        Outcome::NotCommitted(error) => place.same("the reason", error, recorded.err),
        outcome => place.differs(format_args!("it is {outcome:?} here, refused with {:?} as recorded", recorded.err)),
    }
}
