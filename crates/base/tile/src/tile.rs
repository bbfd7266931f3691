//! tile: what a tile is: the [`Tile`] trait, and what the loop gives to a tile.
//!
//! A tile reads frags ([`Tile::on_frag`]), does work of its own ([`Tile::poll`]: sockets, timers, hashing), writes
//! frags and counts through [`Out`]. It never blocks, never logs in the loop, and never learns which core it runs on.
//! [`Host`] is what it may ask for when it is created.
//!
//! The frags of one input arrive in the order in which they were published, one at a time. Between inputs no order is
//! guaranteed: the loop starts each turn with another input, so that none starves.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use hearth_ring::{Consumer, FragMeta, Producer};

use crate::bandwidth;
use crate::clock::Clock;
use crate::counters::CounterSet;
use crate::latency::{self, Histogram, LatencyDecl};
use crate::wake::Waker;

/// A job that a core's thread runs in bounded turns.
pub trait Tile: Sized + Send + 'static {
    /// The name of its kind in the topology, configuration and monitor.
    const NAME: &'static str;
    /// Maximum frags that one callback ([`Tile::on_frag`], [`Tile::end_burst`], [`Tile::poll`]) publishes to any one
    /// output. The loop calls only when every output that is not elective has this much room.
    const BURST: usize = 1;
    /// Maximum frags read between two calls of [`Tile::end_burst`].
    const FRAGS_PER_RUN: usize = 128;
    /// The latencies that it reports, one histogram each. The loop records the first one itself if that is
    /// [`latency::TAKEN`].
    const LATENCIES: &'static [LatencyDecl] = &[];
    /// Peers to distinguish when it counts their bytes: [`bandwidth::PLACES`] for a tile that talks to peers.
    const PEERS: usize = 0;
    /// The value that a tile is built from: one per tile.
    type Config: Send;
    /// Its counters, declared with [`counters!`](crate::counters!).
    type Counters: CounterSet;

    /// Creates the tile: allocates all its memory, opens its sockets, looks up its links. The tile owns its `config`.
    fn new(config: Self::Config, host: &mut Host<'_>) -> Result<Self, InitError>;

    /// Decides by metadata alone whether to take the frag, skip it, or leave it in place to be offered again.
    fn filter(&mut self, _meta: &FragMeta, _input: In) -> Filter {
        Filter::Take
    }

    /// Handles one frag. The payload is invalid after the call.
    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>);

    /// Called once after at most [`Tile::FRAGS_PER_RUN`] frags, if any was taken: the place for work in batches.
    /// Without room on an output the loop waits for it first, and neither polls nor reads frags meanwhile.
    fn end_burst(&mut self, _out: &mut Out<'_, Self>) {}

    /// Does work that no frag triggers. Called once per turn, before frags are read. Must be bounded (a few tens of
    /// microseconds), since other tiles may share the core.
    fn poll(&mut self, _out: &mut Out<'_, Self>) -> Poll {
        Poll::Idle
    }

    /// Called about every millisecond while running, or every five if the tile does not work, for gauges and ageing.
    /// The counters are written after it if the tile has worked since they last were, else every 20 to 25 ms. No room
    /// is promised: check [`Out::credits`] before publishing.
    fn housekeep(&mut self, _out: &mut Out<'_, Self>) {}

    /// Adds what besides a frag gives this tile something to do. Called before its core parks.
    fn wait_for(&self, _wait: &mut WaitFor) {}

    /// Called after a sleep if the tile waited for descriptors, with a bit for each that was readable or had failed as
    /// the sleep ended: the lowest for the first that [`Tile::wait_for`] added. All bits are set if that is not known.
    fn slept(&mut self, _readable: u32) {}

    /// Called once when the node stops: the last chance to publish (if [`Out::credits`] has room) or to flush to disk.
    fn stop(&mut self, _out: &mut Out<'_, Self>) {}
}

/// An input of a tile, by its position in the topology's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct In(pub(crate) u16);

/// An output of a tile, by its position in the topology's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port(pub(crate) u16);

impl In {
    /// The position among the tile's inputs.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The answer of [`Tile::filter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Read the frag's payload and pass it to [`Tile::on_frag`].
    Take,
    /// Pass over it; it is not offered again.
    Skip,
    /// Leave it; it is offered again. Other inputs continue.
    Later,
}

/// The answer of [`Tile::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Something was done; call again soon.
    Busy,
    /// There was nothing to do; the core may sleep if no tile has work.
    Idle,
}

/// What a parked core waits for on behalf of its tiles, besides frags. Every tile adds its own, so that a core collects
/// them without an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitFor {
    /// Descriptors to wait for until they are readable.
    pub readable: Vec<RawFd>,
    /// The first deadline on the host's clock, in nanoseconds.
    pub deadline: Option<u64>,
}

