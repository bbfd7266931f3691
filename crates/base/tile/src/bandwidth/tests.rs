//! Tables under floods, and how observers read them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn table(places: usize) -> (Table, Vec<AtomicU64>) {
    (Table::new(places, [0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211]), zeros(places))
}

fn zeros(places: usize) -> Vec<AtomicU64> {
    (0..words(places)).map(|_| AtomicU64::new(0)).collect()
}

fn read(words: &[AtomicU64], places: usize) -> Tally {
    let mut tally = Tally::default();
    tally.add(words, places);
    tally
}

fn v4(number: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + number), 8001))
}

fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(move || random.u64(..))
}

#[test]
fn a_peer_is_an_address_and_on_loopback_a_port_too() {
    let name = |address: &str| Peer::at(address.parse().unwrap()).to_string();
    let cases = [
        ("192.0.2.7:8001", "192.0.2.7"),
        ("192.0.2.7:9", "192.0.2.7"),
        ("[::ffff:192.0.2.7]:9", "192.0.2.7"),
        ("[2001:db8::7]:9", "2001:db8::7"),
        ("127.0.0.1:8001", "127.0.0.1:8001"),
        ("[::ffff:127.0.0.1]:8001", "127.0.0.1:8001"),
        ("[::1]:8001", "[::1]:8001"),
    ];
    cases.iter().for_each(|(address, peer)| assert_eq!(name(address), *peer));
    let peers: BTreeSet<Peer> = cases.iter().map(|(address, _)| Peer::at(address.parse().unwrap())).collect();
    assert_eq!(peers.len(), 4);
}

#[test]
fn peers_within_the_bound_are_counted_exactly() {
    let (mut table, words) = table(4);
    assert_eq!(read(&words, 4), Tally::default(), "a workspace begins with nobody");
    for round in 0..10 {
        for peer in 0..4 {
            table.received(v4(peer), 100 + u64::from(peer));
            table.sent(v4(peer), round);
        }
    }
    table.flush(&words, 0);
    let tally = read(&words, 4);
    let of = |peer: u32| tally.peers[&Peer::at(v4(peer))];
    (0..4).for_each(|peer| assert_eq!(of(peer), Bytes { received: 1_000 + 10 * u64::from(peer), sent: 45 }));
    assert_eq!((tally.peers.len(), tally.others), (4, Bytes::default()));
    assert_eq!(tally.total(), Bytes { received: 4_060, sent: 180 });
    // Two tiles' tables add up.
    let mut both = tally.clone();
    both.add(&words, 4);
    assert_eq!((both.peers.len(), both.total()), (4, tally.total().plus(tally.total())));
    // Words that are too short are ignored.
    assert_eq!(read(&words[1..], 4), Tally::default());
}

/// A million spoofed addresses, and three peers that have a tenth of the bytes together.
#[test]
fn flood_of_addresses_evicts_none_and_is_counted() {
    let (mut table, words) = table(PLACES);
    let real = |at: u64| SocketAddr::from(([192, 0, 2, at as u8 + 1], 8001));
    let (mut expected, mut total) = ([Bytes::default(); 3], 0);
    let mut flood = numbers(7);
    for step in 0..1_000_000_u64 {
        let spoofed = v4(flood.next().unwrap() as u32 & 0x00ff_ffff);
        table.received(spoofed, 1_200);
        total += 1_200;
        if step % 10 == 0 {
            let who = step / 10 % 3;
            table.received(real(who), 1_200);
            table.sent(real(who), 60);
            let of_peer = &mut expected[who as usize];
            *of_peer = of_peer.plus(Bytes { received: 1_200, sent: 60 });
            total += 1_200;
        }
        if step % 1_000 == 0 {
            table.flush(&words, step * 20_000);
        }
    }
    table.flush(&words, 0);
    let tally = read(&words, PLACES);
    for (who, bytes) in expected.iter().enumerate() {
        assert_eq!(tally.peers[&Peer::at(real(who as u64))], *bytes);
    }
    assert!(tally.peers.len() <= PLACES);
    assert_eq!(tally.total(), Bytes { received: total, sent: 6_000_000 });
    assert!(tally.others.received > total * 8 / 10, "{:?}", tally.others);
}

