//! Which tiles a node has, which links join them: the one place.
//!
//! reads   tile counts and affinity strings
//! writes  the [`Topology`] that everything else derives from
//!
//! Counts of 0 mean «choose»: [`Counts::auto`] fits them to the cores there are.

use hearth_tile::Tile;
use hearth_tile::affinity::{self, AffinityError, Cores, Seat};
use hearth_tile::topology::{Consumption, LinkSpec, TileSpec, Topology};

use crate::links::*;
use crate::{bank, benchg, bencho, benchs, dedup, metric, net, pack, poh, quic, rserve, shred, sign, store, verify};

/// How many tiles of the kinds of which there may be several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `layout.net_tile_count`
    pub net: usize,
    /// `layout.quic_tile_count`
    pub quic: usize,
    /// `layout.verify_tile_count`
    pub verify: usize,
    /// `layout.bank_tile_count`
    pub bank: usize,
    /// `layout.shred_tile_count`
    pub shred: usize,
    /// `development.bench.benchg_tile_count`; 0 without a load generator
    pub benchg: usize,
    /// `development.bench.benchs_tile_count`; 0 without a load generator
    pub benchs: usize,
    /// Whether a transaction history is kept: then banks tell store of each transaction.
    pub history: bool,
    /// `consensus.vote`: store has the node's votes signed, and gives them to pack.
    pub votes: bool,
    /// `gossip.enabled`: net takes shreds for shred.
    pub cluster: bool,
}

/// CPU time per transfer of each kind, in microseconds: what the automatic layout balances by. From the shares that
/// `hearth bench --json` reports; only the proportions matter.
const WEIGHTS: [(&str, f64); 14] = [
    ("bencho", 0.1),
    ("benchg", 5.0),
    ("benchs", 2.5),
    ("net", 0.4),
    ("quic", 1.8),
    ("verify", 8.0),
    ("dedup", 0.5),
    ("pack", 2.0),
    ("bank", 2.5),
    ("poh", 0.1),
    ("shred", 1.0),
    ("store", 0.4),
    ("sign", 0.2),
    ("metric", 0.1),
];
/// The same of kinds that only a node in a cluster has.
const CLUSTER_WEIGHTS: [(&str, f64); 1] = [("rserve", 0.1)];
/// The weight of poh where it hashes at the cluster's rate: about half a core.
const HASHING_WEIGHT: f64 = 12.0;

fn weight(kind: &str, hashing: bool) -> f64 {
    if kind == "poh" && hashing {
        return HASHING_WEIGHT;
    }
    WEIGHTS.iter().chain(&CLUSTER_WEIGHTS).find(|(k, _)| *k == kind).map_or(1.0, |(_, w)| *w)
}

impl Counts {
    /// Fills in the zeros for a machine of `cores` cores, with or without a load generator on it: each kind by its
    /// share of the work. Where a core for each tile leaves verify its share, it gets all that is left; else cores are
    /// shared, and a verify tile on every core takes whatever that core has left. On two cores one does better: see
    /// `docs/decisions/0011-auto-on-two-cores.md`.
    pub fn auto(self, cores: usize, load: bool) -> Self {
        let total: f64 = WEIGHTS.iter().map(|(_, w)| w).sum();
        let share = |kind: &str| ((cores as f64 * weight(kind, false) / total).ceil() as usize).max(1);
        let or = |given: usize, auto: usize| if given == 0 { auto } else { given };
        let load_or = |given: usize, auto: usize| if load { or(given, auto) } else { 0 };
        let mut counts = Self {
            net: or(self.net, share("net")),
            quic: or(self.quic, share("quic")),
            verify: self.verify,
            bank: or(self.bank, share("bank")),
            shred: or(self.shred, 1),
            benchg: load_or(self.benchg, share("benchg")),
            benchs: load_or(self.benchs, share("benchs")),
            history: self.history,
            votes: self.votes,
            cluster: self.cluster,
        };
        if counts.verify == 0 {
            // One core is left to the operating system.
            let left = cores.saturating_sub(counts.others() + 1);
            counts.verify = match share("verify") {
                share if left >= share => left,
                share if cores <= 2 => share,
                _ => cores,
            };
        }
        counts
    }

