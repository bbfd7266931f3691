//! tsc: the processor's time stamp counter.

/// Reads the counter. Meaningful only where [`read_if_invariant`] returned a value.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn read() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and has no preconditions.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the counter if it runs at a constant rate in all power states (CPUID 8000_0007h, EDX bit 8).
#[cfg(target_arch = "x86_64")]
pub fn read_if_invariant() -> Option<u64> {
    use core::arch::x86_64::__cpuid;
    let highest = __cpuid(0x8000_0000).eax;
    let invariant = highest >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
    invariant.then(read)
}

/// Not supported on this processor; the clock falls back to the monotonic one.
#[cfg(not(target_arch = "x86_64"))]
pub fn read() -> u64 {
    unreachable!("the clock asks `read_if_invariant` first")
}

/// Not supported on this processor; the clock falls back to the monotonic one.
#[cfg(not(target_arch = "x86_64"))]
pub fn read_if_invariant() -> Option<u64> {
    None
}
