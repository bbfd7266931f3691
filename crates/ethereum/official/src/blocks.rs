//! Blockchain and transition tests: blocks that a chain must take or refuse, one after the other.
//!
//! reads   a case: the genesis, the blocks' bytes, which of them are wrong
//! writes  how the case ended
//! memory  a chain, and the blocks given so far
//!
//! Each block is imported with both paths, in order and on two threads, and executed once more ahead of its parent's
//! hash where its parent is a block of the case. A test may have a sibling of the newest block. That is given to a
//! chain rebuilt up to its parent: no chain here has two branches.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::B256;
use hearth_evm::chain::{BlockTime, Chain, ChainConfig, ImportedBlock, Paths};
use hearth_evm::genesis::Genesis;
use hearth_evm::import::{GivenBlock, decode_block};
use hearth_evm::state::Changes;
use serde_json::Value;

use crate::score::Ending;
use crate::{accounts, forks, hex};

/// Threads of the parallel path.
const THREADS: usize = 2;

/// Imports the blocks of a case; returns its fork, no further name, and the ending.
pub fn run(case: &Value) -> Vec<(String, String, Ending)> {
    let network = case.get("network").and_then(Value::as_str).unwrap_or_default();
    let ending = match genesis(network, case) {
        Ok(Some(genesis)) => blocks(genesis, case).into(),
        Ok(None) => Ending::Unrun(forks::BEFORE_MERGE),
        Err(why) => Ending::Failed(why),
    };
    vec![(network.to_owned(), String::new(), ending)]
}

/// The genesis of a case; nothing where its fork is before the merge.
fn genesis(network: &str, case: &Value) -> Result<Option<Genesis>, String> {
    let Some(rules) = forks::genesis(network, case.get("config"))? else { return Ok(None) };
    let bytes = hex::bytes(hex::text(case, "genesisRLP")?)?;
    let header = decode_block(&bytes, 0).map_err(|why| format!("genesisRLP: {why}"))?.header;
    Ok(Some(Genesis {
        alloc: accounts::of(case)?,
        gas_limit: header.gas_limit,
        base_fee: header.base_fee_per_gas.unwrap_or_default(),
        timestamp: header.timestamp,
        extra_data: header.extra_data,
        coinbase: header.beneficiary,
        difficulty: header.difficulty,
        mix_hash: header.mix_hash,
        nonce: u64::from_be_bytes(header.nonce.0),
        parent_hash: header.parent_hash,
        excess_blob_gas: header.excess_blob_gas.unwrap_or_default(),
        blob_gas_used: header.blob_gas_used.unwrap_or_default(),
        ..rules
    }))
}

fn blocks(genesis: Genesis, case: &Value) -> Result<(), String> {
    let mut line = CaseChain::new(genesis)?;
    let wanted = hex::word(hex::text(case.get("genesisBlockHeader").ok_or("it has no genesis")?, "hash")?)?;
    if line.chain.head().hash != wanted {
        return Err(format!("block 0 is {}, not {wanted}", line.chain.head().hash));
    }
    let blocks = case.get("blocks").and_then(Value::as_array).ok_or("it has no `blocks`")?;
    for (index, block) in blocks.iter().enumerate() {
        let fields = block.as_object().ok_or("a block is not an object")?;
        let refused = fields.keys().any(|name| name.starts_with("expectException"));
        let bytes = hex::bytes(hex::text(block, "rlp")?)?;
        let given =
            decode_block(&bytes, 0).map_err(|why| BlockError::Block(why.to_string())).and_then(|it| line.take(it));
        match (given, refused) {
            (Ok(()), false) | (Err(BlockError::Block(_)), true) => {}
            (Ok(()), true) => return Err(format!("block {index} of the case is taken: it must be refused")),
            (Err(BlockError::Block(why)), false) => return Err(format!("block {index} of the case is refused: {why}")),
            (Err(BlockError::Program(why)), _) => return Err(format!("block {index} of the case: {why}")),
        }
    }
    let last = hex::word(hex::text(case, "lastblockhash")?)?;
    if last == wanted || line.given.contains_key(&last) {
        return Ok(());
    }
    Err(format!("the last block, {last}, is none of those that were taken"))
}

/// Why a block is not taken.
enum BlockError {
    /// It breaks a rule.
    Block(String),
    /// Its paths do not agree, or it cannot be kept.
    Program(String),
}

/// The chain of a case, up to the block that was taken last.
struct CaseChain {
    genesis: Genesis,
    chain: Chain,
    /// The changes by its newest block; nothing where that is block 0.
    changes: Option<Arc<Changes>>,
    /// Blocks taken so far, by hash.
    given: HashMap<B256, GivenBlock>,
}

impl CaseChain {
    fn new(genesis: Genesis) -> Result<Self, String> {
        let chain = open(&genesis)?;
        Ok(Self { genesis, chain, changes: None, given: HashMap::new() })
    }

