//! The configuration of a new chain, and its validation.
//!
//! memory  the additional accounts

use hearth_wire::Pubkey;
use solana_cluster_type::ClusterType;
use solana_fee_calculator::FeeRateGovernor;
use solana_inflation::Inflation;
use solana_rent::Rent;

use crate::account::Account;
use crate::rent::minimum_balance;

/// Maximum ticks per slot: a tick's number is sent in one byte.
pub const TICKS_PER_SLOT_MAX: u64 = 255;
/// Maximum slots per epoch: the leader schedule is kept in memory.
pub const SLOTS_PER_EPOCH_MAX: u64 = 1 << 24;
/// Maximum length of a slot in milliseconds: an hour.
pub const SLOT_MS_MAX: u64 = 3_600_000;
/// Maximum hashes per slot, so that sums of them stay far from overflow.
pub const SLOT_HASHES_MAX: u64 = 1 << 40;
/// Maximum genesis slot: it leaves room for ten million years, and sums of slots do not overflow.
const GENESIS_SLOT_MAX: u64 = 1 << 50;
/// The configuration of a new chain.
#[derive(Clone, Debug, PartialEq)]
pub struct GenesisConfig {
    /// Number of accounts with public seeds to fund.
    pub fund_initial_accounts: usize,
    /// Lamports for each of them.
    pub initial_lamports: u64,
    /// The node's identity, which produces the blocks and receives the fees.
    pub identity: Pubkey,
    /// Lamports of the identity.
    pub identity_lamports: u64,
    /// The address that airdrops come from.
    pub faucet: Pubkey,
    /// Lamports of the faucet.
    pub faucet_lamports: u64,
    /// Hashes per tick; `None` for low power: a tick is one hash and is timed by the clock.
    pub hashes_per_tick: Option<u64>,
    /// Ticks in a slot.
    pub ticks_per_slot: u64,
    /// Slot duration in milliseconds.
    pub slot_ms: u64,
    /// Slots in an epoch.
    pub slots_per_epoch: u64,
    /// The slot of the genesis; the first block is in the slot after it. It is 0 except for a chain that starts late,
    /// so that programs see a later slot and epoch.
    pub genesis_slot: u64,
    /// Creation time of the chain, in Unix seconds.
    pub creation_time: u64,
    /// Whether the first epochs are shorter: 32 slots, then twice as many in each, up to `slots_per_epoch`.
    pub warmup_epochs: bool,
    /// How prices follow the signatures of the slots before. The prices appear in the recent blockhashes and in nonces.
    pub fee_rate_governor: FeeRateGovernor,
    /// What decides an account's minimum balance.
    pub rent: Rent,
    /// How many lamports an epoch adds, for validators and stakes.
    pub inflation: Inflation,
    /// The kind of cluster.
    pub cluster_type: ClusterType,
    /// Programs and accounts besides the wallets and the builtin programs. Of several with one address the last counts,
    /// and it overrides what the chain would have there.
    pub extra_accounts: Vec<(Pubkey, Account)>,
}

impl GenesisConfig {
    /// A development chain of one node: 1,024 accounts with 500 SOL each, low power, slots of 400 ms.
    pub fn development(identity: Pubkey, faucet: Pubkey, creation_time: u64) -> Self {
        use hearth_wire::consts::LAMPORTS_PER_SOL;
        Self {
            fund_initial_accounts: 1024,
            initial_lamports: 500 * LAMPORTS_PER_SOL,
            identity,
            identity_lamports: 500 * LAMPORTS_PER_SOL,
            faucet,
            faucet_lamports: 500_000_000 * LAMPORTS_PER_SOL,
            hashes_per_tick: None,
            ticks_per_slot: 64,
            slot_ms: 400,
            slots_per_epoch: 432_000,
            genesis_slot: 0,
            creation_time,
            warmup_epochs: false,
            fee_rate_governor: FeeRateGovernor::default(),
            rent: Rent::default(),
            inflation: Inflation::new_disabled(),
            cluster_type: ClusterType::Development,
            extra_accounts: vec![],
        }
    }
}

pub(super) fn check(config: &GenesisConfig) -> Result<(), String> {
    let least = minimum_balance(0);
    let amounts = [
        ("each funded account", config.initial_lamports, config.fund_initial_accounts > 0),
        ("the identity", config.identity_lamports, config.identity_lamports > 0),
        ("the faucet", config.faucet_lamports, config.faucet_lamports > 0),
    ];
    for (who, lamports, exists) in amounts {
        if exists && lamports < least {
            return Err(format!("{who} would hold {lamports} lamports, an account needs at least {least}"));
        }
    }
    let extra = config.extra_accounts.iter().map(|(_, account)| u128::from(account.lamports)).sum::<u128>();
    let total = extra
        + u128::from(config.initial_lamports) * config.fund_initial_accounts as u128
        + u128::from(config.identity_lamports)
        + u128::from(config.faucet_lamports);
    if total > u128::from(u64::MAX / 2) {
        return Err(format!("{total} lamports are more than a chain can count"));
    }
    for (what, value) in [
        ("ticks_per_slot", config.ticks_per_slot),
        ("slot_ms", config.slot_ms),
        ("slots_per_epoch", config.slots_per_epoch),
        ("hashes_per_tick", config.hashes_per_tick.unwrap_or(1)),
    ] {
        if value == 0 {
            return Err(format!("{what} is 0"));
        }
    }
    if config.genesis_slot > GENESIS_SLOT_MAX {
        return Err(format!("slot {} is too late to begin at: at most {GENESIS_SLOT_MAX}", config.genesis_slot));
    }
    let (ticks, hashes) = (config.ticks_per_slot, config.hashes_per_tick.unwrap_or(2));
    if ticks > TICKS_PER_SLOT_MAX {
        return Err(format!("ticks_per_slot is {ticks}, more than {TICKS_PER_SLOT_MAX}"));
    }
    if config.slots_per_epoch > SLOTS_PER_EPOCH_MAX {
        return Err(format!("slots_per_epoch is {}, more than {SLOTS_PER_EPOCH_MAX}", config.slots_per_epoch));
    }
    if config.slot_ms > SLOT_MS_MAX {
        return Err(format!("slot_ms is {}, more than {SLOT_MS_MAX}", config.slot_ms));
    }
    if hashes == 1 || hashes.saturating_mul(ticks) > SLOT_HASHES_MAX {
        return Err(format!("hashes_per_tick is {hashes}: at least 2, and at most {SLOT_HASHES_MAX} in a slot"));
    }
    if config.identity == config.faucet {
        return Err("identity and faucet are the same key".to_owned());
    }
    Ok(())
}
