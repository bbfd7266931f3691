//! A lone node, on a ledger without forks.

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::stakes::genesis_accounts;
use hearth_ledger::{Account, Commitment, Genesis, GenesisConfig, Ledger, LedgerConfig, VoteState};
use hearth_tile::rig::Rig;
use hearth_wire::vote::is_vote_message_by;

use super::super::{Config as TileConfig, Membership, NoFiles, SoloDriver, Tower as TowerTile};
use super::*;
use crate::failure::Failure;

const ACCOUNT: Pubkey = [7; 32];
/// Longer than the interval between two checks.
const MOMENT: Duration = Duration::from_millis(1);

struct Trial {
    rig: Rig<TowerTile>,
    ledger: Arc<Ledger>,
}

impl Trial {
    /// On a chain in which the node may vote with an account, or that belongs to another node.
    fn new(has_account: bool) -> Self {
        let owner = if has_account { node(0) } else { node(1) };
        Self::with(genesis_accounts(&ACCOUNT, &[8; 32], &owner).to_vec())
    }

    /// On a chain on which the account's last vote has this timestamp.
    fn since(unix_s: i64) -> Self {
        let [(key, account), stake] = genesis_accounts(&ACCOUNT, &[8; 32], &node(0));
        let mut data = account.data().to_vec();
        // After the credits, of which there are none.
        data[266..274].copy_from_slice(&unix_s.to_le_bytes());
        assert_eq!(VoteState::read(&data).map(|state| state.last_timestamp), Some((0, unix_s)));
        Self::with(vec![(key, Account::with_data(account.lamports, account.owner, &data)), stake])
    }

    fn with(extra_accounts: Vec<(Pubkey, Account)>) -> Self {
        let genesis = GenesisConfig { extra_accounts, ..GenesisConfig::development(node(0), [2; 32], 0) };
        let genesis = Genesis::create(genesis, |_| {}).expect("it fits");
        Self::on(Ledger::new(&genesis, LedgerConfig::default()))
    }

    /// Starts on a ledger.
    fn on(ledger: Arc<Ledger>) -> Self {
        let (core, alone) = SoloDriver::new(ledger.clone(), node(0), [6; 32], SLOT, now(Duration::ZERO));
        let membership = Membership::Alone(alone);
        let config = TileConfig { core, files: Box::new(NoFiles), failure: Failure::default(), membership };
        let rig = Rig::new(config, &["store_tower", "sign_tower"], &["tower_sign", "tower_pack"]);
        Self { rig, ledger }
    }

    /// Lets poh produce the block of a slot.
    fn make(&self, slot: u64) {
        self.ledger.begin_slot(slot, self.ledger.recent_blocks(1)[0].slot).expect("it follows");
        self.ledger.end_slot(slot, [slot as u8; 32]).expect("it has begun");
    }

    /// Reports on store's behalf that it is durable.
    fn durable(&mut self, slot: u64) {
        self.rig.give("store_tower", slot, &[slot as u8; 32]);
        self.rig.run();
    }

    /// Takes the message to sign.
    fn asked(&mut self) -> Option<(u64, Vec<u8>)> {
        self.rig.run();
        let asked = self.rig.take("tower_sign");
        assert!(asked.len() < 2, "one vote at a time");
        asked.into_iter().next()
    }

    /// Signs it; returns the vote sent to pack.
    fn signed(&mut self, number: u64) -> Vec<u8> {
        self.rig.give("sign_tower", number, &[5; 64]);
        self.rig.run();
        let [(_, vote)] = &self.rig.take("tower_pack")[..] else { panic!("one vote") };
        vote.clone()
    }

    /// Produces, stores and votes for a block.
    fn vote_for(&mut self, slot: u64) -> Vec<u8> {
        self.make(slot);
        self.durable(slot);
        let (number, _) = self.asked().expect("a vote is due");
        self.signed(number)
    }

    fn slot(&self, commitment: Commitment) -> u64 {
        self.ledger.slot(commitment)
    }
}

fn voted(vote: &[u8]) -> VoteTarget {
    voted_for(&Txn::parse(vote).expect("a transaction")).expect("a vote")
}

#[test]
fn durable_block_is_confirmed_once_its_vote_is_signed() {
    let mut trial = Trial::new(true);
    assert_eq!(trial.asked(), None, "there is nothing to vote for");
    trial.make(1);
    trial.durable(1);
    let (number, message) = trial.asked().expect("a vote is due");
    assert!(is_vote_message_by(&message, &node(0), &node(0), &ACCOUNT), "sign signs it");
    assert_eq!(trial.slot(Commitment::Confirmed), 0, "it is not signed");
    let vote = voted(&trial.signed(number));
    let bank_hash = trial.ledger.bank_hash(1).expect("tower has waited for it");
    assert_eq!(vote, VoteTarget { account: ACCOUNT, slot: 1, bank_hash, block_id: [1; 32] });
    assert_eq!((trial.slot(Commitment::Confirmed), trial.rig.count().votes), (1, 1));
}

