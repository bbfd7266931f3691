//! Assigns cores to the nodes of a local cluster, and decides which tiles have their own threads.
//!
//! reads   the cores and the number of nodes
//! writes  keys of `[layout]`
//!
//! The node that starts the chain has no entry here: it uses all cores, as `auto` places it.

use hearth_pipeline::topology::on_one_core;

/// Tile kinds of a follower that float if there are spare cores: replaying blocks is most of a follower's work, and net
/// and shred must not wait for it, or shreds are lost.
const FLOATING: [&str; 2] = ["replay", "exec"];

/// The keys of a node's `[layout]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Value of `layout.affinity`: the core of each tile, in the configuration's notation.
    pub affinity: String,
    /// Value of `layout.exec_tile_count`, at least 1.
    pub exec_tiles: usize,
}

impl Layout {
    /// The layout of a node that takes turns at leading: one thread for all its tiles. `number` counts nodes from 0.
    pub fn of_validator(number: usize, cores: &[usize]) -> Self {
        Self { affinity: on_one_core(turn(number, cores), false, 1, &[]), exec_tiles: 1 }
    }

    /// The layout of a follower, one of `nodes` nodes: one thread for all its tiles if there is no spare core;
    /// otherwise replay and exec have floating threads, which the kernel may run on any core.
    pub fn of_follower(number: usize, nodes: usize, cores: &[usize]) -> Self {
        let (floating, exec_tiles): (&[&str], usize) = match floating_execs(cores.len(), nodes) {
            0 => (&[], 1),
            execs => (&FLOATING, execs),
        };
        Self { affinity: on_one_core(turn(number, cores), true, exec_tiles, floating), exec_tiles }
    }
}

/// Number of floating exec tiles of a follower, besides its replay: none with at most one core per node, two with three
/// cores per node, for these and replay.
fn floating_execs(cores: usize, nodes: usize) -> usize {
    match cores {
        few if few <= nodes => 0,
        some if some < 3 * nodes => 1,
        _ => 2,
    }
}

/// The core of a node: nodes take cores in turn.
fn turn(number: usize, cores: &[usize]) -> usize {
    cores[number % cores.len().max(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_of_ten_nodes_have_spare_cores_where_there_are_any() {
        for (cores, affinity, exec_tiles) in [
            (2, "1*12", 1),
            (4, "3*12", 1),
            (10, "7*12", 1),
            (11, "7*5,f2,7*5", 1),
            (16, "7*5,f2,7*5", 1),
            (29, "7*5,f2,7*5", 1),
            (30, "7*5,f3,7*5", 2),
            (64, "7*5,f3,7*5", 2),
        ] {
            let all: Vec<usize> = (0..cores).collect();
            let expected = Layout { affinity: affinity.into(), exec_tiles };
            assert_eq!(Layout::of_follower(7, 10, &all), expected, "on {cores} cores");
            let validator = Layout { affinity: format!("{}*18", 7 % cores), exec_tiles: 1 };
            assert_eq!(Layout::of_validator(7, &all), validator, "on {cores} cores");
        }
    }

    #[test]
    fn cores_are_those_that_the_process_may_use() {
        assert_eq!(Layout::of_follower(3, 4, &[2, 5]).affinity, "5*12");
        assert_eq!(Layout::of_follower(1, 2, &[2, 5, 6]).affinity, "5*5,f2,5*5");
    }
}
