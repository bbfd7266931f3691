//! How long the state takes to open from its folder, after an end in disorder and after an orderly one.
//!
//! reads   a number of accounts from the command line (1,000,000); `--blocks N` (1,000)
//! writes  seconds of a start from checkpoint and log, of writing the state as a whole at the end, and of a start then;
//!         the bytes in the folder
//! memory  the state, some 250 B an account and what 128 blocks replaced
//!
//! Each block sets the balances of 2,000 accounts drawn from all.
//!
//! cargo bench -p hearth-evm --bench start [-- 1000000 --blocks 1000]

use std::path::Path;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, U256, keccak256};
use hearth_evm::genesis::Genesis;
use hearth_evm::state::{Account, AccountChange, Changes, Entry, FinalCheckpoint, State};
use hearth_testkit::random::Random;
use revm::state::AccountInfo;

const CHANGES: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(600);

fn address(number: u64) -> Address {
    Address::from_slice(&keccak256(number.to_le_bytes())[..20])
}

fn block(number: u64, accounts: usize, random: &mut Random) -> Changes {
    let mut changes = Changes::default();
    for at in 0..CHANGES as u64 {
        let balance = U256::from(number * 10_000 + at + 1);
        let info = Some(AccountInfo { balance, ..AccountInfo::default() });
        let change = AccountChange { info, ..AccountChange::default() };
        changes.accounts.insert(address(random.index(accounts) as u64), change);
    }
    changes
}

/// The state of a folder, and how many seconds it took to open.
fn open(dir: &Path, genesis: &Genesis) -> (State, f64) {
    let began = Instant::now();
    let state = State::open(Some(dir), genesis).expect("it opens");
    (state, began.elapsed().as_secs_f64())
}

fn mebibytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a folder").map(|file| file.expect("listed"));
    files.map(|file| file.metadata().expect("known").len()).sum::<u64>() >> 20
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (mut accounts, mut blocks) = (1_000_000_usize, 1_000_u64);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--blocks" => blocks = args.next().and_then(|count| count.parse().ok()).expect("--blocks N"),
            _ => accounts = arg.replace('_', "").parse().expect("a number of accounts"),
        }
    }
    let (folder, genesis) = (tempfile::tempdir().expect("a folder"), Genesis::dev(31337, &[], 500_000_000));
    let (dir, mut random) = (folder.path().join("state"), Random(7));
    let account = Account { balance: U256::from(1), ..Account::default() };
    let entries = (0..accounts as u64).map(|number| Ok(Entry::Account { address: address(number), account }));
    let mut state = State::load(Some(&dir), &genesis, 0, &[], entries).expect("a state");
    for number in 1..=blocks {
        let changes = block(number, accounts, &mut random);
        state.commit(number, keccak256(number.to_le_bytes()), changes).expect("it follows");
    }
    state.sync().expect("the disk works");
    let root = state.head().state_root();
    drop(state);
    println!("{accounts} accounts, {blocks} blocks of {CHANGES} changes");
    let (mut state, before) = open(&dir, &genesis);
    println!("  a start, log of all blocks          {before:>8.2} s   {:>5} MiB", mebibytes(&dir));
    let began = Instant::now();
    let shortened = state.shorten(PATIENCE).expect("the disk works");
    println!("  writing it whole at the end         {:>8.2} s   {shortened:?}", began.elapsed().as_secs_f64());
    drop(state);
    let (state, after) = open(&dir, &genesis);
    println!("  a start, log of the last 128 blocks {after:>8.2} s   {:>5} MiB", mebibytes(&dir));
    assert_eq!(state.head().state_root(), root);
    assert!(shortened != FinalCheckpoint::Written || state.at(blocks.saturating_sub(127)).is_some(), "no view is lost");
}
