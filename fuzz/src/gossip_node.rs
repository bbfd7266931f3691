//! A gossip node among hostile ones: everything that [`Gossip::receive`] does with a datagram.
//!
//! reads   an input of [`pieces`]: a byte that chooses what happens, and a message
//! writes  nothing; panics if a property does not hold
//! memory  the node's tables after at most [`STEPS_MAX`] messages
//!
//! Signatures stop a mutation at the first check, so the target signs: a value in the input has 32 equal bytes, a
//! number from 1 to [`NODES`], where a key belongs, and becomes one of that node, with its signature.

use std::net::SocketAddrV4;

use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::{Config, Gossip, Outbox, Sizes, pong_hash};
use hearth_wire::gossip::{
    BloomFilter, Carrier, ContactInfo, Pong, Protocol, SocketKind, Version, write_pong, write_pull_request,
    write_values_header,
};
use hearth_wire::{PACKET_DATA_SIZE, Pubkey};

use crate::pieces::pieces;

/// When the run begins, in Unix milliseconds.
const START: u64 = 1_700_000_000_000;
/// The shred version of the node.
const SHRED_VERSION: u16 = 0x5a5a;
/// Other nodes, numbered from 1.
const NODES: u8 = 3;
/// Messages of an input that are looked at.
const STEPS_MAX: usize = 48;
/// Values of a datagram.
const VALUES_MAX: u64 = 10;

fn key(node: u8) -> SigningKey {
    SigningKey::from_seed(&[node; 32])
}

fn identity(node: u8) -> Pubkey {
    key(node).public_key()
}

fn address(node: u8) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, 0, node + 1].into(), 8_000)
}

/// Steps of a node: datagrams as they are, signed values, answers to its pings, and time that passes.
pub fn gossip_node(input: &[u8]) {
    let version = Version { major: 4, minor: 2, patch: 2, client: 8, ..Version::default() };
    let own = ContactInfo::new(identity(0), START * 1_000, SHRED_VERSION, version)
        .with(SocketKind::Gossip, address(0))
        .with(SocketKind::Tvu, address(0));
    let config = Config { allow_private: true, verifier_bytes_max: 0, ..Config::default() };
    let (mut gossip, mut out, mut now) = (Gossip::new(config, own, [7; 32], START), Outbox::default(), START);
    for piece in pieces(input).take(STEPS_MAX) {
        let Some((step, message)) = piece.split_first() else { continue };
        let sender = 1 + (step & 0x0f) % NODES;
        let datagram = match step >> 4 {
            0..8 => message.to_vec(),
            8 | 9 => values(sender, Carrier::Push, message),
            10 => values(sender, Carrier::PullResponse, message),
            11 => pull_request(sender, message),
            12 => match pong(sender, &out) {
                Some(pong) => pong,
                None => continue,
            },
            _ => {
                let passed = message.first_chunk().map_or(500, |ms| u64::from(u16::from_le_bytes(*ms)));
                now += passed;
                Vec::new()
            }
        };
        out.clear();
        gossip.receive(now, address(sender).into(), &datagram, &mut out);
        gossip.tick(now, &mut out);
        gossip.sign_with(now, &key(0), &mut out);
        check(&out, &gossip.sizes());
        while gossip.next_event().is_some() {}
    }
}

/// Checks that what the node sends is well formed, and what it keeps is at most what came and its own.
fn check(out: &Outbox, sizes: &Sizes) {
    for (to, datagram) in out.iter() {
        assert!(datagram.len() <= PACKET_DATA_SIZE && to.port() != 0);
        assert!(Protocol::parse(datagram).is_ok(), "{datagram:?}");
    }
    let most = (STEPS_MAX as u64 + 1) * VALUES_MAX;
    assert!(sizes.values as u64 <= most && sizes.nodes as u64 <= most);
    assert!(sizes.value_bytes <= sizes.values * PACKET_DATA_SIZE);
}

/// The data with the keys of the nodes in place of their numbers.
fn with_keys(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    let mut at = 0;
    while let Some(place) = data.get_mut(at..at + 32) {
        let number = place[0];
        if (1..=NODES).contains(&number) && place.iter().all(|byte| *byte == number) {
            place.copy_from_slice(&identity(number));
            at += 32;
        } else {
            at += 1;
        }
    }
    data
}

/// A value of the sender: its signature, and the data.
fn signed(sender: u8, data: &[u8]) -> Vec<u8> {
    let data = with_keys(data);
    [&key(sender).sign(&data)[..], &data].concat()
}

/// A datagram of the values in a message of [`pieces`].
fn values(sender: u8, carrier: Carrier, message: &[u8]) -> Vec<u8> {
    let values: Vec<Vec<u8>> = pieces(message).map(|data| signed(sender, data)).collect();
    let mut datagram = Vec::new();
    write_values_header(carrier, &identity(sender), values.len() as u64, &mut datagram);
    datagram.extend(values.concat());
    datagram
}

/// A pull request whose caller is the value with this data.
fn pull_request(sender: u8, data: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    write_pull_request(&BloomFilter::new(64, vec![1]), 0, 6, &signed(sender, data), &mut datagram);
    datagram
}

/// The sender's answer to the last ping.
fn pong(sender: u8, out: &Outbox) -> Option<Vec<u8>> {
    let tokens = out.iter().filter_map(|(_, bytes)| match Protocol::parse(bytes) {
        Ok(Protocol::Ping(ping)) => Some(ping.token),
        _ => None,
    });
    let hash = pong_hash(&tokens.last()?);
    let mut datagram = Vec::new();
    write_pong(&Pong { from: identity(sender), hash, signature: key(sender).sign(&hash) }, &mut datagram);
    Some(datagram)
}
