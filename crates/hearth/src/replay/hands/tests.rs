//! Blocks of transfers that depend on their order, on one thread and on several: all that they come to is the same.

use std::sync::Arc;

use hearth_ledger::history::{self, History, HistoryKey};
use hearth_ledger::{Account, Genesis, GenesisConfig, Ledger, LedgerConfig, TransactionError};
use hearth_testkit::random::Random;
use hearth_wire::{Pubkey, TransferTemplate};

use super::*;

const ACCOUNTS: usize = 24;
const LAMPORTS: u64 = 1_000_000_000;

fn address(number: usize) -> Pubkey {
    Random(1_000 + number as u64).key()
}

fn ledger() -> Arc<Ledger> {
    let config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
    let ledger = Ledger::new(&Genesis::create(config, |_| {}).unwrap(), LedgerConfig::default());
    (0..ACCOUNTS).for_each(|number| ledger.accounts().store(&address(number), Account::wallet(LAMPORTS)));
    ledger
}

/// Transfers of which some come to more than there is, by what went before; `unpaid`: one in so many comes from who has
/// nothing, and does not land.
fn block(random: &mut Random, blockhash: &[u8; 32], unpaid: u64) -> Vec<Vec<TransferTemplate>> {
    let mut made = 0u64;
    let hot = 1 + random.index(ACCOUNTS);
    let mut transfer = |random: &mut Random| {
        let (from, to) = (random.index(ACCOUNTS), random.index(hot));
        let from = if unpaid > 0 && random.below(unpaid) == 0 { ACCOUNTS + 7 } else { from };
        let mut template = TransferTemplate::new();
        made += 1;
        template.set_from(&address(from));
        template.set_to(&address(if to == from { ACCOUNTS } else { to }));
        template.set_lamports(1 + random.below(LAMPORTS));
        template.set_recent_blockhash(blockhash);
        let mut signature = [0; 64];
        signature[..8].copy_from_slice(&made.to_le_bytes());
        template.set_signature(&signature);
        template
    };
    (0..60).map(|_| (0..=random.below(20)).map(|_| transfer(random)).collect()).collect()
}

/// All that a block comes to.
#[derive(Debug, PartialEq)]
struct End {
    result: Result<Vec<Vec<u8>>, Failed>,
    /// The bank's hash, and the accounts, where it came to its end.
    state: Option<(u64, [u8; 32], Vec<u64>)>,
}

fn key() -> HistoryKey {
    let folder = tempfile::tempdir().unwrap();
    History::open(folder.path(), history::Config::new(1 << 20, [1; 32]), 0).unwrap().key()
}

fn run(seed: u64, unpaid: u64, threads: usize, key: &HistoryKey) -> End {
    let ledger = ledger();
    let bank = ledger.begin_slot(1, 0).unwrap();
    let templates = block(&mut Random(seed), bank.parent_blockhash(), unpaid);
    let parsed = |entry: &Vec<TransferTemplate>| entry.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>();
    let bytes: Vec<Vec<Vec<u8>>> = templates.iter().map(parsed).collect();
    let entries: Vec<Vec<Txn<'_>>> =
        bytes.iter().map(|entry| entry.iter().map(|bytes| Txn::parse(bytes).unwrap()).collect()).collect();
    assert!(entries.iter().map(Vec::len).sum::<usize>() >= WORTH_A_THREAD);
    let mut hands = Hands::on(threads, Some((key.clone(), false)));
    let result = hands.execute(&bank, &entries, true);
    let state = result.is_ok().then(|| {
        ledger.end_slot(1, [9; 32]).unwrap();
        let lamports = (0..=ACCOUNTS).map(|n| ledger.account(&address(n)).map_or(0, |account| account.lamports));
        (bank.counts().failed, ledger.hash_all().1, lamports.collect())
    });
    End { result, state }
}

#[test]
fn a_block_comes_to_the_same_on_any_number_of_threads() {
    let (mut whole, mut failed, key) = (0, 0, key());
    for seed in 1..=40 {
        let expected = run(seed, 0, 1, &key);
        // Now and then somebody is left without a fee, which ends the block.
        if let (Ok(batches), Some((some, ..))) = (&expected.result, &expected.state) {
            assert_eq!(batches.len(), 60, "seed {seed}");
            (whole, failed) = (whole + 1, failed + some);
        }
        for threads in [2, 3, 8] {
            assert_eq!(run(seed, 0, threads, &key), expected, "seed {seed}, {threads} threads");
        }
    }
    assert!(whole > 30 && failed > 1_000, "{whole} blocks; what fails of them, {failed}, depends on the order");
}

#[test]
fn the_first_transaction_that_does_not_land_is_told_on_any_number_of_threads() {
    let key = key();
    for seed in 1..=40 {
        let expected = run(seed, 200, 1, &key);
        if let Err((_, outcome)) = &expected.result {
            assert_eq!(*outcome, Outcome::NotCommitted(TransactionError::AccountNotFound), "seed {seed}");
        }
        for threads in [2, 8] {
            assert_eq!(run(seed, 200, threads, &key), expected, "seed {seed}, {threads} threads");
        }
    }
}
