//! Stakes: delegations, and how much of each is effective in an epoch.
//!
//! reads   stake accounts, the stake history
//! writes  the stakes of an epoch; the entry of the stake history for the epoch before
//! memory  200 B per vote account and epoch, for 5 epochs, and the account's data of then, 3,762 B, unless it is still
//!         the newest
//! source  `stakes.rs` of `solana-runtime` 4.2, `state.rs` and `warmup_cooldown_allowance.rs` of
//!         `solana-stake-interface` 4.3 with every feature active
//!
//! A delegation takes effect over several epochs: in each, at most 9 % of all stake may activate or deactivate.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use hearth_wire::Pubkey;
use hearth_wire::consts::{LAMPORTS_PER_SOL, STAKE_PROGRAM, SYSVAR_STAKE_HISTORY, VOTE_PROGRAM};
pub use hearth_wire::vote::VoteStake;

use crate::account::Account;
use crate::accounts::Accounts;
use crate::bank_hash::StakeIndex;
use crate::genesis::Genesis;
use crate::leaders::{Leader, LeaderSchedule};
use crate::rent::minimum_balance;
use crate::sysvars::{self, MAX_STAKE_HISTORY, STAKE_HISTORY_BYTES, u64_at};
use crate::vote_state::{VoteState, new_vote_state};

/// Size of a stake account's data in bytes.
pub const STAKE_STATE_BYTES: usize = 200;
/// Share of all stake that may activate or deactivate in an epoch, in hundredths of a percent.
const CHANGE_BPS: u128 = 900;
/// Offset of the delegation, after the state's tag, the reserve, two authorities and the lockup.
const DELEGATION: usize = 4 + 8 + 64 + 48;
const CREDITS: usize = DELEGATION + 64;

/// The delegation of a stake account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The vote account that it delegates to.
    pub vote: Pubkey,
    /// Lamports that are delegated, active or not.
    pub stake: u64,
    /// The epoch of activation; `u64::MAX` for a stake of genesis.
    pub activation_epoch: u64,
    /// The epoch of deactivation; `u64::MAX` if it is active.
    pub deactivation_epoch: u64,
    /// The vote account's credits up to which the stake was rewarded.
    pub credits_observed: u64,
}

/// The activation state of one stake, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activation {
    /// Effective lamports, including those that are deactivating.
    pub effective: u64,
    /// Lamports that are not effective yet.
    pub activating: u64,
    /// Lamports that are about to leave.
    pub deactivating: u64,
}

/// The stake history: the activation of all stakes together at the end of each epoch, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StakeHistory(Vec<(u64, Activation)>);

impl StakeHistory {
    /// Reads the stake history sysvar.
    pub fn load(accounts: &Accounts) -> Self {
        accounts.with(&SYSVAR_STAKE_HISTORY, |account| Self::read(account.data())).unwrap_or_default()
    }

    /// Reads the sysvar's data.
    pub(crate) fn read(data: &[u8]) -> Self {
        let count = (u64_at(data, 0) as usize).min(MAX_STAKE_HISTORY);
        let entry = |n: usize| {
            let word = |at: usize| u64_at(data, 8 + 32 * n + 8 * at);
            (word(0), Activation { effective: word(1), activating: word(2), deactivating: word(3) })
        };
        Self((0..count).map(entry).collect())
    }

    pub(crate) fn store(&self, accounts: &Accounts) {
        let mut data = Vec::with_capacity(STAKE_HISTORY_BYTES);
        data.extend((self.0.len() as u64).to_le_bytes());
        for (epoch, Activation { effective, activating, deactivating }) in &self.0 {
            [epoch, effective, activating, deactivating].into_iter().for_each(|n| data.extend(n.to_le_bytes()));
        }
        data.resize(STAKE_HISTORY_BYTES, 0);
        sysvars::write(accounts, &SYSVAR_STAKE_HISTORY, &data);
    }

    pub(crate) fn add(&mut self, epoch: u64, all: Activation) {
        self.0.insert(0, (epoch, all));
        self.0.truncate(MAX_STAKE_HISTORY);
    }

    /// The entry of an epoch. As on the cluster, epochs are counted back from the newest entry, whether or not one is
    /// missing.
    pub fn get(&self, epoch: u64) -> Option<Activation> {
        let (newest, _) = self.0.first()?;
        self.0.get(newest.checked_sub(epoch)? as usize).map(|(_, all)| *all)
    }
}

