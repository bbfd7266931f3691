//! The nodes of a local cluster: their places and configurations.
//!
//! reads   a map; `cluster.json` in the cluster's folder
//! writes  the same; the map, the file of links, a configuration for each node
//! memory  a few lines per node

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use hearth_keys as keys;
use hearth_ledger::stakes::GENESIS_STAKE_LAMPORTS;
use hearth_netem::{Cut, LinksFile, NodeLocation, QUEUE_BYTES, World};
use hearth_node::config::Config;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::LAMPORTS_PER_SOL;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::layout::Layout;
use super::process::Process;
use super::{ADDRESS, LocalError, NODES, UpOptions};

/// Maximum nodes: more are of no use on one machine, and addresses differ only in their last byte.
pub const NODES_MAX: usize = 200;
/// Landed transactions for which a node allocates memory at startup.
const STATUSES: i64 = 1 << 16;
/// Size limit of a node's block store in bytes.
const BLOCKS_BYTES: i64 = 2_000_000_000;
/// Size limit of a node's history in bytes.
const HISTORY_BYTES: i64 = 500_000_000;

/// A node's part in the cluster, fixed when the cluster is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Starts the chain, and produces blocks.
    Leader,
    /// Takes turns at producing blocks, and votes.
    Validator,
    /// Receives and replays blocks.
    Follower,
}

impl Role {
    /// The role's name in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Validator => "validator",
            Self::Follower => "follower",
        }
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its name, `node-1` and so on.
    pub name: String,
    /// Its role: the first node is the leader, and the validators come next.
    pub role: Role,
    /// Its region's name in the map.
    pub region: String,
    /// Its own loopback address.
    pub address: Ipv4Addr,
    /// The process that was started last.
    pub process: Option<Process>,
}

impl Member {
    /// The URL of its JSON-RPC.
    pub fn rpc(&self) -> String {
        format!("http://{}:{}", self.address, Config::default().rpc.port)
    }
}

/// The cluster that the options request, with valid values.
pub struct Plan<'a> {
    /// The cluster's name, also used for its folder and its nodes' workspaces.
    pub name: &'a str,
    /// Number of nodes, including the leader.
    pub nodes: usize,
    /// Number of nodes, counted from the first, that produce blocks and vote, with equal stake.
    pub validators: usize,
    /// The map's text; `None` for the bundled map.
    pub map: Option<String>,
    /// The same map, parsed: regions, and the links between them.
    pub world: World,
    /// The first node's address; the others follow.
    pub address: Ipv4Addr,
}

impl<'a> Plan<'a> {
    /// The cluster that the options request.
    ///
    /// # Errors
    ///
    /// The options are invalid.
    pub fn of(options: &'a UpOptions) -> Result<Self, LocalError> {
        let (nodes, validators) = (options.nodes.unwrap_or(NODES), options.validators.unwrap_or(1));
        if !(1..=nodes).contains(&validators) {
            let what = format!("--validators: {validators} of {nodes} nodes: it is from 1 to {nodes}");
            return Err(LocalError::Option(what));
        }
        let address = options.address.unwrap_or(ADDRESS);
        let last = u32::from(address).checked_add(nodes as u32 - 1).map(Ipv4Addr::from);
        if !(address.is_loopback() && last.is_some_and(|last| last.is_loopback())) {
            let next = nodes - 1;
            return Err(LocalError::Option(format!("--address: {address} and the next {next} are not all loopback")));
        }
        let world = options.map.as_deref().map_or_else(|| Ok(World::shipped()), World::load)?;
        let read =
            |path: &PathBuf| fs::read_to_string(path).map_err(|source| LocalError::Map { path: path.clone(), source });
        let map = options.map.as_ref().map(read).transpose()?;
        Ok(Self { name: &options.which.name, nodes, validators, map, world, address })
    }
}

/// The limits of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limits {
    /// The node's default limits, which are those of a public cluster.
    #[default]
    Cluster,
    /// This many compute units.
    Scaled(u64),
    /// The larger limits on cost and shreds that `development.bench` allows.
    Lifted,
}

