//! The SPL Token program, its instructions built by their layouts; and memos.

use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::acts::budget::memo;
use crate::block::Block;
use crate::programs::{MEMO_3, TOKEN};
use crate::world::World;

/// A mint, and token accounts of it with their owners.
struct Mint {
    key: Pubkey,
    authority: Keypair,
    accounts: Vec<(Pubkey, Keypair)>,
}

/// Tokens of a ledger, under one of the two token programs.
pub struct Tokens {
    program: Pubkey,
    mints: Vec<Mint>,
}

impl Tokens {
    /// Tokens of `program`, which understands SPL Token's layouts.
    pub fn of(program: Pubkey) -> Self {
        Self { program, mints: vec![] }
    }

    /// Tokens of SPL Token.
    pub fn spl() -> Self {
        Self::of(TOKEN)
    }
}

/// An account that the instruction writes.
fn writable(key: &Pubkey) -> AccountMeta {
    AccountMeta::new(*key, false)
}

/// An account that it reads.
fn readable(key: &Pubkey) -> AccountMeta {
    AccountMeta::new_readonly(*key, false)
}

fn signer(key: &Pubkey) -> AccountMeta {
    AccountMeta::new_readonly(*key, true)
}

impl Act for Tokens {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.mints.is_empty() || block.rng.chance(6) {
            self.create_mint(block, world);
            return;
        }
        let at = block.rng.index(self.mints.len());
        if self.mints[at].accounts.len() < 3 || block.rng.chance(10) {
            self.create_account(block, world, at);
            return;
        }
        for _ in 0..block.rng.between(1, 4) {
            self.instruct(block, world, at);
        }
        if block.rng.chance(20) {
            let payer = world.user(block.rng);
            let text: Vec<u8> = if block.rng.chance(80) { b"tokens moved".to_vec() } else { vec![0xC0, 0x80] };
            block.send(&[memo(&payer.pubkey(), &text)], &[&payer]);
            let unsigned = Instruction::new_with_bytes(MEMO_3, b"unsigned", vec![readable(&world.mint.pubkey())]);
            block.send(&[unsigned], &[&payer]);
        }
    }
}

impl Tokens {
    fn instruction(&self, data: &[u8], accounts: Vec<AccountMeta>) -> Instruction {
        Instruction::new_with_bytes(self.program, data, accounts)
    }

    fn create_mint(&mut self, block: &mut Block<'_>, world: &mut World) {
        let (mint, authority) = (world.fresh(), world.user(block.rng));
        let key = mint.pubkey();
        let rent = block.bank.get_minimum_balance_for_rent_exemption(82);
        let freeze = [&[1u8][..], authority.pubkey().as_ref()].concat();
        let data = [&[20, 6][..], authority.pubkey().as_ref(), &freeze].concat();
        let create = system::create_account(&world.mint.pubkey(), &key, rent, 82, &self.program);
        let init = self.instruction(&data, vec![writable(&key)]);
        block.send(&[create, init.clone()], &[&world.mint, &mint]);
        if block.rng.chance(20) {
            block.send(&[init], &[&world.mint]);
        }
        self.mints.push(Mint { key, authority, accounts: vec![] });
    }

    fn create_account(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let (account, owner) = (world.fresh(), world.user(block.rng));
        let key = account.pubkey();
        let mint = self.mints[at].key;
        let rent = block.bank.get_minimum_balance_for_rent_exemption(165);
        let create = system::create_account(&world.mint.pubkey(), &key, rent, 165, &self.program);
        let data = [&[18u8][..], owner.pubkey().as_ref()].concat();
        let init = self.instruction(&data, vec![writable(&key), readable(&mint)]);
        block.send(&[create, init], &[&world.mint, &account]);
        let amount = block.rng.below(1_000_000);
        self.mint_to(block, world, at, &key, amount);
        self.mints[at].accounts.push((key, owner));
    }

    fn mint_to(&self, block: &mut Block<'_>, world: &World, at: usize, to: &Pubkey, amount: u64) {
        let Mint { key, authority, .. } = &self.mints[at];
        let data = [&[7u8][..], &amount.to_le_bytes()].concat();
        let step = self.instruction(&data, vec![writable(key), writable(to), signer(&authority.pubkey())]);
        block.send(&[step], &[&world.mint, authority]);
    }

    fn instruct(&self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let Mint { key, authority, accounts } = &self.mints[at];
        let (from, owner) = block.rng.pick(accounts);
        let (to, other) = block.rng.pick(accounts);
        let by = if block.rng.chance(8) { other } else { owner };
        let amount = *block.rng.pick(&[0, 1, 100, 10_000, 1_000_000_000, u64::MAX]);
        let with_amount = |kind: u8| [&[kind][..], &amount.to_le_bytes()].concat();
        let checked = |kind: u8, decimals: u8| [&with_amount(kind)[..], &[decimals]].concat();
        let (o, b, mint_by) = (owner.pubkey(), by.pubkey(), authority.pubkey());
        let step = match block.rng.below(20) {
            0 => self.instruction(&with_amount(4), vec![writable(from), readable(&other.pubkey()), signer(&b)]),
            1 => self.instruction(&[5], vec![writable(from), signer(&b)]),
            2 => self
                .instruction(&[&[6u8, 2, 1][..], other.pubkey().as_ref()].concat(), vec![writable(from), signer(&b)]),
            3 => self.instruction(&with_amount(8), vec![writable(from), writable(key), signer(&b)]),
            4 => self.instruction(&[9], vec![writable(from), writable(&o), signer(&b)]),
            5 => self.instruction(&[10], vec![writable(from), readable(key), signer(&mint_by)]),
            6 => self.instruction(&[11], vec![writable(from), readable(key), signer(&mint_by)]),
            7 => self.instruction(&checked(12, 5), vec![writable(from), readable(key), writable(to), signer(&b)]),
            8 | 9 => self.instruction(&checked(12, 6), vec![writable(from), readable(key), writable(to), signer(&b)]),
            10 => self.instruction(&checked(14, 6), vec![writable(key), writable(to), signer(&mint_by)]),
            11 => self.instruction(&checked(15, 6), vec![writable(from), writable(key), signer(&b)]),
            12 => self.instruction(&[17], vec![writable(from)]),
            13 => self.instruction(&with_amount(23), vec![readable(key)]),
            14 => self.instruction(b"\x18123.5", vec![readable(key)]),
            15 => self.instruction(&[21], vec![readable(key)]),
            16 => self.instruction(&[200, 1], vec![writable(from)]),
            17 => self.instruction(&with_amount(3)[..5], vec![writable(from), writable(to), signer(&b)]),
            _ => self.instruction(&with_amount(3), vec![writable(from), writable(to), signer(&b)]),
        };
        block.send(&[step], &[&world.mint, owner, other, authority]);
        if block.rng.chance(10) {
            self.mint_to(block, world, at, to, 1_000_000);
        }
    }
}
