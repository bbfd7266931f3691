//! Inputs of several messages: each is its length, two bytes in little endian, and its bytes.
//!
//! A length beyond the end takes the rest, so that every input can be read.

/// The messages of an input, in order.
pub fn pieces(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = input.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (piece, after) = rest.split_at(length);
        input = after;
        Some(piece)
    })
}
