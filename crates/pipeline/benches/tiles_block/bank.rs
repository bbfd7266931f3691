//! bank: microblocks of transfers in, what landed out. A bank does not check signatures: made-up ones will do.

use std::hint::black_box;
use std::sync::Arc;

use hearth_ledger::{Executor, Ledger, Outcome};
use hearth_pipeline::bank::{Bank, Config};
use hearth_pipeline::drops::DropLog;
use hearth_pipeline::links::{BANK_PACK, BANK_POH, Executed, MICROBLOCK_MTU, Microblock, MicroblockTxn, PACK_BANK};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use hearth_tile::rig::Rig;
use hearth_wire::{Pubkey, TransferTemplate, Txn};

use crate::load::{MICROBLOCK, bytes, ledger};

const ACCOUNTS: usize = 1024;
/// Microblocks of a round: as many as pack lets a bank have at a time.
const ROUND: u64 = 8;
/// Microblocks of a block.
const BLOCK: u64 = 48;

pub fn transfers(bench: &Bench) {
    let (from, poh, pack) = (format!("{PACK_BANK}:0"), format!("{BANK_POH}:0"), format!("{BANK_PACK}:0"));
    let mut blocks = Blocks::new();
    let config = Config { ledger: blocks.ledger.clone(), recording: None, drops: DropLog::default() };
    let mut rig = Rig::<Bank>::new(&config, &[&from], &[&poh, &pack]);
    let mut buffer = vec![0; MICROBLOCK_MTU];
    let through_tile = || {
        for _ in 0..ROUND {
            let (slot, id) = blocks.next();
            let txns = blocks.load.microblock().iter();
            let txns =
                txns.map(|t| MicroblockTxn { reserved_cost: 20_707, origin_us: 1, bytes: t.bytes(), locked: None });
            let size = Microblock::write(&mut buffer, slot, id, txns);
            rig.give(&from, id, &buffer[..size]);
        }
        rig.run();
        let mut landed = 0;
        rig.drain(&poh, |_, payload| landed += u64::from(Executed::read(black_box(payload)).txn_count));
        assert_eq!((landed, rig.drain(&pack, |_, _| ())), (ROUND * MICROBLOCK as u64, ROUND as usize));
        landed
    };
    let mut blocks = Blocks::new();
    let (mut executor, mut outcomes) = (Executor::new(), vec![]);
    let bare = || {
        for _ in 0..ROUND {
            let (slot, _) = blocks.next();
            let bank = blocks.ledger.bank(slot).expect("it is under way");
            let txns = blocks.load.microblock().iter();
            let txns: Vec<_> = txns.map(|t| Txn::parse(t.bytes()).expect("a transfer")).collect();
            bank.execute(&mut executor, &txns, &mut outcomes);
            assert!(outcomes.iter().all(Outcome::is_committed), "every transfer lands");
        }
        ROUND * MICROBLOCK as u64
    };
    let name = "bank tile, transfers, 1,024 accounts";
    bench.paired_with_floor(name, Unit::PerSecond, Some(400e3), None, through_tile, bare);
}

/// A ledger's blocks, ended and begun as poh does, and the load for them.
struct Blocks {
    ledger: Arc<Ledger>,
    load: Load,
    slot: u64,
    id: u64,
}

impl Blocks {
    fn new() -> Self {
        let accounts: Vec<Pubkey> = (0..ACCOUNTS as u64).map(bytes).collect();
        let ledger = ledger(&accounts);
        let mut load =
            Load { accounts, templates: vec![TransferTemplate::new(); MICROBLOCK], random: Random(7), made: 0 };
        let bank = ledger.begin_slot(1, 0).expect("the first slot");
        load.set_blockhash(bank.parent_blockhash());
        Self { ledger, load, slot: 1, id: 0 }
    }

    /// Slot and id of the next microblock. Blocks end between rounds: nothing is in flight then.
    fn next(&mut self) -> (u64, u64) {
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
}

/// Transfers between random accounts, made anew for each microblock.
struct Load {
    accounts: Vec<Pubkey>,
    templates: Vec<TransferTemplate>,
    random: Random,
    made: u64,
}

impl Load {
    fn set_blockhash(&mut self, blockhash: &[u8; 32]) {
        self.templates.iter_mut().for_each(|template| template.set_recent_blockhash(blockhash));
    }

    fn microblock(&mut self) -> &[TransferTemplate] {
        for template in &mut self.templates {
            let random = self.random.word();
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
