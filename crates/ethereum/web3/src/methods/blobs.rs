//! The sidecars of blob transactions, while the node keeps them.
//!
//! reads   blocks; the sidecars that the pool keeps
//! writes  blobs, commitments and proofs
//! memory  the text of one block's sidecars: about 275 KB a blob
//! drops   nothing: what is kept no longer is null
//! source  `eth_getBlobSidecars` and `eth_getBlobSidecarByTxHash` of BSC, `anvil_getBlobByHash` and
//!         `anvil_getBlobsByTransactionHash` of Foundry; geth has no method for them, its consensus client serves them:
//!         `getBlobs` of the beacon API

use std::net::IpAddr;
use std::sync::Arc;

use alloy_eips::eip4844::Bytes48;
use alloy_primitives::B256;
use hearth_evm::blobs::{SharedSidecar, Sidecar};
use hearth_evm::block::Block;
use hearth_serve::http::StatusCode;

use super::{Api, Caller};
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::params::{BlockId, Params};

const NULL: &str = "null";
/// Bytes that an abbreviated blob shows.
const PREFIX: usize = 32;

/// Whether blobs are returned whole, or only their first bytes.
type FullBlobs = bool;

fn proofs(sidecar: &Sidecar) -> &[Bytes48] {
    match sidecar {
        Sidecar::Eip4844(sidecar) => &sidecar.proofs,
        Sidecar::Eip7594(sidecar) => &sidecar.cell_proofs,
    }
}

/// Appends the contents of several sidecars, one after the other, as fields of an object.
pub(super) fn push_parts(object: &mut Object<'_>, sidecars: &[SharedSidecar], whole: FullBlobs) {
    object.array("blobs", sidecars.iter().flat_map(|sidecar| sidecar.blobs()), |out, blob| {
        let bytes = blob.as_slice();
        json::push_data(out, if whole { bytes } else { &bytes[..PREFIX] });
    });
    object.array("commitments", sidecars.iter().flat_map(|sidecar| sidecar.commitments()), |out, commitment| {
        json::push_data(out, commitment.as_slice());
    });
    object.array("proofs", sidecars.iter().flat_map(|sidecar| proofs(sidecar)), |out, proof| {
        json::push_data(out, proof.as_slice());
    });
}

fn push_sidecar(object: &mut Object<'_>, block: &Block, index: usize, sidecar: &SharedSidecar, whole: FullBlobs) {
    object.object("blobSidecar", |object| push_parts(object, std::slice::from_ref(sidecar), whole));
    object.data("blockHash", block.hash.as_slice());
    object.quantity("blockNumber", block.number());
    object.data("txHash", block.txs[index].hash.as_slice());
    object.quantity("txIndex", index as u64);
}

impl Api {
    /// Returns the kept sidecars of a block.
    fn sidecars_of(&self, id: BlockId, whole: FullBlobs) -> Result<String, Failure> {
        let Some(block) = self.block(id)? else { return Ok(NULL.into()) };
        let kept = self.chain.pool().sidecars();
        let with_blobs = block.txs.iter().enumerate().filter(|(_, tx)| tx.envelope.is_eip4844());
        let found = with_blobs.filter_map(|(index, tx)| Some((index, kept.get(&tx.hash)?)));
        Ok(json::array(found, |out, (index, sidecar)| {
            json::push_object(out, |object| push_sidecar(object, &block, index, &sidecar, whole));
        }))
    }

    /// Returns the sidecar of a transaction in a block.
    fn sidecar_of(&self, hash: &B256, whole: FullBlobs) -> String {
        let Some((block, index)) = self.chain.tx(hash) else { return NULL.into() };
        let Some(sidecar) = self.chain.pool().sidecars().get(hash) else { return NULL.into() };
        json::object(|object| push_sidecar(object, &block, index, &sidecar, whole))
    }
}

