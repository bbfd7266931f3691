//! Converts profiles of Go servers to folded stacks.
//!
//! reads   a gzipped pprof `Profile` from an untrusted source
//! writes  lines, `caller;callee 17`, the heaviest first
//! memory  the answer; 64 MiB decompressed, 24 times that decoded if all samples are empty; folded lines of 32 MiB
//! drops   frames of a stack beyond 128; the lightest stacks beyond 10,000, merged into one line
//! source  pprof's proto/profile.proto; the encoding of protocol buffers; RFC 1952

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use flate2::read::GzDecoder;
use prost::Message;

/// The most bytes of a decompressed profile.
const UNPACKED_MAX: u64 = 64 << 20;
/// The most bytes of all its stacks as text.
const FOLDED_MAX: usize = 32 << 20;
const STACKS_MAX: usize = 10_000;
const DEPTH_MAX: usize = 128;
/// The longest function name, in characters.
const NAME_MAX: usize = 200;

/// Why a profile cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PprofError {
    /// The answer is not valid gzip.
    #[error("it is not gzip data")]
    Gzip,
    /// The profile exceeds the limits.
    #[error("it is larger than a profile may be")]
    TooLarge,
    /// A field extends beyond the message, or has another type.
    #[error("it is not a profile: {0}")]
    Decode(#[from] prost::DecodeError),
    /// The profile refers to an id that it does not define.
    #[error("it is not a profile: it refers to {0} that it lacks")]
    Unknown(&'static str),
}

/// `perftools.profiles.Profile`, limited to the fields that are read here.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    /// Strings; their bytes may be invalid UTF-8.
    #[prost(bytes = "vec", repeated, tag = "6")]
    string_table: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Locations, the innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    /// The number of samples, then their time.
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    /// The functions inlined at this location, the innermost first.
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    /// Index into the string table.
    #[prost(int64, tag = "2")]
    name: i64,
}

impl Profile {
    /// Counts how often each stack was sampled.
    fn stacks(&self) -> BTreeMap<&[u64], u64> {
        let mut stacks: BTreeMap<&[u64], u64> = BTreeMap::new();
        for sample in &self.sample {
            // No real profile has more samples than that.
            let count = sample.value.first().map_or(0, |count| (*count).clamp(0, i64::from(u32::MAX)) as u64);
            if count > 0 {
                let sum = stacks.entry(&sample.location_id).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        stacks
    }
}

/// Lookup tables for a profile's ids.
struct Tables<'a> {
    locations: HashMap<u64, &'a [Line]>,
    /// From a function's id to the index of its name.
    functions: HashMap<u64, i64>,
    strings: &'a [Vec<u8>],
}

impl<'a> Tables<'a> {
    fn of(profile: &'a Profile) -> Self {
        Self {
            locations: profile.location.iter().map(|location| (location.id, &location.line[..])).collect(),
            functions: profile.function.iter().map(|function| (function.id, function.name)).collect(),
            strings: &profile.string_table,
        }
    }

