//! What is wrong with an archive is found, and named.

use tar::{EntryType, Header};

use super::*;
use crate::archive::entry::{Entry, folder_of};

/// A file of an archive: header and content.
type InTar = (Header, Vec<u8>);

/// The files of the full archive.
fn files() -> Vec<InTar> {
    files_of(&fields(70, &full(), &full()), &full())
}

fn files_of(fields: &BankFields, written: &[SlotWrites]) -> Vec<InTar> {
    let file = |entry: Entry, content: Vec<u8>| (entry.header(content.len() as u64), content);
    let mut files = vec![
        file(Entry::Version, b"1.2.0".to_vec()),
        file(Entry::Folder, vec![]),
        file(Entry::Statuses, crate::archive::statuses::encode(&statuses(fields.slot))),
        (folder_of(fields.slot), vec![]),
        file(Entry::Fields { slot: fields.slot }, fields.encode()),
    ];
    files.extend(written.iter().map(|(slot, accounts)| storage(*slot, 100 + slot, accounts)));
    files
}

fn storage(slot: u64, id: u64, accounts: &[(Pubkey, Account)]) -> InTar {
    let mut content = vec![];
    for (key, account) in accounts {
        crate::archive::storage::write_account(&mut content, key, account).unwrap();
    }
    (Entry::Storage { slot, id }.header(content.len() as u64), content)
}

