//! Random blocks of order-dependent transfers, and blocks with faults: every way to execute them, with any number of
//! workers and any order of reports, has the result of sequential execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_crypto::ed25519::{SigningKey, verify_strict};
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::history::{self, BatchWriter, History, HistoryKey};
use hearth_ledger::{Account, BlockLimits, Executor, Ledger, Outcome, SlotError, TransactionError, builders};
use hearth_testkit::random::Random;
use hearth_wire::base58::encode_64;
use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::entry::{Cursor, Entries, Entry, EntryErrorKind, Part, write_batch_header, write_entry};
use hearth_wire::message::{Instruction, Message};
use hearth_wire::{Pubkey, Txn};

use super::*;
use crate::bank::{RecorderConfig, record_transaction};
use crate::exec::{ExecOrder, ExecVerdict, Worker, WorkerConfig};
use crate::links::{MICROBLOCK_MTU, MICROBLOCK_TXNS};
use crate::poh::check::{BlockError, verify_entries, verify_hashes};

const ACCOUNTS: usize = 24;
const LAMPORTS: u64 = 1_000_000_000;
const RULES: Rules = Rules { ticks_per_slot: 4, hashes_per_tick: Some(40), limits: BlockLimits::CLUSTER };
/// Bytes of an entry before its transactions, including their count.
const ENTRY_HEADER: usize = 48;
/// Compute units that a transfer costs, whether or not the money suffices.
const TRANSFER_COST: u64 = 1_481;

fn signer(number: usize) -> SigningKey {
    SigningKey::from_seed(&Random(1_000 + number as u64).key())
}

/// Shared by all trials of a test.
struct World {
    signers: Vec<SigningKey>,
    key: HistoryKey,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = History::open(folder.path(), history::Config::new(1 << 20, [1; 32]), 0).unwrap().key();
        Self { signers: (0..ACCOUNTS + 1).map(signer).collect(), key }
    }

    /// All signers but the last have money.
    fn ledger(&self) -> Arc<Ledger> {
        let ledger = builders::ledger(0);
        let rich = &self.signers[..ACCOUNTS];
        rich.iter().for_each(|signer| ledger.accounts().store(&signer.public_key(), Account::wallet(LAMPORTS)));
        ledger
    }

    fn transfer(&self, random: &mut Random, blockhash: &[u8; 32], hot: usize, is_unpaid: bool) -> Vec<u8> {
        let from = if is_unpaid { ACCOUNTS } else { random.index(ACCOUNTS) };
        let to = Some(random.index(hot)).filter(|to| *to != from).unwrap_or((from + 1) % ACCOUNTS);
        // Some transfer more than is left after earlier ones.
        let lamports = 1 + random.below(LAMPORTS);
        builders::transfer(&self.signers[from], &self.signers[to].public_key(), lamports, blockhash)
    }
}

/// A possible fault of a block.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Unpaid,
    Signature,
    Twice,
    Hash,
    Several,
    Ticks,
    Bytes,
}

/// Makes a block's bytes: entries of 1 to 90 transfers and ticks, in one batch or two.
fn block(world: &World, random: &mut Random, parent_hash: &[u8; 32], fault: Fault) -> Vec<u8> {
    let hot = 1 + random.index(ACCOUNTS);
    let has = |wanted: Fault, random: &mut Random| fault == wanted || fault == Fault::Several && random.chance(500);
    let (unpaid, signature, twice, hash) = (
        has(Fault::Unpaid, random),
        has(Fault::Signature, random),
        has(Fault::Twice, random),
        has(Fault::Hash, random),
    );
    let mut entries: Vec<Vec<Vec<u8>>> = vec![];
    let mut all = 0;
    for _ in 0..10 + random.below(20) {
        let count = if random.chance(100) { 90 } else { 1 + random.below(20) };
        let mut entry: Vec<Vec<u8>> = vec![];
        for _ in 0..count {
            let is_unpaid = unpaid && random.chance(5);
            entry.push(world.transfer(random, parent_hash, hot, is_unpaid));
        }
        all += entry.len();
        entries.push(entry);
    }
    if signature {
        for _ in 0..1 + random.below(3) {
            let (entry, byte) = (random.index(entries.len()), 1 + random.index(64));
            let txn = random.index(entries[entry].len());
            entries[entry][txn][byte] ^= 1;
        }
    }
    if twice {
        let again = entries[0][0].clone();
        let entry = random.index(entries.len());
        entries[entry].push(again);
    }
    assert!(all > 20);
    bytes_of(random, parent_hash, &entries, hash, fault)
}

