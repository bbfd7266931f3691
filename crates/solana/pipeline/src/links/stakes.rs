//! stakes: the stakes of an epoch, in chunks, for tiles that must not access the ledger.
//!
//! reads   messages
//! writes  messages
//! memory  the link's

use hearth_wire::Pubkey;

use super::codec::{Reader, writer};

/// Maximum identities in a table. Smaller stakes beyond count as none; Solana's cluster has about 1,500.
pub const STAKED_MAX: usize = 16_384;

/// Bytes of an identity and its stake.
const ENTRY: usize = 32 + 8;

/// A chunk of the table of one epoch. The chunks of a table arrive in order; `first` = 0 starts a new table.
#[derive(Clone, Copy, Debug)]
pub struct StakesPiece<'a> {
    /// Number of identities in earlier chunks.
    pub first: usize,
    /// Number of identities in the whole table, 1 to [`STAKED_MAX`].
    pub total: usize,
    entries: &'a [u8],
}

impl<'a> StakesPiece<'a> {
    /// Maximum identities per chunk.
    pub const LEN_MAX: usize = 100;
    /// Maximum bytes of a message.
    pub const MTU: usize = 4 + 4 + Self::LEN_MAX * ENTRY;

    /// Writes the chunk of `table` that starts at `first`; returns its length in bytes.
    pub fn write(buffer: &mut [u8], table: &[(Pubkey, u64)], first: usize) -> usize {
        let piece = &table[first..table.len().min(first + Self::LEN_MAX)];
        let w = &mut writer(buffer);
        w.u32(first as u32).u32(table.len() as u32);
        for (identity, lamports) in piece {
            w.put(identity).u64(*lamports);
        }
        w.at
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        Self { first: r.u32() as usize, total: r.u32() as usize, entries: r.0 }
    }

    /// The identities of the chunk, each with its lamports.
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
