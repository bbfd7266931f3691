//! Blocks over the set, and random histories compared with a model without logs, sums or overlays.

mod power;

use std::collections::{BTreeMap, HashMap};

use alloy_primitives::{Address, B256};
use proptest::prelude::*;

use super::*;
use crate::rules::Refusal;
use crate::testing::*;
use crate::tx::{Action, Builder, Payload, SharedTx, signed};

fn apply(ledger: &Ledger, txs: &[SharedTx]) -> Vec<Result<(), Refusal>> {
    ledger.begin().apply(txs)
}

fn payload(inputs: Vec<OutPoint>, outputs: Vec<Output>, fee: u64) -> Payload {
    Payload { chain_id: CHAIN, inputs, outputs, fee, action: Action::Transfer }
}

fn native(n: u8, amount: u64) -> Output {
    Output { asset: AssetId::NATIVE, amount, owner: owner(n), memo: Default::default() }
}

#[test]
fn nothing_is_spent_twice_within_a_block_or_after_it() {
    let ledger = funded(&[(1, 1_000_000)]);
    let available = all_of(&ledger, 1);
    let first = pay(&available, 1, 2, AssetId::NATIVE, 10);
    let second = pay(&available, 1, 3, AssetId::NATIVE, 20);
    let spent = available[0].0;
    let mut session = ledger.begin();
    assert_eq!(
        session.apply(&[first.clone(), second.clone(), first.clone()]),
        [Ok(()), Err(Refusal::Missing(spent)), Err(Refusal::Missing(spent))]
    );
    ledger.commit(2, hash(2), session).unwrap();
    assert_eq!(apply(&ledger, &[second, first.clone()]), [Err(Refusal::Missing(spent)), Err(Refusal::Missing(spent))]);
    assert_eq!(ledger.balances(&owner(2))[&AssetId::NATIVE], (10, 1));
    let landed = ledger.transaction(&first.id).unwrap().unwrap();
    assert_eq!((landed.number, landed.hash, landed.index), (2, hash(2), 0));
    assert!(matches!(landed.what, TxOrCall::Transaction(tx) if tx == first));
}

#[test]
fn a_block_spends_what_it_made() {
    let ledger = funded(&[(1, 1_000_000)]);
    let first = pay(&all_of(&ledger, 1), 1, 2, AssetId::NATIVE, 100_000);
    let made = vec![(first.out_point(0), first.payload.outputs[0].clone())];
    let second = pay(&made, 2, 3, AssetId::NATIVE, 10);
    let mut session = ledger.begin();
    assert_eq!(session.apply(&[second.clone(), first, second]), [Err(Refusal::Missing(made[0].0)), Ok(()), Ok(())]);
    ledger.commit(2, hash(2), session).unwrap();
    assert_eq!(ledger.output(&made[0].0), None);
    assert_eq!(ledger.balances(&owner(3))[&AssetId::NATIVE].0, 10);
}

#[test]
fn only_the_owners_spend() {
    let ledger = funded(&[(1, 1_000_000), (2, 500)]);
    let (mine, yours) = (all_of(&ledger, 1)[0].0, all_of(&ledger, 2)[0].0);
    let both = payload(vec![mine, yours], vec![native(3, 1_000_000 + 500 - 5_000)], 5_000);
    let stolen = shared(&signed(&both, &[&key(1)]));
    let extra = shared(&signed(&both, &[&key(1), &key(2), &key(3)]));
    let right = shared(&signed(&both, &[&key(2), &key(1)]));
    let verdicts = apply(&ledger, &[stolen, extra, right]);
    assert!(matches!(verdicts[..], [Err(Refusal::Owners(_)), Err(Refusal::Owners(_)), Ok(())]), "{verdicts:?}");
}

