//! The trie of accounts, their storage tries, and the versions of both that are kept.
//!
//! reads   the tables, for the leaves' values
//! writes  nodes of the next version and what it replaces in others: first outside the arenas, then into them in one
//!         short step
//! memory  about 90 B an account and 100 B a slot; of versions before the newest at most 256 MiB of nodes and of what
//!         was replaced in others, 76 B a child; where more versions are kept, as much as they are given, and about
//!         100 B more a child
//! source  what only older versions need is freed after 128 newer ones, or when it takes too much memory; with a longer
//!         history, when the state releases them ([`Tries::release`])

mod pinned;

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::Encodable;
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY, TrieAccount};
use hearth_crypto::keccak::{keccak256, keccak256_burst};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::WINDOW;
use super::code::NO_CODE;
use super::flat_state::{FlatState, SlimAccount, SlotKey, Word};
use super::version_index::VersionIndex;
use crate::trie::{self, Arena, Change, Child, Key, Leaf, Nodes, Overlay, Patch, ReservedNodes, Source, Undo, View};

/// The number that means an account without storage.
const NO_STORAGE: u32 = u32::MAX;
/// The storage that the account had, whatever that was.
const KEEP: u32 = u32::MAX - 1;
/// Bytes that nodes may take which only older versions need.
const RETIRED_MAX: usize = 256 << 20;
/// From how many slots on one account's storage is a matter for several threads.
const LARGE: usize = 1_024;
/// From how many slots on many accounts' storage is a matter for several threads.
const PARALLEL_MIN: usize = 256;

/// An account's leaf: its address, and the number of the node that holds the top of its storage trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccountLeaf {
    address: Address,
    storage: u32,
}

impl Leaf for AccountLeaf {
    fn order(&self, other: &Self) -> Ordering {
        self.address.cmp(&other.address)
    }

    fn replacing(self, old: Option<&Self>) -> Self {
        let storage = if self.storage == KEEP { old.map_or(NO_STORAGE, |old| old.storage) } else { self.storage };
        Self { storage, ..self }
    }
}

/// A slot's leaf: which slot, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLeaf(Word);

impl Leaf for SlotLeaf {
    fn order(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

/// The top of one version's tries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrieTop {
    child: Option<Child<AccountLeaf>>,
    /// Versions installed before it: says whether its nodes are kept.
    sequence: u64,
}

impl TrieTop {
    /// Returns the state root.
    pub(crate) fn root(&self) -> B256 {
        self.child.map_or(EMPTY_ROOT_HASH, |child| child.reference().root())
    }

    /// Versions that were installed before it, and it.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// The next version's nodes, not yet in the arenas.
pub(crate) struct PreparedNodes {
    accounts: Overlay<AccountLeaf>,
    slots: Overlay<SlotLeaf>,
}

impl PreparedNodes {
    /// Returns the state root.
    pub(crate) fn root(&self) -> B256 {
        self.accounts.root.map_or(EMPTY_ROOT_HASH, |child| child.reference().root())
    }
}

/// The proof of an account or a slot.
pub(crate) struct StateProof {
    pub(crate) storage_root: B256,
    pub(crate) account: Vec<Bytes>,
    pub(crate) slots: Vec<Vec<Bytes>>,
}

/// Numbers of nodes that only versions before `sequence` need, and what it replaced in others.
struct RetiredNodes {
    sequence: u64,
    accounts: Vec<u32>,
    slots: Vec<u32>,
    undo: Arc<(Undo<AccountLeaf>, Undo<SlotLeaf>)>,
    size: usize,
}

#[derive(Default)]
struct RetiredQueue {
    retired: VecDeque<RetiredNodes>,
    size: usize,
    /// Number of versions installed.
    sequence: u64,
    /// The oldest version with all its nodes.
    oldest: u64,
    /// With a longer history: which version replaced which child.
    replaced: Option<ReplacedNodes>,
    /// Versions whose nodes are in use, each with how many use it.
    pins: BTreeMap<u64, usize>,
}

/// By a child's node and its place there, the versions that replaced it.
#[derive(Default)]
struct ReplacedNodes {
    accounts: VersionIndex<(u32, u8)>,
    slots: VersionIndex<(u32, u8)>,
}

impl ReplacedNodes {
    fn add(&mut self, sequence: u64, undo: &(Undo<AccountLeaf>, Undo<SlotLeaf>)) {
        undo.0.places().for_each(|place| self.accounts.add(place, sequence));
        undo.1.places().for_each(|place| self.slots.add(place, sequence));
    }

