//! The events queued for one connection: whole events, whose texts are made when they are sent.
//!
//! reads   the clock
//! writes  notifications, one after the other
//! memory  events, which the connections share: of a connection [`Limits::queued_bytes`](crate::Limits) or one event,
//!         none older than [`Limits::patience`](crate::Limits) if a newer one came; one text
//! drops   nothing itself: the hub closes a connection whose queue is too long
//!
//! A block may have thousands of logs that a client wants. Queueing the blocks instead of the texts keeps the memory of
//! a slow reader small.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use hearth_evm::block::Block;
use hearth_evm::tx::SharedTx;
use hearth_serve::jsonrpc;
use hearth_serve::websocket::{self, Utf8Bytes};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::counters::{Counters, count};
use crate::criteria::Criteria;
use crate::json;
use crate::shapes::{self, TxPosition};

/// Estimated memory of a transaction or a log besides its own bytes.
const EACH_BYTES: usize = 500;

/// An event. The chain and the pool number theirs separately.
#[derive(Debug)]
pub enum Event {
    /// A new block, and the number of that event.
    Made(u64, Arc<Block>),
    /// A block removed by a reorganization.
    Gone(u64, Arc<Block>),
    /// Transactions entered the pool: how many came before them, their hashes, and the whole transactions if any
    /// subscription wants them.
    Pending(u64, Vec<(B256, Option<SharedTx>)>),
}

/// The subject of a subscription.
#[derive(Clone, Debug)]
pub enum Watch {
    /// The headers of new blocks.
    Heads,
    /// Logs that match these criteria.
    Logs(Arc<Criteria>),
    /// Transactions that enter the pool: hashes, or whole ones.
    Pending {
        /// Whether the subscriber gets whole transactions instead of hashes.
        whole: bool,
    },
    /// Whether the node syncs. It never does, so there are no events.
    Syncing,
}

/// A subscription of a connection.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The subscription's number, quoted.
    pub number: Arc<str>,
    /// The subject, of which the subscriber gets events.
    pub watch: Watch,
    /// The number of the last event, of the chain or the pool, before it.
    pub after: u64,
}

impl Event {
    /// Returns whether the event may concern a subscription, which gets only events that came after it.
    pub fn concerns(&self, Subscription { watch, after, .. }: &Subscription) -> bool {
        match (self, watch) {
            (Self::Made(number, _), Watch::Heads) => number > after,
            (Self::Pending(before, txs), Watch::Pending { .. }) => before + txs.len() as u64 > *after,
            (Self::Made(number, block) | Self::Gone(number, block), Watch::Logs(criteria)) => {
                number > after && criteria.may_be_in(&block.header.logs_bloom)
            }
            _ => false,
        }
    }

    /// Returns about how much memory it takes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Made(_, block) | Self::Gone(_, block) => {
                let txs: usize = block.txs.iter().map(|tx| EACH_BYTES + tx.raw.len()).sum();
                let logs = block.receipts.iter().flat_map(|receipt| &receipt.logs);
                EACH_BYTES + txs + logs.map(|log| EACH_BYTES / 2 + log.data.data.len()).sum::<usize>()
            }
            Self::Pending(_, txs) => {
                let whole = |tx: &SharedTx| EACH_BYTES + tx.raw.len();
                txs.iter().map(|(_, tx)| size_of::<B256>() + tx.as_ref().map_or(0, whole)).sum()
            }
        }
    }
}

/// The subscriptions of a connection.
pub type OwnSubscriptions = Arc<Vec<Subscription>>;

struct QueuedEvent {
    event: Arc<Event>,
    own: OwnSubscriptions,
    bytes: usize,
    since: Instant,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<QueuedEvent>,
    bytes: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    news: Notify,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn is_over(&self) -> bool {
        let queue = self.queue();
        queue.closed && queue.waiting.is_empty()
    }
}

/// The sending end. When it is dropped, the queue closes: queued events are still sent, then it ends.
pub struct QueueSender(Arc<Shared>);

/// The receiving end, which formats the texts.
pub struct Reader {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    telling: Option<EventInFlight>,
}

/// Creates an empty queue.
pub fn line(counters: Arc<Counters>) -> (QueueSender, Reader) {
    let shared = Arc::<Shared>::default();
    (QueueSender(Arc::clone(&shared)), Reader { shared, counters, telling: None })
}

impl QueueSender {
    /// Adds an event of this many bytes for the subscriptions that its connection has now. Returns `false` if the queue
    /// is too long or too old.
    #[must_use]
    pub fn tell(
        &self,
        event: &Arc<Event>,
        own: &OwnSubscriptions,
        bytes: usize,
        bytes_max: usize,
        patience: Duration,
    ) -> bool {
        let mut queue = self.0.queue();
        if let Some(oldest) = queue.waiting.front()
            && (queue.bytes + bytes > bytes_max || oldest.since.elapsed() > patience)
        {
            return false;
        }
        queue.bytes += bytes;
        let (event, own, since) = (Arc::clone(event), Arc::clone(own), Instant::now());
        queue.waiting.push_back(QueuedEvent { event, own, bytes, since });
        drop(queue);
        self.0.news.notify_one();
        true
    }
}

