//! writer: writes one snapshot file.
//!
//! reads   accounts and statuses, one at a time
//! writes  `SLOT.part`, synced every 16 MiB so that the final sync does not delay those of the blocks
//! memory  a chunk's content for each of four kinds, 24 B per chunk written
//! drops   the part file, if it is not finished
//! source  format.rs

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hearth_crypto::sha256::sha256;
use hearth_wire::{Hash, Pubkey};

use super::account;
use super::error::SnapshotError;
use super::folder::{Folder, SnapshotFile};
use super::format::{CHUNK_HEAD_SIZE, CHUNK_SIZE, EndChunk, Head, Kind, MANIFEST_SIZE_MAX, VERSION, encode_chunk};
use super::manifest::Manifest;
use crate::account::Account;
use crate::seed::Seed;
use crate::status_cache::{ClaimEntry, StatusEntry};

const SYNC_BYTES: usize = 16 << 20;

/// The output file, as a trait so that a full or failing disk can be tested.
pub(super) trait Medium: Write + Send {
    /// Waits until the written data is durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A snapshot in progress.
pub struct Writer {
    medium: Box<dyn Medium>,
    folder: Folder,
    slot: u64,
    part: PathBuf,
    path: PathBuf,
    claims: Vec<u8>,
    statuses: Vec<u8>,
    accounts: Vec<u8>,
    vote_accounts: Vec<u8>,
    heads: Vec<u8>,
    chunks: u32,
    unsynced: usize,
    bytes: u64,
    sums: (u64, u128),
    finished: bool,
}

impl Writer {
    /// Starts the snapshot of the block at this slot and height. `seed` made the keys of its statuses.
    pub fn create(
        folder: &Folder,
        genesis_hash: &Hash,
        (slot, height): (u64, u64),
        seed: Seed,
    ) -> Result<Self, SnapshotError> {
        let (part, _) = folder.names(slot);
        // The seed is a secret, and so are the keys stored beside it.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
        let medium = Box::new(file.map_err(|e| SnapshotError::io("creating", &part, e))?);
        Self::on(medium, folder, genesis_hash, (slot, height), seed)
    }

    pub(super) fn on(
        medium: Box<dyn Medium>,
        folder: &Folder,
        genesis_hash: &Hash,
        (slot, height): (u64, u64),
        seed: Seed,
    ) -> Result<Self, SnapshotError> {
        let (part, path) = folder.names(slot);
        let mut writer = Self {
            medium,
            folder: folder.clone(),
            slot,
            part,
            path,
            claims: vec![],
            statuses: vec![],
            accounts: vec![],
            vote_accounts: vec![],
            heads: vec![],
            chunks: 0,
            unsynced: 0,
            bytes: 0,
            sums: (0, 0),
            finished: false,
        };
        let head = Head { version: VERSION, slot, height, genesis_hash: *genesis_hash, seed };
        writer.chunk(Kind::Head, &head.encode())?;
        Ok(writer)
    }

    /// The path of the part file.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Adds a landed message.
    pub fn claim(&mut self, entry: &ClaimEntry) -> Result<(), SnapshotError> {
        self.claims.extend_from_slice(&entry.to_bytes());
        if self.claims.len() >= CHUNK_SIZE { self.flush(Kind::Claims) } else { Ok(()) }
    }

    /// Adds the result of a landed transaction.
    pub fn status(&mut self, entry: &StatusEntry) -> Result<(), SnapshotError> {
        self.statuses.extend_from_slice(&entry.to_bytes());
        if self.statuses.len() >= CHUNK_SIZE { self.flush(Kind::Statuses) } else { Ok(()) }
    }

    /// Adds an account, which must have lamports.
    pub fn account(&mut self, address: &Pubkey, account: &Account) -> Result<(), SnapshotError> {
        account::encode(&mut self.accounts, address, account);
        self.sums.0 += 1;
        self.sums.1 += u128::from(account.lamports);
        if self.accounts.len() >= CHUNK_SIZE { self.flush(Kind::Accounts) } else { Ok(()) }
    }

    /// Adds everything else, and renames the file once it is durable. Also returns its size in bytes.
    pub fn finish(mut self, manifest: &Manifest) -> Result<(SnapshotFile, u64), SnapshotError> {
        for (epoch, address, account) in manifest.epochs.vote_accounts() {
            self.vote_account(epoch, address, account)?;
        }
        for kind in [Kind::Claims, Kind::Statuses, Kind::Accounts, Kind::VoteAccounts] {
            self.flush(kind)?;
        }
        let manifest = serde_json::to_vec(manifest).expect("a manifest has only numbers and lists");
        if manifest.len() > MANIFEST_SIZE_MAX {
            let why = format!("its manifest has {} bytes, more than {MANIFEST_SIZE_MAX}", manifest.len());
            return Err(SnapshotError::io("writing", &self.part, io::Error::other(why)));
        }
        self.chunk(Kind::Manifest, &manifest)?;
        let end = EndChunk { accounts: self.sums.0, lamports: self.sums.1, digest: sha256(&[&self.heads]) };
        self.chunk(Kind::End, &end.encode())?;
        self.medium.sync().map_err(|e| SnapshotError::io("syncing", &self.part, e))?;
        self.folder.publish(&self.part, &self.path)?;
        self.finished = true;
        Ok((SnapshotFile { slot: self.slot, path: self.path.clone() }, self.bytes))
    }

    /// Adds a vote account of an epoch's stakes.
    fn vote_account(&mut self, epoch: u64, address: &Pubkey, account: &Account) -> Result<(), SnapshotError> {
        self.vote_accounts.extend_from_slice(&epoch.to_le_bytes());
        account::encode(&mut self.vote_accounts, address, account);
        if self.vote_accounts.len() >= CHUNK_SIZE { self.flush(Kind::VoteAccounts) } else { Ok(()) }
    }

    fn flush(&mut self, kind: Kind) -> Result<(), SnapshotError> {
        let held = match kind {
            Kind::Claims => &mut self.claims,
            Kind::Statuses => &mut self.statuses,
            Kind::VoteAccounts => &mut self.vote_accounts,
            _ => &mut self.accounts,
        };
        let mut content = std::mem::take(held);
        if content.is_empty() {
            return Ok(());
        }
        self.chunk(kind, &content)?;
        content.clear();
        match kind {
            Kind::Claims => self.claims = content,
            Kind::Statuses => self.statuses = content,
            Kind::VoteAccounts => self.vote_accounts = content,
            _ => self.accounts = content,
        }
        Ok(())
    }

    fn chunk(&mut self, kind: Kind, content: &[u8]) -> Result<(), SnapshotError> {
        let bytes = encode_chunk(kind, self.chunks, content);
        self.medium.write_all(&bytes).map_err(|e| SnapshotError::io("writing", &self.part, e))?;
        self.heads.extend_from_slice(&bytes[..CHUNK_HEAD_SIZE]);
        self.chunks += 1;
        self.bytes += bytes.len() as u64;
        self.unsynced += bytes.len();
        if self.unsynced >= SYNC_BYTES {
            self.medium.sync().map_err(|e| SnapshotError::io("syncing", &self.part, e))?;
            self.unsynced = 0;
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            // If it cannot be removed now, the next start removes it.
            let _ = fs::remove_file(&self.part);
        }
    }
}