impl Delegation {
    /// Parses a stake account's data; `None` if it has no delegation.
    pub fn read(data: &[u8]) -> Option<Self> {
        if data.len() < CREDITS + 8 || data[..4] != 2u32.to_le_bytes() {
            return None;
        }
        Some(Self {
            vote: data[DELEGATION..DELEGATION + 32].try_into().expect("32 bytes"),
            stake: u64_at(data, DELEGATION + 32),
            activation_epoch: u64_at(data, DELEGATION + 40),
            deactivation_epoch: u64_at(data, DELEGATION + 48),
            credits_observed: u64_at(data, CREDITS),
        })
    }

    /// The activation of this stake in an epoch.
    pub fn activation(&self, epoch: u64, history: &StakeHistory) -> Activation {
        let (effective, activating) = self.coming(epoch, history);
        if epoch < self.deactivation_epoch {
            return Activation { effective, activating, deactivating: 0 };
        }
        let leaving = |stake| Activation { effective: stake, activating: 0, deactivating: stake };
        if epoch == self.deactivation_epoch {
            return leaving(effective);
        }
        let Some(mut all) = history.get(self.deactivation_epoch) else { return Activation::default() };
        let mut left = effective;
        for at in self.deactivation_epoch + 1..=epoch {
            if all.deactivating == 0 {
                break;
            }
            left = left.saturating_sub(share(left, all.deactivating, all.effective).max(1));
            match history.get(at) {
                Some(next) if left != 0 && at < epoch => all = next,
                _ => break,
            }
        }
        leaving(left)
    }

    /// The effective and the activating part, ignoring deactivation.
    fn coming(&self, epoch: u64, history: &StakeHistory) -> (u64, u64) {
        let stake = self.stake;
        if self.activation_epoch == u64::MAX {
            return (stake, 0);
        }
        if self.activation_epoch == self.deactivation_epoch || epoch < self.activation_epoch {
            return (0, 0);
        }
        if epoch == self.activation_epoch {
            return (0, stake);
        }
        // An epoch that has left the history is long past.
        let Some(mut all) = history.get(self.activation_epoch) else { return (stake, 0) };
        let mut came = 0u64;
        for at in self.activation_epoch + 1..=epoch {
            if all.activating == 0 {
                break;
            }
            came = came.saturating_add(share(stake - came, all.activating, all.effective).max(1)).min(stake);
            match history.get(at) {
                Some(next) if came < stake && at < epoch && at < self.deactivation_epoch => all = next,
                _ => break,
            }
        }
        (came, stake - came)
    }
}

/// The part of a stake that may change in an epoch if `wanting` lamports want to change in total.
fn share(stake: u64, wanting: u64, effective: u64) -> u64 {
    if wanting == 0 {
        return 0;
    }
    let allowed = u128::from(stake).saturating_mul(effective.into()).saturating_mul(CHANGE_BPS);
    (allowed / (u128::from(wanting) * 10_000)).min(stake.into()) as u64
}

/// A stake account that delegates to `vote` from genesis on; only `authority` may move it.
pub fn new_stake_account(lamports: u64, vote: &Pubkey, authority: &Pubkey) -> Account {
    let reserve = minimum_balance(STAKE_STATE_BYTES);
    let mut data = vec![0; STAKE_STATE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &2u32.to_le_bytes());
    put(4, &reserve.to_le_bytes());
    put(12, authority);
    put(44, authority);
    put(DELEGATION, vote);
    put(DELEGATION + 32, &lamports.saturating_sub(reserve).to_le_bytes());
    put(DELEGATION + 40, &u64::MAX.to_le_bytes());
    put(DELEGATION + 48, &u64::MAX.to_le_bytes());
    Account::with_data(lamports, STAKE_PROGRAM, &data)
}

/// Lamports of the vote account and of the stake account of the node that starts a chain.
pub const GENESIS_STAKE_LAMPORTS: u64 = 1_000_000 * LAMPORTS_PER_SOL;

