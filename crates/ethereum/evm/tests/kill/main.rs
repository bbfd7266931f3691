//! Nodes that are killed at any moment, again and again: each test starts this program as the process that it kills.

mod ahead;
mod both;
