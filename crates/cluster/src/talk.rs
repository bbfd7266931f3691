//! The node's votes on their way to gossip, and what it hears there of others' votes and slots.
//!
//! reads   votes, from consensus; values that came to gossip
//! writes  the same, to gossip's tile and to consensus
//! memory  [`QUEUE_MAX`] votes each way, 1.2 KB at most; [`SLOTS_MAX`] slots of nodes, 8 B, of which a node tells
//!         [`MAX_ELSEWHERE`] at a time
//! drops   values of nodes without stake, counted by gossip's tile; the oldest vote beyond the bound, and slots
//!         beyond theirs, counted as lost: a vote is followed by the next, and slots are told again
//! source  –

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

use hearth_wire::Pubkey;
use hearth_wire::gossip::{CrdsData, CrdsValue, EpochSlots};

use crate::consensus::MAX_ELSEWHERE;

/// Votes that wait at most, each way.
const QUEUE_MAX: usize = 4_096;
/// Slots of all nodes that wait at most, 2 MiB of them: of a thousand nodes 262 each, and a slot takes 400 ms.
const SLOTS_MAX: usize = 1 << 18;

/// What other nodes said since it was taken last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Transactions of votes; their signatures are not checked.
    pub votes: VecDeque<Vec<u8>>,
    /// The slots that a node has, near the root and above it: each once, ascending.
    pub slots: BTreeMap<Pubkey, Vec<u64>>,
    /// How many they are, all together.
    count: usize,
}

/// Both ways.
#[derive(Default)]
pub struct Talk {
    say: Mutex<VecDeque<Vec<u8>>>,
    has_more: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    heard: Mutex<Heard>,
    root: AtomicU64,
    lost: AtomicU64,
}

