//! verify: parses transactions strictly, and verifies every signature by the cluster's strict rule.
//!
//! reads   `quic_verify` ×Q and, in the first verify tile, `rpc_verify`, reliable: a transaction's bytes
//! writes  `verify_dedup`, reliable: the same bytes, tag = hash64(key, first signature)
//! memory  `history` tags, the tables of keys that sign often (`table_bytes`), one burst of transactions
//! drops   transactions that do not parse, duplicates seen by this tile, bad signatures; each counted
//! source  ed25519-dalek 2's `verify_strict` is the rule; see [`hearth_crypto::ed25519`]
//!
//! While transactions arrive slowly, they wait for each other ([`HOLD_NS`]): a burst of eight costs hardly more than
//! one signature, and the next would wait in pack anyway. A transaction that comes after a longer pause does not wait,
//! and under load hardly any does. With several verify tiles none waits: each would hold few, and they would wait in
//! pack in addition, which has just sent on what another tile has passed.
//!
//! A transaction that the RPC submits again because it has not landed does not count as a duplicate.
//!
//! A transaction's tag is remembered only once its signatures are verified: a forged copy must not be able to suppress
//! the original.

use hearth_crypto::ed25519::{Verifier, VerifierConfig, VerifyError, VerifyItem};
use hearth_ledger::drop_log::DropReason;
use hearth_tile::latency::TAKEN;
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, LatencyDecl, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::hash64;
use hearth_wire::txn::Txn;

use crate::drops::DropLog;
use crate::links::{AGAIN, TXN_MTU, VERIFY_DEDUP};
use crate::tag_cache::TagCache;

hearth_tile::counters! {
    /// The counters of verify.
    pub struct Counters {
        /// Transactions that passed every check and went on to dedup.
        forwarded: Counter,
        /// Signatures checked, right or wrong.
        signatures: Counter,
        /// Time that checking signatures took, nanoseconds.
        signatures_ns: Counter,
        /// Transactions dropped: they do not parse.
        dropped_malformed: Counter,
        /// Transactions dropped: this tile has verified the same one before.
        dropped_duplicate: Counter,
        /// Transactions dropped: a signature is wrong.
        dropped_signature: Counter,
    }
}

/// Memory and keys of verify.
#[derive(Clone, Debug)]
pub struct Config {
    /// Transactions remembered by this tile's own filter.
    pub history: usize,
    /// Bytes for the precomputed tables of keys that sign often.
    pub table_bytes: usize,
    /// Secret of the tags, the same in every verify tile.
    pub tag_key: u64,
    /// Receives the tag and reason of each dropped transaction.
    pub drops: DropLog,
}

/// Maximum transactions verified together.
const BATCH: usize = 32;
/// A burst of this many does not wait for more: it fills the lanes of the vector unit.
const FULL: usize = 8;
/// The least time between the bursts of a slow stream, and the longest that a transaction waits, in nanoseconds. Pack
/// sends a partial microblock at the earliest 0.5 ms after the last; with more here nothing waits there, too.
const HOLD_NS: u64 = 1_000_000;
/// After a full burst the stream is fast: for this long none waits.
const FAST_NS: u64 = 10_000_000;

struct PendingTransaction {
    len: usize,
    origin_us: u32,
    tag: u64,
    signatures: usize,
    again: bool,
}

/// Verifies transactions in bursts.
pub struct Verify {
    verifier: Verifier,
    seen: TagCache,
    key: u64,
    drops: DropLog,
    dedup: Port,
    bytes: Box<[[u8; TXN_MTU]; BATCH]>,
    pending: Vec<PendingTransaction>,
    /// Whether transactions of a slow stream wait for each other: not with several verify tiles.
    holds: bool,
    /// When the first pending transaction arrived.
    pending_since: u64,
    /// Until this time a burst that is not full waits.
    hold_until: u64,
    /// Until this time the stream is fast: no burst waits.
    fast_until: u64,
    verdicts: Vec<Result<(), VerifyError>>,
}

