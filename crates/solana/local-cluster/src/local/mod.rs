//! A cluster on this machine: each node a process with an address of its own, and an emulated network between them.
//!
//! reads   a map, `cluster.json` in the cluster's folder
//! writes  that folder; processes
//! memory  a few lines a node
//!
//! The walk: [`member`] (who is where, and the files) → [`mod@start`] (processes up and down) → [`mod@status`]; cuts
//! of the network are lines in a file that the nodes read again. [`gather`] is the nodes' own: what all of them do, for
//! the dashboard of each.

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
use hearth_command::output::{Say, note};
use hearth_command::shell;
use hearth_command::stop::StopSignal;
use hearth_keys::KeyError;
use hearth_netem::{Cut, WorldError};
use hearth_node::boot;
use hearth_node::config::{self, Config};

use member::{Cluster, NODES_MAX, Plan, Role};
use start::Started;

/// How many nodes there are where nobody says: those of the demonstration.
pub const NODES: usize = 10;
/// Where the first one is then.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Which cluster.
#[derive(Args)]
pub struct Which {
    /// The cluster's name, by which its folder and its nodes' shared memory are named.
    #[arg(long, value_name = "NAME", default_value = NAME)]
    pub name: String,
    /// The cluster's folder [default: `.hearth/NAME`].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// `hearth cluster up`
#[derive(Args)]
pub struct Up {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Nodes, the leader among them [default: 10, or those of the folder].
    #[arg(long, value_name = "N", value_parser = nodes)]
    pub nodes: Option<usize>,
    /// How many of them make blocks in turn and vote, with equal stake; the others follow [default: 1, or those of the
    /// folder].
    #[arg(long, value_name = "N")]
    pub validators: Option<usize>,
    /// The map: regions, and what is between them [default: London, New York, Frankfurt, Singapore].
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// The first node's address, a loopback one; the others have the next ones [default: 127.0.0.2, or that of the
    /// folder].
    #[arg(long, value_name = "IP")]
    pub address: Option<Ipv4Addr>,
    /// Begin anew: stop the cluster of the folder, and delete what is there.
    #[arg(long)]
    pub reset: bool,
}

/// A command about one node.
#[derive(Args)]
pub struct Node {
    /// Which cluster.
    #[command(flatten)]
    pub which: Which,
    /// The node: its name or its number.
    pub node: String,
}

/// `hearth cluster status`
#[derive(Args)]
pub struct Status {
    /// Which cluster.
    #[command(flatten)]
    pub which: Which,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `hearth cluster partition`
#[derive(Args)]
pub struct Partition {
    /// Which cluster.
    #[command(flatten)]
    pub which: Which,
    /// `'A|B'`, in quotes: nodes and regions of each side, with commas between them. `A` alone is cut off from all
    /// others.
    #[arg(value_name = "A|B")]
    pub sides: String,
}

fn nodes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (2..=NODES_MAX).contains(number));
    number.ok_or_else(|| format!("it is not from 2 to {NODES_MAX}"))
}

