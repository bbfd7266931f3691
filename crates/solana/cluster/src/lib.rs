//! What nodes of a cluster are to one another: who is there and what each says, who sends which shred to whom, which
//! fork they agree on, what is between them where one machine has them all, and what comes of that in clusters that no
//! machine holds.

pub mod ancestors;
pub mod board;
pub mod consensus;
pub mod duplicate;
pub mod gossip;
pub mod links;
pub mod simulate;
pub mod turbine;
pub mod view;
