//! Pull requests and responses.
//!
//! reads   the table; pull requests
//! writes  pull requests, with filters over an eighth of the table, once the caller's contact info is signed; that
//!         info, pushed to the entrypoint that is asked; responses
//! memory  during a call: eight filters of a datagram, or references to [`CANDIDATES_MAX`] values
//! drops   requests from unverified callers, with another shred version or a wrong clock, or over a budget; each is
//!         counted
//! source  `solana-gossip` 4.2.2, `crds_gossip_pull.rs`, `cluster_info.rs`

use std::collections::BTreeSet;
use std::net::SocketAddrV4;

use hearth_crypto::sha256::sha256;
use hearth_wire::gossip::{
    BloomFilter, Carrier, ContactInfo, CrdsData, CrdsFilter, CrdsKind, CrdsValue, VALUES_HEADER, bloom_blocks_max,
    hash_prefix, write_pull_request,
};
use hearth_wire::{Hash, Pubkey};

use super::config::{ACTIVE_MS, ANSWERS_BURST_TENTHS, ANSWERS_PER_S, REFRESH_MS, SCAN_BURST, SCAN_PER_S, TIMEOUT_MS};
use super::random::Random;
use super::signing::{PullPeer, Purpose, unsigned};
use super::stakes::{Direction, bucket, weight};
use super::table::Entry;
use super::{Gossip, Outbox};

/// False-positive rate of a filter.
const FALSE_RATE: f64 = 0.1;
/// Keys assumed when computing the number of hashes per filter; the filter itself has fewer.
const KEYS: f64 = 8.0;
/// Minimum assumed number of values in a table, which makes 64 parts.
const ITEMS_MIN: usize = 65_536;
/// One part in this many is requested at a time.
const SAMPLE: u64 = 8;
/// Maximum parts requested at a time.
const FILTERS_MAX: u64 = 1_024;
/// Maximum values scanned for one response.
const CANDIDATES_MAX: usize = 4_096;
/// One in this many times, a staked node that was not heard of for long is asked anyway.
const RETRY_ODDS: u64 = 16;
/// Maximum age for the order of a response: 432,000 slots of 400 ms.
const AGE_MAX_MS: u64 = 432_000 * 400;

/// A token bucket that fills with time. Tokens are counted in thousandths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    milli: u64,
    at: u64,
}

impl Budget {
    /// A bucket that is full at `now`.
    pub fn full(now: u64) -> Self {
        Self { milli: u64::MAX, at: now }
    }

    /// Refills it; returns its contents.
    fn refill(&mut self, per_s: u64, burst: u64, now: u64) -> u64 {
        let gained = now.saturating_sub(self.at).saturating_mul(per_s);
        self.milli = self.milli.saturating_add(gained).min(burst.saturating_mul(1_000));
        // Also if that is earlier: after the clock was set back it refills by the new time.
        self.at = now;
        self.milli / 1_000
    }

    fn take(&mut self, tokens: u64) {
        self.milli = self.milli.saturating_sub(tokens.saturating_mul(1_000));
    }
}

/// Bits and keys of a filter, and mask bits, for a table of `items` values and filters of `blocks` blocks.
fn sizing(blocks: usize, items: usize) -> (u64, usize, u32) {
    let max_bits = 64.0 * blocks.max(1) as f64;
    let max_items = (max_bits / (-KEYS / (1.0 - (FALSE_RATE.ln() / KEYS).exp()).ln())).ceil();
    let mask_bits = (items.max(ITEMS_MIN) as f64 / max_items).log2().ceil().max(0.0) as u32;
    let wanted = (max_items * FALSE_RATE.ln() / (1.0 / 2f64.powf(2f64.ln())).ln()).ceil();
    let bits = wanted.min(max_bits).max(1.0);
    let keys = (bits / max_items * 2f64.ln()).round().max(1.0);
    (bits as u64, keys as usize, mask_bits)
}

/// Parts of the table in a random order, each requested once before any is repeated.
#[derive(Default)]
pub(super) struct Parts {
    mask_bits: u32,
    left: Vec<u64>,
}

