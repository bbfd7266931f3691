//! A smaller plan that breaks the same invariant.
//!
//! reads   a plan that fails
//! writes  one with fewer faults and nodes
//! memory  one run at a time

use crate::check::Invariant;
use crate::plan::Plan;
use crate::world::run;

/// Nodes at least: with fewer, the votes of one are more than a third.
const NODES_LEAST: usize = 4;

/// Takes away faults, then nodes, while the same invariant breaks; `tell` gets each plan that still fails.
pub fn shrink(plan: Plan, invariant: Invariant, mut tell: impl FnMut(&Plan)) -> Plan {
    smallest(plan, |plan| {
        let violation = run(plan, None).violation;
        let is_same = violation.is_some_and(|(violation, _)| violation.invariant == invariant);
        if is_same {
            tell(plan);
        }
        is_same
    })
}

/// Takes away faults, then nodes, while the plan still fails.
fn smallest(plan: Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut least = plan;
    let mut at = 0;
    while at < least.faults.len() {
        let mut less = least.clone();
        less.faults.remove(at);
        if fails(&less) { least = less } else { at += 1 }
    }
    while least.nodes > NODES_LEAST {
        let less = least.clone().with_nodes(least.nodes - 1);
        if !fails(&less) {
            break;
        }
        least = less;
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_failure_needs_is_left() {
        let plan = Plan::of(7).with_nodes(7);
        assert!(plan.faults.len() > 2, "{plan:?}");
        let needed = [plan.faults[0].kind, plan.faults[2].kind];
        let mut tried = 0;
        let least = smallest(plan.clone(), |plan| {
            tried += 1;
            plan.nodes >= 6 && needed.iter().all(|kind| plan.fault(*kind).is_some())
        });
        assert_eq!((least.nodes, least.faults), (6, vec![plan.faults[0], plan.faults[2]]));
        // Each fault once; 6 nodes, and 5.
        assert_eq!(tried, plan.faults.len() + 2);
        // A failure that needs nothing: the least is a cluster of four without faults.
        let least = smallest(plan, |_| true);
        assert_eq!((least.nodes, least.faults.len()), (NODES_LEAST, 0));
    }
}
