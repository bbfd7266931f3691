//! Small formats on the wire: votes in transactions, the IP echo, base58.
//!
//! reads   arbitrary bytes
//! writes  nothing; panics if a property does not hold

use std::hint::black_box;

use hearth_wire::base58::{decode_32, decode_64, encode_32, encode_64};
use hearth_wire::gossip::ip_echo::{IpEchoAnswer, IpEchoRequest};
use hearth_wire::vote::{is_vote, is_vote_message_by, voted_for};
use hearth_wire::{Txn, compact};

/// A transaction that may be a vote.
pub fn vote(input: &[u8]) {
    let Ok(txn) = Txn::parse(input) else { return };
    let target = voted_for(&txn);
    assert!(target.is_none() || is_vote(&txn));
    if let Some(target) = target {
        assert!(txn.account_keys().contains(&target.account));
    }
    let keys = txn.account_keys();
    let (node, other) = (&keys[0], &keys[keys.len() - 1]);
    black_box(is_vote_message_by(txn.message(), node, node, other));
    black_box(is_vote_message_by(txn.message(), node, other, other));
    black_box(is_vote_message_by(input, node, node, node));
}

/// A request to an IP echo server, or its answer.
pub fn ip_echo(input: &[u8]) {
    if let Ok(request) = IpEchoRequest::parse(input) {
        assert_eq!(&request.bytes()[..], input);
    }
    if let Ok(answer) = IpEchoAnswer::parse(input) {
        assert_eq!(IpEchoAnswer::parse(&answer.bytes()), Ok(answer));
    }
}

/// The text of an address or a signature, and the number before a list.
pub fn text_and_numbers(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        if let Ok(address) = decode_32(text) {
            assert_eq!(encode_32(&address).to_string(), text);
        }
        if let Ok(signature) = decode_64(text) {
            assert_eq!(encode_64(&signature).to_string(), text);
        }
    }
    if let Some(address) = input.first_chunk::<32>() {
        assert_eq!(decode_32(&encode_32(address).to_string()).as_ref(), Ok(address));
    }
    for at in 0..input.len().min(4) {
        if let Ok((value, end)) = compact::read(input, at) {
            let mut written = Vec::new();
            compact::write(value, &mut written);
            assert_eq!(input[at..end], written);
        }
    }
}
