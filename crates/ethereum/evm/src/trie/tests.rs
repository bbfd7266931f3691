//! Tries against `alloy_trie`'s hash builder, over random histories of keys that share long prefixes.

use std::collections::BTreeSet;

use alloy_trie::proof::verify_proof;
use alloy_trie::{HashBuilder, Nibbles};
use proptest::prelude::*;

use super::*;

impl Leaf for Key {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

#[derive(Clone)]
struct Model(BTreeMap<Key, Vec<u8>>);

impl Source<Key> for Model {
    fn key(&self, leaf: &Key) -> Key {
        *leaf
    }

    fn value(&self, leaf: &Key, _: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[leaf]);
    }
}

impl Model {
    fn root(&self) -> B256 {
        let mut builder = HashBuilder::default();
        for (key, value) in &self.0 {
            builder.add_leaf(Nibbles::unpack(key), value);
        }
        builder.root()
    }
}

/// Keys that differ in few nibbles, at any depth: extensions, short nodes, deep branches.
fn key() -> impl Strategy<Value = Key> {
    (prop::collection::vec((0usize..64, 1u8..4), 0..4), any::<bool>()).prop_map(|(digits, far)| {
        let mut key = if far { [0x77; 32] } else { [0; 32] };
        for (at, digit) in digits {
            key[at / 2] |= if at % 2 == 0 { digit << 4 } else { digit };
        }
        key
    })
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        2 => Just(None),
        3 => prop::collection::vec(1u8..=255, 1..3).prop_map(Some),
        1 => prop::collection::vec(any::<u8>(), 30..120).prop_map(Some),
    ]
}

fn root_below(root: Option<&Child<Key>>) -> B256 {
    root.map_or(EMPTY_ROOT_HASH, |root| root.reference().root())
}

/// Returns what the step replaced, and the numbers that are no longer needed.
fn step(
    arena: &mut Arena<Key>,
    root: &mut Option<Child<Key>>,
    model: &Model,
    changes: &[Change<Key>],
    threads: usize,
) -> (Undo<Key>, Vec<u32>) {
    let before = reachable(arena, root.as_ref());
    let Overlay { root: after, nodes, mut patches, retired } = update(arena, *root, changes, model, threads);
    let ids: Vec<u32> = nodes.iter().flat_map(|nodes| nodes.ids()).copied().collect();
    let new: BTreeSet<u32> = ids.iter().copied().collect();
    assert_eq!(new.len(), ids.len());
    nodes.into_iter().for_each(|nodes| arena.put(nodes));
    let places: BTreeSet<(u32, u8)> = patches.iter().map(|patch| (patch.id, patch.index)).collect();
    assert_eq!(places.len(), patches.len(), "each place is replaced once");
    arena.patch(&mut patches);
    *root = after;
    let after = reachable(arena, root.as_ref());
    let gone: BTreeSet<u32> = retired.iter().copied().collect();
    assert_eq!(gone.len(), retired.len(), "nothing is retired twice");
    assert_eq!(gone, before.difference(&after).copied().collect(), "what is retired is what is left behind");
    assert_eq!(new, after.difference(&before).copied().collect(), "what is new is all used");
    assert!(places.iter().all(|(id, _)| before.contains(id) && after.contains(id)), "who changes stays");
    (Undo::new(patches), retired)
}

fn reachable(arena: &Arena<Key>, root: Option<&Child<Key>>) -> BTreeSet<u32> {
    let mut ids = Vec::new();
    subtree(arena, root, &mut ids);
    let unique: BTreeSet<u32> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len());
    unique
}

fn changes_of(block: &BTreeMap<Key, Option<Vec<u8>>>) -> Vec<Change<Key>> {
    block.iter().map(|(key, value)| Change { key: *key, leaf: *key, live: value.is_some(), at: 0 }).collect()
}

fn put(model: &mut Model, block: &BTreeMap<Key, Option<Vec<u8>>>) {
    for (key, value) in block {
        match value {
            Some(value) => model.0.insert(*key, value.clone()),
            None => model.0.remove(key),
        };
    }
}

/// A version's nodes, and the values of its leaves.
struct VersionBase<'a> {
    view: View<'a, Key>,
    model: &'a Model,
}

