//! The upgradeable loader: programs deployed, called, upgraded, extended, handed over and closed.

use solana_account::ReadableAccount;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_loader_v3_interface::instruction as loader;
use solana_loader_v3_interface::state::UpgradeableLoaderState as State;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_signer::Signer;

use crate::acts::Act;
use crate::block::Block;
use crate::programs::{MEMO_1, MEMO_4};
use crate::world::{SOL, World};

/// Bytes of code in a transaction.
const CHUNK: usize = 900;

/// A program, and the key that may upgrade it.
struct Program {
    address: Pubkey,
    authority: Keypair,
}

/// Programs of a ledger. They deploy where the chain takes code of the first version.
pub struct Programs {
    made: Vec<Program>,
    buffers: Vec<(Pubkey, Keypair)>,
    /// Code of 2 kB, and of 17 kB.
    code: [Vec<u8>; 2],
}

impl Default for Programs {
    fn default() -> Self {
        Self { made: vec![], buffers: vec![], code: [code(&MEMO_4), code(&MEMO_1)] }
    }
}

/// Returns the code of a program that Agave's crates hold.
pub fn code(id: &Pubkey) -> Vec<u8> {
    let accounts = solana_program_binaries::by_id(id, &Rent::default()).expect("the program is known");
    match accounts.as_slice() {
        [(_, program)] => program.data().to_vec(),
        [_, (_, data)] => data.data()[State::size_of_programdata_metadata()..].to_vec(),
        _ => unreachable!("a program has one account or two"),
    }
}

impl Act for Programs {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        if self.made.len() < 2 || block.rng.chance(8) {
            self.deploy(block, world);
            return;
        }
        let at = block.rng.index(self.made.len());
        match block.rng.below(14) {
            0 | 1 => self.upgrade(block, world, at),
            2 => self.extend(block, world, at),
            3 => self.hand_over(block, world, at),
            4 => self.close(block, world, at),
            5 => self.spoil(block, world, at),
            _ => {
                let address = self.made[at].address;
                call(block, world, &address);
            }
        }
    }
}

/// Makes a buffer that holds `code`, in as many transactions as that takes; returns its address.
pub fn fill(block: &mut Block<'_>, world: &mut World, authority: &Keypair, code: &[u8]) -> Pubkey {
    let buffer = world.fresh();
    let size = State::size_of_buffer(code.len());
    let lamports = block.bank.get_minimum_balance_for_rent_exemption(size);
    let (payer, key) = (world.mint.pubkey(), buffer.pubkey());
    let create = loader::create_buffer(&payer, &key, &authority.pubkey(), lamports, code.len());
    block.send(&create.expect("the arguments have a form"), &[&world.mint, &buffer]);
    for (n, chunk) in code.chunks(CHUNK).enumerate() {
        let offset = (n * CHUNK) as u32;
        let write = loader::write(&key, &authority.pubkey(), offset, chunk.to_vec());
        block.send(&[write], &[&world.mint, authority]);
    }
    key
}

fn call(block: &mut Block<'_>, world: &World, program: &Pubkey) {
    let payer = world.user(block.rng);
    let text: &[u8] = if block.rng.chance(85) { b"by a program of the ledger" } else { &[0xFF, 0xFE] };
    let accounts = vec![AccountMeta::new_readonly(payer.pubkey(), true)];
    block.send(&[Instruction::new_with_bytes(*program, text, accounts)], &[&payer]);
}

impl Programs {
    /// Makes a buffer and remembers it.
    fn fill(&mut self, block: &mut Block<'_>, world: &mut World, authority: &Keypair, code: &[u8]) -> Pubkey {
        let buffer = fill(block, world, authority, code);
        self.buffers.push((buffer, authority.insecure_clone()));
        buffer
    }

    /// Chooses code: mostly the small program, at times the larger, at times damaged.
    fn choose(&self, block: &mut Block<'_>) -> Vec<u8> {
        match block.rng.below(10) {
            0 => self.code[1].clone(),
            1 => {
                let mut code = self.code[0].clone();
                let at = block.rng.index(code.len());
                code[at] ^= 0x55;
                code
            }
            2 => block.rng.bytes(300),
            _ => self.code[0].clone(),
        }
    }

