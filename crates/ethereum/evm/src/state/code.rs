//! Every code that the chain has seen, by number and by hash, read without a lock.
//!
//! memory  each code once, while the state is open: codes are never removed
//! source  a list in chunks that double, each entry written once: what is there never moves

use std::sync::OnceLock;

use alloy_primitives::map::HashMap;
use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY};
use parking_lot::RwLock;
use revm::bytecode::Bytecode;

/// The number of the code of an account without code.
pub(crate) const NO_CODE: u32 = 0;
/// Entries of the first chunk, as a power of two.
const FIRST_CHUNK_BITS: u32 = 6;
const CHUNKS: usize = (u32::BITS - FIRST_CHUNK_BITS) as usize;

type Entry = OnceLock<(B256, Bytecode)>;

/// Codes by number and by hash. Number 0 is the empty code.
pub(crate) struct Codes {
    chunks: [OnceLock<Box<[Entry]>>; CHUNKS],
    numbers: RwLock<HashMap<B256, u32>>,
}

impl Codes {
    pub(crate) fn new() -> Self {
        let codes = Self { chunks: std::array::from_fn(|_| OnceLock::new()), numbers: RwLock::default() };
        assert_eq!(codes.add(KECCAK256_EMPTY, Bytecode::default()), NO_CODE);
        codes
    }

    /// The number of the code with this hash.
    pub(crate) fn number(&self, hash: &B256) -> Option<u32> {
        if *hash == KECCAK256_EMPTY {
            return Some(NO_CODE);
        }
        self.numbers.read().get(hash).copied()
    }

    /// Adds a code if it is new, and returns its number. Panics beyond 2^32 − 64 codes.
    pub(crate) fn add(&self, hash: B256, code: Bytecode) -> u32 {
        let mut numbers = self.numbers.write();
        if let Some(number) = numbers.get(&hash) {
            return *number;
        }
        let number = u32::try_from(numbers.len()).expect("fewer codes than 2^32");
        let (chunk, at) = place(number);
        let entries = self.chunks[chunk]
            .get_or_init(|| (0..1usize << (FIRST_CHUNK_BITS as usize + chunk)).map(|_| OnceLock::new()).collect());
        entries[at].set((hash, code)).expect("an entry is written once");
        numbers.insert(hash, number);
        number
    }

    /// The hash and the code of this number. Panics where no code has it: numbers come from this list alone.
    pub(crate) fn get(&self, number: u32) -> &(B256, Bytecode) {
        let (chunk, at) = place(number);
        let entry = self.chunks[chunk].get().and_then(|entries| entries[at].get());
        entry.expect("a code's number comes from this list")
    }

    /// The code with this hash.
    pub(crate) fn by_hash(&self, hash: &B256) -> Option<&Bytecode> {
        self.number(hash).map(|number| &self.get(number).1)
    }

    /// How many codes there are, the empty one included.
    pub(crate) fn count(&self) -> u32 {
        let count = self.numbers.read().len();
        u32::try_from(count).expect("numbers are 32 bits")
    }
}

/// The chunk of a number, and the entry in it.
fn place(number: u32) -> (usize, usize) {
    let from_first = u64::from(number) + (1 << FIRST_CHUNK_BITS);
    let chunk = from_first.ilog2() - FIRST_CHUNK_BITS;
    (chunk as usize, (from_first - (1 << (chunk + FIRST_CHUNK_BITS))) as usize)
}

/// Whatever bytes as code. Those that begin as a delegation (EIP-7702) and are none are code like any other, as in
/// geth: their first byte is no instruction.
pub fn bytecode(bytes: Bytes) -> Bytecode {
    Bytecode::new_raw_checked(bytes.clone()).unwrap_or_else(|_| Bytecode::new_legacy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_can_be_code() {
        for code in [&[0xef, 0x01][..], &[0xef, 0x01, 0x00], &[0xef, 0x01, 0x00, 7], &[0xef; 40], &[0xef, 0x01, 0x05]] {
            let bytes = Bytes::copy_from_slice(code);
            let made = bytecode(bytes.clone());
            assert_eq!((made.original_bytes(), made.is_eip7702()), (bytes, false));
        }
        let delegation = [&[0xef, 0x01, 0x00][..], &[7; 20]].concat();
        assert!(bytecode(delegation.into()).is_eip7702());
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let (mut chunk_before, mut at_before) = place(0);
        assert_eq!((chunk_before, at_before), (0, 0));
        for number in 1..100_000 {
            let (chunk, at) = place(number);
            let follows =
                if chunk == chunk_before { at == at_before + 1 } else { chunk == chunk_before + 1 && at == 0 };
            assert!(follows, "{number}");
            assert!(at < 1 << (FIRST_CHUNK_BITS as usize + chunk));
            (chunk_before, at_before) = (chunk, at);
        }
        assert!(place(u32::MAX - (1 << FIRST_CHUNK_BITS)).0 < CHUNKS);
    }

    #[test]
    fn a_code_is_kept_once_and_found_by_both() {
        let codes = Codes::new();
        for round in 0..2 {
            for number in 0u32..1_000 {
                let code = Bytecode::new_raw(Bytes::copy_from_slice(&number.to_be_bytes()));
                let hash = code.hash_slow();
                assert_eq!(codes.add(hash, code.clone()), number + 1, "round {round}");
                assert_eq!(codes.by_hash(&hash), Some(&code));
            }
        }
        assert_eq!(codes.count(), 1_001);
        assert_eq!(codes.number(&KECCAK256_EMPTY), Some(NO_CODE));
        assert_eq!(codes.by_hash(&B256::ZERO), None);
    }
}
