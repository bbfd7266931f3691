//! Tests of the account store: storage, updates in place, and concurrent writers.

use super::*;

fn key(n: u32) -> Pubkey {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&n.to_le_bytes());
    key
}

#[test]
fn keeps_what_has_lamports() {
    let accounts = Accounts::new();
    assert_eq!(accounts.load(&key(1)), None);
    accounts.store(&key(1), Account::wallet(5));
    accounts.store(&key(2), Account::wallet(0));
    assert_eq!(accounts.load(&key(1)), Some(Account::wallet(5)));
    assert_eq!((accounts.load(&key(2)), accounts.count()), (None, 1));
    assert_eq!(accounts.with(&key(1), |account| account.lamports), Some(5));
    let data = Account::with_data(7, [3; 32], b"data");
    accounts.store(&key(1), data.clone());
    assert_eq!(accounts.load(&key(1)), Some(data));
    accounts.store(&key(1), Account::wallet(0));
    assert_eq!(accounts.count(), 0);
}

#[test]
fn updates_in_place() {
    let accounts = Accounts::new();
    assert_eq!(accounts.update(&key(1), |account| account.lamports), 0);
    assert_eq!(accounts.count(), 0, "a look creates nothing");
    accounts.update(&key(1), |account| account.lamports += 9);
    accounts.update(&key(1), |account| account.lamports -= 2);
    assert_eq!(accounts.load(&key(1)), Some(Account::wallet(7)));
    accounts.update(&key(1), |account| account.lamports = 0);
    assert_eq!(accounts.count(), 0);
}

#[test]
fn many_threads_on_their_own_accounts() {
    let accounts = Accounts::new();
    let (threads, each) = (8u32, 10_000u32);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let accounts = &accounts;
            scope.spawn(move || {
                for n in 0..each {
                    let key = key(thread * each + n);
                    accounts.store(&key, Account::wallet(u64::from(n) + 1));
                    let account = accounts.load(&key).unwrap();
                    accounts.store(&key, Account::wallet(account.lamports * 2));
                }
            });
        }
    });
    assert_eq!(accounts.count(), (threads * each) as usize);
    let one_thread: u64 = (1..=u64::from(each)).map(|n| 2 * n).sum();
    assert_eq!(accounts.total_lamports(), u128::from(one_thread) * u128::from(threads));
}
