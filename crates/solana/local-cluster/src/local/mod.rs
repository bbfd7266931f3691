//! A cluster on this machine: each node a process with its own address, and an emulated network between them.
//!
//! reads   a map, `cluster.json` in the cluster's folder
//! writes  that folder; processes
//! memory  a few lines per node
//!
//! [`member`] defines the nodes and their files, [`mod@start`] starts and stops processes, [`mod@status`] shows them;
//! cuts of the network are lines in a file that the nodes reread. [`gather`] runs in the nodes: it collects all nodes'
//! activity for each one's dashboard.

pub mod demo;
pub mod gather;
mod layout;
pub mod member;
mod process;
pub mod start;
pub mod status;

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use clap::Args;
use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::node_rpc::RpcError;
use hearth_command::output::{self, CommandOutput, WriteError, note};
use hearth_command::shell;
use hearth_command::stop::StopSignal;
use hearth_keys::KeyError;
use hearth_netem::{Cut, WorldError};
use hearth_node::boot;
use hearth_node::config::{self, Config};

use member::{Cluster, NODES_MAX, Plan, Role};
use start::StartedNodes;

/// Default number of nodes, as in the demonstration.
pub const NODES: usize = 10;
/// Default address of the first node.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The options that select a cluster, for all commands about one.
#[derive(Args)]
pub struct ClusterSelector {
    /// The cluster's name, from which its folder and its nodes' shared memory get their names.
    #[arg(long, value_name = "NAME", default_value = NAME)]
    pub name: String,
    /// The cluster's folder [default: `.hearth/NAME`].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// The arguments of `hearth cluster up`.
#[derive(Args)]
pub struct UpOptions {
    /// The cluster to start or to continue.
    #[command(flatten)]
    pub which: ClusterSelector,
    /// Number of nodes, including the leader [default: 10, or those of the folder].
    #[arg(long, value_name = "N", value_parser = nodes)]
    pub nodes: Option<usize>,
    /// Number of nodes that vote and make blocks in turn, with equal stake; the others follow [default: 1, or those of
    /// the folder].
    #[arg(long, value_name = "N")]
    pub validators: Option<usize>,
    /// The map: regions, and the links between them [default: London, New York, Frankfurt, Singapore].
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// The first node's loopback address; the others get the next ones [default: 127.0.0.2, or that of the folder].
    #[arg(long, value_name = "IP")]
    pub address: Option<Ipv4Addr>,
    /// Stop the cluster of the folder, delete it, and start a new one.
    #[arg(long)]
    pub reset: bool,
}

/// A command about one node.
#[derive(Args)]
pub struct Node {
    /// The cluster that has the node.
    #[command(flatten)]
    pub which: ClusterSelector,
    /// The node: its name or its number.
    pub node: String,
}

/// The arguments of `hearth cluster status`.
#[derive(Args)]
pub struct Status {
    /// The cluster whose nodes are shown.
    #[command(flatten)]
    pub which: ClusterSelector,
    /// Write it as JSON to FILE, or to standard output without FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// The arguments of `hearth cluster partition`.
#[derive(Args)]
pub struct Partition {
    /// The cluster whose network is cut.
    #[command(flatten)]
    pub which: ClusterSelector,
    /// `'A|B'`, in quotes: nodes and regions of each side, with commas between them. `A` alone is cut off from all
    /// others.
    #[arg(value_name = "A|B")]
    pub sides: String,
}

fn nodes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (2..=NODES_MAX).contains(number));
    number.ok_or_else(|| format!("it is not from 2 to {NODES_MAX}"))
}

