//! Bank hashes against a full recomputation over all accounts, whichever thread computes them.

use hearth_wire::consts::SYSVAR_SLOT_HASHES;
use proptest::prelude::*;

use crate::account::Account;
use crate::lattice::Lattice;
use crate::ledger::Ledger;
use crate::sysvars::u64_at;
use crate::testing::{Chain, wallet};

fn added_up(ledger: &Ledger) -> Lattice {
    let mut lattice = Lattice::default();
    ledger.accounts().for_each(|key, account| lattice.add(key, account));
    lattice
}

#[test]
fn genesis_has_a_hash() {
    let chain = Chain::new(&[]);
    let (slot, hash) = chain.ledger.hash_all();
    let genesis = *chain.ledger.genesis_hash();
    assert_eq!(slot, 0);
    // Slot 1 has begun: subtract what it wrote.
    let mut lattice = added_up(&chain.ledger);
    for key in [SYSVAR_SLOT_HASHES, hearth_wire::consts::SYSVAR_CLOCK] {
        lattice.subtract(&key, &chain.ledger.account(&key).unwrap());
    }
    let clock = crate::sysvars::Clock::default();
    let accounts = crate::Accounts::new();
    crate::sysvars::Clock { leader_schedule_epoch: 1, ..clock }.store(&accounts);
    lattice.add(&hearth_wire::consts::SYSVAR_CLOCK, &accounts.load(&hearth_wire::consts::SYSVAR_CLOCK).unwrap());
    assert_eq!(lattice.bank_hash(&[0; 32], 0, &genesis), hash);
    assert_eq!(chain.ledger.recent_blocks(1)[0].bank_hash, Some(hash));
}

#[test]
fn next_bank_gets_the_parents_hash() {
    let mut chain = Chain::new(&[10_000_000]);
    for _ in 0..5 {
        chain.next_slot();
        assert_eq!(chain.ledger.recent_blocks(1)[0].bank_hash, None);
        let newest = |chain: &Chain| {
            let data = chain.ledger.account(&SYSVAR_SLOT_HASHES).unwrap().data().to_vec();
            (u64_at(&data, 8), data[16..48].to_vec())
        };
        let (parent, before) = (chain.bank.parent(), newest(&chain));
        assert_eq!(before.0, parent - 1, "not known yet");
        while chain.ledger.hash_some(1) {}
        let (slot, hash) = chain.ledger.hash_all();
        assert_eq!((slot, newest(&chain)), (parent, (slot, hash.to_vec())));
        assert_eq!(chain.ledger.recent_blocks(1)[0].bank_hash, Some(hash));
    }
}

/// The writes of one slot: wallet, lamports and bytes of data.
type Slot = Vec<(u64, u64, usize)>;

fn run(slots: &[Slot], piece: impl Fn(&Ledger, usize)) -> (Chain, Vec<[u8; 32]>) {
    let (mut chain, mut hashes) = (Chain::new(&[5, 6, 7]), vec![]);
    for (n, slot) in slots.iter().enumerate() {
        for (write, (who, lamports, bytes)) in slot.iter().enumerate() {
            chain.ledger.accounts().store(&wallet(*who), Account::with_data(*lamports, [3; 32], &vec![7; *bytes]));
            piece(&chain.ledger, n + write);
        }
        chain.next_slot();
        hashes.extend(chain.ledger.recent_blocks(2).last().and_then(|block| block.bank_hash));
    }
    hashes.push(chain.ledger.hash_all().1);
    (chain, hashes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn pieces_add_up_to_the_whole(
        slots in proptest::collection::vec(
            proptest::collection::vec((0..10u64, 0..3u64, prop_oneof![Just(0usize), Just(9), Just(300)]), 0..12),
            1..6,
        ),
        limit in 1..20usize,
    ) {
        let (chain, hashes) = run(&slots, |ledger, n| {
            if n % 2 == 0 {
                ledger.hash_some(limit);
            }
        });
        // End the slot in progress, so that everything is hashed.
        let slot = chain.bank.slot();
        chain.ledger.end_slot(slot, [0xee; 32]).unwrap();
        let (hashed, _) = chain.ledger.hash_all();
        prop_assert_eq!(hashed, slot);
        prop_assert_eq!(chain.ledger.lattice(), added_up(&chain.ledger));
        prop_assert_eq!(u128::from(chain.ledger.capitalization()), chain.ledger.accounts().total_lamports());
        let (_, again) = run(&slots, |_, _| {});
        prop_assert_eq!(hashes, again, "whichever node computes them, and whenever");
    }
}
