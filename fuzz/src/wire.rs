//! Properties that must hold for any bytes given to the wire parsers.
//!
//! reads   arbitrary bytes
//! writes  nothing; panics if a property does not hold
//! memory  as much as the parsers use
//! source  the documentation of the parsers
//!
//! The test `crates/solana/wire/tests/wire/replay_corpus.rs` takes this file as a module, too, and calls the functions
//! on mutations near the fields of each format.

use hearth_wire::entry::{Entries, Entry, write_batch_header, write_entry};
use hearth_wire::gossip::{CrdsData, CrdsValue, Protocol, write_prune};
use hearth_wire::repair::{self, AncestorHashes, Answer, RepairDatagram};
use hearth_wire::shred::{SHREDS_PER_SLOT_MAX, Shred};
use hearth_wire::tower_file::{SavedTower, SavedVote, TowerFile};
use hearth_wire::vote::{Lockout, MAX_LOCKOUTS};
use hearth_wire::{PACKET_DATA_SIZE, Txn};

/// Checks the transaction parser on `bytes`.
pub fn txn(bytes: &[u8]) {
    let exact = Txn::parse(bytes);
    let prefix = Txn::parse_prefix(bytes);
    match &exact {
        Ok(txn) => {
            assert_eq!(txn.bytes(), bytes);
            assert_eq!(prefix.as_ref().map(|t| t.bytes().len()).ok(), Some(bytes.len()));
            walk(txn);
        }
        Err(error) => {
            assert!(usize::from(error.offset) <= bytes.len().min(PACKET_DATA_SIZE), "{error}");
            assert!(prefix.is_err_and(|_| true) || prefix.is_ok_and(|t| t.bytes().len() < bytes.len()));
        }
    }
    if let Ok(txn) = prefix {
        walk(&txn);
        assert!(Txn::parse(txn.bytes()).is_ok());
    }
}

/// Reads every field of a transaction and puts its bytes together again.
fn walk(txn: &Txn<'_>) {
    let accounts = txn.account_count();
    assert!(txn.bytes().len() <= PACKET_DATA_SIZE && (1..=256).contains(&accounts));
    assert_eq!(txn.signatures().len(), txn.signer_keys().len());
    assert_eq!(txn.first_signature(), &txn.signatures()[0]);
    assert_eq!((txn.fee_payer(), txn.is_signer(0), txn.is_writable(0)), (&txn.account_keys()[0], true, true));
    assert_eq!(1 + 64 * txn.signatures().len() + txn.message().len(), txn.bytes().len());
    assert!(txn.message().windows(32).any(|window| window == txn.recent_blockhash()));
    assert_eq!(txn.instructions().count(), txn.instruction_count());
    for instruction in txn.instructions() {
        let program = usize::from(instruction.program_id_index);
        assert!(program != 0 && program < txn.account_keys().len());
        assert!(instruction.accounts.iter().all(|&index| usize::from(index) < accounts));
    }
    let (mut writable, mut readonly) = (0, 0);
    for lookup in txn.address_table_lookups() {
        writable += lookup.writable_indexes.len();
        readonly += lookup.readonly_indexes.len();
    }
    assert_eq!((writable, writable + readonly), (txn.loaded_writable_count(), txn.loaded_count()));
    let locks = txn.write_locks(&[], |_| false);
    assert!(locks.iter().all(|index| index < accounts && txn.is_writable(index)));
    assert!(!txn.is_writable(accounts) && !locks.contains(accounts));
    std::hint::black_box(txn.has_duplicate_accounts());
}

/// A batch of entries, and one entry.
pub fn entry(bytes: &[u8]) {
    let batch = Entries::parse(bytes).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    match &batch {
        Ok(entries) => {
            let mut written = Vec::new();
            write_batch_header(entries.len(), &mut written);
            entries.iter().for_each(|entry| rewrite(entry, &mut written));
            assert_eq!(written, bytes);
        }
        Err(error) => assert!(error.offset as usize <= bytes.len(), "{error}"),
    }
    match Entry::parse(bytes) {
        Ok(entry) => {
            let mut written = Vec::new();
            rewrite(&entry, &mut written);
            assert_eq!(written, bytes);
        }
        Err(error) => assert!(error.offset as usize <= bytes.len(), "{error}"),
    }
}

