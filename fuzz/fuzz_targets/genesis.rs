//! `cargo +nightly fuzz run genesis`
#![no_main]

#[path = "../src/genesis.rs"]
mod genesis;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    genesis::fuzz_genesis(bytes);
});
