//! Tile tests, in which the test plays shred, net and sign.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::Peer;
use hearth_ledger::blockstore::{self, BlockStore, SyncPolicy};
use hearth_ledger::{Genesis, GenesisConfig, LedgerConfig};
use hearth_tile::rig::{DEPTH, Rig};
use hearth_wire::repair::{RepairDatagram, write_ping};

use super::request_plan::PROBED;
use super::*;
use crate::links::{PEER_NEWS_MTU, SLOT_GONE};

const INPUTS: [&str; 6] =
    ["net_repair:0", "sign_repair", GOSSIP_REPAIR, TOWER_REPAIR, "shred_repair:0", "shred_repair:1"];
const OUTPUTS: [&str; 3] = ["repair_net", "repair_sign", REPAIR_TOWER];
const NONCES: NonceKey = NonceKey([5; 32]);

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

fn address(seed: u8) -> SocketAddr {
    ([10, 0, 0, seed], 8_007).into()
}

struct Bench {
    rig: Rig<Repair>,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// A node that has executed slot 0 and knows node 2, which serves repair.
    fn new() -> Self {
        Self::with_epochs_of(432_000)
    }

    /// The same where an epoch has so many slots.
    fn with_epochs_of(slots_per_epoch: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = blockstore::Config { sync: SyncPolicy::Kernel, ..blockstore::Config::new(1 << 30, [1; 32]) };
        let (store, _) = BlockStore::open(folder.path(), config).unwrap();
        let genesis = GenesisConfig {
            fund_initial_accounts: 0,
            slots_per_epoch,
            ..GenesisConfig::development(key(1).public_key(), [2; 32], 1_700_000_000)
        };
        let ledger = Ledger::new(&Genesis::create(genesis, |_| {}).unwrap(), LedgerConfig::default());
        let SocketAddr::V4(serve_repair) = address(2) else { unreachable!("it is made of one") };
        let peer = Peer {
            identity: key(2).public_key(),
            tvu: Some(SocketAddrV4::new(*serve_repair.ip(), 8_001)),
            serve_repair: Some(serve_repair),
            tpu_quic: None,
            tpu_vote_quic: None,
            stake: 7,
            lowest: 0,
        };
        let (own, blocks) = (key(1).public_key(), store.reader());
        let config = Config { own: own.into(), ledger, blocks, nonces: NONCES };
        let mut bench = Self { rig: Rig::new(config, &INPUTS, &OUTPUTS), _folder: folder };
        bench.hear(PeerNews::Known(peer));
        bench
    }

    /// Gives it gossip's news of a node.
    fn hear(&mut self, news: PeerNews) {
        let mut message = [0; PEER_NEWS_MTU];
        let size = news.write(&mut message);
        self.rig.give(GOSSIP_REPAIR, 0, &message[..size]);
    }

    fn tell(&mut self, link: &str, control: u16, gaps: &SlotGaps) {
        self.rig.give_control(link, 0, control, &gaps.encode());
    }

    /// Advances the time, signs requests, and returns the requests sent.
    fn requests_after(&mut self, by: Duration) -> Vec<Request> {
        self.rig.run();
        self.rig.advance(by);
        self.rig.run();
        for (tag, question) in self.rig.take("repair_sign") {
            assert!(repair::is_repair_request(&question, &key(1).public_key()), "{question:?}");
            self.rig.give("sign_repair", tag, &key(1).sign(&question));
        }
        self.rig.run();
        let read = |(_, frag): (u64, Vec<u8>)| {
            let Outgoing { to, port, data, .. } = Outgoing::read(&frag);
            assert_eq!((to, port), (address(2), PortKind::Repair));
            let Ok(RepairDatagram::Request(request, signature)) = RepairDatagram::parse(data) else {
                panic!("{data:?}")
            };
            let mut verifier = Verifier::new(VerifierConfig::default());
            let signed = repair::signed_bytes(data);
            assert!(verifier.verify(&request.sender, &signature, &signed).is_ok());
            request
        };
        self.rig.take("repair_net").into_iter().map(read).collect()
    }

