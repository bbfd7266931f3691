//! producer: the producer's end of a link.
//!
//! reads   progress of reliable consumers, only when the cached credits run short
//! writes  ring entries, payloads, the `slow` count of the limiting consumer, its own sequence number
//! memory  `mtu` bytes of scratch if a consumer is lossy
//! drops   nothing: without a credit it must not publish, and a lossy consumer counts its own losses

use crate::error::WorkspaceError;
use crate::lines::{ConsumerLines, ProducerLines};
use crate::plan::{CHUNK, LinkPlan};
use crate::protocol::{Entry, Label, Sender, store_words};
use crate::sync::{AtomicU64, Ordering};
use crate::workspace::Workspace;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Frags between two updates of the sequence number for observers; at most `depth`.
const SEQ_EVERY: u64 = 64;

/// The one producer of a link.
///
/// Check [`Producer::credits`], fill [`Producer::buffer`], then [`Producer::publish`]; or [`Producer::send`] a payload
/// that is stored elsewhere.
pub struct Producer {
    sender: Sender<'static>,
    payload: NonNull<u8>,
    mtu: usize,
    /// Payload in preparation, if a lossy consumer may read the shared slot at any time. Otherwise empty.
    scratch: Box<[u8]>,
    lossy: bool,
    seq_mask: u64,
    shared: &'static ProducerLines,
    reliable: Vec<&'static ConsumerLines>,
    name: String,
    // Keeps the memory alive to which the references above point.
    _workspace: Workspace,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: `payload` points into the workspace, which the producer keeps alive and which is not tied to a thread.
unsafe impl Send for Producer {}

impl Workspace {
    /// Takes the producer of `link`. Each can be taken once.
    pub fn producer(&self, link: &str) -> Result<Producer, WorkspaceError> {
        let (index, plan) = self.link(link)?;
        self.take(index, None, || format!("the producer of link {link}"))?;
        let place = self.layout_of(index);
        // SAFETY: `Producer` keeps the workspace; these ranges are only ever used as atomics.
        let (entries, shared) = unsafe {
            (self.slice::<Entry>(place.entries, plan.depth as usize), &self.slice::<ProducerLines>(place.start, 1)[0])
        };
        // SAFETY: as above.
        let consumers = place.consumers.iter().map(|&lines| unsafe { &self.slice::<ConsumerLines>(lines, 1)[0] });
        let reliable =
            consumers.zip(&plan.consumers).filter(|(_, plan)| plan.reliable).map(|(lines, _)| lines).collect();
        Ok(Producer::new(self.clone(), plan, entries, self.payload(index), shared, reliable))
    }
}

impl Producer {
    fn new(
        workspace: Workspace,
        plan: &LinkPlan,
        entries: &'static [Entry],
        payload: NonNull<u8>,
        shared: &'static ProducerLines,
        reliable: Vec<&'static ConsumerLines>,
    ) -> Self {
        let lossy = plan.consumers.iter().any(|consumer| !consumer.reliable);
        let mtu = plan.mtu as usize;
        Self {
            sender: Sender::new(entries, plan.stride() as u32, lossy, !reliable.is_empty()),
            payload,
            mtu,
            scratch: vec![0; if lossy { mtu } else { 0 }].into(),
            lossy,
            seq_mask: SEQ_EVERY.min(u64::from(plan.depth)) - 1,
            shared,
            reliable,
            name: plan.name.clone(),
            _workspace: workspace,
            _not_sync: PhantomData,
        }
    }

    /// How many frags may be published without overtaking a reliable consumer; [`usize::MAX`] if none is reliable.
    ///
    /// Reads the consumers' progress only if fewer than `wanted` credits are cached. If they are still too few, that
    /// counts as `slow` for the limiting consumer.
    #[inline(always)]
    pub fn credits(&mut self, wanted: usize) -> usize {
        if self.reliable.is_empty() {
            return usize::MAX;
        }
        let cached = self.sender.cached_credits();
        if cached >= wanted { cached } else { self.refresh(wanted) }
    }

