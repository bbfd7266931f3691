//! The attacks: what each sends, how often, and the counters in which the node shows it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use alloy_primitives::Address;
use hearth_crypto::secp256k1::Signer;
use hearth_ledger::genesis::funded_account_key;
use hearth_ring::unix_time;
use hearth_testkit::random::Random;
use hearth_wire::Pubkey;
use hearth_wire::repair::{Request, RequestContent};
use serde_json::json;

use super::super::client::{fresh_address, transfer};
use super::super::evm;
use super::super::node::Rpc;
use super::super::two_blocks::other_block;
use super::attacker::Attack;
use super::packets::{GossipNode, Seal, altered_shred, forged_transaction, garbage, key, moved_shred, repair_request};
use super::quic::{HalfStreams, Handshakes, Initials};
use super::tcp::{Calls, Connections, Servers, in_turn};

/// Forged shreds are of the slot that comes after the newest by this.
const SHREDS_AHEAD: u64 = 2;
/// Forged shreds of a slot, before a newer slot's.
const SHREDS_PER_SLOT: usize = 500;
/// How far ahead shreds of the wrong slot are.
const FAR: u64 = 1 << 32;

/// An attack, and the counters that must show it.
pub struct Plan<T> {
    /// Name of the attack, as the test prints it.
    pub name: &'static str,
    /// Attempts per second, at most.
    pub rate: u64,
    /// The name of an attempt, in the plural.
    pub unit: &'static str,
    /// Counters that must rise, beyond what the legitimate traffic raises. Of names separated by `|` one is enough.
    pub counters: &'static [&'static str],
    /// Prepares the attack on a target.
    pub start: fn(&T) -> Box<dyn Attack>,
}

/// A Solana node that leads and one that follows it.
pub struct SolanaTarget {
    /// The JSON-RPC addresses of the leader.
    pub servers: Servers,
    /// The leader's port of transactions over QUIC.
    pub quic: SocketAddr,
    /// The leader's port of transactions over plain UDP.
    pub udp: SocketAddr,
    /// The leader's gossip port.
    pub gossip: SocketAddr,
    /// The port at which the leader serves repair.
    pub repair: SocketAddr,
    /// The port at which the follower takes shreds.
    pub tvu: SocketAddr,
    /// Every UDP port of both.
    pub ports: Vec<SocketAddr>,
    /// The public key of the leader's identity.
    pub identity: Pubkey,
    /// The chain's shred version.
    pub shred_version: u16,
    /// A client of the leader's RPC.
    pub leader: Rpc,
}

