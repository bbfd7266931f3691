//! A legacy or version 0 transaction in wire format: strict parsing, views without copies.
//!
//! reads   the bytes of one transaction (or of one at the front of more bytes, in an entry)
//! memory  a `Txn` is a slice and 20 bytes of offsets, `Copy`; nothing is allocated
//! drops   what the cluster would refuse, each with a [`ParseErrorKind`] and a byte offset
//! source  `solana-transaction` 4.1 and `solana-message` 4.2: deserialisation and `sanitize`, which are the oracles in
//!         `tests/wire/sdk_differential.rs`
//!
//! ```text
//! signature count  compact-u16 ┐
//! signatures       64 B each   ┘
//! version prefix   0x80, version 0 only            ┐
//! header           required, read-only signed,     │
//!                  read-only unsigned              │
//! accounts         compact-u16, 32 B each          │ the message:
//! recent blockhash 32 B                            │ what is signed
//! instructions     compact-u16, each: program u8,  │
//!                  accounts (compact-u16, u8 each),│
//!                  data (compact-u16, bytes)       │
//! lookups          compact-u16, each: table 32 B,  │
//!                  writable, readonly, version 0   ┘
//! ```

mod locks;
mod parse;

pub use parse::{ParseError, ParseErrorKind};

use crate::compact;
use crate::consts::{Hash, MAX_ACCOUNTS_PER_INSTRUCTION, MAX_INSTRUCTIONS, Pubkey, Signature};

/// The message version of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// No version prefix, no lookup tables.
    Legacy,
    /// Version 0, with lookup tables.
    V0,
}

/// A parsed transaction: a view of its bytes. It obeys every rule of the cluster that can be checked without accounts
/// and signature verification.
#[derive(Clone, Copy, Debug)]
pub struct Txn<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

/// Offsets of the transaction's parts, from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    message: u16,
    account_keys: u16,
    instructions: u16,
    lookups: u16,
    instruction_count: u16,
    loaded_writable_count: u16,
    loaded_readonly_count: u16,
    signature_count: u8,
    readonly_signed_count: u8,
    readonly_unsigned_count: u8,
    account_count: u8,
    lookup_count: u8,
    version: Version,
}

const _: () = assert!(size_of::<Layout>() == 20);

