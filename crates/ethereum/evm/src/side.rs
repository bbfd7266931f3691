//! A second ledger whose transactions are in the same blocks: the interface that a chain requires.
//!
//! In a block, the side ledger's transactions come first and the EVM's after them. Withdrawals to the EVM are credited
//! at the block's end; deposits from it are known once the EVM's transactions have run. The header holds a commitment
//! to the side ledger's state in between (`parentBeaconBlockRoot`, which contracts read by EIP-4788), and the deposits
//! follow from the receipts. So the block's hash covers both ledgers.
//!
//! On disk the side ledger is written first, and its record of a block counts only if the chain's own commit follows: a
//! start passes it the newest block, and it truncates later records ([`SideKind::open`]).
//!
//! A chain knows the ledger's transactions only as bytes, and calls it through a trait object: each call is for a whole
//! block or burst. A chain without a side ledger has zeros in the header's place.
//!
//! source  EIP-4788 (the root that contracts read), EIP-4895 (a withdrawal is credited without gas)

use std::any::Any;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use alloy_eips::eip4895::Withdrawal;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, Bytes};
use revm::primitives::hardfork::SpecId;

use crate::block::{Block, Receipt};
use crate::tx::SharedTx;

/// The most bytes of the side ledger's transactions in a block.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;

/// An error of a side ledger's own.
pub type SideError = Box<dyn std::error::Error + Send + Sync>;

/// A set, item by item, in the form that [`SideSet::add`] takes.
pub type SideItems = Box<dyn Iterator<Item = Result<Bytes, SideError>> + Send>;

/// A transaction of the side ledger with verified signatures.
#[derive(Clone, Debug)]
pub struct SideTx {
    /// The id that its ledger gives it.
    pub id: B256,
    /// Its bytes as received.
    pub raw: Bytes,
    /// As the ledger has decoded it.
    pub decoded: Arc<dyn Any + Send + Sync>,
}

/// Why the side ledger does not take a transaction, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SideRefusal {
    /// It is no transaction of that ledger, or its signatures are wrong.
    #[error("{0}")]
    Malformed(String),
    /// The pool of that ledger does not take it.
    #[error("{0}")]
    Pool(String),
    /// The pool took it, but it would not outlive this program.
    #[error("the transaction cannot be kept on disk: {0}")]
    NotKept(String),
}

/// The chain's parameters when its side ledger opens.
pub struct SideStart<'a> {
    /// The chain's folder; nothing for a chain in memory.
    pub dir: Option<&'a Path>,
    /// The chain id (EIP-155).
    pub chain_id: u64,
    /// The items of block zero's set; none if it is empty.
    pub items: &'a [Bytes],
    /// The commitment to the set of these items.
    pub items_commitment: B256,
    /// The chain's newest block.
    pub head: &'a Block,
    /// The hash of its block of a number, as far back as it knows.
    pub hash_of: &'a dyn Fn(u64) -> Option<B256>,
    /// Up to which block everything was on disk.
    pub synced: u64,
    /// How many of the last blocks to keep records of; 0 for all.
    pub retain_blocks: u64,
}

/// One kind of side ledger: opens it for a chain, and knows its part of a genesis.
pub trait SideKind: Debug + Send + Sync {
    /// The address of the contract that takes value to that ledger: each of its logs is a crossing.
    fn address(&self) -> Address;

    /// The contract, as a genesis holds it.
    fn contract(&self) -> GenesisAccount;

    /// Returns the commitment to the set of these items.
    ///
    /// # Errors
    /// The set is invalid; the reason.
    fn commitment_of(&self, items: &[Bytes]) -> Result<B256, String>;

    /// Opens the ledger as it was after the chain's newest block.
    ///
    /// # Errors
    /// Its files are damaged, or not of this chain; where [`SideKind::is_behind`], they end before the chain does.
    fn open(&self, start: &SideStart<'_>) -> Result<Box<dyn SideLedger>, SideError>;

    /// Whether a chain of these blocks cannot be opened for want of the ledger's newest records.
    fn is_behind(&self, error: &SideError) -> bool;

    /// Removes that ledger's files from the folder of a chain that is not open.
    ///
    /// # Errors
    /// The file system's.
    fn clear(&self, dir: &Path) -> Result<(), SideError>;
}

/// The side ledger of a chain, and what waits for it. Its writer is the thread that makes the chain's blocks.
pub trait SideLedger: Any + Send + Sync {
    /// Whether bytes are meant for this ledger and not for the EVM's.
    fn is_own(&self, raw: &[u8]) -> bool;

