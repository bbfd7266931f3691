//! Memory that processes share: a mapped file, or plain heap for simulations and for tests that run under Miri.
//!
//! reads   nothing by itself
//! writes  nothing by itself; it returns places that are in bounds and aligned
//! memory  the size of the file
//! source  mmap(2), madvise(2)

use crate::lines::{ConsumerLines, ProducerLines};
use crate::protocol::Entry;
use crate::sync::AtomicU64;
use std::alloc;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

/// Types that may be placed over shared memory: only atomics, valid for every bit pattern.
///
/// # Safety
/// The implementer is made of atomic words alone (padding included).
pub(crate) unsafe trait Shared {}

// SAFETY: an atomic word.
unsafe impl Shared for AtomicU64 {}
// SAFETY: four atomic words.
unsafe impl Shared for Entry {}
// SAFETY: atomic words alone.
unsafe impl Shared for ProducerLines {}
// SAFETY: atomic words alone.
unsafe impl Shared for ConsumerLines {}

/// A range of shared memory.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    size: usize,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Mapped,
    Heap(alloc::Layout),
}

// SAFETY: a region is an address range; what is read or written there goes by the contracts of `slice` and `bytes`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps the first `size` bytes of `file`.
    pub(crate) fn map(file: &File, size: u64, writable: bool) -> io::Result<Self> {
        let size = usize::try_from(size).ok().filter(|&size| size > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a fresh mapping at an address of the kernel's choice; it touches no memory of ours.
        let base = unsafe { libc::mmap(null_mut(), size, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { base, size, backing: Backing::Mapped })
    }

    /// Reserves addresses for `size` bytes, which nothing can be read from or written to, and maps `parts` of files
    /// there: a file, its range and the place's, and whether it may be written. Ranges are of whole pages of `page`
    /// bytes.
    pub(crate) fn map_parts(size: u64, page: u64, parts: &[(&File, Range<u64>, bool)]) -> io::Result<Self> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let size = usize::try_from(size).ok().filter(|&size| size > 0).ok_or_else(wrong)?;
        let page = usize::try_from(page).map_err(|_| wrong())?;
        let (nothing, kind) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // One page more, so that the first can be aligned.
        let reserved = size.checked_add(page).ok_or_else(wrong)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice; it touches no memory of ours.
        let start = unsafe { libc::mmap(null_mut(), reserved, nothing, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.cast::<u8>();
        let base = NonNull::new(start.wrapping_add(start.align_offset(page))).ok_or(io::ErrorKind::Other)?;
        // Dropping it unmaps all but what the alignment skips, which no memory is behind.
        let region = Self { base, size, backing: Backing::Mapped };
        for (file, range, writable) in parts.iter().filter(|(_, range, _)| !range.is_empty()) {
            let length = usize::try_from(range.end - range.start).map_err(|_| wrong())?;
            let at = region.start_of(range.start, length).ok_or_else(wrong)?;
            let protection = if *writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
            let offset = libc::off_t::try_from(range.start).map_err(|_| wrong())?;
            let kind = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: inside the addresses reserved above, which are ours and not used yet.
            let mapped = unsafe { libc::mmap(at.as_ptr().cast(), length, protection, kind, file.as_raw_fd(), offset) };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(region)
    }

    /// Populates the page table, with larger pages if possible, so that no tile takes a page fault later.
    pub(crate) fn populate(&self) {
        // SAFETY: advice about a mapping that is ours; where the kernel does not know it, pages come one by one.
        unsafe {
            libc::madvise(self.base.as_ptr().cast(), self.size, libc::MADV_HUGEPAGE);
            libc::madvise(self.base.as_ptr().cast(), self.size, libc::MADV_POPULATE_WRITE);
        }
    }

    /// Zeroed memory of this process alone.
    pub(crate) fn heap(size: u64) -> Self {
        let layout = alloc::Layout::from_size_align(size as usize, 4096).expect("a size that fits");
        assert!(size > 0);
        // SAFETY: the layout's size is not 0.
        let base = unsafe { alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        Self { base, size: size as usize, backing: Backing::Heap(layout) }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size as u64
    }

    /// Returns `count` values at `offset`; `None` if they are not aligned or out of bounds.
    ///
    /// # Safety
    /// The region must outlive `'a`, and while the slice lives, this range may only be written by atomics.
    pub(crate) unsafe fn slice<'a, T: Shared>(&self, offset: u64, count: usize) -> Option<&'a [T]> {
        let bytes = count.checked_mul(size_of::<T>())?;
        let start = self.start_of(offset, bytes)?.cast::<T>();
        if !start.is_aligned() {
            return None;
        }
        // SAFETY: inside the region and aligned; `Shared` types are valid for every bit pattern; the rest is the
        // caller's promise.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), count) })
    }

    /// Returns the start of the `size` bytes at `offset`; `None` if they are out of bounds.
    pub(crate) fn start_of(&self, offset: u64, size: usize) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(size)? > self.size {
            return None;
        }
        // SAFETY: at most one past the end of the region.
        Some(unsafe { self.base.add(offset) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.backing {
            // SAFETY: mapped by `map` with this size; users of `slice` promised to be gone.
            Backing::Mapped => unsafe {
                libc::munmap(self.base.as_ptr().cast(), self.size);
            },
            // SAFETY: allocated by `heap` with this layout.
            Backing::Heap(layout) => unsafe { alloc::dealloc(self.base.as_ptr(), layout) },
        }
    }
}
