//! The precompiles: signatures of ed25519, secp256k1 and secp256r1, good and bad, here and in another instruction.

use p256::ecdsa::signature::Signer as _;
use sha3::{Digest, Keccak256};
use solana_instruction::Instruction;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{ed25519_program, secp256k1_program, secp256r1_program};
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::acts::budget::memo;
use crate::block::Block;
use crate::world::World;

/// Transactions that let a precompile check signatures.
pub struct Precompiles;

/// The index that means "this instruction" to the programs of 16-bit offsets.
const HERE: u16 = u16::MAX;

impl Act for Precompiles {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let payer = world.user(block.rng);
        let size = block.rng.between(0, 60) as usize;
        let message = block.rng.bytes(size);
        let mut instruction = match block.rng.below(3) {
            0 => ed25519(block, world, &message),
            1 => secp256k1(block, &message),
            _ => secp256r1(block, &message),
        };
        match block.rng.below(8) {
            0 => {
                let at = block.rng.index(instruction.data.len());
                instruction.data[at] ^= 1 << block.rng.below(8);
            }
            1 => instruction.data.truncate(instruction.data.len() / 2),
            2 => instruction.data = vec![0],
            3 => instruction.data = vec![0, 0],
            4 => instruction.data.clear(),
            _ => {}
        }
        let pay = system::transfer(&payer.pubkey(), &world.mint.pubkey(), 1);
        if block.rng.chance(20) {
            // The signature stands in a memo, and the precompile's offsets say so.
            elsewhere(block, world, &message);
        }
        block.send(&[instruction, pay], &[&payer]);
    }
}

/// Offsets of a signature, its key and its message, for ed25519 and secp256r1.
fn offsets(instruction: u16, signature: u16, key: u16, message: u16, size: u16) -> Vec<u8> {
    let fields = [signature, instruction, key, instruction, message, size, instruction];
    fields.iter().flat_map(|field| field.to_le_bytes()).collect()
}

fn program(id: Pubkey, parts: &[&[u8]]) -> Instruction {
    Instruction::new_with_bytes(id, &parts.concat(), vec![])
}

fn ed25519(block: &mut Block<'_>, world: &World, message: &[u8]) -> Instruction {
    let count = block.rng.between(1, 4) as u16;
    let signer = world.user(block.rng);
    let signature = signer.sign_message(message);
    let first = 2 + 14 * count;
    let one = offsets(HERE, first + 32, first, first + 96, message.len() as u16);
    let all = one.repeat(usize::from(count));
    let key = signer.pubkey();
    program(ed25519_program::id(), &[&[count as u8, 0], &all, key.as_ref(), signature.as_ref(), message])
}

/// An ed25519 instruction whose data lies in the instruction after it.
fn elsewhere(block: &mut Block<'_>, world: &World, message: &[u8]) {
    let signer = world.user(block.rng);
    let signature = signer.sign_message(message);
    let data = [signer.pubkey().as_ref(), signature.as_ref(), message].concat();
    let place = block.rng.below(3) as u16;
    let check = offsets(place, 32, 0, 96, message.len() as u16);
    let check = program(ed25519_program::id(), &[&[1, 0], &check]);
    block.send(&[check, memo(&signer.pubkey(), &data)], &[&signer]);
}

fn secp256k1(block: &mut Block<'_>, message: &[u8]) -> Instruction {
    let secret = libsecp256k1::SecretKey::parse_slice(&block.rng.bytes(32)).expect("a number below the order");
    let key = libsecp256k1::PublicKey::from_secret_key(&secret).serialize();
    let address = &Keccak256::digest(&key[1..])[12..];
    let digest = libsecp256k1::Message::parse_slice(&Keccak256::digest(message)).expect("32 bytes");
    let (signature, recovery) = libsecp256k1::sign(&digest, &secret);
    let first = 1 + 11u16;
    let mut data = vec![1];
    data.extend(first.to_le_bytes());
    data.push(0);
    data.extend((first + 65).to_le_bytes());
    data.push(0);
    data.extend((first + 85).to_le_bytes());
    data.extend((message.len() as u16).to_le_bytes());
    data.push(0);
    program(secp256k1_program::id(), &[&data, &signature.serialize(), &[recovery.serialize()], address, message])
}

fn secp256r1(block: &mut Block<'_>, message: &[u8]) -> Instruction {
    let secret = p256::ecdsa::SigningKey::from_slice(&block.rng.bytes(32)).expect("a number below the order");
    let signature: p256::ecdsa::Signature = secret.sign(message);
    // The precompile takes the lower of the two signatures only; one in four is the other.
    let low = signature.normalize_s().unwrap_or(signature);
    let signature = if block.rng.chance(75) { low } else { signature };
    let key = secret.verifying_key().to_encoded_point(true);
    let first = 2 + 14;
    let place = offsets(HERE, first + 33, first, first + 97, message.len() as u16);
    program(secp256r1_program::id(), &[&[1, 0], &place, key.as_bytes(), &signature.to_bytes(), message])
}
