//! benchg: generates and signs transfers.
//!
//! reads   `bencho_benchg`, reliable: the latest blockhash; [`Control`]: the current phase
//! writes  `benchg_benchs`, reliable: signed transfers
//! memory  the keys of the accounts (shared by all benchg); when signing ahead, 215 B per transfer
//! drops   nothing: without room downstream it stops generating; at a fixed rate it then lags, and catches up
//!
//! Each benchg sends from its own accounts (every `peers`-th), so that no two make the same transfer; amounts count up,
//! so that no transfer repeats within the lifetime of its blockhash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use hearth_crypto::ed25519::{SignItem, SigningKey, TableAccess, sign_burst};
use hearth_tile::{Frag, Host, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::transfer::{TRANSFER_SIZE, TransferTemplate};

use crate::links::BENCHG_BENCHS;

hearth_tile::counters! {
    /// The counters of benchg.
    pub struct Counters {
        /// Transfers signed to be sent.
        signed: Counter,
        /// Transfers passed on to benchs.
        generated: Counter,
        /// Transfers signed ahead that are left.
        presigned_left: Gauge,
        /// With a fixed rate: how late the next batch is that was not sent yet, nanoseconds.
        lag_ns: Gauge,
    }
}

/// The phase and progress of the load generator, shared by the controlling thread and all benchg.
#[derive(Debug, Default)]
pub struct Control {
    phase: AtomicU8,
    presigned: AtomicU64,
    exhausted: AtomicU64,
}

/// The current work of all benchg, set by [`Control::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Generate nothing, neither signatures nor transfers.
    Idle = 0,
    /// Sign ahead, send nothing.
    Presign = 1,
    /// Send transfers, signed ahead or as they are made.
    Run = 2,
}

impl Control {
    /// Sets the phase of every benchg.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The phase that was set last.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            1 => Phase::Presign,
            2 => Phase::Run,
            _ => Phase::Idle,
        }
    }

    /// Transfers signed ahead so far by all benchg.
    pub fn presigned(&self) -> u64 {
        self.presigned.load(Ordering::Relaxed)
    }

    /// How many benchg have sent all transfers that they signed ahead.
    pub fn exhausted(&self) -> u64 {
        self.exhausted.load(Ordering::Relaxed)
    }
}

/// An account that the generator can sign for.
pub struct Account {
    /// The key that signs transfers from the account.
    pub key: SigningKey,
    /// The account's address, which is the key's public key.
    pub address: [u8; 32],
}

/// The transfers to generate.
#[derive(Clone)]
pub struct Config {
    /// All accounts, shared by all benchg.
    pub accounts: Arc<Vec<Account>>,
    /// This many accounts, from the first on, send.
    pub senders: usize,
    /// This many accounts, from the first on, receive.
    pub receivers: usize,
    /// Fraction of transfers, 0 to 1, that pay to the same account and so conflict with each other.
    pub conflict: f64,
    /// Transfers per second over all benchg; `None` is as fast as possible.
    pub rate: Option<f64>,
    /// Transfers to sign ahead over all benchg; 0 signs while sending.
    pub presign: u64,
    /// The phase and progress.
    pub control: Arc<Control>,
}

/// Maximum transfers per turn; signing is fastest in multiples of four.
const BATCH: usize = 32;
/// At a fixed rate, how long a transfer waits for the others of its batch. Signing and sending one at a time costs
/// several times as much, which a node on the same cores would pay for.
const BATCH_NS: f64 = 500_000.0;
/// Amounts count from 1 to this and start again; see the module's comment.
const AMOUNTS: u64 = 1_000_000;

/// Start of a transfer's message: after a count and one signature.
const MESSAGE: usize = 65;

