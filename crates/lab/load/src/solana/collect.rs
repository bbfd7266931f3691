//! Reads confirmed blocks from the node while the load runs.
//!
//! reads   `getSlot`, `getBlocks`, `getBlock` with signatures; `getLatestBlockhash`; afterwards `getBlock` with
//!         accounts
//! writes  a [`Block`] for each; outcomes of transactions; the chain's time
//! memory  see [`crate::blocks`]; one block's signatures
//! drops   nothing: a block that cannot be read is requested again; blocks read before the node died stay

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, decode_64};
use parking_lot::Mutex;
use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::node::{ChainTime, Node};
use crate::blocks::Block;
use crate::heights::{Heights, POLL};
use crate::liveness::Persistence;
use crate::reading::Chain;
use crate::receipts::Receipts;
use crate::rpc::RpcError;
use crate::run_clock::RunState;

/// How often a newer blockhash is requested.
const BLOCKHASH_EVERY: Duration = Duration::from_millis(400);
/// How often the leaders' addresses are requested.
const LEADERS_EVERY: Duration = Duration::from_secs(1);
/// Signatures parsed before yielding the core to other threads.
const YIELD_EVERY: usize = 512;
/// The node's error codes for a slot without a block: skipped, or missing in long-term storage.
const SKIPPED: [i64; 2] = [-32007, -32009];
/// Its error codes for a block that is not available yet, and for a node that is behind.
const NOT_YET: [i64; 3] = [-32004, -32005, -32014];

/// The first half of a signature.
struct Id(B256);

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a signature in base58")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
        let signature = decode_64(text).map_err(E::custom)?;
        Ok(Id(B256::from_slice(&signature[..32])))
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(IdVisitor)
    }
}

/// The signatures of a block.
struct Ids(Vec<B256>);

struct IdsVisitor;

impl<'de> Visitor<'de> for IdsVisitor {
    type Value = Ids;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("signatures in base58")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Ids, A::Error> {
        let mut ids = vec![];
        while let Some(Id(id)) = texts.next_element()? {
            ids.push(id);
            // Senders on the same core do not have to wait for a whole block.
            if ids.len() % YIELD_EVERY == 0 {
                thread::yield_now();
            }
        }
        Ok(Ids(ids))
    }
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(IdsVisitor)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signatures {
    blockhash: String,
    previous_blockhash: String,
    block_height: Option<u64>,
    block_time: Option<i64>,
    signatures: Ids,
}

/// The addresses that transactions are sent to, as found by the block reader.
#[derive(Default)]
pub struct Targets {
    addresses: Mutex<Vec<SocketAddr>>,
    version: AtomicU64,
}

impl Targets {
    /// Replaces the addresses; the version rises if they differ.
    pub fn set(&self, addresses: Vec<SocketAddr>) {
        let mut now = self.addresses.lock();
        if *now != addresses {
            *now = addresses;
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns how often the addresses have changed.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the current addresses.
    pub fn get(&self) -> Vec<SocketAddr> {
        self.addresses.lock().clone()
    }
}

/// Reads blocks one after the other.
pub struct Follower<'a> {
    node: &'a Node,
    course: &'a RunState,
    time: &'a ChainTime,
    heights: Heights,
    /// Receives the leaders' addresses; none if the user has named the destination.
    targets: Option<&'a Targets>,
    /// The first unread slot.
    next: u64,
    tip: Option<String>,
    /// Whether each block's parent was the block before.
    is_whole: bool,
    renewed: Instant,
    led: Instant,
    /// How long errors may last without an answer.
    patience: Duration,
    /// The result so far.
    pub chain: Chain,
}

impl<'a> Follower<'a> {
    /// A reader that begins with slot `next`.
    pub fn new(
        node: &'a Node,
        course: &'a RunState,
        time: &'a ChainTime,
        targets: Option<&'a Targets>,
        next: u64,
        patience: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            node,
            course,
            time,
            heights: Heights::default(),
            targets,
            next,
            tip: None,
            is_whole: true,
            renewed: now,
            led: now,
            patience,
            chain: Chain::default(),
        }
    }

    /// Reads until `until`, then once more. Ends early with what was read if the node is silent for too long, or for a
    /// while at the end. Returns whether the node still answers.
    pub fn follow(&mut self, until: impl Fn(&Self) -> bool) -> bool {
        let (node, course, is_over) = (self.node, self.course, AtomicBool::new(false));
        let newest = || node.slot().inspect(|_| course.silence.heard(Instant::now()));
        let heights = std::mem::take(&mut self.heights);
        let answers = thread::scope(|scope| {
            scope.spawn(|| heights.watch(newest, &is_over));
            let answers = self.follow_beside(&heights, until);
            is_over.store(true, Ordering::Release);
            answers
        });
        self.heights = heights;
        answers
    }

    /// The loop of `follow`, while another thread polls the newest slot.
    fn follow_beside(&mut self, heights: &Heights, until: impl Fn(&Self) -> bool) -> bool {
        let silence = &self.course.silence;
        let mut persistence = Persistence::new(self.patience, Instant::now());
        loop {
            // Evaluate `until` before asking the node, so that blocks made before the end are still read.
            let last = until(self);
            persistence.begin(last, Instant::now());
            let before = self.next;
            let step = self.step(heights);
            let now = Instant::now();
            if step.is_ok() || self.next > before {
                persistence.answered(now);
                silence.read(now);
            }
            match step {
                Ok(()) if last => return true,
                Ok(()) => {}
                Err(why) => {
                    self.chain.errors += 1;
                    silence.failed(&why);
                    if persistence.is_over(now) {
                        self.chain.lost = Some(why);
                        self.chain.lost_from = silence.last_answer();
                        return false;
                    }
                }
            }
            thread::sleep(POLL);
        }
    }

