//! Tile tests: transactions in, a real QUIC server at the other end, time by hand.

use std::net::SocketAddrV4;
use std::time::Duration;

use hearth_cluster::view::Peer;
use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::{Genesis, GenesisConfig, LedgerConfig, stakes};
use hearth_quic::{Server, ServerConfig};
use hearth_tile::rig::Rig;

use super::*;
use crate::links::{AGAIN, PEER_NEWS_MTU, RPC_TXSEND};

/// The node's key.
const SEED: [u8; 32] = [7; 32];
const INPUTS: [&str; 5] = [NET_TXSEND, SIGN_TXSEND, RPC_TXSEND, TOWER_TXSEND, GOSSIP_TXSEND];
const OUTPUTS: [&str; 3] = [TXSEND_NET, TXSEND_SIGN, TXSEND_VERIFY];

fn own() -> SigningKey {
    SigningKey::from_seed(&SEED)
}

/// The address at which the leader takes transactions, and the one for votes.
fn leader_addresses() -> [SocketAddrV4; 2] {
    [8_009, 8_010].map(|port| SocketAddrV4::new([10, 0, 0, 2].into(), port))
}

/// The tile in a cluster in which `leader` has all the stake.
fn rig(leader: &Pubkey, votes: bool, outputs: &[&str]) -> Rig<TxSend> {
    let extra_accounts = stakes::genesis_accounts(&[3; 32], &[4; 32], leader).to_vec();
    let genesis = GenesisConfig { extra_accounts, ..GenesisConfig::development(*leader, [2; 32], 1_700_000_000) };
    let ledger = Ledger::new(&Genesis::create(genesis, |_| {}).unwrap(), LedgerConfig::default());
    let config = Config { identity: own().public_key(), votes, ledger, drops: DropLog::default() };
    Rig::new(config, &INPUTS, outputs)
}

/// Gossip says where a node takes transactions, and votes.
fn see(rig: &mut Rig<TxSend>, identity: Pubkey, [tpu_quic, tpu_vote_quic]: [Option<SocketAddrV4>; 2]) {
    let peer = Peer { identity, tvu: None, serve_repair: None, tpu_quic, tpu_vote_quic, stake: 0, lowest: 0 };
    let mut message = [0; PEER_NEWS_MTU];
    let size = PeerNews::Known(peer).write(&mut message);
    rig.give(GOSSIP_TXSEND, 0, &message[..size]);
    rig.run();
}

/// A leader's QUIC server at the other end, and what it has read: by whom, and at which address.
struct Leader {
    server: Server,
    read: Vec<(Option<[u8; 32]>, Vec<u8>)>,
    addresses: Vec<SocketAddr>,
}

impl Leader {
    fn new(rig: &Rig<TxSend>) -> Self {
        let clock = rig.clock();
        let server = Server::new(ServerConfig::agave(), &[1; 32], &[2; 32], clock.instant(clock.now())).unwrap();
        Self { server, read: vec![], addresses: vec![] }
    }

    /// Carries datagrams and signatures to and fro for so many milliseconds.
    fn run(&mut self, rig: &mut Rig<TxSend>, milliseconds: usize) {
        for _ in 0..milliseconds {
            rig.advance(Duration::from_millis(1));
            rig.run();
            for (tag, message) in rig.take(TXSEND_SIGN) {
                rig.give(SIGN_TXSEND, tag, &own().sign(&message));
            }
            let now = rig.clock().instant(rig.clock().now());
            self.server.handle_timeout(now);
            let from = SocketAddr::from(([10, 0, 0, 1], 9_000));
            for (_, frag) in rig.take(TXSEND_NET) {
                let outgoing = Outgoing::read(&frag);
                assert_eq!((outgoing.port, outgoing.segment), (PortKind::TxSend, 0));
                self.addresses.push(outgoing.to);
                self.server.handle_datagram(now, from, None, outgoing.data);
            }
            while let Some(read) = self.server.poll_transaction(now, |peer, bytes| (peer.key, bytes.to_vec())) {
                self.read.push(read);
            }
            let mut buffer = vec![];
            while self.server.poll_transmit(now, &mut buffer).is_some() {
                let mut frag = vec![0; Datagram::HEADER + buffer.len()];
                let [to, _] = leader_addresses();
                let datagram = Datagram {
                    from: *self.addresses.last().unwrap_or(&to.into()),
                    port: PortKind::TxSend,
                    data: &buffer,
                };
                datagram.write(&mut frag);
                rig.give(NET_TXSEND, 0, &frag);
            }
        }
    }
}

#[test]
fn a_transaction_reaches_the_leader_once_and_shows_who_sends_it() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    see(&mut rig, stranger, leader_addresses().map(Some));
    let mut leader = Leader::new(&rig);
    leader.run(&mut rig, 200);
    assert_eq!((rig.count().connections, leader.addresses.len()), (0, 0), "nobody has wanted a connection");
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
fn who_votes_is_connected_before_it_has_a_vote() {
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
fn what_the_node_itself_is_to_lead_goes_to_its_verify_tile() {
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
fn without_a_leader_that_is_known_it_is_dropped_and_counted() {
    let stranger = [9; 32];
    let mut rig = rig(&stranger, false, &OUTPUTS);
    rig.give(RPC_TXSEND, 0, b"nobody");
    rig.run();
    // A node that takes none over QUIC is no help.
    see(&mut rig, stranger, [None; 2]);
    rig.give(RPC_TXSEND, 0, b"nobody");
    rig.run();
    assert_eq!((rig.count().dropped_no_leader, rig.count().connections), (2, 0));
}

#[test]
fn a_follower_sends_to_others_alone() {
    let mut rig = rig(&own().public_key(), false, &OUTPUTS[..2]);
    rig.give(RPC_TXSEND, 0, b"nobody");
    rig.run();
    assert_eq!((rig.count().own, rig.count().dropped_no_leader), (0, 1));
}
