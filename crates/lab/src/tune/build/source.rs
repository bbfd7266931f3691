//! The sources of a project as one number: what is built from other sources is another build.
//!
//! reads   git's list of the files that it tracks or does not ignore, or the folder where there is no git
//! writes  a digest of their paths and contents, and the commit
//! memory  a file at a time

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// What there is to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Of all files.
    pub digest: String,
    /// The commit, where there is one.
    pub commit: Option<String>,
}

/// Looks at a project; files in `without` are none of its sources.
pub fn sources(project: &Path, without: &[&Path]) -> io::Result<Sources> {
    let project = project.canonicalize()?;
    let without: Vec<PathBuf> = without.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let git = |arguments: &[&str]| -> Option<Vec<u8>> {
        let output = Command::new("git").arg("-C").arg(&project).args(arguments).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let line = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    let top = git(&["rev-parse", "--show-toplevel"]).map(|bytes| PathBuf::from(line(bytes)));
    let mut paths = BTreeSet::new();
    match &top {
        Some(top) => {
            let top_text = top.to_string_lossy();
            let list = ["-C", &top_text, "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
            let listed = git(&list).ok_or_else(|| io::Error::other("git does not list its files"))?;
            paths.extend(
                listed
                    .split(|byte| *byte == 0)
                    .filter(|name| !name.is_empty())
                    .map(|name| top.join(Path::new(&*String::from_utf8_lossy(name)))),
            );
            // It decides what is built, also where git does not know it.
            paths.extend(project.ancestors().take_while(|at| at.starts_with(top)).map(|at| at.join("Cargo.lock")));
        }
        None => walk(&project, &without, &mut paths)?,
    }
    let mut all = Sha256::new();
    for path in paths.iter().filter(|path| !without.iter().any(|out| path.starts_with(out))) {
        all.update(path.strip_prefix(top.as_ref().unwrap_or(&project)).unwrap_or(path).as_os_str().as_encoded_bytes());
        all.update([0]);
        match fs::read(path) {
            Ok(bytes) => all.update(Sha256::digest(&bytes)),
            // It was deleted, or is a folder of another repository.
            Err(_) => all.update([1]),
        }
    }
    Ok(Sources { digest: hex(&all.finalize()), commit: git(&["rev-parse", "HEAD"]).map(line) })
}

fn walk(folder: &Path, without: &[PathBuf], paths: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let is_made = path.file_name().is_some_and(|name| name == "target" || name == ".git");
        if is_made || without.contains(&path) {
            continue;
        }
        if entry?.is_dir() {
            walk(&path, without, paths)?;
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}

/// The digest of a file.
pub fn digest(path: &Path) -> io::Result<String> {
    let mut all = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut all)?;
    Ok(hex(&all.finalize()))
}

/// A digest of texts, none of which runs into the next.
pub fn digest_of(parts: &[&str]) -> String {
    let mut all = Sha256::new();
    for part in parts {
        all.update((part.len() as u64).to_le_bytes());
        all.update(part);
    }
    hex(&all.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sources_are_another_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["src", "target", "out"] {
            fs::create_dir(at(name)).expect("made");
        }
        fs::write(at("src/main.rs"), "fn main() {}").expect("written");
        let look = || sources(folder.path(), &[&at("out")]).expect("read").digest;
        let first = look();
        fs::write(at("target/x"), "made").expect("written");
        fs::write(at("out/results.csv"), "made").expect("written");
        assert_eq!(look(), first);
        fs::write(at("src/main.rs"), "fn main() { }").expect("written");
        assert_ne!(look(), first);
        fs::write(at("src/main.rs"), "fn main() {}").expect("written");
        assert_eq!(look(), first);
        let git = |arguments: &[&str]| Command::new("git").arg("-C").arg(folder.path()).args(arguments).output();
        if git(&["init", "-q"]).is_ok_and(|output| output.status.success()) {
            fs::write(at(".gitignore"), "target\n").expect("written");
            let first = look();
            fs::write(at("target/x"), "made again").expect("written");
            assert_eq!(look(), first, "ignored");
            fs::write(at("new.rs"), "").expect("written");
            assert_ne!(look(), first, "not tracked, not ignored");
        }
    }
}
