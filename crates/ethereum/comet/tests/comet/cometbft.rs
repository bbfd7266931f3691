//! The application under a real CometBFT, with kill -9 to both. CometBFT itself compares the app hash of each block
//! that it replays with the one that was signed, and stops where they differ.
//!
//! `HEARTH_COMETBFT` names the program. Without it these tests are skipped with a message; `cargo xtask test` installs
//! it first. `HEARTH_COMET_SEEDS` sets the number of kill seeds (3).

use std::collections::VecDeque;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_consensus::Transaction;
use alloy_primitives::Bytes;
use base64::Engine;
use hearth_abci::Server;
use hearth_comet::app::Config;
use hearth_comet::config_toml::StateSync;
use hearth_comet::rpc::Rpc;
use hearth_comet::testnet_dirs::{self, Home, Network};
use hearth_comet::{App, Spreader};
use hearth_crypto::ed25519::SigningKey;
use hearth_evm::builders::{self, account, signer};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::pool::PoolConfig;
use hearth_evm_utxo::UtxoChain;
use hearth_testkit::{pause, ports};
use hearth_utxo::tx::{Action, Builder};
use hearth_utxo::{AssetId, Output, OwnerKey};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

const CHAIN: u64 = 777;
const ACCOUNTS: u8 = 40;
/// The account that sends through CometBFT's own RPC.
const SINGLE: u8 = 200;
/// Blocks from each snapshot to the next.
const INTERVAL: u64 = 10;
/// Deadline of every wait, generous for a busy machine.
const WITHIN: Duration = Duration::from_secs(180);
/// Pause between two polls of another process, each of which costs it a request.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A CometBFT that has not exited within this time hangs.
const TO_END: Duration = Duration::from_secs(20);

fn transfer(seed: u8, nonce: u64) -> Bytes {
    builders::transfer(CHAIN, seed, nonce).raw
}

fn genesis() -> Value {
    let funded = (1..=ACCOUNTS).chain([SINGLE]);
    let account = |seed| (account(seed).to_string(), json!({ "balance": "0x21e19e0c9bab2400000" }));
    let prism = json!({ "balance": "0x0", "code": hearth_utxo::prism::CODE.to_string() });
    let prism = (hearth_utxo::prism::ADDRESS.to_string(), prism);
    // Each block calls them from Prague on, and fails without them.
    let system = hearth_evm::genesis::system_contracts();
    let system = system.map(|(at, code)| (at.to_string(), json!({ "balance": "0x0", "nonce": "0x1", "code": code })));
    let alloc: serde_json::Map<String, Value> = funded.map(account).chain([prism]).chain(system).collect();
    json!({
        "config": {
            "chainId": CHAIN, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
            "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0,
            "berlinBlock": 0, "londonBlock": 0, "mergeNetsplitBlock": 0, "terminalTotalDifficulty": 0,
            "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0, "osakaTime": 0
        },
        "gasLimit": "0x1dcd6500", "alloc": alloc,
    })
}

