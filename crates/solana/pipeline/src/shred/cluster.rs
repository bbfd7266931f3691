//! The cluster whose shreds a node takes: its rules, its chain, its blocks.

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Reader;

use super::receiver::ReceiverConfig;
use crate::repair::nonce::NonceKey;

/// Who follows whom.
#[derive(Clone)]
pub struct Cluster {
    /// What to take.
    pub receiver: ReceiverConfig,
    /// The chain.
    pub ledger: Arc<Ledger>,
    /// The blocks that are there.
    pub blocks: Reader,
    /// By which answers of repair are known.
    pub nonces: NonceKey,
}
