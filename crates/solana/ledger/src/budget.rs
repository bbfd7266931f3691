//! The compute budget of a transaction: compute units, their price, account data.
//!
//! reads   the compute-budget instructions of a transaction
//! writes  a [`Budget`], or the error for which the transaction is refused
//! memory  40 bytes
//! source  `solana-compute-budget-instruction` 4.2 with every feature active: the vote program counts as an ordinary
//!         one (SIMD-387)

use hearth_wire::Txn;
use hearth_wire::consts::COMPUTE_BUDGET_PROGRAM;
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;

use crate::error::{InstructionError, TransactionError};
use crate::programs::is_cheap_builtin;

/// Maximum compute units of a transaction.
pub const MAX_COMPUTE_UNITS: u32 = 1_400_000;
/// Default compute units of an instruction of a builtin program.
pub const BUILTIN_COMPUTE_UNITS: u32 = 3_000;
/// Default compute units of any other instruction.
pub const PROGRAM_COMPUTE_UNITS: u32 = 200_000;
/// Maximum, and default, bytes of account data that a transaction may load.
pub const MAX_LOADED_ACCOUNTS_BYTES: u32 = 64 << 20;
/// Default and minimum heap of a program, in bytes.
pub const MIN_HEAP_BYTES: u32 = 32 << 10;
/// Maximum heap of a program, in bytes.
pub const MAX_HEAP_BYTES: u32 = 256 << 10;

/// The requested compute budget of a transaction, or the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum compute units of the whole transaction.
    pub compute_unit_limit: u32,
    /// Price of a compute unit in micro-lamports.
    pub compute_unit_price: u64,
    /// Maximum bytes of loaded account data, including 64 of overhead per account.
    pub loaded_accounts_bytes: u32,
    /// Heap of each program, in bytes.
    pub heap_bytes: u32,
}

/// Stores the first instruction of a kind with its index; a second one is an error.
fn once<T>(place: &mut Option<(u8, T)>, index: u8, value: T) -> Result<(), TransactionError> {
    match place.replace((index, value)) {
        None => Ok(()),
        Some(_) => Err(TransactionError::DuplicateInstruction(index)),
    }
}

impl Budget {
    /// The budget that `txn` requests.
    pub fn of(txn: &Txn<'_>) -> Result<Self, TransactionError> {
        let keys = txn.account_keys();
        let (mut limit, mut price, mut bytes, mut heap) = (None, None, None, None);
        let mut default_limit = 0u32;
        for (index, instruction) in txn.instructions().enumerate() {
            let (index, program) = (index as u8, &keys[usize::from(instruction.program_id_index)]);
            let units = if is_cheap_builtin(program) { BUILTIN_COMPUTE_UNITS } else { PROGRAM_COMPUTE_UNITS };
            default_limit = default_limit.saturating_add(units);
            if *program != COMPUTE_BUDGET_PROGRAM {
                continue;
            }
            match ComputeBudgetInstruction::decode(instruction.data) {
                Some(ComputeBudgetInstruction::SetComputeUnitLimit(units)) => once(&mut limit, index, units)?,
                Some(ComputeBudgetInstruction::SetComputeUnitPrice(each)) => once(&mut price, index, each)?,
                Some(ComputeBudgetInstruction::SetLoadedAccountsDataSizeLimit(most)) => once(&mut bytes, index, most)?,
                Some(ComputeBudgetInstruction::RequestHeapFrame(size)) => once(&mut heap, index, size)?,
                None => return Err(invalid(index)),
            }
        }
        let heap_bytes = match heap {
            None => MIN_HEAP_BYTES,
            Some((_, size)) if (MIN_HEAP_BYTES..=MAX_HEAP_BYTES).contains(&size) && size % 1024 == 0 => size,
            Some((index, _)) => return Err(invalid(index)),
        };
        let loaded_accounts_bytes = match bytes {
            None => MAX_LOADED_ACCOUNTS_BYTES,
            Some((_, 0)) => return Err(TransactionError::InvalidLoadedAccountsDataSizeLimit),
            Some((_, most)) => most.min(MAX_LOADED_ACCOUNTS_BYTES),
        };
        Ok(Self {
            compute_unit_limit: limit.map_or(default_limit, |(_, units)| units).min(MAX_COMPUTE_UNITS),
            compute_unit_price: price.map_or(0, |(_, each)| each),
            loaded_accounts_bytes,
            heap_bytes,
        })
    }

