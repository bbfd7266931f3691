//! Methods that scan all accounts: those of a program, the largest.
//!
//! reads   every account, a shard at a time
//! memory  the accounts found, at most [`Limits::answer_bytes`](crate::Limits) of data; one scan at a time
//! drops   scans that find more than that, or that take so long that their state is no longer kept: error -32012
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes and codes
//!
//! There is no index by program, owner or mint. A scan occupies one thread (about 0.1 s per million accounts) while the
//! other threads keep serving.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hearth_ledger::{Account, StateView};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::supply::Supply;
use super::{Api, check_kept, with_context};
use crate::encoding::account::AccountFormat;
use crate::encoding::token::TokenView;
use crate::filters::Filters;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Number of accounts in a list of the largest.
pub const LARGEST_MAX: usize = 20;

/// Keeps the [`LARGEST_MAX`] offered accounts with the largest number.
pub struct Largest(BinaryHeap<Reverse<(u64, Pubkey)>>);

impl Largest {
    pub fn new() -> Self {
        Self(BinaryHeap::with_capacity(LARGEST_MAX + 1))
    }

    pub fn offer(&mut self, number: u64, key: &Pubkey) {
        if self.0.len() == LARGEST_MAX && self.0.peek().is_some_and(|Reverse(least)| *least >= (number, *key)) {
            return;
        }
        self.0.push(Reverse((number, *key)));
        if self.0.len() > LARGEST_MAX {
            self.0.pop();
        }
    }

    /// The accounts in descending order.
    pub fn descending(self) -> impl Iterator<Item = (Pubkey, u64)> {
        self.0.into_sorted_vec().into_iter().map(|Reverse((number, key))| (key, number))
    }
}

impl Api {
    /// Runs long work one at a time, off the threads that serve short requests.
    pub async fn at_length<T>(&self, work: impl FnOnce() -> T) -> T {
        // The semaphore is never closed.
        let _turn = self.long_work.acquire().await;
        tokio::task::block_in_place(work)
    }

    /// The accounts of a program that match the filters, sorted by address unless the order does not matter.
    pub async fn accounts_of(
        &self,
        state: &StateView<'_>,
        program: &Pubkey,
        filters: &Filters,
        sorted: bool,
    ) -> Result<Vec<(Pubkey, Account)>, Failure> {
        let room = self.limits.answer_bytes;
        let (mut found, mut bytes) = (Vec::new(), 0usize);
        self.at_length(|| {
            state.for_each(|key, account| {
                if account.owner != *program || bytes > room || !filters.allow(account.data()) {
                    return;
                }
                bytes += account.data().len() + size_of::<Pubkey>();
                found.push((*key, account.clone()));
            });
        })
        .await;
        if bytes > room {
            let message = "Scan aborted: The accumulated scan results exceeded the limit";
            return Err(Failure::scan(message));
        }
        check_kept(state)?;
        if sorted {
            found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        }
        Ok(found)
    }

    pub async fn get_program_accounts(&self, params: Params<'_>) -> Result<Value, Failure> {
        let program = params.at_most(2)?.pubkey(0, "program")?;
        let options = params.options(1)?;
        let filters = Filters::of(options)?;
        let format = AccountFormat::of(options, "binary")?;
        let (with_slot, sorted) = (options.flag("withContext")?, options.flag_or("sortResults", true)?);
        let state = self.state(options)?;
        let found = self.accounts_of(&state, &program, &filters, sorted).await?;
        let shown = tokio::task::block_in_place(|| keyed_json(&state, &found, &format))?;
        Ok(if with_slot { with_context(state.slot, shown) } else { shown })
    }

    pub async fn get_largest_accounts(&self, params: Params<'_>) -> Result<Value, Failure> {
        let options = params.at_most(1)?.options(0)?;
        options.flag_or("sortResults", true)?;
        let in_circulation = match options.text("filter")? {
            None => None,
            Some("circulating") => Some(true),
            Some("nonCirculating") => Some(false),
            Some(other) => {
                let message = format!("filter: {other:?} is none of \"circulating\", \"nonCirculating\"");
                return Err(Failure::invalid_params(message));
            }
        };
        let state = self.state(options)?;
        let mut largest = Largest::new();
        self.at_length(|| {
            let held = in_circulation.map(|wanted| (wanted, Supply::of(&state)));
            state.for_each(|key, account| {
                if held.as_ref().is_none_or(|(wanted, held)| held.is_circulating(key) == *wanted) {
                    largest.offer(account.lamports, key);
                }
            });
        })
        .await;
        check_kept(&state)?;
        let shown = largest
            .descending()
            .map(|(key, lamports)| json!({ "address": &*encode_32(&key), "lamports": lamports }))
            .collect();
        Ok(with_context(state.slot, Value::Array(shown)))
    }
}

/// Accounts with their addresses, as JSON.
pub fn keyed_json(
    state: &StateView<'_>,
    found: &[(Pubkey, Account)],
    format: &AccountFormat,
) -> Result<Value, Failure> {
    let look = |key: &_| state.account(key);
    let mut tokens = TokenView::new(&look);
    let mut shown = Vec::with_capacity(found.len());
    for (key, account) in found {
        shown.extend(format.keyed(key, account, &mut tokens)?);
    }
    Ok(Value::Array(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_whatever_the_order() {
        let mut largest = Largest::new();
        for number in (0..100u64).map(|n| n * 37 % 100) {
            largest.offer(number, &[number as u8; 32]);
        }
        let found: Vec<u64> = largest.descending().map(|(_, number)| number).collect();
        assert_eq!(found, (80..100).rev().collect::<Vec<_>>());
    }
}
