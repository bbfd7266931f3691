//! file: the file of a workspace: completed before it appears, locked while its node lives.
//!
//! The lock is on an open file description, so it disappears with the process however that ends, and observers can test
//! it without taking it.
//!
//! reads   whatever exists at the path: a running node's workspace is refused, a stale one replaced, anything else kept
//! writes  the file, zeroed and fully reserved, so that a full file system is an error here and not a SIGBUS later
//! memory  the requested size
//! source  fcntl(2) "Open file description locks", posix_fallocate(3)

use crate::directory::{MAGIC, header};
use crate::error::WorkspaceError;
use crate::plan::HugePages;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A workspace file under construction or in use, locked by this process.
#[derive(Debug)]
pub(crate) struct LockedFile {
    pub(crate) file: File,
    path: PathBuf,
}

impl LockedFile {
    /// Reserves `size` bytes in a new file next to `path`; [`LockedFile::appear`] moves it there once it is complete.
    /// Removes a stale workspace at `path`; refuses a running node's.
    pub(crate) fn reserve(path: &Path, size: u64, pages: HugePages) -> Result<Self, WorkspaceError> {
        let new = path_of_new(path);
        let file = lock_new(path, &new)?;
        // From here on, dropping `reserved` removes the new file.
        let reserved = Self { file, path: new };
        // Remains of a node that was killed during startup.
        reserved.file.set_len(0).map_err(|e| WorkspaceError::io(path, "empty the file", e))?;
        check_pages(path, &reserved.file, pages)?;
        remove_stale(path, size)?;
        reserved
            .file
            .set_permissions(std::fs::Permissions::from_mode(0o644))
            .map_err(|e| WorkspaceError::io(path, "set the mode", e))?;
        reserved.allocate(path, size, pages)?;
        Ok(reserved)
    }

    /// Moves the file to `path`, where observers can see it.
    pub(crate) fn appear(&mut self, path: &Path) -> Result<(), WorkspaceError> {
        std::fs::rename(&self.path, path).map_err(|e| WorkspaceError::io(path, "put the workspace in place", e))?;
        self.path = path.to_owned();
        Ok(())
    }

    fn allocate(&self, path: &Path, size: u64, pages: HugePages) -> Result<(), WorkspaceError> {
        let length = libc::off_t::try_from(size).unwrap_or(libc::off_t::MAX);
        loop {
            // SAFETY: a system call on a file that we hold open.
            let error = unsafe { libc::posix_fallocate(self.file.as_raw_fd(), 0, length) };
            match error {
                0 => return Ok(()),
                libc::EINTR => {}
                libc::ENOSPC | libc::EFBIG | libc::ENOMEM | libc::EDQUOT => {
                    // Release the partial reservation first, so that it counts as available.
                    let _ = self.file.set_len(0);
                    let available = available(&self.file, pages).unwrap_or(0);
                    return Err(WorkspaceError::NoRoom { path: path.to_owned(), needed: size, available });
                }
                error => return Err(WorkspaceError::io(path, "reserve room", io::Error::from_raw_os_error(error))),
            }
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // The lock is still held, so the file at the path is either ours or foreign; remove it only if it is ours.
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a living process holds the lock of the workspace in `file`.
pub(crate) fn is_locked(file: &File) -> bool {
    let mut probe = lock_request();
    // SAFETY: a system call on an open file that writes to `probe` only.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut probe) };
    result == 0 && i32::from(probe.l_type) != libc::F_UNLCK
}

/// Opens and locks the file in which a workspace for `path` is prepared. Its lock also serialises nodes that start
/// concurrently.
fn lock_new(path: &Path, new: &Path) -> Result<File, WorkspaceError> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(new)
            .map_err(|e| WorkspaceError::io(path, "create the workspace", e))?;
        let request = lock_request();
        // SAFETY: a system call on a file that we hold open.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &request) } != 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => WorkspaceError::InUse { path: path.to_owned(), pid: pid_at(path) },
                _ => WorkspaceError::io(path, "lock the workspace", error),
            });
        }
        // Another node may have moved or removed the file between `open` and the lock.
        if is_at(&file, new) {
            return Ok(file);
        }
    }
}

