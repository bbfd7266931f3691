//! Tests of the genesis: its hash, its file, and what is refused.

use hearth_crypto::ed25519::SigningKey;

use super::file::EXTRA_EXTENSION;
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
    let changes: [fn(&mut GenesisConfig); 11] = [
        |config| config.genesis_slot = 1,
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

#[test]
fn survives_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("genesis.json");
    let mut config = development(50);
    config.hashes_per_tick = Some(62_500);
    config.genesis_slot = 1_000;
    config.extra_accounts = vec![([9; 32], Account::with_data(1_000_000, [8; 32], b"program"))];
    let genesis = Genesis::create(config, |_| {}).unwrap();
    genesis.save(&path).unwrap();
    assert_eq!(Genesis::load(&path).unwrap(), genesis);
    assert!(!dir.path().join("genesis.part").exists());
}

#[test]
fn a_damaged_file_is_told_from_a_missing_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("genesis.json");
    let error = Genesis::load(&path).unwrap_err();
    assert!(matches!(error, GenesisError::Io { action: "read", .. }) && error.to_string().contains("genesis.json"));
    Genesis::create(development(5), |_| {}).unwrap().save(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let changes = [
        text[..text.len() / 2].to_owned(),
        text.replace("\"ticks_per_slot\":64", "\"ticks_per_slot\":63"),
        text.replace("\"version\":2", "\"version\":1"),
        text.replace("\"slot_ms\"", "\"slot_s\""),
    ];
    for changed in changes {
        std::fs::write(&path, &changed).unwrap();
        let error = Genesis::load(&path).unwrap_err();
        assert!(matches!(error, GenesisError::Damaged { .. }) && error.is_damage(), "{error}");
    }
    std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    let error = Genesis::load(&path).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("genesis.json is damaged: it is not UTF-8"), "{error}");
    // The additional accounts are half of it.
    std::fs::write(&path, &text).unwrap();
    std::fs::remove_file(path.with_extension("accounts")).unwrap();
    let error = Genesis::load(&path).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("genesis.accounts is missing"), "{error}");
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
fn damaged_extra_accounts_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("genesis.json");
    let with = |lamports| {
        let extra_accounts = vec![([9; 32], Account::wallet(lamports))];
        Genesis::create(GenesisConfig { extra_accounts, ..development(1) }, |_| {}).unwrap()
    };
    with(1_000_000).save(&path).unwrap();
    let extra = path.with_extension(EXTRA_EXTENSION);
    let right = std::fs::read(&extra).unwrap();
    std::fs::write(&extra, &right[1..]).unwrap();
    let error = Genesis::load(&path).unwrap_err().to_string();
    assert!(error.contains("genesis.accounts is damaged"), "{error}");
    // Complete, but of another chain.
    std::fs::write(&extra, extra::encode(&with(2_000_000).config.extra_accounts)).unwrap();
    let error = Genesis::load(&path).unwrap_err().to_string();
    assert!(error.contains("genesis.json is damaged: its content has the hash"), "{error}");
    std::fs::remove_file(&extra).unwrap();
    let error = Genesis::load(&path).unwrap_err();
    let GenesisError::Missing { path: missing, file } = &error else { panic!("{error}") };
    assert_eq!(missing, &extra);
    assert_eq!(file, &path);
    assert!(error.to_string().contains("genesis.accounts is missing"), "{error}");
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
}
