//! vote: the node's votes on their way, and the votes of others as they come by gossip.
//!
//! reads   towers to be told; transactions that gossip heard
//! writes  `tower_txsend`: signed votes
//! memory  none
//! drops   votes for which the link has no room: a vote is sent again when it does not land
//! source  `cluster_info_vote_listener.rs` of `solana-core` 4.2

use hearth_cluster::consensus::TowerVote;
use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::tower::{Told, Voted, VotedBlock, voted_for};
use hearth_ledger::{Ledger, Lockout};
use hearth_pipeline::node::Inlet;
use hearth_wire::{Hash, Pubkey, Txn};

use crate::boot::signatures_are_valid;

/// Votes for the node.
pub struct Voter {
    node: Pubkey,
    key: SigningKey,
    /// The account that it votes with.
    pub account: Pubkey,
    inlet: Inlet,
}

impl Voter {
    /// A voter that hands its votes in by `inlet`, to be sent to the leaders.
    pub fn new(key: SigningKey, account: Pubkey, inlet: Inlet) -> Self {
        Self { node: key.public_key(), key, account, inlet }
    }

    /// The transaction that tells a tower.
    pub fn transaction(&self, vote: &TowerVote, blockhash: Hash) -> Vec<u8> {
        let one = |vote: &hearth_cluster::consensus::Lockout| Lockout {
            slot: vote.slot,
            confirmation_count: vote.confirmation_count,
        };
        let votes: Vec<Lockout> = vote.votes.iter().map(one).collect();
        let TowerVote { id, block_id, root, timestamp, is_switch, .. } = *vote;
        let block = VotedBlock { slot: id.slot, bank_hash: id.hash, block_id, blockhash };
        let message = Told { votes: &votes, root, timestamp, is_switch }.message(&self.node, &self.account, &block);
        message.sign_with(|_, bytes| self.key.sign(bytes))
    }

    /// Sends a transaction to the leaders.
    pub fn send(&mut self, transaction: &[u8]) {
        // One that is lost is sent again, by consensus, when it does not land.
        let _ = self.inlet.send(transaction);
    }
}

/// What a vote that gossip heard is for, if it is signed, and by who may vote with its account.
pub fn heard(ledger: &Ledger, transaction: &[u8]) -> Option<Voted> {
    let txn = Txn::parse(transaction).ok()?;
    cast(ledger, &txn).filter(|_| signatures_are_valid(&txn))
}

/// What a vote is for, if who may vote with its account is among its signers. Signatures are not looked at.
pub fn cast(ledger: &Ledger, txn: &Txn<'_>) -> Option<Voted> {
    let voted = voted_for(txn)?;
    let epoch = ledger.clock().epoch;
    let state = ledger.account(&voted.account)?;
    let voter = hearth_ledger::VoteState::read(state.data())?.voter(epoch)?;
    txn.signer_keys().contains(&voter).then_some(voted)
}

#[cfg(test)]
mod tests {
    use hearth_ledger::genesis::funded_account_key;
    use hearth_ledger::{GenesisConfig, LedgerConfig, stakes};

    use super::*;

    /// Anybody can send a transaction that says whom it is a vote of.
    #[test]
    fn only_who_may_vote_is_heard() {
        let [node, stranger] = [1, 2].map(funded_account_key);
        let (account, stake) = ([7; 32], [8; 32]);
        let extra_accounts = stakes::genesis_accounts(&account, &stake, &node.public_key()).to_vec();
        let development = GenesisConfig::development(node.public_key(), [2; 32], 1_700_000_000);
        let genesis = hearth_ledger::Genesis::create(GenesisConfig { extra_accounts, ..development }, |_| {}).unwrap();
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        let votes = [Lockout { slot: 3, confirmation_count: 1 }];
        let told = Told { votes: &votes, root: None, timestamp: None, is_switch: false };
        let block = VotedBlock { slot: 3, bank_hash: [3; 32], block_id: [4; 32], blockhash: *ledger.genesis_hash() };
        let by =
            |key: &SigningKey| told.message(&key.public_key(), &account, &block).sign_with(|_, bytes| key.sign(bytes));
        let voted = Voted { account, slot: 3, bank_hash: [3; 32], block_id: [4; 32] };
        assert_eq!(heard(&ledger, &by(&node)), Some(voted));
        let forged = by(&stranger);
        assert_eq!(voted_for(&Txn::parse(&forged).unwrap()), Some(voted), "it looks like one");
        assert_eq!((heard(&ledger, &forged), cast(&ledger, &Txn::parse(&forged).unwrap())), (None, None));
        let mut unsigned = by(&node);
        unsigned[1] ^= 1;
        assert_eq!(heard(&ledger, &unsigned), None);
    }
}