/// A cluster on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name, with which the names of its nodes' workspaces begin.
    pub name: String,
    /// The limits of its blocks.
    #[serde(default)]
    pub limits: Limits,
    /// The map's file in the cluster's folder; `None` for the bundled map.
    pub map: Option<String>,
    /// Its nodes; the first is the leader.
    pub nodes: Vec<Member>,
    /// The cluster's folder as an absolute path; not part of `cluster.json`.
    #[serde(skip)]
    pub folder: PathBuf,
}

const STATE: &str = "cluster.json";
const LINKS: &str = "links.toml";
const MAP: &str = "map.toml";
/// A validator's key files: its identity and its vote account.
const KEYS: [&str; 2] = ["identity.json", "vote.json"];

impl Cluster {
    /// Writes a new cluster into `folder`, without starting it. `cores` are those that its nodes may use.
    pub fn create(folder: &Path, plan: &Plan<'_>, cores: &[usize]) -> Result<Self, LocalError> {
        let (world, first) = (&plan.world, u32::from(plan.address));
        let member = |(number, region): (usize, usize)| Member {
            name: format!("node-{}", number + 1),
            role: match number {
                0 => Role::Leader,
                number if number < plan.validators => Role::Validator,
                _ => Role::Follower,
            },
            region: world.regions[region].name.clone(),
            address: Ipv4Addr::from(first + number as u32),
            process: None,
        };
        let nodes = spread(world, plan.nodes).into_iter().enumerate().map(member).collect();
        fs::create_dir_all(folder).map_err(|source| LocalError::Write { path: folder.into(), source })?;
        let folder = fs::canonicalize(folder).map_err(|source| LocalError::Write { path: folder.into(), source })?;
        let map = plan.map.as_ref().map(|_| MAP.to_owned());
        let cluster = Self { name: plan.name.into(), limits: Limits::Cluster, map, nodes, folder };
        if let Some(text) = &plan.map {
            write(&cluster.folder.join(MAP), text)?;
        }
        cluster.cut(vec![])?;
        cluster.configure(cores)?;
        cluster.save()?;
        Ok(cluster)
    }

