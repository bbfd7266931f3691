//! What CometBFT asks.
//!
//! source  CometBFT's `proto/tendermint/abci/types.proto`, `Request…`

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

use crate::types::{
    CommitInfo, ConsensusParams, ExtendedCommitInfo, Misbehavior, Snapshot, Timestamp, ValidatorUpdate,
};

/// A frame from CometBFT.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// None where a later version asks something that this one does not know.
    #[prost(oneof = "Value", tags = "1, 2, 3, 5, 6, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20")]
    pub value: Option<Value>,
}

/// One of the requests.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// Say the same.
    #[prost(message, tag = "1")]
    Echo(Echo),
    /// Send what is answered so far.
    #[prost(message, tag = "2")]
    Flush(Flush),
    /// How far is the application?
    #[prost(message, tag = "3")]
    Info(Info),
    /// The chain begins.
    #[prost(message, tag = "5")]
    InitChain(InitChain),
    /// A question of a client's.
    #[prost(message, tag = "6")]
    Query(Query),
    /// May this transaction wait in the mempool?
    #[prost(message, tag = "8")]
    CheckTx(CheckTx),
    /// Keep the block.
    #[prost(message, tag = "11")]
    Commit(Commit),
    /// Which snapshots are there?
    #[prost(message, tag = "12")]
    ListSnapshots(ListSnapshots),
    /// Begin with this one?
    #[prost(message, tag = "13")]
    OfferSnapshot(OfferSnapshot),
    /// A part of a snapshot for another node.
    #[prost(message, tag = "14")]
    LoadSnapshotChunk(LoadSnapshotChunk),
    /// A part of the snapshot that was accepted.
    #[prost(message, tag = "15")]
    ApplySnapshotChunk(ApplySnapshotChunk),
    /// What shall the block hold?
    #[prost(message, tag = "16")]
    PrepareProposal(PrepareProposal),
    /// Is a proposed block good?
    #[prost(message, tag = "17")]
    ProcessProposal(ProcessProposal),
    /// Something to say with a vote?
    #[prost(message, tag = "18")]
    ExtendVote(ExtendVote),
    /// Is what another said with its vote good?
    #[prost(message, tag = "19")]
    VerifyVoteExtension(VerifyVoteExtension),
    /// This block is decided: execute it.
    #[prost(message, tag = "20")]
    FinalizeBlock(FinalizeBlock),
}

/// See [`Value::Echo`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Echo {
    /// What to say.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// See [`Value::Flush`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Flush {}

/// See [`Value::Info`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Info {
    /// CometBFT's version.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Of blocks.
    #[prost(uint64, tag = "2")]
    pub block_version: u64,
    /// Of the peers' protocol.
    #[prost(uint64, tag = "3")]
    pub p2p_version: u64,
    /// Of this protocol.
    #[prost(string, tag = "4")]
    pub abci_version: String,
}

/// See [`Value::InitChain`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InitChain {
    /// The genesis' time.
    #[prost(message, optional, tag = "1")]
    pub time: Option<Timestamp>,
    /// CometBFT's name of the chain.
    #[prost(string, tag = "2")]
    pub chain_id: String,
    /// Those of the genesis.
    #[prost(message, optional, tag = "3")]
    pub consensus_params: Option<ConsensusParams>,
    /// Those of the genesis.
    #[prost(message, repeated, tag = "4")]
    pub validators: Vec<ValidatorUpdate>,
    /// The genesis' `app_state`, JSON.
    #[prost(bytes = "bytes", tag = "5")]
    pub app_state_bytes: Bytes,
    /// The first block's height.
    #[prost(int64, tag = "6")]
    pub initial_height: i64,
}

/// See [`Value::Query`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Query {
    /// What the path needs.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
    /// What is asked.
    #[prost(string, tag = "2")]
    pub path: String,
    /// After which block; 0 is the newest.
    #[prost(int64, tag = "3")]
    pub height: i64,
    /// Whether a proof is asked for.
    #[prost(bool, tag = "4")]
    pub prove: bool,
}

/// Why a transaction is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum CheckTxType {
    /// It came.
    New = 0,
    /// It waited while a block was made.
    Recheck = 1,
}

