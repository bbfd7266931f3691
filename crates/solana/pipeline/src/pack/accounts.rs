//! accounts: the accounts that pending and executing transactions name: their locks, their waiting transactions, and
//! the compute spent on writing them in this block.
//!
//! reads   account addresses of transactions
//! writes  nothing but its own state
//! memory  [`Accounts::bytes`], allocated in [`Accounts::new`]: 80 B per account tracked at a time, and 512 KiB for the
//!         compute spent on accounts no longer tracked
//! drops   nothing; [`Accounts::refer`] fails when the table is full
//! source  the cluster's lock rules: many readers or one writer
//!
//! An account is forgotten once no transaction names it, but the block's write limit on it must hold until the block
//! ends. Its sum then lives on in a cell shared with other accounts, which keeps the greatest of their sums. An account
//! that returns starts from its cell. The limit is therefore never exceeded, and only an account that shares its cell
//! with a hot one (odds 2^-16 per pair, by a secret hash) may reach it early.

use hearth_wire::TagHasher;
use hearth_wire::consts::Pubkey;

use super::table::IndexTable;

/// No queue, or no slot.
pub const NONE: u32 = u32::MAX;
/// Cells for the sums of forgotten accounts.
const CELLS: usize = 1 << 16;

/// One account; one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Account {
    key: Pubkey,
    /// Pending and executing transactions that name it.
    pub references: u32,
    /// Executing transactions that read it.
    pub readers: u32,
    spent: u32,
    spent_block: u32,
    /// Queue of the transactions that wait for this account, or [`NONE`].
    pub queue: u32,
    /// Slot of the transaction that left the queue to compete on behalf of all of it, or [`NONE`].
    pub delegate: u32,
    /// Upper half of its hash.
    hash: u32,
    /// Whether an executing transaction writes it.
    pub writer: bool,
    /// Whether its write limit in this block is used up.
    pub capped: bool,
}

const _: () = assert!(size_of::<Account>() == 64);

impl Account {
    /// Whether an executing transaction's lock blocks a writer of this account (or a reader, if not `write`).
    #[inline]
    pub fn is_locked_for(&self, write: bool) -> bool {
        self.writer || (write && self.readers > 0)
    }

    /// Whether a writer of this account (or a reader, if not `write`) has to wait.
    #[inline]
    pub fn is_closed_to(&self, write: bool) -> bool {
        self.is_locked_for(write) || (write && self.capped)
    }

    /// Whether no executing transaction names it.
    #[inline]
    pub fn is_free(&self) -> bool {
        !self.writer && self.readers == 0
    }
}

/// The accounts that pending and executing transactions name, with their locks.
#[derive(Debug)]
pub struct Accounts {
    table: IndexTable,
    entries: Vec<Account>,
    free: Vec<u32>,
    /// Block number (upper half) and sum of forgotten accounts.
    cells: Vec<u64>,
    hasher: TagHasher,
    block: u32,
}

impl Accounts {
    /// Memory that `capacity` accounts take, in bytes.
    pub const fn bytes(capacity: usize) -> u64 {
        (capacity * (size_of::<Account>() + 16 + 4) + 8 * CELLS) as u64
    }

    /// Creates a table for `capacity` accounts at a time; `secret` keys their hashes.
    pub fn new(capacity: usize, secret: u64) -> Self {
        let vacant = Account {
            key: [0; 32],
            references: 0,
            readers: 0,
            spent: 0,
            spent_block: 0,
            queue: NONE,
            delegate: NONE,
            hash: 0,
            writer: false,
            capped: false,
        };
        Self {
            table: IndexTable::new(capacity),
            entries: vec![vacant; capacity],
            free: (0..capacity as u32).rev().collect(),
            cells: vec![0; CELLS],
            hasher: TagHasher::new(secret),
            block: 1,
        }
    }

    /// How many accounts are tracked.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The tracked account with this id.
    #[inline]
    pub fn get(&self, id: u32) -> &Account {
        &self.entries[id as usize]
    }