fn tar_of(files: &[InTar]) -> Vec<u8> {
    let mut tar = vec![];
    for (header, content) in files {
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

/// The name that the full archive has.
fn name() -> ArchiveName {
    ArchiveName { base: None, slot: 70, hash: fields(70, &full(), &full()).lattice.checksum() }
}

fn read_tar(tar: &[u8], name: &ArchiveName, limits: &Limits) -> Result<Contents, Fault> {
    let packed = zstd::stream::encode_all(tar, 1).unwrap();
    read(&packed[..], packed.len() as u64, name, limits, &mut ())
}

const LIMITS: Limits = Limits { fields: 1 << 20, accounts: 1000, unpacked: 1 << 30 };

/// The fault of the full archive after a change.
fn fault_of(change: impl FnOnce(&mut Vec<InTar>)) -> String {
    let mut files = files();
    change(&mut files);
    read_tar(&tar_of(&files), &name(), &LIMITS).unwrap_err().to_string()
}

/// The fault of the full archive with other fields.
fn fault_of_fields(change: impl FnOnce(&mut BankFields)) -> String {
    let mut fields = fields(70, &full(), &full());
    change(&mut fields);
    fields.hash = fields.computed_hash();
    let content = fields.encode();
    fault_of(|files| files[4] = (Entry::Fields { slot: 70 }.header(content.len() as u64), content))
}

#[test]
fn files_as_the_cluster_writes_them_are_read() {
    let contents = read_tar(&tar_of(&files()), &name(), &LIMITS).unwrap();
    assert_eq!((contents.accounts, contents.fields.slot), (107, 70));
    // In another order, and with a folder for the accounts.
    let mut files = files();
    files.reverse();
    let mut folder = Header::new_gnu();
    folder.set_path("accounts/").unwrap();
    folder.set_entry_type(EntryType::Directory);
    folder.set_size(0);
    folder.set_cksum();
    files.push((folder, vec![]));
    files[7].1 = b"v1.2.0\n".to_vec();
    files[7].0 = Entry::Version.header(7);
    read_tar(&tar_of(&files), &name(), &LIMITS).unwrap();
}

#[test]
fn files_that_are_missing_or_too_many_are_named() {
    assert!(fault_of(|files| drop(files.remove(0))).contains("lacks the file `version`"));
    assert!(fault_of(|files| drop(files.remove(2))).contains("lacks the file `status_cache`"));
    assert!(fault_of(|files| drop(files.remove(4))).contains("lacks the bank's fields"));
    assert!(fault_of(|files| drop(files.remove(6))).contains("slot 9 is not there"));
    for (at, what) in [(0, "version"), (2, "status_cache"), (4, "bank's fields"), (6, "slot 9 is there twice")] {
        let said = fault_of(|files| files.push(files[at].clone()));
        assert!(said.contains(what) && said.contains("twice"), "{said}");
    }
    assert!(fault_of(|files| files.push(storage(9, 7, &full()[1].1))).contains("slot 9 is there twice"));
    assert!(fault_of(|files| files.push(storage(10, 7, &full()[1].1))).contains("slot 10 is not listed"));
    assert!(fault_of(|files| files.push(storage(71, 7, &full()[1].1))).contains("slot 71 is later"));
    assert!(fault_of(|files| files[6] = storage(9, 7, &full()[1].1)).contains("slot 9 has another number"));
    assert!(fault_of(|files| files[6] = storage(9, 109, &full()[1].1[1..])).contains("slot 9 is shorter"));
    assert!(fault_of(|files| files[6] = storage(9, 109, &[])).contains("slot 9 is empty"));
    let mut link = Header::new_gnu();
    link.set_path("accounts/10.1").unwrap();
    link.set_entry_type(EntryType::Symlink);
    link.set_link_name("version").unwrap();
    link.set_size(0);
    link.set_cksum();
    assert!(fault_of(|files| files.push((link, vec![]))).contains("holds \"accounts/10.1\""));
}

/// As agave-validator 4.2.2 writes them.
#[test]
fn an_incremental_archive_may_list_files_of_the_full_one() {
    let mut files = files();
    // The account file of slot 3.
    files.remove(5);
    let incremental = |base| ArchiveName { base: Some(base), ..name() };
    read_tar(&tar_of(&files), &incremental(5), &LIMITS).unwrap();
    let fault = read_tar(&tar_of(&files), &incremental(2), &LIMITS).unwrap_err();
    assert!(fault.to_string().contains("slot 3 is not there"), "{fault}");
}

#[test]
fn fields_that_do_not_fit_are_named() {
    assert!(
        fault_of(|files| files[0] = (Entry::Version.header(5), b"1.3.0".to_vec())).contains("version is \"1.3.0\"")
    );
    assert!(fault_of_fields(|fields| fields.slot = 69).contains("the bank is of slot 69"), "its folder says 70");
    let folder = |files: &mut Vec<InTar>| files[4].0 = Entry::Fields { slot: 71 }.header(files[4].1.len() as u64);
    assert!(fault_of(folder).contains("the bank's folder is of slot 71"));
    assert!(fault_of_fields(|fields| fields.lattice.add(&[1; 32], &Account::wallet(1))).contains("archive's name"));
    assert!(fault_of_fields(|fields| fields.storages.push(fields.storages[0])).contains("slot 3 is listed twice"));
    assert!(fault_of_fields(|fields| fields.max_tick_height += 1).contains("not the last of its slot"));
    let mut fields = fields(70, &full(), &full());
    fields.signature_count += 1;
    let said = fault_of(|files| files[4] = files_of(&fields, &[]).remove(4));
    assert!(said.contains("the bank's hash"), "{said}");
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    // A header that promises 32 GiB of fields, statuses, accounts.
    for (at, entry) in [(2, Entry::Statuses), (4, Entry::Fields { slot: 70 }), (6, Entry::Storage { slot: 9, id: 109 })]
    {
        assert!(fault_of(|files| files[at].0 = entry.header(32 << 30)).contains("more bytes in a file"), "{at}");
    }
    assert!(fault_of(|files| files[0].0 = Entry::Version.header(9)).contains("more bytes in a file"));
    let tar = tar_of(&files());
    let accounts = Limits { accounts: 106, ..LIMITS };
    assert!(read_tar(&tar, &name(), &accounts).unwrap_err().to_string().contains("more accounts than 106"));
    let unpacked = Limits { unpacked: 5000, ..LIMITS };
    assert!(read_tar(&tar, &name(), &unpacked).unwrap_err().to_string().contains("more bytes than 5000"));
    // Zeros without an end, and garbage, behind the end.
    let padded = [&tar[..], &vec![0; 4 << 20][..]].concat();
    assert!(read_tar(&padded, &name(), &LIMITS).unwrap_err().to_string().contains("after the archive's end"));
    let behind = [&tar[..], b"more"].concat();
    assert!(read_tar(&behind, &name(), &LIMITS).unwrap_err().to_string().contains("after the archive's end"));
    read_tar(&[&tar[..], &[0; 9000]].concat(), &name(), &LIMITS).unwrap();
    // What a small archive may take is bounded by its size.
    let small = Limits::of_packed(1000);
    assert!(small.fields < 100 << 20 && small.accounts < 100_000);
}

#[test]
fn a_cut_archive_is_no_archive() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_full(folder.path());
    let whole = fs::read(&path).unwrap();
    for len in (0..whole.len()).step_by(37).chain(whole.len() - 12..whole.len()) {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(read_state(&path, None, &mut CollectingReceiver::default()).is_err(), "{len}");
    }
    let tar = tar_of(&files());
    for len in (0..tar.len()).step_by(509) {
        assert!(matches!(read_tar(&tar[..len], &name(), &LIMITS), Err(Fault::Cut)), "{len}");
    }
    assert!(
        matches!(read_tar(&tar[..tar.len() - 1], &name(), &LIMITS), Err(Fault::Cut)),
        "one of two blocks at its end"
    );
}

#[test]
fn a_flipped_bit_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_full(folder.path());
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(23) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, &flipped).unwrap();
        let mut kept = CollectingReceiver::default();
        if read_state(&path, None, &mut kept).is_ok() {
            assert_eq!(kept.state, state_of(&full()), "{at}: a bit that means nothing");
        }
    }
}

/// The fault that `read_state` finds.
fn state_fault(full: &Path, incremental: Option<&Path>) -> String {
    read_state(full, incremental, &mut CollectingReceiver::default()).unwrap_err().to_string()
}

