//! What was repaired between the two kinds of nodes, by the kind of request: each must be served and used.
//!
//! reads   metrics of our node, the log of Agave's
//! memory  two numbers for each kind

use serde_json::{Value, json};

use super::nodes::{METRICS_PORT, OURS, Process};
use crate::rpc;

/// A kind of request, and the counters of what our node took and of what it served. Those of a single shred are all
/// but the others.
struct Kind {
    name: &'static str,
    used: &'static str,
    served: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { name: "shred", used: "hearth_shred_shreds_repaired_total", served: "hearth_rserve_served_total" },
    Kind {
        name: "highest",
        used: "hearth_shred_shreds_repaired_highest_total",
        served: "hearth_rserve_served_highest_total",
    },
    Kind {
        name: "orphan",
        used: "hearth_shred_shreds_repaired_orphan_total",
        served: "hearth_rserve_served_orphan_total",
    },
    Kind {
        name: "ancestor_hashes",
        used: "hearth_repair_ancestor_answers_total",
        served: "hearth_rserve_served_ancestors_total",
    },
];
/// The kinds that faults without two blocks of a slot bring about, the first ones of [`KINDS`]: hashes of ancestors are
/// asked for once a block has more votes than the one that is here.
const ALWAYS: usize = 3;
/// The words before the number of a block's repaired shreds in Agave's log.
const REPAIRED: &str = " num_repaired=";

/// The counts of our node so far, over all of its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    used: [u64; KINDS.len()],
    served: [u64; KINDS.len()],
}

impl Repairs {
    /// Adds what our node's process has counted: once for each process, when it is about to end.
    pub fn add(&mut self) -> Result<(), String> {
        self.add_page(&rpc::get(OURS.0, METRICS_PORT, "/metrics")?);
        Ok(())
    }

    fn add_page(&mut self, page: &str) {
        add_kinds(&mut self.used, KINDS.map(|kind| sum(page, kind.used)));
        add_kinds(&mut self.served, KINDS.map(|kind| sum(page, kind.served)));
    }

    /// The figures of a row.
    pub fn figures(&self, agave: &Process) -> Value {
        let by_kind = |counts: &[u64; KINDS.len()]| {
            KINDS.iter().zip(counts).map(|(kind, count)| (kind.name.to_owned(), json!(count))).collect::<Value>()
        };
        json!({
            "used_of_agave": by_kind(&self.used), "served_to_agave": by_kind(&self.served),
            "repaired_at_agave": repaired(&agave.log_since(0)),
        })
    }

    /// Returns the faults in these figures: a kind of request that was not served, or brought nothing.
    pub fn wrong(&self, figures: &Value) -> Vec<String> {
        let mut wrong = vec![];
        for (at, kind) in KINDS.iter().enumerate().take(ALWAYS) {
            for (count, what) in [(self.used[at], "our node used none of Agave"), (self.served[at], "it served none")] {
                if count == 0 {
                    wrong.push(format!("repair by `{}`: {what}", kind.name));
                }
            }
        }
        if figures["repaired_at_agave"] == 0 {
            wrong.push("Agave has repaired no shred".into());
        }
        wrong
    }
}

/// Adds the counts of a process. A single shred's is the total without the next two.
fn add_kinds(to: &mut [u64; KINDS.len()], mut counts: [u64; KINDS.len()]) {
    counts[0] = counts[0].saturating_sub(counts[1] + counts[2]);
    to.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// The sum of a counter over all tiles.
pub fn sum(page: &str, name: &str) -> u64 {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_whole_name = rest.starts_with(['{', ' ']);
        rest.rsplit(' ').next().filter(|_| is_whole_name)?.parse::<u64>().ok()
    });
    values.sum()
}

/// The repaired shreds of all blocks in a log of Agave.
fn repaired(log: &str) -> u64 {
    let numbers = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once(REPAIRED)?;
        rest.split('i').next()?.parse::<u64>().ok()
    });
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_over_all_processes() {
        let page = "# TYPE hearth_shred_shreds_repaired_total counter\n\
                    hearth_shred_shreds_repaired_total{tile=\"shred:0\"} 9\n\
                    hearth_shred_shreds_repaired_highest_total{tile=\"shred:0\"} 2\n\
                    hearth_shred_shreds_repaired_orphan_total{tile=\"shred:0\"} 3\n\
                    hearth_rserve_served_total 5\n";
        let mut repairs = Repairs::default();
        repairs.add_page(page);
        repairs.add_page(page);
        assert_eq!(repairs, Repairs { used: [8, 4, 6, 0], served: [10, 0, 0, 0] });
    }

    #[test]
    fn repaired_shreds_are_in_agaves_log() {
        let log = "datapoint: shred_insert_is_full slot=7i last_index=31i num_repaired=4i num_recovered=0i\n\
                   datapoint: shred_insert_is_full slot=8i last_index=31i num_repaired=0i num_recovered=1i\nother\n";
        assert_eq!(repaired(log), 4);
    }
}
