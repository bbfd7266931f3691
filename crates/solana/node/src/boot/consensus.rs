//! consensus: configures the tiles that vote and, in a cluster, replay blocks and choose forks.
//!
//! reads   the configuration, an opened chain, `tower.bin`
//! writes  configurations of replay, exec and tower; a notice if the node may not vote

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hearth_consensus::Tower as VoteTower;
use hearth_keys::{self as keys, KeyError, Keypair};
use hearth_ledger::{BlockLimits, Ledger};
use hearth_pipeline::bank::RecorderConfig;
use hearth_pipeline::exec::{self, Exec, WorkerConfig};
use hearth_pipeline::failure::Failure;
use hearth_pipeline::node::{BootError as NodeError, TileConfigs};
use hearth_pipeline::replay::{ReplayTile, Rules, position};
use hearth_pipeline::shred::Slot0;
use hearth_pipeline::tower::{
    Clocks, Core, CoreConfig, Membership, NoFiles, SoloDriver, Start, Tower, TowerError, Writer, saved_tower,
};
use hearth_pipeline::voters::{VoterDesk, VoterKeys, Voters};
use hearth_pipeline::{gossip, replay, tower};
use hearth_tile::topology::Topology;
use hearth_tile::{Clock, Tile};
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};

use super::identity::{Desks, IdentitySwitch, node_of};
use super::voting::{self, VotingDecision};
use super::{BootError, Chain, Peers};
use crate::config::{Bench, Config};
use crate::peers::divergence::{DivergenceError, DivergenceWatch, HashQuery};
use crate::replay::rules;

/// The state that tiles share with the threads of a node in a cluster.
pub(super) struct Cluster {
    pub gossip: gossip::Config,
    /// Whether the node produces blocks in its leader slots.
    pub leads: bool,
}

/// The configurations of the consensus tiles.
pub(super) struct Consensus {
    /// Replay, in a cluster.
    replay: Option<replay::Config>,
    tower: tower::Config,
    /// The vote account, for sign. `None` if the node may not vote.
    pub vote_account: Option<Pubkey>,
    /// The keys that may sign votes, for sign, if they are others than the identity alone.
    pub voters: Option<VoterKeys>,
    /// In a cluster: where the operator changes the node's keys.
    desks: Desks,
    /// In a cluster: the newest confirmed slot at startup, for store, which is that of the root.
    pub confirmed: Option<u64>,
}

impl Consensus {
    /// The configurations for a node in a cluster, or for one alone that votes. Also returns the watch that explains a
    /// divergence.
    ///
    /// # Errors
    ///
    /// The tower cannot be read or is of another chain; or no more threads can be started.
    pub fn begin(
        config: &Config,
        chain: &Chain,
        others: Option<(&Peers, &Cluster)>,
        clock: &Clock,
    ) -> Result<(Option<Self>, Option<DivergenceWatch>), BootError> {
        Ok(match others {
            Some((peers, cluster)) => {
                let (consensus, watch) = Self::of(config, chain, peers, cluster, clock)?;
                (Some(consensus), Some(watch))
            }
            None if config.consensus.vote => (Some(Self::alone(chain, clock)), None),
            None => (None, None),
        })
    }

