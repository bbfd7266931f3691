//! The configuration of a new chain, and its validation.
//!
//! memory  the additional accounts

use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::{SYSVAR_SLOT_HASHES, SYSVAR_SLOT_HISTORY};
use solana_cluster_type::ClusterType;
use solana_fee_calculator::FeeRateGovernor;
use solana_inflation::Inflation;
use solana_rent::Rent;

use crate::account::Account;
use crate::epoch::{EpochSchedule, MINIMUM_SLOTS_PER_EPOCH};
use crate::rent::minimum_balance;

/// Maximum ticks per slot: a tick's number is sent in one byte.
pub const TICKS_PER_SLOT_MAX: u64 = 255;
/// Maximum slots per epoch: the leader schedule is kept in memory.
pub const SLOTS_PER_EPOCH_MAX: u64 = 1 << 24;
/// Maximum length of a slot in milliseconds: an hour.
pub const SLOT_MS_MAX: u64 = 3_600_000;
/// Maximum hashes per slot. A start does those of slot 0 before anything else, and the genesis may come from anybody:
/// so many take 10 to 30 s. The cluster has 4 million.
pub const SLOT_HASHES_MAX: u64 = 1 << 28;
/// Maximum genesis slot: it leaves room for ten million years, and sums of slots do not overflow.
const GENESIS_SLOT_MAX: u64 = 1 << 50;
/// Latest creation time in Unix seconds: beyond the year 36,000.
const CREATION_TIME_MAX: u64 = 1 << 40;
/// Maximum rent in lamports per byte: that of the largest account stays far from overflow.
const LAMPORTS_PER_BYTE_MAX: u64 = u32::MAX as u64;
/// Maximum price of a signature in lamports: products of it and a slot's signatures stay far from overflow.
const SIGNATURE_LAMPORTS_MAX: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;

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
    /// Slot duration in milliseconds, rounded where `odd_tick_ns` says it exactly.
    pub slot_ms: u64,
    /// Nanoseconds of a tick where they do not follow from `slot_ms`: see [`GenesisConfig::set_tick_ns`].
    pub odd_tick_ns: Option<u64>,
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
    /// The rate that decides an account's minimum balance.
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
            odd_tick_ns: None,
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

    /// Nanoseconds of a tick.
    pub fn tick_ns(&self) -> u64 {
        let even = || self.slot_ms.saturating_mul(MS_NS) / self.ticks_per_slot.max(1);
        self.odd_tick_ns.unwrap_or_else(even)
    }

    /// Nanoseconds of a slot: those of its ticks.
    pub fn slot_ns(&self) -> u64 {
        self.tick_ns().saturating_mul(self.ticks_per_slot)
    }

    /// Sets the length of a tick, and with it that of a slot of `ticks_per_slot` ticks.
    pub fn set_tick_ns(&mut self, tick_ns: u64) {
        let slot_ns = tick_ns.saturating_mul(self.ticks_per_slot);
        self.slot_ms = (slot_ns.saturating_add(MS_NS / 2) / MS_NS).max(1);
        self.odd_tick_ns = None;
        if self.tick_ns() != tick_ns {
            self.odd_tick_ns = Some(tick_ns);
        }
    }

    /// Sets what decides an account's minimum balance: lamports for each byte, a factor, and the former share that was
    /// burned, in percent.
    pub fn set_rent(&mut self, lamports_per_byte: u64, threshold: f64, burn_percent: u8) {
        let bytes = [&lamports_per_byte.to_le_bytes()[..], &threshold.to_le_bytes(), &[burn_percent]].concat();
        self.rent = bincode::deserialize(&bytes).expect("any 17 bytes are a rent");
    }

    /// The division of slots into epochs.
    pub fn epoch_schedule(&self) -> EpochSchedule {
        match self.warmup_epochs {
            true => EpochSchedule::with_warmup(self.slots_per_epoch),
            false => EpochSchedule::without_warmup(self.slots_per_epoch),
        }
    }

    /// Whether this program can make blocks of such a chain. Those of others can be executed in any case.
    ///
    /// # Errors
    ///
    /// A tick leaves no room for transactions.
    pub fn check_blocks(&self) -> Result<(), String> {
        match self.hashes_per_tick {
            Some(1) => Err("hashes_per_tick is 1: a tick of one hash has no room for transactions".to_owned()),
            _ => Ok(()),
        }
    }

    /// The lamports that an account must hold for each byte, with the former threshold folded in.
    pub fn lamports_per_byte(&self) -> u64 {
        let bytes = bincode::serialize(&self.rent).expect("a rent is 17 bytes");
        let threshold = f64::from_le_bytes(*bytes[8..].first_chunk().expect("a number behind the first"));
        (self.rent.lamports_per_byte as f64 * threshold) as u64
    }

    /// The rent sysvar as programs see it: lamports per byte with the former threshold folded in, a threshold of one
    /// year, and a former share of 50 % that was burned, whatever the genesis says.
    pub(crate) fn rent_sysvar(&self) -> Vec<u8> {
        [&self.lamports_per_byte().to_le_bytes()[..], &1f64.to_le_bytes(), &[50]].concat()
    }
}

