//! Keys of a terminal in raw mode, read by a separate thread.
//!
//! reads   standard input
//! writes  keys
//! memory  typed keys that were not processed yet
//! drops   sequences that are no key of this screen
//! source  ECMA-48 for control sequences, `terminfo` of xterm and its kin for what keys send
//!
//! A closed terminal returns end-of-file immediately, forever. The thread then ends and the screen is notified: a
//! reader that takes end-of-file for "nothing yet" would spin.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use ratatui::crossterm::event::KeyCode;

/// An event that the reading thread passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEvent {
    Key(KeyCode),
    /// Ctrl-C, which arrives as a key in raw mode.
    Interrupt,
}

/// The outcome of waiting for a key for a limited time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyInput {
    KeyEvent(KeyEvent),
    Nothing,
    /// The terminal is gone.
    Closed,
}

/// The receiver of key events.
#[derive(Debug)]
pub(super) struct Keys(Receiver<KeyEvent>);

impl Keys {
    /// Starts reading keys. The thread may still block in a read when the process ends.
    pub(super) fn of(mut input: impl Read + Send + 'static) -> std::io::Result<Self> {
        let (typed, keys) = channel();
        std::thread::Builder::new().name("keys".into()).spawn(move || {
            let mut bytes = [0; 256];
            loop {
                let count = match input.read(&mut bytes) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Ok(0) | Err(_) => return,
                    Ok(count) => count,
                };
                if parse(&bytes[..count]).into_iter().any(|key| typed.send(key).is_err()) {
                    return;
                }
            }
        })?;
        Ok(Self(keys))
    }

    pub(super) fn next(&self, within: Duration) -> KeyInput {
        match self.0.recv_timeout(within) {
            Ok(typed) => KeyInput::KeyEvent(typed),
            Err(RecvTimeoutError::Timeout) => KeyInput::Nothing,
            Err(RecvTimeoutError::Disconnected) => KeyInput::Closed,
        }
    }
}

/// Parses the keys in one read; a terminal sends the bytes of one key together.
fn parse(bytes: &[u8]) -> Vec<KeyEvent> {
    let mut keys = vec![];
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let key = match first {
            0x03 => {
                keys.push(KeyEvent::Interrupt);
                continue;
            }
            0x1b => {
                let (key, length) = escape(after);
                rest = &after[length..];
                key
            }
            b'\r' | b'\n' => Some(KeyCode::Enter),
            0x08 | 0x7f => Some(KeyCode::Backspace),
            0x20.. => {
                let length = (1..=4.min(1 + after.len())).find_map(|length| {
                    let text = bytes_from(bytes, after, length);
                    std::str::from_utf8(text).ok().and_then(|text| text.chars().next()).map(|letter| (letter, length))
                });
                length.map(|(letter, length)| {
                    rest = &after[length - 1..];
                    KeyCode::Char(letter)
                })
            }
            _ => None,
        };
        keys.extend(key.map(KeyEvent::Key));
    }
    keys
}

/// Returns `length` bytes, starting with the one before `after`.
fn bytes_from<'a>(bytes: &'a [u8], after: &[u8], length: usize) -> &'a [u8] {
    let at = bytes.len() - after.len() - 1;
    &bytes[at..at + length]
}

/// Parses a key that begins with an escape, and returns how many bytes follow it; a lone escape is a key itself.
fn escape(after: &[u8]) -> (Option<KeyCode>, usize) {
    let sequence = match after.first() {
        Some(b'[' | b'O') => &after[1..],
        _ => return (Some(KeyCode::Esc), 0),
    };
    // A sequence ends with the first byte that is neither a number nor a separator.
    let Some(end) = sequence.iter().position(|byte| (0x40..0x7f).contains(byte)) else { return (None, after.len()) };
    let key = match &sequence[..=end] {
        b"A" => Some(KeyCode::Up),
        b"B" => Some(KeyCode::Down),
        b"5~" => Some(KeyCode::PageUp),
        b"6~" => Some(KeyCode::PageDown),
        _ => None,
    };
    (key, end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<KeyCode> {
        let key = |typed| match typed {
            KeyEvent::Key(key) => key,
            KeyEvent::Interrupt => KeyCode::Null,
        };
        parse(bytes).into_iter().map(key).collect()
    }

    #[test]
    fn keys_are_what_terminals_send() {
        use KeyCode::{Backspace, Char, Down, Enter, Esc, Null, PageDown, PageUp, Up};
        assert_eq!(keys(b"fpoh\r"), [Char('f'), Char('p'), Char('o'), Char('h'), Enter]);
        assert_eq!(keys(b"\x1b"), [Esc]);
        assert_eq!(keys(b"f\x1b"), [Char('f'), Esc]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[5~\x1b[6~"), [Up, Down, PageUp, PageDown]);
        assert_eq!(keys(b"\x7f\x08\n\x03 "), [Backspace, Backspace, Enter, Null, Char(' ')]);
        assert_eq!(keys("é€🦀q".as_bytes()), [Char('é'), Char('€'), Char('🦀'), Char('q')]);
    }

    #[test]
    fn other_bytes_are_no_keys() {
        assert_eq!(keys(b"\x1b[1;5Cq"), [KeyCode::Char('q')], "a sequence of no key here");
        assert_eq!(keys(b"\x1b[12"), [], "a sequence without its end");
        assert_eq!(keys(b"\x00\x01\xff\xfeq"), [KeyCode::Char('q')]);
        // Parsing always terminates, whatever the input.
        for seed in 0..=u8::MAX {
            let bytes: Vec<u8> =
                (0..64u8).map(|at| seed.wrapping_mul(31).wrapping_add(at.wrapping_mul(seed))).collect();
            assert!(parse(&bytes).len() <= bytes.len());
        }
    }

    #[test]
    fn end_of_file_is_no_silence() {
        let keys = Keys::of(&b"q"[..]).unwrap();
        let patience = Duration::from_secs(60);
        assert_eq!(keys.next(patience), KeyInput::KeyEvent(KeyEvent::Key(KeyCode::Char('q'))));
        assert_eq!(keys.next(patience), KeyInput::Closed);
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(Keys::of(reader).unwrap().next(Duration::from_millis(1)), KeyInput::Nothing);
    }
}
