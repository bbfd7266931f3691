//! A node under test: its configuration, its process, its RPC and its metrics.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use hearth_rpc_client::http::{self, Patience};
use hearth_rpc_client::{Options, RpcClient, RpcError};
use hearth_testkit::ports;
pub use hearth_testkit::wait_for as wait_until;
use hearth_wire::base58::{decode_32, encode_32, encode_64};
use hearth_wire::{Hash, Pubkey, Signature};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// The longest that anything here may take.
pub const DEADLINE: Duration = hearth_testkit::PATIENCE;
/// Upper bound for a page, in bytes.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// `Ok` when both are equal.
pub fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found:?}, expected {expected:?}")) }
}

/// The ports of one node, below the range of ephemeral ports.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub rpc: u16,
    pub metrics: u16,
    pub udp: u16,
    pub quic: u16,
}

impl Ports {
    /// Returns five ports that are free for both TCP and UDP.
    fn free() -> Self {
        let tcp = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let udp = |port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let port = ports::reserve(|first| (first..first + 5).all(|port| tcp(port) && udp(port)));
        Self { rpc: port, metrics: port + 2, udp: port + 3, quic: port + 4 }
    }
}

/// Everything a node is started with: folder, configuration, ports.
pub struct Setup {
    pub folder: tempfile::TempDir,
    pub name: String,
    pub ports: Ports,
    tables: toml::Table,
}

impl Setup {
    /// Creates a configuration for the test of this name.
    pub fn new(test: &str) -> Self {
        let ports = Ports::free();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let name = format!("test-{test}-{}", std::process::id());
        let mut setup = Self { folder, name: name.clone(), ports, tables: toml::Table::new() };
        let ledger = setup.ledger().display().to_string();
        setup
            .with("name", name)
            .with("ledger.path", ledger)
            .with("ledger.limit_size", 2_000_000_000)
            // So the counters cover only what the tests send.
            .with("consensus.vote", false)
            .with("rpc.port", i64::from(ports.rpc))
            .with("rpc.status_capacity", 16_384)
            .with("tiles.metric.prometheus_listen_port", i64::from(ports.metrics))
            .with("tiles.quic.regular_transaction_listen_port", i64::from(ports.udp))
            .with("tiles.quic.quic_transaction_listen_port", i64::from(ports.quic))
            .with("tiles.verify.table_bytes", 16 << 20)
            .with("tiles.dedup.signature_cache_size", 1 << 16)
            .with("tiles.pack.max_pending_transactions", 4096)
            .with("development.genesis.fund_initial_accounts", 64);
        setup
    }

    /// Puts the node in a cluster, as a follower if given an entrypoint; returns its gossip port.
    pub fn in_cluster(&mut self, entrypoint: Option<u16>) -> u16 {
        let Ports { rpc: gossip, metrics: serve, udp: tvu, quic: repair } = Ports::free();
        self.with("gossip.enabled", true)
            .with("gossip.port", i64::from(gossip))
            .with("tiles.shred.shred_listen_port", i64::from(tvu))
            .with("tiles.repair.repair_client_listen_port", i64::from(repair))
            .with("tiles.repair.repair_serve_listen_port", i64::from(serve));
        if let Some(port) = entrypoint {
            self.with("gossip.entrypoints", vec![format!("127.0.0.1:{port}")]);
        }
        gossip
    }

    /// Returns the port at which a node in a cluster takes shreds.
    pub fn tvu(&self) -> u16 {
        self.port("tiles.shred.shred_listen_port")
    }

    /// The port that the configuration has at this path.
    pub fn port(&self, path: &str) -> u16 {
        let (first, rest) = path.split_once('.').expect("a key in a table");
        let value =
            self.tables.get(first).and_then(|table| rest.split('.').try_fold(table, |table, name| table.get(name)));
        value.and_then(toml::Value::as_integer).and_then(|port| port.try_into().ok()).expect("it is configured")
    }

    /// Sets a key, given as `layout.affinity`.
    pub fn with(&mut self, path: &str, value: impl Into<toml::Value>) -> &mut Self {
        let (tables, key) = path.rsplit_once('.').map_or(("", path), |(tables, key)| (tables, key));
        let mut table = &mut self.tables;
        for name in tables.split('.').filter(|name| !name.is_empty()) {
            let inner = table.entry(name).or_insert_with(|| toml::Table::new().into());
            table = inner.as_table_mut().expect("a table");
        }
        table.insert(key.to_owned(), value.into());
        self
    }

    pub fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    pub fn workspace(&self) -> PathBuf {
        Path::new("/dev/shm").join(format!("hearth-{}", self.name))
    }

    /// Writes the configuration file.
    pub fn config(&self) -> PathBuf {
        let path = self.folder.path().join("hearth.toml");
        std::fs::write(&path, toml::to_string(&self.tables).expect("plain data"))
            .expect("the configuration is written");
        path
    }

