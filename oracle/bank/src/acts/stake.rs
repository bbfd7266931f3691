//! The stake program: accounts in every state, and all instructions on them, right and wrong.

use solana_account::ReadableAccount;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_stake_interface::instruction::{self as stake, LockupArgs};
use solana_stake_interface::state::{Authorized, Lockup, StakeAuthorize, StakeStateV2};
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::world::{SOL, World};

/// A stake account and the keys that rule it.
struct StakeAccountKeys {
    address: Pubkey,
    staker: Keypair,
    withdrawer: Keypair,
    custodian: Keypair,
}

impl StakeAccountKeys {
    /// Takes the authorities that the account names, where a change of them has failed.
    fn refresh(&mut self, block: &Block<'_>, world: &World) {
        let account = block.bank.get_account(&self.address);
        let state = account.and_then(|account| bincode::deserialize::<StakeStateV2>(account.data()).ok());
        let Some(authorized) = state.and_then(|state| state.authorized()) else { return };
        self.staker = world.key_of(&authorized.staker).unwrap_or_else(|| self.staker.insecure_clone());
        let withdrawer = world.key_of(&authorized.withdrawer);
        self.withdrawer = withdrawer.unwrap_or_else(|| self.withdrawer.insecure_clone());
    }

    fn exists(&self, block: &Block<'_>) -> bool {
        block.bank.get_balance(&self.address) > 0
    }
}

/// Stake accounts of a ledger.
#[derive(Default)]
pub struct Stakes {
    made: Vec<StakeAccountKeys>,
}

/// Lamports that a stake account holds for its rent.
const RENT: u64 = 2_282_880;

impl Act for Stakes {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.made.len() < 3 || block.rng.chance(25) {
            self.create(block, world);
            return;
        }
        // Mostly an account that is there; what was merged or withdrawn whole is gone.
        let mut at = block.rng.index(self.made.len());
        for _ in 0..3 {
            let other = block.rng.index(self.made.len());
            at = if self.made[at].exists(block) { at } else { other };
        }
        self.made[at].refresh(block, world);
        match block.rng.below(16) {
            0..=2 => self.delegate(block, world, at),
            3 | 4 => self.deactivate(block, world, at),
            5 | 6 => self.split(block, world, at),
            7 | 8 => self.merge(block, world, at),
            9 | 10 => self.shift(block, world, at),
            11 => self.authorize(block, world, at),
            12 => self.lockup(block, world, at),
            13 => self.delinquent(block, world, at),
            _ => self.withdraw(block, world, at),
        }
    }
}

impl Stakes {
    fn create(&mut self, block: &mut Block<'_>, world: &mut World) {
        let (staker, withdrawer) = world.pair(block.rng);
        let custodian = world.user(block.rng);
        let account = world.fresh();
        let mut address = account.pubkey();
        let authorized = Authorized { staker: staker.pubkey(), withdrawer: withdrawer.pubkey() };
        let lockup = match block.rng.below(5) {
            0 => Lockup { unix_timestamp: 0, epoch: block.bank.epoch() + 2, custodian: custodian.pubkey() },
            1 => Lockup { unix_timestamp: i64::MAX, epoch: 0, custodian: custodian.pubkey() },
            _ => Lockup::default(),
        };
        let amounts =
            [RENT, RENT + SOL - 1, RENT + SOL, 10 * SOL, 77 * SOL, 5_000 * SOL, 40_000 * SOL, 250_000 * SOL, RENT - 1];
        let lamports = *block.rng.pick(&amounts);
        let (from, vote) = (world.mint.pubkey(), target(block, world));
        let mint = &world.mint;
        match block.rng.below(6) {
            0 => {
                let steps = stake::create_account(&from, &address, &authorized, &lockup, lamports);
                block.send(&steps, &[mint, &account])
            }
            1 => {
                let steps = stake::create_account_checked(&from, &address, &authorized, lamports);
                block.send(&steps, &[mint, &account, &withdrawer])
            }
            2 => {
                let base = address;
                address = Pubkey::create_with_seed(&base, "stake", &solana_sdk_ids::stake::id()).expect("a short seed");
                let steps =
                    stake::create_account_with_seed(&from, &address, &base, "stake", &authorized, &lockup, lamports);
                block.send(&steps, &[mint, &account])
            }
            _ => {
                let steps =
                    stake::create_account_and_delegate_stake(&from, &address, &vote, &authorized, &lockup, lamports);
                block.send(&steps, &[mint, &account, &staker])
            }
        };
        self.made.push(StakeAccountKeys { address, staker, withdrawer, custodian });
    }

    fn delegate(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let vote = if block.rng.chance(10) { world.mint.pubkey() } else { target(block, world) };
        let by = if block.rng.chance(15) { &made.custodian } else { &made.staker };
        let step = stake::delegate_stake(&made.address, &by.pubkey(), &vote);
        block.send(&[step], &[&world.mint, by]);
    }

    fn deactivate(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let step = stake::deactivate_stake(&made.address, &made.staker.pubkey());
        let steps = if block.rng.chance(15) { vec![step.clone(), step] } else { vec![step] };
        block.send(&steps, &[&world.mint, &made.staker]);
    }

