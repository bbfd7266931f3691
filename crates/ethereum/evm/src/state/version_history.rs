//! An index of old versions by key: the first later version that replaced a value.
//!
//! reads   any thread; one lock for one lookup in an older version
//! writes  only the writer: a version once it is linked and before the tables have its values
//! memory  [`VersionHistory::bytes`], beside the versions themselves
//!
//! Without it an older version searches all later ones for each value, which is fast enough for 128 of them.

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::Address;
use parking_lot::RwLock;

use super::Tables;
use super::flat_state::{SlimAccount, SlotKey, Word};
use super::version::{ReplacedValues, Version, find};
use super::version_index::VersionIndex;

/// A value in an older version.
enum PastValue<V> {
    /// Unchanged: the value that was just read from the tables.
    Unchanged,
    /// Replaced later: this value.
    Replaced(V),
    /// The version is older than this index.
    Unknown,
}

/// All versions after the oldest that is kept, and what they replaced by key.
pub(super) struct VersionHistory(RwLock<HistoryIndex>);

struct HistoryIndex {
    /// The sequence number of the oldest indexed version.
    oldest: u64,
    /// The versions after it, without a gap.
    versions: VecDeque<Arc<Version>>,
    accounts: VersionIndex<Address>,
    slots: VersionIndex<SlotKey>,
}

impl HistoryIndex {
    fn add(&mut self, version: Arc<Version>) {
        let sequence = version.top.sequence();
        assert_eq!(sequence, self.oldest + self.versions.len() as u64 + 1, "a version follows the one before");
        version.replaced.accounts.iter().for_each(|(address, _)| self.accounts.add(*address, sequence));
        version.replaced.slots.iter().for_each(|(key, _)| self.slots.add(*key, sequence));
        self.versions.push_back(version);
    }

    /// Returns the value in version `of`, if version `by` was the next to replace it.
    fn was<V>(&self, of: u64, by: Option<u64>, find: impl Fn(&ReplacedValues) -> Option<V>) -> PastValue<V> {
        if of < self.oldest {
            return PastValue::Unknown;
        }
        let Some(by) = by else { return PastValue::Unchanged };
        // Lookups in a kept version concern only later ones.
        let version = usize::try_from(by - self.oldest - 1).ok().and_then(|at| self.versions.get(at));
        version.and_then(|version| find(&version.replaced)).map_or(PastValue::Unknown, PastValue::Replaced)
    }
}

impl VersionHistory {
    /// Indexes all versions after `oldest`.
    pub(super) fn after(oldest: &Version) -> Self {
        let (accounts, slots) = (VersionIndex::default(), VersionIndex::default());
        let mut known = HistoryIndex { oldest: oldest.top.sequence(), versions: VecDeque::new(), accounts, slots };
        let mut next = oldest.next();
        while let Some(version) = next {
            next = version.next();
            known.add(version);
        }
        Self(RwLock::new(known))
    }

    /// Learns the version that has just been linked.
    pub(super) fn add(&self, version: Arc<Version>) {
        self.0.write().add(version);
    }

    /// Forgets what only versions before the one of this sequence need.
    pub(super) fn release(&self, oldest: u64) {
        if self.0.read().oldest >= oldest {
            return;
        }
        let mut gone = Vec::new();
        let mut known = self.0.write();
        let HistoryIndex { oldest: from, versions, accounts, slots } = &mut *known;
        while *from < oldest
            && let Some(version) = versions.pop_front()
        {
            *from += 1;
            version.replaced.accounts.iter().for_each(|(address, _)| accounts.forget(address, *from));
            version.replaced.slots.iter().for_each(|(key, _)| slots.forget(key, *from));
            gone.push(version);
        }
        if versions.capacity() > 1_024 && versions.len() < versions.capacity() / 4 {
            versions.shrink_to(versions.len() * 2);
        }
        drop(known);
        // What only these held is freed here, where no reader waits for it.
        drop(gone);
    }

    /// Returns its memory besides the versions, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let known = self.0.read();
        let list = known.versions.capacity() * size_of::<Arc<Version>>();
        known.accounts.bytes() + known.slots.bytes() + list
    }

    fn account(&self, of: u64, address: &Address) -> PastValue<Option<SlimAccount>> {
        let known = self.0.read();
        known.was(of, known.accounts.after(address, of), |replaced| find(&replaced.accounts, address))
    }

    fn slot(&self, of: u64, key: &SlotKey) -> PastValue<Word> {
        let known = self.0.read();
        known.was(of, known.slots.after(key, of), |replaced| find(&replaced.slots, key))
    }
}

impl Tables {
    /// Returns the account in this version.
    pub(super) fn account(&self, version: &Version, address: &Address) -> Option<SlimAccount> {
        let Some(past) = self.past.get() else { return version.account(&self.flat, address) };
        // The table first: a reader that finds a new value there finds what it replaced.
        let newest = self.flat.account(address);
        if version.is_newest() {
            return newest;
        }
        match past.account(version.top.sequence(), address) {
            PastValue::Unchanged => newest,
            PastValue::Replaced(was) => was,
            PastValue::Unknown => version.account(&self.flat, address),
        }
    }

    /// Returns many accounts in this version, in their order.
    pub(super) fn accounts(&self, version: &Version, addresses: &[Address]) -> Vec<Option<SlimAccount>> {
        if self.past.get().is_none() || version.is_newest() {
            return version.accounts(&self.flat, addresses);
        }
        addresses.iter().map(|address| self.account(version, address)).collect()
    }

    /// Returns the slot's value in this version.
    pub(super) fn slot(&self, version: &Version, key: &SlotKey) -> Word {
        let Some(past) = self.past.get() else { return version.slot(&self.flat, key) };
        let newest = self.flat.slot(key);
        if version.is_newest() {
            return newest;
        }
        match past.slot(version.top.sequence(), key) {
            PastValue::Unchanged => newest,
            PastValue::Replaced(was) => was,
            PastValue::Unknown => version.slot(&self.flat, key),
        }
    }
}
