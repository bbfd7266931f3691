//! Inflation: its rates, and what it has paid.
//!
//! reads   the ledger; the blocks that paid an epoch's rewards, in the history
//! memory  the rewards of one block, and those that were asked for
//! drops   requests whose blocks are not here, or whose stakes are not paid yet: the cluster's error codes
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes, the codes and the order of the checks
//!
//! An epoch's commissions are in the first block of the next, and its stakes in the blocks after that: in which one
//! depends on a hash of the address.

use std::collections::{BTreeMap, BTreeSet};

use hearth_ledger::history::BlockMeta;
use hearth_ledger::{Commitment, Reward, RewardKind, partition_of};
use hearth_wire::Pubkey;
use serde_json::{Value, json};

use super::Api;
use super::history::{at_least_confirmed, failed};
use crate::jsonrpc::Failure;
use crate::params::{Options, Params};

/// Maximum addresses of `getInflationReward`: as many as fit into a request.
const REWARDS_MAX: usize = 1_000;

/// Rewards by recipient, each with the slot of its block.
type RewardsByRecipient = BTreeMap<Pubkey, (Reward, u64)>;

impl Api {
    pub fn get_inflation_governor(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(1)?.options(0)?.commitment()?;
        let inflation = self.ledger.inflation();
        Ok(json!({
            "initial": inflation.initial,
            "terminal": inflation.terminal,
            "taper": inflation.taper,
            "foundation": inflation.foundation,
            "foundationTerm": inflation.foundation_term,
        }))
    }

    pub fn get_inflation_rate(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        let epoch = self.ledger.epoch_schedule().epoch(self.ledger.slot(Commitment::Finalized));
        let (inflation, years) = (self.ledger.inflation(), self.ledger.years_of_inflation(epoch));
        Ok(json!({
            "total": inflation.total(years),
            "validator": inflation.validator(years),
            "foundation": inflation.foundation(years),
            "epoch": epoch,
        }))
    }

    pub async fn get_inflation_reward(&self, params: Params<'_>) -> Result<Value, Failure> {
        let addresses = params.at_most(2)?.pubkeys(0, "addresses", REWARDS_MAX)?;
        let options: Options<'_> = params.options(1)?;
        let newest = self.slot_for(options.commitment()?, options)?;
        let schedule = self.ledger.epoch_schedule();
        let epoch = match options.number("epoch")? {
            Some(epoch) => epoch,
            None => schedule.epoch(newest).saturating_sub(1),
        };
        let first = schedule.first_slot(epoch.saturating_add(1));
        let available = self.first_available_slot();
        if first < available {
            return Err(Failure::cleaned_up(first, available));
        }
        let commitment = at_least_confirmed(options)?;
        let found = self.at_length(|| self.rewards_after(first, newest, commitment, &addresses)).await?;
        Ok(addresses.iter().map(|key| found.get(key).map_or(Value::Null, |found| shown(epoch, found))).collect())
    }

    /// The rewards of these addresses for the epoch that ended before the slot `first`, up to the slot `newest` of a
    /// commitment.
    fn rewards_after(
        &self,
        first: u64,
        newest: u64,
        commitment: Commitment,
        addresses: &[Pubkey],
    ) -> Result<RewardsByRecipient, Failure> {
        let boundary = self.block_slots(first, newest, 1).first().copied().ok_or_else(|| Failure::no_block(first))?;
        let block = self.block_record(boundary)?;
        if block.parent >= first {
            return Err(Failure::not_a_boundary(boundary));
        }
        let mut wanted: BTreeSet<Pubkey> = addresses.iter().copied().collect();
        let mut found = RewardsByRecipient::new();
        let is_whole = block.num_partitions.is_none();
        let is_here = |kind: RewardKind| kind == RewardKind::Voting || (is_whole && is_stake(kind));
        take(&mut found, &block, &wanted, is_here);
        let Some(count) = block.num_partitions else { return Ok(found) };
        wanted.retain(|key| !found.contains_key(key));
        let mut parts = BTreeMap::<usize, BTreeSet<Pubkey>>::new();
        for key in wanted {
            parts.entry(partition_of(&key, &block.previous_blockhash, count as usize)).or_default().insert(key);
        }
        let slots = self.block_slots(boundary + 1, newest, count as usize);
        for (part, wanted) in &parts {
            let complete = block.height.saturating_add(count).saturating_add(1);
            let active = || Failure::rewards_active(newest, self.ledger.block_height(commitment), complete);
            let slot = slots.get(*part).copied().ok_or_else(active)?;
            take(&mut found, &self.block_record(slot)?, wanted, is_stake);
        }
        Ok(found)
    }

    fn block_record(&self, slot: u64) -> Result<BlockMeta, Failure> {
        self.history()?.log.block(slot).map_err(failed)?.ok_or_else(|| Failure::no_block(slot))
    }
}

fn is_stake(kind: RewardKind) -> bool {
    matches!(kind, RewardKind::Staking | RewardKind::DeactivatedStake)
}

/// Adds the rewards of a block that are wanted.
fn take(
    found: &mut RewardsByRecipient,
    block: &BlockMeta,
    wanted: &BTreeSet<Pubkey>,
    is_of_kind: impl Fn(RewardKind) -> bool,
) {
    let of_block = block.rewards.iter().filter(|reward| is_of_kind(reward.kind) && wanted.contains(&reward.pubkey));
    found.extend(of_block.map(|reward| (reward.pubkey, (*reward, block.slot))));
}

fn shown(epoch: u64, (reward, slot): &(Reward, u64)) -> Value {
    let mut shown = json!({
        "epoch": epoch,
        "effectiveSlot": slot,
        "amount": reward.lamports.unsigned_abs(),
        "postBalance": reward.post_balance,
        "commission": reward.commission,
    });
    if let Some(commission_bps) = reward.commission_bps {
        shown["commissionBps"] = json!(commission_bps);
    }
    shown
}
