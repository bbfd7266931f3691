//! The precompiled programs that verify signatures: ed25519, secp256k1, secp256r1.
//!
//! reads   an instruction's data, and the data of the transaction's other instructions
//! drops   nothing; an invalid signature is the instruction's error
//! source  `agave-precompiles` 4.2, which would require building OpenSSL from source; its verdicts are in
//!         `tests/vectors/precompiles.bin`, made by `oracle/precompiles`

use hearth_crypto::ed25519;
use hearth_wire::consts::{ED25519_PROGRAM, SECP256K1_PROGRAM, SECP256R1_PROGRAM};
use p256::ecdsa::signature::Verifier;
use sha3::{Digest, Keccak256};
use solana_precompile_error::PrecompileError::{self, *};

/// Verifies the signatures of one instruction.
type Check = fn(&[u8], &[&[u8]]) -> Result<(), PrecompileError>;

/// The verifier of a program, if it is a precompile.
pub fn check(program: &[u8; 32]) -> Option<Check> {
    match *program {
        ED25519_PROGRAM => Some(ed25519_signatures),
        SECP256K1_PROGRAM => Some(secp256k1_signatures),
        SECP256R1_PROGRAM => Some(secp256r1_signatures),
        _ => None,
    }
}

/// The places of a signature's parts. Integers are little endian.
///
/// ```text
/// signature offset u16, its instruction u16, key offset u16, its instruction u16,
/// message offset u16, its size u16, its instruction u16
/// ```
struct OffsetFields<'a> {
    fields: [u16; 7],
    own: &'a [u8],
    all: &'a [&'a [u8]],
}

impl<'a> OffsetFields<'a> {
    /// Bytes of the fields.
    const SIZE: usize = 14;
    /// The number of signatures, and a byte that is not looked at.
    const HEADER: usize = 2;

    /// The offsets of each signature. `most` is the maximum number of signatures; `may_be_none` whether a header with a
    /// zero count is valid.
    fn of(
        own: &'a [u8],
        all: &'a [&'a [u8]],
        most: u8,
        may_be_none: bool,
    ) -> Result<impl Iterator<Item = OffsetFields<'a>>, PrecompileError> {
        let (header, rest) = own.split_at_checked(Self::HEADER).ok_or(InvalidInstructionDataSize)?;
        let count = header[0];
        let none_is_wrong = count == 0 && !(may_be_none && rest.is_empty());
        if none_is_wrong || count > most {
            return Err(InvalidInstructionDataSize);
        }
        let places = rest.get(..usize::from(count) * Self::SIZE).ok_or(InvalidInstructionDataSize)?;
        Ok(places.chunks_exact(Self::SIZE).map(move |bytes| {
            let field = |index: usize| u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]);
            OffsetFields { fields: std::array::from_fn(field), own, all }
        }))
    }

    fn slice(&self, instruction: u16, offset: u16, size: usize) -> Result<&'a [u8], PrecompileError> {
        let data = match instruction {
            // This instruction itself.
            u16::MAX => self.own,
            other => self.all.get(usize::from(other)).ok_or(InvalidDataOffsets)?,
        };
        let offset = usize::from(offset);
        data.get(offset..offset + size).ok_or(InvalidDataOffsets)
    }

    fn signature(&self) -> Result<&'a [u8; 64], PrecompileError> {
        let bytes = self.slice(self.fields[1], self.fields[0], 64)?;
        Ok(bytes.try_into().expect("64 bytes"))
    }

    fn key<const SIZE: usize>(&self) -> Result<&'a [u8; SIZE], PrecompileError> {
        let bytes = self.slice(self.fields[3], self.fields[2], SIZE)?;
        Ok(bytes.try_into().expect("as many bytes"))
    }

    fn message(&self) -> Result<&'a [u8], PrecompileError> {
        self.slice(self.fields[6], self.fields[4], usize::from(self.fields[5]))
    }
}

fn ed25519_signatures(data: &[u8], all: &[&[u8]]) -> Result<(), PrecompileError> {
    for places in OffsetFields::of(data, all, u8::MAX, true)? {
        let signature = places.signature()?;
        // A scalar this large is invalid for any key. One that is only slightly too large is detected with the key.
        if signature[63] & 0b1110_0000 != 0 {
            return Err(InvalidSignature);
        }
        let key = places.key()?;
        if !ed25519::is_point(key) {
            return Err(InvalidPublicKey);
        }
        ed25519::verify_strict(key, signature, places.message()?).map_err(|_| InvalidSignature)?;
    }
    Ok(())
}

