//! Which core a node of a cluster on this machine has, and which of its tiles have threads of their own.
//!
//! reads   the cores and the number of nodes
//! writes  keys of `[layout]`
//! memory  none
//!
//! The node that begins the chain has no place here: it is on all cores, as `auto` has it.

use hearth_pipeline::topology::on_one_core;

/// Kinds of tiles of a follower that float where there are cores to spare: what executing blocks takes is most of a
/// follower's work, and while it is under way net and shred are not to wait for it, or shreds are lost.
const FLOATING: [&str; 2] = ["replay", "exec"];

/// The keys of a node's `[layout]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `layout.affinity`
    pub affinity: String,
    /// `layout.exec_tile_count`
    pub exec_tiles: usize,
}

impl Layout {
    /// Of one that makes blocks in turn with others: a thread for all of its tiles. `number` counts nodes from 0.
    pub fn of_validator(number: usize, cores: &[usize]) -> Self {
        Self { affinity: on_one_core(turn(number, cores), false, 1, &[]), exec_tiles: 1 }
    }

    /// Of a follower, one of `nodes` nodes: a thread for all of its tiles where there is no core to spare; else
    /// replay and exec have threads that float, so that the kernel may run them on any core.
    pub fn of_follower(number: usize, nodes: usize, cores: &[usize]) -> Self {
        let (floating, exec_tiles): (&[&str], usize) = match floating_execs(cores.len(), nodes) {
            0 => (&[], 1),
            execs => (&FLOATING, execs),
        };
        Self { affinity: on_one_core(turn(number, cores), true, exec_tiles, floating), exec_tiles }
    }
}

/// How many exec tiles of a follower float, and its replay with them: none where there is at most a core for each node,
/// two where there are three, for these and replay.
fn floating_execs(cores: usize, nodes: usize) -> usize {
    match cores {
        few if few <= nodes => 0,
        some if some < 3 * nodes => 1,
        _ => 2,
    }
}

/// The core of a node: nodes have one after the other.
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
