//! Ledgers that the cluster's own bank made come to the same here, field by field.
//!
//! `hearth ledger replay --recorded DIR` does the same for one of them, or for others.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hearth_node::recorded::format::{RecordedLedger, ledgers_below};
use hearth_node::recorded::replay;

/// The recorded ledgers of the repository, at least. A ledger that is not found is not tested.
const LEDGERS_LEAST: usize = 49;
const THREADS: usize = 2;

#[test]
fn recorded_ledgers_come_to_the_same_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../svm/tests/recorded");
    let ledgers = ledgers_below(&folder).expect("the folder of recorded ledgers can be read");
    assert!(ledgers.len() >= LEDGERS_LEAST, "{} recorded ledgers in {}", ledgers.len(), folder.display());
    let next = AtomicUsize::new(0);
    let run = || {
        let mut differ = vec![];
        while let Some(ledger) = ledgers.get(next.fetch_add(1, Relaxed)) {
            let name = ledger.display();
            match RecordedLedger::read(ledger).map(|recorded| replay(&recorded)) {
                Ok(Ok(done)) => assert!(done.blocks > 0, "{name} has no block"),
                Ok(Err(difference)) => differ.push(format!("{name}: {difference}")),
                Err(why) => differ.push(why.to_string()),
            }
        }
        differ
    };
    let differ: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a replay does not panic")).collect()
    });
    assert!(differ.is_empty(), "{}", differ.join("\n\n"));
}
