//! Archives whose hashes are right and that contradict themselves start no ledger.

use std::path::PathBuf;

use hearth_testkit::random::Random;

use super::*;
use crate::archive::read_fields;
use crate::status_cache::StatusCacheConfig;
use crate::sysvars::EpochRewards;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name)
}

/// What an archive holds, whose epoch has just begun with rewards to distribute.
struct LoadedArchive {
    genesis: Genesis,
    accounts: Vec<(Pubkey, Account)>,
    fields: BankFields,
    statuses: Vec<SlotStatuses>,
}

/// Notes accounts as they come: a later version replaces an earlier one.
#[derive(Default)]
struct NotingReceiver(BTreeMap<Pubkey, Account>);

impl AccountReceiver for NotingReceiver {
    fn store(&mut self, key: &Pubkey, account: &Account) {
        self.0.insert(*key, account.clone());
    }

    fn progress(&mut self, _: &ArchiveName, _: Progress) {}
}

impl LoadedArchive {
    fn new() -> Self {
        let packed = std::fs::File::open(file("rewards.genesis.bin.zst")).unwrap();
        let genesis = Genesis::from_bytes(&zstd::decode_all(packed).unwrap()).unwrap();
        let path = file("snapshot-64-2BL2i91bChzkhfeUtrsR9PRu3tggz5cHgdmK8DSE49Xi.tar.zst");
        let mut noting = NotingReceiver::default();
        let Contents { fields, statuses, .. } = read_state(&path, None, &mut noting).unwrap().contents;
        let (name, again) = read_fields(&path, &mut ()).unwrap();
        assert_eq!((name.slot, &again.fields), (64, &fields));
        Self { genesis, accounts: noting.0.into_iter().collect(), fields, statuses }
    }

    fn start_with(&self, accounts: &[(Pubkey, Account)]) -> Result<ArchiveStart, Fault> {
        self.start_forked(accounts, &[])
    }

    /// With these hard forks configured.
    fn start_forked(&self, accounts: &[(Pubkey, Account)], hard_forks: &[u64]) -> Result<ArchiveStart, Fault> {
        let store = Accounts::new();
        accounts.iter().for_each(|(key, account)| store.store(key, account.clone()));
        let contents = Contents { fields: self.fields.clone(), statuses: self.statuses.clone(), accounts: 0 };
        let status_cache = StatusCacheConfig { enabled: true, capacity_txns: 0 };
        let hard_forks = hard_forks.to_vec();
        start(&self.genesis, LedgerConfig { status_cache, hard_forks, ..LedgerConfig::default() }, store, contents)
    }

    fn start(&self) -> Result<ArchiveStart, Fault> {
        self.start_with(&self.accounts)
    }

    /// With altered rewards in distribution.
    fn start_rewarding(&self, alter: impl FnOnce(&mut EpochRewards)) -> Result<ArchiveStart, Fault> {
        let store = Accounts::new();
        self.accounts.iter().for_each(|(key, account)| store.store(key, account.clone()));
        let mut rewards = EpochRewards::load(&store);
        alter(&mut rewards);
        rewards.store(&store);
        let mut altered = vec![];
        store.for_each(|key, account| altered.push((*key, account.clone())));
        self.start_with(&altered)
    }
}

fn fails(started: Result<ArchiveStart, Fault>, what: &str) {
    let why = started.err().expect("it contradicts itself").to_string();
    assert!(why.contains(what), "{why}\ndoes not say: {what}");
}

#[test]
fn rewards_in_distribution_are_calculated_again() {
    let loaded = LoadedArchive::new();
    let started = loaded.start().unwrap_or_else(|why| panic!("{why}"));
    assert!(started.ledger.chain().epochs.are_rewards_due());
    assert_eq!(Some(started.block_id), loaded.fields.block_id);
    assert_eq!(started.ledger.hash_all(), (64, loaded.fields.hash));
    let block = started.ledger.recent_blocks(2);
    assert_eq!(block.len(), 1);
    assert_eq!((block[0].height, block[0].transaction_count), (60, loaded.fields.transaction_count));
    assert_eq!(block[0].counts.signatures, loaded.fields.signature_count);
    assert_eq!(started.ledger.blockhashes().last(), &block[0].blockhash);
    assert_eq!(started.ledger.blockhashes().last_price(), loaded.fields.lamports_per_signature);
    let finished = loaded.start_rewarding(|rewards| rewards.active = false).unwrap_or_else(|why| panic!("{why}"));
    assert!(!finished.ledger.chain().epochs.are_rewards_due());
    fails(loaded.start_rewarding(|rewards| rewards.num_partitions = u64::MAX), "more blocks than an epoch has");
    fails(loaded.start_rewarding(|rewards| rewards.num_partitions = 0), "more blocks than an epoch has");
    fails(loaded.start_rewarding(|rewards| rewards.total_points = 1), "a stake has more points");
}

