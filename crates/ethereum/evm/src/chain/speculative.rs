//! The state after a block that is executed but not sealed: the next block is executed on it meanwhile.
//!
//! reads   the state before that block, and what the block changes
//! memory  as much as the block's code; its changes are shared with the thread that seals it
//! source  EIP-2935, and what `BLOCKHASH` gives
//!
//! Everything about that block is known but its hash. Code that reads the hash waits for it: `BLOCKHASH` of that block,
//! and the slot of the history contract that will hold it. The system call that writes this slot is left out of the
//! execution, and its one write is added once the hash is known ([`AheadView::complete`]). That is correct while the
//! contract has Ethereum's code: the call writes only this slot, and nothing else writes there. With other code nothing
//! is executed ahead ([`AheadView::is_usual`]).

use std::sync::{Arc, LazyLock, OnceLock};

use alloy_eips::eip2935::{HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE};
use alloy_primitives::map::Entry;
use alloy_primitives::{Address, B256, U256, keccak256};
use revm::DatabaseRef;
use revm::bytecode::Bytecode;
use revm::primitives::hardfork::SpecId;
use revm::state::AccountInfo;

use super::overlay::Overlay;
use crate::exec::{BlockEnv, system};
use crate::state::{AccountChange, Accounts, Changes, StateError, StateView};

/// The hash of the history contract's code.
static HISTORY_CODE_HASH: LazyLock<B256> = LazyLock::new(|| keccak256(&HISTORY_STORAGE_CODE));

/// A hash that is there later, or never.
type FutureHash = Arc<OnceLock<Option<B256>>>;

/// Publishes a block's hash to the threads that wait for it. If dropped before that, it reports that there will be
/// none.
pub(super) struct HashPublisher(FutureHash);

impl HashPublisher {
    pub(super) fn tell(&self, hash: B256) {
        let first = self.0.set(Some(hash));
        assert!(first.is_ok(), "a block has one hash");
    }
}

impl Drop for HashPublisher {
    fn drop(&mut self) {
        // Nothing else happens once the hash is published.
        let _ = self.0.set(None);
    }
}

/// The state after a block whose hash is not known yet.
pub(super) struct AheadView {
    state: Overlay,
    number: u64,
    hash: FutureHash,
    /// Whether the history contract has its code.
    has_history: bool,
    /// Whether the next block stores the hash there.
    keeps_history: bool,
}

impl AheadView {
    /// Creates the state that `changes` of block `number` make of `base`, and the publisher of the block's hash.
    pub(super) fn new(base: StateView, number: u64, changes: Arc<Changes>) -> (Self, HashPublisher) {
        assert_eq!(base.number() + 1, number, "a block changes the state after its parent");
        let hash = FutureHash::default();
        let teller = HashPublisher(hash.clone());
        let (has_history, keeps_history) = (false, false);
        let mut view = Self { state: Overlay::new(base, changes), number, hash, has_history, keeps_history };
        view.has_history = view.history_code().is_some_and(|code| code == *HISTORY_CODE_HASH);
        (view, teller)
    }

    fn history_code(&self) -> Option<B256> {
        let info = self.basic_ref(HISTORY_STORAGE_ADDRESS).ok()??;
        (!info.is_empty_code_hash()).then_some(info.code_hash)
    }

    /// Whether the next block can be executed before the hash is known.
    pub(super) fn is_usual(&self) -> bool {
        self.has_history || self.history_code().is_none()
    }

    /// The next block goes by these rules.
    pub(super) fn begin(&mut self, spec: SpecId) {
        self.keeps_history = self.has_history && spec.is_enabled_in(SpecId::PRAGUE);
    }

    /// Adds to the next block what depends on the hash: its parent's hash, and the write to the history contract.
    pub(super) fn complete(&self, hash: B256, env: &mut BlockEnv, changes: &mut Changes) -> Result<(), StateError> {
        env.parent_hash = Some(hash);
        if !self.keeps_history {
            return Ok(());
        }
        let change = match changes.accounts.entry(HISTORY_STORAGE_ADDRESS) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let info = self.basic_ref(HISTORY_STORAGE_ADDRESS)?;
                new.insert(AccountChange { info, ..AccountChange::default() })
            }
        };
        change.storage.insert(system::history_slot(self.number), hash.into());
        Ok(())
    }

    /// Waits for the hash. Panics if there will be none, because the thread that seals the block has panicked.
    fn hash(&self) -> B256 {
        self.hash.wait().expect("the block before was not given up")
    }
}

impl Accounts for AheadView {
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Option<AccountInfo>>, StateError> {
        let mut found = self.state.base.accounts(addresses)?;
        for (address, found) in addresses.iter().zip(&mut found) {
            if let Some(change) = self.state.changes.accounts.get(address) {
                found.clone_from(&change.info);
            }
        }
        Ok(found)
    }
}

impl DatabaseRef for AheadView {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        self.state.basic_ref(address)
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.state.code_by_hash_ref(hash)
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        if self.keeps_history && address == HISTORY_STORAGE_ADDRESS && slot == system::history_slot(self.number) {
            return Ok(self.hash().into());
        }
        self.state.storage_ref(address, slot)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        if number == self.number { Ok(self.hash()) } else { self.state.block_hash_ref(number) }
    }
}