    /// Decodes transactions and verifies their signatures, in one burst.
    fn verify(&self, raw: &[&Bytes]) -> Vec<Result<SideTx, SideRefusal>>;

    /// Lets transactions into the pool, and keeps them on disk: the id of each, or why it is not taken.
    fn submit(&self, raw: &[&Bytes]) -> Vec<Result<B256, SideRefusal>>;

    /// Whether a transaction waits for a block.
    fn waits(&self, id: &B256) -> bool;

    /// Returns the waiting transactions that fit in a block of `bytes_max` bytes. They stay in the pool.
    fn best(&self, bytes_max: usize) -> Vec<SideTx>;

    /// Executes the transactions that a block begins with, under these rules, over the newest set.
    fn begin(&self, spec: SpecId, txs: &[SideTx]) -> Box<dyn SideBlock>;

    /// Prepares a block that sets the whole set to these items, and does nothing else here.
    ///
    /// # Errors
    /// The set is invalid.
    fn begin_with(&self, items: &[Bytes]) -> Result<Box<dyn SideBlock>, SideError>;

    /// Returns the commitment to the set as it is now.
    fn commitment(&self) -> B256;

    /// Whether nothing has ever happened here.
    fn is_untouched(&self) -> bool {
        self.commitment() == self.set().commitment()
    }

    /// Takes back all blocks after `number`; pending transactions are checked again.
    ///
    /// # Errors
    /// The file system's; the ledger is then of another block until it is opened again.
    fn rewind(&self, number: u64) -> Result<(), SideError>;

    /// Returns the set after the chain's newest block, to be read while later blocks change it.
    ///
    /// # Errors
    /// The newest block has changed. An item is an error if the chain has gone back meanwhile.
    fn items(&self, number: u64, hash: B256) -> Result<SideItems, SideError>;

    /// As [`SideLedger::items`], but the set that the block's header commits to: before the deposits of that block's
    /// EVM transactions.
    ///
    /// # Errors
    /// As for [`SideLedger::items`].
    fn items_of_header(&self, number: u64, hash: B256) -> Result<SideItems, SideError>;

    /// An empty set, to be filled and to take this ledger's place.
    fn set(&self) -> Box<dyn SideSet>;

    /// Tells the pool that the set is another one.
    fn reset_pool(&self);

    /// Rewrites the pool's files, so that included transactions are not pending after a restart.
    ///
    /// # Errors
    /// The file system's.
    fn keep_pool(&self) -> Result<(), SideError>;

    /// Returns a function that brings all that is committed to disk, from any thread.
    fn syncer(&self) -> Box<dyn Fn() -> Result<(), String> + Send + Sync>;
}

/// A block's part in the side ledger. Until it is committed, dropping it undoes it.
pub trait SideBlock: Debug + Send + Sync {
    /// Returns the header's commitment.
    fn commitment(&self) -> B256;

    /// Returns the withdrawals, which the EVM credits after its transactions.
    fn withdrawals(&self) -> &[Withdrawal];

    /// Receives the deposits that the EVM's transactions of the block left with the contract.
    fn receive(&mut self, number: u64, txs: &[SharedTx], receipts: &[Receipt]);

    /// The transactions that are in the block, in order.
    fn transactions(&self) -> &[SideTx];

    /// The ids of those given that are not, and why.
    fn refused(&self) -> Vec<(B256, String)>;

    /// Whether no transaction was given.
    fn is_untouched(&self) -> bool;

    /// Abandons the block; transactions that it refused leave the pool anyway.
    fn give_up(&self);

    /// Stores the block's changes, before the chain stores the block.
    ///
    /// # Errors
    /// The file system's: nothing is stored then.
    fn commit(&mut self, number: u64, hash: B256) -> Result<(), SideError>;

    /// Updates the pool after the committed block is published, and cleans up the ledger's files. Each step does what
    /// it can: returns the errors.
    fn shown(&self) -> Vec<SideError>;
}

/// A set that is being made of items that may come from anybody: it is believed by its commitment alone.
pub trait SideSet: Send {
    /// Adds the next item; says whether it can be there.
    fn add(&mut self, item: &[u8]) -> bool;

    /// Returns the commitment to the set so far.
    fn commitment(&self) -> B256;

    /// Replaces the ledger's set with this one, as the set after `block`, whose header commits to it. The old set is
    /// removed, also from disk.
    ///
    /// # Errors
    /// The file system's. It must then be called again with the same block.
    fn restore(self: Box<Self>, block: &Block) -> Result<(), SideError>;
}
