//! Runs docs/wallet.md step by step, and checks the state after a kill.

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

use super::evm::Chain;

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

/// Like the above, but it must succeed; returns its output.
fn shell(folder: &Path, port: u16, line: &str) -> String {
    let done = done(folder, port, line);
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// A node that keeps its chain in `folder`.
fn node(folder: &Path, options: &[&str]) -> Chain {
    let dir = folder.join("chain");
    Chain::start(&[&["--data-dir", dir.to_str().expect("a plain path")], options].concat())
}

fn kill(chain: Chain) {
    chain.process.signal(Signal::KILL);
    chain.process.wait();
}

#[test]
fn the_walk_of_the_page_works_and_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut running = node(folder.path(), &[]);
    let page = include_str!("../../../../docs/wallet.md");
    let walk: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let walk: Vec<&str> = walk.into_iter().filter(|line| line.starts_with("hearth wallet ")).collect();
    assert!(walk.len() > 8, "the page has a walk");
    for line in walk {
        shell(folder.path(), running.port, line);
    }
    let balances = |port: u16| {
        ["alice", "bob"].map(|who| shell(folder.path(), port, &format!("hearth wallet balance --key {who}.json")))
    };
    let before = balances(running.port);
    assert!(before[0].contains("987.5 BEANS") && before[1].contains("2.5 native"), "{before:?}");
    assert!(before[1].contains("12.5 BEANS"), "{before:?}");
    kill(running);
    running = node(folder.path(), &[]);
    assert_eq!(balances(running.port), before);
    shell(folder.path(), running.port, "hearth wallet send \"$(hearth wallet address alice.json)\" 1 --key bob.json");
    kill(running);
}

/// Funds that a plain payment to the contract's address would lose if there is no contract.
#[test]
fn nothing_is_sent_where_the_chain_lacks_the_contract() {
    let folder = tempfile::tempdir().expect("a folder");
    let account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let genesis = serde_json::json!({
        "config": {
            "chainId": 7, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
            "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
            "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
        },
        "difficulty": "0x0", "gasLimit": "0x1c9c380", "alloc": { account: { "balance": "0xde0b6b3a7640000" } },
    });
    let path = folder.path().join("genesis.json");
    std::fs::write(&path, genesis.to_string()).expect("it is written");
    let running = node(folder.path(), &["--genesis", path.to_str().expect("a plain path")]);
    shell(folder.path(), running.port, "hearth wallet new a.json");
    let line = format!("hearth wallet prism 0.5 --from {account} --key a.json");
    let refused = done(folder.path(), running.port, &line);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("nothing was sent"), "{why}");
    let other = done(folder.path(), running.port, "hearth wallet prism 1 --to hearth1 --key a.json");
    assert!(String::from_utf8_lossy(&other.stderr).contains("40 hexadecimal digits"));
    kill(running);
}