fn rewrite(entry: &Entry<'_>, out: &mut Vec<u8>) {
    assert_eq!(entry.transactions().count(), entry.transaction_count());
    assert_eq!(entry.is_tick(), entry.transaction_bytes().is_empty());
    let transactions: Vec<u8> = entry.transactions().flat_map(|txn| txn.bytes()).copied().collect();
    write_entry(entry.num_hashes, entry.hash, entry.transaction_count(), &transactions, out);
}

/// Checks the shred parser on `bytes`.
pub fn shred(bytes: &[u8]) {
    let shred = match Shred::parse(bytes) {
        Ok(shred) => shred,
        Err(error) => return assert!(usize::from(error.offset) <= bytes.len(), "{error}"),
    };
    assert_eq!(shred.bytes(), bytes);
    assert_eq!(shred.signature()[..], bytes[..64]);
    assert_eq!(shred.variant().to_byte(), bytes[64]);
    assert_eq!(shred.parent_slot().is_some(), shred.entry_bytes().is_some());
    assert!(shred.parent_slot().is_none_or(|parent| parent < shred.slot() || shred.slot() == 0));
    assert!(!shred.ends_slot() || shred.ends_batch());
    assert!(shred.entry_bytes().is_none_or(|entries| entries.len() <= bytes.len()));
    assert_eq!(shred.retransmitter_signature().is_some(), shred.variant().resigned);
    assert!(shred.leaf_bytes().len() < bytes.len() && shred.erasure_shard().len() < bytes.len());
    assert_eq!(shred.proof().len() % 20, 0);
    std::hint::black_box((shred.chained_root(), shred.shard_index(), shred.index(), shred.set_index()));
    std::hint::black_box((shred.version(), shred.fields()));
    if let Err(error) = shred.check_set(SHREDS_PER_SLOT_MAX) {
        assert!(usize::from(error.offset) < bytes.len(), "{error}");
    }
}

/// One datagram of gossip.
pub fn gossip(bytes: &[u8]) {
    let message = match Protocol::parse(bytes) {
        Ok(message) => message,
        Err(error) => return assert!(usize::from(error.offset) <= bytes.len(), "{error}"),
    };
    assert!(bytes.len() <= PACKET_DATA_SIZE);
    match message {
        Protocol::PullRequest { filter, caller } => {
            assert!(matches!(caller.data(), CrdsData::ContactInfo(_)));
            assert!(bytes.ends_with(caller.bytes()));
            let (first, last) = filter.range();
            assert!(first <= last && last - first <= u64::MAX >> 6);
            for item in [[0; 32], [0xff; 32]] {
                std::hint::black_box((filter.bloom.contains(&item), filter.covers(&item)));
            }
            value(&caller);
        }
        Protocol::PullResponse { values, .. } | Protocol::Push { values, .. } => {
            assert!(values.len() <= 10);
            assert_eq!(44 + values.iter().map(|value| value.bytes().len()).sum::<usize>(), bytes.len());
            values.iter().for_each(value);
        }
        Protocol::Prune(data) => {
            let mut written = Vec::new();
            write_prune(&data, &mut written);
            assert_eq!(written, bytes);
        }
        Protocol::Ping(_) | Protocol::Pong(_) => assert_eq!(bytes.len(), 132),
    }
}

