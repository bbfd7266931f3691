//! Repair datagrams of the corpus: each kind of request and of response.

use ed25519_dalek::Signer;
use hearth_wire::gossip::{Ping, Pong};
use hearth_wire::repair::*;
use hearth_wire::shred::{DATA_SHRED_SIZE, ShredKind, flags_for};

use super::{address, key, noise, shred};

/// A request of key 1 to key 2.
fn request(wanted: RequestContent) -> Vec<u8> {
    let (sender, recipient) = (address(1), address(2));
    let mut bytes = Request { sender, recipient, time_ms: 1_700_000_000_000, nonce: 77, wanted }.write();
    let signature = key(1).sign(&signed_bytes(&bytes)).to_bytes();
    set_signature(&mut bytes, &signature);
    bytes
}

/// The datagrams, by name.
pub fn datagrams() -> Vec<(&'static str, Vec<u8>)> {
    let mut token = [0; 32];
    noise(7, &mut token[..8]);
    let ping = Ping { from: address(2), token, signature: key(2).sign(&token).to_bytes() };
    let pong = Pong { from: address(1), hash: [0xb1; 32], signature: key(1).sign(&[0xb1; 32]).to_bytes() };
    let answer = [&shred(ShredKind::Data, 3, false, &[5; 400], flags_for(9, false, false))[..], &77u32.to_le_bytes()];
    assert_eq!(answer[0].len(), DATA_SHRED_SIZE);
    let ancestors = |count: u64| AncestorHashes::Hashes((0..count).map(|n| (99 - n, [n as u8; 32])).collect(), 77);
    vec![
        ("shred", request(RequestContent::Shred { slot: 77, index: 67 })),
        ("highest", request(RequestContent::Highest { slot: 77, from: 64 })),
        ("orphan", request(RequestContent::Orphan { slot: 77 })),
        ("ancestors", request(RequestContent::Ancestors { slot: 77 })),
        ("pong", write_pong(&pong)),
        ("ping", write_ping(&ping)),
        ("answer-shred", answer.concat()),
        ("answer-ancestors", ancestors(ANCESTORS_MAX as u64).write()),
        ("answer-no-ancestors", ancestors(0).write()),
        ("answer-ancestors-ping", AncestorHashes::Ping(ping).write()),
    ]
}
