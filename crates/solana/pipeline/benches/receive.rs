//! receive: how many transfers per second a follower can receive as shreds, on one thread.
//!
//! reads   sets as a leader makes them from entries of 64 transfers, with every tenth shred lost; synthetic nodes,
//!         where the k-th has a stake of 1/k^0.9
//! writes  one line per figure
//! memory  64 sets
//!
//! cargo bench -p hearth-pipeline --bench receive
//!
//! Each shred is filtered, hashed, its proof followed to the known nodes of its set's tree, and kept, and its children
//! in the Turbine tree are computed; a set's signature is verified, and lost shreds are recovered and checked against
//! the root. A shred that arrives after its set is complete is compared with the stored one. The unit is transfers in
//! completed sets.

use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::shred::{FecSet, Receiver, ReceiverConfig, ShredSource, Shredder, ShredderConfig, ShredderError};
use hearth_testkit::bench::{Bench, Unit};
use hearth_turbine::{Cipher, Contact, NodeSet, Scratch, ShredId};
use hearth_wire::entry::write_entry;
use hearth_wire::shred::{DATA_PER_SET, INDEX, SET_INDEX, ShredKind, VARIANT, Variant};
use hearth_wire::transfer::TRANSFER_SIZE;

const TRANSFERS: usize = 64;
const ENTRIES: usize = 128;
/// One shred out of this many is lost.
const LOST: usize = 10;
/// Transfers per second that a follower of a fast leader must receive.
const GOAL: f64 = 1e6;
/// Stake of the first node, in lamports.
const STAKE_MAX: f64 = 1e14;

/// Makes the shreds of a block that arrive.
fn shreds(key: &SigningKey) -> Vec<Vec<u8>> {
    let mut shredder = Shredder::new(ShredderConfig { batch_sets: 8, ..ShredderConfig::default() }, [0; 32]);
    let (mut set, mut all, mut entry) = (FecSet::new(), vec![], vec![]);
    write_entry(1, &[1; 32], TRANSFERS, &[0x3c; TRANSFERS * TRANSFER_SIZE], &mut entry);
    shredder.begin_slot(1, 0).expect("the first slot");
    let mut drain = |shredder: &mut Shredder| {
        while shredder.next_set(&mut set) {
            let signature = key.sign(set.root());
            set.sign(&signature);
            all.extend(set.shreds().map(<[u8]>::to_vec));
        }
    };
    for _ in 0..ENTRIES {
        while shredder.push(&entry, 0) == Err(ShredderError::BatchFull) {
            shredder.end_batch(false);
            drain(&mut shredder);
        }
    }
    shredder.end_batch(true);
    drain(&mut shredder);
    all.into_iter().enumerate().filter(|(place, _)| place % LOST != 7).map(|(_, shred)| shred).collect()
}

/// Makes `count` nodes with the given leader; this node has the median stake.
fn nodes(count: usize, leader: [u8; 32]) -> NodeSet {
    let name = |node: usize| {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&(node as u64).to_be_bytes());
        if node == 0 { leader } else { name }
    };
    let stake = |node: usize| (STAKE_MAX / (node as f64 + 1.0).powf(0.9)) as u64;
    let contact = |node: usize| Contact { identity: name(node), address: Some(([127, 0, 0, 1], 8_000).into()) };
    let known: Vec<Contact> = (0..count).map(contact).collect();
    let stakes = (0..count).map(|node| (name(node), stake(node))).collect();
    NodeSet::new(contact(count / 2), &known, &stakes, Cipher::ChaCha8, false)
}

/// Receives all shreds; with `tree` it also computes each shred's children. Returns the transfers received.
fn take(shreds: &[Vec<u8>], leader: [u8; 32], tree: Option<(&NodeSet, &mut Scratch, &mut Vec<usize>)>) -> u64 {
    let config = ReceiverConfig {
        version: 0,
        own: [9; 32],
        shreds_per_slot_max: 32_768,
        slots_per_epoch: 432_000,
        slots_max: 8,
        sets_max: 64,
    };
    let mut receiver = Receiver::new(config, 0);
    let (mut tree, mut sets) = (tree, 0);
    for shred in shreds {
        // A shred of an already recovered set is a duplicate, and costs what a duplicate costs.
        let source = ShredSource::Turbine;
        let Ok(resolved) = receiver.take(shred, source, 0, |_| Some(leader), |_| false) else { continue };
        sets += u64::from(resolved.progress.completes);
        let recovered = resolved.completed.map_or(0, |completed| completed.recovered);
        let slot = resolved.progress.slot;
        let Some((nodes, scratch, children)) = &mut tree else { continue };
        let kind = Variant::from_byte(shred[VARIANT]).expect("a shred").kind;
        let index = u32::from_le_bytes(shred[INDEX..INDEX + 4].try_into().expect("4 bytes"));
        // Recovered shreds are retransmitted as well.
        for extra in 0..=recovered.count_ones() {
            let id = ShredId { slot, kind, index: index + extra };
            nodes.retransmit(&id, &leader, scratch, children).expect("another leads");
        }
    }
    let of_last = u32::from_le_bytes(shreds[shreds.len() - 1][SET_INDEX..SET_INDEX + 4].try_into().expect("4 bytes"));
    assert_eq!(sets, u64::from(of_last) / DATA_PER_SET as u64 + 1, "every set is complete");
    (ENTRIES * TRANSFERS) as u64
}

fn main() {
    let bench = Bench::from_args();
    let key = SigningKey::from_seed(&[7; 32]);
    let (leader, shreds) = (key.public_key(), shreds(&key));
    assert!(shreds.iter().any(|shred| Variant::from_byte(shred[VARIANT]).is_some_and(|v| v.kind == ShredKind::Code)));
    bench.run("receive: transfers, checked and recovered", Unit::PerSecond, Some(GOAL), || take(&shreds, leader, None));
    for (count, goal) in [(10, Some(GOAL)), (2_000, None)] {
        let (nodes, mut scratch, mut children) = (nodes(count, leader), Scratch::default(), vec![]);
        bench.run(&format!("receive: transfers, and sent on among {count} nodes"), Unit::PerSecond, goal, || {
            take(&shreds, leader, Some((&nodes, &mut scratch, &mut children)))
        });
    }
}
