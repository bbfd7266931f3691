//! topology: which tiles a node has, by their [kinds](crate::kinds), and which links join them.
//!
//! reads   the kinds of tiles, tile counts and affinity strings
//! writes  the [`Topology`] from which everything else derives
//!
//! A count of 0 means "choose": [`Counts::auto`] fits it to the available cores.

use hearth_tile::affinity::{self, AffinityError, Cores, Seat};
use hearth_tile::topology::{Consumption, LinkSpec, TileSpec, Topology};

use crate::kinds::{Auto, Count, KINDS, Kind, Role};
use crate::links::*;
use crate::poh::{LeaderAnswer, LeaderOrder};

/// The number of tiles of each kind, and the settings that decide which links join them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the order of [`KINDS`]. For kinds with several tiles, 0 means "choose" until [`Counts::auto`] or
    /// [`Counts::at_least_one`] has chosen.
    tiles: [usize; KINDS.len()],
    /// Whether a transaction history is kept: then banks, and replay for other nodes' blocks, report each transaction
    /// to store.
    pub history: bool,
    /// `consensus.vote`: there is a tower tile, in a cluster or not.
    pub votes: bool,
    /// `gossip.enabled`: net receives shreds, and there is a gossip tile.
    pub cluster: bool,
}

impl Counts {
    /// Returns the number of tiles of this kind. Panics if there is no such kind.
    pub fn of(&self, kind: &str) -> usize {
        self.tiles[position(kind)]
    }

    /// Sets the number of tiles of this kind.
    pub fn set(&mut self, kind: &str, count: usize) {
        self.tiles[position(kind)] = count;
    }

    /// Fills in the zeros for a machine with `cores` cores, with or without a load generator on it: each kind gets its
    /// share of the work. If one core per tile leaves verify its share, verify gets all remaining cores; otherwise
    /// cores are shared, and a verify tile on every core uses its remaining time. Two cores are a special case: see
    /// `docs/decisions/0011-auto-on-two-cores.md`.
    pub fn auto(self, cores: usize, load: bool) -> Self {
        let kinds = KINDS.iter().filter(|kind| self.has(kind.role, true));
        let total: f64 = kinds.map(|kind| kind.weight_us).sum();
        let share = |kind: &Kind| ((cores as f64 * kind.weight_us / total).ceil() as usize).max(1);
        let mut counts = self.filled(load, |kind| match kind.count {
            Count::One | Count::Several(Auto::One) => 1,
            Count::Several(Auto::Share) => share(kind),
            Count::Several(Auto::Rest) => 0,
        });
        let others = KINDS.iter().zip(counts.tiles).filter(|(kind, _)| !kind.floats);
        // One core is left to the operating system.
        let left = cores.saturating_sub(others.map(|(_, count)| count).sum::<usize>() + 1);
        for (kind, count) in KINDS.iter().zip(&mut counts.tiles) {
            if *count == 0 && kind.count == Count::Several(Auto::Rest) && self.has(kind.role, load) {
                *count = match share(kind) {
                    share if left >= share => left,
                    share if cores <= 2 => share,
                    _ => cores,
                };
            }
        }
        counts
    }

    /// Sets uncounted kinds to one, for a layout whose places are counted by hand: more would not fit.
    pub fn at_least_one(self, load: bool) -> Self {
        self.filled(load, |_| 1)
    }

    /// Fills in the uncounted kinds that the node has, as `choose` decides.
    fn filled(self, load: bool, choose: impl Fn(&Kind) -> usize) -> Self {
        let mut counts = self;
        for (kind, count) in KINDS.iter().zip(&mut counts.tiles) {
            *count = match kind.count {
                _ if !self.has(kind.role, load) => 0,
                Count::Several(_) if *count > 0 => *count,
                _ => choose(kind),
            };
        }
        counts
    }

    fn has(&self, role: Role, load: bool) -> bool {
        match role {
            Role::Load => load,
            Role::Node | Role::Leader => true,
            Role::Cluster => self.cluster,
            Role::Voter => self.cluster || self.votes,
        }
    }

    /// Removes the kinds with other roles.
    fn only(self, roles: &[Role]) -> Self {
        let mut counts = self;
        for (kind, count) in KINDS.iter().zip(&mut counts.tiles) {
            if !roles.contains(&kind.role) {
                *count = 0;
            }
        }
        counts
    }
}

