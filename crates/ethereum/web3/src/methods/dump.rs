//! Dumps both ledgers of a chain as one text, and loads it.
//!
//! reads   the newest state of both ledgers; a text of such
//! writes  hexadecimal digits of a genesis in geth's JSON form, which `hearth evm run --state` reads too, and geth but
//!         for the outputs; a block that sets what a text holds
//! memory  the text, at most [`Limits::answer_bytes`](crate::Limits)
//! drops   states that would be longer: error -32003
//! source  anvil's methods of these names; the text within is our own

use alloy_primitives::Bytes;
use hearth_evm::chain::Chain;
use hearth_evm::genesis::dump;
use hearth_evm_utxo::{UtxoChain, genesis};

use super::Caller;
use crate::failure::Failure;
use crate::json;
use crate::params::Params;

/// Minimum length of an account or a slot in the text.
const ENTRY_BYTES: usize = 64;

impl Caller<'_> {
    pub(super) async fn dump_state(&self, params: Params<'_>) -> Result<String, Failure> {
        // Anvil's parameter says whether to keep older states; our dump has none.
        params.at_most(1)?;
        let bytes_max = self.api.config.limits.answer_bytes;
        self.blocking(move |chain: &Chain| {
            let entries_max = bytes_max / (2 * ENTRY_BYTES);
            let outputs = if chain.side().is_some() { chain.outputs().totals().outputs } else { 0 };
            let outputs = usize::try_from(outputs).unwrap_or(usize::MAX);
            let entries = chain.view().dump().take(entries_max + 1).count();
            if entries.saturating_add(outputs) > entries_max {
                return Err(Failure::too_large());
            }
            let text = chain.dump(dump::newest_rules(chain.chain_id())).map_err(Failure::chain)?.to_string();
            if 2 * text.len() > bytes_max {
                return Err(Failure::too_large());
            }
            Ok(json::data(text.as_bytes()))
        })
        .await
    }

    pub(super) async fn load_state(&self, params: Params<'_>) -> Result<String, Failure> {
        let text: Bytes = params.at_most(1)?.required(0)?;
        let text = std::str::from_utf8(&text).map_err(|error| Failure::argument(0, error))?;
        let genesis = genesis::from_json(text).map_err(|error| Failure::argument(0, error))?;
        self.blocking(move |chain: &Chain| chain.load(&genesis).map_err(Failure::chain)).await?;
        Ok("true".into())
    }
}
