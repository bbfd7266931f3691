//! A ledger on a machine that loses power, or on a disk that does not sync.

use hearth_wal::mount::{Mount, mount};
use hearth_wal::simulated::{DiskFault, FaultKind, Files, SimulatedDisk, lay_out};

use super::*;

const NOTHING: Head<'static> = Head { number: 0, hash_of: &|_| None, commitment: None };

/// A ledger on a simulated disk, with a record that is longer than a sector.
fn simulated() -> (tempfile::TempDir, SimulatedDisk, Mount, Ledger) {
    let dir = tempfile::tempdir().unwrap();
    let disk = SimulatedDisk::new(dir.path(), Files::new()).unwrap();
    let mount = mount(dir.path(), Arc::new(disk.clone()));
    let ledger = Ledger::open(Some(dir.path()), CHAIN, &NOTHING).unwrap();
    receive(&ledger, 1);
    (dir, disk, mount, ledger)
}

fn receive(ledger: &Ledger, number: u64) {
    let mut session = ledger.begin();
    let incoming: Vec<_> = (0..10).map(|n| came(1, 1_000, 10 * number + n)).collect();
    session.receive(number, &incoming);
    ledger.commit(number, hash(number), session).unwrap();
}

#[test]
fn lost_first_record_leaves_an_empty_log() {
    let (_dir, disk, _mount, _ledger) = simulated();
    for lost in 0..4 {
        // Each sector that was not synced survives, but for one.
        let mut asked = 0;
        let files = disk.trace().after_power_loss(disk.steps(), &mut |bound| match bound {
            4 => 3,
            2 => {
                asked += 1;
                u64::from(asked == lost + 1)
            }
            bound => bound - 1,
        });
        let again = tempfile::tempdir().unwrap();
        lay_out(again.path(), &files).unwrap();
        let ledger = Ledger::open_synced(Some(again.path()), CHAIN, &NOTHING, 0).unwrap();
        assert_eq!(ledger.newest(), 0, "sector {lost}");
    }
}

#[test]
fn failed_sync_is_the_last() {
    let (_dir, disk, _mount, ledger) = simulated();
    ledger.sync().unwrap();
    receive(&ledger, 2);
    disk.plan(DiskFault { step: 0, kind: FaultKind::Sync });
    assert!(ledger.sync().is_err());
    assert!(ledger.sync().is_err(), "the disk would sync what came later alone");
}