fn position(kind: &str) -> usize {
    let found = KINDS.iter().position(|other| other.name == kind);
    found.unwrap_or_else(|| panic!("there is no kind of tile named {kind}"))
}

/// Affinity of the node's tiles and of the load generator's.
#[derive(Clone, Debug)]
pub struct Affinity {
    /// The value of `layout.affinity`.
    pub node: affinity::Affinity,
    /// The value of `development.bench.affinity`.
    pub load: affinity::Affinity,
}

impl Affinity {
    /// Whether the node's tiles are placed by their share of the work instead of by hand.
    pub fn is_auto(&self) -> bool {
        self.node.is_auto()
    }
}

/// Why a layout is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The node's own layout, `layout.affinity`, is invalid.
    #[error("layout.{0}")]
    Node(AffinityError),
    /// The layout of the load generator, `development.bench.affinity`, is invalid.
    #[error("development.bench.{0}")]
    Load(AffinityError),
    /// One is `auto` and the other is not.
    #[error(
        "layout.affinity and development.bench.affinity must both be `auto` or both be given: tiles of one would land on cores of the other"
    )]
    HalfAuto,
}

/// Builds the topology of a node named `name`; `hashing` says whether poh hashes or runs in low power.
pub fn build(
    name: &str,
    counts: Counts,
    affinity: &Affinity,
    cores: &Cores,
    hashing: bool,
) -> Result<Topology, LayoutError> {
    let mut tiles: Vec<_> = KINDS.iter().flat_map(|kind| (0..counts.of(kind.name)).map(|i| kind.spec(i))).collect();
    place(&mut tiles, affinity, cores, hashing)?;
    let mut links = links(&counts);
    // A name that is no tile's is a thread's, which always exists.
    let is_there = |tile: &str| {
        let kind = tile.split(':').next().and_then(Kind::named);
        kind.is_none_or(|kind| counts.of(kind.name) > 0)
    };
    links.retain(|link| is_there(&link.producer) && link.consumers.iter().all(|end| is_there(&end.tile)));
    let topology = Topology { name: name.into(), tiles, links, services: vec![] };
    topology.check().expect("the declarations below fit together");
    Ok(topology)
}

/// Builds the topology of a node that makes no blocks and follows the nodes that do.
pub fn build_follower(
    name: &str,
    counts: Counts,
    affinity: &affinity::Affinity,
    cores: &Cores,
) -> Result<Topology, LayoutError> {
    let mut counts = Counts { votes: false, cluster: true, ..counts };
    if affinity.is_auto() && counts.of("exec") == 0 {
        counts.set("exec", (cores.allowed.len() / 2).clamp(1, FOLLOWER_EXECS_MAX));
    }
    let counts = counts.at_least_one(false).only(&FOLLOWER);
    build(name, counts, &Affinity { node: affinity.clone(), load: affinity.clone() }, cores, false)
}

/// Maximum exec tiles that `auto` gives a node without block production: few blocks have work for more.
const FOLLOWER_EXECS_MAX: usize = 8;
/// The roles of a node that makes no blocks.
const FOLLOWER: [Role; 3] = [Role::Node, Role::Cluster, Role::Voter];
/// The RPC's threads, which submit transactions.
pub const RPC: &str = "rpc:0";

/// The `layout.affinity` of a node in a cluster whose tiles share `core`, but for the kinds in `floating`, which have a
/// thread each. There are `execs` exec tiles, at least one, and one tile of each other kind; `follows` says
/// whether the node makes no blocks.
pub fn on_one_core(core: usize, follows: bool, execs: usize, floating: &[&str]) -> String {
    let mut counts = Counts { cluster: true, ..Counts::default() };
    counts.set("exec", execs);
    let counts = counts.at_least_one(false);
    let counts = if follows { counts.only(&FOLLOWER) } else { counts };
    let places = |kind: &Kind| {
        let place = (!floating.contains(&kind.name)).then_some(core);
        std::iter::repeat_n(place, counts.of(kind.name))
    };
    affinity::written(&KINDS.iter().flat_map(places).collect::<Vec<_>>())
}