/// A value's data has one encoding: decoding and encoding again gives the same bytes. Only a contact info loses
/// something: the order of its addresses and sockets, and sockets that are unusable.
fn value(value: &CrdsValue<'_>) {
    assert_eq!(64 + value.signed().len(), value.bytes().len());
    assert_eq!(value.signature()[..], value.bytes()[..64]);
    assert_eq!(CrdsValue::parse(value.bytes()).as_ref(), Ok(value));
    let mut written = Vec::new();
    value.data().write(&mut written);
    match value.data() {
        CrdsData::ContactInfo(_) => assert_eq!(CrdsData::parse(&written).as_ref(), Ok(value.data())),
        _ => assert_eq!(written, value.signed()),
    }
    if let CrdsData::EpochSlots(slots) = value.data() {
        for run in &slots.runs {
            let mut last = None;
            run.for_each(|slot| {
                assert!(
                    slot >= run.first_slot && slot - run.first_slot < run.count && last.is_none_or(|last| last < slot)
                );
                last = Some(slot);
            });
        }
    }
}

/// One datagram of repair, to a server or from one. Each has one form: to write it again gives the same bytes.
pub fn repair(bytes: &[u8]) {
    match RepairDatagram::parse(bytes) {
        Ok(RepairDatagram::Pong(pong)) => assert_eq!(repair::write_pong(&pong), bytes),
        Ok(RepairDatagram::Request(request, signature)) => {
            let mut written = request.write();
            repair::set_signature(&mut written, &signature);
            assert_eq!(written, bytes);
            let signed = repair::signed_bytes(bytes);
            assert_eq!(signed.len() + 64, bytes.len());
            assert!(repair::is_repair_request(&signed, &request.sender));
        }
        Err(error) => std::mem::drop(std::hint::black_box(error.to_string())),
    }
    match Answer::parse(bytes) {
        Some(Answer::Ping(ping)) => assert_eq!(repair::write_ping(&ping), bytes),
        Some(Answer::Shred(shred, nonce)) => {
            assert_eq!([shred, &nonce.to_le_bytes()].concat(), bytes);
            assert_eq!(bytes.len(), repair::ANSWER_SIZE);
        }
        None => assert_ne!(bytes.len(), repair::ANSWER_SIZE),
    }
    if let Some(answer) = AncestorHashes::parse(bytes) {
        assert_eq!(answer.write(), bytes);
    }
    // Any bytes, not only those that sign may be asked to sign.
    std::hint::black_box(repair::is_repair_request(bytes, &[0; 32]));
}

/// Checks the parser of Agave's tower file. A parsed tower is encoded in the newer version, which decodes to the same.
pub fn tower(bytes: &[u8]) {
    let file = match TowerFile::parse(bytes) {
        Ok(file) => file,
        Err(error) => return assert!(error.offset <= bytes.len(), "{error}"),
    };
    assert!(bytes.ends_with(file.data) && bytes[4..68] == file.signature[..]);
    let SavedTower { node, votes, root, last, .. } = &file.tower;
    assert!(file.data.starts_with(node) && votes.len() <= MAX_LOCKOUTS);
    let is_ordered =
        |pair: &[Lockout]| pair[0].slot < pair[1].slot && pair[0].confirmation_count > pair[1].confirmation_count;
    assert!(votes.windows(2).all(is_ordered));
    assert!(votes.first().zip(*root).is_none_or(|(oldest, root)| oldest.slot > root));
    let newest = votes.last().map(|newest| newest.slot);
    assert!(last.map(|last| last.slot) >= newest);
    // A last vote that does not bind has no place in the newer version.
    if last.map(|last| last.slot) == newest {
        let written = file.tower.write(|_| *file.signature);
        let again = TowerFile::parse(&written).expect("what was written");
        let block_id = |tower: &SavedTower| tower.last.map(|last| last.block_id.unwrap_or_default());
        assert_eq!(block_id(&again.tower), block_id(&file.tower));
        let known = last.map(|last| SavedVote { block_id: Some([0; 32]), ..last });
        let mut alike = [again.tower.clone(), file.tower.clone()];
        alike.iter_mut().for_each(|tower| tower.last = known);
        assert_eq!(alike[0], alike[1]);
        assert_eq!(again.tower.last.map(|last| last.bank_hash), last.map(|last| last.bank_hash));
    }
}
