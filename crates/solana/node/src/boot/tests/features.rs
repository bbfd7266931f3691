//! A chain with rules that this program lacks is refused at the start.

use hearth_ledger::features::{all, feature_account};

use super::*;

/// A folder with a chain whose feature `name` has this account, or none.
fn chain_with(config: &Config, name: &str, account: Option<Account>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let new = open(config, folder.path()).unwrap();
    let mut began = new.genesis.config().clone();
    drop(new);
    let id = all().iter().find(|feature| feature.name == name).expect("a feature").id;
    began.extra_accounts.retain(|(key, _)| *key != id);
    began.extra_accounts.extend(account.map(|account| (id, account)));
    let other = Genesis::create(began, |_| {}).unwrap();
    let beside = tempfile::tempdir().unwrap();
    for key in ["identity.json", "faucet.json"] {
        std::fs::copy(folder.path().join(key), beside.path().join(key)).unwrap();
    }
    other.save(&beside.path().join(GENESIS_NAME)).unwrap();
    beside
}

/// The error with which a start refuses the chain in a folder.
fn refusal(config: &Config, folder: &Path) -> String {
    match open(config, folder) {
        Err(error @ BootError::Feature(_)) => {
            assert_eq!(error.exit_code(), UNSUPPORTED_CHAIN, "a supervisor need not start it again");
            error.to_string()
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the chain is opened"),
    }
}

#[test]
fn chains_with_other_rules_are_refused_by_name() {
    let refusal = |name, account| {
        let config = config(false);
        refusal(&config, chain_with(&config, name, account).path())
    };
    let active = refusal("alpenglow", Some(feature_account(Some(0))));
    assert!(active.contains("cannot run this chain: the feature alpenglow is active from slot 0 on"), "{active}");
    let missing = refusal("raise_block_limits_to_100m", None);
    assert!(missing.contains("the feature raise_block_limits_to_100m is not active"), "{missing}");
}

#[test]
fn a_chain_at_the_boundary_of_an_unsupported_feature_is_refused() {
    let mut config = config(false);
    config.development.genesis.slots_per_epoch = 32;
    let folder = chain_with(&config, "alpenglow", Some(feature_account(None)));
    chain(&config, folder.path(), &[(1, 0), (30, 1)]);
    assert_eq!(started(&config, folder.path()).0, 30, "the next slot is of the same epoch");
    let folder = chain_with(&config, "alpenglow", Some(feature_account(None)));
    chain(&config, folder.path(), &[(1, 0), (31, 1)]);
    for _ in 0..2 {
        let why = refusal(&config, folder.path());
        assert!(why.contains("cannot run this chain: the feature alpenglow is active from slot 32 on"), "{why}");
    }
}

#[test]
fn a_node_that_meets_an_unsupported_feature_ends_with_its_own_exit_code() {
    let source = FeatureError::Unsupported { name: "alpenglow", slot: 32, note: "another consensus" };
    let slot = || SlotError::Feature { slot: 32, source };
    assert_eq!(DivergenceError::from(slot()).exit_code(), UNSUPPORTED_CHAIN);
    assert_eq!(BootError::from(DivergenceError::from(slot())).exit_code(), UNSUPPORTED_CHAIN);
    let block = hearth_pipeline::replay::ReplayError::Slot { slot: 32, source: slot() };
    assert_eq!(BootError::Replay(block.into()).exit_code(), UNSUPPORTED_CHAIN);
    assert_eq!(DivergenceError::NotTheSame(32).exit_code(), FAILED);
    assert_eq!(DivergenceError::from(SlotError::Unfinished(31)).exit_code(), FAILED);
}
