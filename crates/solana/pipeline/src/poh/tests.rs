//! Tests of the chain on virtual time, against a model that hashes one by one, and of the rules for blocks.

use super::HASHES_PER_STEP;
use super::chain::{Config, ConfigError, Entry, LAG_SLOTS_MAX, MixinRefusal, PohChain, Step};
use super::check::{
    BlockError, ChainCheck, ChainEntry, LOW_POWER_HASHES_MAX, TickCheck, verify_entries, verify_hashes,
};
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::sha256;
use hearth_wire::entry::{self, Entries};
use hearth_wire::transfer::TransferTemplate;
use proptest::prelude::*;
use std::collections::VecDeque;

const START: [u8; 32] = [9; 32];

fn config(hashes_per_tick: Option<u64>) -> Config {
    Config { hashes_per_tick, ticks_per_slot: 8, slot_ns: 400_000, max_microblocks: 1000 }
}

fn transfer(nonce: u64) -> Vec<u8> {
    let mut transfer = TransferTemplate::new();
    transfer.set_lamports(nonce);
    transfer.sign_with(|_| std::array::from_fn(|i| (nonce as u8).wrapping_mul(31).wrapping_add(i as u8))).to_vec()
}

fn mixin_of(txns: &[Vec<u8>]) -> [u8; 32] {
    let mut tree = MixinTree::default();
    for txn in txns {
        tree.push(txn[1..65].try_into().unwrap());
    }
    tree.take_root()
}

/// A chain, a clock, and a simulated pack, which submits its microblocks as soon as the chain wants them.
struct Leader {
    config: Config,
    chain: PohChain,
    now_ns: u64,
    /// Microblocks of the coming slots, and when pack is done with each.
    waiting: VecDeque<Vec<Vec<u8>>>,
    done_ns: u64,
    done: bool,
    handed: u64,
    entries: Vec<(Entry, Vec<Vec<u8>>)>,
    began: Vec<(u64, u64, u64)>,
    ended: Vec<u64>,
}

impl Leader {
    fn new(config: Config) -> Self {
        let chain = PohChain::new(config, 5, 4, START, 1000).unwrap();
        let empty = VecDeque::new();
        Self {
            config,
            chain,
            now_ns: 0,
            waiting: empty,
            done_ns: 0,
            done: false,
            handed: 0,
            entries: vec![],
            began: vec![],
            ended: vec![],
        }
    }

    /// Takes one step at the current time, and mixes in as much as possible.
    fn step(&mut self) -> Step {
        let in_slot = self.began.len() > self.ended.len();
        if in_slot && !self.done && self.now_ns >= self.done_ns {
            let total = self.handed + self.waiting.len() as u64;
            self.chain.done_packing(self.chain.slot(), total).unwrap();
            self.done = true;
        }
        if let Some((slot, id)) = self.chain.wants()
            && let Some(txns) = self.waiting.pop_front()
        {
            let mixin = (!txns.is_empty()).then(|| mixin_of(&txns));
            let entry = self.chain.mix(slot, id, mixin).unwrap();
            self.handed += 1;
            assert_eq!(entry.is_some(), mixin.is_some());
            self.entries.extend(entry.map(|e| (e, txns)));
        }
        let step = self.chain.step(self.now_ns);
        match step {
            Step::SlotBegan { slot, start_ns, end_ns, max_microblocks } => {
                assert_eq!((start_ns, slot), (self.now_ns, 5 + self.began.len() as u64));
                assert!(start_ns < end_ns && max_microblocks > 0);
                self.began.push((slot, start_ns, end_ns));
                (self.handed, self.done, self.done_ns) = (0, false, end_ns);
            }
            Step::Tick(entry) => {
                self.entries.push((entry, vec![]));
                if entry.last {
                    assert!(self.done && self.waiting.is_empty());
                    self.ended.push(self.now_ns);
                }
            }
            Step::Hashed | Step::Early(_) | Step::Waiting => {}
        }
        step
    }

    /// Steps until this many slots have ended; advances time by `tick_ns` when there is nothing to do.
    fn run_slots(&mut self, count: usize, tick_ns: u64) {
        let goal = self.ended.len() + count;
        while self.ended.len() < goal {
            match self.step() {
                Step::Early(when) => {
                    assert!(when > self.now_ns, "{when} is not later than {}", self.now_ns);
                    self.now_ns += tick_ns.min(when - self.now_ns).max(1);
                }
                Step::Waiting => self.now_ns += tick_ns.min(self.done_ns.saturating_sub(self.now_ns)).max(1),
                _ => {}
            }
            assert!(self.now_ns < 1 << 40, "the chain stands still");
        }
    }

