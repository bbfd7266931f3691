//! What a talk has shown, simulated: ten nodes, two loads.
//!
//! reads   the figures that were shown
//! writes  ours beside them
//! memory  see [`super`]
//! source  a leader in London and nine followers, each of its dashboards' bandwidths as shown

use serde::Serialize;

use super::{Plan, PlanError, Stakes, World, traffic};

/// A load that was shown: transactions a second, what followers received and the leader sent, b/s.
pub const SHOWN: [(f64, f64, f64); 2] = [(81_500.0, 340e6, 724e6), (1_040_000.0, 4.3e9, 5.12e9)];

/// A figure beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// What it is of.
    pub of: &'static str,
    /// Transactions a second.
    pub tps: f64,
    /// As it was shown, b/s.
    pub shown_bps: f64,
    /// As it is simulated, b/s.
    pub ours_bps: f64,
    /// Of ours, what is no shred but the model of the leader's other traffic, b/s.
    pub modelled_bps: f64,
}

impl Compared {
    /// Ours beside what was shown, less one.
    pub fn difference(&self) -> f64 {
        self.ours_bps / self.shown_bps - 1.0
    }
}

/// Simulates both loads.
///
/// # Errors
/// What the system refuses.
pub fn calibrate() -> Result<Vec<Compared>, PlanError> {
    let mut all = Vec::new();
    for (tps, follower, leader) in SHOWN {
        let world = World::shipped().without_loss();
        let plan = Plan {
            nodes: 10,
            tps,
            stakes: Stakes::Equal,
            world,
            seeds: 1,
            sets: u16::MAX,
            leader: Some(0),
            ..Plan::default()
        };
        let report = plan.run()?;
        let seed = &report.seeds[0];
        let [ours_bps, _] = seed.follower_in_bps;
        all.push(Compared { of: "a follower receives", tps, shown_bps: follower, ours_bps, modelled_bps: 0.0 });
        let modelled_bps = traffic::leader_other(tps);
        let ours_bps = seed.leader_out_bps + modelled_bps;
        all.push(Compared { of: "the leader sends", tps, shown_bps: leader, ours_bps, modelled_bps });
    }
    Ok(all)
}
