//! Balances and allowances of ERC-20 tokens, set where their contracts keep them.
//!
//! reads   the newest state, by calls of the token's own view functions
//! writes  one slot
//! memory  what one call reads
//! drops   a token that does not keep the number whole in one slot: error -32000
//! source  anvil's `anvil_dealERC20` and `anvil_setERC20Allowance`; EIP-20
//!
//! The slot is found by trial: among the slots that the view function reads, it is the one whose content the function
//! returns.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::{Address, Bytes, TxKind, U256};
use hearth_evm::exec::{
    AccountOverride, BlockEnv, BlockExtras, Checks, Overlay, SimulateError, SimulationResult, simulate,
};
use revm::DatabaseRef;
use revm::context::TxEnv;

use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::ids::unguessable;
use crate::params::{BlockId, Params};
use crate::trace::{Budget, DeadlineInspector};

/// The selector of ERC-20's `balanceOf(address)`.
const BALANCE_OF: [u8; 4] = [0x70, 0xa0, 0x82, 0x31];
/// The selector of ERC-20's `allowance(address,address)`.
const ALLOWANCE: [u8; 4] = [0xdd, 0x62, 0xed, 0x3e];

/// A call of a token's view function, and the number that it shall return.
struct TokenCall {
    token: Address,
    selector: [u8; 4],
    accounts: Vec<Address>,
    amount: U256,
}

impl TokenCall {
    /// Reads a method's parameters.
    fn read(name: &str, params: Params<'_>) -> Result<Self, Failure> {
        if name == "setERC20Allowance" {
            let params = params.at_most(4)?;
            let accounts = vec![params.required(0)?, params.required(1)?];
            let (token, amount) = (params.required(2)?, params.required(3)?);
            return Ok(Self { token, selector: ALLOWANCE, accounts, amount });
        }
        let params = params.at_most(3)?;
        let (accounts, token) = (vec![params.required(0)?], params.required(1)?);
        Ok(Self { token, selector: BALANCE_OF, accounts, amount: params.required(2)? })
    }

    fn call_data(&self) -> Bytes {
        let words = self.accounts.iter().map(|account| account.into_word());
        let mut data = self.selector.to_vec();
        words.for_each(|word| data.extend_from_slice(word.as_slice()));
        data.into()
    }
}

impl Caller<'_> {
    /// Sets the number that a token's view function returns.
    pub(super) async fn set_token(&self, name: &str, params: Params<'_>) -> Result<(), Failure> {
        let wanted = TokenCall::read(name, params)?;
        let amount = wanted.amount;
        let api = Arc::clone(self.api);
        let (account, slot) = self.api.heavy.run(move |deadline| api.slot_of(&wanted, deadline)).await?;
        self.blocking(move |chain| chain.set_storage(account, slot, amount).map_err(Failure::chain)).await
    }
}

impl Api {
    /// Finds the account and the slot that hold the number which a token's view function returns.
    fn slot_of(&self, wanted: &TokenCall, deadline: Deadline) -> Result<(Address, U256), Failure> {
        let (env, view) = self.scene(BlockId::Latest)?;
        let tx = TxEnv {
            gas_limit: self.config.limits.call_gas,
            kind: TxKind::Call(wanted.token),
            data: wanted.call_data(),
            chain_id: Some(self.chain_id()),
            ..Default::default()
        };
        // No storage has this number by chance.
        let probe = U256::from_be_slice(&unguessable());
        for (account, touched) in &call(&view, &env, &tx, deadline)?.state {
            for slot in touched.storage.keys() {
                deadline.check()?;
                let state_diff = HashMap::from([(*slot, probe)]);
                let tried = AccountOverride { state_diff, ..Default::default() };
                let done = call(&Overlay::new(&view, [(*account, tried)]), &env, &tx, deadline)?;
                let given = done.result.output().map(|output| &output[..]);
                if done.result.is_success() && given == Some(&probe.to_be_bytes::<32>()[..]) {
                    return Ok((*account, *slot));
                }
            }
        }
        Err(Failure::server(format!("no slot of {} holds that number as it is", wanted.token)))
    }
}

fn call<D: DatabaseRef>(db: &D, env: &BlockEnv, tx: &TxEnv, deadline: Deadline) -> Result<SimulationResult, Failure> {
    let mut watch = DeadlineInspector::new(Budget { bytes: usize::MAX, deadline });
    let done = simulate(db, env, &BlockExtras::default(), tx.clone(), Checks::Call, &mut watch);
    watch.check()?;
    done.map_err(|why| match why {
        SimulateError::State(why) => Failure::state(why),
        why => Failure::server(why.to_string()),
    })
}
