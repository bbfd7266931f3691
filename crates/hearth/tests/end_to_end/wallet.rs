//! The walk of docs/wallet.md, as it stands there, and what is left of it after a kill.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that a node may take to answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a line of the page in `folder`, as a shell does; what it printed.
fn shell(folder: &Path, port: u16, line: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_hearth")).parent().expect("it is in a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", format!("{binary}:{path}"))
        .env("HEARTH_RPC", format!("http://127.0.0.1:{port}"))
        .output()
        .expect("a shell");
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// A node that keeps its chain in `folder`, once it takes connections.
fn node(folder: &Path, port: u16) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hearth"))
        .args(["evm", "run", "--port", &port.to_string(), "--data-dir"])
        .arg(folder.join("chain"))
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
    assert!(before[0].contains("1000 BEANS") && before[1].contains("2.5 native"), "{before:?}");
    running.kill().expect("it runs");
    running.wait().expect("a child");
    running = node(folder.path(), port);
    assert_eq!(balances(), before);
    shell(folder.path(), port, "hearth wallet send \"$(hearth wallet address alice.json)\" 1 --key bob.json");
    running.kill().expect("it runs");
    running.wait().expect("a child");
}