/// Why a command about a local cluster fails.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// An option is invalid.
    #[error("{0}")]
    Option(String),
    /// The map is invalid.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The map's file cannot be read.
    #[error("cannot read the map {}: {source}", path.display())]
    Map {
        /// The file that `--map` names.
        path: PathBuf,
        /// Why it cannot be read, as the system says it.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file, or the cluster's folder.
        path: PathBuf,
        /// Why it cannot be read, as the system says it.
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why it cannot be written, as the system says it.
        source: io::Error,
    },
    /// A file of the cluster's folder is invalid.
    #[error("{}: {why}. Repair it, delete this folder, or name another one by --folder", path.display())]
    State {
        /// The path of `cluster.json` in the cluster's folder.
        path: PathBuf,
        /// The fault, as a clause: the parser's error, or that the file has no node.
        why: String,
    },
    /// The file of links is invalid.
    #[error("{}: {why}; `hearth cluster heal{}` writes it again, without cuts", path.display(), in_folder(path.parent()))]
    Links {
        /// The path of `links.toml` in the cluster's folder.
        path: PathBuf,
        /// The parser's error, as a clause.
        why: String,
    },
    /// Killed nodes have not ended.
    #[error(
        "{nodes} did not end within {seconds} s of being killed: a thread waits for the system, perhaps for a disk"
    )]
    Lives {
        /// The names of these nodes, separated by commas.
        nodes: String,
        /// How long it was waited for them.
        seconds: u64,
    },
    /// There is no cluster.
    #[error(
        "there is no cluster in {}; `hearth cluster up{options}` starts one, --name or --folder says where another is",
        folder.display()
    )]
    Nobody {
        /// The folder that was searched.
        folder: PathBuf,
        /// The options that select it.
        options: String,
    },
    /// A process cannot be started.
    #[error("cannot start {node}: {source}")]
    Start {
        /// The node's name, or `the load`.
        node: String,
        /// Why its process cannot be started, as the system says it.
        source: io::Error,
    },
    /// Another program uses a node's port.
    #[error(
        "{node} cannot serve at {address}: the port is in use by {holder}, perhaps another cluster's: stop that one, or begin this \
         one at another --address (with --reset, where it has begun)"
    )]
    Taken {
        /// The name of the node that needs the port.
        node: String,
        /// The address at which it would serve JSON-RPC.
        address: std::net::SocketAddr,
        /// The program that uses it.
        holder: hearth_machine::sockets::Holder,
    },
    /// A process ended that should still run.
    #[error("{node} has ended. {said}")]
    Ended {
        /// The node's name, or `the load`.
        node: String,
        /// The last lines of its log.
        said: String,
    },
    /// A node does not serve.
    #[error("{node} does not answer, {seconds} s after its start. {said}")]
    Silent {
        /// The name of the node that was started.
        node: String,
        /// How long it was waited for.
        seconds: u64,
        /// The last lines of its log.
        said: String,
    },
    /// A node runs, but does not answer, or not what was asked.
    #[error("{node} runs and does not answer. {said}")]
    Mute {
        /// The node's name, or `the load`.
        node: String,
        /// The last lines of its log.
        said: String,
    },
    /// A node is too far behind for a measurement.
    #[error("{0}: nothing can be measured")]
    Behind(String),
    /// The operator stopped the command.
    #[error("stopped")]
    Stopped,
    /// The machine's cores cannot be determined.
    #[error(transparent)]
    Cores(#[from] boot::BootError),
    /// A key cannot be read or created.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An RPC call failed.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The signal handlers cannot be installed.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

impl ExitCode for LocalError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Option(_) | Self::World(_) | Self::Map { .. } => WRONG_USE,
            _ => FAILED,
        }
    }
}

/// The default of `--name`.
const NAME: &str = "cluster";

/// The option that selects a folder.
fn in_folder(folder: Option<&Path>) -> String {
    folder.map_or_else(String::new, |folder| format!(" --folder {}", shell::path(folder)))
}

impl ClusterSelector {
    /// The options that select the cluster in another command, each after a space; empty if they are the defaults.
    pub fn options(&self) -> String {
        let name = if self.name == NAME { String::new() } else { format!(" --name {}", shell::word(&self.name)) };
        name + &in_folder(self.folder.as_deref())
    }

