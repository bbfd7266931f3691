//! Tile tests: transactions in, a real QUIC server at the other end, time set by hand.

use std::net::SocketAddrV4;
use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::Peer;
use hearth_ledger::drop_log::{DropReason, DropTable};
use hearth_ledger::{Genesis, GenesisConfig, LedgerConfig, stakes};
use hearth_quic::{Server, ServerConfig};
use hearth_testkit::random::Random;
use hearth_tile::rig::{DEPTH, Rig};

use super::*;
use crate::links::{AGAIN, PEER_NEWS_MTU, RPC_TXSEND, StakesPiece};

/// Seed of the node's identity key.
const SEED: [u8; 32] = [7; 32];
const INPUTS: [&str; 5] = [NET_TXSEND, SIGN_TXSEND, RPC_TXSEND, TOWER_TXSEND, GOSSIP_TXSEND];
const OUTPUTS: [&str; 4] = [TXSEND_NET, TXSEND_SIGN, TXSEND_VERIFY, TXSEND_QUIC];

fn own() -> SigningKey {
    SigningKey::from_seed(&SEED)
}

/// The address at which the leader receives transactions, and the one for votes.
fn leader_addresses() -> [SocketAddrV4; 2] {
    [8_009, 8_010].map(|port| SocketAddrV4::new([10, 0, 0, 2].into(), port))
}

/// Makes the tile in a cluster in which `leader` has all the stake.
fn rig(leader: &Pubkey, votes: bool, outputs: &[&str]) -> Rig<TxSend> {
    rig_with_drops(leader, votes, outputs, DropLog::default())
}

fn rig_with_drops(leader: &Pubkey, votes: bool, outputs: &[&str], drops: DropLog) -> Rig<TxSend> {
    let extra_accounts = stakes::genesis_accounts(&[3; 32], &[4; 32], leader).to_vec();
    let genesis = GenesisConfig { extra_accounts, ..GenesisConfig::development(*leader, [2; 32], 1_700_000_000) };
    let ledger = Ledger::new(&Genesis::create(genesis, |_| {}).unwrap(), LedgerConfig::default());
    let config = Config { identity: own().public_key().into(), votes, ledger, drops };
    Rig::new(config, &INPUTS, outputs)
}

/// Gives it gossip's news of where a node receives transactions and votes.
fn see(rig: &mut Rig<TxSend>, identity: Pubkey, [tpu_quic, tpu_vote_quic]: [Option<SocketAddrV4>; 2]) {
    let peer = Peer { identity, tvu: None, serve_repair: None, tpu_quic, tpu_vote_quic, stake: 0, lowest: 0 };
    let mut message = [0; PEER_NEWS_MTU];
    let size = PeerNews::Known(peer).write(&mut message);
    rig.give(GOSSIP_TXSEND, 0, &message[..size]);
    rig.run();
}

/// One direction of the path to a leader.
struct Path {
    delay_ms: usize,
    lost_per_mille: u64,
    random: Random,
    /// Datagrams in flight, and the millisecond at which each arrives.
    under_way: VecDeque<(usize, Vec<u8>)>,
}

impl Path {
    fn new(delay_ms: usize, lost_per_mille: u64, seed: u64) -> Self {
        Self { delay_ms, lost_per_mille, random: Random(seed), under_way: VecDeque::new() }
    }

    /// Takes the datagrams sent in this millisecond, and returns those that arrive in it.
    fn carry(&mut self, now_ms: usize, sent: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        for datagram in sent {
            if !self.random.chance(self.lost_per_mille) {
                self.under_way.push_back((now_ms + self.delay_ms, datagram));
            }
        }
        std::iter::from_fn(|| self.under_way.pop_front_if(|(at_ms, _)| *at_ms <= now_ms))
            .map(|(_, datagram)| datagram)
            .collect()
    }
}