#[test]
fn paid_rewards_that_do_not_fit_saturate() {
    let loaded = LoadedArchive::new();
    let most = u64::MAX;
    let started = loaded.start_rewarding(|rewards| rewards.distributed_rewards = most - 1);
    let ledger = started.unwrap_or_else(|why| panic!("{why}")).ledger;
    ledger.begin_slot(65, 64).unwrap();
    assert!(!ledger.chain().epochs.are_rewards_due(), "slot 65 pays them");
    assert_eq!(EpochRewards::load(ledger.accounts()).distributed_rewards, most);
}

#[test]
fn hard_forks_come_with_the_archive() {
    let mut loaded = LoadedArchive::new();
    loaded.fields.hard_forks = vec![(9, 2), (70, 1)];
    let forks = |configured: &[u64]| {
        let started = loaded.start_forked(&loaded.accounts, configured)?;
        Ok::<_, Fault>(started.ledger.hard_fork_slots())
    };
    assert_eq!(forks(&[]).unwrap(), [9, 9, 70]);
    assert_eq!(forks(&[9, 9, 80]).unwrap(), [9, 9, 70, 80]);
    for configured in [&[9][..], &[9, 9, 64]] {
        let why = forks(configured).unwrap_err().to_string();
        assert!(why.contains("the bank has hard forks at slots 9, 70, this node is configured with slot"), "{why}");
    }
}

#[test]
fn fields_that_contradict_themselves_start_nothing() {
    let fails = |alter: fn(&mut LoadedArchive), what: &str| {
        let mut loaded = LoadedArchive::new();
        alter(&mut loaded);
        fails(loaded.start(), what);
    };
    fails(|loaded| loaded.fields.block_id = None, "it lacks the id of its block");
    fails(|loaded| loaded.fields.ticks_per_slot += 1, "of another chain");
    fails(|loaded| loaded.fields.hard_forks.push((9, u64::MAX)), "more hard forks than any chain has");
    fails(|loaded| loaded.fields.block_height = u64::MAX, "that no chain reaches");
    fails(|loaded| loaded.fields.transaction_count = u64::MAX, "that no chain reaches");
    fails(|loaded| loaded.fields.parent_slot = 64, "that no chain reaches");
    fails(|loaded| loaded.fields.capitalization = u64::MAX, "that no chain reaches");
    fails(|loaded| loaded.fields.blockhashes.hashes.retain(|hash| hash.index != 10), "the recent blockhashes");
    fails(|loaded| loaded.fields.blockhashes.last = Some([1; 32]), "the recent blockhashes");
    fails(|loaded| loaded.fields.blockhashes.last_index += 1, "the recent blockhashes");
    fails(
        |loaded| {
            let hashes = &mut loaded.fields.blockhashes.hashes;
            hashes[0].hash = hashes[1].hash;
        },
        "the recent blockhashes",
    );
    fails(|loaded| loaded.fields.epoch_stakes[0].votes[0].stake = u64::MAX, "the stakes of an epoch");
    fails(
        |loaded| {
            let again = loaded.fields.epoch_stakes[0].clone();
            loaded.fields.epoch_stakes.push(again);
        },
        "the stakes of an epoch",
    );
    fails(
        |loaded| {
            let again = loaded.fields.epoch_stakes[0].votes[0].clone();
            loaded.fields.epoch_stakes[0].votes.push(again);
        },
        "the stakes of an epoch",
    );
    fails(
        |loaded| loaded.statuses.iter_mut().flat_map(|slot| &mut slot.hashes).for_each(|hash| hash.key_index = 13),
        "keys of statuses that reach beyond a hash",
    );
}

/// Whatever the numbers of an archive are, a start ends with a ledger or an error.
#[test]
fn no_number_stops_the_program() {
    let seed = hearth_testkit::random::seed();
    println!("HEARTH_SEED={seed} cargo test --package hearth-ledger no_number_stops_the_program");
    let mut random = Random(seed);
    let mut loaded = LoadedArchive::new();
    let whole = loaded.fields.clone();
    let (mut begun, mut refused) = (0, 0);
    for _ in 0..60 {
        loaded.fields = whole.clone();
        for _ in 0..1 + random.index(2) {
            let word = random.word() >> random.index(64);
            let fields = &mut loaded.fields;
            let at = random.index(fields.epoch_stakes.len());
            match random.index(8) {
                0 => fields.parent_slot = word,
                1 => fields.signature_count = word,
                2 => fields.block_height = word,
                3 => fields.transaction_count = word,
                4 => fields.blockhashes.last_index = word,
                5 => fields.epoch_stakes[at].epoch = word % (1 << 48),
                6 => fields.epoch_stakes[at].votes.iter_mut().for_each(|vote| vote.stake ^= word),
                _ => fields.hard_forks.push((word, word)),
            }
        }
        match loaded.start() {
            Ok(_) => begun += 1,
            Err(_) => refused += 1,
        }
    }
    println!("{begun} began, {refused} were refused");
    assert!(begun > 0 && refused > 0);
}