impl WaitFor {
    /// Adds a deadline on the host's clock, in nanoseconds, if there is one.
    pub fn until(&mut self, deadline: impl Into<Option<u64>>) {
        let deadline: Option<u64> = deadline.into();
        self.deadline = self.deadline.into_iter().chain(deadline).min();
    }

    /// Adds descriptors to wait for until they are readable.
    pub fn descriptors(&mut self, descriptors: impl IntoIterator<Item = RawFd>) {
        self.readable.extend(descriptors);
    }

    /// Removes everything, but keeps the memory.
    pub fn clear(&mut self) {
        self.readable.clear();
        self.deadline = None;
    }
}

/// One frag, as a tile sees it.
#[derive(Clone, Copy, Debug)]
pub struct Frag<'a> {
    pub(crate) meta: FragMeta,
    pub(crate) input: In,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frag<'a> {
    /// The payload, at most the link's `mtu` bytes; empty if the frag has none.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The same frag with another payload, such as a copy that the producer cannot change.
    pub fn with_payload<'b>(&self, payload: &'b [u8]) -> Frag<'b> {
        Frag { meta: self.meta, input: self.input, payload }
    }

    /// The input on which it arrived.
    pub fn input(&self) -> In {
        self.input
    }

    /// A word that the producer chose, usually a hash to filter by.
    pub fn tag(&self) -> u64 {
        self.meta.tag
    }

    /// The producer's control bits.
    pub fn control(&self) -> u16 {
        self.meta.control
    }

    /// The sequence number on its link.
    pub fn seq(&self) -> u64 {
        self.meta.seq
    }
}

pub(crate) struct OutPort {
    pub(crate) producer: Producer,
    pub(crate) elective: bool,
    pub(crate) published: u64,
}

/// The outputs, counters and clock of a tile, as a callback may use them.
pub struct Out<'a, T: Tile> {
    /// The tile's counters: plain integers, flushed by the loop.
    pub count: &'a mut T::Counters,
    pub(crate) ports: &'a mut [OutPort],
    pub(crate) now: u64,
    pub(crate) clock: &'a Clock,
    pub(crate) latencies: &'a mut [Histogram],
    pub(crate) bandwidth: &'a mut bandwidth::Table,
    pub(crate) origin_us: u32,
    pub(crate) filtered: bool,
    pub(crate) held_up: bool,
    pub(crate) sleeps_next: bool,
}

