//! The set as it was after one block, read piece by piece while later blocks change it.
//!
//! reads   a piece of the set at a time, under the lock that readers share
//! memory  [`PIECE`] outputs, the assets, and the names of outputs that are made and spent while it runs
//! drops   the whole, with an error, where the ledger goes back meanwhile

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use alloy_primitives::B256;
use parking_lot::Mutex;

use super::dump::{Item, items};
use super::session::Session;
use super::set::Totals;
use super::{Ledger, LedgerError};
use crate::asset::{Asset, AssetId};
use crate::output::{OutPoint, Output};

/// Outputs read per acquisition of the lock.
const PIECE: usize = if cfg!(test) { 2 } else { 1024 };

/// Changes since a capture began.
#[derive(Default)]
pub(super) struct ChangesSince {
    spent: BTreeMap<OutPoint, Output>,
    made: HashSet<OutPoint>,
    went_back: bool,
}

impl ChangesSince {
    /// A block changes the set.
    pub(super) fn note(&mut self, session: &Session) {
        for (at, output) in &session.overlay.spent {
            if !self.made.remove(at) {
                self.spent.insert(*at, output.clone());
            }
        }
        self.made.extend(session.overlay.created.keys());
    }

    /// Notes that the set is being rebuilt.
    pub(super) fn go_back(&mut self) {
        self.went_back = true;
    }
}

/// The block that a set belongs to, and its header's commitment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAnchor {
    /// Height of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Commitment in the header: to the set before the block's transfers from the EVM.
    pub header: B256,
    /// Commitment to the set after the block.
    pub after: B256,
}

/// The set after a block.
pub struct Capture {
    pub(super) ledger: Ledger,
    pub(super) since: Arc<Mutex<ChangesSince>>,
    pub(super) footing: SetAnchor,
    pub(super) totals: Totals,
    /// The totals before the block's transfers from the EVM, and the outputs that these created.
    pub(super) before: (Totals, HashSet<OutPoint>),
    pub(super) assets: BTreeMap<AssetId, Asset>,
}

impl Capture {
    /// The block that the set belongs to.
    pub fn footing(&self) -> &SetAnchor {
        &self.footing
    }

    /// The set after the block.
    pub fn items(self) -> impl Iterator<Item = Result<Item, LedgerError>> {
        let Self { ledger, since, totals, assets, .. } = self;
        let outputs = Outputs { ledger, since, cursor: None, piece: VecDeque::new(), ended: false };
        items(totals, assets).map(Ok).chain(outputs)
    }

    /// Returns the set that the block's header commits to: before the block's transfers from the EVM, which follow from
    /// its receipts.
    pub fn items_of_header(self) -> impl Iterator<Item = Result<Item, LedgerError>> {
        let (totals, came) = self.before.clone();
        let is_there = move |item: &Result<Item, LedgerError>| match item {
            Ok(Item::Output(at, _)) => !came.contains(at),
            _ => true,
        };
        Self { totals, ..self }.items().filter(is_there)
    }
}

struct Outputs {
    ledger: Ledger,
    since: Arc<Mutex<ChangesSince>>,
    /// The last name that was looked at.
    cursor: Option<OutPoint>,
    piece: VecDeque<(OutPoint, Output)>,
    ended: bool,
}

impl Outputs {
    fn next_piece(&mut self) -> Result<(), LedgerError> {
        let state = self.ledger.read();
        let since = self.since.lock();
        if since.went_back {
            return Err(LedgerError::Stale);
        }
        let from = self.cursor.map_or(Unbounded, Excluded);
        let live: Vec<_> = state.set.outputs_after(self.cursor).take(PIECE).collect();
        let last = live.last().filter(|_| live.len() == PIECE).map(|(at, _)| **at);
        let mut piece: BTreeMap<OutPoint, Output> =
            live.into_iter().filter(|(at, _)| !since.made.contains(at)).map(|(at, one)| (*at, one.clone())).collect();
        let spent = since.spent.range((from, last.map_or(Unbounded, Included)));
        piece.extend(spent.map(|(at, output)| (*at, output.clone())));
        self.piece = piece.into_iter().collect();
        self.ended = last.is_none();
        self.cursor = last;
        Ok(())
    }
}

impl Iterator for Outputs {
    type Item = Result<Item, LedgerError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((at, output)) = self.piece.pop_front() {
                return Some(Ok(Item::Output(at, output)));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.next_piece() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}
