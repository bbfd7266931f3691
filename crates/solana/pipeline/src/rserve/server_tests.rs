//! Honest and dishonest requests to a server over a small store.

use hearth_crypto::ed25519::SigningKey;

use crate::shred::{FecSet, Shredder, ShredderConfig};
use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord, SyncPolicy};
use hearth_wire::entry::write_entry;
use hearth_wire::gossip::Pong;
use hearth_wire::repair::Answer;
use hearth_wire::shred::DATA_PER_SET;

use super::*;

/// The server, its counters, and its key.
struct ServerFixture {
    server: Server,
    counts: Counters,
    key: SigningKey,
}

impl std::ops::Deref for ServerFixture {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl std::ops::DerefMut for ServerFixture {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}

impl ServerFixture {
    /// Returns the whole reply to a datagram, with the ping signed.
    fn answer(&mut self, from: SocketAddr, datagram: &[u8], now: u64) -> Vec<Vec<u8>> {
        let Reply { mut answers, ping } = self.server.answer(from, datagram, now, &mut self.counts);
        answers.extend(ping.map(|ping| {
            assert_eq!(ping.to, from);
            ping.signed(self.server.own(), self.key.sign(&ping_token(&ping.nonce)))
        }));
        answers
    }
}

pub const VERSION: u16 = 7;

/// Makes a store with the blocks of slots 1 and 2, and returns the shreds of both.
pub fn store(folder: &std::path::Path) -> (BlockStore, Vec<Vec<u8>>) {
    let config = blockstore::Config { sync: SyncPolicy::Kernel, ..blockstore::Config::new(1 << 30, [1; 32]) };
    let (mut store, _) = BlockStore::open(folder, config).unwrap();
    let shreds = fill(&mut store, &[1, 2], 5);
    (store, shreds)
}

/// Adds blocks to a store; another `mark` makes other blocks of the same length.
fn fill(store: &mut BlockStore, slots: &[u64], mark: u8) -> Vec<Vec<u8>> {
    let config = ShredderConfig { version: VERSION, batch_sets: 1, ..ShredderConfig::default() };
    let mut shredder = Shredder::new(config, [3; 32]);
    let (mut shreds, mut entry, mut set) = (vec![], vec![], FecSet::new());
    write_entry(1, &[4; 32], 1, &[mark; 30_000], &mut entry);
    for &slot in slots {
        shredder.begin_slot(slot, slot - 1).unwrap();
        for ends in [false, true] {
            shredder.push(&entry, 1).unwrap();
            shredder.end_batch(ends);
            while shredder.next_set(&mut set) {
                set.sign(&[6; 64]);
                shreds.extend(set.shreds().take(DATA_PER_SET).map(<[u8]>::to_vec));
                let header = set.header();
                store
                    .append_set(&FecSetRecord {
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
                    })
                    .unwrap();
            }
        }
    }
    shreds
}

struct Asker {
    key: SigningKey,
    from: SocketAddr,
}

impl Asker {
    fn request(&self, server: &ServerFixture, wanted: RequestContent, time_ms: u64) -> Vec<u8> {
        let sender = self.key.public_key();
        let mut bytes = Request { sender, recipient: server.own, time_ms, nonce: 77, wanted }.write();
        let signature = self.key.sign(&repair::signed_bytes(&bytes));
        repair::set_signature(&mut bytes, &signature);
        bytes
    }

    /// Answers the ping in the reply to a request.
    fn prove(&self, server: &mut ServerFixture, now: u64) {
        let request = self.request(server, RequestContent::Orphan { slot: 1 }, now);
        let answers = server.answer(self.from, &request, now);
        let [ping] = &answers[..] else { panic!("{answers:?}") };
        assert!(ping.len() <= request.len(), "nobody is sent more than came from there");
        let Some(Answer::Ping(ping)) = Answer::parse(ping) else { panic!("{ping:?}") };
        let hash = pong_hash(&ping.token);
        let pong = Pong { from: self.key.public_key(), hash, signature: self.key.sign(&hash) };
        assert!(server.answer(self.from, &repair::write_pong(&pong), now).is_empty());
    }
}

fn server(store: &BlockStore) -> ServerFixture {
    let key = SigningKey::from_seed(&[1; 32]);
    let own = key.public_key();
    let config = Config { own: own.into(), shred_version: VERSION, blocks: store.reader() };
    ServerFixture { server: Server::new(&config, [9; 32]), counts: Counters::default(), key }
}

#[test]
fn shreds_are_served_as_they_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let (store, shreds) = store(folder.path());
    let mut server = server(&store);
    let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
    asker.prove(&mut server, 1_000);
    let mut ask = |wanted| -> Vec<Vec<u8>> {
        let answers = server.answer(asker.from, &asker.request(&server, wanted, 1_000), 1_000);
        let shred = |answer: &Vec<u8>| match Answer::parse(answer) {
            Some(Answer::Shred(shred, 77)) => shred.to_vec(),
            other => panic!("{other:?}"),
        };
        answers.iter().map(shred).collect()
    };
    let of_slot = shreds.len() / 2;
    for place in [0, 31, 32, of_slot - 1] {
        assert_eq!(ask(RequestContent::Shred { slot: 2, index: place as u32 }), [shreds[of_slot + place].clone()]);
    }
    let last = (of_slot - 1) as u32;
    assert_eq!(ask(RequestContent::Highest { slot: 1, from: last }), [shreds[of_slot - 1].clone()]);
    assert_eq!(ask(RequestContent::Orphan { slot: 2 }), [shreds[2 * of_slot - 1].clone(), shreds[of_slot - 1].clone()]);
    for nothing in [RequestContent::Highest { slot: 1, from: last + 1 }, RequestContent::Shred { slot: 3, index: 0 }] {
        assert!(ask(nothing).is_empty());
    }
    assert_eq!((server.counts.served, server.counts.not_found), (7, 2));
    assert_eq!((server.counts.served_highest, server.counts.served_orphan), (1, 2));
}

