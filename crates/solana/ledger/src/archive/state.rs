//! state: the state in an archive, or in a full one and an incremental one that builds on it; all of it is checked.
//!
//! reads   the incremental archive, then the full one; twice where one has several versions of an account
//! writes  each account's newest version to a receiver
//! memory  about 100 B an account for its slot, the fields of both archives, a few batches of accounts for each core
//! drops   older versions of accounts
//! source  `generate_index` of `solana-accounts-db` 4.2: the newest version counts, and none counts twice;
//!         `snapshot_bank_utils.rs` of `solana-runtime` 4.2: what is compared

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use hearth_wire::Pubkey;
use hearth_wire::consts::SYSVAR_SLOT_HISTORY;
use parking_lot::Mutex;

use super::chain;
use super::error::{ArchiveError, Fault};
use super::name::ArchiveName;
use super::reader::{Contents, Limits, Progress, Sink, read};
use super::statuses::SLOTS_MAX;
use crate::account::Account;
use crate::lattice::Lattice;
use crate::slot_history::SlotHistory;

/// Accounts that are hashed in one go.
const BATCH: usize = 256;

/// A state that was read and is as its archives say.
#[derive(Debug)]
pub struct State {
    /// The newest archive's fields and statuses. Its number of accounts is that of the state.
    pub contents: Contents,
    /// Versions of accounts that newer ones replace.
    pub old_versions: u64,
}

/// A receiver of the accounts of a state.
pub trait AccountReceiver {
    /// Takes an account. A later call for the same key replaces it; one without lamports is none.
    fn store(&mut self, key: &Pubkey, account: &Account);

    /// Learns how far reading is in this archive.
    fn progress(&mut self, archive: &ArchiveName, progress: Progress);
}

/// Receives a state and keeps nothing.
impl AccountReceiver for () {
    fn store(&mut self, _: &Pubkey, _: &Account) {}

    fn progress(&mut self, _: &ArchiveName, _: Progress) {}
}

/// Reads the state in a full archive, and in an incremental one that builds on it. Every hash, the capitalization and
/// what the fields list are checked before it returns.
pub fn read_state(
    full: &Path,
    incremental: Option<&Path>,
    receiver: &mut dyn AccountReceiver,
) -> Result<State, ArchiveError> {
    let full = Archive::of(full)?;
    if full.name.base.is_some() {
        return Err(full.fault(Fault::Malformed("an incremental archive, where a full one is needed first")));
    }
    let incremental = incremental.map(Archive::of).transpose()?;
    if let Some(incremental) = &incremental {
        match incremental.name.base {
            Some(base) if base == full.name.slot => {}
            Some(base) => return Err(incremental.fault(Fault::Base { base, full: full.name.slot })),
            None => return Err(incremental.fault(Fault::Malformed("a full archive in place of an incremental one"))),
        }
    }
    // The newer one first: then hardly any version has to be taken back.
    let archives: Vec<&Archive<'_>> = incremental.iter().chain([&full]).collect();
    let mut newest = NewestVersions::default();
    let (read, mut lattice) = hashed(|hasher| {
        let mut all = vec![];
        for archive in &archives {
            let (name, newest, hasher) = (&archive.name, &mut newest, &mut *hasher);
            let mut sink = AccountCollector { archive: name, newest, hasher, receiver: &mut *receiver };
            all.push(archive.read(&mut sink)?);
        }
        Ok::<Vec<Contents>, ArchiveError>(all)
    });
    let mut read = read?.into_iter();
    let mut contents = read.next().expect("at least the full one");
    if let Some(base) = read.next() {
        chain::same(&base.fields, &contents.fields).map_err(|fault| archives[0].fault(fault))?;
    }
    lattice.subtract_all(&newest.take_back(&archives)?);
    contents.accounts = newest.alive();
    let old_versions = newest.old_versions;
    let checked = check(&contents, &lattice, newest.lamports).and_then(|()| check_statuses(&contents, newest.history));
    checked.map_err(|fault| archives[0].fault(fault))?;
    Ok(State { contents, old_versions })
}