impl Parts {
    /// The next parts of 2^`mask_bits`, ascending.
    fn next(&mut self, mask_bits: u32, random: &mut Random) -> Vec<u64> {
        let parts = 1u64 << mask_bits;
        if self.left.is_empty() || self.mask_bits != mask_bits {
            self.mask_bits = mask_bits;
            self.left = (0..parts).collect();
            for place in (1..self.left.len()).rev() {
                self.left.swap(place, random.below(place as u64 + 1) as usize);
            }
        }
        let count = (parts.div_ceil(SAMPLE).min(FILTERS_MAX) as usize).min(self.left.len());
        let mut chosen = self.left.split_off(self.left.len() - count);
        chosen.sort_unstable();
        chosen
    }
}

impl Gossip {
    /// Starts a round of pull requests, and maintains the active set.
    pub(super) fn pull(&mut self, now: u64) {
        let peers = self.candidates(now);
        self.active.retain(|pubkey| self.table.contact(pubkey).is_some());
        let size = self.active.size();
        let is_due = now >= self.timers.rotate;
        if is_due {
            self.timers.rotate = now + REFRESH_MS;
        }
        if is_due || self.active.has_room(peers.len(), &self.stakes) {
            let nodes: Vec<(u64, Pubkey)> = peers.iter().map(|(_, stake, pubkey)| (*stake, *pubkey)).collect();
            self.active.rotate(&nodes, is_due, &self.stakes, &mut self.random);
        }
        if self.active.size() > size {
            // What this node published before did not reach the nodes that were added.
            self.timers.refresh = now;
        }
        if self.signing.has_caller() {
            return;
        }
        let entrypoint = self.entrypoint(now, peers.is_empty());
        if peers.is_empty() && entrypoint.is_none() {
            return;
        }
        let caller = unsigned(&CrdsData::ContactInfo(ContactInfo { wallclock: now, ..self.own }));
        self.have_signed(now, Purpose::Caller { peers, entrypoint }, caller);
    }

    /// Sends pull requests with this node's signed contact info.
    pub(super) fn ask(
        &mut self,
        caller: &[u8],
        peers: &[PullPeer],
        entrypoint: Option<SocketAddrV4>,
        out: &mut Outbox,
    ) {
        let cap = self.stakes.of(&self.own.pubkey);
        let weights: Vec<u64> = peers.iter().map(|(_, stake, _)| weight(bucket((*stake).min(cap)))).collect();
        let (filters, mask_bits) = self.filters(caller.len());
        if let Some(to) = entrypoint {
            // Nobody learns of a caller from its pull requests. An entrypoint that knows this node pushes to it; a
            // response has the entrypoint's own contact info only if that is in one of the parts asked for.
            let values = std::iter::once(caller);
            self.counters.push_values_sent += out.send_values(Carrier::Push, &self.own.pubkey, to, values);
        }
        for (part, bloom) in &filters {
            let peer = if peers.is_empty() { None } else { Some(peers[self.random.pick(&weights)].0) };
            for to in peer.into_iter().chain(entrypoint) {
                out.send(to, |bytes| write_pull_request(bloom, *part, mask_bits, caller, bytes));
                self.counters.pull_requests_sent += 1;
            }
        }
    }

    /// Verified nodes of the same shred version that were recently heard of, and for each address only the one with the
    /// most stake. Unverified nodes are pinged.
    fn candidates(&mut self, now: u64) -> Vec<PullPeer> {
        let mut found: Vec<PullPeer> = Vec::new();
        for entry in self.table.kind_since(CrdsKind::ContactInfo, 0) {
            let Some(contact) = entry.contact.as_deref() else { continue };
            let Some(address) = self.gossip_address(contact) else { continue };
            let is_other = contact.pubkey != self.own.pubkey && !self.is_former(contact);
            let is_peer = is_other && contact.shred_version == self.own.shred_version;
            let stake = self.stakes.of(&contact.pubkey);
            if is_peer && (entry.local_ms + ACTIVE_MS >= now || stake > 0 && self.random.below(RETRY_ODDS) == 0) {
                found.push((address, stake, contact.pubkey));
            }
        }
        found.retain(|(address, _, pubkey)| self.is_verified((*pubkey, *address), now));
        found.sort_unstable_by_key(|(address, stake, pubkey)| (*address, std::cmp::Reverse(*stake), *pubkey));
        found.dedup_by_key(|(address, _, _)| *address);
        found
    }