/// Generates transfers in batches.
pub struct Benchg {
    config: Config,
    template: TransferTemplate,
    ready: bool,
    benchs: Port,
    first: usize,
    step: usize,
    sequence: u64,
    random: fastrand::Rng,
    /// Transfers signed and not yet sent: a batch, or everything signed ahead.
    pool: Vec<[u8; TRANSFER_SIZE]>,
    signatures: Vec<[u8; 64]>,
    sent_from_pool: usize,
    quota: u64,
    started_ns: Option<u64>,
    emitted: u64,
}

impl Tile for Benchg {
    const NAME: &'static str = "benchg";
    const BURST: usize = BATCH;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (index, peers) = (host.index(), host.peers());
        if config.senders < peers
            || config.receivers < 2
            || config.accounts.len() < config.senders.max(config.receivers)
        {
            return Err(host.error(format_args!(
                "cannot generate transfers from {} to {} of {} accounts with {peers} benchg tiles; fund more accounts (`development.genesis.fund_initial_accounts`) or use fewer",
                config.senders, config.receivers, config.accounts.len(),
            )));
        }
        let quota = config.presign / peers as u64 + u64::from((index as u64) < config.presign % peers as u64);
        Ok(Self {
            config,
            template: TransferTemplate::new(),
            ready: false,
            benchs: host.output(BENCHG_BENCHS)?,
            first: index,
            step: peers,
            sequence: 0,
            random: fastrand::Rng::with_seed(host.entropy()),
            pool: Vec::with_capacity((quota as usize).max(BATCH)),
            signatures: Vec::with_capacity(BATCH),
            sent_from_pool: 0,
            quota,
            started_ns: None,
            emitted: 0,
        })
    }

    fn on_frag(&mut self, frag: Frag<'_>, _: &mut Out<'_, Self>) {
        let blockhash = frag.payload().try_into().expect("a blockhash from bencho");
        self.template.set_recent_blockhash(blockhash);
        self.ready = true;
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if !self.ready {
            return Poll::Idle;
        }
        match self.config.control.phase() {
            Phase::Idle => Poll::Idle,
            Phase::Presign => self.presign(out),
            Phase::Run => self.emit(out),
        }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        out.count.presigned_left = (self.pool.len() - self.sent_from_pool) as u64;
        // Also while lack of room keeps it from sending.
        out.count.lag_ns = self.next_due_ns().map_or(0, |due| out.now().saturating_sub(due));
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        // A phase change comes from outside the links, and a rate from the clock: check again soon.
        wait.until(self.next_due_ns());
    }
}

impl Benchg {
    fn presign(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let batch = (self.quota - self.pool.len() as u64).min(BATCH as u64);
        self.sign(batch as usize);
        out.count.signed += batch;
        self.config.control.presigned.fetch_add(batch, Ordering::Relaxed);
        if batch > 0 { Poll::Busy } else { Poll::Idle }
    }

    fn emit(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let started = *self.started_ns.get_or_insert(out.now());
        let due = match self.per_tile_rate() {
            None => BATCH,
            Some(rate) => {
                let elapsed = (out.now() - started) as f64 / 1e9;
                let due = ((elapsed * rate) as u64 + 1).saturating_sub(self.emitted);
                if due < batch_at(rate) {
                    return Poll::Idle;
                }
                due.min(BATCH as u64) as usize
            }
        };
        if self.quota == 0 {
            self.pool.clear();
            self.sent_from_pool = 0;
            self.sign(due);
            out.count.signed += due as u64;
        }
        let made = self.send_from_pool(due, out);
        self.emitted += made;
        if made > 0 { Poll::Busy } else { Poll::Idle }
    }

    fn send_from_pool(&mut self, due: usize, out: &mut Out<'_, Self>) -> u64 {
        let end = self.pool.len().min(self.sent_from_pool + due);
        let batch = &self.pool[self.sent_from_pool..end];
        for transfer in batch {
            out.publish(self.benchs, 0, transfer);
        }
        let made = batch.len() as u64;
        if made > 0 && self.quota > 0 && end == self.pool.len() {
            self.config.control.exhausted.fetch_add(1, Ordering::Relaxed);
        }
        self.sent_from_pool = end;
        out.count.generated += made;
        made
    }