    /// The cluster's folder: that of `--folder`, or else `.hearth/NAME`.
    pub fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| Path::new(".hearth").join(&self.name))
    }

    /// Reads the existing cluster.
    pub fn read(&self) -> Result<Cluster, LocalError> {
        Cluster::read(&self.folder())?
            .ok_or_else(|| LocalError::Nobody { folder: self.folder(), options: self.options() })
    }

    /// Locks the folder for this command until the file is dropped; waits for other commands.
    fn hold(&self) -> Result<File, LocalError> {
        let path = self.folder();
        let failed = |source| LocalError::Write { path: path.clone(), source };
        if path.exists() && !path.is_dir() {
            return Err(LocalError::Option(format!("{} is not a folder", path.display())));
        }
        fs::create_dir_all(&path).map_err(failed)?;
        let folder = File::open(&path).map_err(failed)?;
        if folder.try_lock().is_err() {
            note(format_args!("another command is at work on the cluster in {}: waiting for its end", path.display()));
            folder.lock().map_err(failed)?;
        }
        Ok(folder)
    }

    /// Reads the existing cluster and locks it for this command.
    fn own(&self) -> Result<(Cluster, File), LocalError> {
        self.read()?;
        let held = self.hold()?;
        Ok((self.read()?, held))
    }

    fn check(&self) -> Result<(), LocalError> {
        let named = Config { name: self.name.clone(), ..Config::default() };
        config::check(&named).map_err(|(_, what)| LocalError::Option(format!("--name: {what}")))
    }
}

/// The cores that nodes may use.
pub fn cores() -> Result<Vec<usize>, LocalError> {
    Ok(boot::cores(&config::Layout::default())?.allowed)
}

/// Runs `hearth cluster up`: starts a new cluster, or the nodes of an existing one that do not run.
pub fn up(options: &UpOptions, say: &CommandOutput) -> Result<(), LocalError> {
    options.which.check()?;
    let _held = options.which.hold()?;
    let stop = StopSignal::install().map_err(LocalError::Signals)?;
    let was_there = !options.reset && Cluster::read(&options.which.folder())?.is_some();
    let mut cluster = prepare(options, options.reset)?;
    if was_there {
        say.line(format_args!("continuing the existing cluster: {}; --reset starts a new one", cluster.size()));
    }
    start_all(&mut cluster, &stop, say)?;
    say.text(status::table(&cluster, &status::rows(&cluster)));
    let leader = cluster.leader();
    say.line(format_args!("dashboard  {}/dashboard#/cluster", leader.rpc()));
    say.line(format_args!("logs       {}/NODE/log", cluster.folder.display()));
    Ok(())
}

/// The cluster of a folder as the options request it, or a new one; `stops` allows stopping a running one.
pub fn prepare(options: &UpOptions, stops: bool) -> Result<Cluster, LocalError> {
    let folder = options.which.folder();
    let found = Cluster::read(&folder)?;
    if let Some(found) = &found
        && !stops
        && !found.running(true).is_empty()
        && found.running(false).is_empty()
    {
        let (folder, which) = (folder.display(), options.which.options());
        return Err(LocalError::Option(format!("the cluster in {folder} runs; `hearth cluster down{which}` stops it")));
    }
    if let Some(found) = found.as_ref().filter(|_| !options.reset) {
        return match other(found, options)? {
            None => Ok(found.clone()),
            Some(why) => {
                let folder = folder.display();
                Err(LocalError::Option(format!("the cluster in {folder} has {why}; --reset begins a new one")))
            }
        };
    }
    // The new cluster is validated before the old one, which may contain its map, is removed.
    let plan = Plan::of(options)?;
    if let Some(mut old) = found {
        old.stop(&old.running(true))?;
        empty(&folder).map_err(|source| LocalError::Write { path: folder.clone(), source })?;
    }
    Cluster::create(&folder, &plan, &cores()?)
}

