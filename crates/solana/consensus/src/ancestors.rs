//! ancestors: finds out which ancestors the cluster has for a block that is dead or missing here.
//!
//! reads   slots to ask about; the nodes that serve repair; their answers; blocks confirmed here
//! writes  which node to ask about which slot; the blocks that more than 52 % of the stake agree on; confirmed blocks,
//!         for other nodes' requests
//! memory  [`QUESTIONS_MAX`] × [`ASKED_MAX`] × 1.3 KB; [`CONFIRMED_MAX`] × 40 B of confirmed blocks
//! drops   the highest slots beyond [`QUESTIONS_MAX`]; unsolicited answers: the caller counts them
//! source  `docs/cluster-protocol.md`, sections 3.2 to 3.4: `solana-core` 4.2.2, `repair/ancestor_hashes_service.rs`
//!
//! Agave asks 21 nodes and believes 11. [`Questions`] asks all nodes with much stake, and believes what more than 52 %
//! of the stake says, the threshold for confirming a version of a slot. It has neither a socket nor the key: the tower
//! tile uses it to choose whom to ask, and the repair tile sends the requests and matches the answers by their nonces.

use std::collections::{BTreeMap, VecDeque};

use hearth_wire::repair::ANCESTORS_MAX;
use hearth_wire::{Hash, Pubkey};

use crate::{BankId, DUPLICATE_THRESHOLD, exceeds};

/// Slots that are asked about at a time, the lowest first.
pub const QUESTIONS_MAX: usize = 32;
/// Nodes that are asked about a slot, those with the most stake.
pub const ASKED_MAX: usize = 128;
/// Interval until a node that has not answered is asked again, in ms.
const AGAIN_MS: u64 = 5_000;
/// Maximum confirmed blocks kept.
pub const CONFIRMED_MAX: usize = 4_096;

/// The blocks that the cluster has confirmed, for other nodes' requests.
#[derive(Debug, Default)]
pub struct ConfirmedBlocks(VecDeque<BankId>);

impl ConfirmedBlocks {
    /// Adds a confirmed block; its ancestors must have been added before.
    pub fn push(&mut self, id: BankId) {
        let blocks = &mut self.0;
        if blocks.back().is_none_or(|newest| newest.slot < id.slot) {
            blocks.push_back(id);
        }
        if blocks.len() > CONFIRMED_MAX {
            blocks.pop_front();
        }
    }

    /// The block of a slot and its ancestors, the newest first, at most [`ANCESTORS_MAX`]; empty if it is not
    /// confirmed.
    pub fn ancestors(&self, slot: u64) -> Vec<(u64, Hash)> {
        let Ok(place) = self.0.binary_search_by_key(&slot, |id| id.slot) else { return vec![] };
        let below = self.0.range(..=place).rev().take(ANCESTORS_MAX);
        below.map(|id| (id.slot, id.hash)).collect()
    }
}

/// A node that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The identity key by which requests and responses name it.
    pub identity: Pubkey,
    /// Its stake in lamports.
    pub stake: u64,
    /// The lowest slot that it can answer for.
    pub lowest: u64,
}

/// A node that was asked about a slot.
#[derive(Default)]
struct QueriedNode {
    /// When to ask it again, in ms.
    due_at: u64,
    /// Empty if the node has not confirmed the slot, or has not answered.
    hashes: Vec<(u64, Hash)>,
}

#[derive(Default)]
struct Question {
    asked: BTreeMap<Pubkey, QueriedNode>,
    /// No node is asked before this time, in ms.
    due_at: u64,
}

/// The open questions about slots.
#[derive(Default)]
pub struct Questions {
    open: BTreeMap<u64, Question>,
}

impl Questions {
    /// Asks about a slot until it is answered or rooted.
    pub fn ask(&mut self, slot: u64) {
        self.open.entry(slot).or_default();
        if self.open.len() > QUESTIONS_MAX {
            self.open.pop_last();
        }
    }

