//! What must hold at every step, whatever goes wrong.
//!
//! reads   the ledgers of all nodes, their counters
//! writes  the first thing that does not hold
//! memory  a block's hashes for each block that a node has executed or rooted; what clients saw confirmed
//! drops   what a ledger no longer tells of blocks long rooted

use std::collections::BTreeMap;
use std::path::Path;

use hearth_ledger::snapshot::{SnapshotError, SnapshotFile, prove};
use hearth_ledger::stakes::VoteStake;
use hearth_ledger::{BlockSummary, Commitment, Ledger};
use hearth_wire::consts::SYSVAR_OWNER;
use hearth_wire::gossip::Protocol;
use hearth_wire::{Hash, Pubkey, Signature};

use crate::bounds::Bounds;
use crate::fees::Fees;
use crate::node::{Node, SLOT_MS};
use crate::snapshots::INTERVAL_SLOTS;
use crate::trace::{SlotEvent, Trace};
use crate::values::PassedOn;
use crate::versions::SignedSets;
use crate::votes::{Fault, Votes};

/// Slots in which a cluster whose faults are over roots what was newest then: the votes of one that was cut off bind
/// it for up to 64 slots, a joiner waits for 100, and 32 votes lie above a root.
pub const HEAL_SLOTS: u64 = 300;
/// How long a tile may wait for room, or a node have work at every instant, where its disk takes what it is given.
const STARVED_NS: u64 = 10_000_000_000;
/// Blocks that are looked at where the newest is another.
const LOOK_BACK: usize = 48;

/// A property of the cluster that a run checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// No two nodes root different blocks at a slot.
    OneRoot,
    /// A transaction that a client saw confirmed is in every later root.
    ConfirmedStays,
    /// A block comes to one bank hash on every node.
    OneBankHash,
    /// Lamports of all accounts but sysvars, and those burned, are as many as at genesis.
    Lamports,
    /// A healed cluster roots again in time.
    Heals,
    /// The memory of tiles, and the state kept to leave forks, stay within their bounds.
    Memory,
    /// No tile waits for room too long, and no node has work at every instant, unless its disk fails it.
    Starves,
    /// Every transaction ends in exactly one counter.
    Counted,
    /// No node ends by itself, but where its disk has failed it or it equivocates.
    Lives,
    /// A vote leaves a node once its tower is on disk.
    VoteOnDisk,
    /// A node does not vote for a slot while an earlier vote for another fork binds.
    Lockouts,
    /// More than two thirds of the stake have voted for what a node takes to be confirmed.
    ConfirmedByStake,
    /// A node votes for one block of a slot.
    VotesOnce,
    /// A transaction ends as its client made it: it succeeds, fails and pays its fee once, or never lands.
    Fees,
    /// All nodes have the same stakes for an epoch.
    OneStakes,
    /// A snapshot's accounts come to the bank hash that it names, which is that of its block.
    Snapshots,
    /// A node never passes on an older value of another's gossip than it passed on before.
    NewerValues,
    /// A leader makes one block of each of its slots.
    OneVersion,
}

impl Invariant {
    /// All, with what docs and reports call them.
    pub const ALL: [(Invariant, &'static str); 18] = [
        (Invariant::OneRoot, "one-root"),
        (Invariant::ConfirmedStays, "confirmed-stays"),
        (Invariant::OneBankHash, "one-bank-hash"),
        (Invariant::Lamports, "lamports"),
        (Invariant::Heals, "heals"),
        (Invariant::Memory, "memory"),
        (Invariant::Starves, "starves"),
        (Invariant::Counted, "counted"),
        (Invariant::Lives, "lives"),
        (Invariant::VoteOnDisk, "vote-on-disk"),
        (Invariant::Lockouts, "lockouts"),
        (Invariant::ConfirmedByStake, "confirmed-by-stake"),
        (Invariant::VotesOnce, "votes-once"),
        (Invariant::Fees, "fees"),
        (Invariant::OneStakes, "one-stakes"),
        (Invariant::Snapshots, "snapshots"),
        (Invariant::NewerValues, "newer-values"),
        (Invariant::OneVersion, "one-version"),
    ];

    /// The invariant's name in docs and reports.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Something does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant that is broken.
    pub invariant: Invariant,
    /// The state that was found instead, in words.
    pub what: String,
}

impl Violation {
    /// Says what is so instead.
    pub fn new(invariant: Invariant, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }
}

/// A transaction that a client saw confirmed.
#[derive(Clone, Copy, Debug)]
pub struct Confirmed {
    /// The first signature, which identifies the transaction.
    pub signature: Signature,
    /// The slot of its block.
    pub slot: u64,
    /// The last entry's hash of that block.
    pub blockhash: Hash,
    /// The node that said so.
    pub by: usize,
}

/// A block as the first node that rooted it has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RootedBlock {
    parent: u64,
    blockhash: Hash,
}

