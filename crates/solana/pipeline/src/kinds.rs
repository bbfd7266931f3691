//! kinds: the kinds of tiles: each is declared here once, and everything that lists tiles derives from it.
//!
//! reads   what the tiles declare of themselves
//! writes  [`KINDS`]
//!
//! Counts, the automatic layout, the layout tuner, the monitor's advice and the generated docs read this table; the
//! links are beside it, in [`topology`](crate::topology). ARCHITECTURE.md has the recipe for a new tile.

use hearth_tile::Tile;
use hearth_tile::topology::TileSpec;

use crate::{
    bank, benchg, bencho, benchs, dedup, exec, gossip, metric, net, pack, poh, quic, repair, replay, rserve, shred,
    sign, store, tower, txsend, verify,
};

/// One kind of tile.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in the topology, configuration, counters and monitor.
    pub name: &'static str,
    /// Which nodes have it.
    pub role: Role,
    /// How many such tiles a node has.
    pub count: Count,
    /// CPU time per transfer, in microseconds: the automatic layout balances cores by it. From the shares that `hearth
    /// bench --json` reports; only the proportions matter.
    pub weight_us: f64,
    /// The weight if poh hashes at the cluster's rate, if different.
    pub hashing_weight_us: Option<f64>,
    /// It works so little that the kernel may place it: it gets no core of its own.
    pub floats: bool,
    /// Its tiles are spread over the cores and use the time that is left on each.
    pub spread: bool,
    /// It needs a physical core of its own: there is only one such tile, and everything waits for it.
    pub quiet: bool,
    /// Outside a cluster its tile shares the core of this kind's tile, and has no place in `layout.affinity`.
    pub shares_core_outside_cluster: Option<&'static str>,
    /// Its tiles take work as they have time; tiles of other kinds have a fixed share of the connections.
    pub is_elastic: bool,
    /// Isolation policy: what it needs besides its links.
    pub needs: &'static [TileNeed],
    spec: fn(usize) -> TileSpec,
}

/// Which nodes have the tiles of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The load generator, in a bench.
    Load,
    /// Every node.
    Node,
    /// A node that makes blocks.
    Leader,
    /// A node in a cluster.
    Cluster,
    /// Nodes that vote, and every node in a cluster.
    Voter,
}

/// How many tiles of a kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly one.
    One,
    /// As many as [`Kind::count_key`] configures; if that is 0, as many as this.
    Several(Auto),
}

/// How many tiles of a kind the automatic layout creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto {
    /// Exactly one.
    One,
    /// In proportion to the kind's share of the work.
    Share,
    /// All cores left by the others, if that is at least its share of the work; else one per core.
    Rest,
}

/// What a tile needs besides its links, the clock and randomness: what its own process would have to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileNeed {
    /// Network sockets.
    Network,
    /// Files other than the block store's.
    Files,
    /// The block store: its files, and its index, which its readers share with `store`.
    Blocks,
    /// The ledger's memory, which it shares with other tiles.
    Ledger,
    /// The table of dropped transactions, which it shares with the RPC.
    Drops,
    /// The board on which gossip posts what it knows of nodes, for the RPC.
    Board,
    /// The slot in which consensus reports why the node can no longer follow its cluster.
    Failure,
    /// Data shared with the bench's main thread.
    Bench,
    /// The counters of all tiles.
    Counters,
    /// The identity key.
    Key,
}

