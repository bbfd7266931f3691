//! Passes the commit to the binary, if git knows it, with whether the source matches that commit and how it is
//! optimized.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Inputs of the binary, relative to the top of the repository.
const SOURCE: [&str; 6] = [
    ":(top,glob)bin/*/src/**",
    ":(top,glob)bin/*/Cargo.toml",
    ":(top,glob)crates/*/*/src/**",
    ":(top,glob)crates/*/*/Cargo.toml",
    ":/Cargo.toml",
    ":/Cargo.lock",
];

/// Lists the entries of a folder.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn main() {
    let git = |args: &[&str]| {
        // A status query must not take git's index lock, on which another git command would fail.
        let output = Command::new("git").arg("--no-optional-locks").args(args).output();
        let output = output.ok().filter(|output| output.status.success());
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changed = git(&[&["status", "--porcelain", "--"][..], &SOURCE].concat());
    let dirty = if changed.is_empty() { "" } else { "-dirty" };
    println!("cargo::rustc-env=HEARTH_COMMIT={commit}{dirty}");
    // Scores of a machine compare only with those of programs that are optimized as well.
    println!("cargo::rustc-env=HEARTH_OPT_LEVEL={}", std::env::var("OPT_LEVEL").unwrap_or_default());
    for path in ["HEAD", "refs/heads"] {
        let path = git(&["rev-parse", "--git-path", path]);
        if !path.is_empty() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // Any change to these files rebuilds the binary.
    let top = Path::new("../..");
    let crates = entries(&top.join("crates")).flat_map(|layer| entries(&layer)).chain(entries(&top.join("bin")));
    let source = crates.flat_map(|folder| [folder.join("src"), folder.join("Cargo.toml")]);
    let source = source.chain(["Cargo.toml", "Cargo.lock"].map(|name| top.join(name)));
    for path in source.filter(|path| path.exists() && !path.starts_with(top.join("crates/base/testkit"))) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
