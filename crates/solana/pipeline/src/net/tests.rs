//! Tile tests: datagrams from and to loopback sockets.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::time::{Duration, Instant};

use hearth_tile::rig::{DEPTH, Rig};
use hearth_tile::runner::Activity;
use hearth_wire::repair::{HASHES_SIZE_MAX, PING_DATAGRAM_SIZE};

use super::routes::flow_hash;
use super::*;
use crate::links::{GOSSIP_DATAGRAM_MTU, GOSSIP_NET, NET_QUIC, NET_REPAIR, NET_RSERVE, NET_SHRED, QUIC_NET, TXN_MTU};

fn rig(outputs: &[&str]) -> Rig<Net> {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Rig::new(
        Config {
            transactions: Some(TransactionPorts { quic: any, udp: any }),
            socket_buffer_bytes: 1 << 20,
            ..Config::default()
        },
        &[QUIC_NET],
        outputs,
    )
}

fn addr(rig: &mut Rig<Net>, kind: PortKind) -> SocketAddr {
    let (_, socket) = rig.tile().sockets.iter().find(|(k, _)| *k == kind).unwrap();
    socket.local_addr()
}

fn sender() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0".parse().unwrap(), Options { sharing: PortSharing::None, buffer_bytes: 1 << 20 })
        .unwrap()
}

/// Runs turns until `done`.
fn turn_until(rig: &mut Rig<Net>, what: &str, mut done: impl FnMut(&mut Rig<Net>) -> bool) {
    let deadline = Instant::now() + hearth_testkit::PATIENCE;
    while !done(rig) {
        assert!(Instant::now() < deadline, "not in time: {what}; {:?}", rig.count());
        rig.turn();
    }
}

fn send(from: &UdpSocket, to: SocketAddr, data: &[u8], segment: Option<u16>) {
    assert_eq!(from.send(&[Message { to, data, segment }]).unwrap(), 1);
}

/// A datagram that arrived on a link: sender, port and bytes.
fn taken(rig: &mut Rig<Net>, link: &str) -> Vec<(SocketAddr, PortKind, Vec<u8>)> {
    let read = |(_, payload): (u64, Vec<u8>)| {
        let datagram = Datagram::read(&payload);
        (datagram.from, datagram.port, datagram.data.to_vec())
    };
    rig.take(link).into_iter().map(read).collect()
}

#[test]
fn datagrams_come_in_with_their_sender_and_port() {
    let mut rig = rig(&[NET_QUIC]);
    let (quic, udp) = (addr(&mut rig, PortKind::Quic), addr(&mut rig, PortKind::Udp));
    let (a, b) = (sender(), sender());
    send(&a, quic, b"one", None);
    send(&b, quic, b"", None);
    send(&a, udp, &[7; 1232], None);
    turn_until(&mut rig, "three datagrams", |rig| rig.count().received == 3);
    let mut got = taken(&mut rig, NET_QUIC);
    got.sort_by_key(|(_, _, data)| data.len());
    let expected = [
        (b.local_addr(), PortKind::Quic, vec![]),
        (a.local_addr(), PortKind::Quic, b"one".to_vec()),
        (a.local_addr(), PortKind::Udp, vec![7; 1232]),
    ];
    assert_eq!(got, expected);
    assert_eq!(rig.count().received_bytes, 3 + 1232);
}

#[test]
fn a_flooded_port_starves_no_other() {
    let mut rig = rig(&[NET_QUIC]);
    let (quic, udp, from) = (addr(&mut rig, PortKind::Quic), addr(&mut rig, PortKind::Udp), sender());
    for (flooded, other) in [(udp, quic), (quic, udp)] {
        let flood = || (0..2 * SLOTS).for_each(|_| send(&from, flooded, b"flood", None));
        flood();
        rig.turn();
        send(&from, other, b"one", None);
        turn_until(&mut rig, "the other port's datagram", |rig| {
            flood();
            taken(rig, NET_QUIC).iter().any(|(_, _, data)| data == b"one")
        });
    }
}