/// Parses a block id of the beacon API; a slot is a block's number here, and a root its hash.
fn beacon_id(text: &str) -> Option<BlockId> {
    match text {
        "head" => Some(BlockId::Latest),
        "genesis" => Some(BlockId::Earliest),
        "finalized" => Some(BlockId::Finalized),
        root if root.starts_with("0x") => root.parse().ok().map(BlockId::Hash),
        slot => slot.parse().ok().map(BlockId::Number),
    }
}

impl Api {
    /// Answers the beacon API's `getBlobs` for a block: the HTTP status and the JSON.
    pub(crate) async fn beacon_blobs(self: &Arc<Self>, address: IpAddr, id: &str) -> (StatusCode, String) {
        let refuse = |status: StatusCode, why: &str| {
            let text = json::object(|object| {
                object.decimal("code", status.as_u16().into());
                object.text("message", why);
            });
            (status, text)
        };
        if !self.rate.admits(address, 1) {
            return refuse(StatusCode::TOO_MANY_REQUESTS, "too many requests");
        }
        let Some(id) = beacon_id(id) else {
            return refuse(StatusCode::BAD_REQUEST, "invalid block id: head, genesis, finalized, a number or a hash");
        };
        let api = Arc::clone(self);
        match self.heavy.run(move |_| api.blobs_of(id)).await {
            Ok(Some(text)) => (StatusCode::OK, text),
            Ok(None) => refuse(StatusCode::NOT_FOUND, "there is no such block, or its blobs are kept no longer"),
            Err(why) => refuse(StatusCode::SERVICE_UNAVAILABLE, why.message()),
        }
    }

    /// Returns all blobs of a block, if all are kept.
    fn blobs_of(&self, id: BlockId) -> Result<Option<String>, Failure> {
        let Some(block) = self.block(id)? else { return Ok(None) };
        let kept = self.chain.pool().sidecars();
        let with_blobs = block.txs.iter().filter(|tx| tx.envelope.is_eip4844());
        let sidecars: Option<Vec<_>> = with_blobs.map(|tx| kept.get(&tx.hash)).collect();
        let Some(sidecars) = sidecars else { return Ok(None) };
        let is_final = block.number() <= self.chain.synced();
        Ok(Some(json::object(|object| {
            object.flag("execution_optimistic", false);
            object.flag("finalized", is_final);
            let blobs = sidecars.iter().flat_map(|sidecar| sidecar.blobs());
            object.array("data", blobs, |out, blob| json::push_data(out, blob.as_slice()));
        })))
    }
}

impl Caller<'_> {
    /// Answers BSC's methods. The second parameter, `false`, shortens each blob to 32 bytes.
    pub(super) async fn blob_sidecars(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let whole = params.optional::<bool>(1)?.unwrap_or(true);
        let api = Arc::clone(self.api);
        if method == "eth_getBlobSidecarByTxHash" {
            let hash: B256 = params.required(0)?;
            return self.api.heavy.run(move |_| Ok(api.sidecar_of(&hash, whole))).await;
        }
        let id: BlockId = params.required(0)?;
        self.api.heavy.run(move |_| api.sidecars_of(id, whole)).await
    }

    /// Answers Foundry's methods: the blob of a versioned hash, or those of a transaction, which may be pending.
    pub(super) async fn anvil_blobs(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let hash: B256 = params.at_most(1)?.required(0)?;
        let by_transaction = method == "anvil_getBlobsByTransactionHash";
        let api = Arc::clone(self.api);
        let answer = move |_| {
            let kept = api.chain.pool().sidecars();
            Ok(if by_transaction {
                let sidecar = kept.get(&hash);
                let push = |out: &mut String, blob: &alloy_eips::eip4844::Blob| json::push_data(out, blob.as_slice());
                sidecar.map_or_else(|| NULL.into(), |sidecar| json::array(sidecar.blobs(), push))
            } else {
                let found = kept.find_blob(&hash);
                found.map_or_else(|| NULL.into(), |(sidecar, index)| json::data(sidecar.blobs()[index].as_slice()))
            })
        };
        self.api.heavy.run(answer).await
    }
}
