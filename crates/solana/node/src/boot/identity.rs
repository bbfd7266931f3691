//! identity: where the operator of a running node changes its keys, and what a new identity finds in the ledger folder.
//!
//! reads   a key's file; towers in the ledger folder; the vote account
//! writes  a request to tower

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hearth_keys::{self as keys, KeyError};
use hearth_ledger::{Ledger, VoteState};
use hearth_pipeline::capture::Tap;
use hearth_pipeline::identity::{IdentityDesk, IdentityError, IdentityRequest, IdentityStatus, Role};
use hearth_pipeline::tower::{SavedError, found_tower};
use hearth_pipeline::voters::VoterDesk;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use parking_lot::Mutex;

/// The switches by which the operator changes the keys of a node in a cluster; `None` where there is none.
#[derive(Clone, Default)]
pub struct Desks {
    /// Changes the keys that sign its votes.
    pub voters: Option<Arc<VoterDesk>>,
    /// Changes the identity of the node while it runs.
    pub identity: Option<Arc<IdentitySwitch>>,
}

/// Why a node does not take an identity.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// Its key cannot be read, or everybody can read it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its tower cannot be read, or is damaged.
    #[error("{0}; move the file away to take the votes of the vote account in place of it")]
    Tower(#[from] SavedError),
    /// It has no tower here, and one is required.
    #[error(
        "Unable to load tower file for identity {}: there is none of it in {}, neither tower.bin nor tower-{}.bin of \
         Hearth, nor tower-1_9-{}.bin of Agave",
        encode_32(node),
        folder.display(),
        encode_32(node),
        encode_32(node)
    )]
    NoTower {
        /// The identity whose tower is required.
        node: Pubkey,
        /// The ledger folder that was searched for it.
        folder: PathBuf,
    },
    /// Another change is under way.
    #[error(transparent)]
    Busy(#[from] IdentityError),
}

/// Looks up the node that a vote account names, if there is such an account.
pub type NodeOfAccount = Box<dyn Fn(&Pubkey) -> Option<Pubkey> + Send + Sync>;

/// Changes the identity of a running node.
pub struct IdentitySwitch {
    desk: IdentityDesk,
    folder: PathBuf,
    node_of: NodeOfAccount,
    /// The account that the node votes with where its identity may.
    vote_account: Option<Pubkey>,
    /// Whether it makes blocks in its leader slots where its identity may vote.
    leads: bool,
    /// One request at a time: see [`Self::request`].
    requests: Mutex<()>,
    /// The recording of the session, if there is one: a session has one identity.
    session: OnceLock<Tap>,
}

impl IdentitySwitch {
    /// For a node with this ledger folder and vote account.
    pub fn new(
        desk: IdentityDesk,
        folder: &Path,
        node_of: NodeOfAccount,
        vote_account: Option<Pubkey>,
        leads: bool,
    ) -> Self {
        let (folder, requests) = (folder.to_owned(), Mutex::new(()));
        Self { desk, folder, node_of, vote_account, leads, requests, session: OnceLock::new() }
    }

    /// Ends this recording before the identity changes for the first time.
    pub fn close_before_change(&self, session: Tap) {
        // A node begins one session at most.
        let _ = self.session.set(session);
    }

    /// Asks the node to take the identity of a key's file. [`Self::status`] says when it has.
    ///
    /// # Errors
    ///
    /// The key or its tower cannot be read; there is no tower, and one is required; another change is under way.
    pub fn request(&self, path: &Path, requires_tower: bool) -> Result<(), SwitchError> {
        let identity = keys::read_private(path)?;
        let node = identity.public;
        // From here on no change begins. One that ends while the tower is read would leave a tower that lacks the last
        // votes.
        let _one = self.requests.lock();
        let status = self.status();
        if status.is_changing {
            return Err(IdentityError::Busy.into());
        }
        let tower = found_tower(&self.folder, &node)?;
        if requires_tower && tower.is_none() {
            return Err(SwitchError::NoTower { node, folder: self.folder.clone() });
        }
        if status.identity == node {
            self.desk.forget_failure();
            return Ok(());
        }
        let vote_account = self.vote_account.filter(|account| (self.node_of)(account) == Some(node));
        let leads = self.leads && vote_account == self.vote_account;
        let tower = tower.filter(|_| vote_account.is_some());
        self.session.get().into_iter().for_each(Tap::close);
        self.desk.request(IdentityRequest { key: identity.keypair, role: Role { vote_account, leads, tower } })?;
        Ok(())
    }

    /// The identity, and how far its last change is.
    pub fn status(&self) -> IdentityStatus {
        self.desk.status()
    }
}

/// The node that a vote account names, if there is such an account.
pub(super) fn node_of(ledger: &Ledger, account: &Pubkey) -> Option<Pubkey> {
    ledger.accounts().with(account, VoteState::of_account).flatten().map(|state| state.node)
}

#[cfg(test)]
mod tests {
    use hearth_pipeline::identity::IdentityWatch;
    use hearth_pipeline::tower::{save_tower, tower_file};

    use super::*;

    #[test]
    fn a_tower_is_required_only_where_the_operator_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id.json");
        let node = keys::create(&path).unwrap().public;
        let watch = IdentityWatch::from([1; 32]);
        let switch = IdentitySwitch::new(watch.desk(), folder.path(), Box::new(|_| None), None, true);
        let why = switch.request(&path, true).unwrap_err().to_string();
        let address = encode_32(&node);
        for name in ["tower.bin".to_owned(), format!("tower-{address}.bin"), format!("tower-1_9-{address}.bin")] {
            assert!(why.contains(&format!(" {name} ")), "{name}: {why}");
        }
        assert!(!switch.status().is_changing);
        std::fs::write(tower_file(folder.path(), &node), [1; 90]).unwrap();
        assert!(matches!(switch.request(&path, false), Err(SwitchError::Tower(_))), "a damaged one is no missing one");
        std::fs::remove_file(tower_file(folder.path(), &node)).unwrap();
        save_tower(folder.path(), &hearth_consensus::Tower::default().save(&node)).unwrap();
        switch.request(&path, true).unwrap();
        assert!(switch.status().is_changing);
        assert!(matches!(switch.request(&path, true), Err(SwitchError::Busy(IdentityError::Busy))));
        // Nor is the current identity taken for what was asked for meanwhile.
        let current = folder.path().join("current.json");
        let own = keys::create(&current).unwrap().public;
        let watch = IdentityWatch::from(own);
        let switch = IdentitySwitch::new(watch.desk(), folder.path(), Box::new(|_| None), None, true);
        let session = Tap::default();
        switch.close_before_change(session.clone());
        switch.request(&current, false).unwrap();
        assert!(!switch.status().is_changing, "it has this one");
        assert!(!session.is_closed());
        switch.request(&path, true).unwrap();
        assert!(session.is_closed(), "a session has one identity");
        assert!(matches!(switch.request(&current, false), Err(SwitchError::Busy(IdentityError::Busy))));
        let missing = switch.request(&folder.path().join("none.json"), false).unwrap_err();
        assert!(matches!(missing, SwitchError::Key(KeyError::Io { .. })), "{missing}");
    }
}
