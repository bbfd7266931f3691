//! Address lookup tables: their program, and transactions of version 0 that load accounts through them.

use std::collections::BTreeSet;

use solana_account::ReadableAccount;
use solana_address_lookup_table_interface::instruction as table;
use solana_address_lookup_table_interface::state::AddressLookupTable;
use solana_instruction::AccountMeta;
use solana_keypair::Keypair;
use solana_message::AddressLookupTableAccount;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::world::World;

/// A table and its authority.
struct Table {
    key: Pubkey,
    authority: Keypair,
}

/// Lookup tables of a ledger.
#[derive(Default)]
pub struct Tables {
    made: Vec<Table>,
}

impl Act for Tables {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.made.len() < 2 || block.rng.chance(10) {
            self.create(block, world);
            return;
        }
        // The first table grows past what a transaction may lock.
        let at = if block.rng.chance(50) { 0 } else { block.rng.index(self.made.len()) };
        if at == 0 {
            match block.rng.below(4) {
                0 | 1 => self.extend(block, world, at),
                2 => self.lock_all(block, world, at),
                _ => self.load(block, world, at),
            }
            return;
        }
        match block.rng.below(12) {
            0 => {
                let made = &self.made[at];
                let step = table::freeze_lookup_table(made.key, made.authority.pubkey());
                block.send(&[step], &[&world.mint, &made.authority]);
            }
            1 => {
                let made = &self.made[at];
                let step = table::deactivate_lookup_table(made.key, made.authority.pubkey());
                block.send(&[step], &[&world.mint, &made.authority]);
            }
            2 => {
                let made = &self.made[at];
                let step = table::close_lookup_table(made.key, made.authority.pubkey(), world.mint.pubkey());
                block.send(&[step], &[&world.mint, &made.authority]);
            }
            3..=5 => self.extend(block, world, at),
            _ => self.load(block, world, at),
        }
    }
}

impl Tables {
    fn create(&mut self, block: &mut Block<'_>, world: &mut World) {
        let authority = world.user(block.rng);
        let back = if self.made.is_empty() { 0 } else { *block.rng.pick(&[0, 0, 0, 1, 600]) };
        let slot = block.parent.slot().saturating_sub(back);
        let (create, key) = table::create_lookup_table(authority.pubkey(), world.mint.pubkey(), slot);
        block.send(&[create], &[&world.mint]);
        self.made.push(Table { key, authority });
        self.extend(block, world, self.made.len() - 1);
    }

    fn extend(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let count = *block.rng.pick(&[0, 1, 12, 20, 20]);
        let new: Vec<Pubkey> = (0..count)
            .map(|_| if block.rng.chance(15) { world.user(block.rng).pubkey() } else { world.fresh().pubkey() })
            .collect();
        let payer = block.rng.chance(80).then(|| world.mint.pubkey());
        let by = if block.rng.chance(10) { world.user(block.rng) } else { made.authority.insecure_clone() };
        let step = table::extend_lookup_table(made.key, by.pubkey(), payer, new.clone());
        block.send(&[step], &[&world.mint, &by]);
    }

    /// Names every account of a table, up to more than a transaction may lock.
    fn lock_all(&self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let key = self.made[at].key;
        let payer = world.user(block.rng);
        let addresses = stored(block, &key);
        let most = block.rng.between(110, 140) as usize;
        let different: BTreeSet<&Pubkey> = addresses.iter().collect();
        let mut step = system::transfer(&payer.pubkey(), &world.mint.pubkey(), 1);
        step.accounts.extend(different.into_iter().take(most).map(|address| AccountMeta::new(*address, false)));
        block.send_v0(&[step], &[&payer], &[AddressLookupTableAccount { key, addresses }]);
    }

    /// Transfers to and from accounts that the table names; too early, too far, through a closed table, and right.
    fn load(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let payer = world.user(block.rng);
        let mut addresses = stored(block, &made.key);
        // An address that the table lacks.
        if block.rng.chance(10) {
            addresses.push(world.fresh().pubkey());
        }
        let targets = block.rng.between(1, 12);
        let steps: Vec<_> = (0..targets)
            .map(|_| {
                let choice = block.rng.number() as usize;
                let to = addresses.get(choice % addresses.len().max(1)).copied().unwrap_or(world.mint.pubkey());
                system::transfer(&payer.pubkey(), &to, 890_880)
            })
            .collect();
        let key = match block.rng.below(25) {
            0 => world.mint.pubkey(),
            1 => Pubkey::new_from_array([2; 32]),
            _ => made.key,
        };
        block.send_v0(&steps, &[&payer], &[AddressLookupTableAccount { key, addresses }]);
    }
}

/// Returns the addresses that a table holds.
fn stored(block: &Block<'_>, key: &Pubkey) -> Vec<Pubkey> {
    let account = block.bank.get_account(key);
    let held = account
        .and_then(|account| AddressLookupTable::deserialize(account.data()).ok().map(|table| table.addresses.to_vec()));
    held.unwrap_or_default()
}
