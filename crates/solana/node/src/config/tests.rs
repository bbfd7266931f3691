//! Reading files: defaults, mistakes, and files of the published benches.

use std::path::Path;

use hearth_pipeline::kinds::Role;
use hearth_tile::affinity::Cores;

use super::load::{LoadedConfig, load_str, meant};
use super::*;

fn error(text: &str) -> String {
    load_str(text, Path::new("my.toml")).unwrap_err().to_string()
}

#[test]
fn the_annotated_default_is_the_default() {
    let text = Config::annotated_default();
    let loaded = load_str(&text, Path::new("default.toml")).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert!(loaded.notices.is_empty());
    assert!(text.contains("[development.bench]") && text.contains("# Hashes per tick"), "{text}");
}

#[test]
fn every_kind_of_tile_has_its_key_and_its_place() {
    let mut config = Config::default();
    for (number, kind) in KINDS.iter().enumerate() {
        if let Some(count) = config.tile_count_mut(kind) {
            *count = number;
        }
    }
    for (number, kind) in KINDS.iter().enumerate() {
        let expected = if kind.count_key().is_some() { number } else { 0 };
        assert_eq!(config.tile_counts().of(kind.name), expected, "{}", kind.name);
    }
    assert_eq!(config.layout.verify_tile_count, config.tile_counts().of("verify"));
    let text = Config::annotated_default().replace("\n# ", " ");
    for of_load in [false, true] {
        let kinds = KINDS.iter().filter(|kind| (kind.role == Role::Load) == of_load);
        let names: Vec<_> = kinds.map(|kind| kind.name).collect();
        let order = format!("tiles in the order {}", names.join(", "));
        assert!(text.contains(&order), "the text of `affinity` does not say: {order}");
    }
}

#[test]
fn empty_file_is_valid() {
    assert_eq!(load_str("", Path::new("x")).unwrap().config, Config::default());
}

#[test]
fn nearest_key_or_table_is_suggested() {
    let tables = ["lanes".to_owned()];
    let of_key = |key: &str, name, is_table| meant(&[key.to_owned()], &tables, name, is_table);
    let meant = |name, is_table| of_key("links", name, is_table);
    assert_eq!(meant("linkes", false).as_deref(), Some("`links`"), "`links` differs by one letter, the table by two");
    assert_eq!(meant("linkes", true).as_deref(), Some("the table `[lanes]`"), "a key is not suggested for a table");
    assert_eq!(meant("lankes", false).as_deref(), Some("the table `[lanes]`"), "the table is one letter nearer");
    assert_eq!(of_key("lines", "lunes", false).as_deref(), Some("the table `[lanes]`"), "both differ by one letter");
    assert_eq!(meant("nonsense", false), None);
}

