//! Every error of a transfer, by the cluster's name, and the state that it leaves behind.

use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction::*;
use hearth_wire::program::system;

use crate::InstructionError::{self, *};
use crate::TransactionError::{self, *};
use crate::account::Account;
use crate::bank::{CommittedTransaction, Outcome};
use crate::rent::minimum_balance;
use crate::testing::{Chain, bytes_of, failed, landed, wallet};

const FEE: u64 = 5_000;
const MINIMUM: u64 = minimum_balance(0);
const RICH: u64 = 10 * LAMPORTS_PER_SOL;

fn transfer(from: u64, to: u64, lamports: u64) -> Instruction {
    system::transfer(&wallet(from), &wallet(to), lamports)
}

/// Runs `instructions` of wallet 0, which fail with `error`; the fee is paid, and nothing else changes.
#[track_caller]
fn fails(chain: &mut Chain, instructions: &[Instruction], index: u8, error: InstructionError) {
    let (before, total) = (chain.balance(0), chain.total_lamports());
    let outcome = chain.run_one(&wallet(0), instructions);
    assert_eq!(failed(outcome), Some((index, error)));
    assert_eq!(before - chain.balance(0), landed(outcome).fee);
    assert_eq!(chain.total_lamports(), total);
}

/// Runs `instructions` of wallet 0, which may not land; nothing changes, and they may be retried.
#[track_caller]
fn refused(chain: &mut Chain, instructions: &[Instruction], error: TransactionError) {
    let balances: Vec<u64> = (0..10).map(|n| chain.balance(n)).collect();
    for _ in 0..2 {
        assert_eq!(chain.run_one(&wallet(0), instructions), Outcome::NotCommitted(error));
    }
    assert_eq!((0..10).map(|n| chain.balance(n)).collect::<Vec<_>>(), balances);
}

#[test]
fn moves_lamports_and_takes_the_fee() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let outcome = chain.run_one(&wallet(0), &[transfer(0, 1, 7)]);
    // Three accounts: two wallets and the system program, whose name has 21 bytes.
    let all = CommittedTransaction { err: None, fee: FEE, compute_units: 150, loaded_bytes: 3 * 64 + 21 };
    assert_eq!(outcome, Outcome::Committed(all));
    assert_eq!((chain.balance(0), chain.balance(1)), (RICH - 7 - FEE, RICH + 7));
    let counts = chain.bank.counts();
    assert_eq!((counts.committed, counts.failed, counts.signatures, counts.fees.total()), (1, 0, 1, FEE));
}

#[test]
fn runs_several_transfers_and_requests() {
    let mut chain = Chain::new(&[RICH, RICH, RICH]);
    let many = [
        SetComputeUnitLimit(1_000).instruction(),
        transfer(0, 1, 10),
        SetComputeUnitPrice(1_000_000).instruction(),
        transfer(1, 2, RICH + 10),
        transfer(0, 2, 5),
    ];
    let landed = landed(chain.run_one(&wallet(0), &many));
    assert_eq!((landed.err, landed.fee, landed.compute_units), (None, 2 * FEE + 1_000, 5 * 150));
    assert_eq!([0, 1, 2].map(|n| chain.balance(n)), [RICH - 15 - 2 * FEE - 1_000, 0, 2 * RICH + 15]);
}

#[test]
fn payer_receiver_and_self() {
    let mut chain = Chain::new(&[RICH, RICH]);
    // Another signer pays the payer.
    assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(1, 0, 100)])).err, None);
    assert_eq!((chain.balance(0), chain.balance(1)), (RICH + 100 - 2 * FEE, RICH - 100));
    // A transfer to oneself is allowed, even of the whole balance, and moves nothing.
    let left = chain.balance(0) - FEE;
    assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(0, 0, left)])).err, None);
    assert_eq!(chain.balance(0), left);
    fails(&mut chain, &[transfer(0, 0, left - 1)], 0, Custom(1));
    // Sending nothing to a missing account does not create it.
    assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(0, 9, 0)])).err, None);
    assert_eq!(chain.ledger.account(&wallet(9)), None);
}

#[test]
fn no_instruction_at_all_pays_its_fee() {
    let mut chain = Chain::new(&[RICH]);
    let landed = landed(chain.run_one(&wallet(0), &[]));
    assert_eq!((landed.err, landed.fee, landed.compute_units, landed.loaded_bytes), (None, FEE, 0, 64));
}

