//! Tests of the genesis: its files against the cluster's own types, its hash, slot 0, and what is refused.

use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_wire::consts::{SYSVAR_SLOT_HASHES, SYSVAR_SLOT_HISTORY};
use solana_genesis_config::GenesisConfig as TheirConfig;

use super::*;

fn development(accounts: usize) -> GenesisConfig {
    let config = GenesisConfig::development([1; 32], [2; 32], 1_700_000_000);
    GenesisConfig { fund_initial_accounts: accounts, ..config }
}

#[test]
fn begins_with_what_the_configuration_says() {
    let mut progress = vec![];
    let genesis = Genesis::create(development(700), |done| progress.push(done)).unwrap();
    assert_eq!(progress.last(), Some(&700));
    assert!(progress.is_sorted());
    let accounts = genesis.accounts();
    assert!(accounts.is_sorted_by_key(|(key, _)| *key));
    assert_eq!(accounts.len(), 700 + 2 + builtin_accounts().len());
    let lamports: u64 = accounts.iter().map(|(_, account)| account.lamports).sum();
    let config = genesis.config();
    let given = 700 * config.initial_lamports + config.identity_lamports + config.faucet_lamports;
    assert_eq!(lamports, given + builtin_accounts().len() as u64);
    assert_eq!(genesis.funded_accounts()[699], funded_account_key(699).public_key());
    assert_eq!(SigningKey::from_seed(&funded_account_seed(3)).public_key(), genesis.funded_accounts()[3]);
}

#[test]
fn everything_that_matters_changes_the_hash() {
    let base = *Genesis::create(development(1), |_| {}).unwrap().hash();
    assert_eq!(base, *Genesis::create(development(1), |_| {}).unwrap().hash());
    let changes: [fn(&mut GenesisConfig); 15] = [
        |config| config.warmup_epochs = true,
        |config| config.inflation = solana_inflation::Inflation::full(),
        |config| config.fee_rate_governor.target_signatures_per_slot += 1,
        |config| config.cluster_type = solana_cluster_type::ClusterType::Devnet,
        |config| config.set_tick_ns(3_333_333),
        |config| config.fund_initial_accounts = 2,
        |config| config.initial_lamports += 1,
        |config| config.identity = [3; 32],
        |config| config.identity_lamports += 1,
        |config| config.faucet_lamports += 1,
        |config| config.hashes_per_tick = Some(62_500),
        |config| config.ticks_per_slot = 65,
        |config| config.slot_ms = 200,
        |config| config.creation_time += 1,
        |config| config.extra_accounts.push(([9; 32], Account::wallet(1_000_000))),
    ];
    for change in changes {
        let mut config = development(1);
        change(&mut config);
        assert_ne!(*Genesis::create(config, |_| {}).unwrap().hash(), base);
    }
}

#[test]
fn the_shred_version_is_folded_as_the_cluster_does() {
    let pairs = |pairs: &[u8]| {
        let mut hash = [0; 32];
        hash[..pairs.len()].copy_from_slice(pairs);
        shred_version(&hash)
    };
    assert_eq!(pairs(&[]), 1, "never 0");
    assert_eq!(pairs(&[0xa5, 0xa5, 0x5a, 0x5a]), 0xffff, "saturates");
    assert_eq!(pairs(&[0x12, 0x34, 0x01, 0x00]), 0x1335);
}

/// A genesis in which every field differs from the usual.
fn unusual() -> Genesis {
    let mut config = development(3);
    config.hashes_per_tick = Some(10);
    config.ticks_per_slot = 7;
    config.set_tick_ns(3_333_333);
    config.slots_per_epoch = 100;
    config.warmup_epochs = true;
    config.inflation = solana_inflation::Inflation::pico();
    config.fee_rate_governor.target_lamports_per_signature = 8_000;
    config.fee_rate_governor.burn_percent = 25;
    config.cluster_type = solana_cluster_type::ClusterType::Testnet;
    let mut program = Account::with_data(1_000_000, [8; 32], b"program");
    (program.executable, program.rent_epoch) = (true, 0);
    config.extra_accounts = vec![([9; 32], program), ([7; 32], Account::with_data(5_000_000, [8; 32], &[1; 300]))];
    Genesis::create(config, |_| {}).unwrap()
}

