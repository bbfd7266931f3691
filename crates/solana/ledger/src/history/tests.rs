//! The history against a model: generated chains, kills at any byte, damaged files, a limit that drops segments.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hearth_testkit::damage::Mutation;
use hearth_testkit::wait_until;
use hearth_wire::{Pubkey, Signature};
use proptest::prelude::*;

use super::*;
use crate::bank::{InnerCall, TokenAmount};
use crate::block::{Reward, RewardKind};
use crate::error::{InstructionError, TransactionError};

const GENESIS: [u8; 32] = [9; 32];
/// Bytes of the record at the head of a segment.
const HEAD_SIZE: u64 = record::HEADER_SIZE as u64 + 48;

fn config() -> Config {
    Config { segment_size: SEGMENT_SIZE_MIN, sync: false, ..Config::new(64 << 20, GENESIS) }
}

fn address(n: u8) -> Pubkey {
    [n; 32]
}

/// A transaction of the tests: its accounts, and the amount of metadata.
#[derive(Clone, Debug)]
struct TestTransaction {
    accounts: Vec<u8>,
    fails: bool,
    log_bytes: usize,
    has_tokens: bool,
    loaded: u8,
}

fn made() -> impl Strategy<Value = TestTransaction> {
    let accounts = prop::collection::btree_set(0u8..6, 1..4).prop_map(Vec::from_iter);
    (accounts, any::<bool>(), prop_oneof![Just(0usize), 0..6_000usize], any::<bool>(), 0u8..2).prop_map(
        |(accounts, fails, log_bytes, has_tokens, loaded)| TestTransaction {
            accounts,
            fails,
            log_bytes,
            has_tokens,
            loaded,
        },
    )
}

/// Blocks of microblocks of transactions.
type Blocks = Vec<Vec<Vec<TestTransaction>>>;

fn blocks() -> impl Strategy<Value = Blocks> {
    let microblock = prop::collection::vec(made(), 1..6);
    prop::collection::vec(prop::collection::vec(microblock, 0..5), 1..24)
}

fn meta_of(made: &TestTransaction, slot: u64, number: u32) -> TransactionMeta {
    let mut signature = [0xa5; 64];
    signature[..8].copy_from_slice(&slot.to_le_bytes());
    signature[8..12].copy_from_slice(&number.to_le_bytes());
    let token = |amount| TokenAmount {
        account_index: 1,
        mint: [3; 32],
        owner: [4; 32],
        program_id: [5; 32],
        amount,
        decimals: 6,
    };
    let tokens = |amount| if made.has_tokens { vec![token(amount)] } else { vec![] };
    let error = TransactionError::InstructionError(2, InstructionError::Custom(number));
    let call = InnerCall { program_id_index: 1, accounts: vec![0, 2], data: vec![7; 9], stack_height: 2 };
    let details = Details {
        logs: vec!["é".repeat(made.log_bytes / 2), String::new()],
        inner: vec![(3, vec![call.clone(), call])],
        return_data: made.has_tokens.then(|| ([8; 32], vec![1, 2, 3])),
    };
    let accounts = made.accounts.len() as u64 + u64::from(made.loaded);
    TransactionMeta {
        signature,
        result: if made.fails { Err(error) } else { Ok(()) },
        fee: 5_000,
        compute_units: u64::from(number),
        cost_units: u64::MAX,
        balances: (0..accounts).map(|n| (n << 40, (n << 40) ^ u64::from(number))).collect(),
        pre_token_balances: tokens(0),
        post_token_balances: tokens(u64::MAX),
        loaded_writable: (0..made.loaded).map(|n| address(100 + n)).collect(),
        loaded_readonly: vec![],
        memo: made.fails.then(|| "[2] hi".into()),
        details: (made.log_bytes > 0).then_some(details),
    }
}

