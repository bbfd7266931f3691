//! Programs that are deployed, upgraded and closed by transactions; and malicious programs, which are metered and
//! contained.

use hearth_ledger::bank::Outcome;
use hearth_ledger::rent::minimum_balance;
use hearth_ledger::stakes::{STAKE_STATE_BYTES, validator_accounts};
use hearth_ledger::{Account, InstructionError, TransactionError};
use hearth_wire::Pubkey;
use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::system::{SystemInstruction, transfer};

use crate::common::elf::{HEAP, program, wrap};
use crate::common::instructions::*;
use crate::common::{Chain, SOL, ledger, wallet};

const AUTHORITY: u64 = 0;

/// A program that exits with this code.
fn returns(code: u32) -> Vec<u8> {
    program(&format!("entrypoint:\n mov32 r0, {code}\n exit"))
}

fn create(new: Pubkey, space: usize) -> Instruction {
    let accounts = vec![AccountMeta::writable(wallet(0), true), AccountMeta::writable(new, true)];
    let (lamports, space) = (minimum_balance(space), space as u64);
    let data = SystemInstruction::CreateAccount { lamports, space, owner: BPF_LOADER_UPGRADEABLE }.encode();
    call(SYSTEM_PROGRAM, accounts, data)
}

/// Uploads a program to a buffer, as the command line tools do.
fn upload(chain: &mut Chain, buffer: Pubkey, elf: &[u8]) {
    let authority = wallet(AUTHORITY);
    chain.succeed(&[create(buffer, 37 + elf.len()), initialize_buffer(buffer, authority)]);
    for (index, part) in elf.chunks(900).enumerate() {
        chain.succeed(&[write_buffer(buffer, authority, 900 * index, part)]);
    }
}

fn deploy_from(program: Pubkey, buffer: Pubkey, max_len: usize) -> [Instruction; 2] {
    [create(program, 36), deploy(wallet(0), program, buffer, wallet(AUTHORITY), max_len)]
}

/// The result of a call of a program without accounts.
fn result_of(chain: &mut Chain, program: Pubkey) -> Result<(), InstructionError> {
    // A different transaction each time.
    let mark = transfer(&wallet(0), &wallet(1), chain.bank.counts().committed);
    match chain.run_one(&[call(program, vec![], vec![]), mark]) {
        Outcome::Committed(landed) => match landed.err {
            None => Ok(()),
            Some(TransactionError::InstructionError(0, error)) => Err(error),
            Some(error) => panic!("{error:?}"),
        },
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn a_program_is_deployed_upgraded_and_closed() {
    let mut chain = Chain::new(2);
    let (program, buffer) = (wallet(80), wallet(81));
    chain.next_slot();
    let first = returns(41);
    upload(&mut chain, buffer, &first);
    chain.succeed(&deploy_from(program, buffer, first.len() + 64));
    // A deployed program is callable from the next slot on.
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::UnsupportedProgramId));
    chain.next_slot();
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(41)));
    // Another thread's executor sees the same.
    chain.executor = hearth_ledger::Executor::new();
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(41)));
    let second = returns(0);
    upload(&mut chain, wallet(82), &second);
    chain.succeed(&[upgrade(program, wallet(82), wallet(1), wallet(AUTHORITY))]);
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::UnsupportedProgramId), "not in this slot");
    chain.next_slot();
    assert_eq!(result_of(&mut chain, program), Ok(()));
    // Only the authority may.
    upload(&mut chain, wallet(83), &first);
    let stranger = upgrade(program, wallet(83), wallet(1), wallet(1));
    let txn = chain.txn(&wallet(1), &[stranger]);
    let Outcome::Committed(landed) = chain.run(&[txn])[0] else { panic!("it lands") };
    assert_eq!(landed.err, Some(TransactionError::InstructionError(0, InstructionError::IncorrectAuthority)));
    let before = chain.ledger.balance(&wallet(9));
    chain.succeed(&[close_program(program, wallet(9), wallet(AUTHORITY))]);
    assert!(chain.ledger.balance(&wallet(9)) > before, "its rent comes back");
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::UnsupportedProgramId));
    for _ in 0..2 {
        chain.next_slot();
        assert_eq!(result_of(&mut chain, program), Err(InstructionError::UnsupportedProgramId));
    }
}

