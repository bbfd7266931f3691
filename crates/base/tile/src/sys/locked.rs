//! locked: memory for a secret: a page that never reaches swap, a core dump or a child process.
//!
//! memory  one page per secret, of those that the user may lock (`ulimit -l`)
//! source  mlock(2), madvise(2): `MADV_DONTDUMP`, `MADV_DONTFORK`

use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut, write_volatile};

/// Minimum page size on every supported system: no secret is longer.
const PAGE_MIN: usize = 4_096;
/// How far below its caller's frame [`wipe_stack`] reaches, in bytes.
const STACK_WIPED: usize = 64 << 10;

/// A mapped page, which is wiped before it is unmapped.
struct Page {
    at: NonNull<u8>,
    bytes: usize,
}

impl Page {
    fn map() -> io::Result<Self> {
        // SAFETY: it reads a constant of the system.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: it maps new memory, at a place that the kernel chooses.
        let at = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = Self { at: NonNull::new(at.cast()).expect("the kernel maps nothing at 0"), bytes };
        for advice in [libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
            // SAFETY: the page is ours; neither advice changes its content here.
            check(unsafe { libc::madvise(at, bytes, advice) })?;
        }
        // SAFETY: the page is ours.
        check(unsafe { libc::mlock(at, bytes) })?;
        Ok(page)
    }
}

fn check(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Drop for Page {
    fn drop(&mut self) {
        for at in 0..self.bytes {
            // SAFETY: the byte is the page's, which nobody else has a reference to any more.
            unsafe { write_volatile(self.at.as_ptr().add(at), 0) };
        }
        // SAFETY: the page is ours, and nothing refers to it any more. That unlocks it too.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// A value in its own locked page, which is wiped on drop. Moving this moves only a pointer.
pub struct Locked<T> {
    page: Page,
    value: PhantomData<T>,
}

// SAFETY: it owns its value, as a box does.
unsafe impl<T: Send> Send for Locked<T> {}
// SAFETY: a shared reference gives shared references to the value alone.
unsafe impl<T: Sync> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Moves a value into a page. The caller's copy remains in memory: start with a value that is no secret, and write
    /// the secret in place.
    ///
    /// # Errors
    /// No page can be mapped or locked.
    pub fn new(value: T) -> io::Result<Self> {
        const { assert!(size_of::<T>() <= PAGE_MIN && align_of::<T>() <= PAGE_MIN) };
        let page = Page::map()?;
        // SAFETY: the page is at least as large as the value, and aligned to more.
        unsafe { page.at.as_ptr().cast::<T>().write(value) };
        Ok(Self { page, value: PhantomData })
    }
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` wrote a value there, and it is there until `drop`.
        unsafe { &*self.page.at.as_ptr().cast() }
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and nobody else refers to it.
        unsafe { &mut *self.page.at.as_ptr().cast() }
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        // SAFETY: the value is there, and nobody refers to it any more. The page goes after it.
        unsafe { self.page.at.as_ptr().cast::<T>().drop_in_place() };
    }
}

/// Overwrites what returned functions left on this thread's stack. Call it from the caller of the function that handled
/// a secret, which must not be inlined there.
#[inline(never)]
pub fn wipe_stack() {
    let mut bytes = [0u8; STACK_WIPED];
    for byte in &mut bytes {
        // SAFETY: the byte is this function's own. The write is not left out, though nothing reads it.
        unsafe { write_volatile(byte, 0) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns the flags of the mapping that contains an address.
    fn flags(at: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_there = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let range = range.and_then(|(from, to)| {
                Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
            });
            is_there = range.map_or(is_there, |range| range.contains(&at));
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_there) {
                return flags.to_owned();
            }
        }
        panic!("nothing is mapped at {at:x}");
    }

    #[test]
    fn page_is_locked_and_in_no_dump_and_no_child() {
        let mut secret = Locked::new([0u8; 32]).unwrap();
        secret.copy_from_slice(&[7; 32]);
        let flags = flags(secret.as_ptr() as usize);
        for flag in ["lo", "dd", "dc"] {
            assert!(flags.split(' ').any(|other| other == flag), "{flag}: {flags}");
        }
        let (at, moved) = (secret.as_ptr(), secret);
        assert_eq!(moved.as_ptr(), at, "it moves by its pointer");
        assert_eq!(*moved, [7; 32]);
    }

    #[test]
    fn value_is_dropped_with_its_page() {
        let counted = Arc::new(());
        let locked = Locked::new(Arc::clone(&counted)).unwrap();
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(locked);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