    /// Delivers a datagram at the repair port.
    fn receive(&mut self, from: SocketAddr, data: &[u8]) {
        let mut buffer = vec![0; Datagram::HEADER + data.len()];
        let size = Datagram { from, port: PortKind::Repair, data }.write(&mut buffer);
        self.rig.give("net_repair:0", 0, &buffer[..size]);
        self.rig.run();
    }

    /// Lets tower ask node 2 about a slot; returns the nonce of the request.
    fn ask_ancestors(&mut self, slot: u64) -> u32 {
        self.rig.give(TOWER_REPAIR, 0, &AncestorQuestion { slot, node: key(2).public_key() }.encode());
        let requests = self.requests_after(Duration::ZERO);
        let [request] = &requests[..] else { panic!("one request: {requests:?}") };
        assert_eq!(request.wanted, RequestContent::Ancestors { slot });
        assert_eq!(request.recipient, key(2).public_key());
        request.nonce
    }

    /// Takes the answers sent to tower.
    fn answers(&mut self) -> Vec<AncestorAnswer> {
        self.rig.run();
        self.rig.take(REPAIR_TOWER).iter().map(|(_, message)| AncestorAnswer::read(message)).collect()
    }

    fn wanted_after(&mut self, by: Duration) -> Vec<RequestContent> {
        self.requests_after(by).iter().map(|request| request.wanted).collect()
    }
}

fn gaps(slot: u64, shreds: &[u32]) -> SlotGaps {
    SlotGaps { slot, parent: Some(slot - 1), highest_from: None, shreds: shreds.to_vec() }
}

const LOOK: Duration = Duration::from_nanos(LOOK_NS);
const AGAIN: Duration = Duration::from_nanos(AGAIN_NS);

#[test]
fn slots_of_all_shred_tiles_are_asked_for() {
    let mut bench = Bench::new();
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(2, &[4]));
    bench.tell("shred_repair:1", SLOT_GAPS, &gaps(1, &[0, 9]));
    let requests = bench.requests_after(LOOK);
    let expected = [
        RequestContent::Shred { slot: 1, index: 0 },
        RequestContent::Shred { slot: 1, index: 9 },
        RequestContent::Shred { slot: 2, index: 4 },
    ];
    assert_eq!(requests.iter().map(|request| request.wanted).collect::<Vec<_>>(), expected);
    for request in requests {
        assert_eq!(request.recipient, key(2).public_key());
        assert_eq!(request.nonce, NONCES.nonce(&request.wanted, &request.recipient, LOOK_NS));
    }
    assert_eq!(bench.rig.count().requests, 3);
}

#[test]
fn an_unanswered_request_is_made_again() {
    let mut bench = Bench::new();
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3]));
    assert_eq!(bench.wanted_after(LOOK).len(), 1);
    assert_eq!(bench.wanted_after(LOOK), []);
    assert_eq!(bench.wanted_after(AGAIN), [RequestContent::Shred { slot: 1, index: 3 }]);
    // What has arrived is not requested.
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[]));
    assert_eq!(bench.wanted_after(AGAIN), []);
    for control in [SLOT_WHOLE, SLOT_GONE] {
        bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3]));
        bench.tell("shred_repair:0", control, &gaps(1, &[]));
        assert_eq!(bench.wanted_after(AGAIN), []);
    }
}

#[test]
fn the_core_is_woken_when_a_request_is_due_again() {
    let mut bench = Bench::new();
    let wakes_at = |bench: &mut Bench| bench.rig.waits_for().deadline.expect("it looks some time");
    bench.rig.run();
    assert_eq!(wakes_at(&mut bench), LOOK_NS, "gossip has named a node");
    bench.rig.advance(LOOK);
    bench.rig.run();
    assert_eq!(wakes_at(&mut bench), IDLE_LOOK_NS, "nothing is missing");
    bench.rig.advance(2 * LOOK);
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3]));
    assert_eq!(bench.wanted_after(Duration::ZERO).len(), 1, "the core is awake");
    assert_eq!(wakes_at(&mut bench), IDLE_LOOK_NS, "the answer is on its way");
    bench.rig.advance(Duration::from_nanos(3 * IDLE_LOOK_NS) - 3 * LOOK);
    bench.rig.run();
    assert_eq!(wakes_at(&mut bench), 3 * LOOK_NS + AGAIN_NS);
    bench.rig.advance(3 * LOOK);
    assert_eq!(bench.wanted_after(Duration::ZERO).len(), 1);
}