fn batch(writer: &mut BatchWriter, slot: u64, microblock: u64, first: u32, txns: &[TestTransaction]) -> Vec<u8> {
    writer.begin(slot, microblock);
    for (number, made) in (first..).zip(txns) {
        let meta = meta_of(made, slot, number);
        let keys: Vec<Pubkey> = made.accounts.iter().map(|n| address(*n)).collect();
        writer.push(&MetaParts {
            signature: &meta.signature,
            static_accounts: &keys,
            result: meta.result,
            fee: meta.fee,
            compute_units: meta.compute_units,
            cost_units: meta.cost_units,
            balances: &meta.balances,
            pre_token_balances: &meta.pre_token_balances,
            post_token_balances: &meta.post_token_balances,
            loaded_writable: &meta.loaded_writable,
            loaded_readonly: &meta.loaded_readonly,
            memo: meta.memo.as_deref(),
            details: meta.details.as_ref().map(Details::parts),
        });
    }
    writer.finish().expect("a microblock has transactions").to_vec()
}

fn block_of(slot: u64, transaction_count: u32) -> BlockMeta {
    let bps = slot.is_multiple_of(4).then_some(700 + (slot % 100) as u16);
    let reward = Reward {
        pubkey: [1; 32],
        lamports: -5,
        post_balance: slot,
        kind: if bps.is_some() { RewardKind::DeactivatedStake } else { RewardKind::Fee },
        commission: bps.is_none().then_some(7),
        commission_bps: bps,
    };
    BlockMeta {
        slot,
        parent: slot.saturating_sub(2),
        height: slot / 2,
        time: slot as i64 * 400,
        blockhash: [slot as u8; 32],
        previous_blockhash: [slot as u8 ^ 1; 32],
        transaction_count,
        rewards: if slot.is_multiple_of(3) { vec![] } else { vec![reward] },
        num_partitions: slot.is_multiple_of(5).then_some(slot * 100),
    }
}

/// The expected contents: each block's transactions, in order. Slots are even.
type Model = BTreeMap<u64, Vec<(TestTransaction, TransactionMeta)>>;

fn slot_of(number: usize) -> u64 {
    2 * (number as u64 + 1)
}

/// Writes the blocks from number `from` on as banks and store would: a block's batches in any order, some of them
/// before the previous block is closed.
fn write(history: &mut History, blocks: &Blocks, from: usize, model: &mut Model) {
    let mut writer = BatchWriter::new(history.key());
    let mut batches: Vec<Vec<Vec<u8>>> = vec![];
    for (number, microblocks) in blocks.iter().enumerate() {
        let (slot, mut first) = (slot_of(number), 0);
        let mut of_block = vec![];
        for (id, txns) in microblocks.iter().enumerate() {
            of_block.push(batch(&mut writer, slot, id as u64 * 3, first, txns));
            first += txns.len() as u32;
        }
        let middle = of_block.len() / 2;
        of_block.rotate_left(middle);
        batches.push(of_block);
    }
    for number in from..blocks.len() {
        let slot = slot_of(number);
        let mine: Vec<_> = std::mem::take(&mut batches[number]);
        mine.iter().for_each(|batch| history.append(batch));
        let ahead = batches.get_mut(number + 1).filter(|ahead| ahead.len() > 2);
        ahead.and_then(Vec::pop).iter().for_each(|batch| history.append(batch));
        let txns: Vec<&TestTransaction> = blocks[number].iter().flatten().collect();
        assert_eq!(history.seen(slot), txns.len() as u64);
        history.close(&block_of(slot, txns.len() as u32)).unwrap();
        let metas = (0..).zip(txns).map(|(n, made)| (made.clone(), meta_of(made, slot, n)));
        model.insert(slot, metas.collect());
    }
    wait_until("all is indexed", || history.indexed_slot() == history.last_slot());
}