    /// An entrypoint, if one is to be asked: always if no other node is known, else from time to time one whose address
    /// is not that of a known node. Each pause is twice as long as the one before, up to that of the cluster's nodes.
    fn entrypoint(&mut self, now: u64, is_alone: bool) -> Option<SocketAddrV4> {
        if self.config.entrypoints.is_empty() || !is_alone && now < self.timers.entrypoint {
            return None;
        }
        let mut known: BTreeSet<SocketAddrV4> = self.gossip_address(&self.own).into_iter().collect();
        if !is_alone {
            self.timers.entrypoint = now + self.timers.entrypoint_pause;
            self.timers.entrypoint_pause = (2 * self.timers.entrypoint_pause).min(TIMEOUT_MS / 2);
            known.extend(self.contact_infos().filter_map(|contact| self.gossip_address(contact)));
        }
        let entrypoints = self.config.entrypoints.iter();
        let unknown: Vec<SocketAddrV4> = entrypoints.filter(|address| !known.contains(*address)).copied().collect();
        if unknown.is_empty() {
            return None;
        }
        Some(unknown[self.random.below(unknown.len() as u64) as usize])
    }

    /// Filters over the next parts of the table, and the number of their mask bits.
    fn filters(&mut self, caller_size: usize) -> (Vec<(u64, BloomFilter)>, u32) {
        // With three keys; more keys would make the filter smaller than the room for it.
        let blocks = bloom_blocks_max(3, caller_size);
        let items = self.table.len() + self.table.purged().len() + self.failed.len();
        let (bits, keys, mask_bits) = sizing(blocks, items);
        let chosen = self.parts.next(mask_bits, &mut self.random);
        let new = |part| (part, BloomFilter::new(bits, (0..keys).map(|_| self.random.word()).collect()));
        let mut filters: Vec<(u64, BloomFilter)> = chosen.into_iter().map(new).collect();
        let part_of = |hash: &Hash| hash_prefix(hash).checked_shr(64 - mask_bits).unwrap_or(0);
        for (part, bloom) in &mut filters {
            let first = part.checked_shl(64 - mask_bits).unwrap_or(0);
            let last = first | u64::MAX.checked_shr(mask_bits).unwrap_or(0);
            for entry in self.table.part((first, last)) {
                bloom.add(&entry.hash);
            }
        }
        for (hash, _) in self.table.purged().iter().chain(&self.failed) {
            if let Ok(place) = filters.binary_search_by_key(&part_of(hash), |(part, _)| *part) {
                filters[place].1.add(hash);
            }
        }
        (filters, mask_bits)
    }

    /// Answers a pull request.
    pub(super) fn on_pull_request(
        &mut self,
        now: u64,
        from: SocketAddrV4,
        filter: &CrdsFilter<'_>,
        caller: &CrdsValue<'_>,
        out: &mut Outbox,
    ) {
        self.counters.pull_requests_received += 1;
        let CrdsData::ContactInfo(contact) = caller.data() else { return };
        if contact.shred_version != self.own.shred_version {
            self.counters.pull_shred_version += 1;
        } else if contact.pubkey == self.own.pubkey {
            self.counters.pull_from_self += 1;
        } else if !self.is_verified((contact.pubkey, from), now) {
            self.counters.pull_unverified += 1;
        } else if now.abs_diff(contact.wallclock) > TIMEOUT_MS {
            self.counters.pull_wallclock += 1;
        } else if !self.may_scan(now, from, filter) {
            self.counters.pull_scan_budget += 1;
        } else if !self.has_signed(caller) {
            self.counters.bad_signature += 1;
        } else {
            self.answer(now, from, filter, contact.wallclock, out);
        }
    }

    fn has_signed(&mut self, value: &CrdsValue<'_>) -> bool {
        let hash = sha256(&[value.bytes()]);
        if self.checked.get(&hash).is_some() {
            return true;
        }
        let is_right = self.verifier.verify(&value.label().pubkey, value.signature(), value.signed()).is_ok();
        if is_right {
            self.checked.set(hash, ());
        }
        is_right
    }

    fn may_scan(&mut self, now: u64, from: SocketAddrV4, filter: &CrdsFilter<'_>) -> bool {
        let values = (self.table.len() as u64) >> filter.mask_bits.min(12);
        let cost = values.max(1) * (filter.bloom.key_count() as u64).max(8);
        let budget = self.scans.entry(*from.ip(), || Budget::full(now));
        let is_enough = budget.refill(SCAN_PER_S, SCAN_BURST, now) >= cost;
        if is_enough {
            budget.take(cost);
        }
        is_enough
    }

