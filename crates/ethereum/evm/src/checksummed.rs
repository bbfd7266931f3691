//! Small text files whose last line is a checksum of the lines before: the chain's forks, its beginning, its clock.
//!
//! reads   a file's bytes
//! writes  a file's text
//! memory  the text
//!
//! A start depends on each of these lines. A flipped digit would be another chain's rules or time, so a file with a
//! wrong checksum counts as damaged, whatever its lines say.

/// Before the checksum in the last line.
const CHECKSUM: &str = "crc ";

/// Returns the lines with their checksum below them.
pub(crate) fn with_checksum(lines: &str) -> String {
    format!("{lines}{CHECKSUM}{:08x}\n", crc32fast::hash(lines.as_bytes()))
}

/// Returns the lines without their checksum, or `None` if that is missing or wrong.
pub(crate) fn verified(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let lines = &text[..text.rfind(CHECKSUM)?];
    (with_checksum(lines) == text).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_damage_is_noticed() {
        let whole = with_checksum("first line\nvalue 7\n");
        assert_eq!(verified(whole.as_bytes()), Some("first line\nvalue 7\n"));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert_eq!(verified(&bytes), None, "bit {bit} of byte {at}");
            }
            assert_eq!(verified(&whole.as_bytes()[..at]), None, "cut at byte {at}");
        }
        assert_eq!(verified(&[0; 40]), None);
    }
}
