//! bank, compared with the executor that it drives.

use hearth_ledger::{Executor, Outcome};
use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::Txn;
use hearth_workload::Work;
use hearth_workload::bank::{Blocks, Load, ROUND};
use hearth_workload::synthetic::MICROBLOCK;

pub fn transfers(bench: &Bench) {
    let (mut tile, mut blocks) = (Load::new(), Blocks::new());
    let (mut executor, mut outcomes) = (Executor::new(), vec![]);
    let bare = || {
        for _ in 0..ROUND {
            let (slot, _) = blocks.next();
            let bank = blocks.ledger.bank(slot).expect("it is under way");
            let txns = blocks.microblock().iter();
            let txns: Vec<_> = txns.map(|t| Txn::parse(t.bytes()).expect("a transfer")).collect();
            bank.execute(&mut executor, &txns, &mut outcomes);
            assert!(outcomes.iter().all(Outcome::is_committed), "every transfer lands");
        }
        ROUND * MICROBLOCK as u64
    };
    let name = "bank tile, transfers, 1,024 accounts";
    bench.paired_with_floor(name, Unit::PerSecond, Some(400e3), None, || tile.round(), bare);
}
