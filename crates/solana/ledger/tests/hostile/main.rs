//! What others wrote: archives and genesis files, whole and damaged.

mod archives;
mod genesis;
