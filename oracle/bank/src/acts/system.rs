//! The system program: transfers, accounts made in every way, and all of its errors.

use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sdk_ids::system_program;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::world::{SOL, World};

/// Plain transfers, `most` a block at most.
pub struct Transfers {
    pub most: u64,
}

impl Act for Transfers {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        for _ in 0..block.rng.between(1, self.most + 1) {
            transfer(block, world);
        }
    }
}

/// As many transfers that succeed in each block, each between two users.
pub struct Steady {
    pub count: u64,
}

impl Act for Steady {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let blockhash = block.blockhash();
        for n in 0..self.count {
            let (from, to) = world.pair(block.rng);
            // The amount makes each transaction another one.
            let step = system::transfer(&from.pubkey(), &to.pubkey(), 1 + n);
            block.send_with(&[step], &[&from], blockhash);
        }
    }
}

fn transfer(block: &mut Block<'_>, world: &mut World) {
    let (from, to) = world.pair(block.rng);
    let lamports = block.rng.below(SOL);
    let move_it = |to: &Pubkey, lamports: u64| system::transfer(&from.pubkey(), to, lamports);
    match block.rng.below(14) {
        // A fresh account with too little for its rent, just enough, and nothing.
        0 => block.send(&[move_it(&world.fresh().pubkey(), 890_879)], &[&from]),
        1 => block.send(&[move_it(&world.fresh().pubkey(), 890_880)], &[&from]),
        2 => block.send(&[move_it(&world.fresh().pubkey(), 0)], &[&from]),
        3 => block.send(&[move_it(&to.pubkey(), u64::MAX)], &[&from]),
        4 => block.send(&[move_it(&from.pubkey(), lamports)], &[&from]),
        5 => {
            let many: Vec<_> = world.users.iter().map(|user| move_it(&user.pubkey(), lamports / 9)).collect();
            block.send(&many, &[&from])
        }
        // Someone else pays the fee, and the owner has signed; then without that signature.
        6 => block.send(&[move_it(&world.fresh().pubkey(), SOL)], &[&world.mint, &from]),
        7 => {
            let mut unsigned = move_it(&to.pubkey(), lamports);
            unsigned.accounts[0].is_signer = false;
            block.send(&[unsigned], &[&world.mint])
        }
        // A second instruction fails, so the first counts for nothing.
        8 => block.send(&[move_it(&to.pubkey(), lamports), move_it(&to.pubkey(), 900_000 * SOL)], &[&from]),
        9 => drain(block, world),
        _ => block.send(&[move_it(&to.pubkey(), lamports)], &[&from]),
    };
}

/// Fills an account and empties it again, leaving nothing, or too little for rent.
fn drain(block: &mut Block<'_>, world: &mut World) -> bool {
    let purse = world.fresh();
    block.send(&[system::transfer(&world.mint.pubkey(), &purse.pubkey(), SOL)], &[&world.mint]);
    let left = *block.rng.pick(&[0, 1, 890_879, 890_880]);
    let fee = block.bank.get_lamports_per_signature();
    let lamports = SOL.saturating_sub(left + fee);
    block.send(&[system::transfer(&purse.pubkey(), &world.mint.pubkey(), lamports)], &[&purse])
}

/// Accounts that are created, allocated and assigned, with seeds and without.
#[derive(Default)]
pub struct Accounts {
    made: Vec<Keypair>,
}

impl Act for Accounts {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let payer = world.user(block.rng);
        let owner =
            *block.rng.pick(&[system_program::id(), solana_sdk_ids::vote::id(), Pubkey::new_from_array([9; 32])]);
        match block.rng.below(3) {
            0 => self.create(block, world, &payer, &owner),
            1 => self.allocate(block, world, &payer, &owner),
            _ => seeded(block, &payer, &owner),
        }
    }
}

