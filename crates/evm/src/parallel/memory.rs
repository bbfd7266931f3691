//! Multi-version memory: what every transaction of a block has written, kept by the writer's place in the block.
//!
//! reads   the state before the block, each account and slot once
//! writes  versions: an account, a slot, or the wiping of an account's storage, under the writer's place
//! memory  one cell per account and slot touched; versions per cell at most those of writers not yet settled and one
//! drops   versions that no transaction to come can read, as a settled one is written over them
//! source  Block-STM (Gelashvili et al., 2022): reads see the newest version below the reader's own place
//!
//! Cells are spread over shards, each behind a lock of its own that is held for one look or one write. Within the
//! transfer stage a thread holds the locks of all shards that it owns, and nobody waits for another.

use alloy_primitives::map::{AddressMap, HashMap};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use revm::DatabaseRef;
use revm::state::{AccountInfo, Bytecode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A writer's place in the block: [`BEFORE`] it, [`OPENING`] it, or the transaction's index plus [`FIRST`].
pub(super) type Place = u32;
/// The state before the block.
pub(super) const BEFORE: Place = 0;
/// What the system calls at the block's begin write.
pub(super) const OPENING: Place = 1;
/// The block's first transaction.
pub(super) const FIRST: Place = 2;

/// How many shards there are; a power of two.
pub(super) const SHARDS: usize = 64;

/// Who wrote what was read. A transaction that is executed again writes as another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub place: Place,
    pub attempt: u32,
}

const BASE: Origin = Origin { place: BEFORE, attempt: 0 };

/// An account as the memory holds it. Code is there only where the hash is not the empty one's: a clone of the
/// empty code would count references in a cache line that all threads share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub balance: U256,
    pub nonce: u64,
    pub code_hash: B256,
    pub code: Option<Bytecode>,
}

impl Held {
    /// Whether the account has no code, a delegation being code too.
    pub fn is_bare(&self) -> bool {
        self.code_hash == KECCAK256_EMPTY
    }

    /// Whether it is empty by EIP-161.
    pub fn is_empty(&self) -> bool {
        self.is_bare() && self.nonce == 0 && self.balance.is_zero()
    }

    /// An account that holds nothing but a balance.
    pub fn of_balance(balance: U256) -> Self {
        Self { balance, nonce: 0, code_hash: KECCAK256_EMPTY, code: None }
    }
}

impl From<AccountInfo> for Held {
    fn from(info: AccountInfo) -> Self {
        let bare = info.is_empty_code_hash() || info.code_hash.is_zero();
        let code_hash = if bare { KECCAK256_EMPTY } else { info.code_hash };
        Self { balance: info.balance, nonce: info.nonce, code_hash, code: info.code.filter(|_| !bare) }
    }
}

impl From<Held> for AccountInfo {
    fn from(held: Held) -> Self {
        Self { balance: held.balance, nonce: held.nonce, code_hash: held.code_hash, account_id: None, code: held.code }
    }
}

/// What one transaction changed in one place.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Account(Address, Option<Held>),
    Slot(Address, U256, U256),
    /// The account's storage is gone, before what the same writer writes into slots.
    Wipe(Address),
}

/// Where a write went, to take it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    Account(Address),
    Slot(Address, U256),
    Wipe(Address),
}

impl Write {
    pub fn key(&self) -> Key {
        match self {
            Self::Account(address, _) => Key::Account(*address),
            Self::Slot(address, slot, _) => Key::Slot(*address, *slot),
            Self::Wipe(address) => Key::Wipe(*address),
        }
    }
}

/// What was read, and whose it was.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    Account(Address, Origin),
    Slot(Address, U256, Origin),
}

#[derive(Debug)]
struct Version<T> {
    origin: Origin,
    value: T,
}

/// All versions of one cell: the newest apart, since nearly every read wants it.
#[derive(Debug)]
pub(super) struct Versions<T> {
    base: Option<T>,
    newest: Option<Version<T>>,
    older: Vec<Version<T>>,
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self { base: None, newest: None, older: Vec::new() }
    }
}

impl<T> Versions<T> {
    /// The newest version written before `place`, or the base where it has been read.
    fn below(&self, place: Place) -> Option<(&T, Origin)> {
        if let Some(newest) = &self.newest {
            if newest.origin.place < place {
                return Some((&newest.value, newest.origin));
            }
            if let Some(version) = self.older.iter().rev().find(|version| version.origin.place < place) {
                return Some((&version.value, version.origin));
            }
        }
        self.base.as_ref().map(|base| (base, BASE))
    }

