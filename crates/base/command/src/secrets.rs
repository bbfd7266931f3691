//! Secrets that a command is given: how to notice that others can read them.
//!
//! reads   this process' arguments; a file's permissions

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::output::note;

/// Warns where a secret is an argument of this process: every user of the machine can list these.
pub fn warn_of_arguments(option: &str, secret: &str, instead: &str) {
    if std::env::args_os().any(|argument| argument.to_string_lossy().contains(secret)) {
        note(format_args!(
            "notice: everybody on this machine can list processes, and read the secret after {option}. Give it {instead}"
        ));
    }
}

/// Warns where others than its owner can read a file that holds a secret.
pub fn warn_of_permissions(path: &Path) {
    let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
    if mode & 0o077 != 0 {
        note(format_args!(
            "notice: others on this machine can read the secret in {path}; `chmod 600 {path}` keeps it from them",
            path = path.display()
        ));
    }
}
