//! Random microblocks against a sequential model that knows balances only.

use std::collections::BTreeMap;

use hearth_wire::program::system;
use proptest::prelude::*;

use crate::TransactionError::{self, *};
use crate::account::Account;
use crate::bank::{Executor, Outcome};
use crate::rent::minimum_balance;
use crate::testing::{Chain, bytes_of, parse, wallet};
use crate::{InstructionError, LedgerConfig};

const WALLETS: u64 = 6;
const MINIMUM: u64 = minimum_balance(0);

/// A transaction: the payer, and transfers from wallet to wallet.
type Request = (u64, Vec<(u64, u64, u64)>);

/// Balances of wallets that exist.
#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<u64, u64>);

impl Model {
    fn balance(&self, n: u64) -> u64 {
        self.0.get(&n).copied().unwrap_or(0)
    }

    /// The expected outcome of a request: refused, or landed with a result.
    fn run(&mut self, (payer, transfers): &Request) -> Result<Option<TransactionError>, TransactionError> {
        let mut signers: Vec<u64> = transfers.iter().map(|(from, _, _)| *from).chain([*payer]).collect();
        signers.sort_unstable();
        signers.dedup();
        let fee = 5_000 * signers.len() as u64;
        let before = self.balance(*payer);
        let paid = match before {
            0 => return Err(AccountNotFound),
            before => before.checked_sub(fee).ok_or(InsufficientFundsForFee)?,
        };
        if paid != 0 && paid < MINIMUM {
            return Err(InsufficientFundsForRent { account_index: 0 });
        }
        self.0.insert(*payer, paid);
        let mut after = self.clone();
        let error =
            after.transfer_all(transfers).err().or_else(|| self.broken_rent(&after, payer, &signers, transfers));
        if error.is_none() {
            *self = after;
        }
        self.0.retain(|_, lamports| *lamports != 0);
        Ok(error)
    }

    fn transfer_all(&mut self, transfers: &[(u64, u64, u64)]) -> Result<(), TransactionError> {
        for (index, &(from, to, lamports)) in transfers.iter().enumerate() {
            let overdrawn = InstructionError(index as u8, InstructionError::Custom(1));
            let left = self.balance(from).checked_sub(lamports).ok_or(overdrawn)?;
            self.0.insert(from, left);
            self.0.insert(to, self.balance(to) + lamports);
        }
        Ok(())
    }

    /// The first account, in the order of the message, whose balance would break the rent rule.
    fn broken_rent(
        &self,
        after: &Self,
        payer: &u64,
        signers: &[u64],
        transfers: &[(u64, u64, u64)],
    ) -> Option<TransactionError> {
        // The payer, then signers, then others, each by address.
        let by_address = |mut numbers: Vec<u64>| {
            numbers.sort_by_key(|&n| wallet(n));
            numbers.dedup();
            numbers
        };
        let mut order = vec![*payer];
        order.extend(by_address(signers.iter().copied().filter(|n| n != payer).collect()));
        let others = transfers.iter().map(|(_, to, _)| *to).filter(|to| !order.contains(to)).collect();
        order.extend(by_address(others));
        let broken = order.iter().position(|&n| {
            let (before, after) = (self.balance(n), after.balance(n));
            after != 0 && after < MINIMUM && (before == 0 || after < before)
        });
        broken.map(|index| InsufficientFundsForRent { account_index: index as u8 })
    }
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        1..10u64,
        MINIMUM - 2..MINIMUM + 2,
        0..4 * MINIMUM,
        Just(5_000),
        Just(MINIMUM + 5_000),
        Just(2 * MINIMUM)
    ]
}

fn request() -> impl Strategy<Value = Request> {
    (0..WALLETS, prop::collection::vec((0..WALLETS, 0..WALLETS, amount()), 0..4))
}

