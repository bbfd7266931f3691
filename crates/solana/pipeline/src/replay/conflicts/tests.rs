//! Random blocks on few accounts: batches completed in any order have the result of the block's order.

use hearth_testkit::random::Random;

use super::*;

type TouchedAccounts = Vec<(AccountHash, bool)>;

fn block(random: &mut Random) -> Vec<TouchedAccounts> {
    let accounts = 2 + random.below(28);
    let txn =
        |random: &mut Random| (0..random.below(5)).map(|_| (random.below(accounts), random.below(3) == 0)).collect();
    (0..random.below(200)).map(|_| txn(random)).collect()
}

/// Applies a transaction's effect to the accounts that it touches.
fn apply(values: &mut [u64], txn: usize, touched: &TouchedAccounts) {
    let sum = touched.iter().fold(txn as u64, |sum, (account, _)| {
        sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(values[*account as usize])
    });
    touched.iter().filter(|(_, writes)| *writes).for_each(|(account, _)| values[*account as usize] = sum);
}

/// Runs a block with up to `flights` batches at once, each applied when it finishes: a batch issued too early, or next
/// to a conflicting one, would see other values than in order.
fn run(block: &[TouchedAccounts], flights: usize, random: &mut Random) -> Vec<u64> {
    let mut values: Vec<u64> = (0..30).collect();
    let (mut conflicts, mut running) = (Conflicts::default(), vec![]);
    let mut added = 0;
    while added < block.len() || conflicts.has(NONE) || !running.is_empty() {
        match random.below(3) {
            0 if added < block.len() => {
                conflicts.add(&block[added]);
                added += 1;
            }
            1 if running.len() < flights => {
                let batch = conflicts.take(1 + random.below(8) as usize, NONE, |_| true);
                assert!(batch.is_sorted());
                if !batch.is_empty() {
                    running.push(batch);
                }
            }
            _ if !running.is_empty() => {
                let batch = running.swap_remove(random.index(running.len()));
                batch.iter().for_each(|txn| apply(&mut values, *txn as usize, &block[*txn as usize]));
                conflicts.finish(&batch);
            }
            _ => {}
        }
    }
    assert_eq!(conflicts.len(), block.len());
    values
}

#[test]
fn any_order_of_completion_comes_to_the_blocks_order() {
    for seed in 1..=500 {
        let mut random = Random(seed);
        let block = block(&mut random);
        let mut expected: Vec<u64> = (0..30).collect();
        block.iter().enumerate().for_each(|(txn, touched)| apply(&mut expected, txn, touched));
        for flights in [1, 2, 5] {
            assert_eq!(run(&block, flights, &mut random), expected, "seed {seed}, {flights} at once");
        }
    }
}

fn of(block: &[&[(AccountHash, bool)]]) -> Conflicts {
    let mut conflicts = Conflicts::default();
    block.iter().for_each(|touched| conflicts.add(touched));
    conflicts
}

#[test]
fn a_chain_is_one_batch_and_keeps_to_itself() {
    let (hot, other) = ((1, true), (2, true));
    let mut conflicts = of(&[&[hot], &[hot], &[other], &[hot]]);
    assert_eq!(conflicts.take(2, NONE, |_| true), [0, 1]);
    assert_eq!(conflicts.take(64, NONE, |_| true), [2], "the last waits for the batch that runs");
    assert!(conflicts.take(64, NONE, |_| true).is_empty());
    conflicts.finish(&[0, 1]);
    assert_eq!(conflicts.take(64, NONE, |_| true), [3]);
}

#[test]
fn readers_run_beside_each_other_and_a_writer_after_them() {
    let mut conflicts = of(&[&[(1, false)], &[(1, false)], &[(1, true)], &[(1, false)]]);
    assert_eq!(conflicts.take(1, NONE, |_| true), [0]);
    assert_eq!(conflicts.take(64, NONE, |_| true), [1]);
    conflicts.finish(&[1]);
    assert!(conflicts.take(64, NONE, |_| true).is_empty());
    conflicts.finish(&[0]);
    assert_eq!(conflicts.take(64, NONE, |_| true), [2, 3]);
}

#[test]
fn nothing_is_taken_behind_the_end() {
    let mut conflicts = of(&[&[(1, true)], &[(2, true)], &[(3, true)]]);
    assert_eq!(conflicts.take(64, 2, |_| true), [0, 1]);
    assert!(conflicts.take(64, 2, |_| true).is_empty());
}