    /// Encodes each slot's entries as the bytes of a block.
    fn blocks(&self) -> Vec<Vec<u8>> {
        let mut blocks = vec![];
        for (slot, ..) in &self.began {
            let entries: Vec<_> = self.entries.iter().filter(|(e, _)| e.slot == *slot).collect();
            let mut block = vec![];
            entry::write_batch_header(entries.len(), &mut block);
            for (e, txns) in entries {
                assert_eq!(e.parent_slot, slot - 1);
                entry::write_entry(e.num_hashes, &e.hash, txns.len(), &txns.concat(), &mut block);
            }
            blocks.push(block);
        }
        blocks
    }

    /// Verifies all blocks, and recomputes the chain hash by hash.
    fn check(&self) {
        let (mut start, mut model, mut tick) = (START, START, 0u64);
        for block in self.blocks() {
            let entries: Vec<_> = Entries::parse(&block).unwrap().map(Result::unwrap).collect();
            let Config { hashes_per_tick, ticks_per_slot, .. } = self.config;
            let one = verify_entries(&start, &entries, hashes_per_tick, ticks_per_slot, 1);
            assert_eq!(one, verify_entries(&start, &entries, hashes_per_tick, ticks_per_slot, 3));
            start = one.unwrap();
        }
        for (e, txns) in &self.entries {
            for at in 1..=e.num_hashes {
                let mixes = at == e.num_hashes && !txns.is_empty();
                model = if mixes { sha256(&[&model, &mixin_of(txns)]) } else { sha256(&[&model]) };
            }
            tick += u64::from(txns.is_empty());
            assert_eq!((e.hash, u64::from(e.tick)), (model, tick));
            assert_eq!(e.last, tick == self.config.ticks_per_slot);
            if e.last {
                tick = 0;
            }
        }
    }
}

#[test]
fn empty_slots_keep_their_time() {
    for hashes in [None, Some(2), Some(3), Some(700), Some(4000)] {
        let mut leader = Leader::new(config(hashes));
        leader.run_slots(5, 1_000_000);
        leader.check();
        let starts: Vec<u64> = leader.began.iter().map(|b| b.1).collect();
        assert_eq!(starts, [1000, 401_000, 801_000, 1_201_000, 1_601_000], "{hashes:?}");
        assert_eq!(leader.ended[4], 2_001_000);
        assert_eq!(leader.entries.len(), 5 * 8);
    }
}

#[test]
fn a_step_is_bounded() {
    let mut leader = Leader::new(Config { slot_ns: 400_000_000, ..config(Some(62_500)) });
    leader.now_ns = 300_000_000;
    assert!(matches!(leader.step(), Step::SlotBegan { .. }));
    leader.now_ns = 350_000_000;
    let mut steps = 0;
    while matches!(leader.step(), Step::Hashed | Step::Tick(_)) {
        steps += 1;
    }
    let due = 8 * 62_500 / 4;
    assert!(steps >= due / HASHES_PER_STEP && steps <= due / HASHES_PER_STEP + 8, "{steps} steps for {due} hashes");
}