#[test]
fn a_datagram_is_received_when_it_is_read() {
    let mut rig = rig(&[NET_QUIC]);
    let (quic, from) = (addr(&mut rig, PortKind::Quic), sender());
    for at_ms in [3, 5] {
        rig.advance(Duration::from_millis(at_ms));
        send(&from, quic, b"one", None);
        let before = rig.count().received;
        turn_until(&mut rig, "a datagram", |rig| rig.count().received > before);
    }
    assert_eq!(rig.take_origins(NET_QUIC), [3_000, 8_000]);
}

#[test]
fn frags_go_out_as_datagrams_and_runs_are_cut() {
    let mut rig = rig(&[NET_QUIC]);
    let from = addr(&mut rig, PortKind::Quic);
    let receiver = sender();
    assert!(receiver.gso(), "loopback cuts runs");
    let run: Vec<u8> = (0..2500u32).map(|i| (i / 10) as u8).collect();
    for (segment, data) in [(0, &run[..700]), (1000, &run[..]), (1200, &run[..1200])] {
        let mut frag = vec![0; Outgoing::HEADER + data.len()];
        frag[Outgoing::HEADER..].copy_from_slice(data);
        Outgoing::write_header(&mut frag, (receiver.local_addr(), PortKind::Quic), segment, data.len());
        rig.give(QUIC_NET, 0, &frag);
    }
    rig.run();
    let (mut batch, mut got) = (RecvBatch::new(4), vec![]);
    turn_until(&mut rig, "five datagrams", |_| {
        receiver.receive(&mut batch).unwrap();
        got.extend(batch.datagrams().map(|(from, data)| (from, data.to_vec())));
        got.len() == 5
    });
    assert!(got.iter().all(|(sender, _)| *sender == from), "answers come from the port that was asked");
    let got: Vec<&[u8]> = got.iter().map(|(_, data)| &data[..]).collect();
    assert_eq!(got, [&run[..700], &run[..1000], &run[1000..2000], &run[2000..], &run[..1200]]);
    assert_eq!((rig.count().sent, rig.count().sent_bytes), (5, 700 + 2500 + 1200));
}

/// The link fills up in the middle of a GRO batch: the rest waits, and nothing arrives twice.
#[test]
fn a_full_link_loses_nothing_that_was_received() {
    let mut rig = rig(&[NET_QUIC]);
    let (to, from) = (addr(&mut rig, PortKind::Quic), sender());
    let depth = u64::from(DEPTH);
    let mut sent = 0u64;
    // Ten numbered datagrams of eight bytes per run.
    let send_run = |sent: &mut u64| {
        let run: Vec<u8> = (*sent..*sent + 10).flat_map(u64::to_le_bytes).collect();
        send(&from, to, &run, Some(8));
        *sent += 10;
    };
    while sent < depth + 30 {
        send_run(&mut sent);
        let enough = sent.min(depth);
        turn_until(&mut rig, "the run is taken up", |rig| rig.count().received >= enough);
    }
    rig.run();
    assert_eq!(rig.count().received, depth, "as many as the link holds");
    assert_eq!(rig.backpressure(), (true, 1));
    assert!(rig.waits_for().readable.is_empty(), "a socket that is not read would wake it at once");
    let mut got = taken(&mut rig, NET_QUIC);
    turn_until(&mut rig, "the rest", |rig| rig.count().received == sent);
    got.extend(taken(&mut rig, NET_QUIC));
    assert_eq!(rig.backpressure(), (false, 1));
    let numbers = got.iter().map(|(_, _, data)| u64::from_le_bytes(data[..].try_into().unwrap()));
    assert!(numbers.eq(0..sent), "each once and in order");
    rig.advance(Duration::from_millis(2));
    rig.run();
    assert_eq!((rig.count().dropped_by_kernel, rig.count().dropped_oversize), (0, 0));
}

#[test]
fn datagrams_too_long_for_a_link_are_counted() {
    let mut rig = rig(&[NET_QUIC]);
    let (to, from) = (addr(&mut rig, PortKind::Udp), sender());
    let longest = DATAGRAM_MTU - Datagram::HEADER;
    for len in [longest, longest + 1, 60_000, 5] {
        send(&from, to, &vec![1; len], None);
    }
    turn_until(&mut rig, "all are seen", |rig| rig.count().received + rig.count().dropped_oversize == 4);
    let lengths: Vec<usize> = taken(&mut rig, NET_QUIC).iter().map(|(_, _, data)| data.len()).collect();
    assert_eq!(lengths, [longest, 5]);
    assert_eq!(rig.count().dropped_oversize, 2);
}