fn bytes_of(random: &mut Random, parent: &[u8; 32], entries: &[Vec<Vec<u8>>], flips: bool, fault: Fault) -> Vec<u8> {
    let ticks = RULES.ticks_per_slot - u64::from(fault == Fault::Ticks);
    let per_tick = entries.len().div_ceil(ticks as usize);
    let (mut hash, mut tree) = (*parent, MixinTree::default());
    let mut written: Vec<Vec<u8>> = vec![];
    for tick in 0..ticks as usize {
        let mut left = RULES.hashes_per_tick.unwrap();
        for entry in entries.iter().skip(tick * per_tick).take(per_tick) {
            entry.iter().for_each(|bytes| tree.push(Txn::parse(bytes).unwrap().first_signature()));
            hash = sha256_mix(sha256_chain(hash, 1), tree.take_root());
            left -= 2;
            let mut bytes = vec![];
            write_entry(2, &hash, entry.len(), &entry.concat(), &mut bytes);
            written.push(bytes);
        }
        hash = sha256_chain(hash, left);
        let mut bytes = vec![];
        write_entry(left, &hash, 0, &[], &mut bytes);
        written.push(bytes);
    }
    if flips {
        let entry = random.index(written.len());
        written[entry][8] ^= 1;
    }
    let cut = random.index(written.len());
    let mut block = vec![];
    for batch in [&written[..cut], &written[cut..]].into_iter().filter(|batch| !batch.is_empty()) {
        write_batch_header(batch.len(), &mut block);
        batch.iter().for_each(|bytes| block.extend_from_slice(bytes));
    }
    if fault == Fault::Bytes {
        // The last tick's count of transactions: no bytes follow for one.
        let at = block.len() - ENTRY_HEADER + 40;
        block[at] = 1;
    }
    block
}

fn job(parent_hash: [u8; 32]) -> Job {
    Job { rules: RULES, slot: 1, parent: 0, parent_hash, is_known: false, records: true }
}

/// The cost of a block so far, in all and by written account.
#[derive(Default)]
struct Spent {
    units: u64,
    accounts: BTreeMap<Pubkey, u64>,
}

impl Spent {
    fn add(&mut self, txn: &Txn<'_>, cost: u64, limits: &BlockLimits) -> Option<TransactionError> {
        self.units += cost;
        if self.units > limits.block_cost {
            return Some(TransactionError::WouldExceedMaxBlockCostLimit);
        }
        for (_, key) in txn.account_keys().iter().enumerate().filter(|(at, _)| txn.is_writable(*at)) {
            let spent = self.accounts.entry(*key).or_default();
            *spent += cost;
            if *spent > limits.account_cost {
                return Some(TransactionError::WouldExceedMaxAccountCostLimit);
            }
        }
        None
    }
}

