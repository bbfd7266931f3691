//! The parts of the lab with each other: loads on nodes that misbehave, searches for layouts, a real Redis.

mod layout;
mod load;
mod redis;
