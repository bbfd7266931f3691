//! Building legacy messages and transactions from instructions.
//!
//! reads   instructions that name whole addresses
//! writes  the bytes of a message, then of a signed transaction
//! memory  one `Vec` for the result and a map of the addresses while compiling
//! drops   what would not fit on the wire: a [`BuildError`]
//! source  `solana-message` 4.2, `Message::new_with_blockhash`: the same bytes (`tests/wire/sdk_build.rs`)

use std::collections::BTreeMap;

use crate::compact;
use crate::consts::{Hash, PACKET_DATA_SIZE, Pubkey, Signature};

/// An account in an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountMeta {
    /// Address of the account, which may occur more than once in an instruction.
    pub pubkey: Pubkey,
    /// Whether it must sign.
    pub is_signer: bool,
    /// Whether the program may change it.
    pub is_writable: bool,
}

impl AccountMeta {
    /// An account that the program may change.
    pub const fn writable(pubkey: Pubkey, is_signer: bool) -> Self {
        Self { pubkey, is_signer, is_writable: true }
    }

    /// An account that the program may only read.
    pub const fn readonly(pubkey: Pubkey, is_signer: bool) -> Self {
        Self { pubkey, is_signer, is_writable: false }
    }
}

/// An instruction before compilation, with whole addresses instead of indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The program that is called.
    pub program_id: Pubkey,
    /// The accounts passed to it, in order.
    pub accounts: Vec<AccountMeta>,
    /// The bytes that the program reads as its arguments.
    pub data: Vec<u8>,
}

/// Why a transaction cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// More than 256 accounts, more than 127 signers, or a length over 65,535.
    #[error("too many accounts, signers or instructions for a message")]
    TooMany,
    /// The signed transaction would exceed [`PACKET_DATA_SIZE`].
    #[error("the transaction would have {0} bytes, a packet holds {PACKET_DATA_SIZE}")]
    TooLong(usize),
}

/// A legacy message: the bytes to sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
    signers: Vec<Pubkey>,
}

#[derive(Clone, Copy, Default)]
struct AccountRole {
    signer: bool,
    writable: bool,
}

impl Message {
    /// Compiles `instructions`. The accounts are ordered as the SDK does: the fee payer, then
    /// writable signers, read-only signers, writable and read-only others, each by address.
    pub fn compile(
        fee_payer: &Pubkey,
        instructions: &[Instruction],
        recent_blockhash: &Hash,
    ) -> Result<Self, BuildError> {
        let keys = collect_keys(fee_payer, instructions);
        let class = |signer, writable| {
            let wanted = move |need: &&AccountRole| need.signer == signer && need.writable == writable;
            keys.iter().filter(move |(key, need)| *key != fee_payer && wanted(need)).map(|(key, _)| *key)
        };
        let mut accounts = vec![*fee_payer];
        accounts.extend(class(true, true));
        let writable_signers = accounts.len();
        accounts.extend(class(true, false));
        let signers = accounts.len();
        accounts.extend(class(false, true));
        let writable = accounts.len();
        accounts.extend(class(false, false));
        if accounts.len() > 256 || signers > 127 {
            return Err(BuildError::TooMany);
        }
        let index = |key: &Pubkey| accounts.iter().position(|k| k == key).expect("collected") as u8;

        let mut bytes = vec![signers as u8, (signers - writable_signers) as u8];
        bytes.push(u8::try_from(accounts.len() - writable).map_err(|_| BuildError::TooMany)?);
        write_len(accounts.len(), &mut bytes)?;
        bytes.extend_from_slice(accounts.as_flattened());
        bytes.extend_from_slice(recent_blockhash);
        write_len(instructions.len(), &mut bytes)?;
        for instruction in instructions {
            bytes.push(index(&instruction.program_id));
            write_len(instruction.accounts.len(), &mut bytes)?;
            bytes.extend(instruction.accounts.iter().map(|meta| index(&meta.pubkey)));
            write_len(instruction.data.len(), &mut bytes)?;
            bytes.extend_from_slice(&instruction.data);
        }
        let total = 1 + 64 * signers + bytes.len();
        if total > PACKET_DATA_SIZE {
            return Err(BuildError::TooLong(total));
        }
        accounts.truncate(signers);
        Ok(Self { bytes, signers: accounts })
    }

    /// The message's bytes, which each signer signs.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The required signers, the fee payer first.
    pub fn signers(&self) -> &[Pubkey] {
        &self.signers
    }

    /// The signed transaction's bytes; calls `sign` once per signer, with its key and the message.
    pub fn sign_with(&self, mut sign: impl FnMut(&Pubkey, &[u8]) -> Signature) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 + 64 * self.signers.len() + self.bytes.len());
        bytes.push(self.signers.len() as u8);
        for signer in &self.signers {
            bytes.extend_from_slice(&sign(signer, &self.bytes));
        }
        bytes.extend_from_slice(&self.bytes);
        bytes
    }
}

/// Every address, with the strongest requirement of any instruction.
fn collect_keys(fee_payer: &Pubkey, instructions: &[Instruction]) -> BTreeMap<Pubkey, AccountRole> {
    let mut keys = BTreeMap::<Pubkey, AccountRole>::new();
    for instruction in instructions {
        keys.entry(instruction.program_id).or_default();
        for meta in &instruction.accounts {
            let need = keys.entry(meta.pubkey).or_default();
            need.signer |= meta.is_signer;
            need.writable |= meta.is_writable;
        }
    }
    keys.insert(*fee_payer, AccountRole { signer: true, writable: true });
    keys
}

fn write_len(len: usize, out: &mut Vec<u8>) -> Result<(), BuildError> {
    compact::write(u16::try_from(len).map_err(|_| BuildError::TooMany)?, out);
    Ok(())
}