/// Removes the workspace at `path` unless a node uses it, its space would not suffice, or it is another kind of file.
fn remove_stale(path: &Path, needed: u64) -> Result<(), WorkspaceError> {
    let stale = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(WorkspaceError::io(path, "open what is there", error)),
    };
    let mut reusable = 0;
    if let Some(stale) = &stale {
        if is_locked(stale) {
            return Err(WorkspaceError::InUse { path: path.to_owned(), pid: pid_at(path) });
        }
        let found = stale.metadata().map_err(|e| WorkspaceError::io(path, "look at what is there", e))?;
        if !found.is_file() || (found.len() > 0 && magic_of(stale) != Some(MAGIC)) {
            return Err(WorkspaceError::NotWorkspace { path: path.to_owned() });
        }
        reusable = found.blocks() * 512;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let room = File::open(parent).ok().and_then(|parent| available(&parent, HugePages::None));
    if let Some(room) = room {
        let available = room.saturating_add(reusable);
        if available < needed {
            return Err(WorkspaceError::NoRoom { path: path.to_owned(), needed, available });
        }
    }
    if stale.is_some() {
        std::fs::remove_file(path).map_err(|e| WorkspaceError::io(path, "remove the stale workspace", e))?;
    }
    Ok(())
}

fn path_of_new(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

fn lock_request() -> libc::flock {
    // SAFETY: plain integers; 0 to 0 means the whole file, and l_pid must be 0 for locks of this kind.
    let mut request: libc::flock = unsafe { zeroed() };
    request.l_type = libc::F_WRLCK as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request
}

fn magic_of(file: &File) -> Option<u64> {
    read_word(file, header::MAGIC)
}

/// Returns the process that created the workspace at `path`; 0 if the file does not say.
fn pid_at(path: &Path) -> u32 {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok();
    let word = file.and_then(|file| {
        magic_of(&file).filter(|&magic| magic == MAGIC)?;
        read_word(&file, header::PID)
    });
    word.and_then(|word| u32::try_from(word).ok()).unwrap_or(0)
}

fn read_word(file: &File, word: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, word as u64 * 8).ok()?;
    Some(u64::from_le_bytes(bytes))
}

fn statfs(file: &File) -> io::Result<libc::statfs> {
    // SAFETY: plain integers, all overwritten by the call below when it succeeds.
    let mut found: libc::statfs = unsafe { zeroed() };
    // SAFETY: a system call on an open file that writes to `found` only.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &mut found) } {
        0 => Ok(found),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes available to this user on the file system of `file`; `None` if it has no limit of its own.
fn available(file: &File, pages: HugePages) -> Option<u64> {
    let found = statfs(file).ok()?;
    let own = (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_bsize as u64));
    if pages == HugePages::None {
        return own;
    }
    let pool = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages", pages.page_size() / 1024);
    let free = std::fs::read_to_string(pool).ok()?.trim().parse::<u64>().ok()?.saturating_mul(pages.page_size());
    Some(own.map_or(free, |own| own.min(free)))
}

fn check_pages(path: &Path, file: &File, pages: HugePages) -> Result<(), WorkspaceError> {
    if pages == HugePages::None {
        return Ok(());
    }
    let found = statfs(file).map_err(|e| WorkspaceError::io(path, "look at the file system", e))?;
    let page_size = found.f_bsize as u64;
    if found.f_type as u64 != libc::HUGETLBFS_MAGIC as u64 || page_size != pages.page_size() {
        return Err(WorkspaceError::HugePages { path: path.to_owned(), wanted: pages.page_size(), found: page_size });
    }
    Ok(())
}
