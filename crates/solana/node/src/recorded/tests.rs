//! A ledger that was recorded here is replayed, and whatever is altered in it is named.

use std::io::Write;
use std::path::Path;

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::sha256::sha256;
use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::{
    Account, Executor, Genesis, GenesisConfig, InstructionError, Ledger, LedgerConfig, Outcome, TransactionError,
    stakes,
};
use hearth_svm::Svm;
use hearth_wire::base58::encode_32;
use hearth_wire::message::Message;
use hearth_wire::program::system;
use hearth_wire::txn::Txn;

use super::compare::digest;
use super::format::{Block, LandedTransaction, RecordedLedger, RefusedTransaction, Reward, ledgers_below, read_blocks};
use super::{Difference, RecordedError, replay};

const NODE: [u8; 32] = [1; 32];
/// The slots, each with its parent. Slot 2 is left for slot 3 and taken up again by slot 5, slot 3 by slot 7.
const SLOTS: [(u64, u64); 6] = [(1, 0), (2, 1), (3, 1), (5, 2), (6, 5), (7, 3)];
/// The slot of a hard fork, on both lines.
const HARD_FORK: u64 = 5;

fn genesis() -> Genesis {
    let config = GenesisConfig {
        fund_initial_accounts: 3,
        slots_per_epoch: 32,
        extra_accounts: stakes::genesis_accounts(&[3; 32], &[4; 32], &NODE).to_vec(),
        ..GenesisConfig::development(NODE, [2; 32], 1_700_000_000)
    };
    Genesis::create(config, |_| {}).unwrap()
}

fn transfer(from: &SigningKey, to: &SigningKey, lamports: u64, blockhash: &[u8; 32]) -> Vec<u8> {
    let transfer = system::transfer(&from.public_key(), &to.public_key(), lamports);
    let message = Message::compile(&from.public_key(), &[transfer], blockhash).unwrap();
    message.sign_with(|_, bytes| from.sign(bytes))
}

/// Records the last block of a line of slots.
fn record(genesis: &Genesis, line: &[(u64, u64)]) -> Block {
    let config = LedgerConfig { general: Box::new(Svm::new()), hard_forks: vec![HARD_FORK], ..LedgerConfig::default() };
    let ledger = Ledger::new(genesis, config);
    let mut block = ended(&ledger, vec![], vec![]);
    for (slot, parent) in line {
        block = make(&ledger, *slot, *parent);
    }
    block
}

fn make(ledger: &Ledger, slot: u64, parent: u64) -> Block {
    let wallets: Vec<SigningKey> = (0..3).map(funded_account_key).collect();
    let bank = ledger.begin_slot(slot, parent).unwrap();
    let mut executor = Executor::new();
    executor.set_recording(true);
    let mut txs = vec![];
    for (from, to, lamports) in [(0, 1, 1_000 + slot), (2, 1, u64::MAX - slot)] {
        let bytes = transfer(&wallets[from], &wallets[to], lamports, bank.parent_blockhash());
        let load = || [from, to].map(|at| ledger.account(&wallets[at].public_key()));
        let before = load();
        let mut outcomes = vec![];
        bank.execute(&mut executor, &[Txn::parse(&bytes).unwrap()], &mut outcomes);
        let Outcome::Committed(landed) = outcomes[0] else { panic!("{:?}", outcomes[0]) };
        let after = load();
        let changed =
            [from, to].into_iter().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
        txs.push(LandedTransaction {
            err: landed.err,
            fee: landed.fee,
            units: landed.compute_units,
            logs: executor.records()[0].as_ref().unwrap().logs.clone(),
            changed: changed
                .map(|(at, (_, after))| (encode_32(&wallets[at].public_key()).to_string(), digest(after.as_ref())))
                .collect(),
            bytes,
        });
    }
    let unknown = transfer(&wallets[0], &wallets[1], 1, &[9; 32]);
    let refused = vec![
        RefusedTransaction { bytes: unknown, err: TransactionError::BlockhashNotFound, after: Some(0) },
        RefusedTransaction { bytes: txs[0].bytes.clone(), err: TransactionError::AlreadyProcessed, after: None },
    ];
    ledger.end_slot(slot, sha256(&[&slot.to_le_bytes()])).unwrap();
    ended(ledger, txs, refused)
}