#[test]
fn requests_are_for_the_current_identity() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let mut server = server(&store);
    let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
    asker.prove(&mut server, 1_000);
    let wanted = RequestContent::Shred { slot: 2, index: 3 };
    let old = asker.request(&server, wanted, 1_000);
    server.set_own([8; 32]);
    assert!(server.answer(asker.from, &old, 1_000).is_empty());
    assert_eq!(server.counts.dropped_misdirected, 1);
    let new = asker.request(&server, wanted, 1_000);
    assert_eq!(server.answer(asker.from, &new, 1_000).len(), 1);
}

#[test]
fn dumped_block_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, shreds) = store(folder.path());
    let mut server = server(&store);
    let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
    asker.prove(&mut server, 1_000);
    let ask = |server: &mut ServerFixture| {
        let request = asker.request(server, RequestContent::Shred { slot: 2, index: 3 }, 1_000);
        let answers = server.answer(asker.from, &request, 1_000);
        let shred = answers.first().and_then(|answer| Answer::parse(answer));
        shred.map(|answer| if let Answer::Shred(shred, _) = answer { shred.to_vec() } else { panic!("a ping") })
    };
    assert_eq!(ask(&mut server), Some(shreds[shreds.len() / 2 + 3].clone()));
    store.dump(2).unwrap();
    assert_eq!(ask(&mut server), None);
    let others = fill(&mut store, &[2], 6);
    assert_eq!((ask(&mut server), others.len()), (Some(others[3].clone()), shreds.len() / 2));
}

#[test]
fn ancestors_of_confirmed_blocks_are_served() {
    use hearth_consensus::BankId;
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let mut server = server(&store);
    for slot in [1, 2, 4] {
        server.server.confirm(BankId { slot, hash: [slot as u8; 32] });
    }
    let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
    let ask = |server: &mut ServerFixture, slot| -> Vec<AncestorHashes> {
        let request = asker.request(server, RequestContent::Ancestors { slot }, 1_000);
        let answers = server.answer(asker.from, &request, 1_000);
        answers.iter().map(|answer| AncestorHashes::parse(answer).expect("of its form")).collect()
    };
    let [AncestorHashes::Ping(ping)] = ask(&mut server, 4)[..] else { panic!("who has proved nothing is pinged") };
    let hash = pong_hash(&ping.token);
    let pong = Pong { from: asker.key.public_key(), hash, signature: asker.key.sign(&hash) };
    assert!(server.answer(asker.from, &repair::write_pong(&pong), 1_000).is_empty());
    let response =
        |slots: &[u64]| vec![AncestorHashes::Hashes(slots.iter().map(|slot| (*slot, [*slot as u8; 32])).collect(), 77)];
    assert_eq!(ask(&mut server, 4), response(&[4, 2, 1]));
    assert_eq!(ask(&mut server, 3), response(&[]), "it is not confirmed");
    assert_eq!((server.counts.served_ancestors, server.counts.served, server.counts.not_found), (2, 0, 0));
}

