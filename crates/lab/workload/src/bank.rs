//! bank: microblocks of transfers in, landed transfers out. A bank does not check signatures, so synthetic ones
//! suffice.

use std::hint::black_box;
use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_pipeline::bank::{Bank, Config};
use hearth_pipeline::drops::DropLog;
use hearth_pipeline::links::{
    BANK_PACK, BANK_POH, ExecutedMicroblock, MICROBLOCK_MTU, Microblock, MicroblockTxn, PACK_BANK,
};
use hearth_tile::rig::Rig;
use hearth_wire::{Pubkey, TransferTemplate};

use crate::Work;
use crate::synthetic::{MICROBLOCK, bytes, ledger};

const ACCOUNTS: usize = 1024;
/// Microblocks per round: as many as pack lets a bank have at a time.
pub const ROUND: u64 = 8;
/// Microblocks after which the next block begins.
const BLOCK: u64 = 48;
/// Cost of a transfer within the block.
const COST: u32 = 20_707;

/// The tile, and 1,024 accounts that pay each other.
pub struct Load {
    rig: Rig<Bank>,
    blocks: Blocks,
    buffer: Vec<u8>,
    from: String,
    poh: String,
    pack: String,
}

impl Load {
    /// Starts at the first block.
    pub fn new() -> Self {
        let [from, poh, pack] = [PACK_BANK, BANK_POH, BANK_PACK].map(|link| format!("{link}:0"));
        let blocks = Blocks::new();
        let config = Config { ledger: blocks.ledger.clone(), recording: None, drops: DropLog::default() };
        let rig = Rig::new(config, &[&from], &[&poh, &pack]);
        Self { rig, blocks, buffer: vec![0; MICROBLOCK_MTU], from, poh, pack }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self::new()
    }
}

impl Work for Load {
    fn round(&mut self) -> u64 {
        for _ in 0..ROUND {
            let (slot, id) = self.blocks.next();
            let txns = self.blocks.microblock().iter();
            let txns =
                txns.map(|t| MicroblockTxn { reserved_cost: COST, origin_us: 1, bytes: t.bytes(), locked: None });
            let size = Microblock::write(&mut self.buffer, slot, id, txns);
            self.rig.give(&self.from, id, &self.buffer[..size]);
        }
        self.rig.run();
        let mut landed = 0;
        self.rig
            .drain(&self.poh, |_, payload| landed += u64::from(ExecutedMicroblock::read(black_box(payload)).txn_count));
        assert_eq!((landed, self.rig.drain(&self.pack, |_, _| ())), (ROUND * MICROBLOCK as u64, ROUND as usize));
        landed
    }
}

/// Ends and begins a ledger's blocks like poh, and generates the load for them.
pub struct Blocks {
    /// The ledger that executes the blocks.
    pub ledger: Arc<Ledger>,
    load: Transfers,
    slot: u64,
    id: u64,
}

impl Blocks {
    /// Starts at the first block.
    pub fn new() -> Self {
        let accounts: Vec<Pubkey> = (0..ACCOUNTS as u64).map(bytes).collect();
        let ledger = ledger(&accounts);
        let mut load = Transfers {
            accounts,
            templates: vec![TransferTemplate::new(); MICROBLOCK],
            random: fastrand::Rng::with_seed(7),
            made: 0,
        };
        let bank = ledger.begin_slot(1, 0).expect("the first slot");
        load.set_blockhash(bank.parent_blockhash());
        Self { ledger, load, slot: 1, id: 0 }
    }

    /// Returns slot and id of the next microblock. Blocks end between rounds, when nothing is in flight.
    pub fn next(&mut self) -> (u64, u64) {
        const { assert!(BLOCK.is_multiple_of(ROUND)) };
        if self.id == BLOCK {
            self.ledger.end_slot(self.slot, bytes(self.slot)).expect("the slot ends");
            let bank = self.ledger.begin_slot(self.slot + 1, self.slot).expect("the next slot");
            self.load.set_blockhash(bank.parent_blockhash());
            (self.slot, self.id) = (self.slot + 1, 0);
        }
        self.id += 1;
        (self.slot, self.id - 1)
    }

    /// Returns transfers for a microblock of the slot.
    pub fn microblock(&mut self) -> &[TransferTemplate] {
        self.load.microblock()
    }
}

/// Random transfers between accounts, generated for each microblock.
struct Transfers {
    accounts: Vec<Pubkey>,
    templates: Vec<TransferTemplate>,
    random: fastrand::Rng,
    made: u64,
}

impl Transfers {
    fn set_blockhash(&mut self, blockhash: &[u8; 32]) {
        self.templates.iter_mut().for_each(|template| template.set_recent_blockhash(blockhash));
    }

    fn microblock(&mut self) -> &[TransferTemplate] {
        for template in &mut self.templates {
            let random = self.random.u64(..);
            let from = random as usize % ACCOUNTS;
            let to = (from + 1 + (random >> 32) as usize % (ACCOUNTS - 1)) % ACCOUNTS;
            self.made += 1;
            template.set_from(&self.accounts[from]);
            template.set_to(&self.accounts[to]);
            template.set_lamports(self.made);
            template.set_signature(&bytes(self.made));
        }
        &self.templates
    }
}
