//! Follows a node from one look to the next.
//!
//! reads   a [`Watch`]
//! writes  [`Second`]: a sample and its diagnosis, also as JSON
//! memory  the last look, and the last sample of the running node

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::attach::{AttachError, Watch};
use crate::diagnosis::{Diagnosis, diagnose};
use crate::node_counters::NodeCounters;
use crate::sample::Sample;

/// A sample and its diagnosis.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// Rates and states since the sample before.
    #[serde(flatten)]
    pub sample: Sample,
    /// Finding that the sample leads to, with advice.
    pub diagnosis: Diagnosis,
}

impl Second {
    /// Returns one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a sample is plain data")
    }
}

/// A node that is watched repeatedly.
#[derive(Debug)]
pub struct Seconds {
    watch: Watch,
    before: NodeCounters,
    /// The last sample in which it ran.
    last: Option<Sample>,
}

impl Seconds {
    /// Usual time between two looks.
    pub const EVERY: Duration = Duration::from_secs(1);

    /// Takes the first look.
    pub fn of(watch: Watch) -> Self {
        Self { before: watch.look(), watch, last: None }
    }

    /// Returns the watched node.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns when the next look is due.
    pub fn due(&self) -> Instant {
        self.before.at() + Self::EVERY
    }

    /// Returns what happened since the last look. If this node is gone and another of its name runs, follows that one
    /// from then on. None if this node was already dead at the first look: a starting node finds its predecessor's
    /// workspace, whose end is no news.
    pub fn follow(&mut self) -> Result<Option<Second>, AttachError> {
        let was_alive = self.last.is_some() || self.before.alive;
        let second = self.next_second();
        if second.sample.alive {
            return Ok(Some(second));
        }
        let Some(next) = self.watch.successor()? else { return Ok(Some(second)) };
        *self = Self::of(next);
        Ok(was_alive.then_some(second))
    }

    /// Returns what happened since the last look; for a node that is gone, its last running second.
    pub fn next_second(&mut self) -> Second {
        let now = self.watch.look();
        let mut sample = Sample::between(&self.watch, &self.before, &now);
        self.before = now;
        if sample.alive {
            self.last = Some(sample.clone());
        } else if let Some(last) = &self.last {
            sample = last.left_as(&sample);
        }
        let diagnosis = diagnose(&sample);
        Second { sample, diagnosis }
    }
}
