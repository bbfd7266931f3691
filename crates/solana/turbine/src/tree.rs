//! The tree over an order of nodes: positions of children and parents.
//!
//! reads   a position in the order, the fanout
//! writes  positions of its children, its parent, its distance from the root
//! source  `solana-turbine` 4.2.2, `cluster_nodes.rs`
//!
//! Position 0 is the root, and the next `fanout` are its children. The k-th of these has the k-th node of each later
//! group of `fanout` as its children, and so on: a node has at most `fanout` children.

/// Maximum number of children.
pub const FANOUT: usize = 200;

/// The start of a position's group, and its index within the group.
fn group(position: usize, fanout: usize) -> (usize, usize) {
    let place = position.saturating_sub(1) % fanout;
    (position - place, place)
}

/// The positions of the children, ascending, below `count`.
pub fn children(position: usize, fanout: usize, count: usize) -> impl Iterator<Item = usize> {
    let (anchor, place) = group(position, fanout);
    let step = if position == 0 { 1 } else { fanout };
    let first = anchor * fanout + place + 1;
    (0..fanout).map(move |nth| first + step * nth).take_while(move |child| *child < count)
}

/// The position of the parent; the root has none.
pub fn parent(position: usize, fanout: usize) -> Option<usize> {
    let (_, place) = group(position, fanout);
    let above = position.checked_sub(1)? / fanout;
    let (anchor, _) = group(above, fanout);
    Some(if anchor == 0 { 0 } else { anchor + place })
}

/// Hops from the root.
pub fn distance(position: usize, fanout: usize) -> u32 {
    match position {
        0 => 0,
        _ if position <= fanout => 1,
        _ if position <= (fanout + 1) * fanout => 2,
        _ => 3,
    }
}

/// How many positions at the front of the order have children.
pub(super) fn parents(fanout: usize, count: usize) -> usize {
    // The first child of a later position is a later one.
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match children(middle, fanout, count).next() {
            Some(_) => low = middle + 1,
            None => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(nodes: &[u8], fanout: usize) -> Vec<Vec<u8>> {
        let of = |position: usize| children(position, fanout, nodes.len()).map(|child| nodes[child]).collect();
        (0..nodes.len()).map(of).filter(|children: &Vec<u8>| !children.is_empty()).collect()
    }

    #[test]
    fn children_are_those_of_the_cluster() {
        let nodes = [7, 6, 10, 5, 19, 0, 14, 3, 1, 12, 2, 11, 4, 15, 18, 13, 16, 17, 9, 8];
        let wanted: [&[u8]; 10] =
            [&[6, 10], &[5, 0], &[19, 14], &[3, 12], &[1, 2], &[11, 15], &[4, 18], &[13, 17], &[16, 9], &[8]];
        assert_eq!(all(&nodes, 2), wanted);
        let nodes = [
            19, 14, 15, 28, 29, 4, 5, 9, 16, 7, 26, 23, 2, 31, 3, 17, 20, 25, 0, 13, 30, 18, 35, 21, 22, 6, 8, 11, 27,
            1, 10, 12, 24, 34, 33, 32,
        ];
        let wanted: [&[u8]; 13] = [
            &[14, 15, 28],
            &[29, 9, 26],
            &[4, 16, 23],
            &[5, 7, 2],
            &[31, 20, 13],
            &[3, 25, 30],
            &[17, 0, 18],
            &[35, 6, 27],
            &[21, 8, 1],
            &[22, 11, 10],
            &[12, 33],
            &[24, 32],
            &[34],
        ];
        assert_eq!(all(&nodes, 3), wanted);
    }

    proptest! {
        #[test]
        fn every_node_has_exactly_one_parent(fanout in 1usize..9, count in 1usize..400) {
            // Four layers hold this many; nodes after them receive nothing.
            let count = count.min(1 + fanout * (1 + fanout * (1 + fanout)));
            let mut seen = vec![0; count];
            for position in 0..count {
                for child in children(position, fanout, count) {
                    seen[child] += 1;
                    prop_assert_eq!(parent(child, fanout), Some(position));
                    prop_assert_eq!(distance(child, fanout), distance(position, fanout) + 1);
                }
            }
            prop_assert_eq!((parent(0, fanout), distance(0, fanout), seen[0]), (None, 0, 0));
            prop_assert!(seen[1..].iter().all(|times| *times == 1), "{:?}", seen);
            let last = (0..count).rev().find(|position| children(*position, fanout, count).next().is_some());
            prop_assert_eq!(parents(fanout, count), last.map_or(0, |last| last + 1));
        }
    }
}