    /// `hearth COMMAND --config FILE`, in the test's folder.
    pub fn command(&self, command: &str) -> Command {
        let mut process = hearth();
        process.arg(command).arg("--config").arg(self.config()).current_dir(self.folder.path());
        process
    }

    /// Runs a command to its end.
    pub fn output(&self, command: &str, arguments: &[&str]) -> Output {
        output(self.command(command).args(arguments))
    }

    /// Starts `hearth run` and waits until it is ready.
    pub fn start(&self) -> Node {
        self.start_with(&[])
    }

    /// The same with options.
    pub fn start_with(&self, options: &[&str]) -> Node {
        let process = Process::start(self.command("run").args(options));
        process.wait_for_line("ready;");
        Node { process, ports: self.ports }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // A killed node leaves its workspace behind for inspection.
        let _ = std::fs::remove_file(self.workspace());
    }
}

/// The binary, without arguments.
pub fn hearth() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn output(command: &mut Command) -> Output {
    command.output().expect("the binary starts")
}

/// Reads standard output until a line contains `text` and closes it soon after, as `head` does. Gives how the
/// command ends, which
/// must be without a word about it.
pub fn ends_when_unread(command: &mut Command, text: &str) -> ExitStatus {
    let mut process = Process::start(command);
    process.wait_for_line(text);
    // The thread that reads ends with the next line, and closes the pipe.
    process.lines = channel().1;
    let (status, _) = process.ended();
    let said = process.errors();
    assert!(!said.contains("error") && !said.contains("panicked"), "{said}");
    status
}

