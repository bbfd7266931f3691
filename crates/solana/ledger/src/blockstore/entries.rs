//! entries: what a block consists of.
//!
//! reads   the data of a block's FEC sets, in their order
//! drops   a block that does not parse to its end

use hearth_wire::entry::{Entries, Entry, EntryError};

use super::Block;

impl Block {
    /// The entries of all batches. Where the shreds say where batches end, bytes between a batch's last entry and its
    /// end are ignored, as in the cluster.
    ///
    /// # Errors
    /// A batch does not parse; the offset is relative to its start.
    pub fn entries(&self) -> Result<Vec<Entry<'_>>, EntryError> {
        let Some(ends) = &self.batch_ends else { return entries(&self.data) };
        let (mut all, mut start) = (vec![], 0);
        for end in ends {
            for entry in Entries::parse_prefix(&self.data[start..*end as usize])? {
                all.push(entry?);
            }
            start = *end as usize;
        }
        Ok(all)
    }
}

/// The entries of all batches of a block, one directly after the other.
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
