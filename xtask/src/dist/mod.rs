//! `cargo xtask dist`: one archive with what an installation needs.
//!
//! reads   the program, `cargo metadata`, the files under `packaging/`
//! writes  `dist/hearth-VERSION-TARGET.tar.zst` and its checksum, in the folder of build outputs
//! memory  the metadata, a script of completions
//!
//! The archive unpacks over `/usr/local`. Its times are those of the commit, so that the same build makes the same
//! archive.

mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::run::{self, Args, cargo, output, target_dir};

/// Completions: the shell, and where it looks for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/hearth"),
    ("zsh", "share/zsh/site-functions/_hearth"),
    ("fish", "share/fish/vendor_completions.d/hearth.fish"),
];
/// Files of the repository, and their places in the archive.
const COPIED: [(&str, &str); 4] = [
    ("LICENSE", "share/doc/hearth/LICENSE"),
    ("README.md", "share/doc/hearth/README.md"),
    ("docs/install.md", "share/doc/hearth/install.md"),
    ("packaging/hearth.service", "lib/systemd/system/hearth.service"),
];
const MAN: &str = "share/man/man1";
const SBOM: &str = "share/doc/hearth/sbom.cdx.json";
const CHECKSUMS: &str = "SHA256SUMS";

/// `cargo xtask dist [--binary FILE]`
pub fn run(args: &[&str]) -> Result<(), String> {
    let mut args = Args::new(args);
    let binary = args.value("--binary")?;
    args.end()?;
    for program in ["tar", "zstd", "sha256sum"] {
        if !run::answers(Command::new(program).arg("--version")) {
            return Err(format!("{program} is missing: `apt-get install tar zstd coreutils` has all that is needed"));
        }
    }
    let target = target()?;
    let bill = sbom::of(&metadata(&target)?, "hearth")?;
    let binary = if binary.is_some() { run::hearth(binary)? } else { production()? };
    let version = output(Command::new(&binary).arg("--version"))?;
    let version = version.split_whitespace().nth(1).ok_or("`hearth --version` names no version")?;
    let (place, name) = (target_dir().join("dist"), format!("hearth-{version}-{target}"));
    let folder = place.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    }
    fill(&folder, &binary, &bill)?;
    write_checksums(&folder)?;
    let archive = pack(&place, &name)?;
    println!("wrote {}", archive.display());
    Ok(())
}

/// Checks what an archive would hold: that each command has a page, and that the checksums are those of the files.
pub fn check(binary: &Path) -> Result<(), String> {
    let folder = run::TempFolder::new("dist-check")?;
    let bill = sbom::of(&metadata(&target()?)?, "hearth")?;
    fill(folder.path(), binary, &bill)?;
    for page in ["hearth.1", "hearth-run.1", "hearth-evm-run.1"] {
        if !folder.path().join(MAN).join(page).exists() {
            return Err(format!("`hearth man` did not write {page}"));
        }
    }
    write_checksums(folder.path())?;
    run::run(Command::new("sha256sum").args(["--check", "--quiet", CHECKSUMS]).current_dir(folder.path()))
}

/// Builds the program as it should be installed.
fn production() -> Result<PathBuf, String> {
    run::run(cargo().args(["build", "--profile", "production", "--locked", "--package", "hearth"]))?;
    Ok(target_dir().join("production/hearth"))
}

/// The target that the compiler builds for where none is named.
fn target() -> Result<String, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or("`rustc -vV` names no host".into())
}

fn metadata(target: &str) -> Result<Value, String> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]))?;
    serde_json::from_str(&text).map_err(|why| format!("`cargo metadata`: {why}"))
}

/// Writes all files but the checksums.
fn fill(folder: &Path, binary: &Path, bill: &Value) -> Result<(), String> {
    copy(binary, &folder.join("bin/hearth"))?;
    for (shell, place) in COMPLETIONS {
        write(&folder.join(place), &output(Command::new(binary).args(["completions", shell]))?)?;
    }
    output(Command::new(binary).arg("man").arg(folder.join(MAN)))?;
    for (from, to) in COPIED {
        copy(&run::root().join(from), &folder.join(to))?;
    }
    write(&folder.join(SBOM), &format!("{bill:#}\n"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = make_folder_of(to).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let written = make_folder_of(path).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn make_folder_of(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Writes the SHA-256 of each file, as `sha256sum --check` reads it.
fn write_checksums(folder: &Path) -> Result<(), String> {
    let mut files = vec![];
    add_files(folder, Path::new(""), &mut files).map_err(|error| format!("{}: {error}", folder.display()))?;
    files.sort();
    let sums = output(Command::new("sha256sum").arg("--").args(files).current_dir(folder))?;
    write(&folder.join(CHECKSUMS), &sums)
}

/// Adds the files of a folder, by their paths below `top`.
fn add_files(top: &Path, below: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(top.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => add_files(top, &path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// Packs the folder, and writes the archive's checksum beside it.
fn pack(place: &Path, name: &str) -> Result<PathBuf, String> {
    let time = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(run::root()))?;
    let archive = format!("{name}.tar.zst");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]).current_dir(place);
    tar.arg(format!("--mtime=@{}", time.trim())).args(["--use-compress-program", "zstd -12", "--file", &archive, name]);
    run::run(&mut tar)?;
    let sum = output(Command::new("sha256sum").arg(&archive).current_dir(place))?;
    write(&place.join(format!("{archive}.sha256")), &sum)?;
    Ok(place.join(archive))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn checksums_name_every_file() {
        let folder = run::TempFolder::new("dist").unwrap();
        // It prints its arguments, as hearth prints completions.
        fill(folder.path(), Path::new("/bin/echo"), &json!({ "bomFormat": "CycloneDX" })).unwrap();
        write_checksums(folder.path()).unwrap();
        let sums = fs::read_to_string(folder.path().join(CHECKSUMS)).unwrap();
        let places = COMPLETIONS.iter().chain(&COPIED).map(|(_, place)| *place);
        for place in places.chain(["bin/hearth", SBOM]) {
            assert_eq!(sums.lines().filter(|line| line.ends_with(&format!("  {place}"))).count(), 1, "{place}: {sums}");
        }
        let check = || {
            let mut command = Command::new("sha256sum");
            run::answers(command.args(["--check", "--quiet", CHECKSUMS]).current_dir(folder.path()))
        };
        assert!(check());
        fs::write(folder.path().join(SBOM), "changed").unwrap();
        assert!(!check(), "a changed file is found");
    }
}