#[test]
fn mistake_names_line_key_and_suggestion() {
    let said = error("[layout]\naffinity = \"auto\"\nverfy_tile_count = 3\n");
    assert_eq!(said, "my.toml:3: unknown key `layout.verfy_tile_count`; did you mean `layout.verify_tile_count`?");
    let said = error("\n[layuot]\nnet_tile_count = 1\n");
    assert_eq!(said, "my.toml:3: unknown key `layuot.net_tile_count`; did you mean `layout.net_tile_count`?");
    // An unknown table: with a key of the intended one, with another key, and empty.
    let said = error("[tiles.quick]\nmax_concurrent_connections = 1\n");
    assert!(said.ends_with("; did you mean `tiles.quic.max_concurrent_connections`?"), "{said}");
    let said = error("[tiles.quick]\nx = 1\n");
    assert!(said.contains("; did you mean the table `[tiles.quic]`, which has "), "{said}");
    assert!(said.contains("quic_transaction_listen_port"), "{said}");
    let said = error("\n[tiles.quick]\n");
    assert_eq!(said, "my.toml:2: unknown key `tiles.quick`; did you mean the table `[tiles.quic]`?");
    for (file, meant) in [
        ("[tils]", "[tiles]"),
        ("[tile.pack]", "[tiles.pack]"),
        ("[tiles.pak]", "[tiles.pack]"),
        ("[developement.bench]", "[development.bench]"),
    ] {
        let said = error(file);
        assert!(said.ends_with(&format!("; did you mean the table `{meant}`?")), "{said}");
    }
    assert!(error("[tiles.bank.x]").ends_with("lists all keys"));
    // The whole name must be similar, a table's first, and not just the last part of a key's.
    for (file, meant) in [
        ("tile = 1", "the table `[tiles]`"),
        ("[[tile]]", "the table `[tiles]`"),
        ("tiels = 1", "the table `[tiles]`"),
        ("[[tiels]]", "the table `[tiles]`"),
        ("[tile]\npack = 1", "the table `[tiles.pack]`"),
        ("[[tiels.pack]]", "the table `[tiles.pack]`"),
        ("[tile]\nx = 1", "the table `[tiles]`"),
        ("[rpc]\nbind_addr = \"::1\"", "`rpc.bind_address`"),
        // The name is right and unique.
        ("verify_tile_count = 1", "`layout.verify_tile_count`"),
    ] {
        let said = error(file);
        assert!(said.ends_with(&format!("; did you mean {meant}?")), "{said}");
    }
    for file in ["nonsense = 1", "port = 1", "[rpc]\npack = 1", "[nonsense]\nfile = 1\nx = 1"] {
        let said = error(file);
        assert!(said.contains("lists all keys"), "{said}");
        assert!(!said.contains("[consensus]") && !said.contains("`rpc.port`?"), "{said}");
    }
    for list in ["tiles = []", "[[tiles]]", "[[development.bench]]\nconnections = 3"] {
        assert!(error(list).contains("invalid type, expected a table: `["), "{}", error(list));
    }
    for (text, line) in [("\n\n[[x]]\n", 3), ("# mine\n[[ tiles.pak ]] # one\ny = 1\n", 2), ("\n[[tiles]]\n", 2)] {
        assert!(error(text).starts_with(&format!("my.toml:{line}: ")), "{}", error(text));
    }
    let said = error("[rpc]\nport = \"many\"\n");
    assert!(said.starts_with("my.toml:2: `rpc.port`: invalid type: string"), "{said}");
    for (text, expected) in [
        ("[rpc]\nport = 70000\n", "expected a whole number from 0 to 65535"),
        ("[layout]\nnet_tile_count = -1\n", "expected a whole number, 0 or more"),
        ("[ledger]\nsync = 1\n", "expected true or false"),
        ("[ledger]\npath = 1\n", "expected a text in quotes"),
        ("[layout]\naffinity = 1\n", "expected a text in quotes"),
        ("[tiles.shred]\nadditional_shred_destinations = 1\n", "expected a list in brackets"),
        ("tiles = 1\n", "expected a table: `[tiles]`"),
    ] {
        assert!(error(text).ends_with(expected), "{}", error(text));
    }
    let said = error("[tiles.quic]\nlimits = \"none\"\n");
    assert_eq!(said, "my.toml:2: `tiles.quic.limits`: `none` is none of local, production");
    let said = error("name = \"a/b\"\n");
    assert!(said.starts_with("my.toml:1: `name`"), "{said}");
    let said = error("completely_different_thing = 1\n");
    assert!(said.contains("config show --default"), "{said}");
}

