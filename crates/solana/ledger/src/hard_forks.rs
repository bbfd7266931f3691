//! Hard forks: slots from which the chain goes on by agreement of its operators, as after a restart of the cluster.
//!
//! reads   the slots that the node was configured with
//! writes  what they add to a bank's hash, the last-restart-slot sysvar, the shred version
//! memory  16 bytes per hard fork
//! source  `solana-hard-forks` 3, `hash_internal_state` and `update_last_restart_slot` of `bank.rs` of `solana-runtime`
//!         4.2, `compute_shred_version` of `solana-shred-version` 4
//!
//! Every node of a chain must have the same ones: nodes with others have other bank hashes from the slot on, and other
//! shreds.

use hearth_crypto::sha256::sha256;
use hearth_wire::Hash;
use hearth_wire::consts::SYSVAR_LAST_RESTART_SLOT;
use solana_hard_forks::HardForks;

use crate::accounts::Accounts;
use crate::genesis::shred_version;
use crate::sysvars::{u64_at, write};

/// The hard forks at these slots. A slot that is named several times counts several times.
pub fn of_slots(slots: &[u64]) -> HardForks {
    let mut forks = HardForks::default();
    slots.iter().for_each(|slot| forks.register(*slot));
    forks
}

/// The shred version of the chain with this genesis hash and hard forks at these slots.
pub fn shred_version_with(genesis_hash: &Hash, slots: &[u64]) -> u16 {
    let mixed = of_slots(slots).iter().fold(*genesis_hash, |hash, (slot, count)| {
        sha256(&[&hash, &slot.to_le_bytes(), &(*count as u64).to_le_bytes()])
    });
    shred_version(&mixed)
}

/// The hash of the bank of `slot`, which is `hash` unless there are hard forks after `parent` and up to `slot`: their
/// number is mixed in.
pub(crate) fn bank_hash_with(forks: &HardForks, slot: u64, parent: u64, hash: Hash) -> Hash {
    match forks.get_hash_data(slot, parent) {
        Some(count) => sha256(&[&hash, &count]),
        None => hash,
    }
}

/// Writes the newest hard fork up to `slot` to the last-restart-slot sysvar, unless it is there. 0 if there is none.
pub(crate) fn begin_slot(accounts: &Accounts, forks: &HardForks, slot: u64) {
    let newest = forks.iter().rev().map(|(at, _)| *at).find(|at| *at <= slot).unwrap_or(0);
    if accounts.with(&SYSVAR_LAST_RESTART_SLOT, |account| u64_at(account.data(), 0)) != Some(newest) {
        write(accounts, &SYSVAR_LAST_RESTART_SLOT, &newest.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Genesis, GenesisConfig, Ledger, LedgerConfig};

    fn ledger(slots: &[u64]) -> std::sync::Arc<Ledger> {
        let config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
        let genesis = Genesis::create(config, |_| {}).unwrap();
        Ledger::new(&genesis, LedgerConfig { hard_forks: slots.to_vec(), ..LedgerConfig::default() })
    }

    /// The bank hashes of blocks in slots 1, 2, 5 and 6, and the sysvar in each.
    fn run(ledger: &Ledger) -> Vec<(Hash, u64)> {
        let slot = |(slot, parent): (u64, u64)| {
            ledger.begin_slot(slot, parent).unwrap();
            let restart = u64_at(ledger.account(&SYSVAR_LAST_RESTART_SLOT).unwrap().data(), 0);
            ledger.end_slot(slot, [slot as u8; 32]).unwrap();
            (ledger.hash_all().1, restart)
        };
        [(1, 0), (2, 1), (5, 2), (6, 5)].into_iter().map(slot).collect()
    }

    #[test]
    fn hard_forks_change_the_hash_and_the_sysvar() {
        let without = run(&ledger(&[]));
        assert!(without.iter().all(|(_, restart)| *restart == 0));
        // One beyond all blocks changes nothing.
        assert_eq!(run(&ledger(&[7])), without);
        // Slot 4 has no block: the next one, slot 5, is the fork's. The sysvar's account is in its hash, too.
        let forked = ledger(&[4]);
        let with = run(&forked);
        assert_eq!(with[..2], without[..2]);
        assert_eq!((with[2].1, with[3].1), (4, 4));
        let plain = |ledger: &Ledger| ledger.lattice().bank_hash(&with[2].0, 0, &[6; 32]);
        assert_eq!(plain(&forked), with[3].0, "only the first block after the fork has it");
        assert_ne!(with[2].0, without[2].0);
    }

    #[test]
    fn the_number_of_forks_is_hashed_with_the_banks_hash() {
        let forks = of_slots(&[4, 4, 9]);
        let expected = |count: u64| sha256(&[&[7; 32], &count.to_le_bytes()]);
        for (slot, parent, count) in [(4, 3, 2), (5, 3, 2), (9, 4, 1), (12, 3, 3)] {
            assert_eq!(bank_hash_with(&forks, slot, parent, [7; 32]), expected(count), "slot {slot} on {parent}");
        }
        for (slot, parent) in [(3, 2), (5, 4), (8, 7), (10, 9)] {
            assert_eq!(bank_hash_with(&forks, slot, parent, [7; 32]), [7; 32], "slot {slot} on {parent}");
        }
    }

    #[test]
    fn blocks_of_a_fork_hash_by_the_rule() {
        let forked = ledger(&[2]);
        let genesis_hash = forked.hash_all().1;
        forked.begin_slot(2, 0).unwrap();
        forked.end_slot(2, [2; 32]).unwrap();
        let (_, hash) = forked.hash_all();
        let plain = forked.lattice().bank_hash(&genesis_hash, 0, &[2; 32]);
        assert_eq!(hash, sha256(&[&plain, &1u64.to_le_bytes()]));
    }

    #[test]
    fn hard_forks_change_the_shred_version() {
        let genesis = [0xa5; 32];
        assert_eq!(shred_version_with(&genesis, &[]), shred_version(&genesis));
        let once = sha256(&[&genesis, &[3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]]);
        assert_eq!(shred_version_with(&genesis, &[3, 3]), shred_version(&once));
        let twice = sha256(&[&once, &9u64.to_le_bytes(), &1u64.to_le_bytes()]);
        assert_eq!(shred_version_with(&genesis, &[9, 3, 3]), shred_version(&twice), "in the order of slots");
    }
}
