//! Publishes this node's own values.
//!
//! reads   votes, slots, snapshots, proofs
//! writes  values to be signed, which then enter the table and are pushed with the next tick
//! memory  at most 811 B for the slots in the newest EpochSlots value
//! drops   values that others would refuse: an error
//! source  `solana-gossip` 4.2.2, `cluster_info.rs`

use hearth_wire::gossip::{
    ContactInfo, CrdsData, CrdsKind, CrdsValue, DUPLICATE_SHRED_TYPE, DuplicateShred, EPOCH_SLOTS_INDEX_END,
    EpochSlots, GossipError, GossipErrorKind, Label, LowestSlot, MAX_DUPLICATE_SHREDS, MAX_SLOT, MAX_VOTES, SlotBits,
    SnapshotHashes, Vote,
};
use hearth_wire::{Hash, Pubkey};

use super::config::TIMEOUT_MS;
use super::duplicate;
use super::proofs::{CHUNK_SIZE, DuplicateProof, encode};
use super::signing::{Purpose, unsigned};
use super::{Event, Gossip};

/// Maximum size of an EpochSlots value.
const EPOCH_SLOTS_SIZE_MAX: usize = 928;
/// Its fixed part, without runs: signature, tag, index, node, count, time.
const EPOCH_SLOTS_FIXED: usize = 64 + 4 + 1 + 32 + 8 + 8;
/// The fixed part of a run, without its bits: tag, first slot, count, option, two lengths.
const RUN_FIXED: usize = 4 + 8 + 8 + 1 + 8 + 8;

/// The slots in the newest EpochSlots value.
#[derive(Default)]
pub(super) struct OwnSlots {
    index: u8,
    runs: Vec<SlotBits>,
}

impl OwnSlots {
    fn room(&self) -> usize {
        let taken = self.runs.iter().map(|run| RUN_FIXED + run.run().bytes.len()).sum::<usize>();
        (EPOCH_SLOTS_SIZE_MAX - EPOCH_SLOTS_FIXED).saturating_sub(taken)
    }

    /// Adds a slot; returns whether there was room.
    fn add(&mut self, slot: u64) -> bool {
        let room = self.room();
        if let Some(last) = self.runs.last_mut() {
            let len = last.run().bytes.len();
            if last.add(slot, len + room) {
                return true;
            }
        }
        if room <= RUN_FIXED {
            return false;
        }
        let mut run = SlotBits::default();
        let is_added = run.add(slot, 1);
        self.runs.push(run);
        is_added
    }
}

impl Gossip {
    /// This node's own contact info.
    pub fn own(&self) -> &ContactInfo {
        &self.own
    }

    /// Replaces this node's contact info: other sockets, or another version. Key and start time stay. It is pushed with
    /// the next tick.
    pub fn set_own(&mut self, contact: ContactInfo) {
        let ContactInfo { pubkey, outset, wallclock, .. } = self.own;
        self.own = ContactInfo { pubkey, outset, wallclock, ..contact };
        self.timers.refresh = 0;
    }

    /// Takes another key, at the same addresses. The start time is that of a process that began now, later than that of
    /// any known one with this key: that one must stop. What was published by the old key stays until it expires.
    pub fn set_identity(&mut self, pubkey: Pubkey, now: u64) {
        let known = self.table.contact(&pubkey).map_or(0, |contact| contact.outset.saturating_add(1));
        let outset = known.max(now.saturating_mul(1_000));
        self.own = ContactInfo { pubkey, outset, ..self.own };
        self.instance = outset;
        self.active.set_own(pubkey);
        self.own_slots = OwnSlots::default();
        self.signing.forget();
        self.events.retain(|event| !matches!(event, Event::DuplicateInstance { .. }));
        self.timers.refresh = 0;
        self.table.touch_peers();
    }

    /// Requests a new signature of the contact info.
    pub(super) fn refresh(&mut self, now: u64) {
        self.own.wallclock = self.wallclock(CrdsKind::ContactInfo, 0, now);
        let data = CrdsData::ContactInfo(self.own);
        self.publish(&data, now).expect("an own contact info keeps all rules");
    }

    /// Requests new signatures of own values whose time others would refuse, in the same order.
    pub(super) fn sign_anew(&mut self, now: u64) {
        let latest = now.saturating_add(TIMEOUT_MS);
        let known = self.table.take_later(&self.own.pubkey, latest).into_iter().map(Vec::from);
        let all: Vec<Vec<u8>> = known.chain(self.signing.set_back(now, latest)).collect();
        for (place, bytes) in all.iter().enumerate() {
            let value = CrdsValue::parse(bytes).expect("an own value was parsed before");
            let mut data = value.data().clone();
            data.set_wallclock(now + place as u64);
            self.publish(&data, now).expect("what keeps all rules does so at another time");
        }
    }