#[test]
fn keys_of_a_list_for_a_table_are_checked() {
    let said = error("[[rpc]]\nport = \"many\"\nprot = 1\n");
    let header = "my.toml:1: `rpc`: invalid type, expected a table: `[rpc]`";
    for part in [header, "my.toml:2: `rpc.port`: invalid type", "my.toml:3: unknown key `rpc.prot`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn duplicate_key_names_both_lines_and_the_correction() {
    for (text, expected) in [
        ("[rpc]\nport = 8899\nport = 1\n", "my.toml:3: `rpc.port` is set in line 2 and again in line 3: keep one"),
        (
            "layout.affinity = \"auto\"\n\n[layout]\n# one core\naffinity = \"0*11\"\n",
            "my.toml:3: `layout.affinity` is set in line 1 and again in line 5: keep the one in line 5",
        ),
        (
            "layout.affinity = \"auto\"\n[layout]\nnet_tile_count = 1\n",
            "my.toml:2: `layout.affinity` in line 1 belongs under `[layout]`, line 2: move it there as `affinity`",
        ),
        (
            "[layout]\nnet_tile_count = 1\n[rpc]\nport = 1\n[layout]\naffinity = \"auto\"\n",
            "my.toml:5: `[layout]` begins in line 1 and again in line 5: put its keys under one",
        ),
    ] {
        assert_eq!(error(text), expected);
    }
    let default = Config::annotated_default();
    let above = format!("development.bench.larger_max_cost_per_block = true\n{default}");
    let at = 1 + above.lines().position(|line| line.starts_with("larger_max_cost_per_block = ")).unwrap();
    let expected = format!("is set in line 1 and again in line {at}: keep the one in line {at}");
    assert!(error(&above).ends_with(&expected), "{}", error(&above));
}

#[test]
fn all_mistakes_are_listed_at_once() {
    let text = "name = \"a/b\"\n[layuot]\nnet_tile_count = 1\n[rpc]\nport = \"many\"\nbind_adress = \"::1\"\n\
        [development]\nslots = \"never\"\n[tiles.pack]\nmax_pending_transactions = 0\nschedule_strategy = 7\n";
    let said = error(text);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "7 mistakes:", "{said}");
    let expected = [
        "my.toml:1: `name`: `a/b` must be letters",
        "my.toml:3: unknown key `layuot.net_tile_count`; did you mean `layout.net_tile_count`?",
        "my.toml:5: `rpc.port`: invalid type: string",
        "my.toml:6: unknown key `rpc.bind_adress`; did you mean `rpc.bind_address`?",
        "my.toml:8: `development.slots`: `never` is none of clock, on-demand",
        "my.toml:10: `tiles.pack.max_pending_transactions`: must be from 1",
        "my.toml:11: `tiles.pack.schedule_strategy`: invalid type: integer",
    ];
    assert_eq!(lines.len(), 1 + expected.len(), "{said}");
    for (line, expected) in lines[1..].iter().zip(expected) {
        assert!(line.trim_start().starts_with(expected), "{expected}: {said}");
    }
    // An invalid port counts as no port: nothing conflicts with its default.
    let said = error("[rpc]\nport = true\n[tiles.metric]\nprometheus_listen_port = 8899\n");
    assert!(said.starts_with("my.toml:2: `rpc.port`"), "{said}");
    // A table in place of a value, and a value in place of a table.
    let said = error("tiles = 1\n[rpc.port]\nx = 1\n");
    assert!(said.contains("my.toml:1: `tiles`") && said.contains("`rpc.port.x`"), "{said}");
}

#[test]
fn impossible_genesis_parameters_are_refused() {
    let genesis = |line: &str| error(&format!("[development.genesis]\n{line}\n"));
    for (line, expected) in [
        ("ticks_per_slot = 1", "`development.genesis.ticks_per_slot`: must be from 2 to 255"),
        ("ticks_per_slot = 0", "`development.genesis.ticks_per_slot`: must be from 2 to 255"),
        ("ticks_per_slot = 300", "`development.genesis.ticks_per_slot`: must be from 2 to 255"),
        ("hashes_per_tick = 1", "`development.genesis.hashes_per_tick`: must be 0 for low power, or at least 2"),
        ("hashes_per_tick = 9223372036854775807", "`development.genesis.hashes_per_tick`: must be 0"),
        (
            "target_tick_duration_micros = 10",
            "`development.genesis.target_tick_duration_micros`: 64 of them make a slot",
        ),
        (
            "target_tick_duration_micros = 9223372036854775807",
            "`development.genesis.target_tick_duration_micros`: 64 of",
        ),
    ] {
        let said = genesis(line);
        assert!(said.starts_with(&format!("my.toml:2: {expected}")), "{said}");
    }
}

#[test]
fn a_number_that_would_overflow_is_refused() {
    let said = error("[layout]\npark_after_micros = 60000001\n");
    assert_eq!(said, "my.toml:2: `layout.park_after_micros`: must be at most 60000000, or 0: never");
    assert!(load_str("[layout]\npark_after_micros = 60000000\n", Path::new("x")).is_ok());
}

#[test]
fn two_listeners_on_one_port_are_refused() {
    let said = error("[rpc]\nport = 7998\n");
    let expected = "`tiles.metric.prometheus_listen_port`: 7999 is taken by `rpc.port` (WebSocket is one above it)";
    assert!(said.contains(expected), "{said}");
    let said = error("[tiles.quic]\n\nquic_transaction_listen_port = 9001\n");
    let expected = "my.toml:3: `tiles.quic.quic_transaction_listen_port`: 9001 is taken by";
    assert!(said.starts_with(expected), "{said}");
    assert!(error("[rpc]\nport = 65535\n").starts_with("my.toml:2: `rpc.port`: must be below 65535"));
}

