//! Which blocks a start regards as final.

mod archives;
mod damage;
mod features;
mod hard_forks;
mod snapshot_create;

use hearth_consensus::{BankId, Tower};
use hearth_crypto::sha256::sha256;
use hearth_ledger::Commitment;
use hearth_ledger::archive::ArchiveName;
use hearth_ledger::blockstore::FecSetRecord;
use hearth_ledger::bootstrap::Bootstrap;
use hearth_ledger::features::{feature_accounts, supported};
use hearth_pipeline::tower::{save_root, save_tower};
use hearth_wire::base58::decode_32;
use hearth_wire::entry::{write_batch_header, write_entry};

use super::*;

fn config(in_cluster: bool) -> Config {
    let mut config = Config::default();
    config.gossip.enabled = in_cluster;
    config.rpc.status_capacity = 16_384;
    config.development.genesis.fund_initial_accounts = 1;
    config.development.genesis.hashes_per_tick = 0;
    config.development.genesis.ticks_per_slot = 4;
    config
}

fn open(config: &Config, folder: &Path) -> Result<Chain, BootError> {
    open_chain(config, folder, &GenesisOverrides::default(), |_| {}, |_| ReplayControl::Continue(()))
}

/// An empty block: its ticks, and its last hash.
fn block(ticks: usize, mut hash: [u8; 32]) -> (Vec<u8>, [u8; 32]) {
    let mut data = vec![];
    write_batch_header(ticks, &mut data);
    for _ in 0..ticks {
        hash = sha256(&[&hash]);
        write_entry(1, &hash, 0, &[], &mut data);
    }
    (data, hash)
}

/// Creates a chain with blocks at these slots, each on the named parent, in this order.
fn chain(config: &Config, folder: &Path, blocks: &[(u64, u64)]) {
    let begun = open(config, folder).unwrap();
    let genesis_hash = *begun.genesis.hash();
    drop(begun);
    let settings = blockstore::Config::new(config.ledger.limit_size, genesis_hash);
    let (mut store, _) = BlockStore::open(&folder.join("blocks"), settings).unwrap();
    let mut hashes = std::collections::BTreeMap::from([(0, genesis_hash)]);
    for (slot, parent) in blocks {
        let before = hashes.get(parent).copied().unwrap_or([9; 32]);
        let (data, hash) = block(4 * (slot - parent) as usize, before);
        hashes.insert(*slot, hash);
        let set = FecSetRecord {
            slot: *slot,
            parent_slot: *parent,
            fec_set_index: 0,
            reference_tick: 0,
            last_in_slot: true,
            ends_batch: None,
            merkle_root: hash,
            chained_root: before,
            signature: [0; 64],
            data: &data,
        };
        store.append_set(&set).unwrap();
    }
}

/// The ledger's slot after a start, and the final slot.
fn started(config: &Config, folder: &Path) -> (u64, u64) {
    let chain = open(config, folder).unwrap();
    assert_eq!(chain.ledger.slot(Commitment::Processed), chain.replayed.last_slot);
    (chain.replayed.last_slot, chain.ledger.slot(Commitment::Finalized))
}

#[test]
fn in_a_cluster_a_start_roots_only_what_was_rooted() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(true));
    let folder = folder.path();
    chain(&config, folder, &[(1, 0), (2, 1), (3, 1), (4, 3)]);
    assert_eq!(started(&config, folder), (0, 0), "2 and 3 are both on 1, and nobody has rooted either");
    let node = identity(&config, folder).unwrap().public;
    save_tower(folder, &Tower::new(BankId { slot: 3, hash: [3; 32] }).save(&node)).unwrap();
    assert_eq!(started(&config, folder), (3, 3), "the tower's root");
    save_root(folder, BankId { slot: 2, hash: [2; 32] }).unwrap();
    assert_eq!(started(&config, folder), (2, 2));
    std::fs::write(folder.join("root.bin"), []).unwrap();
    assert_eq!(started(&config, folder), (3, 3), "a power failure has torn the root");
    std::fs::remove_file(folder.join("tower.bin")).unwrap();
    assert_eq!(started(&config, folder), (0, 0));
}

