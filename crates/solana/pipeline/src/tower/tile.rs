//! tile: the tower tile.
//!
//! reads   `sign_tower`, reliable: the signatures of a vote's message; in a cluster what [`member`](super::member)
//!         reads, else what [`solo`](super::solo) reads
//! writes  `tower_sign`, elective: the message of a vote; a signed vote: in a cluster `tower_txsend`, elective, else
//!         `tower_pack`, elective; in a cluster what [`member`](super::member) writes
//! memory  that of [`Core`]; waiting for room: a message, the newest vote
//! drops   a vote that waits for room when a newer one replaces it, which implies it: counted
//!
//! The tile has no key: sign has it. In a cluster another thread writes and syncs the files
//! ([`Writer`](super::Writer)), since a sync takes milliseconds and other tiles may share the core. The vote waits for
//! it; the tile does not. A disk error other than a full disk ends the node, because a vote whose tower is lost may
//! contradict the next; so does another process with this node's identity. The tile then reports the reason
//! ([`Failure`]) and does nothing more. A vote that sign refuses is a bug in the program: the tile panics.

use std::time::Duration;

use hearth_tile::{Clock, Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::Signature;

use super::core::{Clocks, Core, Counters, Output, TowerError};
use super::has_room;
use super::member::Member;
use super::saved::Files;
use super::solo::SoloDriver;
use crate::failure::Failure;
use crate::links::{SIGN_TOWER, TOWER_PACK, TOWER_SIGN, TOWER_TXSEND};

/// The configuration of the tower tile.
pub struct Config {
    /// Consensus in its initial state.
    pub core: Core,
    /// The files that hold tower and root.
    pub files: Box<dyn Files + Send>,
    /// Receives the reason if the tile fails.
    pub failure: Failure<TowerError>,
    /// Whether the node is in a cluster or alone.
    pub membership: Membership,
}

/// Whether the node is a member of a cluster. It decides which links the tile has, and whether other nodes vote.
pub enum Membership {
    /// Other nodes vote and make blocks too; the tile exchanges messages with replay, gossip and repair.
    Cluster,
    /// The node has all the stake and makes every block; store reports which blocks are durable.
    Alone(SoloDriver),
}

/// The links that depend on the [`Membership`], with the state that belongs to them.
enum Links {
    /// In a cluster the tile is linked with replay, gossip, repair, shred and rserve.
    Cluster(Box<Member>),
    /// Alone it has a link from store.
    Alone(SoloDriver),
}

/// Connects consensus to its links.
pub struct Tower {
    core: Core,
    files: Box<dyn Files + Send>,
    failure: Failure<TowerError>,
    has_failed: bool,
    links: Links,
    from_sign: In,
    to_sign: Port,
    /// To the leaders of the next slots: through txsend, or straight to pack if the node is alone.
    to_leaders: Port,
    /// Waiting for room: the newest message to sign, with its number; the newest vote.
    unsigned: Option<(u64, Vec<u8>)>,
    vote: Option<Vec<u8>>,
    /// Whether anything arrived since the last step.
    is_due: bool,
}

impl Tile for Tower {
    const NAME: &'static str = "tower";
    // A vote may need two signature checks: other tiles on the core get their turn after a few votes.
    const FRAGS_PER_RUN: usize = 4;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let Config { core, mut files, failure, membership } = config;
        files.on_finished(host.waker());
        let from_sign = host.input(SIGN_TOWER)?;
        let to_sign = host.output(TOWER_SIGN)?;
        let (links, to_leaders) = match membership {
            Membership::Cluster => {
                let member = Member::new(&core, host)?;
                (Links::Cluster(Box::new(member)), host.output(TOWER_TXSEND)?)
            }
            Membership::Alone(alone) => (Links::Alone(alone.begin(host)?), host.output(TOWER_PACK)?),
        };
        // Signatures are taken even while there is no room; otherwise two tiles could wait for each other.
        [to_sign, to_leaders].into_iter().for_each(|port| host.elective(port));
        Ok(Self {
            core,
            files,
            failure,
            has_failed: false,
            links,
            from_sign,
            to_sign,
            to_leaders,
            unsigned: None,
            vote: None,
            is_due: true,
        })
    }

    fn filter(&mut self, _: &FragMeta, input: In) -> Filter {
        match &self.links {
            Links::Cluster(member) if !member.takes(input) => Filter::Later,
            _ => Filter::Take,
        }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if self.has_failed {
            return;
        }
        if frag.input() == self.from_sign {
            let (signatures, rest) = frag.payload().as_chunks::<64>();
            assert!(rest.is_empty(), "sign answers with whole signatures");
            let signatures: &[Signature] = signatures;
            self.core.on_signed(frag.tag(), signatures, Clocks::at(out));
            // This node's own vote may be what confirms a block.
            self.is_due = true;
            return self.hand_out();
        }
        match &mut self.links {
            Links::Cluster(member) if member.is_failure(&frag) => return self.end(),
            Links::Cluster(member) => match member.on_frag(&frag, &mut self.core, out) {
                Ok(is_due) => self.is_due |= is_due,
                Err(why) => return self.fail(why),
            },
            Links::Alone(alone) => alone.on_durable(&frag),
        }
        self.hand_out();
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        // First, so that commands for votes do not block consensus.
        let mut has_published = self.publish(out);
        self.is_due |= self.files.has_finished();
        let (is_free, is_tick) = match &mut self.links {
            Links::Cluster(member) => (member.is_free(), member.is_tick(out.now())),
            // All of its work follows from a durable block.
            Links::Alone(alone) => {
                self.is_due |= alone.report_block(&mut self.core, out);
                (true, false)
            }
        };
        // Consensus continues once its last decisions are on their way to replay.
        if (self.is_due || is_tick) && is_free && !self.has_failed {
            self.is_due = false;
            if let Links::Cluster(member) = &mut self.links
                && is_tick
            {
                has_published |= member.tick(&mut self.core, out);
            }
            let done = self.core.poll(Clocks::at(out), &mut *self.files);
            self.hand_out();
            // After its earlier outputs.
            if let Err(why) = done {
                self.fail(why);
            }
            has_published |= self.publish(out);
        }
        *out.count = self.core.count;
        if has_published { Poll::Busy } else { Poll::Idle }
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        let deadline = match &self.links {
            Links::Cluster(member) => (member.is_free() && !self.has_failed).then_some(member.tick_at()),
            Links::Alone(alone) => alone.look_at(&self.core),
        };
        wait.until(deadline);
    }
}

