//! A run of a program, whatever is studied by it: it is ended whole, and which program it was is known.

pub mod identity;
pub mod process;
