//! Compares transactions through the engine, as a bank tile runs them, with the bare engine.
//!
//! reads   the name filter
//! writes  one line per figure: medians over paired rounds, by the processor time of the threads, which other programs
//!         on the machine disturb little
//! memory  about 100 MB
//! source  goals: transfers at 0.8 of the engine's own rate, token transfers at 0.9, two threads at 1.8 times one
//!
//! Our side includes parsing, the checks on blockhash and status, and the account store, but not the bank hash; the
//! engine's own rate is for prepared transactions over a map of accounts.

mod load;
mod ours;
mod raw;

use load::Kind;

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let wanted = |name: &str| name.contains(&filter);
    for (name, kind, goal) in [("transfers", Kind::Transfer, 0.8), ("token transfers", Kind::Token, 0.9)] {
        if wanted(name) {
            ours::beside_raw(name, kind, goal);
        }
    }
    for (name, kind) in [("two threads: transfers", Kind::Transfer), ("two threads: token transfers", Kind::Token)] {
        if wanted(name) {
            ours::scaling(name, kind);
        }
    }
}
