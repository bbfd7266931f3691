//! Transactions that are wrong as a whole: signatures, hashes, payers, accounts, programs, sizes.

use solana_hash::Hash;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader, bpf_loader_upgradeable, native_loader, sysvar, vote};
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::{Block, sign};
use crate::world::{SOL, World};

/// One wrong transaction a block.
pub struct Invalid;

impl Act for Invalid {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let payer = world.user(block.rng);
        let pay = system::transfer(&payer.pubkey(), &world.mint.pubkey(), block.rng.below(SOL));
        match block.rng.below(6) {
            0 => hashes(block, &payer, &pay),
            1 => payers(block, world),
            2 => messages(block, &payer, &pay),
            3 => programs(block, &payer),
            4 => sizes(block, world, &payer),
            _ => reserved(block, &payer),
        }
    }
}

/// Blockhashes that are unknown, too old, or used twice; signatures that do not fit.
fn hashes(block: &mut Block<'_>, payer: &Keypair, pay: &Instruction) {
    let steps = std::slice::from_ref(pay);
    match block.rng.below(5) {
        0 => {
            block.send_with(steps, &[payer], Hash::new_from_array([1; 32]));
        }
        1 => {
            let oldest = block.hashes[0];
            block.send_with(steps, &[payer], oldest);
        }
        2 => {
            let message = Message::new_with_blockhash(steps, Some(&payer.pubkey()), &block.blockhash());
            let tx = sign(VersionedMessage::Legacy(message), &[payer]);
            block.execute(tx.clone());
            block.execute(tx);
        }
        3 => {
            let message = Message::new_with_blockhash(steps, Some(&payer.pubkey()), &block.blockhash());
            block.execute(sign(VersionedMessage::Legacy(message), &[]));
        }
        _ => {
            let message = Message::new_with_blockhash(steps, Some(&payer.pubkey()), &block.blockhash());
            let mut tx = sign(VersionedMessage::Legacy(message), &[payer]);
            tx.signatures.push(tx.signatures[0]);
            block.execute(tx);
        }
    }
}

/// Payers that do not exist, cannot pay, would be left with too little, or belong to a program.
fn payers(block: &mut Block<'_>, world: &mut World) {
    let payer = world.fresh();
    let key = payer.pubkey();
    let fee = block.bank.get_lamports_per_signature();
    let fund = |lamports: u64| system::transfer(&world.mint.pubkey(), &key, lamports);
    let back = system::transfer(&key, &world.mint.pubkey(), 1);
    match block.rng.below(6) {
        0 => {}
        // Enough for rent, and then for the fee but not for both.
        1 => {
            block.send(&[fund(890_880)], &[&world.mint]);
        }
        2 => {
            block.send(&[fund(890_880 + fee - 1)], &[&world.mint]);
        }
        // All of it goes into the fee.
        3 => {
            block.send(&[fund(890_880)], &[&world.mint]);
            let drain = system::transfer(&key, &world.mint.pubkey(), 890_880 - fee);
            block.send(&[drain], &[&payer]);
        }
        4 => {
            let rent = block.bank.get_minimum_balance_for_rent_exemption(10);
            let create = system::create_account(&world.mint.pubkey(), &key, rent + SOL, 10, &vote::id());
            block.send(&[create], &[&world.mint, &payer]);
        }
        _ => {
            block.send(&[fund(890_880 + fee)], &[&world.mint]);
            let fails = system::transfer(&key, &world.mint.pubkey(), SOL);
            block.send(&[fails], &[&payer]);
        }
    }
    block.send(&[back], &[&payer]);
}