/// An idle node checks often, and nearly always nothing has changed.
#[test]
fn nothing_is_searched_again_without_news() {
    let wanted = [RequestContent::Shred { slot: 1, index: 3 }];
    // A node in which a search would find something that shred has not reported.
    let settled = || {
        let mut bench = Bench::new();
        assert_eq!(bench.wanted_after(LOOK), []);
        bench.rig.tile().begun.insert(1, gaps(1, &[3]));
        for _ in 0..5 {
            assert_eq!(bench.wanted_after(Duration::from_nanos(IDLE_LOOK_NS)), []);
        }
        bench
    };
    let mut bench = settled();
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(2, &[]));
    assert_eq!(bench.wanted_after(LOOK), wanted, "after news");
    assert_eq!(settled().wanted_after(Duration::from_nanos(LOOK_DEEP_NS)), wanted, "once a second");
}

#[test]
fn requests_bear_the_time_on_the_wall() {
    let mut bench = Bench::new();
    bench.rig.clock().set_wall(-3_600_000_000_000);
    let before_ms = bench.rig.clock().wall_ns() / 1_000_000;
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3]));
    let requests = bench.requests_after(LOOK);
    let after_ms = bench.rig.clock().wall_ns() / 1_000_000;
    assert_eq!(requests.len(), 1);
    assert!((before_ms..=after_ms).contains(&requests[0].time_ms), "{}", requests[0].time_ms);
}

#[test]
fn node_forgotten_by_gossip_is_not_asked() {
    let mut bench = Bench::new();
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3]));
    assert_eq!(bench.wanted_after(LOOK).len(), 1);
    bench.hear(PeerNews::Gone(key(2).public_key()));
    assert_eq!(bench.wanted_after(AGAIN), []);
}

#[test]
fn voted_slot_is_requested_after_patience() {
    let mut bench = Bench::new();
    bench.rig.give_control(TOWER_REPAIR, 3, VOTED, &[]);
    let wanted = [RequestContent::Highest { slot: 3, from: 0 }];
    assert_eq!(bench.wanted_after(LOOK), []);
    assert_eq!(bench.wanted_after(Duration::from_nanos(PATIENCE_NS)), wanted);
    assert_eq!(bench.wanted_after(AGAIN), wanted);
    assert_eq!(bench.wanted_after(Duration::from_nanos(VOTED_NS)), []);
}