/// Executes sequentially, by code that is not under test.
fn serial(world: &World, ledger: &Ledger, job: &Job, data: &[u8]) -> Result<Vec<Vec<u8>>, ReplayError> {
    let slot = job.slot;
    let (mut entries, mut rest): (Vec<Entry<'_>>, &[u8]) = (vec![], data);
    while !rest.is_empty() {
        let mut batch = Entries::parse_prefix(rest).map_err(|source| ReplayError::Entries { slot, source })?;
        for entry in &mut batch {
            entries.push(entry.map_err(|source| ReplayError::Entries { slot, source })?);
        }
        rest = batch.rest();
    }
    let ticks = RULES.ticks_per_slot;
    match verify_entries(&job.parent_hash, &entries, RULES.hashes_per_tick, ticks, 1) {
        Ok(_) | Err(BlockError::InvalidEntryHash { .. }) => {}
        Err(source) => return Err(ReplayError::Chain { slot, source }),
    }
    let bank = ledger.begin_slot(slot, job.parent).map_err(|source| ReplayError::Slot { slot, source })?;
    let (mut executor, mut outcomes, mut writer) = (Executor::new(), vec![], BatchWriter::new(world.key.clone()));
    executor.set_recording(true);
    let (mut batches, mut index, mut before, mut spent) = (vec![], 0, job.parent_hash, Spent::default());
    for (number, entry) in entries.iter().enumerate() {
        before = verify_hashes(&before, std::slice::from_ref(entry), number)
            .map_err(|source| ReplayError::Chain { slot, source })?;
        let txns: Vec<Txn<'_>> = entry.transactions().collect();
        for chunk in txns.chunks(MICROBLOCK_TXNS) {
            writer.begin(slot, batches.len() as u64);
            for txn in chunk {
                let signature = txn.first_signature();
                if verify_strict(txn.fee_payer(), signature, txn.message()).is_err() {
                    return Err(ReplayError::Signature { slot, signature: encode_64(signature).to_string() });
                }
                bank.execute(&mut executor, std::slice::from_ref(txn), &mut outcomes);
                let outcome = outcomes[0];
                if !outcome.is_committed() {
                    return Err(ReplayError::DoesNotLand { slot, index, outcome });
                }
                if let Some(error) = spent.add(txn, outcome.cost(txn), &job.rules.limits) {
                    return Err(ReplayError::DoesNotLand { slot, index, outcome: Outcome::NotCommitted(error) });
                }
                record_transaction(&mut writer, false, txn, &outcome, executor.records()[0].as_deref());
                index += 1;
            }
            batches.extend(writer.finish().map(<[u8]>::to_vec));
        }
    }
    ledger.end_slot(slot, before).map_err(|source| ReplayError::Slot { slot, source })?;
    Ok(batches)
}

/// A way to execute a block.
#[derive(Clone, Copy, Debug)]
enum ExecutionMode {
    Serial,
    Threads(usize),
    /// Simulated tiles: this many orders at once over their messages, with reports in any order.
    Scrambled(usize),
}

/// The complete result of a block.
#[derive(Debug, PartialEq)]
struct End {
    result: Result<Vec<Vec<u8>>, ReplayError>,
    /// If it ended: the bank's hash and counts, the accounts, the statuses.
    state: Option<(hearth_ledger::BlockSummary, Vec<Option<Account>>, Vec<Option<Result<(), TransactionError>>>)>,
}

fn run(world: &World, data: &[u8], limits: BlockLimits, way: ExecutionMode, seed: u64) -> End {
    let ledger = world.ledger();
    let job = Job { rules: Rules { limits, ..RULES }, ..job(ledger.recent_blocks(1)[0].blockhash) };
    let config = WorkerConfig {
        table_bytes: 1 << 20,
        recording: Some(RecorderConfig { key: world.key.clone(), extended: false }),
    };
    let result = match way {
        ExecutionMode::Serial => serial(world, &ledger, &job, data),
        ExecutionMode::Threads(count) => {
            Pool::new(count, &config).block(&ledger, job, data).map(|executed| executed.batches)
        }
        ExecutionMode::Scrambled(count) => scrambled(&ledger, job, data, count, &config, &mut Random(seed)),
    };
    let state = result.is_ok().then(|| {
        ledger.hash_all();
        let accounts = world.signers.iter().map(|signer| ledger.account(&signer.public_key())).collect();
        let status = |txn: Txn<'_>| ledger.statuses().status(txn.first_signature(), 1).map(|status| status.result);
        (ledger.recent_blocks(1)[0], accounts, transactions(data).map(status).collect())
    });
    End { result, state }
}

fn transactions(data: &[u8]) -> impl Iterator<Item = Txn<'_>> {
    let mut cursor = Cursor::default();
    std::iter::from_fn(move || cursor.next(data).unwrap()).filter_map(|part| match part {
        Part::Transaction { txn, .. } => Some(txn),
        Part::Entry { .. } => None,
    })
}

