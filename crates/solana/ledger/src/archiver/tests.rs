//! What an archive of a ledger says is what the ledger has.

mod beside;
mod incremental;

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::channel;

use hearth_crypto::sha256::sha256;
use hearth_testkit::PATIENCE;
use hearth_wire::Signature;
use hearth_wire::consts::LAMPORTS_PER_SOL;
use hearth_wire::program::system;

use super::*;
use crate::archive::{self, AccountReceiver, Contents, Limits, Progress, Sink, read_state};
use crate::blockstore::{self, BlockStore, FecSetRecord};
use crate::ledger::LedgerConfig;
use crate::snapshot::{self, Folder, SnapshotConfig};
use crate::snapshot_taker::{SnapshotEvent, Taker};
use crate::stakes::genesis_accounts;
use crate::testing::{bytes_of, parse, wallet};
use crate::{Executor, Forks, GenesisConfig, Outcome, SlotHistory, StatusCacheConfig};

const NODE: Pubkey = [1; 32];
const VOTE: Pubkey = [20; 32];
/// Offset of the commission in a new vote account.
const COMMISSION_AT: usize = 4 + 128;
const SLOTS_PER_EPOCH: u64 = 32;
const SMALL: StatusCacheConfig = StatusCacheConfig { enabled: true, capacity_txns: 0 };

/// A chain with stake and inflation whose blocks have transfers, one of which fails, and change the vote account.
struct Rig {
    genesis: Genesis,
    ledger: Arc<Ledger>,
    executor: Executor,
    /// The transactions of each block.
    blocks: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Rig {
    fn new() -> Self {
        Self::with_forks(None)
    }

    fn with_forks(forks: Option<Forks>) -> Self {
        let mut extra_accounts = genesis_accounts(&VOTE, &[21; 32], &NODE).to_vec();
        extra_accounts.extend((0..3).map(|n| (wallet(n), Account::wallet(10 * LAMPORTS_PER_SOL))));
        let config = GenesisConfig {
            fund_initial_accounts: 0,
            slots_per_epoch: SLOTS_PER_EPOCH,
            inflation: Inflation::default(),
            extra_accounts,
            ..GenesisConfig::development(NODE, [2; 32], 1_700_000_000)
        };
        let genesis = Genesis::create(config, |_| {}).unwrap();
        let ledger = Ledger::new(&genesis, LedgerConfig { forks, ..Self::config() });
        Self { genesis, ledger, executor: Executor::new(), blocks: BTreeMap::from([(0, vec![])]) }
    }

    fn config() -> LedgerConfig {
        // No block is there at the time of the hard fork: the next one has it.
        LedgerConfig { status_cache: SMALL, hard_forks: vec![40], ..LedgerConfig::default() }
    }

    /// Makes blocks of slots up to 70, but for some: two epochs end.
    fn end_two_epochs(&mut self) {
        (1..=70).filter(|slot| !(38..=41).contains(slot)).for_each(|slot| self.block(slot));
    }

    fn block(&mut self, slot: u64) {
        self.block_with(slot, &[]);
    }

    /// A block that changes these accounts, too, to the lamports with each.
    fn block_with(&mut self, slot: u64, changes: &[(u8, u64)]) {
        let last = self.ledger.recent_blocks(1)[0];
        let bank = self.ledger.begin_slot(slot, last.slot).unwrap();
        let pay = |n: u64, lamports| {
            let transfer = system::transfer(&wallet(n), &wallet(n + 1), lamports);
            bytes_of(&wallet(n), &[transfer], &last.blockhash)
        };
        let txns = vec![pay(0, 1_000_000 + slot), pay(1, 2_000_000 + slot), pay(2, u64::MAX)];
        for txn in &txns {
            let mut outcomes = vec![];
            bank.execute(&mut self.executor, &[parse(txn)], &mut outcomes);
            assert!(matches!(outcomes[..], [Outcome::Committed(_)]), "{outcomes:?}");
        }
        self.ledger.accounts().update(&VOTE, |account| {
            let mut data = account.data().to_vec();
            data[COMMISSION_AT..COMMISSION_AT + 2].copy_from_slice(&(slot as u16).to_le_bytes());
            account.set_data(&data);
        });
        let changed = |(n, lamports): &(u8, u64)| self.ledger.accounts().store(&[*n; 32], Account::wallet(*lamports));
        changes.iter().for_each(changed);
        self.ledger.end_slot(slot, sha256(&[&slot.to_le_bytes()])).unwrap();
        self.blocks.insert(slot, txns);
    }

    fn statuses(&self) -> Vec<SlotStatuses> {
        let of =
            |(slot, txns): (&u64, &Vec<Vec<u8>>)| block_statuses(&self.ledger, *slot, txns).expect("all are known");
        self.blocks.iter().map(of).collect()
    }

    fn write(&self, folder: &Path) -> Result<PathBuf, ArchiveError> {
        let facts = ChainFacts::of(&self.ledger, &self.genesis, self.statuses(), [9; 32]);
        write_archive(&self.ledger, &facts, folder, |_| {})
    }

    /// The contents of an archive besides the accounts.
    fn contents(&self) -> Contents {
        let folder = tempfile::tempdir().unwrap();
        read_state(&self.write(folder.path()).unwrap(), None, &mut ()).unwrap().contents
    }
}

/// The accounts that come out of an archive.
#[derive(Default)]
struct Accounts(BTreeMap<Pubkey, Account>);

impl AccountReceiver for Accounts {
    fn store(&mut self, key: &Pubkey, account: &Account) {
        self.0.insert(*key, account.clone());
    }

