//! Programs that the chores call, and folders that they use.
//!
//! reads   `CARGO`, `CARGO_TARGET_DIR`
//! writes  folders under the system's folder for temporary files, removed when dropped
//! memory  one line of a program's output at a time

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The top of the working tree.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask is a folder of the repository").to_path_buf()
}

/// Returns the folder that cargo builds into, benches and binary included, so that nothing is built twice.
pub fn target_dir() -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty());
    given.map_or_else(|| root().join("target"), PathBuf::from)
}

/// Cargo in the working tree, with its outputs in [`target_dir`].
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("CARGO_TARGET_DIR", target_dir());
    without_package(&mut command);
    command
}

/// Removes the variables that `cargo run` sets for xtask: build scripts that read them would rerun and recompile.
fn without_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

/// Cargo of the nightly toolchain, through rustup: only rustup understands `+nightly`.
pub fn cargo_nightly() -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").current_dir(root()).env("CARGO_TARGET_DIR", target_dir().join("nightly"));
    without_package(&mut command);
    command
}

/// A command as a person would type it.
pub fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}

/// Whether a program is there and answers.
pub fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Runs a command to completion; `Err` says what failed.
pub fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {}", shown(command));
    let status = command.status().map_err(|error| format!("cannot start `{}`: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", shown(command))) }
}

/// Runs a command, shows its standard output and hands each line of it to `see`.
pub fn run_seeing(command: &mut Command, mut see: impl FnMut(&str)) -> Result<(), String> {
    let name = shown(command);
    println!("$ {name}");
    let cannot = |error| format!("cannot run `{name}`: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(cannot)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        see(text.trim_end());
        line.clear();
    }
    let status = child.wait().map_err(cannot)?;
    if status.success() { Ok(()) } else { Err(format!("`{name}` failed: {status}")) }
}

/// Returns a random seed for runs that name none, in the lower half of the range so that seeds can be counted up from
/// it.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(0) >> 1
}

/// Returns a command's standard output if it succeeds.
pub fn output(command: &mut Command) -> Result<String, String> {
    let name = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot start `{name}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{name}` failed: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{name}` wrote something other than text"))
}

/// The release binary, built now, or the one that `--binary FILE` names.
pub fn hearth(given: Option<&str>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return std::fs::canonicalize(path).map_err(|error| format!("--binary {path}: {error}"));
    }
    run(cargo().args(["build", "--release", "--locked", "--package", "hearth"]))?;
    Ok(target_dir().join("release/hearth"))
}

/// A folder for temporary files, removed with all it holds when dropped.
pub struct TempFolder(PathBuf);

impl TempFolder {
    /// A new, empty folder.
    pub fn new(what: &str) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hearth-{what}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // Nothing depends on it: the system cleans up leftovers in its temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Takes `--name VALUE` or the switch `--name` out of arguments.
pub struct Args<'a>(Vec<&'a str>);

impl<'a> Args<'a> {
    /// Starts parsing these arguments.
    pub fn new(args: &[&'a str]) -> Self {
        Self(args.to_vec())
    }

    /// The value of an option.
    pub fn value(&mut self, name: &str) -> Result<Option<&'a str>, String> {
        let Some(at) = self.0.iter().position(|arg| *arg == name) else { return Ok(None) };
        self.0.remove(at);
        if at < self.0.len() { Ok(Some(self.0.remove(at))) } else { Err(format!("{name} needs a value")) }
    }

    /// The number that an option gives, or `default`.
    pub fn number(&mut self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.value(name)? else { return Ok(default) };
        text.parse().ok().filter(|n| *n > 0).ok_or(format!("{name} {text}: expected a whole number above 0"))
    }

    /// Whether a switch is there.
    pub fn switch(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|arg| *arg != name);
        self.0.len() < before
    }

    /// Takes the first argument that is not an option.
    pub fn first(&mut self) -> Option<&'a str> {
        let at = self.0.iter().position(|arg| !arg.starts_with("--"))?;
        Some(self.0.remove(at))
    }

    /// The arguments that are left.
    pub fn rest(&self) -> &[&'a str] {
        &self.0
    }

    /// Fails if an argument is left over.
    pub fn end(self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |arg| Err(format!("unknown argument {arg}; see `cargo xtask help`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_once_and_the_rest_is_refused() {
        let mut args = Args::new(&["--minutes", "3", "--check", "--what"]);
        assert_eq!(args.number("--minutes", 1), Ok(3));
        assert_eq!(args.number("--rounds", 7), Ok(7));
        assert!(args.switch("--check") && !args.switch("--check"));
        assert_eq!(args.first(), None);
        assert!(args.end().unwrap_err().contains("--what"));
        assert_eq!(Args::new(&["--check", "folder"]).first(), Some("folder"));
        assert!(Args::new(&["--minutes", "0"]).number("--minutes", 1).is_err());
        assert!(Args::new(&["--minutes"]).number("--minutes", 1).is_err());
    }

    #[test]
    fn output_is_seen_line_by_line_and_failure_is_reported() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        let result = run_seeing(command.args(["-c", "echo one; echo $TWO; exit 3"]).env("TWO", "two"), |line| {
            seen.push(line.to_owned());
        });
        assert_eq!(seen, ["one", "two"]);
        assert!(result.unwrap_err().contains("exit status: 3"));
    }

    #[test]
    fn a_temporary_folder_goes_when_it_is_dropped() {
        let folder = TempFolder::new("xtask").unwrap();
        let path = folder.path().to_path_buf();
        std::fs::write(path.join("file"), "text").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
