//! The interface of an application: one method per request.

use crate::types::ProofOps;
use crate::{request, response};

/// A fatal error of the application. CometBFT stops when it receives one, so it is only for faults that no client can
/// correct: a client's bad request gets an answer with a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Exception(pub String);

impl Exception {
    /// Creates an exception from any message.
    pub fn new(why: impl std::fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// Result of an application's method.
pub type Answer<T> = Result<T, Exception>;

/// An application. CometBFT uses four connections, each with its own thread and sequential requests: consensus
/// (`init_chain`, `prepare_proposal`, `process_proposal`, `extend_vote`, `verify_vote_extension`, `finalize_block`,
/// `commit`), mempool (`check_tx`), query (`info`, `query`), snapshot (the four snapshot methods; while a node restores
/// one, nothing else is requested). Between the answer to `finalize_block` and the end of `commit` CometBFT sends no
/// new `check_tx`; before that it keeps sending them.
pub trait Application: Send + Sync + 'static {
    /// Returns the application's last height: CometBFT replays the blocks after it.
    fn info(&self, request: request::Info) -> Answer<response::Info>;

    /// The chain begins: once, before the first block.
    fn init_chain(&self, request: request::InitChain) -> Answer<response::InitChain>;

    /// Answers a client's query.
    fn query(&self, request: request::Query) -> Answer<response::Query>;

    /// Decides whether a transaction may wait in the mempool.
    fn check_tx(&self, request: request::CheckTx) -> Answer<response::CheckTx>;

    /// Chooses the contents of a block. Need not be deterministic.
    fn prepare_proposal(&self, request: request::PrepareProposal) -> Answer<response::PrepareProposal>;

    /// Decides whether a proposed block is valid: the same on all nodes.
    fn process_proposal(&self, request: request::ProcessProposal) -> Answer<response::ProcessProposal>;

    /// Executes a decided block, without keeping it yet: the same on all nodes.
    fn finalize_block(&self, request: request::FinalizeBlock) -> Answer<response::FinalizeBlock>;

    /// Keeps the block that was executed last.
    fn commit(&self, request: request::Commit) -> Answer<response::Commit>;

    /// Returns the data for this node's vote; called only if the consensus parameters enable vote extensions.
    fn extend_vote(&self, _: request::ExtendVote) -> Answer<response::ExtendVote> {
        Ok(response::ExtendVote::default())
    }

    /// Judges another validator's vote extension; called only if the consensus parameters enable them.
    fn verify_vote_extension(&self, _: request::VerifyVoteExtension) -> Answer<response::VerifyVoteExtension> {
        Ok(response::VerifyVoteExtension { status: response::Verification::Accept.into() })
    }

    /// The snapshots for other nodes.
    fn list_snapshots(&self, _: request::ListSnapshots) -> Answer<response::ListSnapshots> {
        Ok(response::ListSnapshots::default())
    }

    /// Whether to begin from a peer's snapshot.
    fn offer_snapshot(&self, _: request::OfferSnapshot) -> Answer<response::OfferSnapshot> {
        Ok(response::OfferSnapshot { result: response::Offer::Reject.into() })
    }

    /// A part of a snapshot for another node.
    fn load_snapshot_chunk(&self, _: request::LoadSnapshotChunk) -> Answer<response::LoadSnapshotChunk> {
        Ok(response::LoadSnapshotChunk::default())
    }

    /// Takes a part of the snapshot that was accepted.
    fn apply_snapshot_chunk(&self, _: request::ApplySnapshotChunk) -> Answer<response::ApplySnapshotChunk> {
        let result = response::ApplyChunkResult::RejectSnapshot.into();
        Ok(response::ApplySnapshotChunk { result, ..Default::default() })
    }
}

/// Dispatches a request to the application's method.
pub fn answer(application: &dyn Application, request: request::Value) -> Answer<response::Value> {
    use {request::Value as Ask, response::Value as Say};
    Ok(match request {
        Ask::Echo(request) => Say::Echo(response::Echo { message: request.message }),
        Ask::Flush(_) => Say::Flush(response::Flush {}),
        Ask::Info(request) => Say::Info(application.info(request)?),
        Ask::InitChain(request) => Say::InitChain(application.init_chain(request)?),
        Ask::Query(request) => Say::Query(application.query(request)?),
        Ask::CheckTx(request) => Say::CheckTx(application.check_tx(request)?),
        Ask::Commit(request) => Say::Commit(application.commit(request)?),
        Ask::ListSnapshots(request) => Say::ListSnapshots(application.list_snapshots(request)?),
        Ask::OfferSnapshot(request) => Say::OfferSnapshot(application.offer_snapshot(request)?),
        Ask::LoadSnapshotChunk(request) => Say::LoadSnapshotChunk(application.load_snapshot_chunk(request)?),
        Ask::ApplySnapshotChunk(request) => Say::ApplySnapshotChunk(application.apply_snapshot_chunk(request)?),
        Ask::PrepareProposal(request) => Say::PrepareProposal(application.prepare_proposal(request)?),
        Ask::ProcessProposal(request) => Say::ProcessProposal(application.process_proposal(request)?),
        Ask::ExtendVote(request) => Say::ExtendVote(application.extend_vote(request)?),
        Ask::VerifyVoteExtension(request) => Say::VerifyVoteExtension(application.verify_vote_extension(request)?),
        Ask::FinalizeBlock(request) => Say::FinalizeBlock(application.finalize_block(request)?),
    })
}

impl response::Query {
    /// An answer that is there.
    pub fn found(key: impl Into<bytes::Bytes>, value: impl Into<bytes::Bytes>, height: i64) -> Self {
        Self { key: key.into(), value: value.into(), height, ..Self::default() }
    }

    /// No answer, and why.
    pub fn refused(code: u32, why: impl Into<String>, height: i64) -> Self {
        Self { code, log: why.into(), height, ..Self::default() }
    }

    /// Adds a proof to the answer.
    pub fn with_proof(self, proof_ops: ProofOps) -> Self {
        Self { proof_ops: Some(proof_ops), ..self }
    }
}
