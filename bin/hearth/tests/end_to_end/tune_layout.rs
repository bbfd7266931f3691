//! `hearth tune layout` on the real node: very short, since its findings depend on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::node::{Process, Setup, hearth, output, wait_until};

/// Trials: the default, a round of two others with it, a second look, and five pairs in the last comparison.
const RUNS: &str = "16";

fn command(setup: &Setup, folder: &Path) -> Command {
    let mut command = hearth();
    command.args(["tune", "layout", "--runs", RUNS, "--minutes", "10", "--duration", "2", "--warmup", "1"]);
    // Other tests run at the same time.
    command.args(["--steal", "1", "--foreign", "1", "--pressure", "1", "--pace", "1", "--config"]).arg(setup.config());
    command.arg("--folder").arg(folder.join("out")).arg("--json").arg(folder.join("found.json"));
    command
}

/// Lists what the search started and left in this folder.
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

    // When interrupted, it keeps its results and says so.
    let kept = || fs::read_to_string(folder.join("out/trials")).unwrap_or_default();
    let none_is_left = || match left(&folder).len() {
        0 => Ok(()),
        count => Err(format!("{count} processes are there")),
    };
    let search = Process::start(&mut command(&setup, &folder));
    wait_until("a trial that is over", || if kept().contains('\n') { Ok(()) } else { Err("there is none".into()) });
    search.signal(Signal::INT);
    let (ended, said) = search.wait_with_errors();
    assert_eq!(ended.code(), Some(130), "{said}");
    assert!(said.contains("stopped: the trials are kept in"), "{said}");
    none_is_left().unwrap();
    let first = kept();

    // Killed while a node runs, it takes the node with it.
    let search = Process::start(&mut command(&setup, &folder));
    wait_until("a trial", || if left(&folder).is_empty() { Err("none runs".into()) } else { Ok(()) });
    search.signal(Signal::KILL);
    search.wait();
    wait_until("the end of the trial", none_is_left);

    // The same command resumes.
    let ended = output(&mut command(&setup, &folder));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(left(&folder).is_empty(), "{said}");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(text.contains("the default") && text.contains("layout.toml"), "{text}");
    let found: Value = serde_json::from_slice(&fs::read(folder.join("found.json")).unwrap()).unwrap();
    let trials = fs::read_to_string(folder.join("out/trials")).unwrap();
    assert_eq!(found["runs"], trials.lines().count(), "{found:#}");
    assert!(!first.is_empty() && trials.starts_with(&first), "what was kept was not tried again");
    assert!(!found["answer"].as_str().unwrap().is_empty() && found["better"].is_boolean(), "{found:#}");

    // Besides the default it has tried others, each on a freshly started node.
    assert!(found["layouts"].as_u64().unwrap() > 1, "{found:#}");
    let steps = found["steps"].as_array().unwrap();
    let is_compared = |step: &&Value| !step["txn_per_s_best"].as_array().unwrap().is_empty();
    assert!(steps.iter().filter(is_compared).count() > 0, "{found:#}");
    let default = &serde_json::from_str::<Value>(trials.lines().next().unwrap()).unwrap()["layout"];
    let others = trials.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_measured = |trial: &Value| trial["layout"] != *default && trial["trial"]["outcome"]["measured"].is_object();
    assert!(others.filter(is_measured).count() > 0, "{trials}");
    // Where one seemed better, it and the default met once more.
    let has_pairs = !found["pairs"]["default"].as_array().unwrap().is_empty();
    assert!(found["candidate"] == found["default"] || has_pairs || !found["no_verdict"].is_null(), "{found:#}");

    // Its output is a configuration.
    let toml = folder.join("out/layout.toml");
    let checked = output(hearth().args(["config", "check"]).arg(&toml));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let evidence = fs::read_to_string(&toml).unwrap();
    assert!(evidence.starts_with("# Written by `hearth tune layout`"), "{evidence}");

    // A rerun has nothing to try and prints the same; files of another search are not touched.
    let again = output(&mut command(&setup, &folder));
    assert_eq!(again.stdout, ended.stdout);
    assert_eq!(fs::read_to_string(folder.join("out/trials")).unwrap(), trials);
    let other = output(command(&setup, &folder).args(["--seed", "9"]));
    assert!(!other.status.success());
    assert!(String::from_utf8_lossy(&other.stderr).contains("another seed"));
}

#[test]
fn a_time_that_is_too_short_for_another_layout_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for (options, part) in [
        (
            &["--minutes", "1", "--duration", "2"][..],
            "with benches of 2 s after 1 s it must be 1.5 at least, for 15 runs",
        ),
        (&["--runs", "14"], "15..=1000"),
        (&["--least-gain", "7"], "--least-gain: 7 is not from 0 to 1"),
    ] {
        let ended = output(hearth().args(["tune", "layout"]).args(options).current_dir(&folder));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && said.contains(part), "{options:?}: {said}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was begun");
}
