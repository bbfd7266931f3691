//! A command-line mistake gets one clear line that says what to do, and an exit code.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};

use hearth_pipeline::kinds::{KINDS, Kind, Role};

use super::node::{Setup, hearth, output};

/// A wrong command line or configuration.
const WRONG_USE: i32 = 2;
const FAILED: i32 = 1;

/// Returns the one-line error message; a drawing may follow below it if `lines` allows more.
fn error(output: &Output, code: i32, lines: usize) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    // Progress and notices may come before it.
    let is_progress = |line: &&str| line.starts_with("  … ") || line.starts_with("notice: ");
    let said: Vec<&str> = text.lines().skip_while(is_progress).collect();
    assert!(said.first().is_some_and(|line| line.starts_with("error: ")), "{text}");
    assert!(said.len() <= lines, "{} lines: {text}", said.len());
    said.join("\n")
}

/// Asserts that the error contains all of these.
#[track_caller]
fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

/// `hearth run` fails with one line.
fn run_fails(setup: &Setup, parts: &[&str]) {
    says(&error(&setup.output("run", &[]), FAILED, 1), parts);
}

#[test]
fn configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    let name = path.display().to_string();
    let cases: [(&str, &[&str]); 8] = [
        (
            "[layout]\nverfy_tile_count = 2\n",
            &[":2: unknown key `layout.verfy_tile_count`", "did you mean `layout.verify_tile_count`?"],
        ),
        ("# mine\n\n[rcp]\nport = 1\n", &[":4: unknown key `rcp.port`", "did you mean `rpc.port`?"]),
        ("[rpc]\nport = \"high\"\n", &[":2: `rpc.port`", "string"]),
        ("[rpc]\nport = 70000\n", &[":2: `rpc.port`", "70000"]),
        ("[rpc]\nport = 7999\n", &["`tiles.metric.prometheus_listen_port`", "taken by `rpc.port`"]),
        ("[layout\n", &[":1: "]),
        ("name = \"../x\"\n", &[":1: `name`", "it names files"]),
        ("[tiles.net]\n\nbind_address = \"here\"\n", &[":3: `tiles.net.bind_address`", "no IP address"]),
    ];
    for (text, parts) in cases {
        fs::write(&path, text).unwrap();
        for command in [&["run"][..], &["bench"], &["monitor"], &["config", "check"], &["config", "show"]] {
            let said = error(&output(hearth().args(command).arg("--config").arg(&path)), WRONG_USE, 1);
            says(&said, parts);
            says(&said, &[&name]);
        }
    }
    // All mistakes are reported together, and the file is a positional argument.
    fs::write(&path, "[layout]\nverfy_tile_count = 2\n[rpc]\nport = \"high\"\n[tiles.quic]\nlimits = \"x\"\n").unwrap();
    let said = error(&output(hearth().args(["config", "check"]).arg(&path)), WRONG_USE, 4);
    says(&said, &["3 mistakes:", ":2: unknown key", ":4: `rpc.port`", ":6: `tiles.quic.limits`"]);
    // Places of tiles among them; how many there are is not known where a key of theirs is wrong.
    let text = "[layout]\naffinity = \"0*3,x\"\nblok_cores = \"\"\n[rpc]\nport = \"high\"\n";
    fs::write(&path, text).unwrap();
    let said = error(&output(hearth().args(["config", "check"]).arg(&path)), WRONG_USE, 4);
    says(&said, &["3 mistakes:", ":2: layout.affinity `x`", ":3: unknown key", ":5: `rpc.port`"]);
    fs::write(&path, text.replace(",x", "")).unwrap();
    let said = error(&output(hearth().args(["config", "check"]).arg(&path)), WRONG_USE, 3);
    says(&said, &["2 mistakes:", ":3: unknown key", ":5: `rpc.port`"]);
    let both = output(hearth().args(["config", "check", "--config"]).arg(&path).arg(&path));
    assert_eq!(both.status.code(), Some(WRONG_USE));
    fs::write(&path, "name = \"mine\"\n").unwrap();
    let good = output(hearth().args(["config", "check"]).arg(&path));
    says(&String::from_utf8_lossy(&good.stdout), &["the configuration is good", "hearth run:", "verify:0", "core "]);
    fs::write(&path, "[development]\nidle_slot_ms = 5\n").unwrap();
    let idle = output(hearth().args(["config", "check"]).arg(&path));
    assert!(idle.status.success(), "{idle:?}");
    says(&String::from_utf8_lossy(&idle.stderr), &["notice: `development.idle_slot_ms` does nothing while"]);
    let missing = output(hearth().args(["run", "--config", "/does/not/exist.toml"]));
    says(&error(&missing, WRONG_USE, 1), &["/does/not/exist.toml", "No such file"]);
}