impl Base<Key> for VersionBase<'_> {
    type Error = std::convert::Infallible;

    fn node(&self, id: u32) -> Result<StoredNode<Key>, Self::Error> {
        Ok(StoredNode::of(&self.view, id))
    }

    fn leaf(&self, leaf: &Key) -> Result<(Key, Vec<u8>), Self::Error> {
        Ok((*leaf, self.model.0[leaf].clone()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn roots_and_proofs_are_those_of_the_hash_builder(
        blocks in prop::collection::vec(prop::collection::btree_map(key(), value(), 0..12), 1..12),
        strangers in prop::collection::vec(key(), 4),
    ) {
        let (mut arena, mut root, mut model) = (Arena::new(), None, Model(BTreeMap::new()));
        let (mut undos, mut retired, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        for block in &blocks {
            put(&mut model, block);
            let (undo, gone) = step(&mut arena, &mut root, &model, &changes_of(block), 1);
            undos.push(undo);
            retired.extend(gone);
            prop_assert_eq!(root_below(root.as_ref()), model.root());
            prop_assert_eq!(root_of(&model.0), model.root());
            versions.push((root, model.clone()));
        }
        let mut leaves = Vec::new();
        for_each_leaf(&arena, root.as_ref(), &mut |leaf| leaves.push(*leaf));
        prop_assert_eq!(&leaves, &model.0.keys().copied().collect::<Vec<_>>());
        // Each version as it was.
        for (at, (root, model)) in versions.iter().enumerate() {
            let view = View::before(&arena, undos[at + 1..].iter());
            for key in model.0.keys().chain(&leaves).chain(&strangers) {
                let value = model.0.get(key).cloned();
                let found = find(&view, root.as_ref(), key, |leaf| leaf == key);
                prop_assert_eq!(found.is_some(), value.is_some());
                let proof = prove(&view, root.as_ref(), key, model);
                verify_proof(model.root(), Nibbles::unpack(key), value, &proof).expect("the proof holds");
            }
        }
        // Each version with the blocks applied to it once more, of which nothing is put into the arena.
        for (at, (root, model)) in versions.iter().enumerate() {
            let base = VersionBase { view: View::before(&arena, undos[at + 1..].iter()), model };
            let (mut sparse, mut after) = (SparseTrie::new(*root), model.clone());
            prop_assert_eq!(sparse.root(), model.root());
            for block in &blocks {
                put(&mut after, block);
                for (key, value) in block {
                    sparse.set(*key, value.clone(), &base).expect("in memory");
                }
                prop_assert_eq!(sparse.root(), after.root());
            }
        }
        // Emptied, nothing is left in the arena.
        arena.free(&retired);
        let all: BTreeMap<Key, Option<Vec<u8>>> = model.0.keys().map(|key| (*key, None)).collect();
        put(&mut model, &all);
        let (_, retired) = step(&mut arena, &mut root, &model, &changes_of(&all), 1);
        arena.free(&retired);
        prop_assert_eq!(root_below(root.as_ref()), EMPTY_ROOT_HASH);
        prop_assert_eq!(arena.size(), 0);
    }
}

#[test]
fn many_changes_on_threads_come_to_the_same_root() {
    let hashed = |number: u32| hearth_crypto::keccak::keccak256(&number.to_be_bytes());
    let (mut arena, mut root, mut model) = (Arena::new(), None, Model(BTreeMap::new()));
    // All at once and beyond a batch; some changed; most gone; all gone but one.
    let rounds: [(std::ops::Range<u32>, bool); 5] = [
        (0..40_000, true),
        (10_000..14_000, true),
        (0..35_000, false),
        (35_001..40_000, false),
        (35_000..35_001, true),
    ];
    for (round, (numbers, live)) in rounds.into_iter().enumerate() {
        let value = |number: u32| live.then(|| [&number.to_be_bytes()[..], &[round as u8; 40]].concat());
        let block: BTreeMap<_, _> = numbers.map(|number| (hashed(number), value(number))).collect();
        put(&mut model, &block);
        let threads = 1 + round % 3;
        let (_, retired) = step(&mut arena, &mut root, &model, &changes_of(&block), threads);
        arena.free(&retired);
        assert_eq!(root_below(root.as_ref()), model.root(), "round {round}");
    }
}

#[test]
fn many_tries_at_once_are_each_as_alone() {
    let hashed = |number: u32| hearth_crypto::keccak::keccak256(&number.to_be_bytes());
    let arena = Arena::new();
    let models: Vec<Model> = (0..50u32)
        .map(|trie| Model((0..trie).map(|leaf| (hashed(trie * 100 + leaf), vec![leaf as u8 + 1])).collect()))
        .collect();
    let changes: Vec<Vec<Change<Key>>> = models
        .iter()
        .map(|model| model.0.keys().map(|key| Change { key: *key, leaf: *key, live: true, at: 0 }).collect())
        .collect();
    struct Of<'a>(&'a Model);
    impl Source<Key> for Of<'_> {
        fn key(&self, leaf: &Key) -> Key {
            self.0.key(leaf)
        }
        fn value(&self, leaf: &Key, at: u32, out: &mut Vec<u8>) {
            self.0.value(leaf, at, out);
        }
    }
    let tries: Vec<_> = models.iter().zip(&changes).map(|(model, some)| (None, some.as_slice(), Of(model))).collect();
    let (roots, _) = update_many(&arena, &tries);
    for (root, model) in roots.iter().zip(&models) {
        assert_eq!(root_below(root.as_ref()), model.root());
    }
}
