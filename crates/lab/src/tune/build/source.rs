//! The sources of a project as one number: what is built from other sources is another build.
//!
//! reads   git's list of the files that it tracks or does not ignore, or the folder where there is no git; the same of
//!         dependencies that lie elsewhere on this machine; Cargo's configuration around them
//! writes  a digest of their paths and contents, and the commit
//! memory  a file at a time, and a line for each

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// Characters of a file's digest that are kept.
const SHORT: usize = 16;

/// What there is to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Of all files.
    pub digest: String,
    /// The commit, where there is one.
    pub commit: Option<String>,
    /// Each file with its own, shortened.
    pub files: BTreeMap<String, String>,
}

impl Sources {
    /// The first file that is not as it was, in words.
    pub fn differs(&self, before: &BTreeMap<String, String>) -> Option<String> {
        let names: BTreeSet<&String> = self.files.keys().chain(before.keys()).collect();
        names.into_iter().find_map(|name| match (before.get(name), self.files.get(name)) {
            (Some(was), Some(is)) => (was != is).then(|| format!("`{name}` changed")),
            (None, _) => Some(format!("`{name}` is new")),
            (_, None) => Some(format!("`{name}` is gone")),
        })
    }
}

/// Where sources are.
#[derive(Clone, Debug)]
pub struct Tree {
    project: PathBuf,
    /// Folders of packages that are no registry's.
    local: Vec<PathBuf>,
    without: Vec<PathBuf>,
}

impl Tree {
    /// Of a project and the packages of this machine that it is made of; what is in `without` is no source.
    pub fn new(project: &Path, local: &[PathBuf], without: &[&Path]) -> io::Result<Self> {
        // What is not there yet will be where its folder is.
        let real = |path: &&Path| {
            let path = std::path::absolute(path).ok()?;
            let beside = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
            path.canonicalize().ok().or_else(beside)
        };
        Ok(Self {
            project: project.canonicalize()?,
            local: local.iter().filter_map(|path| path.canonicalize().ok()).collect(),
            without: without.iter().filter_map(real).collect(),
        })
    }

    /// Reads all of it.
    pub fn sources(&self) -> io::Result<Sources> {
        let top = top(&self.project).unwrap_or_else(|| self.project.clone());
        let mut paths = BTreeSet::new();
        self.list(&self.project, &top, &mut paths)?;
        for folder in self.local.iter().filter(|folder| !folder.starts_with(&self.project)) {
            let is_listed = folder.starts_with(&top) && !is_ignored(&top, folder);
            if !is_listed {
                self.list(folder, folder, &mut paths)?;
            }
        }
        // These decide what is built, also where git does not know them.
        for at in self.project.ancestors() {
            let names = ["Cargo.lock", ".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"];
            paths.extend(names.map(|name| at.join(name)).into_iter().filter(|path| path.is_file()));
        }
        let home = env::var_os("CARGO_HOME").map(PathBuf::from);
        if let Some(home) = home.or_else(|| Some(env::home_dir()?.join(".cargo"))) {
            paths.extend(["config.toml", "config"].map(|name| home.join(name)).into_iter().filter(|p| p.is_file()));
        }
        let (mut all, mut files) = (Sha256::new(), BTreeMap::new());
        for path in paths.iter().filter(|path| !self.without.iter().any(|out| path.starts_with(out))) {
            let name = path.strip_prefix(&top).unwrap_or(path);
            all.update(name.as_os_str().as_encoded_bytes());
            all.update([0]);
            // What cannot be read was deleted, or leads nowhere.
            let of = fs::read(path).map_or(String::new(), |bytes| hex(&Sha256::digest(&bytes)));
            all.update(&of);
            files.insert(name.to_string_lossy().into_owned(), of[..SHORT.min(of.len())].to_owned());
        }
        let commit = git(&self.project, &["rev-parse", "HEAD"]).map(line);
        Ok(Sources { digest: hex(&all.finalize()), commit, files })
    }

    /// Lists `within`, which is the folder itself or one that it lies in.
    fn list(&self, folder: &Path, within: &Path, paths: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        let top = top(folder);
        let Some(top) = top.filter(|top| !is_ignored(top, folder)) else {
            return self.walk(folder, true, paths);
        };
        let within = if within.starts_with(&top) { within } else { folder };
        let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = git(within, &arguments).ok_or_else(|| io::Error::other("git does not list its files"))?;
        for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let path = within.join(Path::new(&*String::from_utf8_lossy(name)));
            // Of another repository in this one git says the folder alone.
            if path.is_dir() && !path.is_symlink() {
                match self::top(&path).is_some_and(|top| top == path) {
                    true => self.list(&path, &path, paths)?,
                    false => self.walk(&path, false, paths)?,
                }
            } else {
                paths.insert(path);
            }
        }
        Ok(())
    }

    fn walk(&self, folder: &Path, is_root: bool, paths: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
            let is_made = path.file_name().is_some_and(|name| (name == "target" && is_root) || name == ".git");
            if is_made || self.without.contains(&path) {
                continue;
            }
            if entry?.is_dir() {
                self.walk(&path, false, paths)?;
            } else {
                paths.insert(path);
            }
        }
        Ok(())
    }
}