#[test]
fn unreachable_address_is_refused() {
    for wrong in ["::1", "localhost", "", "127.0.0.1:8001"] {
        let said = error(&format!("[gossip]\nbind_address = \"{wrong}\"\n"));
        assert_eq!(said, format!("my.toml:2: `gossip.bind_address`: `{wrong}` is no IPv4 address"));
    }
    let said = error("[gossip]\nenabled = true\nbind_address = \"0.0.0.0\"\n");
    assert!(
        said.ends_with("`0.0.0.0` cannot be advertised: name the address at which other nodes reach this one"),
        "{said}"
    );
    assert!(load_str("[gossip]\nbind_address = \"0.0.0.0\"\n", Path::new("x")).is_ok(), "nothing is advertised");
}

#[test]
fn each_wrong_value_of_a_list_is_named() {
    let said = error("[snapshots]\nknown_validators = [\"a\", \"11111111111111111111111111111111\", \"b\"]\n");
    let mistake = "\n  my.toml:2: `snapshots.known_validators`: ";
    assert_eq!(said, format!("2 mistakes:{mistake}`a` is not an address{mistake}`b` is not an address"));
    for (table, key, value, expected) in [
        ("tiles.shred", "additional_shred_destinations", "here", "`here` is no `ip:port`"),
        ("gossip", "entrypoints", "x", "`x` is not a `host:port`, the host an IPv4 address or a name"),
        ("development.genesis", "validators", "a b 1", "`a` is not an address"),
    ] {
        let said = error(&format!("[{table}]\n{key} = [\"{value}\"]\n"));
        assert_eq!(said, format!("my.toml:2: `{table}.{key}`: {expected}"));
    }
}

#[test]
fn published_bench_file_loads_unchanged() {
    // The keys of a published bench configuration for a 32-core machine.
    let text = r#"
        [ledger]
          path = "/data/shm/{name}/ledger"
        [layout]
          affinity = "14-57,f1"
          agave_affinity = "58-63"
          verify_tile_count = 30
          bank_tile_count = 6
        [development.genesis]
          hashes_per_tick = 12500
          fund_initial_accounts = 32768
        [development.bench]
          benchg_tile_count = 12
          benchs_tile_count = 2
          affinity = "f1,0-13"
          larger_max_cost_per_block = true
          larger_shred_limits_per_block = true
          disable_blockstore = true
        [rpc]
          transaction_history = false
          extended_tx_metadata_storage = false
        [tiles.shred]
          max_pending_shred_sets = 16384
    "#;
    let LoadedConfig { config, notices, .. } = load_str(text, Path::new("bench-zen3-32core.toml")).unwrap();
    assert_eq!(config.layout.verify_tile_count, 30);
    assert_eq!(config.development.bench.disable_blockstore_from_slot, 1);
    assert_eq!(config.expand(&config.ledger.path), Path::new("/data/shm/hearth/ledger"));
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert!(notices.iter().any(|n| n.contains("layout.agave_affinity")));
    // Its number of places equals that of its tiles, on the machine for which it was written.
    let cores = Cores { allowed: (0..64).collect(), siblings: (0..64).map(|core| (core, vec![])).collect() };
    let topology = crate::boot::topology(&config, &cores, true).expect("each tile has its place");
    assert_eq!((topology.count("verify"), topology.count("bank"), topology.count("quic")), (30, 6, 1));
}

#[test]
fn the_older_name_of_an_affinity_is_accepted() {
    let loaded = load_str("[layout]\nsolana_labs_affinity = \"74-79\"\n", Path::new("x")).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.notices.len(), 1);
}

#[test]
fn archive_intervals_must_fit_each_other() {
    let said = error("[snapshots]\nwrite_archives = true\nincremental_snapshot_interval_slots = 1000\n");
    assert!(said.contains("must be less than full_snapshot_interval_slots, 1000, or 0: none"), "{said}");
    let said = error("[snapshots]\nwrite_archives = true\nenabled = false\n");
    assert!(said.contains("needs snapshots.enabled"), "{said}");
    let said = error("[snapshots]\nmaximum_incremental_snapshots_to_retain = 0\n");
    assert!(said.contains("must be at least 1"), "{said}");
    for text in [
        "[snapshots]\nwrite_archives = true\nincremental_snapshot_interval_slots = 0\n",
        "[snapshots]\nwrite_archives = true\nfull_snapshot_interval_slots = 100000\n",
        "[snapshots]\nfull_snapshot_interval_slots = 50\n",
    ] {
        load_str(text, Path::new("my.toml")).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
}
