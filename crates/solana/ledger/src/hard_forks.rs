//! Hard forks: slots from which the chain goes on by agreement of its operators, as after a restart of the cluster.
//!
//! reads   the slots that the chain's folder and the configuration name; those in a state
//! writes  what they add to a bank's hash, the last-restart-slot sysvar, the shred version
//! memory  16 bytes per hard fork
//! drops   hard forks that contradict a state: a [`HardForkError`]
//! source  `solana-hard-forks` 3, `hash_internal_state` and `update_last_restart_slot` of `bank.rs` of `solana-runtime`
//!         4.2, `compute_shred_version` of `solana-shred-version` 4
//!
//! Every node of a chain must have the same ones: nodes with others have other bank hashes from the slot on, and other
//! shreds. So a state says which ones it was made with, and a chain that continues from it keeps them.

use std::collections::BTreeMap;

use hearth_crypto::sha256::sha256;
use hearth_wire::Hash;
use hearth_wire::consts::SYSVAR_LAST_RESTART_SLOT;
use solana_hard_forks::HardForks;

use crate::accounts::Accounts;
use crate::genesis::shred_version;
use crate::sysvars::{u64_at, write};

/// Maximum hard forks of a chain. Clusters have had a few.
pub const HARD_FORKS_MAX: u64 = 1_024;

/// Why a chain cannot continue with these hard forks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HardForkError {
    /// A declared fork is not after a state that was made without it.
    #[error(
        "the state of slot {slot} was made with hard forks at {}, and those at {} are declared (hard-forks.json, \
         consensus.hard_forks, --hard-fork): a new hard fork must be later than every block",
        list(found),
        list(declared)
    )]
    Contradiction {
        /// The slot of the state.
        slot: u64,
        /// The slots of its forks, each once.
        found: Vec<u64>,
        /// The slots of the declared forks, each once.
        declared: Vec<u64>,
    },
    /// A chain has more forks than [`HARD_FORKS_MAX`].
    #[error("there are more than {} hard forks", HARD_FORKS_MAX)]
    TooMany,
}