/// Reads what an archive holds beside its accounts, without checking these.
pub fn read_fields(path: &Path, receiver: &mut dyn AccountReceiver) -> Result<(ArchiveName, Contents), ArchiveError> {
    struct IgnoringReceiver<'a>(&'a ArchiveName, &'a mut dyn AccountReceiver);

    impl Sink for IgnoringReceiver<'_> {
        fn account(&mut self, _: u64, _: &Pubkey, _: Account) -> Result<(), Fault> {
            Ok(())
        }

        fn progress(&mut self, progress: Progress) {
            self.1.progress(self.0, progress);
        }
    }

    let archive = Archive::of(path)?;
    let contents = archive.read(&mut IgnoringReceiver(&archive.name, receiver))?;
    Ok((archive.name, contents))
}

/// Compares what the fields say with the accounts.
fn check(contents: &Contents, lattice: &Lattice, lamports: u128) -> Result<(), Fault> {
    let fields = &contents.fields;
    if fields.lattice != *lattice {
        let (found, computed) = (fields.lattice.checksum(), lattice.checksum());
        return Err(Fault::Hash { what: "the hash of all accounts", found, computed });
    }
    if u128::from(fields.capitalization) != lamports {
        return Err(Fault::Capitalization { found: fields.capitalization, computed: lamports });
    }
    let schedule = &fields.epoch_schedule;
    let (epoch, last) = (schedule.epoch(fields.slot), schedule.leader_schedule_epoch(fields.slot));
    let staked: HashSet<u64> = fields.epoch_stakes.iter().map(|stakes| stakes.epoch).collect();
    if staked.iter().any(|epoch| *epoch > last) || !(epoch..=last).all(|epoch| staked.contains(&epoch)) {
        return Err(Fault::Malformed("the stakes of an epoch are missing, or there are some of one to come"));
    }
    Ok(())
}

/// Compares the statuses with the slot history: they are of its newest slots.
fn check_statuses(contents: &Contents, history: Option<Account>) -> Result<(), Fault> {
    let history = history.and_then(SlotHistory::new).ok_or(Fault::Missing("the account of the slot history"))?;
    if history.newest() != contents.fields.slot {
        return Err(Fault::Malformed("the slot history ends with another slot"));
    }
    let slots: HashSet<u64> = contents.statuses.iter().map(|statuses| statuses.slot).collect();
    let has_all = slots.iter().all(|slot| history.has(*slot));
    let mut newest = (history.oldest()..=history.newest()).rev().filter(|slot| history.has(*slot)).take(SLOTS_MAX);
    match has_all && newest.all(|slot| slots.contains(&slot)) {
        true => Ok(()),
        false => Err(Fault::Malformed("the statuses are not of the newest slots in the slot history")),
    }
}

/// An archive and its name.
struct Archive<'a> {
    path: &'a Path,
    name: ArchiveName,
}

impl<'a> Archive<'a> {
    fn of(path: &'a Path) -> Result<Self, ArchiveError> {
        let name = ArchiveName::of_path(path).map_err(|fault| ArchiveError::of(path, fault))?;
        Ok(Self { path, name })
    }

    fn fault(&self, fault: Fault) -> ArchiveError {
        ArchiveError::of(self.path, fault)
    }

    fn read(&self, sink: &mut dyn Sink) -> Result<Contents, ArchiveError> {
        let open = || -> io::Result<(File, u64)> {
            let file = File::open(self.path)?;
            let len = file.metadata()?.len();
            Ok((file, len))
        };
        let (file, len) = open().map_err(|e| self.fault(Fault::Read(e)))?;
        read(file, len, &self.name, &Limits::of_packed(len), sink).map_err(|fault| self.fault(fault))
    }
}

/// The slot of an account's newest version, and whether that has lamports.
#[derive(Clone, Copy)]
struct Version {
    slot: u64,
    is_alive: bool,
}

/// The newest versions of all accounts that were read.
#[derive(Default)]
struct NewestVersions {
    versions: HashMap<Pubkey, Version>,
    /// Versions that were counted before a newer one came.
    stale: HashSet<(Pubkey, u64)>,
    /// Lamports of all versions that were counted.
    lamports: u128,
    old_versions: u64,
    /// The account of the slot history.
    history: Option<Account>,
}

