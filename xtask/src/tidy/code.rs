//! Blanks comments and literals in Rust text, so that every word left is code.
//!
//! reads   the text of one file
//! writes  the same text, position by position, with spaces in place of comments and literals
//! memory  twice the file
//! source  the Rust reference, "Comments", "Literal expressions"

/// Blanks comments, raw strings, and the contents of other string and character literals (their quotes stay).
pub fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => line_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => block_comment_end(&chars, at),
            '"' => string_end(&chars, at),
            'r' if !follows_word(&chars, at) => raw_string_end(&chars, at).unwrap_or(at),
            'b' if !follows_word(&chars, at) && chars.get(at + 1) == Some(&'r') => {
                raw_string_end(&chars, at + 1).unwrap_or(at)
            }
            '\'' => char_end(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let quoted = matches!(chars[at], '"' | '\'');
        for (i, c) in chars[at..end].iter().enumerate() {
            let edge = i == 0 || at + i + 1 == end;
            out.push(if *c == '\n' || (quoted && edge) { *c } else { ' ' });
        }
        at = end;
    }
    out
}

/// Whether the character before belongs to the same word, as in `for"` or `number`.
fn follows_word(chars: &[char], at: usize) -> bool {
    at > 0 && is_word(chars[at - 1])
}

/// Whether a character may be part of a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |len| at + len)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (1, at + 2);
    while i < chars.len() && depth > 0 {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    i
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// Returns the end of the raw string whose `r` is at `at`; `None` if none begins there.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |i: usize| chars[i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let close = (open + 1..chars.len()).find(|i| closes(*i));
    Some(close.map_or(chars.len(), |close| close + 1 + hashes))
}

/// Returns the end of the character literal at `at`; `None` for a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    match chars.get(at + 1)? {
        '\\' => {
            // The escaped character may be a quote.
            let close = chars.get(at + 3..)?.iter().position(|c| *c == '\'')?;
            Some(at + 3 + close + 1)
        }
        _ => (chars.get(at + 2) == Some(&'\'')).then_some(at + 3),
    }
}

/// Every place of `word` in `text` that is no part of a longer word: byte offsets.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let edge = |c: Option<char>, own: Option<char>| !(c.is_some_and(is_word) && own.is_some_and(is_word));
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        edge(before, word.chars().next()) && edge(after, word.chars().next_back())
    })
}

/// The line of a byte offset, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        for (text, code) in [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            ("\"unsafe \\\" x\" y", "\"           \" y"),
            ("r#\"un\"safe\"# y", "             y"),
            ("br\"x\" y", "      y"),
            ("'x' '\\'' '\\u{1f}' &'a str", "' ' '  ' '      ' &'a str"),
            ("for\"x\"", "for\" \""),
            ("fn f<'a>(x: &'a u8) {}", "fn f<'a>(x: &'a u8) {}"),
        ] {
            assert_eq!(blank(text), code, "{text}");
        }
    }

    #[test]
    fn words_are_whole() {
        let found: Vec<usize> = words("unsafe unsafe_code (unsafe) not_unsafe", "unsafe").collect();
        assert_eq!(found, [0, 20]);
        assert_eq!(words("todo!() mytodo!()", "todo!").collect::<Vec<_>>(), [0]);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
