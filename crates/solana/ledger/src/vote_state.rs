//! The state of a vote account: its voters, votes and credits.
//!
//! reads   the data of an account of the vote program, versions 1.14.11, 3 and 4
//! writes  the data of a new vote account, version 4
//! memory  the parsed state
//! drops   data that is not a vote state: `None`
//! source  `solana-vote-interface` 6.0, `create_v4_account_with_authorized` of `solana-vote-program` 4.2

use hearth_wire::Pubkey;
use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::vote::{Lockout, MAX_LOCKOUTS};

use crate::account::Account;

/// Size of a vote account's data in bytes.
pub const VOTE_STATE_BYTES: usize = 3762;
/// Maximum epochs of stored credits.
const MAX_EPOCH_CREDITS: u64 = 64;
/// Version 3 stores this many prior voters, 48 bytes each, and the index of the newest.
const PRIOR_VOTERS_BYTES: usize = 32 * 48 + 8 + 1;

/// The state of a vote account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoteState {
    /// The identity of the voting node.
    pub node: Pubkey,
    /// The authority for withdrawals.
    pub withdrawer: Pubkey,
    /// The recipient of the commission on inflation rewards; the account itself in versions without this field.
    pub inflation_rewards_collector: Option<Pubkey>,
    /// The recipient of block rewards; the node itself in versions without this field.
    pub block_revenue_collector: Option<Pubkey>,
    /// Commission on inflation rewards, in hundredths of a percent.
    pub commission_bps: u16,
    /// The lockouts, the newest last.
    pub votes: Vec<Lockout>,
    /// The root: the newest slot that these votes have made final.
    pub root: Option<u64>,
    /// The authorized voters, each with the first epoch to which it applies.
    pub voters: Vec<(u64, Pubkey)>,
    /// Per epoch: its number, credits at its end, credits at its start.
    pub epoch_credits: Vec<(u64, u64, u64)>,
    /// The newest vote with a timestamp: its slot and Unix time.
    pub last_timestamp: (u64, i64),
}

/// A vote account, with its stake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoteAccount {
    /// Address of the vote account.
    pub key: Pubkey,
    /// The stake by which it leads and votes in the current epoch, in lamports: it was counted an epoch ago.
    pub stake: u64,
    /// The stake that is active since the current epoch began, in lamports: it counts in the next one.
    pub activated_stake: u64,
    /// The state in its data, parsed.
    pub state: VoteState,
}

impl VoteState {
    /// Parses the data of an initialized vote account.
    pub fn read(data: &[u8]) -> Option<Self> {
        let mut input = Input(data);
        let mut state = Self::default();
        let version = input.u32()?;
        state.node = input.key()?;
        state.withdrawer = input.key()?;
        match version {
            1 | 2 => state.commission_bps = u16::from(input.take::<1>()?[0]) * 100,
            3 => {
                state.inflation_rewards_collector = Some(input.key()?);
                state.block_revenue_collector = Some(input.key()?);
                state.commission_bps = u16::from_le_bytes(*input.take()?);
                input.take::<10>()?; // Commission of blocks, pending rewards.
                if input.take::<1>()?[0] != 0 {
                    input.take::<48>()?;
                }
            }
            _ => return None,
        }
        for _ in 0..input.count(MAX_LOCKOUTS as u64 + 1)? {
            if version != 1 {
                input.take::<1>()?; // Latency.
            }
            state.votes.push(Lockout { slot: input.u64()?, confirmation_count: input.u32()? });
        }
        state.root = if input.take::<1>()?[0] != 0 { Some(input.u64()?) } else { None };
        for _ in 0..input.count(1024)? {
            state.voters.push((input.u64()?, input.key()?));
        }
        if version != 3 {
            input.take::<PRIOR_VOTERS_BYTES>()?;
        }
        for _ in 0..input.count(MAX_EPOCH_CREDITS + 1)? {
            state.epoch_credits.push((input.u64()?, input.u64()?, input.u64()?));
        }
        state.last_timestamp = (input.u64()?, input.u64()? as i64);
        // An initialized account has at least one voter.
        (!state.voters.is_empty()).then_some(state)
    }

    /// Parses an account; `None` if it is not an initialized vote account.
    pub fn of_account(account: &Account) -> Option<Self> {
        if account.owner == VOTE_PROGRAM { Self::read(account.data()) } else { None }
    }

    /// Credits earned so far.
    pub fn credits(&self) -> u64 {
        self.epoch_credits.last().map_or(0, |(_, credits, _)| *credits)
    }

    /// The newest slot voted for.
    pub fn last_vote(&self) -> Option<u64> {
        self.votes.last().map(|vote| vote.slot)
    }

    /// The authorized voter of an epoch.
    pub fn voter(&self, epoch: u64) -> Option<Pubkey> {
        self.voters.iter().rev().find(|(from, _)| *from <= epoch).map(|(_, voter)| *voter)
    }
}