#[test]
fn units_come_from_nowhere_for_no_asset() {
    let ledger = funded(&[(1, 1_000_000)]);
    let at = all_of(&ledger, 1)[0].0;
    let with = |outputs, fee| shared(&signed(&payload(vec![at], outputs, fee), &[&key(1)]));
    let fake = AssetId(B256::repeat_byte(8));
    let wrong = [
        with(vec![native(1, 1_000_000)], 5_000),
        with(vec![native(1, 1_000_000 - 5_001)], 5_000),
        with(vec![native(1, u64::MAX), native(1, u64::MAX)], 5_000),
        with(vec![native(1, 1_000_000 - 5_000), Output { asset: fake, ..native(1, 1) }], 5_000),
    ];
    for verdict in apply(&ledger, &wrong) {
        assert!(matches!(verdict, Err(Refusal::Unbalanced { .. })), "{verdict:?}");
    }
    let cheap = with(vec![native(1, 999_999)], 1);
    assert!(matches!(apply(&ledger, &[cheap])[..], [Err(Refusal::Fee { have: 1, .. })]));
}

fn issue(available: &[(OutPoint, Output)], from: u8, open: bool, amount: u64) -> SharedTx {
    let action = Action::Issue { code: "GOLD".into(), decimals: 2, open, issuer: owner(from), amount };
    let key = key(from);
    shared(&Builder { chain_id: CHAIN, key: &key, available, outputs: vec![], action }.issue(owner(from)).unwrap())
}

fn issue_more(available: &[(OutPoint, Output)], from: u8, asset: AssetId, amount: u64) -> SharedTx {
    let outputs = vec![Output { asset, ..native(from, amount) }];
    let action = Action::IssueMore { asset, amount };
    let key = key(from);
    shared(&Builder { chain_id: CHAIN, key: &key, available, outputs, action }.build().unwrap())
}

#[test]
fn assets_are_issued_by_their_issuer_while_open() {
    let ledger = funded(&[(1, 1_000_000), (1, 1_000_000), (2, 1_000_000)]);
    let open = issue(&all_of(&ledger, 1)[..1], 1, true, 100);
    let closed = issue(&all_of(&ledger, 1)[1..], 1, false, u64::MAX);
    let (asset, fixed) = (open.new_asset().unwrap(), closed.new_asset().unwrap());
    let mut session = ledger.begin();
    assert_eq!(session.apply(&[open, closed]), [Ok(()), Ok(())]);
    ledger.commit(2, hash(2), session).unwrap();
    let theft = issue_more(&all_of(&ledger, 2), 2, asset, 5);
    let more = issue_more(&all_of(&ledger, 1), 1, asset, 5);
    let none = issue_more(&all_of(&ledger, 1), 1, fixed, 5);
    let unknown = issue_more(&all_of(&ledger, 1), 1, AssetId(B256::repeat_byte(1)), 5);
    let overflow = issue_more(&all_of(&ledger, 1), 1, asset, u64::MAX - 99);
    let mut session = ledger.begin();
    let verdicts = session.apply(&[theft, none, unknown, overflow, more]);
    assert!(matches!(verdicts[0], Err(Refusal::Owners(_))), "{verdicts:?}");
    assert!(matches!(verdicts[1], Err(Refusal::Closed(..))), "{verdicts:?}");
    assert!(matches!(verdicts[2], Err(Refusal::NoAsset(_))), "{verdicts:?}");
    assert!(matches!(verdicts[3], Err(Refusal::Closed(..))), "{verdicts:?}");
    assert!(verdicts[4].is_ok(), "{verdicts:?}");
    ledger.commit(3, hash(3), session).unwrap();
    assert_eq!(ledger.asset(&asset).unwrap().supply, 105);
    assert_eq!(ledger.balances(&owner(1))[&asset].0, 105);
    assert_eq!(ledger.balances(&owner(1))[&fixed].0, u128::from(u64::MAX));
}

#[test]
fn transfer_is_credited_exactly_or_not_at_all() {
    let ledger = funded(&[(1, 1_000_000)]);
    let at = all_of(&ledger, 1)[0].0;
    let prism = |amount, fee, back| {
        let action = Action::Prism { recipient: Address::repeat_byte(4), amount };
        let outputs = if back == 0 { vec![] } else { vec![native(1, back)] };
        shared(&signed(&Payload { action, ..payload(vec![at], outputs, fee) }, &[&key(1)]))
    };
    let lost = {
        let action = Action::Prism { recipient: crate::prism::ADDRESS, amount: 500_000 };
        shared(&signed(&Payload { action, ..payload(vec![at], vec![native(1, 495_000)], 5_000) }, &[&key(1)]))
    };
    let before = ledger.commitment();
    let mut session = ledger.begin();
    let verdicts = session.apply(&[lost, prism(999_999, 5_000, 0), prism(500_000, 5_000, 495_000)]);
    let [Err(Refusal::Recipient), Err(Refusal::Unbalanced { .. }), Ok(())] = &verdicts[..] else {
        panic!("{verdicts:?}")
    };
    let [withdrawal] = session.withdrawals() else { panic!("{:?}", session.withdrawals()) };
    assert_eq!((withdrawal.index, withdrawal.gwei()), (0, 500_000_000));
    assert_eq!(withdrawal.wei(), crate::amount::to_wei(500_000));
    drop(session);
    assert_eq!((ledger.commitment(), ledger.totals().withdrawn), (before, 0), "a dropped block leaves nothing");
}

