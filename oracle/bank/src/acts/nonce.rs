//! Nonce accounts, and transactions that name a nonce in place of a recent blockhash.

use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_nonce::state::{DurableNonce, State};
use solana_nonce::versions::Versions;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::world::{SOL, World};

/// A nonce account: its address, and the key that may advance it.
struct Nonce {
    address: Pubkey,
    authority: Keypair,
}

/// Nonce accounts of a ledger.
#[derive(Default)]
pub struct Nonces {
    accounts: Vec<Nonce>,
}

impl Act for Nonces {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.accounts.len() < 3 || block.rng.chance(15) {
            self.create(block, world);
            return;
        }
        let at = block.rng.index(self.accounts.len());
        match block.rng.below(10) {
            0 => self.withdraw(block, world, at),
            1 => self.authorize(block, world, at),
            2 => self.advance(block, at),
            _ => self.spend(block, world, at),
        }
    }
}

impl Nonces {
    fn create(&mut self, block: &mut Block<'_>, world: &mut World) {
        let (payer, authority) = world.pair(block.rng);
        let account = world.fresh();
        let address = account.pubkey();
        let seed = "nonce";
        let lamports = *block.rng.pick(&[SOL, 1_447_680, 1_447_679]);
        match block.rng.below(4) {
            0 => {
                let base = account.pubkey();
                let derived = Pubkey::create_with_seed(&base, seed, &solana_sdk_ids::system_program::id());
                let derived = derived.expect("a short seed");
                let steps = system::create_nonce_account_with_seed(
                    &payer.pubkey(),
                    &derived,
                    &base,
                    seed,
                    &authority.pubkey(),
                    SOL,
                );
                block.send(&steps, &[&payer, &account]);
                self.accounts.push(Nonce { address: derived, authority });
            }
            1 => {
                // Initialised twice.
                let steps = system::create_nonce_account(&payer.pubkey(), &address, &authority.pubkey(), SOL);
                block.send(&[&steps[..], &steps[1..]].concat(), &[&payer, &account]);
            }
            _ => {
                let steps = system::create_nonce_account(&payer.pubkey(), &address, &authority.pubkey(), lamports);
                block.send(&steps, &[&payer, &account]);
                self.accounts.push(Nonce { address, authority });
            }
        }
    }

    /// A transaction on the nonce: it succeeds, fails after the nonce moved, or names a nonce that is used up.
    fn spend(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let nonce = &self.accounts[at];
        let authority = &nonce.authority;
        let stored = stored(block, &nonce.address);
        let advance = system::advance_nonce_account(&nonce.address, &authority.pubkey());
        let to = world.user(block.rng).pubkey();
        let pay = |lamports: u64| system::transfer(&authority.pubkey(), &to, lamports);
        match block.rng.below(8) {
            0 => {
                block.send_with(&[advance, pay(u64::MAX)], &[authority], stored);
            }
            1 => {
                block.send_with(&[pay(1), advance], &[authority], stored);
            }
            2 => {
                block.send_with(&[advance, pay(2)], &[authority], Hash::new_from_array([5; 32]));
            }
            3 => {
                // The same again: the nonce has moved.
                block.send_with(&[advance.clone(), pay(3)], &[authority], stored);
                block.send_with(&[advance, pay(4)], &[authority], stored);
            }
            4 => {
                // The authority is not among the signers.
                let mut unsigned = advance;
                unsigned.accounts[2].is_signer = false;
                block.send_with(&[unsigned], &[&world.mint], stored);
            }
            5 => {
                // Two advances in one transaction.
                block.send_with(&[advance.clone(), advance, pay(5)], &[authority], stored);
            }
            _ => {
                block.send_with(&[advance, pay(6)], &[authority], stored);
            }
        }
    }

    fn advance(&mut self, block: &mut Block<'_>, at: usize) {
        let Nonce { address, authority } = &self.accounts[at];
        let advance = system::advance_nonce_account(address, &authority.pubkey());
        // On a recent blockhash; twice in a block, the second cannot move it.
        block.send(&[advance.clone()], &[authority]);
        if block.rng.chance(50) {
            block.send(&[advance, system::transfer(&authority.pubkey(), address, 7)], &[authority]);
        }
    }

    fn authorize(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let next = world.user(block.rng);
        let Nonce { address, authority } = &self.accounts[at];
        let change = system::authorize_nonce_account(address, &authority.pubkey(), &next.pubkey());
        if block.rng.chance(25) {
            let stranger = system::authorize_nonce_account(address, &world.mint.pubkey(), &next.pubkey());
            block.send(&[stranger], &[&world.mint]);
        }
        if block.rng.chance(25) {
            block.send(&[system::upgrade_nonce_account(*address)], &[&next]);
        }
        block.send(&[change], &[authority]);
        self.accounts[at].authority = next;
    }

    fn withdraw(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let to = world.user(block.rng).pubkey();
        let Nonce { address, authority } = &self.accounts[at];
        let held = block.bank.get_balance(address);
        let lamports = *block.rng.pick(&[1, held, held.saturating_sub(1), held + 1]);
        let withdraw = system::withdraw_nonce_account(address, &authority.pubkey(), &to, lamports);
        block.send(&[withdraw], &[authority]);
        if block.rng.chance(30) {
            let data = bincode::serialize(&4u32).expect("a number has a form");
            let short = Instruction::new_with_bytes(
                solana_sdk_ids::system_program::id(),
                &data,
                vec![AccountMeta::new(*address, false)],
            );
            block.send(&[short], &[authority]);
        }
    }
}

/// Returns the hash that the account holds, or one that no account holds.
fn stored(block: &Block<'_>, address: &Pubkey) -> Hash {
    let account = block.bank.get_account(address);
    let state = account.and_then(|account| bincode::deserialize::<Versions>(account.data()).ok());
    match state.as_ref().map(Versions::state) {
        Some(State::Initialized(data)) => *DurableNonce::as_hash(&data.durable_nonce),
        _ => Hash::new_from_array([6; 32]),
    }
}
