//! Finds and calls Cargo, rustc and LLVM's tools.
//!
//! reads   `cargo metadata`, `rustc -vV`, versions of LLVM's tools
//! writes  commands
//!
//! Flags are passed by `CARGO_ENCODED_RUSTFLAGS` together with `--target`, so that build scripts and macros do not get
//! them, and every build has exactly the study's flags. Variables that were set for another build are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::spec::Spec;
use crate::options::{Key, Options};

/// LLVM tools up to this many versions newer than rustc's still read its output.
const NEWER_AT_MOST: u32 = 4;

/// Variables that were set for another build than the study's. `cargo run` sets the toolchain of the program it runs,
/// which is not the project's.
const OURS: [&str; 12] = [
    "CARGO",
    "RUSTFLAGS",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_BOOTSTRAP",
    "RUST_RECURSION_COUNT",
    "RUSTUP_TOOLCHAIN",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
];

/// The program to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of its package.
    pub package: String,
    /// Name of the binary.
    pub bin: String,
    /// Folders of the local packages that it depends on.
    pub local: Vec<PathBuf>,
    /// The workspace's root, whose manifest contains the profiles.
    pub root: PathBuf,
}

/// An installed toolchain: its name, versions and place.
#[derive(Clone, Debug)]
pub struct Toolchain {
    name: Option<String>,
    /// The output of `rustc -vV`.
    pub version: String,
    /// Triple of the machine it runs on, as `rustc -vV` prints it.
    pub host: String,
    /// The major version of its LLVM.
    pub llvm: u32,
    sysroot: PathBuf,
}

impl Toolchain {
    /// Finds a toolchain by its name; without a name, the project's own.
    pub fn find(name: Option<&str>, project: &Path) -> Result<Self, String> {
        let mut found = Self {
            name: name.map(str::to_owned),
            version: String::new(),
            host: String::new(),
            llvm: 0,
            sysroot: PathBuf::new(),
        };
        found.version = output_of(found.command("rustc", project).arg("-vV")).map_err(|why| match name {
            Some(name) => format!("toolchain `{name}` is not installed (`rustup toolchain install {name}`): {why}"),
            None => format!("rustc does not run: {why}"),
        })?;
        let field = |key: &str| found.version.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let host = field("host:").ok_or("rustc does not say for which machine it is")?.to_owned();
        let llvm = field("LLVM version:").and_then(|text| text.split('.').next()?.parse().ok()).unwrap_or(0);
        let sysroot = output_of(found.command("rustc", project).args(["--print", "sysroot"]))?.trim().into();
        (found.host, found.llvm, found.sysroot) = (host, llvm, sysroot);
        Ok(found)
    }

    /// Returns a command for this toolchain's `cargo` or `rustc`.
    pub fn command(&self, program: &str, project: &Path) -> Command {
        let mut command = match &self.name {
            None => Command::new(program),
            Some(name) => {
                let mut command = Command::new("rustup");
                command.args(["run", name, program]);
                command
            }
        };
        without_ours(&mut command);
        command.current_dir(project);
        command
    }

    /// Returns the version line of the system's linker; empty if there is none.
    pub fn linker(&self) -> String {
        output_of(Command::new("cc").arg("--version")).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
    }

    /// Returns an LLVM tool's path and version; empty if it is missing.
    pub fn tool_version(&self, tool: &str) -> String {
        let Ok(path) = self.llvm_tool(tool) else { return String::new() };
        format!("{} {}", path.display(), output_of(Command::new(&path).arg("--version")).unwrap_or_default())
    }

    /// Finds an LLVM tool of rustc's version or slightly newer.
    pub fn llvm_tool(&self, tool: &str) -> Result<PathBuf, String> {
        let own = self.sysroot.join("lib/rustlib").join(&self.host).join("bin").join(tool);
        let versions = self.llvm..=self.llvm + NEWER_AT_MOST;
        let mut candidates = vec![own];
        for version in versions.clone() {
            candidates.push(format!("/usr/lib/llvm-{version}/bin/{tool}").into());
            candidates.extend(on_path(&format!("{tool}-{version}")));
        }
        candidates.extend(on_path(tool).filter(|path| version(path).is_some_and(|major| versions.contains(&major))));
        candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
            let llvm = self.llvm;
            match tool {
                "llvm-profdata" => format!(
                    "`pgo` needs llvm-profdata of LLVM {llvm}: `rustup component add llvm-tools`, or on Debian \
                     `apt install llvm-{llvm}`"
                ),
                _ => format!("`bolt` needs {tool} of LLVM {llvm}: on Debian `apt install bolt-{llvm}`"),
            }
        })
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn version(tool: &Path) -> Option<u32> {
    let text = output_of(Command::new(tool).arg("--version")).ok()?;
    text.split("version ").nth(1)?.split('.').next()?.trim().parse().ok()
}