    fn write(&mut self, origin: Origin, value: T) {
        let version = Version { origin, value };
        match &mut self.newest {
            None => self.newest = Some(version),
            Some(newest) if newest.origin.place == origin.place => *newest = version,
            Some(newest) if newest.origin.place < origin.place => {
                self.older.push(std::mem::replace(newest, version));
            }
            Some(_) => match self.older.iter().rposition(|older| older.origin.place <= origin.place) {
                Some(at) if self.older[at].origin.place == origin.place => self.older[at] = version,
                Some(at) => self.older.insert(at + 1, version),
                None => self.older.insert(0, version),
            },
        }
    }

    /// Writes what is settled: nobody to come reads below it.
    fn settle(&mut self, origin: Origin, value: T) {
        self.older.retain(|older| older.origin.place > origin.place);
        if self.newest.as_ref().is_some_and(|newest| newest.origin.place <= origin.place) {
            self.newest = None;
        }
        self.write(origin, value);
    }

    fn remove(&mut self, origin: Origin) {
        if self.newest.as_ref().is_some_and(|newest| newest.origin == origin) {
            self.newest = self.older.pop();
        } else {
            self.older.retain(|older| older.origin != origin);
        }
    }
}

/// An account's cell.
#[derive(Debug)]
pub(super) struct Cell {
    pub address: Address,
    versions: Versions<Option<Held>>,
}

impl Cell {
    /// What all settled writers have left. Only where none is unsettled.
    pub fn current(&self) -> Option<&Held> {
        self.versions.below(Place::MAX).and_then(|(held, _)| held.as_ref())
    }

    /// Whether the newest version is of `place`.
    pub fn is_of(&self, place: Place) -> bool {
        self.versions.newest.as_ref().is_some_and(|newest| newest.origin.place == place)
    }

    /// The newest version's value, to change in place; `place` must have written it.
    pub fn of_mut(&mut self, place: Place) -> &mut Option<Held> {
        let newest = self.versions.newest.as_mut().filter(|newest| newest.origin.place == place);
        &mut newest.expect("a version of this place").value
    }

    /// Writes over all versions; gives back what was there, for [`Cell::restore`].
    pub fn replace(&mut self, place: Place, value: Option<Held>) -> Before {
        self.versions.older.clear();
        Before(self.versions.newest.replace(Version { origin: Origin { place, attempt: 0 }, value }))
    }

    /// Takes a replacing back.
    pub fn restore(&mut self, before: Before) {
        self.versions.newest = before.0;
    }

    /// The value after the block where it was written, whether or not it differs from the base.
    pub fn written(&self) -> Option<&Option<Held>> {
        self.versions.newest.as_ref().map(|newest| &newest.value)
    }
}

/// A version that was written over.
#[derive(Debug)]
pub(super) struct Before(Option<Version<Option<Held>>>);

/// The cells of one shard.
#[derive(Debug, Default)]
pub(super) struct Shard {
    index: AddressMap<u32>,
    pub cells: Vec<Cell>,
    slots: HashMap<(Address, U256), Versions<U256>>,
    wipes: AddressMap<Versions<()>>,
}

impl Shard {
    /// The account's cell with its base read.
    pub fn cell<D: DatabaseRef>(&mut self, db: &D, address: &Address) -> Result<usize, D::Error> {
        if let Some(&at) = self.index.get(address) {
            if self.cells[at as usize].versions.base.is_none() {
                self.cells[at as usize].versions.base = Some(base_account(db, address)?);
            }
            return Ok(at as usize);
        }
        let base = Some(base_account(db, address)?);
        Ok(self.add(*address, Versions { base, ..Versions::default() }))
    }

    fn add(&mut self, address: Address, versions: Versions<Option<Held>>) -> usize {
        let at = self.cells.len();
        self.index.insert(address, at as u32);
        self.cells.push(Cell { address, versions });
        at
    }

    fn find(&self, address: &Address) -> Option<&Cell> {
        self.index.get(address).map(|&at| &self.cells[at as usize])
    }

    fn find_or_add(&mut self, address: Address) -> &mut Cell {
        let at = match self.index.get(&address) {
            Some(&at) => at as usize,
            None => self.add(address, Versions::default()),
        };
        &mut self.cells[at]
    }

