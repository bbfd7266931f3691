//! Agave's programs: built once, and where they are there, a short run of our nodes beside them.
//!
//! reads   `HEARTH_AGAVE`, a folder that has the programs already; the crates' registry
//! writes  the programs, and what building them leaves, into the build outputs
//! source  agave-validator, solana-genesis and solana-cli of crates.io, unmodified

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{self, Args, cargo, target_dir};

/// The version that Hearth is compared with.
const VERSION: &str = "4.2.2";
/// The scenarios of the test command, and seconds under load of each.
const SCENARIOS: &str = "follow,vote,lead,join";
const SECONDS: &str = "30";

/// A crate with a program.
struct Crate {
    name: &'static str,
    program: &'static str,
    /// The feature without which it does not compile.
    feature: Option<&'static str>,
}

const CRATES: [Crate; 3] = [
    Crate { name: "agave-validator", program: "agave-validator", feature: Some("agave-unstable-api") },
    Crate { name: "solana-genesis", program: "solana-genesis", feature: Some("agave-unstable-api") },
    Crate { name: "solana-cli", program: "solana", feature: None },
];

/// The folder into which the programs are built.
fn built() -> PathBuf {
    target_dir().join("agave")
}

/// Returns the folder of the programs: named, or built here.
fn folder() -> PathBuf {
    let given = std::env::var_os("HEARTH_AGAVE").filter(|given| !given.is_empty());
    given.map_or_else(|| built().join("bin"), PathBuf::from)
}

/// Whether a program of this version is there.
fn is_there(program: &Path) -> bool {
    let said = Command::new(program).arg("--version").output();
    said.is_ok_and(|said| said.status.success() && is_version(&String::from_utf8_lossy(&said.stdout)))
}

/// Whether a program says that it is of this version: `agave-validator 4.2.2 (src:…)`.
fn is_version(said: &str) -> bool {
    said.split_whitespace().nth(1) == Some(VERSION)
}

/// `cargo xtask oracle agave`: builds what is not there yet.
pub fn build(args: &[&str]) -> Result<(), String> {
    let mut args = Args::new(args);
    match args.first() {
        Some("agave") => args.end()?,
        _ => return Err("which oracle? `cargo xtask oracle agave` builds Agave's programs".into()),
    }
    let root = built();
    let programs = root.join("bin");
    for Crate { name, program, feature } in CRATES {
        if is_there(&programs.join(program)) {
            println!("{program} {VERSION} is there");
            continue;
        }
        let mut install = cargo();
        install.args(["install", "--locked", "--root"]).arg(&root).arg(format!("{name}@{VERSION}"));
        if let Some(feature) = feature {
            install.args(["--features", feature]);
        }
        // The crates have most dependencies in common: they are compiled once.
        install.env("CARGO_TARGET_DIR", root.join("build")).env("OPENSSL_NO_VENDOR", "1");
        run::run(&mut install).map_err(|why| format!("{why}; docs/agave.md says what it needs"))?;
    }
    println!("the programs are in {}", programs.display());
    Ok(())
}

/// Runs four scenarios of `soak agave` for a short time, in a process of their own: that ends with their exit code. It
/// skips them where the programs are not there, or where nobody may make a network namespace.
pub fn test(hearth: impl FnOnce() -> Result<PathBuf, String>) -> Result<(), String> {
    let programs = folder();
    if let Some(Crate { program, .. }) = CRATES.iter().find(|one| !is_there(&programs.join(one.program))) {
        println!("\n!! SKIPPED: there is no {program} {VERSION} in {}.", programs.display());
        println!("!! `cargo xtask oracle agave` builds it. Nothing was tested beside Agave.\n");
        return Ok(());
    }
    if !run::answers(Command::new("unshare").args(["--user", "--map-root-user", "--net", "--", "ip", "link"])) {
        println!("\n!! SKIPPED: there is no network namespace here, or no `ip`. Nothing was tested beside Agave.\n");
        return Ok(());
    }
    let xtask = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut soak = Command::new(xtask);
    soak.args(["soak", "agave", "--scenario", SCENARIOS, "--seconds", SECONDS, "--programs"]).arg(programs);
    run::run(soak.arg("--binary").arg(hearth()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_another_program() {
        assert!(is_version("agave-validator 4.2.2 (src:1da6759f; feat:21b0d33a, client:Agave)\n"));
        assert!(is_version("solana-genesis 4.2.2\n"));
        assert!(!is_version("agave-validator 4.3.0 (src:0)"));
        assert!(!is_version(""));
        assert!(!is_there(Path::new("/nowhere/agave-validator")));
    }

    #[test]
    fn oracle_has_a_name() {
        assert!(build(&[]).unwrap_err().contains("oracle agave"));
        assert!(build(&["agave", "--fast"]).unwrap_err().contains("--fast"));
    }
}