#[test]
#[should_panic(expected = "sign refused the node's own vote")]
fn refused_vote_ends_the_tile() {
    let mut trial = Trial::new(true);
    trial.make(1);
    trial.durable(1);
    let (number, _) = trial.asked().expect("a vote is due");
    trial.rig.give("sign_tower", number, &[]);
    trial.rig.run();
}

#[test]
fn votes_that_never_land_confirm_and_root() {
    let mut trial = Trial::new(true);
    (1..=31).for_each(|slot| assert_eq!(voted(&trial.vote_for(slot)).slot, slot));
    assert_eq!((trial.slot(Commitment::Confirmed), trial.slot(Commitment::Finalized)), (31, 0));
    trial.vote_for(32);
    assert_eq!((trial.slot(Commitment::Confirmed), trial.slot(Commitment::Finalized)), (32, 1));
    assert_eq!((trial.rig.count().root_slot, trial.rig.count().unrooted_blocks), (1, 31));
}

#[test]
fn newest_vote_covers_blocks_before_it() {
    let mut trial = Trial::new(true);
    (1..=4).for_each(|slot| trial.make(slot));
    trial.durable(1);
    let (number, _) = trial.asked().expect("a vote is due");
    trial.durable(2);
    trial.durable(4);
    assert_eq!(trial.asked(), None, "the one before is not signed");
    assert_eq!(voted(&trial.signed(number)).slot, 1);
    let (number, _) = trial.asked().expect("a vote is due");
    assert_eq!(trial.slot(Commitment::Confirmed), 1);
    assert_eq!(voted(&trial.signed(number)).slot, 4);
    assert_eq!(trial.slot(Commitment::Confirmed), 4);
}

#[test]
fn slot_that_has_not_ended_is_waited_for() {
    let mut trial = Trial::new(true);
    trial.ledger.begin_slot(1, 0).expect("it follows");
    trial.durable(1);
    assert_eq!(trial.asked(), None);
    trial.ledger.end_slot(1, [1; 32]).expect("it has begun");
    trial.rig.advance(MOMENT);
    assert!(trial.asked().is_some());
}

#[test]
fn start_makes_the_last_block_the_root() {
    let mut trial = Trial::new(true);
    (1..=5).for_each(|slot| drop(trial.vote_for(slot)));
    assert_eq!(trial.slot(Commitment::Finalized), 0);
    let mut again = Trial::on(trial.ledger.clone());
    assert_eq!(again.slot(Commitment::Finalized), 5, "nobody else can have built on another block");
    assert_eq!(voted(&again.vote_for(6)).slot, 6);
    assert_eq!(again.slot(Commitment::Confirmed), 6);
}

#[test]
fn vote_timestamp_is_not_before_the_accounts() {
    let message_bytes = |mut trial: Trial| {
        trial.make(1);
        trial.durable(1);
        trial.asked().expect("a vote is due").1.len()
    };
    let dated = message_bytes(Trial::since(0));
    assert_eq!(message_bytes(Trial::since(4_000_000_000)), dated - size_of::<i64>());
}

#[test]
fn signature_is_waited_for_without_looking() {
    let mut trial = Trial::new(true);
    (1..=2).for_each(|slot| trial.make(slot));
    trial.durable(1);
    let (number, _) = trial.asked().expect("a vote is due");
    trial.durable(2);
    assert_eq!(trial.rig.waits_for().deadline, None);
    trial.signed(number);
    assert!(trial.asked().is_some());
}

#[test]
fn without_a_vote_account_durable_is_confirmed() {
    let mut trial = Trial::new(false);
    (1..=40).for_each(|slot| trial.make(slot));
    trial.durable(40);
    assert_eq!(trial.asked(), None);
    assert_eq!((trial.slot(Commitment::Confirmed), trial.slot(Commitment::Finalized)), (40, 8), "by its depth");
}

#[test]
fn stake_of_others_holds_nothing_up() {
    let other = genesis_accounts(&[9; 32], &[10; 32], &SigningKey::from_seed(&[99; 32]).public_key());
    let extra_accounts = [genesis_accounts(&ACCOUNT, &[8; 32], &node(0)), other].concat();
    let genesis = GenesisConfig { extra_accounts, ..GenesisConfig::development(node(0), [2; 32], 0) };
    let genesis = Genesis::create(genesis, |_| {}).expect("it fits");
    let mut trial = Trial::on(Ledger::new(&genesis, LedgerConfig::default()));
    (1..=40).for_each(|slot| drop(trial.vote_for(slot)));
    assert_eq!((trial.slot(Commitment::Confirmed), trial.slot(Commitment::Finalized)), (40, 9));
}