/// Returns a command's output, or why it failed, in one line.
fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|why| why.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(text.lines().find(|line| line.starts_with("error")).unwrap_or(text.trim()).to_owned())
}

/// Removes variables from a command's environment that would affect a build.
fn without_ours(command: &mut Command) {
    let stays = ["CARGO_HOME", "CARGO_HTTP", "CARGO_NET", "CARGO_REGISTR", "CARGO_TERM"];
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_") && !stays.iter().any(|stay| text.starts_with(stay)) {
            command.env_remove(&name);
        }
    }
    for name in OURS {
        command.env_remove(name);
    }
}

/// Finds the program that a spec means. Creates Cargo.lock if it is missing, as a build would.
pub fn program(spec: &Spec) -> Result<Program, String> {
    let mut command = Command::new("cargo");
    without_ours(&mut command);
    command.current_dir(&spec.project).args(["metadata", "--format-version", "1"]);
    let text = output_of(&mut command).map_err(|why| format!("cargo says of {}: {why}", spec.project.display()))?;
    let all: Value = serde_json::from_str(&text).map_err(|why| format!("cargo metadata: {why}"))?;
    let none = Vec::new();
    let list = |value: &'_ Value| -> Vec<Value> { value.as_array().unwrap_or(&none).clone() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let defaults: Vec<String> = list(&all["workspace_default_members"]).iter().map(text).collect();
    let members: Vec<String> = list(&all["workspace_members"]).iter().map(text).collect();
    let mut found = Vec::new();
    for package in list(&all["packages"]).into_iter().filter(|package| members.contains(&text(&package["id"]))) {
        let is_meant = match &spec.package {
            Some(name) => package["name"] == name.as_str(),
            None => spec.bin.is_some() || defaults.is_empty() || defaults.contains(&text(&package["id"])),
        };
        let preferred = package["default_run"].as_str();
        let is_bin = |target: &Value| list(&target["kind"]).iter().any(|kind| kind == "bin");
        for target in list(&package["targets"]).iter().filter(|target| is_meant && is_bin(target)) {
            let bin = text(&target["name"]);
            let wanted = spec.bin.as_deref().or(preferred);
            if wanted.is_none_or(|wanted| wanted == bin) {
                let local = local(&all, &text(&package["id"]));
                let root = text(&all["workspace_root"]).into();
                found.push(Program { package: text(&package["name"]), bin, local, root });
            }
        }
    }
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(format!("{} has no such binary to build: see `package` and `bin`", spec.project.display())),
        many => {
            let names: Vec<&str> = many.iter().map(|one| one.bin.as_str()).collect();
            Err(format!("say with `bin` which binary is meant: {}", names.join(", ")))
        }
    }
}

/// Folders of the local packages that a package depends on, with whatever features: its own, and the dependencies of it
/// and of its build scripts. A package outside the workspace is listed because some member needs it, so it is kept;
/// patches are among these.
fn local(all: &Value, root: &str) -> Vec<PathBuf> {
    let none = Vec::new();
    let list = |value: &'_ Value| -> Vec<Value> { value.as_array().unwrap_or(&none).clone() };
    let packages = list(&all["packages"]);
    let members = list(&all["workspace_members"]);
    let folder = |package: &Value| Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned());
    let is_local = |package: &&Value| package["source"].is_null();
    // From the manifests, which also list dependencies that no feature enables; and from the resolution, which knows
    // patches.
    let mut known = BTreeMap::new();
    for package in packages.iter().filter(is_local) {
        let is_built = |one: &&Value| one["kind"] != "dev";
        let by_path = list(&package["dependencies"]);
        let mut paths: Vec<PathBuf> =
            by_path.iter().filter(is_built).filter_map(|one| one["path"].as_str().map(PathBuf::from)).collect();
        let nodes = list(&all["resolve"]["nodes"]);
        let node = nodes.iter().find(|node| node["id"] == package["id"]);
        for dependency in node.map(|node| list(&node["deps"])).unwrap_or_default() {
            if list(&dependency["dep_kinds"]).iter().any(|one| is_built(&one)) {
                let of = packages.iter().filter(is_local).find(|one| one["id"] == dependency["pkg"]);
                paths.extend(of.and_then(folder));
            }
        }
        known.extend(folder(package).map(|folder| (folder, paths)));
    }
    let starts = packages.iter().filter(is_local);
    let starts = starts.filter(|package| package["id"] == root || !members.contains(&package["id"]));
    let mut open: Vec<PathBuf> = starts.filter_map(folder).collect();
    let mut found = BTreeSet::new();
    while let Some(folder) = open.pop() {
        if found.insert(folder.clone()) {
            open.extend(known.get(&folder).into_iter().flatten().cloned());
        }
    }
    found.into_iter().collect()
}

