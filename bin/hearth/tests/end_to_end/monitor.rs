//! `hearth monitor` attaches from another process, read-only, to a node that runs and to one that died: as text, as
//! JSON, and on a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hearth_pipeline::kinds::{KINDS, Role};
use serde_json::Value;

use super::node::{Setup, ends_when_unread};
use super::terminal::Terminal;

const REGIMES: [&str; 9] =
    ["% hkeep", "% backp", "% wait", "% ovrnp", "% ovrnr", "% filt1", "% filt2", "% finish", "% other"];

#[test]
fn monitor_attaches_read_only() {
    let setup = Setup::new("monitor");
    let node = setup.start();
    // Not even the owner may write to it now, unless it is root; the monitor does not try.
    fs::set_permissions(setup.workspace(), fs::Permissions::from_mode(0o444)).unwrap();
    let before = fs::metadata(setup.workspace()).unwrap().len();
    let output = setup.output("monitor", &["--count", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::metadata(setup.workspace()).unwrap().len(), before);

    let mut lines = text.lines();
    assert!(lines.next().unwrap().contains(&format!("(pid {})  slot ", node.process.id())), "{text}");
    let finding = lines.next().unwrap();
    let is_told =
        ["nothing is sent to the node", "other programs have core"].iter().any(|says| finding.starts_with(says));
    assert!(is_told, "{text}");
    let header = lines.find(|line| line.starts_with("tile ")).unwrap();
    REGIMES.iter().for_each(|regime| assert!(header.contains(regime), "{regime}: {header}"));
    has_rows(&text, |role| matches!(role, Role::Node | Role::Leader));
    for link in ["net_quic:0", "dedup_pack", "poh_shred", "store_poh", "sign_shred:0"] {
        assert!(text.lines().any(|line| line.starts_with(link)), "{link}: {text}");
    }
    let status = ends_when_unread(&mut setup.command("monitor"), "net:0");
    assert!(status.success(), "{status}");

    let output = setup.output("monitor", &["--count", "2", "--json"]);
    let seconds: Vec<Value> =
        output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(seconds.len(), 2);
    assert!(seconds[1]["alive"] == true && is_idle(&seconds[1]), "{:#}", seconds[1]);
    assert!(seconds[1]["slot"].as_u64() >= seconds[0]["slot"].as_u64());
    for tile in seconds[1]["tiles"].as_array().unwrap() {
        let shares = tile["regimes"].as_object().unwrap().values().map(|share| share.as_f64().unwrap());
        assert!((shares.sum::<f64>() - 1.0).abs() < 1e-6, "{tile}");
        assert!(tile["state"] == "run" && tile["stale_s"].as_f64().unwrap() < 10.0, "{tile}");
    }

    node.kill();
    let output = setup.output("monitor", &["--count", "1", "--json", "--name", &setup.name]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the node is gone") && error.contains(&seconds[0]["pid"].to_string()), "{error}");
    // The last figures can still be read, with their age.
    let last: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&last["alive"], &last["diagnosis"]["finding"]), (&false.into(), &"gone".into()));
    let stale = last["tiles"][0]["stale_s"].as_f64().unwrap();
    assert!(stale >= 1.0, "no heartbeat for longer than the monitor has looked: {stale}");
}

/// Whether nothing limits a node that has nothing to do, but other programs that use its cores.
pub fn is_idle(second: &Value) -> bool {
    ["idle", "cores_taken"].iter().any(|finding| second["diagnosis"]["finding"] == *finding)
}

/// Asserts that the monitor's text has a row for each kind of tile whose role `is_wanted`.
fn has_rows(text: &str, is_wanted: impl Fn(Role) -> bool) {
    for kind in KINDS.iter().filter(|kind| is_wanted(kind.role)) {
        let row = format!("{}:0 ", kind.name);
        assert!(text.lines().any(|line| line.starts_with(&row)), "no row {row}: {text}");
    }
}

#[test]
fn monitor_shows_every_tile_of_a_node_in_a_cluster() {
    let mut setup = Setup::new("monitor-cluster");
    setup.with("consensus.vote", true).in_cluster(None);
    let node = setup.start();
    let output = setup.output("monitor", &["--count", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    has_rows(&text, |role| role != Role::Load);
    for link in ["gossip_tower", "replay_exec:0", "tower_replay", "txsend_net", "rserve_sign", "replay_poh"] {
        assert!(text.lines().any(|line| line.starts_with(link)), "{link}: {text}");
    }
    node.stop();
}

#[test]
fn monitor_fills_a_terminal_and_waits_for_a_node_that_goes_away() {
    let setup = Setup::new("screen");
    let node = setup.start();
    let mut terminal = Terminal::start(&mut setup.command("monitor"), 80, 24);
    let screen =
        terminal.shows(&["slot ", "nothing is sent to the node", "% finish", "verify:0", "tot TPS", "q leave"]);
    assert!(terminal.is_taken_over(), "{screen}");
    terminal.keys("h");
    terminal.shows(&["keys and columns", "pause, and go on"]);
    terminal.keys("h");
    terminal.keys("fpoh\r");
    let screen = terminal.shows(&["filter (poh)", "poh:0", "poh_shred"]);
    assert!(!screen.contains("verify:0") && !screen.contains("net_quic"), "{screen}");
    terminal.keys("f\u{1b}");
    terminal.shows(&["verify:0"]);
    terminal.resize(40, 10);
    let screen = terminal.shows(&["nothing is sent to the node", "tables: 50×14 and more"]);
    assert!(!screen.contains("tot TPS"), "{screen}");
    terminal.resize(80, 24);
    terminal.shows(&["tot TPS"]);
    node.kill();
    let waiting = format!("GONE, waiting for `{}` to start again", setup.name);
    let screen = terminal.shows(&["the node is gone (pid ", &waiting]);
    assert!(screen.contains("verify:0"), "what it did last: {screen}");
    let node = setup.start();
    let pid = format!("(pid {})", node.process.id());
    terminal.shows(&[&pid, "nothing is sent to the node", "q leave"]);
    node.kill();
    terminal.shows(&[&waiting]);
    terminal.keys("q");
    assert!(terminal.ended().success());
    assert!(!terminal.is_taken_over() && terminal.screen().contains("the node is gone"), "{}", terminal.screen());
}
