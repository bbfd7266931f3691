//! The strict parser: a single pass that finds the offsets and checks every rule.
//!
//! reads   untrusted bytes
//! writes  a [`Layout`]
//! drops   what breaks a rule, at its offset
//! source  `sanitize` of `solana-message` 4.2 (legacy and version 0) and of `VersionedTransaction`

use super::{Layout, Version};
use crate::compact::{self, CompactError};
use crate::consts::{MAX_ACCOUNT_INDEXES, PACKET_DATA_SIZE};

/// Bit that distinguishes a versioned message from the signer count of a legacy one.
const VERSION_PREFIX: u8 = 0x80;

/// Why bytes are not a valid transaction, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {offset})")]
pub struct ParseError {
    /// The rule that is violated.
    pub kind: ParseErrorKind,
    /// Offset of the offending field from the transaction's first byte.
    pub offset: u16,
}

/// A rule of the transaction format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseErrorKind {
    /// More than 1232 bytes.
    #[error("longer than a packet may be")]
    TooLong,
    /// The bytes end within a field.
    #[error("ends within a field")]
    Truncated,
    /// A length that is not in its shortest encoding, or over 65,535.
    #[error("bad compact-u16")]
    CompactU16,
    /// No signature, or more than can ever fit (128 and more).
    #[error("bad signature count")]
    SignatureCount,
    /// A message version other than legacy and 0.
    #[error("unsupported version")]
    UnsupportedVersion,
    /// The header requires a different number of signatures than there are.
    #[error("signature count differs from the header's")]
    SignatureCountMismatch,
    /// The fee payer would be read-only.
    #[error("no writable signer")]
    NoWritableSigner,
    /// Signers and read-only accounts together exceed the accounts.
    #[error("header counts exceed the accounts")]
    HeaderCounts,
    /// Over 256 accounts, lookups included.
    #[error("too many accounts")]
    TooManyAccounts,
    /// A program index that is the fee payer's (0), beyond the static accounts, or from a lookup.
    #[error("bad program index")]
    ProgramIndex,
    /// An account index beyond all accounts.
    #[error("account index out of range")]
    AccountIndex,
    /// A lookup table from which nothing is loaded.
    #[error("empty address table lookup")]
    EmptyLookup,
    /// Bytes after the transaction's end.
    #[error("trailing bytes")]
    TrailingBytes,
}

#[cold]
fn fail<T>(kind: ParseErrorKind, offset: usize) -> Result<T, ParseError> {
    // Offsets are below 1232 + 3, the size of the window that is parsed.
    Err(ParseError { kind, offset: offset as u16 })
}

#[inline]
pub(super) fn parse_exact(bytes: &[u8]) -> Result<Layout, ParseError> {
    if bytes.len() > PACKET_DATA_SIZE {
        return fail(ParseErrorKind::TooLong, PACKET_DATA_SIZE);
    }
    let (layout, end) = parse_window(bytes)?;
    if end != bytes.len() {
        return fail(ParseErrorKind::TrailingBytes, end);
    }
    Ok(layout)
}

#[inline]
pub(super) fn parse_prefix(bytes: &[u8]) -> Result<(Layout, usize), ParseError> {
    match bytes.get(..PACKET_DATA_SIZE) {
        None => parse_window(bytes),
        Some(window) => parse_window(window).map_err(|error| match error.kind {
            // Truncated by the window, not by the end of the bytes.
            ParseErrorKind::Truncated if bytes.len() > PACKET_DATA_SIZE => {
                ParseError { kind: ParseErrorKind::TooLong, ..error }
            }
            _ => error,
        }),
    }
}

/// Reads the compact-u16 at `at`: its value and the offset after it.
#[inline(always)]
fn length(bytes: &[u8], at: usize) -> Result<(usize, usize), ParseError> {
    match compact::read(bytes, at) {
        Ok((value, next)) => Ok((usize::from(value), next)),
        Err(CompactError::Truncated) => fail(ParseErrorKind::Truncated, bytes.len()),
        Err(CompactError::Invalid) => fail(ParseErrorKind::CompactU16, at),
    }
}

