//! A chain with rules that this program lacks is refused at the start.

use hearth_ledger::features::{all, feature_account};

use super::*;

/// The error with which a chain is refused whose feature `name` has this account, or none.
fn refusal(name: &str, account: Option<Account>) -> String {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(false));
    let new = open(&config, folder.path()).unwrap();
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
    match open(&config, beside.path()) {
        Err(error @ BootError::Feature(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the chain is opened"),
    }
}

#[test]
fn chains_with_other_rules_are_refused_by_name() {
    let active = refusal("alpenglow", Some(feature_account(Some(0))));
    assert!(active.contains("cannot run this chain: the feature alpenglow is active from slot 0 on"), "{active}");
    let missing = refusal("raise_block_limits_to_100m", None);
    assert!(missing.contains("the feature raise_block_limits_to_100m is not active"), "{missing}");
}
