//! Transfers that the system program or the runtime refuses, payers that may not pay, and transfers whose transaction
//! names accounts that are no wallets.

use solana_compute_budget_interface::ComputeBudgetInstruction as Budget;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{config, system_program, sysvar};
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::world::{SOL, World};

/// Lamports of each sender.
const HELD: u64 = 3 * SOL;

/// The fee for a signature, in lamports.
const SIGNATURE: u64 = 5_000;

/// Senders that are no wallets. Each can sign.
struct Senders {
    /// Owned by the system program, with a byte of data.
    data: Keypair,
    /// Without data, owned by a program that is not there.
    foreign: Keypair,
    nonce: Keypair,
}

/// Transfers that fail, each in its own way, and a few that succeed beside them.
#[derive(Default)]
pub struct RefusedTransfers {
    senders: Option<Senders>,
}

impl Act for RefusedTransfers {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let senders = self.senders.get_or_insert_with(|| Senders::make(block, world));
        match block.rng.below(8) {
            0 | 1 => senders.pay_fees(block, world),
            2 => short(block, world),
            3 => beside(block, world),
            _ => senders.send(block, world),
        }
    }
}

impl Senders {
    fn make(block: &mut Block<'_>, world: &mut World) -> Self {
        let (data, foreign, nonce) = (world.fresh(), world.fresh(), world.fresh());
        let mint = &world.mint;
        let from = mint.pubkey();
        let create = |key: &Keypair, space: u64, owner: &Pubkey| {
            system::create_account(&from, &key.pubkey(), HELD, space, owner)
        };
        let steps = [create(&data, 1, &system_program::id()), create(&foreign, 0, &Pubkey::new_from_array([9; 32]))];
        block.send(&steps, &[mint, &data, &foreign]);
        let steps = system::create_nonce_account(&from, &nonce.pubkey(), &from, HELD);
        block.send(&steps, &[mint, &nonce]);
        Self { data, foreign, nonce }
    }

    /// A transfer that is refused, at times after one that counts for nothing then.
    fn send(&self, block: &mut Block<'_>, world: &mut World) {
        let (user, to) = world.pair(block.rng);
        let lamports = block.rng.between(1, SOL);
        let pay = |from: &Keypair, lamports: u64| system::transfer(&from.pubkey(), &to.pubkey(), lamports);
        let (step, signer) = match block.rng.below(13) {
            // Too few accounts.
            0 => (changed(pay(&user, lamports), |accounts| accounts.truncate(1)), &user),
            1 => (changed(pay(&user, lamports), Vec::clear), &user),
            2 => (pay(&self.data, lamports), &self.data),
            3 => (pay(&self.data, 0), &self.data),
            4 => (pay(&self.data, HELD + 1), &self.data),
            5 => (pay(&self.nonce, lamports), &self.nonce),
            6 => (pay(&self.foreign, lamports), &self.foreign),
            7 => (pay(&self.foreign, HELD + 1), &self.foreign),
            // Nothing changes, so nobody objects.
            8 => (pay(&self.foreign, 0), &self.foreign),
            // The accounts may not be written.
            9 => (changed(pay(&user, lamports), |accounts| accounts[0].is_writable = false), &user),
            10 => (changed(pay(&user, 0), |accounts| accounts[0].is_writable = false), &user),
            11 => (changed(pay(&user, lamports), |accounts| accounts[1].is_writable = false), &user),
            _ => (system::transfer(&user.pubkey(), &sysvar::clock::id(), lamports), &user),
        };
        let first = system::transfer(&world.mint.pubkey(), &user.pubkey(), lamports);
        let steps = if block.rng.chance(40) { vec![first, step] } else { vec![step] };
        block.send(&steps, &[&world.mint, signer]);
    }

    /// Fees from accounts that are no wallets: only a nonce account may pay them.
    fn pay_fees(&self, block: &mut Block<'_>, world: &mut World) {
        let (user, to) = world.pair(block.rng);
        let lamports = block.rng.between(1, SOL);
        let pay = |from: &Keypair| system::transfer(&from.pubkey(), &to.pubkey(), lamports);
        match block.rng.below(6) {
            0 => block.send(&[pay(&user)], &[&self.nonce, &user]),
            1 => block.send(&[pay(&self.nonce)], &[&self.nonce]),
            2 => block.send(&[Budget::set_compute_unit_limit(lamports as u32)], &[&self.nonce]),
            3 => block.send(&[pay(&user)], &[&self.data, &user]),
            4 => block.send(&[pay(&user)], &[&self.foreign, &user]),
            _ => block.send(&[pay(&user)], &[&world.fresh(), &user]),
        };
    }
}

/// The instruction with other accounts.
fn changed(mut step: Instruction, change: impl FnOnce(&mut Vec<AccountMeta>)) -> Instruction {
    change(&mut step.accounts);
    step
}

/// A payer with the minimum balance: the fee leaves too little for its rent, or nothing, or is more than it has.
fn short(block: &mut Block<'_>, world: &mut World) {
    let (mint, purse) = (world.mint.insecure_clone(), world.fresh());
    let least = block.bank.get_minimum_balance_for_rent_exemption(0);
    block.send(&[system::transfer(&mint.pubkey(), &purse.pubkey(), least)], &[&mint]);
    // With a million units, a micro-lamport each is a lamport of the fee.
    let all = least - 2 * SIGNATURE;
    let price = *block.rng.pick(&[0, 1_000, all, all, all + 1, 10 * least]);
    let steps = [
        Budget::set_compute_unit_limit(1_000_000),
        Budget::set_compute_unit_price(price),
        system::transfer(&mint.pubkey(), &purse.pubkey(), *block.rng.pick(&[0, 1, least])),
    ];
    block.send(&steps, &[&purse, &mint]);
}

/// A transfer whose transaction names an account of the runtime besides, which may not be there.
fn beside(block: &mut Block<'_>, world: &mut World) {
    let (from, to) = world.pair(block.rng);
    let mut step = system::transfer(&from.pubkey(), &to.pubkey(), block.rng.below(SOL));
    let named = [sysvar::instructions::id(), sysvar::rewards::id(), sysvar::clock::id(), config::id()];
    step.accounts.push(AccountMeta::new_readonly(*block.rng.pick(&named), false));
    block.send(&[step], &[&from]);
}