/// The newest block as a record of it.
fn ended(ledger: &Ledger, txs: Vec<LandedTransaction>, refused: Vec<RefusedTransaction>) -> Block {
    let (_, bank_hash) = ledger.hash_all();
    let block = ledger.recent_blocks(1)[0];
    let fee = block.reward.map(|paid| Reward {
        key: paid.collector,
        lamports: paid.lamports as i64,
        balance: paid.post_balance,
        kind: "Fee".into(),
    });
    Block {
        slot: block.slot,
        parent: block.parent,
        height: block.height,
        leader: NODE,
        blockhash: block.blockhash,
        bank_hash,
        time: block.unix_timestamp,
        capitalization: ledger.capitalization(),
        txs,
        refused,
        rewards: fee.into_iter().collect(),
        hard_fork: block.slot == HARD_FORK,
    }
}

fn recorded() -> RecordedLedger {
    let genesis = genesis();
    let line_to = |last: u64| {
        let mut line = vec![];
        let mut slot = last;
        while let Some(at) = SLOTS.iter().find(|(of, _)| *of == slot) {
            line.insert(0, *at);
            slot = at.1;
        }
        line
    };
    let slots = std::iter::once(0).chain(SLOTS.map(|(slot, _)| slot));
    let blocks = slots.map(|slot| record(&genesis, &line_to(slot))).collect();
    RecordedLedger { genesis, blocks }
}

#[test]
fn forks_are_left_and_taken_up_again() {
    let recorded = recorded();
    assert_eq!(recorded.blocks.iter().map(|block| block.height).collect::<Vec<_>>(), [0, 1, 2, 2, 3, 4, 3]);
    let failed = TransactionError::InstructionError(0, InstructionError::Custom(1));
    assert_eq!((recorded.blocks[1].txs[0].err, recorded.blocks[1].txs[1].err), (None, Some(failed)));
    assert_eq!(recorded.blocks[1].txs.iter().map(|landed| landed.changed.len()).collect::<Vec<_>>(), [2, 1]);
    let done = replay(&recorded).unwrap_or_else(|difference| panic!("{difference}"));
    assert_eq!((done.blocks, done.transactions, done.refused), (6, 12, 12));
}

/// Alters the block of slot 2 and returns the difference that is found.
fn altered(alter: impl FnOnce(&mut Block)) -> Difference {
    let mut recorded = recorded();
    assert_eq!(recorded.blocks[2].slot, 2);
    alter(&mut recorded.blocks[2]);
    *replay(&recorded).expect_err("it was altered")
}

#[test]
fn difference_is_named() {
    let block = |alter: fn(&mut Block), what: &str| {
        let found = altered(alter);
        assert_eq!((found.slot, &found.transaction), (2, &None), "{found}");
        assert!(found.what.contains(what), "{found}\ndoes not say: {what}");
    };
    block(|block| block.leader = [5; 32], "the leader is Some(");
    block(|block| block.height = 9, "the height is 2 here, 9 as recorded");
    block(|block| block.time += 1, "the time is 1700000000 here, 1700000001 as recorded");
    block(|block| block.rewards[0].lamports = 7, "the leader's fee");
    block(|block| block.rewards.clear(), "the leader's fee");
    block(|block| block.rewards.push(Reward { kind: "Voting".into(), ..block.rewards[0].clone() }), "a reward");
    block(|block| block.capitalization -= 1, "the capitalization is");
    block(|block| block.bank_hash = [8; 32], "the bank's hash is");
    block(|block| block.bank_hash = [8; 32], "SysvarC1ock11111111111111111111111111111111 (clock): ");
    let txn = |alter: fn(&mut Block), number: &str, what: &str| {
        let found = altered(alter);
        let place = found.transaction.clone().unwrap_or_default();
        assert!(found.slot == 2 && place.starts_with(number), "{found}");
        assert!(found.what.contains(what), "{found}\ndoes not say: {what}");
    };
    txn(|block| block.txs[1].fee += 1, "1 (", "its fee is 5000 here, 5001 as recorded");
    txn(|block| block.txs[0].units = 1, "0 (", "its number of compute units is 150 here, 1 as recorded");
    txn(|block| block.txs[1].err = None, "1 (", "its error is Some(InstructionError(0, Custom(1))) here, None as");
    txn(|block| block.txs[0].logs[1] = "x".into(), "0 (", "line 2 of its log");
    txn(|block| drop(block.txs[0].logs.pop()), "0 (", "line 2 of its log");
    txn(|block| block.txs[1].changed.clear(), "1 (", "has the digest");
    txn(|block| block.txs[0].changed.values_mut().for_each(|digest| digest.clear()), "0 (", "as recorded; before: ");
    txn(|block| drop(block.txs[0].changed.insert("x".into(), "y".into())), "0 (", "which it does not name");
    txn(|block| _ = block.txs[0].bytes.pop(), "0", "it is not a transaction here");
    txn(|block| block.txs[0].bytes[1] ^= 1, "0 (", "a signature is invalid here");
    txn(|block| block.refused[0].err = TransactionError::AccountInUse, "that was refused (", "the reason is Blockhash");
    txn(|block| block.refused[1].bytes[1] ^= 1, "that was refused (", "the reason is SignatureFailure here");
    // A transaction that lands is not refused: slot 2's first, before the block has it.
    txn(|block| block.refused[1].after = Some(0), "that was refused (", "it is Committed(");
}