/// Runs when the test's own binary is started as a node: the application, and a load on it.
#[test]
fn node() {
    let Ok(text) = std::env::var("HEARTH_TEST_NODE") else { return };
    let given: Value = serde_json::from_str(&text).unwrap();
    let word = |name: &str| given[name].as_str().unwrap().to_owned();
    let file: Value = serde_json::from_str(&std::fs::read_to_string(word("genesis")).unwrap()).unwrap();
    let genesis = hearth_evm_utxo::genesis::from_json(&file["app_state"].to_string()).unwrap();
    let dir = given["dir"].as_str().map(PathBuf::from);
    // CometBFT keeps all blocks; the application needs few of them to continue after a kill. Without a folder all are
    // looked up in memory.
    let retain_blocks = if dir.is_some() { 20 } else { 0 };
    let (block_time, pool) = (BlockTime::Manual, PoolConfig::comet());
    let config = ChainConfig { dir, retain_blocks, block_time, pool, ..ChainConfig::new(genesis) };
    let snapshots = config.dir.as_ref().map(|dir| dir.join("snapshots"));
    let chain = Chain::open(config).unwrap();
    let mut app = App::new(chain.clone(), Config::default());
    if let Some(folder) = snapshots {
        // Blocks come fast here: one that is offered must still be there when it is fetched.
        app = app.with_snapshots(&folder, INTERVAL, 1000).unwrap();
    }
    let app = Arc::new(app);
    let spread = app.spread().clone();
    let _server = Server::start(&word("application").parse().unwrap(), app, Default::default()).unwrap();
    let _spreader = Spreader::start(chain.clone(), Rpc::at(&word("comet_rpc")).unwrap(), spread).unwrap();
    let accounts: Vec<u8> = serde_json::from_value(given["accounts"].clone()).unwrap();
    let events = chain.subscribe();
    hammer(&chain);
    let mut acknowledged = VecDeque::new();
    loop {
        if given["funds"] == true && chain.view().account(&account(SINGLE)).unwrap().nonce == 0 {
            let tx = hearth_evm_utxo::prism::call(CHAIN, 0, 100_000_000_000, &owner(1), 5_000_000, &signer(SINGLE));
            chain.submit(vec![tx.raw.clone()]);
        }
        if given["pays"] == true && chain.outputs_pool().status().0 == 0 {
            chain.submit(pay(&chain).into_iter().collect());
        }
        if chain.pool().status().pending < 4 * accounts.len() {
            let view = chain.view();
            let next = |seed: u8| {
                let address = account(seed);
                let state = view.account(&address).map_or(0, |account| account.nonce);
                transfer(seed, chain.pool().next_nonce(&address, state))
            };
            let taken = chain.submit(accounts.iter().map(|seed| next(*seed)).collect());
            acknowledged.extend(taken.into_iter().flatten());
        }
        // Oldest first; none may be lost silently.
        for hash in acknowledged.drain(..acknowledged.len().saturating_sub(200)) {
            let waits = chain.pool().get(&hash).is_some();
            let is_known = waits || chain.tx(&hash).is_some() || chain.pool().fate(&hash).is_some();
            assert!(is_known, "{hash} was acknowledged and is lost");
        }
        events.next_within(Duration::from_millis(5));
    }
}

fn owner(n: u8) -> OwnerKey {
    OwnerKey(SigningKey::from_seed(&[n; 32]).public_key())
}

/// The first owner's payment to the second, if there is anything to pay with.
fn pay(chain: &Chain) -> Option<Bytes> {
    let (key, available) = (SigningKey::from_seed(&[1; 32]), chain.outputs().outputs_of(&owner(1), None, 1));
    let outputs = vec![Output { asset: AssetId::NATIVE, amount: 7, owner: owner(2), memo: Bytes::new() }];
    let builder = Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action: Action::Transfer };
    builder.build().ok().map(Bytes::from)
}

/// Checks repeatedly, while the process lives, that number, block, receipts and nonces agree; exits if they do not,
/// which the test notices.
fn hammer(chain: &Chain) {
    let chain = chain.clone();
    let agree = move || loop {
        let (head, view) = chain.head_and_view();
        assert_eq!((head.number(), head.header.state_root), (view.number(), view.state_root()));
        let number = chain.head().number();
        let block = chain.block(number).expect("a published number can be read");
        assert_eq!(block.txs.len(), block.receipts.len());
        for tx in &block.txs {
            assert!(chain.tx(&tx.hash).is_some(), "what is in a block is found");
            let nonce = chain.view().account(&tx.sender).map_or(0, |account| account.nonce);
            assert!(nonce > tx.envelope.nonce() && chain.pool().next_nonce(&tx.sender, nonce) >= nonce);
        }
        assert!(chain.view_at(number).is_some() || chain.head().number() > number);
        chain.subscribe().next_within(Duration::from_millis(20));
    };
    std::thread::spawn(move || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(agree)).is_err() {
            std::process::abort();
        }
    });
}

