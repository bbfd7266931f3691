//! consumer: a consumer's end of a link.
//!
//! reads   ring entries and payloads
//! writes  its progress and its counters, once per [`Consumer::release`]
//! memory  for a lossy consumer, `mtu` bytes for the copy that it returns
//! drops   for a lossy consumer, frags that the producer overtook: `overrun_poll`, `overrun_read`

use crate::error::WorkspaceError;
use crate::frag::FragMeta;
use crate::lines::ConsumerLines;
use crate::plan::{CHUNK, LinkPlan};
use crate::protocol::{Entry, PollOutcome, Receiver, load_words};
use crate::sync::{AtomicU64, Ordering};
use crate::workspace::Workspace;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The result of [`Consumer::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollResult {
    /// No frag has been published at the consumer's position yet.
    Empty,
    /// The next frag. Read its payload if needed, then call [`Consumer::advance`].
    Ready(FragMeta),
    /// The producer overtook this lossy consumer, which has been moved forward; poll again.
    Overrun {
        /// Number of frags lost.
        lost: u64,
    },
}

/// The producer overtook this lossy consumer during the read of a payload. The consumer has been moved forward: poll
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("overtaken by the producer, {lost} frags lost")]
pub struct Overrun {
    /// Number of frags lost.
    pub lost: u64,
}

/// One consumer of a link.
pub struct Consumer {
    receiver: Receiver<'static>,
    payload: NonNull<u8>,
    payload_size: usize,
    /// Frags below this were seen by `poll`.
    polled: u64,
    /// Frags below this were released to the producer.
    released: u64,
    scratch: Box<[[u8; 8]]>,
    reliable: bool,
    overrun_poll: u64,
    overrun_read: u64,
    filtered: u64,
    bytes: u64,
    lines: &'static ConsumerLines,
    link: String,
    name: String,
    // Keeps the memory alive to which the references above point.
    _workspace: Workspace,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: `payload` points into the workspace, which the consumer keeps alive and which is not tied to a thread.
unsafe impl Send for Consumer {}

impl Workspace {
    /// Takes the consumer named `consumer` of `link`. Each can be taken once.
    pub fn consumer(&self, link: &str, consumer: &str) -> Result<Consumer, WorkspaceError> {
        let (index, plan) = self.link(link)?;
        let position = plan.consumers.iter().position(|plan| plan.name == consumer);
        let position =
            position.ok_or_else(|| WorkspaceError::Unknown { what: format!("consumer {consumer} of link {link}") })?;
        self.take(index, Some(position), || format!("consumer {consumer} of link {link}"))?;
        let place = self.layout_of(index);
        // SAFETY: `Consumer` keeps the workspace; these ranges are only ever used as atomics.
        let (entries, lines) = unsafe {
            (
                self.slice::<Entry>(place.entries, plan.depth as usize),
                &self.slice::<ConsumerLines>(place.consumers[position], 1)[0],
            )
        };
        Ok(Consumer::new(self.clone(), plan, position, entries, self.payload(index), lines))
    }
}

impl Consumer {
    fn new(
        workspace: Workspace,
        plan: &LinkPlan,
        position: usize,
        entries: &'static [Entry],
        payload: NonNull<u8>,
        lines: &'static ConsumerLines,
    ) -> Self {
        let reliable = plan.consumers[position].reliable;
        let scratch = if reliable { 0 } else { (plan.mtu as usize).div_ceil(8) };
        Self {
            receiver: Receiver::new(entries, !reliable),
            payload,
            payload_size: plan.payload_size() as usize,
            polled: 0,
            released: 0,
            scratch: vec![[0; 8]; scratch].into(),
            reliable,
            overrun_poll: 0,
            overrun_read: 0,
            filtered: 0,
            bytes: 0,
            lines,
            link: plan.name.clone(),
            name: plan.consumers[position].name.clone(),
            _workspace: workspace,
            _not_sync: PhantomData,
        }
    }

    /// Looks at the next frag without advancing past it; an overrun moves this consumer forward by itself.
    #[inline(always)]
    pub fn poll(&mut self) -> PollResult {
        match self.receiver.poll() {
            PollOutcome::Ready(meta) => {
                self.polled = meta.seq + 1;
                PollResult::Ready(meta)
            }
            PollOutcome::Empty => PollResult::Empty,
            PollOutcome::Overrun(lost) => {
                self.overrun_poll += lost;
                PollResult::Overrun { lost }
            }
        }
    }

    /// Returns the payload of a frag that `poll` returned and that is not released yet.
    ///
    /// A reliable consumer borrows it in place. A lossy one gets a copy that is verified afterwards; `Err` if the
    /// producer overtook it meanwhile. Panics if a reliable consumer asks for a frag that it does not hold.
    #[inline(always)]
    pub fn payload(&mut self, meta: &FragMeta) -> Result<&[u8], Overrun> {
        if !self.reliable {
            return self.copied(meta);
        }
        assert!(self.released <= meta.seq && meta.seq < self.polled, "the payload of a frag that is not held");
        // Trust the ring instead of the caller: the range is then valid whatever `meta` contains.
        let held = self.receiver.peek(meta.seq).expect("a reliable consumer's frag stays until it is released");
        let (start, size) = (held.chunk as usize * CHUNK, usize::from(held.size));
        assert!(start + size <= self.payload_size);
        self.bytes += size as u64;
        // SAFETY: inside the payload region. The frag is published and not released, so the producer writes neither its
        // ring entry nor its slot until `release`, which the borrow of `self` forbids while the slice lives.
        Ok(unsafe { std::slice::from_raw_parts(self.payload.add(start).as_ptr(), size) })
    }

    /// Advances past the frag that `poll` returned. Does nothing after an overrun, which has already moved this
    /// consumer. Panics if `poll` has returned no frag to a reliable consumer.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.pass();
    }

    /// Like [`Consumer::advance`], but counts the frag as filtered, not read.
    #[inline(always)]
    pub fn skip(&mut self) {
        self.filtered += u64::from(self.pass());
    }

    /// Publishes this consumer's progress to the producer and observers. Call it once per burst, and before waiting.
    #[inline]
    pub fn release(&mut self) {
        let lines = self.lines;
        lines.filtered.store(self.filtered, Ordering::Relaxed);
        lines.bytes.store(self.bytes, Ordering::Relaxed);
        if !self.reliable {
            lines.overrun_poll.store(self.overrun_poll, Ordering::Relaxed);
            lines.overrun_read.store(self.overrun_read, Ordering::Relaxed);
        }
        self.released = self.receiver.seq();
        // Release: our reads of the payloads happen before the producer writes there again.
        lines.progress.store(self.released, Ordering::Release);
    }

    /// Sequence number of the next frag.
    #[inline]
    pub fn seq(&self) -> u64 {
        self.receiver.seq()
    }

    /// Whether the producer waits for this consumer.
    #[inline]
    pub fn reliable(&self) -> bool {
        self.reliable
    }

    /// The consumer's name in the plan, unique on its link.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the link that it reads.
    pub fn link(&self) -> &str {
        &self.link
    }

    #[inline(always)]
    fn pass(&mut self) -> bool {
        let found = self.receiver.seq() < self.polled;
        if found {
            self.receiver.advance();
        } else {
            assert!(!self.reliable, "advance without a frag");
        }
        found
    }

    fn copied(&mut self, meta: &FragMeta) -> Result<&[u8], Overrun> {
        let (start, size) = (meta.chunk as usize * CHUNK, usize::from(meta.size));
        let words = size.div_ceil(8);
        assert!(start + words * 8 <= self.payload_size && words <= self.scratch.len(), "metadata of another link");
        // SAFETY: inside the payload region, aligned to a chunk; a link with a lossy consumer has its payloads written
        // by atomic words only.
        let shared = unsafe { std::slice::from_raw_parts(self.payload.add(start).as_ptr().cast::<AtomicU64>(), words) };
        load_words(shared, &mut self.scratch[..words]);
        match self.receiver.recheck(meta.seq) {
            Ok(()) => {
                self.bytes += size as u64;
                Ok(&self.scratch.as_flattened()[..size])
            }
            Err(lost) => {
                self.overrun_read += lost;
                Err(Overrun { lost })
            }
        }
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("link", &self.link)
            .field("name", &self.name)
            .field("seq", &self.seq())
            .finish_non_exhaustive()
    }
}
