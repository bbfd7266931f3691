//! Properties that must hold for any bytes given to the reader of the cluster's snapshot archives.
//!
//! reads   arbitrary bytes: a tar, or what begins like a packed one
//! writes  nothing; panics if a property does not hold
//! memory  bounded by the reader's limits
//! source  the documentation of `hearth_ledger::archive`
//!
//! The test `crates/solana/ledger/tests/hostile/archives.rs` takes this file as a module, too, and calls it on the
//! committed corpus, which `make_archive.py` writes, and on mutations whose checksums are right.

use std::collections::BTreeMap;

use hearth_ledger::Account;
use hearth_ledger::archive::{
    ArchiveName, ArchiveWriter, Contents, Fault, Limits, Progress, Sink, read, read_unpacked, stored_size,
};

/// The slot of the archives in the corpus.
pub const SLOT: u64 = 70;
const LIMITS: Limits = Limits { fields: 1 << 20, accounts: 10_000, unpacked: 16 << 20 };

/// The accounts of each slot, in their order.
#[derive(Default, PartialEq, Debug)]
struct SlotAccounts(BTreeMap<u64, Vec<([u8; 32], Account)>>);

impl Sink for SlotAccounts {
    fn account(&mut self, slot: u64, key: &[u8; 32], account: Account) -> Result<(), Fault> {
        self.0.entry(slot).or_default().push((*key, account));
        Ok(())
    }

    fn progress(&mut self, _: Progress) {}
}

/// How a packed archive begins: zstd's magic number.
const PACKED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads bytes as the archive of [`SLOT`]; says whether they are one. Then what is written of it reads as the same, and
/// a part of that is no archive.
pub fn fuzz_archive(bytes: &[u8]) -> bool {
    let mut name = ArchiveName { base: None, slot: SLOT, hash: [0; 32] };
    // The name is that of what is in it.
    if let Err(Fault::Hash { found: [0, ..], computed, .. }) = contents_of(bytes, &name).1 {
        name.hash = computed;
    }
    let (kept, contents) = contents_of(bytes, &name);
    let Ok(contents) = contents else { return false };
    assert_eq!(kept.0.values().map(Vec::len).sum::<usize>() as u64, contents.accounts);
    // What aligns accounts and what is behind them is not kept: the lengths change.
    let mut fields = contents.fields;
    fields.storages.retain(|storage| kept.0.contains_key(&storage.slot));
    for storage in &mut fields.storages {
        storage.len = kept.0[&storage.slot].iter().map(|(_, account)| stored_size(account.data().len())).sum();
    }
    let mut writer = ArchiveWriter::begin(Vec::<u8>::new(), &fields, &contents.statuses).expect("memory");
    for (key, account) in fields.storages.iter().flat_map(|storage| &kept.0[&storage.slot]) {
        writer.account(key, account).expect("the lengths are those of the accounts");
    }
    let packed = writer.finish().expect("all is written");
    let cut = bytes.iter().fold(0, |sum: usize, byte| 31 * (sum % packed.len()) + usize::from(*byte)) % packed.len();
    assert!(contents_of(&packed[..cut], &name).1.is_err(), "cut after {cut} of {} bytes", packed.len());
    let mut again = SlotAccounts::default();
    let read = read(&packed[..], packed.len() as u64, &name, &LIMITS, &mut again).expect("what was written");
    assert_eq!(again, kept);
    // Numbers that are none are not equal to themselves, their bytes are.
    assert_eq!((read.fields.encode(), read.statuses), (fields.encode(), contents.statuses));
    true
}

fn contents_of(bytes: &[u8], name: &ArchiveName) -> (SlotAccounts, Result<Contents, Fault>) {
    let mut kept = SlotAccounts::default();
    let contents = match bytes.starts_with(&PACKED) {
        true => read(bytes, bytes.len() as u64, name, &LIMITS, &mut kept),
        false => read_unpacked(bytes, name, &LIMITS, &mut kept),
    };
    (kept, contents)
}
