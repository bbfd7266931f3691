//! The EVM ledger: state, tries, execution, blocks, the pool, and the embedded sequencer.

pub mod blobs;
pub mod block;
pub mod blocks;
#[doc(hidden)]
pub mod builders;
pub mod chain;
mod checksummed;
pub mod exec;
pub mod genesis;
pub mod import;
pub mod limits;
pub mod parallel;
pub mod pool;
pub mod side;
pub mod state;
mod trie;
pub mod tx;

#[doc(hidden)]
pub use trie::root_of as trie_root_of;
