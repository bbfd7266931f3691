//! Generates transfers quickly, by overwriting the fields of a finished transaction.
//!
//! reads   sender, receiver, amount, blockhash, signature
//! writes  the bytes of one signed transfer, in place
//! memory  263 bytes and a length, in the template itself; nothing is allocated
//! source  the same bytes as from [`Message::compile`](crate::message::Message::compile), which the tests compare

use crate::consts::{Hash, Pubkey, Signature};
use crate::message::Message;
use crate::program::compute_budget::ComputeBudgetInstruction;
use crate::program::system;

/// Size of a plain transfer: signature 65, header 3, three accounts 97, blockhash 32, one instruction 18.
pub const TRANSFER_SIZE: usize = 65 + 3 + 97 + 32 + 18;
/// Size of a transfer with two compute-budget limits: it has one more account, and two more instructions of 8 B.
pub const LIMITED_TRANSFER_SIZE: usize = TRANSFER_SIZE + 32 + 2 * 8;
const _: () = assert!(TRANSFER_SIZE == 215 && LIMITED_TRANSFER_SIZE == 263);

const SIGNATURE: usize = 1;
const MESSAGE: usize = 65;
const FROM: usize = MESSAGE + 4;
const TO: usize = FROM + 32;

/// A transfer of lamports whose fields are overwritten in place, for the load generator.
///
/// Sender and receiver must differ: the cluster refuses a transaction that names an account twice.
#[derive(Clone, Debug)]
pub struct TransferTemplate {
    bytes: [u8; LIMITED_TRANSFER_SIZE],
    len: usize,
    blockhash: usize,
}

impl Default for TransferTemplate {
    fn default() -> Self {
        Self::new()
    }
}

impl TransferTemplate {
    /// A plain transfer, 215 bytes. Before execution the cluster estimates its cost with the default limits: about
    /// 20,700 compute units.
    pub fn new() -> Self {
        Self::from_budget(&[])
    }

    /// A transfer that requests `compute_units` and `loaded_accounts_size` bytes of account data, 263 bytes: its
    /// estimate before execution is many times lower.
    pub fn with_limits(compute_units: u32, loaded_accounts_size: u32) -> Self {
        Self::from_budget(&[
            ComputeBudgetInstruction::SetLoadedAccountsDataSizeLimit(loaded_accounts_size),
            ComputeBudgetInstruction::SetComputeUnitLimit(compute_units),
        ])
    }

    fn from_budget(budget: &[ComputeBudgetInstruction]) -> Self {
        // In the order of `Message::compile`: the payer first, then the receiver, the only other writable account.
        let (from, to) = ([1; 32], [2; 32]);
        let mut instructions: Vec<_> = budget.iter().map(ComputeBudgetInstruction::instruction).collect();
        instructions.push(system::transfer(&from, &to, 0));
        let message = Message::compile(&from, &instructions, &[0; 32]).expect("a transfer fits a packet");
        let built = message.sign_with(|_, _| [0; 64]);
        let mut bytes = [0; LIMITED_TRANSFER_SIZE];
        bytes[..built.len()].copy_from_slice(&built);
        let accounts = usize::from(bytes[FROM - 1]);
        Self { bytes, len: built.len(), blockhash: FROM + 32 * accounts }
    }

    /// Sets the sender, who also pays the fee and signs.
    #[inline]
    pub fn set_from(&mut self, from: &Pubkey) {
        self.bytes[FROM..FROM + 32].copy_from_slice(from);
    }

    /// Sets the receiver, which must differ from the sender.
    #[inline]
    pub fn set_to(&mut self, to: &Pubkey) {
        self.bytes[TO..TO + 32].copy_from_slice(to);
    }

    /// Sets the amount. Transfers with different amounts are different transactions.
    #[inline]
    pub fn set_lamports(&mut self, lamports: u64) {
        let end = self.len;
        self.bytes[end - 8..end].copy_from_slice(&lamports.to_le_bytes());
    }

    /// Sets the recent blockhash.
    #[inline]
    pub fn set_recent_blockhash(&mut self, blockhash: &Hash) {
        self.bytes[self.blockhash..self.blockhash + 32].copy_from_slice(blockhash);
    }

    /// The bytes to sign.
    #[inline]
    pub fn message(&self) -> &[u8] {
        &self.bytes[MESSAGE..self.len]
    }

    /// Sets the sender's signature over [`Self::message`].
    #[inline]
    pub fn set_signature(&mut self, signature: &Signature) {
        self.bytes[SIGNATURE..MESSAGE].copy_from_slice(signature);
    }

    /// Signs the current fields and returns the transaction's bytes.
    #[inline]
    pub fn sign_with(&mut self, sign: impl FnOnce(&[u8]) -> Signature) -> &[u8] {
        let signature = sign(self.message());
        self.set_signature(&signature);
        self.bytes()
    }

    /// The transaction's current bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::Txn;

    /// The patched template equals a transaction compiled from instructions.
    #[test]
    fn template_equals_compiled_message() {
        let (from, to, blockhash, signature) = ([0xaa; 32], [3; 32], [7; 32], [9; 64]);
        let limits = [
            ComputeBudgetInstruction::SetLoadedAccountsDataSizeLimit(30 * 1024).instruction(),
            ComputeBudgetInstruction::SetComputeUnitLimit(450).instruction(),
            system::transfer(&from, &to, 5),
        ];
        let cases = [
            (TransferTemplate::new(), &limits[2..], TRANSFER_SIZE),
            (TransferTemplate::with_limits(450, 30 * 1024), &limits[..], LIMITED_TRANSFER_SIZE),
        ];
        for (mut template, instructions, size) in cases {
            template.set_from(&from);
            template.set_to(&to);
            template.set_lamports(5);
            template.set_recent_blockhash(&blockhash);
            let built = Message::compile(&from, instructions, &blockhash).unwrap();
            assert_eq!(template.message(), built.bytes());
            let bytes = template.sign_with(|_| signature);
            assert_eq!((bytes, bytes.len()), (&built.sign_with(|_, _| signature)[..], size));
            assert_eq!(Txn::parse(bytes).unwrap().first_signature(), &signature);
        }
    }
}
