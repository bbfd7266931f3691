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
//! Where sign has a process of its own, its keys are handed over before it runs, and changes follow on the same
//! [pipe](crate::key_pipe).

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use hearth_keys::Keypair;
use hearth_wire::Pubkey;
use parking_lot::Mutex;

use crate::key_pipe::{KeyChange, KeySender, TakeOverError, next_change, read_key};

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
    /// The process of sign does not take changes now.
    #[error("The tile sign does not take keys now: try again")]
    Busy,
    /// The tile sign, which holds the keys, has stopped.
    #[error("The node is stopping")]
    Stopped,
}

/// How a change reaches the tile sign.
enum Outlet {
    /// To the tile, in this process.
    Tile(Sender<KeyChange>),
    /// To the process of the tile.
    Process(KeySender),
}

impl Outlet {
    fn add(&self, key: Keypair) -> Result<(), VoterError> {
        match self {
            Self::Tile(tile) => tile.send(KeyChange::AddVoter(key)).map_err(|_| VoterError::Stopped),
            Self::Process(pipe) => pipe.add_voter(&key).map_err(|why| failure(&why)),
        }
    }

    fn remove_all(&self) -> Result<(), VoterError> {
        match self {
            Self::Tile(tile) => tile.send(KeyChange::RemoveVoters).map_err(|_| VoterError::Stopped),
            Self::Process(pipe) => pipe.remove_voters().map_err(|why| failure(&why)),
        }
    }
}

/// Maps the failure to write a change to the error for the operator.
fn failure(why: &io::Error) -> VoterError {
    match why.kind() {
        ErrorKind::WouldBlock => VoterError::Busy,
        _ => VoterError::Stopped,
    }
}

/// The source of changes, as sign has it.
enum Changes {
    None,
    Here(Receiver<KeyChange>),
    /// From the process that handed the keys over; never waits.
    Pipe(Box<dyn Read + Send>),
}

impl Changes {
    fn next(&mut self) -> Option<KeyChange> {
        match self {
            Self::None => None,
            Self::Here(changes) => changes.try_recv().ok(),
            Self::Pipe(pipe) => next_change(pipe),
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
    /// The key of another identity of the node, which came on the pipe.
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
    /// as others may by what this returns. The keys are wiped here.
    ///
    /// # Errors
    /// The pipe fails.
    pub(crate) fn hand_over(mut self, mut pipe: Box<dyn Write + Send>) -> io::Result<KeySender> {
        let outlet = self.outlet.take();
        // The desk waits meanwhile.
        let mut outlet = outlet.as_ref().map(|outlet| outlet.lock());
        self.update();
        pipe.write_all(&[u8::from(self.has_identity), self.keys.len() as u8])?;
        self.keys.iter().try_for_each(|key| pipe.write_all(key.seed()))?;
        let sender = KeySender::new(pipe);
        if let Some(outlet) = &mut outlet {
            **outlet = Outlet::Process(sender.clone());
        }
        Ok(sender)
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
                KeyChange::AddVoter(key) => self.keys.push(key),
                KeyChange::RemoveVoters => {
                    self.keys.clear();
                    self.has_identity = false;
                }
                KeyChange::SetIdentity(key) => self.identity = Some(key),
            }
        }
    }

    /// Where sign has a process of its own: applies the changes on the pipe, and returns the key of another identity if
    /// one has come.
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
        let changes = Changes::Here(received);
        let keys = VoterKeys { has_identity, keys, changes, identity: None, outlet: Some(outlet.clone()) };
        (Self { voters: voters.clone(), outlet }, voters, keys)
    }

    /// Lets a key sign votes from the next one on.
    ///
    /// # Errors
    /// The key may already sign, there are too many keys, or sign does not take it.
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
        self.outlet.lock().add(key)?;
        list.voters.push(address);
        Ok(())
    }

    /// Removes all keys, the identity's included.
    ///
    /// # Errors
    /// Sign does not learn of it, but no vote is cast: tower names no voter any more.
    pub fn remove_all(&self) -> Result<(), VoterError> {
        let mut list = self.voters.0.lock();
        list.voters.clear();
        list.has_identity = false;
        list.is_cut = true;
        self.outlet.lock().remove_all()
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsRawFd;

    use hearth_tile::sys::process::never_wait_for;

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
    fn full_pipe_changes_nothing() {
        let own = key(1).public_key();
        let (desk, voters, keys) = VoterDesk::new(own, vec![]);
        let (_reads, writes) = io::pipe().unwrap();
        let same = writes.try_clone().unwrap();
        keys.hand_over(Box::new(writes)).unwrap();
        never_wait_for(same.as_raw_fd()).unwrap();
        // It has room for some 64 KiB.
        while desk.remove_all().is_ok() {}
        assert_eq!(desk.remove_all(), Err(VoterError::Busy));
        assert_eq!(desk.add(key(2)), Err(VoterError::Busy));
        assert_eq!(voters.choose(Some(&key(2).public_key()), &own), None);
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
