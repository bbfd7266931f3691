//! A bounded thread pool for calls, estimates, traces and log queries, so that sends never wait for them.
//!
//! reads   the clock
//! memory  what the running calls take
//! drops   calls when the queue is full: error -32005; calls that run out of time: error -32000; counted

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};

use crate::config::Limits;
use crate::counters::{Counters, count};
use crate::failure::Failure;

/// When a call must have ended.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    seconds: f32,
    /// Whether it bounds a tracer, for which geth has other words.
    is_of_trace: bool,
}

impl Deadline {
    /// Returns a deadline this far from now.
    pub fn after(time: std::time::Duration) -> Self {
        Self { at: Instant::now() + time, seconds: time.as_secs_f32(), is_of_trace: false }
    }

    /// Returns the same deadline for a tracer: its error is geth's "execution timeout".
    pub fn of_trace(self) -> Self {
        Self { is_of_trace: true, ..self }
    }

    /// Whether it has passed.
    pub fn has_passed(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Returns an error once it has passed.
    pub fn check(&self) -> Result<(), Failure> {
        if self.has_passed() { Err(self.failure()) } else { Ok(()) }
    }

    /// Returns the error of a call that ran out of time.
    pub fn failure(&self) -> Failure {
        match self.is_of_trace {
            true => Failure::server("execution timeout"),
            false => Failure::server(format!("execution aborted (timeout = {}s)", self.seconds)),
        }
    }
}

/// The future answer of a heavy call.
pub type CallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// The work of a heavy call; it returns whether it failed.
type Work = Box<dyn FnOnce(Deadline) -> bool + Send>;

/// Limits how many heavy calls run and wait.
pub struct CallPool {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    limits: Limits,
    counters: Arc<Counters>,
}

impl CallPool {
    /// Creates as many slots as the limits allow.
    pub fn new(limits: Limits, counters: Arc<Counters>) -> Self {
        Self { places: Arc::new(Semaphore::new(limits.heavy_at_once)), waiting: AtomicUsize::new(0), limits, counters }
    }

    /// Runs `work` on a thread of its own, when there is a slot. A caller may stop waiting, for example when its client
    /// has gone. The future is boxed, so that the code that awaits it is compiled once and not for each kind of work.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(Deadline) -> Result<T, Failure> + Send + 'static,
    ) -> CallFuture<'_, T> {
        let (answer, answered) = oneshot::channel();
        let work = move |deadline| {
            let result = work(deadline);
            let has_failed = result.is_err();
            // The caller may have stopped waiting.
            let _ = answer.send(result);
            has_failed
        };
        self.wait(Box::new(work), answered)
    }

    /// Runs `work`, which answers by itself through `answered`, and waits for the answer.
    fn wait<T: Send + 'static>(
        &self,
        work: Work,
        answered: oneshot::Receiver<Result<T, Failure>>,
    ) -> CallFuture<'_, T> {
        Box::pin(async move {
            self.run_boxed(work).await?;
            answered.await.unwrap_or_else(|_| Err(Failure::internal("the call failed")))
        })
    }

    /// As [`run`](Self::run), of work that answers by itself and returns whether it failed. It is boxed so that the
    /// runtime's tasks are compiled once and not for each kind of work.
    async fn run_boxed(&self, work: Work) -> Result<(), Failure> {
        let deadline = Deadline::after(self.limits.heavy_time);
        let waits = WaitGuard::new(&self.waiting);
        if waits.before >= self.limits.heavy_waiting + self.limits.heavy_at_once {
            count(&self.counters.heavy_refused);
            return Err(Failure::limit("too many calls at once: try again"));
        }
        let place = tokio::time::timeout_at(deadline.at.into(), Arc::clone(&self.places).acquire_owned()).await;
        drop(waits);
        let Ok(Ok(place)) = place else {
            count(&self.counters.heavy_timeouts);
            return Err(deadline.failure());
        };
        let counters = Arc::clone(&self.counters);
        let working = tokio::task::spawn_blocking(move || {
            // The work holds the slot, not the caller: a client that goes away frees no thread.
            let _place = place;
            if work(deadline) && deadline.has_passed() {
                count(&counters.heavy_timeouts);
            }
        });
        working.await.map_err(|_| Failure::internal("the call failed"))
    }
}

/// A waiting call; dropping it leaves the queue.
struct WaitGuard<'a> {
    waiting: &'a AtomicUsize,
    /// How many waited when it came.
    before: usize,
}

impl<'a> WaitGuard<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        Self { waiting, before: waiting.fetch_add(1, Relaxed) }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_too_many_is_refused_and_one_too_late_too() {
        let limits =
            Limits { heavy_at_once: 1, heavy_waiting: 1, heavy_time: Duration::from_millis(50), ..Default::default() };
        let counters = Arc::new(Counters::default());
        let heavy = Arc::new(CallPool::new(limits, Arc::clone(&counters)));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (begun, has_begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let first = Arc::clone(&heavy);
        let first = runtime.spawn(async move {
            let work = move |_| {
                begun.send(()).unwrap();
                ended.recv().unwrap();
                Ok(1)
            };
            first.run(work).await
        });
        has_begun.recv().unwrap();
        // The slot is taken: this one waits for it in vain.
        let late = runtime.block_on(heavy.run(|_| Ok(2))).unwrap_err();
        assert_eq!(late.message(), "execution aborted (timeout = 0.05s)");
        heavy.waiting.store(2, Relaxed);
        assert_eq!(runtime.block_on(heavy.run(|_| Ok(3))).unwrap_err().code(), -32005);
        end.send(()).unwrap();
        assert_eq!(runtime.block_on(first).unwrap(), Ok(1));
        assert_eq!((counters.heavy_refused.load(Relaxed), counters.heavy_timeouts.load(Relaxed)), (1, 1));
    }

    #[test]
    fn disconnected_call_leaves_the_queue() {
        let limits = Limits { heavy_at_once: 1, heavy_waiting: 1, ..Default::default() };
        let heavy = CallPool::new(limits, Arc::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let place = Arc::clone(&heavy.places).try_acquire_owned().unwrap();
        for _ in 0..10 {
            let mut call = Box::pin(heavy.run(|_| Ok(())));
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            // As hyper does when the client has closed its connection.
            drop(call);
        }
        drop(place);
        assert_eq!(runtime.block_on(heavy.run(|_| Ok(7))), Ok(7));
    }
}