#[test]
fn a_block_over_an_older_state_is_not_committed() {
    let ledger = funded(&[(1, 1_000_000)]);
    let (mut one, mut other) = (ledger.begin(), ledger.begin());
    one.receive(2, &[came(2, 1, 7)]);
    other.receive(2, &[came(2, 1, 7)]);
    assert_eq!(one.commitment(), other.commitment());
    ledger.commit(2, hash(2), one).unwrap();
    assert!(matches!(ledger.commit(2, hash(2), other), Err(LedgerError::Stale)));
}

/// One event of a random history.
#[derive(Clone, Debug)]
enum Step {
    Receive(u8, u64),
    Pay { from: u8, to: u8, permille: u64, issued: bool },
    Issue(u8, u64),
    IssueMore(u64),
    Prism(u8, u64),
    Replay(usize),
    Block,
    DropBlock,
    Kill { before_the_chain: bool, torn: usize },
    Rewind(u64),
    Shorten(u64, bool),
    Capture,
}

fn step() -> impl Strategy<Value = Step> {
    let n = 1u8..5;
    prop_oneof![
        3 => (n.clone(), 1u64..10_000_000_000).prop_map(|(n, amount)| Step::Receive(n, amount)),
        8 => (n.clone(), n.clone(), 1u64..900, any::<bool>())
            .prop_map(|(from, to, permille, issued)| Step::Pay { from, to, permille, issued }),
        1 => (n.clone(), 1u64..1_000_000).prop_map(|(n, amount)| Step::Issue(n, amount)),
        1 => (1u64..1_000_000).prop_map(Step::IssueMore),
        3 => (n, 1u64..900).prop_map(|(n, permille)| Step::Prism(n, permille)),
        2 => any::<prop::sample::Index>().prop_map(|at| Step::Replay(at.index(1000))),
        5 => Just(Step::Block),
        1 => Just(Step::DropBlock),
        1 => (any::<bool>(), 0usize..40).prop_map(|(before_the_chain, torn)| Step::Kill { before_the_chain, torn }),
        1 => (0u64..6).prop_map(Step::Rewind),
        2 => (1u64..6, any::<bool>()).prop_map(|(retain, wait)| Step::Shorten(retain, wait)),
        1 => Just(Step::Capture),
    ]
}

/// The expected state, kept in the simplest way.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    outputs: BTreeMap<OutPoint, Output>,
    issued: Vec<(AssetId, u8, u64)>,
    /// Units in accounts of the EVM, in the contract, and burnt.
    evm: u128,
    contract: u128,
    burnt: u128,
}

impl Model {
    fn take(&mut self, tx: &SharedTx) -> bool {
        if tx.payload.inputs.iter().any(|at| !self.outputs.contains_key(at)) {
            return false;
        }
        tx.payload.inputs.iter().for_each(|at| drop(self.outputs.remove(at)));
        for (index, output) in tx.payload.outputs.iter().enumerate() {
            self.outputs.insert(tx.out_point(index), output.clone());
        }
        self.burnt += u128::from(tx.payload.fee);
        match &tx.payload.action {
            Action::Issue { amount, .. } => {
                let by = (1..5).find(|n| owner(*n) == tx.owners[0]).unwrap();
                self.issued.push((tx.new_asset().unwrap(), by, *amount));
            }
            Action::IssueMore { asset, amount } => {
                self.issued.iter_mut().find(|(id, ..)| id == asset).unwrap().2 += amount;
            }
            Action::Prism { amount, .. } => self.evm += u128::from(*amount),
            Action::Transfer => (),
        }
        true
    }