/// The differences between an existing cluster and the requested one.
fn other(found: &Cluster, options: &UpOptions) -> Result<Option<String>, LocalError> {
    let (nodes, first) = (found.nodes.len(), found.leader().address);
    let validators = found.leading();
    let is_another = |wanted: Option<usize>, has| wanted.is_some_and(|wanted| wanted != has);
    Ok(if is_another(options.nodes, nodes) || is_another(options.validators, validators) {
        Some(found.size())
    } else if options.address.is_some_and(|wanted| wanted != first) {
        Some(format!("its first node at {first}"))
    } else {
        let is_its = options.map.as_deref().map(|map| found.is_map(map)).transpose()?;
        (is_its == Some(false)).then(|| "another map".into())
    })
}

/// Removes a folder's contents; the folder itself may be locked.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// A number with its noun.
fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Starts the nodes that do not run, the leader first. If one does not come up, those that were started are stopped.
pub fn start_all(cluster: &mut Cluster, stop: &StopSignal, say: &CommandOutput) -> Result<(), LocalError> {
    let (leader, others): (Vec<usize>, Vec<usize>) =
        cluster.running(false).into_iter().partition(|number| *number == 0);
    let followers = others.iter().filter(|number| cluster.nodes[**number].role == Role::Follower).count();
    let kinds = [(others.len() - followers, "validator"), (followers, "follower")];
    let kinds: Vec<String> =
        kinds.into_iter().filter(|(number, _)| *number > 0).map(|(number, kind)| count(number, kind)).collect();
    let first = if cluster.leading() == 1 { "leader" } else { "first validator" };
    let mut started = StartedNodes::of(cluster);
    if !leader.is_empty() {
        say.line(format_args!("starting the {first}"));
        started.start(&leader, stop)?;
    }
    if !others.is_empty() {
        say.line(format_args!("starting {}", kinds.join(" and ")));
        started.start(&others, stop)?;
    }
    started.keep();
    Ok(())
}

/// Runs `hearth cluster status`: prints a row per node, or writes the rows as JSON.
pub fn status(options: &Status, say: &CommandOutput) -> Result<(), LocalError> {
    let cluster = options.which.read()?;
    let rows = status::rows(&cluster);
    match &options.json {
        Some(path) => output::json(path, format_args!("{:#}", serde_json::json!(rows)), say)
            .map_err(|WriteError { path, source }| LocalError::Write { path, source })?,
        None => say.text(status::table(&cluster, &rows)),
    }
    Ok(())
}

fn one(cluster: &Cluster, name: &str) -> Result<usize, LocalError> {
    match cluster.select(name)?[..] {
        [number] => Ok(number),
        [] => Err(LocalError::Option("name a node".into())),
        ref several => Err(LocalError::Option(format!("`{name}` is {}: name one", count(several.len(), "node")))),
    }
}

/// Runs `hearth cluster kill`: kills one node that runs.
pub fn kill(options: &Node, say: &CommandOutput) -> Result<(), LocalError> {
    let (mut cluster, _held) = options.which.own()?;
    let number = one(&cluster, &options.node)?;
    let name = cluster.nodes[number].name.clone();
    if !cluster.running(true).contains(&number) {
        return Err(LocalError::Option(format!("{name} does not run")));
    }
    cluster.kill(number)?;
    say.line(format_args!("{name} is killed; `hearth cluster start {name}{}` brings it back", options.which.options()));
    Ok(())
}

/// Runs `hearth cluster start`: starts one node, and returns when it serves.
pub fn start(options: &Node, say: &CommandOutput) -> Result<(), LocalError> {
    let (mut cluster, _held) = options.which.own()?;
    let stop = StopSignal::install().map_err(LocalError::Signals)?;
    let number = one(&cluster, &options.node)?;
    let name = cluster.nodes[number].name.clone();
    if cluster.running(true).contains(&number) {
        return Err(LocalError::Option(format!("{name} runs already")));
    }
    let mut started = StartedNodes::of(&mut cluster);
    started.start(&[number], &stop)?;
    started.keep();
    say.line(format_args!("{name} serves at {}", cluster.nodes[number].rpc()));
    Ok(())
}