fn scrambled(
    ledger: &Ledger,
    job: Job,
    data: &[u8],
    count: usize,
    config: &WorkerConfig,
    random: &mut Random,
) -> Result<Vec<Vec<u8>>, ReplayError> {
    let mut replay = Replay::default();
    let mut worker = Worker::new(config);
    let (mut running, mut buffer) = (vec![], vec![0; MICROBLOCK_MTU]);
    replay.begin(job, None);
    loop {
        match random.below(3) {
            0 => {
                if let Step::Ended(end) = replay.step(ledger, data) {
                    assert!(running.is_empty(), "nothing is out at the end");
                    return end.map(|executed| executed.batches);
                }
            }
            1 if running.len() < count => {
                if let Some(order) = replay.order() {
                    let size = ExecOrder::write(&mut buffer, &order, data);
                    running.push(buffer[..size].to_vec());
                }
            }
            _ if !running.is_empty() => {
                let payload = running.swap_remove(random.index(running.len()));
                let order = ExecOrder::read(&payload);
                worker.begin(&order);
                let mut report = loop {
                    worker.step(&order, &payload, ledger.bank(order.slot).as_deref());
                    if let Some(report) = worker.take_report() {
                        break report;
                    }
                };
                let size = ExecVerdict::write(&mut buffer, report.failure, &report.costs);
                ExecVerdict { failure: report.failure, costs: report.costs } = ExecVerdict::read(&buffer[..size]);
                replay.take(report, data);
            }
            _ => {}
        }
    }
}

const WAYS: [ExecutionMode; 6] = [
    ExecutionMode::Threads(1),
    ExecutionMode::Threads(2),
    ExecutionMode::Threads(5),
    ExecutionMode::Scrambled(1),
    ExecutionMode::Scrambled(2),
    ExecutionMode::Scrambled(6),
];

fn compare(seeds: std::ops::RangeInclusive<u64>, fault: Fault) -> Vec<End> {
    compare_within(BlockLimits::CLUSTER, seeds, fault)
}

fn compare_within(limits: BlockLimits, seeds: std::ops::RangeInclusive<u64>, fault: Fault) -> Vec<End> {
    let world = World::new();
    let parent_hash = world.ledger().recent_blocks(1)[0].blockhash;
    let mut ends = vec![];
    for seed in seeds {
        let data = block(&world, &mut Random(seed), &parent_hash, fault);
        let expected = run(&world, &data, limits, ExecutionMode::Serial, seed);
        for way in WAYS {
            let end = run(&world, &data, limits, way, seed);
            assert_eq!(end.result, expected.result, "seed {seed}, {way:?}");
            assert_eq!(end.state, expected.state, "seed {seed}, {way:?}");
        }
        ends.push(expected);
    }
    ends
}

#[test]
fn blocks_come_to_what_their_order_comes_to() {
    let ends = compare(1..=30, Fault::None);
    // Occasionally an account cannot pay its fee, which ends the block.
    let whole: Vec<_> = ends.iter().filter_map(|end| end.state.as_ref()).collect();
    let failed: u64 = whole.iter().map(|(block, ..)| block.counts.failed).sum();
    assert!(
        whole.len() > 15 && failed > 500,
        "{} blocks; what fails of them, {failed}, depends on the order",
        whole.len()
    );
    assert!(whole.iter().all(|(block, ..)| block.bank_hash.is_some()));
}

#[test]
fn the_first_fault_is_reported() {
    let mut found = [0; 3];
    for fault in [Fault::Unpaid, Fault::Signature, Fault::Twice, Fault::Hash, Fault::Several] {
        for end in compare(1..=12, fault) {
            match end.result {
                Ok(_) => {}
                Err(ReplayError::DoesNotLand { .. }) => found[0] += 1,
                Err(ReplayError::Signature { .. }) => found[1] += 1,
                Err(ReplayError::Chain { source: BlockError::InvalidEntryHash { .. }, .. }) => found[2] += 1,
                Err(other) => panic!("another fault than was made: {other}"),
            }
        }
    }
    assert!(found.iter().all(|count| *count >= 10), "faults by kind: {found:?}");
}

