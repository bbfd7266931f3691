//! The status cache: a transaction lands once, and is forgotten with its blockhash.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::error::InstructionError;

fn signature(n: u64) -> Signature {
    let mut signature = [0; 64];
    signature[..8].copy_from_slice(&n.to_le_bytes());
    signature[56..].copy_from_slice(&n.to_be_bytes());
    signature
}

fn claim_of(cache: &StatusCache, message: &[u8], dead_from: u64, now: u64) -> Option<Claim> {
    cache.claim_until(cache.expect_message(message), dead_from, now)
}

fn small() -> StatusCache {
    StatusCache::new(&StatusCacheConfig { enabled: true, capacity_txns: 0 })
}

#[test]
fn a_message_lands_once_until_its_blockhash_expires() {
    let cache = small();
    let dead_from = last_valid_block_height(10) + 1;
    let claim = claim_of(&cache, b"transfer", dead_from, 11).unwrap();
    assert_eq!(claim_of(&cache, b"transfer", dead_from, 11), None);
    assert_eq!(claim_of(&cache, b"transfer", dead_from, 161), None, "150 blocks later");
    assert!(claim_of(&cache, b"another", dead_from, 11).is_some());
    cache.release(claim, 11);
    assert!(claim_of(&cache, b"transfer", dead_from, 11).is_some());
    assert!(claim_of(&cache, b"transfer", dead_from + 1, dead_from).is_some());
}

#[test]
fn statuses_tell_slot_and_result() {
    let cache = small();
    let failed = Err(TransactionError::InstructionError(3, InstructionError::Custom(u32::MAX)));
    let statuses = [
        LandedStatus { slot: 0, result: Ok(()) },
        LandedStatus { slot: (1 << 40) - 1, result: failed },
        LandedStatus { slot: 77, result: Err(TransactionError::ProgramAccountNotFound) },
    ];
    for (n, status) in statuses.iter().enumerate() {
        cache.record(&signature(n as u64), *status, 50);
    }
    for (n, status) in statuses.iter().enumerate() {
        assert_eq!(cache.status(&signature(n as u64), 349), Some(*status));
        assert_eq!(cache.status(&signature(n as u64), 350), None);
    }
    assert_eq!(cache.status(&signature(9), 50), None);
}

#[test]
fn disabled_it_remembers_nothing() {
    let cache = StatusCache::new(&StatusCacheConfig { enabled: false, capacity_txns: 1 << 20 });
    assert!(claim_of(&cache, b"transfer", 152, 1).is_some());
    assert!(claim_of(&cache, b"transfer", 152, 1).is_some());
    cache.record(&signature(1), LandedStatus { slot: 1, result: Ok(()) }, 1);
    assert_eq!(cache.status(&signature(1), 1), None);
    assert!(cache.memory_bytes() <= 2 * SHARDS * 128);
}

#[test]
fn grows_past_its_capacity_and_reuses_what_is_dead() {
    let cache = StatusCache::new(&StatusCacheConfig { enabled: true, capacity_txns: 1000 });
    let fill = |now: u64, base: u64| {
        for n in base..base + 50_000 {
            assert!(claim_of(&cache, &n.to_le_bytes(), now + 152, now).is_some());
            cache.record(&signature(n), LandedStatus { slot: now, result: Ok(()) }, now);
        }
    };
    fill(1, 0);
    let grown = cache.memory_bytes();
    for n in 0..50_000u64 {
        assert!(claim_of(&cache, &n.to_le_bytes(), 153, 1).is_none());
        assert_eq!(cache.status(&signature(n), 1).unwrap().slot, 1);
    }
    for round in 1..6u64 {
        fill(1 + 300 * round, 50_000 * round);
    }
    assert!(cache.memory_bytes() <= 2 * grown, "{} after {grown}", cache.memory_bytes());
}

#[test]
fn holds_its_capacity_without_growing() {
    const CAPACITY: u64 = 200_000;
    let cache = StatusCache::new(&StatusCacheConfig { enabled: true, capacity_txns: CAPACITY as usize });
    let taken = cache.memory_bytes();
    for n in 0..CAPACITY {
        assert!(claim_of(&cache, &n.to_le_bytes(), 152, 1).is_some());
        cache.record(&signature(n), LandedStatus { slot: n, result: Ok(()) }, 1);
    }
    assert_eq!(cache.memory_bytes(), taken);
    assert!(taken as u64 <= 72 * CAPACITY, "{} B a transaction", taken as u64 / CAPACITY);
    assert!((0..CAPACITY).all(|n| cache.status(&signature(n), 1).is_some_and(|status| status.slot == n)));
}