    /// Reads the cluster in a folder, if there is one.
    pub fn read(folder: &Path) -> Result<Option<Self>, LocalError> {
        let path = folder.join(STATE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LocalError::Read { path, source }),
        };
        let wrong = |why: String| LocalError::State { path: path.clone(), why };
        let read: Self = serde_json::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        if read.nodes.is_empty() {
            return Err(wrong("there is no node in it".into()));
        }
        let folder = fs::canonicalize(folder).map_err(|source| LocalError::Read { path: folder.into(), source })?;
        Ok(Some(Self { folder, ..read }))
    }

    /// Writes the cluster to `cluster.json` in its folder, replacing the file atomically.
    pub fn save(&self) -> Result<(), LocalError> {
        let text = serde_json::to_string_pretty(self).expect("plain data") + "\n";
        write(&self.folder.join(STATE), &text)
    }

    /// The first node, which starts the chain.
    pub fn leader(&self) -> &Member {
        &self.nodes[0]
    }

    /// The folder of a node.
    pub fn home(&self, node: &Member) -> PathBuf {
        self.folder.join(&node.name)
    }

    /// The log file of a node.
    pub fn log(&self, node: &Member) -> PathBuf {
        self.home(node).join("log")
    }

    /// The configuration file of a node.
    pub fn config(&self, node: &Member) -> PathBuf {
        self.home(node).join("hearth.toml")
    }

    /// The workspace file of a node.
    pub fn workspace(&self, node: &Member) -> PathBuf {
        let config = Config { name: self.node_name(node), ..Config::default() };
        hearth_node::config::workspace_path(&config)
    }

    fn node_name(&self, node: &Member) -> String {
        format!("{}-{}", self.name, node.name)
    }

    /// The nodes in a comma-separated list of names, numbers from 1, or regions.
    pub fn select(&self, list: &str) -> Result<Vec<usize>, LocalError> {
        let mut found: Vec<usize> = vec![];
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let is_it = |(number, node): &(usize, &Member)| {
                node.name == word || node.region.eq_ignore_ascii_case(word) || word.parse() == Ok(number + 1)
            };
            let named: Vec<usize> = self.nodes.iter().enumerate().filter(is_it).map(|(number, _)| number).collect();
            if named.is_empty() {
                let (last, mut regions) = (self.nodes.len(), vec![]);
                for node in &self.nodes {
                    if !regions.contains(&node.region.as_str()) {
                        regions.push(&node.region);
                    }
                }
                let what = format!("`{word}` is none of node-1 to node-{last}, and none of {}", regions.join(", "));
                return Err(LocalError::Option(what));
            }
            found.extend(named);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Loads the map: the file in the cluster's folder, or the bundled one.
    pub fn world(&self) -> Result<World, LocalError> {
        let map = self.map.as_ref().map(|map| World::load(&self.folder.join(map)));
        Ok(map.unwrap_or_else(|| Ok(World::shipped()))?)
    }

    /// Whether a file has the same map as the cluster.
    pub fn is_map(&self, path: &Path) -> Result<bool, LocalError> {
        let given = fs::read(path).map_err(|source| LocalError::Map { path: path.into(), source })?;
        let Some(map) = &self.map else { return Ok(given == World::SHIPPED.as_bytes()) };
        let own = self.folder.join(map);
        Ok(given == fs::read(&own).map_err(|source| LocalError::Read { path: own, source })?)
    }

    /// The current cuts of the network, from the file that the nodes read.
    pub fn cuts(&self) -> Result<Vec<Cut>, LocalError> {
        let path = self.folder.join(LINKS);
        let text = fs::read_to_string(&path).map_err(|source| LocalError::Read { path: path.clone(), source })?;
        Ok(LinksFile::read(&text).map_err(|why| LocalError::Links { path, why })?.cut)
    }

    /// Sets the cuts of the network for all nodes.
    pub fn cut(&self, cut: Vec<Cut>) -> Result<(), LocalError> {
        let place = |node: &Member| NodeLocation { address: node.address, region: node.region.clone() };
        let node = self.nodes.iter().map(place).collect();
        let file = LinksFile { map: self.map.clone(), queue_bytes: QUEUE_BYTES, node, cut };
        let text = toml::to_string(&file).expect("plain data");
        let head = "# Written by `hearth cluster`. Running nodes read it again when it changes.\n";
        write(&self.folder.join(LINKS), &(head.to_owned() + &text))
    }

    /// Writes each node's configuration; `cores` are those that nodes may use.
    pub fn configure(&self, cores: &[usize]) -> Result<(), LocalError> {
        let validators = self.validators()?;
        for (number, node) in self.nodes.iter().enumerate() {
            let home = self.home(node);
            fs::create_dir_all(&home).map_err(|source| LocalError::Write { path: home.clone(), source })?;
            let layout = match node.role {
                Role::Leader => None,
                Role::Validator => Some(Layout::of_validator(number, cores)),
                Role::Follower => Some(Layout::of_follower(number, self.nodes.len(), cores)),
            };
            let mut tables = self.tables(node, layout);
            match node.role {
                Role::Leader => set(&mut tables, "development.genesis.validators", validators.clone().into()),
                Role::Validator => {
                    let [identity, vote] = KEYS.map(|key| home.join(key).display().to_string());
                    set(&mut tables, "consensus.identity_path", identity.into());
                    set(&mut tables, "consensus.vote_account_path", vote.into());
                }
                Role::Follower => {}
            }
            let text = toml::to_string(&tables).expect("plain data");
            write(
                &self.config(node),
                &format!("# Written by `hearth cluster`: {} in {}.\n{text}", node.name, node.region),
            )?;
        }
        Ok(())
    }

    /// Number of nodes that produce blocks.
    pub fn leading(&self) -> usize {
        self.nodes.iter().filter(|node| node.role != Role::Follower).count()
    }

    /// The number of nodes of each kind, in words.
    pub fn size(&self) -> String {
        format!("{}, {} of them", super::count(self.nodes.len(), "node"), super::count(self.leading(), "validator"))
    }

    /// The additional validators in the form of the genesis; creates missing keys.
    fn validators(&self) -> Result<Vec<String>, LocalError> {
        let of = |node: &Member| {
            let home = self.home(node);
            fs::create_dir_all(&home).map_err(|source| LocalError::Write { path: home.clone(), source })?;
            let address = |key: &str| Ok::<_, LocalError>(encode_32(&keys::read_or_create(&home.join(key))?.public));
            let [identity, vote] = KEYS.map(address);
            Ok(format!("{} {} {}", identity?, vote?, GENESIS_STAKE_LAMPORTS / LAMPORTS_PER_SOL))
        };
        self.nodes.iter().filter(|node| node.role == Role::Validator).map(of).collect()
    }

    /// The configuration keys in which a node differs from the default.
    fn tables(&self, node: &Member, layout: Option<Layout>) -> Table {
        let (mut keys, address) = (Table::new(), node.address.to_string());
        let (lifted, default) = (self.limits == Limits::Lifted, Config::default());
        let path = |path: PathBuf| Value::from(path.display().to_string());
        let entrypoint = format!("{}:{}", self.leader().address, default.gossip.port);
        let mut set = |key: &str, value: Value| set(&mut keys, key, value);
        set("name", self.node_name(node).into());
        set("ledger.path", path(self.home(node).join("ledger")));
        // Ten nodes share one disk, so data that the kernel has counts as written.
        set("ledger.sync", false.into());
        set("ledger.limit_size", BLOCKS_BYTES.into());
        set("rpc.history_limit_size", HISTORY_BYTES.into());
        set("rpc.status_capacity", STATUSES.into());
        set("gossip.enabled", true.into());
        for key in [
            "gossip.bind_address",
            "rpc.bind_address",
            "tiles.net.bind_address",
            "tiles.metric.prometheus_listen_address",
        ] {
            set(key, address.as_str().into());
        }
        // Also the default ports: if a configured port is in use, a node fails instead of taking another.
        set("rpc.port", i64::from(default.rpc.port).into());
        set("tiles.metric.prometheus_listen_port", i64::from(default.tiles.metric.prometheus_listen_port).into());
        let quic = &default.tiles.quic;
        set("tiles.quic.regular_transaction_listen_port", i64::from(quic.regular_transaction_listen_port).into());
        set("tiles.quic.quic_transaction_listen_port", i64::from(quic.quic_transaction_listen_port).into());
        set("development.links.file", path(self.folder.join(LINKS)));
        if let Limits::Scaled(compute_units) = self.limits {
            set("development.bench.max_cost_per_block", (compute_units as i64).into());
        }
        set("development.bench.larger_max_cost_per_block", lifted.into());
        set("development.bench.larger_shred_limits_per_block", lifted.into());
        if let Some(Layout { affinity, exec_tiles }) = layout {
            set("layout.affinity", affinity.into());
            set("layout.exec_tile_count", (exec_tiles as i64).into());
        }
        if node.role != Role::Leader {
            set("gossip.entrypoints", vec![entrypoint].into());
        }
        if node.role != Role::Follower {
            set("tiles.verify.table_bytes", (64 << 20).into());
            set("tiles.dedup.signature_cache_size", (1 << 20).into());
            set("tiles.pack.max_pending_transactions", (1 << 15).into());
        }
        keys
    }
}

