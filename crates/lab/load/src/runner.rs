//! Runs the threads of a load: the senders, the block reader, the pool watcher and the profiler.
//!
//! reads   the results of these threads
//! writes  the [`Window`], the [`Chain`], the senders' results

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::options::Timing;
use crate::profile::{self, Plan, Profile, ProfileError};
use crate::progress::Progress;
use crate::reading::Chain;
use crate::run_clock::{PROFILER_PATIENCE, RunState, SenderTally};
use crate::series;
use crate::window::{self, Window};

const LOOK_EVERY: Duration = Duration::from_millis(50);
const PROFILER_LOOK_EVERY: Duration = Duration::from_millis(5);

impl RunState {
    /// Sends and reads blocks, each on its own threads, until the measured time is over and nothing is under way. The
    /// reader begins once `presigned` transactions are signed, and ends when the flag that it gets is set.
    pub fn run<S, R>(
        &self,
        timing: &Timing,
        presigned: u64,
        senders: Vec<S>,
        reader: R,
        stop: &dyn Fn() -> bool,
        on_progress: &mut impl FnMut(Progress<'_>),
    ) -> (Window, Chain, Vec<SenderTally>)
    where
        S: FnOnce() -> SenderTally + Send,
        R: FnOnce(&AtomicBool) -> Chain + Send,
    {
        let stop_reading = AtomicBool::new(false);
        thread::scope(|scope| {
            let senders: Vec<_> = senders.into_iter().map(|sender| scope.spawn(sender)).collect();
            self.wait_until_signed(presigned, stop, on_progress);
            let reader = scope.spawn(|| reader(&stop_reading));
            let watcher =
                scope.spawn(|| series::watch(&timing.beside.pool, &timing.pids, &self.outcomes, &stop_reading));
            self.profiler_begun.store(timing.beside.profile.is_none(), Ordering::Release);
            let profiler = timing.beside.profile.as_ref().map(|plan| scope.spawn(|| self.profile(plan)));
            if timing.warmup.is_zero() {
                self.wait_for_profiler(stop);
            }
            // Before any sender starts: a sender may finish before this thread is scheduled.
            self.measured.store(timing.warmup.is_zero(), Ordering::Release);
            self.ready.wait();
            self.begun();
            let (mut window, still) = Window::watch(timing, self, stop, on_progress, || reader.is_finished());
            on_progress(Progress::Step("waiting for what is under way"));
            window::settle(self, still, || {
                self.say_silence(on_progress);
                reader.is_finished() || timing.give_up.is_asked()
            });
            if timing.give_up.is_asked() {
                on_progress(Progress::Step("nothing more is waited for: what is still under way is unknown"));
            }
            self.over.store(true, Ordering::Release);
            let mut tallies: Vec<SenderTally> =
                senders.into_iter().map(|sender| sender.join().expect("a sender does not panic")).collect();
            tallies.iter_mut().for_each(|tally| tally.take_out(&window.halts));
            stop_reading.store(true, Ordering::Release);
            window.series = watcher.join().expect("who watches does not panic");
            window.profile = profiler.map(|profiler| profiler.join().expect("who profiles does not panic"));
            (window, reader.join().expect("the reader does not panic"), tallies)
        })
    }

    /// Waits for the end of the warm-up, then profiles the node until sending ends.
    fn profile(&self, plan: &Plan) -> Result<Profile, ProfileError> {
        while !self.warm.load(Ordering::Acquire) {
            if self.stopped() {
                return Err(ProfileError::Stopped);
            }
            thread::sleep(LOOK_EVERY);
        }
        let taken = profile::take(plan, &|| self.profiler_begun.store(true, Ordering::Release), &|| self.stopped());
        self.profiler_begun.store(true, Ordering::Release);
        taken
    }

    /// Without a warm-up the profiler begins before anything is sent.
    fn wait_for_profiler(&self, stop: &dyn Fn() -> bool) {
        self.warm.store(true, Ordering::Release);
        let deadline = Instant::now() + PROFILER_PATIENCE;
        while !self.profiler_begun.load(Ordering::Acquire) && Instant::now() < deadline && !stop() {
            thread::sleep(PROFILER_LOOK_EVERY);
        }
    }

    fn wait_until_signed(&self, all: u64, stop: &dyn Fn() -> bool, on_progress: &mut impl FnMut(Progress<'_>)) {
        let mut next = Instant::now() + Duration::from_secs(1);
        while self.signed.load(Ordering::Relaxed) < all {
            if stop() {
                let _ = self.stop.set(Instant::now());
                return;
            }
            if Instant::now() > next {
                on_progress(Progress::Signed(self.signed.load(Ordering::Relaxed), all));
                next += Duration::from_secs(1);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}