/// The last known state of one node.
#[derive(Clone, Default)]
struct NodeState {
    head: (u64, Hash),
    root: u64,
    confirmed: u64,
    held_up: BTreeMap<String, u64>,
}

/// Checks the invariants over all nodes, step by step.
pub struct Checker {
    /// By [`lamports`], as the first node has them that starts: the chain is at its genesis then.
    genesis_lamports: Option<u128>,
    rooted: BTreeMap<u64, RootedBlock>,
    bank_hashes: BTreeMap<(u64, Hash), (Hash, usize)>,
    confirmed: Vec<Confirmed>,
    votes: Votes,
    passed_on: PassedOn,
    signed: SignedSets,
    fees: Fees,
    bounds: Bounds,
    /// The stakes of each epoch, as the first node has them that has rooted a block of the epoch before.
    stakes: BTreeMap<u64, Vec<VoteStake>>,
    identities: Vec<Pubkey>,
    nodes: Vec<NodeState>,
}

impl Checker {
    /// Makes the checker of a cluster of nodes with these identities.
    pub fn new(identities: Vec<Pubkey>) -> Self {
        let nodes = identities.len();
        Self {
            genesis_lamports: None,
            rooted: BTreeMap::new(),
            bank_hashes: BTreeMap::new(),
            confirmed: vec![],
            votes: Votes::new(nodes),
            passed_on: PassedOn::new(nodes),
            signed: SignedSets::default(),
            fees: Fees::default(),
            bounds: Bounds::default(),
            stakes: BTreeMap::new(),
            identities,
            nodes: vec![NodeState::default(); nodes],
        }
    }

    /// The newest slot that some node has rooted.
    pub fn newest_root(&self) -> u64 {
        self.rooted.last_key_value().map_or(0, |(slot, _)| *slot)
    }

    /// How many blocks are rooted.
    pub fn rooted_blocks(&self) -> usize {
        self.rooted.len()
    }

    /// How many transactions clients saw confirmed.
    pub fn confirmed_transactions(&self) -> usize {
        self.confirmed.len()
    }

    /// How many epochs have other stakes than the epoch before.
    pub fn stake_changes(&self) -> usize {
        let stakes = self.stakes.values();
        stakes.clone().zip(stakes.skip(1)).filter(|(before, after)| before != after).count()
    }

    /// A client sends a transaction that fails where it lands.
    pub fn charge(&mut self, signature: Signature) {
        self.fees.charge(signature);
    }

    /// A node starts, with so many lamports: what it has from its disk is checked again.
    pub fn started(&mut self, node: usize, lamports: u128) {
        self.nodes[node] = NodeState::default();
        self.passed_on.forget(node);
        self.genesis_lamports.get_or_insert(lamports);
    }

    /// A client saw a transaction confirmed.
    ///
    /// # Errors
    /// Another block is rooted at its slot, or none.
    pub fn saw_confirmed(&mut self, confirmed: Confirmed) -> Result<(), Violation> {
        self.confirmed.push(confirmed);
        if confirmed.slot <= self.newest_root() { self.keeps(&confirmed) } else { Ok(()) }
    }

    fn keeps(&self, confirmed: &Confirmed) -> Result<(), Violation> {
        let Confirmed { slot, blockhash, by, signature } = confirmed;
        let found = self.rooted.get(slot).map(|rooted| rooted.blockhash);
        if found == Some(*blockhash) {
            return Ok(());
        }
        let which = if found.is_some() { "another block" } else { "no block" };
        let name = u64::from_be_bytes(*signature.first_chunk().expect("64 bytes"));
        let what = format!("{name:016x} was confirmed in slot {slot} by node {by}, and {which} is rooted there");
        Err(Violation::new(Invariant::ConfirmedStays, what))
    }

