//! Suggests a known word for a misspelt one.

/// Returns the only word that begins with `word`, or else the nearest one, if any is near.
pub fn meant<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let mut begun = words.iter().filter(|other| !word.is_empty() && other.starts_with(word));
    if let (Some(only), None) = (begun.next(), begun.next()) {
        return Some(only);
    }
    let distance = |other: &&&str| strsim::damerau_levenshtein(word, other);
    let nearest = words.iter().min_by_key(distance)?;
    (distance(&nearest) <= 1 + word.len() / 3).then_some(*nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_was_cut_off_or_misspelt_is_known() {
        let words = ["disk-sequential-write", "disk-random-write", "copy", "core-to-core"];
        assert_eq!(meant("disk-seq", &words), Some("disk-sequential-write"));
        assert_eq!(meant("cpoy", &words), Some("copy"));
        assert_eq!((meant("disk", &words), meant("", &words), meant("bandwidth", &words)), (None, None, None));
    }
}