/// Builds the topology of a load generator alone, which drives a node on another machine.
pub fn build_load(
    name: &str,
    counts: Counts,
    affinity: &affinity::Affinity,
    cores: &Cores,
) -> Result<Topology, LayoutError> {
    let counts = counts.only(&[Role::Load]);
    // Without a node's tiles next to them, theirs are the only places.
    build(name, counts, &Affinity { node: affinity.clone(), load: affinity.clone() }, cores, false)
}

/// Returns the links, in the order of the data flow. All are reliable: a full link blocks its producer, and at the edge
/// of the node the network waits. Links of which this node lacks an end are removed later.
fn links(c: &Counts) -> Vec<LinkSpec> {
    let mut links = vec![];
    load_links(c, &mut links);
    transaction_links(c, &mut links);
    block_links(c, &mut links);
    shred_links(c, &mut links);
    gossip_links(c, &mut links);
    repair_links(c, &mut links);
    vote_links(c, &mut links);
    replay_links(c, &mut links);
    links
}

fn link(links: &mut Vec<LinkSpec>, name: String, depth: u32, mtu: usize, producer: String, consumers: Vec<String>) {
    let consumers = consumers.into_iter().map(|tile| Consumption { tile, reliable: true }).collect();
    links.push(LinkSpec { name, depth, mtu: mtu as u32, producer, consumers });
}

/// The full name of a tile, or of one of several links.
fn tile(kind: &str, i: usize) -> String {
    format!("{kind}:{i}")
}

/// Links within the load generator.
fn load_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    let benchg = c.of("benchg");
    let benchs = c.of("benchs");
    if benchg > 0 {
        let all = (0..benchg).map(|g| tile("benchg", g)).collect();
        link(links, BENCHO_BENCHG.into(), 16, 32, tile("bencho", 0), all);
    }
    for g in 0..benchg {
        link(links, tile(BENCHG_BENCHS, g), 1024, TXN_MTU, tile("benchg", g), vec![tile("benchs", g % benchs.max(1))]);
    }
}

/// Links from the network to pack.
fn transaction_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    let net = c.of("net");
    let quic = c.of("quic");
    let verify = c.of("verify");
    for n in 0..net {
        for q in 0..quic {
            link(links, tile(NET_QUIC, n * quic + q), 512, DATAGRAM_MTU, tile("net", n), vec![tile("quic", q)]);
        }
    }
    for q in 0..quic {
        link(links, tile(QUIC_NET, q), 128, OUTGOING_MTU, tile("quic", q), vec![tile("net", q % net)]);
        for v in 0..verify {
            link(links, tile(QUIC_VERIFY, q * verify + v), 256, TXN_MTU, tile("quic", q), vec![tile("verify", v)]);
        }
    }
    if c.cluster {
        // Txsend knows whose turn it is.
        link(links, RPC_TXSEND.into(), 1024, TXN_MTU, RPC.into(), vec![tile("txsend", 0)]);
        link(links, TOWER_TXSEND.into(), 64, TXN_MTU, tile("tower", 0), vec![tile("txsend", 0)]);
        link(links, NET_TXSEND.into(), 256, TXSEND_DATAGRAM_MTU, tile("net", 0), vec![tile("txsend", 0)]);
        link(links, TXSEND_NET.into(), 128, OUTGOING_MTU, tile("txsend", 0), vec![tile("net", 0)]);
        link(links, TXSEND_SIGN.into(), 16, TXSEND_SIGN_MTU, tile("txsend", 0), vec![tile("sign", 0)]);
        link(links, SIGN_TXSEND.into(), 16, 64, tile("sign", 0), vec![tile("txsend", 0)]);
        link(links, TXSEND_VERIFY.into(), 256, TXN_MTU, tile("txsend", 0), vec![tile("verify", 0)]);
        if quic > 0 {
            let all = (0..quic).map(|q| tile("quic", q)).collect();
            link(links, TXSEND_QUIC.into(), 16, StakesPiece::MTU, tile("txsend", 0), all);
        }
    } else {
        link(links, RPC_VERIFY.into(), 1024, TXN_MTU, RPC.into(), vec![tile("verify", 0)]);
        link(links, RPC_POH.into(), 16, 8, RPC.into(), vec![tile("poh", 0)]);
    }
    for v in 0..verify {
        link(links, tile(VERIFY_DEDUP, v), 512, TXN_MTU, tile("verify", v), vec![tile("dedup", 0)]);
    }
    link(links, DEDUP_PACK.into(), 1024, TXN_MTU, tile("dedup", 0), vec![tile("pack", 0)]);
}

