//! A folder with archives of the cluster starts from the newest of them.

use super::*;

/// The archives of a chain that Agave made: the full one of slot 40, and an incremental one of slot 60.
const FULL: &str = "snapshot-40-8W97YEEgPpCGxhjujZN7C3YcVzmc12CZXMZtJYk6CMPa.tar.zst";
const INCREMENTAL: &str = "incremental-snapshot-40-60-7Dxa7UimF1MRoadTUZtADBDqECLMpEphCxY12JfyC6De.tar.zst";

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ledger/tests/snapshots").join(name)
}

/// A ledger folder with the genesis of that chain, and the full archive.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let packed = std::fs::File::open(recorded("transfers.genesis.bin.zst")).unwrap();
    std::fs::write(folder.path().join(GENESIS_NAME), zstd::decode_all(packed).unwrap()).unwrap();
    std::fs::copy(recorded(FULL), folder.path().join(FULL)).unwrap();
    folder
}

/// The slot after a start, and the hash of its bank.
fn bank(config: &Config, folder: &Path) -> (u64, String) {
    let chain = open(config, folder).unwrap_or_else(|why| panic!("{why}"));
    assert!(chain.replayed.block_id.is_some(), "the next block can chain to it");
    (chain.replayed.last_slot, hearth_wire::base58::encode_32(&chain.replayed.bank_hash).to_string())
}

#[test]
fn the_newest_archive_is_the_state() {
    for in_cluster in [false, true] {
        let (folder, config) = (folder(), config(in_cluster));
        let folder = folder.path();
        let at_40 = (40, String::from("J2DUP2CkiLMJeW8tWxQWNiTxwa694TZHtHyqAtsYbaq8"));
        let at_60 = (60, String::from("CjC9SXFne1bYpYX3kZDifKH5Nki1HihmQUpGY5sQctrC"));
        assert_eq!(bank(&config, folder), at_40);
        // Archives may be beside our own snapshots, too.
        let snapshots = folder.join("snapshots");
        std::fs::create_dir_all(&snapshots).unwrap();
        let newer = snapshots.join(INCREMENTAL);
        std::fs::copy(recorded(INCREMENTAL), &newer).unwrap();
        assert_eq!(bank(&config, folder), at_60);
        let bytes = std::fs::read(&newer).unwrap();
        std::fs::write(&newer, &bytes[..bytes.len() / 2]).unwrap();
        let why = open(&config, folder).err().expect("it is cut").to_string();
        assert!(why.starts_with("cannot start from ") && why.contains(INCREMENTAL), "{why}");
        std::fs::remove_file(&newer).unwrap();
        assert_eq!(bank(&config, folder), at_40);
    }
}

#[test]
fn an_incremental_archive_needs_its_full_one() {
    let (folder, config) = (folder(), config(false));
    let folder = folder.path();
    std::fs::copy(recorded(INCREMENTAL), folder.join(INCREMENTAL)).unwrap();
    std::fs::remove_file(folder.join(FULL)).unwrap();
    let why = open(&config, folder).err().expect("no new chain begins").to_string();
    assert!(why.contains(INCREMENTAL) && why.contains("put that one, snapshot-40-"), "{why}");
    std::fs::copy(recorded(FULL), folder.join(FULL)).unwrap();
    assert_eq!(bank(&config, folder).0, 60);
    // One of another full archive is passed over where there is a state.
    std::fs::rename(folder.join(INCREMENTAL), folder.join(INCREMENTAL.replace("-40-60-", "-39-60-"))).unwrap();
    assert_eq!(bank(&config, folder).0, 40);
}

#[test]
fn blocks_after_an_archive_are_replayed() {
    let (folder, config) = (folder(), config(false));
    let folder = folder.path();
    let chain = open(&config, folder).unwrap_or_else(|why| panic!("{why}"));
    let (genesis_hash, last) = (*chain.genesis.hash(), chain.ledger.recent_blocks(1)[0]);
    let ticks = chain.genesis.config().ticks_per_slot as usize;
    drop(chain);
    let settings = blockstore::Config::new(config.ledger.limit_size, genesis_hash);
    let (mut store, _) = BlockStore::open(&folder.join("blocks"), settings).unwrap();
    let (data, hash) = block(ticks, last.blockhash);
    let set = FecSetRecord {
        slot: 41,
        parent_slot: 40,
        fec_set_index: 0,
        reference_tick: 0,
        last_in_slot: true,
        ends_batch: None,
        merkle_root: hash,
        chained_root: last.blockhash,
        signature: [0; 64],
        data: &data,
    };
    store.append_set(&set).unwrap();
    drop(store);
    assert_eq!(bank(&config, folder).0, 41);
}

#[test]
fn an_archive_needs_its_genesis() {
    let (folder, config) = (folder(), config(false));
    std::fs::remove_file(folder.path().join(GENESIS_NAME)).unwrap();
    let why = open(&config, folder.path()).err().expect("nothing says which chain it is of").to_string();
    assert!(why.contains("genesis.bin is missing") && why.contains(FULL), "{why}");
    assert!(!folder.path().join(GENESIS_NAME).exists(), "no other chain begins there");
}
