//! Words of commands that the program advises: whatever is in them, a shell takes each for one word.

use std::path::Path;

use hearth_machine::configure::quoted;

/// A name, an address or another text as a word of a command.
pub fn word(text: &str) -> String {
    quoted(text)
}

/// A path as a word of a command.
pub fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_part_it() {
        assert_eq!(path(Path::new("/data/my chain")), "'/data/my chain'");
        assert_eq!(path(Path::new("/data/chain-1.2_a")), "/data/chain-1.2_a");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
        assert_eq!(word("a;b"), "'a;b'");
    }
}
