//! The part of a genesis that is the side ledger's.
//!
//! reads   `hearthOutputs` of a genesis: `{"version": 1, "items": ["0x…", …]}`, the items of that ledger in their order
//! writes  the same
//! memory  the items, as long as the genesis is held
//! source  our own; in geth's form of a genesis nothing is known of it, and block zero's header commits to it where the
//!         other headers do

use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use serde::Deserialize;
use serde_json::{Value, json};

use super::GenesisError;
use crate::side::SideKind;

/// Where it is in a genesis.
pub const KEY: &str = "hearthOutputs";
/// Of this form.
const VERSION: u64 = 1;

/// Which side ledger a chain carries, and what that begins with.
#[derive(Clone, Debug)]
pub struct SideGenesis {
    kind: &'static dyn SideKind,
    items: Arc<[Bytes]>,
    commitment: B256,
}

/// There is one kind: what a ledger begins with tells two of them apart.
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

    /// A ledger that begins with the set of these items.
    ///
    /// # Errors
    /// There can be no such set.
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

    /// What opens the ledger.
    pub fn kind(&self) -> &'static dyn SideKind {
        self.kind
    }

    /// Whether it begins empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The set that it begins with; nothing where it begins empty.
    pub fn items(&self) -> &[Bytes] {
        &self.items
    }

    /// What block zero's header says of it: zeros where it begins empty, as on every chain of Ethereum's.
    pub fn commitment(&self) -> B256 {
        self.commitment
    }
}

/// A set as a genesis holds it.
pub(super) fn to_json(items: &[Bytes]) -> Value {
    json!({ "version": VERSION, "items": items })
}
