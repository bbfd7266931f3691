//! A node is killed repeatedly, at random moments, while it makes blocks of both ledgers: the total of the native asset
//! stays that of the genesis. `HEARTH_SEED` selects the moments.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, Bytes, U256};
use hearth_crypto::ed25519::SigningKey;
use hearth_evm::builders::{account, rich, riches, signer};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm_utxo::prism::call;
use hearth_evm_utxo::{UtxoChain, genesis};
use hearth_testkit::pause;
use hearth_testkit::random::{Random, seed};
use hearth_utxo::amount::to_wei;
use hearth_utxo::prism::ADDRESS;
use hearth_utxo::tx::{Action, Builder};
use hearth_utxo::{AssetId, Output, OwnerKey};

const CHAIN: u64 = 31337;
const DIRECTORY: &str = "HEARTH_EVM_KILL_TEST";
const ROUNDS: u64 = 6;
const COIN: u64 = 1_000_000;
/// Number of accounts and of owners.
const N: u8 = 3;

fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&[n; 32])
}

fn owner(n: u8) -> OwnerKey {
    OwnerKey(key(n).public_key())
}

fn open(directory: &Path) -> Chain {
    let config = ChainConfig {
        dir: Some(directory.to_owned()),
        block_time: BlockTime::Manual,
        beneficiary: account(N),
        ..ChainConfig::new(genesis::dev(CHAIN, &rich(1..=N), 500_000_000))
    };
    Chain::open(config).unwrap()
}

fn spend(chain: &Chain, n: u8, outputs: Vec<Output>, action: Action) -> Option<Bytes> {
    let (available, key) = (chain.outputs().outputs_of(&owner(n), None, 8), key(n));
    let builder = Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action };
    builder.build().ok().map(Bytes::from)
}

/// Makes blocks until killed. It is a test so that it can be started by name; without a directory it does nothing.
#[test]
fn makes_blocks() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let chain = open(&directory);
    for turn in chain.head().number().. {
        let (from, to) = ((turn % 3) as u8 + 1, (turn / 3 % 3) as u8 + 1);
        let nonce = chain.view().account(&account(from)).map_or(0, |account| account.nonce);
        let nonce = chain.pool().next_nonce(&account(from), nonce);
        let there = call(CHAIN, nonce, 100_000_000_000, &owner(to), COIN + turn, &signer(from)).raw;
        let output = Output { asset: AssetId::NATIVE, amount: 1 + turn, owner: owner(from), memo: Bytes::new() };
        let about = spend(&chain, to, vec![output], Action::Transfer);
        let back = spend(&chain, from, vec![], Action::Prism { recipient: account(to), amount: COIN / 4 });
        // Double spends are rejected, as they must be.
        chain.submit([Some(there), about, back].into_iter().flatten().collect());
        let block = chain.mine().unwrap();
        println!("\nblock {}", block.number());
    }
}

/// Checks the total of the native asset, in wei.
fn check(chain: &Chain) {
    let balance = |of: &Address| chain.view().account(of).map_or(U256::ZERO, |account| account.balance);
    let accounts: U256 = (1..=N).map(|n| balance(&account(n))).sum();
    let totals = chain.outputs().totals();
    let blocks = (1..=chain.head().number()).map(|number| chain.block(number).unwrap());
    let burnt: U256 = blocks.map(|block| U256::from(block.header.gas_used) * U256::from(block.base_fee())).sum();
    let outputs: u128 =
        (1..=N).filter_map(|n| Some(chain.outputs().balances(&owner(n)).get(&AssetId::NATIVE)?.0)).sum();
    assert_eq!(totals.native, outputs);
    assert_eq!(accounts + burnt + to_wei(outputs) + to_wei(totals.burnt), riches() * U256::from(N));
    assert_eq!(balance(&ADDRESS), to_wei(totals.received));
}

#[test]
fn state_survives_a_kill() {
    let seed = seed();
    println!("HEARTH_SEED={seed} cargo test -p hearth-evm-utxo --test crash kill_both");
    let (mut random, directory) = (Random(seed), tempfile::tempdir().unwrap());
    let mut durable = 0;
    for round in 1..=ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill_both::makes_blocks", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut blocks = lines.filter_map(|line| line.strip_prefix("block ")?.parse::<u64>().ok());
        let begun = Instant::now();
        durable = blocks.by_ref().take(3 + round as usize).last().expect("the process ended by itself");
        // Some moment of the next two blocks: whatever is written then is written in part.
        let block_ns = begun.elapsed().as_nanos() as u64 / (3 + round);
        pause(Duration::from_nanos(random.below(2 * block_ns)));
        child.kill().unwrap();
        child.wait().unwrap();
        // The last block that it reported before it ended.
        durable = blocks.last().unwrap_or(durable);
        let chain = open(directory.path());
        assert!(chain.head().number() >= durable, "a block that was reported is there");
        check(&chain);
        chain.stop();
    }
    assert!(durable > 20);
}