    /// One of each kind that is not counted, for a layout whose places are counted by hand: more would not fit.
    pub fn at_least_one(self, load: bool) -> Self {
        let load_one = |given: usize| if load { given.max(1) } else { 0 };
        Self {
            net: self.net.max(1),
            quic: self.quic.max(1),
            verify: self.verify.max(1),
            bank: self.bank.max(1),
            shred: self.shred.max(1),
            benchg: load_one(self.benchg),
            benchs: load_one(self.benchs),
            history: self.history,
            votes: self.votes,
            cluster: self.cluster,
        }
    }

    /// Tiles on cores of their own, verify apart: those counted here; dedup, pack, poh, store and sign; in a cluster
    /// rserve.
    fn others(&self) -> usize {
        self.net + self.quic + self.bank + self.shred + self.benchg + self.benchs + 5 + usize::from(self.cluster)
    }
}

/// Affinity of the node's tiles and of the load's.
#[derive(Clone, Debug)]
pub struct Affinity {
    /// `layout.affinity`
    pub node: String,
    /// `development.bench.affinity`
    pub load: String,
}

impl Affinity {
    /// Whether the node's tiles are placed by their share of the work, and not by hand.
    pub fn is_auto(&self) -> bool {
        is_auto(&self.node)
    }
}

fn is_auto(affinity: &str) -> bool {
    affinity.trim() == "auto"
}

/// Why a layout cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// `layout.affinity` is wrong.
    #[error("layout.{0}")]
    Node(AffinityError),
    /// `development.bench.affinity` is wrong.
    #[error("development.bench.{0}")]
    Load(AffinityError),
    /// One is `auto` and the other is not.
    #[error(
        "layout.affinity and development.bench.affinity must both be `auto` or both be given: tiles of one would land on cores of the other"
    )]
    HalfAuto,
}

/// The topology of a node named `name`; `hashing` says whether poh hashes or runs at low power.
pub fn build(
    name: &str,
    counts: Counts,
    affinity: &Affinity,
    cores: &Cores,
    hashing: bool,
) -> Result<Topology, LayoutError> {
    let mut topology = Topology { name: name.into(), tiles: tiles(counts), links: links(counts), services: vec![] };
    place(&mut topology.tiles, affinity, cores, hashing)?;
    topology.check().expect("the declarations below fit together");
    Ok(topology)
}

/// The topology of a node that makes no blocks, and follows those who do.
pub fn build_follower(name: &str, counts: Counts, affinity: &str, cores: &Cores) -> Result<Topology, LayoutError> {
    let counts = Counts { net: counts.net.max(1), shred: counts.shred.max(1), cluster: true, ..Counts::default() };
    let mut tiles = tiles(counts);
    tiles.retain(|tile| FOLLOWER.contains(&tile.kind.as_str()));
    let mut links = links(counts);
    let is_there = |name: &str| tiles.iter().any(|tile| tile.name() == name);
    links.retain(|link| is_there(&link.producer) && link.consumers.iter().all(|end| is_there(&end.tile)));
    let affinity = Affinity { node: affinity.into(), load: affinity.into() };
    place(&mut tiles, &affinity, cores, false)?;
    let topology = Topology { name: name.into(), tiles, links, services: vec![] };
    topology.check().expect("the declarations below fit together");
    Ok(topology)
}

/// The tiles of a node that makes no blocks.
const FOLLOWER: [&str; 6] = [
    net::Net::NAME,
    shred::Shred::NAME,
    store::Store::NAME,
    rserve::Rserve::NAME,
    sign::Sign::NAME,
    metric::Metric::NAME,
];

