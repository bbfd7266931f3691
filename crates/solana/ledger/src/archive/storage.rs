//! storage: an account file, in which the accounts that one slot wrote lie one behind the other.
//!
//! reads   a file of an archive, as a stream
//! writes  the same
//! memory  one account
//! drops   what lies behind an account with neither key nor lamports: it must be zeros
//! source  `solana-accounts-db` 4.2, `append_vec.rs`: `write version u64 | length u64 | key | lamports u64 | rent epoch
//!         u64 | owner | executable u8, 7 B of any value | hash, unused, 32 B | data`, each at a multiple of 8 bytes

use std::io::{Read, Write};
use std::sync::Arc;

use hearth_wire::{Hash, Pubkey};

use super::error::Fault;
use crate::account::Account;

/// Bytes of an account without data.
const OVERHEAD: u64 = 48 + 56 + 32;
/// Most bytes of data in an account: 10 MiB.
pub(super) const DATA_MAX: u64 = 10 << 20;
/// Most bytes of an account file: 16 GiB.
pub const STORAGE_MAX: u64 = 16 << 30;

/// The bytes that an account with this many bytes of data takes in a file, with what aligns the next one.
pub const fn stored_size(data_len: usize) -> u64 {
    (OVERHEAD + data_len as u64).next_multiple_of(8)
}

/// Calls `visit` with each account of a file of `len` bytes, in its order.
pub(super) fn read_accounts<R: Read>(
    from: &mut R,
    len: u64,
    visit: &mut dyn FnMut(&Pubkey, Account) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut left = len;
    while left > 0 {
        if left < OVERHEAD {
            return zeros(from, left);
        }
        let mut head = [0; OVERHEAD as usize];
        from.read_exact(&mut head).map_err(Fault::reading)?;
        left -= OVERHEAD;
        let u64_at = |at: usize| u64::from_le_bytes(*head[at..].first_chunk().expect("within the head"));
        let (data_len, lamports, rent_epoch) = (u64_at(8), u64_at(48), u64_at(56));
        let key: Pubkey = *head[16..].first_chunk().expect("within the head");
        let owner: Pubkey = *head[64..].first_chunk().expect("within the head");
        if lamports == 0 && key == [0; 32] {
            return zeros(from, left);
        }
        if data_len > left.min(DATA_MAX) {
            return Err(Fault::Malformed("an account's data lies beyond the end of its file"));
        }
        let executable = match head[96] {
            0 => false,
            1 => true,
            _ => return Err(Fault::Malformed("an account that is neither a program nor none")),
        };
        let mut account = Account::wallet(lamports);
        (account.owner, account.rent_epoch, account.executable) = (owner, rent_epoch, executable);
        if data_len > 0 {
            let mut data = vec![0; data_len as usize];
            from.read_exact(&mut data).map_err(Fault::reading)?;
            account.set_shared_data(Arc::new(data));
        }
        left -= data_len;
        let padding = (data_len.next_multiple_of(8) - data_len).min(left);
        from.read_exact(&mut [0; 8][..padding as usize]).map_err(Fault::reading)?;
        left -= padding;
        visit(&key, account)?;
    }
    Ok(())
}

/// Reads bytes that must be zeros.
fn zeros<R: Read>(from: &mut R, mut left: u64) -> Result<(), Fault> {
    let mut buffer = [0; 4096];
    while left > 0 {
        let some = &mut buffer[..left.min(4096) as usize];
        from.read_exact(some).map_err(Fault::reading)?;
        if some.iter().any(|byte| *byte != 0) {
            return Err(Fault::Malformed("bytes after the last account of a file"));
        }
        left -= some.len() as u64;
    }
    Ok(())
}

