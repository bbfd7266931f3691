//! Drives a bench: waits until everything is connected, signs ahead, runs the load second by second, drains.
//!
//! reads   samples of the transaction count, counters
//! writes  the load's phases, a line per second, the observations

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use hearth_command::numbers::{grouped, grouped_rate};
use hearth_command::output::CommandOutput;
use hearth_command::stop::StopSignal;
use hearth_pipeline::benchg::{Control, Phase};
use hearth_pipeline::bencho::Sample;
use hearth_pipeline::node::Node;

use super::observe::{BenchObservations, Snapshot};
use super::{BenchError, Options, Witness, drain, progress};

/// The longest wait for the node's first answer and the load's first connection.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const SECOND_NS: u64 = 1_000_000_000;
/// How often counters are read between the seconds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A sample that follows the one before sooner than this is left out: after a late answer the next one comes on time.
const ROW_LEAST_NS: u64 = 500_000_000;

/// A booted bench and its observations.
pub struct Driver<'a> {
    /// The node and its load.
    pub node: &'a Node,
    /// Samples taken by bencho.
    pub samples: Receiver<Sample>,
    /// Controls the load's phase.
    pub control: Arc<Control>,
    /// Set by Ctrl-C, which ends the bench early with the result so far.
    pub stop: &'a StopSignal,
    /// Output for the line of each second.
    pub say: &'a CommandOutput,
    /// Cores that the process may use.
    pub cores: f64,
    /// Text for a second in which no load is sent, in place of meaningless rates.
    pub instead: Option<Box<dyn Fn() -> String>>,
    /// Observer of the bench's progress.
    pub witness: &'a mut dyn Witness,
    /// The observations so far.
    pub seen: BenchObservations,
    /// Transactions that the chain had executed before this run: a target has others already.
    pub before_run: u64,
}

impl Driver<'_> {
    /// Runs from the first connection to the end of the last measured second.
    pub fn drive(&mut self, options: &Options, presign: u64) -> Result<(), BenchError> {
        self.wait_until_ready()?;
        if presign > 0 {
            self.sign_ahead(presign)?;
        }
        if self.stop.is_set() {
            self.seen.interrupted = true;
            return Ok(());
        }
        // Discard samples from before the run.
        while self.samples.try_recv().is_ok() {}
        // At rate 0 no load is sent, and only probes and queries are measured.
        if options.rate != Some(0.0) {
            self.control.set(Phase::Run);
        }
        self.seconds(options)?;
        self.control.set(Phase::Idle);
        Ok(())
    }

    /// Waits until the transactions in flight of a node in this process have an outcome.
    pub fn drain(&mut self) -> Result<(), BenchError> {
        progress("waiting for transactions in flight");
        self.seen.drain_interrupted = drain::wait(self.node, self.stop)?;
        Ok(())
    }

    /// Waits until the RPC answers and every benchs is connected.
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

    /// Runs the warm-up and the measured seconds, with a line for each. Seconds follow the samples' own clock: if a
    /// node does not answer for a while, this gives one row of several seconds, and no time is measured twice or too
    /// long.
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
                            // Transactions from before the first whole second: from here on, rates and totals agree.
                            None if self.instead.is_some() => {}
                            None => self.say.line(line(0, options.warmup, None, self.of_run(&sample))),
                            Some(before) => self.second(&row, &before, options),
                        }
                        if row.second >= options.warmup && self.seen.begin_measuring(sample, self.node) {
                            // If the node was silent as the warm-up ended, that time is not measured.
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

/// Groups samples into rows of whole seconds.
#[derive(Debug, Default)]
struct Rows {
    first_ns: u64,
    /// The sample at the end of the last row.
    last: Option<Sample>,
    /// Whole seconds from the first sample to the end of the last row.
    second: u64,
}

/// The time from one sample to the next.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The sample at its beginning; `None` for the first row.
    before: Option<Sample>,
    /// The sample at its end.
    sample: Sample,
    /// Whole seconds from the first sample to its end.
    second: u64,
    /// Seconds that the row covers: more than one if the node did not answer meanwhile.
    seconds: u64,
}

impl Rows {
    /// Returns the row that ends with this sample; `None` if it would be too short.
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

/// Subtracts the node's own votes from the cluster's transaction count.
fn without_votes(sample: Sample, node: &Node) -> Sample {
    let votes = Snapshot::take(node).total("bank", "votes");
    Sample { transaction_count: sample.transaction_count.saturating_sub(votes), ..sample }
}

fn warmup_note(second: u64, warmup: u64) -> &'static str {
    if second <= warmup && warmup > 0 { "  (warm-up)" } else { "" }
}

/// The note on a row longer than a second.
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
        // Four seconds without an answer, then the missed samples all at once.
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