pub(super) fn check(config: &GenesisConfig) -> Result<(), String> {
    lamports(config)?;
    time(config)?;
    money(config)?;
    if config.genesis_slot > GENESIS_SLOT_MAX {
        return Err(format!("slot {} is too late to begin at: at most {GENESIS_SLOT_MAX}", config.genesis_slot));
    }
    if config.creation_time > CREATION_TIME_MAX {
        return Err(format!("the creation time is {}, more than {CREATION_TIME_MAX}", config.creation_time));
    }
    if config.identity == config.faucet && config.faucet_lamports > 0 {
        return Err("identity and faucet are the same key".to_owned());
    }
    let is_made = |key: &Pubkey| [SYSVAR_SLOT_HASHES, SYSVAR_SLOT_HISTORY].contains(key);
    if let Some((key, _)) = config.extra_accounts.iter().find(|(key, _)| is_made(key)) {
        return Err(format!("it has an account {}, which the chain makes and continues itself", encode_32(key)));
    }
    Ok(())
}

/// Checks that each account holds its minimum balance, and that all lamports can be counted.
fn lamports(config: &GenesisConfig) -> Result<(), String> {
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
    Ok(())
}

/// Checks ticks, slots and epochs.
fn time(config: &GenesisConfig) -> Result<(), String> {
    for (what, value) in [
        ("ticks_per_slot", config.ticks_per_slot),
        ("slot_ms", config.slot_ms),
        ("the length of a tick", config.tick_ns()),
        ("slots_per_epoch", config.slots_per_epoch),
        ("hashes_per_tick", config.hashes_per_tick.unwrap_or(1)),
    ] {
        if value == 0 {
            return Err(format!("{what} is 0"));
        }
    }
    let (ticks, hashes) = (config.ticks_per_slot, config.hashes_per_tick.unwrap_or(2));
    if ticks > TICKS_PER_SLOT_MAX {
        return Err(format!("ticks_per_slot is {ticks}, more than {TICKS_PER_SLOT_MAX}"));
    }
    if config.slots_per_epoch > SLOTS_PER_EPOCH_MAX {
        return Err(format!("slots_per_epoch is {}, more than {SLOTS_PER_EPOCH_MAX}", config.slots_per_epoch));
    }
    if config.warmup_epochs && config.slots_per_epoch < MINIMUM_SLOTS_PER_EPOCH {
        return Err(format!(
            "slots_per_epoch is {}, and epochs that warm up begin with {MINIMUM_SLOTS_PER_EPOCH}",
            config.slots_per_epoch
        ));
    }
    if config.slot_ns() > SLOT_MS_MAX * MS_NS {
        return Err(format!("a slot of {} ns is longer than {SLOT_MS_MAX} ms", config.slot_ns()));
    }
    if hashes.saturating_mul(ticks) > SLOT_HASHES_MAX {
        return Err(format!("hashes_per_tick is {hashes}: at most {SLOT_HASHES_MAX} are possible in a slot"));
    }
    Ok(())
}

/// Checks rent, prices and inflation.
fn money(config: &GenesisConfig) -> Result<(), String> {
    let GenesisConfig { inflation, fee_rate_governor, .. } = config;
    let per_byte = config.lamports_per_byte();
    if !(1..=LAMPORTS_PER_BYTE_MAX).contains(&per_byte) {
        return Err(format!("its rent comes to {per_byte} lamports a byte, not from 1 to {LAMPORTS_PER_BYTE_MAX}"));
    }
    let rates = [
        ("initial", inflation.initial),
        ("terminal", inflation.terminal),
        ("taper", inflation.taper),
        ("foundation", inflation.foundation),
        ("foundation_term", inflation.foundation_term),
    ];
    for (what, rate) in rates {
        if !(0.0..=1_000.0).contains(&rate) {
            return Err(format!("inflation's {what} is {rate}, not from 0 to 1,000"));
        }
    }
    let price = fee_rate_governor.target_lamports_per_signature;
    if price > SIGNATURE_LAMPORTS_MAX {
        return Err(format!("a signature is to cost {price} lamports, more than {SIGNATURE_LAMPORTS_MAX}"));
    }
    Ok(())
}
