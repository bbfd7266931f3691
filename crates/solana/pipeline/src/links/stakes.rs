//! The stakes of an epoch, in pieces, for tiles that must not reach into the ledger.
//!
//! reads   messages
//! writes  messages
//! memory  the link's

use hearth_wire::Pubkey;

use super::codec::{Reader, writer};

/// Identities that a table names at most. Smaller stakes beyond count as none; Solana's cluster has some 1,500.
pub const STAKED_MAX: usize = 16_384;

/// Bytes of an identity and its stake.
const ENTRY: usize = 32 + 8;

/// A piece of the table of one epoch. The pieces of a table come in order; one whose `first` is 0 begins a new table.
#[derive(Clone, Copy, Debug)]
pub struct StakesPiece<'a> {
    /// Identities in the pieces before.
    pub first: usize,
    /// Identities in the whole table, 1 to [`STAKED_MAX`].
    pub total: usize,
    entries: &'a [u8],
}

impl<'a> StakesPiece<'a> {
    /// Identities in one piece at most.
    pub const LEN_MAX: usize = 100;
    /// Longest message, bytes.
    pub const MTU: usize = 4 + 4 + Self::LEN_MAX * ENTRY;

    /// Writes the piece of `table` that begins at `first`; returns its length in bytes.
    pub fn write(buffer: &mut [u8], table: &[(Pubkey, u64)], first: usize) -> usize {
        let piece = &table[first..table.len().min(first + Self::LEN_MAX)];
        let w = &mut writer(buffer);
        w.u32(first as u32).u32(table.len() as u32);
        for (identity, lamports) in piece {
            w.put(identity).u64(*lamports);
        }
        w.at
    }

    /// Reads the message.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        Self { first: r.u32() as usize, total: r.u32() as usize, entries: r.0 }
    }

    /// Its identities, each with its lamports.
    pub fn entries(&self) -> impl Iterator<Item = (Pubkey, u64)> + 'a {
        self.entries.chunks_exact(ENTRY).map(|entry| {
            let mut r = Reader(entry);
            (*r.bytes(), r.u64())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_table_again() {
        for length in [1, StakesPiece::LEN_MAX, 2 * StakesPiece::LEN_MAX + 1] {
            let table: Vec<(Pubkey, u64)> = (0..length).map(|n| ([n as u8; 32], n as u64)).collect();
            let mut found = vec![];
            while found.len() < length {
                let mut buffer = [0; StakesPiece::MTU];
                let bytes = StakesPiece::write(&mut buffer, &table, found.len());
                let piece = StakesPiece::read(&buffer[..bytes]);
                assert_eq!(piece.first, found.len());
                assert_eq!(piece.total, length);
                found.extend(piece.entries());
            }
            assert_eq!(found, table);
        }
    }
}