    /// Reads until the senders have stopped.
    pub fn follow_until(&mut self, stop: &AtomicBool) {
        self.course.silence.begin(self.node.rpc.url(), self.patience, Instant::now());
        self.follow(|_| stop.load(Ordering::Acquire));
    }

    fn step(&mut self, heights: &Heights) -> Result<(), RpcError> {
        if self.renewed.elapsed() > BLOCKHASH_EVERY {
            self.time.renew(self.node.blockhash()?);
            self.renewed = Instant::now();
        }
        if let Some(targets) = self.targets
            && self.led.elapsed() > LEADERS_EVERY
        {
            let found = self.node.tpus()?;
            if !found.is_empty() {
                targets.set(found);
            }
            self.led = Instant::now();
        }
        let newest = self.node.slot()?;
        heights.note(newest, Instant::now());
        if newest < self.next {
            return Ok(());
        }
        let options = json!({ "commitment": "confirmed" });
        let slots: Vec<u64> = self.node.rpc.call_as("getBlocks", &json!([self.next, newest, options]))?;
        for slot in slots {
            // A list that goes back is invalid and would count blocks twice.
            if slot < self.next || slot > newest {
                return Err(self.node.rpc.garbled("getBlocks", "slots that were not asked for"));
            }
            if !self.read(slot, heights)? {
                heights.cannot_give(slot);
                return Ok(());
            }
            self.next = slot + 1;
        }
        Ok(())
    }

    /// Reads the block of a slot. Returns whether the slot is done.
    fn read(&mut self, slot: u64, heights: &Heights) -> Result<bool, RpcError> {
        let options = json!({
            "commitment": "confirmed",
            "encoding": "base64",
            "transactionDetails": "signatures",
            "rewards": false,
            "maxSupportedTransactionVersion": 0,
        });
        let block = match self.node.rpc.call_as::<Option<Signatures>>("getBlock", &json!([slot, options])) {
            Ok(Some(block)) => block,
            Err(RpcError::Refused { code, .. }) if SKIPPED.contains(&code) => return Ok(true),
            Ok(None) => {
                self.chain.number_ahead += 1;
                return Ok(false);
            }
            Err(RpcError::Refused { code, .. }) if NOT_YET.contains(&code) => {
                self.chain.number_ahead += 1;
                return Ok(false);
            }
            Err(why) => return Err(why),
        };
        let read = Instant::now();
        self.course.silence.heard(read);
        let seen = heights.readable(slot, read);
        let reorganised = self.tip.as_ref().is_some_and(|tip| *tip != block.previous_blockhash);
        self.chain.reorganised += u64::from(reorganised);
        self.tip = Some(block.blockhash);
        let ids = block.signatures.0;
        let ours = self.course.outcomes.included(&ids, seen);
        let found = Block {
            timestamp: block.block_time.and_then(|time| u64::try_from(time).ok()).unwrap_or_default(),
            transactions: ids.len() as u64,
            ours,
            under_way: self.course.outcomes.under_way(),
            ..Block::one(slot, seen)
        };
        let edges = self.course.edges();
        self.chain.reading_lag_us.record(&found, read, &edges);
        self.chain.blocks.push(found, &edges);
        // Only after its transactions are counted: what was not seen by then is in no block. After a gap in the chain,
        // which shows that the node does not list all blocks, this is no longer certain.
        self.is_whole &= !reorganised;
        if let Some(height) = block.block_height.filter(|_| self.is_whole) {
            self.time.reached(height);
        }
        Ok(true)
    }
}

struct Key(Pubkey);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        decode_32(&text).map(Self).map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
struct WithAccounts {
    transactions: Vec<WithMeta>,
}

#[derive(Deserialize)]
struct WithMeta {
    transaction: AccountList,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountList {
    account_keys: Vec<NamedKey>,
}

#[derive(Deserialize)]
struct NamedKey {
    pubkey: Key,
}

#[derive(Deserialize)]
struct Meta {
    err: Option<IgnoredAny>,
}

/// Counts the load's transactions that failed in their blocks, as far as the node answers before `is_over`.
pub fn failed(node: &Node, blocks: &[Block], senders: &HashSet<Pubkey>, is_over: &dyn Fn() -> bool) -> Receipts {
    let options = json!({
        "commitment": "confirmed",
        "encoding": "json",
        "transactionDetails": "accounts",
        "rewards": false,
        "maxSupportedTransactionVersion": 0,
    });
    Receipts::gather(blocks, is_over, |slot| {
        let block = node.rpc.call_as::<WithAccounts>("getBlock", &json!([slot, options])).ok()?;
        let ours = block
            .transactions
            .iter()
            .filter(|one| one.transaction.account_keys.first().is_some_and(|payer| senders.contains(&payer.pubkey.0)));
        let failed: Vec<bool> = ours.filter_map(|one| one.meta.as_ref()).map(|meta| meta.err.is_some()).collect();
        Some((failed.len() as u64, failed.iter().filter(|failed| **failed).count() as u64))
    })
}
