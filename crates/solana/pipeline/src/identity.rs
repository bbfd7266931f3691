//! identity: the node's identity, which its operator can change while the node runs.
//!
//! reads   a key that the operator hands over
//! writes  the address for every tile that names the node; the key for sign
//! memory  a key in a locked page, from the request until sign takes it
//! drops   a request that tower cannot carry out: its reason is kept for the operator
//!
//! Tower decides when the identity changes: it lets a block in progress end, and puts the old identity's tower away. It
//! then commits. From that moment sign finds the new key before it answers anything else, and every tile finds the new
//! address the next time it looks. Where sign has a process of its own, tower writes the key to its
//! [pipe](crate::key_pipe) before it commits, and the page in this process is wiped. Whatever is on its way in the name
//! of the old identity is refused by sign, as any request is that does not name its key, and is lost as a lost packet
//! is.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use hearth_consensus::Tower;
use hearth_keys::Keypair;
use hearth_wire::Pubkey;
use parking_lot::Mutex;

use crate::key_pipe::KeySender;

/// Why the identity is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Another change is under way.
    #[error("Another change of the identity is under way")]
    Busy,
}

/// The identity that the operator wants.
pub struct IdentityRequest {
    /// The key pair of the wanted identity, in a locked page.
    pub key: Keypair,
    /// Its role in the cluster.
    pub role: Role,
}

/// The role of a node under an identity: whether it votes and makes blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The account that it votes with, if it votes.
    pub vote_account: Option<Pubkey>,
    /// Whether it makes blocks in its leader slots.
    pub leads: bool,
    /// Its tower, if it has one here.
    pub tower: Option<Tower>,
}

/// How far a change is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityStatus {
    /// The identity that the node's tiles use now.
    pub identity: Pubkey,
    /// Whether a change of it is under way.
    pub is_changing: bool,
    /// Why the last change was refused, if it was.
    pub failure: Option<String>,
}

struct State {
    current: Pubkey,
    wanted: Option<IdentityRequest>,
    /// The current identity's key, until sign takes it.
    key: Option<Keypair>,
    /// The pipe for keys if sign has a process of its own.
    pipe: Option<KeySender>,
    failure: Option<String>,
}

struct Shared {
    /// How often the identity was changed.
    changes: AtomicU64,
    /// How many requests were made: tower looks at them if there is a new one.
    requests: AtomicU64,
    state: Mutex<State>,
}

/// A handle by which the operator changes the identity.
#[derive(Clone)]
pub struct IdentityDesk(Arc<Shared>);

impl IdentityDesk {
    /// Asks for another identity.
    ///
    /// # Errors
    /// Another change is under way.
    pub fn request(&self, request: IdentityRequest) -> Result<(), IdentityError> {
        let mut state = self.0.state.lock();
        if state.wanted.is_some() {
            return Err(IdentityError::Busy);
        }
        state.failure = None;
        state.wanted = Some(request);
        self.0.requests.fetch_add(1, Release);
        Ok(())
    }

    /// Forgets why the last change was refused: the operator asks for what the node has.
    pub fn forget_failure(&self) {
        self.0.state.lock().failure = None;
    }

    /// How far the last change is.
    pub fn status(&self) -> IdentityStatus {
        let state = self.0.state.lock();
        let (is_changing, failure) = (state.wanted.is_some(), state.failure.clone());
        IdentityStatus { identity: state.current, is_changing, failure }
    }
}

/// The identity, as one tile or thread knows it.
#[derive(Clone)]
pub struct IdentityWatch {
    shared: Arc<Shared>,
    current: Pubkey,
    /// Up to which change this one has looked, and up to which request.
    changes: u64,
    requests: u64,
}

impl fmt::Debug for IdentityWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdentityWatch").field(&self.current).finish()
    }
}

/// An identity that nobody changes.
impl From<Pubkey> for IdentityWatch {
    fn from(current: Pubkey) -> Self {
        let state = Mutex::new(State { current, wanted: None, key: None, pipe: None, failure: None });
        let shared = Shared { changes: AtomicU64::new(0), requests: AtomicU64::new(0), state };
        Self { shared: Arc::new(shared), current, changes: 0, requests: 0 }
    }
}

impl IdentityWatch {
    /// Returns the handle by which the operator changes it.
    pub fn desk(&self) -> IdentityDesk {
        IdentityDesk(Arc::clone(&self.shared))
    }

    /// The identity when this one last looked.
    pub fn known(&self) -> Pubkey {
        self.current
    }

    /// The identity now, for threads that look seldom.
    pub fn newest(&self) -> Pubkey {
        self.shared.state.lock().current
    }

    /// Looks, and returns the identity if it has changed since.
    pub fn changed(&mut self) -> Option<Pubkey> {
        let changes = self.shared.changes.load(Acquire);
        if changes == self.changes {
            return None;
        }
        self.changes = changes;
        self.current = self.shared.state.lock().current;
        Some(self.current)
    }

    /// Looks, and takes the identity's key if it has changed since: for sign alone.
    pub(crate) fn take_key(&mut self) -> Option<Keypair> {
        self.changed()?;
        self.shared.state.lock().key.take()
    }