    fn of(&self, n: u8) -> Vec<(OutPoint, Output)> {
        self.outputs.iter().filter(|(_, output)| output.owner == owner(n)).map(|(at, o)| (*at, o.clone())).collect()
    }

    fn units(&self, asset: AssetId) -> u128 {
        self.outputs.values().filter(|output| output.asset == asset).map(|output| u128::from(output.amount)).sum()
    }

    /// The whole supply of the native asset.
    fn supply(&self) -> u128 {
        self.evm + self.units(AssetId::NATIVE) + self.burnt
    }
}

/// A minimal chain around the ledger, with hashes and headers only.
struct Run {
    dir: tempfile::TempDir,
    ledger: Ledger,
    session: Option<Session>,
    incoming: Vec<Incoming>,
    /// The model after each block, and in the block under way.
    blocks: Vec<(Model, B256, B256)>,
    now: Model,
    seen: Vec<SharedTx>,
    hashes: HashMap<u64, B256>,
    counter: u64,
    /// Transfers from the EVM in the newest block.
    came: Vec<Incoming>,
    captured: Vec<CapturedSet>,
}

/// A set that is read while blocks are added.
struct CapturedSet {
    items: Box<dyn Iterator<Item = Result<Item, LedgerError>>>,
    found: BTreeMap<OutPoint, Output>,
    wanted: BTreeMap<OutPoint, Output>,
}

impl CapturedSet {
    /// Reads one more; whether that was the last.
    fn read(&mut self) -> bool {
        match self.items.next() {
            Some(Ok(Item::Output(at, output))) => assert!(self.found.insert(at, output).is_none(), "each once"),
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                assert!(matches!(error, LedgerError::Stale), "{error}");
                return true;
            }
            None => {
                assert_eq!(self.found, self.wanted);
                return true;
            }
        }
        false
    }
}

const ALL: u128 = 1 << 70;

