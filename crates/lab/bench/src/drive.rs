//! Driving a bench: wait until everything is connected, sign ahead, run the load second by second, drain.
//!
//! reads   samples of the transaction count, counters
//! writes  the load's phases, a line a second, what was observed

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use hearth_command::numbers::{grouped, grouped_rate};
use hearth_command::output::Say;
use hearth_command::stop::StopSignal;
use hearth_pipeline::benchg::{Control, Phase};
use hearth_pipeline::bencho::Sample;
use hearth_pipeline::node::Node;

use super::observe::{Observed, Snapshot};
use super::{BenchError, Options, Witness, drain, progress};

/// The longest wait for the node's first answer and the load's first connection.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const SECOND_NS: u64 = 1_000_000_000;
/// How often counters are looked at between the seconds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A sample that comes sooner after the one before is left out: where an answer was late, the next one is not.
const ROW_LEAST_NS: u64 = 500_000_000;

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
    /// The chain's transactions that are not of this run: a target has others already.
    pub before_run: u64,
}

impl Driver<'_> {
    /// From the first connection to the end of the last measured second.
    pub fn drive(&mut self, options: &Options, presign: u64) -> Result<(), BenchError> {
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
        progress("waiting for transactions in flight");
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

    /// Warm-up and measured seconds: a line each. Seconds count by the samples' own clock: a node that does not answer
    /// for a while costs one row of so many seconds, and no time is measured twice or too long.
    fn seconds(&mut self, options: &Options) -> Result<(), BenchError> {
        let benchg_count = self.node.topology.count("benchg") as u64;
        let mut rows = Rows::default();
        let mut last = options.warmup + options.duration;
        self.seen.start(self.node);
        while rows.second < last && !self.stop.is_set() {
            match self.samples.recv_timeout(LOOK_EVERY) {
                Ok(sample) => {
                    let sample = without_votes(sample, self.node);
                    if let Some(row) = rows.next(sample) {
                        match row.before {
                            // What landed before the first whole second: rates and totals fit together from here on.
                            None if self.instead.is_some() => {}
                            None => self.say.line(line(0, options.warmup, None, self.of_run(&sample))),
                            Some(before) => self.second(&row, &before, options),
                        }
                        if row.second >= options.warmup && self.seen.begin_measuring(sample, self.node) {
                            // Where the node was silent as the warm-up ended, that time is no measured one.
                            last = row.second + options.duration;
                            self.witness.begin();
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look()?;
            if self.control.exhausted() == benchg_count {
                self.seen.presigned_ran_dry = true;
                progress("all presigned transfers are sent: the measurement ends here");
                break;
            }
        }
        let all = rows.second >= last || self.seen.presigned_ran_dry;
        self.seen.interrupted = self.stop.is_set() && !all;
        self.seen.end_measuring(self.node);
        self.witness.end();
        Ok(())
    }

    fn second(&mut self, row: &Row, before: &Sample, options: &Options) {
        let Row { second, seconds, sample, .. } = *row;
        let measured = self.seen.is_measuring();
        let rate = self.seen.seconds(before, &sample, seconds, self.node);
        (0..seconds).for_each(|_| self.witness.second(rate, measured));
        match &self.instead {
            Some(text) => {
                self.say.line(format_args!("  {second:>4} s  {}{}", text(), warmup_note(second, options.warmup)))
            }
            None => {
                let line = line(second, options.warmup, Some(rate), self.of_run(&sample));
                self.say.line(format_args!("{line}{}", silence_note(seconds)));
            }
        }
        if let Some(noise) = self.seen.new_noise(self.cores) {
            self.say.line(format_args!("          notice: {noise}"));
        }
        if self.say.is_closed() {
            self.stop.set();
        }
    }

    /// Transactions that the chain has executed since the run began.
    fn of_run(&self, sample: &Sample) -> u64 {
        sample.transaction_count.saturating_sub(self.before_run)
    }

    fn look(&mut self) -> Result<(), BenchError> {
        self.seen.look(self.node);
        match self.node.died() {
            Some(died) => Err(died.into()),
            None => Ok(()),
        }
    }
}

/// The samples as rows of whole seconds.
#[derive(Debug, Default)]
struct Rows {
    first_ns: u64,
    /// The last one that became a row's end.
    last: Option<Sample>,
    /// Whole seconds from the first sample to the last row's end.
    second: u64,
}

/// From one sample to the next.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Where it begins; `None` for the first sample.
    before: Option<Sample>,
    /// Where it ends.
    sample: Sample,
    /// Whole seconds from the first sample to its end.
    second: u64,
    /// How many of them are its own: more than one where the node did not answer meanwhile.
    seconds: u64,
}

impl Rows {
    /// The row that ends with this sample; `None` where it would be too short.
    fn next(&mut self, sample: Sample) -> Option<Row> {
        let Some(before) = self.last else {
            (self.first_ns, self.last) = (sample.at_ns, Some(sample));
            return Some(Row { before: None, sample, second: 0, seconds: 0 });
        };
        let second = (sample.at_ns.saturating_sub(self.first_ns) + SECOND_NS / 2) / SECOND_NS;
        if second <= self.second || sample.at_ns.saturating_sub(before.at_ns) < ROW_LEAST_NS {
            return None;
        }
        let seconds = second - self.second;
        (self.last, self.second) = (Some(sample), second);
        Some(Row { before: Some(before), sample, second, seconds })
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

/// What a row says that is longer than a second.
fn silence_note(seconds: u64) -> String {
    if seconds > 1 { format!("  (mean of {seconds} s: the node did not answer)") } else { String::new() }
}

fn line(second: u64, warmup: u64, rate: Option<f64>, total: u64) -> String {
    let note = warmup_note(second, warmup);
    let rate = rate.map_or("–".into(), grouped_rate);
    format!("  {second:>4} s  {rate:>10} txn/s  {:>12} in all{note}", grouped(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_one_row_of_many_seconds() {
        let mut rows = Rows::default();
        let mut row = |ms: u64, transaction_count| {
            let row = rows.next(Sample { at_ns: ms * 1_000_000, transaction_count })?;
            let length = row.before.map(|before| (row.sample.at_ns - before.at_ns) / 1_000_000);
            Some((row.second, row.seconds, length))
        };
        assert_eq!(row(500, 0), Some((0, 0, None)));
        assert_eq!(row(1_503, 10), Some((1, 1, Some(1_003))));
        // Four seconds without an answer, and what was missed comes at once.
        assert_eq!(row(5_810, 20), Some((5, 4, Some(4_307))));
        assert_eq!(row(5_811, 21), None, "no row of no length");
        assert_eq!(row(6_200, 22), None, "nor a short one");
        assert_eq!(row(6_501, 30), Some((6, 1, Some(691))));
        assert_eq!(row(7_500, 40), Some((7, 1, Some(999))));
    }

    #[test]
    fn a_longer_row_says_why() {
        assert_eq!(silence_note(1), "");
        assert_eq!(silence_note(4), "  (mean of 4 s: the node did not answer)");
    }
}
