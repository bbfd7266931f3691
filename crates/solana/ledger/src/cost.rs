//! The cost model: the share of a block that a transaction takes, before and after it ran, and the block's limits.
//!
//! reads   a transaction, its budget, and the resources that its execution used
//! writes  compute units
//! memory  48 bytes
//! source  `solana-cost-model` 4.2, with simple votes costed like any transaction, and the block limits of SIMD-286

use hearth_wire::Txn;
use hearth_wire::consts::SYSTEM_PROGRAM;
use hearth_wire::program::system::SystemInstruction;

use crate::budget::Budget;
use crate::fees::SignatureCounts;
use crate::rent::MAX_DATA_BYTES;

/// Compute units per signature of the transaction.
pub const SIGNATURE_COST: u64 = 720;
/// Compute units per signature of the secp256k1 precompile.
pub const SECP256K1_COST: u64 = 6_690;
/// Compute units per signature of the ed25519 precompile.
pub const ED25519_COST: u64 = 2_400;
/// Compute units per signature of the secp256r1 precompile.
pub const SECP256R1_COST: u64 = 4_800;
/// Compute units per write-locked account.
pub const WRITE_LOCK_COST: u64 = 300;
/// Bytes of instruction data per compute unit.
pub const DATA_BYTES_PER_UNIT: u64 = 4;
/// Compute units per page of account data.
pub const PAGE_COST: u64 = 8;
/// Bytes of a page of account data.
pub const PAGE_BYTES: u32 = 32 << 10;
/// Maximum account data that one transaction may allocate, in bytes.
const MAX_ALLOCATION_BYTES: u64 = 2 * MAX_DATA_BYTES as u64;

/// The cost of a transaction, in compute units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cost of verifying signatures.
    pub signatures: u64,
    /// Cost of the write locks that the message requests.
    pub write_locks: u64,
    /// Cost of instruction data.
    pub data_bytes: u64,
    /// Compute units of execution: the limit in an estimate, those used in an actual cost.
    pub execution: u64,
    /// Cost of loading accounts.
    pub loaded_accounts: u64,
}

impl Cost {
    /// The maximum cost of `txn` by its budget; pass `None` if its budget is invalid.
    pub fn estimate(txn: &Txn<'_>, budget: Option<&Budget>) -> Self {
        let execution = budget.map_or(0, |budget| budget.compute_unit_limit);
        let loaded_bytes = budget.map_or(0, |budget| budget.loaded_accounts_bytes);
        Self::actual(txn, execution.into(), loaded_bytes)
    }

    /// The cost of `txn` after it used `compute_units` of execution and `loaded_bytes` of account data.
    pub fn actual(txn: &Txn<'_>, compute_units: u64, loaded_bytes: u32) -> Self {
        let counts = SignatureCounts::of(txn);
        let write_locks = (0..txn.account_count()).filter(|&index| txn.is_writable(index)).count() as u64;
        let data_bytes = txn.instructions().map(|instruction| instruction.data.len() as u64).sum::<u64>();
        Self {
            signatures: counts.transaction * SIGNATURE_COST
                + counts.ed25519 * ED25519_COST
                + counts.secp256k1 * SECP256K1_COST
                + counts.secp256r1 * SECP256R1_COST,
            write_locks: write_locks * WRITE_LOCK_COST,
            data_bytes: data_bytes / DATA_BYTES_PER_UNIT,
            execution: compute_units,
            loaded_accounts: u64::from(loaded_bytes.div_ceil(PAGE_BYTES)) * PAGE_COST,
        }
    }

    /// The sum of all parts.
    #[inline]
    pub fn total(&self) -> u64 {
        self.signatures + self.write_locks + self.data_bytes + self.execution + self.loaded_accounts
    }
}

/// The part of its block's limits that a landed transaction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LandedCost {
    /// Its cost in compute units of the cost model: never 0, because it has a signature.
    pub units: u32,
    /// Bytes of account data that it tries to allocate.
    pub allocated_bytes: u32,
}

/// Bytes of account data that `txn` tries to allocate; 0 if one of its instructions to the system program is certain to
/// fail, as one that creates an account with lamports is before its feature is active (`creates_prefunded`).
pub fn allocated_bytes(txn: &Txn<'_>, creates_prefunded: bool) -> u64 {
    use SystemInstruction::*;
    let keys = txn.account_keys();
    let mut total = 0u64;
    for instruction in txn.instructions() {
        if keys[usize::from(instruction.program_id_index)] != SYSTEM_PROGRAM {
            continue;
        }
        match SystemInstruction::decode(instruction.data) {
            Some(CreateAccountAllowPrefund { .. }) if !creates_prefunded => return 0,
            Some(
                CreateAccount { space, .. }
                | CreateAccountWithSeed { space, .. }
                | CreateAccountAllowPrefund { space, .. }
                | Allocate { space }
                | AllocateWithSeed { space, .. },
            ) if space <= MAX_DATA_BYTES as u64 => total += space,
            Some(
                Assign { .. }
                | Transfer { .. }
                | AdvanceNonceAccount
                | WithdrawNonceAccount { .. }
                | InitializeNonceAccount { .. }
                | AuthorizeNonceAccount { .. }
                | AssignWithSeed { .. }
                | TransferWithSeed { .. }
                | UpgradeNonceAccount,
            ) => {}
            _ => return 0,
        }
    }
    total.min(MAX_ALLOCATION_BYTES)
}

/// The limits of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Compute units of all transactions.
    pub block_cost: u64,
    /// Compute units of the transactions that write to one account.
    pub account_cost: u64,
    /// Growth of account data, in bytes.
    pub data_growth_bytes: u64,
    /// Data shreds; as many parity shreds come on top.
    pub shreds: u64,
    /// Bytes of serialized entries.
    pub entry_bytes: u64,
}

