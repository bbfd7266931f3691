//! A leader's turns: when to start which slot, on which parent.
//!
//! reads   ticks since the last reset, the bank that was reset onto, the leader schedule, the store's shreds
//! writes  the slot to start, or why not
//! memory  one turn
//! source  `docs/cluster-protocol.md` section 7: `solana-poh` 4.2.2, `poh_recorder.rs`; `solana-ledger` 4.2.2,
//!         `leader_schedule_cache.rs`
//!
//! Proof of history ticks on from the bank P that was reset onto: its tick height starts at `(P + 1) * 64`, so ticks
//! alone determine the slot. When its slot comes, a leader waits for the previous leader's blocks, for at most two
//! slots' time, and not at all if there is nothing to wait for.

use hearth_wire::Pubkey;

/// Ticks of proof of history in a slot, as on mainnet.
pub const TICKS_PER_SLOT: u64 = 64;
/// Consecutive slots of a leader.
pub const CONSECUTIVE_SLOTS: u64 = 4;
/// Maximum grace ticks for the previous leader: for a whole turn, the time of two slots.
pub const MAX_GRACE_TICKS: u64 = 2 * TICKS_PER_SLOT;

/// A leader's queries of the schedule and of the shred store.
pub trait LeaderView {
    /// The leader of a slot, if the schedule is known.
    fn leader(&self, slot: u64) -> Option<Pubkey>;
    /// Whether the store has a shred of a slot, or this node has started its block.
    fn has_shreds(&self, slot: u64) -> bool;
    /// Whether no slot may start now: another block is in progress, or other nodes are known to be ahead.
    fn is_busy(&self) -> bool {
        false
    }
    /// Whether the store knows a slot below `before` that is not dead and whose parent is `parent`.
    fn has_child(&self, parent: u64, before: u64) -> bool;
}

/// Consecutive slots that a node leads and has not produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The first slot that it may still produce.
    pub first: u64,
    /// The last slot, inclusive: less than [`CONSECUTIVE_SLOTS`] after `first`.
    pub last: u64,
}

impl Turn {
    /// Maximum ticks that its leader waits once its time has come.
    pub fn grace_ticks(&self) -> u64 {
        MAX_GRACE_TICKS.min(TICKS_PER_SLOT * (self.last - self.first + 1) / 2)
    }
}

/// The next turn of a node at or after `from`; at most `slots` ahead.
pub fn next_turn(node: &Pubkey, from: u64, slots: u64, view: &dyn LeaderView) -> Option<Turn> {
    let is_own = |slot: u64| view.leader(slot).as_ref() == Some(node) && !view.has_shreds(slot);
    let first = (from..from.saturating_add(slots)).find(|slot| is_own(*slot))?;
    let last = (first..first + CONSECUTIVE_SLOTS).take_while(|slot| is_own(*slot)).last()?;
    Some(Turn { first, last })
}

/// The position of proof of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PohPosition {
    /// The slot of the bank that was reset onto.
    pub parent: u64,
    /// Whether this node produced that bank.
    pub is_own_parent: bool,
    /// Ticks since genesis: `(parent + 1) * TICKS_PER_SLOT` right after the reset.
    pub tick_height: u64,
}

/// The decision of a leader at a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderStep {
    /// Nothing: it has no slot soon.
    NoTurn,
    /// Its time has not come.
    Early,
    /// It waits for blocks of the previous leader.
    Grace,
    /// It starts this slot.
    Now(u64),
}

/// The turns of a node.
#[derive(Clone, Debug)]
pub struct Turns {
    node: Pubkey,
    turn: Option<Turn>,
    /// There is no turn below this slot.
    searched: u64,
}

/// How many slots ahead to look for a turn.
const LOOK_AHEAD: u64 = 512;

impl Turns {
    /// The turns of this node.
    pub fn new(node: Pubkey) -> Self {
        Self { node, turn: None, searched: 0 }
    }

    /// The next turn, if known.
    pub fn turn(&self) -> Option<Turn> {
        self.turn
    }

    /// Proof of history was reset onto `parent`: searches the next turn from there.
    pub fn reset(&mut self, parent: u64, view: &dyn LeaderView) {
        self.look(parent + 1, view);
    }

    fn look(&mut self, from: u64, view: &dyn LeaderView) {
        self.turn = next_turn(&self.node, from, LOOK_AHEAD, view);
        self.searched = self.turn.map_or(from + LOOK_AHEAD / 2, |turn| turn.last + 1);
    }

    /// Decides what to do at this tick.
    pub fn poll(&mut self, poh: PohPosition, view: &dyn LeaderView) -> LeaderStep {
        let slot = poh.tick_height / TICKS_PER_SLOT;
        if slot >= self.searched {
            self.look(slot.max(poh.parent + 1), view);
        }
        let Some(turn) = self.turn else { return LeaderStep::NoTurn };
        let begin = decide(turn, poh, &self.node, view);
        match begin {
            // The time of the slot has come, but another node leads it, or its block was already produced.
            LeaderStep::Now(slot) if view.leader(slot).as_ref() != Some(&self.node) || view.has_shreds(slot) => {
                LeaderStep::NoTurn
            }
            begin => begin,
        }
    }
}