/// One test at a time: each has several processes.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

fn cometbft() -> Option<PathBuf> {
    let program = std::env::var_os("HEARTH_COMETBFT").map(PathBuf::from);
    if program.is_none() {
        eprintln!("SKIPPED: no CometBFT; `cargo xtask test --only cometbft` installs it");
    }
    program
}

/// Three ports in a row that are free on every address used.
fn base_port(nodes: u16) -> u16 {
    let free = |port: u16| (0..nodes).all(|node| TcpListener::bind((format!("127.0.0.{}", node + 1), port)).is_ok());
    ports::reserve(|first| (first..first + 3).all(&free))
}

fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    found_within(WITHIN, look).unwrap_or_else(|| panic!("{what}: not within {} s", WITHIN.as_secs()))
}

fn found_within<T>(within: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        pause(LOOK_EVERY);
    }
}

/// A process; killed when dropped, as by kill -9.
struct Process(Child);

impl Process {
    fn start(command: &mut Command, log: &Path) -> Self {
        let out = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One node of a network.
struct Node {
    cometbft: PathBuf,
    home: Home,
    accounts: Vec<u8>,
    /// Brings units to the ledger of outputs.
    funds: bool,
    /// Whether the load makes payments.
    pays: bool,
    app: Option<Process>,
    comet: Option<Process>,
}

impl Node {
    fn start_app_in(&mut self, dir: Option<PathBuf>) {
        let given = json!({
            "genesis": self.home.genesis(), "dir": dir, "application": self.home.application(),
            "comet_rpc": self.home.comet_rpc(), "accounts": self.accounts, "funds": self.funds, "pays": self.pays,
        });
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "cometbft::node"])
            .env("HEARTH_TEST_NODE", given.to_string())
            .current_dir(&self.home.folder);
        self.app = Some(Process::start(&mut command, &self.home.folder.join("hearth.log")));
    }

    fn start_app(&mut self) {
        self.start_app_in(Some(self.home.ledger()));
    }

    fn start_comet(&mut self) {
        // The one before is gone first: it has the ports.
        self.comet = None;
        let mut command = Command::new(&self.cometbft);
        command.arg("start").arg("--home").arg(&self.home.folder).current_dir(&self.home.folder);
        self.comet = Some(Process::start(&mut command, &self.home.folder.join("cometbft.log")));
    }

    fn start(&mut self) {
        self.start_app();
        self.start_comet();
    }

    /// CometBFT ends when it has lost its application, but may hang on its way out with its RPC still up. Then kill it,
    /// as a service supervisor does.
    fn let_comet_end(&mut self) {
        let comet = self.comet.as_mut().expect("it was started");
        if found_within(TO_END, || comet.0.try_wait().expect("our child")).is_none() {
            eprintln!("CometBFT had lost its application and did not end within {} s: killed", TO_END.as_secs());
        }
        self.start_comet();
    }

    fn rpc(&self) -> Rpc {
        Rpc::at(&self.home.comet_rpc()).unwrap()
    }

    fn height(&self) -> Option<u64> {
        self.rpc().status().ok().map(|status| status.height)
    }

    /// Waits until CometBFT has reached `height`, restarting it if it has given up on its application.
    fn wait_for_height(&mut self, height: u64) {
        let reached = found_within(WITHIN, || {
            let ended = self.comet.as_mut().is_some_and(|comet| matches!(comet.0.try_wait(), Ok(Some(_))));
            if ended {
                self.start_comet();
            }
            if let Some(status) = self.app.as_mut().and_then(|app| app.0.try_wait().ok().flatten()) {
                panic!("the application has ended ({status}): {}", self.last_words("hearth.log"));
            }
            self.height().filter(|reached| *reached >= height)
        });
        if reached.is_none() {
            let (status, within) = (self.rpc().status().map(|status| status.height), WITHIN.as_secs());
            let logs = ["hearth.log", "cometbft.log"].map(|name| self.last_words(name)).join("\n--- CometBFT:\n");
            panic!("block {height}: not within {within} s, CometBFT says {status:?}; the application:\n{logs}");
        }
    }

