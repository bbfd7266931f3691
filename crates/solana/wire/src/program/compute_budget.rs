//! The compute-budget program: the requested limits and price of a transaction.
//!
//! reads   the data of one instruction
//! writes  [`Instruction`]s without accounts
//! memory  none beyond the result
//! drops   unknown or short data: `None`; bytes after a known instruction are ignored, as by the cluster
//! source  `solana-compute-budget-interface` 3

use crate::consts::COMPUTE_BUDGET_PROGRAM;
use crate::message::Instruction;

/// One request to the compute budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeBudgetInstruction {
    /// Heap for each program, in bytes; a multiple of 1024.
    RequestHeapFrame(u32),
    /// Compute units for the whole transaction.
    SetComputeUnitLimit(u32),
    /// Price of a compute unit, in micro-lamports.
    SetComputeUnitPrice(u64),
    /// Bytes of account data that the transaction may load.
    SetLoadedAccountsDataSizeLimit(u32),
}

impl ComputeBudgetInstruction {
    /// Reads an instruction's data.
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (&tag, rest) = data.split_first()?;
        let short = || rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        match tag {
            1 => short().map(Self::RequestHeapFrame),
            2 => short().map(Self::SetComputeUnitLimit),
            3 => rest.first_chunk().map(|bytes| Self::SetComputeUnitPrice(u64::from_le_bytes(*bytes))),
            4 => short().map(Self::SetLoadedAccountsDataSizeLimit),
            _ => None,
        }
    }

    /// The instruction's data: a tag and one number.
    pub fn encode(&self) -> Vec<u8> {
        let (tag, number, width) = match *self {
            Self::RequestHeapFrame(bytes) => (1, bytes.into(), 4),
            Self::SetComputeUnitLimit(units) => (2, units.into(), 4),
            Self::SetComputeUnitPrice(micro_lamports) => (3, micro_lamports, 8),
            Self::SetLoadedAccountsDataSizeLimit(bytes) => (4, bytes.into(), 4),
        };
        let mut data = vec![tag];
        data.extend_from_slice(&u64::to_le_bytes(number)[..width]);
        data
    }

    /// The instruction, ready for a message.
    pub fn instruction(&self) -> Instruction {
        Instruction { program_id: COMPUTE_BUDGET_PROGRAM, accounts: Vec::new(), data: self.encode() }
    }
}
