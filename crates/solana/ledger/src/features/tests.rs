//! The table of features, and features that become active at an epoch boundary.

use hearth_crypto::sha256::sha256;
use hearth_wire::consts::{LAMPORTS_PER_SOL, SYSVAR_RENT};
use hearth_wire::message::AccountMeta;
use hearth_wire::program::system;

use super::*;
use crate::testing::{IDENTITY, bytes_of, landed, parse, wallet};
use crate::{Executor, Forks, Genesis, GenesisConfig, Ledger, LedgerConfig, Outcome, SlotError, TransactionError};

/// The first slot of the second epoch.
const BOUNDARY: u64 = 32;

fn id(name: &str) -> Pubkey {
    let feature = all().iter().find(|feature| feature.name == name);
    feature.unwrap_or_else(|| panic!("{name} is not a feature")).id
}

/// A chain with epochs of 32 slots, with the supported features but `without`, and with `more` accounts.
fn chain(without: &[&str], more: &[(Pubkey, Account)]) -> Arc<Ledger> {
    let features = supported().filter(|feature| !without.contains(&feature.name));
    let mut extra_accounts = feature_accounts(features);
    extra_accounts.extend_from_slice(more);
    extra_accounts.push((wallet(0), Account::wallet(LAMPORTS_PER_SOL)));
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        slots_per_epoch: BOUNDARY,
        extra_accounts,
        ..GenesisConfig::development(IDENTITY, [2; 32], 1_700_000_000)
    };
    let genesis = Genesis::create(config, |_| {}).expect("a chain");
    Ledger::new(&genesis, LedgerConfig { forks: Some(Forks::default()), ..LedgerConfig::default() })
}

fn make_slot(ledger: &Ledger, slot: u64, parent: u64) {
    ledger.begin_slot(slot, parent).expect("the slot begins");
    ledger.end_slot(slot, sha256(&[&slot.to_le_bytes()])).expect("the slot ends");
}

/// The outcome of a transfer that names more accounts than an instruction may.
fn crowded(ledger: &Ledger) -> Outcome {
    let bank = ledger.working_bank().expect("a slot is in progress");
    let mut transfer = system::transfer(&wallet(0), &wallet(1), LAMPORTS_PER_SOL / 10);
    transfer.accounts.resize(256, AccountMeta::readonly(wallet(1), false));
    let bytes = bytes_of(&wallet(0), &[transfer], bank.parent_blockhash());
    let mut outcomes = vec![];
    bank.execute(&mut Executor::new(), &[parse(&bytes)], &mut outcomes);
    outcomes[0]
}

const LIMIT: &str = "limit_instruction_accounts";
const REFUSED: Outcome = Outcome::NotCommitted(TransactionError::SanitizeFailure);

#[test]
fn the_table_is_the_cluster_s() {
    let mut theirs: Vec<_> = agave_feature_set::FEATURE_NAMES.keys().map(|key| key.to_bytes()).collect();
    theirs.sort_unstable();
    assert_eq!(all().iter().map(|feature| feature.id).collect::<Vec<_>>(), theirs);
    let mut names: Vec<_> = all().iter().map(|feature| feature.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(table::NOT_ON_MAINNET.iter().all(|name| names.binary_search(name).is_ok()));
    assert!(all().iter().all(|feature| of_id(&feature.id) == Some(feature)));
}

#[test]
fn the_page_has_the_table() {
    let page = include_str!("../../../../../docs/features.md");
    let (_, found) = page.split_once("## Every feature\n\n").expect("the heading");
    for (found, wanted) in found.lines().zip(markdown().lines()) {
        assert_eq!(found, wanted, "docs/features.md differs from features/table.rs");
    }
    assert_eq!(found.lines().count(), markdown().lines().count());
}

#[test]
fn sets_are_checked_by_name() {
    let set = |features: &mut dyn Iterator<Item = &'static Feature>| {
        ActiveFeatures::new(features.map(|feature| (feature.id, 0))).check()
    };
    assert_eq!(set(&mut supported()), Ok(()));
    assert_eq!(set(&mut mainnet()), Ok(()));
    let error =
        set(&mut supported().filter(|feature| feature.name != "bls_pubkey_management_in_vote_account")).unwrap_err();
    assert!(error.to_string().contains("the feature bls_pubkey_management_in_vote_account is not active"), "{error}");
    let alpenglow = [(id("alpenglow"), 17)].into_iter();
    let error = ActiveFeatures::new(supported().map(|feature| (feature.id, 0)).chain(alpenglow)).check().unwrap_err();
    assert!(error.to_string().contains("the feature alpenglow is active from slot 17 on"), "{error}");
}

