//! random: secrets from the operating system.

/// Fills `bytes` from the kernel's generator. Panics if the kernel has none (before Linux 3.17).
pub fn fill(bytes: &mut [u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        // SAFETY: `rest` is writable for its length.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        assert!(got > 0 || got == -1, "getrandom gave nothing");
        if got > 0 {
            done += got as usize;
            continue;
        }
        let error = std::io::Error::last_os_error();
        assert!(error.kind() == std::io::ErrorKind::Interrupted, "the kernel gives no random bytes: {error}");
    }
}