#[test]
fn unproved_address_is_served_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let mut server = server(&store);
    let key = |seed| SigningKey::from_seed(&[seed; 32]);
    let asker = Asker { key: key(2), from: "127.0.0.1:9".parse().unwrap() };
    let wanted = RequestContent::Shred { slot: 1, index: 0 };
    asker.prove(&mut server, 1_000);
    // The same node at another address, another node at the same address.
    for other in [Asker { key: key(2), from: "127.0.0.1:8".parse().unwrap() }, Asker { key: key(3), ..asker }] {
        let request = other.request(&server, wanted, 1_000);
        let answers = server.answer(other.from, &request, 1_000);
        assert!(answers.len() == 1 && answers[0].len() <= request.len());
        assert!(server.answer(other.from, &request, 1_001).is_empty(), "one ping in two seconds");
    }
    let asker = Asker { key: key(2), from: "127.0.0.1:9".parse().unwrap() };
    let good = asker.request(&server, wanted, 1_000);
    assert_eq!(server.answer(asker.from, &good, 1_000).len(), 1);
    let mut forged = good.clone();
    forged[10] ^= 1;
    assert!(server.answer(asker.from, &forged, 1_000).is_empty());
    assert!(server.answer(asker.from, &good, 1_000 + TIME_MS + 1).is_empty());
    assert!(server.answer(asker.from, &good[1..], 1_000).is_empty());
    let own = Asker { key: key(1), ..asker };
    assert!(server.answer(own.from, &own.request(&server, wanted, 1_000), 1_000).is_empty());
    let pong = Pong { from: [7; 32], hash: [8; 32], signature: [9; 64] };
    assert!(server.answer(own.from, &repair::write_pong(&pong), 1_000).is_empty());
    let count = &server.counts;
    assert_eq!(count.dropped_signature, 2);
    assert_eq!(count.dropped_out_of_time, 1);
    assert_eq!(count.dropped_malformed, 1);
    assert_eq!(count.dropped_misdirected, 1);
    assert_eq!(count.dropped_unproved, 5);
}

#[test]
fn a_flood_gets_what_the_budget_has() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let mut server = server(&store);
    let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
    asker.prove(&mut server, 1_000);
    let request = asker.request(&server, RequestContent::Shred { slot: 1, index: 0 }, 1_000);
    server.sent.total.left = 3 * 1_207;
    server.sent.total.filled_at = 1_000;
    let served = (0..20).filter(|_| !server.answer(asker.from, &request, 1_000).is_empty()).count();
    assert_eq!((served, server.counts.dropped_over_budget), (3, 17));
    // Each millisecond adds 12,000 bytes to the budget.
    let served = (0..20).filter(|_| !server.answer(asker.from, &request, 1_001).is_empty()).count();
    assert_eq!(served, 9);
}

#[test]
fn host_with_many_keys_excludes_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let mut server = server(&store);
    let honest = Asker { key: SigningKey::from_seed(&[2; 32]), from: "10.0.0.1:9".parse().unwrap() };
    honest.prove(&mut server, 1_000);
    let hostile = |number: u16| {
        let mut seed = [7; 32];
        seed[..2].copy_from_slice(&number.to_le_bytes());
        Asker { key: SigningKey::from_seed(&seed), from: "10.0.0.2:9".parse().unwrap() }
    };
    let count = NODES_PER_HOST_MAX as u16 + 20;
    (0..count).for_each(|number| hostile(number).prove(&mut server, 2_000));
    assert_eq!((server.proved.len(), server.counts.evicted_nodes), (NODES_PER_HOST_MAX + 1, 20));
    let mut is_served = |asker: &Asker| {
        let request = asker.request(&server, RequestContent::Shred { slot: 1, index: 0 }, 2_000);
        server.answer(asker.from, &request, 2_000).first().is_some_and(|answer| answer.len() > 1_000)
    };
    assert!(is_served(&honest) && is_served(&hostile(count - 1)));
    assert!(!is_served(&hostile(0)), "its host's oldest");
}

#[test]
fn evicted_hosts_nodes_prove_themselves_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let mut server = server(&store);
    let asker = |number: u16, key: u8| {
        let [high, low] = number.to_be_bytes();
        Asker { key: SigningKey::from_seed(&[key; 32]), from: SocketAddr::from(([10, 1, high, low], 9)) }
    };
    [2, 3].iter().for_each(|key| asker(0, *key).prove(&mut server, 1_000));
    (1..HOSTS_MAX as u16).for_each(|number| asker(number, 2).prove(&mut server, 1_000));
    assert_eq!((server.proved.len(), server.counts.evicted_nodes), (HOSTS_MAX + 1, 0));
    asker(HOSTS_MAX as u16, 2).prove(&mut server, 1_000);
    assert_eq!((server.proved.len(), server.counts.evicted_nodes), (HOSTS_MAX, 2));
}

