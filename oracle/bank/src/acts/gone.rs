//! Vote accounts that are closed under their stakes, and wallets that become vote accounts while they collect the
//! commissions of others.

use std::ops::RangeInclusive;

use solana_keypair::Keypair;
use solana_signer::Signer;
use solana_stake_interface::instruction as stake;
use solana_stake_interface::state::{Authorized, Lockup};
use solana_system_interface::instruction as system;
use solana_vote_interface::instruction::{self as vote, CommissionKind, CreateVoteAccountConfig};
use solana_vote_interface::state::VoteInit;

use crate::acts::Act;
use crate::block::Block;
use crate::votes::{self, Voting};
use crate::world::{SOL, Validator, World};

/// Closes vote accounts of the genesis, one a block. Their validators have not voted: one with credits of this epoch
/// or the last cannot be closed.
pub struct Closings {
    /// The slot from which on accounts are closed.
    pub from_slot: u64,
    /// The validators that remain, by their number.
    pub validators: Vec<usize>,
}

impl Act for Closings {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if block.bank.slot() < self.from_slot {
            return;
        }
        let Some(n) = self.validators.pop() else { return };
        let (mint, validator) = (&world.mint, &world.validators[n]);
        let account = validator.vote.pubkey();
        let held = block.bank.get_balance(&account);
        for lamports in [held + 1, held] {
            let take = vote::withdraw(&account, &validator.withdrawer.pubkey(), lamports, &mint.pubkey());
            block.send(&[take], &[mint, &validator.withdrawer]);
        }
        // Some of the addresses are wallets from then on, which may receive a commission.
        if n % 2 == 0 {
            block.send(&[system::transfer(&mint.pubkey(), &account, 2 * SOL)], &[mint]);
        }
    }
}

/// The validators whose commissions a wallet collects, with the first bytes of the addresses of the stakes that the
/// wallet gets as a vote account. Rewards are added up in the order of addresses: the first wallet counts as a
/// collector before it counts as a vote account, the second the other way round.
const COLLECTED: [(usize, RangeInclusive<u8>); 2] = [(0, 128..=255), (2, 0..=31)];

/// Collectors that become vote accounts, which vote and collect for themselves: what others send to them is burned.
#[derive(Default)]
pub struct Collectors {
    made: Vec<Validator>,
}

impl Act for Collectors {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.made.is_empty() {
            self.made = COLLECTED.iter().map(|(n, first_bytes)| collector(block, world, *n, first_bytes)).collect();
            return;
        }
        for validator in &self.made {
            votes::vote_of(block, validator, &Voting::default(), 0);
        }
    }
}

/// Makes a collector for the validator `n`, then a vote account of it, and delegates to that.
fn collector(block: &mut Block<'_>, world: &mut World, n: usize, first_bytes: &RangeInclusive<u8>) -> Validator {
    let (wallet, identity, withdrawer) = (world.fresh(), world.fresh(), world.fresh());
    let mint = world.mint.insecure_clone();
    let pay = |to: &Keypair| system::transfer(&mint.pubkey(), &to.pubkey(), 5 * SOL);
    block.send(&[pay(&wallet), pay(&identity)], &[&mint]);

    let (account, by) = (world.validators[n].vote.pubkey(), &world.validators[n].withdrawer);
    let kind = CommissionKind::InflationRewards;
    let collect = vote::update_commission_collector(&account, &by.pubkey(), &wallet.pubkey(), kind);
    block.send(&[collect], &[&mint, by]);

    become_vote_account(block, &mint, [&wallet, &identity, &withdrawer]);
    let stakes: Vec<Keypair> = (0..3).map(|_| fresh_in(world, first_bytes)).collect();
    for stake in &stakes {
        delegate(block, &mint, stake, &wallet);
    }
    let voter = identity.insecure_clone();
    Validator { identity, vote: wallet, stake: stakes[0].pubkey(), voter, withdrawer }
}

/// Turns a wallet into a vote account, which keeps its lamports.
fn become_vote_account(block: &mut Block<'_>, mint: &Keypair, [wallet, identity, withdrawer]: [&Keypair; 3]) {
    let account = wallet.pubkey();
    let init = VoteInit {
        node_pubkey: identity.pubkey(),
        authorized_voter: identity.pubkey(),
        authorized_withdrawer: withdrawer.pubkey(),
        commission: 10,
    };
    let config = CreateVoteAccountConfig::default();
    let space = config.space;
    let initialize = vote::create_account_with_config(&mint.pubkey(), &account, &init, SOL, config).remove(1);
    let steps = [system::allocate(&account, space), system::assign(&account, &solana_sdk_ids::vote::id()), initialize];
    block.send(&steps, &[mint, wallet, identity]);
}

fn delegate(block: &mut Block<'_>, mint: &Keypair, stake: &Keypair, vote: &Keypair) {
    let (owner, lockup) = (Authorized::auto(&mint.pubkey()), Lockup::default());
    let (from, address, vote) = (mint.pubkey(), stake.pubkey(), vote.pubkey());
    let steps = stake::create_account_and_delegate_stake(&from, &address, &vote, &owner, &lockup, 20_000 * SOL);
    block.send(&steps, &[mint, stake]);
}

/// Makes a key whose address begins with one of these bytes.
fn fresh_in(world: &mut World, first_bytes: &RangeInclusive<u8>) -> Keypair {
    loop {
        let key = world.fresh();
        if first_bytes.contains(&key.pubkey().to_bytes()[0]) {
            return key;
        }
    }
}