/// The topology of a load generator alone, which drives a node somewhere else.
pub fn build_load(name: &str, counts: Counts, affinity: &str, cores: &Cores) -> Result<Topology, LayoutError> {
    let node = Counts::default();
    let counts = Counts { benchg: counts.benchg, benchs: counts.benchs, ..node };
    let mut tiles = tiles(counts);
    tiles.retain(|tile| tile.load);
    let mut links = links(counts);
    let is_load = |name: &str| tiles.iter().any(|tile| tile.name() == name);
    links.retain(|link| is_load(&link.producer));
    // With no tiles of a node beside them, theirs are the only places there are.
    let affinity = Affinity { node: affinity.into(), load: affinity.into() };
    place(&mut tiles, &affinity, cores, false)?;
    let topology = Topology { name: name.into(), tiles, links, services: vec![] };
    topology.check().expect("the declarations below fit together");
    Ok(topology)
}

/// The tiles in the order of the data flow: load first, then as a packet meets them.
fn tiles(c: Counts) -> Vec<TileSpec> {
    fn of<T: Tile>(count: usize, load: bool) -> impl Iterator<Item = TileSpec> {
        (0..count).map(move |i| TileSpec { load, ..TileSpec::of::<T>(i) })
    }
    let with_load = usize::from(c.benchg > 0);
    of::<bencho::Bencho>(with_load, true)
        .chain(of::<benchg::Benchg>(c.benchg, true))
        .chain(of::<benchs::Benchs>(c.benchs, true))
        .chain(of::<net::Net>(c.net, false))
        .chain(of::<quic::Quic>(c.quic, false))
        .chain(of::<verify::Verify>(c.verify, false))
        .chain(of::<dedup::Dedup>(1, false))
        .chain(of::<pack::Pack>(1, false))
        .chain(of::<bank::Bank>(c.bank, false))
        .chain(of::<poh::Poh>(1, false))
        .chain(of::<shred::Shred>(c.shred, false))
        .chain(of::<store::Store>(1, false))
        .chain(of::<rserve::Rserve>(usize::from(c.cluster), false))
        .chain(of::<sign::Sign>(1, false))
        .chain(of::<metric::Metric>(1, false))
        .collect()
}