impl Tower {
    fn fail(&mut self, why: TowerError) {
        self.end();
        self.failure.set(why);
    }

    /// Ends the tile's work: no waiting vote leaves, and no slot starts.
    fn end(&mut self) {
        self.has_failed = true;
        self.unsigned = None;
        self.vote = None;
        if let Links::Cluster(member) = &mut self.links {
            member.end();
        }
    }

    /// Distributes the core's outputs.
    fn hand_out(&mut self) {
        for output in self.core.outputs() {
            match (output, &mut self.links) {
                // Another one has replaced it since: its signatures would be useless.
                (Output::Sign { number, message }, _) => self.unsigned = Some((number, message.bytes().to_vec())),
                (Output::Vote(transaction), _) => {
                    let before = self.vote.replace(transaction);
                    self.core.count.replaced_votes += u64::from(before.is_some());
                }
                (Output::Identity(node), Links::Cluster(member)) => {
                    self.unsigned = None;
                    self.vote = None;
                    member.apply(Output::Identity(node), &mut self.core);
                }
                (output, Links::Cluster(member)) => member.apply(output, &mut self.core),
                (output, Links::Alone(alone)) => alone.apply(&output),
            }
        }
    }

    /// Publishes waiting messages as far as there is room; returns whether it published any.
    fn publish(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut has_published = match &mut self.links {
            Links::Cluster(member) => member.publish_commands(out),
            Links::Alone(_) => false,
        };
        if let Some((number, message)) = self.unsigned.take_if(|_| has_room(self.to_sign, out)) {
            out.publish(self.to_sign, number, &message);
            has_published = true;
        }
        if let Some(vote) = self.vote.take_if(|_| has_room(self.to_leaders, out)) {
            out.set_received();
            out.publish(self.to_leaders, first_bytes(&vote), &vote);
            out.set_origin(0);
            self.core.count.votes += 1;
            has_published = true;
        }
        if let Links::Cluster(member) = &mut self.links {
            has_published |= member.publish_statements(out);
        }
        has_published
    }
}

/// The tag of a vote: the first bytes of its first signature, after the count of signatures. No other sender can choose
/// it.
fn first_bytes(transaction: &[u8]) -> u64 {
    u64::from_le_bytes(*transaction[1..].first_chunk().expect("a transaction has a signature"))
}

impl Clocks {
    /// Reads the time of a host's clock.
    pub fn of(clock: &Clock) -> Self {
        Self::new(clock.now(), clock.wall_ns())
    }

    /// Reads the time of the tile's host.
    pub(super) fn at<T: Tile>(out: &Out<'_, T>) -> Self {
        Self::new(out.now(), out.wall_ns())
    }

    fn new(monotonic_ns: u64, wall_ns: u64) -> Self {
        Self { monotonic: Duration::from_nanos(monotonic_ns), unix_ms: wall_ns / 1_000_000 }
    }
}
