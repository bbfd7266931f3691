//! Every transaction is counted once, where it ended; every lamport is where it should be.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::genesis::funded_account_key;
use hearth_wire::consts::LAMPORTS_PER_SOL;
use hearth_wire::message::{Instruction, Message};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::system;
use hearth_wire::{Hash, Pubkey};
use serde_json::{Value, json};

use super::client::{Sender, fresh_address, signature_of, transaction, transfer};
use super::fates;
use super::node::{Node, Setup, same, wait_until};

const FEE: u64 = 5000;
/// Half of a signature's fee goes to the node, half is burned.
const FEE_KEPT: u64 = FEE / 2;
const FUNDED: u64 = LAMPORTS_PER_SOL;

/// Valid load: this many senders, each with this many transfers to distinct addresses.
const SENDERS: usize = 32;
const TRANSFERS: usize = 8;
/// The first this many of them are sent twice, and the first this many of these again.
const TWICE: usize = 40;
const THRICE: usize = 5;
/// Copies of the first.
const TWICE_AND_THRICE: u64 = 2;

fn amount(number: usize) -> u64 {
    1_000_000 + number as u64
}

fn good(number: usize, blockhash: &Hash) -> Vec<u8> {
    transfer(&funded_account_key(number % SENDERS), &fresh_address(1, number), amount(number), blockhash)
}

fn many(count: usize, make: impl FnMut(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..count).map(make).collect()
}

/// Transactions that do not parse, each in its own way.
fn malformed(blockhash: &Hash) -> Vec<Vec<u8>> {
    let whole = |number| transfer(&funded_account_key(50), &fresh_address(2, number), 1_000_000, blockhash);
    let cut = [1, 64, 65, 66, 100, 150, 214].map(|len| whole(len)[..len].to_vec());
    let longer = [&whole(1)[..], &[0]].concat();
    let mut unsigned = whole(2);
    unsigned[0] = 0;
    let mut overlong_count = whole(3);
    overlong_count.splice(0..1, [0x81, 0x00]);
    let mut endless_count = whole(4);
    endless_count.splice(0..1, [0xff, 0xff, 0xff]);
    let mut index_too_high = whole(5);
    let program_index = index_too_high.len() - 17;
    index_too_high[program_index] = 3;
    let full_packet = vec![0xa5; 1232];
    let [a, b, c, d, e, f, g] = cut;
    vec![a, b, c, d, e, f, g, longer, unsigned, overlong_count, endless_count, index_too_high, full_packet]
}

fn bad_signature(number: usize, blockhash: &Hash) -> Vec<u8> {
    let mut bytes = transfer(&funded_account_key(51), &fresh_address(3, number), amount(number), blockhash);
    // In turn the signature's point, its scalar, the message.
    let at = [5, 40, bytes.len() - 1][number % 3];
    bytes[at] ^= 1;
    bytes
}

fn with_budget(payer: &SigningKey, requests: &[ComputeBudgetInstruction], number: usize, blockhash: &Hash) -> Vec<u8> {
    let mut instructions: Vec<Instruction> = requests.iter().map(ComputeBudgetInstruction::instruction).collect();
    instructions.push(system::transfer(&payer.public_key(), &fresh_address(4, number), amount(number)));
    transaction(payer, &instructions, blockhash)
}

/// A version 0 transaction that takes an account from a lookup table.
fn with_lookup(payer: &SigningKey, number: usize, blockhash: &Hash) -> Vec<u8> {
    let instruction = system::transfer(&payer.public_key(), &fresh_address(5, number), amount(number));
    let legacy = Message::compile(&payer.public_key(), &[instruction], blockhash).expect("it fits");
    // Version 0, the same message, one table: its address, one writable account (index 0), no read-only one.
    let message = [&[0x80], legacy.bytes(), &[1], &[9; 32], &[1, 0, 0]].concat();
    [&[1][..], &payer.sign(&message), &message].concat()
}