    fn progress(&mut self, _: &ArchiveName, _: Progress) {}
}

/// The accounts in a full archive, and in an incremental one on it.
fn accounts_in(full: &Path, incremental: Option<&Path>) -> BTreeMap<Pubkey, Account> {
    let mut read = Accounts::default();
    read_state(full, incremental, &mut read).unwrap_or_else(|why| panic!("{why}"));
    read.0.retain(|_, account| account.lamports > 0);
    read.0
}

fn accounts_of(ledger: &Ledger) -> BTreeMap<Pubkey, Account> {
    let mut accounts = BTreeMap::new();
    ledger.accounts().for_each(|key, account| assert!(accounts.insert(*key, account.clone()).is_none()));
    accounts
}

/// The accounts that an archive itself holds, removed ones too.
fn held(path: &Path) -> BTreeMap<Pubkey, Account> {
    struct HeldAccounts(BTreeMap<Pubkey, Account>);

    impl Sink for HeldAccounts {
        fn account(&mut self, _: u64, key: &Pubkey, account: Account) -> Result<(), Fault> {
            assert!(self.0.insert(*key, account).is_none(), "once");
            Ok(())
        }

        fn progress(&mut self, _: Progress) {}
    }

    let bytes = fs::read(path).unwrap();
    let (len, name) = (bytes.len() as u64, ArchiveName::of_path(path).unwrap());
    let mut holding = HeldAccounts(BTreeMap::new());
    archive::read(&bytes[..], len, &name, &Limits::of_packed(len), &mut holding).unwrap();
    holding.0
}

/// A ledger that starts from these archives.
fn started(rig: &Rig, full: &Path, incremental: Option<&Path>) -> Arc<Ledger> {
    let started = Ledger::from_archive(&rig.genesis, (full, incremental), Rig::config(), &mut |_, _| {});
    started.unwrap_or_else(|why| panic!("{why}")).ledger
}

/// A block's transactions, with the results that the ledger knows.
fn block_statuses(ledger: &Ledger, slot: u64, txns: &[Vec<u8>]) -> Option<SlotStatuses> {
    let now = ledger.recent_blocks(1)[0].height;
    let landed = |signature: &Signature| ledger.statuses().status(signature, now);
    statuses::of_block(slot, txns.iter().map(|txn| parse(txn)), landed)
}

/// Stores a block whose id repeats its slot.
fn append(store: &mut BlockStore, (parent_slot, slot): (u64, u64), data: &[u8]) {
    let set = FecSetRecord {
        slot,
        parent_slot,
        fec_set_index: 0,
        reference_tick: 0,
        last_in_slot: true,
        ends_batch: None,
        merkle_root: [slot as u8; 32],
        chained_root: [parent_slot as u8; 32],
        signature: [0; 64],
        data,
    };
    store.append_set(&set).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn two_epochs() -> Rig {
    let mut rig = Rig::new();
    rig.end_two_epochs();
    rig
}

#[test]
fn an_archive_has_all_that_a_chain_did() {
    let rig = two_epochs();
    let ledger = &rig.ledger;
    let folder = tempfile::tempdir().unwrap();
    let path = rig.write(folder.path()).unwrap();
    let mut read = Accounts::default();
    let state = read_state(&path, None, &mut read).unwrap();
    assert_eq!(read.0, accounts_of(ledger));

    let fields = &state.contents.fields;
    let [last, parent] = ledger.recent_blocks(2)[..] else { panic!("two blocks") };
    assert_eq!((fields.slot, fields.parent_slot, fields.block_height), (70, 69, last.height));
    assert_eq!((Some(fields.hash), Some(fields.parent_hash)), (last.bank_hash, parent.bank_hash));
    assert_eq!((fields.transaction_count, fields.signature_count), (66 * 3, 3));
    assert_eq!(fields.capitalization, ledger.capitalization());
    assert_eq!((fields.genesis_creation_time, fields.ticks_per_slot), (1_700_000_000, 64));
    assert_eq!((&fields.hard_forks, fields.inflation), (&vec![(40, 1)], Inflation::default()));
    // 365.242199 days of slots of 0.4 s.
    assert!((fields.slots_per_year - 78_892_314.984).abs() < 0.001, "{}", fields.slots_per_year);
    // As `FeeRateGovernor::new_derived` has them: a half and tenfold of 10,000.
    let governor = &fields.fee_rate_governor;
    assert_eq!((governor.min_lamports_per_signature, governor.max_lamports_per_signature), (5_000, 100_000));
    assert_eq!((fields.lamports_per_signature, fields.block_id), (5_000, Some([9; 32])));

    // The commission of an epoch's vote account says after which block it was counted.
    let counted = |of: &EpochStakes| {
        let [vote] = &of.votes[..] else { panic!("one vote account") };
        assert_eq!((vote.address, vote.stake, of.total), (VOTE, of.total, of.nodes[0].stake));
        assert_eq!((of.nodes[0].node, &of.nodes[0].votes, &of.voters), (NODE, &vec![VOTE], &vec![(VOTE, NODE)]));
        (of.epoch, of.staked_in, VoteState::of_account(&vote.account).unwrap().commission_bps)
    };
    let epochs: Vec<_> = fields.epoch_stakes.iter().map(counted).collect();
    assert_eq!(epochs, [(0, 0, 0), (1, 0, 0), (2, 1, 31), (3, 2, 63)]);
    assert_eq!(fields.stakes.epoch, 2);
}

#[test]
fn an_archive_has_the_result_of_each_transaction() {
    let rig = two_epochs();
    let statuses = rig.statuses();
    assert_eq!(statuses.len(), 67);
    assert!(statuses[0].slot == 0 && statuses[0].hashes.is_empty());
    for of in &statuses[1..] {
        let [hash] = &of.hashes[..] else { panic!("all of a block name one hash") };
        // Each by its message and by its signature.
        let results: Vec<bool> = hash.statuses.iter().map(|(_, result)| result.is_ok()).collect();
        assert_eq!(results, [true, true, true, true, false, false], "slot {}", of.slot);
    }
    let elsewhere = block_statuses(&rig.ledger, 69, &rig.blocks[&70]);
    assert_eq!(elsewhere, None, "they landed in another slot");
}

#[test]
fn a_restart_keeps_what_an_archive_needs() {
    let mut rig = Rig::new();
    let folder = tempfile::tempdir().unwrap();
    let config = blockstore::Config::new(8 << 20, *rig.genesis.hash());
    let (mut store, _) = BlockStore::open(&folder.path().join("blocks"), config).unwrap();
    let snapshots = Folder::open(&folder.path().join("snapshots")).unwrap();
    let (tell, events) = channel();
    let when = SnapshotConfig { interval_slots: 70, keep: 1 };
    let tell = move |event| drop(tell.send(event));
    let taker = Taker::start(&rig.ledger, when, None, snapshots, store.reader(), || {}, tell).unwrap();
    rig.end_two_epochs();
    let slots: Vec<u64> = rig.blocks.keys().copied().collect();
    for pair in slots.windows(2) {
        append(&mut store, (pair[0], pair[1]), b"entries");
    }
    rig.ledger.mark_stored(70);
    let event = events.recv_timeout(PATIENCE).expect("a snapshot in time");
    let SnapshotEvent::Taken { file, .. } = event else { panic!("it was given up") };
    drop(taker);
    let before = rig.contents();
    let loaded = snapshot::load(&file.path, rig.genesis.hash(), &SMALL).unwrap();
    rig.ledger = Ledger::restore(&rig.genesis, Rig::config(), loaded);
    let after = rig.contents();
    assert_eq!(after.fields, before.fields);
    assert_eq!(after.statuses, before.statuses);
    assert_eq!(after.accounts, before.accounts);
}

#[test]
fn existing_archive_stays_and_full_disk_leaves_none() {
    let rig = two_epochs();
    let folder = tempfile::tempdir().unwrap();
    let path = rig.write(folder.path()).unwrap();
    fs::write(&path, "mine").unwrap();
    let why = rig.write(folder.path()).unwrap_err();
    assert!(matches!(&why.fault, Fault::Write(e) if e.kind() == ErrorKind::AlreadyExists), "{why}");
    assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"mine".to_vec(), 1));
    // A device on which there is no room.
    let full = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", full.path().join("tmp-snapshot-archive-70.tar.zst")).unwrap();
    let why = rig.write(full.path()).unwrap_err();
    assert!(matches!(&why.fault, Fault::Write(e) if e.kind() == ErrorKind::StorageFull), "{why}");
    assert_eq!(names(full.path()), [""; 0]);
    assert!(rig.write(&full.path().join("none")).is_err());
}