/// The vote account of the node that starts a chain, and the stake account that gives it all stake.
pub fn genesis_accounts(vote: &Pubkey, stake: &Pubkey, node: &Pubkey) -> [(Pubkey, Account); 2] {
    validator_accounts(vote, stake, node, GENESIS_STAKE_LAMPORTS)
}

/// The vote account of a node, and a stake account that delegates to it.
pub fn validator_accounts(vote: &Pubkey, stake: &Pubkey, node: &Pubkey, lamports: u64) -> [(Pubkey, Account); 2] {
    let state = new_vote_state(vote, node);
    [(*vote, Account::with_data(lamports, VOTE_PROGRAM, &state)), (*stake, new_stake_account(lamports, vote, node))]
}

/// The lamports delegated at genesis to the vote accounts of each node.
pub fn stakes_at_genesis(genesis: &Genesis) -> BTreeMap<Pubkey, u64> {
    let (began, accounts) = (genesis.config(), genesis.accounts());
    let epoch = began.epoch_schedule().epoch(began.genesis_slot);
    let of = |program| accounts.iter().filter(move |(_, account)| account.owner == program);
    let node = |(key, account): &(Pubkey, Account)| Some((*key, VoteState::of_account(account)?.node));
    let nodes: BTreeMap<Pubkey, Pubkey> = of(VOTE_PROGRAM).filter_map(node).collect();
    let mut stakes = BTreeMap::<Pubkey, u64>::new();
    for delegation in of(STAKE_PROGRAM).filter_map(|(_, account)| Delegation::read(account.data())) {
        if let Some(node) = nodes.get(&delegation.vote) {
            let stake = stakes.entry(*node).or_default();
            *stake = stake.saturating_add(delegation.activation(epoch, &StakeHistory::default()).effective);
        }
    }
    stakes
}

/// Updates what rewards change in a stake account's data: the delegated lamports, the epoch of deactivation and the
/// observed credits.
pub(crate) fn set_rewarded(data: &mut [u8], delegation: &Delegation) {
    let mut put = |at: usize, word: u64| data[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(DELEGATION + 32, delegation.stake);
    put(DELEGATION + 48, delegation.deactivation_epoch);
    put(CREDITS, delegation.credits_observed);
}

/// A vote account as it was when the stakes of an epoch were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountedVote {
    /// Its address, who votes with it, and its stake.
    pub(crate) stake: VoteStake,
    /// Its commission on rewards, in hundredths of a percent.
    pub(crate) commission_bps: u16,
    /// The account, which a snapshot of the cluster has to hold. Its data is shared with the account store until a
    /// vote replaces it there.
    pub(crate) account: Account,
}

/// The stakes that determine an epoch's leaders and the weight of its votes.
#[derive(Debug, Default)]
pub struct EpochStakes {
    /// The epoch whose leaders they determine.
    pub epoch: u64,
    /// The epoch that had begun when the stakes were counted.
    pub counted_in: u64,
    /// Every vote account that existed, sorted by address.
    pub votes: Vec<VoteStake>,
    /// The commission of each of them on rewards, in hundredths of a percent.
    commissions_bps: Vec<u16>,
    /// Each of them as an account.
    accounts: Vec<Account>,
    leaders: OnceLock<LeaderSchedule>,
}

impl EpochStakes {
    /// The vote accounts must be sorted by address. `counted_in` is the epoch that had begun when they were counted.
    ///
    /// All stakes together fit a `u64`, so that consensus, gossip and Turbine may add them up. The delegations of
    /// another node's genesis or archive may be more: then the last vote accounts have no stake.
    pub(crate) fn new(epoch: u64, counted_in: u64, counted: impl IntoIterator<Item = CountedVote>) -> Self {
        let mut stakes = Self { epoch, counted_in, ..Self::default() };
        let mut left = u64::MAX;
        for CountedVote { mut stake, commission_bps, account } in counted {
            stake.stake = stake.stake.min(left);
            left -= stake.stake;
            stakes.votes.push(stake);
            stakes.commissions_bps.push(commission_bps);
            stakes.accounts.push(account);
        }
        stakes
    }

    /// The vote accounts as they were counted.
    pub(crate) fn counted(&self) -> impl Iterator<Item = CountedVote> {
        let rest = self.commissions_bps.iter().zip(&self.accounts);
        self.votes.iter().zip(rest).map(|(stake, (commission_bps, account))| CountedVote {
            stake: *stake,
            commission_bps: *commission_bps,
            account: account.clone(),
        })
    }

