//! A run of a program, whatever is studied by it: it is ended whole, and whether others disturbed it is known.

pub mod identity;
pub mod pace;
pub mod process;
pub mod quiet;
