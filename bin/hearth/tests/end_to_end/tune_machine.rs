//! `hearth tune machine`: very short, since its findings depend on the machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use super::node::{Process, hearth, output, wait_until};

const FAILED: i32 = 1;
const WRONG_USE: i32 = 2;
const MISSED: i32 = 3;

/// The command, in an empty folder.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = hearth();
    command.args(["tune", "machine"]).args(arguments).current_dir(folder);
    command
}

/// The same where others do not matter.
fn undisturbed(folder: &Path, arguments: &[&str]) -> Output {
    output(command(folder, arguments).args(["--steal", "1", "--foreign", "1", "--pressure", "1"]))
}

fn parts_of(output: &Output) -> (Option<i32>, String, String) {
    let [text, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code(), text, said)
}

#[test]
fn scores_are_exact_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["blake2-256", "sr25519-verify", "ed25519-verify", "disk-random-write", "udp-loopback"];
    let only = names.join(",");
    let options = ["--only", &only, "--duration", "0.2", "--disk-duration", "0.1", "--json", "-"];
    let (code, text, said) = parts_of(&undisturbed(folder.path(), &options));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let found: Value = serde_json::from_str(&text).expect("nothing but JSON");
    let scores = found["scores"].as_array().unwrap();
    assert_eq!(scores.iter().map(|score| score["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    for score in scores {
        let name = score["name"].as_str().unwrap();
        // A study of builds parses these keys.
        assert_eq!(text.matches(&format!("\"{name}\": ")).count(), 1, "{text}");
        let value = score["value"].as_f64().unwrap();
        assert!(value > 0.0 && found["values"][name] == value && score["by_wall_time"] == value, "{score:#}");
        assert_eq!((score["clock"].as_str(), &score["disturbed"]), (Some("wall"), &Value::Null));
        assert!(score["p5"].as_f64() <= score["p95"].as_f64() && score["calls"].as_u64() > Some(0), "{score:#}");
        let computes = !["disk-random-write", "udp-loopback"].contains(&name);
        assert_eq!(score["by_cpu_time"].is_f64(), computes, "{score:#}");
    }
    assert_eq!(scores[1]["unit"], "bytes/s");
    assert_eq!(scores[1]["verifications_per_second"], scores[1]["value"].as_f64().unwrap() / 32.0);
    assert_eq!((&scores[2]["unit"], scores[4]["sent_per_second"].is_f64()), (&Value::from("1/s"), true));
    assert_eq!(found["program"]["opt_level"], "3");
    assert_eq!(found["is_watched"], true);
}

#[test]
fn requirements_are_held_against_scores() {
    let folder = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        fs::write(folder.path().join("mine.toml"), text).unwrap();
        ["--only", "sha256-chain", "--duration", "0.5", "--requirements", "mine.toml"]
    };
    let first = undisturbed(folder.path(), &["--only", "sha256-chain", "--duration", "0.5", "--json", "first.json"]);
    let (code, text, said) = parts_of(&first);
    assert_eq!(code, Some(0), "{said}");
    assert!(text.contains("sha256-chain") && !text.contains("equired"), "{text}");
    let first: Value = serde_json::from_slice(&fs::read(folder.path().join("first.json")).unwrap()).unwrap();
    let rate = first["values"]["sha256-chain"].as_f64().unwrap();

    // A tenth of it, ten times of it, a thousand times of it: no noise reaches from one to the other.
    let met = undisturbed(folder.path(), &file(&format!("sha256-chain = {}\ncopy = \"1 MiB/s\"\n", rate / 10.0)));
    let (code, text, said) = parts_of(&met);
    assert_eq!(code, Some(0), "{said}{text}");
    assert!(text.contains(": met") && text.contains("1 met, 0 missed, not measured: copy"), "{text}");
    for (factor, part) in [(10.0, "MISSED, -"), (100_000.0, "off by a hundred times or more")] {
        let options = file(&format!("sha256-chain = \"{} /s\"\n", rate * factor));
        let (code, text, said) = parts_of(&undisturbed(folder.path(), &options));
        assert_eq!(code, Some(MISSED), "{said}{text}");
        assert!(text.contains(part) && said.contains("misses requirements: sha256-chain"), "{text}{said}");
        let (code, text, said) = parts_of(&undisturbed(folder.path(), &[&options[..], &["--allow-fail"]].concat()));
        assert_eq!(code, Some(0), "{said}");
        assert!(text.contains(part), "{text}");
    }
    let built_in = ["--only", "blake2-256", "--duration", "0.1", "--requirements", "polkadot", "--allow-fail"];
    let (code, text, said) = parts_of(&undisturbed(folder.path(), &built_in));
    assert_eq!(code, Some(0), "{said}");
    assert!(text.contains("1000.00 MiB/s") && text.contains("Requirements of polkadot: "), "{text}");
}