/// Links between pack, banks and poh, and from poh to shred.
fn block_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    let bank = c.of("bank");
    let shred = c.of("shred");
    for b in 0..bank {
        link(links, tile(PACK_BANK, b), 8, MICROBLOCK_MTU, tile("pack", 0), vec![tile("bank", b)]);
        link(links, tile(BANK_POH, b), 16, MICROBLOCK_MTU, tile("bank", b), vec![tile("poh", 0)]);
        if c.history {
            link(links, tile(BANK_STORE, b), 64, HISTORY_MTU, tile("bank", b), vec![tile("store", 0)]);
        }
        link(links, tile(BANK_PACK, b), 64, COMPLETION_MTU, tile("bank", b), vec![tile("pack", 0)]);
    }
    link(links, STORE_POH.into(), 16, 8, tile("store", 0), vec![tile("poh", 0)]);
    link(links, POH_PACK.into(), 64, LeaderSlot::SIZE, tile("poh", 0), vec![tile("pack", 0)]);
    link(links, PACK_POH.into(), 64, DonePacking::SIZE, tile("pack", 0), vec![tile("poh", 0)]);
    let shreds = (0..shred).map(|s| tile("shred", s)).collect();
    link(links, POH_SHRED.into(), 64, MICROBLOCK_MTU, tile("poh", 0), shreds);
}

/// Links of shreds, made here and received.
fn shred_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    let net = c.of("net");
    let shred = c.of("shred");
    for s in 0..shred {
        if shred > 1 {
            link(links, tile(SHRED_SHRED, s), 16, 32, tile("shred", s), vec![tile("shred", (s + 1) % shred)]);
        }
        if c.cluster {
            for n in 0..net {
                let name = tile(NET_SHRED, n * shred + s);
                link(links, name, 2048, SHRED_DATAGRAM_MTU, tile("net", n), vec![tile("shred", s)]);
            }
        }
        link(links, tile(SHRED_SIGN, s), 64, 32, tile("shred", s), vec![tile("sign", 0)]);
        link(links, tile(SIGN_SHRED, s), 64, 64, tile("sign", 0), vec![tile("shred", s)]);
        link(links, tile(SHRED_NET, s), 256, OUTGOING_MTU, tile("shred", s), vec![tile("net", s % net)]);
        link(links, tile(SHRED_STORE, s), 64, STORED_SET_MTU, tile("shred", s), vec![tile("store", 0)]);
    }
}

/// Links of gossip, if the node is in a cluster.
fn gossip_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    if !c.cluster {
        return;
    }
    let gossip = tile("gossip", 0);
    for n in 0..c.of("net") {
        link(links, tile(NET_GOSSIP, n), 512, GOSSIP_DATAGRAM_MTU, tile("net", n), vec![gossip.clone()]);
    }
    let shreds = || (0..c.of("shred")).map(|s| tile("shred", s));
    link(links, GOSSIP_SHRED.into(), 1024, PEER_NEWS_MTU, gossip.clone(), shreds().collect());
    link(links, GOSSIP_REPAIR.into(), 1024, PEER_NEWS_MTU, gossip.clone(), vec![tile("repair", 0)]);
    link(links, GOSSIP_TXSEND.into(), 1024, PEER_NEWS_MTU, gossip.clone(), vec![tile("txsend", 0)]);
    link(links, GOSSIP_TOWER.into(), 1024, TOWER_NEWS_MTU, gossip.clone(), vec![tile("tower", 0)]);
    link(links, TOWER_GOSSIP.into(), 64, STATEMENT_MTU, tile("tower", 0), vec![gossip.clone()]);
    for (s, shred) in shreds().enumerate() {
        link(links, tile(SHRED_GOSSIP, s), 64, SLOT_NEWS_MTU, shred, vec![gossip.clone()]);
    }
    let depth = GOSSIP_SIGN_DEPTH as u32;
    link(links, GOSSIP_SIGN.into(), depth, TXN_MTU, gossip.clone(), vec![tile("sign", 0)]);
    link(links, SIGN_GOSSIP.into(), depth, 64, tile("sign", 0), vec![gossip.clone()]);
    link(links, GOSSIP_NET.into(), 256, GOSSIP_OUTGOING_MTU, gossip, vec![tile("net", 0)]);
}