#[test]
fn a_sender_always_meets_the_same_quic_tile() {
    let links = ["net_quic:0", "net_quic:1"];
    let mut rig = rig(&links);
    let to = addr(&mut rig, PortKind::Quic);
    let senders: Vec<UdpSocket> = (0..40).map(|_| sender()).collect();
    for round in 0..3u8 {
        senders.iter().for_each(|from| send(from, to, &[round], None));
        turn_until(&mut rig, "a round", |rig| rig.count().received == 40 * (u64::from(round) + 1));
    }
    let mut met: BTreeMap<SocketAddr, Vec<usize>> = BTreeMap::new();
    for (tile, link) in links.iter().enumerate() {
        taken(&mut rig, link).iter().for_each(|(from, ..)| met.entry(*from).or_default().push(tile));
    }
    assert_eq!(met.len(), 40);
    assert!(met.values().all(|tiles| tiles.len() == 3 && tiles.iter().all(|t| *t == tiles[0])), "{met:?}");
    // Odds that all forty reach the same tile: 2^-39.
    assert!((0..2).all(|tile| met.values().any(|tiles| tiles[0] == tile)), "both tiles have work");
}

/// Whether they differ only in ports or only in addresses, whatever the number of tiles.
#[test]
fn flows_spread_evenly() {
    let ports: Vec<SocketAddr> = (20_000..28_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let v4: Vec<SocketAddr> = (0..8000u32).map(|n| SocketAddr::from(((n + (10 << 24)).to_be_bytes(), 8000))).collect();
    let v6: Vec<SocketAddr> = (0..8000u16).map(|n| SocketAddr::from(([0xfd00, 0, 0, n, 0, 0, 0, 1], 8000))).collect();
    for flows in [ports, v4, v6] {
        for tiles in 2..=8 {
            let mut counts = vec![0; tiles];
            flows.iter().for_each(|from| counts[flow_hash(*from) as usize % tiles] += 1);
            let even = flows.len() / tiles;
            assert!(
                counts.iter().all(|n| n * 10 > even * 8 && n * 10 < even * 12),
                "{} of {tiles}: {counts:?}",
                flows[1]
            );
        }
    }
}

#[test]
fn refused_datagram_is_counted_and_stops_no_other() {
    let mut rig = rig(&[NET_QUIC]);
    let receiver = sender();
    let far: SocketAddr = "[::1]:9".parse().unwrap();
    for to in [far, receiver.local_addr()] {
        let mut frag = vec![9; Outgoing::HEADER + 3];
        Outgoing::write_header(&mut frag, (to, PortKind::Quic), 0, 3);
        rig.give(QUIC_NET, 0, &frag);
    }
    rig.run();
    assert_eq!((rig.count().send_errors, rig.count().sent), (1, 1));
    let mut batch = RecvBatch::new(1);
    turn_until(&mut rig, "the other arrives", |_| receiver.receive(&mut batch).unwrap() == 1);
}

#[test]
fn an_address_that_cannot_be_reached_is_counted_apart() {
    let mut rig = rig(&[NET_QUIC]);
    let receiver = sender();
    // Loopback's broadcast address, to which the kernel refuses to send by default: a run of three datagrams.
    let nobody: SocketAddr = "127.255.255.255:9".parse().unwrap();
    for (to, segment) in [(nobody, 2), (receiver.local_addr(), 0)] {
        let mut frag = vec![9; Outgoing::HEADER + 5];
        Outgoing::write_header(&mut frag, (to, PortKind::Quic), segment, 5);
        rig.give(QUIC_NET, 0, &frag);
    }
    rig.run();
    let count = rig.count();
    assert_eq!((count.dropped_unreachable, count.send_errors, count.sent), (3, 0, 1));
    let kinds = [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable, ErrorKind::ConnectionRefused];
    assert!(kinds.iter().all(|kind| is_unreachable(&Error::from(*kind))));
}

#[test]
fn a_port_in_use_is_named() {
    let mut first = rig(&[NET_QUIC]);
    let taken = addr(&mut first, PortKind::Udp);
    let config = Config {
        transactions: Some(TransactionPorts { quic: "127.0.0.1:0".parse().unwrap(), udp: taken }),
        socket_buffer_bytes: 1 << 16,
        ..Config::default()
    };
    let error = Rig::<Net>::try_new(config, &[QUIC_NET], &[NET_QUIC]).err().expect("the port is in use").to_string();
    assert!(error.contains("the UDP TPU port") && error.contains(&taken.to_string()), "{error}");
}

/// Bytes by peer add up to the tile's bytes, and to what the link carries.
#[test]
fn bytes_are_reported_by_peer_in_both_directions() {
    let mut rig = rig(&[NET_QUIC]);
    let to = addr(&mut rig, PortKind::Quic);
    let senders = [sender(), sender(), sender()];
    let lengths = [1200, 700, 0];
    for round in 1..=5 {
        for (from, len) in senders.iter().zip(lengths) {
            send(from, to, &vec![1; len], None);
        }
        turn_until(&mut rig, "a round", |rig| rig.count().received == 3 * round);
    }
    let answer = vec![2; 2500];
    for receiver in &senders[..2] {
        let mut frag = vec![0; Outgoing::HEADER + answer.len()];
        frag[Outgoing::HEADER..].copy_from_slice(&answer);
        Outgoing::write_header(&mut frag, (receiver.local_addr(), PortKind::Quic), 1000, answer.len());
        rig.give(QUIC_NET, 0, &frag);
    }
    turn_until(&mut rig, "the answers are sent", |rig| rig.count().sent == 6);
    rig.advance(Duration::from_millis(2));
    rig.run();
    let bandwidth_report = rig.bandwidth();
    let of = |socket: &UdpSocket| bandwidth_report.peers[&bandwidth::Peer::at(socket.local_addr())];
    let expected = [(6_000, 2_500), (3_500, 2_500), (0, 0)];
    for (socket, (received, sent)) in senders.iter().zip(expected) {
        assert_eq!(of(socket), bandwidth::Bytes { received, sent });
    }
    let (total, count) = (bandwidth_report.total(), *rig.count());
    assert_eq!((total.received, total.sent), (count.received_bytes, count.sent_bytes));
    let carried: usize = rig.take(NET_QUIC).iter().map(|(_, payload)| payload.len()).sum();
    assert_eq!(carried as u64, total.received + count.received * Datagram::HEADER as u64);
}

/// The kernel refuses a run of so many datagrams, like a device that cannot split any.
#[test]
fn a_refused_run_leaves_as_single_datagrams() {
    const COUNT: u16 = 200;
    let mut rig = rig(&[NET_QUIC]);
    let receiver = sender();
    let give = |rig: &mut Rig<Net>, data: &[u8], segment: u16| {
        let mut frag = vec![0; Outgoing::HEADER + data.len()];
        frag[Outgoing::HEADER..].copy_from_slice(data);
        Outgoing::write_header(&mut frag, (receiver.local_addr(), PortKind::Quic), segment, data.len());
        rig.give(QUIC_NET, 0, &frag);
    };
    give(&mut rig, b"before", 0);
    let run: Vec<u8> = (0..COUNT).flat_map(|number| [number.to_le_bytes(), [7; 2]].concat()).collect();
    give(&mut rig, &run, 4);
    give(&mut rig, b"after", 0);
    let (mut batch, mut came) = (RecvBatch::new(16), vec![]);
    turn_until(&mut rig, "all come", |_| {
        receiver.receive(&mut batch).unwrap();
        came.extend(batch.datagrams().map(|(_, data)| data.to_vec()));
        came.len() == usize::from(COUNT) + 2
    });
    let expected = [&b"before"[..]].into_iter().chain(run.chunks(4)).chain([&b"after"[..]]);
    assert!(came.iter().map(Vec::as_slice).eq(expected), "each once and in order");
    assert_eq!((rig.count().sent, rig.count().send_errors), (u64::from(COUNT) + 2, 0));
}

#[test]
fn requests_go_to_rserve_and_excess_is_counted() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config {
        shreds: Some(ShredPorts { tvu: any, repair: any, serve_repair: any }),
        socket_buffer_bytes: 1 << 20,
        ..Config::default()
    };
    let mut rig = Rig::<Net>::new(config, &["rserve_net"], &[NET_SHRED, NET_REPAIR, NET_RSERVE]);
    let (to, from) = (addr(&mut rig, PortKind::ServeRepair), sender());
    let count = u64::from(DEPTH) + 20;
    for sent in 1..=count {
        send(&from, to, &sent.to_le_bytes(), None);
        turn_until(&mut rig, "a request", |rig| rig.count().received + rig.count().dropped_requests == sent);
    }
    assert_eq!(rig.count().dropped_requests, 20);
    assert!(rig.take(NET_SHRED).is_empty());
    let got = taken(&mut rig, NET_RSERVE);
    assert_eq!(got.len(), DEPTH as usize);
    assert_eq!(got[0], (from.local_addr(), PortKind::ServeRepair, 1u64.to_le_bytes().to_vec()));
    // The response leaves from the port that received the request.
    let mut frag = vec![9; Outgoing::HEADER + 3];
    Outgoing::write_header(&mut frag, (from.local_addr(), PortKind::ServeRepair), 0, 3);
    rig.give("rserve_net", 0, &frag);
    let mut batch = RecvBatch::new(1);
    turn_until(&mut rig, "the answer", |_| from.receive(&mut batch).unwrap() == 1);
    assert_eq!(batch.datagrams().next(), Some((to, &[9; 3][..])));
}

