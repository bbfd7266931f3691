//! `hearth ledger snapshot`: shows and verifies the archives of snapshots that the cluster's nodes exchange.
//!
//! reads   one archive, or a full one and an incremental one that builds on it, as streams
//! writes  what they hold; progress on standard error
//! memory  the bank's fields; for `verify` a slot an account, too
//! drops   nothing: the first fault ends it, names the archive, and makes the exit code 1

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hearth_command::numbers::grouped;
use hearth_command::output::{CommandOutput, plural};
use hearth_command::progress::Progress as Shown;
use hearth_command::time::utc;
use hearth_ledger::Account;
use hearth_ledger::archive::{
    AccountReceiver, ArchiveError, ArchiveName, ChainParameters, Contents, Fault, Progress, read_fields, read_state,
};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::{FEATURE_PROGRAM, SYSVAR_CLOCK};

use super::LedgerError;
use crate::restore::archive_progress;

/// `hearth ledger snapshot info`
pub fn info(file: &Path, say: &CommandOutput) -> Result<(), LedgerError> {
    shown(&held(file)?, say);
    Ok(())
}

/// `hearth ledger snapshot verify`
pub fn verify(
    file: &Path,
    incremental: Option<&Path>,
    genesis: Option<&Path>,
    say: &CommandOutput,
) -> Result<(), LedgerError> {
    let beginning = genesis.map(beginning).transpose()?;
    shown(&checked(file, incremental, beginning.as_ref())?, say);
    Ok(())
}

fn shown(lines: &[String], say: &CommandOutput) {
    lines.iter().for_each(|line| say.line(line));
}

fn held(file: &Path) -> Result<Vec<String>, LedgerError> {
    let (name, contents) = read_fields(file, &mut ReadProgress::default())?;
    let kind = name.base.map_or("full".into(), |base| format!("incremental, on top of slot {base}"));
    let mut lines = vec![format!("archive   {kind}")];
    lines.extend(about(&contents));
    let (files, versions) = (contents.fields.storages.len() as u64, contents.accounts);
    let (files, accounts) = (counted(files, "file"), counted(versions, "account"));
    lines.push(format!("contents  {accounts} in {files}, older versions included; `verify` adds them up"));
    Ok(lines)
}

/// Reads the parameters of the chain of this genesis.
fn beginning(genesis: &Path) -> Result<ChainParameters, ArchiveError> {
    let bytes = fs::read(genesis).map_err(Fault::Read);
    bytes.and_then(|bytes| ChainParameters::of_genesis(&bytes)).map_err(|fault| ArchiveError::of(genesis, fault))
}

fn checked(
    file: &Path,
    incremental: Option<&Path>,
    beginning: Option<&ChainParameters>,
) -> Result<Vec<String>, LedgerError> {
    let mut seen = ReadProgress::default();
    let state = read_state(file, incremental, &mut seen)?;
    drop(seen.shown);
    if let Some(beginning) = beginning {
        let of = incremental.unwrap_or(file);
        beginning.check(&state.contents.fields).map_err(|fault| ArchiveError::of(of, fault))?;
    }
    let mut lines = about(&state.contents);
    if let Some(unix_s) = seen.unix_s {
        lines.push(format!("time      {}", utc(unix_s)));
    }
    let active = seen.features.values().filter(|since| since.is_some()).count() as u64;
    let pending = seen.features.len() as u64 - active;
    lines.push(format!("features  {} active, {} pending", grouped(active), grouped(pending)));
    let accounts = counted(state.contents.accounts, "account");
    let old = counted(state.old_versions, "older version");
    lines.push(format!("contents  {accounts}, beside {old}"));
    lines.push("whole: the accounts are those of the bank, the bank is that of its hash and of the name".into());
    Ok(lines)
}

/// Describes a bank by its fields, a line for each.
fn about(contents: &Contents) -> Vec<String> {
    let fields = &contents.fields;
    let (epoch, index) = fields.epoch_schedule.epoch_and_index(fields.slot);
    let slots = fields.epoch_schedule.slots_in_epoch(epoch);
    let block_id = fields.block_id.map_or("unknown".into(), |id| encode_32(&id).to_string());
    let epochs: Vec<String> = fields.epoch_stakes.iter().map(|stakes| stakes.epoch.to_string()).collect();
    let votes = counted(fields.stakes.votes.len() as u64, "vote account");
    let delegations = counted(fields.stakes.delegations.len() as u64, "delegation");
    let forks: Vec<String> = fields.hard_forks.iter().map(|(slot, _)| slot.to_string()).collect();
    let forks = if forks.is_empty() { "none".into() } else { format!("at slots {}", forks.join(", ")) };
    vec![
        format!("bank      slot {}, block {}, hash {}", fields.slot, fields.block_height, encode_32(&fields.hash)),
        format!("parent    slot {}, hash {}", fields.parent_slot, encode_32(&fields.parent_hash)),
        format!("block     by {}, id {block_id}", encode_32(&fields.leader)),
        format!("accounts  hash {}", encode_32(&fields.lattice.checksum())),
        format!("epoch     {epoch}, slot {} of {slots}", index + 1),
        format!("supply    {} lamports", grouped(fields.capitalization)),
        format!("chain     began {}; hard forks {forks}", utc(fields.genesis_creation_time)),
        format!("stakes    {votes}, {delegations}; for the leaders of epochs {}", epochs.join(", ")),
        format!("statuses  of {}", counted(contents.statuses.len() as u64, "slot")),
    ]
}