/// A child process whose standard output is read line by line. Killed when dropped.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    stderr: File,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        let stderr = tempfile::tempfile().expect("a temporary file");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone().expect("a second handle"))
            .spawn()
            .expect("the binary starts");
        let (tell, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        // Ends with the process, so it needs no join.
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines, stderr }
    }

    /// Reads on until a line contains `text`; gives all lines up to there.
    pub fn wait_for_line(&self, text: &str) -> Vec<String> {
        let (start, mut seen) = (Instant::now(), vec![]);
        loop {
            match self.lines.recv_timeout(DEADLINE.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    let found = line.contains(text);
                    seen.push(line);
                    if found {
                        return seen;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no `{text}` in time: {seen:#?}\n{}", self.errors()),
                Err(RecvTimeoutError::Disconnected) => panic!("ended without `{text}`: {seen:#?}\n{}", self.errors()),
            }
        }
    }

    /// The lines of standard output that were not read so far.
    pub fn new_lines(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Waits until a line of either output contains `text`.
    pub fn wait_for_any(&self, text: &str) {
        wait_until(text, || {
            let said = self.lines.try_iter().any(|line| line.contains(text)) || self.errors().contains(text);
            said.then_some(()).ok_or_else(|| self.errors())
        });
    }

    /// Waits for a line of standard output with `text` (`true`) or for the end of the output (`false`).
    pub fn is_ready_or_ended(&mut self, text: &str) -> Result<bool, String> {
        if self.lines.try_iter().any(|line| line.contains(text)) {
            return Ok(true);
        }
        if self.is_alive() { Err(self.errors()) } else { Ok(false) }
    }

    /// Returns the standard error so far.
    pub fn errors(&self) -> String {
        use std::os::unix::fs::FileExt;
        let len = self.stderr.metadata().map_or(0, |m| m.len()) as usize;
        let mut bytes = vec![0; len];
        let read = self.stderr.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("the process takes signals");
    }

    /// Waits for its end; gives its status and the lines not read so far.
    pub fn wait(mut self) -> (ExitStatus, Vec<String>) {
        self.ended()
    }

    /// Waits for the end; returns the status, all of standard error, then the lines not read so far.
    pub fn wait_with_errors(mut self) -> (ExitStatus, String) {
        let (status, lines) = self.ended();
        (status, self.errors() + &lines.join("\n"))
    }

    fn ended(&mut self) -> (ExitStatus, Vec<String>) {
        let mut lines = vec![];
        let status = wait_until("the process's end", || {
            lines.extend(self.lines.try_iter());
            self.child.try_wait().expect("it is our child").ok_or_else(|| self.errors())
        });
        lines.extend(self.lines.iter());
        (status, lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `hearth run`.
pub struct Node {
    pub process: Process,
    pub ports: Ports,
}

impl Node {
    pub fn quic(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.quic).into()
    }

    pub fn udp(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.udp).into()
    }

    pub fn rpc(&self) -> Rpc {
        Rpc::on(self.ports.rpc)
    }

    pub fn metrics(&self) -> Metrics {
        Metrics::read(self.ports.metrics).expect("the node serves metrics")
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(self) {
        self.process.signal(Signal::KILL);
        self.process.wait();
    }

    /// Ctrl-C; the node must end well.
    pub fn stop(self) {
        self.process.signal(Signal::INT);
        let (status, lines) = self.process.wait();
        assert!(status.success(), "{status}: {lines:#?}");
    }
}

/// Fetches an HTTP path on a port of this machine.
pub fn page(port: u16, path: &str) -> std::io::Result<String> {
    let agent = http::direct(Patience::Step(DEADLINE));
    http::get(&agent, &format!("http://127.0.0.1:{port}{path}"), PAGE_BYTES_MAX).map_err(http::Error::into_io)
}

/// A JSON-RPC client of the node.
#[derive(Clone, Copy)]
pub struct Rpc {
    address: SocketAddr,
}

impl Rpc {
    /// That on this port.
    pub fn on(port: u16) -> Self {
        Self::at((Ipv4Addr::LOCALHOST, port).into())
    }

    /// That at this address.
    pub fn at(address: SocketAddr) -> Self {
        Self { address }
    }

    /// The result of a call; an error of the RPC panics.
    pub fn call(self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|why| panic!("{method}: {why}"))
    }

    /// Returns the result of a call, or the reason for its failure.
    pub fn try_call(self, method: &str, params: Value) -> Result<Value, String> {
        let options = Options { patience: Patience::Step(DEADLINE), ..Options::default() };
        let client = RpcClient::new(&format!("http://{}", self.address), &options).expect("a URL");
        client.call(method, &params).map_err(|why| match why {
            RpcError::Refused { code, message, data, .. } => {
                let mut error = json!({ "code": code, "message": message });
                data.into_iter().for_each(|data| error["data"] = *data);
                error.to_string()
            }
            other => other.to_string(),
        })
    }

    pub fn transaction_count(self) -> u64 {
        self.call("getTransactionCount", json!([{ "commitment": "processed" }])).as_u64().expect("a count")
    }

    pub fn balance(self, address: &Pubkey) -> u64 {
        let params = json!([&*encode_32(address), { "commitment": "processed" }]);
        self.call("getBalance", params)["value"].as_u64().expect("lamports")
    }

    pub fn latest_blockhash(self) -> Hash {
        self.latest_blockhash_at("processed")
    }

    pub fn latest_blockhash_at(self, commitment: &str) -> Hash {
        let latest = self.call("getLatestBlockhash", json!([{ "commitment": commitment }]));
        decode_32(latest["value"]["blockhash"].as_str().expect("a text")).expect("a blockhash")
    }

    pub fn is_blockhash_valid(self, blockhash: &Hash) -> bool {
        let params = json!([&*encode_32(blockhash), { "commitment": "processed" }]);
        self.call("isBlockhashValid", params)["value"].as_bool().expect("yes or no")
    }

    pub fn identity(self) -> Pubkey {
        let identity = self.call("getIdentity", json!([]));
        decode_32(identity["identity"].as_str().expect("a text")).expect("an address")
    }

    /// Returns one status per signature.
    pub fn statuses(self, signatures: &[Signature]) -> Vec<Value> {
        let mut statuses = vec![];
        for some in signatures.chunks(256) {
            let texts: Vec<String> = some.iter().map(|s| encode_64(s).to_string()).collect();
            let mut answer = self.call("getSignatureStatuses", json!([texts]));
            statuses.append(answer["value"].as_array_mut().expect("a list"));
        }
        statuses
    }
}

/// All metrics at a moment.
pub struct Metrics {
    text: String,
}

impl Metrics {
    /// Scrapes all metrics from the node whose `metric` tile listens on `port`.
    pub fn read(port: u16) -> std::io::Result<Self> {
        Ok(Self { text: page(port, "/metrics")? })
    }

    /// The page as served.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Sum over all tiles of `hearth_{name}_total`; the counter must be there.
    pub fn total(&self, name: &str) -> u64 {
        let head = format!("hearth_{name}_total{{");
        let values = self.text.lines().filter(|line| line.starts_with(&head));
        let values: Vec<u64> = values
            .map(|line| line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a whole number"))
            .collect();
        assert!(!values.is_empty(), "no counter {name} in:\n{}", self.text);
        values.iter().sum()
    }

    /// Returns the gauge `hearth_{name}`, which exactly one tile has.
    pub fn gauge(&self, name: &str) -> u64 {
        let head = format!("hearth_{name}{{");
        let line = self.text.lines().find(|line| line.starts_with(&head));
        let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
        value.unwrap_or_else(|| panic!("no gauge {name} in:\n{}", self.text))
    }

    /// Every counter of a drop that is not zero, `verify_dropped_signature`, summed over the tiles of a kind.
    pub fn dropped(&self) -> std::collections::BTreeMap<String, u64> {
        let mut dropped = std::collections::BTreeMap::new();
        for line in self.text.lines().filter(|line| line.contains("_dropped_") && !line.starts_with('#')) {
            let (name, rest) = line.split_once('{').expect("labels");
            let value: u64 = rest.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a whole number");
            let name = name.trim_start_matches("hearth_").trim_end_matches("_total");
            if value > 0 {
                *dropped.entry(name.to_owned()).or_default() += value;
            }
        }
        dropped
    }

    /// Transactions executed and committed, with success or without.
    pub fn committed(&self) -> u64 {
        self.total("bank_landed") + self.total("bank_failed")
    }
}
