//! `hearth evm run` as its users meet it: started, sent to, killed, started again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex};
use hearth_crypto::secp256k1::Signer;
use hearth_evm::tx::{Tx, TypedTransaction};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::dashboard::{shown, status};
use super::node::{Process, Rpc, hearth, output, page, same, wait_until};

/// The first account of the usual words.
const KEY: [u8; 32] = hex!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");
const FIRST: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// Senders of a load.
const SENDERS: u8 = 8;

/// A running `hearth evm run`.
pub struct Chain {
    pub process: Process,
    rpc: Rpc,
    pub port: u16,
    /// Lines printed before the node was ready.
    said: Vec<String>,
}

impl Chain {
    pub fn start(arguments: &[&str]) -> Self {
        Self::on(0, arguments)
    }

    fn on(port: u16, arguments: &[&str]) -> Self {
        let process = Process::start(command(port, arguments));
        let said = process.wait_for_line("ready;");
        let address = said.iter().find_map(|line| line.trim().strip_prefix("rpc")).expect("it says where");
        let address: SocketAddr = address.trim().trim_start_matches("http://").parse().expect("an address");
        Self { process, rpc: Rpc::on(address.port()), port: address.port(), said }
    }

    /// Like `start`, but the node may fail: then its exit status and output.
    pub fn start_or_end(arguments: &[&str]) -> Result<Self, (ExitStatus, String)> {
        let mut process = Process::start(command(0, arguments));
        let mut said = vec![];
        let ready = wait_until("a start or its end", || {
            said.extend(process.new_lines());
            match said.iter().any(|line: &String| line.contains("ready;")) {
                true => Ok(true),
                false if !process.is_alive() => Ok(false),
                false => Err(process.errors()),
            }
        });
        if !ready {
            return Err(process.wait_with_errors());
        }
        let address = said.iter().find_map(|line| line.trim().strip_prefix("rpc")).expect("it says where");
        let address: SocketAddr = address.trim().trim_start_matches("http://").parse().expect("an address");
        Ok(Self { process, rpc: Rpc::on(address.port()), port: address.port(), said })
    }

    /// The node's JSON-RPC client.
    pub fn rpc(&self) -> Rpc {
        self.rpc
    }

    /// All output: lines before the node was ready, then standard error.
    pub fn said(&self) -> String {
        self.said.join("\n") + &self.process.errors()
    }

    /// The page for Prometheus.
    pub fn metrics(&self) -> String {
        page(self.port, "/metrics").expect("it answers")
    }

    /// Ctrl-C; it must end well.
    pub fn stop(self) {
        self.process.signal(Signal::INT);
        let (status, said) = self.process.wait_with_errors();
        assert!(status.success(), "{status}: {said}");
    }

    fn number(&self) -> u64 {
        quantity(&self.rpc.call("eth_blockNumber", json!([])))
    }

    fn nonce(&self, address: &Address) -> u64 {
        quantity(&self.rpc.call("eth_getTransactionCount", json!([address, "latest"])))
    }

    fn balance(&self, address: &Address) -> U256 {
        let balance = self.rpc.call("eth_getBalance", json!([address, "latest"]));
        balance.as_str().expect("a text").parse().expect("a number")
    }
}

fn command(port: u16, arguments: &[&str]) -> &'static mut Command {
    let mut command = hearth();
    command.args(["evm", "run", "--rpc-port", &port.to_string()]).args(arguments);
    Box::leak(Box::new(command))
}

fn quantity(value: &Value) -> u64 {
    let text = value.as_str().and_then(|text| text.strip_prefix("0x")).unwrap_or_else(|| panic!("no number: {value}"));
    u64::from_str_radix(text, 16).expect("a number")
}

