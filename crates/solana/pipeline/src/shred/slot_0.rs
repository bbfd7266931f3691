//! slot_0: the block of slot 0, which every node makes for itself from the genesis.
//!
//! reads   the ticks of slot 0
//! writes  the block's FEC set, as the block store takes it, and its id
//! memory  the entries, at most 12 KB, and one set while it is made
//! drops   nothing
//! source  `create_new_ledger` of `solana-ledger` 4.2
//!
//! The id is the Merkle root of the set. Shreds of slot 0 have a version of their own, which is folded from the last
//! tick's hash and not from the genesis hash. They are never sent, and nobody checks their signature.

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::Genesis;
use hearth_ledger::blockstore::FecSetRecord;
use hearth_ledger::genesis::shred_version;
use hearth_wire::entry::{write_batch_header, write_entry};
use hearth_wire::{Hash, Signature};

use super::set::{FecSet, SetHeader};

/// The block of slot 0.
#[derive(Clone, Debug)]
pub struct Slot0 {
    entries: Vec<u8>,
    root: Hash,
    chained_root: Hash,
    signature: Signature,
}

impl Slot0 {
    /// Makes the block of a chain with this genesis.
    pub fn of(genesis: &Genesis) -> Self {
        let (ticks, hashes) = (genesis.ticks(), genesis.config().hashes_per_tick.unwrap_or(0));
        let mut entries = vec![];
        write_batch_header(ticks.len(), &mut entries);
        ticks.iter().for_each(|hash| write_entry(hashes, hash, 0, &[], &mut entries));
        let header = SetHeader {
            version: shred_version(genesis.slot_0_hash()),
            ends_batch: true,
            ends_slot: true,
            resigned: true,
            ..SetHeader::default()
        };
        let mut set = FecSet::new();
        set.prepare(header, &entries);
        let root = *set.chain(genesis.hash());
        // Anybody's key would do, so it is one that anybody has.
        let signature = SigningKey::from_seed(&[0; 32]).sign(&root);
        Self { entries, root, chained_root: *genesis.hash(), signature }
    }

    /// The block's id: the root of its only FEC set. Slot 1 chains to it.
    pub fn block_id(&self) -> &Hash {
        &self.root
    }

    /// The set for the block store.
    pub fn record(&self) -> FecSetRecord<'_> {
        FecSetRecord {
            slot: 0,
            parent_slot: 0,
            fec_set_index: 0,
            reference_tick: 0,
            last_in_slot: true,
            ends_batch: Some(true),
            merkle_root: self.root,
            chained_root: self.chained_root,
            signature: self.signature,
            data: &self.entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use hearth_crypto::sha256::sha256_chain;
    use hearth_ledger::GenesisConfig;
    use hearth_wire::entry::Entries;
    use hearth_wire::shred::Shred;

    use super::*;
    use crate::shred::{Shredder, ShredderConfig};

    fn genesis(hashes_per_tick: Option<u64>) -> Genesis {
        let development = GenesisConfig::development([1; 32], [2; 32], 1_700_000_000);
        let config = GenesisConfig { fund_initial_accounts: 0, hashes_per_tick, ..development };
        Genesis::create(config, |_| {}).expect("such a chain can begin")
    }

    #[test]
    fn slot_0_equals_the_shredded_ticks() {
        for genesis in [genesis(None), genesis(Some(20))] {
            let slot_0 = Slot0::of(&genesis);
            let version = shred_version(genesis.slot_0_hash());
            let config = ShredderConfig { version, ..ShredderConfig::default() };
            let mut shredder = Shredder::new(config, *genesis.hash());
            shredder.begin_slot(0, 0).expect("slot 0 is its own parent");
            let hashes = genesis.config().hashes_per_tick.unwrap_or(0);
            for hash in genesis.ticks() {
                let mut entry = vec![];
                write_entry(hashes, hash, 0, &[], &mut entry);
                shredder.push(&entry, 0).expect("ticks fit into one set");
            }
            shredder.end_batch(true);
            let mut set = FecSet::new();
            assert!(shredder.next_set(&mut set));
            assert_eq!((set.root(), shredder.chained_root()), (slot_0.block_id(), slot_0.block_id()));
            let last = set.shreds().nth(31).expect("32 data shreds");
            let last = Shred::parse(last).expect("it is well formed");
            assert!(last.ends_slot() && last.ends_batch());
        }
    }

    #[test]
    fn its_ticks_are_a_chain_from_the_genesis() {
        let genesis = genesis(Some(20));
        let slot_0 = Slot0::of(&genesis);
        let record = slot_0.record();
        let (mut hash, mut count) = (*genesis.hash(), 0);
        for entry in Entries::parse(record.data).unwrap() {
            let entry = entry.unwrap();
            hash = sha256_chain(hash, 20);
            assert_eq!((entry.num_hashes, entry.hash, entry.is_tick()), (20, &hash, true));
            count += 1;
        }
        assert_eq!((count, &hash), (64, genesis.slot_0_hash()));
        assert_eq!(record.chained_root, *genesis.hash());
        assert_ne!(slot_0.block_id(), Slot0::of(&self::genesis(Some(21))).block_id());
    }

    #[test]
    fn the_block_store_gives_it_back() {
        use hearth_ledger::blockstore::{BlockStore, Config};
        let (dir, genesis) = (tempfile::tempdir().unwrap(), genesis(None));
        let (mut store, _) = BlockStore::open(dir.path(), Config::new(8 << 20, *genesis.hash())).unwrap();
        let slot_0 = Slot0::of(&genesis);
        store.append_set(&slot_0.record()).unwrap();
        let block = store.reader().block(0).unwrap().expect("it was stored");
        assert!(block.info.whole);
        assert_eq!((block.block_id, block.info.parent_slot), (*slot_0.block_id(), 0));
        assert_eq!(block.data, slot_0.record().data);
    }
}
