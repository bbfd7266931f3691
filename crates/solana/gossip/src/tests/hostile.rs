//! Nodes that violate the rules.

use std::net::SocketAddrV4;

use hearth_testkit::random::Random;
use hearth_wire::gossip::{
    BloomFilter, Carrier, ContactInfo, CrdsData, CrdsKind, DuplicateShred, LowestSlot, Ping, Pong, Protocol, PruneData,
    Restart, SocketKind, write_ping, write_pong, write_prune, write_pull_request, write_values_header,
};

use super::network::{Network, SHRED_VERSION, address, config, contact, identity, key};
use super::*;
use crate::config::SOL;

/// Data with the signature of node `n`.
fn signed(n: usize, data: &CrdsData<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.write(&mut bytes);
    [&key(n).sign(&bytes)[..], &bytes].concat()
}

fn push(n: usize, values: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_values_header(Carrier::Push, &identity(n), values.len() as u64, &mut bytes);
    bytes.extend(values.concat());
    bytes
}

fn pull(n: usize, caller: &ContactInfo) -> Vec<u8> {
    let mut bytes = Vec::new();
    let caller = signed(n, &CrdsData::ContactInfo(*caller));
    write_pull_request(&BloomFilter::new(64, vec![1]), 0, 6, &caller, &mut bytes);
    bytes
}

/// Node `n`'s pong to a ping in a batch.
fn pong(n: usize, out: &Outbox) -> Option<Vec<u8>> {
    let token = out.iter().find_map(|(_, bytes)| match Protocol::parse(bytes) {
        Ok(Protocol::Ping(ping)) => Some(ping.token),
        _ => None,
    })?;
    let hash = pong_hash(&token);
    let mut bytes = Vec::new();
    write_pong(&Pong { from: identity(n), hash, signature: key(n).sign(&hash) }, &mut bytes);
    Some(bytes)
}

/// A single node, and its outbox.
struct SingleNode {
    gossip: Gossip,
    out: Outbox,
    now: u64,
}

impl SingleNode {
    fn new(config: Config) -> Self {
        let now = super::network::START;
        let gossip = Gossip::new(config, contact(0, now), [7; 32], now);
        Self { gossip, out: Outbox::default(), now }
    }

    fn hear(&mut self, from: SocketAddrV4, bytes: &[u8]) {
        self.out.clear();
        self.gossip.receive(self.now, from.into(), bytes, &mut self.out);
        self.sign();
    }

    fn sign(&mut self) {
        self.gossip.sign_with(self.now, &key(0), &mut self.out);
    }

    /// Makes node `n` known and verified.
    fn let_in(&mut self, n: usize) {
        let node = ContactInfo { wallclock: self.now, ..contact(n, self.now) };
        let bytes = push(n, &[signed(n, &CrdsData::ContactInfo(node))]);
        self.hear(address(n), &bytes);
        let pong = pong(n, &self.out).expect("a ping to its gossip address");
        self.hear(address(n), &pong);
        self.hear(address(n), &bytes);
        assert!(self.gossip.contact_info(&identity(n)).is_some());
    }
}

