//! A node, from one look to the next.
//!
//! reads   a [`Watch`]
//! writes  [`Second`]: a sample and what it means, as JSON too
//! memory  the last look

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
}

impl Seconds {
    /// Usual time between two looks.
    pub const EVERY: Duration = Duration::from_secs(1);

    /// Takes the first look.
    pub fn of(watch: Watch) -> Self {
        Self { before: watch.look(), watch }
    }

    /// The node.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// When the next look should be.
    pub fn due(&self) -> Instant {
        self.before.at() + Self::EVERY
    }

    /// What happened since the last look.
    pub fn next_second(&mut self) -> Second {
        let now = self.watch.look();
        let sample = Sample::between(&self.watch, &self.before, &now);
        self.before = now;
        let diagnosis = diagnose(&sample);
        Second { sample, diagnosis }
    }
}