/// The data of the vote account `key`, with which `node` votes from genesis on at zero commission. The node receives
/// the fees of its blocks.
pub fn new_vote_state(key: &Pubkey, node: &Pubkey) -> Vec<u8> {
    let mut data = Vec::with_capacity(VOTE_STATE_BYTES);
    data.extend(3u32.to_le_bytes());
    for key in [node, node, key, node] {
        data.extend(key);
    }
    data.extend([0; 2 + 2 + 8]); // Commissions, pending rewards.
    data.push(1);
    data.extend([0; 48]); // A key of a scheme that the chain does not use.
    data.extend(0u64.to_le_bytes()); // Votes.
    data.push(0); // No root.
    data.extend(1u64.to_le_bytes());
    data.extend(0u64.to_le_bytes()); // From epoch 0 on votes
    data.extend(node);
    data.resize(VOTE_STATE_BYTES, 0); // No credits, no time.
    data
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn key(&mut self) -> Option<Pubkey> {
        self.take().copied()
    }

    fn count(&mut self, max: u64) -> Option<u64> {
        self.u64().filter(|count| *count <= max)
    }
}

#[cfg(test)]
mod tests {
    use solana_clock::Clock;
    use solana_vote_interface::authorized_voters::AuthorizedVoters;
    use solana_vote_interface::state::{
        BlockTimestamp, LandedVote, Lockout as TheirLockout, VoteInitV2, VoteStateV3, VoteStateV4, VoteStateVersions,
    };

    use super::*;

    fn key(n: u8) -> solana_pubkey::Pubkey {
        [n; 32].into()
    }

    fn votes() -> std::collections::VecDeque<LandedVote> {
        let lockout = |n| TheirLockout::new_with_confirmation_count(n, 31 - n as u32);
        (0..31).map(|n| LandedVote { latency: 1, lockout: lockout(n) }).collect()
    }

    fn written(versions: &VoteStateVersions) -> Vec<u8> {
        let mut data = bincode::serialize(versions).unwrap();
        assert!(data.len() <= VOTE_STATE_BYTES);
        data.resize(VOTE_STATE_BYTES, 0);
        data
    }

    fn check(state: &VoteState) {
        assert_eq!((state.node, state.withdrawer, state.commission_bps), ([1; 32], [2; 32], 700));
        assert_eq!((state.votes.len(), state.last_vote(), state.root), (31, Some(30), Some(77)));
        assert_eq!(state.votes[3], Lockout { slot: 3, confirmation_count: 28 });
        assert_eq!((state.voter(4), state.voter(5), state.voter(9)), (None, Some([3; 32]), Some([3; 32])));
        assert_eq!((state.credits(), state.epoch_credits.len(), state.last_timestamp), (64, 64, (30, -5)));
    }

    #[test]
    fn reads_what_the_vote_program_writes() {
        let mut four = VoteStateV4 {
            node_pubkey: key(1),
            authorized_withdrawer: key(2),
            inflation_rewards_collector: key(8),
            block_revenue_collector: key(9),
            inflation_rewards_commission_bps: 700,
            bls_pubkey_compressed: Some([4; 48]),
            votes: votes(),
            root_slot: Some(77),
            authorized_voters: AuthorizedVoters::new(5, key(3)),
            epoch_credits: (0..64).map(|n| (n, n + 1, n)).collect(),
            last_timestamp: BlockTimestamp { slot: 30, timestamp: -5 },
            ..VoteStateV4::default()
        };
        for bls in [Some([4; 48]), None] {
            four.bls_pubkey_compressed = bls;
            let state = VoteState::read(&written(&VoteStateVersions::V4(Box::new(four.clone())))).unwrap();
            check(&state);
            let collectors = (state.inflation_rewards_collector, state.block_revenue_collector);
            assert_eq!(collectors, (Some([8; 32]), Some([9; 32])));
        }
        let three = VoteStateV3 {
            node_pubkey: key(1),
            authorized_withdrawer: key(2),
            commission: 7,
            votes: votes(),
            root_slot: Some(77),
            authorized_voters: AuthorizedVoters::new(5, key(3)),
            epoch_credits: (0..64).map(|n| (n, n + 1, n)).collect(),
            last_timestamp: BlockTimestamp { slot: 30, timestamp: -5 },
            ..VoteStateV3::default()
        };
        check(&VoteState::read(&written(&VoteStateVersions::V3(Box::new(three)))).unwrap());
    }

    #[test]
    fn a_new_account_is_what_the_cluster_makes() {
        let init = VoteInitV2 {
            node_pubkey: key(1),
            authorized_voter: key(1),
            authorized_voter_bls_pubkey: [0; 48],
            authorized_withdrawer: key(1),
            ..VoteInitV2::default()
        };
        let theirs = VoteStateV4::new(&init, &key(6), &key(1), &Clock::default());
        assert_eq!(new_vote_state(&[6; 32], &[1; 32]), written(&VoteStateVersions::V4(Box::new(theirs))));
        let state = VoteState::read(&new_vote_state(&[6; 32], &[1; 32])).unwrap();
        assert_eq!((state.voter(0), state.root, state.credits()), (Some([1; 32]), None, 0));
    }

    #[test]
    fn invalid_vote_state_is_refused() {
        let whole = new_vote_state(&[6; 32], &[1; 32]);
        assert_eq!(VoteState::read(&[0; VOTE_STATE_BYTES]), None);
        (0..250).for_each(|cut| assert_eq!(VoteState::read(&whole[..cut]), None, "{cut}"));
        let mut many = whole;
        many[4 + 128 + 12 + 49] = 255;
        assert_eq!(VoteState::read(&many), None);
    }
}