    /// The time of the newest own value of a kind and index, signed or not.
    fn newest(&self, kind: CrdsKind, index: u16) -> Option<u64> {
        let label = Label { pubkey: self.own.pubkey, kind, index };
        let known = self.table.get(&label).map(|entry| entry.wallclock);
        known.max(self.signing.wallclock(&label))
    }

    /// The time of a new value: now, but later than that of the value it replaces.
    fn wallclock(&self, kind: CrdsKind, index: u16, now: u64) -> u64 {
        self.newest(kind, index).map_or(now, |newest| now.max(newest + 1))
    }

    /// Requests a value's signature, if it obeys all rules.
    fn publish(&mut self, data: &CrdsData<'_>, now: u64) -> Result<(), GossipError> {
        let bytes = unsigned(data);
        let value = CrdsValue::parse(&bytes)?;
        let (label, wallclock) = (value.label(), value.wallclock());
        self.have_signed(now, Purpose::Value { label, wallclock }, bytes);
        Ok(())
    }

    /// The own values, signed or not.
    fn own_values(&self) -> impl Iterator<Item = (&Label, &[u8])> {
        let known = self.table.of_origin(&self.own.pubkey).map(|entry| (&entry.label, &entry.bytes[..]));
        known.chain(self.signing.values().map(|(label, _, bytes)| (label, bytes)))
    }

    /// The index of the own value of a kind to replace: an unused one, else the oldest.
    fn oldest(&self, kind: CrdsKind, end: u16) -> u16 {
        (0..end).min_by_key(|index| self.newest(kind, *index)).expect("there is a number below the end")
    }

    /// Publishes a vote. It replaces our own vote for the same slot, else the oldest of twelve.
    ///
    /// # Errors
    ///
    /// The transaction is not a legacy vote transaction, or is too long for a datagram.
    pub fn publish_vote(&mut self, transaction: &[u8], now: u64) -> Result<(), GossipError> {
        let from = self.own.pubkey;
        let of = |index, wallclock| CrdsData::Vote(Vote { index, from, transaction, slot: None, wallclock });
        let mut bytes = Vec::new();
        of(0, now).write(&mut bytes);
        let slot = match CrdsData::parse(&bytes)? {
            CrdsData::Vote(vote) => vote.slot,
            _ => None,
        };
        let same = self.own_values().find(|(_, bytes)| match CrdsValue::parse(bytes).as_ref() {
            Ok(value) => matches!(value.data(), CrdsData::Vote(vote) if slot.is_some() && vote.slot == slot),
            Err(_) => false,
        });
        let same = same.map(|(label, _)| label.index);
        let index = same.unwrap_or_else(|| self.oldest(CrdsKind::Vote, u16::from(MAX_VOTES)));
        let wallclock = self.wallclock(CrdsKind::Vote, index, now);
        self.publish(&of(index as u8, wallclock), now)
    }

    /// Publishes the lowest slot for which this node has shreds, if it changed. It may decrease when older blocks
    /// arrive later.
    ///
    /// # Errors
    ///
    /// The slot is out of range.
    /// The slot is beyond all slots.
    pub fn publish_lowest_slot(&mut self, lowest: u64, now: u64) -> Result<(), GossipError> {
        let from = self.own.pubkey;
        if self.lowest_slot(&from).is_some_and(|known| lowest == known) {
            return Ok(());
        }
        let wallclock = self.wallclock(CrdsKind::LowestSlot, 0, now);
        self.publish(&CrdsData::LowestSlot(LowestSlot { from, lowest, wallclock }), now)
    }

    /// Publishes slots whose blocks this node has completely.
    ///
    /// # Errors
    ///
    /// A slot is out of range; then none of them is published.
    pub fn publish_epoch_slots(&mut self, slots: &[u64], now: u64) -> Result<(), GossipError> {
        if slots.iter().any(|slot| *slot >= MAX_SLOT) {
            return Err(GossipError { kind: GossipErrorKind::Range, offset: 0 });
        }
        for slot in slots {
            if !self.own_slots.add(*slot) {
                self.publish_own_slots(now)?;
                let index = (self.own_slots.index + 1) % EPOCH_SLOTS_INDEX_END;
                self.own_slots = OwnSlots { index, runs: Vec::new() };
                self.own_slots.add(*slot);
            }
        }
        if slots.is_empty() { Ok(()) } else { self.publish_own_slots(now) }
    }