/// All places are taken by peers that continue with 45 % of the bytes; a flood has 50 %, a late peer 5 %.
#[test]
fn late_heavy_peer_gets_and_keeps_a_place() {
    const STEP_NS: u64 = 20_000;
    let (mut table, words) = table(PLACES);
    let real = |at: u64| SocketAddr::from(([192, 0, 2, at as u8], 8001));
    let (late, late_peer) = (real(200), Peer::at(real(200)));
    let (mut total, mut flood, mut step) = (0, numbers(11), 0);
    let mut send = |table: &mut Table, who: SocketAddr| {
        table.received(who, 1_200);
        total += 1_200;
        step += 1;
        if step % 1_000 == 0 {
            table.flush(&words, step * STEP_NS);
        }
        (step, total)
    };
    // Ten seconds alone.
    for at in 0..500_000 {
        send(&mut table, real(at % PLACES as u64));
    }
    let (mut stayed, mut last, mut first) = (BTreeSet::new(), 0, None);
    for at in 0..1_000_000 {
        let who = match at % 20 {
            0 => late,
            odd if odd % 2 == 1 => v4(flood.next().unwrap() as u32 & 0x00ff_ffff),
            _ => real(at / 2 % PLACES as u64),
        };
        let (step, total) = send(&mut table, who);
        if step % 1_000 == 0 {
            let tally = read(&words, PLACES);
            assert_eq!(tally.total().received, total, "step {step}");
            let bytes = tally.peers.get(&late_peer).map(|bytes| bytes.received);
            // It takes at most one second to get a place; after that the place is never lost or restarted.
            if at > 50_000 {
                assert!(bytes.is_some_and(|bytes| bytes > last), "step {step}: {bytes:?} after {last}");
                first.get_or_insert(at);
            }
            last = bytes.unwrap_or(0);
            let here: BTreeSet<Peer> = tally.peers.into_keys().collect();
            stayed = if at < 1_000 { here } else { &stayed & &here };
        }
    }
    assert!(first.is_some() && last > 1_000_000 / 20 * 1_200 * 9 / 10, "{last}");
    let others = stayed.iter().filter(|peer| (0..PLACES as u64).any(|at| **peer == Peer::at(real(at)))).count();
    assert!(others >= PLACES / 2 - 1, "the heaviest half stay: {others}");
}

#[test]
fn silent_peer_gives_way_to_a_sender() {
    let (mut table, words) = table(2);
    table.received(v4(1), 1 << 40);
    table.received(v4(2), 1 << 40);
    table.flush(&words, 0);
    let late = v4(3);
    table.received(late, 1_000);
    table.flush(&words, SECOND);
    assert!(!read(&words, 2).peers.contains_key(&Peer::at(late)), "both places are heavy yet");
    // A weight halves in eight seconds.
    for second in 2..400 {
        table.received(late, 1_000);
        table.flush(&words, second * SECOND);
    }
    let tally = read(&words, 2);
    assert!(tally.peers.contains_key(&Peer::at(late)), "{tally:?}");
    assert_eq!(tally.total().received, (2 << 40) + 399 * 1_000);
}

/// The lightest place is found again after it has grown, and the sum is always right.
#[test]
fn the_sum_is_right_whatever_comes() {
    for seed in 0..50 {
        let (mut table, words) = table(5);
        let (mut total, mut last) = (Bytes::default(), Tally::default());
        let mut random = numbers(seed);
        let mut next = |below: u64| random.next().unwrap() % below;
        for step in 0..2_000 {
            // A few frequent peers and many rare ones.
            let who = if next(3) > 0 { next(4) } else { next(200) } as u32;
            let bytes = next(1_500);
            let some = match next(2) {
                0 => {
                    table.received(v4(who), bytes);
                    Bytes { received: bytes, sent: 0 }
                }
                _ => {
                    table.sent(v4(who), bytes);
                    Bytes { received: 0, sent: bytes }
                }
            };
            total = total.plus(some);
            if next(50) == 0 {
                table.flush(&words, step * SECOND / 10);
                let now = read(&words, 5);
                assert_eq!(now.total(), total, "seed {seed}, step {step}");
                let since = now.since(&last);
                assert_eq!(since.total(), total.since(last.total()), "seed {seed}, step {step}");
                last = now;
            }
        }
    }
}

#[test]
fn activity_survives_lost_and_regained_places() {
    let peers = |bytes: &[(u32, u64)], others: u64| Tally {
        peers: bytes
            .iter()
            .map(|(who, received)| (Peer::at(v4(*who)), Bytes { received: *received, sent: 0 }))
            .collect(),
        others: Bytes { received: others, sent: 0 },
    };
    // Peer 1 continues; 2 has lost its place with 500 and regained one; 3 is gone with 70; 4 is new.
    let since = peers(&[(1, 150), (2, 40), (4, 7)], 1_000).since(&peers(&[(1, 100), (2, 500), (3, 70)], 300));
    assert_eq!(since.peers.values().map(|bytes| bytes.received).collect::<Vec<_>>(), [50, 40, 7]);
    assert_eq!(since.total().received, 1_197 - 970);
    assert_eq!(since.others.received, 227 - 97);
}

/// A reader concurrent with a writer sees no peer that never existed, and none with another's bytes.
#[test]
fn a_place_that_is_being_written_is_not_mistaken() {
    let (mut table, words) = table(1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                // Each round wears down the previous peer's place, and the next one takes it: 7 bytes each from 100
                // peers.
                table.received(v4(round % 100), 7);
                table.flush(&words, 0);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let known: BTreeSet<Peer> = (0..100).map(|who| Peer::at(v4(who))).collect();
        let mut seen = BTreeSet::new();
        // It never sleeps, because it must read while the other thread writes.
        let deadline = std::time::Instant::now() + hearth_testkit::PATIENCE;
        while seen.len() < 20 && std::time::Instant::now() < deadline {
            for (peer, bytes) in read(&words, 1).peers {
                assert!(known.contains(&peer) && bytes == Bytes { received: 7, sent: 0 }, "{peer}: {bytes:?}");
                seen.insert(peer);
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(seen.len() >= 20, "{seen:?}");
    });
}

#[test]
fn a_place_whose_writer_died_says_nothing() {
    let (mut table, words) = table(1);
    table.received(v4(1), 7);
    table.flush(&words, 0);
    words[HEAD_WORDS].store(99, Ordering::Relaxed);
    assert_eq!(read(&words, 1), Tally::default());
}
