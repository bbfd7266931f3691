//! asking: what is missing, and from whom.
//!
//! reads   what the receiver and the store have; slots that are voted for; answers of repair; pings of its servers
//! writes  requests and pongs, to be signed
//! memory  [`ASKED_MAX`] requests and those of a turn; a time for each peer of repair; [`VOTED_MAX`] slots
//! drops   the slots voted for that were heard of first, beyond that bound; answers that nobody asked for; pings that
//!         are no peer's, not signed by it, or too many: counted
//! source  `solana-core` 4.2.2, `repair_service.rs`, `outstanding_requests.rs`; `docs/cluster-protocol.md`, section 3

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use hearth_cluster::gossip::RepairPeer;
use hearth_cluster::view::View;
use hearth_crypto::ed25519::Verifier;
use hearth_tile::{Host, Out};
use hearth_wire::Pubkey;
use hearth_wire::gossip::Ping;
use hearth_wire::repair::{self, Request, Wanted};
use hearth_wire::shred::Shred as Piece;

use super::intake::Cluster;
use super::receiver::Receiver;
use super::signing::{Signing, UNSIGNED_MAX, Unsigned};
use super::tile::Shred;
use crate::links::PONG;

/// What is under way down the tree comes within so long; Agave waits as long.
const PATIENCE_NS: u64 = 250_000_000;
/// A request that has no answer is made again after so long.
const AGAIN_NS: u64 = 150_000_000;
/// An answer counts for so long.
const EXPIRED_NS: u64 = 60_000_000_000;
/// The newest requests whose answers count.
const ASKED_MAX: usize = 16_384;
/// Slots after the newest that is executed of which missing shreds are asked for.
const SLOTS_WANTED: usize = 32;
/// Slots that are looked at for that, and below the newest that is executed.
const SLOTS_LOOKED_AT: u64 = 1_024;
/// How often all slots above the root are looked at, where there are more: a fork may begin far below.
const LOOK_DEEP_NS: u64 = 1_000_000_000;
/// Slots whose ancestors are asked for at a time.
const ORPHANS_WANTED: usize = 5;
/// An answer to a question for ancestors is so many shreds.
const ANCESTORS: u8 = 11;
/// Slots that are asked for since they are voted for, though nothing else is known of them. A vote may be for a slot
/// that never was.
const VOTED_MAX: usize = 32;
/// So long they are.
const VOTED_NS: u64 = 30_000_000_000;
/// A peer's pings are looked at no sooner than so long after the last. Servers send one in two seconds.
const PING_NS: u64 = 100_000_000;
/// Peers whose last pings are remembered.
const PINGED_MAX: usize = 8_192;

/// A request that waits for its answer.
struct Asked {
    wanted: Wanted,
    at: u64,
    /// Shreds that may come yet.
    left: u8,
}

/// Asks for shreds.
pub(super) struct Asking {
    own: Pubkey,
    /// By nonce: what was asked for. Those of an answer that is late are forgotten.
    asked: HashMap<u32, Asked>,
    /// The nonces, the oldest first; answered ones, too.
    order: VecDeque<u32>,
    /// When something was asked for last.
    asked_at: HashMap<Wanted, u64>,
    /// When a peer's ping was looked at last.
    pinged: HashMap<SocketAddr, u64>,
    /// Slots that are voted for and not here, and when that was heard.
    voted: BTreeMap<u64, u64>,
    /// When all slots above the root are looked at again.
    deep_at: u64,
    random: u64,
}

impl Asking {
    pub fn new(own: Pubkey, host: &mut Host<'_>) -> Self {
        Self {
            own,
            asked: HashMap::new(),
            order: VecDeque::new(),
            asked_at: HashMap::new(),
            pinged: HashMap::new(),
            voted: BTreeMap::new(),
            deep_at: 0,
            random: host.entropy() | 1,
        }
    }

    /// Stake has voted for a slot of which nothing was here.
    pub fn voted_for(&mut self, slot: u64, now: u64) {
        note_voted(&mut self.voted, slot, now);
    }

