//! Who knew what of one slot, and when.
//!
//! reads   what the world sees
//! writes  a line for each thing that a node learns of the slot
//! memory  the lines
//! drops   all that is of other slots

use std::collections::BTreeSet;

/// An event of a slot that a node learns of, each at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotEvent {
    /// It sent a shred of it.
    SentShred,
    /// A shred of it came.
    ShredCame,
    /// All its shreds are in the store.
    Whole,
    /// The node's replay has executed the slot's block.
    Executed,
    /// The node takes it to be confirmed.
    Confirmed,
    /// It is below the node's root.
    Rooted,
}

impl SlotEvent {
    fn text(self) -> &'static str {
        match self {
            Self::SentShred => "sends its first shred",
            Self::ShredCame => "gets its first shred",
            Self::Whole => "has stored all of it",
            Self::Executed => "has executed it",
            Self::Confirmed => "knows it confirmed",
            Self::Rooted => "has rooted it",
        }
    }
}

/// The lines of one slot; none where no slot is asked for.
#[derive(Debug, Default)]
pub struct Trace {
    slot: Option<u64>,
    seen: BTreeSet<(usize, SlotEvent)>,
    lines: Vec<String>,
}

impl Trace {
    /// A trace of this slot; `None` records nothing.
    pub fn of(slot: Option<u64>) -> Self {
        Self { slot, ..Self::default() }
    }

    /// Whether this slot is traced.
    pub fn wants(&self, slot: u64) -> bool {
        self.slot == Some(slot)
    }

    /// The slot that is traced.
    pub fn slot(&self) -> Option<u64> {
        self.slot
    }

    /// A node learns something of the slot that is traced; what it learnt before is no news.
    pub fn learnt(&mut self, now: u64, node: usize, learnt: SlotEvent, beside: &str) {
        if self.seen.insert((node, learnt)) {
            self.say(now, node, &format!("{}{beside}", learnt.text()));
        }
    }

    /// Something happens to a node while the slot is traced.
    pub fn say(&mut self, now: u64, node: usize, what: &str) {
        if self.slot.is_some() {
            self.lines.push(format!("{:>9.3} s  node {node}  {what}", now as f64 / 1e9));
        }
    }

    /// The node starts again: it may learn everything again.
    pub fn forget(&mut self, node: usize) {
        self.seen.retain(|(other, _)| *other != node);
    }

    /// The lines, in the order of time.
    pub fn lines(self) -> Vec<String> {
        self.lines
    }
}
