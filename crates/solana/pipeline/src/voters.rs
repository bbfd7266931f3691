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
//!
//! Where sign has a process of its own, its keys are handed over before it runs, and changes follow on the same pipe,
//! each in one piece: a kind, and a seed, which is written from one locked page and read into another. The key of
//! another identity takes the same way.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use hearth_keys::{Keypair, LockError};
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
    /// The node has another identity, whose key this is. It is no change of the voters.
    Identity(Keypair),
}

/// Bytes of a seed.
const SEED: usize = 32;
/// Kinds of changes on a pipe.
const ADD: u8 = 1;
const REMOVE_ALL: u8 = 2;
const IDENTITY: u8 = 3;

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

/// Where changes go.
enum Outlet {
    /// To the tile, in this process.
    Tile(Sender<Change>),
    /// To the process of the tile.
    Process(Box<dyn Write + Send>),
}

impl Outlet {
    fn send(&mut self, change: Change) -> Result<(), VoterError> {
        let sent = match self {
            Self::Tile(tile) => return tile.send(change).map_err(|_| VoterError::Stopped),
            Self::Process(pipe) => match &change {
                Change::Add(key) => send(pipe, ADD, key.seed()),
                Change::RemoveAll => send(pipe, REMOVE_ALL, &[0; SEED]),
                Change::Identity(key) => send(pipe, IDENTITY, key.seed()),
            },
        };
        sent.map_err(|_| VoterError::Stopped)
    }
}

/// The way of another identity's key to the process of sign.
pub(crate) struct IdentityPipe(Arc<Mutex<Outlet>>);

impl IdentityPipe {
    /// Sends the key, which is wiped here. Sign has it before it reads a request that is made after this.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn send(&self, key: Keypair) -> Result<(), VoterError> {
        self.0.lock().send(Change::Identity(key))
    }
}