impl Run {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let head = Head { number: 0, hash_of: &|_| None, commitment: None };
        let ledger = Ledger::open(Some(dir.path()), CHAIN, &head).unwrap();
        let model = Model { evm: ALL, ..Model::default() };
        let blocks = vec![(model.clone(), B256::ZERO, ledger.commitment())];
        let (session, hashes) = (Some(ledger.begin()), HashMap::new());
        let (incoming, seen, came, captured) = Default::default();
        Self { dir, ledger, session, incoming, blocks, now: model, seen, hashes, counter: 0, came, captured }
    }

    fn number(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    fn begin(&mut self) {
        self.session = Some(self.ledger.begin());
        self.incoming.clear();
        self.now = self.blocks.last().unwrap().0.clone();
    }

    fn offer(&mut self, tx: SharedTx) {
        let verdict = self.session.as_mut().unwrap().apply(std::slice::from_ref(&tx)).remove(0);
        assert_eq!(verdict.is_ok(), self.now.take(&tx), "{verdict:?}");
        self.seen.push(tx);
    }

    fn step(&mut self, step: Step) {
        self.captured.retain_mut(|captured| !captured.read());
        match step {
            Step::Shorten(retain, wait) => self.shorten(retain, wait),
            Step::Capture => self.capture(),
            Step::Receive(n, amount) => {
                self.counter += 1;
                self.incoming.push(came(n, amount, self.counter));
            }
            Step::Pay { from, to, permille, issued } => {
                let asset = match issued {
                    true => self.now.issued.last().map_or(AssetId::NATIVE, |(asset, ..)| *asset),
                    false => AssetId::NATIVE,
                };
                if let Some(amount) = self.share(from, asset, permille) {
                    let outputs = vec![Output { asset, ..native(to, amount) }];
                    self.build(from, outputs, Action::Transfer);
                }
            }
            Step::Issue(n, amount) => {
                let action = Action::Issue { code: "A".into(), decimals: 0, open: true, issuer: owner(n), amount };
                self.build(n, vec![], action);
            }
            Step::IssueMore(amount) => {
                if let Some((asset, by, supply)) = self.now.issued.last().copied()
                    && supply.checked_add(amount).is_some()
                {
                    let outputs = vec![Output { asset, ..native(by, amount) }];
                    self.build(by, outputs, Action::IssueMore { asset, amount });
                }
            }
            Step::Prism(n, permille) => {
                if let Some(amount) = self.share(n, AssetId::NATIVE, permille) {
                    self.build(n, vec![], Action::Prism { recipient: Address::repeat_byte(n), amount });
                }
            }
            Step::Replay(at) if !self.seen.is_empty() => {
                let tx = self.seen[at % self.seen.len()].clone();
                // An asset that a block taken back had issued is not there to issue more of.
                if !matches!(tx.payload.action, Action::IssueMore { .. }) {
                    self.offer(tx);
                }
            }
            Step::Replay(_) => (),
            Step::Block => self.block(true),
            Step::DropBlock => self.begin(),
            Step::Kill { before_the_chain, torn } => self.kill(before_the_chain, torn),
            Step::Rewind(depth) => {
                let number = self.number().saturating_sub(depth);
                let oldest = self.ledger.read().generations[0].from;
                if number < oldest {
                    assert!(self.ledger.rewind(number).is_err(), "{oldest} is the first that is kept");
                    return;
                }
                self.ledger.rewind(number).unwrap();
                self.blocks.truncate(number as usize + 1);
                self.hashes.retain(|at, _| *at <= number);
                self.begin();
                self.check();
            }
        }
    }

    fn shorten(&self, retain: u64, wait: bool) {
        let (_, hash, _) = self.blocks.last().unwrap();
        self.ledger.shorten(self.number(), *hash, retain).unwrap();
        if wait {
            self.ledger.written();
        }
    }

    fn capture(&mut self) {
        let (model, hash, _) = self.blocks.last().unwrap();
        let items = Box::new(self.ledger.capture(self.number(), *hash).unwrap().items());
        let (found, wanted) = (BTreeMap::new(), model.outputs.clone());
        self.captured.push(CapturedSet { items, found, wanted });
    }

    fn share(&self, n: u8, asset: AssetId, permille: u64) -> Option<u64> {
        let held: u128 =
            self.now.of(n).iter().filter(|(_, o)| o.asset == asset).map(|(_, o)| u128::from(o.amount)).sum();
        u64::try_from(held * u128::from(permille) / 1000).ok().filter(|amount| *amount > 0)
    }

    fn build(&mut self, from: u8, outputs: Vec<Output>, action: Action) {
        let (available, key) = (self.now.of(from), key(from));
        let issues = matches!(action, Action::Issue { .. });
        let builder = Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action };
        let raw = if issues { builder.issue(owner(from)) } else { builder.build() };
        // An owner without enough for the fee sends nothing.
        if let Ok(raw) = raw {
            self.offer(shared(&raw));
        }
    }

    /// Ends the block; `kept`: the chain writes it too.
    fn block(&mut self, kept: bool) {
        let number = self.number() + 1;
        let mut session = self.session.take().unwrap();
        let header = session.commitment();
        session.receive(number, &self.incoming);
        self.counter += 1;
        let hash = B256::from(alloy_primitives::U256::from(self.counter));
        self.ledger.commit(number, hash, session).unwrap();
        self.came = std::mem::take(&mut self.incoming);
        for one in &self.came {
            let at = prism_out_point(CHAIN, number, &one.transaction, one.log);
            self.now.outputs.insert(at, Output { owner: one.owner, ..native(1, one.amount) });
            self.now.contract += u128::from(one.amount);
            self.now.evm -= u128::from(one.amount);
        }
        if kept {
            self.blocks.push((self.now.clone(), hash, header));
            self.hashes.insert(number, hash);
            self.check();
            self.begin();
        }
    }

    /// The process dies: before the chain has written the block that this ledger has, or half way in a record and in a
    /// base.
    fn kill(&mut self, before_the_chain: bool, torn: usize) {
        if before_the_chain {
            self.block(false);
        }
        self.session = None;
        // No thread outlives its process.
        self.ledger.written();
        if torn > 0 {
            self.tear_base();
            // An interrupted write leaves the beginning of a valid record.
            let state = self.ledger.read();
            if let Some(last) = state.blocks.back() {
                let name = if last.from == 0 { "utxo.log".into() } else { format!("utxo.{}.log", last.from) };
                let path = self.dir.path().join(name);
                let bytes = std::fs::read(&path).unwrap();
                let whole = &bytes[last.offset as usize..];
                let mut longer = bytes.clone();
                if last.number > self.number() {
                    longer.truncate(last.offset as usize + torn.min(whole.len() - 1));
                }
                std::fs::write(&path, longer).unwrap();
            }
        }
        let (_, _, header) = self.blocks.last().unwrap();
        let hashes = self.hashes.clone();
        let commitment = (self.number() > 0).then_some(*header);
        let head = Head { number: self.number(), hash_of: &|number| hashes.get(&number).copied(), commitment };
        self.ledger = Ledger::open(Some(self.dir.path()), CHAIN, &head).unwrap();
        self.begin();
        self.check();
    }

    /// Truncates a base that the ledger does not yet know to be complete.
    fn tear_base(&self) {
        let from =
            self.ledger.read().generations.last().filter(|newest| newest.base.is_none()).map(|newest| newest.from);
        let Some(from) = from else { return };
        let [path, part] = ["base", "base.part"].map(|end| self.dir.path().join(format!("utxo.{from}.{end}")));
        if let Ok(bytes) = std::fs::read(&path) {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(part, &bytes[..bytes.len() / 2]).unwrap();
        }
    }

    /// Starts another ledger from the state that this one's newest block commits to.
    fn restore(&mut self) {
        let (number, (_, hash, header)) = (self.number(), self.blocks.last().unwrap());
        for dir in [None, Some(tempfile::tempdir().unwrap())] {
            let path = dir.as_ref().map(tempfile::TempDir::path);
            let other = Ledger::open(path, CHAIN, &Head { number: 0, hash_of: &|_| None, commitment: None }).unwrap();
            let load = |items: &mut dyn Iterator<Item = Result<Item, LedgerError>>| {
                let mut loading = SetBuilder::default();
                items.for_each(|item| loading.add(Item::decode(&item.unwrap().encode()).unwrap()).unwrap());
                loading
            };
            let capture = || self.ledger.capture(number, *hash).unwrap();
            let wrong = load(&mut capture().items_of_header());
            let error = other.restore(wrong, number, *hash, Some(B256::repeat_byte(1)), &self.came).unwrap_err();
            assert!(matches!(error, LedgerError::OtherSet { .. }), "{error}");
            let right = load(&mut capture().items_of_header());
            other.restore(right, number, *hash, Some(*header), &self.came).unwrap();
            let same = |other: &Ledger| {
                assert_eq!((other.commitment(), other.totals()), (self.ledger.commitment(), self.ledger.totals()));
                (1..5).for_each(|n| assert_eq!(all_of(other, n), all_of(&self.ledger, n)));
            };
            same(&other);
            // It can be gone back to, and from a folder it is there again.
            other.commit(number + 1, B256::ZERO, self.begun(&other, number + 1)).unwrap();
            other.rewind(number).unwrap();
            same(&other);
            if path.is_some() {
                let head = Head { number, hash_of: &|_| Some(*hash), commitment: Some(*header) };
                same(&Ledger::open(path, CHAIN, &head).unwrap());
            }
        }
    }

    fn begun(&self, ledger: &Ledger, number: u64) -> Session {
        let mut session = ledger.begin();
        session.receive(number, &[came(1, 5, 1 << 40)]);
        session
    }

    fn check(&self) {
        let (model, ..) = self.blocks.last().unwrap();
        assert_eq!(model.supply(), ALL, "units of both ledgers together");
        let mut found = BTreeMap::new();
        (1..5).for_each(|n| found.extend(all_of(&self.ledger, n)));
        assert_eq!(found, model.outputs);
        for n in 1..5 {
            let mut balances = BTreeMap::<AssetId, (u128, usize)>::new();
            for output in model.outputs.values().filter(|output| output.owner == owner(n)) {
                let (units, count) = balances.entry(output.asset).or_default();
                (*units, *count) = (*units + u128::from(output.amount), *count + 1);
            }
            assert_eq!(self.ledger.balances(&owner(n)), balances);
        }
        let totals = self.ledger.totals();
        assert_eq!((totals.native, totals.burnt), (model.units(AssetId::NATIVE), model.burnt));
        assert_eq!((totals.received, ALL - model.evm), (model.contract, totals.received - totals.withdrawn));
        for (asset, _, supply) in &model.issued {
            assert_eq!(u128::from(*supply), model.units(*asset));
            assert_eq!(self.ledger.asset(asset).unwrap().supply, *supply);
        }
        let mut sum = crate::lattice::Lattice::default();
        found.iter().for_each(|(at, output)| sum.add(&output.element(at)));
        model.issued.iter().for_each(|(id, ..)| sum.add(&self.ledger.asset(id).unwrap().element(id)));
        assert_eq!(set::commitment(&sum, &totals), self.ledger.commitment(), "the sum, added up again");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn random_histories_are_those_of_the_model(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        run.step(Step::Receive(1, 5_000_000_000));
        run.step(Step::Block);
        steps.into_iter().for_each(|step| run.step(step));
        run.step(Step::Block);
        run.restore();
        while !run.captured.is_empty() {
            run.captured.retain_mut(|captured| !captured.read());
        }
        run.step(Step::Kill { before_the_chain: false, torn: 0 });
    }
}

