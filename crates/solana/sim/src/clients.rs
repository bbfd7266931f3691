//! Clients: they send transactions to any node, good ones and bad ones, send them again, and ask what became of them.
//!
//! reads   the ledgers of nodes, as the RPC does
//! writes  transactions, on the link of the RPC; what was seen confirmed
//! memory  the transactions whose end is not known
//! drops   transactions that are too old to land
//!
//! Of sixteen transactions that are not about [`stake`](crate::stake), three land and fail, one cannot land, and the
//! others are transfers.

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::Commitment;
use hearth_ledger::genesis::funded_account_key;
use hearth_wire::message::{Instruction, Message};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::system::{advance_nonce_account, transfer};
use hearth_wire::{Hash, Pubkey, Signature};

use crate::check::{Checker, Confirmed, Invariant, Violation};
use crate::digest::Digest;
use crate::node::{CLIENTS, NOBODY, Node, PAYER_OF_FAILURES, POOR, secret, secret_word, validator};
use crate::stake::Staker;

/// Transactions whose end is awaited, at most.
const PENDING_MAX: usize = 64;
/// The first transactions of a run are about stake, so that it is delegated in the first epoch; later one in so many.
const STAKE_FIRST: u64 = 4;
const STAKE_ONE_IN: u8 = 10;
/// Compute units that suffice for one builtin instruction, and not for two.
const TOO_FEW_UNITS: u32 = 200;
/// More lamports than any account has.
const TOO_MANY_LAMPORTS: u64 = u64::MAX / 4;
/// Blocks after which a blockhash is too old everywhere, beyond the last one at which it was valid.
const SURELY_EXPIRED: u64 = 32;

/// How a transaction must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedEnd {
    /// It succeeds, if it lands.
    Succeeds,
    /// It fails, if it lands.
    Fails,
    /// It lands in no block.
    Never,
    /// It depends on others.
    Open,
}

/// A transaction that a client is about to sign and send.
struct Draft {
    /// The number of the key that pays.
    payer: usize,
    instructions: Vec<Instruction>,
    blockhash: Hash,
    fate: ExpectedEnd,
}

struct PendingTransaction {
    signature: Signature,
    transaction: Vec<u8>,
    fate: ExpectedEnd,
    is_seen: bool,
}

/// The clients of a run: they send transactions, and record how each ends.
pub struct Clients {
    /// The funded accounts by number, and behind them the stake account of each client.
    keys: Vec<(SigningKey, Pubkey)>,
    stakers: Vec<Staker>,
    random: fastrand::Rng,
    pending: Vec<PendingTransaction>,
    sent: u64,
    /// A blockhash of the chain's first blocks, and the height up to which it is valid.
    oldest: Option<(Hash, u64)>,
}

