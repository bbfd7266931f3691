//! Measures an epoch boundary with many stake accounts, and the blocks that pay their rewards.
//!
//! reads   `HEARTH_STAKES`, the number of stake accounts (default 100,000)
//! writes  two lines: the median of the boundary and of a paying block, with p5 and p95, in milliseconds
//! memory  about 1 KB per stake account
//! source  floor: a boundary with 100,000 stake accounts takes less than 0.5 s
//!
//! cargo bench -p hearth-ledger --bench epoch

use std::sync::Arc;
use std::time::Instant;

use hearth_ledger::stakes::new_stake_account;
use hearth_ledger::vote_state::new_vote_state;
use hearth_ledger::{Account, Forks, Genesis, GenesisConfig, Ledger, LedgerConfig};
use hearth_testkit::bench::Stats;
use hearth_testkit::random::Random;
use hearth_wire::Pubkey;
use hearth_wire::consts::VOTE_PROGRAM;

const VOTES: u64 = 1_000;
const SLOTS: u64 = 1_000;
const ROUNDS: usize = 15;
const LAMPORTS: u64 = 10_000_000_000;
const GOAL_MS: f64 = 500.0;
/// Offset of the credits in a new vote account, and the number of epochs that have some.
const CREDITS_AT: usize = 250;
const EPOCHS: u64 = 5;

fn vote(n: u64) -> Pubkey {
    Random(n).key()
}

/// A vote account that takes 5 %, with credits of the last epochs.
fn vote_account(n: u64) -> (Pubkey, Account) {
    let mut data = new_vote_state(&vote(n), &[1; 32]);
    data[132..134].copy_from_slice(&500u16.to_le_bytes());
    let credits = (0..EPOCHS).flat_map(|epoch| [epoch, 100 * (epoch + 1), 100 * epoch]);
    let words: Vec<u8> = std::iter::once(EPOCHS).chain(credits).flat_map(u64::to_le_bytes).collect();
    data[CREDITS_AT..CREDITS_AT + words.len()].copy_from_slice(&words);
    (vote(n), Account::with_data(LAMPORTS, VOTE_PROGRAM, &data))
}

/// A chain in which the last slot of epoch 0 has ended.
fn ledger(stakes: u64) -> Arc<Ledger> {
    let stake = |n: u64| (Random(n ^ 1 << 60).key(), new_stake_account(LAMPORTS + n, &vote(n % VOTES), &[7; 32]));
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        slots_per_epoch: SLOTS,
        inflation: Default::default(),
        extra_accounts: (0..VOTES).map(vote_account).chain((0..stakes).map(stake)).collect(),
        ..GenesisConfig::development([1; 32], [2; 32], 0)
    };
    let genesis = Genesis::create(config, |_| {}).expect("a chain");
    let forks = Some(Forks::default());
    let ledger = Ledger::new(&genesis, LedgerConfig { forks, ..LedgerConfig::default() });
    ledger.begin_slot(SLOTS - 1, 0).expect("the last slot of the epoch");
    ledger.end_slot(SLOTS - 1, [3; 32]).expect("it ends");
    ledger.hash_all();
    ledger
}

fn print(name: &str, samples: &mut [f64], goal: Option<f64>) {
    let Stats { p5, median, p95 } = Stats::of(samples);
    let verdict = goal.map_or(String::new(), |goal| {
        format!("   floor ≤ {goal:.0} ms {}", if median <= goal { "met" } else { "MISSED" })
    });
    println!("{name:<44} {median:>11.1} ms  [{p5:.1} – {p95:.1}]{verdict}");
}

fn main() {
    let stakes = std::env::var("HEARTH_STAKES").map_or(100_000, |text| text.parse().expect("a number of stakes"));
    let ledger = ledger(stakes);
    let (mut boundaries, mut payments) = (vec![], vec![]);
    let begin = |slot: u64| {
        let start = Instant::now();
        ledger.begin_slot(slot, slot - 1).expect("the next slot");
        start.elapsed().as_secs_f64() * 1e3
    };
    let end = |slot: u64| {
        ledger.end_slot(slot, [slot as u8; 32]).expect("it ends");
        ledger.hash_all();
    };
    for _ in 0..ROUNDS {
        boundaries.push(begin(SLOTS));
        end(SLOTS);
        payments.push(begin(SLOTS + 1));
        end(SLOTS + 1);
        ledger.rewind(SLOTS - 1).expect("blocks above the root are kept");
    }
    print(&format!("epoch: boundary, {stakes} stakes"), &mut boundaries, Some(GOAL_MS));
    print("epoch: a block that pays stakes", &mut payments, None);
}