#[test]
fn overdrawn() {
    let mut chain = Chain::new(&[RICH, 1, 5]);
    fails(&mut chain, &[transfer(0, 1, RICH)], 0, Custom(1));
    fails(&mut chain, &[transfer(0, 1, MINIMUM), transfer(1, 0, MINIMUM + 2)], 1, Custom(1));
    fails(&mut chain, &[transfer(7, 0, 1)], 0, Custom(1));
    assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(7, 0, 0)])).err, None, "nothing from nobody");
    assert_eq!((chain.balance(1), chain.bank.counts().failed), (1, 3));
}

#[test]
fn accounts_of_an_instruction() {
    let mut chain = Chain::new(&[RICH, RICH, RICH]);
    let mut one_account = transfer(0, 1, 1);
    one_account.accounts.pop();
    fails(&mut chain, &[one_account], 0, MissingAccount);
    let unsigned = |from, to| Instruction {
        accounts: vec![AccountMeta::writable(wallet(from), false), AccountMeta::writable(wallet(to), false)],
        ..transfer(from, to, 1)
    };
    fails(&mut chain, &[unsigned(1, 2)], 0, MissingRequiredSignature);
    // The payer signs, whatever the instruction says.
    assert_eq!(landed(chain.run_one(&wallet(0), &[unsigned(0, 2)])).err, None);
    // Surplus accounts do no harm.
    let mut more = transfer(0, 1, 1);
    more.accounts.push(AccountMeta::readonly(wallet(8), false));
    assert_eq!(landed(chain.run_one(&wallet(0), &[more])).err, None);
}

#[test]
fn read_only_accounts() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let metas = |from, to| vec![from, to];
    let readonly_from = Instruction {
        accounts: metas(AccountMeta::readonly(wallet(1), true), AccountMeta::writable(wallet(0), false)),
        ..transfer(1, 0, 1)
    };
    let readonly_to = Instruction {
        accounts: metas(AccountMeta::writable(wallet(0), true), AccountMeta::readonly(wallet(1), false)),
        ..transfer(0, 1, 1)
    };
    for lamports in [0, 1] {
        // The cluster checks writability before it checks whether anything changes.
        for instruction in [&readonly_from, &readonly_to] {
            let mut instruction = instruction.clone();
            instruction.data = transfer(0, 1, lamports).data;
            fails(&mut chain, &[instruction], 0, ReadonlyLamportChange);
        }
    }
    // Builtin programs and sysvars are never writable.
    fails(&mut chain, &[system::transfer(&wallet(0), &SYSTEM_PROGRAM, 1)], 0, ReadonlyLamportChange);
    fails(&mut chain, &[system::transfer(&wallet(0), &VOTE_PROGRAM, 1)], 0, ReadonlyLamportChange);
}

#[test]
fn owners_and_data() {
    let mut chain = Chain::new(&[RICH]);
    let put = |chain: &Chain, n, account: Account| chain.ledger.accounts().store(&wallet(n), account);
    put(&chain, 1, Account::with_data(RICH, SYSTEM_PROGRAM, &[1]));
    put(&chain, 2, Account::with_data(RICH, MEMO_PROGRAM, &[]));
    put(&chain, 3, Account::with_data(RICH, MEMO_PROGRAM, &[1]));
    fails(&mut chain, &[transfer(1, 0, 1)], 0, InvalidArgument);
    fails(&mut chain, &[transfer(2, 0, 1)], 0, ExternalAccountLamportSpend);
    fails(&mut chain, &[transfer(3, 0, 1)], 0, InvalidArgument);
    fails(&mut chain, &[transfer(2, 0, RICH + 1)], 0, Custom(1));
    assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(2, 0, 0)])).err, None);
    // Any account may receive.
    for to in [1, 2, 3] {
        assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(0, to, 3)])).err, None);
        assert_eq!(chain.balance(to), RICH + 3);
    }
    assert_eq!(chain.ledger.account(&wallet(3)).unwrap().data(), [1]);
}

#[test]
fn overflow_of_the_receiver() {
    let mut chain = Chain::new(&[RICH, u64::MAX - 5]);
    fails(&mut chain, &[transfer(0, 1, 6)], 0, ArithmeticOverflow);
    assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(0, 1, 5)])).err, None);
}

