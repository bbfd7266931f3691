//! Programs for the tests: assembled, and put into the file format that the loaders take.

use std::sync::Arc;

use solana_program_runtime::invoke_context::InvokeContext;
use solana_program_runtime::solana_sbpf::assembler::assemble;
use solana_program_runtime::solana_sbpf::program::{BuiltinProgram, SBPFVersion};
use solana_program_runtime::solana_sbpf::vm::Config;

/// Address at which a program's heap begins.
pub const HEAP: u64 = 3 << 32;
/// Address at which byte code begins.
const BYTE_CODE: u64 = 1 << 32;

/// An ELF of version 3: a header, one segment, the code.
pub fn program(source: &str) -> Vec<u8> {
    let config = Config { enabled_sbpf_versions: SBPFVersion::V3..=SBPFVersion::V3, ..Config::default() };
    let loader = Arc::new(BuiltinProgram::<InvokeContext<'static, 'static>>::new_loader(config));
    let executable = assemble(source, loader).expect("the source assembles");
    wrap(executable.get_text_bytes().1)
}

/// Byte code in a file.
pub fn wrap(code: &[u8]) -> Vec<u8> {
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    elf.resize(16, 0);
    elf.extend(3u16.to_le_bytes()); // a shared object
    elf.extend(247u16.to_le_bytes()); // for BPF
    elf.extend(1u32.to_le_bytes());
    elf.extend(BYTE_CODE.to_le_bytes()); // entry
    elf.extend(64u64.to_le_bytes()); // segments follow the header
    elf.extend(0u64.to_le_bytes()); // no sections
    elf.extend(3u32.to_le_bytes()); // version 3
    for half in [64u16, 56, 1, 0, 0, 0] {
        elf.extend(half.to_le_bytes());
    }
    elf.extend(1u32.to_le_bytes()); // to be loaded
    elf.extend(1u32.to_le_bytes()); // executable
    for word in [120, BYTE_CODE, BYTE_CODE, code.len() as u64, code.len() as u64, 8] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(code);
    elf
}