#[test]
fn the_cluster_reads_what_is_written() {
    for genesis in [Genesis::create(development(5), |_| {}).unwrap(), unusual()] {
        let (bytes, config) = (genesis.to_bytes(), genesis.config());
        let theirs: TheirConfig = bincode::deserialize(&bytes).unwrap();
        assert_eq!(bincode::serialize(&theirs).unwrap(), bytes);
        assert_eq!(theirs.hash().to_bytes(), *genesis.hash());
        assert_eq!(theirs.creation_time, 1_700_000_000);
        assert_eq!((theirs.ticks_per_slot, theirs.hashes_per_tick()), (config.ticks_per_slot, config.hashes_per_tick));
        assert_eq!(theirs.ns_per_slot(), u128::from(config.slot_ns()));
        let epochs = &theirs.epoch_schedule;
        assert_eq!((epochs.slots_per_epoch, epochs.warmup), (config.slots_per_epoch, config.warmup_epochs));
        assert_eq!((&theirs.inflation, &theirs.rent), (&config.inflation, &config.rent));
        assert_eq!((&theirs.fee_rate_governor, theirs.cluster_type), (&config.fee_rate_governor, config.cluster_type));
        let accounts: Vec<_> = theirs.accounts.iter().map(|(key, account)| (key.to_bytes(), account)).collect();
        let ours = file_accounts(config, genesis.funded_accounts());
        assert_eq!(accounts.len(), ours.len());
        for ((key, theirs), (our_key, ours)) in accounts.iter().zip(&ours) {
            assert_eq!((key, theirs.lamports, &theirs.data[..]), (our_key, ours.lamports, ours.data()));
            assert_eq!((theirs.owner.to_bytes(), theirs.executable), (ours.owner, ours.executable));
            assert_eq!(theirs.rent_epoch, ours.rent_epoch);
        }
    }
}

/// A genesis as the cluster's tools make it.
fn theirs() -> TheirConfig {
    let (mut theirs, _) = solana_genesis_config::create_genesis_config(10_000_000_000);
    theirs.creation_time = 1_600_000_000;
    theirs.poh_config.hashes_per_tick = Some(5);
    theirs.poh_config.target_tick_duration = Duration::from_micros(6_250);
    theirs.add_native_instruction_processor("former".into(), [6; 32].into());
    theirs.epoch_schedule = solana_epoch_schedule::EpochSchedule::custom(8_192, 8_192, true);
    theirs
}

#[test]
fn genesis_of_the_cluster_is_read() {
    let theirs = theirs();
    let bytes = bincode::serialize(&theirs).unwrap();
    let genesis = Genesis::from_bytes(&bytes).unwrap();
    assert_eq!(*genesis.hash(), theirs.hash().to_bytes());
    let config = genesis.config();
    assert_eq!((config.slot_ms, config.odd_tick_ns, config.hashes_per_tick), (400, None, Some(5)));
    assert_eq!((config.slots_per_epoch, config.warmup_epochs), (8_192, true));
    assert_eq!((config.creation_time, config.genesis_slot), (1_600_000_000, 0));
    assert_eq!(config.inflation, theirs.inflation);
    assert_eq!(config.extra_accounts.len(), 1);
    assert_eq!(config.extra_accounts[0].1.lamports, 10_000_000_000);
    // No transaction has room there, but others' blocks can be executed.
    let mut narrow = theirs.clone();
    narrow.poh_config.hashes_per_tick = Some(1);
    let narrow = Genesis::from_bytes(&bincode::serialize(&narrow).unwrap()).unwrap();
    assert!(narrow.config().check_blocks().is_err() && config.check_blocks().is_ok());
    // A folder of the cluster's tools has no file beside it.
    let dir = tempfile::tempdir().unwrap();
    theirs.write(dir.path()).unwrap();
    assert_eq!(Genesis::load(&dir.path().join(GENESIS_NAME)).unwrap(), genesis);
}

