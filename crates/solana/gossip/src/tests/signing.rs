//! A node whose key is elsewhere: signatures arrive later, or never.

use hearth_crypto::ed25519::verify_strict;
use hearth_wire::gossip::{CrdsData, CrdsKind, Ping, Protocol, write_ping};

use super::network::{address, config, contact, identity, key};
use super::spread::vote;
use super::*;
use crate::config::{ANSWER_REQUESTS_MAX, REQUESTS_MAX, SIGN_MS};

/// A node that has not published anything yet.
fn alone() -> (Gossip, Outbox) {
    (Gossip::new(config(&[]), contact(0, START), [7; 32], START), Outbox::default())
}

/// A ping of node 1.
fn ping(token: [u8; 32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_ping(&Ping { from: identity(1), token, signature: key(1).sign(&token) }, &mut bytes);
    bytes
}

/// The slots of all own votes, in the order in which they were signed.
fn slots(gossip: &Gossip) -> Vec<u64> {
    let votes = gossip.values(CrdsKind::Vote, &mut Cursor::default());
    votes.filter_map(|value| if let CrdsData::Vote(vote) = value.data() { vote.slot } else { None }).collect()
}

#[test]
fn nothing_is_published_before_it_is_signed() {
    let (mut gossip, mut out) = alone();
    gossip.tick(START, &mut out);
    gossip.publish_vote(&vote(200), START).unwrap();
    gossip.receive(START, address(1).into(), &ping([9; 32]), &mut out);
    assert!(out.is_empty() && gossip.sizes().values == 0);
    let requests: Vec<SignRequest> = std::iter::from_fn(|| gossip.next_request()).collect();
    let kinds: Vec<SignKind> = requests.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [SignKind::Value, SignKind::Value, SignKind::Pong]);
    assert_eq!((gossip.requests_in_flight(), gossip.sizes().unsigned), (3, 3));
    // In a different order than requested, and one with an unknown tag.
    for request in requests.iter().rev() {
        gossip.signed(START, request.tag, &request.sign(&key(0)), &mut out);
    }
    gossip.signed(START, 77, &[0; 64], &mut out);
    assert_eq!((gossip.requests_in_flight(), gossip.sizes().unsigned), (0, 0));
    let Some((to, bytes)) = out.iter().next() else { panic!("a pong") };
    let Ok(Protocol::Pong(pong)) = Protocol::parse(bytes) else { panic!("another message") };
    assert_eq!((to, pong.from, pong.hash), (address(1), identity(0), pong_hash(&[9; 32])));
    assert!(verify_strict(&identity(0), &pong.signature, &pong.hash).is_ok());
    assert_eq!(slots(&gossip), [200]);
    for value in gossip.values(CrdsKind::Vote, &mut Cursor::default()) {
        assert!(verify_strict(&identity(0), value.signature(), value.signed()).is_ok());
    }
    assert!(gossip.contact_info(&identity(0)).is_some());
}

#[test]
fn unsigned_values_are_replaced_as_signed_ones_are() {
    let (mut gossip, mut out) = alone();
    (200..215).for_each(|slot| gossip.publish_vote(&vote(slot), START).unwrap());
    gossip.publish_vote(&vote(214), START).unwrap();
    (0..2).for_each(|_| gossip.publish_duplicate(5, [&[1; 1_203], &[2; 1_203]], START).unwrap());
    assert_eq!(gossip.sizes().unsigned, 16 + 3, "a proof is pushed once");
    gossip.sign_with(START, &key(0), &mut out);
    assert_eq!(slots(&gossip), (203..215).collect::<Vec<u64>>(), "twelve, the last of them pushed twice");
}

#[test]
fn a_signature_that_does_not_come_is_counted() {
    let (mut gossip, mut out) = alone();
    gossip.publish_vote(&vote(200), START).unwrap();
    let late = gossip.next_request().expect("a vote");
    gossip.publish_vote(&vote(201), START + 1).unwrap();
    gossip.tick(START + SIGN_MS, &mut out);
    assert_eq!((gossip.counters().unsigned_late, gossip.requests_in_flight()), (1, 1), "its answer is still to come");
    gossip.signed(START + SIGN_MS, late.tag, &late.sign(&key(0)), &mut out);
    assert_eq!(gossip.requests_in_flight(), 0);
    gossip.sign_with(START + SIGN_MS, &key(0), &mut out);
    assert_eq!(slots(&gossip), [201], "the one that came too late is not said");
    assert!(gossip.contact_info(&identity(0)).is_some(), "the next contact info is");
}

#[test]
fn only_an_answer_frees_a_place() {
    let (mut gossip, mut out) = alone();
    gossip.publish_vote(&vote(200), START).unwrap();
    let late = gossip.next_request().expect("a vote");
    // The clock is set forward by an hour, and back.
    gossip.tick(START + 3_600_000, &mut out);
    gossip.tick(START, &mut out);
    assert_eq!(gossip.counters().clock_set_back, 1);
    assert_eq!(gossip.counters().unsigned_late, 1);
    assert_eq!(gossip.requests_in_flight(), 1, "its answer is still to come");
    gossip.signed(START, late.tag, &late.sign(&key(0)), &mut out);
    assert_eq!(gossip.requests_in_flight(), 0);
}

#[test]
fn refused_request_is_unreported_and_frees_its_place() {
    let (mut gossip, mut out) = alone();
    (200..202).for_each(|slot| gossip.publish_vote(&vote(slot), START).unwrap());
    let refused = gossip.next_request().expect("a vote");
    let other = gossip.next_request().expect("another vote");
    gossip.refused(refused.tag);
    assert_eq!(gossip.requests_in_flight(), 1);
    gossip.refused(refused.tag);
    assert_eq!(gossip.requests_in_flight(), 1, "a second answer frees no place of another request");
    gossip.signed(START, other.tag, &other.sign(&key(0)), &mut out);
    assert_eq!(gossip.requests_in_flight(), 0);
    assert_eq!(gossip.sizes().unsigned, 0);
    assert_eq!(slots(&gossip), [201]);
    assert_eq!(gossip.counters().unsigned_late, 0);
}

#[test]
fn pings_leave_room_for_own_values() {
    let (mut gossip, mut out) = alone();
    let asked = ping([9; 32]);
    (0..REQUESTS_MAX).for_each(|_| gossip.receive(START, address(1).into(), &asked, &mut out));
    let lost = (REQUESTS_MAX - ANSWER_REQUESTS_MAX) as u64;
    assert_eq!((gossip.sizes().unsigned, gossip.counters().unsigned_full), (ANSWER_REQUESTS_MAX, lost));
    for slot in 200..200 + lost {
        gossip.publish_vote(&vote(slot), START).unwrap();
    }
    assert_eq!((gossip.sizes().unsigned, gossip.counters().unsigned_full), (REQUESTS_MAX, lost));
    gossip.publish_vote(&vote(600), START).unwrap();
    assert_eq!(gossip.counters().unsigned_full, lost + 1);
}