/// A signed transfer on the development chain.
pub fn transfer(signer: &Signer, nonce: u64, to: Address, wei: u64) -> Bytes {
    let (gas_price, gas_limit) = (10_000_000_000, 21_000);
    let (to, value) = (TxKind::Call(to), U256::from(wei));
    let tx = TxLegacy { chain_id: Some(31337), nonce, gas_price, gas_limit, to, value, ..Default::default() };
    Tx::signed(TypedTransaction::from(tx), signer).raw
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_transfer_is_sent_and_read_back() {
    let chain = Chain::start(&[]);
    assert!(chain.said.iter().any(|line| *line == format!("(0) {FIRST} (10000 ETH)")), "{:#?}", chain.said);
    assert!(chain.said.iter().any(|line| line.contains(&hex::encode(KEY))));
    assert_eq!(chain.rpc.call("eth_chainId", json!([])), "0x7a69");
    let (signer, to) = (Signer::new(&KEY).expect("a key"), Address::repeat_byte(0x11));
    let hash = chain.rpc.call("eth_sendRawTransaction", json!([transfer(&signer, 0, to, 5)]));
    let receipt = wait_until("the receipt", || {
        let receipt = chain.rpc.call("eth_getTransactionReceipt", json!([hash]));
        if receipt.is_null() { Err("none yet".into()) } else { Ok(receipt) }
    });
    assert_eq!((receipt["status"].as_str(), quantity(&receipt["gasUsed"])), (Some("0x1"), 21_000));
    assert_eq!(quantity(&receipt["blockNumber"]), chain.number());
    assert_eq!(chain.balance(&to), U256::from(5));
    let again = chain.rpc.try_call("eth_sendRawTransaction", json!([transfer(&signer, 0, to, 5)])).expect_err("it was");
    assert!(again.contains("nonce too low") || again.contains("already known"), "{again}");
    let why = |hash: &str| {
        let url = format!("http://127.0.0.1:{}", chain.port);
        let output = output(hearth().args(["why", hash, "--url", &url]));
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let landed = format!("landed: It landed in block {} and succeeded.\n", quantity(&receipt["blockNumber"]));
    assert_eq!(why(hash.as_str().expect("a hash")), (Some(0), landed));
    let (code, said) = why(&B256::repeat_byte(7).to_string());
    assert!(code == Some(5) && said.starts_with("unknown: "), "{code:?} {said}");
    chain.stop();
}

/// The monitor's seconds of this chain.
fn watched(chain: &Chain, count: &str) -> Vec<Value> {
    let name = format!("evm-{}", chain.port);
    let watched = output(hearth().args(["monitor", "--name", &name, "--json", "--count", count]));
    assert!(watched.status.success(), "{}", String::from_utf8_lossy(&watched.stderr));
    let lines = watched.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

#[test]
fn its_stages_are_tiles_for_the_monitor_and_it_profiles_itself() {
    let chain = Chain::start(&[]);
    let said = format!("hearth monitor --name evm-{}", chain.port);
    assert!(chain.said.iter().any(|line| line.contains(&said)), "{:#?}", chain.said);
    let idle = watched(&chain, "2");
    let kinds: Vec<&str> =
        idle[1]["tiles"].as_array().unwrap().iter().map(|tile| tile["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["web3", "recover", "pool", "exec", "commit"]);
    for tile in idle[1]["tiles"].as_array().unwrap() {
        assert!(tile["state"] == "run" && tile["stale_s"].as_f64().unwrap() < 10.0, "{tile}");
        let shares = tile["regimes"].as_object().unwrap().values().map(|share| share.as_f64().unwrap());
        assert!((shares.sum::<f64>() - 1.0).abs() < 1e-6, "{tile}");
    }
    assert_eq!((idle[1]["txn_per_s"].as_f64(), &idle[1]["diagnosis"]["finding"]), (Some(0.0), &"idle".into()));

    // Transfers come until the monitor has seen its seconds; it counts no more of them than there were.
    let (signer, to) = (Signer::new(&KEY).expect("a key"), Address::repeat_byte(0x11));
    let ended = AtomicBool::new(false);
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("graph.svg");
    let (seconds, sent) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let send = |nonce| chain.rpc.call("eth_sendRawTransaction", json!([transfer(&signer, nonce, to, 1)]));
            (0..).take_while(|_| !ended.load(Relaxed)).inspect(|nonce| drop(send(*nonce))).count()
        });
        let seconds = watched(&chain, "3");
        let url = format!("http://127.0.0.1:{}", chain.port);
        let profile = ["profile", "--url", &url, "--duration", "1", "--hz", "999", "--flame", text(&graph)];
        // Samples are by CPU time: where others have the machine, a second of it may have too few.
        wait_until("a profile", || {
            let profiled = output(hearth().args(profile));
            if profiled.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&profiled.stderr).into_owned()) }
        });
        ended.store(true, Relaxed);
        (seconds, sending.join().expect("it sends"))
    });
    let counted = |second: &Value| second["txn_per_s"].as_f64().unwrap() * second["seconds"].as_f64().unwrap();
    let count: f64 = seconds.iter().map(counted).sum();
    assert!(count > 0.5 && count < sent as f64 + 0.5, "{count} of {sent}");
    assert!(seconds[2]["slot"].as_u64() > Some(0), "{}", seconds[2]);
    assert!(std::fs::read_to_string(&graph).expect("a graph").contains("<svg"));
    chain.stop();
}

