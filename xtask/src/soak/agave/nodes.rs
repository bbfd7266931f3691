//! The programs of a scenario: agave-validator, solana-genesis, and ours.
//!
//! reads   logs, RPC
//! writes  keys, configurations and logs into the scenario's folder
//! memory  a log, while it is searched

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::Lab;
use crate::node::wait_for;
use crate::rpc::Rpc;
use crate::run;

pub const RPC_PORT: u16 = 8899;
pub const AGAVE: Remote = Remote(Ipv4Addr::new(127, 0, 0, 1));
pub const OURS: Remote = Remote(Ipv4Addr::new(127, 0, 0, 2));
/// agave-validator refuses to start unless it may open so many files.
const AGAVE_OPEN_FILES: u64 = 1_000_000;
/// A node must answer within this: on two cores agave-validator takes half a minute.
const STARTS_WITHIN: Duration = Duration::from_secs(180);
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// A preloaded library that answers 1,000,000 for the limit of open files, where a process may not raise it.
const LIMITS_C: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/resource.h>
typedef int (*get)(__rlimit_resource_t, struct rlimit *);
typedef int (*set)(__rlimit_resource_t, const struct rlimit *);
static int answer(const char *name, __rlimit_resource_t what, struct rlimit *limit) {
    if (what != RLIMIT_NOFILE) return ((get)dlsym(RTLD_NEXT, name))(what, limit);
    limit->rlim_cur = limit->rlim_max = 1000000;
    return 0;
}
static int take(const char *name, __rlimit_resource_t what, const struct rlimit *limit) {
    return what == RLIMIT_NOFILE ? 0 : ((set)dlsym(RTLD_NEXT, name))(what, limit);
}
int getrlimit(__rlimit_resource_t what, struct rlimit *limit) { return answer(\"getrlimit\", what, limit); }
int getrlimit64(__rlimit_resource_t what, struct rlimit64 *limit) {
    return answer(\"getrlimit64\", what, (struct rlimit *)limit);
}
int setrlimit(__rlimit_resource_t what, const struct rlimit *limit) { return take(\"setrlimit\", what, limit); }
int setrlimit64(__rlimit_resource_t what, const struct rlimit64 *limit) {
    return take(\"setrlimit64\", what, (const struct rlimit *)limit);
}
";

/// A node by its address.
#[derive(Clone, Copy)]
pub struct Remote(pub Ipv4Addr);

impl Remote {
    /// Calls a method of its RPC.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, String> {
        Rpc { host: self.0, port: RPC_PORT }.call(method, params)
    }

    /// Its newest slot at a commitment.
    pub fn slot(&self, commitment: &str) -> Option<u64> {
        self.call("getSlot", json!([{ "commitment": commitment }])).ok()?.as_u64()
    }

    pub fn url(&self) -> String {
        format!("http://{}:{RPC_PORT}", self.0)
    }
}

/// A node that runs; killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    remote: Remote,
}

impl Process {
    fn start(lab: &Lab, name: &str, remote: Remote, command: &mut Command) -> Result<Self, String> {
        let log = lab.folder.join(format!("{name}.log"));
        let cannot = |error: std::io::Error| format!("cannot start {name}: {error}");
        let out = File::options().create(true).append(true).open(&log).map_err(cannot)?;
        let command = command.current_dir(&lab.folder).stdin(Stdio::null());
        let child = command.stdout(out.try_clone().map_err(cannot)?).stderr(out).spawn().map_err(cannot)?;
        let mut process = Self { name: name.into(), child, log, remote };
        process.wait("an RPC that answers", STARTS_WITHIN, |process| process.remote.slot("processed"))?;
        Ok(process)
    }

    /// Waits until `look` has something; `Err` when `within` has gone by or the process has ended.
    pub fn wait<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, String> {
        let name = self.name.clone();
        let found = wait_for(&format!("{name}: {what}"), within, || match self.child.try_wait() {
            Ok(None) => look(self).map(Ok),
            Ok(Some(status)) => Some(Err(format!("{name} ended: {status}"))),
            Err(error) => Some(Err(format!("{name}: {error}"))),
        });
        found.flatten().map_err(|why| format!("{why}\n--- the end of its log\n{}", self.end_of_log()))
    }

    fn end_of_log(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(3_000)..]).into_owned()
    }

    /// The first line of the log that has all of these words.
    pub fn logged(&self, words: &[&str]) -> Option<String> {
        let log = std::fs::read(&self.log).ok()?;
        let log = String::from_utf8_lossy(&log);
        log.lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
    }

    /// Waits until a slot is reached at commitment `confirmed`.
    pub fn reaches(&mut self, slot: u64, within: Duration) -> Result<(), String> {
        let what = format!("slot {slot} confirmed");
        self.wait(&what, within, |process| process.remote.slot("confirmed").filter(|reached| *reached >= slot))?;
        Ok(())
    }

    /// Ends it without warning.
    pub fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| format!("{}: {error}", self.name))?;
        Ok(())
    }

    /// Stops it as Ctrl-C does.
    pub fn stop(mut self) -> Result<(), String> {
        run::run(Command::new("kill").args(["-INT", &self.child.id().to_string()]))?;
        let end = || self.child.try_wait().ok().flatten();
        wait_for(&format!("the end of {}", self.name), STOPS_WITHIN, end)?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts an agave-validator whose ledger is in `ledger`, with its keys `agave-id` and `agave-vote`.
pub fn agave(lab: &Lab, ledger: &Path, more: &[&str]) -> Result<Process, String> {
    let host = AGAVE.0.to_string();
    let port = RPC_PORT.to_string();
    let mut command = Command::new(lab.programs.join("agave-validator"));
    command.arg("--ledger").arg(ledger).arg("--identity").arg(lab.key("agave-id"));
    command.arg("--vote-account").arg(lab.key("agave-vote"));
    command.args(["--bind-address", &host, "--rpc-bind-address", &host, "--rpc-port", &port, "--gossip-port", "8001"]);
    command.args(["--dynamic-port-range", "8002-8040", "--log", "-", "--no-xdp", "--allow-private-addr"]);
    command.args(["--full-rpc-api", "--enable-rpc-transaction-history", "--enable-extended-tx-metadata-storage"]);
    command.args(["--no-poh-speed-test", "--no-os-network-limits-test", "--no-port-check"]);
    command.args(["--full-snapshot-interval-slots", "100", "--incremental-snapshot-interval-slots", "50"]).args(more);
    command.env("RUST_LOG", "solana=info,agave=info");
    if let Some(library) = limits(lab)? {
        command.env("LD_PRELOAD", library);
    }
    Process::start(lab, "agave", AGAVE, &mut command)
}

/// The library of [`LIMITS_C`], compiled, unless this process may open as many files as agave-validator wants.
fn limits(lab: &Lab) -> Result<Option<PathBuf>, String> {
    let limit = run::output(Command::new("sh").args(["-c", "ulimit -Hn"]))?;
    if limit.trim() == "unlimited" || limit.trim().parse().is_ok_and(|limit: u64| limit >= AGAVE_OPEN_FILES) {
        return Ok(None);
    }
    let (source, library) = (lab.folder.join("limits.c"), lab.folder.join("limits.so"));
    std::fs::write(&source, LIMITS_C).map_err(|error| format!("{}: {error}", source.display()))?;
    run::run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl"))?;
    Ok(Some(library))
}

/// A node of ours.
pub struct Ours<'a> {
    pub ledger: &'a Path,
    /// Its keys, `NAME-id` and `NAME-vote`; `None`: a new identity that has no stake.
    pub keys: Option<&'a str>,
    /// Whether it joins the cluster of [`AGAVE`].
    pub joins: bool,
}

impl Ours<'_> {
    /// Writes its configuration, and returns the file.
    pub fn config(&self, lab: &Lab) -> Result<PathBuf, String> {
        let quoted = |path: &Path| Value::from(path.to_string_lossy()).to_string();
        let (host, ledger) = (OURS.0, quoted(self.ledger));
        let mut text = format!(
            "name = \"ours\"\n[hugetlbfs]\nworkspace_path = {}\n[layout]\npark_after_micros = 50\n[ledger]\npath = {ledger}\n\
             [snapshots]\nserve_archives = true\n[rpc]\nbind_address = \"{host}\"\nport = {RPC_PORT}\n\
             [tiles.net]\nbind_address = \"{host}\"\n[tiles.metric]\nprometheus_listen_address = \"{host}\"\n\
             [tiles.verify]\ntable_bytes = 16_777_216\n[gossip]\nenabled = true\nbind_address = \"{host}\"\n",
            quoted(&lab.folder),
        );
        if self.joins {
            text += &format!("entrypoints = [\"{}:8001\"]\n", AGAVE.0);
        }
        if let Some(name) = self.keys {
            let key = |kind: &str| quoted(&lab.key(&format!("{name}-{kind}")));
            text += &format!("[consensus]\nidentity_path = {}\nvote_account_path = {}\n", key("id"), key("vote"));
        }
        let file = lab.folder.join("ours.toml");
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    pub fn start(&self, lab: &Lab) -> Result<Process, String> {
        let config = self.config(lab)?;
        let mut command = Command::new(&lab.hearth);
        Process::start(lab, "ours", OURS, command.args(["run", "--log", "--config"]).arg(config))
    }
}

/// A load on one node that runs for a given time.
pub struct Load {
    child: Child,
    report: PathBuf,
}

impl Load {
    /// Starts transfers through a node's `sendTransaction`, for `seconds`.
    pub fn start(lab: &Lab, name: &str, remote: Remote, seconds: u64) -> Result<Self, String> {
        let report = lab.folder.join(format!("load-{name}.json"));
        let log = File::create(lab.folder.join(format!("load-{name}.log"))).map_err(|error| error.to_string())?;
        let mut command = Command::new(&lab.hearth);
        command.args(["load", "run", "--rpc-send", "--accounts", "50", "--url", &remote.url(), "--funder"]);
        command.arg(lab.key("faucet")).args(["--rate", &lab.rate.to_string(), "--duration", &seconds.to_string()]);
        command.arg("--json").arg(&report).stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
        let child = command.spawn().map_err(|error| format!("cannot start the load: {error}"))?;
        Ok(Self { child, report })
    }

    /// Waits for its end; the numbers sent, included, rejected, dropped and unknown.
    pub fn end(mut self) -> Result<Value, String> {
        self.child.wait().map_err(|error| format!("the load: {error}"))?;
        let text =
            std::fs::read_to_string(&self.report).map_err(|error| format!("the load wrote no report: {error}"))?;
        let report: Value = serde_json::from_str(&text).map_err(|error| format!("the load's report: {error}"))?;
        let number = |name: &str| (name.to_owned(), report[name].clone());
        Ok(Value::Object(
            ["sent", "included", "rejected", "dropped", "unknown", "tps"].map(number).into_iter().collect(),
        ))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lab {
    /// The file of a key of this name, made by [`Self::keys`].
    pub fn key(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// Makes the keys of both nodes and the faucet's.
    pub fn keys(&self) -> Result<(), String> {
        for name in ["agave-id", "agave-vote", "agave-stake", "ours-id", "ours-vote", "ours-stake", "faucet"] {
            run::output(Command::new(&self.hearth).args(["keys", "new"]).arg(self.key(name)))?;
        }
        Ok(())
    }

    /// The address of a key.
    pub fn address(&self, name: &str) -> Result<String, String> {
        let address = run::output(Command::new(&self.hearth).args(["keys", "pubkey"]).arg(self.key(name)))?;
        Ok(address.trim().to_owned())
    }
}
