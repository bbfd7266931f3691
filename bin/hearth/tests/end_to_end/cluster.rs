//! `hearth cluster simulate`: its report, and its errors on wrong input.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::node::{hearth, output};

const WRONG_USE: i32 = 2;

/// Exit code, standard output, standard error.
fn simulate(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = hearth();
    command.args(["cluster", "simulate"]).args(arguments).current_dir(folder);
    let output = output(&mut command);
    let [text, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code(), text, said)
}

#[test]
fn a_simulation_is_reported_as_table_json_and_page() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        ["--nodes", "60", "--rate", "9000", "--seeds", "2", "--dead", "0.1", "--json", "a.json", "--html", "a.html"];
    let (code, text, said) = simulate(folder.path(), &options);
    assert_eq!(code, Some(0), "{said}");
    assert!(text.starts_with("60 nodes (6 dead), stake zipf:0.9, 9000 transfers a second, fanout 200"), "{text}");
    let cluster_file: Value = serde_json::from_slice(&fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    let seeds = cluster_file["seeds"].as_array().unwrap();
    assert_eq!(seeds.len(), 2);
    for seed in seeds {
        assert_eq!(seed["followers_bps"].as_array().unwrap().len(), 53);
        assert_eq!(seed["without"], 0, "{seed:#}");
    }
    let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
    assert!(page.contains("<polyline") && page.contains("How blocks spread over 60 nodes"));
    let again = simulate(folder.path(), &options);
    assert_eq!(again.1, text, "a seed is a course");
    let (_, piped, said) = simulate(folder.path(), &[&options[..8], &["--json", "-"]].concat());
    assert_eq!((serde_json::from_str::<Value>(&piped).unwrap(), &*said), (cluster_file, &*text), "data alone");
    assert!(!folder.path().join("-").exists());
}

#[test]
fn calibration_compares_what_nodes_send() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, said) = simulate(folder.path(), &["--calibrate"]);
    assert_eq!(code, Some(0), "{said}");
    let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(rows("a follower sends"), 3, "two bandwidths and their ratio: {text}");
    assert_eq!(rows("the leader sends"), 3, "{text}");
    assert_eq!(rows("the load generator sends"), 1, "{text}");
    assert!(!text.contains("receives"), "{text}");
    assert!(text.contains("fitted to the talk's two figures"), "{text}");
}

#[test]
fn mistakes_say_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let map = include_str!("../../../../config/world.toml").replacen(
        "[\"London\", \"New York\"]",
        "[\"Lonson\", \"New York\"]",
        1,
    );
    fs::write(folder.path().join("map.toml"), map).unwrap();
    for (file, text) in [("stakes", "a 7\nb\n"), ("one", "a 7\n"), ("two", "a 7\nb 8\n")] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    for (arguments, part) in [
        (&["--map", "map.toml"][..], "map.toml: `link`: `Lonson` is not a region; did you mean `London`?"),
        (&["--map", "none.toml"], "none.toml: No such file"),
        (&["--stakes", "stakes"], "stakes: line 2: `b` is not a stake in lamports"),
        (&["--stakes", "one"], "one: stakes of 1 nodes: from 2 to 50000 can be simulated"),
        (&["--stakes", "ziph"], "`ziph` is neither `equal`, `zipf`, `zipf:POWER` nor a file"),
        (&["--stakes", "two", "--nodes", "2"], "a file of stakes has its own number of nodes"),
        (&["--calibrate", "--seed", "9"], "cannot be used with"),
        (&["--nodes", "1"], "1 nodes: from 2 to 50000 can be simulated"),
        (&["--dead", "2"], "it is not from 0 to 1"),
        (&["--calibrate", "--nodes", "9"], "cannot be used with"),
    ] {
        let (code, text, said) = simulate(folder.path(), arguments);
        assert_eq!((code, &*text), (Some(WRONG_USE), ""), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}