#[test]
fn its_dashboard_has_the_figures_of_the_monitor_and_those_of_the_next_node_after_kill_9() {
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let chain = Chain::start(&[]);
    let port = chain.port;
    let said = format!("http://127.0.0.1:{port}/dashboard");
    assert!(chain.said.iter().any(|line| line.contains(&said)), "{:#?}", chain.said);
    assert_eq!(status(port, "/dashboard"), 200);
    let (seen, monitor) = (shown(port), watched(&chain, "1"));
    assert_eq!((keys(&seen), keys(&seen["evm"])), (keys(&monitor[0]), keys(&monitor[0]["evm"])));
    assert_eq!((&seen["pid"], &seen["diagnosis"]["finding"]), (&chain.process.id().into(), &"idle".into()));
    chain.process.signal(Signal::KILL);
    chain.process.wait();
    // Its workspace still exists.
    let again = Chain::on(port, &[]);
    assert!(again.said.iter().any(|line| line.contains(&said)), "{:#?}", again.said);
    assert_eq!(shown(port)["pid"], again.process.id());
    assert_eq!(watched(&again, "1")[0]["pid"], again.process.id());
    again.stop();
    let without = Chain::start(&["--no-dashboard"]);
    assert!(!without.said.iter().any(|line| line.contains("dashboard")), "{:#?}", without.said);
    assert_eq!(status(without.port, "/dashboard"), 404);
    without.stop();
}

/// Whatever is refused is named, and not taken for rest.
#[test]
fn the_monitor_names_what_the_pool_refuses() {
    let chain = Chain::start(&[]);
    let (signer, to) = (Signer::new(&[0x61; 32]).expect("a key"), Address::repeat_byte(0x33));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // An account without funds is refused.
        let refused = transfer(&signer, 0, to, 1);
        let (rpc, ended) = (chain.rpc, &ended);
        let is_refused = move || rpc.try_call("eth_sendRawTransaction", json!([refused])).is_err();
        let sending =
            scope.spawn(move || std::iter::repeat_with(is_refused).take_while(|_| !ended.load(Relaxed)).all(|was| was));
        wait_until("a diagnosis", || {
            let last = watched(&chain, "1").remove(0)["diagnosis"].take();
            // Two counters that are read one after the other may have one between them.
            let all = ["all that is sent is refused", "nonce, funds, gas or fees"];
            let says = last["says"].as_str().unwrap_or_default();
            let is_it = last["finding"] == "refused" && all.iter().all(|part| says.contains(part));
            if is_it { Ok(()) } else { Err(last.to_string()) }
        });
        ended.store(true, Relaxed);
        assert!(sending.join().expect("it sends"));
    });
    chain.stop();
}

#[test]
fn a_name_that_is_listed_reaches_the_node() {
    let chain = Chain::start(&["--allow-host", "hearth"]);
    let status = |host: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", chain.port)).expect("it listens");
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}:8545\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("it answers");
        line
    };
    assert!(status("hearth").contains(" 200 ") && status("elsewhere").contains(" 403 "));
    chain.stop();
}

#[test]
fn options_make_the_chain_they_say() {
    let words = "legal winner thank year wave sausage worth useful legal winner thank yellow";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("words");
    std::fs::write(&file, words).expect("written");
    let arguments = ["--chain-id", "1234", "--accounts", "2", "--balance", "2.5", "--mnemonic-file", text(&file)];
    let chain = Chain::start(&[&arguments[..], &["--block-time", "0.05"]].concat());
    // A user's own mnemonic is neither printed nor called public, and nor are the keys derived from it.
    let said = chain.said.join("\n");
    assert!(said.contains("words of your own"), "{said}");
    for never in ["legal", "Private Keys", "Everybody knows"] {
        assert!(!said.contains(never), "{said}");
    }
    assert_eq!(chain.rpc.call("eth_chainId", json!([])), json!(format!("{:#x}", 1234)));
    let accounts = chain.rpc.call("eth_accounts", json!([]));
    let accounts: Vec<Address> = serde_json::from_value(accounts).expect("addresses");
    assert_eq!(accounts.len(), 2);
    assert_eq!(chain.balance(&accounts[1]), U256::from(25u128 * 10u128.pow(17)));
    wait_until("blocks without transactions", || {
        let number = chain.number();
        if number > 3 { Ok(()) } else { Err(number.to_string()) }
    });
    chain.stop();
}