/// A leader's QUIC server at the other end, and what it has read: from whom, and at which address.
struct Leader {
    server: Server,
    read: Vec<(Option<[u8; 32]>, Vec<u8>)>,
    addresses: Vec<SocketAddr>,
    /// Datagrams that enter the path with the next run.
    held_up: Vec<Vec<u8>>,
    /// The path to it, and the path back.
    there: Path,
    back: Path,
    /// Milliseconds for which it has run.
    ran_ms: usize,
    /// How many of its handshakes sign refuses before it signs the others.
    refusals: usize,
}

impl Leader {
    fn new(rig: &Rig<TxSend>) -> Self {
        Self::with_limits(rig, ServerConfig::agave())
    }

    fn with_limits(rig: &Rig<TxSend>, limits: ServerConfig) -> Self {
        let clock = rig.clock();
        let server = Server::new(limits, &[1; 32], &[2; 32], clock.instant(clock.now())).unwrap();
        let [there, back] = [1, 2].map(|seed| Path::new(0, 0, seed));
        let (read, addresses, held_up) = (vec![], vec![], vec![]);
        Self { server, read, addresses, held_up, there, back, ran_ms: 0, refusals: 0 }
    }

    /// Replaces the server by one that does not know the old connections.
    fn restart(&mut self, rig: &Rig<TxSend>) {
        let clock = rig.clock();
        self.server = Server::new(ServerConfig::agave(), &[3; 32], &[4; 32], clock.instant(clock.now())).unwrap();
    }

    /// Transports datagrams and signatures in both directions for this many milliseconds.
    fn run(&mut self, rig: &mut Rig<TxSend>, milliseconds: usize) {
        for _ in 0..milliseconds {
            rig.advance(Duration::from_millis(1));
            rig.run();
            for (tag, message) in rig.take(TXSEND_SIGN) {
                let is_refused = self.refusals > 0;
                self.refusals -= usize::from(is_refused);
                let answer = if is_refused { vec![] } else { own().sign(&message).to_vec() };
                rig.give(SIGN_TXSEND, tag, &answer);
            }
            let now = rig.clock().instant(rig.clock().now());
            self.server.handle_timeout(now);
            let from = SocketAddr::from(([10, 0, 0, 1], 9_000));
            self.ran_ms += 1;
            let mut sent = std::mem::take(&mut self.held_up);
            sent.extend(rig.take(TXSEND_NET).into_iter().map(|(_, frag)| frag));
            for frag in self.there.carry(self.ran_ms, sent) {
                let outgoing = Outgoing::read(&frag);
                assert_eq!((outgoing.port, outgoing.segment), (PortKind::TxSend, 0));
                self.addresses.push(outgoing.to);
                self.server.handle_datagram(now, from, None, outgoing.data);
            }
            while let Some(read) = self.server.poll_transaction(now, |peer, bytes| (peer.key, bytes.to_vec())) {
                self.read.push(read);
            }
            let (mut buffer, mut answers) = (vec![], vec![]);
            while self.server.poll_transmit(now, &mut buffer).is_some() {
                answers.push(buffer.clone());
            }
            for data in &self.back.carry(self.ran_ms, answers) {
                let mut frag = vec![0; Datagram::HEADER + data.len()];
                let [to, _] = leader_addresses();
                let from = *self.addresses.last().unwrap_or(&to.into());
                Datagram { from, port: PortKind::TxSend, data }.write(&mut frag);
                rig.give(NET_TXSEND, 0, &frag);
            }
        }
    }
}

#[test]
fn transaction_reaches_the_leader_with_our_identity() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    see(&mut rig, stranger, leader_addresses().map(Some));
    let mut leader = Leader::new(&rig);
    leader.run(&mut rig, 200);
    assert_eq!((rig.count().connections, leader.addresses.len()), (0, 0), "nothing needs a connection yet");
    rig.give(RPC_TXSEND, 0, b"first");
    leader.run(&mut rig, 50);
    rig.give(RPC_TXSEND, 0, b"second");
    leader.run(&mut rig, 50);
    let by = Some(own().public_key());
    assert_eq!(leader.read, [(by, b"first".to_vec()), (by, b"second".to_vec())], "both slots have one leader");
    assert!(leader.addresses.iter().all(|to| *to == leader_addresses()[0].into()));
    let count = rig.count();
    assert_eq!((count.transactions, count.sent, count.acknowledged, count.connected), (2, 2, 2, 1));
    assert!(rig.take(TXSEND_VERIFY).is_empty());
}