impl<T: Tile> Out<'_, T> {
    /// The start time of this callback, on the host's clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Reads the host's clock.
    pub fn fresh_now(&self) -> u64 {
        self.clock.now()
    }

    /// `now` in nanoseconds since the Unix epoch.
    pub fn unix_ns(&self) -> u64 {
        self.clock.unix_ns(self.now)
    }

    /// Wall-clock time in nanoseconds since the Unix epoch, which may step backwards: see [`Clock::wall_ns`].
    pub fn wall_ns(&self) -> u64 {
        self.clock.wall_ns()
    }

    /// Whether the core sleeps after this pass over its tiles unless one of them works in it. The sleep looks at all
    /// descriptors of [`Tile::wait_for`], so a tile need not ask the kernel about them now.
    pub fn sleeps_next(&self) -> bool {
        self.sleeps_next
    }

    /// Publishes a copy of `payload`. Panics if the output has no room: more than [`Tile::BURST`] frags were published,
    /// or the [`Out::credits`] of an elective output were not checked.
    #[inline]
    pub fn publish(&mut self, port: Port, tag: u64, payload: &[u8]) {
        self.publish_control(port, tag, 0, payload);
    }

    /// Like [`Out::publish`], with control bits.
    #[inline]
    pub fn publish_control(&mut self, port: Port, tag: u64, control: u16, payload: &[u8]) {
        let (origin, now) = (self.origin_us, self.now as u32);
        let port = &mut self.ports[usize::from(port.0)];
        port.producer.send(payload, tag, control, origin, now);
        port.published += 1;
    }

    /// Publishes what `fill` writes into the link's own memory: it gets `mtu` bytes and returns how many it used.
    #[inline]
    pub fn publish_with(&mut self, port: Port, tag: u64, fill: impl FnOnce(&mut [u8]) -> usize) {
        let (origin, now) = (self.origin_us, self.now as u32);
        let port = &mut self.ports[usize::from(port.0)];
        let size = fill(port.producer.buffer());
        port.producer.publish(size, tag, 0, origin, now);
        port.published += 1;
    }

    /// How many frags the output has room for; exact if the result is `wanted` or fewer.
    #[inline]
    pub fn credits(&mut self, port: Port, wanted: usize) -> usize {
        self.ports[usize::from(port.0)].producer.credits(wanted)
    }

    /// Maximum payload of an output, in bytes.
    pub fn mtu(&self, port: Port) -> usize {
        self.ports[usize::from(port.0)].producer.mtu()
    }

    /// How many frags of the output its slowest reliable consumer has not released yet. Reads lines that consumers
    /// write: once per turn is enough.
    pub fn queued(&mut self, port: Port) -> usize {
        self.ports[usize::from(port.0)].producer.queued()
    }

    /// Marks the current frag as dropped after looking at it, so that its time counts as filtered.
    pub fn filtered(&mut self) {
        self.filtered = true;
    }

    /// Reports that there is something to publish and an elective output has no room for it: the turn counts as
    /// backpressure, which the loop detects by itself for other outputs.
    pub fn held_up(&mut self) {
        self.held_up = true;
    }

    /// When the current transaction entered the node, a [`latency::stamp`]; 0 if unknown, or if there is none, as
    /// outside [`Tile::on_frag`].
    pub fn origin_us(&self) -> u32 {
        self.origin_us
    }

    /// Sets the origin time of what is published next; frags carry it on by themselves.
    pub fn set_origin(&mut self, origin_us: u32) {
        self.origin_us = origin_us;
    }

    /// Marks what is published next as entering the node now.
    pub fn set_received(&mut self) {
        self.origin_us = latency::stamp(self.now);
    }

    /// Counts a datagram's bytes for the peer that sent it.
    #[inline]
    pub fn received_from(&mut self, peer: SocketAddr, bytes: usize) {
        self.bandwidth.received(peer, bytes as u64);
    }

    /// Counts bytes for the peer that they were sent to.
    #[inline]
    pub fn sent_to(&mut self, peer: SocketAddr, bytes: usize) {
        self.bandwidth.sent(peer, bytes as u64);
    }

    /// Records the age of a transaction at `now` in the histogram with this index in [`Tile::LATENCIES`]; does nothing
    /// if its origin is unknown.
    #[inline]
    pub fn record_latency(&mut self, which: usize, origin_us: u32, now: u64) {
        if let Some(age) = latency::age_us(origin_us, now) {
            self.latencies[which].record(age);
        }
    }
}

/// Why a tile could not be created. Shown to the operator: says what failed and what to try.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The topology has no such link for the tile.
    #[error("tile {tile} has no {direction} named `{link}` in the topology")]
    NoLink {
        /// The tile's full name.
        tile: String,
        /// The word `input` or `output`, for the error's text.
        direction: &'static str,
        /// Name of the link.
        link: String,
    },
    /// A socket could not be opened.
    #[error("tile {tile} cannot open {what}: {source}{}", hint(source))]
    Socket {
        /// The tile's full name.
        tile: String,
        /// Address and protocol of the socket.
        what: String,
        /// Why the socket could not be opened, as the system says it.
        source: std::io::Error,
    },
    /// Any other failure, described by the tile.
    #[error("tile {tile}: {why}")]
    Other {
        /// The tile's full name.
        tile: String,
        /// What failed and what to try.
        why: String,
    },
}

