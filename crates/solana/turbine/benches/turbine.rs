//! turbine: for how many shreds a second a node finds out to whom it sends them on.
//!
//! reads   made-up nodes, stake of the k-th as 1/k^0.9
//! writes  one line per figure
//! memory  see the crate
//!
//! cargo bench -p hearth-turbine --bench turbine
//!
//! The node asked is the middle one by stake. The goals: a million transfers a second are 447,000 shreds.

use hearth_testkit::bench::{Bench, Unit};
use hearth_turbine::{Cipher, Contact, NodeSet, Scratch, ShredId};
use hearth_wire::shred::ShredKind;

/// Shreds a round.
const SHREDS: u32 = 64;
/// What a million transfers a second are.
const GOAL: f64 = 447_000.0;
/// What the first node has, lamports.
const STAKE_MAX: f64 = 1e14;

fn set(count: usize, own: usize) -> NodeSet {
    let name = |node: usize| {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&(node as u64).to_be_bytes());
        name
    };
    let stake = |node: usize| (STAKE_MAX / (node as f64 + 1.0).powf(0.9)) as u64;
    let contact = |node: usize| Contact { identity: name(node), address: Some(([127, 0, 0, 1], 8_000).into()) };
    let known: Vec<Contact> = (0..count).map(contact).collect();
    let stakes = (0..count).map(|node| (name(node), stake(node))).collect();
    NodeSet::new(contact(own), &known, &stakes, Cipher::ChaCha8, false)
}

fn main() {
    let bench = Bench::from_args();
    for (count, goal) in [(10, Some(GOAL)), (2_000, None)] {
        let set = set(count, count / 2);
        let leader = set.nodes()[0].identity;
        let (mut scratch, mut children, mut order, mut next) = (Scratch::default(), Vec::new(), Vec::new(), 0);
        let mut shred = || {
            next += 1;
            ShredId { slot: 7, kind: ShredKind::Data, index: next }
        };
        bench.run(&format!("children of a shred, {count} nodes"), Unit::PerSecond, goal, || {
            for _ in 0..SHREDS {
                let told = set.retransmit(&shred(), &leader, &mut scratch, &mut children);
                assert!(told.is_ok(), "another leads");
            }
            u64::from(SHREDS)
        });
        bench.run(&format!("whole order of a shred, {count} nodes"), Unit::PerSecond, None, || {
            (0..SHREDS).for_each(|_| set.order(&shred(), &leader, &mut scratch, &mut order));
            u64::from(SHREDS)
        });
    }
}