    /// Looks at a node after it was turned.
    ///
    /// # Errors
    /// Something does not hold.
    pub fn look(&mut self, now: u64, node: &Node, has_disk: bool, trace: &mut Trace) -> Result<(), Violation> {
        let (number, ledger) = (node.number(), &*node.ledger);
        self.starves(now, node, has_disk)?;
        let Some(head) = ledger.recent_blocks(1).first().copied() else { return Ok(()) };
        if self.nodes[number].head != (head.slot, head.blockhash) {
            // One whose hash is not known yet is looked at again.
            self.nodes[number].head = if head.bank_hash.is_some() { (head.slot, head.blockhash) } else { (0, [0; 32]) };
            self.new_head(number, ledger)?;
            if let Some(what) = self.bounds.exceeded(node) {
                return Err(Violation::new(Invariant::Memory, what));
            }
        }
        if let Some(slot) = trace.slot() {
            learn(trace, now, node, slot);
        }
        self.votes.saved(number, &mut node.take_votes());
        self.confirms(number, ledger)?;
        let root = ledger.root().unwrap_or(0);
        if root > self.nodes[number].root {
            let before = std::mem::replace(&mut self.nodes[number].root, root);
            self.new_root(number, ledger, before, root)?;
            self.same_stakes(number, ledger, root)?;
        }
        Ok(())
    }

    /// The stakes of the epoch after that of a root are counted on its line, on every node alike.
    fn same_stakes(&mut self, node: usize, ledger: &Ledger, root: u64) -> Result<(), Violation> {
        let epoch = ledger.epoch_schedule().epoch(root) + 1;
        let Some(stakes) = ledger.epoch_stakes(epoch) else { return Ok(()) };
        let first = self.stakes.entry(epoch).or_insert_with(|| stakes.votes.clone());
        if *first == stakes.votes {
            return Ok(());
        }
        let what = format!("node {node} has other stakes for epoch {epoch} than the first that counted them");
        Err(Violation::new(Invariant::OneStakes, what))
    }

    /// A node has completed a snapshot, or abandoned one. One of the nodes that take it reads it again.
    ///
    /// # Errors
    /// It could not be written, or is not of its block.
    pub fn snapshot(&self, node: &Node, result: &Result<SnapshotFile, SnapshotError>) -> Result<(), Violation> {
        let number = node.number();
        let broken = |what: String| Err(Violation::new(Invariant::Snapshots, format!("at node {number}: {what}")));
        let file = match result {
            Ok(file) => file,
            Err(SnapshotError::Undone { .. }) => return Ok(()),
            Err(why) => return broken(why.to_string()),
        };
        if (file.slot / INTERVAL_SLOTS) as usize % self.nodes.len() != number {
            return Ok(());
        }
        match prove(&file.path, node.ledger.genesis_hash()) {
            Err(why) => broken(why.to_string()),
            Ok((slot, hash)) if node.ledger.bank_hash(slot).is_some_and(|own| own != hash) => {
                broken(format!("the snapshot of slot {slot} is of another block"))
            }
            Ok(_) => Ok(()),
        }
    }

    /// A datagram of gossip leaves a node, whose files are in `folder`.
    ///
    /// # Errors
    /// A vote in it breaks a rule, or a value is older than one before.
    pub fn leaves(
        &mut self,
        node: usize,
        folder: &Path,
        who: (&Pubkey, &Pubkey),
        data: &[u8],
    ) -> Result<(), Violation> {
        let values = match Protocol::parse(data) {
            Ok(Protocol::Push { values, .. } | Protocol::PullResponse { values, .. }) => values,
            _ => return Ok(()),
        };
        if let Some(what) = self.passed_on.leave(node, who.0, &values) {
            return Err(Violation::new(Invariant::NewerValues, what));
        }
        match self.votes.leave(node, folder, who, &values) {
            Fault::None => Ok(()),
            Fault::Twice(what) => Err(Violation::new(Invariant::VotesOnce, what)),
            Fault::NotOnDisk(what) => Err(Violation::new(Invariant::VoteOnDisk, what)),
            Fault::Breaks(what) => Err(Violation::new(Invariant::Lockouts, what)),
        }
    }