/// Links from tower to sign and back; for a lone node, from durable blocks to votes in later blocks.
fn vote_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    let (tower, sign) = (tile("tower", 0), tile("sign", 0));
    if !c.cluster {
        link(links, STORE_TOWER.into(), 16, 32, tile("store", 0), vec![tower.clone()]);
        link(links, TOWER_PACK.into(), 16, TXN_MTU, tower.clone(), vec![tile("pack", 0)]);
    }
    link(links, TOWER_SIGN.into(), 16, TOWER_SIGN_MTU, tower.clone(), vec![sign.clone()]);
    link(links, SIGN_TOWER.into(), 16, SIGN_TOWER_MTU, sign, vec![tower]);
}

/// Links of a node in a cluster: from stored blocks to consensus.
fn replay_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    if !c.cluster {
        return;
    }
    let (replay, tower) = (tile("replay", 0), tile("tower", 0));
    link(links, STORE_REPLAY.into(), 1024, 8, tile("store", 0), vec![replay.clone()]);
    let of_store = if c.history { HISTORY_MTU } else { 8 };
    link(links, REPLAY_STORE.into(), 64, of_store, replay.clone(), vec![tile("store", 0)]);
    for e in 0..c.of("exec") {
        link(links, tile(REPLAY_EXEC, e), 4, MICROBLOCK_MTU, replay.clone(), vec![tile("exec", e)]);
        link(links, tile(EXEC_REPLAY, e), 16, HISTORY_MTU, tile("exec", e), vec![replay.clone()]);
    }
    link(links, REPLAY_POH.into(), 64, LeaderOrder::SIZE, replay.clone(), vec![tile("poh", 0)]);
    link(links, POH_REPLAY.into(), 64, LeaderAnswer::SIZE, tile("poh", 0), vec![replay.clone()]);
    link(links, REPLAY_TOWER.into(), 128, REPLAY_TOWER_MTU, replay.clone(), vec![tower.clone()]);
    link(links, TOWER_REPLAY.into(), 1024, TOWER_REPLAY_MTU, tower.clone(), vec![replay.clone()]);
    let shreds = || (0..c.of("shred")).map(|s| tile("shred", s)).collect();
    link(links, REPLAY_SHRED.into(), 64, 8, replay, shreds());
    link(links, TOWER_SHRED.into(), 64, 8, tower.clone(), shreds());
    link(links, TOWER_RSERVE.into(), 64, 32, tower, vec![tile("rserve", 0)]);
}

/// Links of repair: its own requests, and those of other nodes.
fn repair_links(c: &Counts, links: &mut Vec<LinkSpec>) {
    for n in 0..c.of("net") {
        link(links, tile(NET_REPAIR, n), 256, REPAIR_DATAGRAM_MTU, tile("net", n), vec![tile("repair", 0)]);
        link(links, tile(NET_RSERVE, n), 256, RSERVE_DATAGRAM_MTU, tile("net", n), vec![tile("rserve", 0)]);
    }
    for s in 0..c.of("shred") {
        link(links, tile(SHRED_REPAIR, s), 512, SlotGaps::MTU, tile("shred", s), vec![tile("repair", 0)]);
    }
    link(links, REPAIR_NET.into(), 256, REPAIR_OUTGOING_MTU, tile("repair", 0), vec![tile("net", 0)]);
    link(links, REPAIR_SIGN.into(), 128, REPAIR_SIGN_MTU, tile("repair", 0), vec![tile("sign", 0)]);
    link(links, SIGN_REPAIR.into(), 64, 64, tile("sign", 0), vec![tile("repair", 0)]);
    link(links, TOWER_REPAIR.into(), 128, AncestorQuestion::SIZE, tile("tower", 0), vec![tile("repair", 0)]);
    link(links, REPAIR_TOWER.into(), 128, AncestorAnswer::MTU, tile("repair", 0), vec![tile("tower", 0)]);
    link(links, RSERVE_NET.into(), 256, RSERVE_OUTGOING_MTU, tile("rserve", 0), vec![tile("net", 0)]);
    link(links, RSERVE_SIGN.into(), 64, PING_NONCE, tile("rserve", 0), vec![tile("sign", 0)]);
    link(links, SIGN_RSERVE.into(), 64, 64, tile("sign", 0), vec![tile("rserve", 0)]);
}