    fn forget(&mut self, sequence: u64, undo: &(Undo<AccountLeaf>, Undo<SlotLeaf>)) {
        undo.0.places().for_each(|place| self.accounts.forget(&place, sequence));
        undo.1.places().for_each(|place| self.slots.forget(&place, sequence));
    }

    fn bytes(&self) -> usize {
        self.accounts.bytes() + self.slots.bytes()
    }
}

impl RetiredQueue {
    /// The children that versions after `sequence` replaced, the next one's first; `None` where nodes are not kept.
    fn since(&self, sequence: u64) -> Option<Vec<Arc<(Undo<AccountLeaf>, Undo<SlotLeaf>)>>> {
        let from = self.retired.partition_point(|retired| retired.sequence <= sequence);
        (sequence >= self.oldest).then(|| self.retired.range(from..).map(|retired| retired.undo.clone()).collect())
    }

    /// Returns what version `by` replaced.
    fn undo(&self, by: u64) -> Option<&(Undo<AccountLeaf>, Undo<SlotLeaf>)> {
        let at = by.checked_sub(self.retired.front()?.sequence)?;
        self.retired.get(usize::try_from(at).ok()?).map(|retired| &*retired.undo)
    }

    /// The child of the accounts' trie that was first replaced after version `sequence`, in this place.
    fn account_child(&self, sequence: u64, id: u32, index: u8) -> Option<Child<AccountLeaf>> {
        let by = self.replaced.as_ref()?.accounts.after(&(id, index), sequence)?;
        self.undo(by)?.0.child(id, index)
    }

    /// The same of the tries of storage.
    fn slot_child(&self, sequence: u64, id: u32, index: u8) -> Option<Child<SlotLeaf>> {
        let by = self.replaced.as_ref()?.slots.after(&(id, index), sequence)?;
        self.undo(by)?.1.child(id, index)
    }

    /// Frees what only versions before `gone` need; it is the oldest.
    fn free(&mut self, gone: &RetiredNodes, arena: &mut Arena<AccountLeaf>, slot_arena: &mut Arena<SlotLeaf>) {
        self.size -= gone.size;
        self.oldest = gone.sequence;
        arena.free(&gone.accounts);
        slot_arena.free(&gone.slots);
        if let Some(replaced) = &mut self.replaced {
            replaced.forget(gone.sequence, &gone.undo);
        }
    }