fn decide(turn: Turn, poh: PohPosition, node: &Pubkey, view: &dyn LeaderView) -> LeaderStep {
    let slot = poh.tick_height / TICKS_PER_SLOT;
    let first_tick = turn.first * TICKS_PER_SLOT;
    if poh.parent + 1 == turn.first {
        return LeaderStep::Now(slot);
    }
    if poh.tick_height < first_tick {
        return LeaderStep::Early;
    }
    if poh.tick_height >= first_tick + turn.grace_ticks() || poh.is_own_parent {
        return LeaderStep::Now(slot);
    }
    let may_begin = if poh.parent + CONSECUTIVE_SLOTS >= slot {
        // The previous leader is at work, or has finished.
        let mut before = (0..slot).rev().take(CONSECUTIVE_SLOTS as usize + 1);
        before.find(|slot| view.leader(*slot).as_ref() != Some(node)) == Some(poh.parent)
    } else {
        !view.has_child(poh.parent, slot)
    };
    if may_begin { LeaderStep::Now(slot) } else { LeaderStep::Grace }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Pubkey = [1; 32];

    /// Two nodes in turn: this one leads 4..8, 12..16 and so on.
    #[derive(Default)]
    struct View {
        made: Vec<u64>,
        children: Vec<(u64, u64)>,
    }

    impl LeaderView for View {
        fn leader(&self, slot: u64) -> Option<Pubkey> {
            Some([(slot / 4 % 2) as u8; 32])
        }

        fn has_shreds(&self, slot: u64) -> bool {
            self.made.contains(&slot)
        }

        fn has_child(&self, parent: u64, before: u64) -> bool {
            self.children.iter().any(|(of, child)| *of == parent && *child < before)
        }
    }

    fn begin(view: &View, parent: u64, tick_height: u64) -> LeaderStep {
        let mut turns = Turns::new(ME);
        turns.reset(parent, view);
        let is_own_parent = view.leader(parent) == Some(ME);
        turns.poll(PohPosition { parent, is_own_parent, tick_height }, view)
    }

    #[test]
    fn on_the_block_before_it_begins_at_once() {
        let view = View::default();
        assert_eq!(begin(&view, 3, 4 * 64), LeaderStep::Now(4));
        assert_eq!(begin(&view, 2, 3 * 64), LeaderStep::Early);
        assert_eq!(begin(&view, 2, 4 * 64 - 1), LeaderStep::Early);
    }

    #[test]
    fn active_leader_gets_two_slots_of_grace() {
        let view = View::default();
        assert_eq!(begin(&view, 2, 4 * 64), LeaderStep::Grace, "3 may come yet");
        assert_eq!(begin(&view, 2, 6 * 64 - 1), LeaderStep::Grace);
        assert_eq!(begin(&view, 2, 6 * 64), LeaderStep::Now(6), "two own slots are lost");
        assert_eq!(begin(&view, 3, 4 * 64 + 5), LeaderStep::Now(4));
    }

    #[test]
    fn silent_leader_gets_no_grace() {
        let mut view = View::default();
        assert_eq!(begin(&view, 7, 12 * 64), LeaderStep::Now(12));
        assert_eq!(begin(&view, 5, 12 * 64 - 1), LeaderStep::Early);
        // Produced by this node: starts at once, even within four slots.
        assert_eq!(begin(&view, 5, 12 * 64), LeaderStep::Now(12));
        // Another leader's block, more than four slots old: 3, where 4..8 were our own and lost.
        view.made = vec![4, 5, 6, 7];
        assert_eq!(begin(&view, 3, 12 * 64), LeaderStep::Now(12));
        view.children = vec![(3, 8)];
        assert_eq!(begin(&view, 3, 12 * 64), LeaderStep::Grace);
        assert_eq!(begin(&view, 3, 14 * 64), LeaderStep::Now(14));
        view.children = vec![(3, 12)];
        assert_eq!(begin(&view, 3, 12 * 64), LeaderStep::Now(12), "an own slot's time is no child to wait for");
    }

    #[test]
    fn own_slot_is_made_only_once() {
        let view = View { made: vec![4, 5], ..View::default() };
        assert_eq!(next_turn(&ME, 4, 100, &view), Some(Turn { first: 6, last: 7 }));
        assert_eq!(begin(&view, 3, 5 * 64), LeaderStep::Early);
        assert_eq!(begin(&view, 5, 6 * 64), LeaderStep::Now(6), "on its own block at once");
        let view = View { made: vec![6], ..View::default() };
        assert_eq!(next_turn(&ME, 4, 100, &view), Some(Turn { first: 4, last: 5 }));
        assert_eq!(next_turn(&ME, 0, 4, &view), None);
    }

    #[test]
    fn passed_turn_gives_way_to_the_next() {
        let view = View::default();
        let mut turns = Turns::new(ME);
        turns.reset(2, &view);
        let at = |tick_height| PohPosition { parent: 2, is_own_parent: false, tick_height };
        assert_eq!(turns.turn(), Some(Turn { first: 4, last: 7 }));
        assert_eq!(turns.poll(at(8 * 64), &view), LeaderStep::Early);
        assert_eq!(turns.turn(), Some(Turn { first: 12, last: 15 }));
        assert_eq!(turns.poll(at(12 * 64), &view), LeaderStep::Now(12));
    }

    #[test]
    fn grace_is_half_of_a_short_turn() {
        assert_eq!([4, 5, 6, 7].map(|last| Turn { first: 4, last }.grace_ticks()), [32, 64, 96, 128]);
    }
}
