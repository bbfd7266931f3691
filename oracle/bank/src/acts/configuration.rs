//! The config program: accounts of key lists and bytes that their signers change.

use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_sdk_ids::config;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::world::World;

/// Bytes of a configuration account.
const SPACE: u64 = 200;

/// Configuration accounts of a ledger, each with the user who signs changes.
#[derive(Default)]
pub struct Configurations {
    made: Vec<(Keypair, Keypair)>,
}

impl Act for Configurations {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.made.is_empty() || block.rng.chance(20) {
            let (account, owner) = (world.fresh(), world.user(block.rng));
            let rent = block.bank.get_minimum_balance_for_rent_exemption(SPACE as usize);
            let create = system::create_account(&world.mint.pubkey(), &account.pubkey(), rent, SPACE, &config::id());
            let store = store(&account, &owner, true, b"first");
            block.send(&[create, store], &[&world.mint, &account, &owner]);
            self.made.push((account, owner));
            return;
        }
        let (account, owner) = block.rng.pick(&self.made);
        let thief = world.user(block.rng);
        let size = *block.rng.pick(&[0, 20, 120, 190]);
        let text = block.rng.bytes(size);
        let by = if block.rng.chance(20) { &thief } else { owner };
        let mut change = store(account, by, block.rng.chance(80), &text);
        match block.rng.below(8) {
            0 => change.data.truncate(3),
            1 => change.accounts.truncate(1),
            2 => change.accounts.push(AccountMeta::new_readonly(thief.pubkey(), true)),
            _ => {}
        }
        block.send(&[change], &[&world.mint, account, by, &thief]);
    }
}

/// Stores a list of one key, which signs if `signs`, and some bytes.
fn store(account: &Keypair, owner: &Keypair, signs: bool, text: &[u8]) -> Instruction {
    let mut data = vec![1];
    data.extend(owner.pubkey().to_bytes());
    data.push(u8::from(signs));
    data.extend(text);
    let accounts = vec![AccountMeta::new(account.pubkey(), false), AccountMeta::new_readonly(owner.pubkey(), signs)];
    Instruction::new_with_bytes(config::id(), &data, accounts)
}