fn parse_window(bytes: &[u8]) -> Result<(Layout, usize), ParseError> {
    use ParseErrorKind::*;
    let Some(&signature_count) = bytes.first() else { return fail(Truncated, 0) };
    if signature_count == 0 || signature_count >= 0x80 {
        return fail(SignatureCount, 0);
    }
    let message = 1 + 64 * usize::from(signature_count);

    let Some(&prefix) = bytes.get(message) else { return fail(Truncated, bytes.len()) };
    let (version, header) = match prefix {
        0..VERSION_PREFIX => (Version::Legacy, message),
        VERSION_PREFIX => (Version::V0, message + 1),
        _ => return fail(UnsupportedVersion, message),
    };
    let Some(&[required, readonly_signed, readonly_unsigned]) = bytes.get(header..header + 3) else {
        return fail(Truncated, bytes.len());
    };
    if required != signature_count {
        return fail(SignatureCountMismatch, header);
    }
    if readonly_signed >= required {
        return fail(NoWritableSigner, header + 1);
    }

    let (account_count, account_keys) = length(bytes, header + 3)?;
    if account_count > MAX_ACCOUNT_INDEXES {
        return fail(TooManyAccounts, header + 3);
    }
    if usize::from(required) + usize::from(readonly_unsigned) > account_count {
        return fail(HeaderCounts, header + 2);
    }
    let blockhash_end = account_keys + 32 * account_count + 32;
    if blockhash_end > bytes.len() {
        return fail(Truncated, bytes.len());
    }

    let (instruction_count, instructions) = length(bytes, blockhash_end)?;
    let (mut at, top_account) = parse_instructions(bytes, instructions, instruction_count, account_count)?;

    let mut layout = Layout {
        message: message as u16,
        account_keys: account_keys as u16,
        instructions: instructions as u16,
        lookups: at as u16,
        instruction_count: instruction_count as u16,
        loaded_writable_count: 0,
        loaded_readonly_count: 0,
        signature_count,
        readonly_signed_count: readonly_signed,
        readonly_unsigned_count: readonly_unsigned,
        account_count: account_count as u8,
        lookup_count: 0,
        version,
    };
    if version == Version::V0 {
        at = parse_lookups(bytes, at, &mut layout)?;
    }
    let total = account_count + usize::from(layout.loaded_writable_count) + usize::from(layout.loaded_readonly_count);
    if usize::from(top_account.index) >= total {
        return fail(AccountIndex, top_account.list);
    }
    Ok((layout, at))
}

/// The greatest account index in the instructions, and the offset of its list. The number of accounts is known only
/// after the lookups, which come last.
struct TopAccount {
    index: u8,
    list: usize,
}

/// Parses `count` instructions from `at` on; returns their end.
#[inline(always)]
fn parse_instructions(
    bytes: &[u8],
    mut at: usize,
    count: usize,
    account_count: usize,
) -> Result<(usize, TopAccount), ParseError> {
    let mut top = TopAccount { index: 0, list: at };
    for _ in 0..count {
        let Some(&program) = bytes.get(at) else { return fail(ParseErrorKind::Truncated, bytes.len()) };
        if program == 0 || usize::from(program) >= account_count {
            return fail(ParseErrorKind::ProgramIndex, at);
        }
        let (len, accounts) = length(bytes, at + 1)?;
        let Some(indexes) = bytes.get(accounts..accounts + len) else {
            return fail(ParseErrorKind::Truncated, bytes.len());
        };
        let index = indexes.iter().fold(0, |top, &index| top.max(index));
        if index > top.index {
            top = TopAccount { index, list: accounts };
        }
        let (len, data) = length(bytes, accounts + len)?;
        at = data + len;
        if at > bytes.len() {
            return fail(ParseErrorKind::Truncated, bytes.len());
        }
    }
    Ok((at, top))
}

/// Parses the lookups of a version 0 message; returns the message's end.
fn parse_lookups(bytes: &[u8], at: usize, layout: &mut Layout) -> Result<usize, ParseError> {
    let (count, mut at) = length(bytes, at)?;
    layout.lookups = at as u16;
    let (mut writable, mut readonly) = (0, 0);
    for _ in 0..count {
        let table = at;
        let (len, indexes) = length(bytes, table + 32)?;
        writable += len;
        let (readonly_len, indexes) = length(bytes, indexes + len)?;
        readonly += readonly_len;
        at = indexes + readonly_len;
        if at > bytes.len() {
            return fail(ParseErrorKind::Truncated, bytes.len());
        }
        if len + readonly_len == 0 {
            return fail(ParseErrorKind::EmptyLookup, table);
        }
        if usize::from(layout.account_count) + writable + readonly > MAX_ACCOUNT_INDEXES {
            return fail(ParseErrorKind::TooManyAccounts, table);
        }
    }
    // A lookup takes at least 35 bytes, so 1232 bytes contain at most 35 of them.
    layout.lookup_count = count as u8;
    layout.loaded_writable_count = writable as u16;
    layout.loaded_readonly_count = readonly as u16;
    Ok(at)
}