    /// The commission that a vote account had when these stakes were counted, in hundredths of a percent.
    pub(crate) fn commission_bps(&self, vote: &Pubkey) -> Option<u16> {
        let at = self.votes.binary_search_by_key(vote, |vote| vote.vote).ok()?;
        self.commissions_bps.get(at).copied()
    }

    /// Lamports of all vote accounts.
    pub fn total(&self) -> u64 {
        self.votes.iter().map(|vote| vote.stake).sum()
    }

    /// Lamports of all vote accounts of a node.
    pub fn of_node(&self, node: &Pubkey) -> u64 {
        self.votes.iter().filter(|vote| vote.node == *node).map(|vote| vote.stake).sum()
    }

    /// The stake of one vote account.
    pub fn vote(&self, vote: &Pubkey) -> Option<&VoteStake> {
        self.votes.binary_search_by_key(vote, |vote| vote.vote).ok().map(|at| &self.votes[at])
    }

    /// The leader schedule of the epoch, computed at the first call; empty if there is no stake.
    pub fn leaders(&self, slots: u64) -> &LeaderSchedule {
        self.leaders.get_or_init(|| {
            let stakes = self.votes.iter().map(|vote| (Leader { node: vote.node, vote: vote.vote }, vote.stake));
            LeaderSchedule::new(stakes.collect(), self.epoch, slots)
        })
    }
}

/// A stake account that delegates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StakeAccount {
    /// Address of the account.
    pub(crate) key: Pubkey,
    /// Balance in lamports, of which the delegation is a part.
    pub(crate) lamports: u64,
    /// Bytes of its data.
    pub(crate) data_len: usize,
    /// The delegation in its data.
    pub(crate) delegation: Delegation,
}

/// Every stake account that delegates, by address.
pub(crate) fn stake_accounts(accounts: &Accounts, index: &StakeIndex) -> Vec<StakeAccount> {
    let read = |key: &Pubkey| {
        let read = |account: &Account| {
            let (lamports, data_len) = (account.lamports, account.data().len());
            Some(StakeAccount { key: *key, lamports, data_len, delegation: Delegation::read(account.data())? })
        };
        accounts.with(key, read)?
    };
    index.stakes.iter().filter_map(read).collect()
}

/// The activation of all stakes in an epoch. Sums saturate: the delegations of another node's genesis or archive may be
/// anything.
pub(crate) fn all_activation(stakes: &[StakeAccount], epoch: u64, history: &StakeHistory) -> Activation {
    let each = stakes.iter().map(|stake| stake.delegation.activation(epoch, history));
    each.fold(Activation::default(), |sum, one| Activation {
        effective: sum.effective.saturating_add(one.effective),
        activating: sum.activating.saturating_add(one.activating),
        deactivating: sum.deactivating.saturating_add(one.deactivating),
    })
}

/// Every vote account, with the stake that is effective in the epoch `counted`.
pub(crate) fn vote_stakes(
    accounts: &Accounts,
    index: &StakeIndex,
    all: &[StakeAccount],
    history: &StakeHistory,
    counted: u64,
) -> Vec<CountedVote> {
    let mut stakes = BTreeMap::<Pubkey, u64>::new();
    for StakeAccount { delegation, .. } in all {
        let stake = stakes.entry(delegation.vote).or_default();
        *stake = stake.saturating_add(delegation.activation(counted, history).effective);
    }
    let read = |vote: &Pubkey| {
        let read = |account: &Account| Some((VoteState::of_account(account)?, account.clone()));
        let (state, account) = accounts.with(vote, read)??;
        Some(counted_vote(vote, &state, account, stakes.get(vote).copied().unwrap_or(0)))
    };
    index.votes.iter().filter_map(read).collect()
}

/// A vote account with this stake.
pub(crate) fn counted_vote(vote: &Pubkey, state: &VoteState, account: Account, stake: u64) -> CountedVote {
    let collector = state.block_revenue_collector.unwrap_or(state.node);
    let stake = VoteStake { vote: *vote, node: state.node, collector, stake };
    CountedVote { stake, commission_bps: state.commission_bps, account }
}

#[cfg(test)]
mod tests;