/// Compares every answer with the model's.
fn check(reader: &HistoryReader, model: &Model) {
    for (&slot, txns) in model {
        assert_eq!(reader.block(slot).unwrap(), Some(block_of(slot, txns.len() as u32)));
        assert_eq!(reader.block_time(slot).unwrap(), Some(slot as i64 * 400));
        let metas: Vec<TransactionMeta> = txns.iter().map(|(_, meta)| meta.clone()).collect();
        assert_eq!(reader.transactions(slot).unwrap().as_ref(), Some(&metas), "slot {slot}");
        for (index, meta) in (0..).zip(metas) {
            let found = reader.transaction(&meta.signature).unwrap().unwrap();
            let place = TransactionPosition { slot, index };
            assert_eq!(found, LocatedTransaction { place, block_time: slot as i64 * 400, meta });
        }
    }
    let absent: Signature = [0; 64];
    assert_eq!(reader.transaction(&absent).unwrap(), None);
    let end = model.last_key_value().map_or(0, |(slot, _)| *slot);
    assert_eq!((reader.block(end + 1).unwrap(), reader.transactions(end + 2).unwrap()), (None, None));
    for n in [0, 3, 100, 200] {
        check_address(reader, model, n, end);
    }
}

fn check_address(reader: &HistoryReader, model: &Model, n: u8, end: u64) {
    let mut all = vec![];
    for (&slot, txns) in model.iter().rev() {
        for (index, (made, meta)) in txns.iter().enumerate().rev() {
            if made.accounts.contains(&n) || (n == 100 && made.loaded > 0) {
                all.push((
                    TransactionPosition { slot, index: index as u32 },
                    meta.signature,
                    meta.result.err(),
                    meta.memo.clone(),
                ));
            }
        }
    }
    let of = |highest, bounds, limit| -> Vec<_> {
        let found = reader.of_address(&address(n), highest, bounds, limit).unwrap();
        found.into_iter().map(|e| (e.place, e.signature, e.err, e.memo)).collect()
    };
    assert_eq!(of(end, (None, None), usize::MAX), all);
    assert_eq!(of(end, (None, None), 3), all[..all.len().min(3)]);
    let (third, two_thirds) = (all.get(all.len() / 3).map(|e| e.0), all.get(all.len() * 2 / 3).map(|e| e.0));
    let between =
        |e: &&(TransactionPosition, _, _, _)| third.is_none_or(|b| e.0 < b) && two_thirds.is_none_or(|u| e.0 > u);
    assert_eq!(of(end, (third, two_thirds), usize::MAX), all.iter().filter(between).cloned().collect::<Vec<_>>());
    let low = end / 2;
    let old: Vec<_> = all.iter().filter(|e| e.0.slot <= low).cloned().collect();
    assert_eq!(of(low, (None, None), usize::MAX), old);
}

/// Copies the files as a kill leaves them. A table that is being written may get its final name meanwhile, or its
/// segment may be deleted: it is then as if the kill had come before the one or after the other.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        match fs::copy(&path, to.join(path.file_name().unwrap())) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
}

/// Total size of the files that exist now.
fn bytes_in(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().filter_map(|e| Some(e.unwrap().metadata().ok()?.len())).sum()
}