#[test]
fn command_line() {
    let setup = Setup::new("options");
    let cases: [(&[&str], &str); 7] = [
        (&["--accounts-from", "65"], "--accounts-from must be 2 to 64"),
        (&["--accounts-to", "1"], "--accounts-to must be 2 to 64"),
        (&["--conflict", "1.5"], "--conflict is a share from 0 to 1"),
        (&["--conflict", "NaN"], "--conflict is a share from 0 to 1"),
        (&["--rate", "0"], "--rate must be greater than 0"),
        (&["--rate", "inf"], "--rate must be greater than 0"),
        (&["--duration", "0"], "--duration must be at least 1 second"),
    ];
    for (arguments, part) in cases {
        says(&error(&setup.output("bench", arguments), WRONG_USE, 1), &[part]);
    }
    let said = error(&setup.output("bench", &["--json", "/does/not/exist/result.json"]), FAILED, 1);
    says(&said, &["cannot write the result to /does/not/exist/result.json"]);
    // An unknown option gets the usage text.
    for (arguments, part) in [
        (["--duration", "-3"], "'--duration <SECONDS>': it must be a whole number of seconds"),
        (["--warmup", "1.5"], "'--warmup <SECONDS>': it must be a whole number of seconds"),
        (["--warmup", "18446744073709551615"], "'--warmup <SECONDS>': at most 100000000 seconds"),
        (["--duration", "100000001"], "'--duration <SECONDS>': at most 100000000 seconds"),
        (["--accounts-to", "many"], "'--accounts-to <N>': it must be a whole number"),
    ] {
        let output = setup.output("bench", &arguments);
        assert_eq!(output.status.code(), Some(WRONG_USE), "{arguments:?}");
        says(&String::from_utf8_lossy(&output.stderr), &[part]);
    }
    let show = ["config", "show", "--memory", "--default"];
    for arguments in [&["bench", "--duratoin", "2"][..], &show, &["bnech"], &[]] {
        let output = output(hearth().args(arguments));
        assert_eq!(output.status.code(), Some(WRONG_USE), "{arguments:?}");
        says(&String::from_utf8_lossy(&output.stderr), &["Usage: hearth"]);
    }
}