    /// The end of a log.
    fn last_words(&self, name: &str) -> String {
        let log = std::fs::read(self.home.folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(4000)..]).into_owned()
    }
}

fn network(cometbft: &Path, folder: &Path, validators: u16) -> Vec<Node> {
    network_of(cometbft, folder, validators, 0).1
}

fn network_of(cometbft: &Path, folder: &Path, validators: u16, followers: u16) -> (Network, Vec<Node>) {
    let base_port = base_port(validators + followers);
    let network = Network { validators, followers, base_port, pause_ms: 50, pool: 1000, genesis: genesis() };
    let homes = testnet_dirs::write(cometbft, &folder.join("net"), &network).unwrap();
    let each = ACCOUNTS / (validators + followers) as u8;
    let node = |(number, home): (usize, Home)| {
        let first = 1 + number as u8 * each;
        let accounts = (first..first + each).collect();
        Node { cometbft: cometbft.into(), home, accounts, funds: false, pays: false, app: None, comet: None }
    };
    (network, homes.into_iter().enumerate().map(node).collect())
}

/// An owner's balance on a node's UTXO ledger, in units.
fn units(node: &Node, owner: &OwnerKey) -> Option<u64> {
    let data: String = owner.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let answer = node.rpc().call("abci_query", json!({ "path": "/outputs", "data": data })).ok()?;
    let value = base64::engine::general_purpose::STANDARD.decode(answer["response"]["value"].as_str()?).ok()?;
    serde_json::from_slice::<Value>(&value).ok()?["native"]["units"].as_str()?.parse().ok()
}