    fn answer(&mut self, now: u64, to: SocketAddrV4, filter: &CrdsFilter<'_>, caller_wallclock: u64, out: &mut Outbox) {
        let nodes = self.stakes.len().max(2) as u64;
        let (per_s, burst) = (nodes * ANSWERS_PER_S, nodes * ANSWERS_PER_S * ANSWERS_BURST_TENTHS / 10);
        let mut room = self.answers.refill(per_s, burst, now) as usize;
        let newest = caller_wallclock.saturating_add(self.random.below(TIMEOUT_MS / 4));
        let (stakes, random) = (&self.stakes, &mut self.random);
        let is_wanted = |entry: &&Entry| {
            entry.wallclock <= newest
                && !filter.bloom.contains(&entry.hash)
                && stakes.passes(&entry.label.pubkey, entry.label.kind, Direction::Answer)
        };
        let mut found: Vec<(f64, &Entry)> = self
            .table
            .part(filter.range())
            .filter(is_wanted)
            .take(CANDIDATES_MAX)
            .map(|entry| (random.rank(score(entry, now, stakes.of(&entry.label.pubkey) > 0)), entry))
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let total = found.len();
        let fits = found.iter().take_while(|(_, entry)| {
            // As if each had its own datagram; the budget is charged for what was sent.
            let size = VALUES_HEADER + entry.bytes.len();
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        });
        let before = out.size();
        let sent =
            out.send_values(Carrier::PullResponse, &self.own.pubkey, to, fits.map(|(_, entry)| &entry.bytes[..]));
        self.answers.take((out.size() - before) as u64);
        self.counters.pull_values_sent += sent;
        self.counters.pull_over_budget += total as u64 - sent;
    }
}

/// The weight by which a response's values are drawn: newer ones first, staked nodes and contact infos twice as likely.
fn score(entry: &Entry, now: u64, has_stake: bool) -> u64 {
    let age = now.saturating_sub(entry.wallclock);
    let score = (AGE_MAX_MS.saturating_sub(age) / TIMEOUT_MS).max(1);
    score << u32::from(has_stake) << u32::from(entry.contact.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_the_sizes_that_the_cluster_reckons() {
        // The room left by a contact info of 149 B with its signature.
        let blocks = bloom_blocks_max(3, 149);
        let (bits, keys, mask_bits) = sizing(blocks, 0);
        assert_eq!((blocks, keys, mask_bits), (126, 3, 6));
        assert!(bits <= 64 * blocks as u64 && BloomFilter::wire_size_of(bits, keys) + 4 + 12 + 149 <= 1_232);
        assert_eq!(sizing(blocks, 65_537 * 4).2, 8);
        // 1,708 hashes of a filter as large as a datagram make 64 parts of 65,536.
        assert_eq!(sizing(154, 65_536).2, 6);
    }

    #[test]
    fn every_part_is_pulled_before_any_repeats() {
        let mut random = Random::new([5; 32]);
        let mut parts = Parts::default();
        for mask_bits in [6, 6, 8, 6] {
            let rounds: Vec<Vec<u64>> = (0..8).map(|_| parts.next(mask_bits, &mut random)).collect();
            assert!(rounds.iter().all(|round| round.len() == 1 << (mask_bits - 3) && round.is_sorted()));
            let mut all = rounds.concat();
            all.sort_unstable();
            assert_eq!(all, (0..1 << mask_bits).collect::<Vec<u64>>());
        }
        assert_eq!(parts.next(17, &mut random).len() as u64, FILTERS_MAX);
    }

    #[test]
    fn a_budget_fills_with_time() {
        let mut budget = Budget::full(1_000);
        assert_eq!(budget.refill(10, 50, 1_000), 50);
        budget.take(45);
        assert_eq!(budget.refill(10, 50, 1_099), 5);
        assert_eq!(budget.refill(10, 50, 1_100), 6);
        assert_eq!(budget.refill(10, 50, 900), 6, "a step back gains nothing");
        assert_eq!(budget.refill(10, 50, 1_000), 7, "and is no time to be waited for");
        assert_eq!(budget.refill(10, 50, 90_000), 50);
    }
}
