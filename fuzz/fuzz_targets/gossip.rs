//! `cargo +nightly fuzz run gossip`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hearth_fuzz::gossip(bytes));
