//! Identifies the machine and the files of a measurement, so that values of another are not mixed in.
//!
//! reads   `/proc/cpuinfo`, files
//! writes  words, digests
//! memory  one file at a time

use std::env;
use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Describes the machine: its processor model and number of cores.
pub fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let of = |line: &str| Some(line.strip_prefix(name)?.split_once(':')?.1.trim().to_owned());
        text.lines().find_map(of)
    };
    // x86 reports its model, ARM the numbers of implementer and part.
    let names = ["model name", "CPU implementer", "CPU part"];
    let model: Vec<String> = names.into_iter().filter_map(field).collect();
    let cores = text.lines().filter(|line| line.starts_with("processor")).count();
    format!("{}, {cores} cores", if model.is_empty() { env::consts::ARCH.into() } else { model.join(" ") })
}

/// Returns the digest of a file.
pub fn digest(path: &Path) -> io::Result<String> {
    let mut all = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut all)?;
    Ok(hex(&all.finalize()))
}

/// Returns a digest of texts, with their lengths so that their boundaries count.
pub fn digest_of(parts: &[&str]) -> String {
    let mut all = Sha256::new();
    for part in parts {
        all.update((part.len() as u64).to_le_bytes());
        all.update(part);
    }
    hex(&all.finalize())
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name() {
        assert!(machine().ends_with(" cores") && !machine().starts_with(','), "{}", machine());
    }

    #[test]
    fn texts_do_not_run_into_one_another() {
        assert_ne!(digest_of(&["ab", "c"]), digest_of(&["a", "bc"]));
        assert_eq!(digest_of(&["ab", "c"]).len(), 64);
    }
}
