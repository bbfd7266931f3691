//! The cases of a seed: an end at each step of a run, and faults of the disk during one.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use alloy_primitives::B256;
use hearth_testkit::random::Random;
use hearth_wal::crc;
use hearth_wal::simulated::{DiskFault, FaultKind, Files, Step, Trace};

use super::model::Model;
use super::restart::{Promise, Restart, restart};
use super::run::{Mark, Run};

/// Blocks that are executed after most starts.
const FEW: u64 = 2;
/// One in this many cases executes everything that is left, and one has a second crash during its start.
const RARE: usize = 8;
/// Faults of each kind, at steps drawn by the seed.
const FAULTS: usize = 8;

/// The crash or fault, and the disk step before which it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The process is killed.
    Kill(usize),
    /// The process ends in the middle of the step, if it is a write.
    Torn(usize),
    /// The machine loses its power.
    Power(usize),
    /// Either happens, and once more while the node starts again.
    Twice(usize),
    /// The disk fails; later the machine loses its power.
    Fault(FaultKind, usize),
}

const KINDS: [(&str, FaultKind); 3] =
    [("write-error", FaultKind::Write), ("full", FaultKind::Full), ("sync-error", FaultKind::Sync)];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(step) => write!(f, "kill:{step}"),
            Self::Torn(step) => write!(f, "torn:{step}"),
            Self::Power(step) => write!(f, "power:{step}"),
            Self::Twice(step) => write!(f, "twice:{step}"),
            Self::Fault(kind, step) => {
                let name = KINDS.iter().find(|(_, other)| other == kind).map_or("", |(name, _)| *name);
                write!(f, "{name}:{step}")
            }
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("HEARTH_CASE={text}: expected a case and its step, as in power:12");
        let (name, step) = text.split_once(':').ok_or_else(wrong)?;
        let step = step.parse().map_err(|_| wrong())?;
        match name {
            "kill" => Ok(Self::Kill(step)),
            "torn" => Ok(Self::Torn(step)),
            "power" => Ok(Self::Power(step)),
            "twice" => Ok(Self::Twice(step)),
            name => {
                let kind = KINDS.iter().find(|(other, _)| *other == name);
                kind.map(|(_, kind)| Self::Fault(*kind, step)).ok_or_else(wrong)
            }
        }
    }
}

/// How often something was seen, so that a run which tests nothing is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub cases: u64,
    /// Starts that found fewer blocks than had been made.
    pub lost_blocks: u64,
    /// Files of waiting transactions that a power loss damaged.
    pub moved_away: u64,
    /// Faults after which the node went on.
    pub went_on: u64,
    /// Faults after which it made no more blocks.
    pub gave_up: u64,
}

/// A seed with its fault-free run.
pub struct Simulation {
    seed: u64,
    model: Model,
    run: Run,
    pub counts: Counts,
    /// Record of actions and results, for the digest.
    found: Vec<u8>,
}

impl Simulation {
    pub fn new(seed: u64) -> Self {
        let model = Model::new(seed);
        let run = Run::new(&model, None).unwrap_or_else(|why| panic!("seed {seed}, without faults: {why}"));
        let mut found = Vec::new();
        model.blocks.iter().for_each(|block| found.extend(block.hash.0));
        run.trace.steps.iter().for_each(|step| found.extend(step.to_string().bytes()));
        Self { seed, model, run, counts: Counts::default(), found }
    }

    /// All cases, of the ends one in `stride`.
    pub fn cases(&self, stride: usize) -> Vec<Case> {
        let steps = self.run.trace.steps.len();
        let mut cases = Vec::new();
        for step in (0..=steps).step_by(stride) {
            cases.extend([Case::Kill(step), Case::Power(step)]);
            if matches!(self.run.trace.steps.get(step), Some(Step::Write { .. })) {
                cases.push(Case::Torn(step));
            }
            if (step / stride).is_multiple_of(RARE) {
                cases.push(Case::Twice(step));
            }
        }
        let mut random = Random(self.seed);
        for (_, kind) in KINDS {
            cases.extend((0..FAULTS.div_ceil(stride)).map(|_| Case::Fault(kind, random.index(steps))));
        }
        cases
    }

    /// Runs a case. A failure prints how to run it alone, and ends the test.
    pub fn check(&mut self, case: Case) {
        let result = catch_unwind(AssertUnwindSafe(|| self.result(case)));
        let result = result.unwrap_or_else(|_| Err("it panicked, as is said above".into()));
        if let Err(why) = result {
            let step = match case {
                Case::Kill(step) | Case::Torn(step) | Case::Power(step) | Case::Twice(step) | Case::Fault(_, step) => {
                    step
                }
            };
            let what = self.run.trace.steps.get(step).map_or_else(|| "the end".into(), ToString::to_string);
            panic!(
                "{case}, before step {step} ({what}): {why}\nAlone:\nHEARTH_SEED={} HEARTH_CASE={case} cargo test \
                 --release -p hearth-evm-utxo --test crash every_end -- --nocapture",
                self.seed
            );
        }
        self.counts.cases += 1;
    }