/// Why a command about a cluster on this machine fails.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The command line.
    #[error("{0}")]
    Option(String),
    /// The map.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The map's file.
    #[error("cannot read the map {}: {source}", path.display())]
    Map {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file, or the folder.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the cluster's folder.
    #[error("{}: {why}; where it cannot be mended, another cluster needs another folder, or this one deleted", path.display())]
    State {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file of links.
    #[error("{}: {why}; `hearth cluster heal{}` writes it again, without cuts", path.display(), in_folder(path.parent()))]
    Links {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Nodes that were killed are still there.
    #[error(
        "{nodes} did not end within {seconds} s of being killed: a thread waits for the system, perhaps for a disk"
    )]
    Lives {
        /// Which.
        nodes: String,
        /// How long they had.
        seconds: u64,
    },
    /// No cluster.
    #[error(
        "there is no cluster in {}; `hearth cluster up{options}` starts one, --name or --folder says where another is",
        folder.display()
    )]
    Nobody {
        /// Where.
        folder: PathBuf,
        /// The options that name it.
        options: String,
    },
    /// A process.
    #[error("cannot start {node}: {source}")]
    Start {
        /// Which node.
        node: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else is where a node would serve.
    #[error(
        "{node} cannot serve at {address}: the port is in use by {holder}, perhaps another cluster's: stop that one, or begin this \
         one at another --address (with --reset, where it has begun)"
    )]
    Taken {
        /// Which.
        node: String,
        /// Its RPC.
        address: std::net::SocketAddr,
        /// Who is there.
        holder: hearth_machine::sockets::Holder,
    },
    /// A node ended.
    #[error("{node} has ended. {said}")]
    Ended {
        /// Which.
        node: String,
        /// The last that it said.
        said: String,
    },
    /// A node does not serve.
    #[error("{node} does not answer, {seconds} s after its start. {said}")]
    Silent {
        /// Which.
        node: String,
        /// How long it had.
        seconds: u64,
        /// The last that it said.
        said: String,
    },
    /// It runs, and says nothing, or not what it is asked for.
    #[error("{node} runs and does not answer. {said}")]
    Mute {
        /// Which.
        node: String,
        /// The last that it said.
        said: String,
    },
    /// One is too far behind for anything to be measured.
    #[error("{0}: nothing can be measured")]
    Behind(String),
    /// Ctrl-C.
    #[error("stopped")]
    Stopped,
    /// The cores.
    #[error(transparent)]
    Cores(#[from] boot::BootError),
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The RPC.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The signals.
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

/// The option that names a folder.
fn in_folder(folder: Option<&Path>) -> String {
    folder.map_or_else(String::new, |folder| format!(" --folder {}", shell::path(folder)))
}

impl Which {
    /// The options that name the cluster in another command, each after a space; none where they are the defaults.
    pub fn options(&self) -> String {
        let name = if self.name == NAME { String::new() } else { format!(" --name {}", shell::word(&self.name)) };
        name + &in_folder(self.folder.as_deref())
    }

    /// The folder.
    pub fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| Path::new(".hearth").join(&self.name))
    }

    /// The cluster that is there.
    pub fn read(&self) -> Result<Cluster, LocalError> {
        Cluster::read(&self.folder())?
            .ok_or_else(|| LocalError::Nobody { folder: self.folder(), options: self.options() })
    }

    /// Has the folder for this command alone, until what is returned is dropped: it waits for another to end.
    fn hold(&self) -> Result<File, LocalError> {
        let path = self.folder();
        let failed = |source| LocalError::Write { path: path.clone(), source };
        if path.exists() && !path.is_dir() {
            return Err(LocalError::Option(format!("{} is no folder", path.display())));
        }
        fs::create_dir_all(&path).map_err(failed)?;
        let folder = File::open(&path).map_err(failed)?;
        if folder.try_lock().is_err() {
            note(format_args!("another command is at work on the cluster in {}: waiting for its end", path.display()));
            folder.lock().map_err(failed)?;
        }
        Ok(folder)
    }

    /// The cluster that is there, for this command alone.
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

/// The cores that nodes may have.
pub fn cores() -> Result<Vec<usize>, LocalError> {
    Ok(boot::cores(&config::Layout::default())?.allowed)
}

/// `hearth cluster up`
pub fn up(options: &Up, say: &Say) -> Result<(), LocalError> {
    options.which.check()?;
    let _held = options.which.hold()?;
    let stop = StopSignal::install().map_err(LocalError::Signals)?;
    let was_there = !options.reset && Cluster::read(&options.which.folder())?.is_some();
    let mut cluster = prepare(options, options.reset)?;
    if was_there {
        say.line(format_args!("goes on with the cluster that is there: {}; --reset begins another", cluster.size()));
    }
    start_all(&mut cluster, &stop, say)?;
    say.text(status::table(&cluster, &status::rows(&cluster)));
    let leader = cluster.leader();
    say.line(format_args!("dashboard  {}/dashboard#/cluster", leader.rpc()));
    say.line(format_args!("logs       {}/NODE/log", cluster.folder.display()));
    Ok(())
}