fn last_log(dir: &Path) -> std::path::PathBuf {
    let logs = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().unwrap() == "history");
    logs.max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn equals_a_model_through_restarts_and_kills(blocks in blocks(), stop in 0.0..1.0f64, cut in 0.0..1.0f64) {
        let dir = tempfile::tempdir().unwrap();
        let mut model = Model::new();
        let half = (blocks.len() as f64 * stop) as usize;
        let mut history = History::open(dir.path(), config(), u64::MAX).unwrap();
        write(&mut history, &blocks[..half].to_vec(), 0, &mut model);
        check(&history.reader(), &model);
        drop(history);
        let mut history = History::open(dir.path(), config(), u64::MAX).unwrap();
        prop_assert_eq!(history.last_slot(), model.last_key_value().map_or(0, |(slot, _)| *slot));
        check(&history.reader(), &model);
        write(&mut history, &blocks, half, &mut model);
        check(&history.reader(), &model);
        // A kill: the files in their current state, the last truncated anywhere. The lost part is written again.
        let killed = tempfile::tempdir().unwrap();
        copy(dir.path(), killed.path());
        let log = last_log(killed.path());
        let len = fs::metadata(&log).unwrap().len();
        fs::OpenOptions::new().write(true).open(&log).unwrap().set_len((len as f64 * cut) as u64).unwrap();
        let mut again = History::open(killed.path(), config(), u64::MAX).unwrap();
        let mut left: Model = model.range(..=again.last_slot()).map(|(s, t)| (*s, t.clone())).collect();
        check(&again.reader(), &left);
        let from = left.len();
        write(&mut again, &blocks, from, &mut left);
        prop_assert_eq!(left.len(), model.len());
        check(&again.reader(), &model);
        drop(again);
        // Above this block the chain has taken another fork.
        let keep = slot_of(blocks.len() / 2);
        model.retain(|slot, _| *slot <= keep);
        let kept = History::open(killed.path(), config(), keep).unwrap();
        check(&kept.reader(), &model);
    }
}

/// Transfers with logs, enough of them for several segments.
fn many(count: usize) -> Blocks {
    let made = TestTransaction { accounts: vec![0, 3], fails: true, log_bytes: 3_000, has_tokens: true, loaded: 1 };
    vec![vec![vec![made; 4]; 2]; count]
}

#[test]
fn a_log_cut_at_any_byte_opens_with_its_whole_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let small = TestTransaction { accounts: vec![0], fails: false, log_bytes: 0, has_tokens: false, loaded: 0 };
    let blocks = vec![vec![vec![small]]; 3];
    let (mut model, mut ends) = (Model::new(), vec![]);
    let mut history = History::open(dir.path(), config(), u64::MAX).unwrap();
    for count in 1..=blocks.len() {
        write(&mut history, &blocks[..count].to_vec(), count - 1, &mut model);
        ends.push(fs::metadata(last_log(dir.path())).unwrap().len());
    }
    drop(history);
    for cut in 0..=ends[2] {
        let torn = tempfile::tempdir().unwrap();
        copy(dir.path(), torn.path());
        fs::OpenOptions::new().write(true).open(last_log(torn.path())).unwrap().set_len(cut).unwrap();
        let history = History::open(torn.path(), config(), u64::MAX).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let left: Model = model.iter().take(whole).map(|(s, t)| (*s, t.clone())).collect();
        check(&history.reader(), &left);
    }
}

#[test]
fn the_oldest_segments_go() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { limit_size: 8 * SEGMENT_SIZE_MIN, sync: true, ..config() };
    let blocks = many(60);
    let mut model = Model::new();
    let mut history = History::open(dir.path(), config.clone(), u64::MAX).unwrap();
    write(&mut history, &blocks, 0, &mut model);
    let on_disk = || bytes_in(dir.path());
    let reader = history.reader();
    wait_until("old segments go", || {
        reader.first_slot().is_some_and(|first| first > 2) && on_disk() <= config.limit_size
    });
    let reopened = |history: History| {
        drop(history);
        History::open(dir.path(), config.clone(), u64::MAX).unwrap()
    };
    for history in [history].into_iter().map(reopened) {
        let reader = history.reader();
        let first = reader.first_slot().unwrap();
        assert_eq!(history.disk_bytes(), on_disk());
        assert!(on_disk() <= config.limit_size && on_disk() > config.limit_size / 4);
        assert_eq!(reader.transaction(&meta_of(&blocks[0][0][0], 2, 0).signature).unwrap(), None);
        // The first remaining block may have lost batches that preceded the closing of the previous block.
        let left: Model = model.range(first + 2..).map(|(s, t)| (*s, t.clone())).collect();
        assert!(left.len() > 5);
        left.keys().for_each(|slot| assert!(reader.transactions(*slot).unwrap().is_some()));
        let listed = reader.of_address(&address(3), u64::MAX, (None, None), 8 * left.len()).unwrap();
        assert_eq!(listed.len(), 8 * left.len());
    }
}

