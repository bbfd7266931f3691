//! The supply: the lamports of all accounts, and those that do not circulate.
//!
//! reads   every account; the clock
//! memory  32 B per account that does not circulate
//! source  `non_circulating_supply.rs` of `solana-runtime` 4.2: the lists of accounts (accounts.txt) and of withdrawers
//!         of stakes (withdrawers.txt), which are mainnet's on every chain
//!
//! A stake whose lockup is in force does not circulate either.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hearth_ledger::{Account, StateView};
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::consts::{STAKE_PROGRAM, SYSVAR_CLOCK};
use serde_json::{Value, json};

use super::{Api, check_kept, with_context};
use crate::jsonrpc::Failure;
use crate::params::{Options, Params};

/// Accounts that do not circulate.
static ACCOUNTS: LazyLock<BTreeSet<Pubkey>> = LazyLock::new(|| addresses(include_str!("supply/accounts.txt")));
/// Authorities whose stakes do not circulate.
static WITHDRAWERS: LazyLock<BTreeSet<Pubkey>> = LazyLock::new(|| addresses(include_str!("supply/withdrawers.txt")));

/// Offsets in the data of a stake account: the state's tag, the withdrawer, the lockup's time and epoch, its end.
const WITHDRAWER_AT: usize = 4 + 8 + 32;
const LOCKUP_AT: usize = WITHDRAWER_AT + 32;
const META_END: usize = LOCKUP_AT + 8 + 8 + 32;
/// The tags of a stake account that is initialized, and of one that delegates.
const TAGS: [u32; 2] = [1, 2];

fn addresses(text: &str) -> BTreeSet<Pubkey> {
    text.lines().map(|line| decode_32(line).expect("the lists hold addresses")).collect()
}

/// The lamports of a chain at one moment.
pub struct Supply {
    /// Lamports of all accounts.
    total: u64,
    /// The accounts that do not circulate, whether or not they exist.
    aside: BTreeSet<Pubkey>,
    /// The lamports of the accounts in `aside`.
    aside_lamports: u64,
}

impl Supply {
    /// Scans all accounts, and finds those that do not circulate at the clock's time.
    pub fn of(state: &StateView<'_>) -> Self {
        let word = |data: &[u8], at: usize| Some(i64::from_le_bytes(*data.get(at..)?.first_chunk()?));
        // Unix time and epoch of the clock.
        let clock = |account: &Account| Some((word(account.data(), 32)?, word(account.data(), 16)? as u64));
        let (time, epoch) = state.with(&SYSVAR_CLOCK, clock).flatten().unwrap_or_default();
        let is_aside = |data: &[u8]| {
            let tag = data.first_chunk().map(|tag| u32::from_le_bytes(*tag));
            if data.len() < META_END || !tag.is_some_and(|tag| TAGS.contains(&tag)) {
                return false;
            }
            let (until, until_epoch) = (word(data, LOCKUP_AT), word(data, LOCKUP_AT + 8));
            let is_locked = until.is_some_and(|at| at > time) || until_epoch.is_some_and(|at| at as u64 > epoch);
            is_locked || data[WITHDRAWER_AT..].first_chunk::<32>().is_some_and(|key| WITHDRAWERS.contains(key))
        };
        let (mut total, mut aside) = (0u64, ACCOUNTS.clone());
        state.for_each(|key, account| {
            total = total.saturating_add(account.lamports);
            if account.owner == STAKE_PROGRAM && is_aside(account.data()) {
                aside.insert(*key);
            }
        });
        let aside_lamports = aside.iter().map(|key| state.balance(key)).sum();
        Self { total, aside, aside_lamports }
    }

    /// Whether an account's lamports are in circulation.
    pub fn is_circulating(&self, key: &Pubkey) -> bool {
        !self.aside.contains(key)
    }
}

impl Api {
    pub async fn get_supply(&self, params: Params<'_>) -> Result<Value, Failure> {
        let options: Options<'_> = params.at_most(1)?.options(0)?;
        let is_short = options.flag("excludeNonCirculatingAccountsList")?;
        let state = self.state(options)?;
        let Supply { total, aside, aside_lamports } = self.at_length(|| Supply::of(&state)).await;
        check_kept(&state)?;
        let listed = aside.iter().filter(|_| !is_short).map(|key| encode_32(key).to_string());
        let value = json!({
            "total": total,
            "circulating": total.saturating_sub(aside_lamports),
            "nonCirculating": aside_lamports,
            "nonCirculatingAccounts": listed.collect::<Vec<_>>(),
        });
        Ok(with_context(state.slot, value))
    }
}
