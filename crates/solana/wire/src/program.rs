//! Instructions of the cluster's programs: encoding and decoding of their data.
//!
//! reads   the data of one instruction
//! writes  [`crate::message::Instruction`]s
//! memory  readers borrow; builders own what they build
//! drops   data that the program would refuse: `None`
//! source  `solana-system-interface`, `solana-compute-budget-interface`, `spl-memo-interface`, `spl-token-interface`

pub mod compute_budget;
pub mod memo;
pub mod system;
pub mod token;
