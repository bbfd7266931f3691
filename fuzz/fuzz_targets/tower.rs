//! `cargo +nightly fuzz run tower`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hearth_fuzz::tower(bytes));