#[test]
fn mistakes_are_reported_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), "# mine\nblake2-265 = \"1 GiB/s\"\n").unwrap();
    fs::write(folder.path().join("unit.toml"), "copy = \"12 s\"\n").unwrap();
    let cases: [(&[&str], &str); 8] = [
        (
            &["--only", "udp-loopback", "--requirements", "polkadot"],
            "polkadot: nothing is asked there of what `--only` names; it asks of blake2-256, ",
        ),
        (&["--requirements", "mine.toml"], "mine.toml:2: no score is called `blake2-265`; did you mean `blake2-256`?"),
        (&["--requirements", "unit.toml"], "unit.toml:1: `copy`: `12 s` is seconds, and the score is in bytes/s"),
        (&["--requirements", "polkdot"], "polkdot: No such file"),
        (&["--only", "copy,sha256-chian"], "no score is called `sha256-chian`; did you mean `sha256-chain`?"),
        (&["--duration", "0"], "it must be greater than 0"),
        (&["--disk-duration", "long"], "it must be a number of seconds"),
        (&["--requirements", "polkadot", "--tolerance", "100"], "it must be a number from 0, below 100"),
    ];
    for (arguments, part) in cases {
        let (code, text, said) = parts_of(&output(&mut command(folder.path(), arguments)));
        assert_eq!((code, &*text), (Some(WRONG_USE), ""), "{arguments:?}: {said}");
        assert!(said.contains(part) && !said.contains("  … "), "{arguments:?}: {said}");
    }
    let nowhere = command(folder.path(), &["--json", "/does/not/exist/it.json"]).output().unwrap();
    assert!(parts_of(&nowhere).2.contains("cannot write the result to /does/not/exist/it.json"));
}

#[test]
fn a_disk_that_cannot_be_written_keeps_nothing_else_from_being_measured() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--only", "disk-sequential-write,sha256-chain", "--duration", "0.1", "--disk-folder", "none"];
    let (code, text, said) = parts_of(&undisturbed(folder.path(), &options));
    assert_eq!(code, Some(FAILED), "{said}");
    assert!(said.contains("error: not measured: disk-sequential-write: none: No such file"), "{said}");
    assert!(text.lines().any(|line| line.starts_with("sha256-chain") && line.contains(" /s")), "{text}");
}

#[test]
fn stopped_run_reports_its_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--only", "sha256-chain,disk-sequential-write,copy", "--duration", "0.1", "--disk-duration", "9000"];
    let run = Process::start(&mut command(folder.path(), &options));
    wait_until("the disk's turn", || match run.errors() {
        said if said.contains("disk-sequential-write") => Ok(()),
        said => Err(said),
    });
    run.signal(Signal::INT);
    let (status, said) = run.wait_with_errors();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("Stopped: 1 of 3 scores.") && said.contains("\nstopped"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("sha256-chain") && line.contains(" /s")), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{said}");
}

#[test]
fn on_a_busy_machine_it_is_cpu_time_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    let options = ["--only", "sha256-chain,udp-loopback", "--duration", "1", "--foreign", "0", "--steal", "1"];
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        let ended = command(folder.path(), &options).output();
        is_over.store(true, Ordering::Release);
        ended
    });
    let (code, text, said) = parts_of(&ended.expect("the binary starts"));
    assert_eq!(code, Some(0), "{said}");
    assert!(text.contains("CPU time: other programs used "), "{text}");
    assert!(text.contains("by wall time ") && text.contains("disturbed: other programs used "), "{text}");
}
