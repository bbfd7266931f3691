//! The accounts of a node that has stake from genesis on, as the cluster's tools make them.
//!
//! source  `add_validator_accounts` of `solana-genesis` 4.2

use hearth_wire::Pubkey;
use hearth_wire::consts::{LAMPORTS_PER_SOL, VOTE_PROGRAM};

use crate::account::Account;
use crate::rent::minimum_balance;
use crate::stakes::new_stake_account;
use crate::vote_state::new_vote_state;

/// Lamports of a vote account beyond its minimum balance: 1.6 SOL for each of a hundred epochs in which the cluster may
/// charge for admission.
const VOTE_LAMPORTS: u64 = 160 * LAMPORTS_PER_SOL;
/// Offset of the commission in basis points, after the state's tag and four addresses.
const COMMISSION: usize = 4 + 4 * 32;

/// A node with stake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The identity, which votes and may withdraw.
    pub identity: Pubkey,
    /// Address of the vote account.
    pub vote: Pubkey,
    /// Address of the stake account.
    pub stake: Pubkey,
    /// Lamports of the identity.
    pub lamports: u64,
    /// Lamports of the stake account; all but its minimum balance are staked.
    pub stake_lamports: u64,
    /// The address whose owner may delegate, split and withdraw the stake.
    pub stake_authority: Pubkey,
    /// The node's share of the rewards, in percent, at most 100.
    pub commission_percent: u8,
}

impl Bootstrap {
    /// The identity, the vote account, and the stake account.
    pub fn accounts(&self) -> [(Pubkey, Account); 3] {
        let mut state = new_vote_state(&self.vote, &self.identity);
        let commission_bps = u16::from(self.commission_percent) * 100;
        state[COMMISSION..COMMISSION + 2].copy_from_slice(&commission_bps.to_le_bytes());
        let vote = Account::with_data(minimum_balance(state.len()) + VOTE_LAMPORTS, VOTE_PROGRAM, &state);
        let stake = new_stake_account(self.stake_lamports, &self.vote, &self.stake_authority);
        [(self.identity, Account::wallet(self.lamports)), (self.vote, vote), (self.stake, stake)]
    }
}

#[cfg(test)]
mod tests {
    use solana_stake_interface::stake_flags::StakeFlags;
    use solana_stake_interface::state::{Authorized, Delegation, Lockup, Stake, StakeStateV2};
    use solana_vote_interface::state::{VoteInitV2, VoteStateV4, VoteStateVersions};

    use super::*;

    fn key(n: u8) -> solana_pubkey::Pubkey {
        [n; 32].into()
    }

    #[test]
    fn they_are_what_the_cluster_makes() {
        let bootstrap = Bootstrap {
            identity: [1; 32],
            vote: [2; 32],
            stake: [3; 32],
            lamports: 5,
            stake_lamports: 10_000_000,
            stake_authority: [4; 32],
            commission_percent: 7,
        };
        let [identity, vote, stake] = bootstrap.accounts();
        assert_eq!(identity, ([1; 32], Account::wallet(5)));
        let init = VoteInitV2 {
            node_pubkey: key(1),
            authorized_voter: key(1),
            authorized_withdrawer: key(1),
            inflation_rewards_commission_bps: 700,
            ..VoteInitV2::default()
        };
        let theirs = VoteStateV4::new(&init, &key(2), &key(1), &solana_clock::Clock::default());
        let mut data = bincode::serialize(&VoteStateVersions::V4(Box::new(theirs))).unwrap();
        data.resize(VoteStateV4::size_of(), 0);
        assert_eq!((vote.0, vote.1.owner, vote.1.data()), ([2; 32], VOTE_PROGRAM, &data[..]));
        assert_eq!(vote.1.lamports, 27_074_400 + 160_000_000_000);
        let StakeStateV2::Stake(meta, staked, flags) = bincode::deserialize(stake.1.data()).unwrap() else {
            panic!("it is delegated");
        };
        assert_eq!((meta.authorized, meta.lockup), (Authorized::auto(&key(4)), Lockup::default()));
        assert_eq!(stake.1.data()[4..12], 2_282_880u64.to_le_bytes());
        let delegation = Delegation::new(&key(2), 10_000_000 - 2_282_880, u64::MAX);
        assert_eq!((staked, flags), (Stake { delegation, credits_observed: 0 }, StakeFlags::empty()));
        assert_eq!((stake.0, stake.1.lamports), ([3; 32], 10_000_000));
    }
}