#[test]
fn a_program_of_a_fork_that_was_left_never_was() {
    let mut chain = Chain::with_forks(2);
    let (program, other) = (wallet(80), wallet(90));
    chain.next_slot();
    for n in 41..=43 {
        upload(&mut chain, wallet(u64::from(n)), &returns(n));
    }
    chain.succeed(&deploy_from(program, wallet(41), 1_000));
    chain.next_slot();
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(41)));
    chain.next_slot();
    // Slot 4 and its descendants are abandoned: there one program is upgraded, another is new.
    chain.succeed(&[upgrade(program, wallet(42), wallet(1), wallet(AUTHORITY))]);
    chain.succeed(&deploy_from(other, wallet(43), 1_000));
    for _ in 0..3 {
        chain.next_slot();
        assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(42)));
        assert_eq!(result_of(&mut chain, other), Err(InstructionError::Custom(43)));
    }
    chain.leave(3, 8);
    let gone = Some(TransactionError::ProgramAccountNotFound);
    for _ in 0..2 {
        assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(41)));
        let outcome = chain.run_one(&[call(other, vec![], vec![])]);
        assert!(matches!(outcome, Outcome::Committed(landed) if landed.err == gone), "{outcome:?}");
        chain.next_slot();
    }
    // The same slot again, with another program; a program that was closed on one fork is open on the other.
    chain.succeed(&[upgrade(program, wallet(43), wallet(1), wallet(AUTHORITY))]);
    chain.leave(9, 10);
    chain.succeed(&[upgrade(program, wallet(42), wallet(1), wallet(AUTHORITY))]);
    chain.next_slot();
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(42)));
    chain.succeed(&[close_program(program, wallet(9), wallet(AUTHORITY))]);
    chain.next_slot();
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::UnsupportedProgramId));
    chain.leave(10, 12);
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(42)));
}

#[test]
fn a_simulated_deployment_leaves_no_trace() {
    let mut chain = Chain::new(2);
    let (program, buffer) = (wallet(80), wallet(81));
    chain.next_slot();
    upload(&mut chain, buffer, &returns(7));
    let simulation = chain.simulate(&deploy_from(program, buffer, 1_000));
    assert!(matches!(simulation.outcome, Outcome::Committed(landed) if landed.err.is_none()));
    upload(&mut chain, wallet(82), &returns(8));
    chain.succeed(&deploy_from(program, wallet(82), 1_000));
    chain.next_slot();
    assert_eq!(result_of(&mut chain, program), Err(InstructionError::Custom(8)));
}

