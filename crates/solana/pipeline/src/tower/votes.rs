//! votes: builds this node's vote transactions, and reads those of other nodes.
//!
//! reads   towers to send; transactions that gossip received; the authorized voter of each account
//! writes  messages to sign, transactions
//! memory  tables of keys that sign votes, at most [`TABLE_BYTES`]
//! drops   transactions that are not votes, or not signed by the account's authorized voter
//! source  `voting_service.rs`, `cluster_info_vote_listener.rs` of `solana-core` 4.2

use std::collections::BTreeMap;

use hearth_consensus::TowerVote;
use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_wire::message::Message;
use hearth_wire::vote::{TowerSync, VoteTarget, VotedBlock, voted_for};
use hearth_wire::{Hash, Pubkey, Txn};

/// Builds the message by which `node` sends a tower, naming `blockhash`, with the vote account `account`, whose
/// authorized voter is `voter`.
pub(super) fn message(vote: &TowerVote, node: &Pubkey, voter: &Pubkey, account: &Pubkey, blockhash: Hash) -> Message {
    let TowerVote { id, block_id, root, timestamp, is_switch, .. } = *vote;
    let block = VotedBlock { slot: id.slot, bank_hash: id.hash, block_id, blockhash };
    TowerSync { votes: &vote.votes, root, timestamp, is_switch }.message_by(node, voter, account, &block)
}

/// Bytes for the precomputed tables of keys that sign votes: each voter signs one vote per slot.
pub(super) const TABLE_BYTES: usize = 4 << 20;

/// Reads the votes of other nodes.
#[derive(Default)]
pub(super) struct VoteReader {
    /// Created for the first vote: a lone node receives none.
    verifier: Option<Verifier>,
}

impl VoteReader {
    /// Returns what a gossip transaction votes for, if it has a valid signature of the account's authorized voter.
    pub fn read(&mut self, transaction: &[u8], voters: &BTreeMap<Pubkey, Pubkey>) -> Option<VoteTarget> {
        let txn = Txn::parse(transaction).ok()?;
        let voted = voted_for(&txn)?;
        let voter = voters.get(&voted.account)?;
        if !txn.signer_keys().contains(voter) {
            return None;
        }
        let tables = VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() };
        let verifier = self.verifier.get_or_insert_with(|| Verifier::new(tables));
        let mut pairs = txn.signatures().iter().zip(txn.signer_keys());
        pairs.all(|(signature, key)| verifier.verify(key, signature, txn.message()).is_ok()).then_some(voted)
    }
}
