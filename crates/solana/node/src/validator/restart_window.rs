//! `hearth validator wait-for-restart-window`: waits until a restart costs the cluster nothing.
//!
//! reads   the node's admin socket; its epoch, leader schedule, vote accounts, newest snapshot and health, over its RPC
//! writes  what it waits for, on standard error
//! memory  the node's leader slots of two epochs
//! source  `wait_for_restart_window` of `agave-validator` 4.2.2; unlike there, the next epoch's schedule counts too,
//!         and a slot is as long as the chain's genesis says

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use hearth_command::node_rpc::{self, Rpc, RpcError};
use hearth_command::output::CommandOutput;
use hearth_command::progress::Progress;
use hearth_ledger::Genesis;
use hearth_ledger::genesis::GENESIS_NAME;
use hearth_machine::port::reachable;
use serde_json::{Value, json};

use super::ValidatorError;
use crate::admin::AdminClient;
use crate::config::Address;

/// Interval of looks at the node.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Duration of a slot where the genesis cannot be read.
const SLOT_MS_DEFAULT: u64 = 400;

/// The conditions of a restart window.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Window {
    /// How long the node must not lead, from the restart on.
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    pub min_idle_time: u64,
    /// The stake that may be delinquent then, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub max_delinquent_stake: u8,
    /// Do not wait for a new snapshot to restart from.
    #[arg(long)]
    pub skip_new_snapshot_check: bool,
    /// Do not ask whether the node is healthy.
    #[arg(long)]
    pub skip_health_check: bool,
}

/// The arguments of `hearth validator wait-for-restart-window`.
#[derive(Args)]
pub struct WaitForRestartWindow {
    /// The node whose leader slots count [default: the node itself].
    #[arg(long, value_name = "ADDRESS")]
    pub identity: Option<Address>,
    /// The conditions of a restart window.
    #[command(flatten)]
    pub window: Window,
}

impl WaitForRestartWindow {
    /// Waits for a window of the node of this ledger folder.
    pub(super) fn run(&self, folder: &Path, say: &CommandOutput) -> Result<(), ValidatorError> {
        wait(folder, &self.window, self.identity, say)
    }
}

/// The state of a node and its cluster at one query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeFacts {
    pub slot: u64,
    pub epoch: u64,
    /// The leader slots from `slot` on, in order, as far as they are known.
    pub leads: Vec<u64>,
    /// Whether there are leader slots in the epochs of which the schedule is known.
    pub is_leader: bool,
    /// The first slot of which the leader is not known.
    pub known_to: u64,
    pub is_healthy: bool,
    /// Per cent of the stake.
    pub delinquent: f64,
    /// The slot of the newest snapshot.
    pub snapshot: Option<u64>,
}

/// The decision after one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WindowCheck {
    /// It is a good time.
    Restart,
    /// It is not, for this reason.
    Wait(String),
}

/// The conditions, and what was seen before.
pub(super) struct Watch {
    idle_slots: u64,
    max_delinquent: u8,
    needs_snapshot: bool,
    /// The newest snapshot when an idle window was first met.
    snapshot: Option<Option<u64>>,
    /// The epoch whose windows were looked at.
    epoch: Option<u64>,
}

impl Watch {
    pub fn new(idle_slots: u64, max_delinquent: u8, needs_snapshot: bool) -> Self {
        Self { idle_slots, max_delinquent, needs_snapshot, snapshot: None, epoch: None }
    }