    /// Answers a ping of repair's server, if it is a peer's, and signed.
    pub fn ping(
        &mut self,
        (ping, from): (&Ping, SocketAddr),
        view: &View,
        verifier: &mut Verifier,
        signing: &mut Signing,
        out: &mut Out<'_, Shred>,
    ) {
        let is_from = |peer: &SocketAddr| *peer == from;
        let is_peer = view.repair().iter().any(|peer| peer.identity == ping.from && is_from(&peer.serve_repair.into()));
        let now = out.now();
        let is_soon = self.pinged.get(&from).is_some_and(|at| now < at + PING_NS);
        if !is_peer || is_soon || !signing.has_room(out) {
            out.count.dropped_unasked += 1;
            return;
        }
        if self.pinged.len() >= PINGED_MAX {
            self.pinged.retain(|_, at| now < *at + PING_NS);
        }
        self.pinged.insert(from, now);
        if verifier.verify(&ping.from, &ping.signature, &ping.token).is_err() {
            out.count.dropped_pings += 1;
            return;
        }
        out.count.repair_pings += 1;
        let hash = hearth_cluster::gossip::pong_hash(&ping.token);
        let question = [&PONG[..], &ping.token].concat();
        signing.ask(Unsigned::Pong { to: from, hash }, &question, out);
    }

    /// Whether a shred was asked for with this nonce, and is what was asked for.
    pub fn is_awaited(&mut self, nonce: u32, bytes: &[u8]) -> bool {
        let Some(asked) = self.asked.get_mut(&nonce).filter(|asked| is_answered(&asked.wanted, bytes)) else {
            return false;
        };
        asked.left -= 1;
        if asked.left == 0 {
            self.asked.remove(&nonce);
        }
        true
    }

    /// Asks for what is missing of the next slots. Whether it asked for anything.
    pub fn work(
        &mut self,
        (cluster, receiver, view): (&Cluster, &Receiver, &View),
        share: (u64, u64),
        signing: &mut Signing,
        out: &mut Out<'_, Shred>,
    ) -> bool {
        let now = out.now();
        self.expire(now);
        self.asked_at.retain(|_, at| now < *at + AGAIN_NS);
        if view.repair().is_empty() {
            return false;
        }
        let is_deep = now >= self.deep_at;
        if is_deep {
            self.deep_at = now + LOOK_DEEP_NS;
        }
        let below = if is_deep { u64::MAX } else { SLOTS_LOOKED_AT };
        let mut any = false;
        let is_whole = |slot: u64| cluster.blocks.slot(slot).is_some_and(|info| info.whole);
        let is_lacking = |slot: u64| slot > receiver.root() && !is_whole(slot);
        self.voted.retain(|slot, at| now < *at + VOTED_NS && is_lacking(*slot));
        // Of most a shred comes as soon as the vote.
        let voted = self.voted.iter().filter(|(_, at)| now >= **at + PATIENCE_NS);
        let voted: Vec<u64> = voted.map(|(slot, _)| *slot).collect();
        for wanted in wanted((cluster, receiver), share, below, &voted, now) {
            if !signing.has_room(out) {
                break;
            }
            if !self.asked_at.contains_key(&wanted) {
                self.ask(wanted, view, signing, out);
                any = true;
            }
        }
        any
    }

    fn ask(&mut self, wanted: Wanted, view: &View, signing: &mut Signing, out: &mut Out<'_, Shred>) {
        let Some(peer) = peer_for(wanted.slot(), view.repair(), self.draw()) else {
            // Nobody who says that it goes back so far: looked for again no sooner than an answer is.
            self.asked_at.insert(wanted, out.now());
            return;
        };
        let nonce = self.draw() as u32;
        let time_ms = out.wall_ns() / 1_000_000;
        let request = Request { sender: self.own, recipient: peer.identity, time_ms, nonce, wanted };
        let bytes = request.write();
        let signed = repair::signed_bytes(&bytes);
        let left = if matches!(wanted, Wanted::Orphan { .. }) { ANCESTORS } else { 1 };
        self.asked.insert(nonce, Asked { wanted, at: out.now(), left });
        self.order.push_back(nonce);
        self.asked_at.insert(wanted, out.now());
        signing.ask(Unsigned::Request { to: peer.serve_repair.into(), bytes }, &signed, out);
        out.count.repair_requests += 1;
    }

