//! cluster: what shred needs to know to receive other leaders' shreds: the receiver's rules, the ledger and the store.

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Reader;

use super::receiver::ReceiverConfig;
use crate::identity::IdentityWatch;
use crate::repair::nonce::NonceKey;

/// Handles to the cluster's state, shared by the stages.
#[derive(Clone)]
pub struct Cluster {
    /// The node's identity; it begins with that of the receiver.
    pub identity: IdentityWatch,
    /// Rules of the receiver.
    pub receiver: ReceiverConfig,
    /// The ledger, for leaders and stakes.
    pub ledger: Arc<Ledger>,
    /// Reads the stored blocks: the roots of their sets, and whether they are whole.
    pub blocks: Reader,
    /// Verifies the nonces of repair responses.
    pub nonces: NonceKey,
}
