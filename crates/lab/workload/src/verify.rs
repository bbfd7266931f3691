//! verify: transfers in, the valid and new ones out.

use std::hint::black_box;

use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::drops::DropLog;
use hearth_pipeline::verify::{Config, Verify};
use hearth_tile::rig::Rig;
use hearth_wire::transfer::TransferTemplate;

use crate::Work;

const SIGNERS: u64 = 1024;
/// More than the tile remembers, so that no transfer is a duplicate when its turn comes again.
const TRANSFERS: usize = 8192;
const HISTORY: usize = 4096;
/// Transfers per round: half the capacity of a rig's link.
const ROUND: usize = 128;
const IN: &str = "quic_verify:0";
const OUT: &str = "verify_dedup:0";
/// Bytes of signature tables, enough for all signers.
pub const TABLES: usize = 512 << 20;

/// The tile, and transfers of 1,024 signers, each of which signs repeatedly.
pub struct Load {
    rig: Rig<Verify>,
    transfers: Vec<Vec<u8>>,
    next: usize,
}

impl Load {
    /// Creates the tile with this many bytes for tables of signers; if any, each signer has a table when this returns.
    pub fn new(table_bytes: usize) -> Self {
        let config = Config { history: HISTORY, table_bytes, tag_key: 7, drops: DropLog::default() };
        let mut load = Self { rig: Rig::new(config, &[IN], &[OUT]), transfers: transfers(), next: 0 };
        // Each signer must be seen often enough to get a table.
        let turns = if table_bytes == 0 { 0 } else { 8 };
        (0..turns * TRANSFERS / ROUND).for_each(|_| {
            load.round();
        });
        load
    }

    /// Returns the transfers, in the order in which they are sent.
    pub fn transfers(&self) -> &[Vec<u8>] {
        &self.transfers
    }
}

impl Work for Load {
    fn round(&mut self) -> u64 {
        for _ in 0..ROUND {
            self.rig.give(IN, 0, &self.transfers[self.next]);
            self.next = (self.next + 1) % self.transfers.len();
        }
        self.rig.run();
        let passed = self.rig.drain(OUT, |tag, payload| {
            black_box((tag, payload));
        });
        assert_eq!(passed, ROUND, "every transfer is good and new");
        ROUND as u64
    }
}

/// Transfers whose signers take turns.
fn transfers() -> Vec<Vec<u8>> {
    let seed = |n: u64| std::array::from_fn(|i| n.to_le_bytes()[i % 8] ^ i as u8);
    let keys: Vec<SigningKey> = (0..SIGNERS).map(|n| SigningKey::from_seed(&seed(n))).collect();
    let mut template = TransferTemplate::new();
    let signed = |n: usize| {
        // A step that is coprime to the number of signers, so that no burst has one signer twice.
        let key = &keys[n * 389 % keys.len()];
        template.set_from(&key.public_key());
        template.set_to(&keys[n % keys.len()].public_key());
        template.set_lamports(n as u64 + 1);
        template.sign_with(|message| key.sign(message)).to_vec()
    };
    (0..TRANSFERS).map(signed).collect()
}
