//! Clients: they send transfers to any node, send them again, and ask what became of them.
//!
//! reads   the ledgers of nodes, as the RPC does
//! writes  transactions, on the link of the RPC; what was seen confirmed
//! memory  the transactions whose end is not known
//! drops   transactions that are too old to land

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::Commitment;
use hearth_ledger::genesis::funded_account_key;
use hearth_wire::message::Message;
use hearth_wire::program::system::transfer;
use hearth_wire::{Pubkey, Signature};

use crate::check::{Checker, Confirmed, Violation};
use crate::digest::Digest;
use crate::node::{CLIENTS, Node};

/// Transactions whose end is awaited, at most.
const PENDING_MAX: usize = 64;

struct Pending {
    signature: Signature,
    transaction: Vec<u8>,
    is_seen: bool,
}

/// All clients.
pub struct Clients {
    keys: Vec<(SigningKey, Pubkey)>,
    random: fastrand::Rng,
    pending: Vec<Pending>,
    sent: u64,
}

impl Clients {
    /// Those whose accounts the chain begins with.
    pub fn new(seed: u64) -> Self {
        let keys = (0..CLIENTS).map(funded_account_key).map(|key| {
            let public = key.public_key();
            (key, public)
        });
        Self { keys: keys.collect(), random: fastrand::Rng::with_seed(seed), pending: vec![], sent: 0 }
    }

    /// How many transactions were sent for the first time.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// A client sends something to a node: a new transfer, or one that it sent before.
    pub fn send(&mut self, node: &mut Node, digest: &mut Digest) {
        let transaction = match self.again() {
            Some(transaction) => transaction,
            None => self.new_transfer(node),
        };
        let is_taken = node.submit(&transaction);
        digest.bytes(&transaction);
        digest.word(is_taken.into());
    }

    /// Something that was sent before, one time in four.
    fn again(&mut self) -> Option<Vec<u8>> {
        if self.pending.is_empty() || self.random.u8(0..4) > 0 {
            return None;
        }
        let at = self.random.usize(0..self.pending.len());
        Some(self.pending[at].transaction.clone())
    }

    fn new_transfer(&mut self, node: &Node) -> Vec<u8> {
        let from = self.random.usize(0..CLIENTS);
        let to = (from + self.random.usize(1..CLIENTS)) % CLIENTS;
        let (key, payer) = &self.keys[from];
        let blockhash = node.ledger.latest_blockhash(Commitment::Confirmed).blockhash;
        self.sent += 1;
        let instruction = transfer(payer, &self.keys[to].1, self.sent);
        let message = Message::compile(payer, &[instruction], &blockhash).expect("a transfer fits a packet");
        let transaction = message.sign_with(|_, bytes| key.sign(bytes));
        let signature = *transaction[1..].first_chunk().expect("a transaction has a signature");
        if self.pending.len() == PENDING_MAX {
            self.pending.remove(0);
        }
        self.pending.push(Pending { signature, transaction: transaction.clone(), is_seen: false });
        transaction
    }

    /// Everything that was sent is sent again, so many of it at most.
    pub fn flood(&mut self, node: &mut Node, count: usize) {
        self.pending.iter().take(count).for_each(|pending| {
            node.submit(&pending.transaction);
        });
    }

    /// A client asks a node what became of all that was sent.
    ///
    /// # Errors
    /// What is confirmed is not in a root.
    pub fn ask(&mut self, node: &Node, checker: &mut Checker) -> Result<(), Violation> {
        let (by, ledger) = (node.number(), &node.ledger);
        for pending in self.pending.iter_mut().filter(|pending| !pending.is_seen) {
            let Some(status) = ledger.signature_status(&pending.signature) else { continue };
            if status.commitment == Commitment::Processed {
                continue;
            }
            let Some(block) = ledger.summary(status.slot) else { continue };
            pending.is_seen = true;
            let Pending { signature, .. } = *pending;
            checker.saw_confirmed(Confirmed { signature, slot: status.slot, blockhash: block.blockhash, by })?;
        }
        Ok(())
    }
}
