//! pages: larger pages for a process's private memory.
//!
//! writes  nothing: the system is advised, and the contents stay the same
//! memory  none by itself; if the system follows the advice, a first touch takes 2 MiB instead of 4 KiB
//! source  madvise(2), `MADV_HUGEPAGE`: random reads over gigabytes otherwise wait as long for the address translation
//!         as for the data

/// Asks the system to use larger pages for the capacity of `room`, as far as they are within it. Has no effect if the
/// system does not support them; best called before anything is stored there.
pub fn prefer_large_pages<T>(room: &Vec<T>) {
    const PAGE: usize = 4096;
    let size = room.capacity() * size_of::<T>();
    let base = room.as_ptr().cast::<u8>();
    let before = base.align_offset(PAGE);
    if before >= size {
        return;
    }
    let whole = (size - before) / PAGE * PAGE;
    let start = base.wrapping_add(before).cast_mut();
    // SAFETY: whole pages within the vector's allocation; this advice changes no content and takes no page away.
    unsafe { libc::madvise(start.cast(), whole, libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_keep_contents_at_any_size() {
        for size in [0usize, 1, 511, 4096, 100_000, 1 << 20] {
            let mut room: Vec<u64> = Vec::with_capacity(size);
            room.extend(0..size as u64 / 2);
            prefer_large_pages(&room);
            room.extend(size as u64 / 2..size as u64);
            assert!(room.iter().copied().eq(0..size as u64));
        }
    }
}
