//! Profiles as Go's servers tell them, as folded stacks.
//!
//! reads   gzip of a `Profile` of pprof, of anybody
//! writes  lines, `caller;callee 17`, the heaviest first
//! memory  what is sent and 64 MiB unpacked; folded lines of 32 MiB
//! drops   what is on a stack beyond 128 functions; the lightest stacks beyond 10,000, as one line
//! source  pprof's proto/profile.proto; the encoding of protocol buffers; RFC 1952

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use flate2::read::GzDecoder;

/// The most that a profile may be, unpacked.
const UNPACKED_MAX: u64 = 64 << 20;
/// The most that all its stacks may be, as text.
const FOLDED_MAX: usize = 32 << 20;
const STACKS_MAX: usize = 10_000;
const DEPTH_MAX: usize = 128;
/// The longest name of a function, in characters.
const NAME_MAX: usize = 200;

/// Why there are no stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PprofError {
    /// It does not unpack.
    #[error("it is no gzip")]
    Gzip,
    /// It is longer than it may be.
    #[error("it is larger than a profile may be")]
    TooLarge,
    /// A field ends beyond the message, or is of no kind that there is.
    #[error("it is no profile: byte {0} is no field")]
    Field(usize),
    /// It names something that it does not have.
    #[error("it is no profile: it names {0} that it has not")]
    Unknown(&'static str),
}

/// One field of a message.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => 0,
        }
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The fields of a message, in its order.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn varint(&mut self) -> Result<u64, PprofError> {
        let (begin, mut value) = (self.at, 0u64);
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(PprofError::Field(begin))?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(PprofError::Field(begin))
    }

    fn take(&mut self, size: u64) -> Result<&'a [u8], PprofError> {
        let wrong = PprofError::Field(self.at);
        let end = usize::try_from(size).ok().and_then(|size| self.at.checked_add(size)).ok_or(wrong)?;
        let bytes = self.bytes.get(self.at..end).ok_or(wrong)?;
        self.at = end;
        Ok(bytes)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), PprofError> {
        let begin = self.at;
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Bytes(self.take(8)?),
            2 => {
                let size = self.varint()?;
                Value::Bytes(self.take(size)?)
            }
            5 => Value::Bytes(self.take(4)?),
            _ => return Err(PprofError::Field(begin)),
        };
        Ok((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), PprofError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            // What follows has no beginning.
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

/// Numbers of a repeated field: one by one, or several together.
fn numbers(value: &Value<'_>, into: &mut Vec<u64>) -> Result<(), PprofError> {
    match value {
        Value::Number(number) => into.push(*number),
        Value::Bytes(bytes) => {
            let mut packed = Fields::of(bytes);
            while packed.at < bytes.len() {
                into.push(packed.varint()?);
            }
        }
    }
    Ok(())
}

/// A profile, as it names things.
#[derive(Default)]
struct Profile<'a> {
    samples: Vec<&'a [u8]>,
    /// Functions of a location, the innermost first.
    locations: HashMap<u64, Vec<u64>>,
    /// Where the name of a function is.
    functions: HashMap<u64, u64>,
    words: Vec<&'a [u8]>,
}