#[test]
fn holes_below_what_a_joiner_has_are_no_error() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(true));
    chain(&config, folder.path(), &[(8, 7), (9, 8)]);
    assert_eq!(started(&config, folder.path()), (0, 0));
}

#[test]
fn a_chain_of_its_own_is_executed_to_its_end() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    chain(&config, folder.path(), &[(1, 0), (2, 1), (5, 2)]);
    assert_eq!(started(&config, folder.path()).0, 5);
    let gone = tempfile::tempdir().unwrap();
    chain(&config, gone.path(), &[(8, 7)]);
    let Err(BootError::Replay(ReplayError::BeginningGone { after: 0, first: 8 })) = open(&config, gone.path()) else {
        panic!("what is gone is said");
    };
}

#[test]
fn a_chain_keeps_the_accounts_it_began_with() {
    let wrapped_sol = decode_32("So11111111111111111111111111111111111111112").unwrap();
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    let new = open(&config, folder.path()).unwrap();
    assert!(new.ledger.account(&wrapped_sol).is_some());
    // The same chain as an older release created it, without that account.
    let mut began = new.genesis.config().clone();
    drop(new);
    began.extra_accounts.retain(|(key, _)| *key != wrapped_sol);
    let older = Genesis::create(began, |_| {}).unwrap();
    let before = tempfile::tempdir().unwrap();
    for key in ["identity.json", "faucet.json"] {
        std::fs::copy(folder.path().join(key), before.path().join(key)).unwrap();
    }
    older.save(&before.path().join(GENESIS_NAME)).unwrap();
    let opened = open(&config, before.path()).unwrap();
    assert_eq!(opened.genesis.hash(), older.hash());
    assert_eq!(opened.ledger.account(&wrapped_sol), None);
}

#[test]
fn a_folder_of_the_clusters_tools_is_run() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    let folder = folder.path();
    let identity = keys::read_or_create(&folder.join("identity.json")).unwrap().public;
    let bootstrap = Bootstrap {
        identity,
        vote: [7; 32],
        stake: [8; 32],
        lamports: 500_000_000_000,
        stake_lamports: 1_000_000_000,
        stake_authority: identity,
        commission_percent: 100,
    };
    let began = GenesisConfig {
        identity_lamports: 0,
        faucet_lamports: 0,
        fund_initial_accounts: 0,
        hashes_per_tick: Some(10),
        slots_per_epoch: 64,
        warmup_epochs: true,
        extra_accounts: [&bootstrap.accounts()[..], &feature_accounts(supported())].concat(),
        ..GenesisConfig::development([0; 32], [0; 32], 1_700_000_000)
    };
    let genesis = Genesis::create(began, |_| {}).unwrap();
    genesis.save_alone(&folder.join(GENESIS_NAME)).unwrap();
    for _ in 0..2 {
        let chain = open(&config, folder).unwrap();
        assert_eq!(chain.genesis.hash(), genesis.hash());
        assert_eq!(chain.ledger.leader_at(40).map(|leader| leader.node), Some(identity));
        assert_eq!(chain.ledger.epoch_schedule().epoch(40), 1);
        let slot_0 = Slot0::of(&genesis);
        let block = chain.store.reader().block(0).unwrap().expect("slot 0 is stored");
        assert!(block.info.whole);
        assert_eq!((&block.block_id, &block.data[..]), (slot_0.block_id(), slot_0.record().data));
        assert_eq!(chain.ledger.recent_blocks(1)[0].blockhash, *genesis.slot_0_hash());
        assert!(chain.ledger.is_blockhash_valid(genesis.hash()));
    }
    assert!(!folder.join(CHAIN_NAME).exists());
}

#[test]
fn the_chain_of_an_older_version_is_refused_untouched() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    let folder = folder.path();
    std::fs::write(folder.join("genesis.json"), "{\"checksum\":1,\"genesis\":{\"version\":2}}").unwrap();
    std::fs::write(folder.join("genesis.accounts"), "hearthGA").unwrap();
    let before = names(folder);
    let refused = open(&config, folder).err().expect("an older chain").to_string();
    assert!(refused.contains("genesis.json") && refused.contains("`hearth run --reset`"), "{refused}");
    assert_eq!(names(folder), before, "nothing was written");
    crate::developer::reset(&config, folder).unwrap();
    assert_eq!(started(&config, folder), (0, 0));
    assert!(!folder.join("genesis.json").exists() && !folder.join("genesis.accounts").exists());
}

