//! The table: for each label the value that overrides all others.
//!
//! reads   values with verified signatures
//! writes  the same, indexed by label, node, part of the hash space, and arrival
//! memory  the bytes of values, some 400 B of overhead each, hashes of replaced values: bounded by the caller, which
//!         checks for room before inserting, and trims afterwards
//! drops   values older than the stored one
//! source  `solana-gossip` 4.2.2, `crds.rs`

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::Ipv4Addr;

use hearth_mutation::{Mutation, active};
use hearth_wire::gossip::{ContactInfo, CrdsData, CrdsKind, CrdsValue, Label, SocketKind, hash_prefix};
use hearth_wire::{Hash, Pubkey};

use super::config::{HASHES_MAX, TIMEOUT_MS};

/// The way in which a value arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Own,
    Push,
    Answer,
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InsertResult {
    New,
    /// It was already stored, and had been pushed to us this many times before.
    Duplicate(u8),
    Stale,
}

/// A stored value: its wire bytes, and what is needed of it without parsing them again.
pub(super) struct Entry {
    pub bytes: Box<[u8]>,
    pub label: Label,
    pub wallclock: u64,
    pub hash: Hash,
    /// Arrival time; for a contact info, the last arrival of any value of its node.
    pub local_ms: u64,
    pub ordinal: u64,
    pub contact: Option<Box<ContactInfo>>,
    pushes: u8,
}

/// The values of a node.
#[derive(Default)]
pub(super) struct Origin {
    places: Vec<u32>,
    /// Total bytes of its values.
    pub bytes: usize,
    /// Ordinal of its first arrival.
    pub since: u64,
}

#[derive(Default)]
pub(super) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_label: HashMap<Label, u32>,
    by_ordinal: BTreeMap<u64, u32>,
    by_kind: BTreeMap<(CrdsKind, u64), u32>,
    by_hash: BTreeSet<(u64, u32)>,
    origins: BTreeMap<Pubkey, Origin>,
    /// Number of nodes by IP address of their gossip.
    hosts: HashMap<Ipv4Addr, u32>,
    purged: VecDeque<(Hash, u64)>,
    next_ordinal: u64,
    bytes: usize,
    peer_changes: u64,
}

fn gossip_host(contact: &ContactInfo) -> Option<Ipv4Addr> {
    contact.socket(SocketKind::Gossip).map(|address| *address.ip())
}

/// Appends a hash, and drops the oldest beyond the bound.
pub(super) fn remember(queue: &mut VecDeque<(Hash, u64)>, hash: Hash, now: u64) {
    if queue.len() >= HASHES_MAX {
        queue.pop_front();
    }
    queue.push_back((hash, now));
}

/// Whether values of this kind contain a node's addresses or services.
fn is_of_peers(kind: CrdsKind) -> bool {
    matches!(kind, CrdsKind::ContactInfo | CrdsKind::LowestSlot | CrdsKind::SnapshotHashes)
}

impl Table {
    pub fn len(&self) -> usize {
        self.by_ordinal.len()
    }