/// See [`Value::CheckTx`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckTx {
    /// The transaction.
    #[prost(bytes = "bytes", tag = "1")]
    pub tx: Bytes,
    /// See [`CheckTxType`].
    #[prost(enumeration = "CheckTxType", tag = "2")]
    pub r#type: i32,
}

/// See [`Value::Commit`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Commit {}

/// See [`Value::ListSnapshots`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ListSnapshots {}

/// See [`Value::OfferSnapshot`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OfferSnapshot {
    /// A peer's.
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
    /// The hash that the light client vouches for at this height.
    #[prost(bytes = "bytes", tag = "2")]
    pub app_hash: Bytes,
}

/// See [`Value::LoadSnapshotChunk`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LoadSnapshotChunk {
    /// The snapshot's.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// The snapshot's.
    #[prost(uint32, tag = "2")]
    pub format: u32,
    /// From 0.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
}

/// See [`Value::ApplySnapshotChunk`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ApplySnapshotChunk {
    /// From 0.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Its bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub chunk: Bytes,
    /// The peer that sent it.
    #[prost(string, tag = "3")]
    pub sender: String,
}

/// See [`Value::PrepareProposal`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PrepareProposal {
    /// The answer's transactions may not be more.
    #[prost(int64, tag = "1")]
    pub max_tx_bytes: i64,
    /// What waits in CometBFT's mempool.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "3")]
    pub local_last_commit: Option<ExtendedCommitInfo>,
    /// Evidence.
    #[prost(message, repeated, tag = "4")]
    pub misbehavior: Vec<Misbehavior>,
    /// The block's.
    #[prost(int64, tag = "5")]
    pub height: i64,
    /// The block's.
    #[prost(message, optional, tag = "6")]
    pub time: Option<Timestamp>,
    /// Of the validators after it.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// This node's.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}

/// See [`Value::ProcessProposal`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessProposal {
    /// The block's transactions.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "2")]
    pub proposed_last_commit: Option<CommitInfo>,
    /// Evidence.
    #[prost(message, repeated, tag = "3")]
    pub misbehavior: Vec<Misbehavior>,
    /// The block's.
    #[prost(bytes = "bytes", tag = "4")]
    pub hash: Bytes,
    /// The block's.
    #[prost(int64, tag = "5")]
    pub height: i64,
    /// The block's.
    #[prost(message, optional, tag = "6")]
    pub time: Option<Timestamp>,
    /// Of the validators after it.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// The proposer's.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}

/// See [`Value::ExtendVote`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtendVote {
    /// The block's.
    #[prost(bytes = "bytes", tag = "1")]
    pub hash: Bytes,
    /// The block's.
    #[prost(int64, tag = "2")]
    pub height: i64,
    /// The block's.
    #[prost(message, optional, tag = "3")]
    pub time: Option<Timestamp>,
    /// The block's.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "5")]
    pub proposed_last_commit: Option<CommitInfo>,
    /// Evidence.
    #[prost(message, repeated, tag = "6")]
    pub misbehavior: Vec<Misbehavior>,
    /// Of the validators after it.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// The proposer's.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}

/// See [`Value::VerifyVoteExtension`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VerifyVoteExtension {
    /// The block's.
    #[prost(bytes = "bytes", tag = "1")]
    pub hash: Bytes,
    /// Whose vote it is.
    #[prost(bytes = "bytes", tag = "2")]
    pub validator_address: Bytes,
    /// The block's.
    #[prost(int64, tag = "3")]
    pub height: i64,
    /// What it said.
    #[prost(bytes = "bytes", tag = "4")]
    pub vote_extension: Bytes,
}

/// See [`Value::FinalizeBlock`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FinalizeBlock {
    /// The block's transactions.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "2")]
    pub decided_last_commit: Option<CommitInfo>,
    /// Evidence.
    #[prost(message, repeated, tag = "3")]
    pub misbehavior: Vec<Misbehavior>,
    /// The block's.
    #[prost(bytes = "bytes", tag = "4")]
    pub hash: Bytes,
    /// The block's.
    #[prost(int64, tag = "5")]
    pub height: i64,
    /// The block's.
    #[prost(message, optional, tag = "6")]
    pub time: Option<Timestamp>,
    /// Of the validators after it.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// The proposer's.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}
