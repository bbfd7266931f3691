//! A block in progress: its changes overlay the set, and are committed or dropped as a whole.

use alloy_primitives::B256;
use hearth_crypto::keccak::keccak256;

use super::Ledger;
use super::set::{OverlaidSet, Overlay, Set, Totals, commitment};
use crate::asset::{Asset, AssetId};
use crate::lattice::Lattice;
use crate::output::{OutPoint, Output};
use crate::prism::{Incoming, Withdrawal};
use crate::rules::{self, Refusal, prism_out_point};
use crate::tx::SharedTx;

/// The most bytes of transactions of this ledger in a block.
pub const BLOCK_BYTES: usize = 4 << 20;

/// A block in work. Dropping it is its undoing.
pub struct Session {
    pub(super) ledger: Ledger,
    /// Version of the set that it is based on.
    pub(super) version: u64,
    pub(super) overlay: Overlay,
    pub(super) sum: Lattice,
    pub(super) totals: Totals,
    pub(super) header: B256,
    /// The totals that `header` stands for.
    pub(super) before: Totals,
    pub(super) txs: Vec<SharedTx>,
    pub(super) incoming: Vec<Incoming>,
    withdrawals: Vec<Withdrawal>,
    room: usize,
}

impl Session {
    pub(super) fn over(ledger: Ledger, version: u64, set: &Set) -> Self {
        Self {
            ledger,
            version,
            overlay: Overlay::default(),
            sum: set.sum.clone(),
            totals: set.totals,
            header: set.commitment(),
            before: set.totals,
            txs: Vec::new(),
            incoming: Vec::new(),
            withdrawals: Vec::new(),
            room: BLOCK_BYTES,
        }
    }

    /// Executes transactions in order; a rejected one has no effect. A transaction may spend an output of an earlier
    /// one. Call this before [`Session::receive`].
    pub fn apply(&mut self, txs: &[SharedTx]) -> Vec<Result<(), Refusal>> {
        let ledger = self.ledger.clone();
        let state = ledger.read();
        self.apply_over(&state.set, txs)
    }

    pub(super) fn apply_over(&mut self, set: &Set, txs: &[SharedTx]) -> Vec<Result<(), Refusal>> {
        assert!(self.incoming.is_empty(), "this ledger's transactions come before the EVM's");
        let verdicts: Vec<_> = txs.iter().map(|tx| self.apply_one(set, tx)).collect();
        self.header = commitment(&self.sum, &self.totals);
        self.before = self.totals;
        verdicts
    }

    fn apply_one(&mut self, set: &Set, tx: &SharedTx) -> Result<(), Refusal> {
        let room = self.room.checked_sub(tx.raw.len()).ok_or(Refusal::Room)?;
        let effects = rules::check(tx, &OverlaidSet { set, overlay: &self.overlay })?;
        self.room = room;
        for at in &tx.payload.inputs {
            self.spend(set, at);
        }
        for (index, output) in tx.payload.outputs.iter().enumerate() {
            self.create(tx.out_point(index), output.clone());
        }
        if let Some((id, asset)) = effects.asset {
            self.change_asset(set, id, asset);
        }
        if let Some((address, units)) = effects.withdrawal {
            self.withdrawals.push(Withdrawal { index: self.totals.withdrawals, address, units });
            self.totals.withdrawals += 1;
            self.totals.withdrawn += u128::from(units);
        }
        self.totals.burnt += u128::from(tx.payload.fee);
        self.totals.history = B256::new(keccak256(&[self.totals.history.0, tx.id.0].concat()));
        self.txs.push(tx.clone());
        Ok(())
    }

    fn spend(&mut self, set: &Set, at: &OutPoint) {
        let output = self.overlay.created.remove(at).unwrap_or_else(|| {
            let output = set.output(at).expect("it was looked up").clone();
            self.overlay.spent.insert(*at, output.clone());
            output
        });
        self.sum.subtract(&output.element(at));
        self.totals.outputs -= 1;
        if output.asset.is_native() {
            self.totals.native -= u128::from(output.amount);
        }
    }

    fn create(&mut self, at: OutPoint, output: Output) {
        self.sum.add(&output.element(&at));
        self.totals.outputs += 1;
        if output.asset.is_native() {
            self.totals.native += u128::from(output.amount);
        }
        self.overlay.created.insert(at, output);
    }

    fn change_asset(&mut self, set: &Set, id: AssetId, asset: Asset) {
        if let Some(before) = self.overlay.assets.get(&id).or_else(|| set.asset(&id)) {
            self.sum.subtract(&before.element(&id));
        }
        self.sum.add(&asset.element(&id));
        self.overlay.assets.insert(id, asset);
    }

    /// Makes the outputs that the EVM's transactions of the same block, number `number`, have paid for.
    pub fn receive(&mut self, number: u64, incoming: &[Incoming]) {
        for one in incoming {
            let at = prism_out_point(self.ledger.chain_id(), number, &one.transaction, one.log);
            self.totals.received += u128::from(one.amount);
            let memo = Default::default();
            self.create(at, Output { asset: AssetId::NATIVE, amount: one.amount, owner: one.owner, memo });
            self.totals.history = B256::new(keccak256(&[self.totals.history.0, at.transaction.0].concat()));
        }
        self.incoming.extend_from_slice(incoming);
    }

    /// Returns the commitment to the set after this ledger's transactions and before the transfers from the EVM: it
    /// goes into the block's header (`parentBeaconBlockRoot`). With the receipts' root, which commits to the contract's
    /// logs, it commits to the block's whole effect here.
    pub fn commitment(&self) -> B256 {
        self.header
    }

    /// Returns the block's credits to EVM accounts, in order.
    pub fn withdrawals(&self) -> &[Withdrawal] {
        &self.withdrawals
    }

    /// Returns the accepted transactions, in order.
    pub fn transactions(&self) -> &[SharedTx] {
        &self.txs
    }

    /// Returns the totals after the block.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Whether the block leaves this ledger as it was.
    pub fn is_empty(&self) -> bool {
        self.txs.is_empty() && self.incoming.is_empty()
    }
}
