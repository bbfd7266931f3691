//! Accounts whose data others write: votes, stakes, programs, features and sysvars.
//!
//! reads   the data of an account; the layouts are those of the cluster's programs
//! writes  nothing; panics if a property does not hold
//! memory  one account, and a small ledger

use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use hearth_ledger::features::state_of;
use hearth_ledger::program_header::{clear_deployment_slot, code_address, deployment_slot};
use hearth_ledger::stakes::{Delegation, StakeHistory};
use hearth_ledger::sysvars::Clock;
use hearth_ledger::{Account, Ledger, SlotHistory, VoteState, builders};
use hearth_wire::Pubkey;
use hearth_wire::consts::{
    ADDRESS_LOOKUP_TABLE_PROGRAM, BPF_LOADER_UPGRADEABLE, FEATURE_PROGRAM, LOADER_V4, STAKE_PROGRAM, SYSVAR_CLOCK,
    SYSVAR_SLOT_HISTORY, SYSVAR_STAKE_HISTORY, VOTE_PROGRAM,
};
use hearth_wire::vote::MAX_LOCKOUTS;

const OWNERS: [Pubkey; 6] =
    [VOTE_PROGRAM, STAKE_PROGRAM, BPF_LOADER_UPGRADEABLE, LOADER_V4, FEATURE_PROGRAM, ADDRESS_LOOKUP_TABLE_PROGRAM];
/// Bytes of a slot history.
const SLOT_HISTORY_BYTES: usize = 131_097;
/// Epochs for which stakes are asked.
const EPOCHS: [u64; 8] = [0, 1, 2, 7, 100, 511, 1 << 40, u64::MAX];

/// An account's owner, as an index, and its data.
pub fn account_state(input: &[u8]) {
    let Some((owner, data)) = input.split_first() else { return };
    let mut account = Account::with_data(1, OWNERS[usize::from(*owner) % OWNERS.len()], data);
    if let Some(state) = VoteState::of_account(&account) {
        assert!(state.votes.len() <= MAX_LOCKOUTS + 1);
        assert!(!state.voters.is_empty());
        for epoch in EPOCHS {
            black_box(state.voter(epoch));
        }
        black_box((state.credits(), state.last_vote()));
    }
    if let Some(delegation) = Delegation::read(data) {
        check(&delegation, &StakeHistory::default());
    }
    black_box((code_address(&account), state_of(&account)));
    let before = deployment_slot(&account);
    clear_deployment_slot(&mut account);
    assert_eq!(deployment_slot(&account), before.map(|_| 0));
    assert_eq!(account.data().len(), data.len());
}

/// No stake is more than what was delegated.
fn check(delegation: &Delegation, history: &StakeHistory) {
    for epoch in EPOCHS {
        let state = delegation.activation(epoch, history);
        assert!(state.effective <= delegation.stake);
        assert!(state.activating <= delegation.stake - state.effective);
        assert!(state.deactivating <= state.effective);
    }
}

/// The data of a sysvar: of the clock, the stake history or the slot history, by the first byte.
pub fn sysvar(input: &[u8]) {
    let Some((kind, data)) = input.split_first() else { return };
    match kind % 3 {
        0 => {
            black_box(Clock::load(with_sysvar(&SYSVAR_CLOCK, data).accounts()));
        }
        1 => {
            let history = StakeHistory::load(with_sysvar(&SYSVAR_STAKE_HISTORY, data).accounts());
            for epoch in EPOCHS {
                black_box(history.get(epoch));
            }
            for (activation_epoch, deactivation_epoch) in [(0, u64::MAX), (1, 7), (7, 7), (100, 101), (u64::MAX, 2)] {
                let (vote, stake, credits_observed) = ([1; 32], u64::MAX, 0);
                check(&Delegation { vote, stake, activation_epoch, deactivation_epoch, credits_observed }, &history);
            }
        }
        _ => slot_history(data),
    }
}

/// A slot history whose next slot is the first eight bytes; the rest repeats as its bits.
fn slot_history(data: &[u8]) {
    let Some((next, bits)) = data.split_first_chunk::<8>() else { return };
    let mut whole: Vec<u8> = bits.iter().copied().chain([1]).cycle().take(SLOT_HISTORY_BYTES - 8).collect();
    whole.extend_from_slice(next);
    let Some(history) = SlotHistory::of(with_sysvar(&SYSVAR_SLOT_HISTORY, &whole)) else {
        panic!("{SLOT_HISTORY_BYTES} bytes are enough")
    };
    let (oldest, newest) = (history.oldest(), history.newest());
    assert!(oldest <= newest);
    for slot in [0, oldest, newest, newest / 2, u64::MAX] {
        assert!(!history.has(slot) || history.may_have(slot));
    }
}

/// A ledger with this sysvar.
fn with_sysvar(address: &Pubkey, data: &[u8]) -> &'static Ledger {
    static LEDGER: OnceLock<Arc<Ledger>> = OnceLock::new();
    let ledger = LEDGER.get_or_init(|| builders::ledger(0));
    ledger.accounts().store(address, Account::with_data(1, [0; 32], data));
    ledger
}
