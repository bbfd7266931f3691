//! voter: the node's vote for each block that is durable.
//!
//! reads   which block is durable; the hash of its bank, at which it works too if nobody else does
//! writes  `store_sign`, reliable: the message of a vote; `store_pack`, reliable: the signed vote
//! memory  the tower; 40 B for each block that is whole and not voted for
//! drops   votes for blocks that a newer one follows before their turn comes: the newer vote covers them
//! source  `consensus.rs`, `voting_service.rs` of `solana-core` 4.2
//!
//! One vote is on its way to be signed at a time. A block counts as confirmed once the node, which has all the stake,
//! has voted for it, and as final once the tower has made it its root.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::tower::{Tower, VotedBlock};
use hearth_tile::{Host, In, InitError, Out, Port};
use hearth_wire::message::Message;
use hearth_wire::{Hash, Pubkey, Signature};

use super::Store;
use crate::links::{SIGN_STORE, STORE_PACK, STORE_SIGN};

/// Votes for one node.
pub(super) struct Voter {
    ledger: Arc<Ledger>,
    node: Pubkey,
    vote_account: Pubkey,
    tower: Tower,
    sign: Port,
    pack: Port,
    answers: In,
    /// The ids of the blocks that are whole and not voted for.
    block_ids: BTreeMap<u64, Hash>,
    /// The newest durable block, until it is voted for.
    wanted: Option<u64>,
    /// The vote that is to be signed, and for which slot.
    asked: Option<(u64, Message)>,
    /// When to look again whether the wanted block can be voted for.
    ask_again_at: Option<u64>,
}

/// How long until then.
const LOOK_AGAIN_NS: u64 = 200_000;
/// Changed accounts that are hashed in one turn.
const HASHED_IN_TURN: usize = 128;

impl Voter {
    /// The voter of `node`, if the topology has the links and the chain an account in which it may vote.
    pub(super) fn new(ledger: &Arc<Ledger>, node: &Pubkey, host: &mut Host<'_>) -> Result<Option<Self>, InitError> {
        let Some(answers) = host.inputs_named(SIGN_STORE).first().copied() else { return Ok(None) };
        let epoch = ledger.clock().epoch;
        let own = |account: &hearth_ledger::validators::VoteAccount| {
            account.state.node == *node && account.state.voter(epoch) == Some(*node)
        };
        let (sign, pack) = (host.output(STORE_SIGN)?, host.output(STORE_PACK)?);
        let Some(account) = ledger.vote_accounts().into_iter().find(own) else { return Ok(None) };
        let tower = Tower::of(&account.state);
        ledger.begin_voting(tower.root());
        Ok(Some(Self {
            ledger: Arc::clone(ledger),
            node: *node,
            vote_account: account.key,
            tower,
            sign,
            pack,
            answers,
            block_ids: BTreeMap::new(),
            wanted: None,
            asked: None,
            ask_again_at: None,
        }))
    }

    /// When there is something to do, although nothing comes in.
    pub(super) fn ask_again_at(&self) -> Option<u64> {
        self.ask_again_at
    }

    /// Whether answers come from this input.
    pub(super) fn is_answered_by(&self, input: In) -> bool {
        input == self.answers
    }

    /// A block is whole: its last set has this root.
    pub(super) fn block(&mut self, slot: u64, block_id: Hash) {
        self.block_ids.insert(slot, block_id);
    }

    /// All blocks up to this slot are durable.
    pub(super) fn durable(&mut self, slot: u64) {
        self.wanted = Some(slot);
    }

    /// Asks for the signature of the next vote, if one is due. Whether it did.
    pub(super) fn work(&mut self, out: &mut Out<'_, Store>) -> bool {
        let Some(slot) = self.wanted.filter(|_| self.asked.is_none()) else { return false };
        if self.ask_again_at.is_some_and(|at| out.now() < at) {
            return false;
        }
        let Some(block) = self.voted_block(slot) else {
            // It is whole on disk a moment before its slot has ended here, or its hash is being worked out.
            self.ask_again_at = Some(out.now() + LOOK_AGAIN_NS);
            return false;
        };
        (self.wanted, self.ask_again_at) = (None, None);
        if !self.tower.vote(slot) {
            self.ledger.mark_stored(slot);
            return false;
        }
        let now = (out.unix_ns() / 1_000_000_000) as i64;
        let message = self.tower.message(&self.node, &self.vote_account, &block, now);
        out.publish(self.sign, slot, message.bytes());
        self.asked = Some((slot, message));
        true
    }

    fn voted_block(&mut self, slot: u64) -> Option<VotedBlock> {
        let summary = self.ledger.summary(slot)?;
        // The banks are at it; where they are idle this works it out.
        self.ledger.hash_some(HASHED_IN_TURN);
        let bank_hash = self.ledger.bank_hash(slot)?;
        let later = self.block_ids.split_off(&(slot + 1));
        let block_id = std::mem::replace(&mut self.block_ids, later).remove(&slot).unwrap_or_default();
        Some(VotedBlock { slot, bank_hash, block_id, blockhash: summary.blockhash })
    }

    /// A vote is signed: it goes to pack, and what it is for is confirmed.
    pub(super) fn signed(&mut self, signature: &Signature, out: &mut Out<'_, Store>) {
        let Some((slot, message)) = self.asked.take() else { return };
        let bytes = message.sign_with(|_, _| *signature);
        let tag = u64::from_le_bytes(*signature.first_chunk().expect("64 bytes"));
        out.publish(self.pack, tag, &bytes);
        out.count.votes += 1;
        self.ledger.mark_stored(slot);
        if let Some(root) = self.tower.root() {
            self.ledger.mark_rooted(root);
        }
    }
}