#[test]
fn accounts_say_since_when() {
    assert_eq!(state_of(&feature_account(None)), Some(None));
    assert_eq!(state_of(&feature_account(Some(258))), Some(Some(258)));
    assert_eq!(feature_account(Some(258)).data(), [1, 2, 1, 0, 0, 0, 0, 0, 0]);
    let of = |owner, data: &[u8]| state_of(&Account::with_data(1, owner, data));
    assert_eq!(of(FEATURE_PROGRAM, &[0; 8]), None, "too short");
    assert_eq!(of(FEATURE_PROGRAM, &[2; 9]), None, "neither");
    assert_eq!(of(FEATURE_PROGRAM, &[0; 12]), Some(None), "more is left alone");
    assert_eq!(of([7; 32], &[0; 9]), None, "another program's");
}

#[test]
fn a_bare_chain_has_all_that_is_supported() {
    let bare = crate::testing::Chain::new(&[]);
    assert_eq!(*bare.ledger.features(), ActiveFeatures::supported());
    assert_eq!(*chain(&[], &[]).features(), ActiveFeatures::supported());
    // Tests make bare chains; a node runs none.
    assert_eq!(chain(&[], &[]).check_features(), Ok(()));
    assert!(matches!(bare.ledger.check_features(), Err(FeatureError::Missing { .. })));
}

#[test]
fn a_pending_feature_becomes_active_at_the_boundary() {
    let ledger = chain(&[LIMIT], &[(id(LIMIT), feature_account(None))]);
    ledger.begin_slot(1, 0).expect("the slot begins");
    // Without the rule it reaches the engine, which this chain lacks.
    assert_eq!(crowded(&ledger), Outcome::Unsupported);
    ledger.end_slot(1, [1; 32]).expect("the slot ends");
    make_slot(&ledger, BOUNDARY - 1, 1);
    assert!(!ledger.features().is_active(&id(LIMIT)));
    ledger.begin_slot(BOUNDARY + 2, BOUNDARY - 1).expect("the slot begins");
    assert_eq!(crowded(&ledger), REFUSED);
    assert_eq!(ledger.features().since(&id(LIMIT)), Some(BOUNDARY + 2));
    assert_eq!(ledger.account(&id(LIMIT)), Some(feature_account(Some(BOUNDARY + 2))));
    ledger.end_slot(BOUNDARY + 2, [3; 32]).expect("the slot ends");
    // A restart reads the same from the accounts.
    assert_eq!(ActiveFeatures::load(ledger.accounts(), BOUNDARY + 2), *ledger.features());
}

#[test]
fn a_feature_with_a_later_slot_waits_for_it() {
    let ledger = chain(&[LIMIT], &[(id(LIMIT), feature_account(Some(BOUNDARY + 1)))]);
    make_slot(&ledger, BOUNDARY, 0);
    assert!(!ledger.features().is_active(&id(LIMIT)));
    make_slot(&ledger, 2 * BOUNDARY, BOUNDARY);
    assert_eq!(ledger.features().since(&id(LIMIT)), Some(BOUNDARY + 1));
}

#[test]
fn a_slot_named_in_advance_changes_no_rent() {
    let name = "set_lamports_per_byte_to_6333";
    let ledger = chain(&[name], &[(id(name), feature_account(Some(5)))]);
    make_slot(&ledger, BOUNDARY, 0);
    assert_eq!(ledger.features().since(&id(name)), Some(5));
    assert_eq!(ledger.features().lamports_per_byte(), 6_960);
}