#[test]
fn no_node_enters_without_a_pong() {
    let mut alone = SingleNode::new(config(&[]));
    let node = ContactInfo { wallclock: alone.now, ..contact(1, alone.now) };
    let bytes = push(1, &[signed(1, &CrdsData::ContactInfo(node))]);
    alone.hear(address(9), &bytes);
    assert_eq!(alone.out.iter().map(|(to, _)| to).collect::<Vec<_>>(), [address(1)], "asked where it says it is");
    let right = pong(1, &alone.out).unwrap();
    alone.hear(address(9), &right);
    assert_eq!(alone.gossip.counters().pongs_unexpected, 1, "from another address");
    let mut forged = right.clone();
    forged[100] ^= 1;
    alone.hear(address(1), &forged);
    assert_eq!(alone.gossip.counters().bad_signature, 1);
    for _ in 0..3 {
        alone.hear(address(1), &bytes);
        assert!(alone.gossip.contact_info(&identity(1)).is_none() && alone.out.is_empty(), "not asked again at once");
    }
    assert_eq!((alone.gossip.counters().values_unverified, alone.gossip.sizes().nodes), (4, 0));
    let lowest = CrdsData::LowestSlot(LowestSlot { from: identity(1), lowest: 1, wallclock: alone.now });
    alone.hear(address(1), &push(1, &[signed(1, &lowest)]));
    assert_eq!(alone.gossip.counters().values_unknown_origin, 1, "nothing else of it either");
    alone.hear(address(1), &right);
    assert!(alone.gossip.contact_info(&identity(1)).is_some(), "its contact info has waited");
    alone.hear(address(1), &bytes);
    assert_eq!((alone.gossip.counters().values_new, alone.gossip.counters().values_duplicate), (1, 1));
    // Another address must be verified separately.
    let moved = node.with(SocketKind::Gossip, address(2));
    let moved = ContactInfo { wallclock: alone.now + 1, ..moved };
    alone.hear(address(1), &push(1, &[signed(1, &CrdsData::ContactInfo(moved))]));
    assert_eq!(
        alone.gossip.contact_info(&identity(1)).and_then(|node| node.socket(SocketKind::Gossip)),
        Some(address(1))
    );
    assert_eq!(alone.out.iter().next().map(|(to, _)| to), Some(address(2)));
}

#[test]
fn pull_is_answered_after_a_pong() {
    let mut alone = SingleNode::new(config(&[]));
    alone.gossip.tick(alone.now, &mut Outbox::default());
    alone.sign();
    let caller = ContactInfo { wallclock: alone.now, ..contact(1, alone.now) };
    // Eight filters of one part each would be needed to see all; our own contact info is in one of 64.
    let ask = |alone: &mut SingleNode, from, caller: &ContactInfo| {
        let mut values = 0;
        for part in 0..64 {
            let mut bytes = Vec::new();
            let caller = signed(1, &CrdsData::ContactInfo(*caller));
            write_pull_request(&BloomFilter::new(64, vec![1]), part, 6, &caller, &mut bytes);
            alone.hear(from, &bytes);
            values += alone.out.iter().filter(|(_, bytes)| bytes[0] == 1).count();
        }
        values
    };
    alone.hear(address(3), &pull(1, &caller));
    let pong = pong(1, &alone.out).expect("a ping comes first");
    assert_eq!(ask(&mut alone, address(3), &caller), 0);
    assert_eq!(alone.gossip.counters().pull_unverified, 65);
    alone.hear(address(3), &pong);
    assert_eq!(ask(&mut alone, address(3), &caller), 1);
    assert!(alone.gossip.contact_info(&identity(1)).is_none(), "the caller does not enter by that");
    let late = ContactInfo { wallclock: caller.wallclock - 15_001, ..caller };
    assert_eq!(ask(&mut alone, address(3), &late), 0);
    assert_eq!(ask(&mut alone, address(3), &ContactInfo { shred_version: 1, ..caller }), 0);
    let counters = *alone.gossip.counters();
    assert_eq!((counters.pull_wallclock, counters.pull_shred_version), (64, 64));
    let mut forged = pull(1, &caller);
    let last = forged.len() - 1;
    forged[last - 3] ^= 1;
    alone.hear(address(3), &forged);
    alone.hear(address(0), &pull(0, &contact(0, alone.now)));
    assert_eq!(alone.gossip.counters().pull_from_self, 1);
    assert_eq!(alone.gossip.counters().bad_signature, 1);
}

#[test]
fn one_bad_signature_spoils_its_datagram() {
    let mut alone = SingleNode::new(config(&[]));
    alone.let_in(1);
    let lowest = |lowest, wallclock| CrdsData::LowestSlot(LowestSlot { from: identity(1), lowest, wallclock });
    let (good, bad) = (signed(1, &lowest(5, alone.now)), signed(2, &lowest(6, alone.now + 1)));
    alone.hear(address(1), &push(1, &[good.clone(), bad]));
    assert_eq!(alone.gossip.lowest_slot(&identity(1)), None);
    assert_eq!(alone.gossip.counters().bad_signature, 1);
    alone.hear(address(1), &push(1, &[good]));
    assert_eq!(alone.gossip.lowest_slot(&identity(1)), Some(5));
    for (off, taken) in [(15_001, false), (15_000, true)] {
        alone.hear(address(1), &push(1, &[signed(1, &lowest(off, alone.now + off))]));
        assert_eq!(alone.gossip.lowest_slot(&identity(1)) == Some(off), taken);
    }
    assert_eq!(alone.gossip.counters().values_wallclock, 1);
    alone.hear(address(1), &push(1, &[signed(1, &lowest(9, alone.now))]));
    assert_eq!(alone.gossip.counters().values_stale, 1);
}

