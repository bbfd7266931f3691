//! The working tree as the rules see it: text files, and cargo's package metadata.
//!
//! reads   every text file that is not a build output; `cargo metadata --no-deps`
//! memory  the text of the working tree

use std::path::Path;

use serde_json::Value;

use super::code;
use crate::run;

/// Endings of the files that hold text written by people.
const TEXT: [&str; 10] = ["rs", "toml", "md", "mjs", "js", "json", "yml", "sh", "run", "LICENSE"];
/// Ending of the files that pages may show: known by their paths, without a text.
const PICTURE: &str = "png";
/// Folders of build outputs and of other people's code.
const NOT_OURS: [&str; 6] = ["target", "node_modules", ".git", ".hearth", "artifacts", "corpus"];

/// A text file of the working tree.
pub struct File {
    /// From the top of the tree, with `/`.
    pub path: String,
    /// The contents of the file.
    pub text: String,
    /// Rust: its text with comments and literals blanked. Otherwise empty.
    pub code: String,
}

impl File {
    /// Creates a file from its path and contents.
    pub fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { code::blank(text) } else { String::new() };
        Self { path: path.into(), text: text.into(), code }
    }

    /// Whether it is a Rust file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the whole file is tests.
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("/tests/") || name.ends_with("tests.rs")
    }

    /// Returns the line where tests begin, counted from 1: the first line of a test file, or the inner test module.
    pub fn tests_from(&self) -> Option<usize> {
        if self.is_test() {
            return Some(1);
        }
        let lines: Vec<&str> = self.code.lines().map(str::trim).collect();
        let at = lines.windows(2).position(|pair| {
            let test_only = pair[0].starts_with("#[cfg(") && code::words(pair[0], "test").next().is_some();
            test_only && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        });
        at.map(|at| at + 1)
    }

    /// Returns the crate of this file: `ring` for `crates/base/ring/src/lib.rs`, `hearth` for `bin/hearth/build.rs`.
    pub fn krate(&self) -> Option<&str> {
        let in_layer = self.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        let path = in_layer.map(|(_, path)| path).or_else(|| self.path.strip_prefix("bin/"))?;
        path.split_once('/').map(|(name, _)| name)
    }
}

/// One dependency of a package.
pub struct Dependency {
    /// Package name of the dependency.
    pub name: String,
    /// Only for tests, benches and examples.
    pub dev: bool,
}

/// A package of the workspace.
pub struct Package {
    /// Package name, such as `hearth-ring`.
    pub name: String,
    /// Its folder, from the top of the tree, with `/`.
    pub folder: String,
    /// SPDX expression; empty without one.
    pub license: String,
    /// Names of its features.
    pub features: Vec<String>,
    /// Direct dependencies, dev-dependencies included.
    pub dependencies: Vec<Dependency>,
}

impl Package {
    /// Its name in the table: that of its folder.
    pub fn short_name(&self) -> &str {
        short_name(&self.name)
    }

    /// The path of its manifest, from the top of the tree.
    pub fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// Returns the name without the prefix: `ring` for `hearth-ring`.
pub fn short_name(package: &str) -> &str {
    package.strip_prefix("hearth-").unwrap_or(package)
}

/// Everything that is checked.
pub struct Tree {
    /// All text files, sorted by path.
    pub files: Vec<File>,
    /// Packages of the workspace.
    pub packages: Vec<Package>,
}

impl Tree {
    /// Reads the working tree below `root`.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files).map_err(|error| format!("cannot read {}: {error}", root.display()))?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files, packages: workspace()? })
    }

    /// The file at a path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Iterates over all Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }
}

fn read_folder(root: &Path, folder: &str, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        let ending = name.rsplit('.').next().unwrap_or_default();
        if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            read_folder(root, &path, files)?;
        } else if kind.is_file() && TEXT.contains(&ending) {
            files.push(File::new(&path, &String::from_utf8_lossy(&std::fs::read(entry.path())?)));
        } else if kind.is_file() && ending == PICTURE {
            files.push(File::new(&path, ""));
        }
    }
    Ok(())
}

/// The packages of the workspace.
pub fn workspace() -> Result<Vec<Package>, String> {
    packages(&run::output(run::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?)
}

/// Parses the output of `cargo metadata`.
fn packages(metadata: &str) -> Result<Vec<Package>, String> {
    let metadata: Value = serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let top = format!("{}/", text(&metadata["workspace_root"]));
    let folder = |manifest: &Value| {
        let manifest = manifest.as_str().unwrap_or_default();
        let folder = manifest.strip_suffix("/Cargo.toml").unwrap_or(manifest);
        folder.strip_prefix(&top).unwrap_or(folder).to_owned()
    };
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        folder: folder(&package["manifest_path"]),
        license: text(&package["license"]),
        features: package["features"].as_object().into_iter().flat_map(|f| f.keys().cloned()).collect(),
        dependencies: package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|dependency| Dependency { name: text(&dependency["name"]), dev: dependency["kind"] == "dev" })
            .collect(),
    };
    let found: Vec<Package> = metadata["packages"].as_array().into_iter().flatten().map(package).collect();
    if found.is_empty() { Err("cargo metadata names no package".into()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_cargo_is_read() {
        let metadata = r#"{"packages": [{"name": "hearth-tile", "license": "Apache-2.0", "features": {"huge": []},
            "dependencies": [{"name": "hearth-ring", "kind": null}, {"name": "proptest", "kind": "dev"}],
            "manifest_path": "/a/hearth/crates/base/tile/Cargo.toml"}], "workspace_root": "/a/hearth"}"#;
        let packages = packages(metadata).unwrap();
        let [tile] = &packages[..] else { panic!("one package") };
        assert_eq!(tile.folder, "crates/base/tile");
        assert_eq!(tile.manifest(), "crates/base/tile/Cargo.toml");
        assert_eq!(
            (tile.short_name(), &tile.license[..], &tile.features[..]),
            ("tile", "Apache-2.0", &["huge".into()][..])
        );
        let dependencies: Vec<_> = tile.dependencies.iter().map(|d| (&d.name[..], d.dev)).collect();
        assert_eq!(dependencies, [("hearth-ring", false), ("proptest", true)]);
        assert!(super::packages("{}").is_err());
    }

    #[test]
    fn a_file_is_of_the_crate_whose_folder_holds_it() {
        let krate = |path| File::new(path, "").krate().map(str::to_owned);
        assert_eq!(krate("crates/base/ring/src/lib.rs").as_deref(), Some("ring"));
        assert_eq!(krate("crates/lab/load/build.rs").as_deref(), Some("load"));
        assert_eq!(krate("bin/hearth/src/main.rs").as_deref(), Some("hearth"));
        assert_eq!(krate("xtask/src/main.rs"), None);
        assert_eq!(krate("crates/base/lib.rs"), None);
    }

    #[test]
    fn tests_are_distinguished_from_code() {
        let file = |path, text| File::new(path, text);
        assert_eq!(file("crates/base/ring/tests/x.rs", "").tests_from(), Some(1));
        assert_eq!(file("crates/base/ring/src/loom_tests.rs", "").tests_from(), Some(1));
        assert_eq!(file("crates/base/ring/src/a.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n}").tests_from(), Some(2));
        assert_eq!(file("crates/base/ring/src/a.rs", "#[cfg(test)]\nmod tests;\nfn f() {}").tests_from(), None);
        assert_eq!(file("crates/base/ring/src/a.rs", "// #[cfg(test)]\nmod tests {").tests_from(), None);
    }
}