#[test]
fn a_limit_is_a_fault_like_any_other() {
    // Of 60 transfers in a block, or of 20 that write the same account.
    let block = BlockLimits { block_cost: 60 * TRANSFER_COST, ..BlockLimits::CLUSTER };
    let account = BlockLimits { account_cost: 20 * TRANSFER_COST, ..BlockLimits::CLUSTER };
    let both = BlockLimits { block_cost: 200 * TRANSFER_COST, ..account };
    let mut found = [0; 2];
    for limits in [block, account, both] {
        for fault in [Fault::None, Fault::Several] {
            for end in compare_within(limits, 1..=8, fault) {
                let Err(ReplayError::DoesNotLand { outcome: Outcome::NotCommitted(error), .. }) = end.result else {
                    continue;
                };
                found[0] += u32::from(error == TransactionError::WouldExceedMaxBlockCostLimit);
                found[1] += u32::from(error == TransactionError::WouldExceedMaxAccountCostLimit);
            }
        }
    }
    assert!(found.iter().all(|count| *count >= 3), "faults of a block, of an account: {found:?}");
}

#[test]
fn a_block_that_is_none_begins_no_slot() {
    let world = World::new();
    for fault in [Fault::Ticks, Fault::Bytes] {
        for end in compare(1..=3, fault) {
            match end.result {
                Err(ReplayError::Chain { source: BlockError::TooFewTicks { .. }, .. }) => {
                    assert!(fault == Fault::Ticks)
                }
                Err(ReplayError::Entries { source, .. }) => assert_eq!(source.kind, EntryErrorKind::Count),
                other => panic!("another fault than was made: {other:?}"),
            }
        }
    }
    let ledger = world.ledger();
    let config = WorkerConfig { table_bytes: 0, recording: None };
    let parent_hash = ledger.recent_blocks(1)[0].blockhash;
    let data = block(&world, &mut Random(1), &parent_hash, Fault::Ticks);
    let mut pool = Pool::new(1, &config);
    assert!(pool.block(&ledger, job(parent_hash), &data).is_err());
    assert!(ledger.working_bank().is_none());
    // A block on another parent.
    let data = block(&world, &mut Random(1), &parent_hash, Fault::None);
    let other = Job { slot: 9, parent: 8, ..job(parent_hash) };
    let refused = pool.block(&ledger, other, &data).unwrap_err();
    let source = SlotError::WrongParent { slot: 9, parent: 8, last: 0 };
    assert_eq!(refused, ReplayError::Slot { slot: 9, source });
}

/// The state machine, asked when there is nothing to do.
#[test]
fn an_idle_machine_waits() {
    let (mut replay, world) = (Replay::default(), World::new());
    assert!(replay.order().is_none());
    assert!(matches!(replay.step(&world.ledger(), &[]), Step::Waits));
    assert!(replay.transactions().is_none());
}

/// A program call ends a block on a ledger without programs.
#[test]
fn unexecutable_transaction_ends_the_block() {
    let world = World::new();
    let ledger = world.ledger();
    let parent_hash = ledger.recent_blocks(1)[0].blockhash;
    let transfer = world.transfer(&mut Random(3), &parent_hash, 2, false);
    let payer = world.signers[0].public_key();
    let call = Instruction { program_id: VOTE_PROGRAM, accounts: vec![], data: vec![] };
    let message = Message::compile(&payer, &[call], &parent_hash).unwrap();
    let other = message.sign_with(|_, message| world.signers[0].sign(message));
    let data = bytes_of(&mut Random(1), &parent_hash, &[vec![transfer], vec![other]], false, Fault::None);
    let serial = run(&world, &data, BlockLimits::CLUSTER, ExecutionMode::Serial, 1);
    for way in WAYS {
        assert_eq!(run(&world, &data, BlockLimits::CLUSTER, way, 1), serial, "{way:?}");
    }
    let refused = ReplayError::DoesNotLand { slot: 1, index: 1, outcome: Outcome::Unsupported };
    assert_eq!(serial.result, Err(refused));
}