    fn publish_own_slots(&mut self, now: u64) -> Result<(), GossipError> {
        let OwnSlots { index, runs } = std::mem::take(&mut self.own_slots);
        let wallclock = self.wallclock(CrdsKind::EpochSlots, u16::from(index), now);
        let views = runs.iter().map(SlotBits::run).collect();
        let slots = EpochSlots { index, from: self.own.pubkey, runs: views, wallclock };
        let published = self.publish(&CrdsData::EpochSlots(slots), now);
        self.own_slots = OwnSlots { index, runs: if published.is_ok() { runs } else { Vec::new() } };
        published
    }

    /// Publishes the snapshots that this node serves: the full one, and the incremental ones.
    ///
    /// # Errors
    ///
    /// A slot is not above the full one's, or there are more than 25.
    pub fn publish_snapshots(
        &mut self,
        full: (u64, Hash),
        incremental: &[(u64, Hash)],
        now: u64,
    ) -> Result<(), GossipError> {
        let wallclock = self.wallclock(CrdsKind::SnapshotHashes, 0, now);
        let from = self.own.pubkey;
        let hashes = SnapshotHashes { from, full, incremental: incremental.to_vec(), wallclock };
        self.publish(&CrdsData::SnapshotHashes(hashes), now)
    }

    /// Publishes a proof that a leader produced two blocks for a slot, unless one is known. The oldest own pieces are
    /// replaced.
    ///
    /// # Errors
    ///
    /// The shreds need more pieces than a byte can count.
    pub fn publish_duplicate(&mut self, slot: u64, shreds: [&[u8]; 2], now: u64) -> Result<(), GossipError> {
        let known = self.table.kind_since(CrdsKind::DuplicateShred, 0).map(|entry| &entry.bytes[..]);
        if known.chain(self.signing.values().map(|(.., bytes)| bytes)).any(|bytes| proven_slot(bytes) == Some(slot)) {
            return Ok(());
        }
        let bytes = encode(shreds);
        let count = bytes.chunks(CHUNK_SIZE).len();
        for (chunk_index, chunk) in bytes.chunks(CHUNK_SIZE).enumerate() {
            let index = self.oldest(CrdsKind::DuplicateShred, MAX_DUPLICATE_SHREDS);
            let piece = DuplicateShred {
                index,
                from: self.own.pubkey,
                wallclock: self.wallclock(CrdsKind::DuplicateShred, index, now),
                slot,
                unused: 0,
                shred_type: DUPLICATE_SHRED_TYPE,
                chunk_count: u8::try_from(count).unwrap_or(0),
                chunk_index: chunk_index as u8,
                chunk,
            };
            self.publish(&CrdsData::DuplicateShred(piece), now)?;
        }
        Ok(())
    }

    /// Sets the root; proofs are accepted for the `slots` slots after it.
    pub fn set_root(&mut self, root: u64, slots: u64) {
        self.proofs.set_root(root, slots);
    }

    /// Marks a slot as having two blocks: no more proofs of it are reported.
    pub fn mark_duplicate(&mut self, slot: u64) {
        self.proofs.mark(slot);
    }

    /// Checks a proof from another node for a slot with this leader, and marks the slot if the proof is valid.
    pub fn check_proof(&mut self, proof: &DuplicateProof, leader: Option<&Pubkey>) -> bool {
        let Some(leader) = leader else {
            self.counters.proofs_unknown_leader += 1;
            return false;
        };
        let shreds = proof.shreds.each_ref().map(Vec::as_slice);
        let checked = duplicate::check(proof.slot, shreds, self.own.shred_version, leader, &mut self.verifier);
        match checked {
            Ok(()) => {
                self.counters.proofs_right += 1;
                self.mark_duplicate(proof.slot);
            }
            Err(_) => self.counters.proofs_wrong += 1,
        }
        checked.is_ok()
    }

    /// This node's public key, the origin of its values.
    pub fn identity(&self) -> &Pubkey {
        &self.own.pubkey
    }
}

/// The slot of a piece of a proof.
fn proven_slot(bytes: &[u8]) -> Option<u64> {
    match CrdsValue::parse(bytes).ok()?.data() {
        CrdsData::DuplicateShred(piece) => Some(piece.slot),
        _ => None,
    }
}