/// The links, in the order of the data flow. All are reliable: a full link holds its producer, and at the edge of
/// the node it is the network that waits.
fn links(c: Counts) -> Vec<LinkSpec> {
    let mut links = vec![];
    let mut link = |name: String, depth: u32, mtu: usize, producer: String, consumers: Vec<String>| {
        let consumers = consumers.into_iter().map(|tile| Consumption { tile, reliable: true }).collect();
        links.push(LinkSpec { name, depth, mtu: mtu as u32, producer, consumers });
    };
    let tile = |kind: &str, i: usize| format!("{kind}:{i}");
    if c.benchg > 0 {
        let all = (0..c.benchg).map(|g| tile("benchg", g)).collect();
        link(BENCHO_BENCHG.into(), 16, 32, tile("bencho", 0), all);
    }
    for g in 0..c.benchg {
        link(tile(BENCHG_BENCHS, g), 1024, TXN_MTU, tile("benchg", g), vec![tile("benchs", g % c.benchs.max(1))]);
    }
    for n in 0..c.net {
        for q in 0..c.quic {
            link(tile(NET_QUIC, n * c.quic + q), 512, DATAGRAM_MTU, tile("net", n), vec![tile("quic", q)]);
        }
    }
    for q in 0..c.quic {
        link(tile(QUIC_NET, q), 128, OUTGOING_MTU, tile("quic", q), vec![tile("net", q % c.net)]);
        for v in 0..c.verify {
            link(tile(QUIC_VERIFY, q * c.verify + v), 256, TXN_MTU, tile("quic", q), vec![tile("verify", v)]);
        }
    }
    link(RPC_VERIFY.into(), 1024, TXN_MTU, "rpc:0".into(), vec![tile("verify", 0)]);
    for v in 0..c.verify {
        link(tile(VERIFY_DEDUP, v), 512, TXN_MTU, tile("verify", v), vec![tile("dedup", 0)]);
    }
    link(DEDUP_PACK.into(), 1024, TXN_MTU, tile("dedup", 0), vec![tile("pack", 0)]);
    for b in 0..c.bank {
        link(tile(PACK_BANK, b), 8, MICROBLOCK_MTU, tile("pack", 0), vec![tile("bank", b)]);
        link(tile(BANK_POH, b), 16, MICROBLOCK_MTU, tile("bank", b), vec![tile("poh", 0)]);
        if c.history {
            link(tile(BANK_STORE, b), 64, HISTORY_MTU, tile("bank", b), vec![tile("store", 0)]);
        }
        link(tile(BANK_PACK, b), 64, COMPLETION_MTU, tile("bank", b), vec![tile("pack", 0)]);
    }
    link(POH_PACK.into(), 64, LeaderSlot::SIZE, tile("poh", 0), vec![tile("pack", 0)]);
    link(PACK_POH.into(), 64, DonePacking::SIZE, tile("pack", 0), vec![tile("poh", 0)]);
    let shreds = (0..c.shred).map(|s| tile("shred", s)).collect();
    link(POH_SHRED.into(), 64, MICROBLOCK_MTU, tile("poh", 0), shreds);
    for s in 0..c.shred {
        if c.shred > 1 {
            link(tile(SHRED_SHRED, s), 16, 32, tile("shred", s), vec![tile("shred", (s + 1) % c.shred)]);
        }
        if c.cluster {
            for n in 0..c.net {
                let name = tile(NET_SHRED, n * c.shred + s);
                link(name, 2048, SHRED_DATAGRAM_MTU, tile("net", n), vec![tile("shred", s)]);
            }
        }
        link(tile(SHRED_SIGN, s), 64, SHRED_SIGN_MTU, tile("shred", s), vec![tile("sign", 0)]);
        link(tile(SIGN_SHRED, s), 64, 64, tile("sign", 0), vec![tile("shred", s)]);
        link(tile(SHRED_NET, s), 256, OUTGOING_MTU, tile("shred", s), vec![tile("net", s % c.net)]);
        link(tile(SHRED_STORE, s), 64, STORED_SET_MTU, tile("shred", s), vec![tile("store", 0)]);
    }
    if c.cluster {
        repair_links(c, &mut link);
    }
    if c.votes {
        link(STORE_SIGN.into(), 16, TXN_MTU, tile("store", 0), vec![tile("sign", 0)]);
        link(SIGN_STORE.into(), 16, 64, tile("sign", 0), vec![tile("store", 0)]);
        link(STORE_PACK.into(), 16, TXN_MTU, tile("store", 0), vec![tile("pack", 0)]);
    }
    links
}

/// The links of repair: asked by others.
fn repair_links(c: Counts, link: &mut impl FnMut(String, u32, usize, String, Vec<String>)) {
    let tile = |kind: &str, i: usize| format!("{kind}:{i}");
    for n in 0..c.net {
        link(tile(NET_RSERVE, n), 256, RSERVE_DATAGRAM_MTU, tile("net", n), vec![tile("rserve", 0)]);
    }
    link(RSERVE_NET.into(), 256, RSERVE_OUTGOING_MTU, tile("rserve", 0), vec![tile("net", 0)]);
    link(RSERVE_SIGN.into(), 64, PING_NONCE, tile("rserve", 0), vec![tile("sign", 0)]);
    link(SIGN_RSERVE.into(), 64, 64, tile("sign", 0), vec![tile("rserve", 0)]);
}

