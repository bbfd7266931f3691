//! Simulates the cluster of a public talk, ten nodes under two loads, and compares bandwidths.
//!
//! reads   the bandwidths that the talk's dashboards showed
//! writes  simulated bandwidths beside them, in the same direction
//! memory  see [`super`]
//! source  a leader and a load generator in London, and nine followers, each with a dashboard of its bandwidth

use serde::Serialize;

use super::{Plan, PlanError, Stakes, World, traffic};

/// One load as the talk showed it.
#[derive(Clone, Copy, Debug)]
pub struct ShownLoad {
    /// Transactions per second that the talk's dashboard showed.
    pub tps: f64,
    /// Rate at which each follower sent while it retransmitted shreds, b/s.
    pub follower_sent_bps: f64,
    /// Rate at which the leader sent, b/s.
    pub leader_sent_bps: f64,
    /// Rate at which the load generator sent, b/s, where the talk showed it.
    pub load_sent_bps: Option<f64>,
}

/// The talk's two loads: within a block's limits, and beyond them.
pub const SHOWN: [ShownLoad; 2] = [
    ShownLoad { tps: 81_500.0, follower_sent_bps: 340e6, leader_sent_bps: 724e6, load_sent_bps: None },
    ShownLoad { tps: 1_040_000.0, follower_sent_bps: 4.3e9, leader_sent_bps: 5.12e9, load_sent_bps: Some(2.37e9) },
];

/// One bandwidth of the talk beside the simulated one.
#[derive(Clone, Debug, Serialize)]
pub struct Bandwidth {
    /// Name of the bandwidth.
    pub of: &'static str,
    /// The load, in transactions per second.
    pub tps: f64,
    /// As the talk showed it, b/s.
    pub shown_bps: f64,
    /// As simulated, the modelled part included, b/s.
    pub ours_bps: f64,
    /// The part of `ours_bps` that comes from the fitted model of the leader's other traffic, b/s.
    pub modelled_bps: f64,
}

impl Bandwidth {
    /// Returns ours divided by the talk's, less one.
    pub fn difference(&self) -> f64 {
        self.ours_bps / self.shown_bps - 1.0
    }
}

/// How much one figure grew from the first load to the second.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// Name of the figure.
    pub of: &'static str,
    /// The second load's figure divided by the first one's, as the talk showed them.
    pub shown: f64,
    /// The same of the simulated figures.
    pub ours: f64,
}

/// The bandwidths of the talk's cluster, shown and simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// Bandwidths, the first load's before the second's.
    pub bandwidths: Vec<Bandwidth>,
    /// Ratios of the two loads.
    pub growth: Vec<Growth>,
}

const FOLLOWER: &str = "a follower sends";
const LEADER: &str = "the leader sends";
const LOAD: &str = "the load generator sends";

/// Simulates both loads.
///
/// # Errors
/// The system cannot start a thread.
pub fn calibrate() -> Result<Calibration, PlanError> {
    let mut bandwidths = Vec::new();
    for shown in SHOWN {
        let plan = Plan {
            nodes: 10,
            tps: shown.tps,
            stakes: Stakes::Equal,
            world: World::shipped().without_loss(),
            seeds: 1,
            sets: u16::MAX,
            leader: Some(0),
            ..Plan::default()
        };
        let report = plan.run()?;
        let seed = &report.seeds[0];
        let [follower, _] = seed.follower_out_bps;
        let modelled = traffic::leader_other(shown.tps);
        let row =
            |of, shown_bps, ours_bps, modelled_bps| Bandwidth { of, tps: shown.tps, shown_bps, ours_bps, modelled_bps };
        bandwidths.push(row(FOLLOWER, shown.follower_sent_bps, follower, 0.0));
        bandwidths.push(row(LEADER, shown.leader_sent_bps, seed.leader_out_bps + modelled, modelled));
        if let Some(load_sent_bps) = shown.load_sent_bps {
            bandwidths.push(row(LOAD, load_sent_bps, traffic::load_generator(shown.tps), 0.0));
        }
    }
    let [low, high] = SHOWN.map(|shown| shown.tps);
    let mut growth = vec![Growth { of: "transactions", shown: high / low, ours: high / low }];
    for of in [FOLLOWER, LEADER] {
        let rows: Vec<&Bandwidth> = bandwidths.iter().filter(|row| row.of == of).collect();
        let ratio = |bps: fn(&Bandwidth) -> f64| bps(rows[1]) / bps(rows[0]);
        growth.push(Growth { of, shown: ratio(|row| row.shown_bps), ours: ratio(|row| row.ours_bps) });
    }
    Ok(Calibration { bandwidths, growth })
}