    /// Decides whether it is a good time.
    ///
    /// # Errors
    ///
    /// The known schedule has no window that is long enough.
    pub fn look(&mut self, seen: &NodeFacts) -> Result<WindowCheck, ValidatorError> {
        if self.epoch != Some(seen.epoch) {
            self.epoch = Some(seen.epoch);
            self.check_windows(seen)?;
        }
        if !seen.is_healthy {
            return Ok(WindowCheck::Wait("the node is unhealthy".into()));
        }
        if let Some(why) = self.busy(seen) {
            return Ok(WindowCheck::Wait(why));
        }
        let before = *self.snapshot.get_or_insert(seen.snapshot);
        Ok(if self.needs_snapshot && before == seen.snapshot {
            WindowCheck::Wait("waiting for a new snapshot".into())
        } else if seen.delinquent > 0.0 && seen.delinquent >= f64::from(self.max_delinquent) {
            WindowCheck::Wait(format!("{:.2} % of the stake are delinquent", seen.delinquent))
        } else {
            WindowCheck::Restart
        })
    }

    fn check_windows(&self, seen: &NodeFacts) -> Result<(), ValidatorError> {
        let ends = seen.leads.iter().copied().chain([seen.known_to]);
        let begins = std::iter::once(seen.slot).chain(seen.leads.iter().copied());
        let longest = ends.zip(begins).map(|(end, begin)| end.saturating_sub(begin)).max().unwrap_or(0);
        if seen.leads.is_empty() || longest >= self.idle_slots {
            return Ok(());
        }
        Err(ValidatorError::NoWindow { wanted: self.idle_slots, longest, to: seen.known_to })
    }

    /// Why the node is not idle for long enough.
    fn busy(&self, seen: &NodeFacts) -> Option<String> {
        match seen.leads.first() {
            Some(next) if next.saturating_sub(seen.slot) >= self.idle_slots => None,
            Some(next) => {
                let slots = next.saturating_sub(seen.slot);
                Some(format!("the node leads slot {next}, in {slots} slots"))
            }
            None if !seen.is_leader || seen.known_to.saturating_sub(seen.slot) >= self.idle_slots => None,
            None => Some(format!("who leads from slot {} on is not known yet", seen.known_to)),
        }
    }
}

/// The leader slots of an epoch and of the next: each with the epoch's first slot.
#[derive(Default)]
struct Schedules {
    current: Option<(u64, Vec<u64>)>,
    next: Option<(u64, Vec<u64>)>,
}

impl Schedules {
    /// Fetches what is not known yet of the epoch that begins at `first`, and of the next.
    fn update(&mut self, rpc: &Rpc, identity: &str, first: u64, slots: u64) -> Result<(), RpcError> {
        for (schedule, first) in [(&mut self.current, first), (&mut self.next, first + slots)] {
            if schedule.as_ref().is_none_or(|(known, _)| *known != first) {
                *schedule = leads(rpc, identity, first)?.map(|leads| (first, leads));
            }
        }
        Ok(())
    }
}

/// The leader slots of the epoch that begins at `first`; `None` if its schedule is not known yet.
fn leads(rpc: &Rpc, identity: &str, first: u64) -> Result<Option<Vec<u64>>, RpcError> {
    let schedule = rpc.call("getLeaderSchedule", &json!([first, { "identity": identity }]))?;
    let Some(leaders) = schedule.as_object() else { return Ok(None) };
    let indexes = leaders.get(identity).and_then(Value::as_array);
    Ok(Some(indexes.into_iter().flatten().filter_map(Value::as_u64).map(|index| first + index).collect()))
}

/// Looks at a node.
fn see(rpc: &Rpc, identity: &str, schedules: &mut Schedules, asks_health: bool) -> Result<NodeFacts, RpcError> {
    let info = rpc.call("getEpochInfo", &json!([{ "commitment": "processed" }]))?;
    let number = |key: &str| info[key].as_u64().unwrap_or(0);
    let (slot, slots) = (number("absoluteSlot"), number("slotsInEpoch"));
    let first = slot.saturating_sub(number("slotIndex"));
    schedules.update(rpc, identity, first, slots)?;
    let known = [&schedules.current, &schedules.next];
    let all = || known.into_iter().flatten().flat_map(|(_, leads)| leads.iter().copied());
    let epochs = if schedules.next.is_some() { 2 } else { 1 };
    let votes = rpc.call("getVoteAccounts", &json!([]))?;
    Ok(NodeFacts {
        slot,
        epoch: number("epoch"),
        leads: all().filter(|lead| *lead >= slot).collect(),
        is_leader: all().next().is_some(),
        known_to: first + epochs * slots,
        is_healthy: !asks_health || rpc.call("getHealth", &json!([])).is_ok(),
        delinquent: delinquent(&votes),
        // Without one there is an error.
        snapshot: rpc.call("getHighestSnapshotSlot", &json!([])).ok().and_then(|newest| newest_snapshot(&newest)),
    })
}