#[test]
fn microblocks_wait_for_a_tick_and_for_their_turn() {
    let mut chain = PohChain::new(config(Some(3)), 5, 4, START, 0).unwrap();
    assert_eq!(chain.mix(5, 0, Some([1; 32])), Err(MixinRefusal::NoSlot));
    assert!(matches!(chain.step(0), Step::SlotBegan { slot: 5, max_microblocks: 8, .. }));
    assert_eq!(chain.mix(6, 0, Some([1; 32])), Err(MixinRefusal::Slot(6, 5)));
    assert_eq!(chain.mix(5, 1, Some([1; 32])), Err(MixinRefusal::Order(1, 0)));
    let entry = chain.mix(5, 0, Some([1; 32])).unwrap().unwrap();
    assert_eq!((entry.num_hashes, entry.tick, entry.last), (1, 0, false));
    assert_eq!(chain.mix(5, 1, None), Ok(None));
    chain.mix(5, 2, Some([2; 32])).unwrap();
    assert_eq!((chain.wants(), chain.mix(5, 3, Some([3; 32]))), (None, Err(MixinRefusal::Tick)));
    assert!(matches!(chain.step(49_000), Step::Early(50_000)));
    let Step::Tick(tick) = chain.step(50_000) else { panic!("the first tick is due") };
    assert_eq!((tick.num_hashes, tick.tick), (1, 1));
    assert_eq!(chain.wants(), Some((5, 3)));
    assert_eq!(chain.done_packing(5, 2), Err(MixinRefusal::Full(3)), "three were mixed in");
    assert_eq!(chain.done_packing(5, 9), Err(MixinRefusal::Full(3)), "eight are allowed");
    assert_eq!(chain.done_packing(4, 9), Ok(()), "another slot's");
    chain.done_packing(5, 4).unwrap();
    chain.mix(5, 3, None).unwrap();
    assert_eq!(chain.mix(5, 4, Some([4; 32])), Err(MixinRefusal::Full(4)));
}

/// The reserve: while pack may still send microblocks, hashes for them are kept; the last tick waits for all.
#[test]
fn hashes_are_kept_for_microblocks_that_may_come() {
    for hashes in [2, 3, 10, 4000] {
        let mut leader = Leader::new(config(Some(hashes)));
        leader.step();
        leader.now_ns = 1000;
        leader.step();
        let (slot, _, end_ns) = leader.began[0];
        leader.now_ns = end_ns + 10_000_000;
        leader.done_ns = u64::MAX;
        while leader.step() != Step::Waiting {}
        let max = leader.config.max_microblocks.min((hashes - 1) * 4);
        for id in 0..max {
            while leader.chain.wants().is_none() {
                assert!(matches!(leader.chain.step(leader.now_ns), Step::Hashed | Step::Tick(_)));
            }
            leader.chain.mix(slot, id, Some([3; 32])).unwrap();
        }
        while !matches!(leader.chain.step(leader.now_ns), Step::Waiting) {}
        leader.chain.done_packing(slot, max).unwrap();
        let Step::Tick(last) = leader.chain.step(leader.now_ns) else { panic!("nothing is missing any more") };
        assert!(last.last && last.num_hashes >= 1);
    }
}

#[test]
fn low_power_waits_for_pack_too() {
    let mut leader = Leader::new(config(None));
    leader.now_ns = 1000;
    leader.step();
    leader.waiting = (0..500).map(|n| vec![transfer(n)]).collect();
    leader.done_ns = 5_000_000;
    leader.run_slots(1, 10_000);
    leader.check();
    assert_eq!((leader.entries.len(), leader.ended[0]), (508, 5_000_000));
}

#[test]
fn a_stall_is_caught_up_at_double_speed() {
    for hashes in [None, Some(100)] {
        let mut leader = Leader::new(config(hashes));
        leader.run_slots(1, 1000);
        leader.now_ns += 3 * 400_000;
        leader.run_slots(12, 1000);
        leader.check();
        let lengths: Vec<u64> = leader.began.windows(2).map(|w| w[1].1 - w[0].1).collect();
        assert!(lengths[1..].iter().all(|l| (200_000..=400_000).contains(l)), "{lengths:?}");
        assert_eq!(*leader.ended.last().unwrap(), 1000 + 13 * 400_000, "on schedule again");
        assert_eq!(leader.chain.forgiven_ns(), 0);
    }
}

#[test]
fn a_long_stall_is_forgiven() {
    let mut leader = Leader::new(config(Some(100)));
    leader.run_slots(1, 1000);
    let stall = (LAG_SLOTS_MAX + 1) * 400_000;
    leader.now_ns += stall;
    leader.run_slots(3, 1000);
    leader.check();
    assert_eq!(leader.chain.forgiven_ns(), stall);
    assert_eq!(leader.ended[3], 1000 + 4 * 400_000 + stall);
}

