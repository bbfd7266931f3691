//! Dumps both ledgers of a chain to a file, from which another chain can start.
//!
//! reads   the newest state; the rules of an existing file
//! writes  a genesis in geth's JSON form, with the UTXO ledger unless that is empty: the input of `--genesis` and
//!         `--state`
//! memory  accounts and outputs as JSON
//!
//! Such a chain starts at block 0; its time continues from that of the newest block.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use hearth_command::stop::Save;
use hearth_evm::chain::Chain;
use hearth_evm::genesis::dump::newest_rules;
use serde_json::Value;

use super::EvmError;

/// Bytes per write to the file.
const CHUNK_BYTES: usize = 1 << 20;

/// A file that reports the progress of its save.
struct SaveFile<'a> {
    file: File,
    save: &'a Save,
}

impl Write for SaveFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.save.progress();
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes accounts and outputs as they are after the newest block. The file is replaced as a whole, or left as it is.
pub fn write(path: &Path, chain: &Chain, save: &Save) -> Result<(), EvmError> {
    let failed = |what: String| EvmError::File { option: "--state", path: path.to_owned(), what };
    let before = fs::read(path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let config = before.and_then(|mut file| file.get_mut("config").map(Value::take));
    let genesis = chain.dump(config.unwrap_or_else(|| newest_rules(chain.chain_id())))?;
    let next = path.with_extension("next");
    let write = || {
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, SaveFile { file: File::create(&next)?, save });
        serde_json::to_writer(&mut out, &genesis)?;
        let SaveFile { file, .. } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        save.progress();
        file.sync_all()?;
        fs::rename(&next, path)
    };
    write().map_err(|error| failed(format!("cannot write it: {error}")))
}

/// Returns a genesis with a chain's contents and the newest rules.
pub fn of(chain: &Chain) -> Result<Value, EvmError> {
    Ok(chain.dump(newest_rules(chain.chain_id()))?)
}
