//! Larger pages for memory that is a process' own.
//!
//! reads   nothing
//! writes  nothing: the system is advised, and what lies there stays as it is
//! memory  none by itself; where the system follows, what is touched first takes 2 MiB in the place of 4 KiB
//! source  madvise(2), `MADV_HUGEPAGE`: who reads here and there in gigabytes else waits as long for where a page lies
//!         as for what is in it

/// Asks the system to hold what `room` has room for in larger pages, as far as these are within it. Where it does not
/// know them nothing changes; best before anything is put there.
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
    fn what_is_there_stays_whatever_its_size() {
        for size in [0usize, 1, 511, 4096, 100_000, 1 << 20] {
            let mut room: Vec<u64> = Vec::with_capacity(size);
            room.extend(0..size as u64 / 2);
            prefer_large_pages(&room);
            room.extend(size as u64 / 2..size as u64);
            assert!(room.iter().copied().eq(0..size as u64));
        }
    }
}
