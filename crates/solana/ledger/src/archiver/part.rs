//! part: an archive that is made beside a running chain, of its state at a slot's end.
//!
//! reads   the accounts and results that were cut there, shard by shard; then the manifest, and the last 300 blocks
//! writes  the accounts, as they will be stored, to a temporary file; once the block is final, the archive
//! memory  a shard of accounts, the vote and stake accounts, 40 B for each result of the last 300 blocks; then what the
//!         archive's fields and statuses take
//! disk    the archive, and its accounts once more, unpacked, until it is whole; old archives go after that
//! drops   an archive for which there is no room: its files are removed
//!
//! The fields stand before the accounts and say how long these are, and a cut can be read once: hence the temporary
//! file.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use hearth_wire::{Pubkey, Signature};

use super::bank::EndedBank;
use super::retention::{self, Retention};
use super::statuses::last_statuses;
use super::totals::Totals;
use super::{ChainFacts, epoch_stakes};
use crate::account::Account;
use crate::archive::{ArchiveError, ArchiveName, Fault, NewArchive, Spool};
use crate::blockstore::Reader;
use crate::epochs::Epochs;
use crate::features::ActiveFeatures;
use crate::genesis::GenesisConfig;
use crate::ledger::Ledger;
use crate::snapshot::Manifest;
use crate::status_cache::{LandedStatus, StatusEntry};

/// The settings by which a running node writes archives.
#[derive(Clone, Debug)]
pub struct ArchiveConfig {
    /// The folder for them, which is made if it is not there. No other process may write there.
    pub folder: PathBuf,
    /// An incremental archive is written at the first block at or after each multiple of this many slots; 0: none is.
    /// Full ones have the interval of the snapshots.
    pub incremental_interval_slots: u64,
    /// How many are kept.
    pub retention: Retention,
    /// The genesis of the chain.
    pub genesis: GenesisConfig,
}

/// An archive that a running node has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenArchive {
    /// The path of the finished file.
    pub path: PathBuf,
    /// The parts of its name.
    pub name: ArchiveName,
    /// Size of the packed file in bytes; 0 if the system does not tell.
    pub bytes: u64,
    /// The accounts that it holds.
    pub accounts: u64,
}

/// Writes archives into a folder.
pub(crate) struct Archiver {
    config: ArchiveConfig,
}

/// The facts about a cut once its block is final.
pub(crate) struct EndedCut<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) blocks: &'a Reader,
    /// With the block's id and the bank's hash.
    pub(crate) manifest: &'a Manifest,
    /// The features of the block.
    pub(crate) features: &'a ActiveFeatures,
    /// Whether the archive is to be abandoned.
    pub(crate) stops: &'a dyn Fn() -> bool,
}

impl Archiver {
    /// Removes what a kill left in the folder. If that fails so will the next archive, and say why.
    pub(crate) fn new(config: ArchiveConfig) -> Self {
        let _ = retention::clear_unfinished(&config.folder);
        Self { config }
    }

    /// Begins an archive of `slot`: an incremental one, if it builds on the full one of slot `base`.
    pub(crate) fn begin(&self, base: Option<u64>, slot: u64) -> Result<Part, ArchiveError> {
        let folder = &self.config.folder;
        fs::create_dir_all(folder).map_err(|e| ArchiveError::of(folder, Fault::Write(e)))?;
        let spool = Spool::create(folder, slot)?;
        Ok(Part { base, spool, totals: Totals::new(slot, base), accounts: 0, landed: HashMap::new() })
    }

    /// Ends the archive, and removes old ones. One of that name is replaced: it is the same state.
    pub(crate) fn finish(&self, part: Part, cut: &EndedCut<'_>) -> Result<WrittenArchive, ArchiveError> {
        let (folder, manifest) = (&self.config.folder, cut.manifest);
        let Part { base, mut spool, totals, accounts, landed } = part;
        let facts = self.facts(cut, landed).map_err(|fault| ArchiveError::of(folder, fault))?;
        let fields = EndedBank::of_cut(cut.ledger, manifest).fields(&facts, totals);
        let fields = fields.map_err(|fault| ArchiveError::of(folder, fault))?;
        let name = ArchiveName { base, slot: fields.slot, hash: fields.lattice.checksum() };
        let mut archive = NewArchive::create(folder, base, &fields, &facts.statuses)?;
        archive.accounts_from(&mut spool.read_back(cut.stops)?)?;
        let path = archive.finish()?;
        let bytes = fs::metadata(&path).map_or(0, |file| file.len());
        self.config.retention.prune(folder)?;
        Ok(WrittenArchive { path, name, bytes, accounts })
    }

    /// The facts that the archive states about the chain.
    fn facts(&self, cut: &EndedCut<'_>, landed: HashMap<u64, LandedStatus>) -> Result<ChainFacts, Fault> {
        let EndedCut { ledger, blocks, manifest, features, .. } = *cut;
        let seed = ledger.statuses().seed();
        let status = |signature: &Signature| landed.get(&seed.signature(signature)).copied();
        let statuses = last_statuses(blocks, manifest.last(), status, |_| {});
        let statuses = statuses.map_err(|why| Fault::Transactions(why.to_string()))?;
        let epochs = Epochs::restore(*ledger.epoch_schedule(), manifest.epochs.clone());
        Ok(ChainFacts {
            lamports_per_signature: manifest.blockhashes.last().map_or(0, |(_, price)| *price),
            epoch_stakes: epochs.all().map(|stakes| epoch_stakes(stakes)).collect(),
            statuses,
            block_id: manifest.block_id,
            ..ChainFacts::lasting(ledger, &self.config.genesis, features)
        })
    }

    /// The folder in which archives are written.
    pub(crate) fn folder(&self) -> &Path {
        &self.config.folder
    }
}

/// An archive whose accounts are being written.
pub(crate) struct Part {
    base: Option<u64>,
    spool: Spool,
    totals: Totals,
    accounts: u64,
    /// Slot and result of each signature, by the key that the status cache has for it.
    landed: HashMap<u64, LandedStatus>,
}

impl Part {
    /// Takes the results that were cut.
    pub(crate) fn statuses<'a>(&mut self, entries: impl IntoIterator<Item = &'a StatusEntry>) {
        self.landed.extend(entries.into_iter().map(StatusEntry::landed));
    }

    /// Takes a shard of the accounts that were cut. An incremental archive holds those of them in `changed`; accounts
    /// in there that did not exist are without lamports.
    pub(crate) fn shard(
        &mut self,
        cut: &[(Pubkey, Account)],
        changed: Option<HashSet<Pubkey>>,
    ) -> Result<(), ArchiveError> {
        let Some(mut changed) = changed else {
            return cut.iter().try_for_each(|(key, account)| {
                self.totals.note(key, account);
                self.store(key, account)
            });
        };
        for (key, account) in cut {
            self.totals.note(key, account);
            if changed.remove(key) {
                self.store(key, account)?;
            }
        }
        changed.iter().try_for_each(|key| self.store(key, &Account::default()))
    }

    fn store(&mut self, key: &Pubkey, account: &Account) -> Result<(), ArchiveError> {
        let size = self.spool.account(key, account)?;
        self.totals.stored(size);
        self.accounts += 1;
        Ok(())
    }
}