/// Transactions that must not land, by the drop counter that must count them.
fn dropped(blockhash: &Hash, expired: &Hash) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let key = funded_account_key;
    let pay =
        |from: &SigningKey, kind, n, blockhash: &Hash| transfer(from, &fresh_address(kind, n), amount(n), blockhash);
    let to_itself = |n| transfer(&key(56), &key(56).public_key(), amount(n), blockhash);
    let stranger = |n| SigningKey::from_seed(&[100 + n as u8; 32]);
    let limit = ComputeBudgetInstruction::SetComputeUnitLimit(1_000_000);
    let too_dear = [limit, ComputeBudgetInstruction::SetComputeUnitPrice(u64::pow(10, 15))];
    vec![
        ("verify_dropped_malformed", malformed(blockhash)),
        ("verify_dropped_signature", many(24, |n| bad_signature(n, blockhash))),
        ("pack_dropped_expired", many(12, |n| pay(&key(52), 8, n, &[n as u8 + 1; 32]))),
        ("pack_dropped_expired", many(10, |n| pay(&key(53), 9, n, expired))),
        ("bank_dropped_account_not_found", many(9, |n| pay(&stranger(n), 10, n, blockhash))),
        ("bank_dropped_insufficient_funds_for_fee", many(6, |n| with_budget(&key(54), &too_dear, n, blockhash))),
        ("pack_dropped_account_twice", many(7, to_itself)),
        ("pack_dropped_budget", many(5, |n| with_budget(&key(57), &[limit; 2], n, blockhash))),
        ("pack_dropped_lookups", many(4, |n| with_lookup(&key(58), n, blockhash))),
    ]
}

fn wait_until_all_ended(node: &Node, sent: u64) {
    wait_until("every transaction accounted for", || {
        let metrics = node.metrics();
        same(metrics.committed() + metrics.dropped().values().sum::<u64>(), sent)
    });
}

#[test]
fn counts_are_exact() {
    let mut setup = Setup::new("counts");
    // Slots of 100 ms: a blockhash is too old after 15 s.
    setup.with("development.genesis.ticks_per_slot", 16);
    setup.with("development.genesis.fund_initial_amount_lamports", FUNDED as i64);
    let node = setup.start();
    let rpc = node.rpc();
    let early = rpc.latest_blockhash();
    wait_until(
        "a blockhash too old",
        || if rpc.is_blockhash_valid(&early) { Err("still valid".into()) } else { Ok(()) },
    );
    assert_eq!(rpc.transaction_count(), 0);

    let blockhash = rpc.latest_blockhash();
    let landing = many(SENDERS * TRANSFERS, |n| good(n, &blockhash));
    let poor = |n| funded_account_key(32 + n % 8);
    let overdrawn = many(16, |n| transfer(&poor(n), &fresh_address(6, n), FUNDED + n as u64, &blockhash));
    let mean = |n| funded_account_key(40 + n % 2);
    let below_rent = many(4, |n| transfer(&mean(n), &fresh_address(7, n), 1 + n as u64, &blockhash));
    let ends = dropped(&blockhash, &early);

    let mut sender = Sender::connect(node.quic(), 1);
    for transactions in [&landing[..], &overdrawn, &below_rent, &landing[..TWICE], &landing[..THRICE]] {
        sender.send_all(transactions);
    }
    ends.iter().for_each(|(_, transactions)| sender.send_all(transactions));

    let dropped: usize = ends.iter().map(|(_, transactions)| transactions.len()).sum();
    let (landed, failed) = (landing.len(), overdrawn.len() + below_rent.len());
    let sent = (landed + failed + TWICE + THRICE + dropped) as u64;
    assert_eq!(sender.counters().acknowledged, sent);
    wait_until_all_ended(&node, sent);
    let metrics = node.metrics();
    assert_eq!(metrics.total("quic_transactions"), sent);
    assert_eq!(metrics.total("bank_landed"), landed as u64);
    assert_eq!(metrics.total("bank_failed"), failed as u64);
    let mut drops = metrics.dropped();
    assert_eq!(take_repetitions(&mut drops), (TWICE + THRICE) as u64);
    // Pack keeps transactions with an unknown blockhash until the current block ends, so a bank may reject them first.
    let expired = ["pack_dropped_expired", "bank_dropped_blockhash_not_found"];
    let seen: u64 = expired.iter().filter_map(|name| drops.remove(*name)).sum();
    drops.insert(expired[0].to_owned(), seen);
    let mut expected = BTreeMap::new();
    for (name, transactions) in &ends {
        *expected.entry((*name).to_owned()).or_insert(0) += transactions.len() as u64;
    }
    assert_eq!(drops, expected);

    // Only the test's own transactions are counted: no votes or others.
    let committed = (landed + failed) as u64;
    assert_eq!(rpc.transaction_count(), committed);
    wait_until("the count finalized", || same(rpc.call("getTransactionCount", json!([])), json!(committed)));
    balances_are_exact(&node, failed);

    fates::are_told(&setup, &rpc, &ends, (&landing[0], TWICE_AND_THRICE), &overdrawn[0]);
    let of_dropped = [1, 2, 4].map(|kind| &ends[kind].1[0]);
    let samples = [&landing[0], &landing[landed - 1], &overdrawn[3], &below_rent[0]];
    let samples = samples.into_iter().chain(of_dropped).map(|bytes| signature_of(bytes));
    let statuses = rpc.statuses(&samples.collect::<Vec<_>>());
    let errors: Vec<Option<&Value>> = statuses.iter().map(|status| status.get("err")).collect();
    let overdrawn = json!({ "InstructionError": [0, { "Custom": 1 }] });
    let below_rent = json!({ "InsufficientFundsForRent": { "account_index": 1 } });
    let (fine, null) = (Some(&Value::Null), None);
    assert_eq!(errors, [fine, fine, Some(&overdrawn), Some(&below_rent), null, null, null]);
    node.stop();
}

