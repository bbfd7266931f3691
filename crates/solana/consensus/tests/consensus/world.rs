//! Blocks that contain only votes, and the vote program's effect on them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hearth_consensus::{AccountVotes, BankId, FrozenBank, TowerVote, VoteStake, VoteWeights};
use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;

/// A block, with the vote accounts after it.
pub struct Block {
    pub id: BankId,
    pub parent: BankId,
    pub leader: usize,
    pub accounts: Vec<AccountVotes>,
    changed: Vec<usize>,
}

impl Block {
    /// The input to consensus from a node that executed it.
    pub fn frozen(&self, is_start: bool) -> FrozenBank {
        let votes = match is_start {
            true => self.accounts.clone(),
            false => self.changed.iter().map(|at| self.accounts[*at].clone()).collect(),
        };
        let Self { id, parent, leader, .. } = *self;
        FrozenBank { id, parent, block_id: id.hash, leader: identity(leader), votes }
    }
}

pub fn identity(node: usize) -> Pubkey {
    [node as u8 + 1; 32]
}

/// A node's vote account.
pub fn vote_account(node: usize) -> Pubkey {
    [node as u8 + 101; 32]
}

/// All blocks ever produced, the stakes, and the leader schedule.
pub struct World {
    pub blocks: BTreeMap<BankId, Rc<Block>>,
    pub stakes: Vec<u64>,
    pub genesis: BankId,
    leaders: Vec<usize>,
}

impl World {
    pub fn new(stakes: Vec<u64>, random: &mut fastrand::Rng) -> Self {
        let genesis = BankId { slot: 0, hash: [0xee; 32] };
        let account = |(node, stake): (usize, &u64)| AccountVotes {
            key: vote_account(node),
            stake: *stake,
            votes: Vec::new(),
            root: None,
            last_timestamp: (0, 0),
        };
        let accounts: Vec<AccountVotes> = stakes.iter().enumerate().map(account).collect();
        let first = Block { id: genesis, parent: genesis, leader: 0, accounts, changed: Vec::new() };
        let total: u64 = stakes.iter().sum();
        let drawn = |_| {
            let mut left = random.u64(..total);
            stakes
                .iter()
                .position(|stake| left.checked_sub(*stake).map(|rest| left = rest).is_none())
                .expect("a leader")
        };
        let leaders = (0..2_000).map(drawn).collect();
        Self { blocks: [(genesis, Rc::new(first))].into(), stakes, genesis, leaders }
    }

    pub fn leader(&self, slot: u64) -> usize {
        self.leaders[(slot / 4) as usize % self.leaders.len()]
    }

    pub fn vote_weights(&self) -> VoteWeights {
        let one = |(number, stake): (usize, &u64)| {
            let node = identity(number);
            VoteStake { vote: vote_account(number), node, collector: node, stake: *stake }
        };
        VoteWeights::new(&self.stakes.iter().enumerate().map(one).collect::<Vec<_>>())
    }

    /// A block and its ancestors.
    pub fn chain(&self, id: BankId) -> impl Iterator<Item = BankId> {
        let parent = |id: &BankId| (id.slot > 0).then(|| self.blocks[id].parent);
        std::iter::successors(Some(id), parent)
    }

    /// The block, or its ancestor, at a slot.
    pub fn on_chain(&self, id: BankId, slot: u64) -> Option<BankId> {
        self.chain(id).find(|id| id.slot <= slot).filter(|id| id.slot == slot)
    }

    /// Whether one is the other, or descends from it.
    pub fn descends(&self, id: BankId, from: BankId) -> bool {
        self.on_chain(id, from.slot) == Some(from)
    }

    /// Produces a block on a parent, with each account's newest vote that lands. `version` distinguishes versions.
    pub fn make(
        &mut self,
        slot: u64,
        parent: BankId,
        votes: &BTreeMap<usize, Vec<TowerVote>>,
        version: u8,
    ) -> Rc<Block> {
        let mut accounts = self.blocks[&parent].accounts.clone();
        let chain: Vec<BankId> = self.chain(parent).collect();
        let slots: BTreeSet<u64> = chain.iter().map(|id| id.slot).collect();
        let mut changed = Vec::new();
        for (node, votes) in votes {
            let newest = votes.iter().rev().find(|vote| lands(&chain, &slots, &accounts[*node], vote));
            if let Some(vote) = newest {
                let account = &mut accounts[*node];
                (account.votes, account.root) = (vote.votes.clone(), vote.root.or(account.root));
                changed.push(*node);
            }
        }
        let encoded: Vec<u8> =
            changed.iter().flat_map(|node| accounts[*node].last_vote().expect("voted").to_le_bytes()).collect();
        let hash = sha256(&[&parent.hash, &slot.to_le_bytes(), &[version], &encoded]);
        let leader = self.leader(slot);
        let block = Rc::new(Block { id: BankId { slot, hash }, parent, leader, accounts, changed });
        self.blocks.insert(block.id, Rc::clone(&block));
        block
    }
}

/// Whether the vote program accepts a vote in a block on a chain, the newest block first: for a newer slot than the
/// last, with the hash of an ancestor that is not too old, and with no slot in the tower on another fork.
fn lands(chain: &[BankId], slots: &BTreeSet<u64>, account: &AccountVotes, vote: &TowerVote) -> bool {
    let is_newer = account.last_vote().is_none_or(|last| last < vote.id.slot);
    let floor = account.root.unwrap_or(0);
    let is_here = |slot: u64| slot <= floor || slots.contains(&slot);
    let is_root = vote.root.is_none_or(|root| root >= floor && is_here(root));
    let mut recent = chain.iter().take(512).take_while(|id| id.slot >= vote.id.slot);
    is_newer && is_root && vote.votes.iter().all(|vote| is_here(vote.slot)) && recent.any(|id| *id == vote.id)
}