#[test]
fn odd_ticks_are_kept_to_the_nanosecond() {
    let mut config = development(0);
    for (ticks, tick_ns, slot_ms, odd) in
        [(64, 6_250_000, 400, false), (64, 7_000, 1, true), (7, 3_333_333, 23, true), (64, 16_000, 1, true)]
    {
        config.ticks_per_slot = ticks;
        config.set_tick_ns(tick_ns);
        assert_eq!((config.slot_ms, config.odd_tick_ns.is_some()), (slot_ms, odd), "{ticks} of {tick_ns} ns");
        assert_eq!((config.tick_ns(), config.slot_ns()), (tick_ns, ticks * tick_ns));
    }
}

#[test]
fn slot_0_is_the_ticks_of_a_chain() {
    let genesis = unusual();
    let mut hash = *genesis.hash();
    for tick in genesis.ticks() {
        (0..10).for_each(|_| hash = sha256(&[&hash]));
        assert_eq!(*tick, hash);
    }
    assert_eq!((genesis.ticks().len(), *genesis.slot_0_hash()), (7, hash));
    // In low power a tick of slot 0 has no hash.
    let low_power = Genesis::create(development(1), |_| {}).unwrap();
    assert_eq!((low_power.ticks().len(), low_power.slot_0_hash()), (64, low_power.hash()));
}

#[test]
fn survives_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(GENESIS_NAME);
    let mut genesis = unusual();
    genesis.config.genesis_slot = 1_000;
    genesis.save(&path).unwrap();
    let loaded = Genesis::load(&path).unwrap();
    assert_eq!(loaded, genesis);
    let (found, made) = (loaded.config(), genesis.config());
    assert_eq!((found.fund_initial_accounts, found.initial_lamports), (3, made.initial_lamports));
    assert_eq!((found.identity_lamports, found.faucet_lamports), (made.identity_lamports, made.faucet_lamports));
    assert_eq!(found.extra_accounts.len(), 2);
    assert_eq!(loaded.to_bytes(), std::fs::read(&path).unwrap());
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // The archive holds it, and is of no other chain.
    Genesis::write_archive(&path).unwrap();
    let archive = dir.path().join(ARCHIVE_NAME);
    let unpacked = unpack(std::fs::File::open(&archive).unwrap(), GENESIS_BYTES_MAX).unwrap();
    assert_eq!(unpacked, genesis.to_bytes());
    Genesis::create(development(1), |_| {}).unwrap().save(&path).unwrap();
    assert!(!archive.exists());
}

#[test]
fn an_account_that_overrides_another_survives_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(GENESIS_NAME);
    let mut config = development(2);
    config.extra_accounts =
        vec![([1; 32], Account::wallet(3_000_000)), (funded_account_key(1).public_key(), Account::wallet(4_000_000))];
    let genesis = Genesis::create(config, |_| {}).unwrap();
    genesis.save(&path).unwrap();
    let loaded = Genesis::load(&path).unwrap();
    assert_eq!((&loaded, loaded.accounts()), (&genesis, genesis.accounts()));
}