    /// Returns the bytes that only older versions need.
    fn bytes(&self) -> usize {
        let of_each = size_of::<RetiredNodes>() + size_of::<(Undo<AccountLeaf>, Undo<SlotLeaf>)>();
        self.size + self.retired.len() * of_each + self.replaced.as_ref().map_or(0, ReplacedNodes::bytes)
    }
}

/// All versions' tries. Locks are taken in the order of the fields.
pub(crate) struct Tries {
    accounts: RwLock<Arena<AccountLeaf>>,
    slots: RwLock<Arena<SlotLeaf>>,
    kept: RwLock<RetiredQueue>,
    threads: AtomicUsize,
}

/// An account that changes: itself, or its storage.
struct ChangedAccount<'a> {
    address: Address,
    after: Option<SlimAccount>,
    slots: &'a [(SlotKey, Word)],
}

impl Tries {
    pub(crate) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(4));
        let (accounts, slots) = (RwLock::new(Arena::new()), RwLock::new(Arena::new()));
        Self { accounts, slots, kept: RwLock::default(), threads: AtomicUsize::new(threads) }
    }

    /// How many threads compute a root.
    pub(crate) fn set_threads(&self, threads: usize) {
        self.threads.store(threads.max(1), Relaxed);
    }

    /// Applies sorted changes to the version `from`. `flat` shows the values before the changes.
    pub(crate) fn prepare(
        &self,
        flat: &FlatState,
        from: &TrieTop,
        accounts: &[(Address, Option<SlimAccount>)],
        slots: &[(SlotKey, Word)],
    ) -> PreparedNodes {
        let arena = self.accounts.read();
        let slot_arena = self.slots.read();
        let touched = touched(flat, accounts, slots);
        let keys = hash_all(touched.iter().map(|touched| touched.address.as_slice()));
        let threads = self.threads.load(Relaxed);
        let storage = Storage { flat, arena: &slot_arena, accounts: View::newest(&arena), top: from.child, threads };
        let (storages, slot_overlay) = storage.update(&touched, &keys);
        let change = |at: u32| {
            let (ChangedAccount { address, after, .. }, key) = (&touched[at as usize], keys[at as usize]);
            let leaf = AccountLeaf { address: *address, storage: storages[at as usize].0 };
            Change { key, leaf, live: after.is_some(), at }
        };
        let changes: Vec<Change<AccountLeaf>> = in_order(&keys).map(change).collect();
        let source = AccountSource { flat, touched: &touched, storages: &storages, slots: &slot_arena };
        let overlay = trie::update(&arena, from.child, &changes, &source, threads);
        PreparedNodes { accounts: overlay, slots: slot_overlay }
    }

    /// Puts a version's nodes into the arenas, and frees those that no version kept needs.
    pub(crate) fn install(&self, prepared: PreparedNodes) -> TrieTop {
        let PreparedNodes { accounts, slots } = prepared;
        let mut arena = self.accounts.write();
        let mut slot_arena = self.slots.write();
        let mut kept = self.kept_to_change();
        let undo = (
            advance(&mut arena, accounts.nodes, accounts.patches),
            advance(&mut slot_arena, slots.nodes, slots.patches),
        );
        kept.sequence += 1;
        let sequence = kept.sequence;
        let size = accounts.retired.iter().map(|id| arena.size_of(*id)).sum::<usize>()
            + slots.retired.iter().map(|id| slot_arena.size_of(*id)).sum::<usize>()
            + undo.0.size()
            + undo.1.size();
        kept.size += size;
        if let Some(replaced) = &mut kept.replaced {
            replaced.add(sequence, &undo);
        }
        let (retired, retired_slots) = (accounts.retired, slots.retired);
        kept.retired.push_back(RetiredNodes {
            sequence,
            accounts: retired,
            slots: retired_slots,
            undo: Arc::new(undo),
            size,
        });
        let mut gone = Vec::new();
        while kept.replaced.is_none() && (kept.retired.len() > WINDOW || kept.size > RETIRED_MAX) && kept.may_free() {
            let Some(oldest) = kept.retired.pop_front() else { break };
            kept.free(&oldest, &mut arena, &mut slot_arena);
            gone.push(oldest);
        }
        drop((kept, slot_arena, arena));
        // The old nodes are freed here, where no reader waits.
        drop(gone);
        TrieTop { child: accounts.root, sequence }
    }

    /// Keeps every version from now on until it is released, and indexes replaced children.
    pub(crate) fn keep_all(&self) {
        let mut kept = self.kept_to_change();
        let mut replaced = ReplacedNodes::default();
        kept.retired.iter().for_each(|retired| replaced.add(retired.sequence, &retired.undo));
        kept.replaced = Some(replaced);
    }

    /// Releases the versions before the one with this sequence number.
    pub(crate) fn release(&self, oldest: u64) {
        if self.kept().oldest >= oldest {
            return;
        }
        let mut arena = self.accounts.write();
        let mut slot_arena = self.slots.write();
        let mut kept = self.kept_to_change();
        let mut gone = Vec::new();
        while let Some(retired) = kept.retired.pop_front_if(|retired| retired.sequence <= oldest) {
            kept.free(&retired, &mut arena, &mut slot_arena);
            gone.push(retired);
        }
        drop((kept, slot_arena, arena));
        drop(gone);
    }

    /// Discards prepared nodes: their numbers in the arenas are free again.
    pub(crate) fn discard(&self, prepared: PreparedNodes) {
        let arena = self.accounts.read();
        prepared.accounts.nodes.iter().for_each(|nodes| arena.give_back_ids(nodes.ids()));
        let arena = self.slots.read();
        prepared.slots.nodes.iter().for_each(|nodes| arena.give_back_ids(nodes.ids()));
    }

    /// All slots that an account of the newest version, which is `top`, has written, big-endian.
    pub(crate) fn slots_of(&self, top: &TrieTop, address: &Address) -> Vec<Word> {
        let arena = self.accounts.read();
        let slot_arena = self.slots.read();
        let newest = View::newest(&arena);
        let storage = find_account(&newest, top.child.as_ref(), &keccak256(address.as_slice()), address);
        let mut slots = Vec::new();
        trie::for_each_leaf(&slot_arena, storage_top(&slot_arena, storage), &mut |leaf| slots.push(leaf.0));
        slots
    }

    /// Proves an account and slots of the version `top`, where its nodes are kept; `account` and `slot` give the
    /// values of that version.
    pub(crate) fn prove(
        &self,
        top: &TrieTop,
        flat: &FlatState,
        address: &Address,
        slots: &[Word],
        account: impl Fn(&Address) -> Option<SlimAccount> + Sync,
        slot: impl Fn(&Address, &Word) -> Word + Sync,
    ) -> Option<StateProof> {
        let by_place = self.kept().replaced.is_some();
        if !by_place {
            // Without a lock: this sorts here what would be sorted below, where the writer waits.
            let later = self.kept().since(top.sequence)?;
            for undo in &later {
                undo.0.order();
                undo.1.order();
            }
        }
        let arena = self.accounts.read();
        let slot_arena = self.slots.read();
        let source = ProofSource { flat, account, slot, address, slots: &slot_arena };
        let kept = self.kept();
        if by_place {
            if top.sequence < kept.oldest {
                return None;
            }
            let kept = &*kept;
            let was = |id: u32, index: u8| kept.account_child(top.sequence, id, index);
            let slot_was = |id: u32, index: u8| kept.slot_child(top.sequence, id, index);
            return Some(source.prove(
                top,
                &View::by_place(&arena, &was),
                &View::by_place(&slot_arena, &slot_was),
                slots,
            ));
        }
        let later = kept.since(top.sequence)?;
        drop(kept);
        let view = View::before(&arena, later.iter().map(|undo| &undo.0));
        let slot_view = View::before(&slot_arena, later.iter().map(|undo| &undo.1));
        Some(source.prove(top, &view, &slot_view, slots))
    }

    fn kept(&self) -> RwLockReadGuard<'_, RetiredQueue> {
        self.kept.read()
    }

    fn kept_to_change(&self) -> RwLockWriteGuard<'_, RetiredQueue> {
        self.kept.write()
    }

    /// Returns the bytes of all versions' nodes, and of those that only older versions need.
    pub(crate) fn size(&self) -> (usize, usize) {
        let accounts = self.accounts.read().size();
        let slots = self.slots.read().size();
        (accounts + slots, self.retired_bytes())
    }

    /// Bytes of what only older versions need.
    pub(crate) fn retired_bytes(&self) -> usize {
        self.kept().bytes()
    }
}

