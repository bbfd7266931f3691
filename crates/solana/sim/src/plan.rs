//! What shall go wrong in a run: drawn from its seed, or a part of that.
//!
//! reads   a seed
//! writes  a [`Plan`]
//! memory  a few faults
//!
//! Kinds of faults are dealt like cards, [`KINDS_A_SEED`] to a seed from decks that hold each kind once, so that
//! consecutive seeds have all kinds about equally often; one that comes twice, from two decks, is one fault. Of the
//! stake less than a third is faulty at a time: one node, the victim, has all faults of nodes.

use std::collections::BTreeSet;

/// Kinds of faults that a seed is dealt.
pub const KINDS_A_SEED: u64 = 4;
/// Nodes with stake where a seed does not say otherwise. All have the same.
pub const NODES: usize = 4;
/// The slot at which the first fault may begin.
const FIRST_SLOT: u64 = 8;
/// Slots in which faults begin.
const BEGIN_WITHIN: u64 = 40;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Datagrams are lost, so many in a thousand.
    Loss,
    /// Datagrams take so many milliseconds longer.
    Delay,
    /// Datagrams take up to so many milliseconds longer, each by itself, and so overtake each other.
    Reorder,
    /// Datagrams come twice, so many in a thousand.
    Duplicate,
    /// Nothing that the victim sends arrives; what others send does.
    OneWay,
    /// The victim is cut off.
    Partition,
    /// The victim's process is killed and started again; its disk keeps all that was written.
    Crash,
    /// The victim's power goes in the middle of a write, so many writes later: what was not synced is torn.
    PowerLoss,
    /// The victim's disk takes only so many bytes more for a while.
    DiskFull,
    /// The victim's disk refuses to write for a while.
    WriteErrors,
    /// A write of the victim lands in another place of its file, without an error.
    Misdirected,
    /// A sync of the victim takes so many milliseconds.
    SlowDisk,
    /// The victim's clock on the wall is set by so many milliseconds, forwards or back.
    ClockStep,
    /// The victim's clock runs fast or slow, by so many parts in a million, from its start on.
    ClockDrift,
    /// The victim starts only at the fault's end, with nothing on its disk.
    LateJoin,
    /// The victim is down for long.
    FarBehind,
    /// The victim withholds a part of its own shreds and of those that it retransmits.
    Withhold,
    /// The victim makes two blocks for each of its slots. It withholds a part of the shreds of the one, and sends
    /// the other to all nodes.
    Equivocate,
    /// Shreds that the victim sends are changed on the way, and it sends noise to all ports.
    Garbage,
    /// Strangers send gossip that they have seen, and noise, to all nodes.
    GossipFlood,
    /// Strangers send requests for repair that they have seen, and noise, to all nodes.
    RepairFlood,
    /// Clients send everything again and again, to all nodes.
    ClientFlood,
}

impl Kind {
    /// All kinds, with what docs and plans call them.
    pub const ALL: [(Kind, &'static str); 22] = [
        (Kind::Loss, "loss"),
        (Kind::Delay, "delay"),
        (Kind::Reorder, "reorder"),
        (Kind::Duplicate, "duplicate"),
        (Kind::OneWay, "one-way"),
        (Kind::Partition, "partition"),
        (Kind::Crash, "crash"),
        (Kind::PowerLoss, "power-loss"),
        (Kind::DiskFull, "disk-full"),
        (Kind::WriteErrors, "write-errors"),
        (Kind::Misdirected, "misdirected"),
        (Kind::SlowDisk, "slow-disk"),
        (Kind::ClockStep, "clock-step"),
        (Kind::ClockDrift, "clock-drift"),
        (Kind::LateJoin, "late-join"),
        (Kind::FarBehind, "far-behind"),
        (Kind::Withhold, "withhold"),
        (Kind::Equivocate, "equivocate"),
        (Kind::Garbage, "garbage"),
        (Kind::GossipFlood, "gossip-flood"),
        (Kind::RepairFlood, "repair-flood"),
        (Kind::ClientFlood, "client-flood"),
    ];

    /// The kind's name in docs and plans.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|(kind, _)| *kind)
    }

    /// Whether it takes effect while the victim runs, from its begin to its end. Of the others the world says when.
    pub(crate) fn changes_running_victim(self) -> bool {
        use Kind::{DiskFull, Equivocate, Garbage, Misdirected, OneWay, Partition, SlowDisk, Withhold, WriteErrors};
        let of_disk = matches!(self, DiskFull | Misdirected | SlowDisk | WriteErrors);
        of_disk || matches!(self, Equivocate | Garbage | OneWay | Partition | Withhold)
    }