    /// Makes and signs `count` transfers, at most [`BATCH`], at the end of the pool.
    fn sign(&mut self, count: usize) {
        let first = self.pool.len();
        let mut senders = [0; BATCH];
        for sender in &mut senders[..count] {
            *sender = self.make();
        }
        let accounts = &self.config.accounts;
        let made = &mut self.pool[first..];
        let items: Vec<SignItem<'_>> = made
            .iter()
            .zip(senders)
            .map(|(transfer, from)| SignItem { key: &accounts[from].key, message: &transfer[MESSAGE..] })
            .collect();
        // The keys are public: there is nothing to hide.
        sign_burst(&items, TableAccess::Indexed, &mut self.signatures);
        for (transfer, signature) in made.iter_mut().zip(&self.signatures) {
            transfer[MESSAGE - 64..MESSAGE].copy_from_slice(signature);
        }
    }

    /// Appends the next transfer, without its signature, to the pool; returns its sender.
    fn make(&mut self) -> usize {
        let own = self.config.senders.saturating_sub(self.first).div_ceil(self.step);
        let from = self.first + self.step * (self.sequence % own as u64) as usize;
        let to = self.receiver(from);
        self.template.set_from(&self.config.accounts[from].address);
        self.template.set_to(&self.config.accounts[to].address);
        self.template.set_lamports(1 + self.sequence % AMOUNTS);
        self.sequence += 1;
        self.pool.push(self.template.bytes().try_into().expect("a plain transfer"));
        from
    }

    /// Chooses an account other than `from`: the hot one for the conflicting fraction, else any.
    fn receiver(&mut self, from: usize) -> usize {
        let hot = self.random.f64() >= 1.0 - self.config.conflict;
        let other = self.random.usize(..self.config.receivers - 1);
        let to = if hot { 0 } else { (from + 1 + other) % self.config.receivers };
        if to == from { (to + 1) % self.config.receivers } else { to }
    }

    fn per_tile_rate(&self) -> Option<f64> {
        self.config.rate.map(|rate| rate / self.step as f64)
    }

    fn next_due_ns(&self) -> Option<u64> {
        let (started, rate) = (self.started_ns?, self.per_tile_rate()?);
        let last = self.emitted + batch_at(rate) - 1;
        (self.config.control.phase() == Phase::Run).then(|| started + (last as f64 / rate * 1e9) as u64)
    }
}

