//! Malicious program headers: whatever an account contains, a transaction that names it gets an answer.

use std::sync::mpsc;
use std::time::Duration;

use hearth_ledger::bank::Outcome;
use hearth_ledger::{Account, Executor, InstructionError, TransactionError};
use hearth_wire::Pubkey;
use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::program::system::transfer;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::common::elf::program;
use crate::common::instructions::*;
use crate::common::{Chain, wallet};

/// Far beyond what any of these takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Fails if `work` does not end. The hanging thread is left behind.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(done.send(work())));
    match ended.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a transaction is not answered"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

fn returns(code: u32) -> Vec<u8> {
    program(&format!("entrypoint:\n mov32 r0, {code}\n exit"))
}

/// A program of the upgradeable loader, and the account that holds its code.
fn upgradeable(key: Pubkey, slot: u64, elf: &[u8]) -> [(Pubkey, Account); 2] {
    let mut accounts = hearth_svm::programs::upgradeable_program(&key, elf, &wallet(0));
    for (_, account) in &mut accounts {
        if account.data().starts_with(&3u32.to_le_bytes()) {
            let mut data = account.data().to_vec();
            data[4..12].copy_from_slice(&slot.to_le_bytes());
            account.set_data(&data);
        }
    }
    accounts
}

/// A program of loader v4.
fn version_4(key: Pubkey, slot: u64, status: u64, elf: &[u8]) -> [(Pubkey, Account); 1] {
    let data = [&slot.to_le_bytes()[..], &wallet(0), &status.to_le_bytes(), elf].concat();
    [(key, executable(LOADER_V4, &data))]
}

fn executable(owner: Pubkey, data: &[u8]) -> Account {
    let mut account = Account::with_data(1 << 40, owner, data);
    account.executable = true;
    account
}

fn store(chain: &Chain, accounts: impl IntoIterator<Item = (Pubkey, Account)>) {
    accounts.into_iter().for_each(|(key, account)| chain.ledger.accounts().store(&key, account));
}

/// The result of a call, which must be the same in a simulation and in execution.
fn called(chain: &mut Chain, key: Pubkey) -> Result<(), InstructionError> {
    let mark = transfer(&wallet(0), &wallet(1), chain.bank.counts().committed + 1);
    let instructions = [call(key, vec![], vec![]), mark];
    let of = |outcome| match outcome {
        Outcome::Committed(landed) => match landed.err {
            None => Ok(()),
            Some(TransactionError::InstructionError(0, error)) => Err(error),
            Some(error) => panic!("{error:?}"),
        },
        outcome => panic!("{outcome:?}"),
    };
    let simulated = of(chain.simulate(&instructions).outcome);
    let executed = of(chain.run_one(&instructions));
    assert_eq!(simulated, executed);
    executed
}

const NOT_YET: Result<(), InstructionError> = Err(InstructionError::UnsupportedProgramId);

#[test]
fn a_header_of_a_later_slot_is_visible_after_it() {
    ends(|| {
        let mut chain = Chain::new(2);
        store(&chain, upgradeable(wallet(80), 5, &returns(41)));
        store(&chain, version_4(wallet(90), 5, 1, &returns(42)));
        for slot in 1..=8 {
            assert_eq!(chain.bank.slot(), slot);
            let [upgradeable, version_4] = [80, 90].map(|n| called(&mut chain, wallet(n)));
            let visible = if slot > 5 { Err(InstructionError::Custom(41)) } else { NOT_YET };
            assert_eq!(upgradeable, visible, "slot {slot}");
            // The engine loads such programs, but has no loader that runs them.
            assert_eq!(version_4, Err(InstructionError::UnsupportedProgramId), "slot {slot}");
            chain.next_slot();
        }
    });
}

#[test]
fn a_header_of_the_last_slot_is_never_visible() {
    ends(|| {
        let mut chain = Chain::new(2);
        store(&chain, upgradeable(wallet(80), u64::MAX, &returns(0)));
        store(&chain, upgradeable(wallet(81), u64::MAX - 1, b"no program"));
        store(&chain, version_4(wallet(90), 1 << 63, 2, &returns(0)));
        store(&chain, version_4(wallet(91), 0, 3, &returns(0)));
        for _ in 0..3 {
            [80, 81, 90, 91].into_iter().for_each(|n| assert_eq!(called(&mut chain, wallet(n)), NOT_YET, "{n}"));
            chain.next_slot();
        }
    });
}

#[test]
fn a_waiting_program_stays_bounded_over_many_slots() {
    ends(|| {
        let mut chain = Chain::new(2);
        store(&chain, upgradeable(wallet(80), 2_000, &returns(0)));
        while chain.bank.slot() <= 2_000 {
            assert_eq!(called(&mut chain, wallet(80)), NOT_YET, "slot {}", chain.bank.slot());
            chain.next_slot();
        }
        assert_eq!(called(&mut chain, wallet(80)), Ok(()));
    });
}

#[test]
fn a_replaced_program_is_seen_again() {
    ends(|| {
        let mut chain = Chain::new(2);
        for _ in 0..4 {
            store(&chain, upgradeable(wallet(80), 200, &returns(0)));
            assert_eq!(called(&mut chain, wallet(80)), NOT_YET);
            chain.next_slot();
        }
        // As a snapshot of another chain, or an abandoned fork, would have it.
        store(&chain, upgradeable(wallet(80), 0, &returns(0)));
        chain.executor = Executor::new();
        assert_eq!(called(&mut chain, wallet(80)), Ok(()));
    });
}

