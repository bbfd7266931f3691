//! `hearth profile` draws where a live node under load spends its time; only its owner may ask.

use std::fs::read_to_string;

use serde_json::{Value, json};

use rustix::process::{Pid, Signal, kill_process};

use super::kills::bench;
use super::node::{Setup, hearth, output, wait_until};
use super::terminal::Terminal;

#[test]
fn a_live_node_is_profiled_by_tile() {
    let setup = Setup::new("profile");
    let node = setup.start();
    let (load, _) = bench(&setup);
    let run = |arguments: &[&str]| {
        let output = setup.output("profile", arguments);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    let read = |name: &str| read_to_string(setup.folder.path().join(name)).unwrap();

    // Often enough for a machine that has little time for it.
    let said = run(&["--duration", "5", "--hz", "499", "--flame", "flame.svg"]);
    for part in ["samples in 5.", "% of", "µs a sample", "verify", "to name the functions", "flame.folded"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let svg = read("flame.svg");
    assert!(svg.contains("<svg") && svg.contains("hearth: 5 s"), "no graph");
    // Names of functions, by tile, in the binary as it is shipped: nothing is an address or mangled.
    let lines = read("flame.folded");
    for part in [";verify;", ";bank;", ";quic;", "pipeline::verify::", "crypto::ed25519::"] {
        assert!(lines.contains(part), "{part}:\n{lines}");
        assert!(svg.contains(part.trim_matches(';')), "{part} is not in the graph");
    }
    let named = lines.lines().filter(|line| !line.contains("_ZN") && !line.contains("Unknown")).count();
    assert!(named * 10 >= lines.lines().count() * 9, "{lines}");

    // Profile the next block, one tile only, by URL. On a busy machine it may have few or no samples.
    let url = format!("http://127.0.0.1:{}", setup.ports.rpc);
    let asked = ["--url", &url, "--next-block", "--tile", "bank", "--hz", "999", "--folded", "bank.txt"];
    let said = wait_until("a block with samples of bank", || {
        let output = setup.output("profile", &asked);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_taken = output.status.success() || error.contains("samples fell into what was asked for");
        if is_taken { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(error) }
    });
    assert!(said.contains("the next block of bank") && said.contains("of slot "), "{said}");
    let lines = read("bank.txt");
    assert!(!lines.is_empty() && lines.lines().all(|line| line.contains(";bank")), "{lines}");
    assert!(read("hearth-profile.svg").contains("the next block of bank"));

    drop(load);
    node.stop();
}

#[test]
fn a_profile_is_taken_one_at_a_time_and_stopped() {
    let setup = Setup::new("stopped");
    let node = setup.start();
    let rpc = node.rpc();
    // A second start; a replaced profile; a tile that does not exist; a profile that is never fetched.
    let start = |seconds: u64| rpc.try_call("hearth_profileStart", json!([{ "seconds": seconds }]));
    start(60).unwrap();
    let ended = |id: u64| {
        wait_until("the profile to end early", || {
            let found = rpc.call("hearth_profileFetch", json!([{ "id": id }]));
            if found["state"] == "running" { Err(found.to_string()) } else { Ok(()) }
        });
    };
    let stop = |id: u64| rpc.try_call("hearth_profileStop", json!([{ "id": id }]));
    assert_eq!(stop(1).unwrap()["id"], 1);
    ended(1);
    assert_eq!(start(60).unwrap()["id"], 2);
    let under_way = "profile 2 is under way";
    let refused = start(1).unwrap_err();
    assert!(refused.contains("-32041") && refused.contains(&format!("{under_way} (60 s): it ends in")), "{refused}");
    let gone = rpc.try_call("hearth_profileFetch", json!([{ "id": 1 }])).unwrap_err();
    assert!(gone.contains("-32041") && gone.contains("profile 2 has replaced it"), "{gone}");
    assert!(stop(1).unwrap_err().contains("profile 2 has replaced it"));
    for (arguments, part) in [
        (&["--tile", "bakn"][..], "there is no tile `bakn`; there are bank, dedup"),
        (&["--duration", "1"][..], under_way),
        (&["--flame", "/does/not/exist/x.svg"][..], "cannot write the result to /does/not/exist/x.svg"),
    ] {
        let output = setup.output("profile", arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(part), "{part}: {error}");
    }
    // A late stop changes nothing.
    stop(2).unwrap();
    ended(2);
    assert_ne!(stop(2).unwrap()["state"], "running");

    // The command must not wait for a node whose process is suspended.
    let pid = Pid::from_raw(node.process.id() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let output = setup.output("profile", &[]);
    kill_process(pid, Signal::CONT).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && error.contains("is stopped, and does not answer: `kill -CONT"),
        "{error}"
    );

    // A running profile must not delay shutdown.
    start(60).unwrap();
    node.stop();
    let url = format!("http://127.0.0.1:{}", setup.ports.rpc);
    let error = setup.output("profile", &["--url", &url]).stderr;
    assert!(String::from_utf8_lossy(&error).contains(&format!("no answer from {url}")));
}

#[test]
fn interrupted_profile_is_written() {
    let setup = Setup::new("interrupted");
    let node = setup.start();
    let rpc = node.rpc();
    let (load, _) = bench(&setup);
    let mut terminal = Terminal::start(setup.command("profile").args(["--duration", "500"]), 160, 30);
    terminal.shows(&["profiling http://127.0.0.1:", "Ctrl-C ends it early"]);
    wait_until("samples", || {
        let found = rpc.call("hearth_profileFetch", json!([{}]));
        let left = found["endsInSeconds"].as_f64().ok_or_else(|| found.to_string())?;
        if left < 491.0 { Ok(()) } else { Err(found.to_string()) }
    });
    terminal.interrupt();
    let status = terminal.ended();
    let screen = terminal.screen();
    assert!(status.success(), "{status}: {screen}");
    for part in ["ending early", "500 s, stopped early: ", "file://", "hearth-profile.svg", "in a browser"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let svg = read_to_string(setup.folder.path().join("hearth-profile.svg")).unwrap();
    assert!(svg.contains("hearth: 500 s, stopped early"));
    drop(load);
    node.stop();
}

#[test]
fn a_graph_of_next_to_nothing_is_reported() {
    let setup = Setup::new("few");
    let node = setup.start();
    let output = setup.output("profile", &["--duration", "1", "--hz", "1"]);
    let error = String::from_utf8_lossy(&output.stderr);
    let few = ["samples fell into what was asked for", "no sample in 1."].iter().any(|part| error.contains(part));
    assert!(output.status.code() == Some(1) && few, "{error}");
    node.stop();
}

#[test]
fn only_the_owner_is_heard() {
    let mut setup = Setup::new("owner");
    setup.with("rpc.admin_token", "a secret");
    let node = setup.start();
    let rpc = node.rpc();
    let refused = rpc.try_call("hearth_profileStart", json!([{ "token": "another" }])).unwrap_err();
    assert!(refused.contains("-32040") && refused.contains("rpc.admin_token"), "{refused}");
    let url = format!("http://127.0.0.1:{}", setup.ports.rpc);
    let output = setup.output("profile", &["--url", &url, "--token", "another"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("--token, or by the node's own file"), "{error}");
    let mut with_variable = setup.command("profile");
    with_variable.args(["--url", &url, "--tile", "bakn"]).env("HEARTH_ADMIN_TOKEN", "a secret");
    let error = String::from_utf8(with_variable.output().unwrap().stderr).unwrap();
    assert!(error.contains("there is no tile `bakn`"), "{error}");

    let with_token = |key: &str, value: Value| json!([{ "token": "a secret", key: value }]);
    let fetch = || rpc.call("hearth_profileFetch", with_token("format", "summary".into()));
    assert_eq!(fetch()["state"], "none");
    rpc.call("hearth_profileStart", with_token("seconds", 1.into()));
    wait_until("the profile", || {
        let found = fetch();
        if found["state"] == "done" { Ok(()) } else { Err(found.to_string()) }
    });
    node.stop();
}

#[test]
fn a_bench_becomes_one_page() {
    let setup = Setup::new("page");
    let profile_bench = |arguments: &[&str]| {
        let mut command = hearth();
        command.args(["profile", "bench", "--config"]).arg(setup.config()).current_dir(setup.folder.path());
        output(command.args(arguments))
    };
    let done = profile_bench(&["--duration", "3", "--warmup", "1", "--json", "result.json"]);
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    for part in ["txn/s      mean", "verify", "µs a sample", "report     hearth-bench.html"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let read = |name: &str| read_to_string(setup.folder.path().join(name)).unwrap();
    let result: Value = serde_json::from_str(&read("result.json")).unwrap();
    let mean = result["txn_per_s"]["mean"].as_f64().unwrap().round().to_string();
    let page = read("hearth-bench.html");
    assert!(page.replace(',', "").contains(&format!("<title>Hearth bench: {mean} txn/s</title>")));
    // Four seconds, the first of them warm-up; every tile with its regimes; links; stages; functions by name.
    assert_eq!((page.matches("title=\"second ").count(), page.matches(", warm-up\"").count()), (4, 1));
    for tile in result["tiles"].as_array().unwrap() {
        let name = tile["tile"].as_str().unwrap();
        assert!(
            page.contains(&format!("<b>{name} ")) && page.contains(&format!("<th scope=\"row\">{name}</th>")),
            "{name}"
        );
    }
    for part in ["dedup_pack", "executed", "pipeline::verify::", "pipeline::benchg::", "affinity = ", "% finish"] {
        assert!(page.contains(part), "{part}");
    }
    for asks in ["src=", "<link", "@import", "url(http"] {
        assert!(!page.contains(asks), "the page needs {asks}");
    }

    let wrong = profile_bench(&["--url", "http://127.0.0.1:1"]);
    let error = String::from_utf8(wrong.stderr).unwrap();
    assert!(wrong.status.code() == Some(2) && error.contains("hearth profile --url"), "{error}");
}