impl Accounts {
    fn create(&mut self, block: &mut Block<'_>, world: &mut World, payer: &Keypair, owner: &Pubkey) {
        let account = match self.made.last() {
            // In use already.
            Some(account) if block.rng.chance(20) => account.insecure_clone(),
            _ => world.fresh(),
        };
        let space = *block.rng.pick(&[0, 1, 80, 165, 1_000, 10_240]);
        let rent = block.bank.get_minimum_balance_for_rent_exemption(space as usize);
        let (from, to) = (payer.pubkey(), account.pubkey());
        let signers = [payer, &account];
        match block.rng.below(9) {
            0 => block.send(&[system::create_account(&from, &to, rent - 1, space, owner)], &signers),
            1 => block.send(&[system::create_account(&from, &to, rent, 10_485_761, owner)], &signers),
            2 => block.send(&[system::create_account(&from, &to, u64::MAX / 2, space, owner)], &signers),
            3 => {
                let mut unsigned = system::create_account(&from, &to, rent, space, owner);
                unsigned.accounts[1].is_signer = false;
                block.send(&[unsigned], &[payer])
            }
            // An account that holds lamports already: only the newer instruction takes it.
            4 | 5 => {
                block.send(&[system::transfer(&from, &to, 1_000_000)], &[payer]);
                let pay = Some((&from, rent));
                block.send(&[system::create_account_allow_prefund(&to, pay, space, owner)], &signers);
                block.send(&[system::create_account(&from, &to, rent, space, owner)], &signers)
            }
            _ => block.send(&[system::create_account(&from, &to, rent, space, owner)], &signers),
        };
        self.made.push(account);
    }

    fn allocate(&mut self, block: &mut Block<'_>, world: &mut World, payer: &Keypair, owner: &Pubkey) {
        let account = world.fresh();
        let to = account.pubkey();
        let space = block.rng.below(300);
        let steps = [
            system::transfer(&payer.pubkey(), &to, 10_000_000),
            system::allocate(&to, space),
            system::assign(&to, owner),
        ];
        let signers = [payer, &account];
        match block.rng.below(5) {
            0 => block.send(&steps[..2], &signers),
            1 => block.send(&[steps[0].clone(), steps[2].clone(), steps[1].clone()], &signers),
            2 => block.send(&[steps[0].clone(), steps[1].clone(), steps[1].clone()], &signers),
            // A resize shifts the balance below rent.
            3 => block.send(&[system::transfer(&payer.pubkey(), &to, 900_000), steps[1].clone()], &signers),
            _ => block.send(&steps, &signers),
        };
        self.made.push(account);
    }
}

/// Addresses derived from a base key, a seed and an owner.
fn seeded(block: &mut Block<'_>, payer: &Keypair, owner: &Pubkey) {
    let base = payer.pubkey();
    let seed = format!("seed {}", block.rng.below(1 << 20));
    let derived = Pubkey::create_with_seed(&base, &seed, owner).expect("a short seed");
    let purse = Pubkey::create_with_seed(&base, &seed, &system_program::id()).expect("a short seed");
    let wrong = Pubkey::new_from_array([3; 32]);
    let instructions: Vec<Instruction> = match block.rng.below(8) {
        0 => vec![system::create_account_with_seed(&base, &wrong, &base, &seed, SOL, 10, owner)],
        1 => vec![system::create_account_with_seed(&base, &derived, &base, &"x".repeat(33), SOL, 10, owner)],
        2 => vec![
            system::transfer(&base, &derived, SOL),
            system::allocate_with_seed(&derived, &base, &seed, 64, owner),
            system::assign_with_seed(&derived, &base, &seed, owner),
        ],
        3 => vec![system::assign_with_seed(&derived, &base, &seed, owner)],
        4 => vec![
            system::transfer(&base, &purse, SOL),
            system::transfer_with_seed(&purse, &base, seed, &system_program::id(), &base, SOL / 3),
        ],
        5 => vec![
            system::transfer(&base, &derived, SOL),
            system::transfer_with_seed(&derived, &base, seed, &system_program::id(), &base, SOL / 3),
        ],
        6 => vec![Instruction::new_with_bytes(
            system_program::id(),
            &block.rng.bytes(12),
            vec![AccountMeta::new(base, true), AccountMeta::new(derived, false)],
        )],
        _ => vec![system::create_account_with_seed(&base, &derived, &base, &seed, SOL, 10, owner)],
    };
    block.send(&instructions, &[payer]);
}