#[test]
fn a_fork_waits_for_a_program_again() {
    ends(|| {
        let mut chain = Chain::with_forks(2);
        store(&chain, upgradeable(wallet(80), 3, &returns(7)));
        for expected in [NOT_YET, NOT_YET, NOT_YET, Err(InstructionError::Custom(7))] {
            assert_eq!(called(&mut chain, wallet(80)), expected);
            chain.next_slot();
        }
        chain.leave(1, 2);
        for expected in [NOT_YET, NOT_YET, Err(InstructionError::Custom(7))] {
            assert_eq!(called(&mut chain, wallet(80)), expected);
            chain.next_slot();
        }
    });
}

/// An account, and another that it may name.
#[derive(Clone, Debug)]
struct Hostile {
    owner: Pubkey,
    kind: u32,
    names_itself: bool,
    cut: Option<usize>,
    code_owner: Pubkey,
    code_kind: u32,
    slot: u64,
    /// The authority's tag; for loader v4 the status.
    flag: u8,
    elf: Vec<u8>,
}

impl Hostile {
    fn accounts(&self, key: Pubkey, code: Pubkey) -> [(Pubkey, Account); 2] {
        let slot = self.slot.to_le_bytes();
        let mut program = match self.owner {
            BPF_LOADER_UPGRADEABLE => {
                [&self.kind.to_le_bytes()[..], if self.names_itself { &key } else { &code }].concat()
            }
            LOADER_V4 => [&slot[..], &key, &u64::from(self.flag).to_le_bytes(), &self.elf].concat(),
            _ => self.elf.clone(),
        };
        let mut data = [&self.code_kind.to_le_bytes()[..], &slot, &[self.flag], &key, &self.elf].concat();
        if let Some(cut) = self.cut {
            program.truncate(cut);
            data.truncate(cut);
        }
        [(key, executable(self.owner, &program)), (code, Account::with_data(1 << 40, self.code_owner, &data))]
    }
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let loaders = || {
        prop_oneof![
            4 => Just(BPF_LOADER_UPGRADEABLE),
            2 => Just(LOADER_V4),
            1 => Just(BPF_LOADER),
            1 => Just(BPF_LOADER_DEPRECATED),
        ]
    };
    let code_owner = prop_oneof![8 => Just(BPF_LOADER_UPGRADEABLE), 1 => loaders(), 1 => Just(SYSTEM_PROGRAM)];
    let slot = prop_oneof![3 => 0..80u64, 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1), 1 => any::<u64>()];
    let elf = prop_oneof![
        4 => Just(returns(0)),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (0..60usize, any::<u8>()).prop_map(|(at, byte)| {
            let mut elf = returns(0);
            elf[at] = byte;
            elf
        }),
    ];
    let kinds = |usual: u32| prop_oneof![8 => Just(usual), 1 => 0..6u32, 1 => any::<u32>()];
    let flag = prop_oneof![3 => 0..3u8, 1 => any::<u8>()];
    let cut = proptest::option::weighted(0.15, 0..60usize);
    let program = (loaders(), kinds(2), proptest::bool::weighted(0.1), cut);
    (program, code_owner, kinds(3), slot, flag, elf).prop_map(
        |((owner, kind, names_itself, cut), code_owner, code_kind, slot, flag, elf)| Hostile {
            owner,
            kind,
            names_itself,
            cut,
            code_owner,
            code_kind,
            slot,
            flag,
            elf,
        },
    )
}

/// Simulates and executes transactions that call the program, and that only name it and its code.
fn answers(chain: &mut Chain, case: &Hostile, key: Pubkey, code: Pubkey) {
    let mark = || transfer(&wallet(0), &wallet(1), chain.bank.counts().committed + 1);
    let named = vec![AccountMeta::readonly(key, false), AccountMeta::readonly(code, false)];
    let calls: [Vec<Instruction>; 3] = [
        vec![call(key, vec![], vec![]), mark()],
        vec![call(key, named.clone(), vec![]), mark()],
        vec![call(MEMO_PROGRAM, vec![], b"names programs".to_vec()), call(code, named, vec![]), mark()],
    ];
    for instructions in calls {
        let simulated = chain.simulate(&instructions).outcome;
        let executed = chain.run_one(&instructions);
        let err = |outcome: &Outcome| match outcome {
            Outcome::Committed(landed) => landed.err,
            Outcome::NotCommitted(err) => Some(*err),
            outcome => panic!("{outcome:?} of {case:?}"),
        };
        assert_eq!(err(&simulated), err(&executed), "{case:?}");
    }
}

#[test]
fn no_header_keeps_a_transaction_from_its_answer() {
    ends(|| {
        const SEED: [u8; 32] = [0x68; 32];
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
        let mut runner = TestRunner::new_with_rng(Config { cases: 400, ..Config::default() }, rng);
        let chain = std::cell::RefCell::new((Chain::new(2), 1_000));
        let checked = runner.run(&hostile(), |case| {
            let (chain, number) = &mut *chain.borrow_mut();
            let (key, code) = (wallet(*number), wallet(*number + 1));
            *number += 2;
            store(chain, case.accounts(key, code));
            for _ in 0..3 {
                answers(chain, &case, key, code);
                // The chain continues, and another thread executes too.
                chain.executor = Executor::new();
                if *number % 10 == 0 {
                    chain.next_slot();
                }
            }
            Ok(())
        });
        checked.expect("every transaction is answered");
    });
}