/// The cluster of a folder as the options want it, or a new one; `stops` says whether one that runs may be stopped.
pub fn prepare(options: &Up, stops: bool) -> Result<Cluster, LocalError> {
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
    // What is wrong with the new one is told before the old one goes, which may have its map.
    let plan = Plan::of(options)?;
    if let Some(mut old) = found {
        old.stop(&old.running(true))?;
        empty(&folder).map_err(|source| LocalError::Write { path: folder.clone(), source })?;
    }
    Cluster::create(&folder, &plan, &cores()?)
}

/// What the cluster of a folder has otherwise than it is asked for.
fn other(found: &Cluster, options: &Up) -> Result<Option<String>, LocalError> {
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

/// Removes what is in a folder; the folder itself may be held.
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

/// A number of something, in words.
fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Starts what does not run, the leader first. If one does not come up, those that were started are stopped.
pub fn start_all(cluster: &mut Cluster, stop: &StopSignal, say: &Say) -> Result<(), LocalError> {
    let (leader, others): (Vec<usize>, Vec<usize>) =
        cluster.running(false).into_iter().partition(|number| *number == 0);
    let followers = others.iter().filter(|number| cluster.nodes[**number].role == Role::Follower).count();
    let kinds = [(others.len() - followers, "validator"), (followers, "follower")];
    let kinds: Vec<String> =
        kinds.into_iter().filter(|(number, _)| *number > 0).map(|(number, kind)| count(number, kind)).collect();
    let first = if cluster.leading() == 1 { "leader" } else { "first validator" };
    let mut started = Started::of(cluster);
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

/// `hearth cluster status`
pub fn status(options: &Status, say: &Say) -> Result<(), LocalError> {
    let cluster = options.which.read()?;
    let rows = status::rows(&cluster);
    match options.json {
        true => say.line(format_args!("{:#}", serde_json::json!(rows))),
        false => say.text(status::table(&cluster, &rows)),
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

/// `hearth cluster kill`
pub fn kill(options: &Node, say: &Say) -> Result<(), LocalError> {
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

/// `hearth cluster start`
pub fn start(options: &Node, say: &Say) -> Result<(), LocalError> {
    let (mut cluster, _held) = options.which.own()?;
    let stop = StopSignal::install().map_err(LocalError::Signals)?;
    let number = one(&cluster, &options.node)?;
    let name = cluster.nodes[number].name.clone();
    if cluster.running(true).contains(&number) {
        return Err(LocalError::Option(format!("{name} runs already")));
    }
    let mut started = Started::of(&mut cluster);
    started.start(&[number], &stop)?;
    started.keep();
    say.line(format_args!("{name} serves at {}", cluster.nodes[number].rpc()));
    Ok(())
}

/// `hearth cluster partition`
pub fn partition(options: &Partition, say: &Say) -> Result<(), LocalError> {
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
        "cut: {} | {}; `hearth cluster heal{}` mends it",
        names(&a),
        names(&b),
        options.which.options()
    ));
    Ok(())
}

/// `hearth cluster heal`
pub fn heal(which: &Which, say: &Say) -> Result<(), LocalError> {
    let (cluster, _held) = which.own()?;
    let cuts = cluster.cuts().map(|cuts| cuts.len());
    cluster.cut(vec![])?;
    match cuts {
        Ok(cuts) => say.line(format_args!("{} {} mended", count(cuts, "cut"), if cuts == 1 { "is" } else { "are" })),
        Err(_) => say.line("the file of links could not be read, and is written anew, without cuts"),
    }
    Ok(())
}

/// `hearth cluster down`
pub fn down(which: &Which, say: &Say) -> Result<(), LocalError> {
    let (mut cluster, _held) = which.own()?;
    let running = cluster.running(true);
    let all: Vec<usize> = (0..cluster.nodes.len()).collect();
    let killed = cluster.stop(&all);
    cluster.save()?;
    let killed = killed?;
    let told =
        if killed > 0 { format!(", {killed} of them killed, as they did not end in time") } else { String::new() };
    let verb = if running.len() == 1 { "is" } else { "are" };
    say.line(format_args!("{} {verb} stopped{told}", count(running.len(), "node")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_cluster_in_use() {
        let of = |name: &str, folder: Option<&str>| Which { name: name.into(), folder: folder.map(Into::into) };
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
        let which = Which { name: "c".into(), folder: Some(folder.clone()) };
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
