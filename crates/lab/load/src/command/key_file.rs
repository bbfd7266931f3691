//! The key file of `hearth load fund`: which accounts are funded, and when their keys are written.
//!
//! reads   a key file
//! writes  the same with new accounts, before any money goes out and not where none does
//! memory  the accounts
//!
//! A command that found no money leaves no file: the corrected one would else be refused, as the file is there already.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use super::options::Fund;
use crate::account::{AccountError, KeyLock, Place};

/// How accounts of a chain are made, read and written.
pub struct Keys<A> {
    /// Makes so many.
    pub generate: fn(usize) -> Result<Vec<A>, AccountError>,
    /// Reads a file.
    pub load: fn(&Path) -> Result<Vec<A>, AccountError>,
    /// Writes a file.
    pub save: fn(&Path, &[A], Place) -> Result<(), AccountError>,
}

/// The accounts of a funding.
pub struct KeyFile<A> {
    path: PathBuf,
    keys: Keys<A>,
    /// Those of the file, and new ones behind them.
    accounts: Vec<A>,
    /// How many of them are funded.
    count: usize,
    /// Whether there was no file.
    is_new: bool,
    locks: RefCell<Vec<KeyLock>>,
    is_kept: Cell<bool>,
    /// How often money was about to go out.
    payments: Cell<u32>,
}

impl<A> KeyFile<A> {
    /// The accounts that the options ask for. A file that is used is locked until the end.
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

    /// The accounts that are funded.
    pub fn funded(&self) -> &[A] {
        &self.accounts[..self.count]
    }

    /// How many more the file has.
    pub fn others(&self) -> usize {
        self.accounts.len() - self.count
    }

    /// Money is about to go out: new keys are written by then.
    pub fn before_paying(&self) -> Result<(), AccountError> {
        self.payments.set(self.payments.get() + 1);
        if self.is_kept.get() {
            return Ok(());
        }
        let place = if self.is_new { Place::New } else { Place::Replace };
        (self.keys.save)(&self.path, &self.accounts, place)?;
        self.is_kept.set(true);
        // The new file is another one for the system, which nobody has locked.
        self.locks.borrow_mut().push(KeyLock::take(&self.path)?);
        Ok(())
    }

    /// Whether all keys are in the file.
    pub fn is_kept(&self) -> bool {
        self.is_kept.get()
    }

    /// The first payment of all was refused, and there was no other: takes back a file that was made for it.
    pub fn nothing_was_paid(&self) {
        if self.is_new && self.is_kept.get() && self.payments.get() == 1 {
            // One that stays is no worse than it was: `--load` uses it.
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
        // The node refuses the airdrop, which is all that was asked for.
        let refused = open(&new).unwrap();
        refused.before_paying().unwrap();
        assert!(path.exists() && refused.is_kept());
        refused.nothing_was_paid();
        assert!(!path.exists() && !refused.is_kept());
        // The corrected command is taken, and pays: from then on the file stays.
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
