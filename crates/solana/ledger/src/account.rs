//! An account: lamports, owner, data.
//!
//! memory  80 bytes; copies share the data, and an account without data allocates nothing

use std::sync::Arc;

use hearth_wire::Pubkey;
use hearth_wire::consts::SYSTEM_PROGRAM;

use crate::rent::RENT_EXEMPT_EPOCH;

/// An account in the cluster's format. The default is the state of an unused address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Balance in lamports; 0 if the account does not exist.
    pub lamports: u64,
    /// The epoch in which rent is next due; [`RENT_EXEMPT_EPOCH`] if never.
    pub rent_epoch: u64,
    /// The only program that may debit the account and change its data.
    pub owner: Pubkey,
    /// Data; `None` if empty. It is a vector in an `Arc`, as in the execution engine, so that neither side copies it
    /// for the other.
    data: Option<Arc<Vec<u8>>>,
    /// Whether the data is a program.
    pub executable: bool,
}

const _: () = assert!(size_of::<Account>() <= 80);

impl Default for Account {
    fn default() -> Self {
        Self::wallet(0)
    }
}

impl Account {
    /// An account of the system program, without data.
    #[inline]
    pub const fn wallet(lamports: u64) -> Self {
        Self { lamports, rent_epoch: RENT_EXEMPT_EPOCH, owner: SYSTEM_PROGRAM, data: None, executable: false }
    }

    /// An account with an owner and data.
    pub fn with_data(lamports: u64, owner: Pubkey, data: &[u8]) -> Self {
        let mut account = Self { owner, ..Self::wallet(lamports) };
        account.set_data(data);
        account
    }

    /// A native program, whose data is its name. The bank that adds it leaves its rent epoch at 0.
    pub fn native_program(name: &str) -> Self {
        let owner = hearth_wire::consts::NATIVE_LOADER;
        Self { executable: true, rent_epoch: 0, ..Self::with_data(1, owner, name.as_bytes()) }
    }

    /// The data; empty for a wallet.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.data.as_ref().map_or(&[], |data| data.as_slice())
    }

    /// The data as a shared pointer; `None` for a wallet.
    #[inline]
    pub fn shared_data(&self) -> Option<&Arc<Vec<u8>>> {
        self.data.as_ref()
    }

    /// Replaces the data with a copy of these bytes.
    pub fn set_data(&mut self, data: &[u8]) {
        self.data = (!data.is_empty()).then(|| Arc::new(data.to_vec()));
    }

    /// Replaces the data with a vector that others may share.
    #[inline]
    pub fn set_shared_data(&mut self, data: Arc<Vec<u8>>) {
        self.data = (!data.is_empty()).then_some(data);
    }

    /// Whether the system program owns it.
    #[inline]
    pub fn is_system_owned(&self) -> bool {
        self.owner == SYSTEM_PROGRAM
    }
}
