//! Driving a bench: wait until everything is connected, sign ahead, run the load second by second, drain.
//!
//! reads   samples of the transaction count, counters
//! writes  the load's phases, a line a second, what was observed

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use hearth_pipeline::benchg::{Control, Phase};
use hearth_pipeline::bencho::Sample;
use hearth_pipeline::node::Node;

use super::observe::{Observed, Snapshot};
use super::{BenchError, Witness, drain, progress, summary};
use crate::cli;
use crate::say::Say;
use crate::stop::StopSignal;

/// The longest wait for the node's first answer and the load's first connection.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often counters are looked at between the seconds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A booted bench and what has been seen of it.
pub struct Driver<'a> {
    /// The node and its load.
    pub node: &'a Node,
    /// Bencho's samples.
    pub samples: Receiver<Sample>,
    /// The load's phase.
    pub control: Arc<Control>,
    /// Ctrl-C.
    pub stop: &'a StopSignal,
    /// Where a line a second goes.
    pub say: &'a Say,
    /// Cores that the process may use.
    pub cores: f64,
    /// What to say of a second where no load is sent, in place of rates that mean nothing.
    pub instead: Option<Box<dyn Fn() -> String>>,
    /// Who looks on.
    pub witness: &'a mut dyn Witness,
    /// What has been seen.
    pub seen: Observed,
}

impl Driver<'_> {
    /// From the first connection to the end of the last measured second.
    pub fn drive(&mut self, options: &cli::Bench, presign: u64) -> Result<(), BenchError> {
        self.wait_until_ready()?;
        if presign > 0 {
            self.sign_ahead(presign)?;
        }
        if self.stop.is_set() {
            self.seen.interrupted = true;
            return Ok(());
        }
        // Samples of the time before are of no use.
        while self.samples.try_recv().is_ok() {}
        // At no rate at all, what is measured beside the load is measured alone.
        if options.rate != Some(0.0) {
            self.control.set(Phase::Run);
        }
        self.seconds(options)?;
        self.control.set(Phase::Idle);
        Ok(())
    }

    /// Waits until what is under way in a node of this process has come to an end.
    pub fn drain(&mut self) -> Result<(), BenchError> {
        progress("waiting for what is under way");
        self.seen.drain_interrupted = drain::wait(self.node, self.stop)?;
        Ok(())
    }

    /// The RPC answers and every benchs is connected.
    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        let mut answered = false;
        while !self.stop.is_set() {
            answered |= self.samples.recv_timeout(LOOK_EVERY).is_ok();
            self.look()?;
            let now = Snapshot::take(self.node);
            if answered && now.connected() {
                return Ok(());
            }
            if start.elapsed() > START_TIMEOUT {
                let what = if answered { "no QUIC connection to the node" } else { "no answer from the node's RPC" };
                return Err(BenchError::Stuck(format!("{what} within {} s", START_TIMEOUT.as_secs())));
            }
        }
        Ok(())
    }

    fn sign_ahead(&mut self, target: u64) -> Result<(), BenchError> {
        self.control.set(Phase::Presign);
        let mut shown = Instant::now();
        while self.control.presigned() < target && !self.stop.is_set() {
            self.look()?;
            if shown.elapsed() > Duration::from_millis(500) {
                shown = Instant::now();
                progress(&format!("signing ahead: {} of {target}", self.control.presigned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Warm-up and measured seconds: a line each.
    fn seconds(&mut self, options: &cli::Bench) -> Result<(), BenchError> {
        let benchg_count = self.node.topology.count("benchg") as u64;
        let mut before: Option<Sample> = None;
        let mut second = 0;
        self.seen.start(self.node);
        while second < options.warmup + options.duration && !self.stop.is_set() {
            match self.samples.recv_timeout(LOOK_EVERY) {
                Ok(sample) => {
                    let sample = without_votes(sample, self.node);
                    match before.replace(sample) {
                        // What landed before the first whole second: rates and totals fit together from here on.
                        None if self.instead.is_some() => {}
                        None => self.say.line(line(0, options.warmup, None, sample.transaction_count)),
                        Some(before) => {
                            second += 1;
                            self.second(second, &before, &sample, options);
                        }
                    }
                    if second == options.warmup && self.seen.begin_measuring(sample, self.node) {
                        self.witness.begin();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look()?;
            if self.control.exhausted() == benchg_count {
                self.seen.presigned_ran_dry = true;
                progress("all that was signed ahead is sent: the measurement ends here");
                break;
            }
        }
        let all = second == options.warmup + options.duration || self.seen.presigned_ran_dry;
        self.seen.interrupted = self.stop.is_set() && !all;
        self.seen.end_measuring(self.node);
        self.witness.end();
        Ok(())
    }

    fn second(&mut self, second: u64, before: &Sample, sample: &Sample, options: &cli::Bench) {
        let rate = self.seen.second(before, sample, second > options.warmup, self.node);
        self.witness.second(rate, second > options.warmup);
        match &self.instead {
            Some(text) => {
                self.say.line(format_args!("  {second:>4} s  {}{}", text(), warmup_note(second, options.warmup)))
            }
            None => self.say.line(line(second, options.warmup, Some(rate), sample.transaction_count)),
        }
        if let Some(noise) = self.seen.new_noise(self.cores) {
            self.say.line(format_args!("          notice: {noise}"));
        }
        if self.say.is_closed() {
            self.stop.set();
        }
    }

    fn look(&mut self) -> Result<(), BenchError> {
        self.seen.look(self.node);
        match self.node.died() {
            Some(died) => Err(died.into()),
            None => Ok(()),
        }
    }
}

/// The cluster's count has the node's own votes in it, which no one has sent.
fn without_votes(sample: Sample, node: &Node) -> Sample {
    let votes = Snapshot::take(node).total("bank", "votes");
    Sample { transaction_count: sample.transaction_count.saturating_sub(votes), ..sample }
}

fn warmup_note(second: u64, warmup: u64) -> &'static str {
    if second <= warmup && warmup > 0 { "  (warm-up)" } else { "" }
}

fn line(second: u64, warmup: u64, rate: Option<f64>, total: u64) -> String {
    let note = warmup_note(second, warmup);
    let rate = rate.map_or("–".into(), summary::n);
    format!("  {second:>4} s  {rate:>10} txn/s  {:>12} in all{note}", summary::i(total))
}