    /// How many frags the slowest reliable consumer has not released; 0 if none is reliable. Reads the consumers'
    /// progress.
    pub fn queued(&mut self) -> usize {
        if self.reliable.is_empty() {
            return 0;
        }
        let (credits, _) = self.sender.refresh_credits(self.reliable.iter().map(|lines| &lines.progress));
        self.depth() - credits
    }

    /// The buffer for the payload of the next frag, `mtu` bytes. It initially contains remains of earlier frags.
    #[inline(always)]
    pub fn buffer(&mut self) -> &mut [u8] {
        if self.lossy {
            return &mut self.scratch;
        }
        // SAFETY: the slot in preparation lies inside the payload region. Nobody else uses it: no consumer is lossy,
        // and the frag that was there before is `depth + 1` back, behind what every reliable consumer has released.
        unsafe { std::slice::from_raw_parts_mut(self.slot().as_ptr(), self.mtu) }
    }

    /// Publishes the first `size` bytes of [`Producer::buffer`].
    ///
    /// Panics if `size` exceeds `mtu` or if there is no credit.
    #[inline]
    pub fn publish(&mut self, size: usize, tag: u64, control: u16, origin_us: u32, publish_ns: u32) {
        assert!(size <= self.mtu, "a payload larger than the link's mtu");
        if self.lossy {
            store_words(self.slot_words(), &self.scratch[..size]);
        }
        self.publish_label(Label { tag, size: size as u16, control, origin_us, publish_ns });
    }

    /// Publishes a copy of `payload`. Panics like [`Producer::publish`].
    #[inline]
    pub fn send(&mut self, payload: &[u8], tag: u64, control: u16, origin_us: u32, publish_ns: u32) {
        assert!(payload.len() <= self.mtu, "a payload larger than the link's mtu");
        if self.lossy {
            store_words(self.slot_words(), payload);
        } else {
            self.buffer()[..payload.len()].copy_from_slice(payload);
        }
        self.publish_label(Label { tag, size: payload.len() as u16, control, origin_us, publish_ns });
    }

    /// Sequence number of the next frag.
    #[inline]
    pub fn seq(&self) -> u64 {
        self.sender.seq()
    }

    /// Maximum bytes of a payload.
    #[inline]
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Maximum frags in flight.
    #[inline]
    pub fn depth(&self) -> usize {
        self.sender.depth()
    }

    /// Name of the link that it writes.
    pub fn name(&self) -> &str {
        &self.name
    }

    #[inline(always)]
    fn publish_label(&mut self, label: Label) {
        self.sender.publish(label);
        if self.sender.seq() & self.seq_mask == 0 {
            self.shared.seq.store(self.sender.seq(), Ordering::Release);
        }
    }

    #[cold]
    fn refresh(&mut self, wanted: usize) -> usize {
        let (credits, slowest) = self.sender.refresh_credits(self.reliable.iter().map(|lines| &lines.progress));
        if credits < wanted
            && let Some(position) = slowest
        {
            let slow = &self.reliable[position].slow;
            slow.store(slow.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        credits
    }

    #[inline(always)]
    fn slot(&self) -> NonNull<u8> {
        // SAFETY: `Sender` keeps its chunk inside the `depth + 1` slots of the payload region.
        unsafe { self.payload.add(self.sender.chunk() as usize * CHUNK) }
    }

    fn slot_words(&self) -> &[AtomicU64] {
        // SAFETY: inside the slot, aligned to a chunk; on a link with a lossy consumer all writes here are atomic, and
        // reliable consumers borrow other slots only.
        unsafe { std::slice::from_raw_parts(self.slot().as_ptr().cast(), self.mtu.div_ceil(8)) }
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("link", &self.name).field("seq", &self.seq()).finish_non_exhaustive()
    }
}