#[test]
fn an_unsupported_feature_stops_the_chain_at_the_boundary() {
    for name in ["alpenglow", "enable_tx_v1"] {
        let ledger = chain(&[name], &[(id(name), feature_account(None))]);
        assert_eq!(ledger.features().check(), Ok(()));
        make_slot(&ledger, 1, 0);
        let error = ledger.begin_slot(BOUNDARY, 1).err().expect("it is refused");
        assert!(matches!(error, SlotError::Feature { slot: BOUNDARY, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("{name} is active from slot {BOUNDARY} on")), "{text}");
        assert_eq!(ledger.account(&id(name)), Some(feature_account(None)), "nothing has changed");
        assert_eq!(ledger.check_next_slot(), Ok(()), "the next slot is of the same epoch");
        make_slot(&ledger, BOUNDARY - 1, 1);
        let error = ledger.check_next_slot().expect_err("no next slot can begin").to_string();
        assert!(error.contains(&format!("{name} is active from slot {BOUNDARY} on")), "{error}");
    }
}

/// The outcome of a transfer of this much to a new account.
fn fund(ledger: &Ledger, to: u64, lamports: u64) -> Option<TransactionError> {
    let bank = ledger.working_bank().expect("a slot is in progress");
    let transfer = system::transfer(&wallet(0), &wallet(to), lamports);
    let bytes = bytes_of(&wallet(0), &[transfer], bank.parent_blockhash());
    let mut outcomes = vec![];
    bank.execute(&mut Executor::new(), &[parse(&bytes)], &mut outcomes);
    landed(outcomes[0]).err
}

#[test]
fn the_genesis_says_the_rent() {
    for (lamports, threshold, per_byte) in [(3_480, 1.0, 3_480), (3_480, 2.0, 6_960), (20_001, 0.5, 10_000)] {
        let mut extra_accounts = feature_accounts(supported());
        extra_accounts.push((wallet(0), Account::wallet(LAMPORTS_PER_SOL)));
        let development = GenesisConfig::development(IDENTITY, [2; 32], 1_700_000_000);
        let mut config = GenesisConfig { fund_initial_accounts: 0, extra_accounts, ..development };
        config.set_rent(lamports, threshold, 7);
        let genesis = Genesis::create(config, |_| {}).expect("a chain");
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        let rent = ledger.account(&SYSVAR_RENT).expect("a sysvar");
        assert_eq!(rent.data(), [&u64::to_le_bytes(per_byte)[..], &1f64.to_le_bytes(), &[50]].concat());
        assert_eq!(rent.lamports, (128 + 17) * per_byte, "the sysvars hold it");
        ledger.begin_slot(1, 0).expect("the slot begins");
        let too_little = Some(TransactionError::InsufficientFundsForRent { account_index: 1 });
        assert_eq!(fund(&ledger, 1, 128 * per_byte - 1), too_little);
        assert_eq!(fund(&ledger, 1, 128 * per_byte), None);
        assert_eq!(ledger.features().minimum_balance(165), 293 * per_byte);
    }
}

#[test]
fn rent_falls_at_the_boundary() {
    let name = "set_lamports_per_byte_to_6333";
    let ledger = chain(&[name], &[(id(name), feature_account(None))]);
    let rent = || ledger.account(&SYSVAR_RENT).expect("a sysvar").data()[..8].to_vec();
    ledger.begin_slot(1, 0).expect("the slot begins");
    let (before, after) = (128 * 6_960, 128 * 6_333);
    let too_little = Some(TransactionError::InsufficientFundsForRent { account_index: 1 });
    assert_eq!(fund(&ledger, 1, after), too_little);
    assert_eq!(fund(&ledger, 1, before), None);
    assert_eq!(rent(), 6_960u64.to_le_bytes());
    ledger.end_slot(1, [1; 32]).expect("the slot ends");
    ledger.begin_slot(BOUNDARY, 1).expect("the slot begins");
    assert_eq!(fund(&ledger, 2, after - 1), too_little);
    assert_eq!(fund(&ledger, 2, after), None);
    assert_eq!(rent(), 6_333u64.to_le_bytes());
    assert_eq!(ledger.features().minimum_balance(0), after);
    assert_eq!(ActiveFeatures::load(ledger.accounts(), BOUNDARY), *ledger.features(), "a restart finds the rent");
    ledger.rewind(1).expect("it is kept");
    assert_eq!((rent(), ledger.features().minimum_balance(0)), (6_960u64.to_le_bytes().to_vec(), before));
}

#[test]
fn a_program_is_replaced_only_if_the_buffer_is_there() {
    let (name, buffer) = ("upgrade_bpf_stake_program_to_v5", table::BUFFERS[1].1);
    let pending = (id(name), feature_account(None));
    let ledger = chain(&[name], std::slice::from_ref(&pending));
    make_slot(&ledger, BOUNDARY, 0);
    assert!(ledger.features().is_active(&id(name)));
    let ledger = chain(&[name], &[pending, (buffer, Account::wallet(LAMPORTS_PER_SOL))]);
    let error = ledger.begin_slot(BOUNDARY, 0).err().expect("it is refused").to_string();
    assert!(error.contains(name), "{error}");
}

#[test]
fn forks_cross_the_boundary_differently() {
    let ledger = chain(&[LIMIT], &[]);
    make_slot(&ledger, 1, 0);
    // On one fork somebody asks for the feature.
    ledger.begin_slot(2, 1).expect("the slot begins");
    ledger.accounts().store(&id(LIMIT), feature_account(None));
    ledger.end_slot(2, [2; 32]).expect("the slot ends");
    ledger.begin_slot(BOUNDARY, 2).expect("the slot begins");
    assert_eq!(crowded(&ledger), REFUSED);
    ledger.end_slot(BOUNDARY, [3; 32]).expect("the slot ends");
    // On the other nobody does.
    ledger.rewind(1).expect("it is kept");
    assert!(!ledger.features().is_active(&id(LIMIT)));
    ledger.begin_slot(BOUNDARY + 1, 1).expect("the slot begins");
    assert_eq!(crowded(&ledger), Outcome::Unsupported);
    assert_eq!(ledger.account(&id(LIMIT)), None);
    // A slot that was aborted at the boundary leaves nothing either.
    ledger.rewind(1).expect("it is kept");
    ledger.begin_slot(2, 1).expect("the slot begins");
    ledger.accounts().store(&id(LIMIT), feature_account(None));
    ledger.end_slot(2, [4; 32]).expect("the slot ends");
    ledger.begin_slot(BOUNDARY + 2, 2).expect("the slot begins");
    ledger.rewind(2).expect("it is kept");
    assert!(!ledger.features().is_active(&id(LIMIT)));
    assert_eq!(ledger.account(&id(LIMIT)), Some(feature_account(None)));
}

#[test]
fn shreds_follow_one_epoch_later() {
    let schedule = EpochSchedule::without_warmup(BOUNDARY);
    let features = ActiveFeatures::new([(SWITCH_TO_CHACHA8_TURBINE, BOUNDARY)]);
    let applies = |id, epoch| features.applies_to_shreds(id, epoch, &schedule);
    assert_eq!([0, 1, 2, 3].map(|epoch| applies(&SWITCH_TO_CHACHA8_TURBINE, epoch)), [false, false, true, true]);
    assert!(!applies(&VERIFY_RETRANSMITTER_SIGNATURE, 3));
}

#[test]
fn a_builtin_program_comes_with_its_feature() {
    let (program, name) = (gated_programs()[1], "zk_token_sdk_enabled");
    assert_eq!(chain(&[], &[]).account(&program.key), Some(program.account()));
    let ledger = chain(&[name], &[(id(name), feature_account(None))]);
    make_slot(&ledger, 1, 0);
    assert_eq!(ledger.account(&program.key), None);
    make_slot(&ledger, BOUNDARY, 1);
    assert_eq!(ledger.account(&program.key), Some(program.account()));
    ledger.rewind(1).expect("it is kept");
    assert_eq!(ledger.account(&program.key), None);
}
