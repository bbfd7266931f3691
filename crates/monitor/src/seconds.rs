//! A node, from one look to the next.
//!
//! reads   a [`Watch`]
//! writes  [`Second`]: a sample and what it means, as JSON too
//! memory  the last look, and the last second in which the node ran

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::attach::Watch;
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
