//! Slots on demand: work that needs another slot gets one, and epoch boundaries pass unnoticed.

use std::time::Instant;

use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::rent::minimum_balance;
use hearth_wire::Pubkey;
use hearth_wire::base58::decode_32;
use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::program::system::create_account;
use serde_json::{Value, json};

use super::client::{fresh_address, transaction};
use super::developer::{base64, landed};
use super::node::{Rpc, Setup, same, wait_until};

/// The shortest epochs there are.
const EPOCH: u64 = 32;
/// Bytes of a stake account.
const STAKE_BYTES: usize = 200;

fn slot(rpc: Rpc, commitment: &str) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": commitment }])).as_u64().expect("a slot")
}

/// Waits until the chain stands; gives its slot. A start is work: a chain that is at slot 0 has not begun yet.
fn stands(rpc: Rpc) -> u64 {
    wait_until("the chain to stand", || {
        let now = slot(rpc, "processed");
        same(slot(rpc, "finalized"), now)?;
        same(now > 0, true).map(|()| now)
    })
}

/// A new stake account, delegated.
fn delegation(payer: &Pubkey, stake: &Pubkey, vote: &Pubkey) -> Vec<Instruction> {
    let (reads, writes) = (|key| AccountMeta::readonly(key, false), |key| AccountMeta::writable(key, false));
    let call = |accounts, data| Instruction { program_id: STAKE_PROGRAM, accounts, data };
    let initialize = [&0u32.to_le_bytes()[..], payer, payer, &[0; 48]].concat::<u8>();
    let config = decode_32("StakeConfig11111111111111111111111111111111").expect("an address");
    let accounts = [vote, &SYSVAR_CLOCK, &SYSVAR_STAKE_HISTORY, &config].map(|key| reads(*key));
    let accounts = [&[writes(*stake)][..], &accounts, &[AccountMeta::readonly(*payer, true)]].concat();
    let lamports = minimum_balance(STAKE_BYTES) + LAMPORTS_PER_SOL;
    vec![
        create_account(payer, stake, lamports, STAKE_BYTES as u64, &STAKE_PROGRAM),
        call(vec![writes(*stake), reads(SYSVAR_RENT)], initialize),
        call(accounts, 2u32.to_le_bytes().to_vec()),
    ]
}

/// Stake changes never hit the first block of an epoch, neither in a simulation nor on chain.
#[test]
fn stakes_can_be_delegated_at_any_time() {
    let mut setup = Setup::new("demand-epochs");
    setup.with("consensus.vote", true);
    let node = setup.start_with(&["--slots-on-demand", "--slots-per-epoch", &EPOCH.to_string()]);
    let (rpc, payer) = (node.rpc(), funded_account_key(0));
    let first = stands(rpc);
    // The first vote lands with the next block, so the vote account is not current until then.
    let votes = rpc.call("getVoteAccounts", json!([]));
    let vote = [&votes["current"], &votes["delinquent"]].into_iter().find_map(|some| some[0]["votePubkey"].as_str());
    let vote = decode_32(vote.expect("a vote account")).expect("an address");
    for n in 0.. {
        let at = stands(rpc);
        assert!(![0, EPOCH - 1].contains(&(at % EPOCH)), "an epoch turns at slot {at}");
        if at > first + 2 * EPOCH {
            break;
        }
        let delegate = delegation(&payer.public_key(), &fresh_address(0x57, n), &vote);
        let signed = transaction(&payer, &delegate, &rpc.latest_blockhash());
        let simulated = rpc.call("simulateTransaction", json!([base64(&signed), { "encoding": "base64" }]));
        assert_eq!(simulated["value"]["err"], Value::Null, "after slot {at}: {simulated}");
        // Another transaction lands in the meantime, so that the chain advances.
        let transfer = hearth_wire::program::system::transfer(&payer.public_key(), &fresh_address(0x58, n), 1_000_000);
        let status = landed(rpc, &transaction(&payer, &[transfer], &rpc.latest_blockhash()), "confirmed");
        assert!(status["slot"].as_u64().unwrap() % EPOCH != 0, "the first block of an epoch takes nothing: {status}");
    }
    node.stop();
}

#[test]
fn waiting_for_another_blockhash_starts_a_slot() {
    let mut setup = Setup::new("demand-hash");
    setup.with("consensus.vote", true);
    let node = setup.start_with(&["--slots-on-demand"]);
    let rpc = node.rpc();
    let at = stands(rpc);
    let newest = || rpc.call("getLatestBlockhash", json!([{ "commitment": "finalized" }]))["value"]["blockhash"].take();
    // Once is no reason.
    let before = newest();
    assert_eq!((slot(rpc, "processed"), rpc.is_blockhash_valid(&hash(&before))), (at, true));
    let asked = Instant::now();
    wait_until("another blockhash", || if newest() == before { Err("the same".into()) } else { Ok(()) });
    // Nothing else makes a slot while the chain stands still, and repeated requests make at most one a second.
    let most = at + 2 + asked.elapsed().as_secs();
    let after = stands(rpc);
    assert!(after > at && after <= most, "{at} to {after}, at most {most}");
    node.stop();
}

fn hash(text: &Value) -> [u8; 32] {
    decode_32(text.as_str().expect("a text")).expect("a blockhash")
}

/// A program failure is reported for the coming slot, and makes no slot.
#[test]
fn a_refused_preflight_makes_no_slot() {
    let mut setup = Setup::new("demand-refused");
    setup.with("consensus.vote", true);
    let node = setup.start_with(&["--slots-on-demand"]);
    let (rpc, payer) = (node.rpc(), funded_account_key(0));
    let at = stands(rpc);
    let garbage = Instruction { program_id: STAKE_PROGRAM, accounts: vec![], data: vec![9; 9] };
    let signed = transaction(&payer, &[garbage], &rpc.latest_blockhash());
    let refused = rpc.try_call("sendTransaction", json!([base64(&signed), { "encoding": "base64" }])).unwrap_err();
    assert!(refused.contains("InvalidInstructionData"), "{refused}");
    assert_eq!(slot(rpc, "processed"), at);
    node.stop();
}
