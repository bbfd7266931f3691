//! Writes a ledger: `genesis.bin.zst`, and `blocks.jsonl.zst` with a block on each line.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use solana_genesis_config::GenesisConfig;
use solana_runtime::bank::Bank;

/// The level of compression: the ledgers are checked in, so bytes count and seconds do not.
const LEVEL: i32 = 19;

/// Writes the blocks of a ledger, or counts them only.
pub struct Recorder {
    blocks: Option<zstd::Encoder<'static, File>>,
    pub count: u64,
}

impl Recorder {
    /// Writes into the folder `out`, which must be there.
    pub fn new(out: &Path, genesis: &GenesisConfig) -> io::Result<Self> {
        let genesis = bincode::serialize(genesis).map_err(io::Error::other)?;
        std::fs::write(out.join("genesis.bin.zst"), zstd::encode_all(&genesis[..], LEVEL)?)?;
        let mut blocks = zstd::Encoder::new(File::create(out.join("blocks.jsonl.zst"))?, LEVEL)?;
        blocks.long_distance_matching(true)?;
        blocks.include_checksum(true)?;
        Ok(Self { blocks: Some(blocks), count: 0 })
    }

    /// A recorder that writes nothing.
    pub fn silent() -> Self {
        Self { blocks: None, count: 0 }
    }

    /// Adds a frozen bank.
    pub fn block(&mut self, bank: &Bank, parent: u64, txs: Vec<Value>, refused: Vec<Value>, hard_fork: bool) {
        self.count += 1;
        let Some(blocks) = &mut self.blocks else { return };
        let mut line = json!({
            "slot": bank.slot(),
            "parent": parent,
            "height": bank.block_height(),
            "leader": bank.leader_id().to_string(),
            "blockhash": bank.last_blockhash().to_string(),
            "bank_hash": bank.hash().to_string(),
            "time": bank.clock().unix_timestamp,
            "capitalization": bank.capitalization(),
            "txs": txs,
            "refused": refused,
            "rewards": rewards(bank),
        });
        if hard_fork {
            line["hard_fork"] = Value::from(true);
        }
        writeln!(blocks, "{line}").expect("the folder can be written");
    }

    /// Finishes the file's compression, and syncs it to disk.
    pub fn finish(self) -> io::Result<()> {
        self.blocks.map_or(Ok(()), |blocks| blocks.finish()?.sync_all())
    }
}

/// The rewards by kind and address: the bank lists those of vote accounts in the order of a hash map.
fn rewards(bank: &Bank) -> Vec<Value> {
    let mut rewards = bank.rewards.read().expect("no thread panicked").clone();
    rewards.sort_by_key(|(key, reward)| (reward.reward_type.to_string(), *key));
    let lines = rewards.iter().map(|(key, reward)| {
        json!({
            "key": key.to_string(),
            "lamports": reward.lamports,
            "balance": reward.post_balance,
            "kind": format!("{:?}", reward.reward_type),
            "commission_bps": reward.commission_bps,
        })
    });
    lines.collect()
}