impl Talk {
    /// Whoever says votes is woken by this when there is one.
    pub fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        // The first has it: a node has one gossip.
        let _ = self.wake.set(Box::new(wake));
    }

    /// A vote's transaction, to be said by gossip.
    pub fn say(&self, vote: Vec<u8>) {
        self.push(&mut self.say.lock().unwrap_or_else(PoisonError::into_inner), vote);
        self.has_more.store(true, SeqCst);
        self.wake.get().iter().for_each(|wake| wake());
    }

    /// All that is to be said.
    pub fn to_say(&self) -> VecDeque<Vec<u8>> {
        if !self.has_more.load(SeqCst) {
            return VecDeque::new();
        }
        self.has_more.store(false, SeqCst);
        std::mem::take(&mut *self.say.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gossip has these values: keeps the votes and the slots of nodes that count. Returns how many values are
    /// of nodes that do not.
    pub fn hear<'a>(&self, values: impl Iterator<Item = CrdsValue<'a>>, counts: impl Fn(&Pubkey) -> bool) -> u64 {
        let mut strangers = 0;
        for value in values {
            match value.data() {
                CrdsData::Vote(vote) if counts(&vote.from) => self.hear_vote(vote.transaction.to_vec()),
                CrdsData::EpochSlots(told) if counts(&told.from) => self.hear_slots(told),
                _ => strangers += 1,
            }
        }
        strangers
    }

    fn hear_vote(&self, vote: Vec<u8>) {
        self.push(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner).votes, vote);
    }

    fn hear_slots(&self, told: &EpochSlots<'_>) {
        let root = self.root();
        let near = near(told, root);
        if near.is_empty() {
            return;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let Heard { slots, count, .. } = &mut *heard;
        let known = slots.entry(told.from).or_default();
        let before = known.len();
        // The root may have gone on since the first of them was told.
        known.retain(|slot| *slot > root);
        known.extend(near);
        known.sort();
        known.dedup();
        let room = SLOTS_MAX - (*count - before);
        if known.len() > room {
            known.truncate(room);
            self.lost.fetch_add(1, SeqCst);
        }
        *count = *count - before + known.len();
        if known.is_empty() {
            slots.remove(&told.from);
        }
    }

    /// All that was heard since the last call.
    pub fn heard(&self) -> Heard {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Slots up to this one are of no interest any more.
    pub fn set_root(&self, root: u64) {
        self.root.store(root, SeqCst);
    }

    /// The newest slot that is of no interest.
    pub fn root(&self) -> u64 {
        self.root.load(SeqCst)
    }

    /// What was dropped since nobody took it.
    pub fn lost(&self) -> u64 {
        self.lost.load(SeqCst)
    }

    fn push(&self, queue: &mut VecDeque<Vec<u8>>, what: Vec<u8>) {
        if queue.len() == QUEUE_MAX {
            queue.pop_front();
            self.lost.fetch_add(1, SeqCst);
        }
        queue.push_back(what);
    }
}

/// The slots of a value that are above the root and near it, ascending. A few bytes can tell 16,383 slots, and a value
/// has room for two dozen such runs: no more is read of them than there are slots to be had.
fn near(told: &EpochSlots<'_>, root: u64) -> Vec<u64> {
    const WORDS: usize = MAX_ELSEWHERE as usize / 64;
    let (mut bits, mut read) = ([0u64; WORDS], 0);
    let first = root.saturating_add(1);
    for run in told.runs.iter() {
        if read >= MAX_ELSEWHERE {
            break;
        }
        run.for_each_in(first..first.saturating_add(MAX_ELSEWHERE), |slot| {
            let index = slot - first;
            bits[(index / 64) as usize] |= 1 << (index % 64);
            read += 1;
        });
    }
    (0..MAX_ELSEWHERE)
        .filter(|index| bits[(index / 64) as usize] >> (index % 64) & 1 == 1)
        .map(|it| first + it)
        .collect()
}

#[cfg(test)]
mod tests {
    use hearth_wire::gossip::{SlotBits, SlotRun};

    use super::*;

    /// 2,048 bytes of ones, by DEFLATE without a header.
    const ONES: [u8; 18] = [251, 255, 127, 20, 140, 130, 81, 48, 10, 70, 193, 40, 24, 5, 35, 13, 0, 0];

    /// A value of a node with these runs.
    fn value(node: u8, runs: Vec<SlotRun<'_>>) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        CrdsData::EpochSlots(EpochSlots { index: 0, from: [node; 32], runs, wallclock: 5 }).write(&mut bytes);
        bytes
    }

    fn hear(talk: &Talk, values: &[Vec<u8>], counts: impl Fn(&Pubkey) -> bool) -> u64 {
        talk.hear(values.iter().map(|bytes| CrdsValue::parse(bytes).unwrap()), counts)
    }

    /// As many slots as a datagram holds: so many runs of the longest kind.
    fn bomb(node: u8, first_slot: u64) -> Vec<u8> {
        let run = SlotRun { first_slot, count: 16_383, is_compressed: true, bytes: &ONES };
        let bytes = value(node, vec![run; 23]);
        let mut slots = 0;
        run.for_each(|_| slots += 1);
        assert!(slots == 16_383 && bytes.len() < 1_188, "{slots} slots in each run, {} bytes", bytes.len());
        bytes
    }

    #[test]
    fn a_datagram_tells_no_more_slots_than_there_are_near_the_root() {
        let talk = Talk::default();
        talk.set_root(100);
        assert_eq!(hear(&talk, &[bomb(1, 50), bomb(1, 51), bomb(2, 4_000)], |_| true), 0);
        let heard = talk.heard();
        assert_eq!(heard.slots[&[1; 32]], (101..=100 + MAX_ELSEWHERE).collect::<Vec<_>>(), "each once, none far away");
        assert_eq!(heard.slots[&[2; 32]], (4_000..=100 + MAX_ELSEWHERE).collect::<Vec<_>>());
        assert_eq!(hear(&talk, &[bomb(1, 100 + MAX_ELSEWHERE + 1)], |_| true), 0);
        talk.set_root(20_000);
        assert_eq!(hear(&talk, &[bomb(1, 50)], |_| true), 0);
        assert_eq!(talk.heard(), Heard::default(), "all too far, or too old");
    }

    #[test]
    fn who_does_not_count_is_not_heard() {
        let talk = Talk::default();
        let mut bits = SlotBits::default();
        assert!(bits.add(5, 9) && bits.add(7, 9));
        assert_eq!(hear(&talk, &[bomb(1, 0), value(2, vec![bits.run()]), bomb(3, 0)], |node| *node == [2; 32]), 2);
        assert_eq!(talk.heard().slots, BTreeMap::from([([2; 32], vec![5, 7])]));
    }

    #[test]
    fn nobody_takes_more_memory_than_the_bound() {
        let talk = Talk::default();
        let nodes = SLOTS_MAX as u64 / MAX_ELSEWHERE;
        for round in 0..2 {
            for node in 0..nodes {
                hear(&talk, &[bomb(node as u8, 0)], |_| true);
            }
            assert_eq!(talk.lost(), 0, "round {round}: the same slots again take nothing");
        }
        for node in nodes..nodes + 2 {
            hear(&talk, &[bomb(node as u8, 0)], |_| true);
        }
        assert_eq!(talk.lost(), 2);
        let heard = talk.heard();
        assert_eq!((heard.slots.values().map(Vec::len).sum::<usize>(), heard.slots.len()), (SLOTS_MAX, nodes as usize));
        assert_eq!(talk.heard(), Heard::default());
    }

    #[test]
    fn the_newest_votes_stay() {
        let talk = Talk::default();
        for vote in 0..QUEUE_MAX as u64 + 3 {
            talk.hear_vote(vote.to_le_bytes().to_vec());
        }
        talk.say(vec![7]);
        let heard = talk.heard();
        assert_eq!((heard.votes.len(), talk.lost()), (QUEUE_MAX, 3));
        assert_eq!(heard.votes[0], 3u64.to_le_bytes());
        assert_eq!((talk.heard().votes.len(), talk.to_say()), (0, [vec![7]].into()));
    }
}