impl Default for BlockLimits {
    fn default() -> Self {
        Self::CLUSTER
    }
}

/// With the lifted limit a block may hold this many times the cluster's compute units.
pub const LARGER_COST_FACTOR: u64 = 13;
/// Maximum shreds of a block with the lifted limit.
pub const LARGER_SHREDS: u64 = 1 << 20;

impl BlockLimits {
    /// The limits of the cluster.
    pub const CLUSTER: Self = Self {
        block_cost: 100_000_000,
        account_cost: 40_000_000,
        data_growth_bytes: 100_000_000,
        shreds: 32 << 10,
        entry_bytes: 20 << 20,
    };

    /// The cluster's limits with at most `block_cost` compute units per block, lifted on request for benchmarks. Nodes
    /// of the cluster would not follow a chain with lifted limits. The limit per account stays, since it bounds what
    /// must run serially.
    pub fn lifted(block_cost: u64, larger_max_cost_per_block: bool, larger_shred_limits_per_block: bool) -> Self {
        let default = Self::default();
        let mut limits = Self { block_cost: block_cost.min(default.block_cost), ..default };
        if larger_max_cost_per_block {
            limits.block_cost = default.block_cost * LARGER_COST_FACTOR;
        }
        if larger_shred_limits_per_block {
            // Scaled by the same factor. That is fewer bytes than the shreds can carry, so that both limits hold.
            limits.entry_bytes *= LARGER_SHREDS / limits.shreds;
            limits.shreds = LARGER_SHREDS;
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes_of, parse};
    use hearth_wire::message::Instruction;
    use hearth_wire::program::compute_budget::ComputeBudgetInstruction::*;
    use hearth_wire::program::system;

    fn transfer() -> Instruction {
        system::transfer(&[9; 32], &[8; 32], 1)
    }

    fn with<T>(instructions: &[Instruction], check: impl FnOnce(&Txn<'_>) -> T) -> T {
        check(&parse(&bytes_of(&[9; 32], instructions, &[0; 32])))
    }

    fn estimate(instructions: &[Instruction]) -> Cost {
        with(instructions, |txn| Cost::estimate(txn, Budget::of(txn).ok().as_ref()))
    }

    #[test]
    fn a_transfer_costs_what_the_cluster_says() {
        assert_eq!(estimate(&[transfer()]).total(), 720 + 600 + 3 + 3_000 + 16_384);
        let limits = [SetLoadedAccountsDataSizeLimit(30 << 10).instruction(), SetComputeUnitLimit(450).instruction()];
        let limited = estimate(&[limits[0].clone(), limits[1].clone(), transfer()]);
        assert_eq!(limited.total(), 720 + 600 + 5 + 450 + 8);
        let actual = with(&[transfer()], |txn| Cost::actual(txn, 150, 64 + 64 + 64 + 21));
        assert_eq!(actual.total(), 1_481);
    }

    #[test]
    fn a_refused_budget_costs_no_execution() {
        let cost = estimate(&[SetComputeUnitLimit(1).instruction(), SetComputeUnitLimit(1).instruction()]);
        assert_eq!((cost.execution, cost.loaded_accounts, cost.signatures), (0, 0, 720));
    }

    #[test]
    fn allocations_are_summed_and_clamped() {
        let create = |space| system::create_account(&[9; 32], &[8; 32], 1, space, &[7; 32]);
        let allocated = |instructions: &[Instruction]| with(instructions, |txn| allocated_bytes(txn, true));
        assert_eq!(allocated(&[transfer()]), 0);
        assert_eq!(allocated(&[create(100), transfer(), system::allocate(&[8; 32], 11)]), 111);
        assert_eq!(allocated(&[create(MAX_DATA_BYTES as u64 + 1), create(5)]), 0, "one will fail");
        assert_eq!(allocated(&vec![create(MAX_DATA_BYTES as u64); 3]), MAX_ALLOCATION_BYTES);
        let broken = Instruction { data: vec![200], ..transfer() };
        assert_eq!(allocated(&[create(100), broken]), 0);
    }

    /// Otherwise a block full of such failures, which is good in the cluster, would exceed the limit here.
    #[test]
    fn an_instruction_that_is_not_active_allocates_nothing() {
        let prefunded = SystemInstruction::CreateAccountAllowPrefund { lamports: 1, space: 100, owner: [7; 32] };
        let prefunded = Instruction { data: prefunded.encode(), ..transfer() };
        let create = system::create_account(&[9; 32], &[8; 32], 1, 10, &[7; 32]);
        let allocated = |is_active| with(&[create.clone(), prefunded.clone()], |txn| allocated_bytes(txn, is_active));
        assert_eq!((allocated(true), allocated(false)), (110, 0));
    }

    #[test]
    fn limits_are_lifted_one_by_one() {
        let cluster = BlockLimits::default();
        assert_eq!(BlockLimits::lifted(cluster.block_cost, false, false), cluster);
        let less = BlockLimits { block_cost: 5, ..cluster };
        assert_eq!([5, u64::MAX].map(|cost| BlockLimits::lifted(cost, false, false)), [less, cluster]);
        let cost = BlockLimits::lifted(5, true, false);
        assert_eq!((cost.block_cost, cost.shreds), (1_300_000_000, 32_768));
        let shreds = BlockLimits::lifted(cluster.block_cost, false, true);
        assert_eq!((shreds.block_cost, shreds.shreds), (100_000_000, 1_048_576));
        assert_eq!(cost.account_cost, 40_000_000);
    }
}