#[test]
fn next_slots_are_requested_if_only_votes_show_how_far_the_cluster_is() {
    // Leaders are known up to slot 63: shred drops the shreds of the cluster's newest slots.
    let mut bench = Bench::with_epochs_of(32);
    bench.rig.give_control(TOWER_REPAIR, 200, VOTED, &[]);
    let wanted = bench.wanted_after(Duration::from_nanos(PATIENCE_NS));
    let next = (1..=(SLOTS_WANTED + PROBED) as u64).map(|slot| RequestContent::Highest { slot, from: 0 });
    assert_eq!(wanted, next.collect::<Vec<_>>());
    // If these were skipped and nobody answers, all slots with known leaders are requested in turn.
    let mut requested = BTreeSet::new();
    for _ in 0..4 {
        requested.extend(bench.wanted_after(Duration::from_nanos(LOOK_DEEP_NS)).iter().map(|wanted| match wanted {
            RequestContent::Highest { slot, from: 0 } => *slot,
            other => panic!("{other:?}"),
        }));
    }
    assert!(requested.iter().copied().eq(1..=63), "{requested:?}");
    // 60 was built on slot 0, so that there are three more slots with known leaders.
    let gaps = SlotGaps { slot: 60, parent: Some(0), ..SlotGaps::default() };
    bench.tell("shred_repair:0", SLOT_WHOLE, &gaps);
    let next = [61, 62, 63].map(|slot| RequestContent::Highest { slot, from: 0 });
    assert_eq!(bench.wanted_after(AGAIN), next);
    assert_eq!(bench.wanted_after(Duration::from_nanos(VOTED_NS)), [], "nobody votes any more");
    // In longer epochs shreds of such a slot are accepted, and it is requested itself.
    let mut bench = Bench::with_epochs_of(432_000);
    bench.rig.give_control(TOWER_REPAIR, 200, VOTED, &[]);
    bench.rig.give_control(TOWER_REPAIR, SLOTS_LOOKED_AT + 1, VOTED, &[]);
    let wanted = bench.wanted_after(Duration::from_nanos(PATIENCE_NS));
    assert_eq!(wanted, [RequestContent::Highest { slot: 200, from: 0 }]);
}

#[test]
fn requests_waiting_for_sign_are_bounded() {
    let mut bench = Bench::new();
    let all: Vec<u32> = (0..GAPS_MAX as u32).collect();
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &all));
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(2, &all));
    bench.rig.advance(LOOK);
    bench.rig.run();
    bench.rig.advance(LOOK);
    bench.rig.run();
    assert_eq!(bench.rig.count().requests, UNSIGNED_MAX as u64, "until these are signed");
    assert_eq!(bench.wanted_after(LOOK).len(), UNSIGNED_MAX);
    assert_eq!(bench.wanted_after(LOOK).len(), UNSIGNED_MAX, "the second slot's");
}

#[test]
fn refused_request_is_not_sent_and_frees_its_place() {
    let mut bench = Bench::new();
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3, 4]));
    // A turn checks before it reads shred's report, and the next check is a while later.
    bench.rig.run();
    bench.rig.advance(LOOK);
    bench.rig.run();
    let asked = bench.rig.take("repair_sign");
    let [(refused, _), (other, question)] = &asked[..] else { panic!("{asked:?}") };
    bench.rig.give("sign_repair", *refused, &[]);
    bench.rig.give("sign_repair", *other, &key(1).sign(question));
    bench.rig.run();
    let sent = bench.rig.take("repair_net");
    assert_eq!(sent.len(), 1);
    let Ok(RepairDatagram::Request(request, _)) = RepairDatagram::parse(Outgoing::read(&sent[0].1).data) else {
        panic!("{sent:?}")
    };
    assert_eq!(request.wanted, RequestContent::Shred { slot: 1, index: 4 });
    assert!(bench.rig.tile().unsigned.is_empty());
    assert_eq!(bench.wanted_after(AGAIN).len(), 2, "both are asked for again");
}

#[test]
fn pings_of_peers_alone_are_answered() {
    let mut bench = Bench::new();
    let mut buffer = [0; 512];
    let mut ping = |bench: &mut Bench, from: SocketAddr, data: &[u8]| {
        let size = Datagram { from, port: PortKind::Repair, data }.write(&mut buffer);
        bench.rig.give("net_repair:0", 0, &buffer[..size]);
        bench.rig.run();
    };
    let of =
        |seed: u8, token: [u8; 32]| Ping { from: key(seed).public_key(), token, signature: key(seed).sign(&token) };
    let good = write_ping(&of(2, [6; 32]));
    let forged = write_ping(&Ping { token: [7; 32], ..of(2, [6; 32]) });
    ping(&mut bench, address(9), &good);
    ping(&mut bench, address(2), &write_ping(&of(3, [6; 32])));
    ping(&mut bench, address(2), &[9; 132]);
    ping(&mut bench, address(2), &forged);
    ping(&mut bench, address(2), &good);
    assert_eq!(bench.rig.take("repair_sign"), []);
    let count = bench.rig.count();
    assert_eq!(count.dropped_pings, 3, "a stranger's address, a stranger's key, too soon");
    assert_eq!(count.dropped_malformed, 1);
    assert_eq!(count.dropped_signature, 1);
    bench.rig.advance(Duration::from_nanos(PING_NS));
    ping(&mut bench, address(2), &good);
    let asked = bench.rig.take("repair_sign");
    assert_eq!(asked, [(0, [&PONG[..], &[6; 32]].concat())]);
    let hash = pong_hash(&[6; 32]);
    bench.rig.give("sign_repair", 0, &key(1).sign(&hash));
    bench.rig.run();
    let sent = bench.rig.take("repair_net");
    let Outgoing { to, data, .. } = Outgoing::read(&sent[0].1);
    assert_eq!(to, address(2));
    let Ok(RepairDatagram::Pong(pong)) = RepairDatagram::parse(data) else { panic!("{data:?}") };
    assert_eq!((pong.from, pong.hash), (key(1).public_key(), hash));
    assert_eq!(bench.rig.count().pongs, 1);
}