#[test]
fn block_0_keeps_its_time_and_time_keeps_its_offset() {
    let now_s = || hearth_tile::clock::unix_time().as_secs();
    let block = |chain: &Chain, number: &str| chain.rpc.call("eth_getBlockByNumber", json!([number, false]));
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--data-dir", text(folder.path())];
    let before = now_s();
    let chain = Chain::start(&arguments);
    let zero = block(&chain, "0x0");
    assert!((before..=now_s()).contains(&quantity(&zero["timestamp"])), "{zero}");
    let code = chain.rpc.call("eth_getCode", json!(["0x4e59b44847b379578588920ca78fbf26c0b4956c", "latest"]));
    assert_eq!(code.as_str().expect("code").len(), 2 + 2 * 69);
    chain.rpc.call("evm_setNextBlockTimestamp", json!([now_s() + 1_000_000]));
    chain.rpc.call("evm_mine", json!([]));
    chain.process.signal(Signal::KILL);
    chain.process.wait();

    let chain = Chain::start(&arguments);
    assert_eq!(block(&chain, "0x0"), zero);
    for _ in 0..3 {
        let parent = quantity(&block(&chain, "latest")["timestamp"]);
        chain.rpc.call("evm_mine", json!([]));
        let time = quantity(&block(&chain, "latest")["timestamp"]);
        assert!(time > parent && time.abs_diff(now_s() + 1_000_000) < 120, "{time} after {parent}");
    }
    chain.stop();
    let other = ["--timestamp", "1000"];
    let refused = output(hearth().args(["evm", "run", "--rpc-port", "0"]).args(arguments).args(other));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("not 1000 as --timestamp says"), "{said}");

    let chain = Chain::start(&["--timestamp", "1000", "--disable-default-create2-deployer"]);
    assert_eq!(block(&chain, "0x0")["timestamp"], "0x3e8");
    chain.rpc.call("evm_mine", json!([]));
    assert!((1_001..1_600).contains(&quantity(&block(&chain, "latest")["timestamp"])));
    let code = chain.rpc.call("eth_getCode", json!(["0x4e59b44847b379578588920ca78fbf26c0b4956c", "latest"]));
    assert_eq!(code, "0x");
    chain.stop();
}

#[test]
fn the_state_file_carries_accounts_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    let chain = Chain::start(&["--state", text(&file)]);
    let (signer, to) = (Signer::new(&KEY).expect("a key"), Address::repeat_byte(0x22));
    chain.rpc.call("eth_sendRawTransaction", json!([transfer(&signer, 0, to, 77)]));
    wait_until("the transfer", || same(chain.balance(&to), U256::from(77)));
    let slot = format!("{:#066x}", 1);
    chain.rpc.call("anvil_setStorageAt", json!([to, slot, slot]));
    chain.stop();

    let chain = Chain::start(&["--state", text(&file)]);
    assert_eq!(chain.balance(&to), U256::from(77));
    assert_eq!(chain.nonce(&Address::from(signer.address())), 1);
    let stored = chain.rpc.call("eth_getStorageAt", json!([to, slot, "latest"]));
    assert_eq!(stored.as_str(), Some(slot.as_str()));
    chain.stop();
}

