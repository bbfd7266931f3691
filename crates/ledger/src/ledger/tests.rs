//! The life of slots, the fees' way, and what clients see of it.

use hearth_wire::consts::LAMPORTS_PER_SOL;
use hearth_wire::program::compute_budget::ComputeBudgetInstruction::{SetComputeUnitLimit, SetComputeUnitPrice};
use hearth_wire::program::system;

use super::*;
use crate::account::Account;
use crate::testing::{Chain, IDENTITY, landed, parse, wallet};
use crate::view::{Commitment, SignatureStatus};
use crate::{InstructionError, TransactionError};

const RICH: u64 = 10 * LAMPORTS_PER_SOL;

#[test]
fn slots_follow_one_another() {
    let chain = Chain::new(&[]);
    let ledger = &chain.ledger;
    assert_eq!(ledger.begin_slot(2, 1).err(), Some(SlotError::Unfinished(1)));
    assert_eq!(ledger.end_slot(2, [2; 32]), Err(SlotError::NotBegun(2)));
    assert!(ledger.bank(1).is_some() && ledger.bank(2).is_none());
    let block = ledger.end_slot(1, [1; 32]).unwrap();
    assert_eq!((block.slot, block.parent, block.height, block.blockhash), (1, 0, 1, [1; 32]));
    assert_eq!(ledger.end_slot(1, [1; 32]), Err(SlotError::NotBegun(1)));
    assert!(ledger.working_bank().is_none());
    let wrong = |slot, parent| Some(SlotError::WrongParent { slot, parent, last: 1 });
    assert_eq!(ledger.begin_slot(2, 0).err(), wrong(2, 0));
    assert_eq!(ledger.begin_slot(1, 1).err(), wrong(1, 1));
    // Slots may be left out; heights count blocks.
    let bank = ledger.begin_slot(9, 1).unwrap();
    assert_eq!((bank.slot(), bank.parent(), bank.height(), bank.parent_blockhash()), (9, 1, 2, &[1; 32]));
}

#[test]
fn fees_are_halved_and_priority_is_not() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let total = chain.total_lamports();
    chain.ledger.accounts().store(&IDENTITY, Account::wallet(1_000_000));
    let priority = [SetComputeUnitPrice(1_000_000).instruction(), SetComputeUnitLimit(777).instruction()];
    let transfer = system::transfer(&wallet(0), &wallet(1), 1);
    landed(chain.run_one(&wallet(0), &[priority[0].clone(), priority[1].clone(), transfer]));
    landed(chain.run_one(&wallet(1), &[system::transfer(&wallet(1), &wallet(0), 2 * RICH)]));
    chain.next_slot();
    assert_eq!(chain.ledger.burned_lamports(), 5_000);
    assert_eq!(chain.ledger.balance(&IDENTITY), 1_000_000 + 5_000 + 777);
    assert_eq!(chain.total_lamports(), total + 1_000_000);
}

#[test]
fn fees_that_nobody_can_take_are_burned() {
    let mut chain = Chain::new(&[RICH]);
    let total = chain.total_lamports();
    // Too few to begin an account with.
    landed(chain.run_one(&wallet(0), &[]));
    chain.next_slot();
    assert_eq!((chain.ledger.burned_lamports(), chain.ledger.balance(&IDENTITY)), (5_000, 0));
    // Not an account that may collect.
    chain.ledger.accounts().store(&IDENTITY, Account::with_data(5, [9; 32], b"x"));
    landed(chain.run_one(&wallet(0), &[]));
    chain.next_slot();
    assert_eq!((chain.ledger.burned_lamports(), chain.ledger.balance(&IDENTITY)), (10_000, 5));
    assert_eq!(chain.total_lamports(), total + 5);
}

#[test]
fn statuses_grow_surer() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let good = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(1), 1)]);
    let bad = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(1), 2 * RICH)]);
    let refused = chain.txn(&wallet(9), &[]);
    chain.run(&[good.clone(), bad.clone(), refused.clone()]);
    let signature = |bytes: &[u8]| *parse(bytes).first_signature();
    let status = |chain: &Chain, bytes: &[u8]| chain.ledger.signature_status(&signature(bytes));
    let processed =
        SignatureStatus { slot: 1, result: Ok(()), confirmations: Some(0), commitment: Commitment::Processed };
    assert_eq!(status(&chain, &good), Some(processed));
    let error = TransactionError::InstructionError(0, InstructionError::Custom(1));
    assert_eq!(status(&chain, &bad), Some(SignatureStatus { result: Err(error), ..processed }));
    assert_eq!(status(&chain, &refused), None);
    chain.next_slot();
    assert_eq!(status(&chain, &good), Some(SignatureStatus { confirmations: Some(1), ..processed }));
    chain.ledger.mark_stored(1);
    let confirmed = SignatureStatus { confirmations: Some(1), commitment: Commitment::Confirmed, ..processed };
    assert_eq!(status(&chain, &good), Some(confirmed));
    for slot in 2..=33 {
        assert_eq!(status(&chain, &good).unwrap().commitment, Commitment::Confirmed, "at {slot}");
        chain.next_slot();
        chain.ledger.mark_stored(slot);
    }
    let last = SignatureStatus { confirmations: None, commitment: Commitment::Finalized, ..processed };
    assert_eq!(status(&chain, &good), Some(last));
}

#[test]
fn heights_and_blockhashes_by_commitment() {
    use Commitment::*;
    let mut chain = Chain::new(&[RICH]);
    let heights = |chain: &Chain| [Processed, Confirmed, Finalized].map(|level| chain.ledger.block_height(level));
    let genesis = *chain.ledger.genesis_hash();
    assert_eq!(heights(&chain), [1, 0, 0]);
    let latest = chain.ledger.latest_blockhash(Processed);
    assert_eq!((latest.slot, latest.blockhash, latest.last_valid_block_height), (1, genesis, 151));
    landed(chain.run_one(&wallet(0), &[]));
    let counts = |chain: &Chain| [Processed, Confirmed].map(|level| chain.ledger.transaction_count(level));
    assert_eq!(counts(&chain), [1, 0], "processed is seen at once");
    for slot in 1..=40 {
        chain.next_slot();
        chain.ledger.mark_stored(slot - u64::from(slot > 1));
    }
    assert_eq!((heights(&chain), counts(&chain)), ([41, 39, 7], [1, 1]));
    let blocks = chain.ledger.recent_blocks(100);
    assert_eq!((blocks.len(), blocks[0].height), (41, 40));
    for (level, height) in [(Processed, 40), (Confirmed, 39), (Finalized, 7)] {
        let latest = chain.ledger.latest_blockhash(level);
        let block = blocks.iter().find(|block| block.height == height).unwrap();
        assert_eq!((latest.blockhash, latest.last_valid_block_height), (block.blockhash, height + 151));
    }
    assert!(chain.ledger.is_blockhash_valid(&genesis) && !chain.ledger.is_blockhash_valid(&[9; 32]));
    // A promise of durability beyond the chain's end is taken when the chain gets there.
    chain.ledger.mark_stored(1_000);
    assert_eq!(heights(&chain)[1], 40);
}

#[test]
fn a_transaction_lands_until_the_height_that_was_told() {
    let mut chain = Chain::new(&[RICH]);
    let latest = chain.ledger.latest_blockhash(Commitment::Processed);
    let early = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(0), 1)]);
    let late = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(0), 2)]);
    while chain.bank.height() < latest.last_valid_block_height {
        chain.next_slot();
    }
    assert!(chain.run(&[early])[0].is_committed());
    chain.next_slot();
    assert!(!chain.run(&[late])[0].is_committed());
}