fn hashes(slots: &[u64]) -> Vec<(u64, Hash)> {
    slots.iter().map(|slot| (*slot, [*slot as u8; 32])).collect()
}

#[test]
fn tower_gets_the_hashes_it_asked_for() {
    let mut bench = Bench::new();
    let nonce = bench.ask_ancestors(9);
    let answer = |slots: &[u64], nonce| AncestorHashes::Hashes(hashes(slots), nonce).write();
    // It has not confirmed the slot yet: a repeated request has the same nonce.
    bench.receive(address(2), &answer(&[], nonce));
    assert_eq!(bench.answers(), []);
    assert_eq!(bench.ask_ancestors(9), nonce);
    bench.receive(address(2), &answer(&[9, 7, 6], nonce));
    let expected = AncestorAnswer { node: key(2).public_key(), hashes: hashes(&[9, 7, 6]) };
    assert_eq!(bench.answers(), [expected]);
    let count = bench.rig.count();
    assert_eq!((count.ancestor_requests, count.ancestor_answers, count.dropped_unasked), (2, 2, 0));
    bench.receive(address(2), &answer(&[9, 7, 6], nonce));
    assert_eq!(bench.answers(), [], "it counts once");
    assert_eq!(bench.rig.count().dropped_unasked, 1);
}

#[test]
fn unsolicited_hashes_are_dropped() {
    let mut bench = Bench::new();
    let nonce = bench.ask_ancestors(9);
    let answer = |slots: &[u64], nonce| AncestorHashes::Hashes(hashes(slots), nonce).write();
    let wrong = [
        (address(2), answer(&[9], nonce.wrapping_add(1))),
        (address(3), answer(&[9], nonce)),
        (address(2), answer(&[8], nonce)),
        (address(2), answer(&[9, 9], nonce)),
    ];
    for (from, datagram) in &wrong {
        bench.receive(*from, datagram);
    }
    bench.receive(address(2), &[9; 16]);
    assert_eq!(bench.answers(), []);
    let count = bench.rig.count();
    assert_eq!((count.dropped_unasked, count.dropped_malformed), (wrong.len() as u64, 1));
    // A node that serves no repair is not asked either.
    bench.rig.give(TOWER_REPAIR, 0, &AncestorQuestion { slot: 9, node: key(3).public_key() }.encode());
    assert_eq!(bench.wanted_after(Duration::ZERO), []);
    assert_eq!(bench.rig.count().dropped_questions, 1);
}