/// The attacks on a Solana node.
pub const SOLANA: [Plan<SolanaTarget>; 20] = [
    Plan {
        name: "tcp-connections",
        rate: 1_000,
        unit: "connections to the RPC, of which 800 are held",
        counters: &["rpc_connections_idle_closed"],
        start: |target| Box::new(Connections::silent(&target.servers)),
    },
    Plan {
        name: "unfinished-requests",
        rate: 1_000,
        unit: "HTTP requests without an end, of which 800 are held",
        counters: &["rpc_connections_idle_closed"],
        start: |target| Box::new(Connections::unfinished(&target.servers)),
    },
    Plan {
        name: "quic-initials",
        rate: 1_000,
        unit: "first packets of connections",
        counters: &["quic_retries_sent|quic_refused_half_open|quic_initials_dropped|quic_handshakes_timed_out"],
        start: |target| Box::new(Initials::new(target.quic)),
    },
    Plan {
        name: "quic-handshakes",
        rate: 100,
        unit: "handshakes from 64 addresses",
        counters: &["quic_connections_opened"],
        start: |target| Box::new(Handshakes::new(target.quic)),
    },
    Plan {
        name: "half-open-streams",
        rate: 50,
        unit: "streams that stay unfinished, each on a connection of its own",
        counters: &["quic_streams_timed_out|quic_streams_abandoned|quic_streams_over_memory"],
        start: |target| Box::new(HalfStreams::new(target.quic)),
    },
    Plan {
        name: "garbage",
        rate: 10_000,
        unit: "datagrams of noise, on every UDP port in turn",
        counters: &[
            "quic_datagrams_ignored|quic_refused_malformed|quic_responses_dropped",
            "verify_dropped_malformed|quic_udp_dropped_size",
            "gossip_malformed",
            "rserve_dropped_malformed",
            "shred_dropped_malformed",
        ],
        start: noise,
    },
    Plan {
        name: "bad-signatures",
        rate: 5_000,
        unit: "transactions with a forged signature",
        counters: &["verify_dropped_signature"],
        start: forged_transactions,
    },
    Plan {
        name: "duplicates",
        rate: 10_000,
        unit: "copies of one transaction",
        counters: &["verify_dropped_duplicate|dedup_dropped_duplicate"],
        start: duplicates,
    },
    Plan {
        name: "expired-blockhashes",
        rate: 2_000,
        unit: "signed transactions that name no recent block",
        counters: &["pack_dropped_expired|bank_dropped_blockhash_not_found"],
        start: expired,
    },
    Plan {
        name: "gossip-forged",
        rate: 5_000,
        unit: "pushes with a forged signature",
        counters: &["gossip_bad_signature|gossip_values_unverified|gossip_values_host_full"],
        start: |target| gossip(target, |node, random| node.push(Seal::Forged, random)),
    },
    Plan {
        name: "gossip-signed",
        rate: 2_000,
        unit: "signed pushes of new nodes",
        counters: &["gossip_values_unverified|gossip_values_host_full"],
        start: |target| gossip(target, |node, random| node.push(Seal::Signed, random)),
    },
    Plan {
        name: "gossip-pulls",
        rate: 2_000,
        unit: "signed pull requests of new nodes",
        counters: &["gossip_pull_unverified|gossip_pull_scan_budget"],
        start: |target| gossip(target, |node, random| node.pull(random)),
    },
    Plan {
        name: "gossip-pings",
        rate: 2_000,
        unit: "signed pings of new nodes",
        counters: &["gossip_pings_received"],
        start: |target| gossip(target, |node, random| node.ping(random)),
    },
    Plan {
        name: "repair-forged",
        rate: 5_000,
        unit: "repair requests with a forged signature",
        counters: &["rserve_dropped_signature|rserve_dropped_over_budget"],
        start: |target| repair(target, Seal::Forged),
    },
    Plan {
        name: "repair-signed",
        rate: 2_000,
        unit: "signed repair requests of new nodes",
        counters: &["rserve_dropped_unproved|rserve_dropped_over_budget"],
        start: |target| repair(target, Seal::Signed),
    },
    Plan {
        name: "shreds-forged",
        rate: 2_000,
        unit: "shreds of a coming slot that its leader has not signed",
        counters: &["shred_dropped_signature|shred_dropped_proof"],
        start: |target| shreds(target, |shred, _, random| altered_shred(shred, random)),
    },
    Plan {
        name: "shreds-of-wrong-slots",
        rate: 5_000,
        unit: "shreds of slot 1 and of slots far ahead",
        counters: &[
            "shred_dropped_ahead",
            // Slot 1 may be final by then, or whole, or neither.
            "shred_dropped_old|shred_dropped_duplicate|shred_dropped_signature",
        ],
        start: |target| shreds(target, |shred, slot, random| altered_shred(&wrong_slot(shred, slot, random), random)),
    },
    Plan {
        name: "rpc-http",
        rate: 1_000,
        unit: "calls over HTTP, every second of them of no method",
        counters: &["rpc_errors"],
        start: |target| {
            let calls = in_turn(&[("getEpochInfo", "[]"), ("getNothing", "[]")]);
            Box::new(Calls::http(&target.servers, calls))
        },
    },
    Plan {
        name: "rpc-accounts",
        rate: 50,
        unit: "calls that look at every account of the system program",
        counters: &["rpc_requests"],
        start: |target| {
            let programs = in_turn(&[("getProgramAccounts", r#"["11111111111111111111111111111111"]"#)]);
            Box::new(Calls::http(&target.servers, programs))
        },
    },
    Plan {
        name: "rpc-websocket",
        rate: 200,
        unit: "subscriptions over 16 WebSockets",
        counters: &["rpc_subscriptions"],
        start: |target| {
            let subscriptions = in_turn(&[("slotSubscribe", "[]"), ("logsSubscribe", r#"["all"]"#)]);
            Box::new(Calls::websocket(&target.servers, subscriptions))
        },
    },
];

/// The attacks on an EVM node.
pub const EVM: [Plan<Servers>; 5] = [
    Plan {
        name: "tcp-connections",
        rate: 1_000,
        unit: "connections to the RPC, of which 800 are held",
        counters: &["web3_connections_idle_closed"],
        start: |servers| Box::new(Connections::silent(servers)),
    },
    Plan {
        name: "unfinished-requests",
        rate: 1_000,
        unit: "HTTP requests without an end, of which 800 are held",
        counters: &["web3_connections_idle_closed"],
        start: |servers| Box::new(Connections::unfinished(servers)),
    },
    Plan {
        name: "unfunded-transactions",
        rate: 500,
        unit: "signed transactions of accounts without money",
        counters: &["pool_refused|web3_transactions_refused|evm_refused"],
        start: unfunded,
    },
    Plan {
        name: "rpc-http",
        rate: 1_000,
        unit: "calls over HTTP, every second of them of no method",
        counters: &["web3_errors"],
        start: |servers| {
            let calls = in_turn(&[("eth_getBlockByNumber", r#"["latest", false]"#), ("eth_nothing", "[]")]);
            Box::new(Calls::http(servers, calls))
        },
    },
    Plan {
        name: "rpc-websocket",
        rate: 200,
        unit: "subscriptions over 16 WebSockets",
        counters: &["web3_subscriptions"],
        start: |servers| {
            let subscriptions =
                in_turn(&[("eth_subscribe", r#"["newHeads"]"#), ("eth_subscribe", r#"["newPendingTransactions"]"#)]);
            Box::new(Calls::websocket(servers, subscriptions))
        },
    },
];

/// Sends datagrams, each made when it is due.
struct Datagrams<F> {
    socket: UdpSocket,
    make: F,
}

impl<F: FnMut() -> (SocketAddr, Vec<u8>)> Attack for Datagrams<F> {
    fn burst(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            let (to, bytes) = (self.make)();
            // A full buffer loses the datagram, as a network would.
            let _ = self.socket.send_to(&bytes, to);
        }
        count
    }
}

/// The loopback address that attacks come from.
const HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 99);

fn datagrams(make: impl FnMut() -> (SocketAddr, Vec<u8>) + 'static) -> Box<dyn Attack> {
    Box::new(Datagrams { socket: UdpSocket::bind((HOST, 0)).expect("a socket"), make })
}

fn noise(target: &SolanaTarget) -> Box<dyn Attack> {
    let (ports, mut random, mut number) = (target.ports.clone(), Random(1), 0);
    datagrams(move || {
        let to = ports[number % ports.len()];
        number += 1;
        (to, garbage(&mut random, number / ports.len()))
    })
}

fn forged_transactions(target: &SolanaTarget) -> Box<dyn Attack> {
    let blockhash = target.leader.latest_blockhash();
    let signed = transfer(&funded_account_key(63), &fresh_address(4, 0), 1_000_000, &blockhash);
    let (to, mut random) = (target.udp, Random(2));
    datagrams(move || (to, forged_transaction(&signed, &mut random)))
}

fn duplicates(target: &SolanaTarget) -> Box<dyn Attack> {
    let blockhash = target.leader.latest_blockhash();
    let signed = transfer(&funded_account_key(62), &fresh_address(4, 1), 1_000_000, &blockhash);
    let to = target.udp;
    datagrams(move || (to, signed.clone()))
}

fn expired(target: &SolanaTarget) -> Box<dyn Attack> {
    let payer = funded_account_key(61);
    let (to, mut random, mut number) = (target.udp, Random(3), 0);
    datagrams(move || {
        number += 1;
        (to, transfer(&payer, &fresh_address(5, number), 1_000_000, &random.key()))
    })
}

fn now_ms() -> u64 {
    unix_time().as_millis() as u64
}

/// A message of a new node each time.
fn gossip(target: &SolanaTarget, message: fn(&GossipNode, &mut Random) -> Vec<u8>) -> Box<dyn Attack> {
    let (to, shred_version, mut random) = (target.gossip, target.shred_version, Random(4));
    datagrams(move || {
        let address = SocketAddrV4::new(HOST, 1_024 + random.below(60_000) as u16);
        let node = GossipNode::new(&mut random, address, shred_version, now_ms());
        (to, message(&node, &mut random))
    })
}

fn repair(target: &SolanaTarget, seal: Seal) -> Box<dyn Attack> {
    let (to, recipient, mut random, mut nonce) = (target.repair, target.identity, Random(5), 0);
    datagrams(move || {
        nonce += 1;
        let sender = key(&mut random);
        let wanted = RequestContent::Shred { slot: 1, index: 0 };
        let request = Request { sender: sender.public_key(), recipient, time_ms: now_ms(), nonce, wanted };
        (to, repair_request(&request, &sender, seal, &mut random))
    })
}

/// Shreds that a stranger has signed for the slots to come, each with a change.
fn shreds(target: &SolanaTarget, change: fn(&[u8], u64, &mut Random) -> Vec<u8>) -> Box<dyn Attack> {
    let (to, leader, version, mut random) = (target.tvu, target.leader, target.shred_version, Random(6));
    let signer = key(&mut random);
    let (mut slot, mut block, mut number) = (1, vec![], 0_usize);
    datagrams(move || {
        if number.is_multiple_of(SHREDS_PER_SLOT) {
            slot = newest_slot(leader).map_or(slot, |newest| newest + SHREDS_AHEAD);
            block = other_block(slot, version, &signer);
        }
        let shred: &[u8] = &block[number % block.len()];
        number += 1;
        (to, change(shred, slot, &mut random))
    })
}

fn wrong_slot(shred: &[u8], slot: u64, random: &mut Random) -> Vec<u8> {
    moved_shred(shred, if random.chance(500) { 1 } else { slot + FAR })
}

fn newest_slot(rpc: Rpc) -> Option<u64> {
    rpc.try_call("getSlot", json!([{ "commitment": "processed" }])).ok()?.as_u64()
}

fn unfunded(servers: &Servers) -> Box<dyn Attack> {
    let mut random = Random(7);
    let body = move || {
        let signer = Signer::new(&random.key()).expect("a key");
        let raw = evm::transfer(&signer, 0, Address::repeat_byte(0x22), 1);
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw] })
    };
    Box::new(Calls::http(servers, body))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn are_different<T>(plans: &[Plan<T>]) {
        let names: BTreeSet<&str> = plans.iter().map(|plan| plan.name).collect();
        assert_eq!(names.len(), plans.len());
        assert!(plans.iter().all(|plan| plan.rate > 0 && !plan.counters.is_empty()));
    }

    #[test]
    fn each_attack_has_a_name_a_rate_and_a_counter() {
        are_different(&SOLANA);
        are_different(&EVM);
    }
}