/// Writes a kind and a seed to a pipe. The system writes so few bytes in one piece, or none.
fn send(pipe: &mut dyn Write, kind: u8, seed: &[u8; SEED]) -> io::Result<()> {
    match pipe.write_vectored(&[IoSlice::new(&[kind]), IoSlice::new(seed)])? {
        written if written == 1 + SEED => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

/// Reads a seed from a pipe into a locked page.
pub(crate) fn read_key(pipe: &mut dyn Read) -> Result<Keypair, TakeOverError> {
    Keypair::new(|seed| pipe.read_exact(seed).map_err(TakeOverError::Pipe))
}

/// Where changes come from.
enum Changes {
    None,
    Here(Receiver<Change>),
    /// From the process that handed the keys over; never waits.
    Pipe(Box<dyn Read + Send>),
}

impl Changes {
    /// Panics if a key has come over the pipe, and there is no locked page for it: votes would be refused from then on.
    fn next(&mut self) -> Option<Change> {
        match self {
            Self::None => None,
            Self::Here(changes) => changes.try_recv().ok(),
            Self::Pipe(pipe) => {
                let mut kind = [0];
                // Nothing is there, or the other end is gone, which ends this process.
                if pipe.read(&mut kind).ok()? == 0 {
                    return None;
                }
                let mut key = || read_key(pipe).unwrap_or_else(|why| panic!("{why}"));
                match kind {
                    [ADD] => Some(Change::Add(key())),
                    [IDENTITY] => Some(Change::Identity(key())),
                    [kind] => {
                        assert_eq!(kind, REMOVE_ALL, "a change of another form");
                        pipe.read_exact(&mut [0; SEED]).expect("a change comes in one piece");
                        Some(Change::RemoveAll)
                    }
                }
            }
        }
    }
}

#[derive(Debug)]
struct List {
    voters: Vec<Pubkey>,
    /// Whether the identity's key is among them because it is the identity.
    has_identity: bool,
    /// Whether keys were ever removed.
    is_cut: bool,
}

/// The addresses of the keys that may sign votes, for tower.
#[derive(Clone, Debug)]
pub struct Voters(Arc<Mutex<List>>);

impl Voters {
    /// Starts with these addresses; `has_identity`: the identity is one of them.
    fn of(voters: Vec<Pubkey>, has_identity: bool) -> Self {
        Self(Arc::new(Mutex::new(List { voters, has_identity, is_cut: false })))
    }

    /// Starts with a single key, such as the identity.
    pub fn one(voter: Pubkey) -> Self {
        Self::of(vec![voter], true)
    }

    /// Returns the key that signs a vote: the account's authorized voter, or the identity if that is unknown. `None` if
    /// the node lacks the key: the vote program would refuse another key's vote, but charge its fee.
    pub fn choose(&self, authorized: Option<&Pubkey>, identity: &Pubkey) -> Option<Pubkey> {
        let voter = *authorized.unwrap_or(identity);
        self.0.lock().voters.contains(&voter).then_some(voter)
    }

    /// The node has another identity. It may sign votes if the old one could without being named a voter.
    pub(crate) fn set_identity(&self, old: &Pubkey, new: Pubkey) {
        let mut list = self.0.lock();
        if list.has_identity {
            list.voters.retain(|voter| voter != old && *voter != new);
            list.voters.push(new);
        }
        // A vote on its way names the old one.
        list.is_cut = true;
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
    changes: Changes,
    /// Another identity's key that has come over a pipe, until sign takes it.
    identity: Option<Keypair>,
    /// The desk's outlet, if there is a desk.
    outlet: Option<Arc<Mutex<Outlet>>>,
}

impl VoterKeys {
    /// Creates a set that always holds only the identity.
    pub fn identity_alone() -> Self {
        Self { has_identity: true, keys: vec![], changes: Changes::None, identity: None, outlet: None }
    }

    /// Writes these keys to the process that takes them over, and has the desk's changes follow them on the same pipe,
    /// as does the key of another identity. The keys are wiped here.
    ///
    /// # Errors
    /// The pipe fails.
    pub(crate) fn hand_over(mut self, mut pipe: Box<dyn Write + Send>) -> io::Result<IdentityPipe> {
        let outlet = self.outlet.take().unwrap_or_else(|| Arc::new(Mutex::new(Outlet::Tile(channel().0))));
        // The desk waits meanwhile.
        let mut way = outlet.lock();
        self.update();
        pipe.write_all(&[u8::from(self.has_identity), self.keys.len() as u8])?;
        self.keys.iter().try_for_each(|key| pipe.write_all(key.seed()))?;
        *way = Outlet::Process(pipe);
        drop(way);
        Ok(IdentityPipe(outlet))
    }

    /// Reads what [`VoterKeys::hand_over`] writes, and takes changes from the pipe from then on: reads from it must not
    /// wait once this has returned.
    ///
    /// # Errors
    /// The pipe fails, or there is no locked page for a key.
    pub(crate) fn take_over(mut pipe: Box<dyn Read + Send>) -> Result<Self, TakeOverError> {
        let mut head = [0; 2];
        pipe.read_exact(&mut head)?;
        let [has_identity, count] = head;
        let keys = (0..count).map(|_| read_key(&mut pipe)).collect::<Result<_, _>>()?;
        let changes = Changes::Pipe(pipe);
        Ok(Self { has_identity: has_identity != 0, keys, changes, identity: None, outlet: None })
    }

    /// Applies the operator's changes.
    pub(crate) fn update(&mut self) {
        while let Some(change) = self.changes.next() {
            match change {
                Change::Add(key) => self.keys.push(key),
                Change::RemoveAll => {
                    self.keys.clear();
                    self.has_identity = false;
                }
                Change::Identity(key) => self.identity = Some(key),
            }
        }
    }

    /// Takes the key of another identity, if one has come from the node's process: of the last one, if several have.
    pub(crate) fn take_identity(&mut self) -> Option<Keypair> {
        if matches!(self.changes, Changes::Pipe(_)) {
            self.update();
        }
        self.identity.take()
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
    outlet: Arc<Mutex<Outlet>>,
}

impl VoterDesk {
    /// Starts with these keys, or with the identity alone if there are none. Also returns the parts for tower and for
    /// sign.
    pub fn new(identity: Pubkey, keys: Vec<Keypair>) -> (Self, Voters, VoterKeys) {
        let (changes, received) = channel();
        let has_identity = keys.is_empty();
        let voters = match has_identity {
            true => Voters::one(identity),
            false => Voters::of(keys.iter().map(Keypair::public_key).collect(), false),
        };
        let outlet = Arc::new(Mutex::new(Outlet::Tile(changes)));
        let (changes, own) = (Changes::Here(received), Some(outlet.clone()));
        let keys = VoterKeys { has_identity, keys, changes, identity: None, outlet: own };
        (Self { voters: voters.clone(), outlet }, voters, keys)
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
        self.outlet.lock().send(Change::Add(key))?;
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
        list.has_identity = false;
        list.is_cut = true;
        self.outlet.lock().send(Change::RemoveAll)
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

    /// A pipe of this process, whose end that is read never waits.
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<std::collections::VecDeque<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            // In one piece, as the system does.
            parts.iter().map(|part| self.0.lock().write(part)).sum()
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Pipe {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            match self.0.lock().read(bytes)? {
                0 if !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
                read => Ok(read),
            }
        }
    }

    #[test]
    fn keys_and_changes_reach_another_process() {
        let identity = key(1);
        let own = identity.public_key();
        let (desk, _, keys) = VoterDesk::new(own, vec![key(2)]);
        desk.add(key(3)).unwrap();
        let pipe = Pipe::default();
        keys.hand_over(Box::new(pipe.clone())).unwrap();
        let mut taken = VoterKeys::take_over(Box::new(pipe.clone())).unwrap();
        let has = |keys: &VoterKeys, seed: u8| found(keys, &identity, &key(seed).public_key());
        assert!(has(&taken, 2) && has(&taken, 3), "what was added before is handed over");
        assert!(!has(&taken, 1), "the identity is no voter");
        desk.remove_all().unwrap();
        desk.add(key(4)).unwrap();
        assert!(has(&taken, 2) && !has(&taken, 4), "changes wait until they are taken");
        taken.update();
        assert!(has(&taken, 4) && !has(&taken, 2) && !has(&taken, 3));
        assert!(pipe.0.lock().is_empty());
        let (_, _, alone) = VoterDesk::new(own, vec![]);
        alone.hand_over(Box::new(pipe.clone())).unwrap();
        assert!(has(&VoterKeys::take_over(Box::new(pipe)).unwrap(), 1));
        const CUT: &[u8] = &[0, 1, 7];
        let cut = VoterKeys::take_over(Box::new(CUT));
        assert!(matches!(cut, Err(TakeOverError::Pipe(_))));
    }

    #[test]
    fn key_of_another_identity_reaches_another_process() {
        let (_desk, _, with_desk) = VoterDesk::new(key(1).public_key(), vec![]);
        for keys in [with_desk, VoterKeys::identity_alone()] {
            let pipe = Pipe::default();
            let way = keys.hand_over(Box::new(pipe.clone())).unwrap();
            let mut taken = VoterKeys::take_over(Box::new(pipe.clone())).unwrap();
            assert!(taken.take_identity().is_none());
            way.send(key(8)).unwrap();
            way.send(key(9)).unwrap();
            let wanted = key(9).public_key();
            assert_eq!(taken.take_identity().map(|key| key.public_key()), Some(wanted), "the last one");
            assert!(taken.take_identity().is_none() && pipe.0.lock().is_empty());
            assert!(found(&taken, &key(9), &wanted), "it may sign votes as the old one could");
        }
    }

    #[test]
    fn another_identity_signs_where_the_old_one_did() {
        let [own, new] = [key(1).public_key(), key(3).public_key()];
        let (desk, voters, keys) = VoterDesk::new(own, vec![]);
        voters.set_identity(&own, new);
        assert_eq!(voters.choose(None, &new), Some(new));
        assert_eq!(voters.choose(Some(&own), &new), None, "its key is gone");
        assert!(found(&keys, &key(3), &new) && !found(&keys, &key(3), &own));
        assert!(voters.were_removed());
        desk.remove_all().unwrap();
        voters.set_identity(&new, own);
        assert_eq!(voters.choose(None, &own), None);
        // Keys that were named stay, and the identity is not among them.
        let (_, voters, _) = VoterDesk::new(own, vec![key(2)]);
        voters.set_identity(&own, new);
        assert_eq!((voters.choose(None, &new), voters.choose(Some(&new), &new)), (None, None));
        assert_eq!(voters.choose(Some(&key(2).public_key()), &new), Some(key(2).public_key()));
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
