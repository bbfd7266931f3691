//! Starts and stops the nodes of a cluster.
//!
//! reads   `cluster.json`, the nodes' RPC, their logs when they end
//! writes  processes, and their pids in `cluster.json`
//! memory  the end of a log

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use hearth_command::node_rpc;
use hearth_command::output::note;
use hearth_command::stop::StopSignal;
use hearth_machine::sockets::{self, Protocol};
use rustix::process::Signal;
use serde_json::json;

use super::LocalError;
use super::member::{Cluster, Limits};
use super::process::Process;

/// Time limit for a node to serve.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for nodes to end after a stop request.
const GRACE: Duration = Duration::from_secs(8);
/// Time limit for a killed process to disappear, since it finishes its disk writes.
const KILLED: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Number of log lines to show of a node that ended.
const LOG_LINES: usize = 12;

/// Started nodes, which are stopped on drop unless they are kept.
pub struct StartedNodes<'a> {
    cluster: &'a mut Cluster,
    numbers: Vec<usize>,
    /// Whether the nodes outlive this process.
    stay: bool,
}

impl<'a> StartedNodes<'a> {
    /// No node is started yet.
    pub fn of(cluster: &'a mut Cluster) -> Self {
        Self { cluster, numbers: vec![], stay: true }
    }

    /// Makes nodes started from now on end with this process, however it ends.
    pub fn bind(&mut self) {
        self.stay = false;
    }

    /// Starts nodes that do not run, and waits until each serves.
    pub fn start(&mut self, numbers: &[usize], stop: &StopSignal) -> Result<(), LocalError> {
        for &number in numbers {
            let node = &self.cluster.nodes[number];
            let rpc = node_rpc::at(&node.rpc())?.address()?;
            // Connections of an earlier run that are still closing do not block the port.
            if TcpListener::bind(rpc).is_err_and(|why| why.kind() == ErrorKind::AddrInUse)
                && let Some(holder) = sockets::holder(Protocol::Tcp, rpc)
            {
                return Err(LocalError::Taken { node: node.name.clone(), address: rpc, holder });
            }
            let (config, log) = (self.cluster.config(node), self.cluster.log(node));
            let process = Process::start(&config, &log, self.stay);
            let process = process.map_err(|source| LocalError::Start { node: node.name.clone(), source })?;
            self.cluster.nodes[number].process = Some(process);
            self.numbers.push(number);
            self.cluster.save()?;
        }
        numbers.iter().try_for_each(|number| self.wait(*number, stop))
    }

    /// The cluster whose nodes these are.
    pub fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// Stops all nodes, and configures other limits of a block for their next start.
    pub fn limit(&mut self, limits: Limits, cores: &[usize]) -> Result<(), LocalError> {
        let numbers = std::mem::take(&mut self.numbers);
        self.cluster.stop(&numbers)?;
        self.cluster.limits = limits;
        self.cluster.configure(cores)?;
        self.cluster.save()
    }

    /// Keeps the nodes running.
    pub fn keep(mut self) {
        self.numbers.clear();
    }

    fn wait(&self, number: usize, stop: &StopSignal) -> Result<(), LocalError> {
        let node = &self.cluster.nodes[number];
        let rpc = node_rpc::at(&node.rpc())?;
        let address = rpc.address()?;
        let begun = Instant::now();
        loop {
            if stop.is_set() {
                return Err(LocalError::Stopped);
            }
            let Some(process) = node.process.filter(Process::is_alive) else {
                return Err(LocalError::Ended { node: node.name.clone(), said: self.cluster.last_words(number) });
            };
            // Another program that took the port first is not the node, whatever it answers.
            if rpc.call("getSlot", &json!([])).is_ok() && has_port(process, address) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let (node, said) = (node.name.clone(), self.cluster.last_words(number));
                return Err(LocalError::Silent { node, seconds: PATIENCE.as_secs(), said });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for StartedNodes<'_> {
    fn drop(&mut self) {
        if self.numbers.is_empty() {
            return;
        }
        note("the nodes that were started are stopped");
        let numbers = std::mem::take(&mut self.numbers);
        // The original error was already reported.
        if let Err(why) = self.cluster.stop(&numbers) {
            note(why);
        }
        let _ = self.cluster.save();
    }
}

impl Cluster {
    /// The numbers of the nodes that run, or that do not.
    pub fn running(&self, running: bool) -> Vec<usize> {
        let runs = |number: &usize| self.nodes[*number].process.is_some_and(|process| process.is_alive());
        (0..self.nodes.len()).filter(|number| runs(number) == running).collect()
    }

    /// Stops nodes, and kills those that do not end in time; returns the number of killed ones.
    ///
    /// # Errors
    ///
    /// Some processes still exist after the time limit.
    pub fn stop(&mut self, numbers: &[usize]) -> Result<usize, LocalError> {
        let processes: Vec<Process> = numbers.iter().filter_map(|number| self.nodes[*number].process).collect();
        processes.iter().for_each(|process| process.signal(Signal::TERM));
        wait_for(&processes, GRACE);
        let left: Vec<Process> = processes.into_iter().filter(Process::is_alive).collect();
        left.iter().for_each(|process| process.signal(Signal::KILL));
        wait_for(&left, KILLED);
        let lives = self.living(numbers);
        for &number in numbers {
            if self.nodes[number].process.is_some_and(|process| process.is_alive()) {
                continue;
            }
            // A killed node leaves its workspace behind.
            let _ = fs::remove_file(self.workspace(&self.nodes[number]));
            self.nodes[number].process = None;
        }
        lives.map(|()| left.len())
    }

    /// Kills a node.
    ///
    /// # Errors
    ///
    /// The process still exists after the time limit.
    pub fn kill(&mut self, number: usize) -> Result<(), LocalError> {
        if let Some(process) = self.nodes[number].process {
            process.signal(Signal::KILL);
            wait_for(&[process], KILLED);
        }
        self.living(&[number])
    }

    fn living(&self, numbers: &[usize]) -> Result<(), LocalError> {
        let is_alive = |number: &&usize| self.nodes[**number].process.is_some_and(|process| process.is_alive());
        let names: Vec<&str> =
            numbers.iter().filter(is_alive).map(|number| self.nodes[*number].name.as_str()).collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(LocalError::Lives { nodes: names.join(", "), seconds: KILLED.as_secs() }),
        }
    }

    /// The last lines of a node's log.
    pub fn last_words(&self, number: usize) -> String {
        let text = fs::read_to_string(self.log(&self.nodes[number])).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        if last.is_empty() {
            return "It said nothing".into();
        }
        let last: String = last.iter().map(|line| format!("\n  {line}")).collect();
        format!("The last that it said:{last}")
    }
}

/// Whether the process listens at the address.
fn has_port(process: Process, address: SocketAddr) -> bool {
    let holder = sockets::holder(Protocol::Tcp, address);
    holder.and_then(|holder| holder.program).is_some_and(|program| program.pid == process.pid)
}

fn wait_for(processes: &[Process], patience: Duration) {
    let begun = Instant::now();
    while processes.iter().any(Process::is_alive) && begun.elapsed() < patience {
        std::thread::sleep(LOOK_EVERY);
    }
}
