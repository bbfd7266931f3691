//! Which states are kept: the newest and those before it, as many as wanted and as memory is given for.
//!
//! reads   any thread
//! writes  the writer alone
//! memory  what [`RetentionWindow::bytes`] says: that of 128 blocks by default, else at most [`History::bytes`] and
//!         one block
//! drops   the oldest states; counted where they go before there are as many as wanted

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::RwLock;

use super::version_history::VersionHistory;
use super::{State, StateView, WINDOW};

/// How many states are kept, and in how much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Maximum blocks whose state is kept, including the newest.
    pub blocks: u64,
    /// Bytes that what only older states need may take: beyond that the oldest go. The newest state is not counted,
    /// and stays.
    pub bytes: u64,
}

impl History {
    /// Bytes where nothing else is said.
    pub const BYTES: u64 = 1 << 30;
}

/// The older states that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionWindow {
    /// The oldest block whose state is kept.
    pub oldest: u64,
    /// Number of blocks whose state is kept.
    pub blocks: u64,
    /// Maximum blocks whose state is kept if memory suffices; `u64::MAX` for all.
    pub blocks_max: u64,
    /// Bytes that what only older states need takes: values replaced, nodes of tries, and where they are found.
    pub bytes: u64,
    /// States that went before there were [`RetentionWindow::blocks_max`], since the start: their memory was used up.
    pub evicted: u64,
}

/// The states kept, oldest first, numbers without a gap; never empty once the state is open.
pub(super) struct Window {
    pub(super) views: VecDeque<StateView>,
    history: Option<History>,
    evicted: u64,
}

/// Finds views, from any thread.
#[derive(Clone)]
pub struct StateHandle {
    pub(super) window: Arc<RwLock<Window>>,
}

impl StateHandle {
    /// Creates a window that begins with `first`.
    pub(super) fn new(first: StateView) -> Self {
        let views = VecDeque::from([first]);
        Self { window: Arc::new(RwLock::new(Window { views, history: None, evicted: 0 })) }
    }

    /// Returns the newest state.
    pub fn head(&self) -> StateView {
        self.window.read().head()
    }

    /// The state after block `number`, if it is kept: one of the last [`WINDOW`], or of as many as the history has.
    pub fn at(&self, number: u64) -> Option<StateView> {
        let window = self.window.read();
        let oldest = window.views.front()?.number();
        window.views.get(usize::try_from(number.checked_sub(oldest)?).ok()?).cloned()
    }

    /// Returns the oldest block whose state is kept.
    pub fn oldest(&self) -> u64 {
        self.window.read().views.front().map_or(0, StateView::number)
    }

    /// Returns what is kept, and its memory.
    pub fn kept(&self) -> RetentionWindow {
        let window = self.window.read();
        let (oldest, head) = (window.oldest(), window.head());
        let blocks = window.views.len() as u64;
        let views = window.views.capacity() * size_of::<StateView>();
        let (history, evicted) = (window.history, window.evicted);
        drop(window);
        let past = head.tables.past.get().map_or(0, VersionHistory::bytes);
        let beside = (views + past + head.tables.tries.retired_bytes()) as u64;
        let blocks_max = history.map_or(WINDOW as u64, |history| history.blocks);
        RetentionWindow {
            oldest: oldest.number(),
            blocks,
            blocks_max,
            bytes: head.bytes_since(&oldest) + beside,
            evicted,
        }
    }

    /// Makes `view` the newest; replaces all from its number on.
    pub(super) fn publish(&self, view: StateView) {
        let mut window = self.window.write();
        let kept = window.views.partition_point(|older| older.number() < view.number());
        let mut dropped: Vec<StateView> = window.views.drain(kept..).collect();
        window.views.push_back(view);
        if window.history.is_none() && window.views.len() > WINDOW {
            dropped.extend(window.views.pop_front());
        }
        drop(window);
        // What only these held is freed here, where no reader waits for it.
        drop(dropped);
    }

    /// Drops the oldest state, if there are too many, or they take too much memory.
    fn drop_oldest(&self, blocks_max: u64, is_full: bool) -> bool {
        let mut window = self.window.write();
        let are_many = window.views.len() as u64 > blocks_max;
        if window.views.len() < 2 || !(are_many || is_full) {
            return false;
        }
        let gone = window.views.pop_front();
        window.evicted += u64::from(!are_many);
        drop(window);
        drop(gone);
        true
    }
}

impl Window {
    fn head(&self) -> StateView {
        self.views.back().expect("a state has a head").clone()
    }

    fn oldest(&self) -> StateView {
        self.views.front().expect("a state has a head").clone()
    }
}

impl State {
    /// Keeps more states than the last [`WINDOW`] from now on, or in less memory, beginning with the present ones.
    pub fn keep_history(&mut self, history: History) {
        let oldest = {
            let mut window = self.handle.window.write();
            window.history = Some(history);
            window.oldest()
        };
        if self.tables.past.set(VersionHistory::after(&oldest.version)).is_ok() {
            self.tables.tries.keep_all();
        }
        self.trim();
    }

    /// The history that this state is configured to keep.
    pub(super) fn history(&self) -> Option<History> {
        self.handle.window.read().history
    }

    /// Drops the oldest states if they are too many or take too much memory, and frees what only they needed.
    pub(super) fn trim(&self) {
        // In the usual way there is nothing to do, and it takes no lock to know it.
        let Some(past) = self.tables.past.get() else { return };
        let Some(history) = self.history() else { return };
        loop {
            let oldest = self.handle.window.read().oldest().version.top.sequence();
            past.release(oldest);
            self.tables.tries.release(oldest);
            let is_full = self.handle.kept().bytes > history.bytes;
            if !self.handle.drop_oldest(history.blocks, is_full) {
                return;
            }
        }
    }
}