/// Removes duplicates from the drop counts. Which of the two filters sees a duplicate depends on the verify tile that
/// gets it. After a second both filters have forgotten the first copy, which waits in pack or has landed.
fn take_repetitions(drops: &mut BTreeMap<String, u64>) -> u64 {
    let filters = ["verify_dropped_duplicate", "dedup_dropped_duplicate"];
    let behind = ["pack_dropped_duplicate", "bank_dropped_already_processed"];
    filters.into_iter().chain(behind).filter_map(|name| drops.remove(name)).sum()
}

/// Every account that took part, to the lamport.
fn balances_are_exact(node: &Node, failed: usize) {
    let rpc = node.rpc();
    let mut expected: Vec<(Pubkey, u64)> = vec![];
    for sender in 0..SENDERS {
        let paid: u64 = (0..TRANSFERS).map(|k| amount(sender + k * SENDERS) + FEE).sum();
        expected.push((funded_account_key(sender).public_key(), FUNDED - paid));
    }
    expected.extend((0..SENDERS * TRANSFERS).map(|n| (fresh_address(1, n), amount(n))));
    // Two overdrawn, two below the rent minimum: the fee of each is paid, and nothing moves.
    expected.extend((32..42).map(|n| (funded_account_key(n).public_key(), FUNDED - 2 * FEE)));
    expected.extend((42..64).map(|n| (funded_account_key(n).public_key(), FUNDED)));
    expected.extend((2..=10).flat_map(|kind| (0..24).map(move |n| (fresh_address(kind, n), 0))));
    let found: Vec<(Pubkey, u64)> = expected.iter().map(|(address, _)| (*address, rpc.balance(address))).collect();
    assert_eq!(found, expected);
    let fees = (SENDERS * TRANSFERS + failed) as u64 * FEE_KEPT;
    assert_eq!(rpc.balance(&rpc.identity()), 500 * LAMPORTS_PER_SOL + fees);
}

#[test]
fn a_transfer_lands_by_each_way_in() {
    let setup = Setup::new("ways-in");
    let node = setup.start();
    let rpc = node.rpc();
    let blockhash = rpc.latest_blockhash();
    let transfers = many(3, |n| transfer(&funded_account_key(n), &fresh_address(1, n), amount(n), &blockhash));
    Sender::connect(node.quic(), 1).send_all(&transfers[..1]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.send_to(&transfers[1], node.udp()).expect("sent");
    let options = json!({ "encoding": "base58", "skipPreflight": true });
    rpc.call("sendTransaction", json!([bs58::encode(&transfers[2]).into_string(), options]));
    wait_until_all_ended(&node, 3);
    for n in 0..3 {
        assert_eq!(rpc.balance(&fresh_address(1, n)), amount(n));
    }
    assert_eq!(node.metrics().total("quic_udp_received"), 1);
    assert_eq!(node.metrics().dropped(), BTreeMap::new());
    node.stop();
}
