//! Multi-version memory: what every transaction of a block has written, by the writer's place in the block.
//!
//! reads   the state before the block, each account and slot once
//! writes  versions: an account, a slot, or the wiping of an account's storage, under the writer's place
//! memory  one cell per account and slot touched; versions per cell at most those of writers not yet settled and two
//! drops   versions that no later transaction can read, when a settled one replaces them
//! source  Block-STM (Gelashvili et al., 2022): reads see the newest version below the reader's own place
//!
//! Cells are spread over shards, each behind a lock of its own that is held for one read or one write. Within the
//! transfer stage a thread holds the locks of all shards that it owns, and no thread waits for another.

use crate::state::Accounts;
use alloy_primitives::map::{AddressMap, B256Map, HashMap};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use parking_lot::{Mutex, MutexGuard};
use revm::DatabaseRef;
use revm::state::{AccountInfo, Bytecode};
use std::sync::atomic::{AtomicBool, Ordering};

/// A writer's place in the block: [`BEFORE`] it, [`OPENING`] it, or the transaction's index plus [`FIRST`].
pub(super) type WriterIndex = u32;
/// The state before the block.
pub(super) const BEFORE: WriterIndex = 0;
/// The place of the system calls at the block's beginning.
pub(super) const OPENING: WriterIndex = 1;
/// The place of the first transaction.
pub(super) const FIRST: WriterIndex = 2;

/// How many shards there are; a power of two.
pub(super) const SHARDS: usize = 64;

/// The writer of a value. A transaction that is executed again writes as another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub place: WriterIndex,
    pub attempt: u32,
}

const BASE: Origin = Origin { place: BEFORE, attempt: 0 };

/// An account as the memory holds it; its code is found by the hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MemoryAccount {
    pub balance: U256,
    pub nonce: u64,
    pub code_hash: B256,
}

impl MemoryAccount {
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
        Self { balance, nonce: 0, code_hash: KECCAK256_EMPTY }
    }
}

impl From<&AccountInfo> for MemoryAccount {
    fn from(info: &AccountInfo) -> Self {
        let bare = info.is_empty_code_hash() || info.code_hash.is_zero();
        let code_hash = if bare { KECCAK256_EMPTY } else { info.code_hash };
        Self { balance: info.balance, nonce: info.nonce, code_hash }
    }
}

impl MemoryAccount {
    /// The account as revm has it.
    pub fn with_code(self, code: Option<Bytecode>) -> AccountInfo {
        let Self { balance, nonce, code_hash } = self;
        AccountInfo { balance, nonce, code_hash, account_id: None, code }
    }
}

/// A change that one transaction made in one place.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Account(Address, Option<MemoryAccount>),
    Slot(Address, U256, U256),
    /// The account's storage is wiped, before the same writer's slots.
    Wipe(Address),
}

/// The place of a cell, so that it is looked up only once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spot {
    Account { shard: u32, at: u32 },
    Slot { shard: u32, at: u32 },
    Wipe(Address),
}

/// A value read, and its writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadRecord {
    spot: Spot,
    origin: Origin,
}

#[derive(Debug)]
struct Version<T> {
    origin: Origin,
    value: T,
}

/// All versions of one cell: the newest apart, since nearly every read wants it.
#[derive(Debug)]
pub(super) struct Versions<T> {
    /// The value before the block, or the newest settled version once another replaced it.
    base: Option<Version<T>>,
    newest: Option<Version<T>>,
    older: Vec<Version<T>>,
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self { base: None, newest: None, older: Vec::new() }
    }
}

impl<T> Versions<T> {
    /// Returns the newest version written before `place`, or the base if it has been read.
    fn below(&self, place: WriterIndex) -> Option<(&T, Origin)> {
        if let Some(newest) = &self.newest {
            if newest.origin.place < place {
                return Some((&newest.value, newest.origin));
            }
            if let Some(version) = self.older.iter().rev().find(|version| version.origin.place < place) {
                return Some((&version.value, version.origin));
            }
        }
        self.base.as_ref().map(|base| (&base.value, base.origin))
    }

    /// Records the value before the block, if it is unknown.
    fn found(&mut self, value: T) {
        self.base.get_or_insert(Version { origin: BASE, value });
    }

