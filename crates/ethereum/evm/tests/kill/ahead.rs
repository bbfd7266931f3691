//! A node that is killed while it executes blocks ahead, again and again: what was acknowledged is in a block or waits.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_primitives::{Address, TxKind, U256};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::genesis::Genesis;
use hearth_evm::tx::{SharedTx, Tx};
use hearth_testkit::wait_until;

const CHAIN: u64 = 31337;
const DIRECTORY: &str = "HEARTH_EVM_KILL_AHEAD_TEST";
const ROUNDS: u64 = 3;
const SENDERS: u8 = 4;
/// Transactions of each account in a burst.
const BURST: u64 = 50;

fn account(number: u8) -> Address {
    Address::repeat_byte(number)
}

fn open(directory: &Path, block_time: BlockTime) -> Chain {
    let accounts: Vec<_> = (1..=SENDERS).map(|number| (account(number), U256::from(10).pow(U256::from(50)))).collect();
    let dir = Some(directory.to_owned());
    let genesis = Genesis::dev(CHAIN, &accounts, 3_000_000);
    Chain::open(ChainConfig { dir, block_time, threads: 2, ..ChainConfig::new(genesis) }).unwrap()
}

fn transfer(from: u8, nonce: u64) -> SharedTx {
    let to = TxKind::Call(Address::repeat_byte(0x77));
    // More than the base fee ever comes to here, though every block is full.
    let gas_price = 10u128.pow(24);
    let tx = TxLegacy { chain_id: Some(CHAIN), nonce, gas_price, gas_limit: 21_000, to, ..Default::default() };
    let sender = account(from);
    Arc::new(Tx::with_sender(tx.into_signed(Tx::impersonated_signature(&sender)).into(), sender))
}

/// The nonce that an account continues with: all below it are in blocks, or wait.
fn next(chain: &Chain, from: u8) -> u64 {
    let nonce = chain.view().account(&account(from)).map_or(0, |account| account.nonce);
    chain.pool().next_nonce(&account(from), nonce)
}

/// Sends until it is killed. A test of its own so that it can be started by name; without a directory it does nothing.
#[test]
fn sends_bursts() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let chain = open(&directory, BlockTime::Instant);
    let first = (1..=SENDERS).map(|from| next(&chain, from)).max().unwrap();
    for from in 1..=SENDERS {
        chain.submit_recovered((next(&chain, from)..first).map(|nonce| transfer(from, nonce)).collect());
    }
    for burst in 0.. {
        let nonces = first + burst * BURST..first + (burst + 1) * BURST;
        let txs = nonces.clone().flat_map(|nonce| (1..=SENDERS).map(move |from| transfer(from, nonce)));
        let taken = chain.submit_recovered(txs.collect()).iter().all(Result::is_ok);
        assert!(taken, "{:?}", chain.failure());
        println!("\ntaken {} ahead {}", nonces.end, chain.metrics().ahead);
        // So much waits that blocks follow each other, and no more.
        wait_until("fewer transactions", || chain.pool().status().pending <= 2_000 || chain.failure().is_some());
    }
}

#[test]
fn acknowledged_survives_a_kill_during_speculation() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ahead::sends_bursts", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let reported = lines.filter_map(|line| {
            let (taken, ahead) = line.strip_prefix("taken ")?.split_once(" ahead ")?;
            Some((taken.parse::<u64>().ok()?, ahead.parse::<u64>().ok()?))
        });
        let mut reported = reported.skip_while(|(_, ahead)| *ahead < 4 * round);
        let (taken, _) = reported.next().expect("the process ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        let chain = open(directory.path(), BlockTime::Manual);
        assert!((1..=SENDERS).all(|from| next(&chain, from) >= taken), "round {round}: what is acknowledged is there");
        for number in 1..=chain.head().number() {
            let (block, parent) = (chain.block(number).unwrap(), chain.block(number - 1).unwrap());
            assert_eq!(block.header.parent_hash, parent.hash);
        }
        chain.stop();
    }
}