/// Sets a key given as `layout.affinity`.
fn set(tables: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(tables.insert(path.into(), value)),
        Some((table, rest)) => {
            let inner = tables.entry(table).or_insert_with(|| Table::new().into());
            set(inner.as_table_mut().expect("a table"), rest, value);
        }
    }
}

/// Writes a file atomically: nodes read it while they run.
fn write(path: &Path, text: &str) -> Result<(), LocalError> {
    let new = path.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|source| LocalError::Write { path: path.into(), source })
}

/// The region of each node: the leader is in the first, and each next node in the one that lacks most by weight.
fn spread(world: &World, nodes: usize) -> Vec<usize> {
    let mut counts = vec![0u32; world.regions.len()];
    let mut next = |forced: bool| {
        let fullness = |region: usize| f64::from(counts[region] + 1) / f64::from(world.regions[region].weight);
        let all = 0..world.regions.len();
        let least = all.min_by(|a, b| fullness(*a).total_cmp(&fullness(*b))).expect("a map has regions");
        let region = if forced { 0 } else { least };
        counts[region] += 1;
        region
    };
    (0..nodes).map(|number| next(number == 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::ClusterSelector;
    use hearth_node::{boot, config};

    fn options(nodes: usize, address: Ipv4Addr) -> UpOptions {
        let which = ClusterSelector { name: "test".into(), folder: None };
        UpOptions {
            which,
            nodes: Some(nodes),
            validators: Some(nodes / 2),
            map: None,
            address: Some(address),
            reset: false,
        }
    }

    fn create(folder: &Path, nodes: usize) -> Cluster {
        let options = options(nodes, Ipv4Addr::new(127, 3, 0, 1));
        Cluster::create(folder, &Plan::of(&options).unwrap(), &[0, 1]).unwrap()
    }

    #[test]
    fn ten_nodes_are_where_those_of_the_demonstration_were() {
        let world = World::shipped();
        let regions = spread(&world, 10);
        let counts: Vec<usize> = (0..4).map(|region| regions.iter().filter(|at| **at == region).count()).collect();
        assert_eq!((regions[0], counts), (0, vec![1, 3, 3, 3]));
        assert_eq!(spread(&world, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn each_node_has_a_configuration_that_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = create(folder.path(), 4);
        for node in &cluster.nodes {
            let loaded = config::load(&cluster.config(node)).unwrap();
            assert_eq!(loaded.config.follows(), node.role == Role::Follower);
            assert_eq!(loaded.config.joins(), node.role != Role::Leader);
            let named = &loaded.config.development.genesis.validators;
            assert_eq!(named.len(), if node.role == Role::Leader { 1 } else { 0 });
            let given = &loaded.config.consensus.vote_account_path;
            assert_eq!(given.exists(), node.role == Role::Validator);
            assert_eq!(loaded.config.gossip.bind_address, node.address);
            assert_eq!(hearth_node::config::workspace_path(&loaded.config), cluster.workspace(node));
            assert!(loaded.notices.is_empty());
        }
        assert_eq!(Cluster::read(folder.path()).unwrap(), Some(cluster));
        assert_eq!(Cluster::read(&folder.path().join("nowhere")).unwrap(), None);
    }

    #[test]
    fn each_node_has_a_layout_that_fits_its_tiles() {
        let mut machine = boot::cores(&config::Layout::default()).unwrap();
        for (cores, threads) in [(2, 1), (4, 1), (10, 1), (16, 3), (64, 4)] {
            machine.allowed = (0..cores).collect();
            let folder = tempfile::tempdir().unwrap();
            let up = UpOptions { validators: Some(2), ..options(10, Ipv4Addr::new(127, 3, 0, 1)) };
            let cluster = Cluster::create(folder.path(), &Plan::of(&up).unwrap(), &machine.allowed).unwrap();
            for node in &cluster.nodes {
                let (name, loaded) = (&node.name, config::load(&cluster.config(node)).unwrap());
                let topology = boot::topology(&loaded.config, &machine, false).unwrap();
                let unused = boot::unused_places(&loaded.config, &topology);
                assert!(unused.is_empty(), "{name} on {cores} cores: {unused:?}");
                let expected = match node.role {
                    Role::Leader => {
                        assert_eq!(loaded.config.layout, config::Layout::default(), "{name} on {cores} cores");
                        continue;
                    }
                    Role::Validator => 1,
                    Role::Follower => threads,
                };
                assert_eq!(topology.by_core().len(), expected, "{name} on {cores} cores");
            }
        }
    }

    #[test]
    fn nodes_are_named_by_number_name_or_region() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = create(folder.path(), 10);
        assert_eq!(cluster.select("1,node-3").unwrap(), [0, 2]);
        assert_eq!(cluster.select("london").unwrap(), [0]);
        assert_eq!(cluster.select("Singapore, 1, node-1").unwrap().len(), 4);
        let why = cluster.select("Paris").unwrap_err().to_string();
        assert_eq!(why, "`Paris` is none of node-1 to node-10, and none of London, New York, Frankfurt, Singapore");
        let cut = vec![Cut { between: [vec![cluster.nodes[0].address], vec![cluster.nodes[1].address]] }];
        cluster.cut(cut.clone()).unwrap();
        assert_eq!(cluster.cuts().unwrap(), cut);
    }

    #[test]
    fn addresses_beyond_loopback_are_refused() {
        for address in [[127, 255, 255, 255], [10, 0, 0, 1]] {
            assert!(matches!(Plan::of(&options(2, address.into())), Err(LocalError::Option(_))));
        }
    }
}