    /// Total bytes of all values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn purged(&self) -> &VecDeque<(Hash, u64)> {
        &self.purged
    }

    pub fn origins(&self) -> &BTreeMap<Pubkey, Origin> {
        &self.origins
    }

    /// Counts arrivals and removals of values with a node's addresses or services.
    pub fn peer_changes(&self) -> u64 {
        self.peer_changes
    }

    /// Marks all nodes as changed.
    pub fn touch_peers(&mut self) {
        self.peer_changes += 1;
    }

    /// The ordinal of the next arrival.
    pub fn next_ordinal(&self) -> u64 {
        self.next_ordinal
    }

    fn at(&self, place: u32) -> &Entry {
        self.entries[place as usize].as_ref().expect("an index names an entry that is there")
    }

    pub fn get(&self, label: &Label) -> Option<&Entry> {
        self.by_label.get(label).map(|place| self.at(*place))
    }

    /// The contact info of a node.
    pub fn contact(&self, pubkey: &Pubkey) -> Option<&ContactInfo> {
        self.contact_entry(pubkey).and_then(|entry| entry.contact.as_deref())
    }

    pub fn contact_entry(&self, pubkey: &Pubkey) -> Option<&Entry> {
        self.get(&Label { pubkey: *pubkey, kind: CrdsKind::ContactInfo, index: 0 })
    }

    /// The number of nodes at an IP address.
    pub fn nodes_at(&self, host: &Ipv4Addr) -> u32 {
        self.hosts.get(host).copied().unwrap_or_default()
    }

    /// Values from ordinal `from` on, in order of arrival.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &Entry> {
        self.by_ordinal.range(from..).map(|(_, place)| self.at(*place))
    }

    /// The same for one kind.
    pub fn kind_since(&self, kind: CrdsKind, from: u64) -> impl Iterator<Item = &Entry> {
        self.by_kind.range((kind, from)..=(kind, u64::MAX)).map(|(_, place)| self.at(*place))
    }

    /// The values that a node signed, in no order.
    pub fn of_origin(&self, pubkey: &Pubkey) -> impl Iterator<Item = &Entry> {
        self.origins.get(pubkey).into_iter().flat_map(|origin| origin.places.iter().map(|place| self.at(*place)))
    }

    /// Values whose hash starts with a number in this range.
    pub fn part(&self, (first, last): (u64, u64)) -> impl Iterator<Item = &Entry> {
        self.by_hash.range((first, 0)..=(last, u32::MAX)).map(|(_, place)| self.at(*place))
    }

    /// Whether a value would be inserted.
    pub fn upserts(&self, value: &CrdsValue<'_>, hash: &Hash) -> bool {
        self.get(&value.label()).is_none_or(|other| overrides(value, hash, other))
    }

    /// Inserts a value if it overrides the stored one.
    pub fn insert(&mut self, value: &CrdsValue<'_>, hash: Hash, now: u64, route: Route) -> InsertResult {
        let label = value.label();
        let Some(place) = self.by_label.get(&label).copied() else {
            self.add(value, hash, now, route);
            return InsertResult::New;
        };
        let other = self.entries[place as usize].as_mut().expect("a label names an entry that is there");
        if overrides(value, &hash, other) {
            let replaced = other.hash;
            self.take(place);
            self.add(value, hash, now, route);
            remember(&mut self.purged, replaced, now);
            return InsertResult::New;
        }
        if other.hash != hash {
            remember(&mut self.purged, hash, now);
            return InsertResult::Stale;
        }
        let pushes = other.pushes;
        if route == Route::Push {
            other.pushes = pushes.saturating_add(1);
        }
        InsertResult::Duplicate(pushes)
    }

    fn add(&mut self, value: &CrdsValue<'_>, hash: Hash, now: u64, route: Route) {
        let (label, ordinal) = (value.label(), self.next_ordinal);
        let contact = match value.data() {
            CrdsData::ContactInfo(contact) => Some(Box::new(*contact)),
            _ => None,
        };
        if let Some(host) = contact.as_deref().and_then(gossip_host) {
            *self.hosts.entry(host).or_default() += 1;
        }
        let entry = Entry {
            bytes: value.bytes().into(),
            label,
            wallclock: value.wallclock(),
            hash,
            local_ms: now,
            ordinal,
            contact,
            pushes: u8::from(route == Route::Push),
        };
        let size = entry.bytes.len();
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
        };
        self.entries[place as usize] = Some(entry);
        self.next_ordinal += 1;
        self.bytes += size;
        self.peer_changes += u64::from(is_of_peers(label.kind));
        self.by_label.insert(label, place);
        self.by_ordinal.insert(ordinal, place);
        self.by_kind.insert((label.kind, ordinal), place);
        self.by_hash.insert((hash_prefix(&hash), place));
        let new = || Origin { since: ordinal, ..Origin::default() };
        let origin = self.origins.entry(label.pubkey).or_insert_with(new);
        origin.places.push(place);
        origin.bytes += size;
    }

    /// Removes an entry. Its node stays, even without values.
    fn take(&mut self, place: u32) -> Entry {
        let entry = self.entries[place as usize].take().expect("a place names an entry that is there");
        self.free.push(place);
        self.bytes -= entry.bytes.len();
        self.peer_changes += u64::from(is_of_peers(entry.label.kind));
        self.by_label.remove(&entry.label);
        self.by_ordinal.remove(&entry.ordinal);
        self.by_kind.remove(&(entry.label.kind, entry.ordinal));
        self.by_hash.remove(&(hash_prefix(&entry.hash), place));
        let origin = self.origins.get_mut(&entry.label.pubkey).expect("a value has its node");
        origin.bytes -= entry.bytes.len();
        if let Some(at) = origin.places.iter().position(|other| *other == place) {
            origin.places.swap_remove(at);
        }
        if let Some(host) = entry.contact.as_deref().and_then(gossip_host)
            && let Some(count) = self.hosts.get_mut(&host)
        {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&host);
            }
        }
        entry
    }

    /// Records that a node was heard of.
    pub fn touch(&mut self, pubkey: &Pubkey, now: u64) {
        let label = Label { pubkey: *pubkey, kind: CrdsKind::ContactInfo, index: 0 };
        let places: &[u32] = match (self.by_label.get(&label), self.origins.get(pubkey)) {
            (Some(place), _) => std::slice::from_ref(place),
            (None, Some(origin)) => &origin.places,
            (None, None) => &[],
        };
        for place in places {
            let entry = self.entries[*place as usize].as_mut().expect("a place names an entry that is there");
            entry.local_ms = entry.local_ms.max(now);
        }
    }

    /// Handles a clock that was set back to `now`: clamps arrival times. Values of nodes other than `own` that were
    /// signed too far in the future count as if signed now, so that values signed with the right time are newer.
    pub fn set_back(&mut self, now: u64, own: &Pubkey) {
        self.purged.iter_mut().for_each(|(_, at)| *at = now.min(*at));
        for entry in self.entries.iter_mut().flatten() {
            entry.local_ms = entry.local_ms.min(now);
            if entry.label.pubkey != *own && entry.wallclock > now.saturating_add(TIMEOUT_MS) {
                entry.wallclock = now;
                if let Some(contact) = &mut entry.contact {
                    contact.wallclock = now;
                }
            }
        }
    }

    /// Removes the values of a node that were signed for later than `latest`, and returns them ordered by time.
    pub fn take_later(&mut self, pubkey: &Pubkey, latest: u64) -> Vec<Box<[u8]>> {
        let places = self.origins.get(pubkey).map(|origin| origin.places.clone()).unwrap_or_default();
        let is_later = |place: &u32| self.at(*place).wallclock > latest;
        let places: Vec<u32> = places.into_iter().filter(is_later).collect();
        let mut taken: Vec<Entry> = places.into_iter().map(|place| self.take(place)).collect();
        taken.sort_by_key(|entry| entry.wallclock);
        taken.into_iter().map(|entry| entry.bytes).collect()
    }

    /// Removes expired values: all of a node whose contact info has expired, except newer ones. Returns their number.
    pub fn purge(&mut self, now: u64, timeout: impl Fn(&Pubkey) -> u64) -> u64 {
        let is_over = |entry: &Entry, timeout: u64| entry.wallclock.min(entry.local_ms).saturating_add(timeout) <= now;
        let mut over = Vec::new();
        for (pubkey, origin) in &self.origins {
            let timeout = timeout(pubkey);
            if self.contact_entry(pubkey).is_some_and(|contact| !is_over(contact, timeout)) {
                continue;
            }
            over.extend(origin.places.iter().filter(|place| is_over(self.at(**place), timeout)));
        }
        over.iter().for_each(|place| self.remove(*place, now));
        over.len() as u64
    }

    fn remove(&mut self, place: u32, now: u64) {
        let entry = self.take(place);
        remember(&mut self.purged, entry.hash, now);
        if self.origins.get(&entry.label.pubkey).is_some_and(|origin| origin.places.is_empty()) {
            self.origins.remove(&entry.label.pubkey);
        }
    }

    /// Evicts nodes until there are at most `nodes` nodes and `bytes` bytes: those with the least stake first, among
    /// these the newest. Returns the number of removed values.
    pub fn trim(&mut self, nodes: usize, bytes: usize, keep: &Pubkey, stake: impl Fn(&Pubkey) -> u64, now: u64) -> u64 {
        let others = self.origins.iter().filter(|(pubkey, _)| *pubkey != keep);
        let mut order: Vec<(u64, u64, Pubkey)> =
            others.map(|(pubkey, origin)| (stake(pubkey), u64::MAX - origin.since, *pubkey)).collect();
        order.sort_unstable();
        let mut removed = 0;
        for (_, _, pubkey) in order {
            if self.origins.len() <= nodes && self.bytes <= bytes {
                break;
            }
            let places = self.origins.get(&pubkey).map(|origin| origin.places.clone()).unwrap_or_default();
            places.iter().for_each(|place| self.remove(*place, now));
            removed += places.len() as u64;
        }
        removed
    }

    /// Drops hashes of values that were replaced before `before`.
    pub fn trim_purged(&mut self, before: u64) {
        while self.purged.front().is_some_and(|(_, at)| *at < before) {
            self.purged.pop_front();
        }
    }
}

/// Whether a value overrides another one with the same label.
fn overrides(value: &CrdsValue<'_>, hash: &Hash, other: &Entry) -> bool {
    if let (CrdsData::ContactInfo(value), Some(other)) = (value.data(), other.contact.as_deref())
        && let Some(verdict) = value.overrides(other)
    {
        return verdict;
    }
    match value.wallclock().cmp(&other.wallclock) {
        Ordering::Less => active(Mutation::OlderValue),
        Ordering::Greater => true,
        Ordering::Equal => *hash > other.hash,
    }
}

#[cfg(test)]
#[path = "tests/table.rs"]
mod tests;
