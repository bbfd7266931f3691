//! Archives of a small chain: whole ones come back, and everything that can be wrong with one is found.

mod damage;
mod layout;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hearth_wire::Pubkey;
use hearth_wire::consts::SYSVAR_SLOT_HISTORY;
use solana_fee_calculator::FeeRateGovernor;
use solana_inflation::Inflation;

use super::*;
use crate::account::Account;
use crate::epoch::EpochSchedule;
use crate::lattice::Lattice;

/// A slot and the accounts that it wrote.
type SlotWrites = (u64, Vec<(Pubkey, Account)>);

/// An account whose data depends on `n`.
fn account(n: u8, lamports: u64) -> (Pubkey, Account) {
    let data: Vec<u8> = (0..n).collect();
    ([n; 32], Account::with_data(lamports, [n / 2; 32], &data))
}

/// The slot history in which `slot` and the one before have blocks.
fn slot_history(slot: u64) -> (Pubkey, Account) {
    let mut data = vec![0u8; 131_097];
    for block in [slot - 1, slot] {
        data[9 + block as usize / 8] |= 1 << (block % 8);
    }
    data[131_089..].copy_from_slice(&(slot + 1).to_le_bytes());
    (SYSVAR_SLOT_HISTORY, Account::with_data(1, [70; 32], &data))
}

/// The accounts that the slots up to 70 wrote: 105, of which one was written twice and one removed.
fn full() -> Vec<SlotWrites> {
    let many = (0..100u32).map(|n| {
        let key = hearth_crypto::sha256::sha256(&[&n.to_le_bytes()]);
        (key, Account::with_data(u64::from(n) + 1, [7; 32], &n.to_le_bytes()))
    });
    vec![
        (3, vec![account(1, 10), account(2, 20), account(3, 30)]),
        (9, many.collect()),
        (70, vec![account(2, 25), account(3, 0), account(4, 40), slot_history(70)]),
    ]
}

/// The accounts that the slots from 71 to 75 wrote.
fn incremental() -> Vec<SlotWrites> {
    let last = vec![account(4, 0), account(5, 51), account(6, 60), slot_history(75)];
    vec![(71, vec![account(1, 11), account(5, 50)]), (75, last)]
}

/// The newest version of each account that has lamports.
fn state_of(written: &[SlotWrites]) -> BTreeMap<Pubkey, Account> {
    let mut state = BTreeMap::new();
    for (key, account) in written.iter().flat_map(|(_, accounts)| accounts) {
        state.insert(*key, account.clone());
    }
    state.retain(|_, account| account.lamports > 0);
    state
}

fn vote(n: u8) -> StakedVote {
    let (address, account) = account(n, 1000);
    StakedVote { address, stake: u64::from(n), account }
}

fn history() -> Vec<StakeOfEpoch> {
    (0..2).map(|epoch| StakeOfEpoch { epoch, effective: 5, activating: 6, deactivating: 7 }).collect()
}

fn epoch_stakes(epoch: u64) -> EpochStakes {
    EpochStakes {
        epoch,
        votes: vec![vote(30), vote(31)],
        staked_in: epoch - 1,
        history: history(),
        total: 61,
        nodes: vec![NodeVotes { node: [40; 32], votes: vec![[30; 32], [31; 32]], stake: 61 }],
        voters: vec![([30; 32], [40; 32]), ([31; 32], [41; 32])],
    }
}

