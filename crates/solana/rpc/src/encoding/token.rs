//! Token accounts: mint, raw amount, and the amount in decimal units.
//!
//! reads   token accounts and mints of both token programs; the clock sysvar, for interest-bearing mints
//! writes  amounts as JSON
//! memory  the mints read for one response
//! drops   accounts that are not mints: error -32602
//! source  `parsed_token_accounts.rs` of `solana-rpc` 4.2; the layouts are those of `spl-token-2022-interface`, which
//!         also reads the accounts of the older program

use std::collections::HashMap;

use hearth_ledger::Account;
use hearth_tile::clock::unix_time;
use hearth_wire::Pubkey;
use hearth_wire::consts::SYSVAR_CLOCK;
use serde_json::Value;
use solana_account_decoder::parse_account_data::SplTokenAdditionalDataV2;
use solana_account_decoder::parse_token::{
    get_token_account_mint, is_known_spl_token_id, token_amount_to_ui_amount_v3,
};
use spl_token_2022_interface::extension::interest_bearing_mint::InterestBearingConfig;
use spl_token_2022_interface::extension::scaled_ui_amount::ScaledUiAmountConfig;
use spl_token_2022_interface::extension::{BaseStateWithExtensions, StateWithExtensions};
use spl_token_2022_interface::generic_token_account::GenericTokenAccount;
use spl_token_2022_interface::state::{Account as TokenAccount, Mint};

use crate::jsonrpc::Failure;

/// The mint of wrapped SOL, which is known even if its account does not exist.
const NATIVE_MINT: Pubkey =
    solana_pubkey::Pubkey::from_str_const("So11111111111111111111111111111111111111112").to_bytes();
/// Decimals of wrapped SOL.
const NATIVE_DECIMALS: u8 = 9;
/// The token program that owns the mint of wrapped SOL.
const TOKEN_PROGRAM: Pubkey =
    solana_pubkey::Pubkey::from_str_const("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA").to_bytes();
/// Byte range of the timestamp in the clock sysvar.
const CLOCK_TIME: std::ops::Range<usize> = 32..40;

/// The fields of a mint that amounts need.
#[derive(Clone, Copy)]
pub struct MintView {
    /// The token program that owns it.
    pub program: Pubkey,
    /// Decimals, interest and scale.
    pub additional: SplTokenAdditionalDataV2,
    /// Total supply in raw units.
    pub supply: u64,
}

/// The fields of a token account that balances need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenAccountView {
    /// Address of its mint.
    pub mint: Pubkey,
    /// Balance in raw units.
    pub amount: u64,
}

/// Whether this is one of the two token programs.
pub fn is_token_program(key: &Pubkey) -> bool {
    is_known_spl_token_id(&(*key).into())
}

/// Whether the data is an initialized token account of either program.
pub fn is_token_account(data: &[u8]) -> bool {
    TokenAccount::valid_account_data(data)
}

/// Unpacks a token account; `None` if the data is not one.
pub fn token_account(data: &[u8]) -> Option<TokenAccountView> {
    let account = StateWithExtensions::<TokenAccount>::unpack(data).ok()?.base;
    Some(TokenAccountView { mint: account.mint.to_bytes(), amount: account.amount })
}

/// A raw amount of a mint's tokens as JSON.
pub fn amount_json(amount: u64, mint: &MintView) -> Value {
    serde_json::to_value(token_amount_to_ui_amount_v3(amount, &mint.additional)).unwrap_or_default()
}

/// Mints, each read once per response.
pub struct TokenView<'a> {
    account: &'a dyn Fn(&Pubkey) -> Option<Account>,
    mints: HashMap<Pubkey, Option<MintView>>,
}

impl<'a> TokenView<'a> {
    /// `account` looks up accounts.
    pub fn new(account: &'a dyn Fn(&Pubkey) -> Option<Account>) -> Self {
        Self { account, mints: HashMap::new() }
    }

    /// The mint that a token account names, if it exists.
    pub fn mint_of(&mut self, data: &[u8]) -> Option<MintView> {
        let key = get_token_account_mint(data)?.to_bytes();
        if let Some(known) = self.mints.get(&key) {
            return *known;
        }
        let mint = self.mint(&key).ok();
        self.mints.insert(key, mint);
        mint
    }

    /// The mint at an address; fails if the account is not a mint.
    pub fn mint(&self, key: &Pubkey) -> Result<MintView, Failure> {
        if *key == NATIVE_MINT {
            let additional = SplTokenAdditionalDataV2::with_decimals(NATIVE_DECIMALS);
            return Ok(MintView { program: TOKEN_PROGRAM, additional, supply: 0 });
        }
        let account =
            (self.account)(key).ok_or_else(|| Failure::refused_params("Invalid param: could not find mint"))?;
        self.unpack(&account).ok_or_else(|| Failure::refused_params("Invalid param: Token mint could not be unpacked"))
    }

    /// Unpacks a mint; `None` if the account is not one.
    pub fn unpack(&self, account: &Account) -> Option<MintView> {
        let mint = StateWithExtensions::<Mint>::unpack(account.data()).ok()?;
        let interest = mint.get_extension::<InterestBearingConfig>().ok().map(|config| (*config, self.unix_time()));
        let scale = mint.get_extension::<ScaledUiAmountConfig>().ok().map(|config| (*config, self.unix_time()));
        let additional = SplTokenAdditionalDataV2 {
            decimals: mint.base.decimals,
            interest_bearing_config: interest,
            scaled_ui_amount_config: scale,
        };
        Some(MintView { program: account.owner, additional, supply: mint.base.supply })
    }

    /// The chain's time, or the machine's on a chain without a clock sysvar.
    fn unix_time(&self) -> i64 {
        let clock = (self.account)(&SYSVAR_CLOCK);
        let time = clock.as_ref().and_then(|clock| clock.data().get(CLOCK_TIME)?.try_into().ok());
        time.map_or_else(|| unix_time().as_secs() as i64, i64::from_le_bytes)
    }
}