#[test]
fn another_shred_version_never_gets_in() {
    let mut network = network(21);
    network.add_many(8, &[0]);
    for n in [8, 9] {
        let own = ContactInfo { shred_version: SHRED_VERSION + 1, ..contact(n, network.now) };
        network.start(n, config(&[0, 8]), own);
    }
    network.run_for(60_000);
    let knows = |network: &Network, n: usize| -> Vec<usize> {
        (0..10).filter(|other| network.gossip(n).contact_info(&identity(*other)).is_some()).collect()
    };
    for n in 0..8 {
        assert_eq!(knows(&network, n), (0..8).collect::<Vec<_>>(), "node {n}");
    }
    assert_eq!((knows(&network, 8), knows(&network, 9)), (vec![8, 9], vec![8, 9]));
    assert!(network.gossip(0).counters().pull_shred_version > 0);
    let mut alone = SingleNode::new(config(&[]));
    let other = ContactInfo { shred_version: 1, wallclock: alone.now, ..contact(1, alone.now) };
    alone.hear(address(1), &push(1, &[signed(1, &CrdsData::ContactInfo(other))]));
    assert_eq!((alone.gossip.counters().values_shred_version, alone.out.len()), (1, 0));
}

#[test]
fn in_a_replay_a_node_enters_without_a_pong() {
    for trusts_addresses in [false, true] {
        let mut alone = SingleNode::new(Config { trusts_addresses, ..config(&[]) });
        let node = ContactInfo { wallclock: alone.now, ..contact(1, alone.now) };
        alone.hear(address(1), &push(1, &[signed(1, &CrdsData::ContactInfo(node))]));
        assert_eq!(alone.gossip.contact_info(&identity(1)).is_some(), trusts_addresses);
    }
}

#[test]
fn private_addresses_are_refused() {
    let mut alone = SingleNode::new(Config { allow_private: false, ..config(&[]) });
    let node = ContactInfo { wallclock: alone.now, ..contact(1, alone.now) };
    let bytes = push(1, &[signed(1, &CrdsData::ContactInfo(node))]);
    alone.hear(address(1), &bytes);
    assert_eq!((alone.gossip.counters().source_refused, alone.out.len()), (1, 0));
    alone.hear("8.8.8.8:8000".parse().unwrap(), &bytes);
    assert_eq!((alone.gossip.counters().values_gossip_address, alone.out.len()), (1, 0));
    let mut ping = Vec::new();
    write_ping(&Ping { from: identity(1), token: [1; 32], signature: key(1).sign(&[1; 32]) }, &mut ping);
    alone.hear("8.8.8.8:8000".parse().unwrap(), &ping);
    assert_eq!(alone.out.len(), 1, "a pong to any sender");
    let from = "[::1]:8000".parse().unwrap();
    alone.gossip.receive(alone.now, from, &ping, &mut alone.out);
    assert_eq!(alone.gossip.counters().source_refused, 2);
}

