//! Both ledgers of a chain as a file, to begin another with.
//!
//! reads   the newest state; the file's rules, where there is one already
//! writes  a genesis in geth's JSON form, with the ledger of outputs where there is anything in it: what `--genesis`
//!         and `--state` read
//! memory  accounts and outputs as JSON
//!
//! A chain that begins so begins with block 0; its time goes on from that of the newest block.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use hearth_evm::chain::Chain;
use hearth_evm::genesis::dump::newest_rules;
use serde_json::Value;

use super::EvmError;

/// Writes accounts and outputs as they are after the newest block. The file is replaced as a whole, or left as it is.
pub fn write(path: &Path, chain: &Chain) -> Result<(), EvmError> {
    let failed = |what: String| EvmError::File { option: "--state", path: path.to_owned(), what };
    let before = fs::read(path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let config = before.and_then(|mut file| file.get_mut("config").map(Value::take));
    let genesis = chain.dump(config.unwrap_or_else(|| newest_rules(chain.chain_id())))?;
    let next = path.with_extension("next");
    let write = || {
        let mut out = BufWriter::new(File::create(&next)?);
        serde_json::to_writer(&mut out, &genesis)?;
        out.into_inner()?.sync_all()?;
        fs::rename(&next, path)
    };
    write().map_err(|error| failed(format!("cannot write it: {error}")))
}

/// A genesis of what a chain has, and the newest rules.
pub fn of(chain: &Chain) -> Result<Value, EvmError> {
    Ok(chain.dump(newest_rules(chain.chain_id()))?)
}
