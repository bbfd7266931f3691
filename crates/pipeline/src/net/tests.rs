use std::net::UdpSocket as Plain;
use std::time::{Duration, Instant};

use hearth_tile::rig::Rig;

use super::*;

const LINKS: [&str; 2] = ["net_quic:0", "net_quic:1"];

fn rig() -> Rig<Net> {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config { quic: any, udp: any, socket_buffer_bytes: 1 << 20 };
    Rig::new(&config, &["quic_net:0"], &LINKS)
}

fn address(rig: &mut Rig<Net>, port: usize) -> SocketAddr {
    rig.tile().sockets[port].1.local_addr()
}

/// Turns until `done`, five seconds at most.
fn until(rig: &mut Rig<Net>, mut done: impl FnMut(&mut Rig<Net>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !done(rig) {
        rig.turn();
        assert!(Instant::now() < deadline, "net did not get there");
    }
}

#[test]
fn datagrams_come_with_sender_and_port() {
    let mut rig = rig();
    let client = Plain::bind("127.0.0.1:0").unwrap();
    client.send_to(b"quic", address(&mut rig, 0)).unwrap();
    client.send_to(b"udp", address(&mut rig, 1)).unwrap();
    let mut got = vec![];
    until(&mut rig, |rig| {
        got.extend(LINKS.iter().flat_map(|link| rig.take(link)).map(|(_, message)| message));
        got.len() == 2
    });
    let mut read: Vec<Datagram<'_>> = got.iter().map(|message| Datagram::read(message)).collect();
    read.sort_by_key(|d| d.port as u8);
    let from = client.local_addr().unwrap();
    assert_eq!(read[0], Datagram { from, port: PortKind::Quic, data: b"quic" });
    assert_eq!(read[1], Datagram { from, port: PortKind::Udp, data: b"udp" });
}

#[test]
fn a_full_link_loses_nothing_of_the_batch() {
    let mut rig = rig();
    let client = Plain::bind("127.0.0.1:0").unwrap();
    let to = address(&mut rig, 0);
    let total = hearth_tile::rig::DEPTH + 200;
    for i in 0..total {
        client.send_to(&i.to_le_bytes(), to).unwrap();
    }
    // One flow goes to one link, which holds fewer than were sent.
    until(&mut rig, |rig| rig.count().received == u64::from(hearth_tile::rig::DEPTH));
    let mut got = vec![];
    until(&mut rig, |rig| {
        got.extend(LINKS.iter().flat_map(|link| rig.take(link)).map(|(_, message)| message));
        got.len() as u32 == total
    });
    let numbers: Vec<u32> =
        got.iter().map(|m| u32::from_le_bytes(Datagram::read(m).data.try_into().unwrap())).collect();
    assert_eq!(numbers, (0..total).collect::<Vec<_>>(), "each once, in order");
}

#[test]
fn runs_are_sent_as_datagrams() {
    let mut rig = rig();
    let client = Plain::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let data = [[1u8; 1000], [2; 1000]].concat();
    let mut buffer = vec![0; 3000];
    buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(&data);
    let size = Outgoing::write_header(&mut buffer, client.local_addr().unwrap(), 1000, data.len());
    rig.give("quic_net:0", 0, &buffer[..size]);
    until(&mut rig, |rig| rig.count().sent == 2);
    let mut received = [0; 2000];
    for expected in [[1u8; 1000], [2; 1000]] {
        assert_eq!(client.recv(&mut received).unwrap(), 1000);
        assert_eq!(received[..1000], expected);
    }
    assert_eq!(rig.count().sent_bytes, 2000);
}
