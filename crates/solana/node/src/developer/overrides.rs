//! Options that override keys of the configuration file.
//!
//! reads   the options
//! writes  the configuration

use hearth_ledger::hard_forks::union;

use super::{FlagError, Flags, remote};
use crate::config::{self, Config, SlotTiming};

/// Size of a data shred in bytes.
pub(crate) const SHRED_BYTES: u64 = 1_203;

impl Flags {
    /// Applies the options to the configuration. Queries the slot of the node at `--url` if `--warp-slot` requires it.
    pub fn apply(&self, config: &mut Config) -> Result<(), FlagError> {
        self.apply_genesis(config)?;
        if let Some(name) = &self.name {
            config.name.clone_from(name);
        }
        if let Some(path) = &self.ledger {
            config.ledger.path.clone_from(path);
        }
        if let Some(port) = self.rpc_port {
            config.rpc.port = port;
        }
        if let Some(address) = self.bind_address {
            config.rpc.bind_address = address;
            config.tiles.net.bind_address = address;
        }
        if let Some(shreds) = self.limit_ledger_size {
            config.ledger.limit_size = shreds.saturating_mul(SHRED_BYTES);
        }
        if self.slots_on_demand {
            config.development.slots = SlotTiming::OnDemand;
        }
        config.consensus.vote_without_tower |= self.vote_without_tower;
        config.security.require_isolation |= self.require_isolation;
        config.consensus.hard_forks = union(&config.consensus.hard_forks, &self.hard_fork);
        config.snapshots.known_validators.extend(&self.known_validator);
        config.snapshots.only_known_rpc |= self.only_known_rpc;
        let rpc = &mut config.rpc;
        rpc.log_messages_bytes_limit = self.log_messages_bytes_limit.unwrap_or(rpc.log_messages_bytes_limit);
        for (asked, key) in [
            (self.faucet_per_request_sol_cap, &mut rpc.max_airdrop_lamports),
            (self.faucet_per_time_sol_cap, &mut rpc.max_airdrop_lamports_per_slice),
            (self.faucet_time_slice_secs, &mut rpc.airdrop_slice_secs),
        ] {
            *key = asked.unwrap_or(*key);
        }
        config::check(config).map_err(|(key, what)| match key {
            "name" if self.name.is_some() => FlagError::value("--name", what),
            _ => FlagError::Together { key, what },
        })
    }

    /// Whether an option overrides this key of the configuration.
    pub fn asks_for(&self, key: &str) -> bool {
        key == config::ports::RPC && self.rpc_port.is_some()
    }

    fn apply_genesis(&self, config: &mut Config) -> Result<(), FlagError> {
        let genesis = &mut config.development.genesis;
        for (asked, key) in [
            (self.ticks_per_slot, &mut genesis.ticks_per_slot),
            (self.slots_per_epoch, &mut genesis.slots_per_epoch),
            (self.faucet_sol, &mut genesis.faucet_lamports),
            (self.warp_to()?, &mut genesis.warp_slot),
        ] {
            *key = asked.unwrap_or(*key);
        }
        if let Some(ms) = self.slot_ms {
            genesis.target_tick_duration_micros = (ms.saturating_mul(1000)).div_ceil(genesis.ticks_per_slot);
        }
        Ok(())
    }

    fn warp_to(&self) -> Result<Option<u64>, FlagError> {
        let slot_there = || {
            let url = self.url.as_ref().ok_or_else(|| {
                FlagError::value("--warp-slot", "give it a slot, or --url of the node whose slot is meant")
            })?;
            remote::slot(url).map_err(|why| FlagError::value("--warp-slot", why))
        };
        self.warp_slot.map(|slot| slot.map_or_else(slot_there, Ok)).transpose()
    }
}
