//! Epochs: the schedule, leaders, block production.
//!
//! reads   the ledger; the slot history sysvar
//! memory  for a leader schedule at most an epoch's slots as numbers
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes and codes
//!
//! As on the cluster, schedules are available up to the next epoch. A node without stakes leads every slot.

use std::collections::BTreeMap;

use hearth_ledger::SlotHistory;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Map, Value, json};

use super::{Api, with_context};
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Maximum slots of `getSlotLeaders`.
const LEADERS_MAX: u64 = 5_000;

impl Api {
    pub fn get_epoch_info(&self, params: Params<'_>) -> Result<Value, Failure> {
        let (commitment, slot) = self.commitment(params)?;
        let schedule = self.ledger.epoch_schedule();
        let (epoch, index) = schedule.epoch_and_index(slot);
        Ok(json!({
            "absoluteSlot": slot,
            "blockHeight": self.ledger.block_height(commitment),
            "epoch": epoch,
            "slotIndex": index,
            "slotsInEpoch": schedule.slots_in_epoch(epoch),
            "transactionCount": self.ledger.transaction_count(commitment),
        }))
    }

    pub fn get_epoch_schedule(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        let schedule = self.ledger.epoch_schedule();
        Ok(json!({
            "firstNormalEpoch": schedule.first_normal_epoch,
            "firstNormalSlot": schedule.first_normal_slot,
            "leaderScheduleSlotOffset": schedule.leader_schedule_slot_offset,
            "slotsPerEpoch": schedule.slots_per_epoch,
            "warmup": schedule.warmup,
        }))
    }

    /// The epoch of a slot.
    fn epoch(&self, slot: u64) -> u64 {
        self.ledger.epoch_schedule().epoch(slot)
    }

    /// The last epoch whose leader schedule is available.
    fn last_scheduled_epoch(&self) -> u64 {
        self.epoch(self.ledger.slot(hearth_ledger::Commitment::Processed)) + 1
    }

    pub fn get_leader_schedule(&self, params: Params<'_>) -> Result<Value, Failure> {
        let (slot, options) = match params.at_most(2)?.value(0) {
            Some(Value::Object(_)) => (None, params.options(0)?),
            Some(_) => (Some(params.number(0, "slot")?), params.options(1)?),
            None => (None, params.options(1)?),
        };
        let identity = options.pubkey("identity")?;
        let newest = self.ledger.slot(options.commitment()?);
        let epoch = self.epoch(slot.unwrap_or(newest));
        // The stakes of earlier epochs are not kept.
        if epoch > self.last_scheduled_epoch() || self.ledger.epoch_stakes(epoch).is_none() {
            return Ok(Value::Null);
        }
        let epochs = self.ledger.epoch_schedule();
        let first = epochs.first_slot(epoch);
        let mut schedule: BTreeMap<Pubkey, Vec<u64>> = BTreeMap::new();
        for index in 0..epochs.slots_in_epoch(epoch) {
            schedule.entry(self.leader_of(first + index)).or_default().push(index);
        }
        let wanted = schedule.into_iter().filter(|(leader, _)| identity.is_none_or(|wanted| wanted == *leader));
        Ok(wanted.map(|(leader, slots)| (encode_32(&leader).to_string(), json!(slots))).collect::<Map<_, _>>().into())
    }

    pub fn get_slot_leader(&self, params: Params<'_>) -> Result<Value, Failure> {
        let options = params.at_most(1)?.options(0)?;
        let slot = self.slot_for(options.commitment()?, options)?;
        Ok(json!(*encode_32(&self.leader_of(slot))))
    }

    pub fn get_slot_leaders(&self, params: Params<'_>) -> Result<Value, Failure> {
        let first = params.at_most(2)?.number(0, "start slot")?;
        let count = params.number(1, "limit")?;
        if count > LEADERS_MAX {
            return Err(Failure::refused_params(format!("Invalid limit; max {LEADERS_MAX}")));
        }
        let last_epoch = self.epoch(first.saturating_add(count.saturating_sub(1)));
        let known = self.last_scheduled_epoch();
        if count > 0 && last_epoch > known {
            let epoch = self.epoch(first).max(known + 1);
            let message = format!("Invalid slot range: leader schedule for epoch {epoch} is unavailable");
            return Err(Failure::refused_params(message));
        }
        let leaders = (first..first.saturating_add(count)).map(|slot| encode_32(&self.leader_of(slot)).to_string());
        Ok(leaders.collect())
    }

    pub fn get_block_production(&self, params: Params<'_>) -> Result<Value, Failure> {
        let options = params.at_most(1)?.options(0)?;
        let identity = options.pubkey("identity")?;
        let newest = self.ledger.slot(options.commitment()?);
        let (first, last) = match options.options("range")? {
            None => (self.ledger.epoch_schedule().first_slot(self.epoch(newest)), newest),
            Some(range) => {
                let first = range.number("firstSlot")?;
                let first = first.ok_or_else(|| Failure::invalid_params("range: needs a firstSlot"))?;
                (first, range.number("lastSlot")?.unwrap_or(newest))
            }
        };
        if last < first {
            let message = format!("lastSlot, {last}, cannot be less than firstSlot, {first}");
            return Err(Failure::refused_params(message));
        }
        let history = SlotHistory::of(&self.ledger).ok_or_else(Failure::no_slot_history)?;
        let (oldest, newest) = (history.oldest(), history.newest());
        if first < oldest {
            return Err(Failure::refused_params(format!("firstSlot, {first}, is too small; min {oldest}")));
        }
        // The history is written at the end of a slot, so the slot in progress is not in it.
        let last = if options.get("range").is_none() { last.min(newest) } else { last };
        if last > newest {
            return Err(Failure::refused_params(format!("lastSlot, {last}, is too large; max {newest}")));
        }
        let mut counts: BTreeMap<Pubkey, [u64; 2]> = BTreeMap::new();
        for slot in first..=last {
            let [led, produced] = counts.entry(self.leader_of(slot)).or_default();
            *led += 1;
            *produced += u64::from(history.has(slot));
        }
        let wanted = counts.into_iter().filter(|(leader, _)| identity.is_none_or(|wanted| wanted == *leader));
        let by_identity: Map<_, _> =
            wanted.map(|(leader, counts)| (encode_32(&leader).to_string(), json!(counts))).collect();
        let value = json!({ "byIdentity": by_identity, "range": { "firstSlot": first, "lastSlot": last } });
        Ok(with_context(self.ledger.slot(options.commitment()?), value))
    }

    /// The leader of a slot by the stake-weighted schedule; this node if there is no stake or no known leader.
    fn leader_of(&self, slot: u64) -> Pubkey {
        self.ledger.leader_at(slot).map_or_else(|| (self.identity)(), |leader| leader.node)
    }
}