impl Drop for QueueSender {
    fn drop(&mut self) {
        self.0.queue().closed = true;
        self.0.news.notify_one();
    }
}

impl websocket::Queue for Reader {
    async fn next(&mut self) -> Option<Utf8Bytes> {
        loop {
            if let Some(text) = self.try_recv() {
                return Some(text.into());
            }
            if self.shared.is_over() {
                return None;
            }
            // A notification between the check and the wait has left its permit.
            self.shared.news.notified().await;
        }
    }

    fn is_closed(&self) -> bool {
        self.shared.queue().closed
    }
}

impl Reader {
    /// Returns the next text, if there is one.
    pub fn try_recv(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.telling.as_mut().and_then(EventInFlight::next) {
                count(&self.counters.notifications);
                return Some(text);
            }
            let mut queue = self.shared.queue();
            let next = queue.waiting.pop_front();
            queue.bytes -= next.as_ref().map_or(0, |next| next.bytes);
            drop(queue);
            self.telling =
                next.map(|QueuedEvent { event, own, .. }| EventInFlight { event, own, at: SendProgress::default() });
            self.telling.as_ref()?;
        }
    }
}

/// An event that is being sent.
struct EventInFlight {
    event: Arc<Event>,
    own: OwnSubscriptions,
    at: SendProgress,
}

/// Formats a notification; `subscription` is its quoted number.
fn notification(subscription: &str, result: &str) -> String {
    let params = format!("{{\"subscription\":{subscription},\"result\":{result}}}");
    jsonrpc::notification("eth_subscription", &params)
}

/// The progress of sending an event.
#[derive(Clone, Copy, Default)]
struct SendProgress {
    /// The subscription that gets it,
    subscription: usize,
    /// and whether that has begun.
    begun: bool,
    /// Index of the event's next transaction,
    tx: usize,
    /// of the transaction's next log,
    log: usize,
    /// and how many logs the block has before it.
    logs_before: usize,
}

impl EventInFlight {
    fn next(&mut self) -> Option<String> {
        let event = Arc::clone(&self.event);
        while let Some(subscription) = self.own.get(self.at.subscription).cloned() {
            let begins = !std::mem::replace(&mut self.at.begun, true);
            let found = match (&*event, &subscription.watch) {
                (event, _) if begins && !event.concerns(&subscription) => None,
                (Event::Made(_, block), Watch::Heads) => begins.then(|| shapes::head(block, shapes::Stage::Made)),
                (Event::Made(_, block), Watch::Logs(criteria)) => self.at.next_log(block, criteria, false),
                (Event::Gone(_, block), Watch::Logs(criteria)) => self.at.next_log(block, criteria, true),
                (Event::Pending(before, txs), Watch::Pending { whole }) => {
                    // The first ones of a group may have come before the subscription.
                    let skipped = subscription.after.saturating_sub(*before) as usize;
                    self.at.tx = self.at.tx.max(skipped);
                    self.at.next_pending(txs, *whole)
                }
                _ => None,
            };
            match found {
                Some(text) => return Some(notification(&subscription.number, &text)),
                None => self.at = SendProgress { subscription: self.at.subscription + 1, ..SendProgress::default() },
            }
        }
        None
    }
}

impl SendProgress {
    fn next_log(&mut self, block: &Block, criteria: &Criteria, is_gone: bool) -> Option<String> {
        while let Some(receipt) = block.receipts.get(self.tx) {
            while let Some(log) = receipt.logs.get(self.log) {
                let index = (self.logs_before + self.log) as u64;
                self.log += 1;
                if criteria.matches(log) {
                    let mut text = String::new();
                    shapes::push_log(&mut text, log, &TxPosition { block, index: self.tx }, index, is_gone);
                    return Some(text);
                }
            }
            self.logs_before += receipt.logs.len();
            (self.tx, self.log) = (self.tx + 1, 0);
        }
        None
    }

