//! A whole node for tests: `hearth run` as a child process, on ports of its own.
//!
//! reads   the node's RPC until it answers
//! writes  a configuration file and the node's log into its folder

use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::rpc::Rpc;

/// A node must answer within this.
const START_WITHIN: Duration = Duration::from_secs(90);
/// A node must exit within this time after it is asked to.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// Between two looks at something that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// First port to use: below the ephemeral range, so that the system does not assign it.
const FIRST_PORT: u16 = 18_000;
const PORTS: u16 = 8_000;

/// Five ports in a row: RPC, WebSocket, metrics, and the TPU over UDP and QUIC.
pub fn free_ports() -> Result<u16, String> {
    let start = std::process::id() as u16 % (PORTS / 8);
    let free = |port: u16| {
        let tcp = (port..port + 3).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
        tcp && (port + 3..port + 5).all(|port| UdpSocket::bind(("127.0.0.1", port)).is_ok())
    };
    let groups = (0..PORTS / 8).map(|i| FIRST_PORT + (start + i) % (PORTS / 8) * 8);
    groups.into_iter().find(|port| free(*port)).ok_or_else(|| "no five free ports in a row on 127.0.0.1".into())
}

/// Waits until `look` has something; `Err` when `within` has gone by.
pub fn wait_for<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("{what}: not within {} s", within.as_secs()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A running `hearth run`; killed when dropped.
pub struct Node {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Node {
    /// Starts a small node whose chain is in `folder`, and waits until its RPC reports healthy.
    pub fn start(binary: &Path, folder: &Path, port: u16) -> Result<Self, String> {
        Self::start_as(binary, folder, port, &(config_text(folder, port) + SMALL))
    }

    /// Like `start`, with full-size tables, for measurements.
    pub fn start_whole(binary: &Path, folder: &Path, port: u16) -> Result<Self, String> {
        Self::start_as(binary, folder, port, &config_text(folder, port))
    }

    fn start_as(binary: &Path, folder: &Path, port: u16, text: &str) -> Result<Self, String> {
        let config = folder.join("hearth.toml");
        std::fs::write(&config, text).map_err(|error| cannot_write(folder, error))?;
        let mut command = Command::new(binary);
        command.arg("run").arg("--config").arg(&config);
        Self::spawn(command, folder, port, |rpc| rpc.call("getHealth", json!([])).is_ok_and(|health| health == "ok"))
    }

    /// Starts an in-memory EVM chain with the well-known development accounts, and waits until its RPC answers.
    pub fn start_evm(binary: &Path, folder: &Path, port: u16, options: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(binary);
        command.args(["evm", "run", "--rpc-port", &port.to_string()]).args(options);
        Self::spawn(command, folder, port, |rpc| rpc.call("eth_chainId", json!([])).is_ok())
    }

    fn spawn(mut command: Command, folder: &Path, port: u16, is_ready: fn(&Rpc) -> bool) -> Result<Self, String> {
        let log = folder.join("hearth.log");
        let out = File::options().create(true).append(true).open(&log).map_err(|error| cannot_write(folder, error))?;
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(out.try_clone().map_err(|error| cannot_write(folder, error))?).stderr(out);
        let program = command.get_program().to_owned();
        let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut node = Self { child, log, port };
        let rpc = node.rpc();
        let ready = wait_for("an RPC that answers", START_WITHIN, || match node.child.try_wait() {
            Ok(Some(status)) => Some(Err(format!("hearth run ended at once: {status}"))),
            Ok(None) => is_ready(&rpc).then_some(Ok(())),
            Err(error) => Some(Err(format!("cannot wait for hearth run: {error}"))),
        });
        ready.flatten().map_err(|why| node.explain(&why))?;
        Ok(node)
    }

    /// The id of the node's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The node's JSON-RPC at its port of 127.0.0.1.
    pub fn rpc(&self) -> Rpc {
        Rpc::local(self.port)
    }

    /// Adds the end of the node's log to an error.
    pub fn explain(&self, why: &str) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log.len().saturating_sub(4000)..]).into_owned();
        format!("{why}\n--- the end of the node's log\n{log}")
    }
    /// Stops the node with the signal of Ctrl-C; an error unless it exits cleanly.
    pub fn stop(mut self) -> Result<(), String> {
        crate::run::run(Command::new("sh").args(["-c", &format!("kill -INT {}", self.child.id())]))?;
        let status: Result<ExitStatus, String> =
            wait_for("the node's end after SIGINT", STOP_WITHIN, || self.child.try_wait().ok().flatten());
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.explain(&format!("the node ended with {status} after SIGINT"))),
            Err(why) => Err(self.explain(&why)),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cannot_write(folder: &Path, error: std::io::Error) -> String {
    format!("cannot write into {}: {error}", folder.display())
}

/// Few accounts, small tables.
const SMALL: &str = "
[tiles.verify]
table_bytes = 16_777_216

[development.genesis]
fund_initial_accounts = 16
";

/// A node that keeps everything inside its folder.
fn config_text(folder: &Path, port: u16) -> String {
    let path = |name: &str| serde_json::Value::from(folder.join(name).to_string_lossy()).to_string();
    let (metric, udp, quic) = (port + 2, port + 3, port + 4);
    format!(
        r#"name = "test-{port}"

[hugetlbfs]
workspace_path = {}

[ledger]
path = {}
limit_size = 200_000_000

[rpc]
port = {port}

[tiles.quic]
regular_transaction_listen_port = {udp}
quic_transaction_listen_port = {quic}

[tiles.metric]
prometheus_listen_port = {metric}
"#,
        path(""),
        path("ledger")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_what_was_found_or_with_the_time() {
        let mut looks = 0;
        let found = wait_for("three", Duration::from_secs(10), || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Ok(3));
        let error = wait_for::<()>("nothing", Duration::ZERO, || None).unwrap_err();
        assert!(error.contains("nothing"), "{error}");
    }

    #[test]
    fn ports_that_are_taken_are_passed_over() {
        let first = free_ports().unwrap();
        let _taken = TcpListener::bind(("127.0.0.1", first + 1)).unwrap();
        let next = free_ports().unwrap();
        assert!(next != first && !(first..first + 5).contains(&next), "{first} {next}");
    }

    #[test]
    fn a_program_that_ends_at_once_is_reported_with_its_log() {
        let folder = crate::run::TempFolder::new("node").unwrap();
        let error = Node::start(Path::new("ls"), folder.path(), free_ports().unwrap()).err().unwrap();
        assert!(error.contains("exit status: 2") && error.contains("--config"), "{error}");
    }
}
