//! The start of a cluster: nodes that begin together know each other soon.

use super::network::{Network, config, contact, identity};
use super::*;
use crate::config::SOL;

/// How long nodes may take to know each other, in ms.
const SOON_MS: u64 = 3_000;
/// The nodes start within this time, in ms.
const APART_MS: u64 = 100;

/// A network without loss, in which nodes 0 to `count` have the same stake.
fn fresh(seed: u64, count: usize) -> Network {
    let mut network = network(seed);
    network.loss_per_mille = 0;
    network.stakes = (0..count).map(|n| (identity(n), 100 * SOL)).collect();
    network
}

/// Starts these nodes one after the other within [`APART_MS`].
fn start(network: &mut Network, nodes: std::ops::Range<usize>, entrypoints: impl Fn(usize) -> Vec<usize>) {
    let (first, count) = (network.now, nodes.len() as u64);
    for (place, n) in (1..).zip(nodes) {
        let own = contact(n, network.now);
        network.start(n, config(&entrypoints(n)), own);
        network.run_until(first + APART_MS * place / count);
    }
}

fn know_each_other_soon(network: &mut Network, count: usize) {
    let all: Vec<usize> = (0..count).collect();
    network.run_while_not(SOON_MS, "all know each other", |network| network.all_know(&all));
}

#[test]
fn nodes_that_begin_together_know_each_other_soon() {
    for count in [4, 10] {
        for seed in 30..40 {
            let mut network = fresh(seed, count);
            start(&mut network, 0..count, |_| vec![0]);
            know_each_other_soon(&mut network, count);
            // Each has all others as entrypoints. Two nodes that find each other first must find the rest, too.
            let mut network = fresh(seed, count);
            start(&mut network, 0..count, |n| (0..count).filter(|other| *other != n).collect());
            know_each_other_soon(&mut network, count);
        }
    }
}

#[test]
fn nodes_know_each_other_soon_after_their_entrypoint_begins() {
    for count in [4, 10] {
        for seed in 40..50 {
            let mut network = fresh(seed, count);
            start(&mut network, 1..count, |_| vec![0]);
            network.run_until(START + 1_000);
            start(&mut network, 0..1, |_| vec![]);
            know_each_other_soon(&mut network, count);
        }
    }
}

#[test]
fn nodes_that_know_each_other_send_no_more_than_that() {
    let mut network = fresh(50, 4);
    start(&mut network, 0..4, |n| (0..4).filter(|other| *other != n).collect());
    know_each_other_soon(&mut network, 4);
    network.run_for(15_000);
    let before = *network.gossip(1).counters();
    network.run_for(60_000);
    let after = network.gossip(1).counters();
    let rounds = (after.pull_requests_sent - before.pull_requests_sent) / 8;
    assert!((118..=122).contains(&rounds), "two rounds a second: {rounds}");
    // Four contact infos, each signed eight times or nine, go to at most three nodes.
    assert!(after.push_values_sent - before.push_values_sent <= 4 * 9 * 3, "{after:?}");
}
