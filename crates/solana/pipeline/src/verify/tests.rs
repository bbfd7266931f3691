//! Tile tests: good and bad transactions in, the good ones out, the rest counted.

use std::sync::Arc;
use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::builders;
use hearth_ledger::drop_log::DropTable;
use hearth_tile::rig::Rig;

use super::*;

fn transfer(lamports: u64) -> Vec<u8> {
    builders::transfer(&SigningKey::from_seed(&[1; 32]), &[2; 32], lamports, &[0; 32])
}

fn rig() -> Rig<Verify> {
    rig_that_tells(DropLog::default())
}

fn rig_that_tells(drops: DropLog) -> Rig<Verify> {
    let config = Config { history: 1024, table_bytes: 1 << 20, tag_key: 7, drops };
    Rig::new(config, &["quic_verify:0"], &["verify_dedup:0"])
}

#[test]
fn good_transactions_pass_with_their_tag() {
    let mut rig = rig();
    let given: Vec<Vec<u8>> = (0..100).map(transfer).collect();
    for bytes in &given {
        rig.give("quic_verify:0", 0, bytes);
    }
    rig.run();
    let taken = rig.take("verify_dedup:0");
    assert_eq!(taken.len(), 100);
    for ((tag, bytes), expected) in taken.iter().zip(&given) {
        assert_eq!(bytes, expected);
        assert_eq!(*tag, hash64(7, Txn::parse(bytes).unwrap().first_signature()));
    }
    assert_eq!((rig.count().forwarded, rig.count().signatures), (100, 100));
}

#[test]
fn each_drop_is_counted() {
    let mut rig = rig();
    let good = transfer(1);
    let mut forged = transfer(2);
    forged[10] ^= 1;
    rig.give("quic_verify:0", 0, &good);
    rig.give("quic_verify:0", 0, &forged);
    rig.give("quic_verify:0", 0, &good); // again, in the same burst
    rig.run();
    rig.give("quic_verify:0", 0, &good); // and later
    rig.give("quic_verify:0", 0, &good[..100]);
    rig.give("quic_verify:0", 0, b"");
    rig.run();
    assert_eq!(rig.take("verify_dedup:0").len(), 1);
    let count = *rig.count();
    let expected = Counters {
        forwarded: 1,
        signatures: 3,
        signatures_ns: count.signatures_ns,
        dropped_malformed: 2,
        dropped_duplicate: 2,
        dropped_signature: 1,
    };
    assert_eq!(count, expected);
}

#[test]
fn each_drop_is_reported_under_its_signature() {
    let fates = Arc::new(DropTable::new(100, 7));
    let mut rig = rig_that_tells(DropLog::new(fates.clone()));
    let (good, malformed, mut forged) = (transfer(1), &transfer(2)[..100], transfer(3));
    forged[10] ^= 1;
    for bytes in [&good[..], &good, malformed, &forged] {
        rig.give("quic_verify:0", 0, bytes);
    }
    rig.run();
    let fate = |bytes: &[u8]| fates.of(bytes[1..65].try_into().unwrap()).unwrap();
    assert_eq!((fate(&good).dropped, fate(&good).duplicate), (None, Some(DropReason::VerifyDuplicate)));
    assert_eq!(fate(malformed).dropped.unwrap().reason, DropReason::VerifyMalformed);
    assert_eq!(fate(&forged).dropped.unwrap().reason, DropReason::VerifySignature);
    rig.give("quic_verify:0", 0, &good);
    rig.run();
    assert_eq!(fate(&good).duplicates, 2);
}

#[test]
fn resent_transaction_passes() {
    let mut rig = rig();
    let good = transfer(1);
    for control in [0, AGAIN, 0, AGAIN] {
        rig.give_control("quic_verify:0", 0, control, &good);
        rig.run();
        rig.advance(Duration::from_nanos(HOLD_NS));
    }
    assert_eq!(rig.take("verify_dedup:0").len(), 3);
    assert_eq!((rig.count().forwarded, rig.count().dropped_duplicate), (3, 1));
}

#[test]
fn duplicate_passes_after_two_seconds() {
    let mut rig = rig();
    let good = transfer(1);
    rig.give("quic_verify:0", 0, &good);
    // An idle tile wakes this often.
    for _ in 0..40 {
        rig.run();
        rig.advance(Duration::from_millis(50));
    }
    rig.give("quic_verify:0", 0, &good);
    rig.run();
    assert_eq!((rig.count().forwarded, rig.count().dropped_duplicate), (2, 0));
}

#[test]
fn a_forged_copy_does_not_displace_the_original() {
    let mut rig = rig();
    let good = transfer(1);
    // The same first signature, hence the same tag; another message, so the signature is wrong.
    let mut copy = good.clone();
    *copy.last_mut().unwrap() ^= 1;
    rig.give("quic_verify:0", 0, &copy);
    rig.run();
    rig.advance(Duration::from_nanos(HOLD_NS));
    rig.give("quic_verify:0", 0, &good);
    rig.run();
    assert_eq!(rig.take("verify_dedup:0").len(), 1);
    assert_eq!(rig.count().dropped_signature, 1);
}

