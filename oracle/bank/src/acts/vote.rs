//! The vote program, apart from votes: accounts, authorities, commissions, collectors, withdrawals.

use solana_account::ReadableAccount;
use solana_bls_signatures::keypair::Keypair as BlsKeypair;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_vote_interface::instruction::{self as vote, CommissionKind, CreateVoteAccountConfig};
use solana_vote_interface::state::{VoteAuthorize, VoteInit, VoteInitV2, VoteStateV4, VoterWithBLSArgs};
use solana_vote_program::vote_state::create_bls_proof_of_possession;

use crate::acts::Act;
use crate::block::Block;
use crate::votes;
use crate::world::{SOL, World};

/// A vote account that a transaction made.
struct VoteAccountKeys {
    account: Keypair,
    node: Keypair,
    voter: Keypair,
    withdrawer: Keypair,
}

impl VoteAccountKeys {
    /// Takes the authorities that the account names, where a change of them has failed.
    fn refresh(&mut self, block: &Block<'_>, world: &World) {
        let account = block.bank.get_account(&self.account.pubkey());
        let state = account.and_then(|account| VoteStateV4::deserialize(account.data(), &self.account.pubkey()).ok());
        let Some(state) = state else { return };
        let voter = state.authorized_voters.last().and_then(|(_, voter)| world.key_of(voter));
        self.voter = voter.unwrap_or_else(|| self.voter.insecure_clone());
        let withdrawer = world.key_of(&state.authorized_withdrawer);
        self.withdrawer = withdrawer.unwrap_or_else(|| self.withdrawer.insecure_clone());
    }
}

/// Vote accounts of a ledger.
#[derive(Default)]
pub struct VoteAccounts {
    made: Vec<VoteAccountKeys>,
}

impl Act for VoteAccounts {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.made.len() < 2 || block.rng.chance(15) {
            self.create(block, world);
            return;
        }
        let at = block.rng.index(self.made.len());
        self.made[at].refresh(block, world);
        match block.rng.below(12) {
            0..=2 => self.authorize(block, world, at),
            3 => self.identity(block, world, at),
            4 | 5 => self.withdraw(block, world, at),
            6 => self.initialize_again(block, at),
            7 => self.deposit(block, world, at),
            8 => {
                let validator = block.rng.index(world.validators.len());
                let thief = world.user(block.rng);
                votes::forged(block, &world.validators[validator], &thief);
            }
            _ => commission(block, &self.made[at].account.pubkey(), &self.made[at].withdrawer, world),
        }
    }
}

/// Commissions of the genesis' validators.
pub struct Commissions;

impl Act for Commissions {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let validator = &world.validators[block.rng.index(world.validators.len())];
        let (account, withdrawer) = (validator.vote.pubkey(), validator.withdrawer.insecure_clone());
        commission(block, &account, &withdrawer, world);
    }
}

fn bls(account: &Keypair, n: u8) -> VoterWithBLSArgs {
    let keypair = BlsKeypair::derive(&[account.pubkey().to_bytes(), [n; 32]].concat()).expect("enough bytes");
    let (bls_pubkey, bls_proof_of_possession) = create_bls_proof_of_possession(&account.pubkey(), &keypair);
    VoterWithBLSArgs { bls_pubkey, bls_proof_of_possession }
}

impl VoteAccounts {
    fn create(&mut self, block: &mut Block<'_>, world: &mut World) {
        let (node, voter) = world.pair(block.rng);
        let withdrawer = world.user(block.rng);
        let account = world.fresh();
        let steps = if block.rng.chance(50) {
            let init = VoteInit {
                node_pubkey: node.pubkey(),
                authorized_voter: voter.pubkey(),
                authorized_withdrawer: withdrawer.pubkey(),
                commission: *block.rng.pick(&[0, 7, 50, 100, 101]),
            };
            let config = CreateVoteAccountConfig {
                space: *block.rng.pick(&[3762, 3762, 3762, 3762, 3762, 3731, 200]),
                ..CreateVoteAccountConfig::default()
            };
            vote::create_account_with_config(&world.mint.pubkey(), &account.pubkey(), &init, SOL, config)
        } else {
            self.create_v2(block, world, &account, [&node, &voter, &withdrawer])
        };
        block.send(&steps, &[&world.mint, &account, &node]);
        self.made.push(VoteAccountKeys { account, node, voter, withdrawer });
    }

    fn create_v2(
        &self,
        block: &mut Block<'_>,
        world: &mut World,
        account: &Keypair,
        [node, voter, withdrawer]: [&Keypair; 3],
    ) -> Vec<Instruction> {
        let mut proof = bls(account, 0);
        if block.rng.chance(20) {
            proof.bls_proof_of_possession = bls(node, 0).bls_proof_of_possession;
        }
        let init = VoteInitV2 {
            node_pubkey: node.pubkey(),
            authorized_voter: voter.pubkey(),
            authorized_voter_bls_pubkey: proof.bls_pubkey,
            authorized_voter_bls_proof_of_possession: proof.bls_proof_of_possession,
            authorized_withdrawer: withdrawer.pubkey(),
            inflation_rewards_commission_bps: *block.rng.pick(&[0, 123, 10_000, 10_001]),
            block_revenue_commission_bps: *block.rng.pick(&[0, 2_500, 10_000]),
        };
        let collectors = [account.pubkey(), world.fresh().pubkey(), node.pubkey()];
        let (rewards, revenue) = (*block.rng.pick(&collectors), *block.rng.pick(&collectors));
        vote::create_account_with_config_v2(
            &world.mint.pubkey(),
            &account.pubkey(),
            &init,
            &rewards,
            &revenue,
            SOL,
            CreateVoteAccountConfig::default(),
        )
    }