/// One call of Cargo that makes a build.
pub struct Call<'a> {
    /// Spec that names more arguments and flags.
    pub spec: &'a Spec,
    /// The program to build.
    pub program: &'a Program,
    /// The toolchain to use.
    pub toolchain: &'a Toolchain,
    /// Options of the build.
    pub options: &'a Options,
    /// Folder for Cargo's output, given as `--target-dir`.
    pub target: &'a Path,
    /// Flags for rustc in addition to those of the options.
    pub flags: &'a [String],
    /// Flags for rustc for the program alone, not for its dependencies.
    pub last: &'a [String],
}

impl Call<'_> {
    /// Returns the command. It prints JSON that names the executable.
    pub fn command(&self) -> Command {
        let mut command = self.toolchain.command("cargo", &self.spec.project);
        command.env("CARGO_ENCODED_RUSTFLAGS", self.rustflags().join("\u{1f}"));
        // A configured compiler cache would make repeated builds look cheap.
        command.env("RUSTC_WRAPPER", "");
        command.args(self.arguments());
        command
    }

    fn rustflags(&self) -> Vec<String> {
        let mut flags = self.spec.rustflags.clone();
        flags.extend(self.options.get(Key::TargetCpu).map(|cpu| format!("-Ctarget-cpu={cpu}")));
        let more = self.options.get(Key::Rustflags).unwrap_or_default();
        flags.extend(more.split_whitespace().map(str::to_owned));
        flags.extend_from_slice(self.flags);
        flags
    }

    fn arguments(&self) -> Vec<String> {
        let profile = self.options.get(Key::Profile).unwrap_or(&self.spec.profile);
        let Program { package, bin, .. } = self.program;
        let mut all: Vec<String> = ["rustc", "--message-format", "json-render-diagnostics", "--package", package]
            .into_iter()
            .chain(["--bin", bin, "--profile", profile, "--target", &self.toolchain.host, "--target-dir"])
            .map(str::to_owned)
            .collect();
        all.push(self.target.to_string_lossy().into_owned());
        let mut config = |key: &str, value: String| {
            all.extend(["--config".into(), format!("profile.{profile}.{key}={value}")]);
        };
        for (key, value) in self.options.iter() {
            let is_bare = value.parse::<u32>().is_ok() || value == "false";
            match key {
                Key::OptLevel | Key::CodegenUnits | Key::Lto if is_bare => config(key.name(), value.into()),
                Key::OptLevel | Key::Lto | Key::Panic => config(key.name(), format!("\"{value}\"")),
                // BOLT needs the symbols.
                Key::Bolt => config("strip", "\"none\"".into()),
                _ => {}
            }
        }
        let mut features: Vec<&str> = self.options.get(Key::Features).into_iter().collect();
        let allocator = self.options.get(Key::Allocator).and_then(|name| self.spec.allocators.get(name));
        features.extend(allocator.map(String::as_str));
        if !features.is_empty() {
            all.extend(["--features".into(), features.join(" ")]);
        }
        all.extend(self.spec.cargo.iter().cloned());
        if !self.last.is_empty() {
            all.push("--".into());
            all.extend_from_slice(self.last);
        }
        all
    }

    /// Returns the path of the executable, from cargo's output.
    pub fn executable(&self, printed: &str) -> Option<PathBuf> {
        let messages = printed.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut ours = messages.filter(|message| message["target"]["name"] == self.program.bin.as_str());
        ours.find_map(|message| message["executable"].as_str().map(PathBuf::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_arguments() {
        let text = "rustflags = [\"-Cforce-frame-pointers=yes\"]\ncargo = [\"--locked\"]\n[allocators]\nmimalloc = \"mi\"\n\
            [[include]]\ntarget-cpu = \"native\"\nlto = false\nopt-level = \"s\"\ncodegen-units = 1\npanic = \"abort\"\n\
            allocator = \"mimalloc\"\nfeatures = \"a\"\nrustflags = \"-Cx -Cy\"\nbolt = true\nprofile = \"fast\"\n";
        let spec = Spec::read(text, Path::new("study.toml")).expect("fine");
        let toolchain = Toolchain::find(None, Path::new(".")).expect("one that builds this");
        let options = spec.matrix.expand().remove(0);
        let program = Program { package: "app".into(), bin: "tool".into(), local: Vec::new(), root: PathBuf::new() };
        let call = Call {
            spec: &spec,
            program: &program,
            toolchain: &toolchain,
            options: &options,
            target: Path::new("/t"),
            flags: &["-Cz".into()],
            last: &["-Clink-arg=-Wl,-q".into()],
        };
        assert_eq!(call.rustflags(), ["-Cforce-frame-pointers=yes", "-Ctarget-cpu=native", "-Cx", "-Cy", "-Cz"]);
        let command = call.command();
        let set: Vec<_> = command.get_envs().collect();
        for name in ["RUSTUP_TOOLCHAIN", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_BOOTSTRAP", "GIT_DIR", "GIT_WORK_TREE"] {
            assert!(set.contains(&(name.as_ref(), None)), "{name} is taken out");
        }
        assert!(set.contains(&("RUSTC_WRAPPER".as_ref(), Some("".as_ref()))), "no cache of others");
        let all = call.arguments().join(" ");
        for part in [
            "rustc --message-format json-render-diagnostics --package app --bin tool --profile fast --target ",
            "--target-dir /t --config profile.fast.opt-level=\"s\" --config profile.fast.codegen-units=1 \
             --config profile.fast.lto=false --config profile.fast.panic=\"abort\" --config profile.fast.strip=\"none\"",
            "--features a mi --locked -- -Clink-arg=-Wl,-q",
        ] {
            assert!(all.contains(part), "`{part}` is not in: {all}");
        }
        let printed =
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"tool\"},\"executable\":\"/t/tool\"}\n{}\n";
        assert_eq!(call.executable(printed), Some("/t/tool".into()));
        assert_eq!(call.executable("error\n"), None);
    }

    #[test]
    fn the_packages_of_a_program_are_those_that_it_is_built_of() {
        let package = |name: &str, dependencies: Value| {
            serde_json::json!({ "id": name, "source": null, "manifest_path": format!("/w/{name}/Cargo.toml"),
                "dependencies": dependencies })
        };
        let on = |name: &str, kind: Option<&str>| serde_json::json!({ "path": format!("/w/{name}"), "kind": kind });
        let all = serde_json::json!({
            "packages": [
                package("app", serde_json::json!([on("core", None), on("gen", Some("build")), on("kit", Some("dev"))])),
                package("core", serde_json::json!([on("feature", None), { "path": null, "kind": null }])),
                package("gen", serde_json::json!([])),
                package("kit", serde_json::json!([])),
                package("chores", serde_json::json!([on("core", None)])),
                package("patched", serde_json::json!([])),
                { "id": "crates", "source": "registry", "manifest_path": "/r/Cargo.toml", "dependencies": [] },
                package("linked", serde_json::json!([])),
            ],
            "workspace_members": ["app", "core", "gen", "kit", "chores", "linked"],
            "resolve": { "nodes": [{ "id": "core", "deps": [
                { "pkg": "linked", "dep_kinds": [{ "kind": null }] }, { "pkg": "kit", "dep_kinds": [{ "kind": "dev" }] },
            ] }] },
        });
        let found = local(&all, "app");
        let wanted = ["app", "core", "feature", "gen", "linked", "patched"].map(|name| Path::new("/w").join(name));
        assert_eq!(found, wanted);
    }

    #[test]
    fn missing_tool_is_named_with_its_install_command() {
        let wrong = Toolchain::find(Some("1.2.3-none"), Path::new(".")).expect_err("none");
        assert!(wrong.contains("toolchain `1.2.3-none` is not installed") || wrong.contains("rustup"), "{wrong}");
        let mut toolchain = Toolchain::find(None, Path::new(".")).expect("one that builds this");
        toolchain.llvm = 900;
        toolchain.sysroot = "/nowhere".into();
        let said = toolchain.llvm_tool("llvm-profdata").expect_err("not yet");
        assert!(said.contains("rustup component add llvm-tools") && said.contains("llvm-900"), "{said}");
        assert!(toolchain.llvm_tool("llvm-bolt").expect_err("not yet").contains("bolt-900"));
    }
}
