//! Fees: what a transaction pays, how much is burned, and the block producer's share; and the price of a block, which
//! nobody pays.
//!
//! reads   a transaction and its budget
//! writes  lamports
//! memory  16 bytes
//! source  `solana-fee` 4.2 and `bank/fee_distribution.rs` of `solana-runtime` 4.2: half of the signature fee is
//!         burned, and the producer gets all of the priority fee; `solana-fee-calculator` 3.2 for prices

use hearth_wire::Txn;
use hearth_wire::consts::{ED25519_PROGRAM, SECP256K1_PROGRAM, SECP256R1_PROGRAM};
use solana_fee_calculator::FeeRateGovernor;

use crate::budget::Budget;

/// Fee per signature, in lamports.
pub const LAMPORTS_PER_SIGNATURE: u64 = 5_000;
/// Burned share of the signature fees, in percent.
pub const BURN_PERCENT: u64 = 50;

/// The price of a block, in lamports per signature, which nonces and the recent blockhashes have: `governor`'s rule,
/// given the parent's price and the number of signatures in the parent. From 0 at genesis it rises at once to half of
/// the target, and moves by a twentieth of the target a block while more signatures than the target's half land.
pub fn next_price(governor: &FeeRateGovernor, parent_price: u64, parent_signatures: u64) -> u64 {
    let parent = governor.clone_with_lamports_per_signature(parent_price);
    FeeRateGovernor::new_derived(&parent, parent_signatures).lamports_per_signature
}

/// Numbers of signatures for which a transaction pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureCounts {
    /// Signatures of the transaction itself.
    pub transaction: u64,
    /// Signatures of the ed25519 precompile.
    pub ed25519: u64,
    /// Signatures of the secp256k1 precompile.
    pub secp256k1: u64,
    /// Signatures of the secp256r1 precompile.
    pub secp256r1: u64,
}

impl SignatureCounts {
    /// Counts the signatures of `txn`. A precompile's count is the first byte of its input.
    pub fn of(txn: &Txn<'_>) -> Self {
        let mut counts = Self { transaction: txn.signatures().len() as u64, ed25519: 0, secp256k1: 0, secp256r1: 0 };
        let keys = txn.account_keys();
        for instruction in txn.instructions() {
            let count = match keys[usize::from(instruction.program_id_index)] {
                ED25519_PROGRAM => &mut counts.ed25519,
                SECP256K1_PROGRAM => &mut counts.secp256k1,
                SECP256R1_PROGRAM => &mut counts.secp256r1,
                _ => continue,
            };
            *count += instruction.data.first().map_or(0, |&count| u64::from(count));
        }
        counts
    }

    /// The total number of signatures.
    pub fn total(&self) -> u64 {
        self.transaction + self.ed25519 + self.secp256k1 + self.secp256r1
    }
}

/// The fee of a transaction, or of a whole block, in lamports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fee {
    /// Lamports for the signatures, half of which are burned.
    pub signatures: u64,
    /// Lamports for the requested compute units at the transaction's price, all for the block producer.
    pub priority: u64,
}

impl Fee {
    /// The fee of `txn`.
    #[inline]
    pub fn of(txn: &Txn<'_>, budget: &Budget) -> Self {
        let signatures = SignatureCounts::of(txn).total() * LAMPORTS_PER_SIGNATURE;
        Self { signatures, priority: budget.priority_fee() }
    }

    /// The whole fee, which the payer pays.
    #[inline]
    pub fn total(&self) -> u64 {
        self.signatures.saturating_add(self.priority)
    }

    /// The part of the signature fee that is burned, in lamports.
    #[inline]
    pub fn burned(&self) -> u64 {
        self.signatures * BURN_PERCENT / 100
    }

    /// The block producer's part, which the scheduler maximises.
    #[inline]
    pub fn reward(&self) -> u64 {
        self.priority.saturating_add(self.signatures - self.burned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes_of, parse};
    use hearth_wire::message::Instruction;
    use hearth_wire::program::compute_budget::ComputeBudgetInstruction::*;
    use hearth_wire::program::system;

    fn fee_of(instructions: &[Instruction]) -> Fee {
        let bytes = bytes_of(&[9; 32], instructions, &[0; 32]);
        let txn = parse(&bytes);
        Fee::of(&txn, &Budget::of(&txn).unwrap())
    }

    #[test]
    fn pays_for_every_signature() {
        let transfer = system::transfer(&[9; 32], &[8; 32], 1);
        let fee = fee_of(std::slice::from_ref(&transfer));
        assert_eq!(fee, Fee { signatures: 5_000, priority: 0 });
        assert_eq!((fee.total(), fee.burned(), fee.reward()), (5_000, 2_500, 2_500));
        assert_eq!(fee_of(&[system::transfer(&[7; 32], &[8; 32], 1)]).signatures, 10_000);
        let check = |program_id, count| Instruction { program_id, accounts: vec![], data: vec![count, 0] };
        let checked = fee_of(&[check(ED25519_PROGRAM, 2), check(SECP256K1_PROGRAM, 3), check(SECP256R1_PROGRAM, 4)]);
        assert_eq!(checked.signatures, 10 * 5_000);
        assert_eq!(fee_of(&[Instruction { data: vec![], ..check(ED25519_PROGRAM, 0) }]).signatures, 5_000);
    }

    #[test]
    fn priority_goes_to_the_producer() {
        let fee = fee_of(&[SetComputeUnitPrice(2_000_001).instruction(), SetComputeUnitLimit(10).instruction()]);
        assert_eq!(fee, Fee { signatures: 5_000, priority: 21 });
        assert_eq!((fee.total(), fee.burned(), fee.reward()), (5_021, 2_500, 2_521));
        assert_eq!(fee.burned() + fee.reward(), fee.total());
    }
}
