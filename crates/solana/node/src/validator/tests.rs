//! What the options mean in the configuration, and when a restart is good.

use clap::{CommandFactory, FromArgMatches, Parser};
use hearth_ledger::GenesisConfig;
use hearth_ledger::genesis::save_hard_forks;

use super::restart_window::{NodeFacts, Watch, WindowCheck};
use super::*;

/// A program whose only command is `hearth validator`.
#[derive(Parser)]
struct Program {
    #[command(flatten)]
    options: Options,
}

fn parse(line: &str) -> Result<Options, String> {
    let matches = Program::command().try_get_matches_from(line.split_whitespace()).map_err(|why| why.to_string())?;
    Program::from_arg_matches(&matches).map(|program| program.options).map_err(|why| why.to_string())
}

fn applied(line: &str) -> Config {
    let mut config = Config::default();
    parse(line).unwrap().given.apply(&mut config).unwrap();
    checked(&config).unwrap();
    config
}

const ADDRESS: &str = "11111111111111111111111111111112";

#[test]
fn options_become_keys() {
    let config = applied(&format!(
        "validator --identity id.json --vote-account {ADDRESS} -n 203.0.113.1:8001 -n entry.example.org:8001 \
         --expected-genesis-hash {ADDRESS} --expected-shred-version 77 --hard-fork 5 --hard-fork 9 --known-validator \
         {ADDRESS} --only-known-rpc --snapshots archives --full-snapshot-interval-slots 500 \
         --maximum-full-snapshots-to-retain 3 --maximum-local-snapshot-age 100 --limit-ledger-size 1000 \
         --vote-without-tower --capture session"
    ));
    assert_eq!(config.development.capture.folder, Path::new("session"));
    assert!(config.gossip.enabled && config.joins() && !config.follows());
    let entrypoints: Vec<String> = config.gossip.entrypoints.iter().map(ToString::to_string).collect();
    assert_eq!(entrypoints, ["203.0.113.1:8001", "entry.example.org:8001"]);
    assert_eq!(config.consensus.identity_path, Path::new("id.json"));
    assert_eq!(config.consensus.vote_account_path, Path::new(ADDRESS));
    assert_eq!(config.consensus.expected_genesis_hash, ADDRESS);
    assert_eq!(config.consensus.expected_shred_version, 77);
    assert_eq!(config.consensus.hard_forks, [5, 9]);
    assert!(config.consensus.vote && config.consensus.vote_without_tower);
    assert_eq!(config.snapshots.known_validators.len(), 1);
    assert!(config.snapshots.only_known_rpc);
    assert_eq!(config.snapshots.path, Path::new("archives"));
    assert_eq!(config.snapshots.full_snapshot_interval_slots, 500);
    assert_eq!(config.snapshots.maximum_full_snapshots_to_retain, 3);
    assert_eq!(config.snapshots.maximum_local_snapshot_age, 100);
    assert_eq!(config.ledger.limit_size, 1_203_000);
    let config = applied("validator --no-voting --no-snapshots --no-snapshot-fetch -n 203.0.113.1:8001");
    assert!(!config.consensus.vote && !config.snapshots.enabled && !config.snapshots.download);
}

#[test]
fn a_sandbox_is_required_only_where_a_tile_has_one() {
    let mut config = Config::default();
    parse("validator --require-isolation").unwrap().given.apply(&mut config).unwrap();
    assert!(config.security.require_isolation);
    let why = checked(&config).unwrap_err().to_string();
    assert!(why.contains("`security.require_isolation`") && why.contains("`security.isolation`"), "{why}");
    config.security.isolation = config::Isolation::Auto;
    checked(&config).unwrap();
}

#[test]
fn options_not_given_leave_the_file_alone() {
    let mut config = Config::default();
    config.consensus.identity_path = "mine.json".into();
    config.snapshots.download = false;
    config.rpc.port = 1_234;
    let mut named = config.clone();
    let url = format!("validator --snapshot-url http://203.0.113.1:8899/snapshot-100-{ADDRESS}.tar.zst");
    parse(&url).unwrap().given.apply(&mut named).unwrap();
    assert!(named.snapshots.download && named.snapshots.url.ends_with(".tar.zst"));
    let before = config.clone();
    parse("validator").unwrap().given.apply(&mut config).unwrap();
    assert!(config.gossip.enabled);
    config.gossip.enabled = false;
    assert_eq!(config, before);
}

#[test]
fn hard_fork_of_the_file_and_of_an_option_is_one() {
    let mut config = Config::default();
    config.consensus.hard_forks = vec![5, 9];
    parse("validator --hard-fork 5 --hard-fork 7").unwrap().given.apply(&mut config).unwrap();
    assert_eq!(config.consensus.hard_forks, [5, 7, 9]);
}