    /// The tracked account with this id, mutable.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut Account {
        &mut self.entries[id as usize]
    }

    /// The hash of an account, for [`Accounts::touch`] and [`Accounts::refer`].
    #[inline]
    pub fn hash(&self, key: &Pubkey) -> u64 {
        self.hasher.hash64(key)
    }

    /// Prefetches what [`Accounts::refer`] will read.
    #[inline]
    pub fn touch(&self, hash: u64) -> u64 {
        self.table.touch(hash)
    }

    /// Prefetches what [`Accounts::forgo`] will read.
    #[inline]
    pub fn touch_known(&self, id: u32) -> u64 {
        let account = &self.entries[id as usize];
        // Most accounts are named by only one transaction.
        if account.references == 1 { self.table.touch(u64::from(account.hash) << 32) } else { 0 }
    }

    /// Counts a reference to the account `key`, whose [`Accounts::hash`] is `hash`, and returns its id; `None` if the
    /// table is full.
    #[inline]
    pub fn refer(&mut self, key: &Pubkey, hash: u64) -> Option<u32> {
        let entries = &self.entries;
        if let Some(id) = self.table.find(hash, |id| entries[id].key == *key) {
            self.entries[id].references += 1;
            return Some(id as u32);
        }
        let id = self.free.pop()?;
        self.table.insert(hash, id as usize);
        let hash = (hash >> 32) as u32;
        let cell = self.cells[cell(hash)];
        let spent = if (cell >> 32) as u32 == self.block { cell as u32 } else { 0 };
        let spent_block = self.block;
        let account = &mut self.entries[id as usize];
        (account.key, account.hash, account.references) = (*key, hash, 1);
        (account.spent, account.spent_block) = (spent, spent_block);
        Some(id)
    }

    /// Drops a reference; an account without references is forgotten.
    #[inline]
    pub fn forgo(&mut self, id: u32) {
        let account = &mut self.entries[id as usize];
        account.references -= 1;
        if account.references > 0 {
            return;
        }
        assert!(account.is_free() && account.queue == NONE, "who locks or waits also refers");
        account.capped = false;
        let hash = account.hash;
        if account.spent > 0 && account.spent_block == self.block {
            let place = cell(hash);
            // A cell of an earlier block has a smaller upper half.
            self.cells[place] = self.cells[place].max(u64::from(self.block) << 32 | u64::from(account.spent));
        }
        self.table.remove(u64::from(hash) << 32, id as usize);
        self.free.push(id);
    }

    /// Starts a block, with nothing spent yet.
    pub fn begin_block(&mut self) {
        self.block = self.block.checked_add(1).expect("fewer than 2^32 blocks");
    }

    /// The current block's number, counted by this table.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// Upper bound of the compute units spent in this block on transactions that write the account.
    #[inline]
    pub fn spent(&self, id: u32) -> u32 {
        let account = &self.entries[id as usize];
        if account.spent_block == self.block { account.spent } else { 0 }
    }

    /// Adds to the compute units spent.
    #[inline]
    pub fn spend(&mut self, id: u32, cost: u32) {
        let spent = self.spent(id) + cost;
        let block = self.block;
        let account = &mut self.entries[id as usize];
        (account.spent, account.spent_block) = (spent, block);
    }

    /// Returns compute units that were spent in `block`.
    #[inline]
    pub fn refund(&mut self, id: u32, block: u32, cost: u32) {
        if block == self.block {
            let spent = self.spent(id).checked_sub(cost).expect("no more comes back than was spent");
            self.entries[id as usize].spent = spent;
        }
    }
}

/// Returns the cell: the lower bits of the stored half hash, since the table uses the upper ones.
#[inline]
fn cell(hash: u32) -> usize {
    hash as usize % CELLS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refer(accounts: &mut Accounts, key: Pubkey) -> Option<u32> {
        let hash = accounts.hash(&key);
        accounts.refer(&key, hash)
    }

    #[test]
    fn a_forgotten_account_keeps_its_sum_within_the_block() {
        let mut accounts = Accounts::new(4, 9);
        let id = refer(&mut accounts, [1; 32]).unwrap();
        accounts.spend(id, 700);
        accounts.forgo(id);
        assert_eq!(accounts.len(), 0);
        let id = refer(&mut accounts, [1; 32]).unwrap();
        assert_eq!(accounts.spent(id), 700);
        accounts.spend(id, 5);
        accounts.forgo(id);
        accounts.begin_block();
        let id = refer(&mut accounts, [1; 32]).unwrap();
        assert_eq!(accounts.spent(id), 0);
    }

    #[test]
    fn no_more_accounts_than_room() {
        let mut accounts = Accounts::new(2, 9);
        let ids: Vec<_> = (0..3).map(|i| refer(&mut accounts, [i; 32])).collect();
        assert!(ids[0].is_some() && ids[1].is_some() && ids[2].is_none());
        assert_eq!(refer(&mut accounts, [0; 32]), ids[0]);
        accounts.forgo(ids[1].unwrap());
        assert!(refer(&mut accounts, [2; 32]).is_some());
    }
}
