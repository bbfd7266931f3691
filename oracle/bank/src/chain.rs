//! The chain: makes bank after bank of a scenario, and hands each block to the recorder.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use solana_accounts_db::accounts_db::AccountsDbConfig;
use solana_genesis_config::GenesisConfig;
use solana_hash::Hash;
use solana_leader_schedule::{LeaderSchedule, SlotLeader};
use solana_runtime::bank::Bank;
use solana_runtime::bank_forks::BankForks;
use solana_runtime::installed_scheduler_pool::BankWithScheduler;
use solana_runtime::leader_schedule_utils::leader_schedule;
use solana_sha256_hasher::{hash, hashv};

use crate::acts::Act;
use crate::block::{Block, Counts, Filter};
use crate::record::Recorder;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::world::{World, digest};
use crate::{genesis, votes};

/// Blocks behind the tip that become the root; a fork starts above the root.
pub const ROOT_DEPTH: usize = 40;
/// Blockhashes that a block may name.
const RECENT: usize = 150;

/// The ledger to make: a scenario, a seed, and how much of it.
pub struct Request<'a> {
    pub scenario: &'a Scenario,
    pub seed: u64,
    /// Ends after this slot, if the scenario has more.
    pub slots: Option<u64>,
    pub filter: Filter,
    /// Whether old blocks are rooted on the way; a snapshot roots its own bank.
    pub roots: bool,
}

/// A ledger that is being made.
pub struct Chain<'a> {
    request: &'a Request<'a>,
    pub genesis: GenesisConfig,
    world: World,
    rng: Rng,
    forks: Arc<RwLock<BankForks>>,
    /// Slot, and its last hash, of the blocks on the way to each bank.
    hashes: HashMap<u64, Vec<Hash>>,
    schedules: HashMap<u64, LeaderSchedule>,
    acts: Vec<(u64, Box<dyn Act>)>,
    /// The tip of the fork that goes on.
    tip: u64,
    /// The place to which the chain returns, while a fork is made that will be left.
    home: Option<(u64, u64)>,
    next: u64,
    pub counts: Counts,
}

impl<'a> Chain<'a> {
    /// Makes the genesis and slot 0. Agave's account files lie in `accounts`.
    pub fn new(request: &'a Request<'a>, accounts: &Path) -> Self {
        let rules = (request.scenario.rules)(&mut Rng::new(request.seed, "rules"));
        let world = World::new(request.seed, rules.users, rules.validators.len());
        let genesis = genesis::make(&world, &rules);
        let bank = open(&genesis, accounts);
        request.scenario.hard_forks.iter().for_each(|slot| bank.register_hard_fork(*slot));
        let forks = BankForks::new_rw_arc(bank);
        Self {
            request,
            world,
            rng: Rng::new(request.seed, request.scenario.name),
            forks,
            hashes: HashMap::new(),
            schedules: HashMap::new(),
            acts: (request.scenario.acts)(),
            tip: 0,
            home: None,
            next: 1,
            counts: Counts::default(),
            genesis,
        }
    }

    /// Makes all blocks; `each` sees every frozen bank.
    pub fn run(&mut self, recorder: &mut Recorder, mut each: impl FnMut(&Bank)) {
        let first = self.bank(0);
        // Slot 0 is 64 ticks on the genesis hash; with no hashes a tick they leave it as it is.
        let hashes = self.genesis.poh_config.hashes_per_tick.unwrap_or(0) * self.genesis.ticks_per_slot;
        let last = (0..hashes).fold(self.genesis.hash(), |last, _| hash(last.as_ref()));
        end(&first, last);
        let bank = first.clone_without_scheduler();
        recorder.block(&bank, 0, vec![], vec![], false);
        each(&bank);
        self.hashes.insert(0, vec![self.genesis.hash(), last]);
        let slots = self.request.scenario.slots;
        let slots = self.request.slots.map_or(slots, |most| most.min(slots));
        while self.next <= slots {
            let slot = self.next;
            self.next += 1;
            if let Some(parent) = self.parent_of(slot) {
                let bank = self.block(slot, parent, recorder);
                each(&bank);
            }
        }
    }

    fn bank(&self, slot: u64) -> BankWithScheduler {
        let bank = self.forks.read().expect("no thread panicked").get_with_scheduler(slot);
        bank.expect("the bank is above the root")
    }

