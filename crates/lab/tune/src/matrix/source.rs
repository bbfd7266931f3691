//! The sources of a project as one digest: a build of other sources is another build.
//!
//! reads   the folder of each local package that the program depends on: the files that git tracks or does not ignore,
//!         or all without git; manifests, locks and Cargo's configuration around them; files that a build reports to
//!         have read elsewhere
//! drops   folders of studies and their specs
//! writes  a digest of their paths and contents, and the commit
//! memory  one file at a time, and a line for each

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::{spec, study_dir};
use crate::run::identity::hex;

/// Characters kept of a file's digest.
const SHORT: usize = 16;

/// The state of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Digest of all files.
    pub digest: String,
    /// The commit, if there is one.
    pub commit: Option<String>,
    /// Each file with its shortened digest.
    pub files: BTreeMap<String, String>,
}

impl Sources {
    /// Describes the first file that differs.
    pub fn differs(&self, before: &BTreeMap<String, String>) -> Option<String> {
        let names: BTreeSet<&String> = self.files.keys().chain(before.keys()).collect();
        names.into_iter().find_map(|name| match (before.get(name), self.files.get(name)) {
            (Some(was), Some(is)) => (was != is).then(|| format!("`{name}` changed")),
            (None, _) => Some(format!("`{name}` is new")),
            (_, None) => Some(format!("`{name}` is gone")),
        })
    }
}

/// The folders that hold the sources of a build.
#[derive(Clone, Debug)]
pub struct Tree {
    project: PathBuf,
    /// Base of the relative names: git's top folder, or the project's.
    top: PathBuf,
    /// Folders of local packages.
    local: Vec<PathBuf>,
    without: Vec<PathBuf>,
}

impl Tree {
    /// The tree of a project and the local packages of its program, without the paths in `without`.
    pub fn new(project: &Path, local: &[PathBuf], without: &[&Path]) -> io::Result<Self> {
        // A file that does not exist yet is resolved by its folder.
        let real = |path: &&Path| {
            let path = std::path::absolute(path).ok()?;
            let beside = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
            path.canonicalize().ok().or_else(beside)
        };
        let project = project.canonicalize()?;
        Ok(Self {
            top: top(&project).unwrap_or_else(|| project.clone()),
            project,
            local: local.iter().filter_map(|path| path.canonicalize().ok()).collect(),
            without: without.iter().filter_map(real).collect(),
        })
    }

    /// Reads and hashes the files of the tree, and the manifests and settings around it.
    pub fn sources(&self) -> io::Result<Sources> {
        let mut paths = BTreeSet::new();
        // Each folder separately: git's answer for one does not cover its neighbours.
        for folder in &self.local {
            self.list(folder, &mut paths)?;
        }
        // These affect the build even if git does not track them. A manifest above a package may be that of its
        // workspace.
        for at in self.project.ancestors().chain(self.local.iter().flat_map(|folder| folder.ancestors())) {
            let names = ["Cargo.toml", "Cargo.lock"];
            paths.extend(names.map(|name| at.join(name)).into_iter().filter(|path| path.is_file()));
        }
        for at in self.project.ancestors() {
            let names = [".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"];
            paths.extend(names.map(|name| at.join(name)).into_iter().filter(|path| path.is_file()));
        }
        if let Some(home) = cargo_home() {
            paths.extend(["config.toml", "config"].map(|name| home.join(name)).into_iter().filter(|p| p.is_file()));
        }
        let (mut all, mut files) = (Sha256::new(), BTreeMap::new());
        for path in paths.iter().filter(|path| !self.is_without(path) && !self.is_of_a_study(path)) {
            let name = self.name(path);
            all.update(name.as_bytes());
            all.update([0]);
            let of = content(path);
            all.update(&of);
            files.insert(name, of[..SHORT.min(of.len())].to_owned());
        }
        let commit = git(&self.project, &["rev-parse", "HEAD"]).map(line);
        Ok(Sources { digest: hex(&all.finalize()), commit, files })
    }

