//! Snapshot archives, written and loaded by Agave's own code.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use agave_snapshots::snapshot_archive_info::{
    FullSnapshotArchiveInfo, IncrementalSnapshotArchiveInfo, SnapshotArchiveInfoGetter,
};
use agave_snapshots::snapshot_config::SnapshotConfig;
use agave_snapshots::{ArchiveFormat, ZstdConfig};
use serde_json::json;
use solana_account::ReadableAccount;
use solana_accounts_db::accounts_db::AccountsDbConfig;
use solana_accounts_db::utils::create_accounts_run_and_snapshot_dirs;
use solana_genesis_config::GenesisConfig;
use solana_runtime::bank::Bank;
use solana_runtime::runtime_config::RuntimeConfig;
use solana_runtime::snapshot_bank_utils::{
    bank_from_snapshot_archives, bank_to_full_snapshot_archive, bank_to_incremental_snapshot_archive,
};

use crate::chain::{Chain, Request};
use crate::record::Recorder;

/// How hard archives for the repository are packed.
const SMALL: i32 = 19;
/// How hard agave-validator packs archives by default.
const VALIDATOR: i32 = 1;

fn config(archives: &Path, work: &Path, compression_level: i32) -> SnapshotConfig {
    SnapshotConfig {
        full_snapshot_archives_dir: archives.to_path_buf(),
        incremental_snapshot_archives_dir: archives.to_path_buf(),
        bank_snapshots_dir: work.to_path_buf(),
        archive_format: ArchiveFormat::TarZstd { config: ZstdConfig { compression_level } },
        ..SnapshotConfig::default()
    }
}

/// Makes a ledger, and writes an archive of the bank at `slot`, and one of the changes up to `incremental`.
pub fn write(request: &Request<'_>, slot: u64, incremental: Option<u64>, out: &Path) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let work = folder.path().join("work");
    std::fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let (run, _) = create_accounts_run_and_snapshot_dirs(folder.path().join("accounts")).map_err(|e| e.to_string())?;
    let mut chain = Chain::new(request, &run);
    chain.genesis.write(out).map_err(|error| error.to_string())?;
    let config = config(out, &work, SMALL);
    let mut results = vec![];
    chain.run(&mut Recorder::silent(), |bank| {
        if bank.slot() == slot {
            let made = bank_to_full_snapshot_archive(&config, bank);
            results.push(made.map(|made| made.path().to_path_buf()));
            describe(bank);
        } else if Some(bank.slot()) == incremental {
            let made = bank_to_incremental_snapshot_archive(&config, bank, slot);
            results.push(made.map(|made| made.path().to_path_buf()));
            describe(bank);
        }
    });
    if results.len() != 1 + usize::from(incremental.is_some()) {
        return Err(format!("slot {slot} or {incremental:?} is skipped; name another one"));
    }
    for result in results {
        println!("{}", result.map_err(|error| error.to_string())?.display());
    }
    Ok(())
}

/// Loads archives, which Agave checks as a validator does at its start.
pub fn verify(genesis: &Path, archive: &Path, incremental: Option<&Path>) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    describe(&load(genesis, archive, incremental, folder.path())?);
    Ok(())
}

/// Loads a full archive and writes it again. Prints how long each takes, and the most memory until then.
pub fn measure(genesis: &Path, archive: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let start = Instant::now();
    let bank = load(genesis, archive, None, folder.path())?;
    let (seconds_loading, bytes_loading) = (start.elapsed().as_secs_f64(), peak_bytes()?);
    let out = folder.path().join("out");
    std::fs::create_dir_all(&out).map_err(|error| error.to_string())?;
    let config = config(&out, &folder.path().join("work"), VALIDATOR);
    let start = Instant::now();
    let written = bank_to_full_snapshot_archive(&config, &bank).map_err(|error| error.to_string())?;
    let seconds_writing = start.elapsed().as_secs_f64();
    let archive = std::fs::metadata(written.path()).map_err(|error| error.to_string())?;
    println!(
        "{}",
        json!({
            "slot": bank.slot(), "bank_hash": bank.hash().to_string(), "seconds_loading": seconds_loading,
            "bytes_loading": bytes_loading, "seconds_writing": seconds_writing, "bytes_writing": peak_bytes()?,
            "bytes_archive": archive.len(),
        })
    );
    Ok(())
}

/// Loads archives with the folders that Agave needs in `folder`.
fn load(genesis: &Path, archive: &Path, incremental: Option<&Path>, folder: &Path) -> Result<Bank, String> {
    let genesis = read_genesis(genesis)?;
    let full = FullSnapshotArchiveInfo::new_from_path(archive.to_path_buf()).map_err(|error| error.to_string())?;
    let incremental = incremental.map(|path| IncrementalSnapshotArchiveInfo::new_from_path(path.to_path_buf()));
    let incremental = incremental.transpose().map_err(|error| error.to_string())?;
    let work = folder.join("work");
    std::fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let (run, _) = create_accounts_run_and_snapshot_dirs(folder.join("accounts")).map_err(|e| e.to_string())?;
    let bank = bank_from_snapshot_archives(
        &[run],
        &full,
        incremental.as_ref(),
        &config(folder, &work, VALIDATOR),
        &genesis,
        &RuntimeConfig::default(),
        None,
        None,
        None,
        false,
        false,
        true,
        AccountsDbConfig::default(),
        None,
        Arc::new(AtomicBool::new(false)),
    );
    bank.map_err(|error| error.to_string())
}

/// Returns the most memory that was resident since the process began, as Linux counts it.
fn peak_bytes() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.map(|kilobytes: u64| kilobytes * 1024).ok_or_else(|| "/proc/self/status has no VmHWM".into())
}

/// Reads a `genesis.bin`, compressed or not.
pub fn read_genesis(path: &Path) -> Result<GenesisConfig, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = std::fs::read(path).map_err(failed)?;
    if path.extension().is_some_and(|extension| extension == "zst") {
        let mut plain = vec![];
        let mut decoder = zstd::Decoder::new(&bytes[..]).map_err(failed)?;
        decoder.read_to_end(&mut plain).map_err(failed)?;
        bytes = plain;
    }
    bincode::deserialize(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

fn describe(bank: &Bank) {
    let mut accounts = 0;
    let counted = bank.scan_all_accounts(|found| {
        accounts += usize::from(found.is_some_and(|(_, account, _)| account.lamports() > 0));
    });
    counted.expect("the bank is not being dropped");
    println!(
        "{}",
        json!({
            "slot": bank.slot(), "bank_hash": bank.hash().to_string(), "height": bank.block_height(),
            "capitalization": bank.capitalization(), "accounts": accounts, "transactions": bank.transaction_count(),
        })
    );
}
