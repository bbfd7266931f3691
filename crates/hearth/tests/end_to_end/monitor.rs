//! `hearth monitor` attaches from another process, read-only, to a node that runs and to one that died.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::node::{Setup, ends_when_unread};

const KINDS: [&str; 11] = ["net", "quic", "verify", "dedup", "pack", "bank", "poh", "shred", "store", "sign", "metric"];
const REGIMES: [&str; 9] =
    ["% hkeep", "% backp", "% wait", "% ovrnp", "% ovrnr", "% filt1", "% filt2", "% finish", "% elsewhere"];

#[test]
fn monitor_attaches_read_only() {
    let setup = Setup::new("monitor");
    let node = setup.start();
    // Not even its owner could write to it now, were the owner not root; the monitor does not try.
    fs::set_permissions(setup.workspace(), fs::Permissions::from_mode(0o444)).unwrap();
    let before = fs::metadata(setup.workspace()).unwrap().len();
    let output = setup.output("monitor", &["--count", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::metadata(setup.workspace()).unwrap().len(), before);

    let header = text.lines().next().unwrap();
    REGIMES.iter().for_each(|regime| assert!(header.contains(regime), "{regime}: {header}"));
    for kind in KINDS {
        let row = text.lines().find(|line| line.starts_with(&format!("{kind}:0 ")));
        let row = row.unwrap_or_else(|| panic!("no row of {kind}: {text}"));
        let fields: Vec<&str> = row.split_whitespace().collect();
        // tile, core, state, age of the heartbeat, context switches of both kinds, backp, backp#, then a share for each
        // regime: all of the tile's time.
        assert_eq!(fields[2], "run", "{row}");
        let beat_ms: u64 = fields[3].parse().unwrap();
        assert!(beat_ms < 10_000, "a tile that runs beats: {row}");
        assert!(fields[4..6].iter().all(|count| count.parse::<u64>().is_ok()), "{row}");
        let shares: Vec<f64> = fields[8..].iter().map(|share| share.parse().unwrap()).collect();
        assert_eq!(shares.len(), REGIMES.len(), "{row}");
        let sum: f64 = shares.iter().sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}: {row}");
    }
    for link in ["net_quic:0", "dedup_pack", "poh_shred", "sign_shred:0"] {
        assert!(text.lines().any(|line| line.starts_with(link)), "{link}: {text}");
    }

    let status = ends_when_unread(&mut setup.command("monitor"), "net:0");
    assert!(status.success(), "{status}");

    let pid = node.process.id().to_string();
    node.kill();
    let output = setup.output("monitor", &["--count", "1", "--name", &setup.name]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the node is gone") && error.contains(&pid), "{error}");
    // Its last figures can be read all the same, and say how old they are.
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("verify:0 ")).unwrap();
    let beat_ms: u64 = row.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(beat_ms >= 1000, "no heartbeat for longer than the monitor has looked: {row}");
}