#[test]
fn a_file_that_is_cut_or_has_more_is_refused() {
    for bytes in [unusual().to_bytes(), bincode::serialize(&theirs()).unwrap()] {
        assert!(Genesis::from_bytes(&bytes).is_ok());
        for end in 0..bytes.len() {
            assert!(Genesis::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(Genesis::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn changed_bytes_are_refused_or_another_chain() {
    let genesis = unusual();
    let bytes = genesis.to_bytes();
    for at in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            let Ok(other) = Genesis::from_bytes(&changed) else { continue };
            assert_ne!(other.hash(), genesis.hash(), "byte {at}");
        }
    }
}

#[test]
fn lying_lengths_are_refused_without_memory() {
    let bytes = unusual().to_bytes();
    let with = |at: usize, number: u64| {
        let mut changed = bytes.clone();
        changed[at..at + 8].copy_from_slice(&number.to_le_bytes());
        Genesis::from_bytes(&changed).unwrap_err()
    };
    // The number of accounts, and the length of the first one's data.
    for number in [u64::MAX, u64::MAX / 2, 1 << 40] {
        assert!(!with(8, number).is_empty());
        assert!(with(16 + 32 + 8, number).contains("its data takes"), "{}", with(56, number));
    }
    assert!(with(16 + 32, 0).contains("no lamports"));
}

#[test]
fn unsupported_feature_is_named() {
    let refused = |change: fn(&mut TheirConfig)| {
        let mut theirs = theirs();
        change(&mut theirs);
        Genesis::from_bytes(&bincode::serialize(&theirs).unwrap()).unwrap_err()
    };
    let cases: [(fn(&mut TheirConfig), &str); 16] = [
        (|theirs| theirs.creation_time = -1, "creation time"),
        (|theirs| theirs.ticks_per_slot = 0, "ticks_per_slot"),
        (|theirs| theirs.ticks_per_slot = 300, "ticks_per_slot"),
        (|theirs| theirs.poh_config.hashes_per_tick = Some(0), "hashes_per_tick"),
        (|theirs| theirs.poh_config.target_tick_duration = Duration::ZERO, "tick"),
        (|theirs| theirs.poh_config.target_tick_duration = Duration::from_secs(u64::MAX), "tick"),
        (|theirs| theirs.rent.lamports_per_byte = 0, "rent"),
        (|theirs| theirs.rent.lamports_per_byte = u64::MAX, "rent"),
        (|theirs| theirs.inflation.initial = f64::NAN, "inflation"),
        (|theirs| theirs.inflation.taper = -1.0, "inflation"),
        (|theirs| theirs.epoch_schedule.leader_schedule_slot_offset = 5, "epoch schedule"),
        (|theirs| theirs.epoch_schedule.first_normal_slot += 1, "epoch schedule"),
        (|theirs| theirs.epoch_schedule.slots_per_epoch = u64::MAX, "slots_per_epoch"),
        (|theirs| theirs.rewards_pools = theirs.accounts.clone(), "reward pools"),
        (|theirs| theirs.fee_rate_governor.target_lamports_per_signature = u64::MAX, "signature"),
        (|theirs| theirs.accounts.values_mut().for_each(|account| account.lamports = u64::MAX), "lamports"),
    ];
    for (change, word) in cases {
        let why = refused(change);
        assert!(why.contains(word), "{word}: {why}");
    }
}

#[test]
fn accounts_out_of_order_are_refused() {
    let genesis = unusual();
    let mut accounts = file_accounts(genesis.config(), genesis.funded_accounts());
    let encode = |accounts: &[(Pubkey, Account)]| binary::encode(genesis.config(), accounts);
    assert!(Genesis::from_bytes(&encode(&accounts)).is_ok());
    accounts.swap(0, 1);
    assert!(Genesis::from_bytes(&encode(&accounts)).unwrap_err().contains("a lower address"));
    accounts[1] = accounts[0].clone();
    assert!(Genesis::from_bytes(&encode(&accounts)).unwrap_err().contains("a lower address"));
}

#[test]
fn a_damaged_file_is_distinguished_from_a_missing_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(GENESIS_NAME);
    let error = Genesis::load(&path).unwrap_err();
    assert!(matches!(error, GenesisError::Io { action: "read", .. }) && error.to_string().contains("genesis.bin"));
    Genesis::create(development(5), |_| {}).unwrap().save(&path).unwrap();
    let chain = dir.path().join(CHAIN_NAME);
    let (bytes, text) = (std::fs::read(&path).unwrap(), std::fs::read_to_string(&chain).unwrap());
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = Genesis::load(&path).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("genesis.bin is damaged: "), "{error}");
    std::fs::write(&path, &bytes).unwrap();
    for changed in [
        text[..text.len() / 2].to_owned(),
        text.replace("start_slot", "start"),
        text.replace("\"start_slot\": 0", "\"start_slot\": 1"),
        text.replace("\"identity_lamports\": 5", "\"identity_lamports\": 6"),
        text.replace("\"genesis_hash\": \"", "\"genesis_hash\": \"1"),
    ] {
        assert_ne!(changed, text);
        std::fs::write(&chain, &changed).unwrap();
        let error = Genesis::load(&path).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("chain.json is damaged: "), "{error}");
    }
    // Of another chain.
    let other = tempfile::tempdir().unwrap();
    Genesis::create(development(6), |_| {}).unwrap().save(&other.path().join(GENESIS_NAME)).unwrap();
    std::fs::copy(other.path().join(CHAIN_NAME), &chain).unwrap();
    let error = Genesis::load(&path).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("it is of the genesis"), "{error}");
}

