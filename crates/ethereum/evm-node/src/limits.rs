//! The options that raise the limits of a chain for development.
//!
//! reads   options
//! writes  the chain's limits

use clap::Args;
use hearth_evm::limits::TxLimits;

/// The limits of code and gas that may be above Ethereum's.
#[derive(Args, Clone, Copy, Default)]
pub struct LimitOptions {
    /// Maximum bytes of a contract's code; its init code may have twice as many [default: 24576, EIP-170].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub code_size_limit: Option<u32>,
    /// Allow contracts of any size.
    #[arg(long, conflicts_with = "code_size_limit")]
    pub disable_code_size_limit: bool,
    /// Allow a transaction as much gas as its block, instead of 16,777,216 at most (EIP-7825, from osaka on).
    #[arg(long)]
    pub disable_tx_gas_limit: bool,
}

impl LimitOptions {
    /// The limits that the options set; those of Ethereum without any.
    pub fn limits(&self) -> TxLimits {
        let any_size = self.disable_code_size_limit.then_some(usize::MAX);
        let code_size = self.code_size_limit.map(|bytes| bytes as usize).or(any_size);
        TxLimits { code_size, without_gas_cap: self.disable_tx_gas_limit }
    }

    /// The first option given that changes a limit.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--code-size-limit", self.code_size_limit.is_some()),
            ("--disable-code-size-limit", self.disable_code_size_limit),
            ("--disable-tx-gas-limit", self.disable_tx_gas_limit),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}
