//! agave-validator: its command line, and the limit that it asks of the system.
//!
//! reads   the limit of open files
//! writes  a preloaded library where that limit is low

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Lab;
use super::nodes::{AGAVE, Process, RPC_PORT, Remote};
use crate::run;

/// agave-validator refuses to start unless it may open so many files.
const OPEN_FILES: u64 = 1_000_000;
/// Slots between its archives: a full one, and one that builds on it.
const FULL_INTERVAL: u64 = 100;
const INCREMENTAL_INTERVAL: u64 = 50;

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

/// A node of Agave.
pub struct Agave<'a> {
    /// Its keys are `NAME-id` and `NAME-vote`; its log has this name, too.
    pub name: &'a str,
    pub host: Remote,
    pub ledger: &'a Path,
    /// The node whose cluster it joins.
    pub entrypoint: Option<Remote>,
    /// Whether it leads before it has seen a vote of its own land: the first node of a cluster must.
    pub leads_at_once: bool,
    /// Whether it takes genesis and archives from the cluster, or has them.
    pub fetches: bool,
    /// The identity of the only node from which it takes them, if there is one.
    pub known: Option<&'a str>,
    pub votes: bool,
}

impl<'a> Agave<'a> {
    /// The first node of Agave, which begins a cluster from what is in its folder.
    pub const fn begins(ledger: &'a Path) -> Self {
        Self {
            name: "agave",
            host: AGAVE,
            ledger,
            entrypoint: None,
            leads_at_once: true,
            fetches: false,
            known: None,
            votes: true,
        }
    }

    /// The first node of Agave, which joins a cluster and takes everything from there.
    pub const fn joins(ledger: &'a Path, entrypoint: Remote) -> Self {
        Self { entrypoint: Some(entrypoint), leads_at_once: false, fetches: true, ..Self::begins(ledger) }
    }

    pub fn start(&self, lab: &Lab) -> Result<Process, String> {
        let host = self.host.0.to_string();
        let port = RPC_PORT.to_string();
        let mut command = Command::new(lab.programs.join("agave-validator"));
        command.arg("--ledger").arg(self.ledger).arg("--identity").arg(lab.key(&format!("{}-id", self.name)));
        command.arg("--vote-account").arg(lab.key(&format!("{}-vote", self.name)));
        command.args(["--bind-address", &host, "--rpc-bind-address", &host, "--rpc-port", &port]);
        command.args(["--gossip-port", "8001", "--dynamic-port-range", "8002-8040", "--log", "-", "--no-xdp"]);
        command.args(["--allow-private-addr", "--full-rpc-api", "--enable-rpc-transaction-history"]);
        command.args(["--enable-extended-tx-metadata-storage", "--no-poh-speed-test", "--no-os-network-limits-test"]);
        command.args(["--no-port-check", "--full-snapshot-interval-slots", &FULL_INTERVAL.to_string()]);
        command.args(["--incremental-snapshot-interval-slots", &INCREMENTAL_INTERVAL.to_string()]);
        if let Some(entrypoint) = self.entrypoint {
            command.args(["--entrypoint", &entrypoint.gossip()]);
        }
        if !self.fetches {
            command.args(["--no-genesis-fetch", "--no-snapshot-fetch"]);
        }
        if let Some(known) = self.known {
            command.args(["--known-validator", known, "--only-known-rpc"]);
        }
        if !self.votes {
            command.arg("--no-voting");
        }
        if self.leads_at_once {
            command.arg("--no-wait-for-vote-to-start-leader");
        }
        command.env("RUST_LOG", "solana=info,agave=info");
        if let Some(library) = limits(lab)? {
            command.env("LD_PRELOAD", library);
        }
        Process::start(lab, self.name, self.host, &mut command)
    }
}

/// The library of [`LIMITS_C`], compiled once, unless this process may open as many files as agave-validator wants.
fn limits(lab: &Lab) -> Result<Option<PathBuf>, String> {
    let limit = run::output(Command::new("sh").args(["-c", "ulimit -Hn"]))?;
    if limit.trim() == "unlimited" || limit.trim().parse().is_ok_and(|limit: u64| limit >= OPEN_FILES) {
        return Ok(None);
    }
    let (source, library) = (lab.folder.join("limits.c"), lab.folder.join("limits.so"));
    if library.exists() {
        return Ok(Some(library));
    }
    std::fs::write(&source, LIMITS_C).map_err(|error| format!("{}: {error}", source.display()))?;
    run::run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl"))?;
    Ok(Some(library))
}