/// A closed log of several segments, and its contents.
fn closed(blocks: &Blocks) -> (tempfile::TempDir, Model) {
    let (dir, mut model) = (tempfile::tempdir().unwrap(), Model::new());
    let mut history = History::open(dir.path(), config(), u64::MAX).unwrap();
    write(&mut history, blocks, 0, &mut model);
    drop(history);
    (dir, model)
}

#[test]
fn a_damaged_table_is_made_again() {
    let (dir, model) = closed(&many(40));
    let table = table_path(dir.path(), 1);
    let good = fs::read(&table).unwrap();
    for byte in [100, 5_000, good.len() - 1] {
        let mut bad = good.clone();
        bad[byte] ^= 1;
        fs::write(&table, &bad).unwrap();
        let checked = history_check(dir.path());
        let history = History::open(dir.path(), config(), u64::MAX).unwrap();
        check(&history.reader(), &model);
        let Recovery { damage, torn, rebuilt_tables } = history.recovery().clone();
        assert_eq!((damage, torn, rebuilt_tables.len()), (vec![], None, 1));
        assert_eq!(rebuilt_tables[0].offset as usize, byte / 4096 * 4096);
        assert_eq!(checked.damage, rebuilt_tables);
        assert_eq!(fs::read(&table).unwrap(), good);
    }
    assert_eq!(history_check(dir.path()).damage, []);
}

fn history_check(dir: &Path) -> HistoryCheck {
    super::check(dir, &GENESIS, |_| ()).unwrap()
}

/// Damage is reported with the blocks around it, and the log behind it remains.
#[test]
fn damage_before_good_records_is_no_torn_tail() {
    let blocks = many(40);
    let (dir, model) = closed(&blocks);
    let last = last_log(dir.path());
    let damaged = |at: u64| {
        let copied = tempfile::tempdir().unwrap();
        copy(dir.path(), copied.path());
        Mutation::Flip { at, bit: 3 }.apply(&copied.path().join(last.file_name().unwrap())).unwrap();
        let history = History::open(copied.path(), config(), u64::MAX).unwrap();
        (history.recovery().clone(), history.last_slot(), copied)
    };
    let end = *model.last_key_value().unwrap().0;
    // In its header.
    let (found, last_slot, _) = damaged(20);
    assert_eq!((found.torn, found.damage.len(), last_slot), (None, 1, end));
    let Damage { file, offset, length, after_slot, until_slot, .. } = &found.damage[0];
    assert_eq!((file.file_name(), *offset, *length), (last.file_name(), 0, HEAD_SIZE));
    assert!(*after_slot > 2 && *after_slot < end && until_slot.is_some_and(|until| until > *after_slot));
    // In its last record.
    let (found, last_slot, _) = damaged(fs::metadata(&last).unwrap().len() - 1);
    assert_eq!((found.damage, last_slot), (vec![], end - 2));
    assert_eq!(found.torn.unwrap().after_slot, end - 2);
}

/// Every kind of damage at every kind of place in every kind of file: the log reports everything that it lost, and is
/// complete after a rewrite from the block before the first damage.
#[test]
fn no_damage_is_silent() {
    let blocks = many(30);
    let (dir, model) = closed(&blocks);
    let (mut files, last) = (vec![log_path(dir.path(), 1), log_path(dir.path(), 2)], last_log(dir.path()));
    files.extend([last, table_path(dir.path(), 1), table_path(dir.path(), 2)]);
    let head = HEAD_SIZE;
    for file in files {
        let length = fs::metadata(&file).unwrap().len();
        for mutation in Mutation::around(&[0, head, 2 * head + 16, length / 2, length - 2], length) {
            let copied = tempfile::tempdir().unwrap();
            copy(dir.path(), copied.path());
            if mutation.apply(&copied.path().join(file.file_name().unwrap())).unwrap() {
                let what = format!("{}: {mutation}", file.display());
                survives(copied.path(), &blocks, &model, &what);
            }
        }
    }
}

