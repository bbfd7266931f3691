//! What a slot changed: each account that it wrote, as it was before and after.
//!
//! reads   the first write of an account in a slot, under its shard's lock
//! writes  one [`Change`] an account, when they are taken
//! memory  112 B an account changed and slot not yet forgotten, and the data it had; a shard keeps one emptied list
//! drops   an account that ended the slot as it began it
//!
//! A write notes what it replaces if it is the account's first of the slot, and the account notes
//! where that is. Slots are counted as *eras*. What an account was at the end of an era is found by
//! following its notes back from the newest, so the changes of a slot can be taken while later slots
//! run, shard by shard, and accounts can be read as they were at the end of a slot whose successors'
//! notes are kept (`past.rs`), or become again what they were then (`rewind.rs`).

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::Pubkey;

use super::{Accounts, Contents, Entry, HashedKey, SHARDS};
use crate::account::Account;

/// An account that a slot has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its address.
    pub key: Pubkey,
    /// What it was at the end of the slot before; without lamports it did not exist.
    pub before: Account,
    /// What it was at the end of the slot; without lamports it did not exist.
    pub after: Account,
}

/// Where an account's newest note is: its era and its index in that era's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) era: u32,
    index: u32,
}

impl Noted {
    /// Nothing was noted.
    pub(super) const NEVER: Self = Self { era: 0, index: 0 };
}

#[derive(Debug)]
pub(super) struct Note {
    pub(super) key: Pubkey,
    pub(super) before: Account,
    /// The account's note before this one.
    pub(super) earlier: Noted,
}

const _: () = assert!(size_of::<Note>() <= 112);

/// A shard's lists.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The newest era that has notes, and its list: at hand, since it is what writes touch.
    era: u32,
    list: Vec<Note>,
    /// Those before it that were not forgotten yet, the oldest first.
    older: VecDeque<(u32, Vec<Note>)>,
    spare: Vec<Note>,
}

impl Notes {
    /// Notes what the first write in `era` replaced.
    #[inline]
    pub(super) fn push(&mut self, era: u32, key: Pubkey, before: Account, earlier: Noted) -> Noted {
        if self.era != era {
            self.begin(era);
        }
        let index = self.list.len() as u32;
        self.list.push(Note { key, before, earlier });
        Noted { era, index }
    }

    /// Notes that the account did not exist.
    #[inline]
    pub(super) fn push_new(&mut self, era: u32, key: Pubkey) -> Noted {
        self.push(era, key, Account::default(), Noted::NEVER)
    }

    #[cold]
    fn begin(&mut self, era: u32) {
        if !self.list.is_empty() {
            let list = std::mem::replace(&mut self.list, std::mem::take(&mut self.spare));
            self.older.push_back((self.era, list));
        }
        self.era = era;
    }

    /// The notes of an era, none where they were forgotten.
    fn list(&self, era: u32) -> &[Note] {
        if era == self.era {
            return &self.list;
        }
        let found = self.older.binary_search_by_key(&era, |(era, _)| *era);
        found.map_or(&[], |at| &self.older[at].1)
    }

    /// Takes the oldest list, if it is of an era up to this one.
    fn take_until(&mut self, era: u32) -> Option<(u32, Vec<Note>)> {
        match self.older.front() {
            Some((oldest, _)) if *oldest <= era => self.older.pop_front(),
            None if self.era <= era && !self.list.is_empty() => Some((self.era, std::mem::take(&mut self.list))),
            _ => None,
        }
    }

    /// Takes the newest list, with its era, if that is after this one.
    pub(super) fn take_after(&mut self, era: u32) -> Option<(u32, Vec<Note>)> {
        if self.era > era {
            let of = std::mem::take(&mut self.era);
            if !self.list.is_empty() {
                return Some((of, std::mem::take(&mut self.list)));
            }
        }
        self.older.pop_back_if(|(newest, _)| *newest > era)
    }

    /// Whether a note was made there and not forgotten.
    pub(super) fn has(&self, noted: Noted) -> bool {
        noted != Noted::NEVER && !self.list(noted.era).is_empty()
    }

    /// Keeps an emptied list for the next that is needed.
    pub(super) fn recycle(&mut self, emptied: Vec<Note>) {
        if self.list.capacity() == 0 {
            self.list = emptied;
        } else {
            self.spare = emptied;
        }
    }

    /// What an account was at the end of `era`, whose newest note is `noted`, of a later era. The notes of all later
    /// eras must be there.
    fn at_end_of(&self, era: u32, mut noted: Noted) -> &Account {
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
    /// What an account was at the end of `era`; without lamports it did not exist.
    pub(super) fn at_end_of<'a>(&'a self, era: u32, entry: &'a Entry) -> &'a Account {
        match entry.noted.era > era {
            true => self.notes.at_end_of(era, entry.noted),
            false => &entry.account,
        }
    }
}

impl Accounts {
    /// From now on changes are noted. Whoever calls this must take them.
    pub(crate) fn note_changes(&self) {
        self.era.store(1, Relaxed);
    }

    /// Ends a slot: returns its era; writes from now on belong to the next. Nobody may be writing.
    pub(crate) fn end_era(&self) -> u32 {
        let era = self.era.load(Relaxed);
        let next = era.checked_add(1).expect("fewer slots than 2^32 in a run");
        self.era.store(next, Relaxed);
        era
    }

    /// Shows what the slot of `era` changed in one shard; returns the bytes that its notes hold. For eras that are
    /// not forgotten.
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

    /// Which accounts the slot of `era` changed, in no order. For eras that are not forgotten.
    pub(crate) fn changed_keys(&self, era: u32, mut visit: impl FnMut(&Pubkey)) {
        let mut changed = |key: &Pubkey, before: &Account, after: &Account| {
            if before != after {
                visit(key);
            }
        };
        (0..SHARDS).for_each(|shard| self.each_note(era, shard, &mut changed));
    }

    /// Shows what was written in the slot of `era` in one shard, as it was before and after.
    #[inline]
    fn each_note(&self, era: u32, shard: usize, mut visit: impl FnMut(&Pubkey, &Account, &Account)) {
        let contents = self.shards[shard].read();
        for Note { key, before, .. } in contents.notes.list(era) {
            let hash = self.seed.address(key);
            let entry = contents.table.find(hash, |entry| entry.key == *key);
            visit(key, before, contents.at_end_of(era, entry.expect("a noted account stays in its table")));
        }
    }

    /// Forgets the notes of one shard that tell of times before the oldest that can be read.
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

    /// Removes an account that ceased to exist in `era` and has not come back.
    fn bury(&self, contents: &mut Contents, era: u32, key: &Pubkey) {
        let key = HashedKey { key: *key, hash: self.seed.address(key) };
        let entry = contents.table.find(key.hash, |entry| entry.key == key.key);
        if entry.is_some_and(|entry| entry.account.lamports == 0 && entry.noted.era == era) {
            self.remove(contents, &key);
        }
    }
}

#[cfg(test)]
mod tests;
