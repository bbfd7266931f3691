//! entries: what a block consists of.
//!
//! reads   the data of a block's FEC sets, in their order
//! drops   a block that does not parse to its end

use hearth_wire::entry::{Entries, Entry, EntryError};

/// The entries of all batches of a block.
pub fn entries(data: &[u8]) -> Result<Vec<Entry<'_>>, EntryError> {
    let (mut all, mut rest) = (vec![], data);
    while !rest.is_empty() {
        let mut batch = Entries::parse_prefix(rest)?;
        for entry in &mut batch {
            all.push(entry?);
        }
        rest = batch.rest();
    }
    Ok(all)
}