/// Returns a log of three blocks, as bytes, and the chain's head.
fn written() -> (Vec<u8>, B256) {
    let dir = tempfile::tempdir().unwrap();
    let head = Head { number: 0, hash_of: &|_| None, commitment: None };
    let ledger = Ledger::open(Some(dir.path()), CHAIN, &head).unwrap();
    let mut header = B256::ZERO;
    for number in 1..=3 {
        let mut session = ledger.begin();
        if number > 1 {
            assert_eq!(session.apply(&[pay(&all_of(&ledger, 1), 1, 2, AssetId::NATIVE, 1)]), [Ok(())]);
        }
        session.receive(number, &[came(1, 1_000_000, number)]);
        header = session.commitment();
        ledger.commit(number, hash(number), session).unwrap();
    }
    (std::fs::read(dir.path().join("utxo.log")).unwrap(), header)
}

fn opened(bytes: &[u8], header: B256) -> Result<Ledger, LedgerError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("utxo.log"), bytes).unwrap();
    let head = Head { number: 3, hash_of: &|number| Some(hash(number)), commitment: Some(header) };
    Ledger::open(Some(dir.path()), CHAIN, &head)
}

#[test]
fn damage_is_named_wherever_it_is() {
    let (bytes, header) = written();
    assert!(opened(&bytes, header).is_ok());
    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x10;
        let error = opened(&wrong, header).err().unwrap_or_else(|| panic!("byte {at} changed and nobody saw"));
        assert!(error.to_string().contains("utxo.log at byte "), "{error}");
    }
    for length in 0..bytes.len() {
        assert!(opened(&bytes[..length], header).is_err(), "{length} bytes are not the chain's");
    }
    let error = opened(&bytes, B256::repeat_byte(1)).err().unwrap();
    assert!(error.to_string().contains("is not that of the chain's newest block"), "{error}");
}