#[test]
fn mistakes_are_reported() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let ended = output(hearth().args(["evm", "run"]).args(arguments));
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.code() == Some(code) && said.contains(words), "{}: {said}", ended.status);
    };
    fails(&["--rpc-port", &port], 1, "the port is in use");
    fails(&["--rpc-port", "0", "--mnemonic", "hello world"], 2, "--mnemonic");
    fails(&["--rpc-port", "0", "--mnemonic-file", "/nonexistent/words"], 1, "--mnemonic-file /nonexistent/words");
    fails(&["--rpc-port", "0", "--durable"], 2, "--data-dir");
    fails(&["--rpc-port", "0", "--block-time", "0"], 2, "--block-time");
    fails(&["--rpc-port", "0", "--genesis", "/nonexistent/genesis.json"], 1, "--genesis /nonexistent/genesis.json");
    let folder = tempfile::tempdir().expect("a folder");
    let dir = text(folder.path());
    let chain = Chain::start(&["--data-dir", dir, "--block-time", "0.02"]);
    wait_until("a block", || if chain.number() > 0 { Ok(()) } else { Err("none".into()) });
    fails(&["--rpc-port", "0", "--data-dir", dir], 1, "in use");
    chain.stop();
    fails(&["--rpc-port", "0", "--data-dir", dir, "--chain-id", "9"], 1, dir);
    // The error names the option that differs and the folder's value.
    let words = folder.path().join("words");
    std::fs::write(&words, "legal winner thank year wave sausage worth useful legal winner thank yellow")
        .expect("written");
    for (option, value, said) in [
        ("--chain-id", "9", "began with --chain-id 31337, not 9"),
        ("--hardfork", "paris", "began with --hardfork osaka, not paris"),
        ("--hardfork", "prague", "began with --hardfork osaka, not prague"),
        ("--accounts", "3", "began with --accounts 10, not 3"),
        ("--balance", "1.5", "began with --balance 10000, not 1.5"),
        ("--code-size-limit", "30000", "the options say \"code size 30000\""),
        ("--mnemonic-file", text(&words), "began with --mnemonic words whose first account is 0xf39F"),
    ] {
        fails(&["--rpc-port", "0", "--data-dir", dir, "--block-time", "0.02", option, value], 1, said);
    }
    let by_time = "began with --gas-limit 1000000000, not 2000000000, which follows from --block-time";
    fails(&["--rpc-port", "0", "--data-dir", dir, "--block-time", "2"], 1, by_time);
    let blocks = folder.path().join("blocks");
    let log = std::fs::read_dir(&blocks).expect("a folder").map(|entry| entry.expect("an entry").path());
    let log = log.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "blocks"));
    let log = log.expect("a log of blocks");
    let mut bytes = std::fs::read(&log).expect("it is there");
    bytes[100] ^= 1;
    std::fs::write(&log, bytes).expect("written");
    fails(&["--rpc-port", "0", "--data-dir", dir], 1, text(&log));
}

/// Transfers that a load sent, and the acknowledgements. Each sender sends its nonces in order, each to a new address.
#[derive(Default)]
struct Load {
    acknowledged: BTreeMap<B256, (Address, u64)>,
}

fn sender(number: u8) -> Signer {
    let mut key = [0x51; 32];
    key[31] = number + 1;
    Signer::new(&key).expect("a key")
}

fn receiver(seed: u64, number: u8, nonce: u64) -> Address {
    let mut bytes = [seed as u8; 20];
    bytes[0] = number;
    bytes[12..].copy_from_slice(&(nonce + 1).to_be_bytes());
    Address::from(bytes)
}

/// Kill the node under load at a seeded moment and restart it: every acknowledged transaction lands soon, exactly once;
/// every transaction that had landed stays in the same block.
#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    for (seed, block_time) in [(1, "instant"), (2, "0.05"), (3, "instant")] {
        kill_9(seed, block_time);
    }
}