#[test]
fn refused_handshake_is_tried_again() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    see(&mut rig, stranger, leader_addresses().map(Some));
    let mut leader = Leader::new(&rig);
    leader.refusals = 1;
    rig.give(RPC_TXSEND, 0, b"first");
    leader.run(&mut rig, 2_000);
    assert_eq!(leader.read, [(Some(own().public_key()), b"first".to_vec())]);
    assert_eq!(leader.refusals, 0);
    assert_eq!(rig.count().disconnected, 1);
    assert_eq!(rig.count().connected, 1);
}

#[test]
fn voter_connects_before_its_first_vote() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, true, &OUTPUTS);
    let mut leader = Leader::new(&rig);
    leader.run(&mut rig, 150);
    assert_eq!(rig.count().connections, 0, "no node is known");
    see(&mut rig, stranger, leader_addresses().map(Some));
    leader.run(&mut rig, 150);
    assert_eq!((rig.count().connections, rig.count().connected), (1, 1));
    rig.give(TOWER_TXSEND, 0, b"a vote");
    leader.run(&mut rig, 2);
    assert_eq!(leader.read, [(Some(own().public_key()), b"a vote".to_vec())]);
    assert!(leader.addresses.iter().all(|to| *to == leader_addresses()[1].into()), "there is an address for votes");
    assert_eq!((rig.count().votes, rig.count().transactions), (1, 0));
}

#[test]
fn own_turn_goes_to_the_verify_tile() {
    let mut rig = rig(&own().public_key(), true, &OUTPUTS);
    rig.give_control(RPC_TXSEND, 0, AGAIN, b"again");
    rig.give(TOWER_TXSEND, 0, b"a vote");
    rig.run();
    assert_eq!(rig.take_control(TXSEND_VERIFY), [(AGAIN, b"again".to_vec()), (0, b"a vote".to_vec())]);
    assert_eq!((rig.count().own, rig.count().dropped_no_leader, rig.count().connections), (2, 0, 0));
    // More than its link holds wait for room there, in order.
    for number in 0..400u32 {
        if number % 100 == 0 {
            rig.run();
        }
        rig.give(RPC_TXSEND, 0, &number.to_le_bytes());
    }
    let mut passed = vec![];
    while passed.len() < 400 {
        rig.run();
        let taken = rig.take(TXSEND_VERIFY);
        assert!(!taken.is_empty(), "{} of 400", passed.len());
        passed.extend(taken.iter().map(|(_, bytes)| u32::from_le_bytes(bytes.as_slice().try_into().unwrap())));
    }
    assert!(passed.into_iter().eq(0..400));
}

#[test]
fn own_votes_overtake_own_transactions() {
    let mut rig = rig(&own().public_key(), true, &OUTPUTS);
    // As many as the link to verify holds, and one that waits.
    for number in 0..=DEPTH {
        if number == DEPTH {
            rig.run();
        }
        rig.give(RPC_TXSEND, 0, &number.to_le_bytes());
    }
    rig.run();
    for vote in 0..OWN_VOTES_MAX + 3 {
        rig.give(TOWER_TXSEND, 0, &[vote as u8; 3]);
    }
    rig.run();
    assert_eq!(rig.count().votes, OWN_VOTES_MAX as u64 + 3, "all were read");
    assert_eq!(rig.count().replaced_own_votes, 3);
    let passed = rig.take(TXSEND_VERIFY);
    assert_eq!(passed.len(), DEPTH as usize);
    rig.run();
    let passed: Vec<_> = rig.take(TXSEND_VERIFY).into_iter().map(|(_, bytes)| bytes).collect();
    let newest = (3..OWN_VOTES_MAX + 3).map(|vote| vec![vote as u8; 3]);
    assert_eq!(passed, newest.chain([DEPTH.to_le_bytes().to_vec()]).collect::<Vec<_>>());
}

