//! What the tiles need of gossip, as it was a moment ago.
//!
//! reads   what gossip puts in
//! writes  the same, to whoever looks
//! memory  some 150 B a node, twice while it is replaced; what is told beside that, see there
//!
//! Gossip replaces it whole; a tile looks at the number first, and takes a lock only when that has changed.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, RwLock};

use hearth_wire::Pubkey;

use crate::ancestors::ConfirmedBlocks;
use crate::gossip::RepairPeer;
use crate::reports::Reports;
use crate::turbine::Contact;

/// The nodes, by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Where this node takes shreds.
    pub own_tvu: Option<SocketAddrV4>,
    /// Others that take shreds.
    pub tvu: Vec<Contact>,
    /// Others that serve them.
    pub repair: Vec<RepairPeer>,
    /// Where each of the others takes transactions over QUIC, and votes, if it says so.
    pub tpu: Vec<(Pubkey, Option<SocketAddrV4>, Option<SocketAddrV4>)>,
}

/// The newest view.
#[derive(Debug, Default)]
pub struct Views {
    newest: RwLock<Arc<View>>,
    number: AtomicU64,
    /// What is told of single slots beside that.
    pub reports: Reports,
    /// What consensus tells of blocks, for who asks for ancestors.
    pub confirmed: ConfirmedBlocks,
}

impl Views {
    /// Puts a view in, where it is another than the newest.
    pub fn put(&self, view: View) {
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        if **newest != view {
            *newest = Arc::new(view);
            self.number.fetch_add(1, SeqCst);
        }
    }

    /// How often it has changed.
    pub fn number(&self) -> u64 {
        self.number.load(SeqCst)
    }

    /// The newest.
    pub fn newest(&self) -> Arc<View> {
        Arc::clone(&self.newest.read().unwrap_or_else(PoisonError::into_inner))
    }
}
