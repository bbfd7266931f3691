//! States that are closed, killed, cut and damaged, and opened again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use hearth_wal::faulty::Faulty;
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;

use super::super::rebuild::{self, AllAccounts};
use super::super::{AccountChange, Changes, FinalCheckpoint, State, StateError, StateFile, WINDOW};
use crate::genesis::Genesis;

fn genesis() -> Genesis {
    Genesis::dev(31337, &[(Address::repeat_byte(7), U256::from(1_000))], 30_000_000)
}

fn hash_of(number: u64) -> B256 {
    keccak256(number.to_be_bytes())
}

/// A block that sets, adds code, stores and takes away.
fn changes_of(number: u64) -> Changes {
    let mut changes = Changes::default();
    let who = |n: u64| Address::left_padding_from(&(n + 1).to_be_bytes());
    let info = AccountInfo { balance: U256::from(number * 3 + 1), nonce: number, ..Default::default() };
    let change = AccountChange { info: Some(info.clone()), ..Default::default() };
    changes.accounts.insert(who(number % 5), change);
    let code = Bytecode::new_raw(Bytes::from(vec![0x60, number as u8, 0x50]));
    let storage = (0..number % 4).map(|slot| (U256::from(slot), U256::from(number % 3 * (slot + 1)))).collect();
    let contract = AccountChange { info: Some(info.with_code(code)), storage, ..Default::default() };
    changes.accounts.insert(who(10 + number % 3), contract);
    if number % 7 == 6 {
        let gone = AccountChange { info: None, storage_cleared: true, ..Default::default() };
        changes.accounts.insert(who(10 + (number + 1) % 3), gone);
    }
    changes
}

fn commit(state: &mut State, number: u64) {
    state.commit(number, hash_of(number), changes_of(number)).expect("it follows");
}

fn everything(state: &State) -> AllAccounts {
    let all = rebuild::everything(&state.head());
    assert_eq!(rebuild::root(&all), state.head().state_root());
    all
}

/// Creates a directory with the state after this many blocks, synced or not; returns the ends of its log's records.
fn written(blocks: u64, sync: bool) -> (tempfile::TempDir, PathBuf, Vec<u64>) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut state = State::open(Some(dir.path()), &genesis()).expect("new");
    let log = dir.path().join(format!("{:020}.log", 0));
    let len = |log: &Path| std::fs::metadata(log).expect("the log is there").len();
    let mut ends = vec![len(&log)];
    for number in 1..=blocks {
        commit(&mut state, number);
        if sync {
            state.sync().expect("the disk works");
        }
        ends.push(len(&log));
    }
    (dir, log, ends)
}

fn open(dir: &Path) -> Result<State, StateError> {
    State::open(Some(dir), &genesis())
}

/// Returns the expected state after this many blocks.
fn model(blocks: u64) -> State {
    let mut state = State::open(None, &genesis()).expect("in memory");
    (1..=blocks).for_each(|number| commit(&mut state, number));
    state
}

#[test]
fn a_state_closed_and_opened_is_the_same_with_its_window_and_can_go_back() {
    let (dir, ..) = written(20, false);
    let mut state = open(dir.path()).expect("whole");
    for number in 0..=20 {
        let (view, model) = (state.at(number).expect("kept"), model(number));
        assert_eq!(view.state_root(), model.head().state_root());
        assert_eq!(rebuild::everything(&view), everything(&model));
    }
    assert_eq!(state.head().hash_of(20), Some(hash_of(20)));
    state.rewind(15).expect("kept");
    commit(&mut state, 16);
    drop(state);
    let mut state = open(dir.path()).expect("whole");
    assert_eq!(everything(&state), everything(&model(16)));
    assert_eq!(state.head().version.hashes().to_vec(), model(16).head().version.hashes().to_vec());
    commit(&mut state, 17);
    assert_eq!(everything(&state), everything(&model(17)));
    assert!(matches!(open(dir.path()), Err(StateError::InUse(_))));
}

#[test]
fn truncated_log_opens_at_the_last_whole_block() {
    let (dir, log, ends) = written(6, true);
    let bytes = std::fs::read(&log).expect("the log is there");
    let roots: Vec<B256> = (0..=7).map(|number| model(number).head().state_root()).collect();
    for (number, pair) in ends.windows(2).enumerate() {
        let (from, to) = (pair[0], pair[1]);
        for cut in [from, from + 1, from + 4, from + 8, from + 11, from + 12, from + 13, (from + to) / 2, to - 1] {
            for rubbish in [0, 700] {
                let mut some = bytes[..cut as usize].to_vec();
                // A power failure may leave a longer file with other bytes at its end.
                some.resize(some.len() + rubbish, 0xa5);
                std::fs::write(&log, some).expect("written");
                let mut state = open(dir.path()).expect("a cut is no damage");
                assert_eq!(state.head().number(), number as u64, "cut at {cut}");
                assert_eq!(state.head().state_root(), roots[number]);
                commit(&mut state, number as u64 + 1);
                drop(state);
                let state = open(dir.path()).expect("whole again");
                assert_eq!(state.head().state_root(), roots[number + 1]);
            }
        }
    }
}

