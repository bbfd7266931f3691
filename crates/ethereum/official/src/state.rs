//! State tests: one transaction in one state, under one fork after the other.
//!
//! reads   a case: accounts, a block, a transaction's bytes, and the expected result
//! writes  the result of each of its entries
//! memory  the state
//! source  the formats of ethereum/tests and of execution-spec-tests; in both, the hash of block `n` is the hash of the
//!         digits of `n`
//!
//! No block is sealed here, and the system contracts are not called. The parallel path calls them, so it is compared
//! with an execution in order that calls them, too.

use alloy_primitives::{Address, B256, U256, keccak256};
use hearth_evm::blobs::BlobEnv;
use hearth_evm::exec::{BlockEnv, BlockExecution, BlockExecutor, SpecId, Verdict, execute};
use hearth_evm::genesis::Genesis;
use hearth_evm::parallel::execute_on;
use hearth_evm::state::{Accounts, Changes, State, StateError, StateView};
use hearth_evm::tx::{SharedTx, decode_in_block, recover};
use revm::DatabaseRef;
use revm::state::{AccountInfo, Bytecode};
use serde_json::Value;

use crate::score::Ending;
use crate::{accounts, forks, hex};

/// Threads of the parallel path.
const THREADS: usize = 2;

/// A state whose block hashes are those of the tests.
struct View(StateView);

impl DatabaseRef for View {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        self.0.basic_ref(address)
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.0.code_by_hash_ref(hash)
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        self.0.storage_ref(address, slot)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        Ok(keccak256(number.to_string()))
    }
}

impl Accounts for View {}

/// Runs a case: each entry of each fork.
pub fn run(case: &Value) -> Vec<(String, String, Ending)> {
    let mut endings = Vec::new();
    let forks = case.get("post").and_then(Value::as_object);
    for (fork, entries) in forks.into_iter().flatten() {
        let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
        let rules = forks::of_transactions(fork, case.get("config"));
        for (index, entry) in entries.iter().enumerate() {
            let ending = match &rules {
                Ok(Some(rules)) => entry_of(case, entry, rules).into(),
                Ok(None) => Ending::Unrun(forks::BEFORE_MERGE),
                Err(why) => Ending::Failed(why.clone()),
            };
            endings.push((fork.clone(), part(fork, index, entry), ending));
        }
    }
    if endings.is_empty() {
        endings.push((String::new(), String::new(), Ending::Failed("it has no entries".into())));
    }
    endings
}

/// Formats what identifies an entry: the fork, its index, and the indexes of its data, gas and value.
fn part(fork: &str, index: usize, entry: &Value) -> String {
    let of = |name: &str| entry.pointer(&format!("/indexes/{name}")).and_then(Value::as_u64).unwrap_or_default();
    format!(" [{fork} {index}: d{} g{} v{}]", of("data"), of("gas"), of("value"))
}

fn entry_of(case: &Value, entry: &Value, rules: &Genesis) -> Result<(), String> {
    let genesis = Genesis { alloc: accounts::of(case)?, ..rules.clone() };
    let state = State::open(None, &genesis).map_err(|error| error.to_string())?;
    let env = env_of(case, &genesis)?;
    let view = View(state.head());
    let (root, logs) = (hex::word(hex::text(entry, "hash")?)?, hex::word(hex::text(entry, "logs")?)?);
    let is_refused = entry.as_object().is_some_and(|all| all.keys().any(|name| name.starts_with("expectException")));
    let bytes = hex::bytes(hex::text(entry, "txbytes")?)?;
    let tx = match transaction(&bytes) {
        Ok(tx) => tx,
        Err(_) if is_refused => return same("state", state.root_after(&Changes::default()), root),
        Err(why) => return Err(format!("the transaction is refused: {why}")),
    };
    // In order, without system calls.
    let mut executor = BlockExecutor::new(&view, &env);
    let verdict = executor.run(&tx);
    let changes = executor.database().changes.clone();
    match (&verdict, is_refused) {
        (Verdict::Included(_), true) => return Err("the transaction is included: it must be refused".into()),
        (Verdict::Refused(why), false) => return Err(format!("the transaction is refused: {why}")),
        (Verdict::Included(outcome), false) => same("logs", keccak256(alloy_rlp::encode(&outcome.logs)), logs)?,
        (Verdict::Refused(_), true) => {}
    }
    same("state", state.root_after(&changes), root)?;
    both(&state, &view, &env, &[tx])
}

/// Compares a block's execution in order with that on two threads.
fn both(state: &State, view: &View, env: &BlockEnv, txs: &[SharedTx]) -> Result<(), String> {
    let (serial, parallel) = (execute(view, env, txs), execute_on(view, env, txs, THREADS));
    let results = |it: &BlockExecution| (it.verdicts.clone(), it.gas_used, it.requests.clone(), it.fault.clone());
    if results(&serial) != results(&parallel) {
        return Err(format!("on {THREADS} threads the result differs"));
    }
    let (in_order, on_threads) = (state.root_after(&serial.changes), state.root_after(&parallel.changes));
    same("state on threads", on_threads, in_order)
}

fn transaction(bytes: &[u8]) -> Result<SharedTx, String> {
    let decoded = decode_in_block(bytes).map_err(|error| error.to_string())?;
    let mut recovered = recover(vec![decoded]);
    let tx = recovered.pop().ok_or("there is no transaction")?;
    tx.map_err(|error| error.to_string())
}

fn same(what: &str, found: B256, wanted: B256) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found}, not {wanted}")) }
}

fn env_of(case: &Value, genesis: &Genesis) -> Result<BlockEnv, String> {
    let json = case.get("env").ok_or("it has no `env`")?;
    let optional = |name: &str| json.get(name).and_then(Value::as_str);
    let (number, timestamp) = (hex::small_of(json, "currentNumber")?, hex::small_of(json, "currentTimestamp")?);
    let spec = genesis.spec(number, timestamp);
    let least = if spec.is_enabled_in(SpecId::LONDON) { "0x0a" } else { "0x00" };
    let is_merged = spec.is_enabled_in(SpecId::MERGE);
    let random = optional("currentRandom").filter(|_| is_merged).or(optional("currentDifficulty")).unwrap_or("0x00");
    Ok(BlockEnv {
        number,
        timestamp,
        beneficiary: hex::address(hex::text(json, "currentCoinbase")?)?,
        gas_limit: hex::small_of(json, "currentGasLimit")?,
        base_fee: hex::small(optional("currentBaseFee").unwrap_or(least))?,
        prevrandao: hex::word(random)?,
        parent_hash: None,
        parent_beacon_block_root: None,
        chain_id: genesis.chain_id,
        spec,
        limits: genesis.limits,
        blobs: BlobEnv {
            params: genesis.blob_params(number, timestamp),
            excess_gas: hex::small(optional("currentExcessBlobGas").unwrap_or("0x00"))?,
        },
        deposit_contract: genesis.deposit_contract,
    })
}