fn secp256r1_signatures(data: &[u8], all: &[&[u8]]) -> Result<(), PrecompileError> {
    /// Maximum signatures of one instruction.
    const MOST: u8 = 8;
    for places in OffsetFields::of(data, all, MOST, false)? {
        let (signature, key, message) = (places.signature()?, places.key::<33>()?, places.message()?);
        let signature = p256::ecdsa::Signature::from_slice(signature).map_err(|_| InvalidSignature)?;
        // Of the two equivalent forms of a signature only the one with the lower S is valid.
        if signature.normalize_s().is_some() {
            return Err(InvalidSignature);
        }
        // The curve's crate accepts a third form of 33 bytes.
        if !matches!(key[0], 2 | 3) {
            return Err(InvalidPublicKey);
        }
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(key).map_err(|_| InvalidPublicKey)?;
        key.verify(message, &signature).map_err(|_| InvalidSignature)?;
    }
    Ok(())
}

/// Its own layout, with indices of one byte and nothing for "this instruction":
///
/// ```text
/// count u8; for each: signature offset u16, its instruction u8, address offset u16, its instruction u8,
/// message offset u16, its size u16, its instruction u8
/// ```
fn secp256k1_signatures(data: &[u8], all: &[&[u8]]) -> Result<(), PrecompileError> {
    /// Bytes of one signature's fields.
    const SIZE: usize = 11;
    let (&count, rest) = data.split_first().ok_or(InvalidInstructionDataSize)?;
    if count == 0 && !rest.is_empty() {
        return Err(InvalidInstructionDataSize);
    }
    let places = rest.get(..usize::from(count) * SIZE).ok_or(InvalidInstructionDataSize)?;
    for bytes in places.chunks_exact(SIZE) {
        let field = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let slice = |instruction: u8, offset: usize, size: usize| {
            let data = all.get(usize::from(instruction)).ok_or(InvalidDataOffsets)?;
            data.get(offset..offset + size).ok_or(InvalidSignature)
        };
        let signed = *all.get(usize::from(bytes[2])).ok_or(InvalidInstructionDataSize)?;
        let signature = signed.get(field(0)..field(0) + 65).ok_or(InvalidSignature)?;
        let (signature, recovery) = signature.split_at(64);
        let signature = libsecp256k1::Signature::parse_standard_slice(signature).map_err(|_| InvalidSignature)?;
        let recovery = libsecp256k1::RecoveryId::parse(recovery[0]).map_err(|_| InvalidRecoveryId)?;
        let address = slice(bytes[5], field(3), 20)?;
        let message = slice(bytes[10], field(6), field(8))?;
        let digest = libsecp256k1::Message::parse(&Keccak256::digest(message).into());
        let key = libsecp256k1::recover(&digest, &signature, &recovery).map_err(|_| InvalidSignature)?;
        // An address is the end of the hash of the key, without the byte that encodes its form.
        if Keccak256::digest(&key.serialize()[1..])[12..] != *address {
            return Err(InvalidSignature);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// See `oracle/precompiles`, which wrote them.
    const VECTORS: &[u8] = include_bytes!("../tests/vectors/precompiles.bin");

    fn take<'a>(rest: &mut &'a [u8], size: usize) -> &'a [u8] {
        rest.split_off(..size).expect("a whole case")
    }

    fn sized<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
        let size = u16::from_le_bytes(take(rest, 2).try_into().expect("two bytes"));
        take(rest, size.into())
    }

    #[test]
    fn the_clusters_verdicts() {
        let mut rest = VECTORS;
        let mut seen = [[0; 6]; 3];
        while !rest.is_empty() {
            let &[program, verdict] = take(&mut rest, 2) else { unreachable!("two bytes") };
            let (own, other) = (sized(&mut rest), sized(&mut rest));
            let check = check([&ED25519_PROGRAM, &SECP256K1_PROGRAM, &SECP256R1_PROGRAM][usize::from(program)]);
            let ours =
                check.expect("one of these programs")(own, &[own, other]).map_or_else(|error| 1 + error as u8, |()| 0);
            assert_eq!(ours, verdict, "program {program}, instruction {own:?}, the other {other:?}");
            seen[usize::from(program)][usize::from(verdict)] += 1;
        }
        // Each program has produced each of its verdicts: fine, bad key, recovery, signature, offsets, size.
        let met = seen.map(|program| program.map(|count| count > 0));
        assert_eq!(
            met,
            [
                [true, true, false, true, true, true],
                [true, false, true, true, true, true],
                [true, true, false, true, true, true],
            ]
        );
    }

    #[test]
    fn other_programs_are_none_of_these() {
        assert!(check(&[7; 32]).is_none());
    }
}
