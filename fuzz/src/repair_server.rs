//! The repair server: requests and pongs as they come from a socket, and what is sent for them.
//!
//! reads   an input of [`pieces`]: a byte that chooses what happens, and a message
//! writes  a small block store in the folder for temporary files; panics if a property does not hold
//! memory  the server's tables after at most [`STEPS_MAX`] messages

use std::net::SocketAddr;
use std::sync::OnceLock;

use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::pong_hash;
use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord, Reader, SyncPolicy};
use hearth_pipeline::rserve::{Config, Counters, PingDraft, Reply, Server};
use hearth_pipeline::shred::{FecSet, Shredder, ShredderConfig};
use hearth_wire::entry::write_entry;
use hearth_wire::gossip::{Ping, Pong};
use hearth_wire::repair::{self, AncestorHashes, Answer, RepairDatagram, Request, RequestContent};
use hearth_wire::shred::Shred;

use crate::pieces::pieces;
use crate::scratch;

/// When the run begins, in Unix milliseconds.
const START: u64 = 1_700_000_000_000;
const SHRED_VERSION: u16 = 7;
/// The slots in the store.
const SLOTS: std::ops::RangeInclusive<u64> = 1..=3;
/// Messages of an input that are looked at.
const STEPS_MAX: usize = 48;
/// The most answers to one datagram, and the most bytes of one.
const ANSWERS_MAX: usize = 11;
const ANSWER_BYTES_MAX: usize = 1_232;

/// Steps of a server: datagrams as they are, signed requests, answers to its pings, and time that passes.
pub fn repair_server(input: &[u8]) {
    let client = SigningKey::from_seed(&[2; 32]);
    let own = SigningKey::from_seed(&[1; 32]).public_key();
    let from = SocketAddr::from(([10, 0, 0, 2], 8_000));
    let config = Config { own: own.into(), shred_version: SHRED_VERSION, blocks: blocks() };
    let (mut server, mut count) = (Server::new(&config, [9; 32]), Counters::default());
    let (mut now, mut ping) = (START, None);
    for piece in pieces(input).take(STEPS_MAX) {
        let Some((step, message)) = piece.split_first() else { continue };
        let datagram = match step >> 5 {
            0..3 => message.to_vec(),
            3..6 => signed_request(&client, own, now, *step, message),
            6 => match ping.take() {
                Some(ping) => pong(&client, &ping),
                None => continue,
            },
            _ => {
                let passed = message.first_chunk().map_or(500, |ms| u64::from(u16::from_le_bytes(*ms)));
                now += 100 * passed;
                continue;
            }
        };
        let reply = server.answer(from, &datagram, now, &mut count);
        check(&datagram, &reply);
        ping = reply.ping.map(|draft| sent(&draft, own)).or(ping);
    }
}

/// The store's blocks, made once. They can be read after the store is closed.
fn blocks() -> Reader {
    static BLOCKS: OnceLock<Reader> = OnceLock::new();
    BLOCKS.get_or_init(|| filled().reader()).clone()
}

fn filled() -> BlockStore {
    let config = blockstore::Config { sync: SyncPolicy::Kernel, ..blockstore::Config::new(64 << 20, [1; 32]) };
    let (mut store, _) = BlockStore::open(&scratch::folder().join("repair"), config).expect("an empty folder");
    let config = ShredderConfig { version: SHRED_VERSION, ..ShredderConfig::default() };
    let (mut shredder, mut entry, mut set) = (Shredder::new(config, [3; 32]), Vec::new(), FecSet::new());
    write_entry(1, &[4; 32], 1, &[5; 20_000], &mut entry);
    for slot in SLOTS {
        shredder.begin_slot(slot, slot - 1).expect("the slot after the one before");
        shredder.push(&entry, 1).expect("an entry of one set");
        shredder.end_batch(true);
        while shredder.next_set(&mut set) {
            let header = set.header();
            let record = FecSetRecord {
                slot,
                parent_slot: slot - 1,
                fec_set_index: header.set_index,
                reference_tick: header.reference_tick,
                last_in_slot: header.ends_slot,
                ends_batch: None,
                merkle_root: *set.root(),
                chained_root: *set.chained_root(),
                signature: [6; 64],
                data: &set.entry_chunks().collect::<Vec<_>>().concat(),
            };
            store.append_set(&record).expect("an empty store takes it");
        }
    }
    store
}

/// A request for what the message says: a slot and an index.
fn signed_request(client: &SigningKey, own: [u8; 32], now: u64, step: u8, message: &[u8]) -> Vec<u8> {
    let slot = message.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes));
    let index = message.get(8..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let wanted = match step % 4 {
        0 => RequestContent::Shred { slot, index },
        1 => RequestContent::Highest { slot, from: index },
        2 => RequestContent::Orphan { slot },
        _ => RequestContent::Ancestors { slot },
    };
    let request = Request { sender: client.public_key(), recipient: own, time_ms: now, nonce: index, wanted };
    let mut bytes = request.write();
    let signature = client.sign(&repair::signed_bytes(&bytes));
    repair::set_signature(&mut bytes, &signature);
    bytes
}

/// The ping as a client reads it. No client verifies its signature.
fn sent(draft: &PingDraft, own: [u8; 32]) -> Ping {
    let datagram = draft.signed(own, [0; 64]);
    match (Answer::parse(&datagram), AncestorHashes::parse(&datagram)) {
        (Some(Answer::Ping(ping)), _) | (_, Some(AncestorHashes::Ping(ping))) => ping,
        _ => panic!("{datagram:?} is no ping"),
    }
}

fn pong(client: &SigningKey, ping: &Ping) -> Vec<u8> {
    let hash = pong_hash(&ping.token);
    repair::write_pong(&Pong { from: client.public_key(), hash, signature: client.sign(&hash) })
}

/// Only a request is answered, by datagrams that parse.
fn check(datagram: &[u8], reply: &Reply) {
    let is_request = matches!(RepairDatagram::parse(datagram), Ok(RepairDatagram::Request(..)));
    assert!(is_request || (reply.answers.is_empty() && reply.ping.is_none()));
    assert!(reply.answers.len() <= ANSWERS_MAX);
    for answer in &reply.answers {
        assert!(answer.len() <= ANSWER_BYTES_MAX);
        match Answer::parse(answer) {
            Some(Answer::Shred(shred, _)) => assert!(Shred::parse(shred).is_ok()),
            Some(Answer::Ping(_)) => panic!("a ping among the answers"),
            None => assert!(AncestorHashes::parse(answer).is_some()),
        }
    }
}