#[test]
fn an_older_chain_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let older = dir.path().join("genesis.json");
    // Another program's file.
    std::fs::write(&older, "{\"config\":{\"chainId\":1}}").unwrap();
    assert!(Genesis::refuse_older(dir.path()).is_ok());
    std::fs::write(&older, "{\"checksum\":7,\"genesis\":{\"version\":2}}").unwrap();
    let path = dir.path().join(GENESIS_NAME);
    for error in [Genesis::refuse_older(dir.path()).unwrap_err(), Genesis::load(&path).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("genesis.json") && text.contains("`hearth run --reset`"), "{text}");
    }
    Genesis::create(development(1), |_| {}).unwrap().save(&path).unwrap();
    assert!(Genesis::refuse_older(dir.path()).is_ok(), "a new chain has begun");
}

#[test]
fn the_last_extra_account_of_an_address_counts() {
    let mut config = development(1);
    let extra = |lamports| (config.identity, Account::wallet(lamports));
    config.extra_accounts = vec![extra(1_000_000), extra(2_000_000)];
    let accounts = Genesis::create(config, |_| {}).unwrap().accounts();
    let found: Vec<_> = accounts.iter().filter(|(key, _)| *key == [1; 32]).collect();
    assert_eq!(found, [&([1; 32], Account::wallet(2_000_000))]);
}

#[test]
fn impossible_chains_are_refused() {
    let refused = |change: fn(&mut GenesisConfig)| {
        let mut config = development(2);
        change(&mut config);
        matches!(Genesis::create(config, |_| {}), Err(GenesisError::Config(_)))
    };
    assert!(refused(|config| config.initial_lamports = 890_879));
    assert!(refused(|config| config.faucet_lamports = u64::MAX));
    assert!(refused(|config| config.ticks_per_slot = 0));
    assert!(refused(|config| config.ticks_per_slot = 256));
    assert!(refused(|config| config.slots_per_epoch = SLOTS_PER_EPOCH_MAX + 1));
    assert!(refused(|config| config.slot_ms = SLOT_MS_MAX + 1));
    assert!(refused(|config| config.hashes_per_tick = Some(0)));
    assert!(refused(|config| config.hashes_per_tick = Some(1)));
    assert!(refused(|config| config.faucet = config.identity));
    assert!(refused(|config| config.genesis_slot = u64::MAX));
    assert!(refused(|config| config.rent.lamports_per_byte = 1 << 32));
    assert!(refused(|config| (config.warmup_epochs, config.slots_per_epoch) = (true, 31)));
    // The chain reads what it continues, and would not survive a short one.
    for key in [SYSVAR_SLOT_HASHES, SYSVAR_SLOT_HISTORY] {
        let config = GenesisConfig { extra_accounts: vec![(key, Account::wallet(1_000_000))], ..development(2) };
        let why = Genesis::create(config, |_| {}).unwrap_err().to_string();
        assert!(why.contains("which the chain makes"), "{why}");
    }
}
