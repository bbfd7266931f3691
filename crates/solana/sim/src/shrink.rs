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
    let mut fails = |plan: &Plan| {
        let violation = run(plan, None).violation;
        let is_same = violation.is_some_and(|(violation, _)| violation.invariant == invariant);
        if is_same {
            tell(plan);
        }
        is_same
    };
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