impl<'a> Txn<'a> {
    /// Parses the bytes of exactly one transaction, at most 1232.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        parse::parse_exact(bytes).map(|layout| Self { bytes, layout })
    }

    /// Parses the transaction at the front of `bytes`, as in an entry, where no length precedes it. Its length is that
    /// of [`Txn::bytes`].
    #[inline]
    pub fn parse_prefix(bytes: &'a [u8]) -> Result<Self, ParseError> {
        parse::parse_prefix(bytes).map(|(layout, end)| Self { bytes: &bytes[..end], layout })
    }

    /// The whole transaction in wire format.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The signatures, one for each required signer, in the order of the accounts; at least one.
    #[inline]
    pub fn signatures(&self) -> &'a [Signature] {
        self.bytes[1..usize::from(self.layout.message)].as_chunks().0
    }

    /// The fee payer's signature, which identifies the transaction.
    #[inline]
    pub fn first_signature(&self) -> &'a Signature {
        &self.signatures()[0]
    }

    /// The signed bytes, version prefix included.
    #[inline]
    pub fn message(&self) -> &'a [u8] {
        &self.bytes[usize::from(self.layout.message)..]
    }

    /// The version of the message: legacy, or 0 with lookup tables.
    #[inline]
    pub fn version(&self) -> Version {
        self.layout.version
    }

    /// The static accounts (those of lookup tables follow in the numbering): signers first, writable before read-only
    /// in each half. The first is the fee payer.
    #[inline]
    pub fn account_keys(&self) -> &'a [Pubkey] {
        let start = usize::from(self.layout.account_keys);
        self.bytes[start..start + 32 * usize::from(self.layout.account_count)].as_chunks().0
    }

    /// The account that pays the fee; a writable signer.
    #[inline]
    pub fn fee_payer(&self) -> &'a Pubkey {
        &self.account_keys()[0]
    }

    /// The keys that must have signed, in the order of [`Txn::signatures`].
    #[inline]
    pub fn signer_keys(&self) -> &'a [Pubkey] {
        &self.account_keys()[..usize::from(self.layout.signature_count)]
    }

    /// The blockhash, or the nonce's value, that bounds the transaction's lifetime.
    #[inline]
    pub fn recent_blockhash(&self) -> &'a Hash {
        let start = usize::from(self.layout.account_keys) + 32 * usize::from(self.layout.account_count);
        let (hash, _) = self.bytes[start..].split_first_chunk().expect("parsing has seen the blockhash");
        hash
    }

    /// The number of accounts, including those loaded from lookup tables: 1..=256.
    #[inline]
    pub fn account_count(&self) -> usize {
        usize::from(self.layout.account_count) + self.loaded_count()
    }

    /// The number of accounts loaded from lookup tables.
    #[inline]
    pub fn loaded_count(&self) -> usize {
        usize::from(self.layout.loaded_writable_count) + usize::from(self.layout.loaded_readonly_count)
    }

    /// The number of accounts loaded writable from lookup tables; in the numbering they come right after the static
    /// accounts, before the read-only ones.
    #[inline]
    pub fn loaded_writable_count(&self) -> usize {
        usize::from(self.layout.loaded_writable_count)
    }

    /// Whether account `index` must sign.
    #[inline]
    pub fn is_signer(&self, index: usize) -> bool {
        index < usize::from(self.layout.signature_count)
    }

    /// Whether the message requests account `index` as writable. The cluster may still demote it: see
    /// [`Txn::write_locks`].
    /// it: see [`Txn::write_locks`].
    #[inline]
    pub fn is_writable(&self, index: usize) -> bool {
        let layout = &self.layout;
        let (signers, accounts) = (usize::from(layout.signature_count), usize::from(layout.account_count));
        if index < signers {
            index < signers - usize::from(layout.readonly_signed_count)
        } else if index < accounts {
            index < accounts - usize::from(layout.readonly_unsigned_count)
        } else {
            index - accounts < usize::from(layout.loaded_writable_count)
        }
    }

    /// The number of instructions, possibly 0.
    #[inline]
    pub fn instruction_count(&self) -> usize {
        usize::from(self.layout.instruction_count)
    }

    /// The instructions, in execution order.
    #[inline]
    pub fn instructions(&self) -> Instructions<'a> {
        Instructions {
            bytes: self.bytes,
            at: usize::from(self.layout.instructions),
            left: self.layout.instruction_count,
        }
    }

    /// The lookup tables; none in a legacy transaction.
    #[inline]
    pub fn address_table_lookups(&self) -> AddressTableLookups<'a> {
        AddressTableLookups { bytes: self.bytes, at: usize::from(self.layout.lookups), left: self.layout.lookup_count }
    }

    /// Whether there are at most [`MAX_INSTRUCTIONS`] instructions, each with at most [`MAX_ACCOUNTS_PER_INSTRUCTION`]
    /// accounts. These rules are newer than the format: the cluster applies them by feature, outside parsing, and
    /// refuses blocks that violate them.
    pub fn within_instruction_limits(&self) -> bool {
        self.instruction_count() <= MAX_INSTRUCTIONS
            && self.instructions().all(|instruction| instruction.accounts.len() <= MAX_ACCOUNTS_PER_INSTRUCTION)
    }

    /// Whether a static account is repeated. The cluster parses such a transaction and refuses it when it locks the
    /// accounts (`AccountLoadedTwice`), then including lookups.
    pub fn has_duplicate_accounts(&self) -> bool {
        let keys = self.account_keys();
        keys.iter().enumerate().any(|(index, key)| keys[index + 1..].contains(key))
    }
}

/// One instruction: a view of the transaction's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompiledInstruction<'a> {
    /// The program's index among the static accounts; never 0.
    pub program_id_index: u8,
    /// Indices of the accounts passed to the program; each is below [`Txn::account_count`].
    pub accounts: &'a [u8],
    /// The bytes that the program reads as its arguments.
    pub data: &'a [u8],
}

/// Iterator over the instructions of a [`Txn`].
#[derive(Clone, Debug)]
pub struct Instructions<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u16,
}

impl<'a> Iterator for Instructions<'a> {
    type Item = CompiledInstruction<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let program_id_index = *self.bytes.get(self.at)?;
        let (accounts, at) = short_bytes(self.bytes, self.at + 1)?;
        let (data, at) = short_bytes(self.bytes, at)?;
        self.at = at;
        Some(CompiledInstruction { program_id_index, accounts, data })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for Instructions<'_> {}

/// One lookup: accounts loaded from an on-chain table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressTableLookup<'a> {
    /// The address of the table's account.
    pub account_key: &'a Pubkey,
    /// Table indices of the accounts loaded writable.
    pub writable_indexes: &'a [u8],
    /// Table indices of the accounts loaded read-only.
    pub readonly_indexes: &'a [u8],
}

/// Iterator over the lookups of a [`Txn`].
#[derive(Clone, Debug)]
pub struct AddressTableLookups<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u8,
}

impl<'a> Iterator for AddressTableLookups<'a> {
    type Item = AddressTableLookup<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (account_key, _) = self.bytes.get(self.at..)?.split_first_chunk()?;
        let (writable_indexes, at) = short_bytes(self.bytes, self.at + 32)?;
        let (readonly_indexes, at) = short_bytes(self.bytes, at)?;
        self.at = at;
        Some(AddressTableLookup { account_key, writable_indexes, readonly_indexes })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for AddressTableLookups<'_> {}

/// A compact-u16 length and that many bytes; the offset after them.
#[inline(always)]
fn short_bytes(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let (len, at) = compact::read(bytes, at).ok()?;
    let end = at + usize::from(len);
    Some((bytes.get(at..end)?, end))
}

#[cfg(test)]
mod tests;
