//! Token-2022: mints with extensions, whose accounts the associated-token-account program makes.

use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::programs::{ASSOCIATED, TOKEN_2022};
use crate::world::World;

/// An extension of a mint: bytes of its entry, and the instruction data that initialises it.
struct Extension {
    bytes: usize,
    init: fn(&Pubkey) -> Vec<u8>,
}

/// The extensions that the mints of a ledger have in turn.
const EXTENSIONS: [Extension; 6] = [
    // A transfer fee of 1.5 %, at most 5,000.
    Extension {
        bytes: 108,
        init: |key| {
            [&[26, 0, 1][..], key.as_ref(), &[1], key.as_ref(), &150u16.to_le_bytes(), &5_000u64.to_le_bytes()].concat()
        },
    },
    // An authority that closes the mint.
    Extension { bytes: 32, init: |key| [&[25, 1][..], key.as_ref()].concat() },
    // Accounts begin frozen.
    Extension { bytes: 1, init: |_| vec![28, 0, 2] },
    // Interest of 3 %.
    Extension { bytes: 52, init: |key| [&[33, 0][..], key.as_ref(), &300i16.to_le_bytes()].concat() },
    // A delegate over all accounts.
    Extension { bytes: 32, init: |key| [&[35][..], key.as_ref()].concat() },
    // Tokens that stay where they are.
    Extension { bytes: 0, init: |_| vec![32] },
];

struct Mint {
    key: Pubkey,
    authority: Keypair,
    owners: Vec<Keypair>,
}

/// Extended tokens of a ledger.
#[derive(Default)]
pub struct Extended {
    mints: Vec<Mint>,
}

impl Act for Extended {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.mints.is_empty() || block.rng.chance(15) {
            self.create_mint(block, world);
            return;
        }
        let at = block.rng.index(self.mints.len());
        if self.mints[at].owners.len() < 2 || block.rng.chance(20) {
            self.create_account(block, world, at);
            return;
        }
        self.instruct(block, world, at);
    }
}

/// Returns the address of an owner's account of a mint.
fn associated(owner: &Pubkey, mint: &Pubkey) -> Pubkey {
    Pubkey::find_program_address(&[owner.as_ref(), TOKEN_2022.as_ref(), mint.as_ref()], &ASSOCIATED).0
}

fn instruction(data: &[u8], accounts: Vec<AccountMeta>) -> Instruction {
    Instruction::new_with_bytes(TOKEN_2022, data, accounts)
}

impl Extended {
    fn create_mint(&mut self, block: &mut Block<'_>, world: &mut World) {
        let (mint, authority) = (world.fresh(), world.user(block.rng));
        let (key, by) = (mint.pubkey(), authority.pubkey());
        let extension = &EXTENSIONS[self.mints.len() % EXTENSIONS.len()];
        // The entries follow the size of a token account and a byte for the kind.
        let size = 165 + 1 + 4 + extension.bytes + if block.rng.chance(10) { 1 } else { 0 };
        let rent = block.bank.get_minimum_balance_for_rent_exemption(size);
        let base = [&[20u8, 6][..], by.as_ref(), &[1], by.as_ref()].concat();
        let steps = [
            system::create_account(&world.mint.pubkey(), &key, rent, size as u64, &TOKEN_2022),
            instruction(&(extension.init)(&by), vec![AccountMeta::new(key, false)]),
            instruction(&base, vec![AccountMeta::new(key, false)]),
        ];
        block.send(&steps, &[&world.mint, &mint]);
        self.mints.push(Mint { key, authority, owners: vec![] });
    }

    fn create_account(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let owner = world.user(block.rng);
        let Mint { key, authority, owners } = &mut self.mints[at];
        let account = associated(&owner.pubkey(), key);
        let payer = world.mint.pubkey();
        let accounts = vec![
            AccountMeta::new(payer, true),
            AccountMeta::new(account, false),
            AccountMeta::new_readonly(owner.pubkey(), false),
            AccountMeta::new_readonly(*key, false),
            AccountMeta::new_readonly(solana_sdk_ids::system_program::id(), false),
            AccountMeta::new_readonly(TOKEN_2022, false),
        ];
        // 0 creates, 1 leaves an account that is there as it is.
        let create = Instruction::new_with_bytes(ASSOCIATED, &[block.rng.below(2) as u8], accounts);
        let mint_to = [&[7u8][..], &1_000_000u64.to_le_bytes()].concat();
        let by = AccountMeta::new_readonly(authority.pubkey(), true);
        let fill = instruction(&mint_to, vec![AccountMeta::new(*key, false), AccountMeta::new(account, false), by]);
        block.send(&[create], &[&world.mint]);
        block.send(&[fill], &[&world.mint, authority]);
        owners.push(owner);
    }

    fn instruct(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let Mint { key, authority, owners } = &self.mints[at];
        let (owner, other) = (block.rng.pick(owners), block.rng.pick(owners));
        let (from, to) = (associated(&owner.pubkey(), key), associated(&other.pubkey(), key));
        let w = |key: &Pubkey| AccountMeta::new(*key, false);
        let r = |key: &Pubkey| AccountMeta::new_readonly(*key, false);
        let s = |by: &Keypair| AccountMeta::new_readonly(by.pubkey(), true);
        let amount = *block.rng.pick(&[1u64, 999, 40_000, 1_000_000, 5_000_000]);
        let checked = [&amount.to_le_bytes()[..], &[6]].concat();
        let fee = (amount * 150).div_ceil(10_000).min(5_000);
        let transfer = [&[12u8][..], &checked].concat();
        let step = match block.rng.below(14) {
            0 | 1 => instruction(&transfer, vec![w(&from), r(key), w(&to), s(owner)]),
            // The permanent delegate moves what is not its own.
            2 => instruction(&transfer, vec![w(&from), r(key), w(&to), s(authority)]),
            3 => {
                let data = [&[26u8, 1][..], &checked, &fee.to_le_bytes()].concat();
                instruction(&data, vec![w(&from), r(key), w(&to), s(owner)])
            }
            4 => instruction(&[26, 4], vec![w(key), w(&from), w(&to)]),
            5 => instruction(&[26, 2], vec![w(key), w(&to), s(authority)]),
            6 => {
                let data = [&[26u8, 5][..], &300u16.to_le_bytes(), &9_000u64.to_le_bytes()].concat();
                instruction(&data, vec![w(key), s(authority)])
            }
            7 => instruction(&[11], vec![w(&from), r(key), s(authority)]),
            8 => instruction(&[30, 0], vec![w(&to), s(other)]),
            9 => instruction(&[&[33u8, 1][..], &(-250i16).to_le_bytes()].concat(), vec![w(key), s(authority)]),
            10 => instruction(
                &[29, 8, 0],
                vec![w(&from), w(&owner.pubkey()), r(&solana_sdk_ids::system_program::id()), s(owner)],
            ),
            11 => instruction(&[9], vec![w(key), w(&authority.pubkey()), s(authority)]),
            12 => instruction(&[&[8u8][..], &amount.to_le_bytes()].concat(), vec![w(&from), w(key), s(owner)]),
            _ => instruction(&[&[3u8][..], &amount.to_le_bytes()].concat(), vec![w(&from), w(&to), s(owner)]),
        };
        block.send(&[step], &[&world.mint, owner, other, authority]);
    }
}