/// All kinds, in the order of the data flow: the load first, then as a packet meets them. `layout.affinity` uses this
/// order, and a core polls its tiles in it.
pub const KINDS: [Kind; 21] = [
    Kind {
        role: Role::Load,
        weight_us: 0.1,
        floats: true,
        needs: &[TileNeed::Network],
        ..Kind::of::<bencho::Bencho>()
    },
    Kind {
        role: Role::Load,
        count: Count::Several(Auto::Share),
        weight_us: 5.0,
        is_elastic: true,
        needs: &[TileNeed::Bench],
        ..Kind::of::<benchg::Benchg>()
    },
    Kind {
        role: Role::Load,
        count: Count::Several(Auto::Share),
        weight_us: 2.5,
        needs: &[TileNeed::Network],
        ..Kind::of::<benchs::Benchs>()
    },
    Kind {
        count: Count::Several(Auto::Share),
        weight_us: 0.4,
        // The file describes the emulated links.
        needs: &[TileNeed::Network, TileNeed::Files],
        ..Kind::of::<net::Net>()
    },
    Kind {
        role: Role::Leader,
        count: Count::Several(Auto::Share),
        weight_us: 1.8,
        needs: &[TileNeed::Drops],
        ..Kind::of::<quic::Quic>()
    },
    Kind {
        role: Role::Leader,
        count: Count::Several(Auto::Rest),
        weight_us: 8.0,
        spread: true,
        is_elastic: true,
        needs: &[TileNeed::Drops],
        ..Kind::of::<verify::Verify>()
    },
    Kind { role: Role::Leader, weight_us: 0.5, needs: &[TileNeed::Drops], ..Kind::of::<dedup::Dedup>() },
    Kind {
        role: Role::Leader,
        weight_us: 2.0,
        quiet: true,
        needs: &[TileNeed::Ledger, TileNeed::Drops],
        ..Kind::of::<pack::Pack>()
    },
    Kind {
        role: Role::Leader,
        count: Count::Several(Auto::Share),
        weight_us: 2.5,
        is_elastic: true,
        needs: &[TileNeed::Ledger, TileNeed::Drops],
        ..Kind::of::<bank::Bank>()
    },
    Kind {
        role: Role::Leader,
        weight_us: 0.1,
        // About half a core.
        hashing_weight_us: Some(12.0),
        quiet: true,
        needs: &[TileNeed::Ledger, TileNeed::Failure],
        ..Kind::of::<poh::Poh>()
    },
    Kind {
        count: Count::Several(Auto::One),
        weight_us: 1.0,
        needs: &[TileNeed::Blocks, TileNeed::Ledger],
        ..Kind::of::<shred::Shred>()
    },
    Kind {
        role: Role::Cluster,
        weight_us: 0.1,
        needs: &[TileNeed::Blocks, TileNeed::Ledger],
        ..Kind::of::<repair::Repair>()
    },
    // The other files are the history's.
    Kind {
        weight_us: 0.4,
        needs: &[TileNeed::Files, TileNeed::Blocks, TileNeed::Ledger],
        ..Kind::of::<store::Store>()
    },
    // It reads whole slots of the store in a turn, so it has a thread of its own.
    Kind {
        role: Role::Cluster,
        weight_us: 0.1,
        floats: true,
        needs: &[TileNeed::Blocks],
        ..Kind::of::<rserve::Rserve>()
    },
    Kind {
        role: Role::Cluster,
        weight_us: 1.0,
        needs: &[TileNeed::Blocks, TileNeed::Ledger, TileNeed::Failure],
        ..Kind::of::<replay::ReplayTile>()
    },
    Kind {
        role: Role::Cluster,
        count: Count::Several(Auto::Share),
        // About 9 for a follower; a node that makes blocks needs it only in other leaders' slots.
        weight_us: 2.0,
        is_elastic: true,
        needs: &[TileNeed::Ledger],
        ..Kind::of::<exec::Exec>()
    },
    Kind {
        role: Role::Voter,
        weight_us: 0.2,
        // Outside a cluster it works once per slot, after store. Published layouts have no place for it.
        shares_core_outside_cluster: Some("store"),
        // Files in a cluster, the ledger if the node is alone.
        needs: &[TileNeed::Files, TileNeed::Ledger, TileNeed::Failure],
        ..Kind::of::<tower::Tower>()
    },
    Kind {
        role: Role::Cluster,
        weight_us: 0.1,
        needs: &[TileNeed::Ledger, TileNeed::Drops],
        ..Kind::of::<txsend::TxSend>()
    },
    Kind {
        role: Role::Cluster,
        weight_us: 0.1,
        needs: &[TileNeed::Blocks, TileNeed::Ledger, TileNeed::Board],
        ..Kind::of::<gossip::Gossip>()
    },
    Kind { weight_us: 0.2, needs: &[TileNeed::Key], ..Kind::of::<sign::Sign>() },
    Kind {
        weight_us: 0.1,
        floats: true,
        needs: &[TileNeed::Network, TileNeed::Files, TileNeed::Counters],
        ..Kind::of::<metric::Metric>()
    },
];

impl Kind {
    /// One tile in every node, which weighs one microsecond and needs nothing.
    const fn of<T: Tile>() -> Self {
        Self {
            name: T::NAME,
            role: Role::Node,
            count: Count::One,
            weight_us: 1.0,
            hashing_weight_us: None,
            floats: false,
            spread: false,
            quiet: false,
            shares_core_outside_cluster: None,
            is_elastic: false,
            needs: &[],
            spec: TileSpec::of::<T>,
        }
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        const ALL: &[Kind] = &KINDS;
        ALL.iter().find(|kind| kind.name == name)
    }

    /// The configuration key for the number of its tiles, if a kind may have several.
    pub fn count_key(&self) -> Option<String> {
        let table = if self.role == Role::Load { "development.bench" } else { "layout" };
        matches!(self.count, Count::Several(_)).then(|| format!("{table}.{}_tile_count", self.name))
    }

    /// Its weight in a layout; `hashing` says whether poh hashes.
    pub fn weight(&self, hashing: bool) -> f64 {
        self.hashing_weight_us.filter(|_| hashing).unwrap_or(self.weight_us)
    }

