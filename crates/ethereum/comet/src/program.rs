//! Where CometBFT's program is: given, on the PATH, or where `go install` puts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The line that installs it.
pub const INSTALL: &str = "go install github.com/cometbft/cometbft/cmd/cometbft@v0.38.21";

/// Why CometBFT's program cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The given path is not an executable file.
    #[error("{0} is not a program; --cometbft names CometBFT's")]
    Given(PathBuf),
    /// The program is not in any of the usual places.
    #[error(
        "cometbft is neither on the PATH nor in Go's folder of programs. Install it with\n    {INSTALL}\nor name it with --cometbft PATH"
    )]
    Nowhere,
}

/// Finds CometBFT's program: the given path, or else on the `PATH` and in Go's folders of programs.
pub fn find(given: Option<&Path>) -> Result<PathBuf, ProgramError> {
    find_in(given, |name| std::env::var_os(name))
}

fn find_in(given: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, ProgramError> {
    if let Some(path) = given {
        return if is_program(path) { Ok(path.into()) } else { Err(ProgramError::Given(path.into())) };
    }
    let folders = |name: &str| variable(name).map(|value| std::env::split_paths(&value).collect::<Vec<_>>());
    let go_path = folders("GOPATH").or_else(|| folders("HOME").map(|homes| vec![homes[0].join("go")]));
    let go = go_path.into_iter().flatten().map(|folder| folder.join("bin"));
    let all = folders("PATH").into_iter().chain(folders("GOBIN")).flatten().chain(go);
    all.map(|folder| folder.join("cometbft")).find(|path| is_program(path)).ok_or(ProgramError::Nowhere)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn cometbft_is_found_or_its_install_line_shown() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("go/bin");
        std::fs::create_dir_all(&bin).unwrap();
        let home = |name: &str| (name == "HOME").then(|| folder.path().as_os_str().to_owned());
        let why = find_in(None, home).unwrap_err().to_string();
        assert!(why.contains("go install github.com/cometbft"), "{why}");
        let program = bin.join("cometbft");
        std::fs::write(&program, "").unwrap();
        assert!(find_in(None, home).is_err(), "it cannot be run");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find_in(None, home).unwrap(), program);
        let gobin = |name: &str| (name == "GOBIN").then(|| bin.as_os_str().to_owned());
        assert_eq!(find_in(None, gobin).unwrap(), program);
        assert_eq!(find_in(Some(&program), |_| None).unwrap(), program);
        assert!(matches!(find_in(Some(&bin), |_| None), Err(ProgramError::Given(_))));
    }
}
