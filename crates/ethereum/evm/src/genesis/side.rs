//! The side ledger's part of a genesis.
//!
//! reads   `hearthOutputs` of a genesis: `{"version": 1, "items": ["0x…", …]}`, that ledger's items in their order
//! writes  the same
//! memory  the items, as long as the genesis is held
//! source  our own; geth's genesis has no such field, and block zero's header commits to it as other headers do

use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use serde::Deserialize;
use serde_json::{Value, json};

use super::GenesisError;
use crate::side::SideKind;

/// The key in a genesis.
pub const KEY: &str = "hearthOutputs";
/// The version of this form.
const VERSION: u64 = 1;

/// The side ledger that a chain carries, and its first items.
#[derive(Clone, Debug)]
pub struct SideGenesis {
    kind: &'static dyn SideKind,
    items: Arc<[Bytes]>,
    commitment: B256,
}

/// There is only one kind, so the items decide equality.
impl PartialEq for SideGenesis {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl Eq for SideGenesis {}

#[derive(Deserialize)]
struct Form {
    version: u64,
    #[serde(default)]
    items: Vec<Bytes>,
}

impl SideGenesis {
    /// A ledger that begins empty.
    pub fn empty(kind: &'static dyn SideKind) -> Self {
        Self { kind, items: Arc::default(), commitment: B256::ZERO }
    }

    /// Creates a ledger that begins with the set of these items.
    ///
    /// # Errors
    /// The set is invalid.
    pub fn of(kind: &'static dyn SideKind, items: Vec<Bytes>) -> Result<Self, GenesisError> {
        let commitment = kind.commitment_of(&items).map_err(GenesisError::Side)?;
        Ok(Self { kind, items: items.into(), commitment })
    }

    pub(super) fn from_json(kind: &'static dyn SideKind, form: Value) -> Result<Self, GenesisError> {
        let form: Form = serde_json::from_value(form)?;
        if form.version != VERSION {
            return Err(GenesisError::Side(format!("it is of version {}, and {VERSION} is known", form.version)));
        }
        Self::of(kind, form.items)
    }

    /// Returns the kind, which opens the ledger.
    pub fn kind(&self) -> &'static dyn SideKind {
        self.kind
    }

    /// Returns whether it begins empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the items that it begins with; none if it begins empty.
    pub fn items(&self) -> &[Bytes] {
        &self.items
    }

    /// Returns block zero's commitment to it: zeros if it begins empty, as on every Ethereum chain.
    pub fn commitment(&self) -> B256 {
        self.commitment
    }
}

/// A set as a genesis holds it.
pub(super) fn to_json(items: &[Bytes]) -> Value {
    json!({ "version": VERSION, "items": items })
}