impl<'a> Profile<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, PprofError> {
        let mut profile = Self::default();
        for field in Fields::of(bytes) {
            let (number, value) = field?;
            match number {
                2 => profile.samples.push(value.bytes()),
                4 => profile.location(value.bytes())?,
                5 => profile.function(value.bytes())?,
                6 => profile.words.push(value.bytes()),
                _ => {}
            }
        }
        Ok(profile)
    }

    fn location(&mut self, bytes: &[u8]) -> Result<(), PprofError> {
        let (mut id, mut functions) = (0, vec![]);
        for field in Fields::of(bytes) {
            match field? {
                (1, value) => id = value.number(),
                (4, line) => {
                    for field in Fields::of(line.bytes()) {
                        if let (1, function) = field? {
                            functions.push(function.number());
                        }
                    }
                }
                _ => {}
            }
        }
        self.locations.insert(id, functions);
        Ok(())
    }

    fn function(&mut self, bytes: &[u8]) -> Result<(), PprofError> {
        let (mut id, mut name) = (0, 0);
        for field in Fields::of(bytes) {
            match field? {
                (1, value) => id = value.number(),
                (2, value) => name = value.number(),
                _ => {}
            }
        }
        self.functions.insert(id, name);
        Ok(())
    }

    /// A function's name without the way to its package.
    fn name(&self, function: u64) -> Result<String, PprofError> {
        let index = self.functions.get(&function).ok_or(PprofError::Unknown("a function"))?;
        let word = usize::try_from(*index).ok().and_then(|index| self.words.get(index));
        let name = String::from_utf8_lossy(word.ok_or(PprofError::Unknown("a word"))?);
        let tail = name.rsplit('/').next().unwrap_or_default();
        let plain = tail.chars().take(NAME_MAX).map(|c| match c {
            ';' => ',',
            c if c.is_whitespace() || c.is_control() => '_',
            c => c,
        });
        Ok(plain.collect())
    }

    /// How often which stack was seen: locations, the innermost first.
    fn stacks(&self) -> Result<BTreeMap<Vec<u64>, u64>, PprofError> {
        let mut stacks: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for sample in &self.samples {
            let (mut locations, mut values) = (vec![], vec![]);
            for field in Fields::of(sample) {
                match field? {
                    (1, value) => numbers(&value, &mut locations)?,
                    (2, value) => numbers(&value, &mut values)?,
                    _ => {}
                }
            }
            // The first value is the number of samples, the second their time. More than that many there are not.
            let count = values.first().copied().unwrap_or_default().min(u64::from(u32::MAX));
            if count > 0 {
                let sum = stacks.entry(locations).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        Ok(stacks)
    }
}

/// The folded stacks of a profile as `/debug/pprof/profile` answers, with their samples.
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
    let profile = Profile::of(bytes)?;
    let (mut names, mut lines, mut size) = (HashMap::new(), BTreeMap::new(), 0);
    for (locations, count) in profile.stacks()? {
        let mut line = String::new();
        let mut depth = 0;
        for location in locations.iter().rev() {
            let functions = profile.locations.get(location).ok_or(PprofError::Unknown("a place"))?;
            for function in functions.iter().rev() {
                depth += 1;
                if depth > DEPTH_MAX {
                    break;
                }
                let name: &String = match names.entry(*function) {
                    std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::hash_map::Entry::Vacant(new) => new.insert(profile.name(*function)?),
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

/// Lines of stacks, the heaviest first; the lightest together.
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

    /// `geth --dev --pprof`, one second of it under load.
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

    /// `main` calls at place 1 `f`, into which `g` is inlined.
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
    fn what_is_not_there_is_not_looked_for() {
        let sample = |location| bytes(2, &[number(1, location), number(2, 1)].concat());
        assert_eq!(folded(&sample(9)), Err(PprofError::Unknown("a place")));
        let location = bytes(4, &[number(1, 9), bytes(4, &number(1, 5))].concat());
        assert_eq!(folded(&[sample(9), location].concat()), Err(PprofError::Unknown("a function")));
        assert_eq!(folded(&[0x1f, 0x8b, 1]), Err(PprofError::Gzip));
        assert_eq!(folded(&[0x12, 0x05, 1]), Err(PprofError::Field(2)));
        assert_eq!(folded(&[0x13]), Err(PprofError::Field(0)));
        assert_eq!(folded(&[0xff; 12]), Err(PprofError::Field(0)));
        assert!(folded(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
        std::io::copy(&mut std::io::repeat(0x12).take(UNPACKED_MAX + 10), &mut packed).unwrap();
        assert_eq!(folded(&packed.finish().unwrap()), Err(PprofError::TooLarge));
        // Few bytes that stand for a lot of text.
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
