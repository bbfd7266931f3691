//! Units that read and write few accounts, on one thread and on several; where a block ends; a panic.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use hearth_testkit::random::Random;

use super::*;

/// What a unit touches, and whether it writes that.
type Accounts = Vec<(AccountHash, bool)>;

/// A block of units on few accounts: many conflict.
fn block(random: &mut Random) -> Vec<Accounts> {
    // At least so many that not all wait for one.
    let accounts = 12 + random.below(28);
    let unit =
        |random: &mut Random| (0..random.below(5)).map(|_| (random.below(accounts), random.below(3) == 0)).collect();
    (0..random.below(200)).map(|_| unit(random)).collect()
}

/// Each account's value after the block: what each unit makes of those that it reads.
fn run(block: &[Accounts], workers: usize, ends_at: Option<usize>) -> (Vec<u64>, Option<usize>, Vec<bool>) {
    let values: Vec<AtomicU64> = (0..40).map(AtomicU64::new).collect();
    let ran: Vec<AtomicU64> = block.iter().map(|_| AtomicU64::new(0)).collect();
    let end = in_order(
        block.len(),
        &mut vec![(); workers],
        |unit, touched| touched.extend(&block[unit]),
        |(), unit| {
            let mut sum = unit as u64;
            for (account, _) in &block[unit] {
                sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(values[*account as usize].load(SeqCst));
                std::thread::yield_now();
            }
            for (account, _) in block[unit].iter().filter(|(_, writes)| *writes) {
                values[*account as usize].store(sum, SeqCst);
            }
            ran[unit].fetch_add(1, SeqCst);
            Some(unit) != ends_at
        },
    );
    let ran = ran.iter().map(|times| times.load(SeqCst));
    let ran = ran.inspect(|times| assert!(*times <= 1)).map(|times| times == 1).collect();
    (values.iter().map(|value| value.load(SeqCst)).collect(), end, ran)
}

#[test]
fn several_threads_come_to_what_one_does() {
    for seed in 1..=300 {
        let mut random = Random(seed);
        let block = block(&mut random);
        let (expected, end, ran) = run(&block, 1, None);
        assert!(end.is_none() && ran.iter().all(|ran| *ran));
        for workers in [2, 3, 8] {
            let (found, end, ran) = run(&block, workers, None);
            assert_eq!(found, expected, "seed {seed}, {workers} workers");
            assert!(end.is_none() && ran.iter().all(|ran| *ran), "seed {seed}, {workers} workers");
        }
    }
}

#[test]
fn where_the_block_ends_all_before_has_run() {
    for seed in 1..=100 {
        let mut random = Random(seed);
        let block = block(&mut random);
        if block.is_empty() {
            continue;
        }
        let ends_at = random.below(block.len() as u64) as usize;
        let (_, end, ran) = run(&block, 4, Some(ends_at));
        assert_eq!(end, Some(ends_at), "seed {seed}");
        assert!(ran[..=ends_at].iter().all(|ran| *ran), "seed {seed}");
    }
}

#[test]
fn who_only_reads_waits_for_nobody_but_the_writer() {
    let mut orders = Orders::default();
    let mut before =
        |unit, touched: &[(AccountHash, bool)]| orders.add(unit, touched).iter().copied().collect::<Vec<_>>();
    assert!(before(0, &[(7, true), (8, false)]).is_empty());
    assert_eq!(before(1, &[(7, false)]), [0]);
    assert_eq!(before(2, &[(7, false), (8, false)]), [0]);
    assert_eq!(before(3, &[(7, true), (7, false)]), [0, 1, 2]);
    assert_eq!(before(4, &[(8, true)]), [0, 2]);
    assert_eq!(before(5, &[(7, true)]), [3]);
}

#[test]
#[should_panic(expected = "scoped thread panicked")]
fn a_panic_of_one_thread_is_everybodys() {
    let (caller, begun) = (std::thread::current().id(), AtomicBool::new(false));
    in_order(
        2,
        &mut [(), ()],
        |_, _| {},
        |(), _| {
            if std::thread::current().id() != caller {
                begun.store(true, SeqCst);
                panic!("one thread's unit");
            }
            // The other unit is the other thread's.
            while !begun.load(SeqCst) {
                std::thread::yield_now();
            }
            true
        },
    );
}

#[test]
fn where_all_wait_for_one_a_single_thread_does_it() {
    let caller = std::thread::current().id();
    for (chain, is_alone) in [(1, true), (100, false)] {
        let others = AtomicBool::new(false);
        let accounts = |unit: usize, touched: &mut Vec<_>| touched.push((unit as u64 % chain, true));
        let run = |(): &mut (), _: usize| {
            others.fetch_or(std::thread::current().id() != caller, SeqCst);
            // There is enough for the other thread too.
            while !is_alone && !others.load(SeqCst) {
                std::thread::yield_now();
            }
            true
        };
        assert_eq!(in_order(200, &mut [(), ()], accounts, run), None);
        assert_eq!(!others.load(SeqCst), is_alone, "chains of {}", 200 / chain);
    }
}