    /// From now on keys go to the process of sign: for sign alone. One that waits to be taken is the first.
    ///
    /// # Errors
    /// The pipe fails.
    pub(crate) fn hand_over(self, pipe: KeySender) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        if let Some(key) = state.key.take() {
            pipe.set_identity(&key)?;
        }
        state.pipe = Some(pipe);
        Ok(())
    }

    /// The role that the operator asks for and its address, once for each request: for tower alone.
    pub(crate) fn take_request(&mut self) -> Option<(Pubkey, Role)> {
        let requests = self.shared.requests.load(Acquire);
        if requests == self.requests {
            return None;
        }
        self.requests = requests;
        let state = self.shared.state.lock();
        state.wanted.as_ref().map(|wanted| (wanted.key.public_key(), wanted.role.clone()))
    }

    /// Writes the requested key to the process of sign, if it has one of its own. Sign has the new identity from then
    /// on, so [`Self::commit`] must follow.
    ///
    /// # Errors
    /// The pipe is full or broken: sign has the old identity.
    pub(crate) fn send_key(&self) -> io::Result<()> {
        let state = self.shared.state.lock();
        match (&state.wanted, &state.pipe) {
            (Some(wanted), Some(pipe)) => pipe.set_identity(&wanted.key),
            _ => Ok(()),
        }
    }

    /// Carries the request out. Where sign has a process of its own it has the key by [`Self::send_key`], and it is
    /// wiped here.
    pub(crate) fn commit(&mut self) {
        let mut state = self.shared.state.lock();
        let Some(IdentityRequest { key, .. }) = state.wanted.take() else { return };
        state.current = key.public_key();
        state.key = state.pipe.is_none().then_some(key);
        self.current = state.current;
        self.changes = self.shared.changes.fetch_add(1, Release) + 1;
    }

    /// Drops the operator's request, and keeps the reason for [`IdentityStatus::failure`].
    pub(crate) fn refuse(&self, why: String) {
        let mut state = self.shared.state.lock();
        state.wanted = None;
        state.failure = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_pipe::{KeyChange, next_change};

    fn key(seed: u8) -> Keypair {
        Keypair::from_seed(&[seed; 32]).expect("a page may be locked")
    }

    fn request(seed: u8) -> IdentityRequest {
        IdentityRequest { key: key(seed), role: Role { vote_account: None, leads: false, tower: None } }
    }

    #[test]
    fn every_watch_sees_a_change_once_it_is_committed() {
        let [old, new] = [1, 2].map(|seed| key(seed).public_key());
        let mut tower = IdentityWatch::from(old);
        let (desk, mut sign, mut other) = (tower.desk(), tower.clone(), tower.clone());
        assert_eq!((tower.take_request(), other.changed()), (None, None));
        desk.request(request(2)).unwrap();
        assert_eq!(desk.request(request(3)), Err(IdentityError::Busy));
        assert_eq!(tower.take_request().map(|(node, _)| node), Some(new));
        assert_eq!((tower.take_request(), other.changed(), other.newest()), (None, None, old));
        assert!(sign.take_key().is_none() && desk.status().is_changing);
        tower.commit();
        assert_eq!((tower.changed(), tower.known()), (None, new), "it knows");
        assert_eq!((other.changed(), other.changed(), other.known()), (Some(new), None, new));
        assert_eq!(sign.take_key().map(|key| key.public_key()), Some(new));
        assert!(sign.take_key().is_none(), "there is one");
        assert_eq!(desk.status(), IdentityStatus { identity: new, is_changing: false, failure: None });
    }

    #[test]
    fn key_is_on_the_pipe_before_any_watch_sees_the_address() {
        let [old, new] = [1, 2].map(|seed| key(seed).public_key());
        let mut tower = IdentityWatch::from(old);
        let (desk, mut other) = (tower.desk(), tower.clone());
        let (mut reads, writes) = io::pipe().unwrap();
        tower.clone().hand_over(KeySender::new(Box::new(writes))).unwrap();
        desk.request(request(2)).unwrap();
        assert!(tower.take_request().is_some());
        tower.send_key().unwrap();
        assert_eq!((other.changed(), other.newest()), (None, old));
        let Some(KeyChange::SetIdentity(sent)) = next_change(&mut reads) else { panic!("the key is on the pipe") };
        assert_eq!(sent.public_key(), new);
        tower.commit();
        assert_eq!(other.changed(), Some(new));
        assert!(tower.shared.state.lock().key.is_none(), "this process has no key");
    }

    #[test]
    fn key_that_waits_is_handed_over_too() {
        let mut tower = IdentityWatch::from(key(1).public_key());
        tower.desk().request(request(2)).unwrap();
        tower.commit();
        let (mut reads, writes) = io::pipe().unwrap();
        tower.clone().hand_over(KeySender::new(Box::new(writes))).unwrap();
        let sent = next_change(&mut reads);
        assert!(matches!(sent, Some(KeyChange::SetIdentity(it)) if it.public_key() == tower.known()));
        assert!(tower.shared.state.lock().key.is_none());
    }

    #[test]
    fn pipe_without_room_leaves_the_identity() {
        let old = key(1).public_key();
        let tower = IdentityWatch::from(old);
        let full = KeySender::new(Box::new(io::Cursor::new([0u8; 32])));
        tower.clone().hand_over(full).unwrap();
        tower.desk().request(request(2)).unwrap();
        tower.send_key().unwrap_err();
        assert_eq!(tower.desk().status().identity, old);
    }

    #[test]
    fn a_refused_change_leaves_the_identity() {
        let old = key(1).public_key();
        let mut tower = IdentityWatch::from(old);
        let mut sign = tower.clone();
        let desk = tower.desk();
        desk.request(request(2)).unwrap();
        assert!(tower.take_request().is_some());
        tower.refuse("no room".into());
        let failure = Some("no room".to_owned());
        assert_eq!(desk.status(), IdentityStatus { identity: old, is_changing: false, failure });
        assert!(sign.take_key().is_none() && sign.changed().is_none());
        desk.forget_failure();
        assert_eq!(desk.status().failure, None);
        // Another one may succeed.
        desk.request(request(3)).unwrap();
        assert!(tower.take_request().is_some());
        tower.commit();
        assert_eq!(desk.status().identity, key(3).public_key());
    }
}