    /// For a node in a cluster. Continues from the ledger's last block, which is the root.
    ///
    /// # Errors
    ///
    /// The tower cannot be read or is of another chain; or no more threads can be started.
    fn of(
        config: &Config,
        chain: &Chain,
        peers: &Peers,
        cluster: &Cluster,
        clock: &Clock,
    ) -> Result<(Self, DivergenceWatch), BootError> {
        let Chain { genesis, ledger, folder, identity, .. } = chain;
        let node = identity.public;
        let saved = saved_tower(folder, &node).map_err(TowerError::from).map_err(DivergenceError::from)?;
        let given = vote_account(config, folder)?;
        let block_id = chain.replayed.block_id.unwrap_or_else(|| *Slot0::of(genesis).block_id());
        let blocks = chain.store.reader();
        // For a tower from another program the root's hash is unknown.
        let rooted = saved.as_ref().and_then(|tower| tower.lockouts().root);
        let start = position::start(ledger, block_id, &blocks, rooted);
        let root = start.block.bank.id.slot;
        let own = given.filter(|account| is_of_node(ledger, account, &node));
        let decision = own.map(|account| decision(config, folder, &account, saved.as_ref(), &start));
        let settles_first = matches!(decision, Some(VotingDecision::Settles { .. }));
        let account = own.filter(|_| !matches!(decision, Some(VotingDecision::Follows { .. })));
        // Where it lacks votes it is no measure of what to root.
        let saved = saved.filter(|_| account == given);
        let (desk, voters, keys) = VoterDesk::new(node, authorized_voters(config)?);
        account.iter().for_each(|account| tell_absent_voter(&start, account, &node, &voters));
        let core = CoreConfig {
            node,
            vote_account: account,
            voters,
            // A node that may not vote only follows.
            leads: cluster.leads && account == given,
            gossips: true,
            // Blocks that are not final are replayed later.
            is_begin: chain.replayed.last_slot == genesis.config().genesis_slot
                && chain.recovery.last_whole_slot.unwrap_or(0) == 0,
            slot: Duration::from_millis(genesis.config().slot_ms),
        };
        let core = Core::new(core, start, saved, Clocks::of(clock)).map_err(DivergenceError::from)?;
        let mut core = core.with_identity(chain.watch.clone());
        if settles_first {
            core.settle_first();
        }
        let watch = divergence_watch(chain, peers);
        let replay = replay::Config {
            ledger: ledger.clone(),
            block_id,
            blocks,
            rules: Rules { limits: replay_limits(&config.development.bench), ..rules(genesis) },
            records: chain.history.is_some(),
            failure: watch.replay.clone(),
        };
        let tower = tower::Config {
            core,
            files: Box::new(Writer::start(folder.clone()).map_err(NodeError::Threads)?),
            failure: watch.tower.clone(),
            membership: Membership::Cluster,
        };
        let identity = Some(Arc::new(identity_switch(chain, given, cluster.leads)));
        let desks = Desks { voters: Some(Arc::new(desk)), identity };
        // Sign takes the account although this identity may not vote: another one may.
        let (replay, voters, confirmed) = (Some(replay), Some(keys), Some(root));
        Ok((Self { replay, tower, vote_account: given, voters, desks, confirmed }, watch))
    }

    /// Takes what the operator changes the node's keys by.
    pub fn take_desks(&mut self) -> Desks {
        std::mem::take(&mut self.desks)
    }

    /// For a node that is a cluster of one. Continues from the ledger's last block, which is the root.
    fn alone(chain: &Chain, clock: &Clock) -> Self {
        let Chain { genesis, ledger, identity, replayed, .. } = chain;
        let block_id = replayed.block_id.unwrap_or_else(|| *Slot0::of(genesis).block_id());
        let slot = Duration::from_millis(genesis.config().slot_ms.max(1));
        let (core, alone) = SoloDriver::new(ledger.clone(), identity.public, block_id, slot, Clocks::of(clock));
        let vote_account = alone.account();
        let files = Box::new(NoFiles);
        let membership = Membership::Alone(alone);
        let tower = tower::Config { core, files, failure: Failure::default(), membership };
        Self { replay: None, tower, vote_account, voters: None, desks: Desks::default(), confirmed: None }
    }
}

/// Explains why this node can no longer be in its cluster, once it cannot.
fn divergence_watch(chain: &Chain, peers: &Peers) -> DivergenceWatch {
    DivergenceWatch {
        node: chain.watch.clone(),
        ledger: chain.ledger.clone(),
        board: peers.board.clone(),
        replay: Failure::default(),
        tower: Failure::default(),
        asking: HashQuery::default(),
    }
}

/// The switch by which the operator changes the identity of a node with this vote account.
fn identity_switch(chain: &Chain, vote_account: Option<Pubkey>, leads: bool) -> IdentitySwitch {
    let ledger = chain.ledger.clone();
    let node_of = Box::new(move |account: &Pubkey| node_of(&ledger, account));
    IdentitySwitch::new(chain.watch.desk(), &chain.folder, node_of, vote_account, leads)
}