#[test]
fn one_of_many_threads_gets_the_claim() {
    let cache = small();
    let won: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| (0..5000u64).filter(|n| claim_of(&cache, &n.to_le_bytes(), 152, 1).is_some()).count())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(won, 5000);
}

proptest! {
    /// Against a map: claims, releases and expiry in any order.
    #[test]
    fn claims_match_a_model(steps in prop::collection::vec((0u8..3, 0u16..200, 0u64..40), 1..600)) {
        let cache = small();
        let mut model: HashMap<u16, (u64, Claim)> = HashMap::new();
        let mut now = 1;
        for (kind, message, amount) in steps {
            match kind {
                0 => now += amount,
                1 => {
                    let dead_from = now + 1 + amount;
                    let claim = claim_of(&cache, &message.to_le_bytes(), dead_from, now);
                    let taken = model.get(&message).is_some_and(|(dead_from, _)| *dead_from > now);
                    prop_assert_eq!(claim.is_none(), taken);
                    if let Some(claim) = claim {
                        model.insert(message, (dead_from, claim));
                    }
                }
                _ => {
                    if let Some((dead_from, claim)) = model.get(&message).copied() && dead_from > now {
                        cache.release(claim, now);
                        model.remove(&message);
                    }
                }
            }
        }
    }
}

/// Reads a cut and restores it into another cache under the same seed.
fn restored(cache: &StatusCache, height: u64) -> StatusCache {
    let copy = StatusCache::with_seed(&StatusCacheConfig { enabled: true, capacity_txns: 0 }, cache.seed());
    for shard in 0..StatusCache::SHARDS {
        let (claims, statuses) = cache.read_cut(shard, height + 1);
        // Encoded and decoded as in a file.
        let claims: Vec<u8> = claims.iter().flat_map(|entry| entry.to_bytes()).collect();
        let statuses: Vec<u8> = statuses.iter().flat_map(|entry| entry.to_bytes()).collect();
        ClaimEntry::all(&claims).unwrap().for_each(|entry| copy.restore_claim(&entry, height));
        StatusEntry::all(&statuses).unwrap().for_each(|entry| copy.restore_status(&entry, height));
        assert!(ClaimEntry::all(&[0; 19]).is_none() && StatusEntry::all(&[0; 29]).is_none());
    }
    copy
}

#[test]
fn a_cut_holds_what_was_there_and_nothing_later() {
    let (cache, height) = (small(), 400);
    let message = |n: u64| n.to_le_bytes();
    let failed = Err(TransactionError::InstructionError(3, InstructionError::Custom(7)));
    let claims: Vec<Claim> = (0..2000)
        .map(|n| {
            cache.record(&signature(n), LandedStatus { slot: n, result: failed }, height - n % 300);
            claim_of(&cache, &message(n), height + n % 100, height - 1).unwrap()
        })
        .collect();
    cache.cut();
    // The following blocks: tables grow, dead entries are overwritten, claims are released.
    for n in 2000..20_000 {
        cache.record(&signature(n), LandedStatus { slot: n, result: Ok(()) }, height + 2 + n % 10);
        claim_of(&cache, &message(n), height + 100, height + 2 + n % 10).unwrap();
    }
    cache.release(claims[99], height + 1);
    let copy = restored(&cache, height);
    let now = height + 1;
    for n in 0..2000 {
        let alive = height + n % 100 > now;
        assert_eq!(claim_of(&copy, &message(n), now + 9, now).is_none(), alive, "{n}");
        let expected =
            (height - n % 300 + STATUS_RETENTION_BLOCKS > now).then_some(LandedStatus { slot: n, result: failed });
        assert_eq!(copy.status(&signature(n), now), expected, "{n}");
    }
    assert!((2000..20_000).all(|n| copy.status(&signature(n), now).is_none()));
    assert!((2000..20_000).all(|n| claim_of(&copy, &message(n), now + 9, now).is_some()));
    // A later cut sees all of it.
    cache.cut();
    let (copy, now) = (restored(&cache, height + 12), height + 13);
    assert!((2000..20_000).all(|n| copy.status(&signature(n), now).is_some()));
    assert!((2000..20_000).all(|n| claim_of(&copy, &message(n), now + 9, now).is_none()));
}

#[test]
fn a_cut_that_is_given_up_keeps_nothing() {
    let cache = small();
    let kept = || cache.messages.iter().filter(|shard| shard.lock().kept.is_some()).count();
    assert!(claim_of(&cache, b"one", 300, 1).is_some());
    cache.cut();
    assert_eq!(kept(), 0);
    assert!(claim_of(&cache, b"two", 300, 2).is_some());
    assert_eq!(kept(), 1);
    cache.forget_cut();
    assert!(claim_of(&cache, b"three", 300, 2).is_some());
    assert_eq!(kept(), 0);
}