    /// The priority fee in lamports: price times limit, rounded up.
    pub fn priority_fee(&self) -> u64 {
        let micro_lamports = u128::from(self.compute_unit_price) * u128::from(self.compute_unit_limit);
        u64::try_from(micro_lamports.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

fn invalid(index: u8) -> TransactionError {
    TransactionError::InstructionError(index, InstructionError::InvalidInstructionData)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes_of, parse};
    use ComputeBudgetInstruction::*;
    use hearth_wire::consts::{ED25519_PROGRAM, MEMO_PROGRAM, VOTE_PROGRAM};
    use hearth_wire::message::Instruction;
    use hearth_wire::program::system;

    fn budget_of(instructions: &[Instruction]) -> Result<Budget, TransactionError> {
        Budget::of(&parse(&bytes_of(&[9; 32], instructions, &[0; 32])))
    }

    fn asking(requests: &[ComputeBudgetInstruction]) -> Result<Budget, TransactionError> {
        budget_of(&requests.iter().map(ComputeBudgetInstruction::instruction).collect::<Vec<_>>())
    }

    #[test]
    fn defaults_count_the_instructions() {
        let transfer = system::transfer(&[9; 32], &[8; 32], 1);
        let call = |program_id| Instruction { program_id, accounts: vec![], data: vec![] };
        let limit = |instructions: &[Instruction]| budget_of(instructions).unwrap().compute_unit_limit;
        assert_eq!(limit(&[]), 0);
        assert_eq!(limit(std::slice::from_ref(&transfer)), 3_000);
        assert_eq!(limit(&[transfer.clone(), transfer.clone(), SetComputeUnitPrice(1).instruction()]), 9_000);
        assert_eq!(limit(&[call(MEMO_PROGRAM), call(VOTE_PROGRAM), call(ED25519_PROGRAM)]), 403_000);
        assert_eq!(limit(&vec![call(MEMO_PROGRAM); 9]), MAX_COMPUTE_UNITS);
        let budget = budget_of(&[transfer]).unwrap();
        assert_eq!((budget.loaded_accounts_bytes, budget.heap_bytes), (64 << 20, 32 << 10));
        assert_eq!(budget.priority_fee(), 0);
    }

    #[test]
    fn takes_what_is_asked_for() {
        let all = [SetComputeUnitLimit(500), SetComputeUnitPrice(3), SetLoadedAccountsDataSizeLimit(30 << 10)];
        let budget = asking(&all).unwrap();
        assert_eq!((budget.compute_unit_limit, budget.loaded_accounts_bytes), (500, 30 << 10));
        assert_eq!(budget.priority_fee(), 1, "1,500 micro-lamports are rounded up");
        assert_eq!(asking(&[SetComputeUnitLimit(u32::MAX)]).unwrap().compute_unit_limit, MAX_COMPUTE_UNITS);
        assert_eq!(asking(&[SetLoadedAccountsDataSizeLimit(u32::MAX)]).unwrap().loaded_accounts_bytes, 64 << 20);
        assert_eq!(asking(&[RequestHeapFrame(64 << 10)]).unwrap().heap_bytes, 64 << 10);
        let dear = asking(&[SetComputeUnitPrice(u64::MAX), SetComputeUnitLimit(1_000_000)]).unwrap();
        assert_eq!(dear.priority_fee(), u64::MAX);
        assert_eq!(
            asking(&[SetComputeUnitPrice(u64::MAX), SetComputeUnitLimit(1_400_000)]).unwrap().priority_fee(),
            u64::MAX
        );
    }

    #[test]
    fn refuses_what_the_cluster_refuses() {
        let twice = [SetComputeUnitLimit(1), SetComputeUnitPrice(1), SetComputeUnitLimit(1)];
        assert_eq!(asking(&twice), Err(TransactionError::DuplicateInstruction(2)));
        let none = asking(&[SetLoadedAccountsDataSizeLimit(0)]);
        assert_eq!(none, Err(TransactionError::InvalidLoadedAccountsDataSizeLimit));
        for heap in [0, 31 << 10, (32 << 10) + 1, 257 << 10] {
            assert_eq!(asking(&[SetComputeUnitLimit(1), RequestHeapFrame(heap)]), Err(invalid(1)), "{heap}");
        }
        let mut short = SetComputeUnitPrice(1).instruction();
        short.data.pop();
        assert_eq!(budget_of(&[short]), Err(invalid(0)));
    }
}
