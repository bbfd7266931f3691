//! The key file of `hearth load fund`: which accounts are funded, and when their keys are written.
//!
//! reads   a key file
//! writes  the same with new accounts, before the first payment and only if there is one
//! memory  the accounts
//!
//! A command that finds no money leaves no file. Otherwise the corrected command would be refused because the file
//! exists.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use super::options::Fund;
use crate::account::{AccountError, KeyLock, WriteMode};

/// How accounts of a chain are generated, read and written.
pub struct Keys<A> {
    /// Generates this many accounts.
    pub generate: fn(usize) -> Result<Vec<A>, AccountError>,
    /// Reads a key file.
    pub load: fn(&Path) -> Result<Vec<A>, AccountError>,
    /// Writes a key file.
    pub save: fn(&Path, &[A], WriteMode) -> Result<(), AccountError>,
}

/// The accounts of one `fund` command.
pub struct KeyFile<A> {
    path: PathBuf,
    keys: Keys<A>,
    /// The file's accounts, followed by new ones.
    accounts: Vec<A>,
    /// How many of them, from the first, are funded.
    count: usize,
    /// Whether the file did not exist.
    is_new: bool,
    locks: RefCell<Vec<KeyLock>>,
    is_kept: Cell<bool>,
    /// Payments that were about to be sent.
    payments: Cell<u32>,
}

impl<A> KeyFile<A> {
    /// Opens the accounts that the options name. An existing file stays locked until this is dropped.
    pub fn open(options: &Fund, keys: Keys<A>) -> Result<Self, AccountError> {
        let path = options.keys.clone();
        let (mut locks, mut accounts) = (vec![], vec![]);
        if options.uses_file() {
            locks.push(KeyLock::take(&path)?);
            accounts = (keys.load)(&path)?;
        } else if path.exists() {
            return Err(AccountError::There(path));
        }
        let there = accounts.len();
        let count = options.count(there);
        accounts.extend((keys.generate)(count.saturating_sub(there))?);
        Ok(Self {
            path,
            keys,
            is_kept: Cell::new(accounts.len() == there),
            accounts,
            count,
            is_new: !options.uses_file(),
            locks: RefCell::new(locks),
            payments: Cell::new(0),
        })
    }

    /// Returns the accounts that are funded.
    pub fn funded(&self) -> &[A] {
        &self.accounts[..self.count]
    }

    /// Returns how many further accounts the file holds.
    pub fn others(&self) -> usize {
        self.accounts.len() - self.count
    }

    /// Must be called before each payment: writes new keys to the file before any money is sent to them.
    pub fn before_paying(&self) -> Result<(), AccountError> {
        self.payments.set(self.payments.get() + 1);
        if self.is_kept.get() {
            return Ok(());
        }
        let place = if self.is_new { WriteMode::New } else { WriteMode::Replace };
        (self.keys.save)(&self.path, &self.accounts, place)?;
        self.is_kept.set(true);
        // The new file has another inode, which is not locked yet.
        self.locks.borrow_mut().push(KeyLock::take(&self.path)?);
        Ok(())
    }

    /// Returns whether the file holds all keys.
    pub fn is_kept(&self) -> bool {
        self.is_kept.get()
    }

    /// The node refused the very first payment: removes a file that was created for it.
    pub fn nothing_was_paid(&self) {
        if self.is_new && self.is_kept.get() && self.payments.get() == 1 {
            // A file that cannot be removed does no harm: `--load` uses it.
            self.is_kept.set(std::fs::remove_file(&self.path).is_err());
        }
    }
}

#[cfg(test)]
mod tests {
    use hearth_crypto::secp256k1::Signer;

    use super::*;
    use crate::account;

    fn options(path: &Path, count: Option<usize>, load: bool) -> Fund {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            fund: Fund,
        }
        let path = path.display().to_string();
        let mut line = vec!["fund".to_owned(), "--keys".into(), path];
        line.extend(count.iter().flat_map(|count| ["--count".to_owned(), count.to_string()]));
        line.extend(load.then(|| "--load".to_owned()));
        <Line as clap::Parser>::try_parse_from(line).unwrap().fund
    }

    fn open(options: &Fund) -> Result<KeyFile<Signer>, AccountError> {
        KeyFile::open(options, Keys { generate: account::generate, load: account::load, save: account::save })
    }

    #[test]
    fn a_funding_without_money_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let new = options(&path, Some(3), false);
        drop(open(&new).unwrap());
        assert!(!path.exists(), "nothing was about to be paid");
        // The node refuses the airdrop, the only payment.
        let refused = open(&new).unwrap();
        refused.before_paying().unwrap();
        assert!(path.exists() && refused.is_kept());
        refused.nothing_was_paid();
        assert!(!path.exists() && !refused.is_kept());
        // The corrected command succeeds and pays: from then on the file stays.
        let paid = open(&new).unwrap();
        (0..2).for_each(|_| paid.before_paying().unwrap());
        paid.nothing_was_paid();
        assert_eq!(account::load(&path).unwrap().len(), 3);
        assert!(matches!(open(&new), Err(AccountError::There(_))));
    }

    #[test]
    fn a_file_grows_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let made = open(&options(&path, Some(3), false)).unwrap();
        made.before_paying().unwrap();
        let in_use = open(&options(&path, None, true)).err().unwrap();
        assert!(matches!(in_use, AccountError::InUse { .. }), "{in_use}");
        drop(made);
        let first = account::load(&path).unwrap();
        let grown = open(&options(&path, Some(5), true)).unwrap();
        assert_eq!((grown.funded().len(), grown.others(), account::load(&path).unwrap().len()), (5, 0, 3));
        grown.before_paying().unwrap();
        let in_use = open(&options(&path, None, true)).err().unwrap();
        assert!(matches!(in_use, AccountError::InUse { .. }), "the new file, too: {in_use}");
        drop(grown);
        let all = account::load(&path).unwrap();
        assert_eq!(all.len(), 5);
        assert!(all.iter().zip(&first).all(|(one, other)| one.secret() == other.secret()));
        let fewer = open(&options(&path, Some(2), true)).unwrap();
        assert_eq!((fewer.funded().len(), fewer.others(), fewer.is_kept()), (2, 3, true));
    }
}