#[test]
fn impossible_rules_are_refused() {
    let new = |c| PohChain::new(c, 1, 0, START, 0).map(|_| ()).unwrap_err();
    assert_eq!(new(config(Some(1))), ConfigError::HashesPerTick(1));
    assert_eq!(new(config(Some(0))), ConfigError::HashesPerTick(0));
    assert_eq!(new(Config { ticks_per_slot: 0, ..config(None) }), ConfigError::TicksPerSlot(0));
    assert_eq!(new(Config { ticks_per_slot: 256, ..config(None) }), ConfigError::TicksPerSlot(256));
    assert_eq!(new(Config { slot_ns: 7, ..config(None) }), ConfigError::Slot(7));
    assert_eq!(new(config(Some(1 << 50))), ConfigError::Hashes(8 << 50));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// With any timing: no tick before its time, each slot complete and valid, every microblock in it.
    #[test]
    fn any_schedule_gives_valid_blocks(
        hashes in prop_oneof![Just(None), (2..40u64).prop_map(Some), (200..3000u64).prop_map(Some)],
        slots in proptest::collection::vec((0..30u64, 0..800_000u64, 1..90_000u64), 1..6),
    ) {
        let mut leader = Leader::new(config(hashes));
        let (mut nonce, mut sent) = (0, 0);
        for (count, done_after, tick_ns) in slots {
            while leader.began.len() == leader.ended.len() {
                if let Step::Early(when) = leader.step() {
                    leader.now_ns = when;
                }
            }
            let max = hashes.map_or(1000, |h| (h - 1) * 4).min(count);
            leader.done_ns = leader.now_ns + done_after;
            for _ in 0..max {
                nonce += 1;
                leader.waiting.push_back((0..nonce % 4).map(|n| transfer(nonce * 8 + n)).collect());
                sent += nonce % 4;
            }
            leader.run_slots(1, tick_ns);
        }
        leader.check();
        prop_assert_eq!(leader.entries.iter().map(|(_, txns)| txns.len() as u64).sum::<u64>(), sent);
        for (n, (_, start_ns, _)) in leader.began.iter().enumerate() {
            prop_assert!(*start_ns >= 1000 + n as u64 * 400_000, "slot {} began early", n);
            prop_assert!(leader.ended[n] >= start_ns + 200_000 && leader.ended[n] >= 1000 + (n as u64 + 1) * 400_000);
        }
    }
}

/// Makes a block of `ticks` ticks, with one transaction entry in each.
fn block(hashes: u64, ticks: u64) -> Vec<(u64, [u8; 32], Vec<u8>)> {
    let mut hash = START;
    let mut entries = vec![];
    for tick in 0..ticks {
        let txn = transfer(tick);
        hash = sha256(&[&hash]);
        hash = sha256(&[&hash, &mixin_of(std::slice::from_ref(&txn))]);
        entries.push((2, hash, txn));
        (2..hashes).for_each(|_| hash = sha256(&[&hash]));
        entries.push((hashes - 2, hash, vec![]));
    }
    entries
}

fn verdict(entries: &[(u64, [u8; 32], Vec<u8>)], hashes: Option<u64>, ticks: u64) -> Result<[u8; 32], BlockError> {
    let bytes = bytes_of(entries);
    let parsed: Vec<_> = Entries::parse(&bytes).unwrap().map(Result::unwrap).collect();
    let verdict = verify_entries(&START, &parsed, hashes, ticks, 1);
    for threads in [2, 7, 64] {
        assert_eq!(verify_entries(&START, &parsed, hashes, ticks, threads), verdict, "{threads} threads");
    }
    if matches!(verdict, Ok(_) | Err(BlockError::InvalidEntryHash { .. })) {
        for limit in [1, 3, 1_000] {
            assert_eq!(in_pieces(&parsed, limit), verdict, "{limit} hashes a piece");
        }
    }
    verdict
}

/// Verifies the same in steps of at most `limit` hashes.
fn in_pieces(entries: &[entry::Entry<'_>], limit: u64) -> Result<[u8; 32], BlockError> {
    let mixin = |entry: &entry::Entry<'_>| {
        let txns: Vec<_> = entry.transactions().map(|txn| txn.bytes().to_vec()).collect();
        (!txns.is_empty()).then(|| mixin_of(&txns))
    };
    let of =
        |entry: &entry::Entry<'_>| ChainEntry { num_hashes: entry.num_hashes, mixin: mixin(entry), hash: *entry.hash };
    let chain: Vec<ChainEntry> = entries.iter().map(of).collect();
    let mut check = ChainCheck::new(START);
    let verdict = loop {
        if let Some(verdict) = check.step(&chain, limit) {
            break verdict;
        }
    };
    verdict.map(|()| chain.last().unwrap().hash).map_err(|entry| BlockError::InvalidEntryHash { entry })
}