impl Tile for Verify {
    const NAME: &'static str = "verify";
    const LATENCIES: &'static [LatencyDecl] = &[TAKEN];
    const BURST: usize = BATCH;
    const FRAGS_PER_RUN: usize = BATCH;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let seen = TagCache::new(config.history, host.entropy()).map_err(|e| host.error(e))?;
        Ok(Self {
            verifier: Verifier::new(VerifierConfig { cache_bytes: config.table_bytes, ..Default::default() }),
            seen,
            key: config.tag_key,
            drops: config.drops,
            dedup: host.output(VERIFY_DEDUP)?,
            bytes: Box::new([[0; TXN_MTU]; BATCH]),
            pending: Vec::with_capacity(BATCH),
            holds: host.peers() == 1,
            pending_since: 0,
            hold_until: 0,
            fast_until: 0,
            verdicts: Vec::with_capacity(BATCH),
        })
    }

    fn filter(&mut self, _: &FragMeta, _: In) -> Filter {
        if self.pending.len() < BATCH { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let Ok(txn) = Txn::parse(frag.payload()) else {
            out.count.dropped_malformed += 1;
            self.drops.record_bytes(frag.payload(), DropReason::VerifyMalformed, out);
            return out.filtered();
        };
        let tag = hash64(self.key, txn.first_signature());
        let again = frag.control() & AGAIN != 0;
        if !again && self.seen.contains(tag) {
            out.count.dropped_duplicate += 1;
            self.drops.tell(tag, DropReason::VerifyDuplicate, out);
            return out.filtered();
        }
        if self.pending.is_empty() {
            self.pending_since = out.now();
        }
        let signatures = txn.signatures().len();
        self.bytes[self.pending.len()][..frag.payload().len()].copy_from_slice(frag.payload());
        let (len, origin_us) = (frag.payload().len(), out.origin_us());
        self.pending.push(PendingTransaction { len, origin_us, tag, signatures, again });
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        if !self.waits(out.now()) {
            self.check(out);
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if self.pending.is_empty() || out.now() < self.pending_since + HOLD_NS {
            return Poll::Idle;
        }
        self.check(out);
        Poll::Busy
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        self.seen.forget_old(out.now());
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until((!self.pending.is_empty()).then_some(self.pending_since + HOLD_NS));
    }

    fn stop(&mut self, out: &mut Out<'_, Self>) {
        if out.credits(self.dedup, self.pending.len()) >= self.pending.len() {
            self.check(out);
        }
    }
}

impl Verify {
    /// Whether the pending transactions wait for more.
    fn waits(&self, now: u64) -> bool {
        self.holds && self.pending.len() < FULL && now < self.hold_until && now >= self.fast_until
    }

    /// Verifies the pending transactions, and passes on the good ones.
    fn check(&mut self, out: &mut Out<'_, Self>) {
        if self.pending.is_empty() {
            return;
        }
        self.hold_until = out.now() + HOLD_NS;
        if self.pending.len() >= FULL {
            self.fast_until = out.now() + FAST_NS;
        }
        let Self { verifier, bytes, pending, verdicts, drops, .. } = self;
        let txns = pending.iter().zip(bytes.iter()).map(|(p, b)| Txn::parse(&b[..p.len]).expect("parsed above"));
        let items: Vec<VerifyItem<'_>> = txns.flat_map(items).collect();
        let begun = out.fresh_now();
        verifier.verify_burst(&items, verdicts);
        out.count.signatures_ns += out.fresh_now() - begun;
        out.count.signatures += items.len() as u64;
        let mut at = 0;
        for (p, bytes) in pending.iter().zip(bytes.iter()) {
            let verdicts = &verdicts[at..at + p.signatures];
            at += p.signatures;
            if verdicts.iter().any(Result::is_err) {
                out.count.dropped_signature += 1;
                drops.tell(p.tag, DropReason::VerifySignature, out);
            } else if !self.seen.insert(p.tag) && !p.again {
                // The same transaction twice in one burst.
                out.count.dropped_duplicate += 1;
                drops.tell(p.tag, DropReason::VerifyDuplicate, out);
            } else {
                out.set_origin(p.origin_us);
                let control = if p.again { AGAIN } else { 0 };
                out.publish_control(self.dedup, p.tag, control, &bytes[..p.len]);
                out.count.forwarded += 1;
            }
        }
        self.pending.clear();
    }
}

fn items(txn: Txn<'_>) -> impl Iterator<Item = VerifyItem<'_>> {
    let message = txn.message();
    let pairs = txn.signatures().iter().zip(txn.signer_keys());
    pairs.map(move |(signature, public_key)| VerifyItem { public_key, signature, message })
}

#[cfg(test)]
mod tests;