#[test]
fn malformed_instructions() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let with_data = |data: &[u8]| Instruction { data: data.to_vec(), ..transfer(0, 1, 1) };
    for data in [&[][..], &[2, 0, 0], &[2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], &[14, 0, 0, 0], &[255; 12]] {
        fails(&mut chain, &[transfer(0, 1, 1), with_data(data)], 1, InvalidInstructionData);
    }
    let mut longer = transfer(0, 1, 9).data;
    longer.extend([1, 2, 3]);
    assert_eq!(landed(chain.run_one(&wallet(0), &[with_data(&longer)])).err, None, "bytes after it are ignored");
    assert_eq!(chain.balance(1), RICH + 9);
}

#[test]
fn compute_units_run_out() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let limit = |units| SetComputeUnitLimit(units).instruction();
    fails(&mut chain, &[limit(0)], 0, ComputationalBudgetExceeded);
    fails(&mut chain, &[limit(149)], 0, ComputationalBudgetExceeded);
    fails(&mut chain, &[limit(299), transfer(0, 1, 1)], 1, ComputationalBudgetExceeded);
    let outcome = chain.run_one(&wallet(0), &[transfer(0, 1, 3), limit(449), transfer(0, 1, 2)]);
    assert_eq!(failed(outcome), Some((2, ComputationalBudgetExceeded)));
    assert_eq!(landed(outcome).compute_units, 449, "what was left is used up");
    assert_eq!(landed(chain.run_one(&wallet(0), &[limit(300), transfer(0, 1, 4)])).compute_units, 300);
}

#[test]
fn budgets_that_are_refused() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let twice = [SetComputeUnitLimit(900).instruction(), SetComputeUnitLimit(900).instruction()];
    refused(&mut chain, &twice, DuplicateInstruction(1));
    refused(&mut chain, &[RequestHeapFrame(1).instruction()], InstructionError(0, InvalidInstructionData));
    let nothing = SetLoadedAccountsDataSizeLimit(0).instruction();
    refused(&mut chain, &[nothing], InvalidLoadedAccountsDataSizeLimit);
    assert_eq!(chain.bank.counts().not_committed, 6);
}

#[test]
fn accounts_that_are_too_large_to_load() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let limited = |bytes| [SetLoadedAccountsDataSizeLimit(bytes).instruction(), transfer(0, 1, 1)];
    // Two wallets, the system program (21 bytes) and the compute-budget program (22).
    let needed = 4 * 64 + 21 + 22;
    let outcome = landed(chain.run_one(&wallet(0), &limited(needed)));
    assert_eq!((outcome.err, outcome.loaded_bytes), (None, needed));
    let outcome = landed(chain.run_one(&wallet(0), &limited(needed - 1)));
    assert_eq!(outcome.err, Some(MaxLoadedAccountsDataSizeExceeded));
    assert_eq!((outcome.loaded_bytes, outcome.compute_units, outcome.fee), (needed - 1, 0, FEE));
    // An account that does not exist yet has no size.
    let to_nobody = [SetLoadedAccountsDataSizeLimit(needed - 64).instruction(), transfer(0, 9, MINIMUM)];
    assert_eq!(landed(chain.run_one(&wallet(0), &to_nobody)).err, None);
}

#[test]
fn payers_that_cannot_pay() {
    let mut chain = Chain::new(&[FEE - 1, FEE, MINIMUM + FEE, MINIMUM + FEE - 1, 0, 0, RICH]);
    let nothing = |payer| [transfer(payer, 6, 0)];
    let run = |chain: &mut Chain, payer| chain.run_one(&wallet(payer), &nothing(payer));
    assert_eq!(run(&mut chain, 9), Outcome::NotCommitted(AccountNotFound));
    assert_eq!(run(&mut chain, 0), Outcome::NotCommitted(InsufficientFundsForFee));
    assert_eq!(landed(run(&mut chain, 1)).err, None, "may spend all it has");
    assert_eq!(chain.ledger.account(&wallet(1)), None);
    assert_eq!(landed(run(&mut chain, 2)).err, None, "may go down to the minimum");
    assert_eq!(run(&mut chain, 3), Outcome::NotCommitted(InsufficientFundsForRent { account_index: 0 }));
    chain.ledger.accounts().store(&wallet(4), Account::with_data(RICH, MEMO_PROGRAM, &[]));
    assert_eq!(run(&mut chain, 4), Outcome::NotCommitted(InvalidAccountForFee));
    chain.ledger.accounts().store(&wallet(5), Account::with_data(RICH, SYSTEM_PROGRAM, &[0; 79]));
    assert_eq!(run(&mut chain, 5), Outcome::NotCommitted(InvalidAccountForFee));
    // 80 bytes may be a nonce account, which may pay; that is left to the general path.
    chain.ledger.accounts().store(&wallet(5), Account::with_data(RICH, SYSTEM_PROGRAM, &[0; 80]));
    assert_eq!(run(&mut chain, 5), Outcome::Unsupported);
    let counts = chain.bank.counts();
    assert_eq!((counts.committed, counts.not_committed, counts.unsupported), (2, 5, 1));
}