    /// Forgets what is not waited for any more: what is old, and what is the oldest where it is too much. A server that
    /// is full answers nothing, and others have to be asked meanwhile.
    fn expire(&mut self, now: u64) {
        let is_waited_for = |asked: &Asked| now < asked.at + EXPIRED_NS;
        while let Some(nonce) = self.order.front()
            && (self.order.len() > ASKED_MAX || !self.asked.get(nonce).is_some_and(is_waited_for))
        {
            self.asked.remove(nonce);
            self.order.pop_front();
        }
    }

    /// A number (xorshift64*). Who guesses a nonce still has to have the leader's signature.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Notes a slot that is voted for, in the place of what was heard of first where there are too many.
fn note_voted(voted: &mut BTreeMap<u64, u64>, slot: u64, now: u64) {
    voted.entry(slot).or_insert(now);
    if voted.len() > VOTED_MAX
        && let Some(oldest) = voted.iter().min_by_key(|(_, at)| **at).map(|(slot, _)| *slot)
    {
        voted.remove(&oldest);
    }
}

/// Who is asked for something of a slot. Any node may have it that does not say otherwise; one with stake is likelier
/// to.
fn peer_for(slot: u64, peers: &[RepairPeer], random: u64) -> Option<&RepairPeer> {
    let weight = |peer: &RepairPeer| if peer.lowest <= slot { u128::from((peer.stake / 2).max(1)) } else { 0 };
    let total: u128 = peers.iter().map(weight).sum();
    let mut drawn = u128::from(random) % total.max(1);
    peers.iter().find(|peer| {
        let is_it = drawn < weight(peer);
        drawn = drawn.saturating_sub(weight(peer));
        is_it
    })
}

/// What is missing of the next slots, the oldest first; ancestors that nothing is known of before that, and after it
/// slots of this tile of which only votes were heard. `share` is which of how many tiles asks: net gives answers to the
/// tile that takes their slot, so each asks for its own, and what it does not know of others' says nothing. Below the
/// newest that is executed it looks at so many slots, and no further than the root.
pub(super) fn wanted(
    (cluster, receiver): (&Cluster, &Receiver),
    (index, tiles): (u64, u64),
    below: u64,
    voted: &[u64],
    now: u64,
) -> Vec<Wanted> {
    let is_own = |slot: &u64| slot % tiles == index;
    let executed = cluster.ledger.recent_blocks(1)[0].slot;
    let from = receiver.root().max(executed.saturating_sub(below)) + 1;
    let to = executed + SLOTS_LOOKED_AT;
    let whole = cluster.blocks.slots(from..=to, usize::MAX);
    let whole: BTreeMap<u64, u64> =
        whole.iter().filter(|info| info.whole).map(|info| (info.slot, info.parent_slot)).collect();
    let begun: BTreeSet<u64> = receiver.slots().filter(|slot| *slot >= from).collect();
    let newest = begun.last().copied().max(whole.last_key_value().map(|(slot, _)| *slot)).unwrap_or(executed);
    let of_begun = begun.iter().filter_map(|slot| Some((*slot, receiver.parent(*slot)?)));
    let parents: BTreeMap<u64, u64> = whole.iter().map(|(slot, parent)| (*slot, *parent)).chain(of_begun).collect();
    let is_there = |slot: &u64| whole.contains_key(slot) || begun.contains(slot);
    // On a block of which nothing is known something was built: there is a fork.
    let lost = |parent: &u64| *parent >= from && is_own(parent) && !is_there(parent);
    let orphans = parents.iter().filter(|(slot, parent)| is_own(slot) && lost(parent));
    let orphans: Vec<u64> = orphans.map(|(slot, _)| *slot).collect();
    let named: BTreeSet<u64> = parents.values().copied().filter(lost).collect();
    // Between a block and its parent there is none on its fork; on another one there is what was heard of.
    let skipped = between(parents.iter().map(|(slot, parent)| (*parent.max(&executed), *slot)), from, to);
    let is_heard_of = |slot: &u64| begun.contains(slot) || named.contains(slot);
    let slots = (from..=newest.min(to)).filter(|slot| is_own(slot) && !whole.contains_key(slot));
    let slots = slots.filter(|slot| is_heard_of(slot) || (*slot > executed && !skipped[(*slot - from) as usize]));
    let slots: BTreeSet<u64> = slots.take(SLOTS_WANTED).collect();
    let unseen = voted.iter().copied().filter(|slot| (from..=to).contains(slot) && !is_there(slot));
    let unseen = unseen.filter(|slot| !slots.contains(slot));
    let mut wanted: Vec<Wanted> =
        orphans.into_iter().take(ORPHANS_WANTED).map(|slot| Wanted::Orphan { slot }).collect();
    for slot in slots.iter().copied().chain(unseen) {
        let missing = receiver.missing(slot, now, PATIENCE_NS, UNSIGNED_MAX);
        wanted.extend(missing.shreds.iter().map(|index| Wanted::Shred { slot, index: *index }));
        wanted.extend(missing.highest_from.map(|from| Wanted::Highest { slot, from }));
    }
    wanted
}

/// Of each slot from `from` to `to` whether it is between two of a pair. A leader may name a parent far back, and
/// blocks far ahead: each pair costs the same.
fn between(pairs: impl Iterator<Item = (u64, u64)>, from: u64, to: u64) -> Vec<bool> {
    let mut changes = vec![0i32; (to + 2 - from) as usize];
    for (below, above) in pairs {
        let (begin, end) = ((below + 1).clamp(from, to + 1), above.clamp(from, to + 1));
        if begin < end {
            changes[(begin - from) as usize] += 1;
            changes[(end - from) as usize] -= 1;
        }
    }
    let mut open = 0;
    let running = changes.into_iter().map(|change| {
        open += change;
        open > 0
    });
    running.collect()
}

/// Whether a shred is what was asked for.
fn is_answered(wanted: &Wanted, bytes: &[u8]) -> bool {
    let Ok(shred) = Piece::parse(bytes) else { return false };
    match wanted {
        Wanted::Shred { slot, index } => (shred.slot(), shred.index()) == (*slot, *index),
        Wanted::Highest { slot, from } => shred.slot() == *slot && shred.index() >= *from,
        Wanted::Orphan { slot } => shred.slot() <= *slot,
        Wanted::Ancestors { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_that_it_goes_back_so_far_is_asked_by_stake() {
        let serve_repair = "10.0.0.1:5".parse().unwrap();
        let peer = |name, stake, lowest| RepairPeer { identity: [name; 32], serve_repair, stake, lowest };
        let peers = [peer(1, 60, 100), peer(2, 0, 0), peer(3, 20, 90), peer(4, 1, 101)];
        let asked = |slot| -> Vec<u8> {
            (0..42).filter_map(|random| Some(peer_for(slot, &peers, random)?.identity[0])).collect()
        };
        let count = |slot, name| asked(slot).iter().filter(|other| **other == name).count();
        assert_eq!([1, 2, 3, 4].map(|name| count(101, name)), [30, 1, 10, 1]);
        assert_eq!([1, 2, 3, 4].map(|name| count(100, name)), [31, 1, 10, 0]);
        assert_eq!(asked(89), [2; 42], "it says nothing");
        assert_eq!(peer_for(89, &peers[..1], 5), None);
    }

    #[test]
    fn of_too_many_that_are_voted_for_the_newest_heard_of_stay() {
        let mut voted = BTreeMap::new();
        (0..100).for_each(|now| note_voted(&mut voted, 1_000 - now, now));
        // What is heard of again is not younger.
        note_voted(&mut voted, 901, 200);
        assert_eq!(voted.len(), VOTED_MAX);
        assert_eq!(voted.first_key_value(), Some((&901, &99)));
        assert_eq!(voted.last_key_value(), Some((&932, &68)));
    }

    #[test]
    fn what_is_between_is_told_within_bounds() {
        let slots = |pairs: &[(u64, u64)]| -> Vec<u64> {
            let found = between(pairs.iter().copied(), 10, 20);
            (10..=20).filter(|slot| found[(*slot - 10) as usize]).collect()
        };
        assert_eq!(slots(&[(11, 14), (13, 15), (17, 18)]), [12, 13, 14]);
        assert_eq!(slots(&[(2, 12), (18, 70_000)]), [10, 11, 19, 20]);
        assert!(slots(&[(1, 5), (30, 40), (12, 12)]).is_empty());
        // As a slot after another: a set that holds all of these would not fit into memory.
        assert_eq!(between((0..1 << 16).map(|n| (n, u64::MAX)), 10, 20).iter().filter(|is| **is).count(), 11);
    }
}