    /// Returns the value after the block and its last writer, if it was written.
    fn written(&self) -> Option<&Version<T>> {
        self.newest.as_ref().or(self.base.as_ref().filter(|base| base.origin.place != BEFORE))
    }

    /// Writes a version. All before `settled` are settled: no later read is below it.
    fn write(&mut self, origin: Origin, value: T, settled: WriterIndex) {
        let version = Version { origin, value };
        match &mut self.newest {
            None => self.newest = Some(version),
            Some(newest) if newest.origin.place == origin.place => *newest = version,
            Some(newest) if newest.origin.place < settled.min(origin.place) => {
                self.older.clear();
                self.base = Some(std::mem::replace(newest, version));
            }
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

    /// Writes a settled value: no later read is below it.
    fn settle(&mut self, origin: Origin, value: T) {
        self.older.retain(|older| older.origin.place > origin.place);
        if self.newest.as_ref().is_some_and(|newest| newest.origin.place <= origin.place) {
            self.newest = None;
        }
        self.write(origin, value, BEFORE);
    }

    fn remove(&mut self, origin: Origin) {
        if self.newest.as_ref().is_some_and(|newest| newest.origin == origin) {
            self.newest = self.older.pop();
        } else {
            self.older.retain(|older| older.origin != origin);
        }
    }
}

/// The cell of an account.
#[derive(Debug)]
pub(super) struct Cell {
    pub address: Address,
    /// Whether a transfer begins or ends here, so that its base is read.
    pub asked: bool,
    versions: Versions<Option<MemoryAccount>>,
}

impl Cell {
    /// Notes the account before the block.
    pub fn found(&mut self, base: Option<MemoryAccount>) {
        self.versions.found(base);
    }

    /// Returns the value that all settled writers have left. Only where none is unsettled.
    pub fn current(&self) -> Option<&MemoryAccount> {
        self.versions.below(WriterIndex::MAX).and_then(|(held, _)| held.as_ref())
    }

    /// Whether the newest version is of `place`.
    pub fn is_of(&self, place: WriterIndex) -> bool {
        self.versions.newest.as_ref().is_some_and(|newest| newest.origin.place == place)
    }

    /// The newest version's value, to change in place; `place` must have written it.
    pub fn of_mut(&mut self, place: WriterIndex) -> &mut Option<MemoryAccount> {
        let newest = self.versions.newest.as_mut().filter(|newest| newest.origin.place == place);
        &mut newest.expect("a version of this place").value
    }

    /// Replaces all versions; returns the old ones, for [`Cell::restore`].
    pub fn replace(&mut self, place: WriterIndex, value: Option<MemoryAccount>) -> ReplacedVersion {
        self.versions.older.clear();
        ReplacedVersion(self.versions.newest.replace(Version { origin: Origin { place, attempt: 0 }, value }))
    }

    /// Restores the newest version from before [`Cell::replace`]; the older ones stay removed.
    pub fn restore(&mut self, before: ReplacedVersion) {
        self.versions.newest = before.0;
    }

    /// Returns the value after the block if it was written, even if it equals the base.
    pub fn written(&self) -> Option<&Option<MemoryAccount>> {
        self.versions.written().map(|version| &version.value)
    }
}

/// The cell of a storage slot.
#[derive(Debug)]
struct SlotCell {
    key: (Address, U256),
    versions: Versions<U256>,
}

/// A version that was written over.
#[derive(Debug)]
pub(super) struct ReplacedVersion(Option<Version<Option<MemoryAccount>>>);

/// The cells of one shard.
#[derive(Debug, Default)]
pub(super) struct Shard {
    index: AddressMap<u32>,
    pub cells: Vec<Cell>,
    slot_index: HashMap<(Address, U256), u32>,
    slots: Vec<SlotCell>,
    wipes: AddressMap<Versions<()>>,
}

impl Shard {
    /// Returns the account's cell, and whether the caller must read its base and call [`Cell::found`].
    pub fn cell(&mut self, address: &Address) -> (u32, bool) {
        let at = self.find_or_add(*address);
        let cell = &mut self.cells[at as usize];
        let is_unread = cell.versions.base.is_none() && !cell.asked;
        cell.asked = true;
        (at, is_unread)
    }

    fn find_or_add(&mut self, address: Address) -> u32 {
        *self.index.entry(address).or_insert_with(|| {
            self.cells.push(Cell { address, asked: false, versions: Versions::default() });
            self.cells.len() as u32 - 1
        })
    }

    fn find_or_add_slot(&mut self, key: (Address, U256)) -> u32 {
        *self.slot_index.entry(key).or_insert_with(|| {
            self.slots.push(SlotCell { key, versions: Versions::default() });
            self.slots.len() as u32 - 1
        })
    }

    /// Returns the slots that the block wrote: the last writer's place and value.
    pub fn storage_written(&self) -> impl Iterator<Item = (Address, U256, WriterIndex, U256)> {
        self.slots.iter().filter_map(|SlotCell { key: (address, slot), versions }| {
            versions.written().map(|last| (*address, *slot, last.origin.place, last.value))
        })
    }

    /// Returns the accounts whose storage the block wiped, and the last wipe.
    pub fn wiped(&self) -> impl Iterator<Item = (Address, WriterIndex)> {
        self.wipes.iter().filter_map(|(address, versions)| versions.written().map(|last| (*address, last.origin.place)))
    }
}

/// Alone in its cache lines, so that a lock taken does not slow its neighbour's.
#[repr(align(128))]
struct PaddedShard(Mutex<Shard>);

/// The memory of one block over the state before it.
pub(super) struct Memory<'d, D> {
    pub db: &'d D,
    shards: Vec<PaddedShard>,
    codes: Mutex<B256Map<Bytecode>>,
    /// Whether several threads run code.
    pub is_shared: bool,
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
    /// Creates the memory of a block of `count` transactions.
    pub fn new(db: &'d D, count: usize, is_shared: bool) -> Self {
        // As if each had an account of its own: growing copies the entries.
        let each = count.div_ceil(SHARDS);
        let shard = || {
            let index = AddressMap::with_capacity_and_hasher(each, Default::default());
            PaddedShard(Mutex::new(Shard { index, cells: Vec::with_capacity(each), ..Shard::default() }))
        };
        let shards = (0..SHARDS).map(|_| shard()).collect();
        Self { db, shards, codes: Mutex::default(), is_shared, any_wipe: AtomicBool::new(false) }
    }

    /// The account before the block.
    fn base_account(&self, address: &Address) -> Result<Option<MemoryAccount>, D::Error> {
        Ok(self.db.basic_ref(*address)?.map(|info| self.held(info)))
    }

    /// Many accounts before the block, in their order.
    pub fn base_accounts(&self, addresses: &[Address]) -> Result<impl Iterator<Item = Option<MemoryAccount>>, D::Error>
    where
        D: Accounts,
    {
        let infos = self.db.accounts(addresses)?;
        Ok(infos.into_iter().map(|info| info.map(|info| self.held(info))))
    }

    fn held(&self, info: AccountInfo) -> MemoryAccount {
        let held = MemoryAccount::from(&info);
        if let Some(code) = info.code.filter(|_| !held.is_bare()) {
            self.add_code(held.code_hash, code);
        }
        held
    }

    fn codes(&self) -> MutexGuard<'_, B256Map<Bytecode>> {
        self.codes.lock()
    }