impl Clients {
    /// Makes the clients whose accounts are in the genesis, on a chain of `nodes` nodes.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let funded = (0..=NOBODY).map(funded_account_key);
        let staking = (0..CLIENTS).map(|client| SigningKey::from_seed(&secret(seed, client, "stake account")));
        let keys = funded.chain(staking).map(|key| {
            let public = key.public_key();
            (key, public)
        });
        let keys: Vec<_> = keys.collect();
        let staker = |client: usize| Staker {
            owner: keys[client].1,
            account: keys[NOBODY + 1 + client].1,
            votes: [client, client + 1].map(|node| validator(seed, node % nodes).vote),
            draw: secret_word(seed, client, "stake"),
        };
        let stakers = (0..CLIENTS).map(staker).collect();
        let random = fastrand::Rng::with_seed(secret_word(seed, 0, "clients"));
        Self { keys, stakers, random, pending: vec![], sent: 0, oldest: None }
    }

    /// How many transactions were sent for the first time.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// A client sends something to a node: a new transaction, or one that it sent before.
    pub fn send(&mut self, node: &mut Node, checker: &mut Checker, digest: &mut Digest) {
        let transaction = match self.again() {
            Some(transaction) => transaction,
            None => self.new_transaction(node, checker),
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

    fn new_transaction(&mut self, node: &Node, checker: &mut Checker) -> Vec<u8> {
        self.sent += 1;
        let latest = node.ledger.latest_blockhash(Commitment::Confirmed);
        self.oldest.get_or_insert((latest.blockhash, latest.last_valid_block_height));
        let is_about_stake = self.sent <= STAKE_FIRST || self.random.u8(0..STAKE_ONE_IN) == 0;
        let staked = if is_about_stake { self.change_stake(node, latest.blockhash) } else { None };
        let draft = staked.unwrap_or_else(|| self.pay(node, latest.blockhash));
        let Draft { payer, instructions, blockhash, fate } = draft;
        let message = Message::compile(&self.keys[payer].1, &instructions, &blockhash).expect("it fits a packet");
        let transaction = message.sign_with(|signer, bytes| {
            let key = self.keys.iter().find(|(_, public)| public == signer).map(|(key, _)| key);
            key.expect("clients have the keys of all who sign").sign(bytes)
        });
        let signature = *transaction[1..].first_chunk().expect("a transaction has a signature");
        if fate == ExpectedEnd::Fails {
            checker.charge(signature);
        }
        if self.pending.len() == PENDING_MAX {
            self.pending.remove(0);
        }
        self.pending.push(PendingTransaction { signature, transaction: transaction.clone(), fate, is_seen: false });
        transaction
    }

    /// Drafts the next change of a client's stake, if one is due.
    fn change_stake(&mut self, node: &Node, blockhash: Hash) -> Option<Draft> {
        let payer = self.random.usize(0..CLIENTS);
        let instructions = self.stakers[payer].next_step(&node.ledger)?;
        Some(Draft { payer, instructions, blockhash, fate: ExpectedEnd::Open })
    }

    /// A transfer, or what looks like one.
    fn pay(&mut self, node: &Node, blockhash: Hash) -> Draft {
        let from = self.random.usize(0..CLIENTS);
        let to = (from + self.random.usize(1..CLIENTS)) % CLIENTS;
        let kind = self.random.u8(0..16);
        let (number, failing) = (self.sent, self.keys[PAYER_OF_FAILURES].1);
        let (first, second) = (self.keys[from].1, self.keys[to].1);
        let fails = |instructions: Vec<Instruction>| Draft {
            payer: PAYER_OF_FAILURES,
            instructions,
            blockhash,
            fate: ExpectedEnd::Fails,
        };
        match kind {
            // What the first one gave must be taken back.
            0 => fails(vec![transfer(&failing, &first, number), transfer(&failing, &second, TOO_MANY_LAMPORTS)]),
            1 => {
                let limit = ComputeBudgetInstruction::SetComputeUnitLimit(TOO_FEW_UNITS).instruction();
                fails(vec![limit, transfer(&failing, &first, number)])
            }
            // A wallet is no nonce: a program fails that is more than a transfer.
            2 => fails(vec![transfer(&failing, &first, number), advance_nonce_account(&second, &failing)]),
            3 => self.hopeless(node, (from, to), blockhash),
            _ => {
                let instructions = vec![transfer(&first, &second, number)];
                Draft { payer: from, instructions, blockhash, fate: ExpectedEnd::Succeeds }
            }
        }
    }

    /// A transfer that cannot land: its payer cannot pay, or is not there, or its blockhash is too old or none.
    fn hopeless(&mut self, node: &Node, (from, to): (usize, usize), blockhash: Hash) -> Draft {
        let payer = [POOR, NOBODY, from][self.random.usize(0..3)];
        let blockhash = if payer == from { self.expired(node) } else { blockhash };
        let instructions = vec![transfer(&self.keys[payer].1, &self.keys[to].1, self.sent)];
        Draft { payer, instructions, blockhash, fate: ExpectedEnd::Never }
    }

    /// A blockhash that was valid long ago, or never.
    fn expired(&mut self, node: &Node) -> Hash {
        let height = node.ledger.block_height(Commitment::Confirmed);
        if let Some((hash, _)) = self.oldest.filter(|(_, last)| height > last + SURELY_EXPIRED) {
            return hash;
        }
        let mut hash = [0; 32];
        self.random.fill(&mut hash);
        hash
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
    /// A confirmed transaction is not in a root, or ended as it must not.
    pub fn ask(&mut self, node: &Node, checker: &mut Checker) -> Result<(), Violation> {
        let (by, ledger) = (node.number(), &node.ledger);
        for pending in self.pending.iter_mut().filter(|pending| !pending.is_seen) {
            let Some(status) = ledger.signature_status(&pending.signature) else { continue };
            if status.commitment == Commitment::Processed {
                continue;
            }
            let Some(block) = ledger.summary(status.slot) else { continue };
            pending.is_seen = true;
            let PendingTransaction { signature, fate, .. } = *pending;
            let is_as_made = match fate {
                ExpectedEnd::Succeeds => status.result.is_ok(),
                ExpectedEnd::Fails => status.result.is_err(),
                ExpectedEnd::Never => false,
                ExpectedEnd::Open => true,
            };
            if !is_as_made {
                let what = format!(
                    "{fate:?} was to be the end of a transaction in slot {}, and it is {:?}",
                    status.slot, status.result
                );
                return Err(Violation::new(Invariant::Fees, what));
            }
            checker.saw_confirmed(Confirmed { signature, slot: status.slot, blockhash: block.blockhash, by })?;
        }
        Ok(())
    }
}