#[test]
fn pings_and_hashes_to_the_port_of_repair_go_to_repair() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config {
        shreds: Some(ShredPorts { tvu: any, repair: any, serve_repair: any }),
        socket_buffer_bytes: 1 << 20,
        ..Config::default()
    };
    let mut rig = Rig::<Net>::new(config, &["repair_net"], &[NET_SHRED, NET_REPAIR, NET_RSERVE]);
    let (repair, tvu) = (addr(&mut rig, PortKind::Repair), addr(&mut rig, PortKind::Tvu));
    let from = sender();
    let sent = [
        (repair, PING_DATAGRAM_SIZE),
        (repair, HASHES_SIZE_MAX),
        (repair, 1_207),
        (tvu, PING_DATAGRAM_SIZE),
        (repair, 131),
    ];
    for (to, len) in sent {
        send(&from, to, &vec![1; len], None);
    }
    turn_until(&mut rig, "all datagrams", |rig| rig.count().received == sent.len() as u64);
    let lengths = |rig: &mut Rig<Net>, link| -> Vec<(PortKind, usize)> {
        let mut all: Vec<_> = taken(rig, link).into_iter().map(|(_, port, data)| (port, data.len())).collect();
        all.sort_by_key(|(_, len)| *len);
        all
    };
    let for_repair = [(PortKind::Repair, PING_DATAGRAM_SIZE), (PortKind::Repair, HASHES_SIZE_MAX)];
    assert_eq!(lengths(&mut rig, NET_REPAIR), for_repair);
    let shreds = [(PortKind::Repair, 131), (PortKind::Tvu, PING_DATAGRAM_SIZE), (PortKind::Repair, 1_207)];
    assert_eq!(lengths(&mut rig, NET_SHRED), shreds);
    assert!(rig.take(NET_RSERVE).is_empty());
}

