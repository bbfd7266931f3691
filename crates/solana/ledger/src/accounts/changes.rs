//! Records what each slot changed: every account that it wrote, before and after.
//!
//! reads   the first write of an account in a slot, under its shard's lock
//! writes  one [`Change`] per account, when changes are taken
//! memory  112 B, plus the previous data, per changed account and slot that is not yet forgotten; a shard keeps one
//!         empty list for reuse
//! drops   an account that ended the slot in the state in which it began it
//!
//! The first write of an account in a slot records the value that it replaces, and the account points to that note.
//! Slots are counted as *eras*. The value at the end of an era is found by following the account's notes back from the
//! newest. So the changes of a slot can be taken while later slots run, shard by shard; accounts can be read at the end
//! of a slot while the notes of its successors are kept (`account_history.rs`); and they can be restored to it
//! (`rewind.rs`).

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::Pubkey;

use super::{Accounts, Contents, Entry, HashedKey, SHARDS};
use crate::account::Account;

/// A change of an account by a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Address of the changed account.
    pub key: Pubkey,
    /// The state at the end of the previous slot; without lamports it did not exist.
    pub before: Account,
    /// The state at the end of the slot; without lamports it did not exist.
    pub after: Account,
}

/// Position of an account's newest note: its era, and its index in the era's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotePosition {
    pub(super) era: u32,
    index: u32,
}

impl NotePosition {
    /// There is no note.
    pub(super) const NEVER: Self = Self { era: 0, index: 0 };
}

#[derive(Debug)]
pub(super) struct Note {
    pub(super) key: Pubkey,
    pub(super) before: Account,
    /// The account's previous note.
    pub(super) earlier: NotePosition,
}

const _: () = assert!(size_of::<Note>() <= 112);

/// The lists of notes of a shard.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The newest era with notes and its list, which is the one that writes append to.
    era: u32,
    list: Vec<Note>,
    /// Lists of earlier eras that are not forgotten, the oldest first.
    older: VecDeque<(u32, Vec<Note>)>,
    spare: Vec<Note>,
}

impl Notes {
    /// Records the value that the first write in `era` replaced.
    #[inline]
    pub(super) fn push(&mut self, era: u32, key: Pubkey, before: Account, earlier: NotePosition) -> NotePosition {
        if self.era != era {
            self.begin(era);
        }
        let index = self.list.len() as u32;
        self.list.push(Note { key, before, earlier });
        NotePosition { era, index }
    }

    /// Records that the account did not exist.
    #[inline]
    pub(super) fn push_new(&mut self, era: u32, key: Pubkey) -> NotePosition {
        self.push(era, key, Account::default(), NotePosition::NEVER)
    }

    #[cold]
    fn begin(&mut self, era: u32) {
        if !self.list.is_empty() {
            let list = std::mem::replace(&mut self.list, std::mem::take(&mut self.spare));
            self.older.push_back((self.era, list));
        }
        self.era = era;
    }

    /// The notes of an era; empty if they are forgotten.
    fn list(&self, era: u32) -> &[Note] {
        if era == self.era {
            return &self.list;
        }
        let found = self.older.binary_search_by_key(&era, |(era, _)| *era);
        found.map_or(&[], |at| &self.older[at].1)
    }

    /// Removes the oldest list if its era is at most `era`.
    fn take_until(&mut self, era: u32) -> Option<(u32, Vec<Note>)> {
        match self.older.front() {
            Some((oldest, _)) if *oldest <= era => self.older.pop_front(),
            None if self.era <= era && !self.list.is_empty() => Some((self.era, std::mem::take(&mut self.list))),
            _ => None,
        }
    }

    /// Removes the newest list, with its era, if that is after `era`.
    pub(super) fn take_after(&mut self, era: u32) -> Option<(u32, Vec<Note>)> {
        if self.era > era {
            let of = std::mem::take(&mut self.era);
            if !self.list.is_empty() {
                return Some((of, std::mem::take(&mut self.list)));
            }
        }
        self.older.pop_back_if(|(newest, _)| *newest > era)
    }