#[test]
fn a_ledger_s_archive_is_its_state() {
    let (node, vote) = ([1; 32], [20; 32]);
    let extra_accounts = genesis_accounts(&vote, &[21; 32], &node).to_vec();
    let development = GenesisConfig::development(node, [2; 32], 0);
    let config = GenesisConfig { fund_initial_accounts: 5, extra_accounts, ..development };
    let genesis = Genesis::create(config, |_| {}).unwrap();
    let ledger = Ledger::new(&genesis, LedgerConfig::default());
    for slot in [1, 2, 5] {
        ledger.begin_slot(slot, ledger.recent_blocks(1)[0].slot).unwrap();
        ledger.end_slot(slot, [slot as u8; 32]).unwrap();
    }
    let history = SlotHistory::of(&ledger).unwrap();
    let blocks = (0..=5).filter(|slot| history.has(*slot));
    let statuses = blocks.map(|slot| SlotStatuses { slot, hashes: vec![] }).collect();
    let schedule = *ledger.epoch_schedule();
    let epochs = schedule.epoch(5)..=schedule.leader_schedule_epoch(5);
    let facts = ChainFacts {
        creation_time: 7,
        ticks_per_slot: 64,
        hashes_per_tick: None,
        slot_ns: 400_000_000,
        slots_per_year: 78_892_314.984,
        hard_forks: vec![],
        fee_rate_governor: FeeRateGovernor::default(),
        lamports_per_signature: 5000,
        inflation: Inflation::default(),
        epoch_stakes: epochs.map(|epoch| EpochStakes { epoch, ..EpochStakes::default() }).collect(),
        statuses,
        block_id: [9; 32],
    };
    let folder = tempfile::tempdir().unwrap();
    let path = write_archive(&ledger, &facts, folder.path(), |_| {}).unwrap();
    let state = read_state(&path, None, &mut ()).unwrap();
    let fields = state.contents.fields;
    assert_eq!(state.contents.accounts, ledger.accounts().count() as u64);
    assert_eq!((fields.slot, fields.parent_slot, fields.hash), (5, 2, ledger.bank_hash(5).unwrap()));
    assert_eq!(fields.blockhashes.last, Some([5; 32]));
    let price = |hash: Hash| fields.blockhashes.hashes.iter().find(|one| one.hash == hash).unwrap();
    assert_eq!(price([5; 32]).lamports_per_signature, ledger.chain().blockhashes.last_price());
    assert_eq!(price([5; 32]).index, fields.blockhashes.last_index);
    let [delegation] = fields.stakes.delegations[..] else { panic!("one stake account") };
    let [staked] = &fields.stakes.votes[..] else { panic!("one vote account") };
    assert_eq!((fields.leader, delegation.vote, staked.address), (node, vote, vote));
    assert!(staked.stake > 0 && staked.stake == delegation.stake);
    // A hard fork that was none makes another hash.
    let forked = ChainFacts { hard_forks: vec![(5, 1)], ..facts };
    let why = write_archive(&ledger, &forked, folder.path(), |_| {}).unwrap_err().to_string();
    assert!(why.contains("the bank's hash"), "{why}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the unfinished one is not there");
}
