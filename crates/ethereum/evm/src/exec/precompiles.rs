//! The precompiles of one message: state overrides can replace or move them.
//!
//! memory  an entry for each precompile that is replaced or moved
//! drops   a move of an account that is no precompile, or to an overridden account: an error in geth's words
//! source  `internal/ethapi/override` of go-ethereum 1.16

use std::collections::HashMap;

use alloy_primitives::Address;
use alloy_primitives::map::AddressSet;
use revm::context::Cfg;
use revm::context_interface::ContextTr;
use revm::handler::{EthPrecompiles, PrecompileProvider};
use revm::interpreter::{CallInputs, InterpreterResult};
use revm::primitives::hardfork::SpecId;

use super::AccountOverride;

/// Why precompiles cannot be overridden so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrecompileError {
    /// There is nothing to move at this address.
    #[error("account {0} is not a precompile")]
    NotPrecompile(Address),
    /// The destination of a move has an override of its own.
    #[error("account {0} is already overridden")]
    AlreadyOverridden(Address),
}

/// The precompiles that run elsewhere or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrecompileOverrides {
    /// Addresses at which the account's code runs instead.
    replaced: AddressSet,
    /// Addresses at which a precompile runs, and the precompile's own address.
    moved: HashMap<Address, Address>,
}

impl PrecompileOverrides {
    /// Applies the overrides of `accounts` to the precompiles of `spec`. As in geth, a precompile whose account is
    /// overridden in any way no longer runs at its own address.
    pub fn new(spec: SpecId, accounts: &[(Address, AccountOverride)]) -> Result<Self, PrecompileError> {
        let standard = EthPrecompiles::new(spec);
        let mut overrides = Self::default();
        for (address, account) in accounts {
            let is_precompile = standard.contains(address);
            if let Some(to) = account.move_precompile_to {
                if !is_precompile {
                    return Err(PrecompileError::NotPrecompile(*address));
                }
                if accounts.iter().any(|(other, _)| *other == to) {
                    return Err(PrecompileError::AlreadyOverridden(to));
                }
                // Geth leaves it open which of several runs there.
                let origin = overrides.moved.entry(to).or_insert(*address);
                *origin = (*origin).max(*address);
            }
            if is_precompile {
                overrides.replaced.insert(*address);
            }
        }
        Ok(overrides)
    }
}

/// The precompiles of a fork under overrides. All of the fork's addresses stay warm, and no others become so, as in
/// geth.
#[derive(Debug)]
pub(super) struct OverriddenPrecompiles<'a> {
    standard: EthPrecompiles,
    overrides: &'a PrecompileOverrides,
}

impl<'a> OverriddenPrecompiles<'a> {
    pub(super) fn new(spec: SpecId, overrides: &'a PrecompileOverrides) -> Self {
        Self { standard: EthPrecompiles::new(spec), overrides }
    }
}

impl<CTX: ContextTr<Cfg: Cfg<Spec = SpecId>>> PrecompileProvider<CTX> for OverriddenPrecompiles<'_> {
    type Output = InterpreterResult;

    fn set_spec(&mut self, spec: SpecId) -> bool {
        PrecompileProvider::<CTX>::set_spec(&mut self.standard, spec)
    }

    fn run(&mut self, context: &mut CTX, inputs: &CallInputs) -> Result<Option<InterpreterResult>, String> {
        let address = &inputs.bytecode_address;
        match self.overrides.moved.get(address) {
            Some(origin) => {
                let inputs = CallInputs { bytecode_address: *origin, ..inputs.clone() };
                self.standard.run(context, &inputs)
            }
            None if self.overrides.replaced.contains(address) => Ok(None),
            None => self.standard.run(context, inputs),
        }
    }

    fn warm_addresses(&self) -> &AddressSet {
        self.standard.warm_addresses()
    }
}