/// What git prints about a folder, where it has something to say.
fn git(folder: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    // Those would make it look elsewhere.
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let output = command.arg("-C").arg(folder).args(arguments).output().ok()?;
    output.status.success().then_some(output.stdout)
}

fn line(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn top(folder: &Path) -> Option<PathBuf> {
    PathBuf::from(line(git(folder, &["rev-parse", "--show-toplevel"])?)).canonicalize().ok()
}

fn is_ignored(top: &Path, folder: &Path) -> bool {
    top != folder && git(top, &["check-ignore", "-q", &folder.to_string_lossy()]).is_some()
}

/// The machine: what its processor is, and how many cores it has.
pub fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let of = |line: &str| Some(line.strip_prefix(name)?.split_once(':')?.1.trim().to_owned());
        text.lines().find_map(of)
    };
    // x86 says its model, ARM the numbers of maker and part.
    let names = ["model name", "CPU implementer", "CPU part"];
    let model: Vec<String> = names.into_iter().filter_map(field).collect();
    let cores = text.lines().filter(|line| line.starts_with("processor")).count();
    format!("{}, {cores} cores", if model.is_empty() { env::consts::ARCH.into() } else { model.join(" ") })
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

    fn look(project: &Path, local: &[PathBuf], without: &[&Path]) -> Sources {
        Tree::new(project, local, without).and_then(|tree| tree.sources()).expect("read")
    }

    fn has_git(folder: &Path) -> bool {
        git(folder, &["init", "-q"]).is_some()
    }

    #[test]
    fn other_sources_are_another_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["src", "target", "out", "src/target"] {
            fs::create_dir(at(name)).expect("made");
        }
        fs::write(at("src/main.rs"), "fn main() {}").expect("written");
        let look = || look(folder.path(), &[], &[&at("out"), &at("answer.json")]);
        let first = look();
        fs::write(at("target/x"), "made").expect("written");
        fs::write(at("out/results.csv"), "made").expect("written");
        fs::write(at("answer.json"), "{}").expect("written");
        assert_eq!(look(), first);
        fs::write(at("src/target/x.rs"), "").expect("written");
        assert_eq!(
            look().differs(&first.files).as_deref(),
            Some("`src/target/x.rs` is new"),
            "only cargo's own is none"
        );
        fs::remove_file(at("src/target/x.rs")).expect("removed");
        fs::write(at("src/main.rs"), "fn main() { }").expect("written");
        assert_ne!(look().digest, first.digest);
        assert_eq!(look().differs(&first.files).as_deref(), Some("`src/main.rs` changed"));
        fs::write(at("src/main.rs"), "fn main() {}").expect("written");
        assert_eq!((look().digest, look().differs(&first.files)), (first.digest, None));
        if has_git(folder.path()) {
            fs::write(at(".gitignore"), "target\n").expect("written");
            let first = look();
            fs::write(at("target/x"), "made again").expect("written");
            assert_eq!(look(), first, "ignored");
            fs::write(at("new.rs"), "").expect("written");
            assert_ne!(look(), first, "not tracked, not ignored");
        }
    }

    #[test]
    fn what_lies_elsewhere_or_is_ignored_as_a_whole_is_seen_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["outer/app/src", "outer/nested", "library/src"] {
            fs::create_dir_all(at(name)).expect("made");
        }
        let files = ["outer/app/src/main.rs", "outer/nested/a.rs", "library/src/lib.rs"];
        files.iter().for_each(|name| fs::write(at(name), "1").expect("written"));
        fs::write(at("outer/.gitignore"), "app\n").expect("written");
        if !has_git(&at("outer")) || !has_git(&at("outer/nested")) {
            return;
        }
        for (project, changed) in [
            ("outer/app", files[0]),
            ("outer", files[1]),
            ("outer", files[2]),
            ("outer/app", "outer/app/.cargo/config"),
        ] {
            fs::create_dir_all(at("outer/app/.cargo")).expect("made");
            let look = || look(&at(project), &[at("library")], &[]);
            let first = look();
            assert_eq!(look(), first);
            fs::write(at(changed), "2").expect("written");
            assert_ne!(look().digest, first.digest, "{changed} of {project}");
        }
    }

    #[test]
    fn the_machine_has_a_name() {
        assert!(machine().ends_with(" cores") && !machine().starts_with(','), "{}", machine());
    }
}