    fn deploy(&mut self, block: &mut Block<'_>, world: &mut World) {
        let authority = world.user(block.rng);
        let code = self.choose(block);
        let buffer = self.fill(block, world, &authority, &code);
        let program = world.fresh();
        let room = match block.rng.below(6) {
            0 => code.len() - 1,
            1 => code.len() * 2,
            _ => code.len(),
        };
        let lamports = block.bank.get_minimum_balance_for_rent_exemption(State::size_of_program());
        let key = program.pubkey();
        let by = if block.rng.chance(10) { world.user(block.rng) } else { authority.insecure_clone() };
        let steps =
            loader::deploy_with_max_program_len(&world.mint.pubkey(), &key, &buffer, &by.pubkey(), lamports, room);
        block.send(&steps.expect("the arguments have a form"), &[&world.mint, &program, &by]);
        // A program cannot be called in the slot of its deployment.
        if block.rng.chance(50) {
            call(block, world, &key);
        }
        self.made.push(Program { address: key, authority });
    }

    fn upgrade(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let authority = self.made[at].authority.insecure_clone();
        let code = self.choose(block);
        let buffer = self.fill(block, world, &authority, &code);
        let address = self.made[at].address;
        let step = loader::upgrade(&address, &buffer, &authority.pubkey(), &world.mint.pubkey());
        if block.rng.chance(20) {
            let thief = world.user(block.rng);
            let theft = loader::upgrade(&address, &buffer, &thief.pubkey(), &thief.pubkey());
            block.send(&[theft], &[&thief]);
        }
        block.send(&[step], &[&world.mint, &authority]);
        if block.rng.chance(50) {
            call(block, world, &address);
        }
    }

    fn extend(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let made = &self.made[at];
        let bytes = *block.rng.pick(&[0, 1, 600, 10_240, 20_000, 11_000_000]);
        let payer = block.rng.chance(80).then(|| world.mint.pubkey());
        let step = loader::extend_program(&made.address, payer.as_ref(), bytes);
        block.send(&[step], &[&world.mint]);
    }

    fn hand_over(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let next = world.user(block.rng);
        let made = &self.made[at];
        let (address, old) = (made.address, made.authority.insecure_clone());
        match block.rng.below(6) {
            0 => {
                let step = loader::set_upgrade_authority_checked(&address, &old.pubkey(), &next.pubkey());
                block.send(&[step], &[&world.mint, &old, &next]);
            }
            // Nobody can upgrade it any more.
            1 => {
                let step = loader::set_upgrade_authority(&address, &old.pubkey(), None);
                block.send(&[step], &[&world.mint, &old]);
                return;
            }
            2 => {
                let Some((buffer, owner)) = self.buffers.last() else { return };
                let step = loader::set_buffer_authority(buffer, &owner.pubkey(), &next.pubkey());
                let again = loader::set_buffer_authority_checked(buffer, &next.pubkey(), &owner.pubkey());
                block.send(&[step, again], &[&world.mint, owner, &next]);
                return;
            }
            _ => {
                let step = loader::set_upgrade_authority(&address, &old.pubkey(), Some(&next.pubkey()));
                block.send(&[step], &[&world.mint, &old]);
            }
        }
        self.made[at].authority = next;
    }

    fn close(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let to = world.user(block.rng).pubkey();
        if block.rng.chance(60) {
            let code = self.code[0].clone();
            let authority = world.user(block.rng);
            let buffer = self.fill(block, world, &authority, &code[..500]);
            block.send(&[loader::close(&buffer, &to, &authority.pubkey())], &[&world.mint, &authority]);
            return;
        }
        let Program { address, authority } = &self.made[at];
        let data = solana_loader_v3_interface::get_program_data_address(address);
        let step = loader::close_any(&data, &to, Some(&authority.pubkey()), Some(address));
        block.send(&[step], &[&world.mint, authority]);
        // Closed in this slot: the loader refuses calls already.
        let address = *address;
        call(block, world, &address);
    }

    /// Writes that the loader refuses.
    fn spoil(&mut self, block: &mut Block<'_>, world: &mut World, at: usize) {
        let stranger = world.user(block.rng);
        let Some((buffer, owner)) = self.buffers.last() else { return };
        let address = self.made[at].address;
        let step = match block.rng.below(5) {
            0 => loader::write(buffer, &stranger.pubkey(), 0, vec![1]),
            1 => loader::write(buffer, &owner.pubkey(), u32::MAX, vec![1]),
            2 => loader::write(&address, &owner.pubkey(), 0, vec![1]),
            3 => {
                let create = loader::create_buffer(&owner.pubkey(), buffer, &owner.pubkey(), SOL, 10);
                create.expect("the arguments have a form").remove(1)
            }
            _ => Instruction::new_with_bytes(solana_sdk_ids::bpf_loader_upgradeable::id(), &[250], vec![]),
        };
        block.send(&[step], &[&world.mint, owner, &stranger]);
    }
}