/// The fields of the bank of `slot`, whose archive holds what is in `files`, and whose state is what `all` come to.
fn fields(slot: u64, files: &[SlotWrites], all: &[SlotWrites]) -> BankFields {
    let state = state_of(all);
    let mut lattice = Lattice::default();
    state.iter().for_each(|(key, account)| lattice.add(key, account));
    let size =
        |accounts: &[(Pubkey, Account)]| -> u64 { accounts.iter().map(|(_, one)| stored_size(one.data().len())).sum() };
    let storages =
        files.iter().map(|(slot, accounts)| StorageInfo { slot: *slot, id: 100 + slot, len: size(accounts) }).collect();
    let queued = |index: u64| QueuedHash { hash: [index as u8; 32], lamports_per_signature: 5000, index, timestamp: 9 };
    let mut fields = BankFields {
        blockhashes: BlockhashQueue {
            last_index: slot,
            last: Some([slot as u8; 32]),
            hashes: (slot - 2..=slot).map(queued).collect(),
            max_age: 300,
        },
        hash: [0; 32],
        parent_hash: [12; 32],
        parent_slot: slot - 1,
        hard_forks: vec![(20, 1), (slot, 2)],
        transaction_count: 900 + slot,
        tick_height: 64 * (slot + 1),
        signature_count: 3,
        capitalization: state.values().map(|account| account.lamports).sum(),
        max_tick_height: 64 * (slot + 1),
        hashes_per_tick: Some(62_500),
        ticks_per_slot: 64,
        ns_per_slot: 400_000_000,
        genesis_creation_time: 1_700_000_000,
        slots_per_year: 78_892_314.984,
        accounts_data_len: state.values().map(|account| account.data().len() as u64).sum(),
        slot,
        block_height: slot - 5,
        leader: [40; 32],
        fee_rate_governor: FeeRateGovernor { lamports_per_signature: 5000, ..FeeRateGovernor::default() },
        epoch_schedule: EpochSchedule::without_warmup(32),
        inflation: Inflation::default(),
        stakes: BankStakes {
            votes: vec![vote(30)],
            delegations: vec![StakeDelegation {
                address: [50; 32],
                vote: [30; 32],
                stake: 77,
                activation_epoch: u64::MAX,
                deactivation_epoch: 3,
                reserved: [1, 2, 3, 4, 5, 6, 7, 8],
            }],
            epoch: 2,
            history: history(),
        },
        is_delta: true,
        storages,
        stats: BankStats {
            updated_accounts: 1,
            removed_accounts: 2,
            lamports_stored: 3,
            data_len: 4,
            executable_accounts: 5,
        },
        lamports_per_signature: 5000,
        epoch_stakes: vec![epoch_stakes(2), epoch_stakes(3)],
        lattice,
        block_id: Some([60; 32]),
    };
    fields.hash = fields.computed_hash();
    fields
}

fn statuses(slot: u64) -> Vec<SlotStatuses> {
    let statuses = vec![([1; KEY_SIZE], Ok(())), ([2; KEY_SIZE], Err(crate::TransactionError::AccountNotFound))];
    let hashes = vec![HashStatuses { blockhash: [9; 32], key_index: 4, statuses }];
    vec![SlotStatuses { slot: slot - 1, hashes }, SlotStatuses { slot, hashes: vec![] }]
}

/// Writes an archive into `folder`.
fn write(folder: &Path, base: Option<u64>, fields: &BankFields, files: &[SlotWrites]) -> PathBuf {
    write_with(folder, base, fields, &statuses(fields.slot), files)
}

fn write_with(
    folder: &Path,
    base: Option<u64>,
    fields: &BankFields,
    statuses: &[SlotStatuses],
    files: &[SlotWrites],
) -> PathBuf {
    let mut archive = NewArchive::create(folder, base, fields, statuses).unwrap();
    for (key, account) in files.iter().flat_map(|(_, accounts)| accounts) {
        archive.account(key, account).unwrap();
    }
    archive.finish().unwrap()
}

fn write_full(folder: &Path) -> PathBuf {
    write(folder, None, &fields(70, &full(), &full()), &full())
}

fn write_incremental(folder: &Path) -> PathBuf {
    let all = [full(), incremental()].concat();
    write(folder, Some(70), &fields(75, &incremental(), &all), &incremental())
}

/// Keeps what it receives.
#[derive(Default)]
struct CollectingReceiver {
    state: BTreeMap<Pubkey, Account>,
    progress: Vec<Progress>,
}

