//! Changes of whole tries, spread over threads and cut into batches of bounded size.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::arena::{Arena, Child, Node, Ref};
use super::batch::{At, Batch};
use super::{Change, Leaf, Source, nibble, rlp};

/// From how many changes on a trie is changed in sixteen parts, on several threads: below, starting them costs more.
const PARALLEL_MIN: usize = 1_024;
/// A batch's greatest size, which bounds what it takes beside the nodes.
const BATCH_MAX: usize = if cfg!(test) { 2_048 } else { 32_768 };

/// What changes come to: new nodes beside those of the arena, and what is not needed any more.
pub(crate) struct Overlay<L> {
    /// The topmost node.
    pub(crate) root: Option<Child<L>>,
    /// New nodes with their numbers.
    pub(crate) nodes: Vec<(u32, Node<L>)>,
    /// Numbers of nodes that the new root does not lead to, while the old one did.
    pub(crate) retired: Vec<u32>,
}

/// The trie below `root` with `changes`, which are sorted by key, each key once.
pub(crate) fn update<L: Leaf, S: Source<L>>(
    arena: &Arena<L>,
    root: Option<Child<L>>,
    changes: &[Change<L>],
    source: &S,
    threads: usize,
) -> Overlay<L> {
    update_at(arena, root, 0, changes, source, threads)
}

/// Many small tries at once, each with its changes and its source; their roots in the same order.
pub(crate) fn update_many<L: Leaf, S: Source<L>>(
    arena: &Arena<L>,
    tries: &[(Option<Child<L>>, &[Change<L>], S)],
) -> (Vec<Option<Child<L>>>, Overlay<L>) {
    let mut batch = Batch::new(arena);
    let changed = |(root, changes, source): &(Option<Child<L>>, &[Change<L>], S)| {
        batch.apply(At::from(*root), 0, changes, source)
    };
    let places: Vec<At<L>> = tries.iter().map(changed).collect();
    let done = batch.finish(&places, 0);
    (done.roots, Overlay { root: None, nodes: done.nodes, retired: done.retired })
}

fn update_at<L: Leaf, S: Source<L>>(
    arena: &Arena<L>,
    root: Option<Child<L>>,
    depth: usize,
    changes: &[Change<L>],
    source: &S,
    threads: usize,
) -> Overlay<L> {
    // Parts even for one thread: what a part touches lies in the nearer caches while it is worked on.
    let most = if depth == 0 { PARALLEL_MIN } else { BATCH_MAX };
    let open = match root {
        None => true,
        Some(Child::Node { id, .. }) => arena.get(id).prefix().is_empty(),
        Some(Child::Leaf(..)) => false,
    };
    if changes.len() >= most && open && depth < 60 {
        let mut parts = in_parts(arena, root, depth, changes, source, threads);
        if parts.iter().filter(|part| part.root.is_some()).count() >= 2 {
            return join(arena, root, parts);
        }
        // What is left is no branch: rare, and the other way knows how to close it.
        arena.give_back(parts.iter_mut().flat_map(|part| part.nodes.drain(..)).map(|(id, _)| id));
    }
    let mut batch = Batch::new(arena);
    batch.meet(root, depth, changes, source);
    let place = batch.apply(At::from(root), depth, changes, source);
    let done = batch.finish(&[place], depth);
    Overlay { root: done.roots[0], nodes: done.nodes, retired: done.retired }
}

/// The sixteen parts of a branch, each with its changes.
fn in_parts<L: Leaf, S: Source<L>>(
    arena: &Arena<L>,
    root: Option<Child<L>>,
    depth: usize,
    changes: &[Change<L>],
    source: &S,
    threads: usize,
) -> Vec<Overlay<L>> {
    let child = |digit: u8| match root {
        Some(Child::Node { mask, id, .. }) => arena.get(id).child(mask, digit).copied(),
        _ => None,
    };
    let part = |digit: u8| {
        let from = changes.partition_point(|change| nibble(&change.key, depth) < digit);
        let to = changes.partition_point(|change| nibble(&change.key, depth) <= digit);
        match &changes[from..to] {
            [] => Overlay { root: child(digit), nodes: Vec::new(), retired: Vec::new() },
            some => update_at(arena, child(digit), depth + 1, some, source, 1),
        }
    };
    if threads <= 1 {
        return (0..16).map(part).collect();
    }
    let done: [Mutex<Option<Overlay<L>>>; 16] = std::array::from_fn(|_| Mutex::new(None));
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let digit = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = done.get(digit) else { break };
            *place.lock().expect("nobody panicked") = Some(part(digit as u8));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    done.map(|place| place.into_inner().expect("nobody panicked").expect("every part was done")).into()
}

/// The branch over sixteen parts, at least two of which are not empty.
fn join<L: Leaf>(arena: &Arena<L>, root: Option<Child<L>>, parts: Vec<Overlay<L>>) -> Overlay<L> {
    let mask = parts.iter().zip(0..).fold(0, |mask, (part, at)| mask | (u16::from(part.root.is_some()) << at));
    let children: Box<[Child<L>]> = parts.iter().filter_map(|part| part.root).collect();
    let mut encoded = Vec::new();
    rlp::branch(mask, &children, &mut encoded);
    let id = arena.take_ids(1)[0];
    let (mut nodes, mut retired) = (vec![(id, Node::new(children, &[]))], Vec::new());
    if let Some(Child::Node { id, .. }) = root {
        retired.push(id);
    }
    for part in parts {
        nodes.extend(part.nodes);
        retired.extend(part.retired);
    }
    Overlay { root: Some(Child::Node { reference: Ref::of(&encoded), mask, id }), nodes, retired }
}