    /// Whether there are no open questions.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Drops questions about slots up to the root.
    pub fn set_root(&mut self, root: u64) {
        self.open = self.open.split_off(&root.saturating_add(1));
    }

    /// The questions to ask now, at most `room`: a slot and a node each. Further ones stay due.
    pub fn due(&mut self, now_ms: u64, peers: impl IntoIterator<Item = Candidate>, room: usize) -> Vec<(u64, Pubkey)> {
        let mut heaviest: Vec<Candidate> = peers.into_iter().filter(|peer| peer.stake > 0).collect();
        heaviest.sort_unstable_by_key(|peer| (std::cmp::Reverse(peer.stake), peer.identity));
        heaviest.truncate(ASKED_MAX);
        let mut due = vec![];
        for (slot, question) in self.open.iter_mut().filter(|(_, question)| question.due_at <= now_ms) {
            for peer in heaviest.iter().filter(|peer| peer.lowest <= *slot) {
                let has_room = question.asked.len() < ASKED_MAX;
                if !has_room && !question.asked.contains_key(&peer.identity) {
                    continue;
                }
                let asked = question.asked.entry(peer.identity).or_default();
                if !asked.hashes.is_empty() || now_ms < asked.due_at {
                    continue;
                }
                if due.len() >= room {
                    return due;
                }
                asked.due_at = now_ms + AGAIN_MS;
                due.push((*slot, peer.identity));
            }
            question.due_at = now_ms + AGAIN_MS;
        }
        due
    }

    /// Processes a node's answer: a slot and its ancestors, the newest first. Returns whether it had been asked.
    pub fn answer(&mut self, node: &Pubkey, hashes: Vec<(u64, Hash)>) -> bool {
        let question = hashes.first().and_then(|(slot, _)| self.open.get_mut(slot));
        let Some(asked) = question.and_then(|question| question.asked.get_mut(node)) else { return false };
        asked.hashes = hashes;
        true
    }