/// The newest state that a start can go on from.
fn newest_snapshot(newest: &Value) -> Option<u64> {
    newest["incremental"].as_u64().or_else(|| newest["full"].as_u64())
}

/// Per cent of the stake that has not voted for a while.
fn delinquent(votes: &Value) -> f64 {
    let stake = |key: &str| {
        let accounts = votes[key].as_array().into_iter().flatten();
        accounts.filter_map(|account| account["activatedStake"].as_u64()).map(|stake| stake as f64).sum::<f64>()
    };
    let delinquent = stake("delinquent");
    let all = stake("current") + delinquent;
    if all > 0.0 { 100.0 * delinquent / all } else { 0.0 }
}

/// Waits for a window of the node of this ledger folder; the leader slots are those of `identity`, or the node's own.
pub(super) fn wait(
    folder: &Path,
    window: &Window,
    identity: Option<Address>,
    say: &CommandOutput,
) -> Result<(), ValidatorError> {
    let mut admin = AdminClient::connect(folder)?;
    let address = rpc_address(&mut admin)?;
    let takes_snapshots = admin.call("isGeneratingSnapshots")? == true;
    let rpc = node_rpc::at(&format!("http://{}", reachable(address)))?;
    let own = rpc.call("getIdentity", &json!([]))?["identity"].as_str().unwrap_or_default().to_owned();
    let identity = identity.map_or(own.clone(), |identity| identity.to_string());
    let slot_ms = Genesis::load(&folder.join(GENESIS_NAME)).map_or(SLOT_MS_DEFAULT, |genesis| genesis.config().slot_ms);
    let idle_slots = window.min_idle_time.saturating_mul(60_000) / slot_ms.max(1);
    say.line(format_args!("Identity: {identity}"));
    say.line(format_args!("Minimum Idle Time: {idle_slots} slots (~{} minutes)", window.min_idle_time));
    say.line(format_args!("Maximum permitted delinquency: {} %", window.max_delinquent_stake));
    let needs_snapshot = takes_snapshots && !window.skip_new_snapshot_check && identity == own;
    let mut watch = Watch::new(idle_slots, window.max_delinquent_stake, needs_snapshot);
    let mut schedules = Schedules::default();
    let mut shown = Progress::new();
    loop {
        let seen = see(&rpc, &identity, &mut schedules, !window.skip_health_check)?;
        match watch.look(&seen)? {
            WindowCheck::Restart => {
                shown.clear();
                say.line(format_args!("Ready to restart, at slot {}", seen.slot));
                return Ok(());
            }
            WindowCheck::Wait(why) => shown.tell(|| format!("slot {}: {why}", seen.slot)),
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The address at which the node serves its RPC, once it runs.
fn rpc_address(admin: &mut AdminClient) -> Result<SocketAddr, ValidatorError> {
    let answer = admin.call("rpcAddress")?;
    match answer.as_str().map(str::parse) {
        Some(Ok(address)) => Ok(address),
        Some(Err(_)) => Err(ValidatorError::Garbled { method: "rpcAddress", answer: answer.to_string() }),
        None => {
            let stage = admin.call("startProgress")?;
            Err(ValidatorError::Starting(stage.as_str().unwrap_or("unknown").to_owned()))
        }
    }
}