#[test]
fn a_digest_covers_the_whole_account() {
    let account = Account::with_data(5, [6; 32], b"data");
    let expected = sha256(&[&[5, 0, 0, 0, 0, 0, 0, 0], &[6; 32], &[0], b"data"]);
    let hex: String = expected[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest(Some(&account)), hex);
    assert_eq!((digest(None), digest(Some(&Account::default()))), (String::new(), String::new()));
}

/// A line of the file: a block without transactions.
fn line(slot: u64, parent: u64) -> String {
    let hash = encode_32(&[7; 32]).to_string();
    format!(
        "{{\"slot\":{slot},\"parent\":{parent},\"height\":1,\"leader\":\"{hash}\",\"blockhash\":\"{hash}\",\
         \"bank_hash\":\"{hash}\",\"time\":-3,\"capitalization\":4,\"txs\":[],\"refused\":[{{\"tx\":\"AQI=\",\
         \"err\":{{\"InstructionError\":[1,{{\"Custom\":9}}]}}}}],\"rewards\":[]}}\n"
    )
}

fn write(path: &Path, text: &str) {
    let mut file = zstd::Encoder::new(std::fs::File::create(path).unwrap(), 1).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.finish().unwrap();
}

#[test]
fn files_are_read_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocks.jsonl.zst");
    write(&path, &[line(0, 0), line(1, 0), line(4, 1), line(3, 1)].concat());
    let blocks = read_blocks(&path).unwrap();
    assert_eq!(
        blocks.iter().map(|block| (block.slot, block.time)).collect::<Vec<_>>(),
        [(0, -3), (1, -3), (4, -3), (3, -3)]
    );
    let err = TransactionError::InstructionError(1, InstructionError::Custom(9));
    assert_eq!(blocks[0].refused, [RefusedTransaction { bytes: vec![1, 2], err, after: None }]);
    for (lines, wrong) in [
        (vec![line(1, 0)], 1),
        (vec![line(0, 0), line(2, 1)], 2),
        (vec![line(0, 0), line(1, 0), line(1, 0)], 1),
        (vec![line(0, 0), line(1, 0), line(1, 1)], 1),
        (vec![], 0),
    ] {
        write(&path, &lines.concat());
        let found = read_blocks(&path);
        assert!(matches!(found, Err(RecordedError::Order { slot, .. }) if slot == wrong), "{found:?}");
    }
    write(&path, &[line(0, 0), "{}\n".into()].concat());
    assert!(matches!(read_blocks(&path), Err(RecordedError::Line { line: 2, .. })));
    let packed = std::fs::read(&path).unwrap();
    std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    assert!(matches!(read_blocks(&path), Err(RecordedError::Io { .. })));
}

#[test]
fn ledgers_are_found_below_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    assert!(ledgers_below(folder.path()).unwrap().is_empty());
    let said = super::run(folder.path(), &hearth_command::output::CommandOutput::nothing()).unwrap_err().to_string();
    assert!(said.contains("there is no recorded ledger in"), "{said}");
    let ledgers = ["b", "a/c"].map(|name| folder.path().join(name));
    for ledger in &ledgers {
        std::fs::create_dir_all(ledger).unwrap();
        write(&ledger.join("blocks.jsonl.zst"), &line(0, 0));
    }
    let [b, c] = ledgers;
    assert_eq!(ledgers_below(folder.path()).unwrap(), [c, b.clone()]);
    assert_eq!(ledgers_below(&b).unwrap(), [b]);
}