#[test]
fn rent_of_those_who_receive_and_send() {
    let mut chain = Chain::new(&[RICH, 100, MINIMUM]);
    let rent = |account_index| Some(InsufficientFundsForRent { account_index });
    let run = |chain: &mut Chain, instruction| landed(chain.run_one(&wallet(0), &[instruction])).err;
    // The payer has index 0; the recipient comes right after it.
    assert_eq!(run(&mut chain, transfer(0, 9, MINIMUM - 1)), rent(1));
    assert_eq!(chain.ledger.account(&wallet(9)), None);
    assert_eq!(run(&mut chain, transfer(0, 9, MINIMUM)), None);
    // An account below the minimum may rise, but not fall except to zero.
    assert_eq!(run(&mut chain, transfer(0, 1, 1)), None);
    assert_eq!(run(&mut chain, transfer(1, 0, 1)), rent(1));
    assert_eq!(run(&mut chain, transfer(1, 0, 101)), None);
    assert_eq!(chain.ledger.account(&wallet(1)), None);
    // An account at the minimum may not go below it.
    assert_eq!(run(&mut chain, transfer(2, 0, 1)), rent(1));
    // Nor may the payer, although the fee is paid.
    let before = chain.balance(0);
    assert_eq!(run(&mut chain, transfer(0, 2, before - FEE - 1)), rent(0));
    assert_eq!(chain.balance(0), before - FEE);
    // Sending the whole balance is fine.
    assert_eq!(run(&mut chain, transfer(0, 2, before - 2 * FEE)), None);
    assert_eq!((chain.ledger.account(&wallet(0)), chain.balance(2)), (None, MINIMUM + before - 2 * FEE));
}

#[test]
fn the_incinerator_keeps_any_amount_until_the_block_ends() {
    let mut chain = Chain::new(&[RICH]);
    let total = chain.total_lamports();
    let burn = system::transfer(&wallet(0), &INCINERATOR, 1);
    assert_eq!(landed(chain.run_one(&wallet(0), &[burn])).err, None);
    assert_eq!(chain.ledger.balance(&INCINERATOR), 1);
    chain.next_slot();
    assert_eq!(chain.ledger.balance(&INCINERATOR), 0);
    assert_eq!(chain.total_lamports(), total);
}

#[test]
fn other_programs_need_the_general_path() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let call = |program_id| Instruction { program_id, accounts: vec![], data: vec![] };
    for program in [MEMO_PROGRAM, VOTE_PROGRAM, wallet(1)] {
        assert_eq!(chain.run_one(&wallet(0), &[transfer(0, 1, 1), call(program)]), Outcome::Unsupported);
    }
    assert_eq!((chain.balance(0), chain.balance(1)), (RICH, RICH));
}

#[test]
fn shapes_that_are_refused() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let short = Instruction { program_id: SYSTEM_PROGRAM, accounts: vec![], data: vec![] };
    refused(&mut chain, &vec![short.clone(); 65], SanitizeFailure);
    fails(&mut chain, &vec![short; 64], 0, InvalidInstructionData);
    let mut crowded = transfer(0, 1, 1);
    crowded.accounts.resize(256, AccountMeta::readonly(wallet(1), false));
    refused(&mut chain, &[crowded], SanitizeFailure);
    // The same account twice: the second key of a transfer overwritten with the first.
    let mut twice = chain.txn(&wallet(0), &[transfer(0, 1, 1)]);
    let keys = twice.windows(32).position(|window| window == wallet(0)).unwrap();
    twice.copy_within(keys..keys + 32, keys + 32);
    assert_eq!(chain.run(&[twice])[0], Outcome::NotCommitted(AccountLoadedTwice));
}

