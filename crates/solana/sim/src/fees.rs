//! What failed transactions pay: one account pays for all of them, and for nothing else.
//!
//! reads   the statuses of those transactions, the balances of two accounts
//! writes  what does not hold
//! memory  a signature for each such transaction
//! drops   nothing
//!
//! A transaction that fails pays its fee and changes nothing else. So the payer has what it began with, but for a fee
//! for each transaction that has landed on the line of blocks of the node that is asked.

use hearth_ledger::fees::LAMPORTS_PER_SIGNATURE;
use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::{Commitment, Ledger};
use hearth_wire::{Pubkey, Signature};

use crate::node::{CLIENT_LAMPORTS, PAYER_OF_FAILURES, POOR, POOR_LAMPORTS};

/// A transaction that fails where it lands. It has one signature, and no price beyond it.
struct ChargedTransaction {
    signature: Signature,
    /// The slot in which some node has rooted it.
    rooted: Option<u64>,
}

/// The fees of failed transactions.
pub struct Fees {
    payer: Pubkey,
    poor: Pubkey,
    charged: Vec<ChargedTransaction>,
}

impl Default for Fees {
    fn default() -> Self {
        let public = |index| funded_account_key(index).public_key();
        Self { payer: public(PAYER_OF_FAILURES), poor: public(POOR), charged: vec![] }
    }
}

impl Fees {
    /// A client sends a transaction that will fail.
    pub fn charge(&mut self, signature: Signature) {
        self.charged.push(ChargedTransaction { signature, rooted: None });
    }

    /// Compares the balances of a node that has no block open. Says what is wrong.
    pub fn look(&mut self, node: usize, ledger: &Ledger) -> Option<String> {
        let root = ledger.root().unwrap_or(0);
        let mut landed = 0;
        for ChargedTransaction { signature, rooted } in &mut self.charged {
            let is_here = match ledger.signature_status(signature) {
                Some(status) => {
                    if status.commitment == Commitment::Finalized {
                        rooted.get_or_insert(status.slot);
                    }
                    true
                }
                // The status of what was rooted is forgotten after some hundred blocks.
                None => rooted.is_some_and(|slot| slot <= root),
            };
            landed += u64::from(is_here);
        }
        let expected = CLIENT_LAMPORTS - landed * LAMPORTS_PER_SIGNATURE;
        let balance = ledger.balance(&self.payer);
        if balance != expected {
            let paid = CLIENT_LAMPORTS.saturating_sub(balance);
            return Some(format!(
                "{landed} failed transactions have landed at node {node}, and {paid} lamports are paid"
            ));
        }
        let left = ledger.balance(&self.poor);
        (left != POOR_LAMPORTS)
            .then(|| format!("node {node} has taken a fee of one who cannot pay it: {left} are left"))
    }
}
