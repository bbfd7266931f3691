//! Workspaces that cannot be watched: `hearth monitor` names the file, the reason and a remedy, and changes nothing.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use super::node::{Setup, output, wait_until};

/// An unprivileged user that owns nothing.
const NOBODY: u32 = 65_534;
/// Offsets in a workspace's header: of the version, and of the topology's place.
const VERSION_AT: u64 = 8;
const TOPOLOGY_AT: u64 = 7 * 8;

#[track_caller]
fn refuses(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty() && !said.contains("panicked"), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "`{part}` is not in: {said}"));
}

fn watch(setup: &Setup) -> Output {
    setup.output("monitor", &["--count", "1", "--name", &setup.name])
}

#[test]
fn a_file_that_is_no_workspace() {
    let setup = Setup::new("stranger");
    let path = setup.workspace().display().to_string();
    let texts = ["", "HEARTHWS", &"some text\n".repeat(1_000)];
    for text in texts {
        fs::write(setup.workspace(), text).unwrap();
        refuses(&watch(&setup), &["nothing here can be watched", &path, "is not a Hearth workspace"]);
        assert_eq!(fs::read_to_string(setup.workspace()).unwrap(), text, "it is left as it is");
    }
    fs::remove_file(setup.workspace()).unwrap();
    fs::create_dir(setup.workspace()).unwrap();
    refuses(&watch(&setup), &[&path, "is not a Hearth workspace"]);
    fs::remove_dir(setup.workspace()).unwrap();
}

#[test]
fn a_workspace_of_another_version_or_damaged() {
    let setup = Setup::new("version");
    setup.start().kill();
    let path = setup.workspace().display().to_string();
    let whole = fs::read(setup.workspace()).unwrap();
    let file = fs::File::options().write(true).open(setup.workspace()).unwrap();
    file.write_all_at(&99_u64.to_le_bytes(), VERSION_AT).unwrap();
    refuses(
        &watch(&setup),
        &[&path, "has workspace layout 99, this program reads layout", "use the program that made it"],
    );
    let version = &whole[VERSION_AT as usize..][..8];
    file.write_all_at(version, VERSION_AT).unwrap();

    let topology = u64::from_le_bytes(whole[TOPOLOGY_AT as usize..][..8].try_into().unwrap());
    file.write_all_at(b"[", topology).unwrap();
    refuses(&watch(&setup), &["is of another build of hearth"]);
    file.write_all_at(&whole[topology as usize..][..1], topology).unwrap();

    file.set_len(whole.len() as u64 / 2).unwrap();
    refuses(&watch(&setup), &[&path, "is damaged: its size is not what its header says"]);
    // A node of the name puts a new one there.
    let node = setup.start();
    assert!(watch(&setup).status.success());
    node.stop();
    assert!(!setup.workspace().exists(), "only a node that dies leaves its workspace");
}

#[test]
fn a_workspace_that_may_not_be_read() {
    let is_root = rustix::process::geteuid().is_root();
    let setup = Setup::new("denied");
    // The build folder may be closed to other users, so copy the binary.
    let binary = setup.folder.path().join("hearth");
    fs::copy(env!("CARGO_BIN_EXE_hearth"), &binary).unwrap();
    for path in [setup.folder.path(), &binary] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Another test's child process may still hold it open for writing, so retry.
    wait_until("the copy runs", || Command::new(&binary).arg("--version").output().map_err(|error| error.to_string()));
    let watch_as_nobody = || -> Output {
        let mut command = Command::new(&binary);
        command.args(["monitor", "--count", "1", "--name", &setup.name]).current_dir("/").stdin(Stdio::null());
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        output(&mut command)
    };
    let node = setup.start();
    fs::set_permissions(setup.workspace(), fs::Permissions::from_mode(0o600)).unwrap();
    if !is_root {
        fs::set_permissions(setup.workspace(), fs::Permissions::from_mode(0)).unwrap();
    }
    let path = setup.workspace().display().to_string();
    let denied = watch_as_nobody();
    refuses(
        &denied,
        &["nothing here can be watched", &path, "ermission denied", "watch as the user that runs the node"],
    );
    // Read permission is enough to watch, also as another user.
    fs::set_permissions(setup.workspace(), fs::Permissions::from_mode(0o644)).unwrap();
    let allowed = watch_as_nobody();
    assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
    node.stop();
}