/// Installs new nodes in an arena; returns what they replaced.
fn advance<L: Leaf>(arena: &mut Arena<L>, nodes: Vec<Nodes<L>>, mut patches: Vec<Patch<L>>) -> Undo<L> {
    nodes.into_iter().for_each(|nodes| arena.put(nodes));
    arena.patch(&mut patches);
    Undo::new(patches)
}

/// Returns all accounts that change or whose storage does, by address.
fn touched<'a>(
    flat: &FlatState,
    accounts: &[(Address, Option<SlimAccount>)],
    slots: &'a [(SlotKey, Word)],
) -> Vec<ChangedAccount<'a>> {
    let mut all: Vec<ChangedAccount<'a>> = Vec::with_capacity(accounts.len());
    let mut next = accounts.iter().peekable();
    for group in slots.chunk_by(|a, b| a.0.0 == b.0.0) {
        let address = group[0].0.0;
        while let Some((before, after)) = next.next_if(|(before, _)| *before < address) {
            all.push(ChangedAccount { address: *before, after: *after, slots: &[] });
        }
        let after = match next.next_if(|(same, _)| *same == address) {
            Some((_, after)) => *after,
            None => flat.account(&address),
        };
        all.push(ChangedAccount { address, after, slots: group });
    }
    all.extend(next.map(|(address, after)| ChangedAccount { address: *address, after: *after, slots: &[] }));
    all
}