    /// Describes a tile of this kind, not yet placed.
    pub fn spec(&self, index: usize) -> TileSpec {
        TileSpec { load: self.role == Role::Load, count_key: self.count_key(), ..(self.spec)(index) }
    }
}

impl Role {
    /// In words, for the docs.
    pub fn text(self) -> &'static str {
        match self {
            Self::Load => "the load of a bench",
            Self::Node => "every node",
            Self::Leader => "nodes that make blocks",
            Self::Cluster => "nodes in a cluster",
            Self::Voter => "nodes that vote, or are in a cluster",
        }
    }
}

impl TileNeed {
    /// In a word, for the docs.
    pub fn text(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Files => "files",
            Self::Blocks => "the block store",
            Self::Ledger => "the ledger",
            Self::Drops => "the table of drops",
            Self::Board => "the board",
            Self::Failure => "the place for a failure",
            Self::Bench => "the bench",
            Self::Counters => "all counters",
            Self::Key => "the key",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Counts, build, tests};

    #[test]
    fn every_kind_has_what_derives_from_it() {
        let mut counts = Counts::default();
        counts.history = true;
        counts.votes = true;
        counts.cluster = true;
        let counts = counts.auto(80, true);
        let topology = build("hearth", counts, &tests::auto(), &tests::cores(80), false).unwrap();
        for (at, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..at].iter().all(|other| other.name != kind.name), "{} is declared twice", kind.name);
            assert!(kind.weight_us > 0.0, "{} weighs nothing", kind.name);
            assert!(!kind.quiet || kind.count == Count::One, "several {} tiles want quiet cores", kind.name);
            let of_kind: Vec<_> = topology.tiles.iter().filter(|tile| tile.kind == kind.name).collect();
            assert!(!of_kind.is_empty() && of_kind.len() == counts.of(kind.name), "{}", kind.name);
            for tile in of_kind {
                let name = tile.name();
                assert_eq!(tile.load, kind.role == Role::Load, "{name}");
                assert_eq!(tile.count_key, kind.count_key(), "{name}");
                assert_eq!(tile.core.is_none(), kind.floats, "{name}");
                let is_linked = topology.inputs(&name).chain(topology.outputs(&name)).next().is_some();
                assert_eq!(
                    is_linked,
                    kind.name != "metric",
                    "only metric has no links, since it reads counters: {name}"
                );
            }
        }
    }

    /// Every need, and the words by which a tile's code uses it.
    const MARKS: [(TileNeed, &[&str]); 10] = [
        (TileNeed::Network, &["UdpSocket", "TcpStream", "TcpListener"]),
        (TileNeed::Files, &["std::fs", "History"]),
        (TileNeed::Blocks, &["BlockStore", "blockstore::Reader"]),
        (TileNeed::Ledger, &["Ledger"]),
        (TileNeed::Drops, &["DropLog"]),
        (TileNeed::Board, &["board::Board"]),
        (TileNeed::Failure, &["failure::Failure"]),
        (TileNeed::Bench, &["Control"]),
        (TileNeed::Counters, &["Observer"]),
        (TileNeed::Key, &["Keypair"]),
    ];

    /// Reads the code of a folder and its subfolders, without comments and tests.
    fn code(folder: &std::path::Path) -> String {
        let mut code = String::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "tests" {
                code += &self::code(&path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let lines = text.lines().take_while(|line| !line.ends_with("mod tests {"));
                lines.for_each(|line| code.extend([line.split("//").next().unwrap(), "\n"]));
            }
        }
        code
    }

    /// Whether the code uses a word that is not part of a longer one.
    fn uses(code: &str, word: &str) -> bool {
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
        code.match_indices(word)
            .any(|(at, _)| !code[..at].ends_with(is_of_word) && !code[at + word.len()..].starts_with(is_of_word))
    }

    #[test]
    fn tiles_need_what_their_code_uses() {
        for kind in KINDS {
            let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).join(kind.name);
            let code = code(&folder);
            assert!(code.contains("impl Tile for"), "{folder:?} has the tile");
            for (need, words) in MARKS {
                let is_used = words.iter().any(|word| uses(&code, word));
                assert_eq!(kind.needs.contains(&need), is_used, "{} and {need:?}", kind.name);
            }
        }
    }

    #[test]
    fn the_page_of_the_pipeline_explains_every_kind() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/pipeline.md")).unwrap();
        let rows = page.lines().filter(|line| line.starts_with("| "));
        let names: Vec<_> = rows.flat_map(|row| row[2..].split('|').next().unwrap().trim().split(", ")).collect();
        for kind in KINDS {
            assert!(names.contains(&kind.name), "docs/pipeline.md has no row of {}", kind.name);
        }
    }
}