#[test]
fn ports_come_of_a_range() {
    let ports = |config: &Config| {
        let tiles = &config.tiles;
        [
            config.gossip.port,
            tiles.shred.shred_listen_port,
            tiles.repair.repair_client_listen_port,
            tiles.repair.repair_serve_listen_port,
            tiles.quic.regular_transaction_listen_port,
            tiles.quic.quic_transaction_listen_port,
        ]
    };
    assert_eq!(ports(&applied("validator --dynamic-port-range 8000-8005")), [8_000, 8_001, 8_002, 8_003, 8_004, 8_005]);
    let config = applied("validator --dynamic-port-range 8010-8014 --gossip-port 8001 --rpc-port 8020");
    assert_eq!(ports(&config), [8_001, 8_010, 8_011, 8_012, 8_013, 8_014]);
    assert_eq!(config.rpc.port, 8_020);
    let few = parse("validator --dynamic-port-range 8000-8004").unwrap().given.apply(&mut Config::default());
    let few = few.unwrap_err();
    assert_eq!(few.exit_code(), WRONG_USE);
    assert_eq!(few.to_string(), "--dynamic-port-range: 8000-8004 has too few ports: the node needs 6");
    for wrong in ["8000", "8005-8000", "0-10", "a-b", "8000-70000"] {
        let why = parse(&format!("validator --dynamic-port-range {wrong}")).err().unwrap();
        assert!(why.contains("is not a range of ports, as 8000-8025"), "{why}");
    }
}

#[test]
fn private_rpc_stays_on_loopback() {
    let open = applied("validator --bind-address 203.0.113.7");
    assert_eq!(open.rpc.bind_address.to_string(), "203.0.113.7");
    assert_eq!(open.tiles.net.bind_address.to_string(), "203.0.113.7");
    assert_eq!(open.gossip.bind_address.to_string(), "203.0.113.7");
    assert!(!open.rpc.private);
    let private = applied("validator --bind-address 203.0.113.7 --private-rpc");
    assert!(private.rpc.private && private.rpc.bind_address.is_loopback());
    let own = applied("validator --private-rpc --rpc-bind-address 10.0.0.1");
    assert_eq!(own.rpc.bind_address.to_string(), "10.0.0.1");
}

#[test]
fn mistakes_are_named() {
    for (line, part) in [
        ("validator --expected-genesis-hash nonsense", "not a hash in base58"),
        ("validator --expected-shred-version 0", "0 is not in 1.."),
        ("validator --expected-shred-version 65536", "65536"),
        ("validator --entrypoint nowhere", "is not a `host:port`"),
        ("validator --known-validator 1", "is not an address"),
        ("validator --bind-address ::1", "invalid"),
        ("validator --maximum-full-snapshots-to-retain 0", "at least 1"),
        ("validator --limit-ledger-size 1", "at least 1000"),
        ("validator exit --max-delinquent-stake 101", "101 is not in 0..=100"),
    ] {
        let why = parse(line).err().unwrap_or_else(|| panic!("{line} is taken"));
        assert!(why.contains(part), "{line}: {why}");
    }
    let mut config = Config::default();
    parse("validator --bind-address 0.0.0.0").unwrap().given.apply(&mut config).unwrap();
    let why = checked(&config).unwrap_err();
    assert!(why.to_string().contains("`gossip.bind_address` wrong"), "{why}");
    let mut config = Config::default();
    parse("validator --only-known-rpc").unwrap().given.apply(&mut config).unwrap();
    let why = checked(&config).unwrap_err();
    assert!(why.to_string().contains("`snapshots.only_known_rpc` wrong: needs known_validators"), "{why}");
}

#[test]
fn node_is_named_before_or_after_a_subcommand() {
    for line in ["validator --ledger here exit --force", "validator exit -f -l here"] {
        let options = parse(line).unwrap();
        assert_eq!(options.node.ledger.as_deref(), Some(Path::new("here")), "{line}");
        assert!(!options.starts_node());
        assert_eq!(options.given, NodeOptions::default());
    }
    let misplaced = parse("validator --identity id.json contact-info").unwrap();
    let why = run(&misplaced, None, &CommandOutput::nothing()).unwrap_err();
    assert!(matches!(why, ValidatorError::Misplaced), "{why}");
    assert_eq!(why.exit_code(), WRONG_USE);
}

