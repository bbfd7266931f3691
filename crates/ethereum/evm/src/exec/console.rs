//! Detects whether a block's contracts called Hardhat's console, without checking each call.
//!
//! reads   the accounts that the execution reads
//! writes  one flag
//! memory  one flag
//! source  `console.sol` of Hardhat 2 and forge-std
//!
//! A call reads the callee's account first, and no other transaction has a reason to read this one. So a block whose
//! execution never reads it made no console call, and only other blocks are traced.

use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::{Address, B256, U256, address};
use revm::DatabaseRef;
use revm::state::{AccountInfo, Bytecode};

use crate::state::Accounts;

/// The address to which contracts send `console.log`: the text "console.log". It has no code.
pub const CONSOLE: Address = address!("000000000000000000636f6e736f6c652e6c6f67");

/// A state that records whether the console's account was read.
pub(crate) struct ConsoleProbe<'a, D> {
    view: &'a D,
    heard: AtomicBool,
}

impl<'a, D> ConsoleProbe<'a, D> {
    pub(crate) fn new(view: &'a D) -> Self {
        Self { view, heard: AtomicBool::new(false) }
    }

    /// Returns whether the console's account was read.
    pub(crate) fn heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    fn look(&self, address: &Address) {
        if *address == CONSOLE {
            self.heard.store(true, Ordering::Relaxed);
        }
    }
}

impl<D: Accounts> Accounts for ConsoleProbe<'_, D> {
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Option<AccountInfo>>, D::Error> {
        // This is called only for plain transfers, which call no contract.
        self.view.accounts(addresses)
    }
}

impl<D: DatabaseRef> DatabaseRef for ConsoleProbe<'_, D> {
    type Error = D::Error;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, D::Error> {
        self.look(&address);
        self.view.basic_ref(address)
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, D::Error> {
        self.view.code_by_hash_ref(code_hash)
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, D::Error> {
        self.view.storage_ref(address, index)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, D::Error> {
        self.view.block_hash_ref(number)
    }
}
