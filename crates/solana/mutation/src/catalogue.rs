//! The catalogue: what each bug is, where it is, and which invariant of a cluster it breaks.

use std::fmt;

macro_rules! catalogue {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// A deliberate bug. Each says what the node does wrong, in which function, and what must notice.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutation {
            $($(#[$doc])+ $variant,)+
        }

        impl Mutation {
            /// Every bug, in the order of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the name by which a command line selects the bug.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

catalogue! {
    // The tower.
    /// The tower forgets every lockout when it is asked whether a vote is forbidden (`consensus`,
    /// `Lockouts::is_locked_out`). *Invariant*: no vote for a slot while an earlier vote for another fork binds.
    ForgottenLockouts = "forgotten-lockouts",
    /// The threshold is checked one vote deeper than at depth 8 (`consensus`, `View::passes_threshold`). *Invariant*:
    /// a vote is cast only if two thirds of the stake back the vote with eight votes on top of it, so that a minority
    /// stops after eight votes.
    LateThreshold = "late-threshold",
    /// The threshold takes a third of the stake in place of two thirds (`consensus`, `View::passes_threshold`).
    /// *Invariant*: as for [`LateThreshold`](Self::LateThreshold); a half of the cluster that is cut off must root
    /// nothing.
    LowThreshold = "low-threshold",
    /// A fork is left without asking whether 38 % of the stake are locked out elsewhere (`consensus`, `View::proof`).
    /// *Invariant*: a vote that leaves its fork has that stake behind it; a confirmed block is never abandoned.
    UnaskedSwitch = "unasked-switch",
    /// A vote is given to be signed before its tower is on disk (`pipeline`, `tower::Core::act`). *Invariant*: when a
    /// vote leaves a node, that node's disk holds a tower with it. A crash in between makes the node vote twice.
    EarlyVote = "early-vote",
    /// Seven of eight towers are not put on disk (`pipeline`, `tower::Core::save`). *Invariant*: as for
    /// [`EarlyVote`](Self::EarlyVote), and it needs no slow disk.
    SkippedTower = "skipped-tower",
    /// The 31st vote makes the oldest the root, in place of the 32nd (`consensus`, `Lockouts::process`). *Invariant*: a
    /// node roots a slot once its own tower had 32 votes from it on.
    EarlyRoot = "early-root",

    // Fork choice and confirmations.
    /// An account's stake stays on the block of its vote before (`consensus`, `Forks::vote`). *Invariant*: no bank
    /// weighs more than all stake; nodes with the same votes choose the same fork.
    DoubleCount = "double-count",
    /// Of two forks the lighter one is built on (`consensus`, `Forks::recompute`). *Invariant*: the heaviest candidate
    /// is chosen; after a cut has healed the cluster comes to one fork and roots continue.
    LighterFork = "lighter-fork",
    /// A block is confirmed by a third of the stake (`consensus`, `Tracker::vote`). *Invariant*: more than two thirds
    /// of the stake voted for a block that a node reports as confirmed; two confirmed blocks are of one fork.
    LowConfirmation = "low-confirmation",
    /// A slot is finalized by a third of the stake (`consensus`, `Bank::finalized`). *Invariant*: more than two thirds
    /// of the stake have rooted a slot that a node reports as finalized.
    LowFinality = "low-finality",
    /// A proof that a leader made two blocks of a slot is ignored (`consensus`, `Duplicates::duplicate`). *Invariant*:
    /// after a proof no node votes for its version before 52 % of the stake did.
    IgnoredDuplicate = "ignored-duplicate",
    /// The node keeps its version of a slot though the cluster confirmed another (`consensus`, `Slot::order`).
    /// *Invariant*: once faults end every node comes to the confirmed version of each slot.
    KeptVersion = "kept-version",

    // Epochs and leaders.
    /// Votes are weighed by the stakes of the epoch before (`consensus`, `Stakes::of`). *Invariant*: every count of
    /// stake is by the epoch of the slot counted. Shows only where stakes change between epochs.
    StaleStakes = "stale-stakes",
    /// Tower draws leaders from the schedule of the epoch before (`pipeline`, `tower::Leaders::of`). *Invariant*: who
    /// signs a block is the leader of its slot; blocks go on across the boundary of an epoch.
    StaleSchedule = "stale-schedule",
    /// A leader may make a slot that it has begun or stored already (`pipeline`, `tower::View::has_shreds`).
    /// *Invariant*: an honest node signs one version of each of its slots. Shows after a crash within an own slot.
    RepeatedSlot = "repeated-slot",

    // Shreds, repair and the block store.
    /// The chained root of a set is not compared with its neighbour's root (`pipeline`, `shred::block_versions`).
    /// *Invariant*: every stored block is one that its leader signed; of two versions none is a mixture.
    UnchainedSet = "unchained-set",
    /// A shred of another version of the set is taken (`pipeline`, `shred::fec_resolver`). *Invariant*: the shreds of a
    /// set hash to the root that the leader signed; slots of equivocating leaders are completed in the end.
    ForeignShred = "foreign-shred",
    /// Repair takes the version again that consensus has dumped (`pipeline`, `Versions::admit`). *Invariant*: as for
    /// [`KeptVersion`](Self::KeptVersion); a slot is not dumped for ever.
    DumpedAgain = "dumped-again",
    /// A block is executed on a parent that it is not chained to (`pipeline`, `replay::Position::begin_next`).
    /// *Invariant*: a frozen block's first set is chained to the last root of its parent's version.
    UnchainedBlock = "unchained-block",
    /// The block store cuts the last record off at a start after a crash, though it is whole and synced (`ledger`,
    /// `RecoveredLog::scan` of `blockstore::open`). *Invariant*: a slot that was whole and durable before a crash is
    /// so after it. A store that was closed shows nothing: its index covers all of the log.
    CutTail = "cut-tail",

    // The ledger.
    /// Half of the accounts keep what a dead fork made of them (`ledger`, `Accounts::undo`). *Invariant*: a bank's hash
    /// depends on its chain alone, whatever forks a node visited; equal slots and parents have equal hashes.
    MissedUndo = "missed-undo",
    /// A transfer pays its fee twice (`ledger`, `Transfers::run`). *Invariant*: lamports of all accounts and burned
    /// fees add up to the genesis. Every node does the same, so that bank hashes show nothing.
    DoubleFee = "double-fee",
    /// A transfer that fails keeps what it gave to others (`ledger`, `TouchedAccounts::finish`). *Invariant*: as for
    /// [`DoubleFee`](Self::DoubleFee). The load needs transactions whose second instruction fails.
    MintedFailure = "minted-failure",
    /// A quarter of the changed accounts are left out of the bank hash (`ledger`, `State::take` of `bank_hash`).
    /// *Invariant*: the lattice hash that is kept is the sum over all accounts; snapshots can be proved.
    UnhashedChange = "unhashed-change",
    /// A write does not wait for the write before it (`pipeline`, `replay::Conflicts::add`). *Invariant*: replay comes
    /// to what the block's order comes to; every node has the leader's bank hash.
    MissedConflict = "missed-conflict",
    /// The status cache forgets a transaction one block after it landed (`ledger`, `StatusCache::claim_until`).
    /// *Invariant*: a chain has each message once. The load must send transactions again.
    ForgottenStatus = "forgotten-status",
    /// A snapshot has some accounts as later slots left them (`ledger`, `Contents::keep` of `accounts::snapshot_view`).
    /// *Invariant*: a snapshot's accounts come to the bank hash that it names, and a node that starts from it comes to
    /// the cluster's.
    LostCut = "lost-cut",

    // Gossip.
    /// An older value replaces the newer one of its label (`gossip`, `overrides` of `table`). *Invariant*: the
    /// wallclock of a label never goes back in a node's table.
    OlderValue = "older-value",
}

impl Mutation {
    /// Returns the bug of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mutation| mutation.name() == name)
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
