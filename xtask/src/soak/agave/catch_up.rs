//! How fast a node that was stopped reaches its cluster again.
//!
//! reads   the confirmed slots of both nodes

use std::time::Instant;

use serde_json::{Value, json};

use super::Lab;
use super::nodes::{Process, Remote};

/// A node that follows may be so many confirmed slots behind.
pub const BEHIND_MAX: u64 = 32;
/// A node that is so near has caught up: the two are not asked at the same moment.
const NEAR: u64 = 8;
/// Slots within which a node that has started must catch up.
const SLOTS_TO_CATCH_UP: u64 = 500;

/// Waits until a node has confirmed nearly as much as another.
pub fn caught_up(lab: &Lab, node: &mut Process, other: Remote) -> Result<u64, String> {
    node.wait("caught up", lab.within(SLOTS_TO_CATCH_UP), |node| {
        let (here, there) = (node.remote().slot("confirmed")?, other.slot("confirmed")?);
        (here + NEAR >= there).then_some(here)
    })
}

/// The state of a node when it stopped.
pub struct Behind {
    stopped_at: u64,
    /// Slots that the other had confirmed more when the node was started again.
    distance: u64,
    begin: Instant,
}

impl Behind {
    /// Waits until `other` has confirmed `slots` more than `stopped_at`.
    pub fn wait(lab: &Lab, other: &mut Process, stopped_at: u64, slots: u64) -> Result<Self, String> {
        println!("the other goes on for {slots} slots, from slot {stopped_at}");
        other.reaches(stopped_at + slots, lab.within(slots))?;
        let now = other.remote().slot("confirmed").unwrap_or(stopped_at + slots);
        Ok(Self { stopped_at, distance: now - stopped_at, begin: Instant::now() })
    }

    /// Waits until the node, started since, has caught up. Returns how long that took from the start of the process
    /// on, and how many slots it was for: those it was behind, and those that came meanwhile.
    pub fn caught_up(&self, lab: &Lab, node: &mut Process, other: Remote) -> Result<Value, String> {
        let reached = caught_up(lab, node, other)?;
        let seconds = self.begin.elapsed().as_secs_f64();
        let slots = reached.saturating_sub(self.stopped_at);
        let rate = slots as f64 / seconds.max(0.001);
        println!("caught up {slots} slots, {} of them behind at the start, in {seconds:.1} s", self.distance);
        Ok(json!({
            "behind": self.distance, "slots": slots, "seconds": rounded(seconds), "slots_per_s": rounded(rate),
        }))
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