fn survives(dir: &Path, blocks: &Blocks, model: &Model, what: &str) {
    let checked = history_check(dir);
    let history = History::open(dir, config(), u64::MAX).unwrap();
    let found = history.recovery().clone();
    assert_eq!(checked.damage.len(), found.damage.len() + found.rebuilt_tables.len(), "{what}");
    let within = |d: &Damage, slot: u64| slot > d.after_slot && d.until_slot.is_none_or(|until| slot < until);
    for (slot, txns) in model {
        let metas: Vec<TransactionMeta> = txns.iter().map(|(_, meta)| meta.clone()).collect();
        let is_there = history.reader().transactions(*slot).is_ok_and(|there| there == Some(metas));
        let is_said = *slot > history.last_slot() || found.damage.iter().any(|damage| within(damage, *slot));
        assert!(is_there || is_said, "{what}: slot {slot} is gone: {found:?}");
    }
    let after = found.damage.iter().map(|damage| damage.after_slot).min().unwrap_or(u64::MAX);
    drop(history);
    let mut again = History::open(dir, config(), after).unwrap();
    assert!(again.last_slot() <= after, "{what}");
    let mut left: Model = model.range(..=again.last_slot()).map(|(s, t)| (*s, t.clone())).collect();
    check(&again.reader(), &left);
    let from = left.len();
    write(&mut again, blocks, from, &mut left);
    check(&again.reader(), model);
    drop(again);
    assert_eq!(history_check(dir), HistoryCheck { torn: None, damage: vec![], ..history_check(dir) }, "{what}");
}

#[test]
fn a_missing_segment_is_damage() {
    let (dir, model) = closed(&many(40));
    fs::remove_file(log_path(dir.path(), 2)).unwrap();
    let history = History::open(dir.path(), config(), u64::MAX).unwrap();
    let found = &history.recovery().damage[0];
    assert_eq!((&found.file, found.what), (&log_path(dir.path(), 2), "the segment's file is missing"));
    let (after, until) = (found.after_slot, found.until_slot.unwrap());
    for (slot, txns) in &model {
        let there =
            history.reader().transactions(*slot).is_ok_and(|there| there.is_some_and(|t| t.len() == txns.len()));
        assert_eq!(there, *slot <= after || *slot >= until, "slot {slot} of {found:?}");
    }
    drop(history);
    assert_eq!(History::open(dir.path(), config(), after).unwrap().last_slot(), after);
}

#[test]
fn logs_of_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(History::open(dir.path(), config(), 0).unwrap());
    let other = Config { genesis_hash: [1; 32], ..config() };
    assert!(matches!(History::open(dir.path(), other, 0), Err(HistoryError::OtherChain { .. })));
    assert!(History::open(dir.path(), config(), 0).is_ok());
}

#[test]
fn a_batch_too_long_loses_its_logs_and_nothing_else() {
    let mut writer = BatchWriter::new(HistoryKey::new(1));
    let long = TestTransaction { accounts: vec![0], fails: false, log_bytes: 7 << 20, has_tokens: true, loaded: 1 };
    let bytes = batch(&mut writer, 5, 6, 0, &vec![long.clone(); 4]);
    assert!(bytes.len() < BATCH_SIZE_MAX + 4096);
    let read = Batch::read(&bytes);
    let metas: Vec<TransactionMeta> = read.entries().map(|entry| entry.meta().unwrap()).collect();
    assert_eq!(((read.slot, read.microblock, read.count), metas.len()), ((5, 6, 4), 4));
    assert_eq!(metas[1], meta_of(&long, 5, 1));
    let whole = meta_of(&long, 5, 3);
    assert_eq!(metas[3].details.as_ref().unwrap().logs, ["Log truncated"]);
    assert_eq!(TransactionMeta { details: whole.details.clone(), ..metas[3].clone() }, whole);
}
