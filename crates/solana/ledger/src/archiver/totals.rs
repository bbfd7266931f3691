//! totals: what a pass over all accounts finds for the fields of an archive.
//!
//! reads   every account of the state; the lengths of those that the archive holds
//! memory  vote and stake accounts; 8 B for each account file

use std::collections::BTreeMap;

use hearth_wire::Pubkey;
use hearth_wire::consts::{STAKE_PROGRAM, SYSVAR_STAKE_HISTORY, VOTE_PROGRAM};

use crate::account::Account;
use crate::archive::{BankStakes, Fault, StakeDelegation, StakedVote, StorageInfo, read_stake_history};
use crate::stakes::{Delegation, StakeHistory};
use crate::vote_state::VoteState;

/// Bytes from which a new account file begins.
const FILE_SIZE: u64 = 1 << 30;
/// The place of a delegation's unused bytes in a stake account.
const RESERVED: std::ops::Range<usize> = 180..188;

/// The result of a pass over all accounts.
pub(super) struct Totals {
    pub(super) lamports: u64,
    pub(super) data_len: u64,
    slot: u64,
    /// The most account files: a slot has one.
    files_max: u64,
    /// The lengths of the account files, but for the last.
    lens: Vec<u64>,
    len: u64,
    votes: Vec<(Pubkey, Account)>,
    stakes: Vec<(Pubkey, Account)>,
    history: Option<Account>,
}

impl Totals {
    /// Nothing yet, of an archive of `slot`: an incremental one on the full one of slot `base`.
    pub(super) fn new(slot: u64, base: Option<u64>) -> Self {
        Self {
            lamports: 0,
            data_len: 0,
            slot,
            files_max: slot.saturating_sub(base.unwrap_or(0)).max(1),
            lens: vec![],
            len: 0,
            votes: vec![],
            stakes: vec![],
            history: None,
        }
    }

    /// Notes an account of the state.
    pub(super) fn note(&mut self, key: &Pubkey, account: &Account) {
        self.lamports += account.lamports;
        self.data_len += account.data().len() as u64;
        if *key == SYSVAR_STAKE_HISTORY {
            self.history = Some(account.clone());
        }
        if account.owner == VOTE_PROGRAM && VoteState::of_account(account).is_some() {
            self.votes.push((*key, account.clone()));
        } else if account.owner == STAKE_PROGRAM && Delegation::read(account.data()).is_some() {
            self.stakes.push((*key, account.clone()));
        }
    }

    /// Notes an account that the archive holds, by the bytes that it takes there. They come in the archive's order.
    pub(super) fn stored(&mut self, size: u64) {
        if self.len >= FILE_SIZE && (self.lens.len() as u64 + 1) < self.files_max {
            self.lens.push(std::mem::take(&mut self.len));
        }
        self.len += size;
    }

    /// The account files, those of the newest slots.
    pub(super) fn storages(&self) -> Vec<StorageInfo> {
        let lens = self.lens.iter().copied().chain([self.len]).filter(|len| *len > 0);
        lens.zip(0..).map(|(len, n)| StorageInfo { slot: self.slot - n, id: n + 1, len }).collect()
    }

    /// The stakes in the state.
    pub(super) fn stakes(self, epoch: u64) -> Result<BankStakes, Fault> {
        let data = self.history.as_ref().map(|account| account.data());
        let activated = data.map(StakeHistory::read).unwrap_or_default();
        let mut effective = BTreeMap::<Pubkey, u64>::new();
        let mut delegations = Vec::with_capacity(self.stakes.len());
        for (address, account) in &self.stakes {
            let Some(delegation) = Delegation::read(account.data()) else { continue };
            *effective.entry(delegation.vote).or_default() += delegation.activation(epoch, &activated).effective;
            delegations.push(StakeDelegation {
                address: *address,
                vote: delegation.vote,
                stake: delegation.stake,
                activation_epoch: delegation.activation_epoch,
                deactivation_epoch: delegation.deactivation_epoch,
                reserved: account.data()[RESERVED].try_into().expect("8 bytes"),
            });
        }
        let staked = |(address, account): (Pubkey, Account)| {
            let stake = effective.get(&address).copied().unwrap_or_default();
            StakedVote { address, stake, account }
        };
        let history = data.map_or(Ok(vec![]), read_stake_history)?;
        Ok(BankStakes { votes: self.votes.into_iter().map(staked).collect(), delegations, epoch, history })
    }
}