/// The places of keys in the order of the keys.
fn in_order(keys: &[Key]) -> impl Iterator<Item = u32> {
    let first = |key: &Key| u64::from_be_bytes(*key.first_chunk().expect("32 bytes"));
    let mut order: Vec<(u64, u32)> = keys.iter().map(first).zip(0..).collect();
    // Nearly always the first eight bytes say it.
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| keys[a.1 as usize].cmp(&keys[b.1 as usize])));
    order.into_iter().map(|(_, at)| at)
}

fn hash_all<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Vec<Key> {
    let messages: Vec<&[u8]> = messages.collect();
    let mut keys = vec![[0; 32]; messages.len()];
    keccak256_burst(&messages, &mut keys);
    keys
}

/// The number of the node over the storage of an account.
fn find_account(view: &View<'_, AccountLeaf>, top: Option<&Child<AccountLeaf>>, key: &Key, address: &Address) -> u32 {
    trie::find(view, top, key, |leaf| leaf.address == *address).map_or(NO_STORAGE, |leaf| leaf.storage)
}

/// The topmost node of a storage's trie.
fn storage_top(arena: &Arena<SlotLeaf>, storage: u32) -> Option<&Child<SlotLeaf>> {
    (storage != NO_STORAGE).then(|| &arena.get(storage).children[0])
}

/// The update of all storage tries that a block touches.
struct Storage<'a> {
    flat: &'a FlatState,
    arena: &'a Arena<SlotLeaf>,
    accounts: View<'a, AccountLeaf>,
    top: Option<Child<AccountLeaf>>,
    threads: usize,
}

/// One account's storage and its changes.
type Job<'a> = (Option<Child<SlotLeaf>>, &'a [Change<SlotLeaf>], SlotSource<'a>);

/// The value of an account's leaf for its storage, and the root of storage that is new.
type StorageRoot = (u32, Option<B256>);