#[test]
fn chain_in_the_folder_must_be_the_named_one() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path();
    let joining = applied("validator -n 203.0.113.1:8001");
    assert!(check_chain(&joining, ledger).is_ok());
    let alone = applied("validator");
    let why = check_chain(&alone, ledger).unwrap_err();
    assert!(matches!(why, ValidatorError::NoGenesis { .. }), "{why}");

    let development = GenesisConfig::development([1; 32], [2; 32], 1_700_000_000);
    let genesis = Genesis::create(GenesisConfig { fund_initial_accounts: 2, ..development }, |_| {}).unwrap();
    genesis.save(&ledger.join(GENESIS_NAME)).unwrap();
    assert!(check_chain(&alone, ledger).is_ok());
    let mut config = alone;
    config.consensus.expected_shred_version = genesis.shred_version();
    assert!(check_chain(&config, ledger).is_ok());
    config.consensus.expected_shred_version ^= 1;
    let why = check_chain(&config, ledger).unwrap_err();
    assert!(matches!(why, ValidatorError::OtherShredVersion { .. }), "{why}");
    // A chain has its hard forks without the option, too.
    config.consensus.expected_shred_version = shred_version_with(genesis.hash(), &[5, 9]);
    assert!(check_chain(&config, ledger).is_err());
    save_hard_forks(ledger, &[5, 9]).unwrap();
    assert!(check_chain(&config, ledger).is_ok());
    // The genesis may be there as an archive alone.
    Genesis::write_archive(&ledger.join(GENESIS_NAME)).unwrap();
    fs::remove_file(ledger.join(GENESIS_NAME)).unwrap();
    assert!(check_chain(&config, ledger).is_ok() && ledger.join(GENESIS_NAME).exists());
    config.consensus.expected_genesis_hash = ADDRESS.into();
    let why = check_chain(&config, ledger).unwrap_err().to_string();
    assert!(why.contains("consensus.expected_genesis_hash is 11111111111111111111111111111112"), "{why}");
    config.consensus.expected_genesis_hash.clear();
    save_hard_forks(ledger, &[7]).unwrap();
    assert!(check_chain(&config, ledger).is_err());
    config.consensus.expected_shred_version = shred_version_with(genesis.hash(), &[7]);
    assert!(check_chain(&config, ledger).is_ok(), "the folder has the chain's hard forks");
}

#[test]
fn folder_with_more_than_a_key_stays() {
    let folder = tempfile::tempdir().unwrap();
    let [new, used] = ["new", "used"].map(|name| folder.path().join(name));
    for ledger in [&new, &used] {
        fs::create_dir(ledger).unwrap();
        fs::write(ledger.join("identity.json"), "[]").unwrap();
    }
    fs::write(used.join("notes"), "mine").unwrap();
    forget(&new);
    forget(&used);
    assert!(!new.exists());
    assert!(used.join("notes").exists());
}

/// A healthy node at slot 100 that leads the slots from 200 on and those from 900 on; the schedule is known to 1,000.
fn seen() -> NodeFacts {
    NodeFacts {
        slot: 100,
        epoch: 1,
        leads: vec![200, 201, 202, 203, 900, 901, 902, 903],
        is_leader: true,
        known_to: 1_000,
        is_healthy: true,
        delinquent: 0.0,
        snapshot: Some(64),
    }
}

fn waits(look: Result<WindowCheck, ValidatorError>) -> String {
    match look.unwrap() {
        WindowCheck::Wait(why) => why,
        WindowCheck::Restart => panic!("it does not wait"),
    }
}

#[test]
fn restart_waits_for_a_window() {
    let mut watch = Watch::new(300, 5, false);
    assert_eq!(waits(watch.look(&seen())), "the node leads slot 200, in 100 slots");
    let later = NodeFacts { slot: 204, leads: vec![900, 901, 902, 903], ..seen() };
    assert_eq!(watch.look(&later).unwrap(), WindowCheck::Restart);
    let sick = NodeFacts { is_healthy: false, ..later.clone() };
    assert_eq!(waits(watch.look(&sick)), "the node is unhealthy");
    let delinquent = NodeFacts { delinquent: 5.0, ..later };
    assert_eq!(waits(watch.look(&delinquent)), "5.00 % of the stake are delinquent");
    // After its last known turn the node may lead the first slot that is not known.
    let last = NodeFacts { slot: 904, leads: vec![], ..seen() };
    assert_eq!(waits(watch.look(&last)), "who leads from slot 1000 on is not known yet");
    assert_eq!(watch.look(&NodeFacts { known_to: 1_204, ..last.clone() }).unwrap(), WindowCheck::Restart);
    assert_eq!(watch.look(&NodeFacts { is_leader: false, ..last }).unwrap(), WindowCheck::Restart, "it only follows");
}

#[test]
fn restart_waits_for_a_snapshot() {
    let mut watch = Watch::new(50, 5, true);
    assert_eq!(waits(watch.look(&seen())), "waiting for a new snapshot");
    assert_eq!(waits(watch.look(&seen())), "waiting for a new snapshot");
    assert_eq!(watch.look(&NodeFacts { snapshot: Some(128), ..seen() }).unwrap(), WindowCheck::Restart);
}

#[test]
fn too_long_an_idle_time_is_an_error() {
    let why = Watch::new(800, 5, false).look(&seen()).unwrap_err();
    assert!(matches!(why, ValidatorError::NoWindow { wanted: 800, longest: 697, to: 1_000 }), "{why}");
    assert!(Watch::new(697, 5, false).look(&seen()).is_ok());
}
