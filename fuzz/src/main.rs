//! The program of cargo-fuzz: one target, chosen by `HEARTH_FUZZ_TARGET`, under coverage guidance.
//!
//! ```text
//! HEARTH_FUZZ_TARGET=txn cargo +nightly fuzz run hearth-fuzz fuzz/corpus/txn
//! ```
//!
//! One program has all targets, since each program links the whole node. On the stable compiler the test of this
//! package runs the targets; this program then only says so.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| (hearth_fuzz::selected().run)(input));

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("built without cargo-fuzz; `cargo test --release --workspace --test fuzz` runs the targets");
    std::process::exit(2);
}