fn bytes_of(entries: &[(u64, [u8; 32], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![];
    entry::write_batch_header(entries.len(), &mut bytes);
    for (num_hashes, hash, txn) in entries {
        entry::write_entry(*num_hashes, hash, usize::from(!txn.is_empty()), txn, &mut bytes);
    }
    bytes
}

#[test]
fn each_broken_rule_has_its_error() {
    let good = block(10, 4);
    assert_eq!(verdict(&good, Some(10), 4), Ok(good[7].1));
    assert_eq!(verdict(&good, Some(10), 5), Err(BlockError::TooFewTicks { found: 4, expected: 5 }));
    assert_eq!(verdict(&good, Some(10), 3), Err(BlockError::TooManyTicks { found: 4, expected: 3 }));
    for hashes in [9, 11] {
        assert_eq!(verdict(&good, Some(hashes), 4), Err(BlockError::InvalidTickHashCount { tick: 0 }));
    }
    assert_eq!(verdict(&good, None, 4), Ok(good[7].1), "low power counts no hashes");

    let mut without = good.clone();
    without[2].0 += without[3].0;
    without[3].0 = 0;
    assert_eq!(verdict(&without, Some(10), 4), Err(BlockError::InvalidTickHashCount { tick: 1 }), "a tick has a hash");

    let trailing = [&good[..], &good[..1]].concat();
    assert_eq!(verdict(&trailing, Some(10), 4), Err(BlockError::TrailingEntry));

    let mut moved = good.clone();
    moved[2].0 += 1;
    moved[3].0 -= 1;
    assert_eq!(verdict(&moved, Some(10), 4), Err(BlockError::InvalidEntryHash { entry: 2 }));
    for index in 0..good.len() {
        let mut flipped = good.clone();
        flipped[index].1[31] ^= 1;
        assert_eq!(verdict(&flipped, Some(10), 4), Err(BlockError::InvalidEntryHash { entry: index }));
    }
    let mut other = good.clone();
    other[4].2 = transfer(77);
    assert_eq!(verdict(&other, Some(10), 4), Err(BlockError::InvalidEntryHash { entry: 4 }));
    let mut huge = good.clone();
    huge[1].0 = u64::MAX;
    assert_eq!(verdict(&huge, Some(10), 4), Err(BlockError::InvalidTickHashCount { tick: 0 }));
    huge[1].0 = LOW_POWER_HASHES_MAX + 1;
    assert_eq!(verdict(&huge, None, 4), Err(BlockError::InvalidTickHashCount { tick: 0 }));
}

/// Batches as shreds deliver them: a block may end early or late in them.
#[test]
fn ticks_are_counted_over_batches() {
    let bytes = bytes_of(&block(10, 4));
    let entries: Vec<_> = Entries::parse(&bytes).unwrap().map(Result::unwrap).collect();
    for cut in 0..entries.len() {
        let mut check = TickCheck::new(Some(10), 4);
        assert_eq!(check.entries(&entries[..cut], false), Ok(()), "cut at {cut}");
        assert_eq!(check.entries(&entries[cut..], true), Ok(()), "cut at {cut}");
    }
    let unmarked = TickCheck::new(Some(10), 4).entries(&entries, false);
    assert_eq!(unmarked, Err(BlockError::InvalidLastTick));
    let full = bytes_of(&[(10, [0; 32], transfer(1))]);
    let full: Vec<_> = Entries::parse(&full).unwrap().map(Result::unwrap).collect();
    let no_room = TickCheck::new(Some(10), 4).entries(&full, false);
    assert_eq!(no_room, Err(BlockError::InvalidTickHashCount { tick: 0 }));
}

/// The cluster's oddities: an entry without hashes and transactions keeps the hash; one without hashes but with
/// transactions mixes.
#[test]
fn entries_without_hashes() {
    let txn = transfer(1);
    let mixed = sha256(&[&START, &mixin_of(std::slice::from_ref(&txn))]);
    let bytes = bytes_of(&[(0, START, vec![]), (0, mixed, txn), (0, mixed, vec![])]);
    let entries: Vec<_> = Entries::parse(&bytes).unwrap().map(Result::unwrap).collect();
    assert_eq!(verify_hashes(&START, &entries, 0), Ok(mixed));
}
