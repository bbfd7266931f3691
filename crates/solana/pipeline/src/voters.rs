//! voters: the keys that may sign the node's votes, which its operator can change while the node runs.
//!
//! reads   keys that the operator hands over
//! writes  addresses for tower, keys for sign
//! memory  at most [`VOTERS_MAX`] keys, each in a locked page, and their addresses
//!
//! Tower names the voter in a vote's message, and sign has the keys. The operator's [`VoterDesk`] gives a key to sign
//! before tower learns its address, and removes addresses from tower before sign drops the keys. So tower names only
//! voters whose keys sign has, but for a vote that is on its way while its key is removed: sign refuses that one. Sign
//! takes changes over at each vote and at each housekeeping, so that removed keys are gone a moment later.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use hearth_keys::Keypair;
use hearth_wire::Pubkey;
use parking_lot::Mutex;

/// Maximum number of keys.
pub const VOTERS_MAX: usize = 4;

/// Why a key is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VoterError {
    /// The key is already there.
    #[error("Authorized voter already present")]
    Present,
    /// The maximum number of keys is reached.
    #[error("There are {VOTERS_MAX} authorized voters already: remove all first")]
    TooMany,
    /// Sign has stopped.
    #[error("The node is stopping")]
    Stopped,
}

enum Change {
    Add(Keypair),
    RemoveAll,
}

#[derive(Debug)]
struct List {
    voters: Vec<Pubkey>,
    /// Whether keys were ever removed.
    is_cut: bool,
}

/// The addresses of the keys that may sign votes, for tower.
#[derive(Clone, Debug)]
pub struct Voters(Arc<Mutex<List>>);

impl Voters {
    /// Starts with these addresses.
    fn of(voters: Vec<Pubkey>) -> Self {
        Self(Arc::new(Mutex::new(List { voters, is_cut: false })))
    }

    /// Starts with a single key, such as the identity.
    pub fn one(voter: Pubkey) -> Self {
        Self::of(vec![voter])
    }

    /// Returns the key that signs a vote: the account's authorized voter, or the identity if that is unknown. `None` if
    /// the node lacks the key: the vote program would refuse another key's vote, but charge its fee.
    pub fn choose(&self, authorized: Option<&Pubkey>, identity: &Pubkey) -> Option<Pubkey> {
        let voter = *authorized.unwrap_or(identity);
        self.0.lock().voters.contains(&voter).then_some(voter)
    }

    /// Returns whether sign may lack the key that a vote in flight names.
    pub fn were_removed(&self) -> bool {
        self.0.lock().is_cut
    }
}

/// The keys that may sign votes, for sign.
pub struct VoterKeys {
    /// Whether the identity may sign.
    has_identity: bool,
    keys: Vec<Keypair>,
    changes: Option<Receiver<Change>>,
}

impl VoterKeys {
    /// Creates a set that always holds only the identity.
    pub fn identity_alone() -> Self {
        Self { has_identity: true, keys: vec![], changes: None }
    }

    /// Applies the operator's changes.
    pub(crate) fn update(&mut self) {
        while let Some(change) = self.changes.as_ref().and_then(|changes| changes.try_recv().ok()) {
            match change {
                Change::Add(key) => self.keys.push(key),
                Change::RemoveAll => {
                    self.keys.clear();
                    self.has_identity = false;
                }
            }
        }
    }

    /// Returns the key whose address satisfies a condition, among these keys and the identity's if that may sign.
    pub(crate) fn find<'a>(&'a self, identity: &'a Keypair, is_voter: impl Fn(&Pubkey) -> bool) -> Option<&'a Keypair> {
        let identity = Some(identity).filter(|_| self.has_identity);
        identity.into_iter().chain(&self.keys).find(|key| is_voter(&key.public_key()))
    }
}

/// The operator's interface to the keys that may sign votes.
pub struct VoterDesk {
    voters: Voters,
    changes: Sender<Change>,
}