/// Runs the requests in microblocks on the node and on the model, and compares.
fn compare(balances: &[u64], microblocks: &[Vec<Request>]) {
    let mut chain = Chain::new(balances);
    let mut model = Model::default();
    model.0.extend((0..).zip(balances.iter().copied()).filter(|(_, lamports)| *lamports != 0));
    let total = chain.total_lamports();
    let mut landed = 0;
    for requests in microblocks {
        let txns: Vec<Vec<u8>> = requests
            .iter()
            .map(|(payer, transfers)| {
                let transfer =
                    |&(from, to, lamports): &(u64, u64, u64)| system::transfer(&wallet(from), &wallet(to), lamports);
                chain.txn(&wallet(*payer), &transfers.iter().map(transfer).collect::<Vec<_>>())
            })
            .collect();
        let outcomes = chain.run(&txns);
        let mut seen = std::collections::HashSet::new();
        for ((request, outcome), txn) in requests.iter().zip(&outcomes).zip(&txns) {
            if *outcome == Outcome::NotCommitted(AlreadyProcessed) {
                assert!(!seen.insert(txn.clone()), "{request:?} has not been there before");
                continue;
            }
            seen.insert(txn.clone());
            match model.run(request) {
                Err(error) => assert_eq!(*outcome, Outcome::NotCommitted(error), "{request:?}"),
                Ok(error) => {
                    let Outcome::Committed(committed) = outcome else { panic!("{request:?}: {outcome:?}") };
                    assert_eq!(committed.err, error, "{request:?}");
                    landed += 1;
                }
            }
        }
        for n in 0..WALLETS {
            assert_eq!(chain.balance(n), model.balance(n), "wallet {n} after {requests:?}");
        }
        assert_eq!(chain.total_lamports(), total);
        // A new blockhash, so that the next microblock may repeat a request.
        chain.next_slot();
        assert_eq!(chain.total_lamports(), total, "after the fees were paid out");
    }
    assert_eq!(chain.ledger.transaction_count(crate::Commitment::Processed), landed);
}

proptest! {
    #[test]
    fn the_bank_is_the_model(
        balances in prop::collection::vec(amount(), WALLETS as usize),
        microblocks in prop::collection::vec(prop::collection::vec(request(), 0..20), 1..5),
    ) {
        compare(&balances, &microblocks);
    }
}

/// Threads on disjoint accounts produce the same state as one thread, and count every transaction.
#[test]
fn many_threads_equal_one() {
    const THREADS: u64 = 4;
    const EACH: u64 = 32;
    const ROUNDS: u64 = 40;
    let lamports = |n: u64| MINIMUM * (2 + n % 5);
    let balances: Vec<u64> = (0..THREADS * EACH).map(lamports).collect();
    // In a ring within the thread's wallets; some overdraw, some go below the rent minimum.
    let txns_of = |blockhash: &hearth_wire::Hash, thread: u64, round: u64| -> Vec<Vec<u8>> {
        (0..EACH)
            .map(|n| {
                let (from, to) = (thread * EACH + n, thread * EACH + (n + 1 + round) % EACH);
                let amount = (round * 977 + n * 131_071) % (3 * MINIMUM);
                bytes_of(&wallet(from), &[system::transfer(&wallet(from), &wallet(to), amount)], blockhash)
            })
            .collect()
    };
    let run = |threads: bool| {
        let chain = Chain::with_config(&balances, LedgerConfig::default());
        let total = chain.total_lamports();
        let work = |thread: u64| {
            let (mut executor, mut outcomes) = (Executor::new(), vec![]);
            for round in 0..ROUNDS {
                let bytes = txns_of(chain.bank.parent_blockhash(), thread, round);
                let txns: Vec<_> = bytes.iter().map(|bytes| parse(bytes)).collect();
                chain.bank.execute(&mut executor, &txns, &mut outcomes);
                assert_eq!(outcomes.len(), txns.len());
            }
        };
        if threads {
            std::thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread)))));
        } else {
            (0..THREADS).for_each(work);
        }
        assert_eq!(chain.total_lamports(), total);
        let accounts: Vec<Option<Account>> = (0..THREADS * EACH).map(|n| chain.ledger.account(&wallet(n))).collect();
        (accounts, chain.bank.counts())
    };
    let (one, many) = (run(false), run(true));
    assert_eq!(one, many);
    let counts = many.1;
    assert_eq!(counts.committed + counts.not_committed, THREADS * EACH * ROUNDS);
    assert!(counts.committed > counts.failed && counts.failed > 0 && counts.not_committed > 0, "{counts:?}");
}