#[test]
fn unstaked_nodes_and_hosts_are_limited() {
    let limits = Config { unstaked_origin_bytes_max: 8_192, unstaked_per_host_max: 3, ..config(&[]) };
    let mut alone = SingleNode::new(limits);
    alone.gossip.set_stakes([(identity(5), SOL)].into(), 60_000);
    alone.gossip.set_root(0, 1_000);
    for n in [1, 5] {
        alone.let_in(n);
        for index in 0..512 {
            let piece = DuplicateShred {
                index,
                from: identity(n),
                wallclock: alone.now,
                slot: u64::from(index),
                unused: 0,
                shred_type: 0,
                chunk_count: 3,
                chunk_index: 0,
                chunk: &[3; 1_000],
            };
            alone.hear(address(n), &push(n, &[signed(n, &CrdsData::DuplicateShred(piece))]));
        }
    }
    let sizes = alone.gossip.sizes();
    assert!((512..530).contains(&sizes.values), "{sizes:?}");
    assert!(alone.gossip.counters().values_origin_full > 500);
    assert_eq!((sizes.proofs, alone.gossip.counters().proof_pieces_refused), (6 + 16, 1 + 512 - 16), "{sizes:?}");
    for n in 10..20 {
        let node = contact(n, alone.now).with(SocketKind::Gossip, SocketAddrV4::new([10, 9, 9, 9].into(), n as u16));
        let node = ContactInfo { wallclock: alone.now, ..node };
        let (at, bytes) =
            (node.socket(SocketKind::Gossip).unwrap(), push(n, &[signed(n, &CrdsData::ContactInfo(node))]));
        alone.hear(at, &bytes);
        if let Some(pong) = pong(n, &alone.out) {
            alone.hear(at, &pong);
            alone.hear(at, &bytes);
        }
    }
    assert_eq!(alone.gossip.contact_infos().count(), 2 + 3);
    assert_eq!(alone.gossip.counters().values_host_full, 7);
}

#[test]
fn a_placeholder_is_no_socket() {
    let mut alone = SingleNode::new(config(&[]));
    alone.let_in(1);
    let host = |port| SocketAddrV4::new(*address(1).ip(), port);
    let node = contact(1, alone.now)
        .with(SocketKind::Tpu, host(1))
        .with(SocketKind::TpuForwards, host(1))
        .with(SocketKind::TpuQuic, host(8_009))
        .with(SocketKind::TpuVote, host(8_005));
    let node = ContactInfo { wallclock: alone.now + 1, ..node };
    alone.hear(address(1), &push(1, &[signed(1, &CrdsData::ContactInfo(node))]));
    let known = alone.gossip.contact_info(&identity(1)).expect("it was let in");
    let of = |kind| alone.gossip.socket(known, kind);
    assert_eq!([SocketKind::Tpu, SocketKind::TpuForwards].map(of), [None, None]);
    assert_eq!([SocketKind::TpuQuic, SocketKind::TpuVote].map(of), [Some(host(8_009)), Some(host(8_005))]);
}

#[test]
fn whatever_is_dropped_has_its_counter() {
    let mut alone = SingleNode::new(config(&[]));
    alone.let_in(1);
    let good = push(1, &[signed(1, &CrdsData::ContactInfo(contact(1, alone.now)))]);
    let mut deprecated = good.clone();
    deprecated[44 + 64] = 6;
    alone.hear(address(1), &deprecated);
    alone.hear(address(1), &[&good[..], &[0; 1_233]].concat());
    let caller = ContactInfo { wallclock: alone.now, ..contact(1, alone.now) };
    let mut coarse = Vec::new();
    write_pull_request(&BloomFilter::new(64, vec![1]), 0, 5, &signed(1, &CrdsData::ContactInfo(caller)), &mut coarse);
    alone.hear(address(1), &coarse);
    let restart =
        Restart { kind: CrdsKind::RestartHeaviestFork, from: identity(1), wallclock: alone.now, rest: &[0; 50] };
    alone.hear(address(1), &push(1, &[signed(1, &CrdsData::Restart(restart))]));
    let counters = alone.gossip.counters();
    assert_eq!((counters.deprecated_kind, counters.malformed, counters.coarse_filter), (1, 1, 1));
    assert_eq!((counters.values_unused_kind, alone.gossip.sizes().values), (1, 1));

    let prune = |destination, wallclock, with_domain| {
        let (pubkey, prunes) = (identity(1), &[identity(5)][..]);
        let mut data = PruneData { pubkey, prunes, signature: [0; 64], destination, wallclock };
        let mut bytes = Vec::new();
        data.signed(with_domain, &mut bytes);
        data.signature = key(1).sign(&bytes);
        bytes.clear();
        write_prune(&data, &mut bytes);
        bytes
    };
    let now = alone.now;
    alone.hear(address(1), &prune(identity(0), now - 501, false));
    alone.hear(address(1), &prune(identity(2), now, false));
    alone.hear(address(1), &prune(identity(0), now - 500, false));
    alone.hear(address(1), &prune(identity(0), now, true));
    let counters = alone.gossip.counters();
    assert_eq!((counters.prune_wallclock, counters.prune_destination, counters.prunes_received), (1, 1, 2));
}

