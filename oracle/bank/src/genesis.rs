//! The genesis of a ledger: validators with stakes, users, programs, features, and the numbers that a scenario asks
//! for.

use agave_feature_set as features;
use solana_account::{Account, AccountSharedData};
use solana_cluster_type::ClusterType;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_gate_interface::{self as feature_gate, Feature};
use solana_fee_calculator::FeeRateGovernor;
use solana_genesis_config::GenesisConfig;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use solana_rent::DEFAULT_LAMPORTS_PER_BYTE;
use solana_runtime::{genesis_utils, stake_utils};
use solana_signer::Signer;
use solana_vote_program::vote_state;

use crate::world::{SOL, World};

/// The time of every genesis, in Unix seconds.
pub const GENESIS_TIME: i64 = 1_790_000_000;

/// A validator of the genesis.
pub struct Stake {
    pub sol: u64,
    /// The commission on inflation rewards, in hundredths of a percent.
    pub commission_bps: u16,
}

/// The parts of a genesis that a scenario sets.
pub struct Rules {
    pub slots_per_epoch: u64,
    pub warmup: bool,
    pub inflation: Inflation,
    pub validators: Vec<Stake>,
    pub users: usize,
    /// Stake accounts of 10 SOL beside those of the validators, delegated to them in turn.
    pub extra_stakes: usize,
    /// The programs that the genesis deploys.
    pub programs: Vec<Pubkey>,
    /// Whether the program of stakes is among them. Stakes earn and count without it.
    pub stake_program: bool,
    /// Accounts beside all these.
    pub accounts: Vec<(Pubkey, Account)>,
    /// Lamports that an account must hold for each of its bytes.
    pub lamports_per_byte: u64,
    /// Hashes a tick; `None` leaves slot 0's last hash equal to the genesis hash.
    pub hashes_per_tick: Option<u64>,
    pub target_signatures_per_slot: u64,
    pub cluster: ClusterType,
    /// Features without an account.
    pub off: Vec<Pubkey>,
    /// Features whose account is pending, or says that they activate at a slot to come.
    pub pending: Vec<(Pubkey, Option<u64>)>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            slots_per_epoch: 64,
            warmup: false,
            inflation: Inflation::new_disabled(),
            validators: vec![
                Stake { sol: 1_000_000, commission_bps: 10_000 },
                Stake { sol: 600_000, commission_bps: 500 },
                Stake { sol: 300_000, commission_bps: 0 },
            ],
            users: 8,
            extra_stakes: 0,
            programs: vec![],
            stake_program: false,
            accounts: vec![],
            lamports_per_byte: DEFAULT_LAMPORTS_PER_BYTE,
            hashes_per_tick: None,
            target_signatures_per_slot: FeeRateGovernor::default().target_signatures_per_slot,
            cluster: ClusterType::Development,
            off: vec![],
            pending: vec![],
        }
    }
}

/// Features that are off in every ledger: Hearth names them as not supported.
const NEVER: [fn() -> Pubkey; 8] = [
    features::alpenglow::id,
    features::alpenglow_fast_leader_handover::id,
    features::enable_tx_v1::id,
    features::reduce_slot_time_to_350ms::id,
    features::reduce_slot_time_to_300ms::id,
    features::reduce_slot_time_to_250ms::id,
    features::reduce_slot_time_to_200ms::id,
    features::validator_admission_ticket::id,
];

/// Makes the genesis of `world` under `rules`.
pub fn make(world: &World, rules: &Rules) -> GenesisConfig {
    let mut genesis = GenesisConfig {
        creation_time: GENESIS_TIME,
        epoch_schedule: EpochSchedule::custom(rules.slots_per_epoch, rules.slots_per_epoch, rules.warmup),
        inflation: rules.inflation,
        cluster_type: rules.cluster,
        fee_rate_governor: FeeRateGovernor {
            target_signatures_per_slot: rules.target_signatures_per_slot,
            ..FeeRateGovernor::default()
        },
        ..GenesisConfig::default()
    };
    genesis.poh_config.hashes_per_tick = rules.hashes_per_tick;
    genesis.rent.lamports_per_byte = rules.lamports_per_byte;
    let purse = |sol: u64| AccountSharedData::new(sol * SOL, 0, &solana_sdk_ids::system_program::id());
    genesis.add_account(world.mint.pubkey(), purse(500_000_000));
    world.users.iter().for_each(|user| genesis.add_account(user.pubkey(), purse(10_000)));
    genesis_utils::add_genesis_stake_config_account(&mut genesis);
    genesis_utils::add_genesis_epoch_rewards_account(&mut genesis);
    add_features(&mut genesis, rules);
    add_validators(&mut genesis, world, rules);
    add_programs(&mut genesis, rules);
    genesis.accounts.extend(rules.accounts.iter().cloned());
    genesis
}

fn add_features(genesis: &mut GenesisConfig, rules: &Rules) {
    genesis_utils::activate_all_features(genesis);
    for id in NEVER.iter().map(|id| id()).chain(rules.off.iter().copied()) {
        genesis.accounts.remove(&id);
    }
    for (id, activated_at) in &rules.pending {
        let lamports = genesis.rent.minimum_balance(Feature::size_of());
        let account = feature_gate::create_account(&Feature { activated_at: *activated_at }, lamports);
        genesis.add_account(*id, account);
    }
}

fn add_validators(genesis: &mut GenesisConfig, world: &World, rules: &Rules) {
    for (n, (keys, stake)) in world.validators.iter().zip(&rules.validators).enumerate() {
        let vote_account = vote_state::create_v4_account_with_authorized(
            &keys.identity.pubkey(),
            &keys.voter.pubkey(),
            [0; 48],
            &keys.withdrawer.pubkey(),
            stake.commission_bps,
            &keys.vote.pubkey(),
            0,
            &keys.identity.pubkey(),
            SOL,
        );
        let stake_account = stake_utils::create_stake_account(
            &keys.withdrawer.pubkey(),
            &keys.vote.pubkey(),
            &vote_account,
            &genesis.rent,
            stake.sol * SOL,
        );
        let purse = AccountSharedData::new(500 * SOL, 0, &solana_sdk_ids::system_program::id());
        genesis.add_account(keys.identity.pubkey(), purse);
        let count = world.validators.len();
        for key in world.extra_stakes(rules.extra_stakes).skip(n).step_by(count) {
            let (owner, vote) = (keys.withdrawer.pubkey(), keys.vote.pubkey());
            let account = stake_utils::create_stake_account(&owner, &vote, &vote_account, &genesis.rent, 10 * SOL);
            genesis.add_account(key, account);
        }
        genesis.add_account(keys.vote.pubkey(), vote_account);
        genesis.add_account(keys.stake, stake_account);
    }
}

fn add_programs(genesis: &mut GenesisConfig, rules: &Rules) {
    for id in rules.stake_program.then_some(&solana_sdk_ids::stake::id()).into_iter().chain(&rules.programs) {
        let accounts = solana_program_binaries::by_id(id, &genesis.rent);
        for (key, account) in accounts.unwrap_or_else(|| panic!("no binary of the program {id} is at hand")) {
            genesis.accounts.insert(key, Account::from(account));
        }
    }
}