/// How many transfers to send together at this rate.
fn batch_at(rate: f64) -> u64 {
    ((rate * BATCH_NS / 1e9) as u64).clamp(1, BATCH as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_crypto::ed25519::verify_strict;
    use hearth_tile::rig::Rig;
    use hearth_wire::txn::Txn;
    use std::collections::BTreeSet;
    use std::time::Duration;

    fn config(count: usize) -> Config {
        let account = |i: usize| {
            let key = SigningKey::from_seed(&[i as u8; 32]);
            Account { address: key.public_key(), key }
        };
        Config {
            accounts: Arc::new((0..count).map(account).collect()),
            senders: count,
            receivers: count,
            conflict: 0.0,
            rate: None,
            presign: 0,
            control: Arc::default(),
        }
    }

    fn rig(config: Config) -> Rig<Benchg> {
        let mut rig = Rig::<Benchg>::new(config, &["bencho_benchg"], &["benchg_benchs"]);
        rig.give("bencho_benchg", 0, &[9; 32]);
        rig.run();
        rig
    }

    #[test]
    fn transfers_are_valid_and_all_different() {
        let config = config(8);
        let mut rig = rig(config.clone());
        assert!(rig.take("benchg_benchs").is_empty(), "nothing before the command to run");
        config.control.set(Phase::Run);
        rig.run();
        let made = rig.take("benchg_benchs");
        assert_eq!(made.len() as u32, hearth_tile::rig::DEPTH, "it fills the link and stops");
        let mut seen = BTreeSet::new();
        for (_, bytes) in &made {
            let txn = Txn::parse(bytes).unwrap();
            assert!(verify_strict(txn.fee_payer(), txn.first_signature(), txn.message()).is_ok());
            assert_eq!(txn.recent_blockhash(), &[9; 32]);
            assert!(!txn.has_duplicate_accounts());
            assert!(seen.insert(*txn.first_signature()));
        }
    }

    #[test]
    fn a_rate_is_kept_on_virtual_time() {
        let config = Config { rate: Some(100.0), ..config(4) };
        let mut rig = rig(config.clone());
        config.control.set(Phase::Run);
        let mut made = 0;
        for _ in 0..100 {
            rig.run();
            made += rig.take("benchg_benchs").len();
            rig.advance(Duration::from_millis(10));
        }
        assert!((99..=101).contains(&made), "{made} in a second at 100/s");
    }

    #[test]
    fn a_high_rate_is_sent_in_batches() {
        let config = Config { rate: Some(20_000.0), ..config(4) };
        let mut rig = rig(config.clone());
        config.control.set(Phase::Run);
        let mut batches = Vec::new();
        for _ in 0..42 {
            rig.run();
            batches.push(rig.take("benchg_benchs").len());
            rig.advance(Duration::from_micros(50));
        }
        batches.retain(|made| *made > 0);
        assert!(batches.len() == 4 && batches.iter().all(|made| (10..=11).contains(made)), "{batches:?}");
    }

    #[test]
    fn a_load_that_is_held_up_is_late_and_catches_up() {
        let config = Config { rate: Some(10_000.0), ..config(4) };
        let mut rig = rig(config.clone());
        config.control.set(Phase::Run);
        rig.run();
        assert_eq!(rig.count().lag_ns, 0);
        // With no consumer, only as many of the thousand due transfers are sent as the link holds.
        for _ in 0..100 {
            rig.advance(Duration::from_millis(1));
            rig.run();
        }
        let sent = rig.count().generated;
        assert!((200..=u64::from(hearth_tile::rig::DEPTH)).contains(&sent), "{sent}");
        // Five are sent together.
        assert_eq!(rig.count().lag_ns, 100_000_000 - (sent + 4) * 100_000);
        assert!(rig.backpressure().0);
        for _ in 0..20 {
            rig.take("benchg_benchs");
            rig.advance(Duration::from_millis(1));
            rig.run();
        }
        // Housekeeping comes before the transfers of its millisecond.
        assert!(rig.count().lag_ns < 1_000_000, "{}", rig.count().lag_ns);
        assert_eq!(rig.count().generated, 1 + 10 * 120, "it has caught up");
    }

    #[test]
    fn presigned_transfer_is_sent_once() {
        let config = Config { presign: 100, ..config(4) };
        let mut rig = rig(config.clone());
        config.control.set(Phase::Presign);
        rig.run();
        assert_eq!(config.control.presigned(), 100);
        assert!(rig.take("benchg_benchs").is_empty());
        config.control.set(Phase::Run);
        rig.run();
        assert_eq!(rig.take("benchg_benchs").len(), 100);
        assert_eq!((rig.count().signed, rig.count().generated, config.control.exhausted()), (100, 100, 1));
    }

    #[test]
    fn conflicts_share_a_receiver() {
        let config = Config { conflict: 1.0, ..config(8) };
        let mut rig = rig(config.clone());
        config.control.set(Phase::Run);
        rig.run();
        let hot = config.accounts[0].address;
        let made = rig.take("benchg_benchs");
        let paid = made.iter().filter(|(_, b)| Txn::parse(b).unwrap().account_keys()[..2].contains(&hot)).count();
        assert_eq!(paid, made.len());
    }
}
