//! The walk of docs/wallet.md, as it stands there, and what is left of it after a kill.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The longest that a node may take to answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a line of the page in `folder`, as a shell does.
fn done(folder: &Path, port: u16, line: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_hearth")).parent().expect("it is in a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", format!("{binary}:{path}"))
        .env("HEARTH_RPC", format!("http://127.0.0.1:{port}"))
        .output()
        .expect("a shell")
}

/// The same, where it must succeed; what it printed.
fn shell(folder: &Path, port: u16, line: &str) -> String {
    let done = done(folder, port, line);
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// A node that keeps its chain in `folder`, once it takes connections.
fn node(folder: &Path, port: u16) -> Child {
    node_with(folder, port, &[])
}

fn node_with(folder: &Path, port: u16, options: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hearth"))
        .args(["evm", "run", "--port", &port.to_string(), "--data-dir"])
        .arg(folder.join("chain"))
        .args(options)
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let end = Instant::now() + DEADLINE;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(child.try_wait().expect("a child").is_none(), "the node ended by itself");
        assert!(Instant::now() < end, "the node does not listen");
        std::thread::yield_now();
    }
    child
}

#[test]
fn the_walk_of_the_page_works_and_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).expect("a port").port();
    let mut running = node(folder.path(), port);
    let page = include_str!("../../../../docs/wallet.md");
    let walk: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let walk: Vec<&str> = walk.into_iter().filter(|line| line.starts_with("hearth wallet ")).collect();
    assert!(walk.len() > 8, "the page has a walk");
    for line in walk {
        shell(folder.path(), port, line);
    }
    let balances =
        || ["alice", "bob"].map(|who| shell(folder.path(), port, &format!("hearth wallet balance --key {who}.json")));
    let before = balances();
    assert!(before[0].contains("987.5 BEANS") && before[1].contains("2.5 native"), "{before:?}");
    assert!(before[1].contains("12.5 BEANS"), "{before:?}");
    running.kill().expect("it runs");
    running.wait().expect("a child");
    running = node(folder.path(), port);
    assert_eq!(balances(), before);
    shell(folder.path(), port, "hearth wallet send \"$(hearth wallet address alice.json)\" 1 --key bob.json");
    running.kill().expect("it runs");
    running.wait().expect("a child");
}

/// What a plain payment to the contract's address would lose where there is no contract.
#[test]
fn nothing_is_sent_where_the_chain_lacks_the_contract() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).expect("a port").port();
    let account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let genesis = serde_json::json!({
        "config": {
            "chainId": 7, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
            "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
            "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
        },
        "difficulty": "0x0", "gasLimit": "0x1c9c380", "alloc": { account: { "balance": "0xde0b6b3a7640000" } },
    });
    std::fs::write(folder.path().join("genesis.json"), genesis.to_string()).expect("it is written");
    let mut running = node_with(folder.path(), port, &["--genesis", "genesis.json"]);
    shell(folder.path(), port, "hearth wallet new a.json");
    let line = format!("hearth wallet prism 0.5 --from {account} --key a.json");
    let refused = done(folder.path(), port, &line);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("nothing was sent"), "{why}");
    let other = done(folder.path(), port, "hearth wallet prism 1 --to hearth1 --key a.json");
    assert!(String::from_utf8_lossy(&other.stderr).contains("40 hexadecimal digits"));
    running.kill().expect("it runs");
    running.wait().expect("a child");
}
