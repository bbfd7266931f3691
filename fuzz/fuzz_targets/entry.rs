//! `cargo +nightly fuzz run entry`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hearth_fuzz::entry(bytes));
