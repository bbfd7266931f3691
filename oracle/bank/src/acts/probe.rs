//! Random programs of the newest version of byte code, written here and deployed: they call the system calls, compute,
//! write accounts, call other programs, and break the rules of the machine.

mod source;

use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_loader_v3_interface::instruction as loader;
use solana_loader_v3_interface::state::UpgradeableLoaderState as State;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::acts::loader::fill;
use crate::block::Block;
use crate::world::World;

/// Bytes of a program's account.
const SPACE: u64 = 64;

/// A program, and an account that it owns.
struct Probe {
    program: Pubkey,
    account: Keypair,
}

/// Random programs of a ledger.
#[derive(Default)]
pub struct Probes {
    made: Vec<Probe>,
}

impl Act for Probes {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.made.len() < 2 || block.rng.chance(30) {
            self.deploy(block, world);
            return;
        }
        for _ in 0..block.rng.between(1, 4) {
            self.call(block, world);
        }
    }
}

impl Probes {
    fn deploy(&mut self, block: &mut Block<'_>, world: &mut World) {
        let authority = world.user(block.rng);
        let (program, account) = (world.fresh(), world.fresh());
        let code = source::program(block.rng);
        let buffer = fill(block, world, &authority, &code);
        let rent = |space: usize| block.bank.get_minimum_balance_for_rent_exemption(space);
        let (payer, key) = (world.mint.pubkey(), program.pubkey());
        let lamports = rent(State::size_of_program());
        let own = rent(SPACE as usize);
        let (buffer, by) = (buffer, authority.pubkey());
        let deploy = loader::deploy_with_max_program_len(&payer, &key, &buffer, &by, lamports, code.len());
        block.send(&deploy.expect("the arguments have a form"), &[&world.mint, &program, &authority]);
        let create = system::create_account(&payer, &account.pubkey(), own, SPACE, &key);
        block.send(&[create], &[&world.mint, &account]);
        self.made.push(Probe { program: key, account });
    }

    fn call(&self, block: &mut Block<'_>, world: &mut World) {
        let Probe { program, account } = block.rng.pick(&self.made);
        let payer = world.user(block.rng);
        let vote = block.rng.pick(&world.validators).vote.pubkey();
        // The sources know this order. At times the account is another's, or may not be written.
        let target = match block.rng.below(8) {
            0 => world.user(block.rng).pubkey(),
            1 => world.fresh().pubkey(),
            _ => account.pubkey(),
        };
        let second = if block.rng.chance(90) {
            AccountMeta::new(target, false)
        } else {
            AccountMeta::new_readonly(target, false)
        };
        let accounts = vec![
            AccountMeta::new(payer.pubkey(), true),
            second,
            AccountMeta::new_readonly(solana_sdk_ids::system_program::id(), false),
            AccountMeta::new_readonly(vote, false),
        ];
        let size = block.rng.below(40) as usize;
        let data = block.rng.bytes(size);
        block.send(&[Instruction::new_with_bytes(*program, &data, accounts)], &[&payer]);
    }
}