    /// Returns a function's name without the path of its package.
    fn name(&self, function: u64) -> Result<String, PprofError> {
        let index = self.functions.get(&function).ok_or(PprofError::Unknown("a function"))?;
        let word = usize::try_from(*index).ok().and_then(|index| self.strings.get(index));
        let name = String::from_utf8_lossy(word.ok_or(PprofError::Unknown("a word"))?);
        let tail = name.rsplit('/').next().unwrap_or_default();
        let plain = tail.chars().take(NAME_MAX).map(|c| match c {
            ';' => ',',
            c if c.is_whitespace() || c.is_control() => '_',
            c => c,
        });
        Ok(plain.collect())
    }
}

/// Converts an answer of `/debug/pprof/profile` to folded stacks with their samples.
pub fn folded(answer: &[u8]) -> Result<BTreeMap<String, u64>, PprofError> {
    let mut unpacked = vec![];
    let bytes = if answer.starts_with(&[0x1f, 0x8b]) {
        let read = GzDecoder::new(answer).take(UNPACKED_MAX + 1).read_to_end(&mut unpacked);
        read.map_err(|_| PprofError::Gzip)?;
        &unpacked[..]
    } else {
        answer
    };
    if bytes.len() as u64 > UNPACKED_MAX {
        return Err(PprofError::TooLarge);
    }
    let profile = Profile::decode(bytes)?;
    let tables = Tables::of(&profile);
    let (mut names, mut lines, mut size) = (HashMap::new(), BTreeMap::new(), 0);
    for (locations, count) in profile.stacks() {
        let mut line = String::new();
        let mut depth = 0;
        for location in locations.iter().rev() {
            let functions = tables.locations.get(location).ok_or(PprofError::Unknown("a place"))?;
            for Line { function_id } in functions.iter().rev() {
                depth += 1;
                if depth > DEPTH_MAX {
                    break;
                }
                let name: &String = match names.entry(*function_id) {
                    std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::hash_map::Entry::Vacant(new) => new.insert(tables.name(*function_id)?),
                };
                line += if line.is_empty() { "" } else { ";" };
                line += if name.is_empty() { "?" } else { name };
            }
        }
        size += line.len();
        if size > FOLDED_MAX {
            return Err(PprofError::TooLarge);
        }
        let sum: &mut u64 = lines.entry(if line.is_empty() { "?".into() } else { line }).or_default();
        *sum = sum.saturating_add(count);
    }
    Ok(lines)
}

/// Formats the stacks as lines, the heaviest first; the lightest are merged.
pub fn lines(stacks: &BTreeMap<String, u64>) -> String {
    let mut stacks: Vec<_> = stacks.iter().collect();
    stacks.sort_by_key(|(stack, count)| (std::cmp::Reverse(**count), *stack));
    let (kept, light) = stacks.split_at(stacks.len().min(STACKS_MAX));
    let mut text: String = kept.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect();
    let rest: u64 = light.iter().map(|(_, count)| **count).fold(0, u64::saturating_add);
    if rest > 0 {
        text += &format!("(seldom) {rest}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One second of `geth --dev --pprof` under load.
    const GETH: &[u8] = include_bytes!("pprof/geth.pb.gz");

    #[test]
    fn a_profile_of_geth_is_read() {
        let stacks = folded(GETH).unwrap();
        let samples: u64 = stacks.values().sum();
        assert!(samples > 20 && stacks.len() > 10, "{samples} samples of {} stacks", stacks.len());
        let text = lines(&stacks);
        assert!(text.contains("runtime.") && text.lines().all(|line| line.rsplit_once(' ').is_some()), "{text}");
        assert!(!text.contains("github.com/"), "{text}");
    }

    fn varint(mut value: u64) -> Vec<u8> {
        let mut bytes = vec![];
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    fn number(field: u64, value: u64) -> Vec<u8> {
        [varint(field << 3), varint(value)].concat()
    }

    fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
        [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
    }

    /// `main` calls `f` at location 1, and `g` is inlined into `f`.
    fn small() -> Vec<u8> {
        let location = |id, functions: &[u64]| {
            let lines = functions.iter().map(|function| bytes(4, &number(1, *function)));
            bytes(4, &[number(1, id), lines.collect::<Vec<_>>().concat()].concat())
        };
        let function = |id, name| bytes(5, &[number(1, id), number(2, name)].concat());
        let packed = bytes(2, &[bytes(1, &[2, 1]), bytes(2, &[7, 70])].concat());
        let apart = bytes(2, &[number(1, 1), number(2, 3)].concat());
        let words = ["", "x/y/pkg.main", "pkg.f; x", "pkg.g"].map(|word| bytes(6, word.as_bytes())).concat();
        let functions = [function(11, 1), function(12, 2), function(13, 3)].concat();
        [packed, apart, location(1, &[11]), location(2, &[13, 12]), functions, words].concat()
    }

    #[test]
    fn inlined_functions_have_their_places() {
        let stacks = folded(&small()).unwrap();
        assert_eq!(lines(&stacks), "pkg.main;pkg.f,_x;pkg.g 7\npkg.main 3\n");
    }

    #[test]
    fn dangling_profile_ids_are_errors() {
        let sample = |location| bytes(2, &[number(1, location), number(2, 1)].concat());
        assert_eq!(folded(&sample(9)), Err(PprofError::Unknown("a place")));
        let location = bytes(4, &[number(1, 9), bytes(4, &number(1, 5))].concat());
        assert_eq!(folded(&[sample(9), location].concat()), Err(PprofError::Unknown("a function")));
        assert_eq!(folded(&[0x1f, 0x8b, 1]), Err(PprofError::Gzip));
        for wrong in [&[0x12, 0x05, 1][..], &[0x13], &[0xff; 12]] {
            assert!(matches!(folded(wrong), Err(PprofError::Decode(_))), "{wrong:?}");
        }
        assert!(folded(&[]).unwrap().is_empty());
    }

    #[test]
    fn oversized_profile_is_refused() {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
        std::io::copy(&mut std::io::repeat(0x12).take(UNPACKED_MAX + 10), &mut packed).unwrap();
        assert_eq!(folded(&packed.finish().unwrap()), Err(PprofError::TooLarge));
        // A few bytes that expand to a lot of text.
        let word = vec![b'x'; 200];
        let function = bytes(5, &[number(1, 1), number(2, 0)].concat());
        let location = bytes(4, &[number(1, 1), bytes(4, &number(1, 1))].concat());
        let many: Vec<u8> = (1..2_500u64)
            .flat_map(|at| bytes(2, &[bytes(1, &vec![1; 200]), number(1, at), number(2, 1)].concat()))
            .collect();
        let places = (2..2_500u64).flat_map(|at| bytes(4, &number(1, at))).collect();
        assert_eq!(folded(&[many, location, places, function, bytes(6, &word)].concat()), Err(PprofError::TooLarge));
    }

    #[test]
    fn the_lightest_are_one_line() {
        let stacks = (0..STACKS_MAX as u64 + 5).map(|at| (format!("f{at}"), at + 1)).collect();
        let text = lines(&stacks);
        assert_eq!((text.lines().count(), text.lines().last()), (STACKS_MAX + 1, Some("(seldom) 15")));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = folded(&bytes);
        }

        #[test]
        fn no_change_of_a_profile_panics(at in 0usize..120, byte: u8, cut in 0usize..200) {
            let mut profile = small();
            let index = at % profile.len();
            profile[index] = byte;
            profile.truncate(profile.len().saturating_sub(cut % 20));
            if let Ok(stacks) = folded(&profile) {
                prop_assert!(lines(&stacks).lines().all(|line| line.rsplit_once(' ').is_some()));
            }
        }
    }
}
