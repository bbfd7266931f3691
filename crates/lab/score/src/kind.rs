//! The kinds of scores, and their units.

use hearth_stats::unit::Dimension;
use serde::{Serialize, Serializer};

use hearth_command::did_you_mean::meant;

/// The unit of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes per second; more is better.
    BytesPerSecond,
    /// Operations per second; more is better.
    PerSecond,
    /// Nanoseconds; less is better.
    Nanoseconds,
}

impl Unit {
    /// Returns the unit's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::BytesPerSecond => "bytes/s",
            Self::PerSecond => "1/s",
            Self::Nanoseconds => "ns",
        }
    }

    /// Returns the dimension that a requirement in this unit must have, and how many of this unit make one of that
    /// dimension's base unit.
    pub fn dimension(self) -> (Dimension, f64) {
        match self {
            Self::BytesPerSecond => (Dimension::ByteRate, 1.0),
            Self::PerSecond => (Dimension::Number, 1.0),
            Self::Nanoseconds => (Dimension::Seconds, 1e9),
        }
    }

    /// Returns an example of a value.
    pub fn example(self) -> &'static str {
        match self {
            Self::BytesPerSecond => "1000 MiB/s",
            Self::PerSecond => "50000 /s",
            Self::Nanoseconds => "200 ns",
        }
    }

    /// Formats a value for people, with one or two decimals, which give three digits for small values.
    pub fn text(self, value: f64) -> String {
        const KIB: f64 = 1024.0;
        match self {
            Self::BytesPerSecond if value >= 100.0 * KIB * KIB * KIB => {
                format!("{:.2} GiB/s", value / (KIB * KIB * KIB))
            }
            Self::BytesPerSecond if value >= 10.0 * KIB * KIB => format!("{:.2} MiB/s", value / (KIB * KIB)),
            Self::BytesPerSecond => format!("{:.2} KiB/s", value / KIB),
            Self::PerSecond if value >= 1000.0 => format!("{value:.0} /s"),
            Self::PerSecond => format!("{value:.2} /s"),
            Self::Nanoseconds => format!("{value:.1} ns"),
        }
    }
}

/// A kind of score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// BLAKE2-256 of 32 KiB.
    Blake2,
    /// BLAKE2-256 on eight threads, the mean of each.
    Blake2Parallel,
    /// 2048 verifications of SR25519; the score counts the messages' bytes.
    Sr25519Verify,
    /// 64 MiB copied from one buffer in memory to another.
    Copy,
    /// 64 MiB written and synced.
    DiskSequential,
    /// 16384 × 2 KiB written in random order and synced.
    DiskRandom,
    /// ed25519 signatures of Merkle roots, one by one, as the sign tile makes them.
    Ed25519Sign,
    /// ed25519 signatures of transfers, verified in bursts as the verify tile does.
    Ed25519Verify,
    /// Hashes of the proof-of-history chain.
    Sha256Chain,
    /// Reed-Solomon parity of 32 data shreds.
    ReedSolomon,
    /// Senders recovered from Ethereum signatures.
    Secp256k1Recover,
    /// Datagrams between threads over the loopback.
    UdpLoopback,
    /// Latency of a cache line from one core to another.
    CoreToCore,
}

impl Kind {
    /// All kinds, in the order in which they are measured.
    pub const ALL: [Self; 13] = [
        Self::Blake2,
        Self::Blake2Parallel,
        Self::Sr25519Verify,
        Self::Copy,
        Self::DiskSequential,
        Self::DiskRandom,
        Self::Ed25519Sign,
        Self::Ed25519Verify,
        Self::Sha256Chain,
        Self::ReedSolomon,
        Self::Secp256k1Recover,
        Self::UdpLoopback,
        Self::CoreToCore,
    ];

    /// Returns the name in options, requirements and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blake2 => "blake2-256",
            Self::Blake2Parallel => "blake2-256-parallel-8",
            Self::Sr25519Verify => "sr25519-verify",
            Self::Copy => "copy",
            Self::DiskSequential => "disk-sequential-write",
            Self::DiskRandom => "disk-random-write",
            Self::Ed25519Sign => "ed25519-sign",
            Self::Ed25519Verify => "ed25519-verify",
            Self::Sha256Chain => "sha256-chain",
            Self::ReedSolomon => "reed-solomon-32-32",
            Self::Secp256k1Recover => "secp256k1-recover",
            Self::UdpLoopback => "udp-loopback",
            Self::CoreToCore => "core-to-core",
        }
    }

    /// Returns the unit in which the score's value counts.
    pub fn unit(self) -> Unit {
        match self {
            Self::Ed25519Sign
            | Self::Ed25519Verify
            | Self::Sha256Chain
            | Self::Secp256k1Recover
            | Self::UdpLoopback => Unit::PerSecond,
            Self::CoreToCore => Unit::Nanoseconds,
            _ => Unit::BytesPerSecond,
        }
    }

    /// Returns whether it writes to a disk.
    pub fn is_of_disk(self) -> bool {
        matches!(self, Self::DiskSequential | Self::DiskRandom)
    }

    /// Returns whether CPU time can replace wall time if others use the cores: only for one thread that computes
    /// without waiting. Eight threads wait for each other if there are fewer cores, and their CPU time would ignore
    /// that.
    pub fn has_cpu_time(self) -> bool {
        !self.is_of_disk() && !matches!(self, Self::Blake2Parallel | Self::UdpLoopback | Self::CoreToCore)
    }

    /// Finds the score of a name.
    ///
    /// # Errors
    /// The error lists or suggests the known names.
    pub fn find(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            match meant(name, &names) {
                Some(near) => format!("no score is called `{name}`; did you mean `{near}`?"),
                None => format!("no score is called `{name}`; there are {}", names.join(", ")),
            }
        })
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use hearth_stats::unit;

    use super::*;

    #[test]
    fn a_name_is_found_and_a_typo_is_reported() {
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.name()), Ok(kind));
        }
        assert_eq!(
            Kind::find("sr25519-verfy"),
            Err("no score is called `sr25519-verfy`; did you mean `sr25519-verify`?".into())
        );
        assert!(Kind::find("everything").expect_err("none").ends_with("udp-loopback, core-to-core"));
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        for (unit, value, text) in [
            (Unit::BytesPerSecond, 1000.0 * 1048576.0, "1000.00 MiB/s"),
            (Unit::BytesPerSecond, 0.622675781 * 1048576.0, "637.62 KiB/s"),
            (Unit::BytesPerSecond, 11768.341 * 1048576.0, "11768.34 MiB/s"),
            (Unit::BytesPerSecond, 200.0 * 1073741824.0, "200.00 GiB/s"),
            (Unit::PerSecond, 81517.4, "81517 /s"),
            (Unit::PerSecond, 3.456, "3.46 /s"),
            (Unit::Nanoseconds, 93.25, "93.2 ns"),
        ] {
            assert_eq!(unit.text(value), text);
            for text in [text, unit.example()] {
                let (read, dimension) = unit::parse(text).expect("a value").expect("there");
                assert_eq!(dimension, unit.dimension().0, "{text}");
                assert!(read > 0.0);
            }
        }
    }
}
