//! Our node votes beside Agave: its votes land, and earn what Agave's do.
//!
//! reads   credits of both vote accounts

use super::agave_node::Agave;
use super::catch_up::caught_up;
use super::cluster::{Cluster, joined};
use super::genesis::{Genesis, STAKE, Staked};
use super::hearth_node::Ours;
use super::load::BY_RPC;
use super::nodes::AGAVE;
use super::{Lab, Outcome};

/// Credits may differ by so much, per mille.
const CREDITS_PER_MILLE: u64 = 10;
/// Credits of two votes, which may land on the other side of a part's begin or end.
const EDGES: u64 = 2 * 16;
/// Slots in which our node finds its place before its credits count.
const SETTLES: u64 = 40;

/// A quarter of the stake is ours, then half, each on a chain of its own.
pub fn vote(lab: &Lab) -> Result<Outcome, String> {
    let parts = [("a quarter", STAKE / 3), ("half", STAKE)];
    Ok(joined(parts.into_iter().map(|(name, stake)| voting(lab, name, stake))))
}

fn voting(lab: &Lab, name: &str, stake: u64) -> Result<Outcome, String> {
    lab.keys()?;
    let folder = name.replace(' ', "-");
    let theirs = lab.folder.join(format!("agave-{folder}"));
    let ledger = lab.folder.join(format!("ours-{folder}"));
    let staked = [Staked::new("agave", STAKE), Staked::new("ours", stake)];
    Genesis { staked: &staked, epoch_slots: lab.epoch_slots(128), has_pending: false }.by_solana(lab, &theirs)?;
    let mut agave = Agave::begins(&theirs).start(lab)?;
    let mut ours = Ours::first(&ledger, Some("ours"), Some(AGAVE)).start(lab)?;
    let reached = caught_up(lab, &mut ours, AGAVE)?;
    agave.reaches(reached + SETTLES, lab.within(SETTLES))?;
    caught_up(lab, &mut ours, AGAVE)?;
    Ok(Cluster::new(ours, agave).through(|cluster| {
        cluster.together(lab, name, lab.part(2), &BY_RPC)?;
        let credits = ["credits_ours", "credits_agave"].map(|of| cluster.last()[of].as_u64().unwrap_or(0));
        if let Some(why) = earned_less(credits[0], credits[1]) {
            cluster.fail(why);
        }
        Ok(())
    }))
}

/// Returns a sentence if our credits are more than 1 % below Agave's, and more than the votes at a part's edges.
fn earned_less(ours: u64, agave: u64) -> Option<String> {
    let is_near = agave.saturating_sub(ours) <= (agave * CREDITS_PER_MILLE / 1_000).max(EDGES);
    (!is_near || ours == 0).then(|| format!("our node earned {ours} credits, Agave's {agave}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_are_a_hundredth_less_at_most() {
        assert_eq!(earned_less(9_900, 10_000), None);
        assert_eq!(earned_less(12_000, 10_000), None);
        assert!(earned_less(9_899, 10_000).is_some());
        assert_eq!(earned_less(968, 1_000), None, "two votes");
        assert!(earned_less(967, 1_000).is_some());
        assert!(earned_less(0, 0).is_some());
    }
}