fn place(tiles: &mut [TileSpec], affinity: &Affinity, cores: &Cores, hashing: bool) -> Result<(), LayoutError> {
    let seat = |tile: &TileSpec| seat(tile, hashing);
    let hosts: Vec<_> = tiles.iter().map(|tile| core_host(tiles, tile).map(TileSpec::name)).collect();
    let seated: Vec<&TileSpec> = tiles.iter().filter(|tile| core_host(tiles, tile).is_none()).collect();
    let has_load = seated.iter().any(|t| t.load);
    let autos = (affinity.is_auto(), affinity.load.is_auto());
    if has_load && autos.0 != autos.1 {
        return Err(LayoutError::HalfAuto);
    }
    let places = if autos.0 {
        affinity::auto(&seated.into_iter().map(seat).collect::<Vec<_>>(), cores)
    } else {
        let (load, node): (Vec<_>, Vec<_>) = seated.into_iter().partition(|t| t.load);
        let seats = |tiles: Vec<&TileSpec>| tiles.into_iter().map(seat).collect::<Vec<_>>();
        let mut places = match has_load {
            true => affinity.load.assign(&seats(load), cores).map_err(LayoutError::Load)?,
            false => vec![],
        };
        places.extend(affinity.node.assign(&seats(node), cores).map_err(LayoutError::Node)?);
        places
    };
    let mut places = places.into_iter();
    for (tile, _) in tiles.iter_mut().zip(&hosts).filter(|(_, host)| host.is_none()) {
        tile.core = places.next().expect("there is a place for each");
    }
    for (at, host) in hosts.iter().enumerate().filter_map(|(at, host)| Some((at, host.as_ref()?))) {
        let host = tiles.iter().find(|tile| tile.name() == *host);
        tiles[at].core = host.expect("every node has it").core;
    }
    Ok(())
}

/// Returns the tile whose core `guest` shares, if `guest` has no place of its own in a layout; `tiles` are all of the
/// node.
pub fn core_host<'a>(tiles: &'a [TileSpec], guest: &TileSpec) -> Option<&'a TileSpec> {
    let kind = |tile: &TileSpec| Kind::named(&tile.kind).expect("a tile of this pipeline");
    let host = kind(guest).shares_core_outside_cluster?;
    let is_in_cluster = tiles.iter().any(|tile| kind(tile).role == Role::Cluster);
    tiles.iter().find(|tile| !is_in_cluster && tile.kind == host)
}