    /// How many slots it lasts at least and at most, and how much of it there is at least and at most.
    fn ranges(self) -> ((u64, u64), (u64, u64)) {
        match self {
            Self::Loss => ((10, 30), (10, 150)),
            Self::Delay => ((10, 30), (20, 150)),
            Self::Reorder => ((10, 30), (20, 120)),
            Self::Duplicate => ((10, 30), (50, 400)),
            // The votes of one cut off bind it for twice as many slots with each of its own that it makes.
            Self::OneWay | Self::Partition => ((2, 5), (0, 0)),
            Self::Crash => ((1, 12), (0, 0)),
            Self::PowerLoss => ((1, 12), (1, 40)),
            Self::DiskFull => ((3, 10), (0, 20_000)),
            Self::WriteErrors => ((2, 8), (0, 0)),
            Self::Misdirected => ((1, 1), (0, 0)),
            Self::SlowDisk => ((10, 30), (100, 900)),
            // Gossip takes nothing of who is 15 s apart.
            Self::ClockStep => ((1, 1), (500, 5_000)),
            Self::ClockDrift => ((1, 1), (100, 20_000)),
            Self::LateJoin => ((5, 30), (0, 0)),
            Self::FarBehind => ((30, 50), (0, 0)),
            Self::Withhold => ((10, 30), (300, 950)),
            Self::Equivocate => ((10, 30), (0, 700)),
            Self::Garbage => ((10, 30), (50, 500)),
            Self::GossipFlood | Self::RepairFlood => ((5, 15), (10, 60)),
            Self::ClientFlood => ((10, 30), (5, 20)),
        }
    }
}

/// A fault of a run: its kind, when it is in effect, and how strong it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind, which also says in which unit `amount` is.
    pub kind: Kind,
    /// The slot whose time it begins at, counted from the first block.
    pub from_slot: u64,
    /// Slots that it lasts.
    pub slots: u64,
    /// How much, in the unit that the kind says.
    pub amount: u64,
}

/// All that a run depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Draws everything that is not said here.
    pub seed: u64,
    /// How many nodes the cluster has; all have the same stake.
    pub nodes: usize,
    /// The node that faults of nodes hit.
    pub victim: usize,
    /// Slots that a run has at least.
    pub slots: u64,
    /// The faults of the run, whose times may overlap.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x706c_616e);
        let kinds = dealt(seed);
        let faults = kinds.into_iter().map(|kind| {
            let ((least, most), (low, high)) = kind.ranges();
            let from_slot = FIRST_SLOT + random.u64(0..BEGIN_WITHIN);
            Fault { kind, from_slot, slots: random.u64(least..=most), amount: random.u64(low..=high) }
        });
        let faults = faults.collect();
        Self { seed, nodes: NODES, victim: random.usize(0..NODES), slots: 100, faults }
    }

    /// The fault of this kind, if it has one.
    pub fn fault(&self, kind: Kind) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.kind == kind)
    }

    /// The slot by which all is over, counted from the first block.
    pub fn heals_at(&self) -> u64 {
        self.faults.iter().map(|fault| fault.from_slot + fault.slots).max().unwrap_or(0)
    }

    /// The options of `simulate` that run it again.
    pub fn options(&self) -> String {
        let whole = Self::of(self.seed);
        let mut options = format!("--seed {}", self.seed);
        if self.nodes != whole.nodes {
            options += &format!(" --nodes {}", self.nodes);
        }
        if self.slots != whole.slots {
            options += &format!(" --slots {}", self.slots);
        }
        if self.faults != whole.faults {
            let names: Vec<_> = self.faults.iter().map(|fault| fault.kind.name()).collect();
            options += &format!(" --faults {}", if names.is_empty() { "none".to_owned() } else { names.join(",") });
        }
        options
    }

    /// With only those of its faults whose kinds are named, `none` for none.
    ///
    /// # Errors
    /// A name is no kind's, or the plan has no such fault.
    pub fn only(mut self, names: &str) -> Result<Self, String> {
        let names = names.split(',').filter(|name| *name != "none");
        let kind = |name| Kind::named(name).ok_or_else(|| format!("`{name}` is not a kind of fault"));
        let kinds = names.map(kind).collect::<Result<BTreeSet<_>, _>>()?;
        if let Some(missing) = kinds.iter().find(|kind| self.fault(**kind).is_none()) {
            return Err(format!("seed {} has no fault `{}`", self.seed, missing.name()));
        }
        self.faults.retain(|fault| kinds.contains(&fault.kind));
        Ok(self)
    }

    /// With so many nodes; the victim is one of them.
    pub fn with_nodes(self, nodes: usize) -> Self {
        Self { nodes, victim: self.victim % nodes.max(1), ..self }
    }
}

/// The kinds that a seed is dealt, in the order of [`Kind::ALL`].
fn dealt(seed: u64) -> BTreeSet<Kind> {
    let count = Kind::ALL.len() as u64;
    let card = |at: u64| {
        let mut deck = Kind::ALL;
        fastrand::Rng::with_seed(at / count).shuffle(&mut deck);
        deck[(at % count) as usize].0
    };
    let first = (seed % (u64::MAX / KINDS_A_SEED)) * KINDS_A_SEED;
    (first..first + KINDS_A_SEED).map(card).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_in_twenty_of_two_hundred_seeds() {
        for (kind, name) in Kind::ALL {
            let seeds = (0..200).filter(|seed| Plan::of(*seed).fault(kind).is_some()).count();
            assert!(seeds >= 20, "{name} is in {seeds} seeds");
            assert_eq!((kind.name(), Kind::named(name)), (name, Some(kind)));
        }
    }

    #[test]
    fn a_plan_is_run_again_by_its_options() {
        let plan = Plan::of(7);
        assert_eq!(plan.options(), "--seed 7");
        let one = plan.faults[0].kind.name();
        let less = plan.clone().only(one).unwrap();
        assert_eq!((less.faults.len(), less.options()), (1, format!("--seed 7 --faults {one}")));
        assert_eq!(plan.clone().only("none").unwrap().options(), "--seed 7 --faults none");
        assert!(plan.only("sunshine").is_err());
    }
}