/// Runs `hearth cluster partition`: adds a cut between two sets of nodes.
pub fn partition(options: &Partition, say: &CommandOutput) -> Result<(), LocalError> {
    let (cluster, _held) = options.which.own()?;
    let (a, b) = match options.sides.split_once('|') {
        Some((a, b)) => (cluster.select(a)?, cluster.select(b)?),
        None => {
            let a = cluster.select(&options.sides)?;
            let b = (0..cluster.nodes.len()).filter(|number| !a.contains(number)).collect();
            (a, b)
        }
    };
    if a.is_empty() || b.is_empty() || a.iter().any(|number| b.contains(number)) {
        let sides = &options.sides;
        return Err(LocalError::Option(format!("`{sides}`: each side needs a node, and no node can be on both")));
    }
    let addresses = |side: &[usize]| side.iter().map(|number| cluster.nodes[*number].address).collect();
    let mut cuts = cluster.cuts()?;
    cuts.push(Cut { between: [addresses(&a), addresses(&b)] });
    cluster.cut(cuts)?;
    let names = |side: &[usize]| side.iter().map(|at| cluster.nodes[*at].name.as_str()).collect::<Vec<_>>().join(" ");
    say.line(format_args!(
        "cut: {} | {}; `hearth cluster heal{}` ends it",
        names(&a),
        names(&b),
        options.which.options()
    ));
    Ok(())
}

/// Runs `hearth cluster heal`: removes all cuts, also from a file of links that cannot be read.
pub fn heal(which: &ClusterSelector, say: &CommandOutput) -> Result<(), LocalError> {
    let (cluster, _held) = which.own()?;
    let cuts = cluster.cuts().map(|cuts| cuts.len());
    cluster.cut(vec![])?;
    match cuts {
        Ok(cuts) => say.line(format_args!("{} {} healed", count(cuts, "cut"), if cuts == 1 { "is" } else { "are" })),
        Err(_) => say.line("the file of links could not be read, and is written again, without cuts"),
    }
    Ok(())
}

/// Runs `hearth cluster down`: stops all nodes, and kills those that do not end in time.
pub fn down(which: &ClusterSelector, say: &CommandOutput) -> Result<(), LocalError> {
    let (mut cluster, _held) = which.own()?;
    let running = cluster.running(true);
    let all: Vec<usize> = (0..cluster.nodes.len()).collect();
    let killed = cluster.stop(&all);
    cluster.save()?;
    let killed = killed?;
    let suffix =
        if killed > 0 { format!(", {killed} of them killed, as they did not end in time") } else { String::new() };
    let verb = if running.len() == 1 { "is" } else { "are" };
    say.line(format_args!("{} {verb} stopped{suffix}", count(running.len(), "node")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_cluster_in_use() {
        let of =
            |name: &str, folder: Option<&str>| ClusterSelector { name: name.into(), folder: folder.map(Into::into) };
        assert_eq!(of(NAME, None).options(), "");
        assert_eq!(of("c", None).options(), " --name c");
        assert_eq!(of("c", Some("a/b")).options(), " --name c --folder a/b");
        let nobody = of("c", Some("/nowhere/c")).read().unwrap_err().to_string();
        assert!(nobody.contains("`hearth cluster up --name c --folder /nowhere/c` starts one"), "{nobody}");
    }

    #[test]
    fn one_command_at_a_time_has_a_cluster() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        let which = ClusterSelector { name: "c".into(), folder: Some(folder.clone()) };
        assert!(matches!(which.own(), Err(LocalError::Nobody { .. })) && !folder.exists());
        let held = which.hold().unwrap();
        let is_free = || File::open(&folder).unwrap().try_lock().is_ok();
        assert!(!is_free());
        fs::create_dir(folder.join("node-1")).unwrap();
        fs::write(folder.join("cluster.json"), "{}").unwrap();
        empty(&folder).unwrap();
        assert!(fs::read_dir(&folder).unwrap().next().is_none() && !is_free(), "a new cluster is as much its own");
        drop(held);
        assert!(is_free());
    }

    #[test]
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|number| count(number, "node")), ["0 nodes", "1 node", "2 nodes"]);
    }
}