#[test]
fn missing_shreds_are_read_for_once_and_charged() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = store(folder.path());
    let set = |fec_set_index, data| FecSetRecord {
        slot: 3,
        parent_slot: 2,
        fec_set_index,
        reference_tick: 0,
        last_in_slot: false,
        ends_batch: None,
        merkle_root: [1; 32],
        chained_root: [2; 32],
        signature: [6; 64],
        data,
    };
    for fec_set_index in [0, 96] {
        store.append_set(&set(fec_set_index, &[0; 20_000])).unwrap();
    }
    let mut server = server(&store);
    let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
    asker.prove(&mut server, 1_000);
    let before = server.shreds.read_bytes;
    for index in [32, 33, 64, 5_000, 40] {
        let request = asker.request(&server, RequestContent::Shred { slot: 3, index }, 1_000);
        assert!(server.answer(asker.from, &request, 1_000).is_empty());
    }
    let highest = asker.request(&server, RequestContent::Highest { slot: 3, from: 128 }, 1_000);
    assert!(server.answer(asker.from, &highest, 1_000).is_empty());
    assert_eq!((server.shreds.read_bytes - before, server.counts.not_found), (40_000, 6));
    // With one more set the slot is read again, and not without a budget.
    store.append_set(&set(32, &[0; 1_000])).unwrap();
    server.shreds.budget.total.left = 0;
    server.shreds.budget.total.filled_at = 1_000;
    let request = asker.request(&server, RequestContent::Shred { slot: 3, index: 64 }, 1_000);
    assert!(server.answer(asker.from, &request, 1_000).is_empty());
    assert_eq!((server.counts.dropped_over_budget, server.counts.not_found), (1, 6));
    assert!(server.answer(asker.from, &request, 1_001).is_empty());
    assert_eq!((server.counts.not_found, server.shreds.read_bytes - before), (7, 81_000));
}

#[test]
fn unreproducible_set_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = store(folder.path());
    let reader = store.reader();
    // Like the last set of slot 2, but its leader signed a tree over other parity.
    let mut data = vec![];
    reader.sets(2, |set| data = set.data.to_vec()).unwrap();
    let record = FecSetRecord {
        slot: 3,
        parent_slot: 2,
        fec_set_index: 0,
        reference_tick: 1,
        last_in_slot: true,
        ends_batch: None,
        merkle_root: [1; 32],
        chained_root: [2; 32],
        signature: [6; 64],
        data: &data,
    };
    store.append_set(&record).unwrap();
    let mut server = server(&store);
    let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
    asker.prove(&mut server, 1_000);
    for wanted in [
        RequestContent::Shred { slot: 3, index: 0 },
        RequestContent::Shred { slot: 3, index: 31 },
        RequestContent::Highest { slot: 3, from: 0 },
        RequestContent::Orphan { slot: 3 },
    ] {
        let request = asker.request(&server, wanted, 1_000);
        assert!(server.answer(asker.from, &request, 1_000).is_empty(), "{wanted:?}");
    }
    assert_eq!((server.counts.not_found, server.counts.served), (4, 0));
}

#[test]
fn greedy_client_excludes_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = store(folder.path());
    // More slots than the cache keeps, of 64 sets each.
    for slot in 10..18 {
        for set in 0..64 {
            store
                .append_set(&FecSetRecord {
                    slot,
                    parent_slot: slot - 1,
                    fec_set_index: set * DATA_PER_SET as u32,
                    reference_tick: 0,
                    last_in_slot: false,
                    ends_batch: None,
                    merkle_root: [1; 32],
                    chained_root: [2; 32],
                    signature: [6; 64],
                    data: &[0; 100],
                })
                .unwrap();
        }
    }
    let asker = |host: u8| {
        let from = SocketAddr::from(([10, 0, 0, host], 9));
        Asker { key: SigningKey::from_seed(&[host + 1; 32]), from }
    };
    let (greedy, modest) = (asker(1), asker(2));
    let is_there = RequestContent::Shred { slot: 1, index: 0 };
    let greed: [&dyn Fn(u64) -> RequestContent; 3] = [
        &|number| RequestContent::Shred { slot: 10 + number % 8, index: 5_000 },
        &|number| RequestContent::Orphan { slot: 10 + number % 8 },
        &|_| is_there,
    ];
    for greed in greed {
        let mut server = server(&store);
        greedy.prove(&mut server, 1_000);
        modest.prove(&mut server, 1_000);
        let asks = |server: &mut ServerFixture, asker: &Asker, wanted| {
            let request = asker.request(server, wanted, 1_000);
            server.answer(asker.from, &request, 1_000).len()
        };
        let mut number = 0;
        while server.counts.dropped_over_budget == 0 {
            asks(&mut server, &greedy, greed(number));
            number += 1;
        }
        assert_eq!(asks(&mut server, &modest, is_there), 1, "{:?}", greed(0));
        assert_eq!(asks(&mut server, &modest, RequestContent::Highest { slot: 2, from: 0 }), 1);
    }
}