    /// A shred leaves the leader of its slot, which is honest.
    ///
    /// # Errors
    /// The leader has made another block of the slot before.
    pub fn makes(&mut self, node: usize, slot: u64, shred: &[u8]) -> Result<(), Violation> {
        let broken = |what: String| Err(Violation::new(Invariant::OneVersion, what));
        self.signed.leave(node, slot, shred).map_or(Ok(()), broken)
    }

    /// Checks that a slot that the node takes to be confirmed has enough votes, as far as votes are on disk.
    fn confirms(&mut self, node: usize, ledger: &Ledger) -> Result<(), Violation> {
        let slot = ledger.slot(Commitment::Confirmed);
        if slot <= self.nodes[node].confirmed {
            return Ok(());
        }
        let Some(hash) = ledger.summary(slot).and_then(|block| block.bank_hash) else { return Ok(()) };
        let Some(stakes) = ledger.epoch_stakes(ledger.epoch_schedule().epoch(slot)) else { return Ok(()) };
        self.nodes[node].confirmed = slot;
        let stakes: Vec<u64> = self.identities.iter().map(|identity| stakes.of_node(identity)).collect();
        if self.votes.may_be_confirmed(slot, hash, &stakes) {
            return Ok(());
        }
        let what = format!("node {node} takes slot {slot} to be confirmed, and too few have voted for it");
        Err(Violation::new(Invariant::ConfirmedByStake, what))
    }

    /// The newest block of a node is another.
    fn new_head(&mut self, node: usize, ledger: &Ledger) -> Result<(), Violation> {
        let blocks = ledger.recent_blocks(LOOK_BACK);
        self.votes.executed(&blocks);
        for block in &blocks {
            let Some(hash) = block.bank_hash else { continue };
            let (first, by) = *self.bank_hashes.entry((block.slot, block.blockhash)).or_insert((hash, node));
            if first != hash {
                let what =
                    format!("the block of slot {} has another bank hash at node {node} than at {by}", block.slot);
                return Err(Violation::new(Invariant::OneBankHash, what));
            }
        }
        if ledger.working_bank().is_none() {
            let total = lamports(ledger);
            if let Some(genesis) = self.genesis_lamports.filter(|genesis| *genesis != total) {
                let what = format!("node {node} has {total} lamports and not {genesis}");
                return Err(Violation::new(Invariant::Lamports, what));
            }
            if let Some(what) = self.fees.look(node, ledger) {
                return Err(Violation::new(Invariant::Fees, what));
            }
        }
        match ledger.kept_forks() {
            Some(kept) if kept.bytes > kept.bytes_max => {
                let what = format!("node {node} keeps {} bytes to leave forks, of {}", kept.bytes, kept.bytes_max);
                Err(Violation::new(Invariant::Memory, what))
            }
            _ => Ok(()),
        }
    }

    /// A node has rooted blocks up to `root`, and had up to `before`.
    fn new_root(&mut self, node: usize, ledger: &Ledger, before: u64, root: u64) -> Result<(), Violation> {
        let blocks = ledger.recent_blocks(512);
        let known_from = blocks.last().map_or(0, |block| block.slot);
        if known_from > root {
            return Ok(());
        }
        let is_new = |block: &&BlockSummary| block.slot > before && block.slot <= root;
        let new: Vec<_> = blocks.iter().filter(is_new).collect();
        // What others have rooted in between, this one must have too; what it has above the newest is new to all.
        let mut others = self.rooted.range((before + 1).max(known_from)..=root).map(|(slot, _)| *slot);
        if let Some(slot) = others.find(|slot| new.iter().all(|block| block.slot != *slot)) {
            let what = format!("node {node} has no block at slot {slot} below its root {root}, others have rooted one");
            return Err(Violation::new(Invariant::OneRoot, what));
        }
        let newest = self.newest_root();
        for block in new {
            let rooted = RootedBlock { parent: block.parent, blockhash: block.blockhash };
            let is_skipped = block.slot <= newest && !self.rooted.contains_key(&block.slot);
            let first = *self.rooted.entry(block.slot).or_insert(rooted);
            if is_skipped || first != rooted {
                let what =
                    format!("node {node} has rooted another block at slot {} than the first that did", block.slot);
                return Err(Violation::new(Invariant::OneRoot, what));
            }
        }
        let is_now_rooted = |confirmed: &&Confirmed| confirmed.slot > before && confirmed.slot <= root;
        for confirmed in self.confirmed.iter().filter(is_now_rooted) {
            self.keeps(confirmed)?;
            if ledger.signature_status(&confirmed.signature).is_none_or(|status| status.slot != confirmed.slot) {
                let what = format!("node {node} has rooted slot {}, and not what was confirmed in it", confirmed.slot);
                return Err(Violation::new(Invariant::ConfirmedStays, what));
            }
        }
        Ok(())
    }