    /// Makes a code known. Equal hashes mean equal code, whichever transaction wrote it, so codes have no versions.
    pub fn add_code(&self, hash: B256, code: Bytecode) {
        self.codes().entry(hash).or_insert(code);
    }

    /// The code of that hash, if it was read or written in this block.
    pub fn known_code(&self, hash: &B256) -> Option<Bytecode> {
        self.codes().get(hash).cloned()
    }

    /// The code of that hash.
    pub fn code(&self, hash: B256) -> Result<Bytecode, D::Error> {
        if let Some(code) = self.known_code(&hash) {
            return Ok(code);
        }
        let code = self.db.code_by_hash_ref(hash)?;
        self.add_code(hash, code.clone());
        Ok(code)
    }

    /// Locks a shard. What a thread that panicked left is never used: the panic ends the block.
    pub fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].0.lock()
    }

    /// The account as a transaction at `place` finds it.
    pub fn account(
        &self,
        address: &Address,
        place: WriterIndex,
    ) -> Result<(Option<MemoryAccount>, ReadRecord), D::Error> {
        let index = shard_of(address);
        let read = |at, origin| ReadRecord { spot: Spot::Account { shard: index as u32, at }, origin };
        {
            let shard = self.shard(index);
            let at = shard.index.get(address).copied();
            let found = at.and_then(|at| Some((at, shard.cells[at as usize].versions.below(place)?)));
            if let Some((at, (held, origin))) = found {
                return Ok((*held, read(at, origin)));
            }
        }
        // Read without the lock: the state may have to ask the disk.
        let base = self.base_account(address)?;
        let mut shard = self.shard(index);
        let at = shard.find_or_add(*address);
        let versions = &mut shard.cells[at as usize].versions;
        versions.found(base);
        let (held, origin) = versions.below(place).expect("the base is there now");
        Ok((*held, read(at, origin)))
    }

    /// The slot as a transaction at `place` finds it.
    pub fn slot(&self, address: &Address, slot: &U256, place: WriterIndex) -> Result<(U256, ReadRecord), D::Error> {
        let wiped = self.wiped(address, place);
        let index = shard_of_slot(address, slot);
        let mut shard = self.shard(index);
        let mut at = shard.find_or_add_slot((*address, *slot));
        let found = shard.slots[at as usize].versions.below(place).map(|(value, origin)| (*value, origin));
        let (value, origin) = match (found, wiped) {
            (Some((value, origin)), Some(wiped)) if origin.place >= wiped.place => (value, origin),
            (_, Some(wiped)) => (U256::ZERO, wiped),
            (Some((value, origin)), None) => (value, origin),
            (None, None) => {
                drop(shard);
                let base = self.db.storage_ref(*address, *slot)?;
                shard = self.shard(index);
                at = shard.find_or_add_slot((*address, *slot));
                let versions = &mut shard.slots[at as usize].versions;
                versions.found(base);
                versions.below(place).map(|(value, origin)| (*value, origin)).expect("the base is there now")
            }
        };
        Ok((value, ReadRecord { spot: Spot::Slot { shard: index as u32, at }, origin }))
    }

    fn wiped(&self, address: &Address, place: WriterIndex) -> Option<Origin> {
        if !self.any_wipe.load(Ordering::Acquire) {
            return None;
        }
        let shard = self.shard(shard_of(address));
        shard.wipes.get(address).and_then(|versions| versions.below(place)).map(|(_, origin)| origin)
    }

    /// Returns whether all values read are still what a transaction at `place` would read.
    pub fn is_current(&self, reads: &[ReadRecord], place: WriterIndex) -> Result<bool, D::Error> {
        for read in reads {
            let now = match read.spot {
                Spot::Account { shard, at } => {
                    let shard = self.shard(shard as usize);
                    shard.cells[at as usize].versions.below(place).map(|(_, origin)| origin)
                }
                Spot::Slot { shard, at } => {
                    let shard = self.shard(shard as usize);
                    let SlotCell { key: (address, slot), versions } = &shard.slots[at as usize];
                    if self.any_wipe.load(Ordering::Acquire) {
                        let (address, slot) = (*address, *slot);
                        drop(shard);
                        Some(self.slot(&address, &slot, place)?.1.origin)
                    } else {
                        versions.below(place).map(|(_, origin)| origin)
                    }
                }
                Spot::Wipe(_) => unreachable!("what is wiped is no read's"),
            };
            if now != Some(read.origin) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes the writes of `origin`, after all earlier ones are settled, so that no later read is below it.
    pub fn settle(&self, origin: Origin, writes: &mut Vec<Write>) {
        for write in writes.drain(..) {
            match write {
                Write::Account(address, held) => {
                    let mut shard = self.shard(shard_of(&address));
                    let at = shard.find_or_add(address);
                    shard.cells[at as usize].versions.settle(origin, held);
                }
                Write::Slot(address, slot, value) => {
                    let mut shard = self.shard(shard_of_slot(&address, &slot));
                    let at = shard.find_or_add_slot((address, slot));
                    shard.slots[at as usize].versions.settle(origin, value);
                }
                Write::Wipe(address) => {
                    self.shard(shard_of(&address)).wipes.entry(address).or_default().settle(origin, ());
                    self.any_wipe.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Publishes what `origin` wrote ahead of its turn, all before `settled` being settled, and tells where to.
    pub fn publish(&self, origin: Origin, writes: &mut Vec<Write>, settled: WriterIndex, spots: &mut Vec<Spot>) {
        for write in writes.drain(..) {
            spots.push(match write {
                Write::Account(address, held) => {
                    let index = shard_of(&address);
                    let mut shard = self.shard(index);
                    let at = shard.find_or_add(address);
                    shard.cells[at as usize].versions.write(origin, held, settled);
                    Spot::Account { shard: index as u32, at }
                }
                Write::Slot(address, slot, value) => {
                    let index = shard_of_slot(&address, &slot);
                    let mut shard = self.shard(index);
                    let at = shard.find_or_add_slot((address, slot));
                    shard.slots[at as usize].versions.write(origin, value, settled);
                    Spot::Slot { shard: index as u32, at }
                }
                Write::Wipe(address) => {
                    self.shard(shard_of(&address)).wipes.entry(address).or_default().write(origin, (), settled);
                    self.any_wipe.store(true, Ordering::Release);
                    Spot::Wipe(address)
                }
            });
        }
    }

    /// Removes what `origin` wrote there.
    pub fn remove(&self, origin: Origin, spots: &[Spot]) {
        for spot in spots {
            match spot {
                Spot::Account { shard, at } => {
                    self.shard(*shard as usize).cells[*at as usize].versions.remove(origin);
                }
                Spot::Slot { shard, at } => {
                    self.shard(*shard as usize).slots[*at as usize].versions.remove(origin);
                }
                Spot::Wipe(address) => {
                    self.shard(shard_of(address)).wipes.entry(*address).or_default().remove(origin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(place: WriterIndex, attempt: u32) -> Origin {
        Origin { place, attempt }
    }

    #[test]
    fn a_reader_sees_the_newest_version_below_its_place() {
        let mut versions = Versions::default();
        versions.found(0);
        for place in [5, 3, 9, 7] {
            versions.write(origin(place, 0), place, BEFORE);
        }
        let seen: Vec<_> = [2, 3, 4, 6, 8, 10].map(|place| *versions.below(place).unwrap().0).to_vec();
        assert_eq!(seen, [0, 0, 3, 5, 7, 9]);
        versions.write(origin(7, 1), 70, BEFORE);
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
    fn settled_values_are_kept_only_for_running_readers() {
        let mut versions = Versions::default();
        versions.found(0);
        versions.write(origin(3, 0), 3, BEFORE);
        versions.write(origin(5, 1), 5, 4);
        assert_eq!((versions.older.len(), versions.below(4)), (0, Some((&3, origin(3, 0)))));
        assert_eq!(versions.below(6), Some((&5, origin(5, 1))));
        versions.remove(origin(5, 1));
        assert_eq!(versions.written().map(|version| version.value), Some(3), "what is settled is not taken back");
        assert_eq!(versions.below(9), Some((&3, origin(3, 0))));
        versions.write(origin(8, 0), 8, 4);
        versions.write(origin(6, 0), 6, 4);
        assert_eq!((versions.below(5), versions.below(7)), (Some((&3, origin(3, 0))), Some((&6, origin(6, 0)))));
    }

    #[test]
    fn a_wipe_hides_the_slots_of_those_before_it() {
        let db = revm::database::CacheDB::new(revm::database::EmptyDB::default());
        let memory = Memory::new(&db, 1, false);
        let (address, slot) = (Address::repeat_byte(7), U256::from(1));
        let write = |place, value| {
            let mut writes = vec![Write::Slot(address, slot, U256::from(value))];
            memory.publish(origin(place, 0), &mut writes, BEFORE, &mut Vec::new());
        };
        write(2, 20);
        memory.publish(origin(4, 0), &mut vec![Write::Wipe(address)], BEFORE, &mut Vec::new());
        write(6, 60);
        let read = |place| {
            let (value, read) = memory.slot(&address, &slot, place).unwrap();
            (value, read.origin)
        };
        assert_eq!(read(3), (U256::from(20), origin(2, 0)));
        assert_eq!(read(5), (U256::ZERO, origin(4, 0)));
        assert_eq!(read(7), (U256::from(60), origin(6, 0)));
        write(4, 40);
        assert_eq!(read(5).0, U256::from(40), "what the wiper itself wrote comes after the wiping");
    }
}