impl Storage<'_> {
    /// For each account what its leaf says of its storage; the nodes.
    fn update(&self, touched: &[ChangedAccount<'_>], keys: &[Key]) -> (Vec<StorageRoot>, Overlay<SlotLeaf>) {
        let slots = touched.iter().flat_map(|touched| touched.slots);
        let slot_keys = hash_all(slots.map(|((_, slot), _)| slot.as_slice()));
        let mut all: Vec<Change<SlotLeaf>> = Vec::with_capacity(slot_keys.len());
        for touched in touched {
            let keys = &slot_keys[all.len()..all.len() + touched.slots.len()];
            all.extend(in_order(keys).map(|at| {
                let ((_, slot), after) = &touched.slots[at as usize];
                Change { key: keys[at as usize], leaf: SlotLeaf(*slot), live: *after != [0; 32], at }
            }));
        }
        let mut rest = all.as_slice();
        let (mut jobs, mut olds): (Vec<Job<'_>>, Vec<(usize, u32)>) = (Vec::new(), Vec::new());
        for (at, touched) in touched.iter().enumerate().filter(|(_, touched)| !touched.slots.is_empty()) {
            let (changes, after) = rest.split_at(touched.slots.len());
            rest = after;
            let old = find_account(&self.accounts, self.top.as_ref(), &keys[at], &touched.address);
            let source = SlotSource { flat: self.flat, address: touched.address, changed: touched.slots };
            jobs.push((storage_top(self.arena, old).copied(), changes, source));
            olds.push((at, old));
        }
        let (tops, mut overlay) = self.run(&jobs);
        let mut storages = vec![(KEEP, None); touched.len()];
        let (mut taken, mut nodes) = (ReservedNodes::default(), Nodes::default());
        for ((at, old), top) in olds.into_iter().zip(tops) {
            storages[at] = (NO_STORAGE, None);
            if let Some(top) = top {
                let id = self.arena.take(&mut taken, 1, false);
                storages[at] = (id, Some(top.reference().root()));
                nodes.push(id, &[top], &[]);
            }
            overlay.retired.extend((old != NO_STORAGE).then_some(old));
        }
        self.arena.give_back(taken);
        overlay.nodes.push(nodes);
        (storages, overlay)
    }

    /// Returns the jobs' roots in order, and the new nodes of all.
    fn run(&self, jobs: &[Job<'_>]) -> (Vec<Option<Child<SlotLeaf>>>, Overlay<SlotLeaf>) {
        let mut overlay = Overlay::of(None);
        let mut tops = Vec::with_capacity(jobs.len());
        let total: usize = jobs.iter().map(|(_, changes, _)| changes.len()).sum();
        let each = if total < PARALLEL_MIN { usize::MAX } else { total.div_ceil(self.threads) };
        // Neighbouring jobs together, with equally many slots per thread; large ones are parallel by themselves.
        let mut groups: Vec<&[Job<'_>]> = Vec::new();
        let (mut from, mut size) = (0, 0);
        for (at, (_, changes, _)) in jobs.iter().enumerate() {
            let large = changes.len() >= LARGE;
            if from < at && (large || size >= each) {
                groups.push(&jobs[from..at]);
                (from, size) = (at, 0);
            }
            size += if large { each } else { changes.len() };
        }
        groups.push(&jobs[from..]);
        let work = |group: &[Job<'_>]| match group {
            [(top, changes, source)] => {
                let one = trie::update(self.arena, *top, changes, source, self.threads);
                (vec![one.root], one)
            }
            many => trie::update_many(self.arena, many),
        };
        let done = if groups.len() == 1 || self.threads == 1 {
            groups.into_iter().map(work).collect::<Vec<_>>()
        } else {
            std::thread::scope(|scope| {
                let threads: Vec<_> = groups.into_iter().map(|group| scope.spawn(move || work(group))).collect();
                threads.into_iter().map(|thread| thread.join().expect("nobody panicked")).collect()
            })
        };
        for (roots, part) in done {
            tops.extend(roots);
            overlay.add(part);
        }
        (tops, overlay)
    }
}

/// Appends an account as its leaf has it.
pub(super) fn encode_account(flat: &FlatState, slim: &SlimAccount, storage_root: B256, out: &mut Vec<u8>) {
    let code_hash = match slim.code() {
        NO_CODE => KECCAK_EMPTY,
        number => flat.codes.get(number).0,
    };
    TrieAccount::new(slim.nonce(), slim.balance(), storage_root, code_hash).encode(out);
}

/// Appends the value of a slot as its leaf has it.
pub(super) fn encode_slot(value: &Word, out: &mut Vec<u8>) {
    let zeros = value.iter().take_while(|byte| **byte == 0).count();
    value[zeros..].encode(out);
}

struct AccountSource<'a> {
    flat: &'a FlatState,
    touched: &'a [ChangedAccount<'a>],
    storages: &'a [StorageRoot],
    slots: &'a Arena<SlotLeaf>,
}

impl Source<AccountLeaf> for AccountSource<'_> {
    fn key(&self, leaf: &AccountLeaf) -> Key {
        keccak256(leaf.address.as_slice())
    }

    fn keys(&self, leaves: &[AccountLeaf]) -> Vec<Key> {
        hash_all(leaves.iter().map(|leaf| leaf.address.as_slice()))
    }

    fn value(&self, leaf: &AccountLeaf, at: u32, out: &mut Vec<u8>) {
        let (slim, new) = match (self.touched.get(at as usize), self.storages.get(at as usize)) {
            (Some(touched), Some((_, root))) => (touched.after, *root),
            _ => (self.flat.account(&leaf.address), None),
        };
        let slim = slim.expect("a leaf's account is there");
        let root = new.or_else(|| storage_top(self.slots, leaf.storage).map(|top| top.reference().root()));
        encode_account(self.flat, &slim, root.unwrap_or(EMPTY_ROOT_HASH), out);
    }
}

