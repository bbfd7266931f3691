//! shared: what one core's thread exposes to the others, and how lists of tiles move between threads.
//!
//! reads   lists on their way to a core
//! writes  the same; which core is woken for the tiles of a list
//! memory  the lists themselves
//!
//! Wake-ups follow the tiles, see [`Waker::set_lent`]. The order of steps ensures that none is lost: the lender [first
//! redirects them, then checks its inputs once more, then gives its tiles away](lend); the borrower [first redirects
//! them, then returns the tiles and wakes their owner](give_back), which starts by checking its inputs. Loom verifies
//! that order.

use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering};
use crate::wake::Waker;

/// The shared state of one core's thread; `L` is a list of tiles.
pub struct CoreShared<L> {
    waker: Waker,
    /// Whether it takes part in lending.
    pub lends: bool,
    /// Thousandths of its time for which it worked.
    pub share: AtomicU32,
    /// Lists on their way to it; `None` once it has stopped.
    inbox: Mutex<Option<Vec<L>>>,
    has_mail: AtomicBool,
}

impl<L> CoreShared<L> {
    /// Creates the shared state of a core; `lends` says whether it takes part in lending.
    pub fn new(waker: Waker, lends: bool) -> Self {
        let (inbox, has_mail) = (Mutex::new(Some(vec![])), AtomicBool::new(false));
        Self { waker, lends, share: AtomicU32::new(0), inbox, has_mail }
    }

    /// Returns the waker that ends a sleep of this core's thread.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether lists are on their way to it.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Takes the lists that have arrived.
    pub fn open(&self) -> Vec<L> {
        let mut inbox = self.inbox.lock();
        self.has_mail.store(false, Ordering::Release);
        inbox.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the lists that have arrived, and accepts no more.
    pub fn close(&self) -> Vec<L> {
        self.inbox.lock().take().unwrap_or_default()
    }

    /// Sends a list; returns it if the core has stopped.
    fn send(&self, list: L) -> Result<(), L> {
        match &mut *self.inbox.lock() {
            None => return Err(list),
            Some(inbox) => inbox.push(list),
        }
        self.has_mail.store(true, Ordering::Release);
        Ok(())
    }
}

/// Lends the list of `owner`: redirects wake-ups to the borrower, checks the inputs once more, gives the list away.
/// `look` returns the list, or `None` if there is work after all.
///
/// # Errors
/// Nothing was lent, and wake-ups are as before. Contains the list from `look` if the borrower has stopped.
pub fn lend<L>(owner: &Waker, borrower: &CoreShared<L>, look: impl FnOnce() -> Option<L>) -> Result<(), Option<L>> {
    owner.set_lent(true);
    let lent = match look() {
        Some(list) => give(list, borrower).map_err(Some),
        None => Err(None),
    };
    if lent.is_err() {
        owner.set_lent(false);
    }
    lent
}

/// Sends a list and wakes the receiving core. Returns the list if that core has stopped.
pub fn give<L>(list: L, to: &CoreShared<L>) -> Result<(), L> {
    to.send(list)?;
    to.waker.wake();
    Ok(())
}

/// Returns a list to its owner. Fails with the list if the owner has stopped.
pub fn give_back<L>(list: L, owner: &CoreShared<L>) -> Result<(), L> {
    owner.waker.set_lent(false);
    owner.send(list)?;
    owner.waker.interrupt();
    Ok(())
}
