//! What Agave's own bank wrote: ledgers come to the same here, and archives start nodes.

mod archives;
mod recorded;