    fn authorize(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let next = world.user(block.rng);
        let made = &self.made[at];
        let account = made.account.pubkey();
        let with_bls = VoteAuthorize::VoterWithBLS(bls(&made.account, block.rng.below(3) as u8));
        let kinds = [VoteAuthorize::Voter, VoteAuthorize::Withdrawer, with_bls];
        let kind = *block.rng.pick(&kinds);
        let is_withdrawer = kind == VoteAuthorize::Withdrawer;
        // The withdrawer may replace either; the voter itself only.
        let by = if is_withdrawer || block.rng.chance(50) { &made.withdrawer } else { &made.voter };
        let by = if block.rng.chance(15) { &made.node } else { by };
        let payer = &world.mint;
        match block.rng.below(5) {
            0 => {
                let change = vote::authorize_checked(&account, &by.pubkey(), &next.pubkey(), kind);
                block.send(&[change], &[payer, by, &next]);
            }
            1 => {
                let owner = solana_sdk_ids::system_program::id();
                let change = vote::authorize_with_seed(&account, &by.pubkey(), &owner, "seed", &next.pubkey(), kind);
                block.send(&[change], &[payer, by]);
                return;
            }
            2 => {
                let owner = solana_sdk_ids::system_program::id();
                let base = by.pubkey();
                let derived = Pubkey::create_with_seed(&base, "vote", &owner).expect("a short seed");
                let there = vote::authorize(&account, &base, &derived, kind);
                let back = vote::authorize_checked_with_seed(&account, &base, &owner, "vote", &next.pubkey(), kind);
                block.send(&[there, back], &[payer, by, &next]);
            }
            _ => {
                let change = vote::authorize(&account, &by.pubkey(), &next.pubkey(), kind);
                block.send(&[change], &[payer, by]);
            }
        }
        let made = &mut self.made[at];
        if is_withdrawer { made.withdrawer = next } else { made.voter = next }
    }

    fn identity(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let node = world.fresh();
        let made = &mut self.made[at];
        let change = vote::update_validator_identity(&made.account.pubkey(), &made.withdrawer.pubkey(), &node.pubkey());
        block.send(&[change], &[&world.mint, &made.withdrawer, &node]);
        made.node = node;
    }

    fn withdraw(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let held = block.bank.get_balance(&made.account.pubkey());
        let lamports = *block.rng.pick(&[1, held, held + 1, held.saturating_sub(1), SOL / 2]);
        let to = world.user(block.rng).pubkey();
        let by = if block.rng.chance(20) { &made.voter } else { &made.withdrawer };
        let take = vote::withdraw(&made.account.pubkey(), &by.pubkey(), lamports, &to);
        block.send(&[take], &[&world.mint, by]);
    }

    fn initialize_again(&self, block: &mut Block<'_>, at: usize) {
        let made = &self.made[at];
        let init = VoteInit {
            node_pubkey: made.node.pubkey(),
            authorized_voter: made.voter.pubkey(),
            authorized_withdrawer: made.withdrawer.pubkey(),
            commission: 1,
        };
        let config = CreateVoteAccountConfig::default();
        let account = made.account.pubkey();
        let steps = vote::create_account_with_config(&made.node.pubkey(), &account, &init, SOL, config);
        block.send(&steps[1..], &[&made.node]);
    }

    fn deposit(&self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let from = world.user(block.rng);
        let lamports = block.rng.below(SOL);
        let deposit = vote::deposit_delegator_rewards(&self.made[at].account.pubkey(), &from.pubkey(), lamports);
        block.send(&[deposit], &[&from]);
    }
}

/// Changes a commission or a collector of a vote account.
fn commission(block: &mut Block<'_>, account: &Pubkey, withdrawer: &Keypair, world: &mut World) {
    let by = withdrawer.pubkey();
    let kind = |n: u64| if n == 0 { CommissionKind::InflationRewards } else { CommissionKind::BlockRevenue };
    let kind = kind(block.rng.below(2));
    let change = match block.rng.below(6) {
        0 | 1 => vote::update_commission(account, &by, *block.rng.pick(&[0, 5, 50, 100, 200])),
        2 | 3 => vote::update_commission_bps(account, &by, kind, *block.rng.pick(&[0, 777, 9_999, 10_000, 12_000])),
        _ => {
            let collectors = [world.user(block.rng).pubkey(), *account, world.fresh().pubkey(), by];
            vote::update_commission_collector(account, &by, block.rng.pick(&collectors), kind)
        }
    };
    if block.rng.chance(15) {
        let thief = world.user(block.rng);
        block.send(&[vote::update_commission(account, &thief.pubkey(), 3)], &[&thief]);
    }
    block.send(&[change], &[&world.mint, withdrawer]);
}
