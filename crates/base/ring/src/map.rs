//! Memory that processes share: a mapped file, or plain heap for simulations and for tests that run under Miri.
//!
//! reads   nothing by itself
//! writes  nothing by itself; it hands out places, within bounds and aligned
//! memory  the size of the file
//! source  mmap(2), madvise(2)

use crate::lines::{ConsumerLines, ProducerLines};
use crate::protocol::Entry;
use crate::sync::AtomicU64;
use std::alloc;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

/// Types that may be laid over shared memory: nothing but atomics, valid for every bit pattern.
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

/// A stretch of shared memory.
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

    /// Fills in the page table, in larger pages where the system allows, so that no tile takes a page fault later.
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

    /// `count` values at `offset`; `None` when they are not aligned or not inside.
    ///
    /// # Safety
    /// The region outlives `'a`, and as long as the slice lives, nobody writes this range but by atomics.
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

    /// Where the `size` bytes at `offset` start; `None` when they are not inside.
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
