//! identity: where the operator of a running node changes its keys, and what a new identity finds in the ledger folder.
//!
//! reads   a key's file; towers in the ledger folder; the vote account
//! writes  a request to tower

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_keys::{self as keys, KeyError};
use hearth_ledger::{Ledger, VoteState};
use hearth_pipeline::identity::{IdentityDesk, IdentityError, IdentityRequest, IdentityStatus, Role};
use hearth_pipeline::tower::{SavedError, found_tower};
use hearth_pipeline::voters::VoterDesk;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;

/// Where the operator changes the keys of a node in a cluster.
#[derive(Clone, Default)]
pub struct Desks {
    /// Which keys sign its votes.
    pub voters: Option<Arc<VoterDesk>>,
    /// Its identity.
    pub identity: Option<Arc<IdentitySwitch>>,
}

/// Why a node does not take an identity.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// Its key cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its tower cannot be read, or is damaged.
    #[error("{0}; move the file away to take the votes of the vote account in place of it")]
    Tower(#[from] SavedError),
    /// It has no tower here, and one is required.
    #[error(
        "Unable to load tower file for identity {}: there is none in {}, neither tower-{}.bin of Hearth nor \
         tower-1_9-{}.bin of Agave",
        encode_32(node),
        folder.display(),
        encode_32(node),
        encode_32(node)
    )]
    NoTower {
        /// The identity.
        node: Pubkey,
        /// The ledger folder.
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
        Self { desk, folder: folder.to_owned(), node_of, vote_account, leads }
    }

    /// Asks the node to take the identity of a key's file. [`Self::status`] says when it has.
    ///
    /// # Errors
    ///
    /// The key or its tower cannot be read; there is no tower, and one is required; another change is under way.
    pub fn request(&self, path: &Path, requires_tower: bool) -> Result<(), SwitchError> {
        let identity = keys::read_private(path)?;
        let node = identity.public;
        let tower = found_tower(&self.folder, &node)?;
        if requires_tower && tower.is_none() {
            return Err(SwitchError::NoTower { node, folder: self.folder.clone() });
        }
        if self.status().identity == node {
            self.desk.forget_failure();
            return Ok(());
        }
        let vote_account = self.vote_account.filter(|account| (self.node_of)(account) == Some(node));
        let leads = self.leads && vote_account == self.vote_account;
        let tower = tower.filter(|_| vote_account.is_some());
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
        assert!(why.contains(&format!("tower-{}.bin", encode_32(&node))), "{why}");
        assert!(!switch.status().is_changing);
        std::fs::write(tower_file(folder.path(), &node), [1; 90]).unwrap();
        assert!(matches!(switch.request(&path, false), Err(SwitchError::Tower(_))), "a damaged one is no missing one");
        std::fs::remove_file(tower_file(folder.path(), &node)).unwrap();
        save_tower(folder.path(), &hearth_consensus::Tower::default().save(&node)).unwrap();
        switch.request(&path, true).unwrap();
        assert!(switch.status().is_changing);
        assert!(matches!(switch.request(&path, true), Err(SwitchError::Busy(IdentityError::Busy))));
        let missing = switch.request(&folder.path().join("none.json"), false).unwrap_err();
        assert!(matches!(missing, SwitchError::Key(KeyError::Io { .. })), "{missing}");
    }
}