fn counted(count: u64, thing: &str) -> String {
    format!("{} {}", grouped(count), plural(count, thing))
}

/// Shows how far reading is, and keeps what a reader wants to know of some accounts.
#[derive(Default)]
struct ReadProgress {
    shown: Shown,
    unix_s: Option<i64>,
    /// Feature accounts, with the slot from which each is active.
    features: BTreeMap<Pubkey, Option<u64>>,
}

impl AccountReceiver for ReadProgress {
    fn store(&mut self, key: &Pubkey, account: &Account) {
        if *key == SYSVAR_CLOCK {
            self.unix_s = account.data().get(32..).and_then(|data| data.first_chunk()).map(|s| i64::from_le_bytes(*s));
        }
        // A later version may say that there is no such account any more.
        self.features.remove(key);
        if account.owner == FEATURE_PROGRAM && account.lamports > 0 {
            let data = account.data();
            let since = data.get(1..).and_then(|data| data.first_chunk()).map(|slot| u64::from_le_bytes(*slot));
            self.features.insert(*key, since.filter(|_| data[0] == 1));
        }
    }

    fn progress(&mut self, archive: &ArchiveName, progress: Progress) {
        self.shown.tell(|| archive_progress(archive, progress));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hearth_ledger::archive::{BankFields, Limits, NewArchive, StorageInfo, read_unpacked, stored_size};
    use hearth_ledger::lattice::Lattice;
    use hearth_wire::consts::SYSVAR_SLOT_HISTORY;

    use super::*;

    /// An archive of the bank in the fuzzer's corpus, with accounts of its own.
    fn archive(folder: &Path) -> PathBuf {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/archive/no-accounts");
        let tar = fs::read(corpus).unwrap();
        let limits = Limits::of_packed(tar.len() as u64);
        let read = |hash| read_unpacked(&tar[..], &ArchiveName { base: None, slot: 70, hash }, &limits, &mut ());
        let contents = read(Lattice::default().checksum()).unwrap();
        let feature = |data: &[u8]| Account::with_data(1, FEATURE_PROGRAM, data);
        let clock = [0u64, 1, 2, 3, 1_750_000_000].map(u64::to_le_bytes).concat();
        // Slots 69 and 70 have blocks, the next one is 71.
        let mut history = vec![0u8; 131_097];
        (history[9 + 8], history[131_089]) = (0b0110_0000, 71);
        let accounts = [
            ([1; 32], Account::wallet(4_000_000)),
            ([2; 32], feature(&[1, 7, 0, 0, 0, 0, 0, 0, 0])),
            ([3; 32], feature(&[0; 9])),
            (SYSVAR_CLOCK, Account::with_data(5, [9; 32], &clock)),
            (SYSVAR_SLOT_HISTORY, Account::with_data(1, [9; 32], &history)),
        ];
        let mut fields: BankFields = contents.fields;
        accounts.iter().for_each(|(key, account)| fields.lattice.add(key, account));
        fields.capitalization = accounts.iter().map(|(_, account)| account.lamports).sum();
        fields.hash = fields.computed_hash();
        let len = accounts.iter().map(|(_, account)| stored_size(account.data().len())).sum();
        fields.storages = vec![StorageInfo { slot: 66, id: 1, len }];
        let mut archive = NewArchive::create(folder, None, &fields, &contents.statuses).unwrap();
        accounts.iter().for_each(|(key, account)| archive.account(key, account).unwrap());
        archive.finish().unwrap()
    }

    #[test]
    fn an_archive_is_shown_and_verified() {
        let folder = tempfile::tempdir().unwrap();
        let path = archive(folder.path());
        let shown = held(&path).unwrap().join("\n");
        for part in [
            "archive   full",
            "bank      slot 70, block 65, hash ",
            "epoch     2, slot 7 of 32",
            "supply    4,000,008 lamports",
            "hard forks at slots 20, 70",
            "1 vote account, 1 delegation; for the leaders of epochs 2, 3",
            "statuses  of 2 slots",
            "contents  5 accounts in 1 file,",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let verified = checked(&path, None, None).unwrap().join("\n");
        for part in
            ["time      2025-06-15T15:06:40Z", "features  1 active, 1 pending", "5 accounts, beside 0 older versions"]
        {
            assert!(verified.contains(part), "{part}: {verified}");
        }
        verify(&path, None, None, &CommandOutput::nothing()).unwrap();
        let why = verify(&path, None, Some(&path), &CommandOutput::nothing()).unwrap_err().to_string();
        assert!(why.contains("not a genesis of the cluster"), "{why}");
        let why = checked(&path, Some(&path), None).unwrap_err().to_string();
        assert!(why.contains("in place of an incremental one"), "{why}");
        let schedule = hearth_ledger::epoch::EpochSchedule::without_warmup(32);
        let mut chain = ChainParameters { creation_time: 1_700_000_000, ticks_per_slot: 64, epoch_schedule: schedule };
        checked(&path, None, Some(&chain)).unwrap();
        chain.creation_time += 1;
        let why = checked(&path, None, Some(&chain)).unwrap_err().to_string();
        assert!(why.contains("another chain: the time of its genesis differs"), "{why}");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let why = held(&path).unwrap_err().to_string();
        assert!(why.contains("tar.zst: ") && why.contains("cut off"), "{why}");
    }
}
