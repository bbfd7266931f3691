//! tile: the replay tile.
//!
//! reads   `store_replay`, reliable: slots with new data in the store; `tower_replay`, reliable: [`Command`]s;
//!         `exec_replay` ×N, reliable: chunks of a history batch, then a verdict; if the node makes blocks,
//!         `poh_replay`, reliable: [`LeaderAnswer`]s; the block store
//! writes  `replay_exec` ×N, elective: orders; `replay_tower`, elective: chunks of an [`Event`](crate::tower::Event);
//!         `replay_poh`, elective: [`LeaderOrder`]s; `replay_shred`, elective: slots whose block must be replaced;
//!         `replay_store`, elective: confirmed slots and, with a history, the metadata of other nodes' blocks; the
//!         ledger
//! memory  that of [`Position`], of [`Dispatcher`] and of [`StoreQueue`]; events that wait for room: those of one block
//!         and of a few looks at the store; slots that wait for room on the link to shred, each once
//! drops   metadata of a block for which [`StoreQueue`] has no room: `dropped_metadata`; log lines beyond [`LogLimit`]:
//!         `dead_blocks` and `dumped_slots` count all
//!
//! A turn executes a bounded piece of a block; the last one hashes what the block changed, which takes some
//! milliseconds for a full block. If the node can no longer follow its cluster, the tile reports why ([`Failure`])
//! after tower has received all earlier events, and then does nothing more.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Reader;
use hearth_tile::{Frag, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::Hash;

use super::log_limit::LogLimit;
use super::position::{Counters, LeaderControl, Output, Position, PositionError};
use super::store_queue::StoreQueue;
use super::{Dispatcher, Rules};
use crate::exec::{ExecOrder, ExecVerdict, Report};
use crate::failure::Failure;
use crate::links::{
    EXEC_REPLAY, FAILED, MORE, POH_REPLAY, REPLAY_EXEC, REPLAY_POH, REPLAY_SHRED, REPLAY_TOWER, STORE_REPLAY,
    TOWER_REPLAY,
};
use crate::poh::{LeaderAnswer, LeaderOrder, Parent};
use crate::timer::next_look;
use crate::tower::{Command, pieces};

/// How often to look at the store without a notification.
const LOOK_NS: u64 = 100_000_000;
/// Maximum orders per worker; one of them waits in the link.
const ORDERS_EACH: usize = 2;
/// Maximum event chunks published per turn.
const PIECES: usize = 16;

/// The two links to and from poh.
struct PohLink {
    out: Port,
    answers: In,
    /// Orders that wait for room.
    orders: VecDeque<LeaderOrder>,
    making: Option<u64>,
    is_retracting: bool,
}

impl LeaderControl for PohLink {
    fn reset(&mut self, parent: Parent) {
        self.orders.push_back(LeaderOrder::Reset(parent));
    }

    fn make(&mut self, slot: u64) {
        self.orders.push_back(LeaderOrder::Make(slot));
        self.making = Some(slot);
        self.is_retracting = false;
    }

    fn retract(&mut self) -> bool {
        let Some(slot) = self.making else { return false };
        if self.orders.pop_back_if(|order| *order == LeaderOrder::Make(slot)).is_some() {
            self.making = None;
            return true;
        }
        if !std::mem::replace(&mut self.is_retracting, true) {
            self.orders.push_back(LeaderOrder::Retract(slot));
        }
        false
    }

    fn making(&self) -> Option<u64> {
        self.making
    }
}

/// The configuration of the replay tile.
pub struct Config {
    /// The ledger; its last block is the root.
    pub ledger: Arc<Ledger>,
    /// The block id of that block.
    pub block_id: Hash,
    /// Reads the blocks that the store has.
    pub blocks: Reader,
    /// The chain's parameters for blocks.
    pub rules: Rules,
    /// Whether a history is kept.
    pub records: bool,
    /// Receives the reason if the tile fails.
    pub failure: Failure<PositionError>,
}

/// Replay's view of an exec tile.
struct Worker {
    orders: Port,
    reports: In,
    /// Orders without a report.
    in_flight: usize,
    /// Chunks of the history of the order that it reports next.
    history: Vec<u8>,
}

/// Connects the position to the links and the store.
pub struct ReplayTile {
    position: Position<Reader, Dispatcher, PohLink>,
    store: StoreQueue,
    failure: Failure<PositionError>,
    has_failed: bool,
    /// The reason for a failure, until the events before it are published.
    unsaid: Option<PositionError>,
    commands: In,
    stored: In,
    /// The input from poh, if the node makes blocks.
    answers: Option<In>,
    events: Port,
    shred: Port,
    /// Slots whose block shred must replace, until its link has room.
    dumps: BTreeSet<u64>,
    workers: Vec<Worker>,
    /// Event chunks that wait for room, with their control bits.
    waiting: VecDeque<(Vec<u8>, u16)>,
    /// Largest chunk of an event.
    mtu: usize,
    /// Whether there may be work.
    is_due: bool,
    /// Whether the store reported new data.
    must_look: bool,
    /// When to look at the store anyway.
    look_at: u64,
    log_dumped: LogLimit,
    log_dead: LogLimit,
}

impl Tile for ReplayTile {
    const NAME: &'static str = "replay";
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let Config { ledger, block_id, blocks, rules, records, failure } = config;
        // Commands and reports are taken even while the receivers have no room; otherwise two tiles could wait for each
        // other.
        let (events, shred) = (host.output(REPLAY_TOWER)?, host.output(REPLAY_SHRED)?);
        let ends = host.outputs(REPLAY_EXEC).into_iter().zip(host.inputs_named(EXEC_REPLAY));
        let worker = |(orders, reports)| Worker { orders, reports, in_flight: 0, history: vec![] };
        let workers: Vec<Worker> = ends.map(worker).collect();
        if workers.is_empty() {
            return Err(host.error("there is no exec tile to execute blocks"));
        }
        let poh = host.outputs(REPLAY_POH).first().copied().zip(host.inputs_named(POH_REPLAY).first().copied());
        let poh = poh.map(|(out, answers)| PohLink {
            out,
            answers,
            orders: VecDeque::new(),
            making: None,
            is_retracting: false,
        });
        let answers = poh.as_ref().map(|poh| poh.answers);
        let outputs = workers.iter().map(|worker| worker.orders).chain(poh.as_ref().map(|poh| poh.out));
        outputs.chain([events, shred]).for_each(|port| host.elective(port));
        Ok(Self {
            position: Position::new(ledger, block_id, blocks, Dispatcher::new(rules, records), poh),
            store: StoreQueue::new(host)?,
            failure,
            has_failed: false,
            unsaid: None,
            commands: host.input(TOWER_REPLAY)?,
            stored: host.input(STORE_REPLAY)?,
            answers,
            mtu: host.mtu(events),
            events,
            shred,
            dumps: BTreeSet::new(),
            workers,
            waiting: VecDeque::new(),
            is_due: true,
            must_look: true,
            look_at: 0,
            log_dumped: LogLimit::new("hearth_replay_dumped_slots_total"),
            log_dead: LogLimit::new("hearth_replay_dead_blocks_total"),
        })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        self.is_due = true;
        if frag.input() == self.stored {
            self.must_look = true;
        } else if self.has_failed {
            return;
        } else if frag.input() == self.commands {
            let done = self.position.command(Command::decode(frag.payload()));
            self.after(done, out);
        } else if Some(frag.input()) == self.answers {
            let done = self.take_answer(LeaderAnswer::read(frag.payload()));
            self.after(done, out);
        } else {
            self.take_report(&frag);
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let mut has_worked = false;
        if !self.has_failed {
            self.look(out);
            has_worked |= self.work(out);
        }
        has_worked |= self.send_orders(out) | self.send_dumps(out) | self.store.send(out);
        has_worked |= self.publish(out);
        if has_worked { Poll::Busy } else { Poll::Idle }
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        let looks = !self.has_failed;
        wait.until(looks.then_some(self.look_at));
    }
}

impl ReplayTile {
    /// Executes a piece of a block, or starts one; returns whether there was anything to do.
    fn work(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut has_worked = false;
        // Tower receives a block's events before the next block starts.
        if self.is_due && (self.waiting.is_empty() || self.position.is_executing()) {
            let done = self.position.turn();
            self.is_due = matches!(done, Ok(true));
            has_worked = self.is_due;
            self.after(done.map(|_| ()), out);
        }
        has_worked | (self.position.is_executing() && self.give_orders(out))
    }

    /// Looks at the store if that is due.
    fn look(&mut self, out: &mut Out<'_, Self>) {
        let now = out.now();
        if now >= self.look_at {
            self.look_at = next_look(now, LOOK_NS);
            self.must_look = true;
        }
        self.must_look |= self.position.is_behind();
        // The events of the last look are published first, which bounds the queue.
        if !self.must_look || !self.waiting.is_empty() {
            return;
        }
        self.must_look = false;
        self.look_at = next_look(now, LOOK_NS);
        self.position.look();
        self.is_due = true;
        self.after(Ok(()), out);
    }

    /// Handles the outcome of a slot ordered from poh.
    fn take_answer(&mut self, answer: LeaderAnswer) -> Result<(), PositionError> {
        let poh = self.position.poh().expect("it has answered");
        poh.making = None;
        match answer {
            // Its block is taken over once it is on disk.
            LeaderAnswer::Ended(_) => Ok(()),
            LeaderAnswer::Retracted(slot) => self.position.retracted(slot),
        }
    }

    /// Takes a chunk of a worker's report.
    fn take_report(&mut self, frag: &Frag<'_>) {
        let worker = self.workers.iter_mut().find(|worker| worker.reports == frag.input());
        let worker = worker.expect("no other tile has a link to this one");
        if frag.control() & MORE != 0 {
            return worker.history.extend_from_slice(frag.payload());
        }
        worker.in_flight -= 1;
        let ExecVerdict { failure, costs } = ExecVerdict::read(frag.payload());
        let report = Report { id: frag.tag(), failure, history: std::mem::take(&mut worker.history), costs };
        self.position.executor().report(report);
    }

    /// Issues available orders, first to the workers with the fewest; returns whether there were any.
    fn give_orders(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut has_given = false;
        loop {
            let worker = self.workers.iter_mut().min_by_key(|worker| worker.in_flight).expect("there is one");
            if worker.in_flight >= ORDERS_EACH || out.credits(worker.orders, 1) == 0 {
                return has_given;
            }
            let Some((order, data)) = self.position.executor().order() else { return has_given };
            out.publish_with(worker.orders, order.id, |buffer| ExecOrder::write(buffer, &order, data));
            worker.in_flight += 1;
            has_given = true;
        }
    }

    /// Performs the outputs of the position.
    fn after(&mut self, done: Result<(), PositionError>, out: &mut Out<'_, Self>) {
        for output in self.position.outputs() {
            match output {
                Output::Tower(event) => {
                    let bytes = event.encode();
                    self.waiting.extend(pieces(&bytes, self.mtu).map(|(piece, control)| (piece.to_vec(), control)));
                }
                Output::Confirmed(slot) => self.store.confirm(slot),
                Output::Record { slot, batches } => {
                    self.position.count.dropped_metadata += self.store.record(slot, batches);
                }
                Output::Dump(slot) => {
                    if let Some(end) = self.log_dumped.admit(out.now()) {
                        tracing::warn!(
                            "slot {slot} has another block in the cluster than here: this one is dropped{end}"
                        );
                    }
                    self.dumps.insert(slot);
                }
                Output::Died { slot, why } => {
                    if let Some(end) = self.log_dead.admit(out.now()) {
                        tracing::warn!("the block of slot {slot} is not executed: {why}{end}");
                    }
                }
            }
        }
        if let Err(why) = done {
            self.has_failed = true;
            if let Some(poh) = self.position.poh() {
                poh.orders.retain(|order| !matches!(order, LeaderOrder::Make(_)));
            }
            self.waiting.push_back((vec![], FAILED));
            self.unsaid = Some(why);
        }
        self.say_failure();
        *out.count = self.position.count;
    }

    /// Reports why the tile fails, if it does, once all earlier events are published.
    fn say_failure(&mut self) {
        if self.waiting.is_empty()
            && let Some(why) = self.unsaid.take()
        {
            self.failure.set(why);
        }
    }

    /// Sends waiting orders to poh as far as there is room; returns whether it sent any.
    fn send_orders(&mut self, out: &mut Out<'_, Self>) -> bool {
        let Some(poh) = self.position.poh().filter(|poh| !poh.orders.is_empty()) else { return false };
        let mut has_sent = false;
        while out.credits(poh.out, 1) > 0
            && let Some(order) = poh.orders.pop_front()
        {
            out.publish_with(poh.out, 0, |buffer| order.write(buffer));
            has_sent = true;
        }
        has_sent
    }

    /// Sends slots with dropped blocks to shred as far as there is room; returns whether it sent any.
    fn send_dumps(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut has_sent = false;
        while !self.dumps.is_empty() {
            if out.credits(self.shred, 1) == 0 {
                out.held_up();
                break;
            }
            out.publish(self.shred, self.dumps.pop_first().expect("there is one"), &[]);
            has_sent = true;
        }
        has_sent
    }

    /// Publishes waiting events as far as there is room; returns whether it published any.
    fn publish(&mut self, out: &mut Out<'_, Self>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let wanted = self.waiting.len().min(PIECES);
        let count = out.credits(self.events, wanted).min(wanted);
        if count < wanted {
            out.held_up();
        }
        for (piece, control) in self.waiting.drain(..count) {
            out.publish_control(self.events, 0, control, &piece);
        }
        self.say_failure();
        count > 0
    }
}

#[cfg(test)]
#[path = "tile_tests.rs"]
mod tests;