#[test]
fn oversized_message_is_malformed() {
    let mut alone = SingleNode::new(config(&[]));
    alone.let_in(1);
    let piece = |size: usize| {
        let chunk = &vec![3; size][..];
        let piece = DuplicateShred {
            index: 0,
            from: identity(1),
            wallclock: alone.now,
            slot: 1,
            unused: 0,
            shred_type: 0,
            chunk_count: 3,
            chunk_index: 0,
            chunk,
        };
        signed(1, &CrdsData::DuplicateShred(piece))
    };
    // 64 + 4 + 2 + 32 + 8 + 8 + 4 + 3 + 8 bytes beside the chunk.
    let (longest, longer) = (piece(1_188 - 133), piece(1_189 - 133));
    assert_eq!((longest.len(), longer.len()), (1_188, 1_189));
    // In a request with an empty filter the value is too long, in a push the datagram is.
    let asks = [&[0; 37][..], &[6, 0, 0, 0], &longer].concat();
    for (at, bytes) in [asks, push(1, std::slice::from_ref(&longer)), vec![0xff; 65_000]].iter().enumerate() {
        alone.hear(address(1), bytes);
        assert_eq!(alone.gossip.counters().malformed, at as u64 + 1);
    }
    assert_eq!((alone.gossip.sizes().values, alone.out.len()), (1, 0));
    alone.hear(address(1), &push(1, &[longest]));
    assert_eq!((alone.gossip.counters().malformed, alone.gossip.sizes().values), (3, 2));
}

#[test]
fn answers_keep_to_their_budgets() {
    let mut alone = SingleNode::new(config(&[]));
    alone.let_in(1);
    for slot in 0..100 {
        alone.gossip.publish_duplicate(slot, [&[1; 1_203], &[2; 1_203]], alone.now).unwrap();
        alone.sign();
    }
    let caller = ContactInfo { wallclock: alone.now, ..contact(1, alone.now) };
    let caller = signed(1, &CrdsData::ContactInfo(caller));
    let ask = |alone: &mut SingleNode, keys: usize, part: u64| -> usize {
        let mut bytes = Vec::new();
        write_pull_request(&BloomFilter::new(64, (0..keys as u64).collect()), part, 6, &caller, &mut bytes);
        alone.hear(address(1), &bytes);
        alone.out.size()
    };
    let sent: usize = (0..64).map(|part| ask(&mut alone, 1, part)).sum();
    assert!((7_000..=10_240).contains(&sent), "{sent} bytes of half a second's");
    let left_out = alone.gossip.counters().pull_over_budget;
    assert_eq!(left_out + alone.gossip.counters().pull_values_sent, 301, "all others were counted");
    alone.now += 250;
    let more: usize = (0..64).map(|part| ask(&mut alone, 1, part)).sum();
    assert!((3_000..=5_120 + 10_240 - sent).contains(&more), "{more} bytes of a quarter's more");
    // 4 values a part times 100 keys: some 2,600 requests use up what may be scanned at once.
    let mut asked = 0;
    while alone.gossip.counters().pull_scan_budget == 0 {
        ask(&mut alone, 100, 0);
        asked += 1;
        assert!(asked < 5_000);
    }
    assert!(asked > 2_000, "{asked} requests");
    alone.now += 1_000;
    ask(&mut alone, 100, 0);
    assert_eq!(alone.gossip.counters().pull_scan_budget, 1, "a second later there is some again");
}

