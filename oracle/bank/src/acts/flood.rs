//! Blocks with more signatures than the fee governor aims at, which raise the price of the blocks after them.

use std::ops::Range;

use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::{Block, sign};
use crate::world::World;

/// Signatures of a transaction that still fits into a packet.
const SIGNERS: usize = 11;

/// Fills the blocks of `slots` with transactions of eleven signatures each. The genesis has more users than that.
pub struct Flood {
    pub slots: Range<u64>,
    pub signatures: u64,
}

impl Act for Flood {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if !self.slots.contains(&block.bank.slot()) {
            return;
        }
        for n in 0..self.signatures.div_ceil(SIGNERS as u64) {
            // The users pay in turn, so that no account costs the block more than an account may.
            let first = n as usize % world.users.len();
            let signers: Vec<&Keypair> =
                (0..SIGNERS).map(|at| &world.users[(first + at) % world.users.len()]).collect();
            let mut pay = system::transfer(&signers[0].pubkey(), &signers[1].pubkey(), n);
            pay.accounts[1] = AccountMeta::new(signers[1].pubkey(), true);
            let rest = signers[2..].iter().map(|signer| AccountMeta::new_readonly(signer.pubkey(), true));
            pay.accounts.extend(rest);
            let step: Instruction = pay;
            let message = Message::new_with_blockhash(&[step], Some(&signers[0].pubkey()), &block.blockhash());
            block.execute(sign(VersionedMessage::Legacy(message), &signers));
        }
    }
}