/// Gives transfers of these amounts, runs the tile, and returns how many went on.
fn passed(rig: &mut Rig<Verify>, amounts: std::ops::Range<u64>) -> usize {
    amounts.for_each(|lamports| rig.give("quic_verify:0", 0, &transfer(lamports)));
    rig.run();
    rig.take("verify_dedup:0").len()
}

#[test]
fn transactions_of_a_slow_stream_wait_for_each_other() {
    let mut rig = rig();
    let most = Duration::from_nanos(HOLD_NS);
    assert_eq!(passed(&mut rig, 0..1), 1, "the first does not wait");
    rig.advance(most * 2 / 3);
    assert_eq!(passed(&mut rig, 1..2), 0);
    assert_eq!(rig.waits_for().deadline, Some(rig.clock().now() + HOLD_NS));
    rig.advance(most * 2 / 3);
    assert_eq!(passed(&mut rig, 2..3), 2, "the next takes it along");
    assert_eq!(rig.waits_for().deadline, None);
    rig.advance(most / 3);
    assert_eq!(passed(&mut rig, 3..4), 0);
    rig.advance(most);
    assert_eq!(passed(&mut rig, 4..4), 1, "without a next it goes alone");
    rig.advance(most);
    assert_eq!(passed(&mut rig, 4..5), 1, "after a pause none waits");
    assert_eq!(passed(&mut rig, 5..6), 0);
    rig.stop();
    assert_eq!(rig.take("verify_dedup:0").len(), 1, "none is lost at the end");
}

#[test]
fn transactions_of_a_fast_stream_do_not_wait() {
    let mut rig = rig();
    assert_eq!(passed(&mut rig, 0..1), 1);
    let few = FULL as u64 - 1;
    assert_eq!(passed(&mut rig, 1..1 + few), 0);
    assert_eq!(passed(&mut rig, 100..101), FULL, "a full burst");
    assert_eq!(passed(&mut rig, 101..102), 1, "and those that follow soon");
    rig.advance(Duration::from_nanos(FAST_NS));
    assert_eq!(passed(&mut rig, 102..103), 1);
    // More than a burst holds, together with those that wait.
    assert_eq!(passed(&mut rig, 200..200 + few), 0);
    assert_eq!(passed(&mut rig, 300..340), few as usize + 40);
}

/// Pack would hold them up once more: it sends on what the other tiles pass meanwhile.
#[test]
fn transactions_for_several_tiles_do_not_wait() {
    let mut rig = rig();
    assert!(rig.tile().holds, "alone it does");
    rig.tile().holds = false;
    for n in 0..3 {
        assert_eq!((passed(&mut rig, n..n + 1), rig.waits_for().deadline), (1, None));
    }
}

#[test]
fn nothing_is_lost_while_dedup_does_not_read() {
    let mut rig = rig();
    let given: Vec<Vec<u8>> = (0..500).map(transfer).collect();
    let mut taken = vec![];
    for half in given.chunks(250) {
        half.iter().for_each(|bytes| rig.give("quic_verify:0", 0, bytes));
        // The tile requires room for a whole burst, so the link is never quite filled, nor overfilled.
        rig.run();
        assert!(rig.count().forwarded as usize - taken.len() <= hearth_tile::rig::DEPTH as usize);
        while taken.len() < given.len() {
            let new = rig.take("verify_dedup:0");
            if new.is_empty() {
                break;
            }
            taken.extend(new.into_iter().map(|(_, bytes)| bytes));
            rig.run();
        }
    }
    assert_eq!(taken, given);
}

/// Every signature of a transaction is verified, not only the first.
#[test]
fn each_of_several_signatures_must_be_good() {
    let keys: Vec<SigningKey> = (1..=3).map(|n| SigningKey::from_seed(&[n; 32])).collect();
    // Header: three signers, one read-only program; its key; a blockhash; one instruction without accounts or data.
    let mut message = vec![3, 0, 1, 4];
    keys.iter().for_each(|key| message.extend(key.public_key()));
    message.extend([9; 32]);
    message.extend([8; 32]);
    message.extend([1, 3, 0, 0]);
    let signed = |wrong: Option<usize>| {
        let mut bytes = vec![3];
        for (i, key) in keys.iter().enumerate() {
            let mut signature = key.sign(&message);
            signature[40] ^= u8::from(wrong == Some(i));
            bytes.extend(signature);
        }
        [bytes, message.clone()].concat()
    };
    let mut rig = rig();
    for wrong in [Some(0), Some(1), Some(2), None] {
        rig.give("quic_verify:0", 0, &signed(wrong));
    }
    rig.run();
    let taken = rig.take("verify_dedup:0");
    assert_eq!(taken.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), [signed(None)]);
    assert_eq!((rig.count().signatures, rig.count().dropped_signature, rig.count().forwarded), (12, 3, 1));
}