#[test]
fn lands_once() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let txn = chain.txn(&wallet(0), &[transfer(0, 1, 1)]);
    let again = Outcome::NotCommitted(AlreadyProcessed);
    let outcomes = chain.run(&[txn.clone(), txn.clone()]);
    assert!(outcomes[0].is_committed());
    assert_eq!(outcomes[1], again);
    // Another signature of the same message does not help.
    let mut resigned = txn.clone();
    resigned[5] ^= 1;
    assert_eq!(chain.run(&[resigned])[0], again);
    // A failed transaction has landed too.
    let failing = chain.txn(&wallet(0), &[transfer(0, 1, 2 * RICH)]);
    assert!(chain.run(std::slice::from_ref(&failing))[0].is_committed());
    for _ in 0..150 {
        assert_eq!(chain.run(&[txn.clone(), failing.clone()]), [again, again]);
        chain.next_slot();
    }
    assert_eq!(chain.run(&[txn.clone(), failing]), [again, again], "150 blocks later");
    chain.next_slot();
    assert_eq!(chain.run(&[txn])[0], Outcome::NotCommitted(BlockhashNotFound));
    assert_eq!(chain.balance(1), RICH + 1);
}

#[test]
fn unknown_blockhashes() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let txn = bytes_of(&wallet(0), &[transfer(0, 1, 1)], &[77; 32]);
    assert_eq!(chain.run(&[txn])[0], Outcome::NotCommitted(BlockhashNotFound));
    // A nonce might hold the blockhash: left to the general path.
    let advance = system::advance_nonce_account(&wallet(1), &wallet(0));
    let txn = bytes_of(&wallet(0), &[advance, transfer(0, 1, 1)], &[77; 32]);
    assert_eq!(chain.run(&[txn])[0], Outcome::Unsupported);
}

#[test]
fn a_microblock_is_run_in_order() {
    let mut chain = Chain::new(&[2 * RICH, 0, 0]);
    let txns = [
        chain.txn(&wallet(1), &[transfer(1, 0, 1)]),
        chain.txn(&wallet(0), &[transfer(0, 1, RICH)]),
        chain.txn(&wallet(1), &[transfer(1, 2, RICH - FEE)]),
        chain.txn(&wallet(1), &[transfer(1, 2, 0)]),
        chain.txn(&wallet(2), &[transfer(2, 1, MINIMUM)]),
    ];
    let outcomes = chain.run(&txns);
    let absent = Outcome::NotCommitted(AccountNotFound);
    assert_eq!((outcomes[0], outcomes[3]), (absent, absent));
    for at in [1, 2, 4] {
        assert_eq!(landed(outcomes[at]).err, None, "transaction {at}");
    }
    assert_eq!([0, 1, 2].map(|n| chain.balance(n)), [RICH - FEE, MINIMUM, RICH - 2 * FEE - MINIMUM]);
    // A refused transaction may be retried, and gets another outcome.
    let poor = Outcome::NotCommitted(InsufficientFundsForRent { account_index: 0 });
    assert_eq!(chain.run(&txns[..1])[0], poor);
}

#[test]
fn the_rent_epoch_is_settled_as_the_cluster_does() {
    let mut chain = Chain::new(&[]);
    let old = |lamports| {
        let mut account = Account::wallet(lamports);
        account.rent_epoch = 3;
        account
    };
    for (n, lamports) in [(0, RICH), (1, RICH), (2, 1)] {
        chain.ledger.accounts().store(&wallet(n), old(lamports));
    }
    let epoch = |chain: &Chain, n| chain.ledger.account(&wallet(n)).unwrap().rent_epoch;
    fails(&mut chain, &[transfer(0, 1, 2 * RICH)], 0, Custom(1));
    assert_eq!([0, 1].map(|n| epoch(&chain, n)), [3, 3], "a failure settles nothing");
    assert_eq!(landed(chain.run_one(&wallet(0), &[transfer(0, 1, 0)])).err, None);
    assert_eq!([0, 1].map(|n| epoch(&chain, n)), [u64::MAX, 3], "nor does a look");
    let both = [transfer(0, 1, 1), transfer(0, 2, MINIMUM)];
    assert_eq!(landed(chain.run_one(&wallet(0), &both)).err, None);
    assert_eq!([1, 2].map(|n| epoch(&chain, n)), [u64::MAX, 3], "2 was not exempt when it was loaded");
}