#[test]
fn a_base_of_a_block_that_is_no_more_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let head = Head { number: 0, hash_of: &|_| None, commitment: None };
    let ledger = Ledger::open(Some(dir.path()), CHAIN, &head).unwrap();
    let commit = |number: u64, amount: u64| {
        let mut session = ledger.begin();
        session.receive(number, &[came(1, amount, number)]);
        ledger.commit(number, hash(number), session).unwrap();
    };
    let base = |number: u64| dir.path().join(format!("utxo.{number}.base"));
    (1..=5).for_each(|number| commit(number, 1_000));
    ledger.shorten(5, hash(5), 4).unwrap();
    ledger.written();
    let other = std::fs::read(base(5)).unwrap();
    // The chain reverts before the ledger notes that the base is complete.
    ledger.rewind(3).unwrap();
    commit(4, 2_000);
    ledger.shorten(4, hash(4), 4).unwrap();
    assert!(!base(5).exists(), "it is of another block");
    // As if the program had ended before.
    std::fs::write(base(5), &other).unwrap();
    ledger.written();
    ledger.rewind(3).unwrap();
    (4..=5).for_each(|number| commit(number, 3_000));
    ledger.shorten(5, hash(5), 4).unwrap();
    ledger.written();
    assert_ne!(std::fs::read(base(5)).unwrap(), other);
    let mut session = ledger.begin();
    session.receive(6, &[came(1, 7, 6)]);
    let header = session.commitment();
    ledger.commit(6, hash(6), session).unwrap();
    let head = Head { number: 6, hash_of: &|number| Some(hash(number)), commitment: Some(header) };
    let again = Ledger::open(Some(dir.path()), CHAIN, &head).unwrap();
    assert_eq!(again.commitment(), ledger.commitment());
}

