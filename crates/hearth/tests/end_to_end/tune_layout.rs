//! `hearth tune layout` on the real node: very short, since what it finds is the machine's matter.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::node::{Process, Setup, hearth, output, wait_until};

/// Trials: the default, another, and the default beside it.
const RUNS: &str = "16";

fn command(setup: &Setup, folder: &Path) -> Command {
    let mut command = hearth();
    command.args(["tune", "layout", "--runs", RUNS, "--minutes", "0.3", "--duration", "1", "--warmup", "0"]);
    // Tests run beside it.
    command.args(["--steal", "1", "--foreign", "1", "--pressure", "1", "--config"]).arg(setup.config());
    command.arg("--out").arg(folder.join("out")).arg("--json").arg(folder.join("found.json"));
    command
}

/// What was started for the search in this folder, and is there.
fn left(folder: &Path) -> Vec<PathBuf> {
    let mark = format!("HEARTH_TUNE_STUDY={}", folder.join("out").display());
    let is_ours = |process: &PathBuf| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
    };
    let all = fs::read_dir("/proc").expect("Linux").filter_map(|entry| Some(entry.ok()?.path()));
    all.filter(is_ours).collect()
}

#[test]
fn a_layout_is_looked_for_and_no_node_is_left() {
    let setup = Setup::new("tune-layout");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();

    // Killed while a node runs, it takes the node with it.
    let search = Process::start(&mut command(&setup, &folder));
    wait_until("a trial", || if left(&folder).is_empty() { Err("none runs".into()) } else { Ok(()) });
    search.signal(Signal::KILL);
    search.wait();
    wait_until("the end of the trial", || match left(&folder).len() {
        0 => Ok(()),
        count => Err(format!("{count} processes are there")),
    });

    // The same command goes on.
    let ended = output(&mut command(&setup, &folder));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(left(&folder).is_empty(), "{said}");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(text.contains("the default") && text.contains("layout.toml"), "{text}");
    let found: Value = serde_json::from_slice(&fs::read(folder.join("found.json")).unwrap()).unwrap();
    let trials = fs::read_to_string(folder.join("out/trials")).unwrap();
    assert_eq!(found["runs"], trials.lines().count(), "{found:#}");
    assert!(!found["answer"].as_str().unwrap().is_empty() && found["better"].is_boolean(), "{found:#}");

    // What it says is a configuration.
    let toml = folder.join("out/layout.toml");
    let checked = output(hearth().args(["config", "check"]).arg(&toml));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let evidence = fs::read_to_string(&toml).unwrap();
    assert!(evidence.starts_with("# Written by `hearth tune layout`"), "{evidence}");

    // Once more, it has nothing to try and says the same; what belongs to another search is not touched.
    let again = output(&mut command(&setup, &folder));
    assert_eq!(again.stdout, ended.stdout);
    assert_eq!(fs::read_to_string(folder.join("out/trials")).unwrap(), trials);
    let other = output(command(&setup, &folder).args(["--seed", "9"]));
    assert!(!other.status.success());
    assert!(String::from_utf8_lossy(&other.stderr).contains("another seed"));
}