    /// Whether a note exists at this position.
    pub(super) fn has(&self, noted: NotePosition) -> bool {
        noted != NotePosition::NEVER && !self.list(noted.era).is_empty()
    }

    /// Keeps an emptied list for reuse.
    pub(super) fn recycle(&mut self, emptied: Vec<Note>) {
        if self.list.capacity() == 0 {
            self.list = emptied;
        } else {
            self.spare = emptied;
        }
    }

    /// The value at the end of `era` of an account whose newest note, `noted`, is of a later era. The notes of all
    /// later eras must be present.
    fn at_end_of(&self, era: u32, mut noted: NotePosition) -> &Account {
        loop {
            let note = &self.list(noted.era)[noted.index as usize];
            if note.earlier.era <= era {
                return &note.before;
            }
            noted = note.earlier;
        }
    }
}

impl Contents {
    /// The value of an account at the end of `era`; without lamports it did not exist.
    pub(super) fn at_end_of<'a>(&'a self, era: u32, entry: &'a Entry) -> &'a Account {
        match entry.noted.era > era {
            true => self.notes.at_end_of(era, entry.noted),
            false => &entry.account,
        }
    }
}

impl Accounts {
    /// Starts recording changes. The caller must take them.
    pub(crate) fn note_changes(&self) {
        self.era.store(1, Relaxed);
    }

    /// Ends a slot and returns its era; later writes belong to the next. There must be no concurrent writer.
    pub(crate) fn end_era(&self) -> u32 {
        let era = self.era.load(Relaxed);
        let next = era.checked_add(1).expect("fewer slots than 2^32 in a run");
        self.era.store(next, Relaxed);
        era
    }

    /// Visits the changes by the slot of `era` in one shard; returns the size of its notes in bytes. The era must not
    /// be forgotten.
    pub(crate) fn take_changes(&self, era: u32, shard: usize, mut take: impl FnMut(Change)) -> usize {
        let mut bytes = 0;
        self.each_note(era, shard, |key, before, after| {
            bytes += size_of::<Note>() + before.data().len();
            if before != after {
                take(Change { key: *key, before: before.clone(), after: after.clone() });
            }
        });
        bytes
    }

    /// Visits the accounts that the slot of `era` changed, in no particular order. The era must not be forgotten.
    pub(crate) fn changed_keys(&self, era: u32, mut visit: impl FnMut(&Pubkey)) {
        let mut changed = |key: &Pubkey, before: &Account, after: &Account| {
            if before != after {
                visit(key);
            }
        };
        (0..SHARDS).for_each(|shard| self.each_note(era, shard, &mut changed));
    }

    /// Visits the accounts of one shard that the slot of `era` wrote, with their values before and after.
    #[inline]
    fn each_note(&self, era: u32, shard: usize, mut visit: impl FnMut(&Pubkey, &Account, &Account)) {
        let contents = self.shards[shard].read();
        for Note { key, before, .. } in contents.notes.list(era) {
            let hash = self.seed.address(key);
            let entry = contents.table.find(hash, |entry| entry.key == *key);
            visit(key, before, contents.at_end_of(era, entry.expect("a noted account stays in its table")));
        }
    }

    /// Forgets the notes of one shard that describe states before the oldest readable one.
    pub(crate) fn forget(&self, shard: usize) {
        let oldest = self.oldest.load(Relaxed);
        let mut contents = self.shards[shard].write();
        while let Some((era, mut list)) = contents.notes.take_until(oldest) {
            if contents.dead > 0 {
                list.iter().for_each(|note| self.bury(&mut contents, era, &note.key));
            }
            list.clear();
            contents.notes.recycle(list);
        }
    }

    /// Removes the entry of an account that was deleted in `era` and has not been recreated.
    fn bury(&self, contents: &mut Contents, era: u32, key: &Pubkey) {
        let key = HashedKey { key: *key, hash: self.seed.address(key) };
        let entry = contents.table.find(key.hash, |entry| entry.key == key.key);
        if entry.is_some_and(|entry| entry.account.lamports == 0 && entry.noted.era == era) {
            self.remove(contents, &key, era);
        }
    }
}

#[cfg(test)]
mod tests;
