//! The lab: programs that drive and measure a node from outside, over what it serves to everybody.
//!
//! Nothing here knows the node's insides: the same load drives ours and any other.

pub mod etl;
pub mod load;
pub mod tune;
