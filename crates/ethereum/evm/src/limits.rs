//! Limits of transactions that a chain for development may lift, as anvil and Hardhat let it.
//!
//! source  EIP-170, EIP-3860 and EIP-7825 for what holds without a choice

use revm::primitives::hardfork::SpecId;

/// The most gas of a transaction from Osaka on (EIP-7825).
pub const TX_GAS_CAP: u64 = 1 << 24;
/// The longest code of a contract, in bytes (EIP-170).
const CODE_SIZE: usize = 24_576;

/// A chain's configured limits, besides its forks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxLimits {
    /// The longest code of a contract, in bytes; code that creates one may be twice as long. Missing: EIP-170's.
    pub code_size: Option<usize>,
    /// Whether a transaction may have as much gas as its block, also from Osaka on.
    pub without_gas_cap: bool,
}

impl TxLimits {
    /// The longest code that creates a contract, in bytes (EIP-3860).
    pub fn init_code_size(&self) -> usize {
        self.code_size.unwrap_or(CODE_SIZE).saturating_mul(2)
    }

    /// The most gas that a transaction may have under the rules of `spec`.
    pub fn tx_gas(&self, spec: SpecId) -> u64 {
        if spec.is_enabled_in(SpecId::OSAKA) && !self.without_gas_cap { TX_GAS_CAP } else { u64::MAX }
    }
}