fn kill_9(seed: u64, block_time: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--data-dir", text(folder.path()), "--block-time", block_time];
    let chain = Chain::start(&arguments);
    funded(&chain);
    let rounds = 15 + seed * 7919 % 40;
    let loads: Vec<Load> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let rpc = chain.rpc;
                scope.spawn(move || send(rpc, seed, number))
            })
            .collect();
        wait_until("blocks under load", || {
            let sent = chain.nonce(&Address::from(sender(0).address()));
            if sent > rounds { Ok(()) } else { Err(format!("seed {seed}: {sent} sent")) }
        });
        chain.process.signal(Signal::KILL);
        chain.process.wait();
        senders.into_iter().map(|sender| sender.join().expect("it sends")).collect()
    });
    let acknowledged: BTreeMap<_, _> = loads.into_iter().flat_map(|load| load.acknowledged).collect();
    assert!(acknowledged.len() > usize::from(SENDERS), "seed {seed}");

    let chain = Chain::start(&arguments);
    for (hash, (to, wei)) in &acknowledged {
        let receipt = wait_until("what was acknowledged", || {
            let receipt = chain.rpc.call("eth_getTransactionReceipt", json!([hash]));
            if receipt.is_null() { Err(format!("seed {seed}: {hash} is lost")) } else { Ok(receipt) }
        });
        assert_eq!(receipt["status"], "0x1", "seed {seed}");
        assert_eq!(chain.balance(to), U256::from(*wei), "seed {seed}: once, and all of it");
    }
    let head = chain.rpc.call("eth_getBlockByNumber", json!(["latest", false]));
    chain.stop();
    let chain = Chain::start(&arguments);
    let again = chain.rpc.call("eth_getBlockByNumber", json!([head["number"], false]));
    assert_eq!(again, head, "seed {seed}");
    chain.stop();
}

/// Sends until the node no longer answers.
fn send(rpc: Rpc, seed: u64, number: u8) -> Load {
    let (signer, mut load) = (sender(number), Load::default());
    for nonce in 0.. {
        let to = receiver(seed, number, nonce);
        let raw = transfer(&signer, nonce, to, nonce + 1);
        match rpc.try_call("eth_sendRawTransaction", json!([raw])) {
            Ok(hash) => load.acknowledged.insert(serde_json::from_value(hash).expect("a hash"), (to, nonce + 1)),
            Err(why) if why.contains("code") => panic!("seed {seed}: refused: {why}"),
            Err(_) => break,
        };
    }
    load
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let genesis = tempfile::NamedTempFile::new().expect("a file");
    let cases: [(&[&str], &str); 8] = [
        (&["run", "--snapshot-interval", "5"], "--snapshot-interval does nothing without --consensus cometbft"),
        (&["run", "--snapshots-kept", "5"], "--snapshots-kept does nothing without --consensus cometbft"),
        (&["run", "--genesis", text(genesis.path()), "--gas-limit", "30000"], "'--gas-limit <GAS>'"),
        (&["run", "--genesis", text(genesis.path()), "--balance", "3"], "'--balance <ETH>'"),
        (&["run", "--genesis", text(genesis.path()), "--hardfork", "prague"], "'--hardfork <NAME>'"),
        (&["run", "--hardfork", "berlin"], "a chain begins with paris, shanghai, cancun, prague or osaka"),
        (
            &["run", "--consensus", "cometbft", "--code-size-limit", "9"],
            "--code-size-limit is for a chain of one node: with --consensus cometbft",
        ),
        (&["run", "--comet-rpc", "http://127.0.0.1:1"], "--comet-rpc does nothing without --consensus cometbft"),
    ];
    for (arguments, says) in cases {
        let output = output(hearth().arg("evm").args(arguments));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(says), "{arguments:?}: {error}");
    }
}

/// A transfer that was acknowledged.
pub struct AcknowledgedTransfer {
    pub hash: B256,
    pub to: Address,
    pub wei: u64,
}

/// Gives each sender funds; their numbers.
pub fn funded(chain: &Chain) -> Vec<u8> {
    let first = Signer::new(&KEY).expect("a key");
    for number in 0..SENDERS {
        let to = Address::from(sender(number).address());
        chain.rpc.call("eth_sendRawTransaction", json!([transfer(&first, number.into(), to, 1 << 60)]));
    }
    wait_until("the senders' funds", || same(chain.nonce(&Address::from(first.address())), SENDERS.into()));
    (0..SENDERS).collect()
}

/// Sends `count` transfers from one sender to distinct addresses.
pub fn send_count(rpc: Rpc, number: u8, count: u64) -> Vec<AcknowledgedTransfer> {
    let signer = sender(number);
    let one = |nonce| {
        // Of seed 0 the first ones would be precompiles, which a transfer's gas does not pay for.
        let (to, wei) = (receiver(1, number, nonce), nonce + 1);
        let hash = rpc.call("eth_sendRawTransaction", json!([transfer(&signer, nonce, to, wei)]));
        AcknowledgedTransfer { hash: serde_json::from_value(hash).expect("a hash"), to, wei }
    };
    (0..count).map(one).collect()
}
