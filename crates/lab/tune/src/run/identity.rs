//! What something was measured on, and which file it was: values of another do not belong beside it.
//!
//! reads   `/proc/cpuinfo`, files
//! writes  words, digests
//! memory  a file at a time

use std::env;
use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

/// The machine: what its processor is, and how many cores it has.
pub fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let of = |line: &str| Some(line.strip_prefix(name)?.split_once(':')?.1.trim().to_owned());
        text.lines().find_map(of)
    };
    // x86 says its model, ARM the numbers of maker and part.
    let names = ["model name", "CPU implementer", "CPU part"];
    let model: Vec<String> = names.into_iter().filter_map(field).collect();
    let cores = text.lines().filter(|line| line.starts_with("processor")).count();
    format!("{}, {cores} cores", if model.is_empty() { env::consts::ARCH.into() } else { model.join(" ") })
}

/// The digest of a file.
pub fn digest(path: &Path) -> io::Result<String> {
    let mut all = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut all)?;
    Ok(hex(&all.finalize()))
}

/// A digest of texts, none of which runs into the next.
pub fn digest_of(parts: &[&str]) -> String {
    let mut all = Sha256::new();
    for part in parts {
        all.update((part.len() as u64).to_le_bytes());
        all.update(part);
    }
    hex(&all.finalize())
}

/// Bytes as hexadecimal digits.
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
