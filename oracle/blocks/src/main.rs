//! Lets Agave judge blocks that keep the rules or break one, and records its verdicts.
//!
//! reads   the blocks that `cargo run -p hearth-pipeline --example bad_blocks` prints, from the file given
//! writes  to standard output, a line for each block: its name, a tab, and `ok` or the error with which the block is
//!         dead
//! memory  some hundred megabytes; a block store in a temporary folder for each block
//! source  `process_single_slot` of `solana-ledger` 4.2.2, unmodified
//!
//! Run by hand, when a block is added; it builds RocksDB (20–30 CPU minutes) and needs
//! `apt-get install clang libclang-dev protobuf-compiler`:
//!
//! ```text
//! cargo run -p hearth-pipeline --example bad_blocks > /tmp/blocks
//! cd oracle/blocks && cargo run --locked -- /tmp/blocks > ../../crates/solana/pipeline/tests/verdicts/agave.tsv
//! ```
//!
//! Each block is that of slot 2 on the same parent. The accounts and limits are those of that test.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agave_feature_set as features;
use rayon::{ThreadPool, ThreadPoolBuilder};
use solana_account::AccountSharedData;
use solana_accounts_db::accounts_db::AccountsDbConfig;
use solana_cluster_type::ClusterType;
use solana_cost_model::cost_tracker::CostTrackerLimits;
use solana_genesis_config::GenesisConfig;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_leader_schedule::SlotLeader;
use solana_ledger::blockstore::Blockstore;
use solana_ledger::blockstore_processor::{
    BlockstoreProcessorError, ConfirmationProgress, ProcessOptions, process_single_slot,
};
use solana_ledger::shred::{ProcessShredsStats, ReedSolomonCache, Shred, Shredder};
use solana_pubkey::Pubkey;
use solana_runtime::bank::Bank;
use solana_runtime::bank_forks::BankForks;
use solana_runtime::installed_scheduler_pool::BankWithScheduler;
use solana_runtime::{genesis_utils, stake_utils};
use solana_sha256_hasher::hashv;
use solana_signer::Signer;
use solana_svm_timings::ExecuteTimings;
use solana_vote_program::vote_state;

/// The last hash of the parent block.
const PARENT: [u8; 32] = [5; 32];
const SOL: u64 = 1_000_000_000;
const VERSION: u16 = 0x1234;
/// Limits of an account and of a block, in compute units, and of new account data, in bytes.
const LIMITS: CostTrackerLimits = CostTrackerLimits::new(7_500, 15_000, 100_000_000);

/// Features that Hearth does not support.
const NEVER: [fn() -> Pubkey; 8] = [
    features::alpenglow::id,
    features::alpenglow_fast_leader_handover::id,
    features::enable_tx_v1::id,
    features::reduce_slot_time_to_350ms::id,
    features::reduce_slot_time_to_300ms::id,
    features::reduce_slot_time_to_250ms::id,
    features::reduce_slot_time_to_200ms::id,
    features::validator_admission_ticket::id,
];

fn key(number: u8) -> Keypair {
    Keypair::new_from_array([number; 32])
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("blocks FILE: the file that the example bad_blocks of hearth-pipeline has written");
        return ExitCode::FAILURE;
    };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let threads = ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    let mut lines: Vec<String> = vec![];
    for line in text.lines() {
        let (name, batches) = line.split_once('\t').expect("a name and batches");
        let batches: Vec<Vec<u8>> = batches.split(',').map(bytes).collect();
        lines.push(format!("{name}\t{}", verdict(&batches, &threads)));
    }
    lines.sort();
    lines.iter().for_each(|line| println!("{line}"));
    ExitCode::SUCCESS
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn genesis() -> GenesisConfig {
    let mut genesis = GenesisConfig { ticks_per_slot: 4, cluster_type: ClusterType::Development, ..Default::default() };
    genesis.poh_config.hashes_per_tick = Some(40);
    genesis_utils::add_genesis_stake_config_account(&mut genesis);
    genesis_utils::add_genesis_epoch_rewards_account(&mut genesis);
    genesis_utils::activate_all_features(&mut genesis);
    NEVER.iter().for_each(|id| drop(genesis.accounts.remove(&id())));
    let (node, vote, stake) = (key(200).pubkey(), key(201).pubkey(), key(202).pubkey());
    let account = vote_state::create_v4_account_with_authorized(&node, &node, [0; 48], &node, 0, &vote, 0, &node, SOL);
    let staked = stake_utils::create_stake_account(&node, &vote, &account, &genesis.rent, 1_000 * SOL);
    genesis.add_account(vote, account);
    genesis.add_account(stake, staked);
    let mut wallet = |number: u8, lamports: u64, owner: &Pubkey| {
        genesis.add_account(key(number).pubkey(), AccountSharedData::new(lamports, 0, owner));
    };
    let system = solana_sdk_ids::system_program::id();
    (0..24).for_each(|number| wallet(number, SOL, &system));
    wallet(200, SOL, &system);
    wallet(30, 4_000, &system);
    wallet(31, solana_rent::Rent::default().minimum_balance(0) + 4_000, &system);
    wallet(32, SOL, &Pubkey::new_from_array([9; 32]));
    genesis
}