#[test]
fn unknown_leader_drops_and_counts() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    rig.give(RPC_TXSEND, 0, b"nobody");
    rig.run();
    // A leader that accepts no transactions over QUIC cannot receive one.
    see(&mut rig, stranger, [None; 2]);
    rig.give(RPC_TXSEND, 0, b"nobody");
    rig.run();
    assert_eq!((rig.count().dropped_no_leader, rig.count().connections), (2, 0));
}

#[test]
fn follower_sends_only_to_other_nodes() {
    let mut rig = rig(&own().public_key(), false, &OUTPUTS[..2]);
    rig.give(RPC_TXSEND, 0, b"nobody");
    rig.run();
    assert_eq!((rig.count().own, rig.count().dropped_no_leader), (0, 1));
}

/// Makes a transaction with this number, up to the part that is searched for its signature.
fn numbered(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[0] = 1;
    bytes[1..65].copy_from_slice(&signature(number));
    bytes
}

fn signature(number: u32) -> [u8; 64] {
    let mut signature = [1; 64];
    signature[..4].copy_from_slice(&number.to_le_bytes());
    signature
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[1..5].try_into().unwrap())
}

#[test]
fn a_vote_goes_before_transactions_that_wait() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    // The same address for both.
    let [address, _] = leader_addresses();
    see(&mut rig, stranger, [Some(address), None]);
    let mut leader = Leader::new(&rig);
    (0..5).for_each(|n| rig.give(RPC_TXSEND, 0, &numbered(n, 100)));
    rig.run();
    rig.give(TOWER_TXSEND, 0, b"a vote");
    rig.run();
    assert_eq!(rig.tile().leaders.waiting(), 6, "the connection is not made yet");
    leader.run(&mut rig, 50);
    let read: Vec<_> = leader.read.iter().map(|(_, bytes)| bytes.clone()).collect();
    let transactions = (0..5).map(|n| numbered(n, 100));
    assert_eq!(read, [b"a vote".to_vec()].into_iter().chain(transactions).collect::<Vec<_>>());
}

#[test]
fn each_drop_is_counted_and_recorded() {
    let stranger = [9; 32];
    let fates = Arc::new(DropTable::new(1_000, 7));
    let mut rig = rig_with_drops(&stranger, false, &OUTPUTS, DropLog::new(fates.clone()));
    rig.give(RPC_TXSEND, 0, &numbered(1_000, 100));
    rig.run();
    see(&mut rig, stranger, leader_addresses().map(Some));
    // No leader responds: the newest keep waiting.
    let waiting = leaders::WAITING_MAX as u32;
    (0..waiting + 3).for_each(|n| rig.give(RPC_TXSEND, 0, &numbered(n, 100)));
    rig.run();
    let reason = |n: u32| fates.of(&signature(n)).and_then(|fate| fate.dropped).map(|dropped| dropped.reason);
    assert_eq!(reason(1_000), Some(DropReason::TxsendNoLeader));
    for n in 0..3 {
        assert_eq!(reason(n), Some(DropReason::TxsendWaiting), "{n}");
    }
    assert_eq!(reason(3), None, "it waits");
    assert_eq!(rig.count().dropped_no_leader, 1);
    assert_eq!(rig.count().dropped_waiting, 3);
    // Transactions that have waited for 10 s are dropped.
    rig.advance(Duration::from_secs(11));
    rig.run();
    rig.run();
    assert_eq!(rig.count().dropped_waiting, u64::from(waiting) + 3);
    assert_eq!(reason(waiting + 2), Some(DropReason::TxsendWaiting));
    // So are transactions that wait when the node stops.
    rig.give(RPC_TXSEND, 0, &numbered(2_000, 100));
    rig.run();
    assert_eq!(reason(2_000), None);
    rig.stop();
    assert_eq!(reason(2_000), Some(DropReason::TxsendWaiting));
    assert_eq!(rig.count().dropped_waiting, u64::from(waiting) + 4);
}

