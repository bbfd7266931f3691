//! `stateDiff`: a message's changes of each account, in Parity's form.
//!
//! source  the `trace` module of OpenEthereum, as reth gives it

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use revm::DatabaseRef;
use revm::state::{Account, AccountInfo, EvmState};

use super::prestate::code_of;
use crate::failure::Failure;
use crate::json::{self, Object};

/// The kind of change of an account.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    Born,
    Changed,
    Died,
}

/// Returns what `state` changes of `db`, in at most this many bytes.
pub fn state_diff<D: DatabaseRef>(db: &D, state: &EvmState, bytes: usize) -> Result<String, Failure> {
    let touched: BTreeMap<&Address, &Account> = state.iter().filter(|(_, account)| account.is_touched()).collect();
    let mut out = String::from("{");
    for (address, account) in touched {
        let old = db.basic_ref(*address).map_err(Failure::state)?;
        let gone = account.is_selfdestructed() || account.info.is_empty();
        let fate = match (&old, gone) {
            (None, true) => continue,
            (None, false) => ChangeKind::Born,
            (Some(_), true) => ChangeKind::Died,
            (Some(_), false) => ChangeKind::Changed,
        };
        let old = old.unwrap_or_default();
        let slots = account.storage.iter().filter(|(_, slot)| slot.is_changed() && fate != ChangeKind::Died);
        let slots: BTreeMap<U256, (U256, U256)> =
            slots.map(|(key, slot)| (*key, (slot.original_value, slot.present_value))).collect();
        if fate == ChangeKind::Changed && old == account.info && slots.is_empty() {
            continue;
        }
        if out.len() > 1 {
            out.push(',');
        }
        json::push_text(&mut out, &alloy_primitives::hex::encode_prefixed(address));
        out.push(':');
        let codes = (code_of(db, &old)?, code_of(db, &account.info)?);
        json::push_object(&mut out, |object| push_account(object, fate, (&old, &account.info), codes, &slots));
        if out.len() > bytes {
            return Err(Failure::too_large());
        }
    }
    out.push('}');
    Ok(out)
}

fn push_account(
    object: &mut Object<'_>,
    fate: ChangeKind,
    (old, new): (&AccountInfo, &AccountInfo),
    (old_code, new_code): (Bytes, Bytes),
    slots: &BTreeMap<U256, (U256, U256)>,
) {
    push_delta(object, "balance", fate, (&old.balance, &new.balance), json::quantity_256);
    push_delta(object, "code", fate, (&old_code, &new_code), |code| json::data(code));
    push_delta(object, "nonce", fate, (&old.nonce, &new.nonce), |nonce| json::quantity(*nonce));
    let word = |value: &U256| json::data(&value.to_be_bytes::<32>());
    object.object("storage", |object| {
        for (key, (before, after)) in slots {
            push_delta(object, &B256::from(*key).to_string(), fate, (before, after), word);
        }
    });
}

fn push_delta<T: PartialEq>(
    object: &mut Object<'_>,
    name: &str,
    fate: ChangeKind,
    (old, new): (&T, &T),
    text: impl Fn(&T) -> String,
) {
    match fate {
        ChangeKind::Born => object.object(name, |object| object.raw("+", &text(new))),
        ChangeKind::Died => object.object(name, |object| object.raw("-", &text(old))),
        ChangeKind::Changed if old == new => object.text(name, "="),
        ChangeKind::Changed => object.object(name, |object| {
            object.object("*", |object| {
                object.raw("from", &text(old));
                object.raw("to", &text(new));
            });
        }),
    }
}
