//! A listener's connection slots: how many may be open, and which one to close when there is no room.
//!
//! writes  a notification to each connection that must close itself
//! memory  some words per connection
//! drops   the longest idle connection in favour of a new one; the new one if none is idle
//!
//! A connection is idle while no complete request is in progress: it has sent nothing yet, or part of a request, or
//! waits after an answer, or is a WebSocket without subscriptions. Idle connections cost a client nothing and would
//! otherwise hold every slot for as long as clients may be silent, so they give way to newer ones. One whose request is
//! incomplete is idle from when the rest was first waited for: a client that sends it byte by byte does not stay the
//! newest. A complete request is never aborted in favour of another client.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Idle connections that are looked at to find one that has sent nothing since.
const CANDIDATES_MAX: usize = 32;

/// The slots of a listener.
pub(crate) struct ConnectionSlots {
    max: usize,
    /// Limit per address; 0: no limit.
    per_address: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    open: HashMap<u64, OpenConnection>,
    /// By when each became idle: the first is the longest idle.
    idle: BTreeMap<u64, u64>,
    by_address: HashMap<IpAddr, usize>,
    /// The number of the next connection, and of the next moment at which one becomes idle.
    next: u64,
}

struct OpenConnection {
    peer: IpAddr,
    stream: Arc<TcpStream>,
    given_up: Arc<Notify>,
    /// Its key among the idle ones.
    idle_since: Option<u64>,
}

/// A place that was taken, and whether it cost an idle connection its own.
#[derive(Debug)]
pub(crate) struct SlotGrant {
    pub place: ConnectionSlot,
    /// Whether an idle connection was given up for it.
    pub for_another: bool,
}

/// One connection's place, given back when it is dropped.
pub(crate) struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    number: u64,
    given_up: Arc<Notify>,
    /// Requests under way, and other reasons to be kept. Changed under the table's lock.
    busy: AtomicUsize,
    /// Whether the request under way lacks a part of its body. Changed under the table's lock.
    is_arriving: AtomicBool,
}

impl std::fmt::Debug for ConnectionSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConnectionSlot {}", self.number)
    }
}

/// Keeps a connection from being idle.
pub struct Busy(Arc<ConnectionSlot>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl ConnectionSlots {
    /// Creates `max` slots, of which an address may use `per_address`; 0 is no limit.
    pub fn new(max: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self { max, per_address, table: Mutex::default() })
    }

    /// Takes a slot for a connection of `peer`, closing an idle one if none is free. Returns `None` if all are busy.
    pub fn enter(self: &Arc<Self>, peer: IpAddr, stream: &Arc<TcpStream>) -> Option<SlotGrant> {
        let mut table = self.lock();
        let of_peer = table.by_address.get(&peer).copied().unwrap_or(0);
        let for_another = if self.per_address > 0 && of_peer >= self.per_address {
            table.give_up(|open| open.peer == peer).then_some(true)?
        } else if table.open.len() >= self.max {
            table.give_up(|_| true).then_some(true)?
        } else {
            false
        };
        let (number, given_up) = (table.next(), Arc::new(Notify::new()));
        *table.by_address.entry(peer).or_default() += 1;
        let open = OpenConnection {
            peer,
            stream: Arc::clone(stream),
            given_up: Arc::clone(&given_up),
            idle_since: Some(number),
        };
        table.open.insert(number, open);
        table.idle.insert(number, number);
        let (places, busy, is_arriving) = (Arc::clone(self), AtomicUsize::new(0), AtomicBool::new(false));
        let place = ConnectionSlot { places, number, given_up, busy, is_arriving };
        Some(SlotGrant { place, for_another })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// From now on this connection is idle.
    fn rest(&mut self, number: u64) {
        self.rise(number);
        let since = self.next();
        let Some(open) = self.open.get_mut(&number) else { return };
        open.idle_since = Some(since);
        self.idle.insert(since, number);
    }

    /// This connection is idle no more.
    fn rise(&mut self, number: u64) {
        if let Some(since) = self.open.get_mut(&number).and_then(|open| open.idle_since.take()) {
            self.idle.remove(&since);
        }
    }

    /// Gives up the longest idle connection that `may_go`; whether there was one.
    fn give_up(&mut self, may_go: impl Fn(&OpenConnection) -> bool) -> bool {
        let candidates = self.idle.values().filter(|number| may_go(&self.open[*number]));
        // Data that has arrived but was not read yet is a request in progress.
        let found = candidates.take(CANDIDATES_MAX).copied().find(|number| self.open[number].is_silent());
        let Some(number) = found else { return false };
        if let Some(open) = self.leave(number) {
            open.given_up.notify_one();
        }
        true
    }

    fn leave(&mut self, number: u64) -> Option<OpenConnection> {
        let open = self.open.remove(&number)?;
        open.idle_since.map(|since| self.idle.remove(&since));
        if let Some(count) = self.by_address.get_mut(&open.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&open.peer);
            }
        }
        Some(open)
    }
}

impl OpenConnection {
    /// Whether nothing has come that was not read. A client that is gone is silent.
    fn is_silent(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        !socket2::SockRef::from(&*self.stream).peek(&mut byte).is_ok_and(|bytes| bytes > 0)
    }
}

impl ConnectionSlot {
    /// Returns once the connection has to make room for another one.
    pub async fn given_up(&self) {
        self.given_up.notified().await;
    }

    /// A request begins, or there is another reason to keep the connection.
    pub fn begin(&self) {
        let mut table = self.places.lock();
        self.busy.fetch_add(1, Relaxed);
        table.rise(self.number);
    }

    /// Marks the end of a request.
    pub fn end(&self) {
        let mut table = self.places.lock();
        if self.busy.fetch_sub(1, Relaxed) == 1 {
            table.rest(self.number);
        }
    }

    /// The rest of a request's body is waited for. Without a place nobody waits for it: the connection has to make room
    /// at once.
    pub fn begin_body(&self) {
        let mut table = self.places.lock();
        self.is_arriving.store(true, Relaxed);
        match table.open.contains_key(&self.number) {
            true => table.rest(self.number),
            false => self.given_up.notify_one(),
        }
    }

    /// The body is complete, or is read no further.
    pub fn end_body(&self) {
        let mut table = self.places.lock();
        self.is_arriving.store(false, Relaxed);
        table.rise(self.number);
    }

    /// Whether something is under way that must be answered: not a request whose body is incomplete.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0 && !self.is_arriving.load(Relaxed)
    }

    /// Keeps the connection from being idle until the returned guard is dropped.
    pub fn keep(self: &Arc<Self>) -> Busy {
        self.begin();
        Busy(Arc::clone(self))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let left = self.places.lock().leave(self.number);
        // The last holder of a socket closes it: not under the lock.
        drop(left);
    }
}

#[cfg(test)]
mod tests;