    /// Takes a block after whichever block taken before it names as its parent.
    fn take(&mut self, block: GivenBlock) -> Result<(), BlockError> {
        let parent = block.header.parent_hash;
        if parent != self.chain.head().hash && (self.given.contains_key(&parent) || self.is_zero(parent)) {
            self.go_to(parent)?;
        }
        let (hash, kept) = (block.hash, block.clone());
        let imported = self.import(block)?;
        if let Some(before) = self.changes.replace(imported.changes) {
            self.ahead(before)?;
        }
        self.given.insert(hash, kept);
        Ok(())
    }

    fn import(&self, block: GivenBlock) -> Result<ImportedBlock, BlockError> {
        use hearth_evm::chain::ImportError::Invalid;
        use hearth_evm::import::InvalidBlock;
        self.chain.import(block, Paths::Both(THREADS)).map_err(|error| match error {
            Invalid { why: why @ InvalidBlock::Paths { .. }, .. } => BlockError::Program(why.to_string()),
            Invalid { why, .. } => BlockError::Block(why.to_string()),
            other => BlockError::Program(other.to_string()),
        })
    }

    /// Executes the newest block ahead of its parent's hash, and compares.
    fn ahead(&self, parent_changes: Arc<Changes>) -> Result<(), BlockError> {
        let Some((ahead, usual)) = self.chain.execute_ahead(parent_changes) else { return Ok(()) };
        let is_same = ahead.verdicts == usual.verdicts
            && ahead.requests == usual.requests
            && ahead.fault == usual.fault
            && ahead.changes == usual.changes;
        if is_same { Ok(()) } else { Err(BlockError::Program("executed ahead it comes to something else".into())) }
    }

    fn is_zero(&self, hash: B256) -> bool {
        self.chain.block(0).is_some_and(|zero| zero.hash == hash)
    }

    /// Rebuilds the chain up to the block of this hash.
    fn go_to(&mut self, hash: B256) -> Result<(), BlockError> {
        let mut path = Vec::new();
        let mut at = hash;
        while let Some(block) = self.given.get(&at) {
            path.push(block.clone());
            at = block.header.parent_hash;
        }
        self.chain.stop();
        self.chain = open(&self.genesis).map_err(BlockError::Program)?;
        self.changes = None;
        for block in path.into_iter().rev() {
            let imported = self.chain.import(block, Paths::Serial);
            self.changes = Some(imported.map_err(|error| BlockError::Program(error.to_string()))?.changes);
        }
        Ok(())
    }
}

impl Drop for CaseChain {
    fn drop(&mut self) {
        self.chain.stop();
    }
}

fn open(genesis: &Genesis) -> Result<Chain, String> {
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis.clone()) };
    Chain::open(config).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex::encode_prefixed;
    use hearth_evm::builders::{account, transfer};
    use serde_json::json;

    use super::*;

    fn bytes_of(chain: &Chain, number: u64) -> String {
        let mut bytes = Vec::new();
        chain.block(number).expect("it is there").encode(&mut bytes);
        encode_prefixed(bytes)
    }

    /// A case of two blocks, and one beside the first of them.
    fn case() -> Value {
        let rich = json!({ "balance": "0xde0b6b3a7640000", "nonce": "0x00", "code": "0x", "storage": {} });
        let pre = json!({ "pre": { (account(7).to_string()): rich } });
        let rules = forks::genesis("Cancun", None).expect("it reads").expect("it is known");
        let genesis = Genesis { alloc: accounts::of(&pre).expect("they read"), ..rules };
        let (one, other) = (open(&genesis).expect("it opens"), open(&genesis).expect("it opens"));
        for nonce in 0..2 {
            assert!(one.submit(vec![transfer(1, 7, nonce).raw])[0].is_ok());
            one.mine().expect("made");
        }
        other.mine().expect("made");
        json!({
            "network": "Cancun",
            "pre": pre["pre"],
            "genesisRLP": bytes_of(&one, 0),
            "genesisBlockHeader": { "hash": one.block(0).expect("zero").hash.to_string() },
            "blocks": [{ "rlp": bytes_of(&one, 1) }, { "rlp": bytes_of(&one, 2) }, { "rlp": bytes_of(&other, 1) }],
            "lastblockhash": other.head().hash.to_string(),
        })
    }

    fn ending(case: &Value) -> Ending {
        run(case).remove(0).2
    }

    #[test]
    fn blocks_are_taken_and_refused_as_the_case_says() {
        let good = case();
        assert_eq!(ending(&good), Ending::Passed);
        let mut refused = good.clone();
        refused["blocks"][1]["expectException"] = json!("why");
        assert!(matches!(ending(&refused), Ending::Failed(why) if why.contains("block 1")));
        // Its parent is missing, so it must be refused.
        let mut early = good.clone();
        early["blocks"] = json!([{ "rlp": good["blocks"][1]["rlp"], "expectException": "why" }, good["blocks"][2]]);
        assert_eq!(ending(&early), Ending::Passed);
        let mut other_last = good.clone();
        other_last["lastblockhash"] = json!("0x07");
        assert!(matches!(ending(&other_last), Ending::Failed(_)));
        let mut old = good;
        old["network"] = json!("London");
        assert!(matches!(ending(&old), Ending::Unrun(_)));
    }
}
