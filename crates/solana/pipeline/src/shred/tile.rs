//! tile: the shred tile: turns entries into signed FEC sets and, in a cluster, receives other leaders' shreds.
//!
//! reads   `poh_shred`, reliable, if the node makes blocks: every entry, tag = slot, and the root to which a slot is
//!         chained; in a cluster `net_shred`, `gossip_shred`, `replay_shred` and `tower_shred`, reliable
//!         (turbine_ingress.rs); `sign_shred`, reliable: signatures, in the order of the requests; `shred_shred`,
//!         reliable: the last root of the slot that another shred tile has made
//! writes  `shred_sign`, reliable: Merkle roots; `shred_store`, reliable: signed sets; `shred_shred`, reliable;
//!         `shred_net`, elective: the shreds of signed sets for each destination; in a cluster `shred_repair`,
//!         elective: what is missing of other leaders' slots (gaps.rs); in a cluster `shred_gossip`, elective: whole
//!         slots and equivocating leaders (deliver.rs); copies of own shreds for a [recording](crate::capture)
//! memory  at most [`UNSIGNED_MAX`] sets that wait for their signature; one batch
//! drops   shreds for destinations when net has no room, counted; never a part of the block itself: pack keeps it
//!         within [`entry_bytes_within`] the slot's shreds
//! source  Agave's leader: a batch ends when it is full, when it has waited 50 ms, and at the slot's end
//!
//! Each set is chained to the previous one, so a leader's sets are made one after another. Several shred tiles take the
//! slots in turn and pass the chain on; they do not speed up a lone leader.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use hearth_ring::FragMeta;
use hearth_tile::{Filter, Frag, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::shred::DATA_PER_SET;

use super::cluster::Cluster;
use super::counters::Counters;
use super::runs::{SendCounts, send_run};
use super::set::{FecSet, SET_CAPACITY};
use super::shredder::{Shredder, ShredderConfig, ShredderError};
use super::signing::TAG;
use super::store_message::write_message;
use super::turbine_ingress::{Ingress, Ports};
use crate::capture::Tap;
use crate::links::{
    CHAINS_TO, Datagram, GOSSIP_SHRED, MICROBLOCK_MTU, NET_SHRED, POH_SHRED, PeerNews, PohEntry, REPLAY_SHRED,
    SHRED_GOSSIP, SHRED_NET, SHRED_SHRED, SHRED_SIGN, SHRED_STORE, SIGN_SHRED, TOWER_SHRED,
};

/// The chain for which shreds are made.
#[derive(Clone)]
pub struct Config {
    /// The cluster's shred version.
    pub shred_version: u16,
    /// Maximum data shreds per slot.
    pub shreds_per_slot_max: u32,
    /// The last root of the block on which the next one builds.
    pub chained_root: [u8; 32],
    /// The slot after that block: the first to produce.
    pub first_slot: u64,
    /// Leaders take turns: poh sends the root to which a slot's first set is chained. Requires a single shred tile.
    pub takes_turns: bool,
    /// Addresses that receive every shred.
    pub destinations: Vec<SocketAddr>,
    /// The node's cluster, if it is in one.
    pub cluster: Option<Cluster>,
    /// Copies own data shreds, if the session is recorded.
    pub tap: Option<Tap>,
}

/// A batch with transactions ends after this long: Agave's coalescing time.
const COALESCE_NS: u64 = 50_000_000;
/// Sets in a full batch: more sets mean less padding.
const BATCH_SETS: usize = 8;
/// At most this fraction of a slot's sets may be lost to batches that end before they are full.
const SETS_PER_EARLY_END: u64 = 16;
/// Maximum frags for net per resent set: one for each of its shreds.
const RESENT_AT_ONCE: usize = 64;
/// Maximum sets that wait for their signature before the tile stops reading entries.
const UNSIGNED_MAX: usize = 32;
/// Maximum sets per call: those of a full batch, and of the entry after it if that ends the slot. Either may have one
/// more, since a slot's last set holds less.
const SETS_PER_CALL: usize = BATCH_SETS + 1 + MICROBLOCK_MTU.div_ceil(SET_CAPACITY) + 1;

/// Maximum bytes of this node's own sets while they wait for their signatures.
pub const OWN_SETS_BYTES_MAX: usize = OWN_SETS_MAX * FecSet::MEMORY;
/// Maximum own FEC sets that wait for their signature.
pub const OWN_SETS_MAX: usize = UNSIGNED_MAX + SETS_PER_CALL;

/// Bytes of microblocks that fit into a slot with `shreds` data shreds, whatever their sizes and arrival times.
///
/// A full batch wastes less than one entry. Each batch that ends early, and the slot's last, wastes less than a set;
/// ticks and the smaller last set take two more.
pub const fn entry_bytes_within(shreds: u64) -> u64 {
    let sets = shreds / DATA_PER_SET as u64;
    let usable = (sets - sets / SETS_PER_EARLY_END).saturating_sub(3);
    usable * (BATCH_SETS * SET_CAPACITY - MICROBLOCK_MTU) as u64 / BATCH_SETS as u64
}

struct UnsignedSet {
    set: FecSet,
    parent_slot: u64,
    origin_us: u32,
    /// Transactions of its batch, if it is the batch's last set.
    transactions: u64,
}

/// Makes this node's sets, and drives the path of other leaders' shreds.
pub struct Shred {
    shredder: Shredder,
    /// Tile n makes the slots `first_slot + n`, modulo the number of tiles.
    first_slot: u64,
    index: u64,
    peers: u64,
    /// The slot whose parent's last root is known.
    next_slot: u64,
    /// The current slot and its parent.
    slot: Option<(u64, u64)>,
    unsigned: VecDeque<UnsignedSet>,
    free: Vec<FecSet>,
    next_tag: u64,
    coalesce_until: Option<u64>,
    /// The earliest known entry into the node among the batch's transactions; 0 if none is known.
    origin_us: u32,
    /// Transactions in the batch.
    transactions: u64,
    /// How many more batches of the slot may end before they are full.
    early_ends_left: u64,
    early_ends: u64,
    /// `None` if the node makes no blocks.
    poh: Option<In>,
    sign: Port,
    store: Port,
    chain_out: Option<Port>,
    answers: In,
    net: Port,
    destinations: Vec<SocketAddr>,
    shreds: Vec<In>,
    /// In a cluster: gossip's nodes, slots whose block must be replaced, own blocks to send again.
    peer_news: Option<In>,
    dumps: Option<In>,
    resends: Option<In>,
    ingress: Option<Ingress>,
    tap: Option<Tap>,
    /// To which address this leader sends which shreds of a set.
    roots: BTreeMap<SocketAddr, Vec<usize>>,
}

impl Tile for Shred {
    const NAME: &'static str = "shred";
    const BURST: usize = SETS_PER_CALL;
    const FRAGS_PER_RUN: usize = 16;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let shredder = ShredderConfig {
            version: config.shred_version,
            batch_sets: BATCH_SETS,
            shreds_per_slot_max: config.shreds_per_slot_max,
        };
        let sets = u64::from(config.shreds_per_slot_max) / DATA_PER_SET as u64;
        let (index, peers) = (host.index() as u64, host.peers() as u64);
        let (net, sign, store) = (host.output(SHRED_NET)?, host.output(SHRED_SIGN)?, host.output(SHRED_STORE)?);
        host.elective(net);
        let shreds = host.inputs_named(NET_SHRED);
        let gossip = host.outputs(SHRED_GOSSIP).first().copied();
        gossip.iter().for_each(|port| host.elective(*port));
        let peer_news = host.inputs_named(GOSSIP_SHRED).first().copied();
        let is_alone = config.cluster.is_none();
        if shreds.is_empty() != is_alone || gossip.is_none() != is_alone || peer_news.is_none() != is_alone {
            return Err(host.error("a cluster and links from net and with gossip go together"));
        }
        if config.takes_turns && peers > 1 {
            return Err(host.error("a node that takes turns as a leader has one shred tile: layout.shred_tile_count"));
        }
        let ingress = config.cluster.zip(gossip).map(|(cluster, gossip)| {
            let ports = Ports { net, sign, store, gossip };
            Ingress::new(cluster, host, ports)
        });
        let ingress = ingress.transpose()?;
        Ok(Self {
            shredder: Shredder::new(shredder, config.chained_root),
            first_slot: config.first_slot,
            index,
            peers,
            next_slot: match index {
                // Each slot's start carries the root to which it is chained.
                _ if config.takes_turns => u64::MAX,
                0 => config.first_slot,
                _ => 0,
            },
            slot: None,
            unsigned: VecDeque::with_capacity(OWN_SETS_MAX),
            free: vec![],
            next_tag: 0,
            coalesce_until: None,
            origin_us: 0,
            transactions: 0,
            early_ends_left: 0,
            early_ends: sets / SETS_PER_EARLY_END,
            poh: host.inputs_named(POH_SHRED).first().copied(),
            sign,
            store,
            chain_out: host.outputs(SHRED_SHRED).first().copied(),
            answers: host.input(SIGN_SHRED)?,
            net,
            destinations: config.destinations,
            shreds,
            peer_news,
            dumps: host.inputs_named(REPLAY_SHRED).first().copied(),
            resends: host.inputs_named(TOWER_SHRED).first().copied(),
            ingress,
            tap: config.tap,
            roots: BTreeMap::new(),
        })
    }

    fn filter(&mut self, meta: &FragMeta, input: In) -> Filter {
        let slot = meta.tag;
        if [self.dumps, self.resends].contains(&Some(input)) {
            return if slot % self.peers == self.index { Filter::Take } else { Filter::Skip };
        }
        if Some(input) != self.poh {
            return Filter::Take;
        }
        if slot.saturating_sub(self.first_slot) % self.peers != self.index {
            return Filter::Skip;
        }
        // The slot waits until the tile that makes its parent has sent the parent's last root.
        let root_is_known = slot <= self.next_slot;
        if root_is_known && self.unsigned.len() < UNSIGNED_MAX { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if Some(frag.input()) == self.poh && frag.control() == CHAINS_TO {
            let root = frag.payload().try_into().expect("poh tells a root");
            self.shredder.abandon_slot(root);
        } else if Some(frag.input()) == self.poh {
            self.on_entry(&PohEntry::read(frag.payload()), out);
        } else if frag.input() == self.answers {
            self.on_signature(frag.tag(), frag.payload(), out);
        } else if let Some(ingress) = self.ingress.as_mut().filter(|_| self.shreds.contains(&frag.input())) {
            ingress.datagram(&Datagram::read(frag.payload()), out);
        } else if let Some(ingress) = self.ingress.as_mut().filter(|_| Some(frag.input()) == self.peer_news) {
            ingress.peer(PeerNews::read(frag.payload()));
        } else if let Some(ingress) = self.ingress.as_mut().filter(|_| Some(frag.input()) == self.dumps) {
            ingress.dump(frag.tag(), out);
        } else if let Some(ingress) = self.ingress.as_mut().filter(|_| Some(frag.input()) == self.resends) {
            ingress.read_again(frag.tag());
        } else {
            self.on_chained_root(frag.tag(), frag.payload());
        }
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        if let Some(ingress) = &mut self.ingress {
            ingress.end_burst(out);
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if self.coalesce_until.is_some_and(|until| out.now() >= until) && self.unsigned.len() < UNSIGNED_MAX {
            self.early_ends_left -= 1;
            self.end_batch(false, out);
            return Poll::Busy;
        }
        if out.credits(self.net, RESENT_AT_ONCE) == RESENT_AT_ONCE
            && let Some(set) = self.ingress.as_mut().and_then(Ingress::resend)
        {
            self.send(&set, out);
            out.count.sets_resent += 1;
            return Poll::Busy;
        }
        if let Some(ingress) = &mut self.ingress {
            ingress.work(out);
        }
        Poll::Idle
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        if let Some(ingress) = &mut self.ingress {
            ingress.look_at_identity();
        }
        out.count.unsigned = self.unsigned.len() as u64;
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(self.coalesce_until);
        wait.until(self.ingress.as_ref().map(Ingress::deadline));
    }
}

impl Shred {
    fn on_entry(&mut self, entry: &PohEntry<'_>, out: &mut Out<'_, Self>) {
        if self.slot.is_none_or(|(slot, _)| slot != entry.slot) {
            self.shredder.begin_slot(entry.slot, entry.parent_slot).expect("poh ends a slot before the next");
            if let Some(ingress) = &mut self.ingress {
                ingress.makes(entry.slot);
            }
            self.slot = Some((entry.slot, entry.parent_slot));
            (self.early_ends_left, self.transactions) = (self.early_ends, 0);
        }
        out.count.entries += 1;
        let mut pushed = self.shredder.push(entry.entry, entry.tick);
        if pushed == Err(ShredderError::BatchFull) {
            self.end_batch(false, out);
            pushed = self.shredder.push(entry.entry, entry.tick);
        }
        // A block without the entry would be invalid.
        pushed.expect("pack keeps a block within its shreds");
        self.transactions += entry.transaction_count();
        if self.origin_us == 0 {
            self.origin_us = out.origin_us();
        }
        let has_transactions = entry.entry.len() > PohEntry::ENTRY_HEADER;
        if has_transactions && self.coalesce_until.is_none() && self.early_ends_left > 0 {
            self.coalesce_until = Some(out.now() + COALESCE_NS);
        }
        if entry.last {
            self.end_batch(true, out);
            self.hand_on(entry.slot, out);
        }
    }

    fn end_batch(&mut self, ends_slot: bool, out: &mut Out<'_, Self>) {
        self.coalesce_until = None;
        let origin_us = std::mem::take(&mut self.origin_us);
        self.shredder.end_batch(ends_slot);
        let (_, parent_slot) = self.slot.expect("a batch belongs to a slot");
        loop {
            let mut set = self.free.pop().unwrap_or_default();
            if !self.shredder.next_set(&mut set) {
                self.free.push(set);
                break;
            }
            out.publish(self.sign, self.next_tag, set.root());
            self.next_tag += 1;
            out.count.sets += 1;
            self.unsigned.push_back(UnsignedSet { set, parent_slot, origin_us, transactions: 0 });
        }
        if let Some(last) = self.unsigned.back_mut() {
            last.transactions += std::mem::take(&mut self.transactions);
        }
        out.count.batches += 1;
    }

    /// Ends the slot: the next one may now be chained to it, here or by another shred tile.
    fn hand_on(&mut self, slot: u64, out: &mut Out<'_, Self>) {
        out.count.slots += 1;
        self.slot = None;
        if let Some(ingress) = &mut self.ingress {
            ingress.own_is_whole(slot, out);
        }
        match self.chain_out {
            Some(port) => out.publish(port, slot + 1, self.shredder.chained_root()),
            None => self.next_slot = self.next_slot.max(slot + 1),
        }
    }

    fn on_chained_root(&mut self, slot: u64, payload: &[u8]) {
        let root: &[u8; 32] = payload.try_into().expect("a root from a shred tile");
        self.shredder.abandon_slot(*root);
        self.next_slot = slot;
    }

    fn on_signature(&mut self, tag: u64, payload: &[u8], out: &mut Out<'_, Self>) {
        // Not a refusal: shred requests only roots, which sign signs whatever they are.
        let signature = payload.try_into().expect("sign signs every root");
        if let Some(ingress) = self.ingress.as_mut().filter(|_| tag & TAG != 0) {
            return ingress.signed(tag, signature, out);
        }
        let oldest = self.next_tag - self.unsigned.len() as u64;
        assert_eq!(tag, oldest, "sign answers in the order asked");
        let UnsignedSet { mut set, parent_slot, origin_us, transactions } =
            self.unsigned.pop_front().expect("an answer to a question");
        set.sign(signature);
        if let Some(tap) = &self.tap {
            set.shreds().take(DATA_PER_SET).for_each(|shred| tap.own(out.now(), shred));
        }
        out.set_origin(origin_us);
        out.publish_with(self.store, set.header().slot, |buffer| write_message(&set, parent_slot, buffer));
        self.send(&set, out);
        out.count.signed += 1;
        out.count.left_transactions += transactions;
        out.count.bytes += set.entry_len() as u64;
        self.free.push(set);
    }
}

impl Shred {
    /// Sends the set's shreds to net: all of them to each destination, and each to the root of its tree.
    fn send(&mut self, set: &FecSet, out: &mut Out<'_, Self>) {
        let shreds: Vec<&[u8]> = set.shreds().collect();
        for to in &self.destinations {
            send(self.net, *to, &shreds, out);
        }
        let Some(ingress) = &mut self.ingress else { return };
        self.roots.values_mut().for_each(Vec::clear);
        ingress.roots(&shreds, out.now(), &mut self.roots);
        self.roots.retain(|_, places| !places.is_empty());
        for (to, places) in &self.roots {
            let shreds: Vec<&[u8]> = places.iter().map(|place| shreds[*place]).collect();
            send(self.net, *to, &shreds, out);
        }
    }
}

/// Sends shreds to net, with runs of equal size in one message.
fn send(net: Port, to: SocketAddr, shreds: &[&[u8]], out: &mut Out<'_, Shred>) {
    for run in shreds.chunk_by(|a, b| a.len() == b.len()) {
        let SendCounts { sent, dropped } = send_run(net, to, run, out);
        out.count.shreds_sent += sent;
        out.count.dropped_shreds += dropped;
    }
}

#[cfg(test)]
#[path = "tile_tests.rs"]
mod tests;