    fn starves(&mut self, now: u64, node: &Node, has_disk: bool) -> Result<(), Violation> {
        let number = node.number();
        if !has_disk {
            self.nodes[number].held_up.clear();
            return Ok(());
        }
        let mut held_up = BTreeMap::new();
        for tile in node.held_up() {
            let since = self.nodes[number].held_up.get(tile).copied().unwrap_or(now);
            held_up.insert(tile.to_owned(), since);
        }
        let starved = held_up.iter().find(|(_, since)| now - **since > STARVED_NS).map(|(tile, _)| tile.clone());
        self.nodes[number].held_up = held_up;
        let is_busy = node.busy_since().is_some_and(|since| now - since > STARVED_NS);
        match starved {
            Some(tile) => {
                let what = format!("{tile} of node {number} has waited for room for {} s", STARVED_NS / 1_000_000_000);
                Err(Violation::new(Invariant::Starves, what))
            }
            None if is_busy => Err(Violation::new(Invariant::Starves, format!("node {number} is never done"))),
            None => Ok(()),
        }
    }
}

/// The lamports of all accounts and those burned. Sysvars do not count: a chain makes some of them after its genesis,
/// and their lamports come from nobody.
pub fn lamports(ledger: &Ledger) -> u128 {
    let mut total = u128::from(ledger.burned_lamports());
    ledger.accounts().for_each(|_, account| {
        if account.owner != SYSVAR_OWNER {
            total += u128::from(account.lamports);
        }
    });
    total
}

/// Notes in the trace how far a node is with the slot that is traced.
fn learn(trace: &mut Trace, now: u64, node: &Node, slot: u64) {
    let (number, ledger) = (node.number(), &node.ledger);
    if node.blocks.slot(slot).is_some_and(|info| info.whole) {
        trace.learnt(now, number, SlotEvent::Whole, "");
    }
    let has = ledger.summary(slot).is_some();
    if has {
        trace.learnt(now, number, SlotEvent::Executed, "");
    }
    for (commitment, learnt) in
        [(Commitment::Confirmed, SlotEvent::Confirmed), (Commitment::Finalized, SlotEvent::Rooted)]
    {
        if has && ledger.slot(commitment) >= slot {
            trace.learnt(now, number, learnt, "");
        }
    }
}

/// Checks that everything that went into an idle node's tiles came out of them or was dropped and counted.
///
/// # Errors
/// A tile's counters do not add up.
pub fn counted(node: &mut Node) -> Result<(), Violation> {
    node.flush();
    let sum = |counters: &[(&str, &str)]| counters.iter().map(|(tile, prefix)| node.count(tile, prefix)).sum::<u64>();
    let sums = [
        (sum(&[("verify", "frags_in")]), sum(&[("verify", "forwarded"), ("verify", "dropped_")]), "verify"),
        (sum(&[("dedup", "frags_in")]), sum(&[("dedup", "forwarded"), ("dedup", "dropped_")]), "dedup"),
        (
            sum(&[("pack", "received")]),
            sum(&[("pack", "scheduled"), ("pack", "dropped_"), ("pack", "pending")]),
            "pack",
        ),
        (
            sum(&[("pack", "scheduled")]),
            sum(&[("bank", "landed"), ("bank", "failed"), ("bank", "dropped_"), ("bank", "votes")]),
            "bank",
        ),
    ];
    match sums.iter().find(|(taken, ended, _)| taken != ended) {
        None => Ok(()),
        Some((taken, ended, tile)) => {
            let what = format!("{tile} of node {} took {taken} transactions, {ended} have an end", node.number());
            Err(Violation::new(Invariant::Counted, what))
        }
    }
}

/// How long after its faults a cluster has to root, nanoseconds.
pub const fn heals_within_ns() -> u64 {
    HEAL_SLOTS * SLOT_MS * 1_000_000
}