#[test]
fn a_malformed_program_is_refused() {
    let mut chain = Chain::new(2);
    chain.next_slot();
    let good = returns(0);
    let mut other_machine = good.clone();
    other_machine[18] = 62;
    let mut entry_outside = good.clone();
    entry_outside[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut many_segments = good.clone();
    many_segments[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
    let bad = [
        b"not a program".to_vec(),
        vec![0; 500],
        good[..100].to_vec(),
        other_machine,
        entry_outside,
        many_segments,
        wrap(&[0xff; 64]),
        // Divides by zero, and announces it before.
        wrap(&[[0x37, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]].concat()),
    ];
    for (n, elf) in bad.iter().enumerate() {
        let (program, buffer) = (wallet(200 + n as u64), wallet(300 + n as u64));
        upload(&mut chain, buffer, elf);
        let (index, error) = chain.fail(&deploy_from(program, buffer, 1_000));
        assert_eq!((index, error), (1, InstructionError::InvalidAccountData), "{n}");
        assert_eq!(chain.ledger.account(&program), None);
    }
    // In a genesis account the same is not a program.
    for elf in &bad {
        let (key, account) = hearth_svm::programs::fixed_program(&wallet(400), elf);
        chain.ledger.accounts().store(&key, account);
        assert_eq!(result_of(&mut chain, key), Err(InstructionError::UnsupportedProgramId));
        chain.ledger.accounts().store(&key, Account::default());
        chain.next_slot();
    }
}

/// A chain with one program from genesis.
fn with_program(source: &str) -> (Chain, Pubkey) {
    let chain = Chain::new(2);
    for (key, account) in hearth_svm::programs::upgradeable_program(&wallet(80), &program(source), &wallet(0)) {
        chain.ledger.accounts().store(&key, account);
    }
    (chain, wallet(80))
}

#[test]
fn harm_is_metered_and_contained() {
    let beyond_heap = format!(
        "entrypoint:\n mov32 r1, {}\n lsh64 r1, 32\n add64 r1, {}\n stxb [r1+0], r1\n mov32 r0, 0\n exit",
        HEAP >> 32,
        32 << 10
    );
    let harmful = [
        ("loops", "entrypoint:\n mov32 r0, 0\n ja -2", InstructionError::ProgramFailedToComplete),
        (
            "recurses",
            "entrypoint:\n call function_again\n exit\nfunction_again:\n call function_again\n exit",
            InstructionError::ProgramFailedToComplete,
        ),
        (
            "reads nothing",
            "entrypoint:\n mov32 r1, 0\n lsh64 r1, 0\n ldxdw r0, [r1-8]\n exit",
            InstructionError::ProgramFailedToComplete,
        ),
        (
            "divides by zero",
            "entrypoint:\n mov32 r0, 1\n mov32 r1, 0\n div64 r0, r1\n exit",
            InstructionError::ProgramFailedToComplete,
        ),
        ("runs off its end", "entrypoint:\n mov32 r0, 0", InstructionError::ProgramFailedToComplete),
        ("returns garbage", "entrypoint:\n mov32 r0, 99\n lsh64 r0, 32\n exit", InstructionError::InvalidError),
        ("takes more heap", &beyond_heap, InstructionError::ProgramFailedToComplete),
    ];
    for (what, source, error) in harmful {
        let (mut chain, key) = with_program(source);
        let balances = |chain: &Chain| [0, 1].map(|n| chain.ledger.balance(&wallet(n)));
        let [payer, other] = balances(&chain);
        assert_eq!(result_of(&mut chain, key), Err(error), "{what}: {:?}", chain.logs());
        assert_eq!(balances(&chain), [payer - 5_000, other], "{what}: only the fee is gone");
        // The chain continues.
        chain.succeed(&[transfer(&wallet(0), &wallet(1), SOL)]);
    }
    let (mut chain, key) = with_program(&beyond_heap);
    let heap = ComputeBudgetInstruction::RequestHeapFrame(64 << 10).instruction();
    chain.succeed(&[heap, call(key, vec![], vec![])]);
}

#[test]
fn an_endless_loop_costs_what_was_asked_for() {
    let (mut chain, key) = with_program("entrypoint:\n mov32 r0, 0\n ja -2");
    let limit = ComputeBudgetInstruction::SetComputeUnitLimit(1_400_000).instruction();
    let Outcome::Committed(landed) = chain.run_one(&[limit, call(key, vec![], vec![])]) else { panic!("it lands") };
    assert_eq!(landed.compute_units, 1_400_000);
    assert!(chain.logs().iter().any(|line| line.contains("exceeded CUs meter")), "{:?}", chain.logs());
}

#[test]
fn a_program_may_not_write_what_is_not_its_own() {
    // Takes the first account's lamports away: in the input, after the count, flags, key and owner.
    let (mut chain, key) = with_program("entrypoint:\n mov32 r2, 0\n stxdw [r1+80], r2\n mov32 r0, 0\n exit");
    let steal = call(key, vec![writable(wallet(1))], vec![]);
    let before = chain.ledger.balance(&wallet(1));
    let (index, error) = chain.fail(&[steal]);
    assert_eq!((index, error), (0, InstructionError::ExternalAccountLamportSpend));
    assert_eq!(chain.ledger.balance(&wallet(1)), before);
}

#[test]
fn a_program_may_ask_for_the_stakes_of_the_epoch() {
    // Asks for the vote account whose address is its input, or for all, and returns the answer by way of the heap.
    let source = format!(
        "entrypoint:\n mov64 r6, r1\n ldxdw r2, [r1+8]\n mov64 r1, 0\n jeq r2, 0, ask\n mov64 r1, r6\n add64 r1, 16\n\
         ask:\n syscall sol_get_epoch_stake\n mov64 r1, {}\n lsh64 r1, 32\n stxdw [r1+0], r0\n mov64 r2, 8\n \
         syscall sol_set_return_data\n mov64 r0, 0\n exit",
        HEAP >> 32
    );
    let (key, votes) = (wallet(80), [wallet(90), wallet(91)]);
    let mut accounts = hearth_svm::programs::genesis_accounts();
    for (n, vote) in (1..).zip(&votes) {
        accounts.extend(validator_accounts(vote, &wallet(94 + n), &wallet(99), n * 1_000 * SOL));
    }
    accounts.extend(hearth_svm::programs::upgradeable_program(&key, &program(&source), &wallet(0)));
    accounts.push((wallet(0), Account::wallet(SOL)));
    let ledger = ledger(Box::new(hearth_svm::Svm::new()), accounts);
    let bank = ledger.begin_slot(1, 0).expect("the first slot");
    let mut chain = Chain { ledger, bank, executor: hearth_ledger::Executor::new(), records: vec![] };
    let mut returned = |asked: &[u8]| {
        chain.succeed(&[call(key, vec![], asked.to_vec())]);
        let (_, answer) = chain.records[0].clone().expect("a record").return_data.expect("an answer");
        u64::from_le_bytes(answer.try_into().expect("8 bytes"))
    };
    let of = |n: u64| n * 1_000 * SOL - minimum_balance(STAKE_STATE_BYTES);
    assert_eq!([returned(&votes[0]), returned(&votes[1]), returned(&wallet(98))], [of(1), of(2), 0]);
    assert_eq!(returned(&[]), of(1) + of(2));
}
