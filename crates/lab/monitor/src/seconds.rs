//! A node, from one look to the next.
//!
//! reads   a [`Watch`]
//! writes  [`Second`]: a sample and what it means, as JSON too
//! memory  the last look, and the last second in which the node ran

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::attach::{AttachError, Watch};
use crate::diagnosis::{Diagnosis, diagnose};
use crate::look::Look;
use crate::sample::Sample;

/// A sample and what it means.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// What happened.
    #[serde(flatten)]
    pub sample: Sample,
    /// What that means.
    pub diagnosis: Diagnosis,
}

impl Second {
    /// One line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a sample is plain data")
    }
}

/// A node that is looked at again and again.
#[derive(Debug)]
pub struct Seconds {
    watch: Watch,
    before: Look,
    /// The last second in which it ran.
    last: Option<Sample>,
}

impl Seconds {
    /// Usual time between two looks.
    pub const EVERY: Duration = Duration::from_secs(1);

    /// Takes the first look.
    pub fn of(watch: Watch) -> Self {
        Self { before: watch.look(), watch, last: None }
    }

    /// The node.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// When the next look should be.
    pub fn due(&self) -> Instant {
        self.before.at() + Self::EVERY
    }

    /// What happened since the last look, and from then on the next node of this name, where this one is gone and that
    /// runs. None where this one was dead at the first look: a node that starts finds the workspace of the one before,
    /// whose end is no news.
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

    /// What happened since the last look; of a node that is gone, the last second in which it was seen to run.
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
