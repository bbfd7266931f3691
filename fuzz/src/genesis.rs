//! Properties that must hold for any bytes given to the readers of a genesis: `genesis.bin`, and the archive around it.
//!
//! reads   arbitrary bytes
//! writes  nothing; panics if a property does not hold
//! memory  bounded by the readers' limits
//! source  the documentation of `hearth_ledger::genesis`
//!
//! The test `crates/solana/ledger/tests/hostile/genesis.rs` takes this file as a module, too.

use hearth_ledger::Genesis;
use hearth_ledger::genesis::{pack, unpack};

/// Maximum bytes of a genesis in an archive here.
const BYTES_MAX: u64 = 1 << 20;

/// Reads bytes as a `genesis.bin` and as an archive; says whether they are either. What is read is written and read
/// again as the same.
pub fn fuzz_genesis(bytes: &[u8]) -> bool {
    let unpacked = unpack(bytes, BYTES_MAX);
    if let Ok(inner) = &unpacked {
        assert!(inner.len() as u64 <= BYTES_MAX);
        let archive = pack(inner).expect("memory takes it");
        assert_eq!(unpack(&archive[..], BYTES_MAX).as_ref(), Ok(inner));
    }
    let genesis = Genesis::from_bytes(bytes);
    if let Ok(genesis) = &genesis {
        let written = genesis.to_bytes();
        let again = Genesis::from_bytes(&written).expect("what was read is written so that it reads");
        // The bytes and not the values: a number that is none does not equal itself.
        assert_eq!(again.to_bytes(), written);
    }
    unpacked.is_ok() || genesis.is_ok()
}