    /// Decides on which block `slot` builds; `None` skips it.
    fn parent_of(&mut self, slot: u64) -> Option<u64> {
        let scenario = self.request.scenario;
        let absent = scenario.gaps.iter().any(|gap| gap.contains(&slot));
        if absent || (!scenario.hard_forks.contains(&slot) && self.rng.chance(scenario.skip_percent)) {
            return None;
        }
        match self.home {
            // The fork is left.
            Some((home, until)) if slot >= until => {
                self.home = None;
                self.tip = home;
            }
            None if self.tip > 8 && self.rng.chance(scenario.fork_percent) => {
                let ancestors = self.bank(self.tip).clone_without_scheduler().parents();
                let back = 1 + self.rng.index(ancestors.len().min(6) - 1);
                self.home = Some((self.tip, slot + 1 + self.rng.below(3)));
                self.tip = ancestors[back].slot();
            }
            _ => {}
        }
        Some(self.tip)
    }

    fn leader(&mut self, slot: u64, parent: &Bank) -> SlotLeader {
        let (epoch, index) = parent.get_epoch_and_slot_index(slot);
        let schedule = self.schedules.entry(epoch);
        schedule.or_insert_with(|| leader_schedule(epoch, parent).expect("the stakes of the epoch are known"))[index]
    }

    fn block(&mut self, slot: u64, parent: u64, recorder: &mut Recorder) -> Arc<Bank> {
        let parent = self.bank(parent).clone_without_scheduler();
        let leader = self.leader(slot, &parent);
        let bank = Bank::new_from_parent(parent.clone(), leader, slot);
        let bank = self.forks.write().expect("no thread panicked").insert(bank);
        let mut hashes = self.hashes[&parent.slot()].clone();
        let mut block = Block {
            bank: bank.clone_without_scheduler(),
            parent: parent.clone(),
            rng: &mut self.rng,
            hashes: hashes.clone(),
            counts: &mut self.counts,
            filter: &self.request.filter,
            txs: vec![],
            refused: vec![],
        };
        votes::cast(&mut block, &self.world, &self.request.scenario.voting);
        for (percent, act) in &mut self.acts {
            if block.rng.chance(*percent) {
                act.act(&mut block, &mut self.world);
            }
        }
        let Block { txs, refused, .. } = block;
        let last = hashv(&[parent.last_blockhash().as_ref(), digest(self.request.seed, "slot", slot).as_ref()]);
        end(&bank, last);
        let hard_fork = self.request.scenario.hard_forks.contains(&slot);
        let bank = bank.clone_without_scheduler();
        recorder.block(&bank, parent.slot(), txs, refused, hard_fork);
        hashes.push(last);
        hashes.drain(..hashes.len().saturating_sub(RECENT));
        self.hashes.insert(slot, hashes);
        self.tip = slot;
        self.root(&bank);
        bank
    }

    /// Roots the block `ROOT_DEPTH` blocks behind `tip`, unless a fork is open.
    fn root(&mut self, tip: &Arc<Bank>) {
        if !self.request.roots {
            return;
        }
        let root = tip.parents().into_iter().nth(ROOT_DEPTH);
        if let (Some(root), None) = (root, self.home) {
            let mut forks = self.forks.write().expect("no thread panicked");
            set_root(&mut forks, root.slot());
            self.hashes.retain(|slot, _| *slot >= root.slot());
        }
    }
}

/// The bank of slot 0, without ticks. Agave's account files lie in `accounts`.
pub fn open(genesis: &GenesisConfig, accounts: &Path) -> Bank {
    Bank::new_from_genesis(
        genesis,
        Arc::default(),
        vec![accounts.to_path_buf()],
        None,
        AccountsDbConfig::default(),
        None,
        None,
        Arc::new(AtomicBool::new(false)),
        None,
        None,
    )
}

/// Roots a block, as a validator does.
pub fn set_root(forks: &mut BankForks, slot: u64) {
    if slot > forks.root() {
        forks.prune_program_cache(slot);
        drop(forks.set_root(slot, None, None));
    }
}

/// Fills a bank with ticks, the last of which has the hash `last`, and freezes it.
pub fn end(bank: &BankWithScheduler, last: Hash) {
    while !bank.is_complete() {
        bank.register_tick(&last);
    }
    bank.freeze();
    bank.set_block_id(Some(hashv(&[b"block", bank.hash().as_ref()])));
}