#[test]
fn a_damaged_record_is_named_and_refused_if_it_was_synced_and_cut_off_if_not() {
    let (dir, log, ends) = written(6, true);
    let bytes = std::fs::read(&log).expect("the log is there");
    for (at, what) in [(ends[2] + 1, "no record"), (ends[2] + 5, "bytes"), (ends[3] - 2, "checksum")] {
        let mut some = bytes.clone();
        some[at as usize] ^= 0x40;
        std::fs::write(&log, &some).expect("written");
        match open(dir.path()).err() {
            Some(StateError::Damaged { path, offset, what: found }) => {
                assert_eq!((path, offset), (log.clone(), ends[2]));
                assert!(found.contains(what), "{found}");
            }
            other => panic!("it was opened, or refused otherwise: {other:?}"),
        }
        assert_eq!(std::fs::read(&log).expect("the log is there"), some, "nothing is changed");
    }
    let (dir, log, ends) = written(6, false);
    let mut some = std::fs::read(&log).expect("the log is there");
    some[ends[3] as usize - 2] ^= 0x40;
    std::fs::write(&log, some).expect("written");
    assert_eq!(open(dir.path()).expect("never synced").head().number(), 2);
}

#[test]
fn a_damaged_header_and_another_chain_are_refused() {
    let (dir, log, _) = written(2, true);
    let other = Genesis::dev(5, &[(Address::ZERO, U256::from(1))], 30_000_000);
    assert!(matches!(State::open(Some(dir.path()), &other), Err(StateError::OtherChain { .. })));
    let bytes = std::fs::read(&log).expect("the log is there");
    for at in [0, 20, 45, 50] {
        let mut some = bytes.clone();
        some[at] ^= 1;
        std::fs::write(&log, some).expect("written");
        assert!(matches!(open(dir.path()), Err(StateError::Damaged { offset: 0, .. })), "byte {at}");
    }
    std::fs::write(&log, &bytes).expect("written");
    std::fs::rename(&log, dir.path().join(format!("{:020}.log", 9))).expect("renamed");
    assert!(matches!(open(dir.path()), Err(StateError::Damaged { .. })), "records are missing");
}

#[test]
fn checkpoints_shorten_the_log_and_keep_the_window() {
    let (dir, ..) = written(5, false);
    let mut state = open(dir.path()).expect("whole");
    state.checkpoint().expect("written");
    let files = |ending: &str| {
        let all = std::fs::read_dir(dir.path()).expect("listed").map(|entry| entry.expect("listed").path());
        let mut all: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|e| e == ending)).collect();
        all.sort();
        all
    };
    assert_eq!((files("checkpoint").len(), files("log").len()), (1, 2));
    commit(&mut state, 6);
    drop(state);
    // The first log is needed until the window rests on the checkpoint; but it can do without.
    let mut state = open(dir.path()).expect("whole");
    assert_eq!(everything(&state), everything(&model(6)));
    (7..=6 + WINDOW as u64).for_each(|number| commit(&mut state, number));
    assert_eq!((files("checkpoint").len(), files("log").len()), (1, 1), "what is before the checkpoint is gone");
    // A second checkpoint beside an old one; unfinished files of a killed process do not count.
    state.checkpoint().expect("written");
    let last = 7 + WINDOW as u64;
    commit(&mut state, last);
    drop(state);
    std::fs::write(files("checkpoint")[1].with_extension("unfinished"), b"half").expect("written");
    let state = open(dir.path()).expect("whole");
    assert_eq!(everything(&state), everything(&model(last)));
    assert!(state.at(last - 100).is_some(), "the window is there again");
    assert!(files("unfinished").is_empty());
    drop(state);
    let oldest = &files("checkpoint")[0];
    let mut bytes = std::fs::read(oldest).expect("the checkpoint is there");
    let at = bytes.len() - 60;
    bytes[at] ^= 1;
    std::fs::write(oldest, &bytes).expect("written");
    match open(dir.path()).err() {
        Some(StateError::Damaged { path, .. }) => assert_eq!(path, *oldest),
        other => panic!("it was opened, or refused otherwise: {other:?}"),
    }
}

