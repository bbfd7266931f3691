//! Tokens: balances, supply, holders.
//!
//! reads   token accounts and mints; every account, to find holders
//! memory  as `scan`
//! drops   accounts that are not token accounts or mints: error -32602
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes, the messages and the codes

use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::scan::{Largest, keyed_json};
use super::{Api, with_context};
use crate::encoding::account::AccountFormat;
use crate::encoding::token::{self, TokenView, amount_json, is_token_program};
use crate::filters::{Filter, Filters};
use crate::jsonrpc::Failure;
use crate::params::{Options, Params};

/// Offset of the mint in a token account.
const MINT_OFFSET: usize = 0;
/// Offset of the owner.
const OWNER_OFFSET: usize = 32;
/// Offset of the delegate: a tag of 4 bytes, then the address.
const DELEGATE_OFFSET: usize = 72;

fn bytes_at(offset: usize, bytes: &[u8]) -> Filter {
    Filter::Memcmp { offset, bytes: bytes.to_vec() }
}

fn not_a(what: &str) -> Failure {
    Failure::refused_params(format!("Invalid param: not a Token {what}"))
}

impl Api {
    pub fn get_token_account_balance(&self, params: Params<'_>) -> Result<Value, Failure> {
        let key = params.at_most(2)?.pubkey(0, "address")?;
        let state = self.state(params.options(1)?)?;
        let look = |key: &_| state.account(key);
        let account = look(&key).ok_or_else(|| Failure::refused_params("Invalid param: could not find account"))?;
        let held = is_token_program(&account.owner).then(|| token::token_account(account.data())).flatten();
        let held = held.ok_or_else(|| not_a("account"))?;
        let mint = TokenView::new(&look).mint(&held.mint)?;
        Ok(with_context(state.slot, amount_json(held.amount, &mint)))
    }

    pub fn get_token_supply(&self, params: Params<'_>) -> Result<Value, Failure> {
        let key = params.at_most(2)?.pubkey(0, "mint")?;
        let state = self.state(params.options(1)?)?;
        let look = |key: &_| state.account(key);
        let account = look(&key).ok_or_else(|| Failure::refused_params("Invalid param: could not find account"))?;
        if !is_token_program(&account.owner) {
            return Err(not_a("mint"));
        }
        let mint = TokenView::new(&look).unpack(&account);
        let mint = mint.ok_or_else(|| Failure::refused_params("Invalid param: mint could not be unpacked"))?;
        Ok(with_context(state.slot, amount_json(mint.supply, &mint)))
    }

    pub async fn get_token_largest_accounts(&self, params: Params<'_>) -> Result<Value, Failure> {
        let key = params.at_most(2)?.pubkey(0, "mint")?;
        let state = self.state(params.options(1)?)?;
        let look = |key: &_| state.account(key);
        let mint = TokenView::new(&look).mint(&key)?;
        if !is_token_program(&mint.program) {
            return Err(not_a("mint"));
        }
        let filters = Filters::default().and([Filter::TokenAccountState, bytes_at(MINT_OFFSET, &key)]);
        let mut largest = Largest::new();
        for (key, account) in self.accounts_of(&state, &mint.program, &filters, false).await? {
            largest.offer(token::token_account(account.data()).map_or(0, |held| held.amount), &key);
        }
        let shown = largest.descending().map(|(key, amount)| {
            let mut shown = amount_json(amount, &mint);
            shown["address"] = json!(&*encode_32(&key));
            shown
        });
        Ok(with_context(state.slot, shown.collect()))
    }

    pub async fn get_token_accounts_by_owner(&self, params: Params<'_>) -> Result<Value, Failure> {
        let owner = params.at_most(3)?.pubkey(0, "owner")?;
        self.token_accounts(params, vec![bytes_at(OWNER_OFFSET, &owner)]).await
    }

    pub async fn get_token_accounts_by_delegate(&self, params: Params<'_>) -> Result<Value, Failure> {
        let delegate = params.at_most(3)?.pubkey(0, "delegate")?;
        let some = [&1u32.to_le_bytes()[..], &delegate].concat();
        self.token_accounts(params, vec![bytes_at(DELEGATE_OFFSET, &some)]).await
    }

    /// Token accounts of one mint or of one token program that match the filters.
    async fn token_accounts(&self, params: Params<'_>, mut filters: Vec<Filter>) -> Result<Value, Failure> {
        let wanted = TokenFilter::of(params.options(1)?)?;
        let options = params.options(2)?;
        let format = AccountFormat::of(options, "binary")?;
        let state = self.state(options)?;
        let program = match wanted {
            TokenFilter::Program(program) if is_token_program(&program) => program,
            TokenFilter::Program(_) => {
                return Err(Failure::refused_params("Invalid param: unrecognized Token program id"));
            }
            TokenFilter::Mint(mint) => {
                let program = TokenView::new(&|key| state.account(key)).mint(&mint)?.program;
                if !is_token_program(&program) {
                    return Err(not_a("mint"));
                }
                filters.push(bytes_at(MINT_OFFSET, &mint));
                program
            }
        };
        filters.push(Filter::TokenAccountState);
        let found = self.accounts_of(&state, &program, &Filters::default().and(filters), true).await?;
        Ok(with_context(state.slot, keyed_json(&state, &found, &format)?))
    }
}

/// How a request selects token accounts.
enum TokenFilter {
    Mint(Pubkey),
    Program(Pubkey),
}

impl TokenFilter {
    fn of(options: Options<'_>) -> Result<Self, Failure> {
        match (options.pubkey("mint")?, options.pubkey("programId")?) {
            (Some(mint), None) => Ok(Self::Mint(mint)),
            (None, Some(program)) => Ok(Self::Program(program)),
            _ => Err(Failure::invalid_params("parameter 2 (filter): expected either a mint or a programId")),
        }
    }
}
