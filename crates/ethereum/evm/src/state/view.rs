//! A readable state after one block: cheap to clone, and unchanged while it is held.
//!
//! reads   the tables' newest values, and what later blocks replaced
//! memory  while it is held, what each later block replaced

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use revm::DatabaseRef;
use revm::bytecode::Bytecode;
use revm::database::CacheDB;
use revm::state::AccountInfo;

use super::code::NO_CODE;
use super::flat_state::SlimAccount;
use super::version::Version;
use super::{Account, AccountProof, StateError, StorageProof, Tables};

/// A state that can look up many accounts at once.
pub trait Accounts: DatabaseRef {
    /// The accounts, in the order of their addresses.
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Option<AccountInfo>>, Self::Error> {
        addresses.iter().map(|address| self.basic_ref(*address)).collect()
    }
}

impl<D: DatabaseRef> Accounts for CacheDB<D> {}

/// The state after one block. Its contents never change, whatever the writer does. Reading waits only briefly, for the
/// writing of a thousandth of a block. With a longer history, reading an older state also waits while the writer
/// indexes replaced values.
#[derive(Clone)]
pub struct StateView {
    pub(super) tables: Arc<Tables>,
    pub(super) version: Arc<Version>,
}

impl StateView {
    /// Returns the block's number.
    pub fn number(&self) -> u64 {
        self.version.number
    }

    /// Returns the block's hash.
    pub fn block_hash(&self) -> B256 {
        self.version.block_hash
    }

    /// The root of the state's trie.
    pub fn state_root(&self) -> B256 {
        self.version.state_root
    }

    /// The hash of block `number`: of this block, or of one of the 255 before it.
    pub fn hash_of(&self, number: u64) -> Option<B256> {
        self.version.hash_of(number)
    }

    /// Returns the bytes that `older`, an earlier state, keeps in memory while it is held: what later blocks replaced.
    /// For a view of another state, the result is unbounded.
    pub fn bytes_since(&self, older: &Self) -> u64 {
        let is_of_one = Arc::ptr_eq(&self.tables, &older.tables);
        if is_of_one { self.version.bytes_since(&older.version) } else { u64::MAX }
    }

    /// Returns the account, if it exists.
    pub fn account(&self, address: &Address) -> Option<Account> {
        self.tables.account(&self.version, address).map(|slim| self.widen(&slim))
    }

    /// Returns the value of an account's slot; zero if nothing was written.
    pub fn storage(&self, address: &Address, slot: &U256) -> U256 {
        U256::from_be_bytes(self.tables.slot(&self.version, &(*address, slot.to_be_bytes())))
    }

    /// The code with this hash. Codes of later blocks are found too.
    pub fn code(&self, hash: &B256) -> Option<Bytes> {
        self.tables.flat.codes.by_hash(hash).map(Bytecode::original_bytes)
    }

    /// Returns the proof of the account and its slots under this state's root. The newest state's proofs are always
    /// available, older ones' while the nodes are kept.
    pub fn proof(&self, address: &Address, slots: &[U256]) -> Result<AccountProof, StateError> {
        let Tables { flat, tries, .. } = &*self.tables;
        let version = &self.version;
        let words: Vec<[u8; 32]> = slots.iter().map(U256::to_be_bytes).collect();
        let slot = |address: &Address, slot: &[u8; 32]| self.tables.slot(version, &(*address, *slot));
        let account = |address: &Address| self.tables.account(version, address);
        let proven = tries.prove(&version.top, flat, address, &words, account, slot);
        let proven = proven.ok_or(StateError::NoProofs(version.number))?;
        let prove = |(slot, proof): (&U256, Vec<Bytes>)| StorageProof {
            slot: *slot,
            value: self.storage(address, slot),
            proof,
        };
        Ok(AccountProof {
            address: *address,
            account: self.account(address).unwrap_or_default(),
            storage_root: proven.storage_root,
            proof: proven.account,
            storage: slots.iter().zip(proven.slots).map(prove).collect(),
        })
    }

    fn info(&self, slim: &SlimAccount) -> AccountInfo {
        let (balance, nonce) = (slim.balance(), slim.nonce());
        if slim.code() == NO_CODE {
            // Not the empty code itself: all threads would count their references to it in one cache line.
            return AccountInfo { balance, nonce, code_hash: KECCAK256_EMPTY, account_id: None, code: None };
        }
        let (code_hash, code) = self.tables.flat.codes.get(slim.code());
        AccountInfo::new(balance, nonce, *code_hash, code.clone())
    }

    pub(super) fn widen(&self, slim: &SlimAccount) -> Account {
        let code_hash = self.tables.flat.codes.get(slim.code()).0;
        Account { nonce: slim.nonce(), balance: slim.balance(), code_hash }
    }
}

impl std::fmt::Debug for StateView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateView").field("number", &self.number()).field("root", &self.state_root()).finish()
    }
}

impl Accounts for StateView {
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Option<AccountInfo>>, StateError> {
        let found = self.tables.accounts(&self.version, addresses);
        Ok(found.into_iter().map(|slim| slim.map(|slim| self.info(&slim))).collect())
    }
}

impl DatabaseRef for StateView {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.tables.account(&self.version, &address).map(|slim| self.info(&slim)))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.tables.flat.codes.by_hash(&hash).cloned().ok_or(StateError::NoCode(hash))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        Ok(self.storage(&address, &slot))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        Ok(self.hash_of(number).unwrap_or_default())
    }
}
