//! The accounts of a chain as one text, and back.
//!
//! reads   the newest state; a text of such accounts
//! writes  hexadecimal digits of a genesis in geth's JSON form, which `hearth evm run --state` and geth read too; a
//!         block that sets the accounts of a text
//! memory  the text, at most [`Limits::answer_bytes`](crate::Limits)
//! drops   states that would be longer: error -32003
//! source  anvil's methods of these names; the text within is our own

use alloy_primitives::Bytes;
use hearth_evm::chain::Chain;
use hearth_evm::genesis::{Genesis, dump};

use super::Caller;
use crate::failure::Failure;
use crate::json;
use crate::params::Params;

/// No account and no slot takes less, written out.
const ENTRY_BYTES: usize = 64;

impl Caller<'_> {
    pub(super) async fn dump_state(&self, params: Params<'_>) -> Result<String, Failure> {
        // Anvil's takes whether to keep older states; there are none in ours.
        params.at_most(1)?;
        let bytes_max = self.api.config.limits.answer_bytes;
        self.blocking(move |chain: &Chain| {
            let (head, view) = chain.head_and_view();
            let entries_max = bytes_max / (2 * ENTRY_BYTES);
            if view.dump().take(entries_max + 1).count() > entries_max {
                return Err(Failure::too_large());
            }
            let text = dump::of(&head, &view, dump::newest_rules(chain.chain_id())).to_string();
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
        let genesis = Genesis::from_json(text).map_err(|error| Failure::argument(0, error))?;
        self.blocking(move |chain: &Chain| chain.set_accounts(genesis.changes()).map_err(Failure::server)).await?;
        Ok("true".into())
    }
}