#[test]
fn last_records_are_kept_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let head = Head { number: 0, hash_of: &|_| None, commitment: None };
    let ledger = Ledger::open(Some(dir.path()), CHAIN, &head).unwrap();
    let (mut header, mut ids) = (B256::ZERO, vec![]);
    let sizes = || std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    let mut bytes_max = 0;
    for number in 1..=60 {
        let mut session = ledger.begin();
        if number > 1 {
            let tx = pay(&all_of(&ledger, 1), 1, 1, AssetId::NATIVE, 1);
            assert_eq!(session.apply(std::slice::from_ref(&tx)), [Ok(())]);
            ids.push((number, tx.id));
        }
        session.receive(number, &[came(1, 1_000_000, number)]);
        header = session.commitment();
        ledger.commit(number, hash(number), session).unwrap();
        ledger.shorten(number, hash(number), 4).unwrap();
        ledger.written();
        bytes_max = bytes_max.max(sizes().sum());
    }
    let kept: Vec<u64> =
        ids.iter().filter(|(_, id)| ledger.landed_in(id).is_some()).map(|(number, _)| *number).collect();
    assert!(kept.contains(&57) && !kept.contains(&20), "{kept:?}");
    assert!(kept.is_sorted_by(|before, after| after - before == 1));
    assert_eq!(ledger.record(2).unwrap(), None);
    let head = Head { number: 60, hash_of: &|number| Some(hash(number)), commitment: Some(header) };
    let again = Ledger::open(Some(dir.path()), CHAIN, &head).unwrap();
    assert_eq!(again.commitment(), ledger.commitment());
    assert!(ids.iter().all(|(_, id)| again.landed_in(id) == ledger.landed_in(id)));
    let (number, id) = ids.last().unwrap();
    assert_eq!(again.transaction(id).unwrap().unwrap().number, *number);
    // A base that is damaged is named.
    let bases = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let base = bases.filter(|path| path.extension().is_some_and(|end| end == "base")).max().unwrap();
    let mut bytes = std::fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&base, bytes).unwrap();
    let error = Ledger::open(Some(dir.path()), CHAIN, &head).err().unwrap();
    assert!(error.to_string().contains(".base at byte "), "{error}");
    assert!(bytes_max < 40_000, "{bytes_max}");
}

#[test]
fn a_log_of_another_chain_is_refused() {
    let (bytes, header) = written();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("utxo.log"), &bytes).unwrap();
    let head = Head { number: 3, hash_of: &|_| Some(B256::repeat_byte(9)), commitment: Some(header) };
    let other = Ledger::open(Some(dir.path()), CHAIN, &head).err().unwrap();
    assert!(other.to_string().contains("another chain"), "{other}");
    let other = Ledger::open(Some(dir.path()), CHAIN + 1, &head).err().unwrap();
    assert!(other.to_string().contains("another chain"), "{other}");
}

#[test]
fn readers_do_not_wait_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let ledger =
        Ledger::open(Some(dir.path()), CHAIN, &Head { number: 0, hash_of: &|_| None, commitment: None }).unwrap();
    let (reader, wrote) = (ledger.clone(), Arc::new(AtomicU64::new(0)));
    let counted = wrote.clone();
    *ledger.0.on_write.lock() = Some(Box::new(move || {
        assert!(reader.0.state.try_read().is_some(), "who reads waits for the disk");
        assert!(reader.0.state.try_write().is_some(), "who writes waits for who has to wait for the disk");
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let mut session = ledger.begin();
    let transaction = B256::repeat_byte(1);
    session.receive(1, &[Incoming { transaction, log: 0, sender: Address::ZERO, owner: owner(1), amount: 9 }]);
    ledger.commit(1, hash(1), session).unwrap();
    assert_eq!((wrote.load(Ordering::Relaxed), ledger.balances(&owner(1))[&AssetId::NATIVE].0), (1, 9));
    *ledger.0.on_write.lock() = None;
}
