//! consensus: what the tiles of a node in a cluster are made from that execute blocks, choose among forks, and vote.
//!
//! reads   the configuration, an opened chain, `tower.bin`
//! writes  configurations of replay, exec and tower
//! memory  none of its own

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hearth_ledger::Ledger;
use hearth_pipeline::bank::Recording;
use hearth_pipeline::exec::{self, Exec, WorkerConfig};
use hearth_pipeline::failure::Failure;
use hearth_pipeline::node::{BootError as NodeError, TileConfigs};
use hearth_pipeline::replay::{ReplayTile, position};
use hearth_pipeline::sign::VoteKeys;
use hearth_pipeline::tower::{Core, CoreConfig, Now, Tower, TowerError, Writer, saved_tower};
use hearth_pipeline::{replay, tower};
use hearth_tile::topology::Topology;
use hearth_tile::{Clock, Tile};
use hearth_wire::Pubkey;

use super::{BootError, Chain, Peers, tiles};
use crate::config::Config;
use crate::keys;
use crate::peers::agree::{AgreeError, Agreement};

/// What the tiles are made from.
pub(super) struct Consensus {
    /// Replay and tower.
    pub tiles: (replay::Config, tower::Config),
    /// The account that the node votes with, for sign; the node is its authorized voter.
    pub votes: Option<VoteKeys>,
}

impl Consensus {
    /// Goes on from the ledger's last block, which is the root.
    ///
    /// # Errors
    /// The tower cannot be read, or is of another chain.
    pub fn of(
        config: &Config,
        chain: &Chain,
        peers: &Peers,
        cluster: &tiles::Cluster,
        clock: &Clock,
    ) -> Result<(Self, Agreement), BootError> {
        let Chain { genesis, ledger, folder, identity, .. } = chain;
        let node = identity.public;
        let saved = saved_tower(folder, &node).map_err(TowerError::from).map_err(AgreeError::from)?;
        let account = vote_account(config, folder)?;
        let core = CoreConfig {
            node,
            vote_account: account,
            leads: cluster.leads,
            // Blocks that are not final are executed later.
            is_begin: chain.replayed.last_slot == genesis.config().genesis_slot
                && chain.recovery.last_whole_slot.is_none(),
            slot: Duration::from_millis(genesis.config().slot_ms),
        };
        let block_id = chain.replayed.block_id.unwrap_or(*genesis.hash());
        let blocks = chain.store.reader();
        let rooted = saved.as_ref().and_then(|tower| tower.root()).map(|root| root.slot);
        let start = position::start(ledger, block_id, &blocks, rooted);
        let root = start.block.bank.id.slot;
        let core = Core::new(core, start, saved, Now::of(clock)).map_err(AgreeError::from)?;
        cluster.agreed.confirm(root);
        let agreement = Agreement {
            node,
            ledger: ledger.clone(),
            board: peers.board.clone(),
            replay: Failure::default(),
            tower: Failure::default(),
        };
        let replay = replay::Config {
            ledger: ledger.clone(),
            block_id,
            blocks,
            rules: crate::replay::rules(genesis),
            records: chain.history.is_some(),
            agreed: cluster.agreed.clone(),
            failure: agreement.replay.clone(),
        };
        let tower = tower::Config {
            core,
            files: Box::new(Writer::start(folder.clone()).map_err(NodeError::Threads)?),
            failure: agreement.tower.clone(),
        };
        let votes = account.map(|account| VoteKeys { account, voter: None });
        Ok((Self { tiles: (replay, tower), votes }, agreement))
    }
}

/// With what replay, the exec tiles and tower are made from, where the node is in a cluster.
pub(super) fn with_consensus(
    configs: TileConfigs,
    topology: &Topology,
    tiles: Option<(replay::Config, tower::Config)>,
    recording: Option<&Recording>,
) -> TileConfigs {
    let Some((replay, tower)) = tiles else { return configs };
    let execs = topology.count(Exec::NAME);
    let ledger = replay.ledger.clone();
    configs
        .one::<ReplayTile>(replay)
        .each::<Exec>(topology, |_| exec_config(&ledger, recording.cloned(), execs))
        .one::<Tower>(tower)
}

/// What each of `count` exec tiles is made from.
fn exec_config(ledger: &Arc<Ledger>, recording: Option<Recording>, count: usize) -> exec::Config {
    let table_bytes = crate::replay::TABLE_BYTES / count;
    exec::Config { ledger: ledger.clone(), worker: WorkerConfig { table_bytes, recording } }
}

/// The account that the node votes with, where it does.
fn vote_account(config: &Config, folder: &Path) -> Result<Option<Pubkey>, BootError> {
    if config.follows() || !config.consensus.vote {
        return Ok(None);
    }
    let given = config.expand(&config.consensus.vote_account_path);
    let path = if given.as_os_str().is_empty() { folder.join("vote-account.json") } else { given };
    Ok(Some(keys::read(&path)?.public))
}