/// Returns what the automatic layout needs to know of a tile; `hashing` says whether poh hashes.
pub fn seat(tile: &TileSpec, hashing: bool) -> Seat {
    let kind = Kind::named(&tile.kind).expect("a tile of this pipeline");
    Seat {
        name: tile.name(),
        weight: kind.weight(hashing),
        floats: kind.floats,
        spread: kind.spread,
        quiet: kind.quiet,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn cores(count: usize) -> Cores {
        Cores { allowed: (0..count).collect(), siblings: (0..count).map(|c| (c, vec![])).collect() }
    }

    pub(crate) fn auto() -> Affinity {
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
        let mut counts = Counts { history: true, votes: true, cluster: true, ..Counts::default() };
        let given = [("net", 2), ("quic", 3), ("verify", 5), ("bank", 4), ("shred", 2), ("benchg", 3), ("benchs", 2)];
        for (kind, count) in given {
            counts.set(kind, count);
        }
        let counts = counts.at_least_one(true);
        let topology = build("hearth", counts, &auto(), &cores(64), false).unwrap();
        for link in &topology.links {
            assert!(link.producer == RPC || topology.tile(&link.producer).is_some(), "{}", link.name);
            assert!(!link.consumers.is_empty(), "{}", link.name);
        }
    }

    #[test]
    fn a_node_in_a_cluster_gossips_and_one_alone_does_not() {
        let mut alone = Counts::default();
        alone.set("net", 2);
        let gossips = |counts: Counts| {
            let counts = counts.auto(4, false);
            let topology = build("hearth", counts, &auto(), &cores(4), false).unwrap();
            (topology.count("gossip"), topology.links.iter().filter(|link| link.name.contains("gossip")).count())
        };
        assert_eq!(gossips(alone), (0, 0));
        assert_eq!(gossips(Counts { cluster: true, ..alone }), (1, 2 + 4 + 5));
        let follower = build_follower("hearth", Counts::default(), &auto().node, &cores(4)).unwrap();
        assert_eq!(follower.count("gossip"), 1);
    }

    #[test]
    fn node_alone_votes_by_the_tile_that_votes_in_a_cluster() {
        let links = |counts: Counts| {
            let topology = build("hearth", counts.auto(4, false), &auto(), &cores(4), false).unwrap();
            let of_tower = topology.links.into_iter().map(|link| link.name).filter(|name| name.contains("tower"));
            of_tower.collect::<Vec<_>>()
        };
        let alone = Counts { votes: true, ..Counts::default() };
        assert_eq!(links(alone), ["store_tower", "tower_pack", "tower_sign", "sign_tower"]);
        assert_eq!(links(Counts::default()), [""; 0], "where nobody votes there is no tower");
        let affinity = Affinity { node: "0,1,2,3,4,5,6,7,8,9,f1".into(), load: "auto".into() };
        let topology = build("hearth", alone.at_least_one(false), &affinity, &cores(16), false).unwrap();
        let core = |name| topology.tile(name).unwrap().core;
        assert_eq!(
            (core("store:0"), core("tower:0"), core("sign:0")),
            (Some(8), Some(8), Some(9)),
            "no place of its own"
        );
        let cluster = links(Counts { cluster: true, ..alone });
        assert!(!cluster.contains(&"store_tower".into()) && !cluster.contains(&"tower_pack".into()), "{cluster:?}");
    }

    #[test]
    fn follower_with_history_has_room_for_metadata() {
        let mtu = |history: bool| {
            let counts = Counts { history, ..Counts::default() };
            let topology = build_follower("hearth", counts, &auto().node, &cores(4)).unwrap();
            assert!(topology.links.iter().all(|link| !link.name.starts_with(BANK_STORE)), "it has no banks");
            topology.links.iter().find(|link| link.name == REPLAY_STORE).map(|link| link.mtu)
        };
        assert_eq!(mtu(true), Some(HISTORY_MTU as u32));
        assert_eq!(mtu(false), Some(8));
    }

    #[test]
    fn tiles_of_one_core_leave_threads_to_those_that_float() {
        let (none, both): (&[&str], &[&str]) = (&[], &["replay", "exec"]);
        let cases = [(1, none, "3*12", 1), (1, both, "3*5,f2,3*5", 3), (2, both, "3*5,f3,3*5", 4)];
        for (execs, floating, written, threads) in cases {
            let affinity = on_one_core(3, true, execs, floating);
            assert_eq!(affinity, written);
            let mut counts = Counts::default();
            counts.set("exec", execs);
            let affinity = affinity::Affinity::from(affinity.as_str());
            let topology = build_follower("hearth", counts, &affinity, &cores(4)).unwrap();
            assert_eq!(affinity.unused(topology.tiles.len()), 0, "{written} has a place for each tile and no more");
            let by_core = topology.by_core();
            assert_eq!(by_core.len(), threads, "{written}");
            let (core, shared) = &by_core[0];
            assert_eq!((*core, shared.len()), (Some(3), topology.tiles.len() + 1 - threads), "{written}");
            for (core, alone) in &by_core[1..] {
                assert!(core.is_none() && alone.len() == 1 && floating.contains(&alone[0].kind.as_str()), "{written}");
            }
        }
        let affinity = on_one_core(0, false, 1, &[]);
        let counts = Counts { cluster: true, ..Counts::default() }.at_least_one(false);
        let node = Affinity { node: affinity.as_str().into(), load: auto().load };
        let topology = build("hearth", counts, &node, &cores(1), false).unwrap();
        assert_eq!((affinity.as_str(), topology.by_core().len()), ("0*18", 1), "a node that makes blocks");
    }

    #[test]
    fn half_auto_is_refused() {
        let affinity = Affinity { node: "auto".into(), load: "0-3".into() };
        let counts = Counts::default().auto(2, true);
        assert_eq!(build("hearth", counts, &affinity, &cores(2), false), Err(LayoutError::HalfAuto));
    }
}
