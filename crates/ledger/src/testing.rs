//! What this crate's tests share: transactions without signatures.

use hearth_wire::message::{Instruction, Message};
use hearth_wire::{Hash, Pubkey, Txn};

/// The bytes of a transaction whose signatures are zero but for a mark of the message.
pub(crate) fn bytes_of(payer: &Pubkey, instructions: &[Instruction], blockhash: &Hash) -> Vec<u8> {
    let message = Message::compile(payer, instructions, blockhash).expect("the instructions fit a packet");
    message.sign_with(|signer, message| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&hearth_crypto::sha256::sha256(&[signer, message]));
        signature
    })
}

/// Parses what [`bytes_of`] made.
pub(crate) fn parse(bytes: &[u8]) -> Txn<'_> {
    Txn::parse(bytes).expect("a transaction")
}