/// Fills a bank with ticks, the last of which has the hash `last`, and freezes it.
fn end(bank: &BankWithScheduler, last: Hash) {
    while !bank.is_complete() {
        bank.register_tick(&last);
    }
    bank.freeze();
    bank.set_block_id(Some(hashv(&[b"block", bank.hash().as_ref()])));
}

/// The shreds of slot 2: each batch ends with a shred that says so.
fn shreds(batches: &[Vec<u8>]) -> Vec<Shred> {
    let shredder = Shredder::new(2, 1, 0, VERSION).expect("a valid slot");
    let mut all: Vec<Shred> = vec![];
    let (mut root, mut index) = (Hash::default(), 0);
    for (number, batch) in batches.iter().enumerate() {
        let made = shredder.make_shreds_from_data_slice(
            &key(200),
            batch,
            number + 1 == batches.len(),
            root,
            index,
            index,
            &ReedSolomonCache::default(),
            &mut ProcessShredsStats::default(),
        );
        let made: Vec<Shred> = made.expect("shreds").collect();
        root = made.last().expect("a set").merkle_root().expect("a root");
        index += u32::try_from(made.len() / 2).expect("few shreds");
        all.extend(made);
    }
    all
}

fn verdict(batches: &[Vec<u8>], threads: &ThreadPool) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let genesis = genesis();
    let forks = BankForks::new_rw_arc(open(&genesis, &folder.path().join("accounts")));
    let insert = |bank: Bank| forks.write().expect("no thread panicked").insert(bank);
    let first = forks.read().expect("no thread panicked").get_with_scheduler(0).expect("the genesis has a bank");
    end(&first, genesis.hash());
    let leader = SlotLeader { id: key(200).pubkey(), vote_address: key(201).pubkey() };
    let parent = insert(Bank::new_from_parent(first.clone_without_scheduler(), leader, 1));
    end(&parent, Hash::new_from_array(PARENT));
    let bank = insert(Bank::new_from_parent(parent.clone_without_scheduler(), leader, 2));
    bank.write_cost_tracker().expect("no thread panicked").set_limits(LIMITS);
    let store = Blockstore::open(&folder.path().join("ledger")).expect("a block store");
    store.insert_shreds(shreds(batches), None, true).expect("the shreds are stored");
    let migration = forks.read().expect("no thread panicked").migration_status();
    let judged = process_single_slot(
        &store,
        &bank,
        VERSION,
        threads,
        // The parent is not in the store.
        &ProcessOptions { run_verification: true, skip_inter_slot_verification: true, ..ProcessOptions::default() },
        &mut ConfirmationProgress::new(Hash::new_from_array(PARENT)),
        None,
        None,
        None,
        &mut ExecuteTimings::default(),
        &migration,
    );
    match judged {
        Ok(()) => "ok".into(),
        // The inner error has a message of its own; its kind is what counts.
        Err(BlockstoreProcessorError::FailedToLoadEntries(why)) => {
            let why = format!("{why:?}");
            format!("FailedToLoadEntries({})", why.split('(').next().expect("a name"))
        }
        Err(why) => format!("{why:?}"),
    }
}

fn open(genesis: &GenesisConfig, accounts: &Path) -> Bank {
    std::fs::create_dir_all(accounts).expect("a folder");
    Bank::new_from_genesis(
        genesis,
        Arc::default(),
        vec![accounts.to_path_buf()],
        None,
        AccountsDbConfig::default(),
        None,
        None,
        Arc::new(AtomicBool::new(false)),
        None,
        None,
    )
}
