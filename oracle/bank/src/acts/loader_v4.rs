//! Programs of the fourth loader, which was abandoned before any chain had it. A genesis may hold some all the same:
//! the runtime loads them, and refuses to run them.

use solana_account::Account;
use solana_instruction::{AccountMeta, Instruction};
use solana_pubkey::Pubkey;
use solana_sdk_ids::loader_v4;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::acts::loader::code;
use crate::block::Block;
use crate::programs::MEMO_4;
use crate::world::{SOL, World};

/// How many programs there are.
const COUNT: u8 = 5;

fn address(n: u8) -> Pubkey {
    Pubkey::new_from_array([0xE0 + n; 32])
}

/// The accounts of the programs: retracted, deployed and final ones, one without code, and one that is cut short.
pub fn accounts() -> Vec<(Pubkey, Account)> {
    let memo = code(&MEMO_4);
    // The slot of deployment, the authority, the status, and the code.
    let program = |status: u64, code: &[u8]| [&[0u8; 8][..], &[7u8; 32][..], &status.to_le_bytes()[..], code].concat();
    let contents: [Vec<u8>; COUNT as usize] =
        [program(0, &memo), program(1, &memo), program(2, &memo), program(1, b"no code"), vec![0; 47]];
    let account = |data| Account { lamports: SOL, data, owner: loader_v4::id(), executable: true, rent_epoch: 0 };
    (0..).map(address).zip(contents.into_iter().map(account)).collect()
}

/// Calls of those programs, and transactions that name them otherwise.
pub struct Abandoned;

impl Act for Abandoned {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let (payer, to) = world.pair(block.rng);
        let program = address(block.rng.below(u64::from(COUNT)) as u8);
        let pay = |to: &Pubkey| system::transfer(&payer.pubkey(), to, 1_000);
        let call = Instruction::new_with_bytes(program, b"a call", vec![]);
        let steps = match block.rng.below(5) {
            0 => vec![pay(&program)],
            1 => {
                let mut beside = pay(&to.pubkey());
                beside.accounts.push(AccountMeta::new_readonly(program, false));
                vec![beside]
            }
            2 => vec![pay(&to.pubkey()), call],
            _ => vec![call],
        };
        block.send(&steps, &[&payer]);
    }
}