impl NewestVersions {
    /// Whether this version of an account is its newest so far.
    fn takes(&mut self, slot: u64, key: &Pubkey, account: &Account) -> Result<bool, Fault> {
        let version = Version { slot, is_alive: account.lamports > 0 };
        match self.versions.insert(*key, version) {
            None => {}
            Some(before) if before.slot == slot => {
                return Err(Fault::Storage { slot, why: "has an account twice" });
            }
            Some(before) => {
                self.old_versions += 1;
                if before.slot > slot {
                    self.versions.insert(*key, before);
                    return Ok(false);
                }
                if before.is_alive {
                    self.stale.insert((*key, before.slot));
                }
            }
        }
        self.lamports += u128::from(account.lamports);
        Ok(true)
    }

    fn alive(&self) -> u64 {
        self.versions.values().filter(|version| version.is_alive).count() as u64
    }

    /// Reads the archives again for the versions that were counted and are not the newest; returns their sum.
    fn take_back(&mut self, archives: &[&Archive<'_>]) -> Result<Lattice, ArchiveError> {
        let mut sink = TakingBack { newest: self, lattice: Lattice::default() };
        for archive in archives {
            if sink.newest.stale.is_empty() {
                break;
            }
            archive.read(&mut sink)?;
        }
        Ok(sink.lattice)
    }
}

struct TakingBack<'a> {
    newest: &'a mut NewestVersions,
    lattice: Lattice,
}

impl Sink for TakingBack<'_> {
    fn account(&mut self, slot: u64, key: &Pubkey, account: Account) -> Result<(), Fault> {
        if self.newest.stale.remove(&(*key, slot)) {
            self.lattice.add(key, &account);
            let left = self.newest.lamports.checked_sub(u128::from(account.lamports));
            self.newest.lamports = left.ok_or(Fault::Malformed("the archive changed while it was read"))?;
        }
        Ok(())
    }

    fn progress(&mut self, _: Progress) {}
}

/// Sums up the newest versions of accounts.
struct AccountCollector<'a, 'b> {
    archive: &'a ArchiveName,
    newest: &'a mut NewestVersions,
    hasher: &'a mut Hasher,
    receiver: &'a mut (dyn AccountReceiver + 'b),
}

impl Sink for AccountCollector<'_, '_> {
    fn account(&mut self, slot: u64, key: &Pubkey, account: Account) -> Result<(), Fault> {
        if self.newest.takes(slot, key, &account)? {
            if *key == SYSVAR_SLOT_HISTORY {
                self.newest.history = Some(account.clone());
            }
            self.receiver.store(key, &account);
            self.hasher.add(*key, account);
        }
        Ok(())
    }

    fn progress(&mut self, progress: Progress) {
        self.receiver.progress(self.archive, progress);
    }
}

type Batch = Vec<(Pubkey, Account)>;

/// Gives accounts to the threads that hash them.
struct Hasher {
    batches: SyncSender<Batch>,
    batch: Batch,
}

impl Hasher {
    fn add(&mut self, key: Pubkey, account: Account) {
        if account.lamports == 0 {
            return;
        }
        self.batch.push((key, account));
        if self.batch.len() >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.batches.send(batch).expect("a hashing thread ends after this one");
    }
}

/// Runs `read` beside threads that hash the accounts it gives to its [`Hasher`]; returns their sum, too.
fn hashed<T>(read: impl FnOnce(&mut Hasher) -> T) -> (T, Lattice) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (batches, inbox) = sync_channel(2 * threads);
    let inbox = Mutex::new(inbox);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| sum_of(&inbox))).collect();
        let mut hasher = Hasher { batches, batch: vec![] };
        let result = read(&mut hasher);
        hasher.send();
        drop(hasher);
        let mut sum = Lattice::default();
        for worker in workers {
            sum.add_all(&worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        (result, sum)
    })
}

/// The sum of the hashes of what comes in.
fn sum_of(inbox: &Mutex<Receiver<Batch>>) -> Lattice {
    let mut sum = Lattice::default();
    loop {
        let batch = inbox.lock().recv();
        let Ok(batch) = batch else { return sum };
        batch.iter().for_each(|(key, account)| sum.add(key, account));
    }
}
