//! `hearth load etl` with a real Redis: the machine's, or Debian's.
//!
//! reads   `HEARTH_REDIS_SERVER`, a program that is there already
//! writes  Redis into the build outputs
//! memory  one line of output at a time

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::debian;
use crate::run::{self, cargo, run_seeing, target_dir};

/// The server is in `redis-tools` under another name, to which `redis-server` links; the others are its libraries.
const PACKAGES: [&str; 5] = ["redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1"];

/// The folders of the unpacked libraries, for the loader.
fn libraries(folder: &std::path::Path) -> OsString {
    let folders = std::fs::read_dir(folder.join("usr/lib")).into_iter().flatten();
    let folders = folders.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir());
    std::env::join_paths(folders).unwrap_or_default()
}

/// The server, and where its libraries are.
fn server() -> Result<(PathBuf, OsString), String> {
    let folder = target_dir().join("redis");
    let fetched = folder.join("usr/bin/redis-server");
    let named = std::env::var_os("HEARTH_REDIS_SERVER").filter(|named| !named.is_empty()).map(PathBuf::from);
    let there = |libraries: &OsString| {
        let known = named.clone().into_iter().chain(["redis-server".into(), fetched.clone()]);
        known
            .into_iter()
            .find(|server| run::answers(Command::new(server).arg("--version").env("LD_LIBRARY_PATH", libraries)))
    };
    if let Some(server) = there(&libraries(&folder)) {
        return Ok((server, libraries(&folder)));
    }
    debian::unpack(&folder, &PACKAGES).map_err(|why| {
        format!("{why}; Redis is needed: `apt-get install redis-server`, or HEARTH_REDIS_SERVER=/path/to/one")
    })?;
    let libraries = libraries(&folder);
    let server = there(&libraries).ok_or_else(|| format!("{} does not run", fetched.display()))?;
    Ok((server, libraries))
}

/// Runs the tests of `crates/lab/load/tests/load/redis.rs`.
pub fn test(see: impl FnMut(&str)) -> Result<(), String> {
    let (server, libraries) = server()?;
    let mut command = cargo();
    command.args(["test", "--release", "--locked", "--workspace", "--test", "load"]);
    command.args(["--", "--nocapture", "redis::"]);
    run_seeing(command.env("HEARTH_REDIS_SERVER", server).env("HEARTH_REDIS_LIBRARIES", libraries), see)
}
