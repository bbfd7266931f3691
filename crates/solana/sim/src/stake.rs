//! Stake that changes: what a client does with a stake account of its own.
//!
//! reads   the ledger of the node that it talks to
//! writes  instructions of the stake program
//! memory  none of its own
//!
//! Each client divides its time between two nodes, so that at most four of eight delegate to one node. With at most
//! [`SOL_MAX`] each, no node of four has a third of the stake: 1.4 million SOL of 4.4 at most.

use hearth_ledger::Ledger;
use hearth_ledger::rent::minimum_balance;
use hearth_ledger::stakes::{Delegation, STAKE_STATE_BYTES};
use hearth_wire::Pubkey;
use hearth_wire::base58::decode_32;
use hearth_wire::consts::{LAMPORTS_PER_SOL, STAKE_PROGRAM, SYSVAR_CLOCK, SYSVAR_RENT, SYSVAR_STAKE_HISTORY};
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::program::system::create_account;

/// SOL that a client delegates at least and at most.
const SOL_MIN: u64 = 40_000;
const SOL_MAX: u64 = 100_000;
/// Tags of the stake program's instructions.
const INITIALIZE: u32 = 0;
const DELEGATE: u32 = 2;
const DEACTIVATE: u32 = 5;

/// A client's stake account.
#[derive(Clone, Copy, Debug)]
pub struct Staker {
    /// The client, which pays and signs.
    pub owner: Pubkey,
    /// The stake account. It signs when it is created.
    pub account: Pubkey,
    /// The vote accounts that it delegates to in turn.
    pub votes: [Pubkey; 2],
    /// Draws how much it delegates.
    pub draw: u64,
}

impl Staker {
    /// The instructions of its next step: it delegates, then deactivates, then delegates to the other node, each in
    /// another epoch. `None` while it has to wait for the next epoch.
    pub fn next_step(&self, ledger: &Ledger) -> Option<Vec<Instruction>> {
        let Some(account) = ledger.account(&self.account).filter(|account| account.lamports > 0) else {
            return Some(self.begin());
        };
        let delegation = Delegation::read(account.data())?;
        let epoch = ledger.clock().epoch;
        if delegation.deactivation_epoch == u64::MAX {
            return (delegation.activation_epoch < epoch).then(|| vec![self.deactivate()]);
        }
        let other = if delegation.vote == self.votes[0] { self.votes[1] } else { self.votes[0] };
        (delegation.deactivation_epoch < epoch).then(|| vec![self.delegate(&other)])
    }

    fn begin(&self) -> Vec<Instruction> {
        let sol = SOL_MIN + self.draw % (SOL_MAX - SOL_MIN + 1);
        let lamports = minimum_balance(STAKE_STATE_BYTES) + sol * LAMPORTS_PER_SOL;
        let create = create_account(&self.owner, &self.account, lamports, STAKE_STATE_BYTES as u64, &STAKE_PROGRAM);
        // Who may delegate and withdraw, and no lock-up.
        let data = [&INITIALIZE.to_le_bytes()[..], &self.owner, &self.owner, &[0; 48]].concat();
        let accounts = vec![AccountMeta::writable(self.account, false), AccountMeta::readonly(SYSVAR_RENT, false)];
        let initialize = Instruction { program_id: STAKE_PROGRAM, accounts, data };
        vec![create, initialize, self.delegate(&self.votes[0])]
    }

    fn delegate(&self, vote: &Pubkey) -> Instruction {
        // The program still wants this account, which it does not read.
        let config = decode_32("StakeConfig11111111111111111111111111111111").expect("an address");
        let accounts = vec![
            AccountMeta::writable(self.account, false),
            AccountMeta::readonly(*vote, false),
            AccountMeta::readonly(SYSVAR_CLOCK, false),
            AccountMeta::readonly(SYSVAR_STAKE_HISTORY, false),
            AccountMeta::readonly(config, false),
            AccountMeta::readonly(self.owner, true),
        ];
        Instruction { program_id: STAKE_PROGRAM, accounts, data: DELEGATE.to_le_bytes().to_vec() }
    }

    fn deactivate(&self) -> Instruction {
        let accounts = vec![
            AccountMeta::writable(self.account, false),
            AccountMeta::readonly(SYSVAR_CLOCK, false),
            AccountMeta::readonly(self.owner, true),
        ];
        Instruction { program_id: STAKE_PROGRAM, accounts, data: DEACTIVATE.to_le_bytes().to_vec() }
    }
}
