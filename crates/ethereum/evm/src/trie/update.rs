//! Changes of whole tries, spread over threads and cut into batches of bounded size.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::arena::{Arena, ReservedNodes};
use super::batch::{Batch, PlaceContents};
use super::finish::FinishedBatch;
use super::{Change, Child, Leaf, Nodes, Patch, Ref, Source, nibble, rlp};

/// From how many changes on a trie is changed in sixteen parts, on several threads: below, starting them costs more.
const PARALLEL_MIN: usize = 1_024;
/// Maximum size of a batch, which bounds its memory besides the nodes.
const BATCH_MAX: usize = if cfg!(test) { 2_048 } else { 32_768 };

/// The result of changes: new nodes, patches to nodes of the arena, and numbers that are no longer needed.
pub(crate) struct Overlay<L> {
    /// The topmost node; `None` for an empty trie, and where many tries changed at once.
    pub(crate) root: Option<Child<L>>,
    /// New nodes with their numbers.
    pub(crate) nodes: Vec<Nodes<L>>,
    /// Children in the places of others, each place once.
    pub(crate) patches: Vec<Patch<L>>,
    /// Numbers of nodes that the new root does not lead to, while the old one did.
    pub(crate) retired: Vec<u32>,
}

impl<L> Overlay<L> {
    /// Creates an empty overlay with this root.
    pub(crate) fn of(root: Option<Child<L>>) -> Self {
        Self { root, nodes: Vec::new(), patches: Vec::new(), retired: Vec::new() }
    }

    /// Adds what others have, but for their roots.
    pub(crate) fn add(&mut self, other: Self) {
        self.nodes.extend(other.nodes);
        self.patches.extend(other.patches);
        self.retired.extend(other.retired);
    }
}

fn overlay<L>(root: Option<Child<L>>, done: FinishedBatch<L>) -> Overlay<L> {
    Overlay { root, nodes: vec![done.nodes], patches: done.patches, retired: done.retired }
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
        batch.apply(PlaceContents::from(*root), 0, changes, source)
    };
    let places: Vec<PlaceContents<L>> = tries.iter().map(changed).collect();
    let mut done = batch.finish(&places, 0);
    (std::mem::take(&mut done.roots), overlay(None, done))
}

fn update_at<L: Leaf, S: Source<L>>(
    arena: &Arena<L>,
    root: Option<Child<L>>,
    depth: usize,
    changes: &[Change<L>],
    source: &S,
    threads: usize,
) -> Overlay<L> {
    // Split even for one thread: the nodes of a part stay in the nearer caches.
    let most = if depth == 0 { PARALLEL_MIN } else { BATCH_MAX };
    let open = match root {
        None => true,
        Some(Child::Node { id, .. }) => arena.get(id).prefix.is_empty(),
        Some(Child::Leaf(..)) => false,
    };
    if changes.len() >= most && open && depth < 60 {
        let parts = in_parts(arena, root, depth, changes, source, threads);
        if parts.iter().filter(|part| part.root.is_some()).count() >= 2 {
            return join(arena, root, parts);
        }
        // The rest is no branch: rare, and the general path handles it.
        parts.iter().flat_map(|part| &part.nodes).for_each(|nodes| arena.give_back_ids(nodes.ids()));
    }
    let mut batch = Batch::new(arena);
    batch.reserve(changes.len());
    batch.meet(root, depth, changes, source);
    let place = batch.apply(PlaceContents::from(root), depth, changes, source);
    let done = batch.finish(&[place], depth);
    overlay(done.roots[0], done)
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
            [] => Overlay::of(child(digit)),
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
            *place.lock() = Some(part(digit as u8));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    done.map(|place| place.into_inner().expect("every part was done")).into()
}

/// Joins sixteen parts, at least two of which are not empty, under a branch.
fn join<L: Leaf>(arena: &Arena<L>, root: Option<Child<L>>, parts: Vec<Overlay<L>>) -> Overlay<L> {
    let mask = parts.iter().zip(0..).fold(0, |mask, (part, at)| mask | (u16::from(part.root.is_some()) << at));
    let children: Vec<Child<L>> = parts.iter().filter_map(|part| part.root).collect();
    let mut encoded = Vec::new();
    rlp::branch(&rlp::spread(mask, &children), &mut encoded);
    let mut all = Overlay::of(None);
    parts.into_iter().for_each(|part| all.add(part));
    let id = match root {
        Some(Child::Node { mask: before, id, .. }) if before == mask => {
            let changed = arena.get(id).children.iter().zip(&children).zip(0..).filter(|((old, new), _)| old != new);
            all.patches.extend(changed.map(|((_, new), index)| Patch { id, index, child: *new }));
            id
        }
        _ => {
            let mut taken = ReservedNodes::default();
            let new = arena.take(&mut taken, children.len(), false);
            arena.give_back(taken);
            let mut nodes = Nodes::default();
            nodes.push(new, &children, &[]);
            all.nodes.push(nodes);
            if let Some(Child::Node { id, .. }) = root {
                all.retired.push(id);
            }
            new
        }
    };
    all.root = Some(Child::Node { reference: Ref::of(&encoded), mask, id });
    all
}
