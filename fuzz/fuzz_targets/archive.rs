//! `cargo +nightly fuzz run archive`
#![no_main]

#[path = "../src/archive.rs"]
mod archive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    archive::fuzz_archive(bytes);
});
