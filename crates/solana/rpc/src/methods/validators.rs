//! Vote accounts, block commitment and performance samples.
//!
//! reads   vote accounts, samples
//! memory  one response
//! source  `getVoteAccounts`, `getBlockCommitment`, `getRecentPerformanceSamples` of `solana-rpc` 4.2

use hearth_ledger::Commitment;
use hearth_ledger::vote_state::VoteAccount;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Slots without a vote after which a voter is delinquent, unless the request sets it.
const DELINQUENT_SLOTS: u64 = 128;
/// Number of epochs whose credits are listed.
const CREDITS_MAX: usize = 5;
/// Maximum samples of one request.
const SAMPLES_MAX: u64 = 720;
/// Maximum depth of votes on a block, the root included.
const COMMITMENT_LEVELS: usize = 32;

impl Api {
    pub fn get_vote_accounts(&self, params: Params<'_>) -> Result<Value, Failure> {
        let options = params.at_most(1)?.options(0)?;
        let commitment = options.commitment()?;
        let slot = self.ledger.slot(commitment);
        let wanted = options.pubkey("votePubkey")?;
        let keep_unstaked = options.flag("keepUnstakedDelinquents")?;
        let distance = options.number("delinquentSlotDistance")?.unwrap_or(DELINQUENT_SLOTS);
        let least = slot.saturating_sub(distance);
        let accounts = self.ledger.vote_accounts_at(commitment).into_iter();
        let (current, delinquent): (Vec<_>, Vec<_>) = accounts
            .filter(|account| wanted.is_none_or(|wanted| wanted == account.key))
            .partition(|account| account.state.last_vote().unwrap_or(0) > least);
        let json =
            |accounts: &mut dyn Iterator<Item = &VoteAccount>| accounts.map(vote_account_json).collect::<Value>();
        Ok(json!({
            "current": json(&mut current.iter()),
            "delinquent": json(&mut delinquent.iter().filter(|account| keep_unstaked || account.activated_stake > 0)),
        }))
    }

    /// How much stake has voted at each depth on a block that is not yet final.
    pub fn get_block_commitment(&self, params: Params<'_>) -> Result<Value, Failure> {
        let slot = params.at_most(1)?.number(0, "slot")?;
        let accounts = self.ledger.vote_accounts();
        let total: u64 = accounts.iter().map(|account| account.stake).sum();
        let known = self.ledger.recent_blocks(usize::MAX).iter().any(|block| block.slot == slot);
        let mut commitment = [0u64; COMMITMENT_LEVELS];
        for account in &accounts {
            let votes = &account.state.votes;
            let level = match account.state.root {
                Some(root) if slot <= root => Some(COMMITMENT_LEVELS - 1),
                _ => {
                    votes.iter().find(|vote| vote.slot >= slot).map(|vote| vote.confirmation_count.max(1) as usize - 1)
                }
            };
            if let Some(level) = level {
                commitment[level.min(COMMITMENT_LEVELS - 1)] += account.stake;
            }
        }
        let voted = known && slot > self.ledger.slot(Commitment::Finalized);
        Ok(json!({ "commitment": voted.then_some(commitment), "totalStake": total }))
    }

    pub fn get_performance_samples(&self, params: Params<'_>) -> Result<Value, Failure> {
        let params = params.at_most(1)?;
        let count = match params.value(0) {
            Some(_) => params.number(0, "limit")?,
            None => SAMPLES_MAX,
        };
        if count > SAMPLES_MAX {
            return Err(Failure::refused_params(format!("Invalid limit; max {SAMPLES_MAX}")));
        }
        let samples = self.ledger.performance_samples(count as usize);
        let json = samples.iter().map(|sample| {
            json!({
                "slot": sample.slot,
                "numTransactions": sample.transactions,
                "numNonVoteTransactions": sample.non_vote_transactions,
                "numSlots": sample.slots,
                "samplePeriodSecs": sample.seconds,
            })
        });
        Ok(json.collect())
    }
}

fn vote_account_json(account: &VoteAccount) -> Value {
    let state = &account.state;
    let credits = &state.epoch_credits[state.epoch_credits.len().saturating_sub(CREDITS_MAX)..];
    json!({
        "votePubkey": &*encode_32(&account.key),
        "nodePubkey": &*encode_32(&state.node),
        "activatedStake": account.activated_stake,
        "commission": state.commission_bps.div_ceil(100).min(255),
        "inflationRewardsCommissionBps": state.commission_bps,
        "epochVoteAccount": account.stake > 0,
        "epochCredits": credits,
        "lastVote": state.last_vote().unwrap_or(0),
        "rootSlot": state.root.unwrap_or(0),
    })
}