fn place(tiles: &mut [TileSpec], affinity: &Affinity, cores: &Cores, hashing: bool) -> Result<(), LayoutError> {
    let seat = |tile: &TileSpec| seat(tile, hashing);
    let has_load = tiles.iter().any(|t| t.load);
    let autos = (affinity.is_auto(), is_auto(&affinity.load));
    if has_load && autos.0 != autos.1 {
        return Err(LayoutError::HalfAuto);
    }
    let places = if autos.0 {
        affinity::auto(&tiles.iter().map(seat).collect::<Vec<_>>(), cores)
    } else {
        let (load, node): (Vec<_>, Vec<_>) = tiles.iter().partition(|t| t.load);
        let seats = |tiles: Vec<&TileSpec>| tiles.into_iter().map(seat).collect::<Vec<_>>();
        let mut places = match has_load {
            true => affinity::assign(&affinity.load, &seats(load), cores).map_err(LayoutError::Load)?,
            false => vec![],
        };
        places.extend(affinity::assign(&affinity.node, &seats(node), cores).map_err(LayoutError::Node)?);
        places
    };
    for (tile, place) in tiles.iter_mut().zip(places) {
        tile.core = place;
    }
    Ok(())
}

/// What the automatic layout needs to know of a tile; `hashing` says whether poh hashes.
pub fn seat(tile: &TileSpec, hashing: bool) -> Seat {
    Seat {
        name: tile.name(),
        weight: weight(&tile.kind, hashing),
        floats: matches!(tile.kind.as_str(), "metric" | "bencho"),
        spread: tile.kind == "verify",
        quiet: is_quiet(&tile.kind),
    }
}

/// Whether tiles of a kind want a physical core for themselves: there is one of each, and all waits for it.
pub fn is_quiet(kind: &str) -> bool {
    matches!(kind, "pack" | "poh")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(count: usize) -> Cores {
        Cores { allowed: (0..count).collect(), siblings: (0..count).map(|c| (c, vec![])).collect() }
    }

    fn auto() -> Affinity {
        Affinity { node: "auto".into(), load: "auto".into() }
    }

    #[test]
    fn the_same_declarations_fit_2_cores_and_80() {
        for count in [1, 2, 4, 16, 80] {
            for load in [false, true] {
                let counts = Counts::default().auto(count, load);
                let topology = build("hearth", counts, &auto(), &cores(count), load).unwrap();
                let kinds: std::collections::BTreeSet<_> =
                    topology.tiles.iter().filter(|t| !t.load).map(|t| t.kind.as_str()).collect();
                assert_eq!(kinds.len(), 11, "eleven kinds on {count} cores");
                let used: std::collections::BTreeSet<_> = topology.tiles.iter().filter_map(|t| t.core).collect();
                let alone = count == 80;
                assert_eq!(used.len(), if alone { 79 } else { count }, "every core has work but the system's");
                for tile in topology.tiles.iter().filter(|t| alone && t.core.is_some()) {
                    let on_core = topology.tiles.iter().filter(|t| t.core == tile.core).count();
                    assert_eq!(on_core, 1, "{} has a core of its own", tile.name());
                }
            }
        }
    }

    #[test]
    fn every_link_has_both_ends() {
        let counts = Counts {
            net: 2,
            quic: 3,
            verify: 5,
            bank: 4,
            shred: 2,
            benchg: 3,
            benchs: 2,
            history: true,
            votes: true,
            cluster: true,
        };
        let topology = build("hearth", counts, &auto(), &cores(64), false).unwrap();
        for link in &topology.links {
            assert!(link.producer == "rpc:0" || topology.tile(&link.producer).is_some(), "{}", link.name);
            assert!(!link.consumers.is_empty(), "{}", link.name);
        }
    }

    #[test]
    fn half_auto_is_refused() {
        let affinity = Affinity { node: "auto".into(), load: "0-3".into() };
        let counts = Counts::default().auto(2, true);
        assert_eq!(build("hearth", counts, &affinity, &cores(2), false), Err(LayoutError::HalfAuto));
    }
}
