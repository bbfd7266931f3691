//! `cargo +nightly fuzz run repair`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hearth_fuzz::repair(bytes));