/// Adds the tower tile and, in a cluster, replay and the exec tiles.
pub(super) fn with_consensus(
    configs: TileConfigs,
    topology: &Topology,
    consensus: Option<Consensus>,
    recording: Option<&RecorderConfig>,
) -> TileConfigs {
    let Some(Consensus { replay, tower, .. }) = consensus else { return configs };
    let configs = configs.one::<Tower>(tower);
    let Some(replay) = replay else { return configs };
    let execs = topology.count(Exec::NAME);
    let ledger = replay.ledger.clone();
    let configs = configs.one::<ReplayTile>(replay);
    configs.each::<Exec>(topology, |_| exec_config(&ledger, recording.cloned(), execs))
}

/// The limits of the blocks of others: those of the cluster, unless they are lifted.
fn replay_limits(bench: &Bench) -> BlockLimits {
    BlockLimits::lifted(u64::MAX, bench.larger_max_cost_per_block, bench.larger_shred_limits_per_block)
}

/// The configuration of each of `count` exec tiles.
fn exec_config(ledger: &Arc<Ledger>, recording: Option<RecorderConfig>, count: usize) -> exec::Config {
    let table_bytes = crate::replay::TABLE_BYTES / count;
    exec::Config { ledger: ledger.clone(), worker: WorkerConfig { table_bytes, recording } }
}

/// The vote account, if the node votes.
fn vote_account(config: &Config, folder: &Path) -> Result<Option<Pubkey>, BootError> {
    if config.follows() || !config.consensus.vote {
        return Ok(None);
    }
    let given = config.expand(&config.consensus.vote_account_path);
    // The address is enough: the identity signs the votes.
    if let Some(address) = given.to_str().and_then(|text| decode_32(text).ok()) {
        return Ok(Some(address));
    }
    let account = match given.as_os_str().is_empty() {
        true => keys::read(&folder.join("vote-account.json")).map_err(BootError::VoteAccount)?,
        false => keys::read(&given)?,
    };
    Ok(Some(account.public))
}

/// The keys of authorized voters that the configuration names.
fn authorized_voters(config: &Config) -> Result<Vec<Keypair>, BootError> {
    let given = config.consensus.authorized_voter_paths.iter();
    let read = given.map(|path| keys::read_private(&config.expand(path)).map(|identity| identity.keypair));
    Ok(read.collect::<Result<Vec<Keypair>, KeyError>>()?)
}

/// Reports an authorized voter of the account whose key the node lacks: it then sends no votes.
fn tell_absent_voter(start: &Start, account: &Pubkey, node: &Pubkey, voters: &Voters) {
    let authorized = start.block.voters.iter().find(|(of, _)| of == account).map(|(_, voter)| voter);
    if let Some(authorized) = authorized
        && voters.choose(Some(authorized), node).is_none()
    {
        hearth_command::output::note(format_args!(
            "notice: this node sends no votes: the authorized voter of its vote account is {}, whose key it has not; \
             --authorized-voter (consensus.authorized_voter_paths) gives it one",
            encode_32(authorized)
        ));
    }
}

/// Whether a vote account names this node; reports if it names another. One that does not exist so far may name it.
fn is_of_node(ledger: &Ledger, account: &Pubkey, node: &Pubkey) -> bool {
    let other = node_of(ledger, account).filter(|other| other != node);
    other.iter().for_each(|other| hearth_command::output::note(voting::notice_of_other(account, other)));
    other.is_none()
}

/// Whether the node may vote with an account; reports why not, or what it takes from the account first.
fn decision(
    config: &Config,
    folder: &Path,
    account: &Pubkey,
    saved: Option<&VoteTower>,
    start: &Start,
) -> VotingDecision {
    let votes = start.block.bank.votes.iter().find(|votes| votes.key == *account);
    let tower = saved.map(|tower| tower.newest_slot().unwrap_or(0));
    let fits = |tower: &VoteTower| tower.clone().align(start.block.bank.id, &start.ancestors).is_ok();
    let decision = match voting::verdict(tower, config.consensus.vote_without_tower, votes) {
        VotingDecision::Settles { newest } if !saved.is_some_and(fits) => VotingDecision::Follows { newest },
        decision => decision,
    };
    match (decision, tower) {
        (VotingDecision::Votes, _) => {}
        (VotingDecision::Settles { newest }, Some(tower)) => {
            hearth_command::output::note(voting::notice_of_settling(folder, account, newest, tower));
        }
        (VotingDecision::Settles { newest } | VotingDecision::Follows { newest }, _) => {
            hearth_command::output::note(voting::notice(folder, account, newest, tower));
        }
    }
    decision
}