/// One round of a flood: `count` datagrams to `to`, from one's own address and from spoofed ones.
fn flood(network: &mut Network, random: &mut Random, to: usize, count: usize) {
    let wallclock = network.now;
    for _ in 0..count {
        let n = 1_000 + random.index(300);
        // Some of them exist and answer pings: see `let_some_answer`.
        let own = SocketAddrV4::new([10, 77, 0, 1].into(), 1_000 + n as u16);
        let node = ContactInfo { wallclock, ..contact(n, wallclock).with(SocketKind::Gossip, own) };
        let spoofed = SocketAddrV4::new([10, 66, random.word() as u8, random.word() as u8].into(), 5);
        let (from, bytes) = match random.below(6) {
            0 => (spoofed, random.bytes(1_232)),
            1 => (spoofed, pull(n, &ContactInfo { wallclock, ..contact(n, wallclock) })),
            2 => (own, pull(n, &node)),
            3 => (own, push(n, &[signed(n, &CrdsData::ContactInfo(node))])),
            4 => {
                let lowest = LowestSlot { from: identity(n), lowest: random.below(1_000), wallclock };
                (own, push(n, &[signed(n, &CrdsData::LowestSlot(lowest))]))
            }
            _ => {
                let piece = DuplicateShred {
                    index: random.below(512) as u16,
                    from: identity(n),
                    wallclock,
                    slot: random.below(1_000),
                    unused: 0,
                    shred_type: 0,
                    chunk_count: 3,
                    chunk_index: 0,
                    chunk: &[3; 1_000],
                };
                (own, push(n, &[signed(n, &CrdsData::DuplicateShred(piece))]))
            }
        };
        network.send(from, address(to), &bytes);
    }
}

/// The existing nodes of the flood: they run gossip, which answers pings.
fn let_some_answer(network: &mut Network) {
    for n in 1_000..1_100 {
        let at = SocketAddrV4::new([10, 77, 0, 1].into(), 1_000 + n as u16);
        let own = contact(n, network.now).with(SocketKind::Gossip, at);
        network.start_at(at, n, config(&[]), own);
    }
}

#[test]
fn flood_is_bounded_and_excludes_none() {
    let mut network = network(22);
    let mut random = Random(22);
    network.stakes = (0..10).map(|n| (identity(n), SOL)).collect();
    let limits = |entrypoints: &[usize]| Config {
        origins_max: 40,
        table_bytes_max: 100_000,
        unstaked_origin_bytes_max: 4_096,
        unstaked_per_host_max: 20,
        ..config(entrypoints)
    };
    for n in 0..12 {
        let own = contact(n, network.now);
        network.start(n, limits(&[0]), own);
    }
    let honest = |network: &Network, count: usize| {
        (0..count).all(|n| (0..count).all(|other| network.gossip(n).contact_info(&identity(other)).is_some()))
    };
    network.run_while_not(60_000, "the honest know each other", |network| honest(network, 12));
    let_some_answer(&mut network);
    for round in 0..150 {
        if round == 40 {
            // A node joins in the middle of the flood, with the flooded node as its entrypoint.
            let own = contact(12, network.now);
            network.start(12, limits(&[0]), own);
        }
        flood(&mut network, &mut random, 0, 100);
        network.run_for(200);
        let sizes = network.gossip(0).sizes();
        assert!(sizes.nodes <= 44 && sizes.value_bytes <= 130_000, "{sizes:?}");
        assert!(sizes.pings <= 126_976 && sizes.hashes <= 2 * 65_536 && sizes.proofs <= 1_024);
    }
    let counters = network.gossip(0).counters();
    let Counters { malformed, pull_unverified, values_host_full, values_origin_full, values_unverified, .. } =
        *counters;
    let refused = [malformed, pull_unverified, values_host_full, values_origin_full, values_unverified];
    assert!(refused.iter().all(|count| *count > 20), "{counters:?}");
    assert!(honest(&network, 13), "the one that came during the flood is known, and all others still");
    println!("{:?}", network.gossip(0).sizes());
}

#[test]
fn noise_changes_nothing() {
    let seed = 23;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut alone = SingleNode::new(config(&[]));
    alone.let_in(1);
    let before = alone.gossip.sizes();
    let node = ContactInfo { wallclock: alone.now + 1, ..contact(1, alone.now) };
    let good = push(1, &[signed(1, &CrdsData::ContactInfo(node))]);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        // The sender field, which is not signed, is left as it is.
        let at = 36 + random.index(bytes.len() - 36);
        match random.below(3) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            _ => {
                let noise = 1 + random.index(1_300);
                bytes = random.bytes(noise);
            }
        }
        alone.hear(address(2), &bytes);
        assert!(alone.out.is_empty());
    }
    assert_eq!(alone.gossip.sizes(), before);
    let counters = alone.gossip.counters();
    assert!(counters.malformed > 10_000 && counters.bad_signature > 1_000, "{counters:?}");
}
