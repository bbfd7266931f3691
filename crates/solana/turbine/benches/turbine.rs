//! turbine: benchmarks for how many shreds per second a node can compute its retransmit children.
//!
//! reads   synthetic nodes, where the k-th has 1/k^0.9 of the first one's stake
//! writes  one line per figure
//! memory  see the crate
//!
//! cargo bench -p hearth-turbine --bench turbine
//!
//! The computing node is the median by stake. The goal: a million transfers a second are 447,000 shreds.

use hearth_testkit::bench::{Bench, Unit};
use hearth_turbine::{Cipher, Contact, NodeSet, Scratch, ShredId};
use hearth_wire::shred::ShredKind;

/// Shreds whose children, or whole order, one round of the measurement computes.
const SHREDS: u32 = 64;
/// Shreds of a million transfers.
const GOAL: f64 = 447_000.0;
/// Stake of the first node in lamports.
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
                let plan = set.retransmit(&shred(), &leader, &mut scratch, &mut children);
                assert!(plan.is_ok(), "another leads");
            }
            u64::from(SHREDS)
        });
        bench.run(&format!("whole order of a shred, {count} nodes"), Unit::PerSecond, None, || {
            (0..SHREDS).for_each(|_| set.order(&shred(), &leader, &mut scratch, &mut order));
            u64::from(SHREDS)
        });
    }
}