    fn split(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let (staker, part) = (made.staker.insecure_clone(), world.fresh());
        let held = block.bank.get_balance(&made.address);
        let amounts = [0, 1, held, held / 2, held.saturating_sub(1), held + 1, RENT + SOL, 2 * SOL];
        let lamports = *block.rng.pick(&amounts);
        let mut address = part.pubkey();
        let prefund = system::transfer(&world.mint.pubkey(), &address, RENT);
        let (source, by) = (made.address, staker.pubkey());
        if block.rng.chance(25) {
            let base = address;
            address = Pubkey::create_with_seed(&base, "split", &solana_sdk_ids::stake::id()).expect("a short seed");
            let mut steps = vec![system::transfer(&world.mint.pubkey(), &address, RENT)];
            steps.extend(stake::split_with_seed(&source, &by, lamports, &address, &base, "split"));
            block.send(&steps, &[&world.mint, &part, &staker]);
        } else {
            let mut steps = stake::split(&source, &by, lamports, &address);
            if block.rng.chance(70) {
                steps.insert(0, prefund);
            }
            block.send(&steps, &[&world.mint, &part, &staker]);
        }
        let StakeAccountKeys { withdrawer, custodian, .. } = &self.made[at];
        let (withdrawer, custodian) = (withdrawer.insecure_clone(), custodian.insecure_clone());
        self.made.push(StakeAccountKeys { address, staker, withdrawer, custodian });
    }

    /// Two accounts of the ledger, mostly ones with the same authorities.
    fn partner(&self, block: &mut Block<'_>, at: usize) -> usize {
        let staker = self.made[at].staker.pubkey();
        let alike = |n: &usize| *n != at && self.made[*n].staker.pubkey() == staker;
        let candidates: Vec<usize> = (0..self.made.len()).filter(alike).collect();
        if candidates.is_empty() || block.rng.chance(10) {
            return block.rng.index(self.made.len());
        }
        *block.rng.pick(&candidates)
    }

    fn merge(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let other = self.partner(block, at);
        let (into, from) = (&self.made[at], &self.made[other]);
        let steps = stake::merge(&into.address, &from.address, &into.staker.pubkey());
        block.send(&steps, &[&world.mint, &into.staker]);
    }

    /// Moves stake or lamports between accounts.
    fn shift(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let other = self.partner(block, at);
        let (from, to) = (&self.made[at], &self.made[other]);
        let held = block.bank.get_balance(&from.address);
        let amounts = [0, 1, SOL, held.saturating_sub(RENT), held / 2, held];
        let lamports = *block.rng.pick(&amounts);
        let by = from.staker.pubkey();
        let step = if block.rng.chance(50) {
            stake::move_stake(&from.address, &to.address, &by, lamports)
        } else {
            stake::move_lamports(&from.address, &to.address, &by, lamports)
        };
        block.send(&[step], &[&world.mint, &from.staker]);
    }

    fn authorize(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let next = world.user(block.rng);
        let made = &mut self.made[at];
        let as_staker = block.rng.chance(60);
        let kind = if as_staker { StakeAuthorize::Staker } else { StakeAuthorize::Withdrawer };
        let by = if as_staker && block.rng.chance(50) { &made.staker } else { &made.withdrawer };
        let custodian = made.custodian.pubkey();
        let custodian = block.rng.chance(50).then_some(&custodian);
        let (address, mint) = (made.address, &world.mint);
        let step = match block.rng.below(3) {
            0 => stake::authorize_checked(&address, &by.pubkey(), &next.pubkey(), kind, custodian),
            1 => {
                let owner = solana_sdk_ids::system_program::id();
                let seed = "wrong".to_string();
                stake::authorize_with_seed(&address, &by.pubkey(), seed, &owner, &next.pubkey(), kind, custodian)
            }
            _ => stake::authorize(&address, &by.pubkey(), &next.pubkey(), kind, custodian),
        };
        block.send(&[step], &[mint, by, &next, &made.custodian]);
        if as_staker { made.staker = next } else { made.withdrawer = next }
    }

    fn lockup(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let epoch = block.bank.epoch();
        let args = LockupArgs {
            unix_timestamp: block.rng.chance(50).then_some(1),
            epoch: Some(epoch + block.rng.below(2)),
            custodian: None,
        };
        let by = if block.rng.chance(50) { &made.custodian } else { &made.withdrawer };
        let step = if block.rng.chance(50) {
            stake::set_lockup(&made.address, &args, &by.pubkey())
        } else {
            stake::set_lockup_checked(&made.address, &args, &by.pubkey())
        };
        block.send(&[step, stake::get_minimum_delegation()], &[&world.mint, by]);
    }

    fn delinquent(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let (first, second) = (target(block, world), target(block, world));
        let step = stake::deactivate_delinquent_stake(&self.made[at].address, &first, &second);
        block.send(&[step], &[&world.mint]);
    }

    fn withdraw(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let held = block.bank.get_balance(&made.address);
        let amounts = [1, SOL, held, held.saturating_sub(RENT), held + 1];
        let lamports = *block.rng.pick(&amounts);
        let to = world.user(block.rng).pubkey();
        let custodian = made.custodian.pubkey();
        let custodian = block.rng.chance(40).then_some(&custodian);
        let by = if block.rng.chance(10) { &made.staker } else { &made.withdrawer };
        let step: Instruction = stake::withdraw(&made.address, &by.pubkey(), &to, lamports, custodian);
        block.send(&[step], &[&world.mint, by, &made.custodian]);
    }
}

/// Returns the vote account of one of the validators.
fn target(block: &mut Block<'_>, world: &World) -> Pubkey {
    block.rng.pick(&world.validators).vote.pubkey()
}