    /// The blocks, the newest first, on which more than 52 % of the stake agree as a slot and its ancestors; the
    /// question is then closed. `stake` is a node's in the slot's epoch, of `total`.
    pub fn agreed(&mut self, stake: impl Fn(u64, &Pubkey) -> u64, total: impl Fn(u64) -> u64) -> Option<Vec<BankId>> {
        let (slot, chain) = self.open.iter().find_map(|(slot, question)| {
            let mut said: BTreeMap<BankId, u64> = BTreeMap::new();
            for (node, asked) in question.asked.iter().filter(|(_, asked)| !asked.hashes.is_empty()) {
                let stake = stake(*slot, node);
                for (slot, hash) in &asked.hashes {
                    let said = said.entry(BankId { slot: *slot, hash: *hash }).or_default();
                    *said = said.saturating_add(stake);
                }
            }
            said.retain(|_, stake| exceeds(*stake, total(*slot), DUPLICATE_THRESHOLD));
            let chain: Vec<BankId> = said.into_keys().rev().collect();
            chain.first().is_some_and(|id| id.slot == *slot).then_some((*slot, chain))
        })?;
        self.open.remove(&slot);
        Some(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node `number`, with a stake of 10 lamports × `number`.
    fn peer(number: u8) -> Candidate {
        Candidate { identity: [number; 32], stake: 10 * u64::from(number), lowest: 0 }
    }

    fn stake_of(_: u64, node: &Pubkey) -> u64 {
        10 * u64::from(node[0])
    }

    fn chain(version: u8) -> Vec<(u64, Hash)> {
        vec![(9, [version; 32]), (7, [7; 32]), (6, [6; 32])]
    }

    const ROOM: usize = 1_000;

    #[test]
    fn answer_of_more_than_52_percent_is_believed() {
        let peers = [1, 2, 3, 4].map(peer);
        let mut questions = Questions::default();
        questions.ask(9);
        let asked = questions.due(1_000, peers, ROOM);
        assert_eq!(asked, [4, 3, 2, 1].map(|node| (9, [node; 32])), "the heaviest first");
        assert!(questions.due(2_000, peers, ROOM).is_empty(), "not so soon");
        // 40 of 100 say one thing, 30 another.
        assert!(questions.answer(&[4; 32], chain(1)));
        assert!(questions.answer(&[3; 32], chain(2)));
        assert_eq!(questions.agreed(stake_of, |_| 100), None);
        // 60 of 100, of which 20 know fewer ancestors.
        assert!(questions.answer(&[2; 32], chain(1)[..2].to_vec()));
        let id = |slot, hash| BankId { slot, hash: [hash; 32] };
        // The ancestors are named by 90 and by 70 of 100.
        assert_eq!(questions.agreed(stake_of, |_| 100), Some(vec![id(9, 1), id(7, 7), id(6, 6)]));
        assert!(questions.is_idle());
    }

    #[test]
    fn node_that_answers_twice_has_one_voice() {
        let mut questions = Questions::default();
        questions.ask(9);
        assert_eq!(questions.due(1_000, [peer(3)], ROOM).len(), 1);
        for _ in 0..9 {
            assert!(questions.answer(&[3; 32], chain(1)));
            assert_eq!(questions.agreed(stake_of, |_| 100), None, "30 of 100");
        }
    }

    #[test]
    fn only_silent_nodes_are_asked_again() {
        let peers = [peer(3), peer(4)];
        let mut questions = Questions::default();
        questions.ask(9);
        assert_eq!(questions.due(10_000, peers, ROOM).len(), 2);
        assert!(questions.answer(&[4; 32], chain(1)));
        assert_eq!(questions.due(14_999, peers, ROOM), []);
        assert_eq!(questions.due(15_000, peers, ROOM), [(9, [3; 32])]);
    }

    #[test]
    fn questions_without_room_stay_due() {
        let peers = [1, 2, 3, 4, 5].map(peer);
        let mut questions = Questions::default();
        questions.ask(9);
        questions.ask(10);
        assert!(questions.due(1_000, peers, 0).is_empty());
        let parts = [3, 3, 100].map(|room| questions.due(1_000, peers, room));
        assert_eq!(parts.each_ref().map(Vec::len), [3, 3, 4]);
        let all: std::collections::BTreeSet<_> = parts.concat().into_iter().collect();
        assert_eq!(all.len(), 10, "each once");
        assert!(questions.due(1_001, peers, ROOM).is_empty());
    }

    #[test]
    fn unsolicited_answer_changes_nothing() {
        let mut questions = Questions::default();
        questions.ask(9);
        questions.due(1_000, [peer(3)], ROOM);
        assert!(!questions.answer(&[2; 32], chain(1)), "another node");
        assert!(!questions.answer(&[3; 32], vec![(8, [1; 32])]), "another slot");
        assert!(!questions.answer(&[3; 32], vec![]));
        assert_eq!(questions.agreed(stake_of, |_| 30), None);
        // Questions are bounded, the lowest stay, and rooted slots are not asked about.
        (10..200).for_each(|slot| questions.ask(slot));
        assert_eq!(questions.open.len(), QUESTIONS_MAX);
        assert!(questions.open.contains_key(&9));
        questions.set_root(1_000);
        assert!(questions.is_idle());
    }

    #[test]
    fn confirmed_blocks_are_reported_newest_first() {
        let mut blocks = ConfirmedBlocks::default();
        let id = |slot: u64| BankId { slot, hash: [slot as u8; 32] };
        for slot in (0..2 * CONFIRMED_MAX as u64 + 100).filter(|slot| slot % 2 == 1) {
            blocks.push(id(slot));
        }
        blocks.push(id(3));
        assert_eq!(blocks.0.len(), CONFIRMED_MAX);
        let hashes = blocks.ancestors(1_001);
        assert_eq!((hashes.len(), hashes[0], hashes[29].0), (30, (1_001, [233; 32]), 943));
        assert!(blocks.ancestors(1_000).is_empty() && blocks.ancestors(1).is_empty(), "skipped; gone");
        assert_eq!(blocks.ancestors(103), [(103, [103; 32]), (101, [101; 32])], "no more are kept");
    }
}