#[test]
fn stalled_leader_holds_only_its_window() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    see(&mut rig, stranger, leader_addresses().map(Some));
    // The server's limits are higher than this side's window.
    let mut leader = Leader::with_limits(&rig, ServerConfig::local());
    rig.give(RPC_TXSEND, 0, b"first");
    leader.run(&mut rig, 50);
    assert_eq!(leader.read.len(), 1);
    // Nothing reaches it from here on, so nothing is acknowledged.
    const LENGTH: usize = 1_000;
    let given = 600;
    for n in 0..given {
        rig.give(RPC_TXSEND, 0, &numbered(n, LENGTH));
        if n % 50 == 49 {
            rig.run();
            leader.held_up.extend(rig.take(TXSEND_NET).into_iter().map(|(_, frag)| frag));
        }
    }
    rig.advance(Duration::from_millis(2));
    rig.run();
    let fit = leaders::SEND_WINDOW_BYTES / LENGTH as u64;
    let sent = rig.count().sent - 1;
    assert!((fit..=fit + 1).contains(&sent), "{sent} were taken where {fit} fit");
    let waiting = leaders::WAITING_MAX as u64;
    assert_eq!(rig.count().waiting, waiting);
    assert_eq!(rig.count().dropped_waiting, u64::from(given) - sent - waiting);
    // It responds again, and gets the rest: what is in flight, and the newest.
    leader.run(&mut rig, 1_000);
    let read: Vec<_> = leader.read[1..].iter().map(|(_, bytes)| number(bytes)).collect();
    assert_eq!(read.len() as u64, sent + waiting);
    assert!((given - waiting as u32..given).all(|n| read.contains(&n)));
    assert_eq!(rig.count().acknowledged, sent + waiting + 1);
}

#[test]
fn lost_packets_delay_nothing() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    see(&mut rig, stranger, leader_addresses().map(Some));
    let mut leader = Leader::with_limits(&rig, ServerConfig::local());
    [leader.there, leader.back] = [3, 4].map(|seed| Path::new(88, 0, seed));
    rig.give(RPC_TXSEND, 0, b"first");
    leader.run(&mut rig, 2_000);
    assert_eq!(leader.read.len(), 1);
    [leader.there.lost_per_mille, leader.back.lost_per_mille] = [50; 2];
    let given = 5_000;
    for n in 0..given {
        rig.give(RPC_TXSEND, 0, &numbered(n, 215));
        leader.run(&mut rig, 1);
    }
    leader.run(&mut rig, 1_000);
    assert_eq!(rig.count().dropped_waiting, 0);
    let read = leader.read.len();
    assert!(read > given as usize * 49 / 50, "{read} of {given} were read in time");
}

#[test]
fn restarted_leader_is_reached_again() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    see(&mut rig, stranger, leader_addresses().map(Some));
    let mut leader = Leader::new(&rig);
    rig.give(RPC_TXSEND, 0, b"before");
    leader.run(&mut rig, 50);
    assert_eq!(leader.read.len(), 1);
    leader.restart(&rig);
    // On the old connection it is lost.
    rig.give(RPC_TXSEND, 0, b"lost");
    leader.run(&mut rig, 12_000);
    assert_eq!(leader.read.len(), 1);
    rig.give(RPC_TXSEND, 0, b"after");
    leader.run(&mut rig, 50);
    assert_eq!(leader.read[1..], [(Some(own().public_key()), b"after".to_vec())]);
    assert_eq!(rig.count().connected, 2);
}

#[test]
fn quic_learns_who_has_stake_in_the_epoch() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    rig.run();
    let pieces = rig.take(TXSEND_QUIC);
    assert_eq!(pieces.len(), 1);
    let piece = StakesPiece::read(&pieces[0].1);
    assert_eq!(piece.first, 0);
    assert_eq!(piece.total, 1);
    let staked: Vec<_> = piece.entries().collect();
    let all = rig.tile().config.ledger.epoch_stakes(0).unwrap().total();
    assert!(all > 0);
    assert_eq!(staked, [(stranger, all)]);
    rig.advance(Duration::from_secs(1));
    rig.run();
    assert!(rig.take(TXSEND_QUIC).is_empty(), "the epoch is still the same");
}