impl VoterDesk {
    /// Starts with these keys, or with the identity alone if there are none. Also returns the parts for tower and for
    /// sign.
    pub fn new(identity: Pubkey, keys: Vec<Keypair>) -> (Self, Voters, VoterKeys) {
        let (changes, received) = channel();
        let has_identity = keys.is_empty();
        let voters = match has_identity {
            true => Voters::one(identity),
            false => Voters::of(keys.iter().map(Keypair::public_key).collect()),
        };
        let keys = VoterKeys { has_identity, keys, changes: Some(received) };
        (Self { voters: voters.clone(), changes }, voters, keys)
    }

    /// Lets a key sign votes from the next one on.
    ///
    /// # Errors
    /// The key may already sign, there are too many keys, or the node is stopping.
    pub fn add(&self, key: Keypair) -> Result<(), VoterError> {
        let mut list = self.voters.0.lock();
        let address = key.public_key();
        if list.voters.contains(&address) {
            return Err(VoterError::Present);
        }
        if list.voters.len() >= VOTERS_MAX {
            return Err(VoterError::TooMany);
        }
        // Before tower can name it.
        self.changes.send(Change::Add(key)).map_err(|_| VoterError::Stopped)?;
        list.voters.push(address);
        Ok(())
    }

    /// Removes all keys, the identity's included.
    ///
    /// # Errors
    /// The node is stopping.
    pub fn remove_all(&self) -> Result<(), VoterError> {
        let mut list = self.voters.0.lock();
        list.voters.clear();
        list.is_cut = true;
        self.changes.send(Change::RemoveAll).map_err(|_| VoterError::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> Keypair {
        Keypair::from_seed(&[seed; 32]).expect("a page may be locked")
    }

    fn found(keys: &VoterKeys, identity: &Keypair, wanted: &Pubkey) -> bool {
        keys.find(identity, |voter| voter == wanted).is_some()
    }

    #[test]
    fn identity_signs_unless_other_keys_are_given() {
        let identity = key(1);
        let [own, other] = [identity.public_key(), key(2).public_key()];
        let (_, voters, keys) = VoterDesk::new(own, vec![]);
        assert_eq!(voters.choose(None, &own), Some(own));
        assert_eq!(voters.choose(Some(&own), &own), Some(own));
        assert_eq!(voters.choose(Some(&other), &own), None, "the vote program would refuse the identity's");
        assert!(found(&keys, &identity, &own) && !found(&keys, &identity, &other));
        let (_, voters, keys) = VoterDesk::new(own, vec![key(2)]);
        assert_eq!(voters.choose(Some(&other), &own), Some(other));
        assert_eq!((voters.choose(Some(&own), &own), voters.choose(None, &own)), (None, None));
        assert!(!found(&keys, &identity, &own) && found(&keys, &identity, &other));
        assert!(!voters.were_removed());
    }

    #[test]
    fn keys_come_and_go_while_the_node_runs() {
        let identity = key(1);
        let [own, other] = [identity.public_key(), key(2).public_key()];
        let (desk, voters, mut keys) = VoterDesk::new(own, vec![]);
        desk.add(key(2)).unwrap();
        assert_eq!(desk.add(key(2)), Err(VoterError::Present));
        assert_eq!(voters.choose(Some(&other), &own), Some(other));
        keys.update();
        assert!(found(&keys, &identity, &own) && found(&keys, &identity, &other));
        desk.remove_all().unwrap();
        assert!(voters.were_removed());
        assert_eq!(voters.choose(Some(&other), &own), None);
        keys.update();
        assert!(!found(&keys, &identity, &own) && !found(&keys, &identity, &other));
        // The identity's key comes back like any other.
        desk.add(key(1)).unwrap();
        keys.update();
        assert_eq!(voters.choose(Some(&own), &own), Some(own));
        assert!(found(&keys, &identity, &own));
        for seed in 2..=VOTERS_MAX as u8 {
            desk.add(key(seed)).unwrap();
        }
        assert_eq!(desk.add(key(99)), Err(VoterError::TooMany));
        drop(keys);
        desk.remove_all().unwrap_err();
        assert_eq!(desk.add(key(99)), Err(VoterError::Stopped));
    }
}
