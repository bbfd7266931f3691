//! What Agave makes of a block that breaks a rule, this program makes of it too.
//!
//! reads   `agave.tsv`: the verdicts of Agave 4.2.2 on [`blocks`], which `oracle/blocks` records

mod blocks;

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_ledger::{Account, BlockLimits, Ledger, builders, rent};
use hearth_pipeline::exec::WorkerConfig;
use hearth_pipeline::replay::{Job, Pool, Rules};
use hearth_wire::ParseErrorKind;
use hearth_wire::entry::{Cursor, EntryErrorKind, Part};

use blocks::{BARELY, OWNED, PARENT, POOR, SOL, key};

const AGAVE: &str = include_str!("agave.tsv");
/// Room for ten transfers, five of which may write the same account. The oracle sets the same limits.
const LIMITS: BlockLimits = BlockLimits { block_cost: 15_000, account_cost: 7_500, ..BlockLimits::CLUSTER };
const RULES: Rules = Rules { ticks_per_slot: 4, hashes_per_tick: Some(40), limits: LIMITS };

/// A ledger after slot 1, whose last hash is [`PARENT`].
fn ledger() -> Arc<Ledger> {
    let ledger = builders::ledger(0);
    let accounts = ledger.accounts();
    (0..24).for_each(|n| accounts.store(&key(n).public_key(), Account::wallet(SOL)));
    accounts.store(&key(POOR).public_key(), Account::wallet(4_000));
    accounts.store(&key(BARELY).public_key(), Account::wallet(rent::minimum_balance(0) + 4_000));
    accounts.store(&key(OWNED).public_key(), Account::with_data(SOL, [9; 32], &[]));
    ledger.begin_slot(1, 0).expect("the ledger is at its genesis");
    ledger.end_slot(1, PARENT).expect("it has begun");
    ledger
}

fn job(is_known: bool) -> Job {
    Job { rules: RULES, slot: 2, parent: 1, parent_hash: PARENT, is_known, records: false }
}

fn pool(workers: usize) -> Pool {
    Pool::new(workers, &WorkerConfig { table_bytes: 0, recording: None })
}

fn verdict(batches: &[Vec<u8>], workers: usize) -> String {
    let ends = batches.iter().scan(0, |end, batch| {
        *end += batch.len() as u32;
        Some(*end)
    });
    match pool(workers).batches(&ledger(), job(false), &batches.concat(), Some(ends.collect())) {
        Ok(_) => "ok".into(),
        Err(why) => why.cluster_name().unwrap_or_else(|| panic!("no verdict: {why}")),
    }
}

#[test]
fn verdicts_are_agaves() {
    let expected: BTreeMap<&str, &str> =
        AGAVE.lines().map(|line| line.split_once('\t').expect("two columns")).collect();
    let blocks = blocks::all();
    assert!(blocks.keys().eq(expected.keys()), "{:?} {:?}", blocks.keys(), expected.keys());
    for (name, batches) in &blocks {
        for workers in [1, 3] {
            assert_eq!(verdict(batches, workers), expected[name], "{name}, {workers} workers");
        }
    }
}

#[test]
fn known_block_is_not_charged_again() {
    let data = blocks::all()["block-cost"].concat();
    let executed = pool(1).block(&ledger(), job(true), &data).expect("its limits were checked when it was new");
    assert_eq!(executed.block.counts.committed, 11);
}

/// Each malformed transaction breaks the rule that it is named after.
#[test]
fn malformed_transactions_break_their_rules() {
    let rules = [
        ("payer-is-called", ParseErrorKind::ProgramIndex),
        ("account-index", ParseErrorKind::AccountIndex),
        ("signature-count", ParseErrorKind::SignatureCountMismatch),
        ("too-long", ParseErrorKind::TooLong),
    ];
    let blocks = blocks::all();
    for (name, rule) in rules {
        let (mut cursor, data) = (Cursor::default(), &blocks[name][0][..]);
        assert!(matches!(cursor.next(data), Ok(Some(Part::Entry { .. }))));
        assert_eq!(cursor.next(data).unwrap_err().kind, EntryErrorKind::Transaction(rule), "{name}");
    }
}
