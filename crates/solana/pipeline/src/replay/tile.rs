//! tile: replay on a core, between links.
//!
//! reads   `store_replay`, reliable: a slot of which the store has something new; `tower_replay`, reliable: a
//!         [`Command`]; `exec_replay` ×N, reliable: pieces of a batch of the history, then a verdict; where the node
//!         makes blocks `poh_replay`, reliable: a [`LeaderAnswer`]; the block store
//! writes  `replay_exec` ×N, elective: orders; `replay_tower`, elective: pieces of an [`Event`](crate::tower::Event);
//!         `replay_poh`, elective: a [`LeaderOrder`]; `replay_shred`, elective: slots of which another block is to be
//!         taken; `replay_store`, elective: confirmed slots, and where a history is kept the metadata of blocks of
//!         others; the ledger
//! memory  that of [`Position`], of [`Dispatcher`] and of [`StoreQueue`]; events that wait for room: those of one
//!         block and of a few looks at the store; slots that wait for room in shred, each once
//! drops   metadata of a block that [`StoreQueue`] has no room for: `dropped_metadata`; log lines beyond those of
//!         [`LogLimit`]: `dead_blocks` and `dumped_slots` count all
//!
//! A turn does a bounded piece of a block; that at its end hashes what the block changed, some milliseconds where it is
//! full. Where the node can no longer be in its cluster, the tile says why ([`Failure`]), once tower can hear what came
//! before it, and does nothing more.

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

/// How often the store is looked at where nothing says that it has something new.
const LOOK_NS: u64 = 100_000_000;
/// Orders of a worker, one of which waits for it.
const ORDERS_EACH: usize = 2;
/// Pieces of events that one turn publishes at most.
const PIECES: usize = 16;

/// Poh, at the other end of two links.
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

/// What the tile is made from.
pub struct Config {
    /// The chain; its last block is the root.
    pub ledger: Arc<Ledger>,
    /// That block's id.
    pub block_id: Hash,
    /// Blocks.
    pub blocks: Reader,
    /// The chain's rules for them.
    pub rules: Rules,
    /// Whether a history is kept.
    pub records: bool,
    /// Where the tile says why it ends.
    pub failure: Failure<PositionError>,
}

/// An exec tile, as replay sees it.
struct Worker {
    orders: Port,
    reports: In,
    /// Orders that it has not reported on.
    in_flight: usize,
    /// Of the history of the order that it reports on next.
    history: Vec<u8>,
}

/// The tile.
pub struct ReplayTile {
    position: Position<Reader, Dispatcher, PohLink>,
    store: StoreQueue,
    failure: Failure<PositionError>,
    has_failed: bool,
    /// Why, until the events before it are published.
    unsaid: Option<PositionError>,
    commands: In,
    stored: In,
    /// From poh, where the node makes blocks.
    answers: Option<In>,
    events: Port,
    shred: Port,
    /// Slots that shred is to take another block of, sent once its link has room.
    dumps: BTreeSet<u64>,
    workers: Vec<Worker>,
    /// Pieces of events that wait for room, with their control bits.
    waiting: VecDeque<(Vec<u8>, u16)>,
    /// Largest piece of an event.
    mtu: usize,
    /// Whether there may be something to do.
    is_due: bool,
    /// Whether the store has something new.
    must_look: bool,
    /// When the store is looked at without that.
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
        // Commands and reports are taken even while the receivers have no room: else each could wait for the other.
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

    fn wait_for(&self) -> WaitFor {
        let looks = !self.has_failed;
        WaitFor { deadline: looks.then_some(self.look_at), ..WaitFor::default() }
    }
}

impl ReplayTile {
    /// Executes a piece of a block, or begins one; whether there was anything to do.
    fn work(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut has_worked = false;
        // Tower hears of a block before the next is begun.
        if self.is_due && (self.waiting.is_empty() || self.position.is_executing()) {
            let done = self.position.turn();
            self.is_due = matches!(done, Ok(true));
            has_worked = self.is_due;
            self.after(done.map(|_| ()), out);
        }
        has_worked | (self.position.is_executing() && self.give_orders(out))
    }

    /// Looks at the store where that is due.
    fn look(&mut self, out: &mut Out<'_, Self>) {
        let now = out.now();
        if now >= self.look_at {
            self.look_at = next_look(now, LOOK_NS);
            self.must_look = true;
        }
        self.must_look |= self.position.is_behind();
        // Events of the last look are published first, which bounds what waits.
        if !self.must_look || !self.waiting.is_empty() {
            return;
        }
        self.must_look = false;
        self.look_at = next_look(now, LOOK_NS);
        self.position.look();
        self.is_due = true;
        self.after(Ok(()), out);
    }

    /// What became of a slot that poh was to make.
    fn take_answer(&mut self, answer: LeaderAnswer) -> Result<(), PositionError> {
        let poh = self.position.poh().expect("it has answered");
        poh.making = None;
        match answer {
            // Its block is taken over once it is on disk.
            LeaderAnswer::Ended(_) => Ok(()),
            LeaderAnswer::Retracted(slot) => self.position.retracted(slot),
        }
    }

    /// A piece of a worker's report.
    fn take_report(&mut self, frag: &Frag<'_>) {
        let worker = self.workers.iter_mut().find(|worker| worker.reports == frag.input());
        let worker = worker.expect("no other tile has a link to this one");
        if frag.control() & MORE != 0 {
            return worker.history.extend_from_slice(frag.payload());
        }
        worker.in_flight -= 1;
        let failure = ExecVerdict::read(frag.payload());
        let report = Report { id: frag.tag(), failure, history: std::mem::take(&mut worker.history) };
        self.position.executor().report(report);
    }

    /// Hands out what can be worked at, to those first who have the least; whether there was anything.
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

    /// Hands out what the position has to say.
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

    /// Says why the tile ends, where it does, once all that it had to say before is published.
    fn say_failure(&mut self) {
        if self.waiting.is_empty()
            && let Some(why) = self.unsaid.take()
        {
            self.failure.set(why);
        }
    }

    /// Sends poh the orders that wait, as far as there is room; whether there was any.
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

    /// Sends shred the slots whose blocks are dropped, as far as there is room; whether there was any.
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

    /// Publishes what waits, as far as there is room; whether there was anything.
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