/// All paths in a folder, recursively.
fn names(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(names(&path));
        }
        all.push(path);
    }
    all.sort();
    all
}

#[test]
fn blocks_without_genesis_are_refused_untouched() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    let folder = folder.path();
    chain(&config, folder, &[(1, 0), (2, 1)]);
    let path = folder.join(GENESIS_NAME);
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    let damaged = open(&config, folder).err().expect("half a genesis").to_string();
    assert!(damaged.contains("genesis.bin is damaged") && damaged.contains("--reset"), "{damaged}");
    std::fs::remove_file(&path).unwrap();
    let before = names(folder);
    let missing = open(&config, folder).err().expect("no genesis").to_string();
    assert!(missing.contains("genesis.bin is missing") && missing.contains("0000000001.log"), "{missing}");
    assert_eq!(names(folder), before, "nothing was written");
    // The advice of both errors.
    crate::developer::reset(&config, folder).unwrap();
    assert_eq!(started(&config, folder), (0, 0));
}

#[test]
fn archives_of_a_chain_without_genesis_are_refused() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    let archives = restore::archive_folder(&config, folder.path());
    std::fs::create_dir_all(&archives).unwrap();
    let name = ArchiveName { base: None, slot: 900, hash: [9; 32] }.to_string();
    std::fs::write(archives.join(&name), "of the chain before").unwrap();
    // A new chain would take it for its newest, and serve it.
    let why = open(&config, folder.path()).err().expect("no genesis").to_string();
    assert!(why.contains("genesis.bin is missing") && why.contains(&name), "{why}");
}

#[test]
fn a_genesis_may_be_there_as_an_archive_alone() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    let folder = folder.path();
    chain(&config, folder, &[(1, 0), (2, 1)]);
    let path = folder.join(GENESIS_NAME);
    Genesis::write_archive(&path).unwrap();
    let archive = folder.join(ARCHIVE_NAME);
    let (genesis, packed) = (std::fs::read(&path).unwrap(), std::fs::read(&archive).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(started(&config, folder).0, 2, "it is the chain that was there");
    assert_eq!(std::fs::read(&path).unwrap(), genesis);
    assert_eq!(std::fs::read(&archive).unwrap(), packed, "the archive stays");
    // Half an archive begins no chain, with or without blocks.
    let empty = tempfile::tempdir().unwrap();
    for folder in [folder, empty.path()] {
        let _ = std::fs::remove_file(folder.join(GENESIS_NAME));
        std::fs::write(folder.join(ARCHIVE_NAME), &packed[..packed.len() / 2]).unwrap();
        let why = open(&config, folder).err().expect("it cannot be unpacked").to_string();
        assert!(why.contains("genesis.tar.bz2 is damaged") && !folder.join(GENESIS_NAME).exists(), "{why}");
    }
}

#[test]
fn reset_drops_the_root_and_the_tower_of_a_begun_chain() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(true));
    let folder = folder.path();
    chain(&config, folder, &[(1, 0), (2, 1)]);
    let node = identity(&config, folder).unwrap().public;
    let root = BankId { slot: 2, hash: [2; 32] };
    save_tower(folder, &Tower::new(root).save(&node)).unwrap();
    save_root(folder, root).unwrap();
    let has = |name: &str| folder.join(name).exists();
    let mut joining = config.clone();
    joining.gossip.entrypoints = vec!["127.0.0.1:8001".parse().unwrap()];
    crate::developer::reset(&joining, folder).unwrap();
    assert!(!has("root.bin"));
    assert!(has("tower.bin"), "the chain that it joins may be the same again");
    crate::developer::reset(&config, folder).unwrap();
    assert!(!has("tower.bin"));
    assert_eq!(started(&config, folder), (0, 0));
}