    /// Returns a digest of the seed's actions and results so far.
    pub fn digest(&self) -> u32 {
        crc(&[&self.found])
    }

    fn result(&mut self, case: Case) -> Result<(), String> {
        // Each case has its own random numbers, so that it can be run alone.
        let mut random = Random(self.seed ^ (u64::from(crc(&[case.to_string().as_bytes()])) << 16));
        match case {
            Case::Kill(step) | Case::Torn(step) => {
                let files = self.run.trace.after_kill(step, matches!(case, Case::Torn(_)));
                let found = self.start(files, &self.killed(step), step)?;
                let made = self.run.promised(step).head;
                self.note(&found, made);
            }
            Case::Power(step) => {
                let files = self.run.trace.after_power_loss(step, &mut |bound| random.below(bound));
                let mark = self.run.promised(step).clone();
                let found = self.start(files, &powerless(&mark), step)?;
                self.note(&found, mark.head);
            }
            Case::Twice(step) => self.twice(step, &mut random)?,
            Case::Fault(kind, step) => self.fault(DiskFault { step, kind }, &mut random)?,
        }
        Ok(())
    }

    fn start(&self, files: Files, promise: &Promise<'_>, step: usize) -> Result<Restart, String> {
        let blocks = if step.is_multiple_of(RARE) { self.model.end() } else { FEW };
        restart(&self.model, files, &Promise { blocks, ..*promise })
    }

    /// The state that must survive a kill before a step.
    fn killed(&self, step: usize) -> Promise<'_> {
        let mark = self.run.promised(step);
        let acknowledged = &self.run.acknowledged[..mark.acknowledged];
        Promise { head: mark.head, acknowledged, may_lose_waiting: false, blocks: FEW }
    }

    fn note(&mut self, found: &Restart, made: u64) {
        self.found.extend(found.head.to_le_bytes());
        self.counts.lost_blocks += u64::from(found.head < made);
        self.counts.moved_away += found.moved_away as u64;
    }

    /// An end, and another while the node starts, executes or stops again.
    fn twice(&mut self, step: usize, random: &mut Random) -> Result<(), String> {
        let is_kill = random.below(2) == 0;
        let mark = self.run.promised(step).clone();
        let promise = if is_kill { self.killed(step) } else { powerless(&mark) };
        let files = end(&self.run.trace, step, is_kill, random);
        let first = restart(&self.model, files, &promise)?;
        for _ in 0..4 {
            let step = random.index(first.trace.steps.len() + 1);
            let is_second_kill = random.below(2) == 0;
            let files = end(&first.trace, step, is_second_kill, random);
            // Whatever survived the first crash counts as synced.
            let may_lose_waiting = !is_kill || !is_second_kill;
            let acknowledged: &[B256] = if may_lose_waiting { &[] } else { promise.acknowledged };
            let promise = Promise { acknowledged, may_lose_waiting, ..promise };
            restart(&self.model, files, &promise).map_err(|why| format!("second end before step {step}: {why}"))?;
        }
        self.note(&first, mark.head);
        Ok(())
    }

    /// Runs with one disk fault. However the node handles it, its promises must survive.
    fn fault(&mut self, fault: DiskFault, random: &mut Random) -> Result<(), String> {
        let run = Run::new(&self.model, Some(fault))?;
        let steps = run.trace.steps.len();
        let last = run.promised(steps);
        let killed = Promise { head: last.head, acknowledged: &run.acknowledged, may_lose_waiting: false, blocks: FEW };
        let found = restart(&self.model, run.trace.after_kill(steps, false), &killed)
            .map_err(|why| format!("killed at the end of the run: {why}"))?;
        for count in [steps, steps, fault.step.min(steps), (fault.step + random.index(40)).min(steps)] {
            let files = run.trace.after_power_loss(count, &mut |bound| random.below(bound));
            restart(&self.model, files, &powerless(run.promised(count)))
                .map_err(|why| format!("power lost before step {count} of the run: {why}"))?;
        }
        if let Some(why) = &run.gave_up {
            self.counts.gave_up += 1;
            self.found.extend(why.len().to_le_bytes());
        } else {
            self.counts.went_on += u64::from(run.has_failed);
        }
        self.note(&found, last.head);
        Ok(())
    }
}

/// The state that must survive a power loss: waiting transactions may be lost.
fn powerless(mark: &Mark) -> Promise<'static> {
    Promise { head: mark.synced, acknowledged: &[], may_lose_waiting: true, blocks: FEW }
}

fn end(trace: &Trace, step: usize, is_kill: bool, random: &mut Random) -> Files {
    if is_kill {
        trace.after_kill(step, random.below(2) == 0)
    } else {
        trace.after_power_loss(step, &mut |bound| random.below(bound))
    }
}