#[test]
fn accounts_that_are_not_the_bank_s_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let good = fields(70, &full(), &full());
    // The accounts differ from those of which the lattice hash is the sum.
    let mut other = full();
    other[0].1[0].1.lamports += 1;
    let said = state_fault(&write(folder.path(), None, &good, &other), None);
    assert!(said.contains("the hash of all accounts"), "{said}");
    // The capitalization is another.
    let mut poorer = good.clone();
    poorer.capitalization -= 1;
    let said = state_fault(&write(folder.path(), None, &poorer, &full()), None);
    assert!(said.contains("the capitalization"), "{said}");
    // Stakes are missing, or of an epoch to come.
    let mut unstaked = good.clone();
    unstaked.epoch_stakes.pop();
    assert!(state_fault(&write(folder.path(), None, &unstaked, &full()), None).contains("stakes of an epoch"));
    let mut early = good;
    early.epoch_stakes.push(epoch_stakes(4));
    assert!(state_fault(&write(folder.path(), None, &early, &full()), None).contains("stakes of an epoch"));
    // An account twice in the file of one slot.
    let mut twice = full();
    twice[2].1.push(account(4, 41));
    let path = write(folder.path(), None, &fields(70, &twice, &twice), &twice);
    assert!(state_fault(&path, None).contains("slot 70 has an account twice"));
}

#[test]
fn statuses_are_of_the_slots_in_the_slot_history() {
    let folder = tempfile::tempdir().unwrap();
    let good = fields(70, &full(), &full());
    let with =
        |statuses: &[SlotStatuses]| state_fault(&write_with(folder.path(), None, &good, statuses, &full()), None);
    for statuses in [&statuses(69)[..], &statuses(70)[1..], &[]] {
        let said = with(statuses);
        assert!(said.contains("not of the newest slots"), "{said}");
    }
    // Another slot's history, and none.
    let mut other = full();
    *other[2].1.last_mut().unwrap() = slot_history(69);
    let path = write(folder.path(), None, &fields(70, &other, &other), &other);
    assert!(state_fault(&path, None).contains("the slot history ends with another slot"));
    other[2].1.pop();
    let path = write(folder.path(), None, &fields(70, &other, &other), &other);
    assert!(state_fault(&path, None).contains("lacks the account of the slot history"));
}

#[test]
fn banks_are_of_the_chain_of_their_genesis() {
    use solana_epoch_schedule::EpochSchedule as TheirSchedule;
    use solana_genesis_config::GenesisConfig;

    let check = |change: fn(&mut GenesisConfig)| {
        let epoch_schedule = TheirSchedule::custom(32, 32, false);
        let mut genesis = GenesisConfig { creation_time: 1_700_000_000, epoch_schedule, ..GenesisConfig::default() };
        genesis.ticks_per_slot = 64;
        change(&mut genesis);
        let beginning = ChainParameters::of_genesis(&bincode::serialize(&genesis).unwrap()).unwrap();
        beginning.check(&fields(70, &full(), &full())).map_err(|fault| fault.to_string())
    };
    assert_eq!(check(|_| {}), Ok(()));
    assert!(check(|genesis| genesis.creation_time += 1).unwrap_err().contains("another chain: the time"));
    assert!(check(|genesis| genesis.epoch_schedule = TheirSchedule::custom(64, 64, false)).is_err());
    assert!(check(|genesis| genesis.ticks_per_slot = 32).is_err());
    assert!(ChainParameters::of_genesis(b"no genesis").is_err());
}

#[test]
fn archives_that_do_not_belong_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (base, path) = (write_full(folder.path()), write_incremental(folder.path()));
    assert!(state_fault(&path, None).contains("where a full one is needed"));
    assert!(state_fault(&base, Some(&base)).contains("in place of an incremental one"));
    let all = [full(), incremental()].concat();
    let good = fields(75, &incremental(), &all);
    let said = state_fault(&base, Some(&write(folder.path(), Some(69), &good, &incremental())));
    assert!(said.contains("builds on the snapshot of slot 69, not on that of slot 70"), "{said}");
    let mut other = good.clone();
    other.genesis_creation_time += 1;
    let said = state_fault(&base, Some(&write(folder.path(), Some(70), &other, &incremental())));
    assert!(said.contains("another chain"), "{said}");
    // An incremental archive with a file of the full one.
    let overlapping = [full()[2..].to_vec(), incremental()].concat();
    let said = state_fault(&base, Some(&write(folder.path(), Some(70), &fields(75, &overlapping, &all), &overlapping)));
    assert!(said.contains("slot 70 is of the full snapshot"), "{said}");
    // One that builds on another state of the same slot.
    let mut other_base = full();
    other_base[0].1[0].1.lamports += 1;
    other_base[1].1[5].1.lamports += 1;
    let other = write(folder.path(), None, &fields(70, &other_base, &other_base), &other_base);
    let said = state_fault(&other, Some(&write(folder.path(), Some(70), &good, &incremental())));
    assert!(said.contains("the hash of all accounts"), "{said}");
    assert!(state_fault(&folder.path().join("snapshot.tar.zst"), None).contains("neither snapshot-SLOT-HASH"));
    let missing = folder.path().join(ArchiveName { base: None, slot: 1, hash: [1; 32] }.to_string());
    assert!(state_fault(&missing, None).contains("cannot be read"));
}
