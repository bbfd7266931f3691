//! Hard forks of a chain: its folder keeps them, and one that its blocks were made without is refused.

use hearth_ledger::genesis::{HARD_FORKS_NAME, read_hard_forks};

use super::*;

fn with_forks(slots: &[u64]) -> Config {
    let mut config = config(false);
    config.consensus.hard_forks = slots.to_vec();
    config
}

/// The hard forks and the shred version of the chain after a start.
fn opened(config: &Config, folder: &Path) -> (Vec<u64>, u16) {
    let chain = open(config, folder).unwrap();
    (chain.ledger.hard_fork_slots(), chain.ledger.shred_version())
}

#[test]
fn a_chain_keeps_its_hard_forks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    chain(&config(false), folder, &[(1, 0), (2, 1), (5, 2)]);
    let (none, plain) = opened(&config(false), folder);
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(read_hard_forks(folder).unwrap(), Some(vec![]));
    let (forks, version) = opened(&with_forks(&[6]), folder);
    assert_eq!(forks, [6]);
    assert_ne!(version, plain);
    assert_eq!(opened(&config(false), folder), (vec![6], version), "without the option, too");
    assert_eq!(opened(&with_forks(&[6]), folder), (vec![6], version), "and with it, which changes nothing");
}

#[test]
fn hard_forks_must_be_after_every_block() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    chain(&config(false), folder, &[(1, 0), (2, 1), (5, 2)]);
    let refused = |slot: u64| open(&with_forks(&[slot]), folder).err().expect("it is refused").to_string();
    for slot in [1, 3, 5] {
        let why = refused(slot);
        assert!(why.contains(&format!("the hard fork at slot {slot} ")) && why.contains("is of slot 5"), "{why}");
    }
    let why = refused(0);
    assert!(why.contains("the state of slot 0 was made with hard forks at no slot, and those at slot 0 are"), "{why}");
    assert_eq!(read_hard_forks(folder).unwrap(), Some(vec![]), "nothing of it stays");
    // A folder of an older version does not say: its configuration does.
    std::fs::remove_file(folder.join(HARD_FORKS_NAME)).unwrap();
    assert_eq!(opened(&with_forks(&[3]), folder).0, [3]);
    assert_eq!(opened(&config(false), folder).0, [3]);
}