    /// Files that a build read besides the sources, as reported by Cargo, each with its digest; folders are expanded.
    /// Files that the build itself made are left out, and so are git's own files, or each commit would change the
    /// sources.
    pub fn beside(
        &self,
        read: &[PathBuf],
        sources: &Sources,
        begin: SystemTime,
    ) -> io::Result<BTreeMap<PathBuf, String>> {
        let is_gits = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
        let real = read.iter().filter_map(|path| self.project.join(path).canonicalize().ok());
        let mut paths = BTreeSet::new();
        for path in real.filter(|path| !self.is_without(path) && !is_gits(path)) {
            match path.is_dir() {
                true => self.list(&path, &mut paths)?,
                false => drop(paths.insert(path)),
            }
        }
        let is_older = |path: &PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).is_ok_and(|at| at < begin);
        let is_known = |path: &PathBuf| sources.files.contains_key(&self.name(path)) || self.is_without(path);
        let found = paths.into_iter().filter(|path| path.is_file() && !is_known(path) && is_older(path));
        Ok(found.map(|path| (path.clone(), content(&path))).collect())
    }

    fn is_without(&self, path: &Path) -> bool {
        self.without.iter().any(|out| path.starts_with(out))
    }

    /// Whether a file belongs to another study or is its spec: those come and go, and no program depends on them.
    fn is_of_a_study(&self, path: &Path) -> bool {
        let mut folders = path.ancestors().skip(1).take_while(|folder| !self.project.starts_with(folder));
        let is_toml = path.extension().is_some_and(|end| end == "toml");
        folders.any(study_dir::is_a_study) || is_toml && fs::read_to_string(path).is_ok_and(|text| spec::is_one(&text))
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.top).unwrap_or(path).to_string_lossy().into_owned()
    }

    fn list(&self, folder: &Path, paths: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        if top(folder).is_none_or(|top| is_ignored(&top, folder)) {
            return self.walk(folder, true, paths);
        }
        let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = git(folder, &arguments).ok_or_else(|| io::Error::other("git does not list its files"))?;
        for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let path = folder.join(Path::new(&*String::from_utf8_lossy(name)));
            // For a nested repository git lists only the folder.
            if path.is_dir() && !path.is_symlink() {
                match self::top(&path).is_some_and(|top| top == path) {
                    true => self.list(&path, paths)?,
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
            if is_made || self.without.contains(&path) || study_dir::is_a_study(&path) {
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

/// Returns the first file that has changed since a build read it.
pub fn changed(files: &BTreeMap<PathBuf, String>) -> Option<&PathBuf> {
    files.iter().find(|(path, was)| content(path) != **was).map(|(path, _)| path)
}

/// Parses the dependency file that Cargo writes next to a program: all local files that rustc and build scripts read
/// for it.
pub fn listed(text: &str) -> Vec<PathBuf> {
    let Some((_, all)) = text.lines().next().and_then(|line| line.split_once(": ")) else { return Vec::new() };
    // Blanks within a name are escaped with a backslash.
    let all = all.replace("\\ ", "\0");
    all.split(' ').filter(|name| !name.is_empty()).map(|name| name.replace('\0', " ").into()).collect()
}

/// The digest of a file's contents. An unreadable file was deleted, or is a dangling link.
fn content(path: &Path) -> String {
    fs::read(path).map_or(String::new(), |bytes| hex(&Sha256::digest(&bytes)))
}

fn cargo_home() -> Option<PathBuf> {
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")))
}

/// Returns git's output for a folder, if it succeeds.
fn git(folder: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    // These variables would redirect git.
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
        let look = || look(folder.path(), &[folder.path().into()], &[&at("out"), &at("answer.json")]);
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
    fn another_study_beside_is_no_source() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["src", "first.study", "second.study/builds/x", "lock.study"] {
            fs::create_dir_all(at(name)).expect("made");
        }
        fs::write(at("src/main.rs"), "fn main() {}").expect("written");
        let spec = "[matrix]\nlto = [\"thin\"]\n[[workload]]\nrun = \"{bin}\"\n";
        fs::write(at("first.toml"), spec).expect("written");
        let look = || look(folder.path(), &[folder.path().into()], &[&at("first.study")]);
        for has_git in [false, true] {
            if has_git && !self::has_git(folder.path()) {
                return;
            }
            let first = look();
            assert!(!first.files.contains_key("first.toml"), "{first:?}");
            for name in ["second.study/study.json", "second.study/lock", "second.study/builds/x/build.json"] {
                fs::write(at(name), "{}").expect("written");
            }
            fs::write(at("second.toml"), spec.replace("thin", "fat")).expect("written");
            assert_eq!(look().differs(&first.files), None, "git: {has_git}");
            for (name, text) in [("lock.study/a", "1"), ("other.toml", "rounds = 1\nname = 2\n")] {
                fs::write(at(name), text).expect("written");
                assert_eq!(look().differs(&first.files), Some(format!("`{name}` is new")));
                fs::remove_file(at(name)).expect("removed");
            }
            for name in
                ["second.study/study.json", "second.study/lock", "second.study/builds/x/build.json", "second.toml"]
            {
                fs::remove_file(at(name)).expect("removed");
            }
        }
    }

    #[test]
    fn external_and_ignored_folders_are_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let files = ["app/src/main.rs", "nested/a.rs", "beside/src/lib.rs", "../library/src/lib.rs", "docs/a.md"];
        let files = files.map(|name| at("outer").join(name));
        files.iter().for_each(|path| {
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "1").expect("written");
        });
        fs::create_dir_all(at("outer/app/.cargo")).expect("made");
        fs::write(at("outer/.gitignore"), "app\n").expect("written");
        if !has_git(&at("outer")) || !has_git(&at("outer/nested")) {
            return;
        }
        let [main, nested, beside, library, docs] = &files;
        let (config, lock) = (at("outer/app/.cargo/config"), at("outer/Cargo.lock"));
        for (project, changed, is_source) in [
            ("outer/app", main, true),
            ("outer", nested, true),
            ("outer/app", library, true),
            // The project is ignored, but not what is next to it.
            ("outer/app", beside, true),
            ("outer/app", &config, true),
            ("outer/app", &lock, true),
            ("outer/app", docs, false),
            ("outer/app", nested, false),
        ] {
            let look = || look(&at(project), &[at(project), at("outer/beside"), at("library")], &[]);
            let first = look();
            assert_eq!(look(), first);
            fs::write(changed, format!("{is_source} {project}")).expect("written");
            assert_eq!(look().digest != first.digest, is_source, "{} of {project}", changed.display());
        }
    }

    #[test]
    fn external_files_of_a_build_are_sources() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().canonicalize().expect("there").join(name);
        for name in ["app/src/main.rs", "app/.git/HEAD", "out/made.rs", "my docs/a.md", "proto/a/b", "later.rs"] {
            fs::create_dir_all(at(name).parent().expect("a folder")).expect("made");
            fs::write(at(name), "1").expect("written");
        }
        let root = at("").display().to_string();
        let text = format!(
            "{root}app: {root}app/src/main.rs {root}app/.git/HEAD {root}out/made.rs {root}my\\ docs/a.md {root}later.rs \
             {root}proto {root}gone\n\n{root}other: {root}x\n"
        );
        let read = listed(&text);
        assert_eq!((read.len(), &read[3]), (7, &at("my docs/a.md")));
        let tree = Tree::new(&at("app"), &[at("app")], &[&at("out")]).expect("there");
        let sources = tree.sources().expect("read");
        let hour = std::time::Duration::from_secs(3_600);
        let later = fs::File::options().write(true).open(at("later.rs")).expect("there");
        later.set_modified(SystemTime::now() + 2 * hour).expect("set");
        let found = tree.beside(&read, &sources, SystemTime::now() + hour).expect("read");
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            [&at("my docs/a.md"), &at("proto/a/b")],
            "and what the build made is none"
        );
        assert_eq!(changed(&found), None);
        fs::write(at("my docs/a.md"), "2").expect("written");
        assert_eq!(changed(&found), Some(&at("my docs/a.md")));
        assert_eq!(listed("nothing"), [PathBuf::new(); 0]);
    }
}