fn hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program listens there: choose another port, or stop it (`ss -tuanp` shows it)"
        }
        std::io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges: choose a higher one",
        _ => "",
    }
}

/// The source of a tile's secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// The random numbers of the operating system, a new seed at every start.
    System,
    /// A seed, for tests.
    Seeded(u64),
}

/// SplitMix64: advances the state and returns the next word.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The host of a tile, which the tile asks for its links and more while it is created.
pub struct Host<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: usize,
    pub(crate) peers: usize,
    pub(crate) clock: &'a Clock,
    pub(crate) inputs: &'a [Consumer],
    pub(crate) ports: &'a mut [OutPort],
    pub(crate) waker: &'a Waker,
    pub(crate) entropy: &'a mut Entropy,
}

impl Host<'_> {
    /// The tile's full name, `verify:1`.
    pub fn name(&self) -> &str {
        self.name
    }

    /// The tile's index among its kind, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many tiles of its kind there are.
    pub fn peers(&self) -> usize {
        self.peers
    }

    /// The host's clock: real in production, virtual in tests.
    pub fn clock(&self) -> &Clock {
        self.clock
    }

    /// Wakes the core that runs this tile, from any thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// A fresh secret word; the same sequence each time in tests.
    pub fn entropy(&mut self) -> u64 {
        match self.entropy {
            Entropy::System => {
                let mut bytes = [0; 8];
                crate::sys::random::fill(&mut bytes);
                u64::from_ne_bytes(bytes)
            }
            Entropy::Seeded(state) => split_mix(state),
        }
    }

    /// A fresh 32-byte secret; the same sequence each time in tests.
    pub fn secret(&mut self) -> [u8; 32] {
        let words: [[u8; 8]; 4] = std::array::from_fn(|_| self.entropy().to_le_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    /// Returns the output named `link` (`dedup_pack`), or the first if there are several.
    pub fn output(&self, link: &str) -> Result<Port, InitError> {
        self.outputs(link).first().copied().ok_or_else(|| self.no_link("output", link))
    }

    /// Returns all outputs named `link` or `link:0`, `link:1`, …, in order.
    pub fn outputs(&self, link: &str) -> Vec<Port> {
        let names = self.ports.iter().map(|p| p.producer.name());
        names.enumerate().filter(|(_, n)| kind_of(n) == link).map(|(i, _)| Port(i as u16)).collect()
    }

    /// Returns the input named `link`, or the first if there are several.
    pub fn input(&self, link: &str) -> Result<In, InitError> {
        self.inputs_named(link).first().copied().ok_or_else(|| self.no_link("input", link))
    }

    /// Returns all inputs named `link` or `link:0`, `link:1`, …, in order.
    pub fn inputs_named(&self, link: &str) -> Vec<In> {
        let names = self.inputs.iter().map(|c| c.link());
        names.enumerate().filter(|(_, n)| kind_of(n) == link).map(|(i, _)| In(i as u16)).collect()
    }

    /// Maximum payload of an output, in bytes.
    pub fn mtu(&self, port: Port) -> usize {
        self.ports[usize::from(port.0)].producer.mtu()
    }

    /// Makes this output elective: the tile checks [`Out::credits`] itself before publishing and reports when it is
    /// [`Out::held_up`]; the loop does not block the tile when the output is full.
    pub fn elective(&mut self, port: Port) {
        self.ports[usize::from(port.0)].elective = true;
    }

    /// Creates an error that carries the tile's name.
    pub fn error(&self, why: impl std::fmt::Display) -> InitError {
        InitError::Other { tile: self.name.into(), why: why.to_string() }
    }

    /// Creates a socket error that carries the tile's name.
    pub fn socket_error(&self, what: impl std::fmt::Display, source: std::io::Error) -> InitError {
        InitError::Socket { tile: self.name.into(), what: what.to_string(), source }
    }

    fn no_link(&self, direction: &'static str, link: &str) -> InitError {
        InitError::NoLink { tile: self.name.into(), direction, link: link.into() }
    }
}

/// Strips the index: `quic_verify` for `quic_verify:3`.
pub(crate) fn kind_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}
