//! The tiles at the edges of a node: net, sign and metric, each alone on a rig.
//!
//! reads   loopback sockets, synthetic Merkle roots, a node's empty workspace
//! writes  one line per figure; baselines are bare sockets and stock ed25519-dalek
//! memory  a node's workspace
//!
//! cargo bench -p hearth-pipeline --bench tiles

use std::hint::black_box;
use std::net::SocketAddr;

use ed25519_dalek::Signer;
use hearth_keys::Keypair;
use hearth_pipeline::links::{NET_QUIC, Outgoing, PortKind, QUIC_NET, SHRED_SIGN, SIGN_SHRED};
use hearth_pipeline::metric::text::{Page, Template};
use hearth_pipeline::net::{self, Net};
use hearth_pipeline::sign::{self, Sign};
use hearth_pipeline::topology::{self, Affinity, Counts};
use hearth_pipeline::voters::VoterKeys;
use hearth_ring::{HugePages, Observer, Workspace};
use hearth_testkit::bench::{Bench, Unit};
use hearth_tile::affinity::Cores;
use hearth_tile::rig::Rig;
use hearth_tile::sys::udp::{Message, Options, PortSharing, RecvBatch, UdpSocket};

/// Datagrams that a local QUIC client sends at a time: few enough for a socket's buffer of 208 KiB.
const RUN: usize = 32;
const DATAGRAM: usize = 1200;

fn socket() -> UdpSocket {
    let options = Options { sharing: PortSharing::None, buffer_bytes: 4 << 20 };
    UdpSocket::bind("127.0.0.1:0".parse().expect("an address"), options).expect("a loopback socket")
}

/// Sends a run of datagrams: as one buffer that the kernel splits, or one by one in one system call.
fn send_run(from: &UdpSocket, to: SocketAddr, joined: bool) {
    let data = [7; RUN * DATAGRAM];
    let whole = [Message { to, data: &data, segment: Some(DATAGRAM as u16) }];
    let single = [Message { to, data: &data[..DATAGRAM], segment: None }; RUN];
    let messages: &[Message<'_>] = if joined { &whole } else { &single };
    assert_eq!(from.send(messages).expect("loopback takes it"), messages.len());
}

/// Receives a run of datagrams from a bare socket.
fn receive_run(socket: &UdpSocket, batch: &mut RecvBatch) -> u64 {
    let mut got = 0;
    while got < RUN {
        socket.receive(batch).expect("loopback");
        got += batch.datagrams().map(black_box).count();
    }
    got as u64
}

/// Returns a free loopback port, found by binding it once.
fn free_port() -> SocketAddr {
    socket().local_addr()
}

fn net_rig() -> (Rig<Net>, SocketAddr) {
    let quic = free_port();
    let config = net::Config {
        transactions: Some(net::TransactionPorts { quic, udp: free_port() }),
        socket_buffer_bytes: 4 << 20,
        ..net::Config::default()
    };
    (Rig::new(config, &[QUIC_NET], &[NET_QUIC]), quic)
}

fn net_receives(bench: &Bench) {
    for (name, joined) in [("net receives, runs of 32 × 1,200 B", true), ("net receives, single 1,200 B", false)] {
        let ((mut rig, to), sender) = (net_rig(), socket());
        let through_tile = || {
            send_run(&sender, to, joined);
            let mut got = 0;
            while got < RUN {
                rig.turn();
                got += rig.drain(NET_QUIC, |_, payload| {
                    black_box(payload);
                });
            }
            got as u64
        };
        let (other, receiver, mut batch) = (socket(), socket(), RecvBatch::new(16));
        let bare = || {
            send_run(&other, receiver.local_addr(), joined);
            receive_run(&receiver, &mut batch)
        };
        bench.paired(name, Unit::PerSecond, None, through_tile, bare);
    }
}

fn net_sends(bench: &Bench) {
    let ((mut rig, _), receiver, mut batch) = (net_rig(), socket(), RecvBatch::new(16));
    let mut frag = vec![7; Outgoing::HEADER + DATAGRAM];
    Outgoing::write_header(&mut frag, (receiver.local_addr(), PortKind::Quic), 0, DATAGRAM);
    let through_tile = || {
        (0..RUN).for_each(|_| rig.give(QUIC_NET, 0, &frag));
        rig.run();
        receive_run(&receiver, &mut batch)
    };
    let (other, end, mut batch) = (socket(), socket(), RecvBatch::new(16));
    let bare = || {
        send_run(&other, end.local_addr(), false);
        receive_run(&end, &mut batch)
    };
    bench.paired("net sends, single 1,200 B", Unit::PerSecond, None, through_tile, bare);
}

fn sign_requests(bench: &Bench) {
    let (from, to) = (format!("{SHRED_SIGN}:0"), format!("{SIGN_SHRED}:0"));
    let key = Keypair::from_seed(&[7; 32]).unwrap();
    let identity = key.public_key().into();
    let config = sign::Config { key, vote_account: None, voters: VoterKeys::identity_alone(), identity };
    let mut rig = Rig::<Sign>::new(config, &[&from], &[&to]);
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let requests = || {
        (1..=64u8).for_each(|n| rig.give(&from, n.into(), &[n; 32]));
        rig.run();
        rig.drain(&to, |_, signature| {
            black_box(signature);
        }) as u64
    };
    let yardstick = || {
        (0..64u8).for_each(|n| {
            black_box(key.sign(&[n; 32]));
        });
        64
    };
    bench.paired("sign requests", Unit::PerSecond, None, requests, yardstick);
}

fn metric_renders(bench: &Bench) {
    let cores = Cores { allowed: (0..8).collect(), siblings: Default::default() };
    let affinity = Affinity { node: "auto".into(), load: "auto".into() };
    let topology =
        topology::build("bench", Counts::default().auto(8, true), &affinity, &cores, false).expect("a layout");
    let path = std::env::temp_dir().join(format!("hearth-bench-metric-{}", std::process::id()));
    let _workspace = Workspace::create(&path, &topology.workspace_plan(HugePages::None)).expect("a workspace");
    let observer = Observer::attach(&path).expect("it is there");
    let template = Template::new(&topology, &observer, std::env::temp_dir()).expect("a thread");
    let text = || {
        let (mut page, mut pieces) = (Page::default(), 1);
        while !template.write(&observer, &mut page) {
            pieces += 1;
        }
        black_box(&page.text);
        pieces
    };
    bench.run("metric writes a piece of the text of a node of 8 cores", Unit::NanosPerItem, Some(50e3), text);
    std::fs::remove_file(path).expect("it is there");
}

fn main() {
    let bench = Bench::from_args();
    net_receives(&bench);
    net_sends(&bench);
    sign_requests(&bench);
    metric_renders(&bench);
}