    /// What the block wrote into slots: the last writer's place and value.
    pub fn storage_written(&self) -> impl Iterator<Item = (Address, U256, Place, U256)> {
        self.slots.iter().filter_map(|((address, slot), versions)| {
            versions.newest.as_ref().map(|newest| (*address, *slot, newest.origin.place, newest.value))
        })
    }

    /// Whose storage the block wiped, and when last.
    pub fn wiped(&self) -> impl Iterator<Item = (Address, Place)> {
        self.wipes
            .iter()
            .filter_map(|(address, versions)| versions.newest.as_ref().map(|newest| (*address, newest.origin.place)))
    }
}

/// The account before the block, with its code where it has one.
fn base_account<D: DatabaseRef>(db: &D, address: &Address) -> Result<Option<Held>, D::Error> {
    let Some(info) = db.basic_ref(*address)? else { return Ok(None) };
    let mut held = Held::from(info);
    if !held.is_bare() && held.code.is_none() {
        held.code = Some(db.code_by_hash_ref(held.code_hash)?);
    }
    Ok(Some(held))
}

/// Alone in its cache lines, so that a lock taken does not slow its neighbour's.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// The memory of one block over the state before it.
pub(super) struct Memory<'d, D> {
    pub db: &'d D,
    shards: Vec<Padded>,
    /// Whether any storage was ever wiped: until then a read of a slot need not ask.
    any_wipe: AtomicBool,
}

/// The shard of an account.
pub(super) fn shard_of(address: &Address) -> usize {
    let bytes: [u8; 8] = address[12..].try_into().expect("eight of twenty bytes");
    mix(u64::from_le_bytes(bytes))
}

fn shard_of_slot(address: &Address, slot: &U256) -> usize {
    let bytes: [u8; 8] = address[12..].try_into().expect("eight of twenty bytes");
    let limbs = slot.as_limbs();
    mix(u64::from_le_bytes(bytes) ^ limbs[0] ^ limbs[3].rotate_left(17))
}

fn mix(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SHARDS.trailing_zeros())) as usize
}

impl<'d, D: DatabaseRef> Memory<'d, D> {
    pub fn new(db: &'d D) -> Self {
        let shards = (0..SHARDS).map(|_| Padded(Mutex::default())).collect();
        Self { db, shards, any_wipe: AtomicBool::new(false) }
    }

    /// One shard's lock. What a thread that panicked left is never used: the panic ends the block.
    pub fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account as a transaction at `place` finds it.
    pub fn account(&self, address: &Address, place: Place) -> Result<(Option<Held>, Origin), D::Error> {
        let index = shard_of(address);
        if let Some((held, origin)) = self.shard(index).find(address).and_then(|cell| cell.versions.below(place)) {
            return Ok((held.clone(), origin));
        }
        // Read without the lock: the state may have to ask the disk.
        let base = base_account(self.db, address)?;
        let mut shard = self.shard(index);
        let versions = &mut shard.find_or_add(*address).versions;
        versions.base.get_or_insert(base);
        let (held, origin) = versions.below(place).expect("the base is there now");
        Ok((held.clone(), origin))
    }

    /// The slot as a transaction at `place` finds it.
    pub fn slot(&self, address: &Address, slot: &U256, place: Place) -> Result<(U256, Origin), D::Error> {
        let wiped = self.wiped(address, place);
        let index = shard_of_slot(address, slot);
        let key = (*address, *slot);
        let found = self.shard(index).slots.get(&key).and_then(|versions| versions.below(place)).map(|(v, o)| (*v, o));
        let (value, origin) = match (found, wiped) {
            (Some((value, origin)), Some(wiped)) if origin.place >= wiped.place => (value, origin),
            (_, Some(wiped)) => (U256::ZERO, wiped),
            (Some((value, origin)), None) => (value, origin),
            (None, None) => {
                let base = self.db.storage_ref(*address, *slot)?;
                let mut shard = self.shard(index);
                let versions = shard.slots.entry(key).or_default();
                versions.base.get_or_insert(base);
                versions.below(place).map(|(value, origin)| (*value, origin)).expect("the base is there now")
            }
        };
        Ok((value, origin))
    }

    fn wiped(&self, address: &Address, place: Place) -> Option<Origin> {
        if !self.any_wipe.load(Ordering::Acquire) {
            return None;
        }
        let shard = self.shard(shard_of(address));
        shard.wipes.get(address).and_then(|versions| versions.below(place)).map(|(_, origin)| origin)
    }

