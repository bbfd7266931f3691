//! Finds builds that another build beats beyond the noise.
//!
//! reads   the intervals of [`PairedAnalysis`], which hold simultaneously for all builds and goals
//! writes  for each build whether it is beaten
//! memory  two numbers per build and goal
//! source  Pareto dominance of boxes: a box is beaten if another is at least as good in every goal and better in one,
//!         wherever in the boxes the true values lie
//!
//! The intervals hold simultaneously, so in 95 of 100 studies no build is beaten by an equal one.

use hearth_stats::objective::{Goal, front};
use hearth_stats::paired_bootstrap::PairedAnalysis;

/// Returns for each build whether another is better beyond both intervals, and by more than what matters. A build with
/// unknown intervals is not beaten and beats none; equal sizes count as no worse.
pub fn beaten(paired: &PairedAnalysis, goals: &[Goal], reference: Option<usize>) -> Vec<bool> {
    let boxes: Vec<Option<Vec<(f64, f64)>>> =
        (0..paired.estimates.len()).map(|build| span(paired, goals, reference, build)).collect();
    // It suffices to test builds whose worst corner is on the front of these: whatever any other build beats, one of
    // them beats too.
    let corner = |one: &Option<Vec<(f64, f64)>>| match one {
        Some(all) => all.iter().map(|(low, _)| *low).collect(),
        None => vec![f64::NAN; goals.len()],
    };
    let on = front(&boxes.iter().flat_map(corner).collect::<Vec<_>>(), goals.len());
    let best: Vec<&Vec<(f64, f64)>> =
        boxes.iter().zip(on).filter(|(_, on)| *on).filter_map(|(b, _)| b.as_ref()).collect();
    let margins: Vec<f64> = goals.iter().zip(&paired.scales).map(|(goal, scale)| scale.of_part(goal.matters)).collect();
    let beats = |one: &[(f64, f64)], other: &[(f64, f64)]| {
        let pairs = || one.iter().zip(other);
        pairs().all(|((low, _), (_, high))| low >= high)
            && pairs().zip(&margins).any(|(((low, _), (_, high)), margin)| low - high > *margin)
    };
    let is_beaten =
        |one: &Option<Vec<(f64, f64)>>| one.as_ref().is_some_and(|one| best.iter().any(|by| beats(by, one)));
    boxes.iter().map(is_beaten).collect()
}

/// The range of gains that a build may have in each goal, worst to best; for the reference, its exact value.
fn span(paired: &PairedAnalysis, goals: &[Goal], reference: Option<usize>, build: usize) -> Option<Vec<(f64, f64)>> {
    let of = |at: usize| {
        let (one, scale) = (&paired.estimates[build][at], paired.scales[at]);
        let exact = (Some(build) == reference && one.value.is_finite()).then_some((one.value, one.value));
        let (low, high) = one.interval.or(exact)?;
        let (low, high) = (goals[at].gain(scale.on(low)), goals[at].gain(scale.on(high)));
        Some((low.min(high), low.max(high)))
    };
    (0..goals.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use hearth_stats::paired_bootstrap::{Settings, paired};
    use hearth_stats::table::Table;

    use super::*;

    #[test]
    fn a_build_is_beaten_only_beyond_both_intervals_and_by_what_matters() {
        let mut text = "build,metric,value,repetition\n".to_owned();
        for round in 0..10 {
            let noise = f64::from(round * 7 % 5);
            for (build, speed, size) in
                [("plain", 1000.0, 9.0), ("near", 1001.0, 9.0), ("fast", 1100.0, 9.0), ("small", 900.0, 5.0)]
            {
                let own = noise * f64::from((round + speed as i32) % 3);
                text.push_str(&format!("{build},speed,{},{round}\n{build},size,{size},{round}\n", speed + own));
            }
        }
        let table = Table::read(text.as_bytes()).expect("fine");
        let of = |reference: Option<usize>, matters: f64| {
            let goals = [Goal { matters, ..Goal::new(0, true) }, Goal::new(1, false)];
            beaten(&paired(&table, &goals, reference, &Settings::default()), &goals, reference)
        };
        // The first three have the same size, so speed decides; the last is the smallest.
        assert_eq!(of(Some(0), 0.0), [true, true, false, false]);
        assert_eq!(of(None, 0.0), [true, true, false, false]);
        assert_eq!(of(Some(0), 0.5), [false; 4], "half of it matters, and no less");
    }
}