/// Messages whose parts do not fit together.
fn messages(block: &mut Block<'_>, payer: &Keypair, pay: &Instruction) {
    let mut message = Message::new_with_blockhash(std::slice::from_ref(pay), Some(&payer.pubkey()), &block.blockhash());
    match block.rng.below(9) {
        0 => message.instructions[0].program_id_index = 0,
        1 => message.instructions[0].program_id_index = 200,
        2 => message.instructions[0].accounts.push(77),
        3 => message.account_keys.push(payer.pubkey()),
        4 => message.header.num_readonly_signed_accounts = 1,
        5 => message.header = MessageHeader { num_required_signatures: 0, ..message.header },
        6 => message.header.num_readonly_unsigned_accounts = 90,
        7 => message.instructions.clear(),
        _ => {
            // The program is an account that may be written.
            message.header.num_readonly_unsigned_accounts = 0;
        }
    }
    block.execute(sign(VersionedMessage::Legacy(message), &[payer]));
}

/// Programs that are none.
fn programs(block: &mut Block<'_>, payer: &Keypair) {
    let data = block.rng.bytes(3);
    let candidates = [
        Pubkey::new_from_array([8; 32]),
        payer.pubkey(),
        sysvar::clock::id(),
        native_loader::id(),
        bpf_loader::id(),
        bpf_loader_upgradeable::id(),
        vote::id(),
        solana_sdk_ids::stake::id(),
        solana_sdk_ids::zk_elgamal_proof_program::id(),
        solana_sdk_ids::loader_v4::id(),
        solana_sdk_ids::bpf_loader_deprecated::id(),
        solana_sdk_ids::config::id(),
        solana_sdk_ids::incinerator::id(),
        solana_loader_v3_interface::get_program_data_address(&solana_sdk_ids::stake::id()),
    ];
    let id = *block.rng.pick(&candidates);
    let accounts = vec![AccountMeta::new(Pubkey::new_from_array([7; 32]), false)];
    let accounts = if block.rng.chance(50) { accounts } else { vec![] };
    block.send(&[Instruction::new_with_bytes(id, &data, accounts)], &[payer]);
}

/// Too many bytes, accounts or instructions.
fn sizes(block: &mut Block<'_>, world: &mut World, payer: &Keypair) {
    let id = crate::programs::MEMO_3;
    match block.rng.below(4) {
        0 => {
            let text = vec![b'a'; block.rng.between(1_000, 1_300) as usize];
            block.send(&[Instruction::new_with_bytes(id, &text, vec![])], &[payer]);
        }
        1 => {
            let count = *block.rng.pick(&[63, 64, 65, 80, 120]);
            let empty = system::transfer(&payer.pubkey(), &payer.pubkey(), 0);
            let mut message = Message::new_with_blockhash(&[empty], Some(&payer.pubkey()), &block.blockhash());
            let instruction = message.instructions[0].clone();
            let small = CompiledInstruction { data: vec![], accounts: vec![], ..instruction };
            message.instructions = vec![small; count];
            block.execute(sign(VersionedMessage::Legacy(message), &[payer]));
        }
        2 => {
            let keys = (0..block.rng.between(28, 34)).map(|_| AccountMeta::new(world.fresh().pubkey(), false));
            let step = Instruction::new_with_bytes(solana_sdk_ids::system_program::id(), &[], keys.collect());
            block.send(&[step], &[payer]);
        }
        _ => {
            // More accounts in an instruction than it may have, all of them the same one.
            let count = *block.rng.pick(&[200, 255, 256, 300]);
            let mut step = system::transfer(&payer.pubkey(), &world.mint.pubkey(), 5);
            step.accounts.extend(vec![AccountMeta::new(payer.pubkey(), true); count]);
            block.send(&[step], &[payer]);
        }
    }
}

/// Accounts that no transaction may write: a lock on them is taken as one to read.
fn reserved(block: &mut Block<'_>, payer: &Keypair) {
    let targets = [
        sysvar::clock::id(),
        sysvar::recent_blockhashes::id(),
        sysvar::instructions::id(),
        sysvar::slot_hashes::id(),
        sysvar::rent::id(),
        vote::id(),
        solana_sdk_ids::system_program::id(),
        solana_sdk_ids::stake::id(),
        solana_sdk_ids::incinerator::id(),
        solana_sdk_ids::secp256r1_program::id(),
        native_loader::id(),
    ];
    let to = *block.rng.pick(&targets);
    block.send(&[system::transfer(&payer.pubkey(), &to, 2_000_000)], &[payer]);
}
