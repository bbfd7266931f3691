//! A node of Hearth: its configuration and its start.
//!
//! writes  a configuration file into the scenario's folder

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Lab;
use super::nodes::{OURS, Process, RPC_PORT, Remote};

/// The log's filter, with the two lines of a block that `vote_times` reads.
const LOG: &str = "info,hearth_pipeline::shred::deliver=debug,hearth_pipeline::tower::core=debug";
/// The keys of a node that writes archives while it runs, as often as Agave's nodes do.
const WRITES_ARCHIVES: &str =
    "write_archives = true\nfull_snapshot_interval_slots = 100\nincremental_snapshot_interval_slots = 50\n";
/// Rooted slots of a recorded session.
const SESSION_SLOTS: u64 = 48;

/// A node of ours.
#[derive(Clone, Copy)]
pub struct Ours<'a> {
    /// Its log and its configuration have this name.
    pub name: &'a str,
    pub host: Remote,
    pub ledger: &'a Path,
    /// Its keys, `NAME-id` and `NAME-vote`; `None`: a new identity that has no stake.
    pub keys: Option<&'a str>,
    /// The node whose cluster it joins.
    pub entrypoint: Option<Remote>,
    /// Whether it takes a snapshot of a peer, or executes the chain from its first block.
    pub downloads: bool,
    /// An address that gets a copy of each shred that it makes.
    pub copies_to: Option<SocketAddrV4>,
    /// Whether it writes archives while it runs.
    pub writes_archives: bool,
}

impl<'a> Ours<'a> {
    /// The first node of ours, with these keys, which begins a cluster or joins that of `entrypoint`.
    pub const fn first(ledger: &'a Path, keys: Option<&'a str>, entrypoint: Option<Remote>) -> Self {
        let (copies_to, writes_archives) = (None, false);
        Self { name: "ours", host: OURS, ledger, keys, entrypoint, downloads: true, copies_to, writes_archives }
    }

    /// Writes its configuration, and returns the file.
    pub fn config(&self, lab: &Lab) -> Result<PathBuf, String> {
        let file = lab.folder.join(format!("{}.toml", self.name));
        std::fs::write(&file, self.text(lab)).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    fn text(&self, lab: &Lab) -> String {
        let quoted = |path: &Path| Value::from(path.to_string_lossy()).to_string();
        let (name, host, ledger) = (self.name, self.host.0, quoted(self.ledger));
        let mut text = format!(
            "name = \"{name}\"\n[hugetlbfs]\nworkspace_path = {}\n[layout]\npark_after_micros = 50\n\
             [ledger]\npath = {ledger}\n[snapshots]\nserve_archives = true\ndownload = {}\n{}\
             [rpc]\nbind_address = \"{host}\"\nport = {RPC_PORT}\n\
             [tiles.net]\nbind_address = \"{host}\"\n[tiles.metric]\nprometheus_listen_address = \"{host}\"\n\
             [tiles.verify]\ntable_bytes = 16_777_216\n[gossip]\nenabled = true\nbind_address = \"{host}\"\n",
            quoted(&lab.folder),
            self.downloads,
            if self.writes_archives { WRITES_ARCHIVES } else { "" },
        );
        if let Some(entrypoint) = self.entrypoint {
            text += &format!("entrypoints = [\"{}\"]\n", entrypoint.gossip());
        }
        if let Some(name) = self.keys {
            let key = |kind: &str| quoted(&lab.key(&format!("{name}-{kind}")));
            text += &format!("[consensus]\nidentity_path = {}\nvote_account_path = {}\n", key("id"), key("vote"));
        }
        if let Some(address) = self.copies_to {
            text += &format!("[tiles.shred]\nadditional_shred_destinations = [\"{address}\"]\n");
        }
        // Its first start alone: a recording begins with a chain that is new to the node.
        let session = lab.sessions.as_ref().map(|folder| folder.join(name)).filter(|session| !session.exists());
        if let Some(session) = session {
            text += &format!("[development.capture]\nfolder = {}\nslots = {SESSION_SLOTS}\n", quoted(&session));
        }
        text
    }

    pub fn start(&self, lab: &Lab) -> Result<Process, String> {
        let config = self.config(lab)?;
        let mut command = Command::new(&lab.hearth);
        command.env("RUST_LOG", LOG);
        Process::start(lab, self.name, self.host, command.args(["run", "--log", "--config"]).arg(config))
    }
}
