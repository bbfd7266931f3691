//! Nodes with both ledgers that end at any moment: processes that are killed, and a simulated one.

mod kill_both;
mod simulation;
