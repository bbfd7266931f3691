//! Features that become active at an epoch boundary, as programs see it.

use agave_feature_set::enable_sbpf_v3_deployment_and_execution as version_3;
use hearth_ledger::bank::Outcome;
use hearth_ledger::features::{feature_account, supported};
use hearth_ledger::{Forks, InstructionError, LedgerConfig, TransactionError};
use hearth_svm::{Svm, programs};
use hearth_wire::Pubkey;

use crate::common::elf::program;
use crate::common::instructions::call;
use crate::common::{Chain, wallet};

/// The first slot of the second epoch.
const BOUNDARY: u64 = 432_000;
const PROGRAM: u64 = 80;
/// The program's result where it runs.
const ANSWER: Option<TransactionError> = Some(TransactionError::InstructionError(0, InstructionError::Custom(41)));

fn feature() -> Pubkey {
    version_3::ID.to_bytes()
}

/// A chain with a program of version 3 and without the feature that lets it run.
fn chain() -> Chain {
    let mut accounts = programs::genesis_accounts_with(supported().filter(|known| known.id != feature()));
    let elf = program("entrypoint:\n mov32 r0, 41\n exit");
    accounts.extend(programs::upgradeable_program(&wallet(PROGRAM), &elf, &wallet(0)));
    let config =
        LedgerConfig { general: Box::new(Svm::new()), forks: Some(Forks::default()), ..LedgerConfig::default() };
    Chain::on(config, accounts, 1)
}

/// How a call of the program fails.
fn answer(chain: &mut Chain) -> Option<TransactionError> {
    match chain.run_one(&[call(wallet(PROGRAM), vec![], vec![])]) {
        Outcome::Committed(landed) => landed.err,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn a_program_runs_once_its_version_is_active() {
    let mut chain = chain();
    let refused = answer(&mut chain);
    assert!(refused.is_some() && refused != ANSWER, "{refused:?}");
    chain.skip_to(2);
    chain.ledger.accounts().store(&feature(), feature_account(None));
    assert_eq!(answer(&mut chain), refused, "it is only pending");
    chain.skip_to(BOUNDARY);
    assert_eq!(answer(&mut chain), ANSWER);
    assert_eq!(chain.data(&feature())[..], *feature_account(Some(BOUNDARY)).data());
    chain.skip_to(BOUNDARY + 1);
    assert_eq!(answer(&mut chain), ANSWER);
    // A fork on which nobody asked for the feature.
    chain.leave(1, 3);
    assert_eq!(answer(&mut chain), refused);
    chain.skip_to(BOUNDARY + 2);
    assert_eq!(answer(&mut chain), refused);
    // And back, across the boundary.
    chain.leave(1, 4);
    chain.ledger.accounts().store(&feature(), feature_account(None));
    chain.skip_to(BOUNDARY);
    assert_eq!(answer(&mut chain), ANSWER);
}