struct SlotSource<'a> {
    flat: &'a FlatState,
    address: Address,
    changed: &'a [(SlotKey, Word)],
}

impl Source<SlotLeaf> for SlotSource<'_> {
    fn key(&self, leaf: &SlotLeaf) -> Key {
        keccak256(&leaf.0)
    }

    fn keys(&self, leaves: &[SlotLeaf]) -> Vec<Key> {
        hash_all(leaves.iter().map(|leaf| leaf.0.as_slice()))
    }

    fn value(&self, leaf: &SlotLeaf, at: u32, out: &mut Vec<u8>) {
        let changed = self.changed.get(at as usize).map(|(_, after)| *after);
        encode_slot(&changed.unwrap_or_else(|| self.flat.slot(&(self.address, leaf.0))), out);
    }
}

/// Values of an older version.
struct ProofSource<'a, A, S> {
    flat: &'a FlatState,
    account: A,
    slot: S,
    address: &'a Address,
    slots: &'a Arena<SlotLeaf>,
}

impl<A, S> ProofSource<'_, A, S>
where
    A: Fn(&Address) -> Option<SlimAccount> + Sync,
    S: Fn(&Address, &Word) -> Word + Sync,
{
    /// Returns the proof of the account and these slots in the version `top`, whose nodes the views show.
    fn prove(
        &self,
        top: &TrieTop,
        view: &View<'_, AccountLeaf>,
        slot_view: &View<'_, SlotLeaf>,
        slots: &[Word],
    ) -> StateProof {
        let key = keccak256(self.address.as_slice());
        let storage = find_account(view, top.child.as_ref(), &key, self.address);
        let storage = storage_top(self.slots, storage);
        let prove_slot = |slot: &Word| trie::prove(slot_view, storage, &keccak256(slot), self);
        StateProof {
            storage_root: storage.map_or(EMPTY_ROOT_HASH, |child| child.reference().root()),
            account: trie::prove(view, top.child.as_ref(), &key, self),
            slots: slots.iter().map(prove_slot).collect(),
        }
    }
}

impl<A: Fn(&Address) -> Option<SlimAccount> + Sync, S: Sync> Source<AccountLeaf> for ProofSource<'_, A, S> {
    fn key(&self, leaf: &AccountLeaf) -> Key {
        keccak256(leaf.address.as_slice())
    }

    fn value(&self, leaf: &AccountLeaf, _: u32, out: &mut Vec<u8>) {
        let root = storage_top(self.slots, leaf.storage).map_or(EMPTY_ROOT_HASH, |top| top.reference().root());
        let slim = (self.account)(&leaf.address).expect("a leaf's account is there");
        encode_account(self.flat, &slim, root, out);
    }
}

impl<A: Sync, S: Fn(&Address, &Word) -> Word + Sync> Source<SlotLeaf> for ProofSource<'_, A, S> {
    fn key(&self, leaf: &SlotLeaf) -> Key {
        keccak256(&leaf.0)
    }

    fn value(&self, leaf: &SlotLeaf, _: u32, out: &mut Vec<u8>) {
        encode_slot(&(self.slot)(self.address, &leaf.0), out);
    }
}