#[test]
fn options_of_a_chain() {
    let setup = Setup::new("flags");
    let file = |name: &str, text: &str| {
        let path = setup.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let address = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
    let (text, json) =
        (file("text", "no program"), file("half.json", r#"{"pubkey":"11111111111111111111111111111111"}"#));
    let elf = file("program.so", "\x7fELF and nothing more");
    let cases: [(&[&str], &[&str]); 14] = [
        (&["--bpf-program", "me", &text], &["--bpf-program: `me` is neither an address in base58 nor a key file"]),
        (&["--bpf-program", &text, &text], &["--bpf-program: ", "text is not a key file"]),
        (
            &["--bpf-program", address, "/does/not/exist.so"],
            &["--bpf-program: cannot read /does/not/exist.so", "No such"],
        ),
        (
            &["--bpf-program", address, &text],
            &["--bpf-program: ", "text is not a program: it is not an ELF file", "build-sbf"],
        ),
        (&["--bpf-program", address, &elf], &["--bpf-program: ", "program.so is not a program that runs here"]),
        (
            &["--upgradeable-program", address, &elf, "nobody"],
            &["--upgradeable-program: `nobody` is neither an address"],
        ),
        (&["--account", "-", &json], &["--account: ", "half.json is neither", "no `lamports`"]),
        (&["--account", address, &elf], &["--account: ", "program.so is a program; give it as --bpf-program"]),
        (&["--account-dir", "/does/not/exist"], &["--account-dir: cannot read /does/not/exist", "No such"]),
        (&["--clone", "1"], &["--clone: `1` is neither an address"]),
        (&["--mint", "x"], &["--mint: `x` is neither an address"]),
        (&["--warp-slot"], &["--warp-slot: give it a slot, or --url"]),
        (&["--warp-slot", "--url", "http://127.0.0.1:1"], &["--warp-slot: cannot ask http://127.0.0.1:1", "refused"]),
        (
            &["--rpc-port", &setup.ports.metrics.to_string()],
            &["make `tiles.metric.prometheus_listen_port` wrong", "taken by"],
        ),
    ];
    for (arguments, parts) in cases {
        says(&error(&setup.output("run", arguments), WRONG_USE, 1), parts);
        assert!(!setup.ledger().join("genesis.bin").exists(), "{arguments:?}: nothing is begun");
    }
    // An invalid value gets the usage text.
    for (arguments, part) in [
        (&["--ticks-per-slot", "1"][..], "'--ticks-per-slot <TICKS>': it must be 2 to 255 ticks"),
        (&["--slots-per-epoch", "31"], "it must be 32 to 16777216 slots"),
        (&["--slots-per-epoch", "99999999999"], "it must be 32 to 16777216 slots"),
        (&["--faucet-sol", "much"], "'--faucet-sol <SOL>': it must be an amount of SOL, such as 1000 or 0.5"),
        (&["--bind-address", "here"], "--bind-address"),
        (&["--rpc-port", "70000"], "--rpc-port"),
        (&["--limit-ledger-size", "9"], "at least 1000"),
        (&["--bpf-program", address], "2 values required"),
        (&["--quiet", "--log"], "cannot be used with"),
        (&["--maybe-clone", address], "--url"),
    ] {
        let output = setup.output("run", arguments);
        assert_eq!(output.status.code(), Some(WRONG_USE), "{arguments:?}");
        says(&String::from_utf8_lossy(&output.stderr), &[part]);
    }
    // A node that runs keeps its chain.
    let node = setup.start();
    let mut other = Setup::new("flags-other");
    other.with("ledger.path", setup.ledger().display().to_string());
    let said = error(&other.output("run", &["--reset"]), FAILED, 1);
    says(&said, &["--reset: ", "in use"]);
    assert!(setup.ledger().join("genesis.bin").exists());
    node.stop();
}

#[test]
fn options_that_contradict_or_surprise() {
    let setup = Setup::new("contradict");
    let (memo, system) = ("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", "11111111111111111111111111111111");
    let other = "5ZWj7a1f8tWkjBESHKgrLmXshuXxqeY9SYcfbshpAqPG";
    let dump = |name: &str, space: usize| {
        let account = serde_json::json!({
            "lamports": 5_000_000, "data": ["YWJj", "base64"], "owner": memo, "executable": false, "space": space,
        });
        let path = setup.folder.path().join(name);
        fs::write(&path, serde_json::json!({ "pubkey": other, "account": account }).to_string()).unwrap();
        path.display().to_string()
    };
    let (good, cut) = (dump("good.json", 3), dump("cut.json", 4));
    let foreign = setup.folder.path().join("foreign");
    fs::create_dir_all(foreign.join("history")).unwrap();
    // As other chains have it.
    fs::write(foreign.join("genesis.json"), r#"{"config":{"chainId":1}}"#).unwrap();
    let place = foreign.display().to_string();
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--account", "-", &cut], &["--account: ", "cut.json", "`space` is 4, `data` has 3 bytes"]),
        (&["--mint", memo], &["--mint: ", "a program or an account of the chain itself"]),
        (&["--account", system, &good], &["--account: 1111", "a program or an account of the chain itself"]),
        (&["--mint", "no/id.json"], &["--mint: there is no key file no/id.json", "hearth keys new"]),
        (&["--reset", "--ledger", &place], &["--reset: there is no chain in /", "nothing was deleted", "--ledger"]),
        (&["--name", "a/b"], &["--name: `a/b` must be letters"]),
    ];
    for (arguments, parts) in cases {
        says(&error(&setup.output("run", arguments), WRONG_USE, 1), parts);
    }
    assert!(foreign.join("history").exists());
    for (arguments, part) in [
        (["--faucet-sol", "-1"], "it must be an amount of SOL"),
        (["--slot-ms", "-5"], "it must be 1 to 60000 milliseconds"),
        (["--slot-ms", "1000000"], "it must be 1 to 60000 milliseconds"),
        (["--warp-slot", "-1"], "it must be a whole number, 0 or more"),
        (["--log-messages-bytes-limit", "9999999"], "at most 1000000"),
    ] {
        let output = setup.output("run", &arguments);
        assert_eq!(output.status.code(), Some(WRONG_USE), "{arguments:?}");
        says(&String::from_utf8_lossy(&output.stderr), &[part]);
    }
    assert!(!setup.ledger().exists(), "nothing is begun");
}

#[test]
fn ports_in_use() {
    let setup = Setup::new("ports");
    let ports = setup.ports;
    // Before anything is made, `hearth bench` no less.
    let both_fail = |port: u16, parts: [&str; 3]| {
        for command in ["run", "bench"] {
            let said = error(&setup.output(command, &[]), FAILED, 1);
            says(&said, &parts);
            says(&said, &[&port.to_string(), "Stop the other program", "choose another port"]);
            assert!(!setup.ledger().exists(), "{command}: {said}");
        }
    };
    for (port, what, key) in [
        (ports.rpc, "HTTP", "(rpc.port)"),
        (ports.rpc + 1, "WebSocket", "(rpc.port)"),
        (ports.metrics, "the metrics port", "(tiles.metric.prometheus_listen_port)"),
    ] {
        let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
        both_fail(port, [what, key, &format!("`ss -tanp 'sport = :{port}'`")]);
        drop(taken);
    }
    for (port, what, key) in [
        (ports.udp, "the UDP TPU port", "(tiles.quic.regular_transaction_listen_port)"),
        (ports.quic, "the QUIC TPU port", "(tiles.quic.quic_transaction_listen_port)"),
    ] {
        let taken = UdpSocket::bind(("127.0.0.1", port)).unwrap();
        both_fail(port, [what, key, &format!("`ss -uanp 'sport = :{port}'`")]);
        drop(taken);
    }
    // Nothing of the failed attempts is in the way.
    setup.start().stop();
}

#[test]
fn a_second_node_of_the_same_name() {
    let setup = Setup::new("twice");
    let node = setup.start();
    let pid = node.process.id().to_string();
    let mut other = Setup::new("other");
    other.with("name", setup.name.clone());
    run_fails(&other, &["belongs to a running node", &pid, "another name"]);
    // The name is reported first, even if everything else is the same.
    run_fails(&setup, &["belongs to a running node", &pid]);
    // Another name, but the same chain.
    let mut other = Setup::new("other");
    other.with("ledger.path", setup.ledger().display().to_string());
    run_fails(&other, &["in use by process", &pid, "ledger"]);
    node.stop();
}

/// The kinds of a node that is in no cluster.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    const ALL: &[Kind] = &KINDS;
    ALL.iter().filter(|kind| matches!(kind.role, Role::Node | Role::Leader))
}

fn one_tile_of_each_kind(setup: &mut Setup) {
    for key in kinds().filter_map(Kind::count_key) {
        setup.with(&key, 1);
    }
}

#[test]
fn layout() {
    let affinity = |affinity: &str| {
        let mut setup = Setup::new("layout");
        setup.with("layout.affinity", affinity);
        one_tile_of_each_kind(&mut setup);
        [setup.output("run", &[]), output(hearth().args(["config", "check", "--config"]).arg(setup.config()))]
    };
    for output in affinity("0*3,f2") {
        let said = error(&output, WRONG_USE, 40);
        says(&said, &["layout.affinity gives places to 5 tiles", "net:0", "sign:0"]);
    }
    for output in affinity("0*9,1023*2") {
        says(&error(&output, WRONG_USE, 40), &["core 1023", "this process may use"]);
    }
    for output in affinity("3-") {
        says(&error(&output, WRONG_USE, 1), &["affinity `3-`", "the forms are"]);
    }
    let mut setup = Setup::new("blocklist");
    setup.with("layout.blocklist_cores", "0-1023");
    says(&error(&setup.output("run", &[]), WRONG_USE, 1), &["layout.blocklist_cores", "no core"]);
    let mut setup = Setup::new("half-auto");
    setup.with("development.bench.affinity", "f3");
    says(&error(&setup.output("bench", &[]), WRONG_USE, 1), &["affinity", "auto"]);
}

/// Firedancer accepts such files; keys without effect are reported.
#[test]
fn keys_of_firedancer_give_a_notice() {
    let mut setup = Setup::new("accepted");
    setup.with("layout.affinity", "0*99");
    setup.with("ledger.accounts_path", "/nowhere");
    setup.with("tiles.gui.gui_listen_port", 80);
    one_tile_of_each_kind(&mut setup);
    let output = check(&setup);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let tiles = kinds().count();
    says(
        &said,
        &[
            &format!("notice: `layout.affinity` has {} places more than the layout has tiles ({tiles})", 99 - tiles),
            "notice: `ledger.accounts_path` has no meaning here and has no effect",
            "notice: `tiles.gui` has no meaning here and has no effect",
        ],
    );
    // All placement errors are reported at once, each with its line.
    let path = setup.folder.path().join("wrong.toml");
    fs::write(&path, "[layout]\naffinity = \"0,0,1023\"\nblocklist_cores = \"x\"\n").unwrap();
    let said = error(&output_of_check(&path), WRONG_USE, 40);
    says(&said, &["2 mistakes:", ":2: layout.affinity has 3 mistakes:", ":3: layout.blocklist_cores: `x`"]);
    says(&said, &["it gives places to 3 tiles", "it gives core 0 to more than one tile", "it uses core 1023"]);
    says(&said, &["`affinity = \"auto\"`"]);
}

/// `hearth config check` of a file.
fn output_of_check(path: &Path) -> Output {
    output(hearth().args(["config", "check"]).arg(path))
}

/// A file valid for `hearth run` passes the check, whatever `hearth bench` would need.
#[test]
fn a_layout_without_the_load() {
    let mut setup = Setup::new("no-load");
    setup.with("layout.affinity", format!("0*{}", kinds().count()));
    one_tile_of_each_kind(&mut setup);
    let output = check(&setup);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    says(&said, &["notice: not for `hearth bench`: ", "development.bench.affinity"]);
    says(&String::from_utf8_lossy(&output.stdout), &["the configuration is good for `hearth run`"]);
    setup.start().stop();
    // A wrong value of the load's own key is no layout without it.
    setup.with("development.bench.affinity", "0*2");
    says(&error(&check(&setup), WRONG_USE, 40), &["development.bench.affinity gives places to 2 tiles"]);
}

/// Runs `hearth config check`.
fn check(setup: &Setup) -> Output {
    output(hearth().args(["config", "check", "--config"]).arg(setup.config()))
}

#[test]
fn shared_memory() {
    let mut setup = Setup::new("memory");
    setup.with("hugetlbfs.workspace_path", "/does/not/exist");
    run_fails(&setup, &["/does/not/exist", "No such file"]);
    let folder = setup.folder.path().display().to_string();
    setup.with("hugetlbfs.max_page_size", "huge").with("hugetlbfs.mount_path", folder.clone());
    for output in [setup.output("run", &[]), setup.output("bench", &[]), check(&setup)] {
        let advice = ["hugetlbfs.max_page_size", "mount -t hugetlbfs -o pagesize=2M none", "`normal`"];
        says(&error(&output, WRONG_USE, 1), &advice);
    }
    setup.with("hugetlbfs.max_page_size", "normal").with("hugetlbfs.workspace_path", folder);
    let workspace = setup.folder.path().join(format!("hearth-{}", setup.name));
    fs::write(&workspace, "somebody's notes").unwrap();
    let refused = setup.output("run", &[]);
    assert!(refused.stdout.is_empty(), "it is refused before a chain is opened: {refused:?}");
    says(&error(&refused, FAILED, 1), &["is not a Hearth workspace"]);
    assert_eq!(fs::read_to_string(&workspace).unwrap(), "somebody's notes");
}

/// A file system of 1 MiB in a private mount namespace. Not every machine permits the mount.
#[test]
fn no_room_in_shared_memory() {
    let mut setup = Setup::new("room");
    let small = setup.folder.path().join("small");
    fs::create_dir(&small).unwrap();
    setup.with("hugetlbfs.workspace_path", small.display().to_string());
    let mount = format!("mount -t tmpfs -o size=1m none {}", small.display());
    let within = |script: String| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", &script]).output()
    };
    if !within(mount.clone()).is_ok_and(|output| output.status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let (binary, config) = (env!("CARGO_BIN_EXE_hearth"), setup.config());
    let output = within(format!("{mount} && exec {binary} run --config {}", config.display())).unwrap();
    says(&error(&output, FAILED, 1), &["small/hearth-", "bytes", "make room"]);
}

#[test]
fn ledger_folder() {
    let mut setup = Setup::new("ledger");
    let file = setup.folder.path().join("file");
    fs::write(&file, "").unwrap();
    setup.with("ledger.path", file.display().to_string());
    run_fails(&setup, &["ledger folder", "/file"]);
    // A folder that is not writable, even for root.
    setup.with("ledger.path", "/proc/hearth");
    run_fails(&setup, &["ledger folder /proc/hearth"]);

    let ledger = setup.folder.path().join("damaged");
    setup.with("ledger.path", ledger.display().to_string());
    setup.start().stop();
    let genesis = ledger.join("genesis.bin");
    let whole = fs::read(&genesis).unwrap();
    let changed_at = |at: usize| {
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        changed
    };
    // The last byte is of the kind of cluster.
    for bytes in [&whole[..whole.len() / 2], &[], &changed_at(whole.len() - 1)] {
        fs::write(&genesis, bytes).unwrap();
        run_fails(&setup, &["genesis file", "genesis.bin is damaged", "--reset"]);
    }
    // The first is of the time at which another chain has begun.
    fs::write(&genesis, changed_at(0)).unwrap();
    run_fails(&setup, &["genesis file", "chain.json is damaged", "and genesis.bin is", "--reset"]);
    fs::remove_file(&genesis).unwrap();
    run_fails(&setup, &["genesis file", "genesis.bin is missing", "--reset"]);
    assert!(!genesis.exists(), "no other chain has begun beside the blocks");
    // What an older version left.
    let older = ledger.join("genesis.json");
    fs::write(&older, "{\"checksum\":1,\"genesis\":{}}").unwrap();
    run_fails(&setup, &["genesis.json is the genesis of a chain of an older version", "`hearth run --reset`"]);
    fs::write(&genesis, &whole).unwrap();
    setup.start().stop();
}

#[test]
fn keys() {
    let mut setup = Setup::new("keys");
    let key = setup.folder.path().join("id.json");
    let keys = |command: &str, path: &Path| output(hearth().args(["keys", command]).arg(path));
    let made = keys("new", &key);
    assert!(made.status.success());
    let shown = keys("pubkey", &key);
    let address = String::from_utf8(shown.stdout).unwrap();
    assert!(String::from_utf8(made.stdout).unwrap().starts_with(address.trim()));
    says(&error(&keys("new", &key), FAILED, 1), &["id.json exists", "never overwritten"]);
    says(&error(&keys("pubkey", Path::new("/does/not/exist")), FAILED, 1), &["cannot read the key /does/not/exist"]);
    says(&error(&keys("new", Path::new("/proc/id.json")), FAILED, 1), &["cannot write the key /proc/id.json"]);
    let nowhere = setup.folder.path().join("nowhere");
    says(&error(&keys("new", &nowhere.join("id.json")), FAILED, 1), &["cannot write the key", "there is no folder"]);
    assert!(!nowhere.exists());

    setup.with("consensus.identity_path", key.display().to_string());
    for wrong in ["", "[1,2,3]", "not a key", &format!("{:?}", [7u8; 64])] {
        fs::write(&key, wrong).unwrap();
        run_fails(&setup, &["id.json is not a key file", "hearth keys new"]);
    }
    fs::remove_file(&key).unwrap();
    run_fails(&setup, &["cannot read the key", "id.json"]);
    // Nobody writes to it: to open it would take for ever.
    assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
    run_fails(&setup, &["id.json is a pipe", "a key is in a regular file"]);
}

#[test]
fn sessions_without_a_place() {
    let mut setup = Setup::new("session");
    let session = setup.folder.path().join("session");
    setup.with("development.capture.folder", session.display().to_string());
    run_fails(&setup, &["development.capture.folder", "gossip.enabled"]);
    assert!(!session.exists());
    setup.in_cluster(None);
    fs::create_dir(&session).unwrap();
    fs::write(session.join("file"), "").unwrap();
    run_fails(&setup, &["session is not empty", "a folder of its own"]);
    assert!(!setup.ledger().exists(), "nothing has begun");
}

#[test]
fn nothing_to_watch() {
    let setup = Setup::new("nothing");
    let said = error(&setup.output("monitor", &["--name", &setup.name]), FAILED, 1);
    let none = format!("no node `{}` runs on this machine", setup.name);
    says(&said, &[&none, &format!("`hearth run --name {}` starts one", setup.name), "`hearth evm run`"]);
    // The configuration names a node as well.
    says(&error(&setup.output("monitor", &[]), FAILED, 1), &[&none]);
}

#[test]
fn a_study_that_cannot_be_read_or_asked_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.csv");
    fs::write(&path, "nb_build,metric,value\nplain,speed,10 MB/s\nfat,speed,fast\n").unwrap();
    let analyze = |arguments: &[&str]| output(hearth().args(["tune", "analyze"]).arg(&path).args(arguments));
    says(&error(&analyze(&["--max", "speed"]), FAILED, 1), &["results.csv: line 3: `fast` is not a number"]);
    fs::write(&path, "nb_build,metric,value\nplain,speed,10 MB/s\nfat,speed,11 MB/s\n").unwrap();
    says(&error(&analyze(&["--max", "sped"]), WRONG_USE, 1), &["no metric `sped`; the metrics are `speed`"]);
    says(&error(&analyze(&[]), WRONG_USE, 1), &["say with --max or --min which metrics matter"]);
    let fine = analyze(&["--max", "speed", "--reference", "plain"]);
    assert!(fine.status.success() && String::from_utf8_lossy(&fine.stdout).contains("+10.0 %"), "{fine:?}");
}

#[test]
fn a_spec_of_builds_that_is_wrong_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.toml");
    let build = |arguments: &[&str]| output(hearth().args(["tune", "build"]).arg(&path).args(arguments));
    says(&error(&build(&[]), WRONG_USE, 1), &["cannot read", "study.toml"]);
    fs::write(&path, "rounds = 3\n[matrix]\nltto = \"fat\"\n").unwrap();
    says(&error(&build(&[]), WRONG_USE, 1), &["study.toml:3: unknown option `ltto`; did you mean `lto`?"]);
    fs::write(&path, "[[row]]\nname = \"a\"\ncommand = \"echo\"\n").unwrap();
    says(&error(&build(&[]), WRONG_USE, 1), &["`workload`: there is none", "--workload and --metric"]);
    let text =
        "reference = \"a\"\n[[row]]\nname = \"a\"\ncommand = \"echo\"\n[[row]]\nname = \"b\"\ncommand = \"echo\"\n";
    fs::write(&path, text).unwrap();
    let asked = ["--workload", "{bin} 7", "--metric", "x=(.+)", "--better", "higher", "--rounds", "2"];
    let plan = build(&[&asked[..], &["--dry-run"]].concat());
    let said = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.status.success() && said.contains("3 builds, 2 rounds, 6 runs"), "{plan:?}");
    let wrong = build(&[&asked[..], &["--metric", "y=(.)", "--better", "lower", "--better", "lower"]].concat());
    says(&error(&wrong, WRONG_USE, 1), &["--better is there 3 times for 2 metrics"]);
}
