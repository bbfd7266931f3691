//! What the options make.

use std::path::Path;

use clap::Parser;
use hearth_ledger::genesis::{ARCHIVE_NAME, CHAIN_NAME, ClusterType, GENESIS_BYTES_MAX, Inflation, unpack};
use hearth_ledger::stakes::stakes_at_genesis;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::FEATURE_PROGRAM;

use super::*;

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

fn key(n: u8) -> String {
    encode_32(&[n; 32]).to_string()
}

/// Runs `hearth genesis create` in a folder with one node and these options beside.
fn create(folder: &Path, options: &[&str]) -> Result<Genesis, GenesisFailure> {
    let (ledger, keys) = (folder.display().to_string(), [1, 2, 3].map(key));
    let mut words = vec!["hearth", "create", "--ledger", &ledger, "--bootstrap-validator"];
    words.extend(keys.iter().map(String::as_str));
    words.extend(["--creation-time", "2023-11-14T22:13:20Z"]);
    words.extend(options);
    run(&Program::try_parse_from(words).expect("a command line").command, &CommandOutput::nothing())?;
    Ok(Genesis::load(&folder.join(GENESIS_NAME)).expect("it was written"))
}

#[test]
fn a_genesis_is_as_the_options_say() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("new/ledger");
    let faucet = key(9);
    let genesis = create(
        &ledger,
        &[
            "--hashes-per-tick",
            "1000",
            "--ticks-per-slot",
            "32",
            "--target-tick-duration",
            "5000",
            "--slots-per-epoch",
            "128",
            "--enable-warmup-epochs",
            "--inflation",
            "pico",
            "--cluster-type",
            "devnet",
            "--faucet-pubkey",
            &faucet,
            "--faucet-lamports",
            "5000000000",
            "--target-lamports-per-signature",
            "20000",
            "--fee-burn-percentage",
            "25",
            "--bootstrap-validator-stake-lamports",
            "3000000000",
        ],
    )
    .unwrap();
    let config = genesis.config();
    assert_eq!((config.hashes_per_tick, config.ticks_per_slot, config.slot_ms), (Some(1_000), 32, 160));
    assert_eq!((config.slots_per_epoch, config.warmup_epochs, config.creation_time), (128, true, 1_700_000_000));
    assert_eq!((config.inflation, config.cluster_type), (Inflation::pico(), ClusterType::Devnet));
    let prices = &config.fee_rate_governor;
    assert_eq!((prices.target_lamports_per_signature, prices.burn_percent), (20_000, 25));
    assert_eq!((prices.min_lamports_per_signature, prices.max_lamports_per_signature), (10_000, 200_000));
    let stakes: Vec<_> = stakes_at_genesis(&genesis).into_iter().collect();
    assert_eq!(stakes, [([1; 32], 3_000_000_000 - 2_282_880)]);
    let accounts = genesis.accounts();
    let lamports = |n: u8| accounts.iter().find(|(key, _)| *key == [n; 32]).map(|(_, account)| account.lamports);
    assert_eq!((lamports(9), lamports(1)), (Some(5_000_000_000), Some(500_000_000_000)));
    // A node that joins finds it in the archive; nothing is known beside it.
    let archive = std::fs::File::open(ledger.join(ARCHIVE_NAME)).unwrap();
    let bytes = std::fs::read(ledger.join(GENESIS_NAME)).unwrap();
    assert_eq!(unpack(archive, GENESIS_BYTES_MAX), Ok(bytes));
    assert!(!ledger.join(CHAIN_NAME).exists());
    // The same options make the same file, and another is not overwritten.
    let again = create(&ledger, &[]).unwrap_err();
    assert!(matches!(again, GenesisFailure::Exists { .. }) && again.exit_code() == FAILED, "{again}");
}

#[test]
fn every_feature_is_active_but_those_left_out() {
    let features = |options: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let genesis = create(folder.path(), &[&["--hashes-per-tick", "sleep"][..], options].concat()).unwrap();
        let accounts = genesis.accounts().into_iter().filter(|(_, account)| account.owner == FEATURE_PROGRAM);
        accounts.map(|(key, _)| encode_32(&key).to_string()).collect::<Vec<String>>()
    };
    let all = features(&[]);
    assert_eq!(all.len(), hearth_ledger::features::supported().count());
    let less = features(&["--deactivate-feature", &all[3]]);
    assert_eq!(less.len(), all.len() - 1);
    assert!(!less.contains(&all[3]));
}

#[test]
fn impossible_values_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (one, loader) = (key(1), key(5));
    for (options, part) in [
        (
            &["--bootstrap-validator", &one, "11111111111111111111111111111112", "11111111111111111111111111111113"][..],
            "named twice",
        ),
        (&["--hashes-per-tick", "many"], "--hashes-per-tick: `many`"),
        (&["--hashes-per-tick", "1"], "hashes_per_tick is 1"),
        (&["--deactivate-feature", &one], "is not a feature of this release"),
        (&["--lamports-per-byte", "1"], "--lamports-per-byte: the rent comes to 1 lamport"),
        (&["--bootstrap-validator-stake-lamports", "5"], "a stake of 5 lamports is below"),
        (&["--primordial-accounts-file", "/nonexistent"], "--primordial-accounts-file: cannot read /nonexistent"),
        (&["--target-lamports-per-signature", "99999999999"], "at most 1,000,000,000"),
        (&["--upgradeable-program", &one, &loader, "x.so", "none"], "is not the loader of such programs"),
        (&["--bpf-program", &one, &loader, "/nonexistent.so"], "--bpf-program: cannot read /nonexistent.so"),
    ] {
        let sleeps: &[&str] = if options[0] == "--hashes-per-tick" { &[] } else { &["--hashes-per-tick", "sleep"] };
        let error = create(folder.path(), &[options, sleeps].concat()).unwrap_err();
        assert!(error.to_string().contains(part), "{part}: {error}");
        assert_eq!(error.exit_code(), WRONG_USE, "{error}");
        assert!(!folder.path().join(GENESIS_NAME).exists());
    }
}