#[test]
fn one_validator_takes_single_transactions_through_cometbft() {
    let (_alone, Some(program)) = (alone(), cometbft()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = network(&program, folder.path(), 1);
    let node = &mut nodes[0];
    node.start();
    node.wait_for_height(3);
    let tx = base64::engine::general_purpose::STANDARD.encode(transfer(SINGLE, 0));
    let result = node.rpc().call("broadcast_tx_commit", json!({ "tx": tx })).unwrap();
    assert_eq!(result["check_tx"]["code"], 0, "{result}");
    assert_eq!(result["tx_result"]["code"], 0, "{result}");
    assert_eq!(result["tx_result"]["gas_used"], "21000", "{result}");
    let again = node.rpc().broadcast_sync(&transfer(SINGLE, 0));
    assert!(!matches!(again, Ok((0, _))), "{again:?}");
    let (code, why) = node.rpc().broadcast_sync(&[1, 2, 3]).unwrap();
    assert_ne!((code, why.as_str()), (0, ""));
    let query = json!({ "path": "/account", "data": format!("{:x}", account(SINGLE)) });
    let answer = node.rpc().call("abci_query", query).unwrap();
    assert_eq!(answer["response"]["code"].as_u64().unwrap_or(0), 0, "{answer}");
}

#[test]
fn four_validators_commit_one_that_was_killed_catches_up_and_one_joins_by_a_snapshot() {
    let (_alone, Some(program)) = (alone(), cometbft()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (network, mut nodes) = network_of(&program, folder.path(), 4, 1);
    let mut joining = nodes.pop().unwrap();
    (nodes[0].funds, joining.pays) = (true, true);
    nodes.iter_mut().for_each(Node::start);
    nodes.iter_mut().for_each(|node| node.wait_for_height(4));
    let killed_at = nodes[3].height().unwrap();
    nodes[3].app = None;
    nodes[3].comet = None;
    nodes[0].wait_for_height(killed_at + 8);
    nodes[3].start();
    let goal = nodes[0].height().unwrap() + 4;
    nodes.iter_mut().for_each(|node| node.wait_for_height(goal));
    for height in [3, killed_at, goal] {
        let hashes: Vec<String> = nodes.iter().map(|node| node.rpc().app_hash_before(height).unwrap()).collect();
        assert!(hashes.iter().all(|hash| *hash == hashes[0] && !hash.is_empty()), "{height}: {hashes:?}");
    }
    let trust_height = wait_for("a snapshot", || nodes[0].rpc().snapshots().ok()?.last().copied());
    let rpc_servers = [0, 1].map(|node: usize| nodes[node].home.comet_rpc()).join(",");
    let trust_hash = wait_for("its block", || nodes[0].rpc().block_hash(trust_height).ok());
    joining.home.begin_from_snapshot(StateSync { rpc_servers, trust_height, trust_hash }, &network).unwrap();
    joining.start();
    joining.wait_for_height(trust_height + 1);
    let goal = nodes[0].height().unwrap() + 4;
    joining.wait_for_height(goal);
    nodes.iter_mut().for_each(|node| node.wait_for_height(goal));
    let hashes = [&nodes[0], &joining].map(|node| node.rpc().app_hash_before(goal).unwrap());
    assert_eq!(hashes[0], hashes[1]);
    // It has executed no block before the snapshot's.
    let first = joining.rpc().call("status", json!({})).unwrap()["sync_info"]["earliest_block_height"].clone();
    assert!(first.as_str().unwrap().parse::<u64>().unwrap() > INTERVAL, "{first}");
    // Transactions given only to this node, which is no validator, are included in blocks everywhere.
    wait_for("a payment of the node that joined", || units(&nodes[3], &owner(2)).filter(|units| *units >= 7));
    // It also continues from its state after kill -9.
    (joining.app, joining.comet) = (None, None);
    joining.start();
    let goal = nodes[0].height().unwrap() + 3;
    joining.wait_for_height(goal);
    let hashes = [&nodes[0], &joining].map(|node| wait_for("a hash", || node.rpc().app_hash_before(goal).ok()));
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn killed_in_any_order_both_continue_with_the_same_hash() {
    let (_alone, Some(program)) = (alone(), cometbft()) else { return };
    let seeds = std::env::var("HEARTH_COMET_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for seed in 1..=seeds {
        eprintln!("seed {seed} of {seeds}");
        kill_by(&program, seed);
    }
}

fn kill_by(program: &Path, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = network(program, folder.path(), 1);
    let node = &mut nodes[0];
    let mut dice = fastrand::Rng::with_seed(seed);
    node.start();
    node.wait_for_height(2);
    for _ in 0..5 {
        let height = node.height().unwrap_or(0) + 1 + dice.u64(..4);
        node.wait_for_height(height);
        // At any moment within a block.
        pause(Duration::from_millis(dice.u64(..120)));
        match dice.u64(..5) {
            0 => node.app = None,
            1 => node.comet = None,
            3 => {
                // Kill the application alone and restart it at once.
                node.app = None;
                node.start_app();
                node.let_comet_end();
                continue;
            }
            2 => (node.app, node.comet) = (None, None),
            _ => {
                node.comet = None;
                node.app = None;
            }
        }
        // CometBFT exits by itself when its application is gone.
        if node.app.is_none() {
            node.comet = None;
            node.start_app();
        }
        node.start_comet();
    }
    let goal = node.height().unwrap_or(0).max(10) + 3;
    node.wait_for_height(goal);
    // All blocks once more, from the genesis: CometBFT compares each app hash with the one that was signed.
    (node.app, node.comet) = (None, None);
    node.start_app_in(None);
    node.start_comet();
    node.wait_for_height(goal + 3);
    let info = node.rpc().call("abci_info", json!({})).unwrap();
    assert!(info["response"]["last_block_height"].as_str().unwrap().parse::<u64>().unwrap() >= goal);
}
