//! `cargo +nightly fuzz run shred`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hearth_fuzz::shred(bytes));