fn list(slots: &[u64]) -> String {
    match slots {
        [] => "no slot".to_owned(),
        [one] => format!("slot {one}"),
        _ => format!("slots {}", slots.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// How many hard forks each slot stands for.
fn counts(slots: &[u64]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    slots.iter().for_each(|slot| *counts.entry(*slot).or_default() += 1);
    counts
}

/// The slots, each as often as it counts.
fn repeated(counts: &BTreeMap<u64, u64>) -> Result<Vec<u64>, HardForkError> {
    if counts.values().fold(0, |sum: u64, count| sum.saturating_add(*count)) > HARD_FORKS_MAX {
        return Err(HardForkError::TooMany);
    }
    Ok(counts.iter().flat_map(|(slot, count)| std::iter::repeat_n(*slot, *count as usize)).collect())
}

/// The hard forks that one of two lists names, each as often as in the list that names it more often; ascending.
pub fn union(some: &[u64], others: &[u64]) -> Vec<u64> {
    let mut all = counts(some);
    for (slot, count) in counts(others) {
        let before = all.entry(slot).or_default();
        *before = count.max(*before);
    }
    all.iter().flat_map(|(slot, count)| std::iter::repeat_n(*slot, *count as usize)).collect()
}

/// The first slot in `(after, until]` that `declared` names more often than `known`.
pub fn first_new(declared: &[u64], known: &[u64], (after, until): (u64, u64)) -> Option<u64> {
    let known = counts(known);
    let is_new = |(slot, count): &(u64, u64)| {
        after < *slot && *slot <= until && known.get(slot).is_none_or(|known| known < count)
    };
    counts(declared).into_iter().find(is_new).map(|(slot, _)| slot)
}

/// The hard forks of a chain that continues from the state of `slot`: those that the state was made with or knows,
/// `found` with their counts, and of the declared ones those after `slot`. Slots are repeated as often as they count.
///
/// # Errors
/// A declared fork is at or before `slot` and the state has it not or not as often; or there are too many.
pub fn continued(slot: u64, found: &[(u64, u64)], declared: &[u64]) -> Result<Vec<u64>, HardForkError> {
    let mut all = BTreeMap::<u64, u64>::new();
    for (at, count) in found {
        let sum = all.entry(*at).or_default();
        *sum = sum.saturating_add(*count);
    }
    let declared = counts(declared);
    if declared.range(..=slot).any(|(at, count)| all.get(at) != Some(count)) {
        let found = all.into_keys().collect();
        return Err(HardForkError::Contradiction { slot, found, declared: declared.into_keys().collect() });
    }
    for (at, count) in declared.range(slot.saturating_add(1)..) {
        let before = all.entry(*at).or_default();
        *before = (*before).max(*count);
    }
    repeated(&all)
}

/// As [`continued`], for a snapshot of our own. One of an older version says nothing of hard forks: then the declared
/// ones count, if the newest up to `slot` is that in the state's last-restart-slot sysvar.
///
/// # Errors
/// As [`continued`].
pub fn continued_snapshot(
    slot: u64,
    found: Option<&[(u64, u64)]>,
    accounts: &Accounts,
    declared: &[u64],
) -> Result<Vec<u64>, HardForkError> {
    if let Some(found) = found {
        return continued(slot, found, declared);
    }
    let newest = accounts.with(&SYSVAR_LAST_RESTART_SLOT, |account| u64_at(account.data(), 0)).unwrap_or(0);
    let found: Vec<u64> = (newest > 0).then_some(newest).into_iter().collect();
    let declared = counts(declared);
    if declared.range(..=slot).next_back().map_or(0, |(at, _)| *at) != newest {
        return Err(HardForkError::Contradiction { slot, found, declared: declared.into_keys().collect() });
    }
    repeated(&declared)
}

/// The hard forks at these slots. A slot that is named several times counts several times.
pub fn of_slots(slots: &[u64]) -> HardForks {
    let mut forks = HardForks::default();
    slots.iter().for_each(|slot| forks.register(*slot));
    forks
}

/// The shred version of the chain with this genesis hash and hard forks at these slots.
pub fn shred_version_with(genesis_hash: &Hash, slots: &[u64]) -> u16 {
    shred_version_of(genesis_hash, &of_slots(slots))
}

/// The same for counted hard forks.
pub(crate) fn shred_version_of(genesis_hash: &Hash, forks: &HardForks) -> u16 {
    let mixed = forks.iter().fold(*genesis_hash, |hash, (slot, count)| {
        sha256(&[&hash, &slot.to_le_bytes(), &(*count as u64).to_le_bytes()])
    });
    shred_version(&mixed)
}

/// As [`bank_hash_with`], for hard forks as a snapshot has them.
pub(crate) fn snapshot_hash_with(forks: &[(u64, u64)], slot: u64, parent: u64, hash: Hash) -> Hash {
    let begun = forks.iter().filter(|(at, _)| parent < *at && *at <= slot);
    match begun.fold(0u64, |sum, (_, count)| sum.saturating_add(*count)) {
        0 => hash,
        count => sha256(&[&hash, &count.to_le_bytes()]),
    }
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
            let hash = snapshot_hash_with(&[(4, 2), (9, 1)], slot, parent, [7; 32]);
            assert_eq!(hash, expected(count), "slot {slot} on {parent}");
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
    fn a_chain_keeps_the_forks_of_its_state() {
        let contradicts = |found: &[(u64, u64)], declared: &[u64]| {
            let error = continued(9, found, declared).unwrap_err();
            assert!(matches!(error, HardForkError::Contradiction { slot: 9, .. }), "{error}");
            error.to_string()
        };
        assert_eq!(continued(9, &[(4, 2)], &[]), Ok(vec![4, 4]), "it need not be declared again");
        assert_eq!(continued(9, &[(4, 2), (12, 1)], &[4, 4, 20]), Ok(vec![4, 4, 12, 20]));
        assert_eq!(continued(9, &[(12, 1)], &[12]), Ok(vec![12]), "it is the same fork");
        let said = contradicts(&[], &[9, 20]);
        assert!(
            said.contains("slot 9 was made with hard forks at no slot, and those at slots 9, 20 are declared"),
            "{said}"
        );
        contradicts(&[(4, 2)], &[4]);
        contradicts(&[(4, 1)], &[5]);
        assert_eq!(continued(9, &[(4, u64::MAX), (4, 1)], &[]), Err(HardForkError::TooMany));
        assert_eq!(continued(u64::MAX, &[], &[]), Ok(vec![]));
    }

    #[test]
    fn a_state_of_an_older_version_has_the_newest_fork_in_its_sysvar() {
        let accounts = Accounts::new();
        let from = |declared: &[u64]| continued_snapshot(9, None, &accounts, declared);
        assert_eq!(from(&[12]), Ok(vec![12]));
        assert!(from(&[5]).is_err());
        write(&accounts, &SYSVAR_LAST_RESTART_SLOT, &5u64.to_le_bytes());
        assert_eq!(from(&[3, 5, 12]), Ok(vec![3, 5, 12]));
        assert!(from(&[]).is_err() && from(&[3]).is_err() && from(&[5, 6]).is_err());
        assert_eq!(continued_snapshot(9, Some(&[(5, 1)]), &accounts, &[]), Ok(vec![5]));
    }

    #[test]
    fn lists_of_forks_are_united_by_slot() {
        assert_eq!(union(&[9, 4, 4], &[4, 7]), [4, 4, 7, 9]);
        assert_eq!(first_new(&[4, 4, 9], &[4], (3, 8)), Some(4), "it counts twice");
        assert_eq!(first_new(&[4, 4, 9], &[4], (4, 8)), None);
        assert_eq!(first_new(&[4, 9], &[4], (0, 9)), Some(9));
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
