//! sys: the calls into the operating system that the standard library lacks, each behind a safe function.
//!
//! With `ring` and `crypto` this is the only place in the project with `unsafe`.

#![allow(unsafe_code)]

mod addr;
pub mod disk;
pub mod event;
pub mod locked;
pub mod memory;
pub mod process;
pub mod random;
pub mod sandbox;
pub mod tcp;
pub mod thread;
pub mod tsc;
pub mod udp;