#[test]
fn ancestor_ping_repeats_the_request() {
    let mut bench = Bench::new();
    let nonce = bench.ask_ancestors(9);
    let token = [6; 32];
    let ping = |seed: u8| {
        let ping = Ping { from: key(seed).public_key(), token, signature: key(seed).sign(&token) };
        AncestorHashes::Ping(ping).write()
    };
    bench.receive(address(2), &ping(3));
    assert_eq!(bench.rig.take("repair_sign"), []);
    bench.receive(address(2), &ping(2));
    let asked = bench.rig.take("repair_sign");
    let [(pong, token_to_sign), (again, request)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(*token_to_sign, [&PONG[..], &token].concat());
    bench.rig.give("sign_repair", *pong, &key(1).sign(&pong_hash(&token)));
    bench.rig.give("sign_repair", *again, &key(1).sign(request));
    bench.rig.run();
    let sent = bench.rig.take("repair_net");
    let parse = |at: usize| RepairDatagram::parse(Outgoing::read(&sent[at].1).data).unwrap();
    assert!(matches!(parse(0), RepairDatagram::Pong(_)));
    let RepairDatagram::Request(request, _) = parse(1) else { panic!("the question comes behind the pong") };
    assert_eq!((request.wanted, request.nonce), (RequestContent::Ancestors { slot: 9 }, nonce));
}

#[test]
fn full_tower_holds_up_nothing() {
    let mut bench = Bench::new();
    for slot in 1..=u64::from(DEPTH) + 3 {
        let nonce = bench.ask_ancestors(slot);
        bench.receive(address(2), &AncestorHashes::Hashes(hashes(&[slot]), nonce).write());
    }
    assert_eq!(bench.rig.count().dropped_answers, 3);
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3]));
    assert_eq!(bench.wanted_after(LOOK), [RequestContent::Shred { slot: 1, index: 3 }]);
    assert_eq!(bench.answers().len(), DEPTH as usize);
}

#[test]
fn questions_of_tower_leave_room_for_shreds() {
    let mut bench = Bench::new();
    for slot in 1..=UNSIGNED_MAX as u64 {
        bench.rig.give(TOWER_REPAIR, 0, &AncestorQuestion { slot, node: key(2).public_key() }.encode());
    }
    bench.rig.run();
    assert_eq!(bench.rig.count().ancestor_requests, UNSIGNED_MAX as u64 / 2, "until these are signed");
    bench.tell("shred_repair:0", SLOT_GAPS, &gaps(1, &[3]));
    bench.rig.run();
    bench.rig.advance(LOOK);
    bench.rig.run();
    assert_eq!(bench.rig.count().requests, 1);
    assert_eq!(bench.wanted_after(Duration::ZERO).len(), UNSIGNED_MAX / 2 + 1);
    assert_eq!(bench.wanted_after(Duration::ZERO).len(), UNSIGNED_MAX / 2, "the rest was left in its link");
}

#[test]
fn peer_is_chosen_by_stake_and_history() {
    let serve_repair = "10.0.0.1:5".parse().unwrap();
    let peer = |name, stake, lowest| RepairPeer { identity: [name; 32], serve_repair, stake, lowest };
    let peers = [peer(1, 60, 100), peer(2, 0, 0), peer(3, 20, 90), peer(4, 1, 101)];
    let asked =
        |slot| -> Vec<u8> { (0..42).filter_map(|random| Some(peer_for(slot, &peers, random)?.identity[0])).collect() };
    let count = |slot, name| asked(slot).iter().filter(|other| **other == name).count();
    assert_eq!([1, 2, 3, 4].map(|name| count(101, name)), [30, 1, 10, 1]);
    assert_eq!([1, 2, 3, 4].map(|name| count(100, name)), [31, 1, 10, 0]);
    assert_eq!(asked(89), [2; 42], "it says nothing");
    assert_eq!(peer_for(89, &peers[..1], 5), None);
}

#[test]
fn newest_voted_slots_stay() {
    let mut voted = BTreeMap::new();
    let dropped = (0..100).filter(|now| note_voted(&mut voted, 1_000 - now, *now)).count();
    assert_eq!(dropped, 100 - VOTED_MAX);
    // Hearing of a slot again does not renew it.
    assert!(!note_voted(&mut voted, 901, 200));
    assert_eq!(voted.len(), VOTED_MAX);
    assert_eq!(voted.first_key_value(), Some((&901, &99)));
    assert_eq!(voted.last_key_value(), Some((&932, &68)));
}