impl AccountReceiver for CollectingReceiver {
    fn store(&mut self, key: &Pubkey, account: &Account) {
        if account.lamports == 0 {
            self.state.remove(key);
        } else {
            self.state.insert(*key, account.clone());
        }
    }

    fn progress(&mut self, _: &ArchiveName, progress: Progress) {
        self.progress.push(progress);
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_full_archive_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_full(folder.path());
    let mut kept = CollectingReceiver::default();
    let state = read_state(&path, None, &mut kept).unwrap();
    assert_eq!(kept.state, state_of(&full()));
    assert_eq!(state.contents.fields, fields(70, &full(), &full()));
    assert_eq!(state.contents.statuses, statuses(70));
    assert_eq!((state.contents.accounts, state.old_versions), (104, 2));
    let last = kept.progress.last().unwrap();
    let len = fs::metadata(&path).unwrap().len();
    assert_eq!((last.packed, last.packed_total, last.accounts), (len, len, 107));
    let name = ArchiveName::of_path(&path).unwrap();
    assert_eq!((name.base, name.slot, name.hash), (None, 70, state.contents.fields.lattice.checksum()));
    assert_eq!(names_in(folder.path()).len(), 1);
}

#[test]
fn an_incremental_archive_comes_on_top() {
    let folder = tempfile::tempdir().unwrap();
    let (base, path) = (write_full(folder.path()), write_incremental(folder.path()));
    let mut kept = CollectingReceiver::default();
    let state = read_state(&base, Some(&path), &mut kept).unwrap();
    let all = [full(), incremental()].concat();
    assert_eq!(kept.state, state_of(&all));
    assert_eq!(state.contents.fields, fields(75, &incremental(), &all));
    assert_eq!(state.contents.statuses, statuses(75));
    assert_eq!(state.contents.accounts, kept.state.len() as u64);
    let (name, contents) = read_fields(&path, &mut kept).unwrap();
    assert_eq!((name.base, contents.fields.slot, contents.accounts), (Some(70), 75, 6));
}

#[test]
fn an_archive_is_what_its_bytes_are() {
    let folder = tempfile::tempdir().unwrap();
    let first = fs::read(write_full(folder.path())).unwrap();
    assert_eq!(first, fs::read(write_full(folder.path())).unwrap());
    // Another program unpacks it.
    let tar = zstd::stream::decode_all(&first[..]).unwrap();
    let mut archive = tar::Archive::new(&tar[..]);
    let names: Vec<String> =
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
    let expected = [
        "version",
        "snapshots/",
        "snapshots/status_cache",
        "snapshots/70/",
        "snapshots/70/70",
        "accounts/3.103",
        "accounts/9.109",
        "accounts/70.170",
    ];
    assert_eq!(names, expected);
}

#[test]
fn an_unfinished_archive_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let fields = fields(70, &full(), &full());
    let create = || NewArchive::create(folder.path(), None, &fields, &[]).unwrap();
    drop(create());
    assert!(names_in(folder.path()).is_empty());
    // Fewer accounts than were promised.
    let mut archive = create();
    let (key, account) = account(1, 10);
    archive.account(&key, &account).unwrap();
    assert!(archive.finish().is_err());
    assert!(names_in(folder.path()).is_empty());
    // An account across the end of a file, and more accounts than were promised.
    let mut archive = create();
    archive.account(&key, &Account::with_data(1, [0; 32], &[0; 500])).unwrap_err();
    drop(archive);
    let mut archive = create();
    for (key, account) in full().iter().flat_map(|(_, accounts)| accounts) {
        archive.account(key, account).unwrap();
    }
    archive.account(&key, &account).unwrap_err();
    drop(archive);
    assert!(names_in(folder.path()).is_empty());
    assert!(NewArchive::create(&folder.path().join("none"), None, &fields, &[]).is_err());
}
