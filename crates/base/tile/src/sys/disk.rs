//! disk: the size and free space of the file system that holds a path.

use std::ffi::CString;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Size and free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the whole file system, used or not.
    pub size_bytes: u64,
    /// Bytes that an unprivileged process may still write.
    pub free_bytes: u64,
}

/// Returns the space of the file system that holds `path`.
pub fn space(path: &Path) -> Result<Space> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    // SAFETY: an all-zero statvfs is a valid value to be overwritten.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `found` is a writable statvfs.
    if unsafe { libc::statvfs(path.as_ptr(), &mut found) } != 0 {
        return Err(Error::last_os_error());
    }
    let bytes = |blocks: libc::fsblkcnt_t| blocks.saturating_mul(found.f_frsize);
    Ok(Space { size_bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_a_size_and_less_of_it_free() {
        let it = space(&std::env::temp_dir()).unwrap();
        assert!(it.size_bytes > 0 && it.free_bytes <= it.size_bytes, "{it:?}");
        assert_eq!(space(Path::new("/no/such/folder")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(space(Path::new("a\0b")).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
