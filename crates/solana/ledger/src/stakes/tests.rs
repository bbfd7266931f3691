//! Delegations against the crate from which the stake program is built.

use proptest::prelude::*;
use solana_stake_interface::stake_history::{StakeHistory as TheirHistory, StakeHistoryEntry};
use solana_stake_interface::state::{Authorized, Delegation as Theirs, Meta, Stake, StakeStateV2};

use super::*;

fn activation() -> impl Strategy<Value = Activation> {
    let amount = || prop_oneof![Just(0), 1..100u64, 1..1u64 << 60];
    (amount(), amount(), amount()).prop_map(|(effective, activating, deactivating)| Activation {
        effective,
        activating,
        deactivating,
    })
}

proptest! {
    #[test]
    fn take_effect_as_the_cluster_says(
        all in proptest::collection::vec(activation(), 0..12),
        missing in 0..13u64,
        stake in prop_oneof![1..100u64, 1..1u64 << 60],
        activated in prop_oneof![4 => 0..12u64, 1 => Just(u64::MAX)],
        deactivated in prop_oneof![0..14u64, Just(u64::MAX)],
    ) {
        let (mut ours, mut theirs) = (StakeHistory::default(), TheirHistory::default());
        for (epoch, entry) in (0..).zip(all).filter(|(epoch, _)| *epoch != missing) {
            ours.add(epoch, entry);
            let Activation { effective, activating, deactivating } = entry;
            theirs.add(epoch, StakeHistoryEntry { effective, activating, deactivating });
        }
        let delegation = Delegation {
            vote: [1; 32],
            stake,
            activation_epoch: activated,
            deactivation_epoch: deactivated,
            credits_observed: 0,
        };
        let mut their = Theirs::new(&[1; 32].into(), stake, activated);
        their.deactivation_epoch = deactivated;
        for epoch in 0..16 {
            let expected = their.stake_activating_and_deactivating_v2(epoch, &theirs, Some(0));
            let Activation { effective, activating, deactivating } = delegation.activation(epoch, &ours);
            prop_assert_eq!(
                (effective, activating, deactivating),
                (expected.effective, expected.activating, expected.deactivating),
                "epoch {}", epoch
            );
        }
    }
}

#[test]
fn a_stake_of_genesis_is_what_the_cluster_makes() {
    let account = new_stake_account(10_000_000_000, &[4; 32], &[5; 32]);
    let reserve = minimum_balance(STAKE_STATE_BYTES);
    let authorized = Authorized::auto(&[5; 32].into());
    #[allow(deprecated)]
    let meta = Meta { rent_exempt_reserve: reserve, authorized, ..Meta::default() };
    let delegation = Theirs::new(&[4; 32].into(), 10_000_000_000 - reserve, u64::MAX);
    let state = StakeStateV2::Stake(meta, Stake { delegation, credits_observed: 0 }, Default::default());
    let mut expected = bincode::serialize(&state).unwrap();
    expected.resize(STAKE_STATE_BYTES, 0);
    assert_eq!(account.data(), expected);
    let mut data = account.data().to_vec();
    let read = Delegation::read(&data).unwrap();
    assert_eq!((read.vote, read.stake, read.credits_observed), ([4; 32], 10_000_000_000 - reserve, 0));
    assert_eq!((read.activation_epoch, read.deactivation_epoch), (u64::MAX, u64::MAX));
    let rewarded = Delegation { stake: 5, deactivation_epoch: 6, credits_observed: 77, ..read };
    set_rewarded(&mut data, &rewarded);
    assert_eq!(Delegation::read(&data), Some(rewarded));
    let mut theirs = Theirs::new(&[4; 32].into(), 5, u64::MAX);
    theirs.deactivation_epoch = 6;
    let stake = Stake { delegation: theirs, credits_observed: 77 };
    let mut expected = bincode::serialize(&StakeStateV2::Stake(meta, stake, Default::default())).unwrap();
    expected.resize(STAKE_STATE_BYTES, 0);
    assert_eq!(data, expected);
    assert_eq!(Delegation::read(&[0; STAKE_STATE_BYTES]), None);
}

#[test]
fn the_history_is_read_as_written() {
    let accounts = Accounts::new();
    let (mut ours, mut theirs) = (StakeHistory::default(), TheirHistory::default());
    for epoch in 0..600 {
        ours.add(epoch, Activation { effective: epoch, activating: 2, deactivating: 3 });
        theirs.add(epoch, StakeHistoryEntry { effective: epoch, activating: 2, deactivating: 3 });
    }
    ours.store(&accounts);
    assert_eq!(StakeHistory::load(&accounts), ours);
    let data = accounts.load(&SYSVAR_STAKE_HISTORY).unwrap().data().to_vec();
    assert_eq!(bincode::deserialize::<TheirHistory>(&data).unwrap(), theirs);
    assert_eq!((ours.get(87), ours.get(88).unwrap().effective, ours.get(600)), (None, 88, None));
}
