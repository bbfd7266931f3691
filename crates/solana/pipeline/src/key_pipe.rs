//! key_pipe: the pipe on which keys go to the process of sign, where that tile is apart.
//!
//! reads   keys in locked pages of the node's process, or the pipe
//! writes  the pipe, or keys in locked pages of sign's process
//! memory  none of its own
//! drops   a change for which the pipe has no room: its sender gets the error, and nothing has changed
//!
//! The keys that sign starts with come first: `sign::Config` and `VoterKeys` write and read these. Changes follow, each
//! in one piece: a kind, and a seed, which is written from one locked page and read into another.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use hearth_keys::{Keypair, LockError};
use parking_lot::Mutex;

/// Bytes of a seed.
const SEED: usize = 32;
/// First byte of each message: the kind of change.
const ADD_VOTER: u8 = 1;
const REMOVE_VOTERS: u8 = 2;
const SET_IDENTITY: u8 = 3;

/// Why keys do not arrive in the process that takes them over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The pipe fails, or ends early.
    #[error("cannot receive keys: {0}")]
    Pipe(#[from] io::Error),
    /// There is no locked page for a key.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// A change of the keys that sign has.
pub(crate) enum KeyChange {
    /// A further key may sign votes.
    AddVoter(Keypair),
    /// No key may sign votes, the identity's included.
    RemoveVoters,
    /// The node has another identity.
    SetIdentity(Keypair),
}

/// The end of the pipe in the node's process: the voters' desk and the identity's share it. The pipe ends with the last
/// of them.
#[derive(Clone)]
pub(crate) struct KeySender(Arc<Mutex<Box<dyn Write + Send>>>);

impl KeySender {
    /// Writes to a pipe on which nothing but changes comes from now on.
    pub fn new(pipe: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(pipe)))
    }

    /// Lets a further key sign votes.
    ///
    /// # Errors
    /// The pipe is full or broken: sign does not get the key.
    pub fn add_voter(&self, key: &Keypair) -> io::Result<()> {
        self.send(ADD_VOTER, key.seed())
    }

    /// Lets no key sign votes.
    ///
    /// # Errors
    /// The pipe is full or broken: sign keeps its keys.
    pub fn remove_voters(&self) -> io::Result<()> {
        self.send(REMOVE_VOTERS, &[0; SEED])
    }

    /// Gives the node another identity.
    ///
    /// # Errors
    /// The pipe is full or broken: sign keeps the old one.
    pub fn set_identity(&self, key: &Keypair) -> io::Result<()> {
        self.send(SET_IDENTITY, key.seed())
    }

    /// Writes a kind and a seed. The system writes so few bytes in one piece, or none.
    fn send(&self, kind: u8, seed: &[u8; SEED]) -> io::Result<()> {
        match self.0.lock().write_vectored(&[IoSlice::new(&[kind]), IoSlice::new(seed)])? {
            written if written == 1 + SEED => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }
}

/// Reads the next change from a pipe whose reads never wait. `None` if nothing is there, or if the other end is gone,
/// which ends this process.
///
/// Panics if a key has come, and there is no locked page for it: requests would be refused from then on.
pub(crate) fn next_change(pipe: &mut dyn Read) -> Option<KeyChange> {
    let mut kind = [0];
    if pipe.read(&mut kind).ok()? == 0 {
        return None;
    }
    let mut key = || read_key(&mut *pipe).unwrap_or_else(|why| panic!("{why}"));
    match kind {
        [ADD_VOTER] => Some(KeyChange::AddVoter(key())),
        [SET_IDENTITY] => Some(KeyChange::SetIdentity(key())),
        kind => {
            assert_eq!(kind, [REMOVE_VOTERS], "a change of another form");
            pipe.read_exact(&mut [0; SEED]).expect("a change comes in one piece");
            Some(KeyChange::RemoveVoters)
        }
    }
}

/// Reads a seed from a pipe into a locked page.
pub(crate) fn read_key(pipe: &mut dyn Read) -> Result<Keypair, TakeOverError> {
    Keypair::new(|seed| pipe.read_exact(seed).map_err(TakeOverError::Pipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> Keypair {
        Keypair::from_seed(&[seed; SEED]).expect("a page may be locked")
    }

    #[test]
    fn changes_cross_a_pipe_in_order() {
        let (mut reads, writes) = io::pipe().unwrap();
        let sender = KeySender::new(Box::new(writes));
        sender.set_identity(&key(1)).unwrap();
        sender.clone().add_voter(&key(2)).unwrap();
        sender.remove_voters().unwrap();
        let mut next = || next_change(&mut reads);
        assert!(matches!(next(), Some(KeyChange::SetIdentity(it)) if it.public_key() == key(1).public_key()));
        assert!(matches!(next(), Some(KeyChange::AddVoter(it)) if it.public_key() == key(2).public_key()));
        assert!(matches!(next(), Some(KeyChange::RemoveVoters)));
        // The end of the pipe is no change.
        drop(sender);
        assert!(next().is_none());
    }

    #[test]
    fn full_or_broken_pipe_is_an_error() {
        let full = KeySender::new(Box::new(io::Cursor::new([0u8; SEED])));
        assert_eq!(full.set_identity(&key(1)).unwrap_err().kind(), ErrorKind::WriteZero);
        let (reads, writes) = io::pipe().unwrap();
        drop(reads);
        let broken = KeySender::new(Box::new(writes));
        assert_eq!(broken.set_identity(&key(1)).unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(broken.remove_voters().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
