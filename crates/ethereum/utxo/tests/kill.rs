//! A process is killed repeatedly while it makes blocks: the ledger must match the chain's blocks exactly.
//!
//! The chain is a file of this test's: number, hash and header of each block, appended after the ledger's own record.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use alloy_primitives::{Address, B256, U256};
use hearth_crypto::ed25519::SigningKey;
use hearth_testkit::wait_until;
use hearth_utxo::ledger::Head;
use hearth_utxo::prism::Incoming;
use hearth_utxo::tx::{Action, Builder, Checker, decode};
use hearth_utxo::{AssetId, Ledger, Output, OwnerKey};

const CHAIN: u64 = 31337;
const DIRECTORY: &str = "HEARTH_UTXO_KILL_TEST";
/// A block in the chain's file: number, hash, header, units that went to the EVM and came from it, all so far.
const BLOCK: usize = 8 + 32 + 32 + 16 + 16;
const ROUNDS: u64 = 6;

fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&[n; 32])
}

fn owner(n: u8) -> OwnerKey {
    OwnerKey(key(n).public_key())
}

struct Block {
    number: u64,
    hash: B256,
    header: B256,
    withdrawn: u128,
    received: u128,
}

/// Returns the chain's whole blocks, without one that was being written when the process died.
fn blocks(path: &Path) -> Vec<Block> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let (whole, _) = bytes.as_chunks::<BLOCK>();
    let of = |block: &[u8; BLOCK]| Block {
        number: u64::from_le_bytes(*block.first_chunk().unwrap()),
        hash: B256::from_slice(&block[8..40]),
        header: B256::from_slice(&block[40..72]),
        withdrawn: u128::from_le_bytes(*block[72..].first_chunk().unwrap()),
        received: u128::from_le_bytes(*block[88..].first_chunk().unwrap()),
    };
    whole.iter().map(of).collect()
}

fn open(directory: &Path, blocks: &[Block]) -> Ledger {
    let head = blocks.last();
    let head = Head {
        number: head.map_or(0, |block| block.number),
        hash_of: &|number| blocks.get(usize::try_from(number).ok()?.checked_sub(1)?).map(|block| block.hash),
        commitment: head.map(|block| block.header),
    };
    Ledger::open(Some(directory), CHAIN, &head).unwrap()
}

/// Makes blocks until killed. It is a test so that it can be started by name; without a directory it does nothing.
#[test]
fn makes_blocks() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let path = directory.join("chain");
    let known = blocks(&path);
    let ledger = open(&directory, &known);
    let mut chain = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    // A block half written is cut off, as a chain does.
    chain.set_len((known.len() * BLOCK) as u64).unwrap();
    let checker = Checker::default();
    let mut number = known.len() as u64;
    loop {
        number += 1;
        make_block(&ledger, &checker, &mut chain, number);
    }
}

fn make_block(ledger: &Ledger, checker: &Checker, chain: &mut File, number: u64) {
    let from = (number % 3) as u8 + 1;
    let available = ledger.outputs_of(&owner(from), None, 8);
    let mut raw = Vec::new();
    let key = key(from);
    let to =
        Output { asset: AssetId::NATIVE, amount: 1 + number, owner: owner(from % 3 + 1), memo: Default::default() };
    let builder = |outputs, action| Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action };
    let recipient = Address::repeat_byte(from);
    match number % 4 {
        0 => raw.extend(builder(vec![], Action::Prism { recipient, amount: number }).build()),
        _ => raw.extend(builder(vec![to], Action::Transfer).build()),
    }
    let txs: Vec<_> =
        raw.iter().map(|raw| checker.verify(vec![decode(raw, CHAIN).unwrap()]).remove(0).unwrap()).collect();
    let mut session = ledger.begin();
    assert!(session.apply(&txs).iter().all(Result::is_ok));
    let header = session.commitment();
    let transaction = B256::from(U256::from(number));
    let amount = 50_000 + number;
    session.receive(number, &[Incoming { transaction, log: 0, sender: recipient, owner: owner(from), amount }]);
    let (withdrawn, received) = (session.totals().withdrawn, session.totals().received);
    // Blocks of another attempt have other hashes.
    let hash = B256::from(U256::from(std::process::id()) << 64 | U256::from(number));
    ledger.commit(number, hash, session).unwrap();
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(hash);
    bytes.extend(header);
    bytes.extend(withdrawn.to_le_bytes());
    bytes.extend(received.to_le_bytes());
    chain.write_all(&bytes).unwrap();
}

#[test]
fn a_killed_process_loses_and_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chain");
    for round in 1..=ROUNDS {
        let before = blocks(&path).len();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "makes_blocks", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // In the middle of a block, at a different offset each round.
        let enough = ((before + 7) * BLOCK) as u64 + round * 13;
        wait_until("the process makes blocks", || {
            assert!(child.try_wait().unwrap().is_none(), "the process ended by itself");
            std::fs::metadata(&path).map_or(0, |meta| meta.len()) >= enough
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let known = blocks(&path);
        assert!(known.len() > before);
        let (ledger, head) = (open(directory.path(), &known), known.last().unwrap());
        let totals = ledger.totals();
        assert_eq!((totals.withdrawn, totals.received), (head.withdrawn, head.received), "what crossed");
        let held: u128 = (1..=3).filter_map(|n| Some(ledger.balances(&owner(n)).get(&AssetId::NATIVE)?.0)).sum();
        assert_eq!(totals.received, held + totals.burnt + totals.withdrawn, "round {round}");
    }
}
