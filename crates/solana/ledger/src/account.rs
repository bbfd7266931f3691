//! One account: lamports, owner, data.
//!
//! reads   nothing
//! writes  nothing
//! memory  80 bytes; data is shared between copies, and an account without data allocates nothing

use std::sync::Arc;

use hearth_wire::Pubkey;
use hearth_wire::consts::SYSTEM_PROGRAM;

use crate::rent::RENT_EXEMPT_EPOCH;

/// An account as the cluster keeps it. The default is what an address holds before it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Balance.
    pub lamports: u64,
    /// The epoch in which rent is due next; [`RENT_EXEMPT_EPOCH`] when never.
    pub rent_epoch: u64,
    /// The program that alone may debit the account and change its data.
    pub owner: Pubkey,
    /// Data; `None` when empty. A vector in it, as the execution engine keeps it, so that neither
    /// copies it for the other.
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

    /// An account of `owner` with `data`.
    pub fn with_data(lamports: u64, owner: Pubkey, data: &[u8]) -> Self {
        let mut account = Self { owner, ..Self::wallet(lamports) };
        account.set_data(data);
        account
    }

    /// A program that is part of the node: its data is its name.
    pub fn native_program(name: &str) -> Self {
        let owner = hearth_wire::consts::NATIVE_LOADER;
        Self { executable: true, ..Self::with_data(1, owner, name.as_bytes()) }
    }

    /// The data, empty for a wallet.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.data.as_ref().map_or(&[], |data| data.as_slice())
    }

    /// The data to be shared; `None` for a wallet.
    #[inline]
    pub fn shared_data(&self) -> Option<&Arc<Vec<u8>>> {
        self.data.as_ref()
    }

    /// Replaces the data.
    pub fn set_data(&mut self, data: &[u8]) {
        self.data = (!data.is_empty()).then(|| Arc::new(data.to_vec()));
    }

    /// Replaces the data by what others may share.
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