/// Writes an account; returns [`stored_size`] of it.
pub(super) fn write_account<W: Write>(to: &mut W, key: &Pubkey, account: &Account) -> Result<u64, Fault> {
    const UNUSED: Hash = [0; 32];
    let data = account.data();
    let mut head = Vec::with_capacity(OVERHEAD as usize);
    head.extend_from_slice(&0u64.to_le_bytes());
    head.extend_from_slice(&(data.len() as u64).to_le_bytes());
    head.extend_from_slice(key);
    head.extend_from_slice(&account.lamports.to_le_bytes());
    head.extend_from_slice(&account.rent_epoch.to_le_bytes());
    head.extend_from_slice(&account.owner);
    head.extend_from_slice(&[account.executable.into(), 0, 0, 0, 0, 0, 0, 0]);
    head.extend_from_slice(&UNUSED);
    let size = stored_size(data.len());
    let padding = size - OVERHEAD - data.len() as u64;
    to.write_all(&head).map_err(Fault::Write)?;
    to.write_all(data).map_err(Fault::Write)?;
    to.write_all(&[0; 8][..padding as usize]).map_err(Fault::Write)?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<(Pubkey, Account)> {
        (0..20u8)
            .map(|n| {
                let data: Vec<u8> = (0..n).collect();
                let mut account = Account::with_data(u64::from(n), [n; 32], &data);
                (account.executable, account.rent_epoch) = (n % 2 == 1, u64::from(n) * 3);
                ([n + 1; 32], account)
            })
            .collect()
    }

    fn read(bytes: &[u8]) -> Result<Vec<(Pubkey, Account)>, Fault> {
        let mut all = vec![];
        let mut from = bytes;
        read_accounts(&mut from, bytes.len() as u64, &mut |key, account| {
            all.push((*key, account));
            Ok(())
        })?;
        Ok(all)
    }

    fn written(accounts: &[(Pubkey, Account)]) -> Vec<u8> {
        let mut bytes = vec![];
        for (key, account) in accounts {
            let size = write_account(&mut bytes, key, account).unwrap();
            assert_eq!(size, stored_size(account.data().len()));
        }
        bytes
    }

    #[test]
    fn accounts_come_back() {
        let accounts = sample();
        let mut bytes = written(&accounts);
        assert_eq!(read(&bytes).unwrap(), accounts);
        // The cluster does not pad the last account.
        bytes.truncate(bytes.len() - 5);
        assert_eq!(read(&bytes).unwrap(), accounts);
        bytes.resize(bytes.len() + 5 + 3000, 0);
        assert_eq!(read(&bytes).unwrap(), accounts);
    }

    #[test]
    fn fields_are_where_the_cluster_has_them() {
        let mut account = Account::with_data(7, [3; 32], &[5; 9]);
        (account.executable, account.rent_epoch) = (true, 11);
        let bytes = written(&[([2; 32], account)]);
        assert_eq!(bytes.len(), 136 + 16);
        assert_eq!((bytes[0], bytes[8], &bytes[16..48]), (0, 9, &[2; 32][..]));
        assert_eq!((bytes[48], bytes[56], &bytes[64..96], bytes[96]), (7, 11, &[3; 32][..], 1));
        assert_eq!((&bytes[104..136], &bytes[136..145], &bytes[145..]), (&[0; 32][..], &[5; 9][..], &[0; 7][..]));
    }

    #[test]
    fn malformed_files_are_refused() {
        let accounts = sample();
        let bytes = written(&accounts);
        for len in 0..bytes.len() {
            // Cut between two accounts, it is a shorter file. So it is within the zeros that align the next one and
            // with which that begins: 8, and 16 of the first, which has no data.
            let whole = read(&bytes[..len]).is_ok_and(|all| accounts.starts_with(&all));
            let mut end = 0;
            let ends: Vec<_> = accounts
                .iter()
                .map(|(_, account)| {
                    let data_end = end + OVERHEAD + account.data().len() as u64;
                    end += stored_size(account.data().len());
                    data_end..=end + 8
                })
                .collect();
            let expected = len <= 16 || ends.iter().any(|end| end.contains(&(len as u64)));
            assert_eq!(whole, expected, "{len}");
        }
        let mut wrong = bytes.clone();
        wrong[96] = 2;
        assert!(read(&wrong).is_err());
        for length in [DATA_MAX + 1, u64::MAX, bytes.len() as u64] {
            let mut wrong = bytes.clone();
            wrong[8..16].copy_from_slice(&length.to_le_bytes());
            assert!(read(&wrong).is_err(), "{length}");
        }
        let mut behind = bytes;
        behind.extend_from_slice(&[0; 200]);
        *behind.last_mut().unwrap() = 1;
        assert!(read(&behind).is_err());
    }
}