#[test]
fn orderly_end_skips_records_before_the_window() {
    let last = WINDOW as u64 + 40;
    let (dir, ..) = written(last, false);
    let mut state = open(dir.path()).expect("whole");
    let first = last + 1 - WINDOW as u64;
    let views = |state: &State, from: u64| {
        let view = |number| {
            let view = state.at(number).expect("it is in the window");
            (view.state_root(), view.hash_of(number - 1), view.sorted().collect::<Vec<_>>())
        };
        (from..=last).map(view).collect::<Vec<_>>()
    };
    let before = views(&state, first);
    assert_eq!(state.shorten(std::time::Duration::from_secs(60)).expect("written"), FinalCheckpoint::Written);
    assert_eq!(state.shorten(std::time::Duration::from_secs(60)).expect("written"), FinalCheckpoint::Needless);
    assert!(dir.path().join(format!("{first:020}.checkpoint")).exists());
    assert_eq!(views(&state, first), before);
    commit(&mut state, last + 1);
    drop(state);
    let mut state = open(dir.path()).expect("whole");
    assert_eq!(views(&state, first + 1)[..], before[1..]);
    assert_eq!(everything(&state), everything(&model(last + 1)));
    // Without any time the log stays unchanged.
    (last + 2..last + 50).for_each(|number| commit(&mut state, number));
    let said = state.shorten(std::time::Duration::ZERO).expect("no error");
    assert!(matches!(said, FinalCheckpoint::TooLong | FinalCheckpoint::Written), "{said:?}");
    state.rewind(last).expect("in the window");
    commit(&mut state, last + 1);
    state.shorten(std::time::Duration::from_secs(60)).expect("written or needless");
    drop(state);
    assert_eq!(everything(&open(dir.path()).expect("whole")), everything(&model(last + 1)));
}

#[test]
fn failed_sync_is_the_last() {
    let (dir, log, _) = written(3, true);
    let mut state = open(dir.path()).expect("whole");
    let file = std::fs::File::options().write(true).open(&log).expect("the log is there");
    let disk = Arc::new(Faulty::new(file));
    state.put_disk(disk.clone());
    commit(&mut state, 4);
    disk.faults().refuse_syncs(true);
    assert!(state.sync().is_err());
    disk.faults().refuse_syncs(false);
    assert!(state.sync().is_err(), "the disk would sync what came later alone");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let (dir, log, _) = written(3, true);
    let mut state = open(dir.path()).expect("whole");
    let file = std::fs::File::options().write(true).open(&log).expect("the log is there");
    let disk = Arc::new(Faulty::new(file));
    disk.faults().leave(150);
    state.put_disk(disk.clone());
    let before = everything(&state);
    for _ in 0..2 {
        let root = state.root_after(&changes_of(4));
        assert_eq!(root, model(4).head().state_root());
        let refused = state.commit(4, hash_of(4), changes_of(4));
        assert!(matches!(refused, Err(StateError::Io { what: "cannot write", .. })));
        assert_eq!((state.head().number(), &everything(&state)), (3, &before));
    }
    disk.faults().leave(1 << 20);
    commit(&mut state, 4);
    drop(state);
    assert_eq!(everything(&open(dir.path()).expect("whole")), everything(&model(4)));
}

#[test]
fn a_saved_state_can_be_another_chains_beginning() {
    let (dir, from) = (tempfile::tempdir().expect("a directory"), model(40));
    let path = dir.path().join("saved");
    from.head().save(&path).expect("written");
    let file = StateFile::open(&path).expect("whole");
    assert_eq!((file.number(), file.state_root()), (40, from.head().state_root()));
    let hashes = file.hashes().to_vec();
    let at = dir.path().join("chain");
    let mut state = State::load(Some(&at), &genesis(), 40, &hashes, file).expect("a state");
    assert_eq!(everything(&state), everything(&from));
    commit(&mut state, 41);
    drop(state);
    let state = open(&at).expect("whole");
    assert_eq!(everything(&state), everything(&model(41)));
    drop(state);
    let file = StateFile::open(&path).expect("whole");
    assert!(matches!(State::load(Some(&at), &genesis(), 40, &hashes, file), Err(StateError::NotEmpty(_))));
    let zero = State::load(None, &genesis(), 0, &[], from.head().dump().map(Ok)).expect("a state");
    assert_eq!(zero.head().block_hash(), genesis().block_zero(from.head().state_root()).hash());
    std::fs::write(&path, b"no state at all, but long enough").expect("written");
    assert!(matches!(StateFile::open(&path), Err(StateError::Damaged { .. })));
}

#[test]
fn a_checkpoint_is_of_one_block_while_others_come() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut state = model(30);
    let (view, path) = (state.head(), dir.path().join("saved"));
    let saving = std::thread::spawn(move || (0..5).try_for_each(|_| view.save(&path)).map(|()| path));
    let mut number = 30;
    while !saving.is_finished() || number < 60 {
        number += 1;
        commit(&mut state, number);
    }
    let path = saving.join().expect("it went well").expect("written");
    let file = StateFile::open(&path).expect("whole");
    let loaded = State::load(None, &genesis(), 30, &file.hashes().to_vec(), file).expect("a state");
    assert_eq!(everything(&loaded), everything(&model(30)));
}
