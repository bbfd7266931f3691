//! tile: tower on a core, between links.
//!
//! reads   `replay_tower`, reliable: pieces of an [`Event`]; `sign_tower`, reliable: the signatures of a vote's
//!         message; by [`Peers`], what gossip has received
//! writes  `tower_replay`, elective: a [`Command`]; `tower_sign`, elective: the message of a vote; `tower_txsend`,
//!         elective: a signed vote; by [`Peers`], the rest
//! memory  that of [`Core`]; an event; what waits for room: commands of one step, a message, the newest vote
//! drops   a vote that waits for room in txsend when a newer one comes, which says all that it said: counted
//! source  –
//!
//! No key is here: sign has it. A disk that fails for another reason than that it is full ends the node: a vote whose
//! tower is lost may contradict the next. Then the tile says so ([`Failure`]) and does nothing more.

use std::collections::VecDeque;
use std::time::Duration;

use hearth_tile::{Clock, Frag, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::Signature;

use super::codec::Pieces;
use super::core::{Core, Counters, Now, Output, TowerError};
use super::messages::Event;
use super::saved::Files;
use crate::failure::Failure;
use crate::links::{REPLAY_TOWER, SIGN_TOWER, TOWER_REPLAY, TOWER_SIGN, TOWER_TXSEND};

/// How often the time is looked at, and gossip heard.
const TICK_NS: u64 = 10_000_000;
/// Commands that one turn publishes at most.
const COMMANDS: usize = 16;

/// What the tile exchanges with those who are no tiles: gossip, repair, and who asks for ancestors.
pub trait Peers: Send {
    /// Hands what gossip has received to `core`; whether there was anything.
    fn hear(&mut self, core: &mut Core) -> bool;

    /// Takes an output for which there is no link.
    fn take(&mut self, output: Output);
}

/// What the tile is made from.
pub struct Config {
    /// Consensus, where it begins.
    pub core: Core,
    /// Where tower and root are kept.
    pub files: Box<dyn Files + Send>,
    /// Gossip and the like.
    pub peers: Box<dyn Peers>,
    /// Where the tile says why it ends.
    pub failure: Failure<TowerError>,
}

/// The tile.
pub struct Tower {
    core: Core,
    files: Box<dyn Files + Send>,
    peers: Box<dyn Peers>,
    failure: Failure<TowerError>,
    has_failed: bool,
    events: Pieces,
    from_replay: In,
    to_replay: Port,
    to_sign: Port,
    to_txsend: Port,
    /// What waits for room: commands; the newest message to be signed, with its number; the newest vote.
    commands: VecDeque<Vec<u8>>,
    unsigned: Option<(u64, Vec<u8>)>,
    vote: Option<Vec<u8>>,
    /// Whether something came since the last step.
    is_due: bool,
    /// When the time is looked at again.
    tick_at: u64,
}

impl Tile for Tower {
    const NAME: &'static str = "tower";
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let Config { core, files, peers, failure } = config;
        host.input(SIGN_TOWER)?;
        let (to_replay, to_sign) = (host.output(TOWER_REPLAY)?, host.output(TOWER_SIGN)?);
        let to_txsend = host.output(TOWER_TXSEND)?;
        // Events and signatures are taken even while there is no room: else two tiles could wait for each other.
        [to_replay, to_sign, to_txsend].into_iter().for_each(|port| host.elective(port));
        Ok(Self {
            core,
            files,
            peers,
            failure,
            has_failed: false,
            events: Pieces::default(),
            from_replay: host.input(REPLAY_TOWER)?,
            to_replay,
            to_sign,
            to_txsend,
            commands: VecDeque::new(),
            unsigned: None,
            vote: None,
            is_due: true,
            tick_at: 0,
        })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let now = now(out.now(), out.unix_ns());
        if frag.input() == self.from_replay {
            if let Some(event) = self.events.push(frag.payload(), frag.control()) {
                self.core.on_event(Event::decode(event), now);
                self.is_due = true;
            }
            return;
        }
        let (signatures, rest) = frag.payload().as_chunks::<64>();
        assert!(rest.is_empty(), "sign answers with whole signatures");
        let signatures: &[Signature] = signatures;
        self.core.on_signed(frag.tag(), signatures, now);
        self.hand_out();
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let is_tick = out.now() >= self.tick_at;
        // Consensus goes on once what it said last is on its way to replay.
        if (self.is_due || is_tick) && self.commands.is_empty() && !self.has_failed {
            self.is_due = false;
            if is_tick {
                self.tick_at = out.now() + TICK_NS;
                self.peers.hear(&mut self.core);
            }
            let done = self.core.poll(now(out.now(), out.unix_ns()), &mut *self.files);
            self.hand_out();
            // After what it has said before.
            if let Err(why) = done {
                self.has_failed = true;
                self.failure.set(why);
            }
        }
        let has_published = self.publish(out);
        *out.count = self.core.count;
        if has_published { Poll::Busy } else { Poll::Idle }
    }

    fn wait_for(&self) -> WaitFor {
        let looks = self.commands.is_empty() && !self.has_failed;
        WaitFor { deadline: looks.then_some(self.tick_at), ..WaitFor::default() }
    }
}

impl Tower {
    /// Sorts what the core wants done.
    fn hand_out(&mut self) {
        for output in self.core.outputs() {
            match output {
                Output::Replay(command) => self.commands.push_back(command.encode()),
                // One in place of it was made since: its signatures would be of no use.
                Output::Sign { number, message } => self.unsigned = Some((number, message.bytes().to_vec())),
                Output::Vote(transaction) => {
                    let before = self.vote.replace(transaction);
                    self.core.count.replaced_votes += u64::from(before.is_some());
                }
                output => self.peers.take(output),
            }
        }
    }

    /// Publishes what waits, as far as there is room; whether there was anything.
    fn publish(&mut self, out: &mut Out<'_, Self>) -> bool {
        if self.commands.is_empty() && self.unsigned.is_none() && self.vote.is_none() {
            return false;
        }
        let wanted = self.commands.len().min(COMMANDS);
        let count = out.credits(self.to_replay, wanted).min(wanted);
        for command in self.commands.drain(..count) {
            out.publish(self.to_replay, 0, &command);
        }
        let mut has_published = count > 0;
        if self.unsigned.is_some()
            && out.credits(self.to_sign, 1) > 0
            && let Some((number, message)) = self.unsigned.take()
        {
            out.publish(self.to_sign, number, &message);
            has_published = true;
        }
        if self.vote.is_some()
            && out.credits(self.to_txsend, 1) > 0
            && let Some(vote) = self.vote.take()
        {
            out.set_received();
            out.publish(self.to_txsend, 0, &vote);
            out.set_origin(0);
            self.core.count.votes += 1;
            has_published = true;
        }
        if count < wanted || self.unsigned.is_some() || self.vote.is_some() {
            out.held_up();
        }
        has_published
    }
}

impl Now {
    /// The time of a host's clock.
    pub fn of(clock: &Clock) -> Self {
        let at = clock.now();
        now(at, clock.unix_ns(at))
    }
}

fn now(monotonic_ns: u64, unix_ns: u64) -> Now {
    Now { monotonic: Duration::from_nanos(monotonic_ns), unix_ms: unix_ns / 1_000_000 }
}
