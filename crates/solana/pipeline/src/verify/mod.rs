//! verify: parses transactions strictly, and verifies every signature by the cluster's strict rule.
//!
//! reads   `quic_verify` ×Q and, in the first verify tile, `rpc_verify`, reliable: a transaction's bytes
//! writes  `verify_dedup`, reliable: the same bytes, tag = hash64(key, first signature)
//! memory  `history` tags, the tables of keys that sign often (`table_bytes`), one burst of transactions
//! drops   transactions that do not parse, duplicates seen by this tile, bad signatures; each counted
//! source  ed25519-dalek 2's `verify_strict` is the rule; see [`hearth_crypto::ed25519`]
//!
//! A transaction that the RPC submits again because it has not landed does not count as a duplicate.
//!
//! A transaction's tag is remembered only once its signatures are verified: a forged copy must not be able to suppress
//! the original.

use hearth_crypto::ed25519::{Verifier, VerifierConfig, VerifyError, VerifyItem};
use hearth_ledger::drop_log::DropReason;
use hearth_tile::latency::TAKEN;
use hearth_tile::{Frag, Host, InitError, LatencyDecl, Out, Port, Tile};
use hearth_wire::hash64;
use hearth_wire::txn::Txn;

use crate::drops::DropLog;
use crate::links::{AGAIN, TXN_MTU, VERIFY_DEDUP};
use crate::tag_cache::TagCache;

hearth_tile::counters! {
    /// What verify counts.
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
            verdicts: Vec::with_capacity(BATCH),
        })
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
        let signatures = txn.signatures().len();
        self.bytes[self.pending.len()][..frag.payload().len()].copy_from_slice(frag.payload());
        let (len, origin_us) = (frag.payload().len(), out.origin_us());
        self.pending.push(PendingTransaction { len, origin_us, tag, signatures, again });
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
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

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        self.seen.forget_old(out.now());
    }
}

fn items(txn: Txn<'_>) -> impl Iterator<Item = VerifyItem<'_>> {
    let message = txn.message();
    let pairs = txn.signatures().iter().zip(txn.signer_keys());
    pairs.map(move |(signature, public_key)| VerifyItem { public_key, signature, message })
}

#[cfg(test)]
mod tests;
