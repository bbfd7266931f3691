//! memory: huge pages for large tables, which need fewer address translations.

/// Asks the kernel to back `words` with huge pages (2 MiB) as far as they span whole ones. This is only advice: nothing
/// is promised and nothing can fail.
pub fn advise_huge_pages<T>(words: &mut [T]) {
    const HUGE: usize = 2 << 20;
    let start = (words.as_mut_ptr() as usize).next_multiple_of(HUGE);
    let end = (words.as_mut_ptr_range().end as usize) / HUGE * HUGE;
    if start < end {
        // SAFETY: the range lies within `words`, which is ours; the advice changes no content.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay() {
        let mut words: Vec<u64> = (0..1 << 20).collect();
        advise_huge_pages(&mut words);
        assert!(words.iter().enumerate().all(|(i, w)| *w == i as u64));
        advise_huge_pages::<u64>(&mut []);
    }
}
