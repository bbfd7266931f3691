//! A node that repeats the model's actions on a simulated disk: without faults, or through one disk fault.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use hearth_evm::chain::{Chain, SubmitError};
use hearth_wal::mount::mount;
use hearth_wal::simulated::{DiskFault, Files, SimulatedDisk, Trace};

use super::model::{Act, Model};
use super::node;

/// How often something is tried again that the disk has refused.
const TRIES: usize = 4;

/// The node's promises after a number of disk steps.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    pub step: usize,
    /// The newest block that was shown: no end of the process takes it away.
    pub head: u64,
    /// Up to which block everything is on disk: no end of the machine takes these away.
    pub synced: u64,
    /// How many transactions had been acknowledged.
    pub acknowledged: usize,
}

/// The record of a run.
#[derive(Default)]
pub struct Run {
    pub trace: Trace,
    /// In order of steps; the first promises nothing.
    pub marks: Vec<Mark>,
    /// Accepted transactions, in order.
    pub acknowledged: Vec<B256>,
    /// Whether the planned fault has happened.
    pub has_failed: bool,
    /// Why the node gave up, where it did.
    pub gave_up: Option<String>,
}

impl Run {
    /// Runs the whole model in a folder of its own.
    pub fn new(model: &Model, fault: Option<DiskFault>) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let disk = SimulatedDisk::new(folder.path(), Files::new()).map_err(|error| error.to_string())?;
        let _mount = mount(folder.path(), Arc::new(disk.clone()));
        if let Some(fault) = fault {
            disk.plan(fault);
        }
        let mut run = Self { marks: vec![Mark::default()], ..Self::default() };
        let chain = open(&folder.path().join("chain"), &disk)?;
        run.mark(&chain, &disk);
        for act in &model.acts {
            run.act(model, &chain, &disk, act)?;
            run.mark(&chain, &disk);
            run.gave_up = chain.failure();
            if run.gave_up.is_some() {
                break;
            }
        }
        node::close(chain);
        run.trace = disk.trace();
        run.has_failed = disk.has_failed();
        Ok(run)
    }

    fn mark(&mut self, chain: &Chain, disk: &SimulatedDisk) {
        let (step, acknowledged) = (disk.steps(), self.acknowledged.len());
        self.marks.push(Mark { step, head: chain.head().number(), synced: chain.synced(), acknowledged });
    }

    /// Returns the promises made before step `count`.
    pub fn promised(&self, count: usize) -> &Mark {
        let before = self.marks.partition_point(|mark| mark.step <= count);
        &self.marks[before - 1]
    }

    fn act(&mut self, model: &Model, chain: &Chain, disk: &SimulatedDisk, act: &Act) -> Result<(), String> {
        match act {
            Act::Submit(raw, expected) => self.submit(chain, disk, raw, expected),
            Act::Mine => mine(model, chain, disk),
            Act::Sync => {
                chain.sync_stores();
                Ok(())
            }
            Act::Checkpoint => {
                // The log has everything that a checkpoint would have had.
                let _ = chain.checkpoint();
                disk.heal();
                Ok(())
            }
        }
    }

    /// Submits a burst, and resubmits transactions that the disk did not keep.
    fn submit(
        &mut self,
        chain: &Chain,
        disk: &SimulatedDisk,
        raw: &[Bytes],
        expected: &[Option<B256>],
    ) -> Result<(), String> {
        let mut results: Vec<Result<B256, SubmitError>> = chain.submit(raw.to_vec());
        for _ in 0..TRIES {
            let again: Vec<usize> =
                (0..raw.len()).filter(|at| matches!(results[*at], Err(SubmitError::NotKept(_)))).collect();
            if again.is_empty() {
                break;
            }
            disk.heal();
            let retried = chain.submit(again.iter().map(|at| raw[*at].clone()).collect());
            for (at, result) in again.into_iter().zip(retried) {
                results[at] = result;
            }
        }
        for (at, (result, expected)) in results.into_iter().zip(expected).enumerate() {
            match (result, expected) {
                (Ok(hash), Some(expected)) if hash == *expected => self.acknowledged.push(hash),
                (Err(_), None) => {}
                (result, expected) => {
                    return Err(format!("transaction {at} of a burst: {result:?}, and in the model {expected:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Opens the chain; again where the fault was at the start.
fn open(dir: &Path, disk: &SimulatedDisk) -> Result<Chain, String> {
    let mut tries = 0;
    loop {
        match node::open(Some(dir)) {
            Ok(chain) => return Ok(chain),
            Err(_) if disk.has_failed() && tries < TRIES => disk.heal(),
            Err(error) => return Err(format!("the chain does not open: {error}")),
        }
        tries += 1;
    }
}

/// Makes the next block; again where the disk refuses, unless the chain has given up. It must be the model's.
fn mine(model: &Model, chain: &Chain, disk: &SimulatedDisk) -> Result<(), String> {
    let mut tries = 0;
    let block = loop {
        match chain.mine() {
            Ok(block) => break block,
            Err(_) if chain.failure().is_some() => return Ok(()),
            Err(_) if disk.has_failed() && tries < TRIES => disk.heal(),
            Err(error) => return Err(format!("no block is made: {error}")),
        }
        tries += 1;
    };
    let expected = model.blocks[block.number() as usize].hash;
    if block.hash == expected {
        Ok(())
    } else {
        Err(format!("block {} is {}, and in the model {expected}", block.number(), block.hash))
    }
}
