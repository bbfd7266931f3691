//! Malformed transactions that parse: no panic, no lamports created or lost, no change by what did not land.

use hearth_wire::Txn;
use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use proptest::prelude::*;

use crate::account::Account;
use crate::bank::Outcome;
use crate::rent::minimum_balance;
use crate::testing::{Chain, wallet};

/// Wallets, programs, sysvars, and an account of each awkward kind.
fn address() -> impl Strategy<Value = Pubkey> {
    let known = [
        SYSTEM_PROGRAM,
        COMPUTE_BUDGET_PROGRAM,
        VOTE_PROGRAM,
        ED25519_PROGRAM,
        BPF_LOADER_UPGRADEABLE,
        SYSVAR_INSTRUCTIONS,
        SYSVAR_CLOCK,
        INCINERATOR,
        MEMO_PROGRAM,
    ];
    prop_oneof![4 => (0..12u64).prop_map(wallet), 1 => prop::sample::select(known.to_vec())]
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    let amounts = prop_oneof![Just(0), 0..10u64, Just(minimum_balance(0)), any::<u64>()];
    let tagged = (0..16u32, amounts).prop_map(|(tag, amount)| [&tag.to_le_bytes()[..], &amount.to_le_bytes()].concat());
    let request = (0..6u8, any::<u64>()).prop_map(|(tag, number)| [&[tag][..], &number.to_le_bytes()].concat());
    prop_oneof![3 => tagged, 1 => request, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let program = prop_oneof![6 => Just(SYSTEM_PROGRAM), 2 => Just(COMPUTE_BUDGET_PROGRAM), 1 => address()];
    let meta = (address(), any::<bool>(), any::<bool>());
    let meta = meta.prop_map(|(pubkey, is_signer, is_writable)| AccountMeta { pubkey, is_signer, is_writable });
    (program, prop::collection::vec(meta, 0..3), data()).prop_map(|(program_id, accounts, data)| Instruction {
        program_id,
        accounts,
        data,
    })
}

fn chain() -> Chain {
    let minimum = minimum_balance(0);
    let chain = Chain::new(&[LAMPORTS_PER_SOL, LAMPORTS_PER_SOL, minimum, minimum - 1, 5_000, 1]);
    let awkward = [
        Account::with_data(LAMPORTS_PER_SOL, SYSTEM_PROGRAM, &[0; 80]),
        Account::with_data(LAMPORTS_PER_SOL, SYSTEM_PROGRAM, &[1]),
        Account::with_data(LAMPORTS_PER_SOL, MEMO_PROGRAM, &[]),
        Account::with_data(LAMPORTS_PER_SOL, BPF_LOADER_UPGRADEABLE, &[2; 36]),
    ];
    for (n, account) in (6..).zip(awkward) {
        chain.ledger.accounts().store(&wallet(n), account);
    }
    chain
}

/// Every account, by address.
fn state(chain: &Chain) -> Vec<(Pubkey, Account)> {
    let mut all = vec![];
    chain.ledger.accounts().for_each(|key, account| all.push((*key, account.clone())));
    all.sort_unstable_by_key(|(key, _)| *key);
    all
}

proptest! {
    #[test]
    fn nonsense_conserves(
        requests in prop::collection::vec((address(), prop::collection::vec(instruction(), 0..4)), 1..12),
    ) {
        let mut chain = chain();
        let total = chain.total_lamports();
        for (payer, instructions) in &requests {
            if Txn::parse(&chain.txn(payer, instructions)).is_err() {
                // The payer is called as a program; such a transaction never reaches a bank.
                continue;
            }
            let before = state(&chain);
            let simulated = chain.simulate(payer, instructions);
            prop_assert_eq!(&state(&chain), &before, "a simulation changed something");
            let outcome = chain.run_one(payer, instructions);
            prop_assert_eq!(outcome, simulated);
            match outcome {
                Outcome::Committed(landed) => prop_assert!(landed.fee >= 5_000),
                _ => prop_assert_eq!(&state(&chain), &before, "{:?}", outcome),
            }
            prop_assert_eq!(chain.total_lamports(), total);
            let counts = chain.bank.counts();
            let all = counts.committed + counts.not_committed + counts.unsupported;
            prop_assert!(all > 0 && counts.failed <= counts.committed);
        }
        chain.next_slot();
        prop_assert_eq!(chain.total_lamports(), total);
    }
}