    /// Whether everything read is still what a transaction at `place` would read.
    pub fn is_current(&self, reads: &[Read], place: Place) -> Result<bool, D::Error> {
        for read in reads {
            let (was, now) = match read {
                Read::Account(address, was) => {
                    let shard = self.shard(shard_of(address));
                    let found = shard.find(address).and_then(|cell| cell.versions.below(place));
                    (was, found.map_or(BASE, |(_, origin)| origin))
                }
                Read::Slot(address, slot, was) => (was, self.slot(address, slot, place)?.1),
            };
            if *was != now {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes what `origin` wrote. `settled`: all before it are, so that nobody reads below it any more.
    pub fn publish(&self, origin: Origin, writes: &mut Vec<Write>, settled: bool) {
        fn put<T>(versions: &mut Versions<T>, origin: Origin, value: T, settled: bool) {
            match settled {
                true => versions.settle(origin, value),
                false => versions.write(origin, value),
            }
        }
        for write in writes.drain(..) {
            match write {
                Write::Account(address, held) => {
                    let mut shard = self.shard(shard_of(&address));
                    put(&mut shard.find_or_add(address).versions, origin, held, settled);
                }
                Write::Slot(address, slot, value) => {
                    let mut shard = self.shard(shard_of_slot(&address, &slot));
                    put(shard.slots.entry((address, slot)).or_default(), origin, value, settled);
                }
                Write::Wipe(address) => {
                    let mut shard = self.shard(shard_of(&address));
                    put(shard.wipes.entry(address).or_default(), origin, (), settled);
                    self.any_wipe.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Takes back what `origin` wrote there.
    pub fn remove(&self, origin: Origin, keys: impl Iterator<Item = Key>) {
        for key in keys {
            match key {
                Key::Account(address) => {
                    let mut shard = self.shard(shard_of(&address));
                    shard.find_or_add(address).versions.remove(origin);
                }
                Key::Slot(address, slot) => {
                    let mut shard = self.shard(shard_of_slot(&address, &slot));
                    shard.slots.entry((address, slot)).or_default().remove(origin);
                }
                Key::Wipe(address) => {
                    let mut shard = self.shard(shard_of(&address));
                    shard.wipes.entry(address).or_default().remove(origin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(place: Place, attempt: u32) -> Origin {
        Origin { place, attempt }
    }

    #[test]
    fn a_reader_sees_the_newest_version_below_its_place() {
        let mut versions = Versions { base: Some(0), ..Versions::default() };
        for place in [5, 3, 9, 7] {
            versions.write(origin(place, 0), place);
        }
        let seen: Vec<_> = [2, 3, 4, 6, 8, 10].map(|place| *versions.below(place).unwrap().0).to_vec();
        assert_eq!(seen, [0, 0, 3, 5, 7, 9]);
        versions.write(origin(7, 1), 70);
        assert_eq!(versions.below(8), Some((&70, origin(7, 1))));
        versions.remove(origin(7, 0));
        assert_eq!(versions.below(8), Some((&70, origin(7, 1))), "another attempt's version stays");
        versions.remove(origin(9, 0));
        assert_eq!(versions.below(10), Some((&70, origin(7, 1))));
        versions.settle(origin(6, 0), 60);
        assert_eq!(versions.below(6), Some((&0, BASE)), "below what is settled nothing is kept");
        assert_eq!((versions.below(7), versions.below(8)), (Some((&60, origin(6, 0))), Some((&70, origin(7, 1)))));
    }

    #[test]
    fn a_wipe_hides_the_slots_of_those_before_it() {
        let db = revm::database::CacheDB::new(revm::database::EmptyDB::default());
        let memory = Memory::new(&db);
        let (address, slot) = (Address::repeat_byte(7), U256::from(1));
        let write = |place, value| {
            memory.publish(origin(place, 0), &mut vec![Write::Slot(address, slot, U256::from(value))], false);
        };
        write(2, 20);
        memory.publish(origin(4, 0), &mut vec![Write::Wipe(address)], false);
        write(6, 60);
        let read = |place| memory.slot(&address, &slot, place).unwrap();
        assert_eq!(read(3), (U256::from(20), origin(2, 0)));
        assert_eq!(read(5), (U256::ZERO, origin(4, 0)));
        assert_eq!(read(7), (U256::from(60), origin(6, 0)));
        write(4, 40);
        assert_eq!(read(5).0, U256::from(40), "what the wiper itself wrote comes after the wiping");
    }
}
