//! Whole nodes of a cluster in one thread, on virtual time, with faults drawn from a seed.
//!
//! reads   a seed, or a plan of faults
//! writes  what happened: a digest, counts, the first broken invariant; files of the nodes, in folders that are removed
//! memory  the nodes', and the packets under way
//! source  TigerBeetle's simulator, for the idea; `docs/simulation.md`
//!
//! A node here has every tile of a node in a cluster, on real links, but for the sockets and the metrics: a [`net`]
//! tile hands datagrams to a [`network`] that delays, loses and doubles them. Its [`disk`] loses what was not synced
//! when the power goes. The walk: [`plan`] (what shall go wrong) → [`world`] (time, and who is turned when) → [`node`]
//! (a node from its folder, by the code that starts a real one) → [`check`] (what must hold) → [`shrink`] (a smaller
//! plan that fails likewise). [`clients`] send what succeeds, fails and cannot land, and move [`stake`]; [`snapshots`]
//! are taken and used. [`session`] runs one node again with what it received, here or in a real cluster.

pub mod bounds;
pub mod check;
pub mod clients;
pub mod digest;
pub mod disk;
pub mod fees;
pub mod hostile;
pub mod net;
pub mod network;
pub mod node;
pub mod plan;
pub mod runs;
pub mod session;
pub mod shrink;
pub mod snapshots;
pub mod stake;
pub mod trace;
pub mod values;
pub mod versions;
pub mod votes;
pub mod world;
