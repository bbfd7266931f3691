//! Prefetches memory that will be read soon, so that cache misses overlap instead of adding up.

#![allow(unsafe_code)]

/// Prefetches the first two cache lines of a value; does nothing on processors without such an instruction.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = std::ptr::from_ref(value).cast::<i8>();
        // SAFETY: a prefetch reads nothing and faults at no address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address);
            _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