    fn next_pending(&mut self, txs: &[(B256, Option<SharedTx>)], whole: bool) -> Option<String> {
        while let Some((hash, tx)) = txs.get(self.tx) {
            self.tx += 1;
            let mut text = String::new();
            match (whole, tx) {
                (true, Some(tx)) => shapes::push_transaction(&mut text, tx, None),
                // It was dropped in the meantime.
                (true, None) => continue,
                (false, _) => json::push_data(&mut text, hash.as_slice()),
            }
            return Some(text);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use alloy_primitives::{Address, Log, LogData};
    use hearth_evm::block::Receipt;
    use hearth_serve::websocket::Queue as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Returns a block with one transaction, which logged this often under another's address.
    fn busy(number: u64, logs: usize) -> Arc<Event> {
        let log = Log { address: Address::repeat_byte(7), data: LogData::default() };
        let header = alloy_consensus::Header { number, logs_bloom: [0xff; 256].into(), ..Default::default() };
        let tx = hearth_evm_utxo::prism::call(1, 0, 1, &hearth_utxo::OwnerKey([1; 32]), 1, &signer());
        let receipt = Receipt::new(&tx, true, 1, vec![log; logs], 0, 0);
        let (txs, receipts) = (vec![Arc::new(tx); 2], vec![receipt; 2]);
        let (ommers, withdrawals, hash) = (Vec::new(), Vec::new(), header.hash_slow());
        Arc::new(Event::Made(1, Arc::new(Block { hash, header, txs, receipts, ommers, withdrawals })))
    }

    fn signer() -> hearth_crypto::secp256k1::Signer {
        hearth_crypto::secp256k1::Signer::new(&[1; 32]).unwrap()
    }

    fn own(watches: &[Watch]) -> OwnSubscriptions {
        let subscription = |(number, watch): (usize, &Watch)| {
            let number = format!("\"{number}\"").into();
            Subscription { number, watch: watch.clone(), after: 0 }
        };
        Arc::new(watches.iter().enumerate().map(|(number, watch)| subscription((number, watch))).collect())
    }

    fn all_logs() -> Watch {
        Watch::Logs(Arc::new(Criteria::of(&Default::default(), 0).unwrap()))
    }

    #[test]
    fn a_block_is_one_thing_that_waits_however_many_logs_it_has() {
        let (teller, mut reader) = line(Arc::default());
        let event = busy(1, 5_000);
        assert!(teller.tell(&event, &own(&[Watch::Heads, all_logs()]), event.bytes(), 1, LONG));
        // The limit is less than what is queued, so the next does not fit.
        assert!(!teller.tell(&event, &own(&[Watch::Heads]), event.bytes(), 1, LONG));
        let texts: Vec<String> = std::iter::from_fn(|| reader.try_recv()).collect();
        assert_eq!(texts.len(), 1 + 2 * 5_000);
        assert!(texts[0].contains("\"0\"") && texts[0].contains("parentHash"), "{}", texts[0]);
        for (index, text) in texts[1..].iter().enumerate() {
            assert!(text.contains(&format!("\"logIndex\":\"{index:#x}\"")), "{text}");
        }
        // It is sent: there is room again.
        assert!(teller.tell(&event, &own(&[Watch::Heads]), event.bytes(), 1, LONG));
    }

    #[test]
    fn subscription_gets_no_earlier_events() {
        let (teller, mut reader) = line(Arc::default());
        let mut own = own(&[Watch::Heads, all_logs(), Watch::Pending { whole: false }]);
        Arc::make_mut(&mut own).iter_mut().for_each(|subscription| subscription.after = 1);
        let mut push = |event: Event| {
            assert!(teller.tell(&Arc::new(event), &own, 1, 1_000, LONG));
            std::iter::from_fn(|| reader.try_recv()).count()
        };
        let Event::Made(_, block) = &*busy(1, 1) else { unreachable!("it is one") };
        assert_eq!(push(Event::Made(1, Arc::clone(block))), 0);
        assert_eq!(push(Event::Gone(1, Arc::clone(block))), 0);
        assert_eq!(push(Event::Made(2, Arc::clone(block))), 1 + 2);
        assert_eq!(push(Event::Gone(3, Arc::clone(block))), 2);
        let hashes = |count: u8| (1..=count).map(|byte| (B256::repeat_byte(byte), None)).collect();
        assert_eq!(push(Event::Pending(0, hashes(1))), 0);
        assert_eq!(push(Event::Pending(0, hashes(3))), 2, "the first was there before");
        assert_eq!(push(Event::Pending(1, hashes(1))), 1);
    }

    #[test]
    fn overlong_queue_is_too_much() {
        let (teller, reader) = line(Arc::default());
        let event = busy(1, 1);
        let tell = |patience| teller.tell(&event, &own(&[Watch::Heads]), event.bytes(), usize::MAX, patience);
        assert!(tell(Duration::ZERO), "nothing waits yet");
        assert!(tell(LONG));
        assert!(!tell(Duration::ZERO));
        drop(reader);
    }

    #[test]
    fn waiting_reader_is_woken_at_the_end() {
        let (teller, mut reader) = line(Arc::default());
        let event = busy(1, 1);
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Box::pin(reader.next());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(teller.tell(&event, &own(&[Watch::Heads]), event.bytes(), 1, LONG));
        assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Ready(Some(_))));
        drop(waiting);
        assert!(teller.tell(&event, &own(&[Watch::Heads]), event.bytes(), 1, LONG));
        drop(teller);
        assert!(reader.is_closed());
        for is_there in [true, false] {
            let mut waiting = Box::pin(reader.next());
            let Poll::Ready(text) = waiting.as_mut().poll(&mut context) else { panic!("it waits") };
            assert_eq!(text.is_some(), is_there);
        }
    }
}
