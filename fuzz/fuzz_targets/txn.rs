//! `cargo +nightly fuzz run txn`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hearth_fuzz::txn(bytes));