#[test]
fn an_emulated_link_takes_its_time_and_may_be_cut() {
    let folder = std::env::temp_dir().join(format!("hearth-net-links-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("links.toml");
    let nodes = "node = [{ address = \"127.0.0.2\", region = \"London\" }, \
        { address = \"127.0.0.1\", region = \"Singapore\" }]\n";
    std::fs::write(&file, nodes).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config {
        transactions: Some(TransactionPorts { quic: any, udp: any }),
        socket_buffer_bytes: 1 << 20,
        links: Some(LinksConfig { file: file.clone(), own: [127, 0, 0, 2].into() }),
        ..Config::default()
    };
    let mut rig = Rig::<Net>::new(config, &[QUIC_NET], &[NET_QUIC]);
    let receiver = sender();
    let mut batch = RecvBatch::new(4);
    let give = |rig: &mut Rig<Net>| {
        let mut frag = vec![7; Outgoing::HEADER + 100];
        Outgoing::write_header(&mut frag, (receiver.local_addr(), PortKind::Quic), 0, 100);
        rig.give(QUIC_NET, 0, &frag);
        rig.turn();
        rig.turn();
    };
    give(&mut rig);
    assert_eq!(rig.count().sent, 0);
    let due = rig.waits_for().deadline.expect("something is on its way");
    // Half of 175 ms, rounded by 2 ms at most; the jitter's mean is a millisecond.
    rig.advance(Duration::from_millis(85));
    rig.turn();
    assert_eq!((rig.count().sent, receiver.receive(&mut batch).unwrap()), (0, 0));
    rig.advance(Duration::from_millis(17));
    turn_until(&mut rig, "it is sent", |rig| rig.count().sent == 1);
    assert!(due > 85_000_000 && rig.waits_for().deadline.is_none());
    turn_until(&mut rig, "it comes", |_| receiver.receive(&mut batch).unwrap() == 1);
    // The file changes: the link is cut.
    std::fs::write(folder.join("new"), format!("{nodes}cut = [{{ between = [[\"127.0.0.1\"], [\"127.0.0.2\"]] }}]\n"))
        .unwrap();
    std::fs::rename(folder.join("new"), &file).unwrap();
    rig.advance(Duration::from_millis(300));
    turn_until(&mut rig, "the file is read", |rig| {
        rig.advance(Duration::from_millis(2));
        give(rig);
        rig.count().links_cut > 0
    });
    assert!(rig.count().links_delayed >= 1 && rig.count().links_files_refused == 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn gossip_gets_what_it_has_room_for_and_answers_from_its_port() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config { gossip: Some(any), socket_buffer_bytes: 1 << 20, ..Config::default() };
    let mut rig = Rig::<Net>::with_mtu(config, &[GOSSIP_NET], &["net_gossip:0"], GOSSIP_DATAGRAM_MTU);
    let (to, peer) = (addr(&mut rig, PortKind::Gossip), sender());
    send(&peer, to, &[1; TXN_MTU + 1], None);
    let depth = u64::from(DEPTH);
    for number in 0..depth + 10 {
        send(&peer, to, &number.to_le_bytes(), None);
        turn_until(&mut rig, "it is taken or dropped", |rig| {
            let count = rig.count();
            count.dropped_oversize == 1 && count.received + count.dropped_gossip == number + 1
        });
    }
    assert_eq!((rig.count().received, rig.count().dropped_gossip), (depth, 10));
    let got = taken(&mut rig, "net_gossip:0");
    assert!(got.iter().all(|(from, port, _)| (*from, *port) == (peer.local_addr(), PortKind::Gossip)));
    assert!(got.iter().map(|(.., data)| data.clone()).eq((0..depth).map(|number| number.to_le_bytes().to_vec())));
    let mut frag = vec![7; Outgoing::HEADER + 5];
    Outgoing::write_header(&mut frag, (peer.local_addr(), PortKind::Gossip), 0, 5);
    rig.give(GOSSIP_NET, 0, &frag);
    let mut batch = RecvBatch::new(1);
    turn_until(&mut rig, "the answer arrives", |_| peer.receive(&mut batch).unwrap() == 1);
    assert!(batch.datagrams().all(|(from, data)| from == to && data == [7; 5]));
}

#[test]
fn a_port_of_gossip_without_its_link_is_refused() {
    let config = Config { gossip: Some("127.0.0.1:0".parse().unwrap()), ..Config::default() };
    let error = Rig::<Net>::try_new(config, &[GOSSIP_NET], &[]).err().expect("nobody reads").to_string();
    assert!(error.contains("go together"), "{error}");
}

/// The kernel is asked once: by the sleep, or by the tile.
#[test]
fn a_pass_before_a_sleep_leaves_the_sockets_to_it() {
    let mut rig = rig(&[NET_QUIC]);
    let (to, from) = (addr(&mut rig, PortKind::Udp), sender());
    send(&from, to, b"one", None);
    let mut found = 0;
    hearth_testkit::wait_until("the datagram", || {
        found = readable(rig.tile().sockets.iter().map(|(_, socket)| socket));
        found != 0
    });
    assert_eq!((rig.turn_before_sleep(), rig.count().received), (Activity::Idle, 0));
    rig.tile().slept(found.into());
    assert_eq!((rig.turn_before_sleep(), rig.count().received), (Activity::Worked, 1));
}
