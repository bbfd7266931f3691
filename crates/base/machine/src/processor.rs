//! The processor: model, instructions that Hearth uses, hypervisor, clock.
//!
//! reads   `/proc/cpuinfo`, `/proc/device-tree/model`, `/sys/devices/system/cpu/cpu*/cpufreq`
//! source  cpufreq.rst, intel_pstate.rst of the kernel's documentation

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Root;

const FOLDER: &str = "/sys/devices/system/cpu";

/// Instruction sets: name, the kernel's flags (all are required), and what Hearth uses them for.
const INSTRUCTIONS: [(&str, &[&str], &str); 6] = [
    ("AVX2", &["avx2", "fma"], "ed25519 and Reed–Solomon in vector lanes"),
    ("AVX-512", &["avx512f", "avx512bw"], "SHA-256 of many messages at once"),
    ("AVX-512 IFMA", &["avx512ifma"], "ed25519 and secp256k1, eight signatures side by side"),
    ("SHA-NI", &["sha_ni"], "the SHA-256 chain of poh"),
    ("GFNI", &["gfni"], "Reed–Solomon"),
    ("SHA-2 of ARM", &["sha2"], "the SHA-256 chain of poh"),
];

/// Model, instruction sets and clock of the processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Processor {
    /// Model name, or the architecture if there is none.
    pub model: String,
    /// Architecture, such as `x86_64`.
    pub architecture: &'static str,
    /// Whether it is a hypervisor's, and so shared.
    pub is_guest: bool,
    /// Instructions that matter to us, those of other architectures left out.
    pub instructions: Vec<Instructions>,
    /// Cores by their frequency governor; empty where the kernel does not govern, as in most guests.
    pub governors: BTreeMap<String, Vec<usize>>,
    /// Whether a core may run above its nominal frequency; `None` if the kernel does not report it.
    pub boost: Option<bool>,
    /// The highest frequency of any core, kHz.
    pub frequency_khz_max: Option<u64>,
}

/// Whether some instructions are there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instructions {
    /// The name that people use, such as `AVX-512 IFMA`.
    pub name: &'static str,
    /// Whether every core has them.
    pub present: bool,
    /// What Hearth uses them for.
    pub used_for: &'static str,
}

impl Processor {
    /// Reads the processor from the kernel.
    pub fn read(root: &Root) -> Self {
        let info = root.text("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| info.lines().find_map(|line| value_of(line, name));
        // On ARM the name is the board's.
        let board = || root.text("/proc/device-tree/model").map(|text| text.trim_end_matches('\0').to_owned());
        let model = field("model name").map(str::to_owned).or_else(board);
        let features: Vec<&str> =
            field("flags").or_else(|| field("Features")).unwrap_or_default().split_whitespace().collect();
        let is_arm = field("flags").is_none() && field("Features").is_some();
        let instructions = INSTRUCTIONS.iter().filter(|(name, ..)| name.ends_with("ARM") == is_arm);
        let mut governors = BTreeMap::<String, Vec<usize>>::new();
        let (mut frequency_khz_max, frequency) =
            (None, |core: usize, file: &str| format!("{FOLDER}/cpu{core}/cpufreq/{file}"));
        for core in root.numbered(FOLDER, "cpu") {
            if let Some(governor) = root.text(frequency(core, "scaling_governor")) {
                governors.entry(governor).or_default().push(core);
            }
            frequency_khz_max = frequency_khz_max.max(root.value(frequency(core, "cpuinfo_max_freq")));
        }
        Self {
            model: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            architecture: std::env::consts::ARCH,
            is_guest: features.contains(&"hypervisor"),
            instructions: instructions
                .map(|&(name, words, used_for)| Instructions {
                    name,
                    present: words.iter().all(|word| features.contains(word)),
                    used_for,
                })
                .collect(),
            governors,
            boost: boost(root),
            frequency_khz_max,
        }
    }
}

/// Files that switch the boost, and their contents if it is on.
pub(crate) const BOOST: [(&str, &str); 2] =
    [("/sys/devices/system/cpu/intel_pstate/no_turbo", "0"), ("/sys/devices/system/cpu/cpufreq/boost", "1")];

fn boost(root: &Root) -> Option<bool> {
    BOOST.iter().find_map(|(path, on)| Some(root.text(path)? == *on))
}

fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then_some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, guest, server};

    fn has(processor: &Processor, name: &str) -> Option<bool> {
        processor.instructions.iter().find(|i| i.name == name).map(|i| i.present)
    }

    #[test]
    fn a_server_that_saves_power() {
        let processor = Processor::read(&server().root);
        assert_eq!(processor.model, "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz");
        assert!(!processor.is_guest);
        assert_eq!(processor.governors["powersave"].len(), 16);
        assert_eq!((processor.boost, processor.frequency_khz_max), (Some(false), Some(3_200_000)));
        assert_eq!((has(&processor, "AVX-512 IFMA"), has(&processor, "SHA-NI")), (Some(true), Some(true)));
        let ifma = processor.instructions.iter().find(|one| one.name == "AVX-512 IFMA").unwrap();
        assert_eq!(ifma.used_for, "ed25519 and secp256k1, eight signatures side by side");
    }

    #[test]
    fn a_guest_is_one_and_does_not_govern() {
        let processor = Processor::read(&guest().root);
        assert!(processor.is_guest && processor.governors.is_empty());
        assert_eq!((processor.boost, has(&processor, "AVX2")), (None, Some(true)));
        assert_eq!(has(&processor, "SHA-2 of ARM"), None);
    }

    #[test]
    fn a_board() {
        let processor = Processor::read(&board().root);
        assert_eq!(processor.model, "Raspberry Pi 4 Model B Rev 1.4");
        assert_eq!((has(&processor, "AVX2"), has(&processor, "SHA-2 of ARM")), (None, Some(false)));
        assert_eq!(processor.governors["ondemand"], [0, 1, 2, 3]);
    }
}
