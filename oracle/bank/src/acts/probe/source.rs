//! The sources of random programs. A program is a row of pieces; each keeps the input's address in r6.
//!
//! The input holds the payer's account at 8, and 10,336 bytes after it the second account: of each the key is 8 bytes
//! on, then the owner, the lamports, the length of the data and the data.

use std::sync::Arc;

use solana_program_runtime::invoke_context::InvokeContext;
use solana_program_runtime::solana_sbpf::assembler::assemble;
use solana_program_runtime::solana_sbpf::program::{BuiltinProgram, SBPFVersion};
use solana_program_runtime::solana_sbpf::vm::Config;
use solana_pubkey::Pubkey;

use crate::rng::Rng;

/// The address of the byte code in the machine's memory.
const BYTE_CODE: u64 = 1 << 32;
/// Offsets into the input: the payer's account and the second one.
const FIRST: i64 = 8;
const SECOND: i64 = FIRST + 10_336;

/// Returns the file of a random program.
pub fn program(rng: &mut Rng) -> Vec<u8> {
    let mut source = String::from("entrypoint:\n mov64 r6, r1\n mov64 r7, r2\n");
    for n in 0..rng.between(3, 12) {
        source += &piece(rng, n);
    }
    let code = if rng.chance(85) { 0 } else { rng.below(9) };
    source += &format!(" mov64 r0, {code}\n exit\nfunction_deeper:\n{}", deeper(rng));
    let config = Config { enabled_sbpf_versions: SBPFVersion::V3..=SBPFVersion::V3, ..Config::default() };
    let loader = Arc::new(BuiltinProgram::<InvokeContext<'static, 'static>>::new_loader(config));
    let executable = assemble(&source, loader).unwrap_or_else(|error| panic!("{error} in\n{source}"));
    file(executable.get_text_bytes().1)
}

/// A function that calls itself r1 times.
fn deeper(rng: &mut Rng) -> String {
    let step = rng.between(1, 3);
    format!(" jeq r1, 0, +4\n sub64 r1, 1\n add64 r8, {step}\n call function_deeper\n ja +0\n mov64 r0, r8\n exit\n")
}

/// Puts byte code into a file of one segment.
fn file(code: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A shared object for BPF, whose entry is its first instruction; segments at 64, no sections, version 3.
    file.extend([3u16, 247].map(u16::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    file.extend([BYTE_CODE, 64, 0].map(u64::to_le_bytes).concat());
    file.extend(3u32.to_le_bytes());
    file.extend([64u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    // The segment: loaded, executable, right after this table.
    file.extend([1u32, 1].map(u32::to_le_bytes).concat());
    let len = code.len() as u64;
    file.extend([120, BYTE_CODE, BYTE_CODE, len, len, 8].map(u64::to_le_bytes).concat());
    file.extend(code);
    file
}

/// An instruction that sets a register to an address on the stack or in the input.
fn address(register: u8, base: &str, offset: i64) -> String {
    format!(" mov64 r{register}, {base}\n add64 r{register}, {offset}\n")
}

fn on_stack(register: u8, offset: i64) -> String {
    address(register, "r10", -offset)
}

fn set(register: u8, value: i64) -> String {
    format!(" lddw r{register}, {value}\n")
}

fn syscall(name: &str) -> String {
    format!(" syscall {name}\n")
}

/// Logs r0 and a word of the stack.
fn log(offset: i64) -> String {
    format!(
        " mov64 r1, r0\n ldxdw r2, [r10-{offset}]\n mov64 r3, 3\n mov64 r4, 4\n mov64 r5, 5\n syscall sol_log_64_\n"
    )
}

/// Puts a key on the stack.
fn key(key: &Pubkey, offset: i64) -> String {
    let words = key.to_bytes();
    let word = |n: usize| i64::from_le_bytes(words[8 * n..8 * n + 8].try_into().expect("8 bytes"));
    (0..4).map(|n| format!(" lddw r3, {}\n stxdw [r10-{}], r3\n", word(n), offset - 8 * n as i64)).collect()
}

/// Puts the address and the length of a slice on the stack.
fn slice(base: &str, from: i64, len: i64, offset: i64) -> String {
    format!("{} stxdw [r10-{offset}], r3\n mov64 r3, {len}\n stxdw [r10-{}], r3\n", address(3, base, from), offset - 8)
}

/// One piece of a program.
fn piece(rng: &mut Rng, n: u64) -> String {
    match rng.below(27) {
        0 | 14 => text(rng),
        1 => logs(rng),
        2 | 3 => sysvars(rng),
        4 | 15 => stakes(rng),
        5 | 16 => hashes(rng),
        6 | 17 => derived(rng),
        7 | 18 => memory(rng),
        8 | 19 => returns(rng),
        9 | 20 | 21 => account(rng),
        10 | 22 => arithmetic(rng, n),
        11 | 23 => curves(rng),
        12 | 24 => transfer(rng),
        13 => rare(rng),
        _ => logs(rng),
    }
}

fn text(rng: &mut Rng) -> String {
    let word = i64::from_le_bytes(rng.pick(&[*b"a probe!", *b"01234567", *b"ABCDEFGH", *b"~~~~~~\xc3\xbc"]).to_owned());
    let len = rng.between(0, 9);
    format!("{} stxdw [r10-16], r3\n{} mov64 r2, {len}\n{}", set(3, word), on_stack(1, 16), syscall("sol_log_"))
}

fn logs(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => syscall("sol_log_compute_units_"),
        1 => format!("{}{}", address(1, "r6", FIRST + 8), syscall("sol_log_pubkey")),
        2 => {
            let slices = slice("r6", FIRST + 8, 32, 80) + &slice("r10", -80, 8, 64);
            format!("{slices}{} mov64 r2, 2\n{}", on_stack(1, 80), syscall("sol_log_data"))
        }
        _ => format!("{}{}", syscall("sol_get_stack_height"), log(64)),
    }
}

fn sysvars(rng: &mut Rng) -> String {
    let getters = [
        "sol_get_clock_sysvar",
        "sol_get_rent_sysvar",
        "sol_get_epoch_schedule_sysvar",
        "sol_get_epoch_rewards_sysvar",
        "sol_get_last_restart_slot",
    ];
    if rng.chance(55) {
        let at = 128 - 8 * rng.below(5) as i64;
        let getter = *rng.pick(&getters);
        return format!("{}{}{}", on_stack(1, 128), syscall(getter), log(at));
    }
    use solana_sdk_ids::sysvar;
    let sysvars = [
        sysvar::clock::id(),
        sysvar::stake_history::id(),
        sysvar::slot_hashes::id(),
        sysvar::epoch_rewards::id(),
        sysvar::rent::id(),
        sysvar::epoch_schedule::id(),
        sysvar::last_restart_slot::id(),
        sysvar::recent_blockhashes::id(),
        sysvar::instructions::id(),
    ];
    let (offset, len) = (rng.below(64), rng.below(48));
    let id = key(rng.pick(&sysvars), 200);
    let call = syscall("sol_get_sysvar");
    format!("{id}{}{} mov64 r3, {offset}\n mov64 r4, {len}\n{call}{}", on_stack(1, 200), on_stack(2, 128), log(128))
}

/// The stake of the epoch, of all and of the vote account, whose place follows an account of this program's size.
fn stakes(rng: &mut Rng) -> String {
    let who = match rng.below(3) {
        0 => " mov64 r1, 0\n".to_owned(),
        1 => address(1, "r6", FIRST + 8),
        // The second account has 64 bytes, the system program's account 14 and two to align.
        _ => address(1, "r6", SECOND + 10_336 + 64 + 10_336 + 16 + 8),
    };
    format!("{who}{}{}", syscall("sol_get_epoch_stake"), log(128))
}

fn hashes(rng: &mut Rng) -> String {
    let name = rng.pick(&["sol_sha256", "sol_keccak256", "sol_blake3", "sol_sha512"]);
    let len = *rng.pick(&[0, 1, 31, 32, 64, 72, 72, 72, 100]);
    let slices = slice("r6", FIRST + 8, len, 216) + &slice("r6", FIRST, 8, 200);
    format!(
        "{slices}{} mov64 r2, {}\n{}{}{}",
        on_stack(1, 216),
        rng.below(3),
        on_stack(3, 280),
        syscall(name),
        log(280)
    )
}

fn derived(rng: &mut Rng) -> String {
    let len = *rng.pick(&[0, 8, 8, 20, 32, 32, 33]);
    let slices = slice("r6", FIRST + 8, len, 216) + &slice("r6", FIRST, 5, 200);
    let seeds = format!("{slices}{} mov64 r2, {}\n", on_stack(1, 216), rng.between(0, 3));
    let owner = address(3, "r6", FIRST + 40);
    let out = on_stack(4, 280);
    if rng.chance(50) {
        format!("{seeds}{owner}{out}{}{}", syscall("sol_create_program_address"), log(280))
    } else {
        let bump = on_stack(5, 288);
        format!("{seeds}{owner}{out}{bump}{}{}", syscall("sol_try_find_program_address"), log(280))
    }
}

fn memory(rng: &mut Rng) -> String {
    let len = rng.below(64);
    let (to, from) = (on_stack(1, 400), on_stack(2, 400 - *rng.pick(&[8, 64, 128])));
    match rng.below(4) {
        // Overlapping ranges fail.
        0 => format!("{to}{from} mov64 r3, {len}\n{}{}", syscall("sol_memcpy_"), log(400)),
        1 => format!("{to}{from} mov64 r3, {len}\n{}{}", syscall("sol_memmove_"), log(400)),
        2 => format!("{to} mov64 r2, {}\n mov64 r3, {len}\n{}{}", rng.below(256), syscall("sol_memset_"), log(400)),
        _ => {
            let call = syscall("sol_memcmp_");
            format!("{to}{} mov64 r3, {len}\n{}{call}{}", address(2, "r6", FIRST + 8), on_stack(4, 408), log(408))
        }
    }
}

fn returns(rng: &mut Rng) -> String {
    let len = *rng.pick(&[0, 8, 8, 32, 32, 72, 1_025]);
    let set = format!("{} mov64 r2, {len}\n{}", address(1, "r6", FIRST), syscall("sol_set_return_data"));
    let get = format!(
        "{} mov64 r2, 16\n{}{}{}",
        on_stack(1, 440),
        on_stack(3, 480),
        syscall("sol_get_return_data"),
        log(440)
    );
    if rng.chance(50) { set + &get } else { get }
}

/// Reads and writes the second account: data, length, lamports, owner.
fn account(rng: &mut Rng) -> String {
    let (lamports, len, data) = (SECOND + 72, SECOND + 80, SECOND + 88);
    let at = data + 8 * rng.below(9) as i64;
    match rng.below(9) {
        0..=3 => format!(" ldxdw r3, [r6+{at}]\n add64 r3, {}\n stxdw [r6+{at}], r3\n", rng.between(1, 99)),
        4 => format!(" ldxdw r0, [r6+{lamports}]\n ldxdw r2, [r6+{len}]\n stxdw [r10-64], r2\n{}", log(64)),
        5 => {
            let size = *rng.pick(&[0, 8, 65, 1_000, 10_304, 10_305]);
            format!(" mov64 r3, {size}\n stxdw [r6+{len}], r3\n")
        }
        6 => {
            // From the second account to the payer.
            let payer = FIRST + 72;
            format!(
                " ldxdw r3, [r6+{lamports}]\n sub64 r3, 1\n stxdw [r6+{lamports}], r3\n ldxdw r3, [r6+{payer}]\n \
                 add64 r3, {}\n stxdw [r6+{payer}], r3\n",
                rng.between(1, 3)
            )
        }
        7 => format!(" mov64 r3, 0\n stxdw [r6+{}], r3\n", SECOND + 40),
        _ => format!(" mov64 r3, 7\n stxb [r6+{}], r3\n", FIRST + 8 + rng.below(32) as i64),
    }
}

fn arithmetic(rng: &mut Rng, n: u64) -> String {
    let (a, b) = (rng.number() as i64 >> rng.below(50), rng.number() as i64 >> rng.below(50));
    let wide = ["add64", "sub64", "mul64", "div64", "mod64", "or64", "and64", "xor64", "lsh64", "rsh64", "arsh64"];
    let narrow = ["add32", "sub32", "mul32", "div32", "mod32", "xor32", "lsh32", "rsh32", "arsh32", "mov32"];
    let name = if rng.chance(60) { *rng.pick(&wide) } else { *rng.pick(&narrow) };
    if rng.chance(35) {
        // A loop; the longest of them uses up what a transaction may compute.
        let times = *rng.pick(&[10, 100, 500, 500, 20_000, 1_500_000]);
        return format!(
            " lddw r8, {times}\n mov64 r9, 0\nloop_{n}:\n add64 r9, r8\n sub64 r8, 1\n jne r8, 0, loop_{n}\n"
        );
    }
    if rng.chance(15) {
        return format!(" mov64 r8, 0\n mov64 r1, {}\n call function_deeper\n{}", rng.below(70), log(64));
    }
    let swap = rng.pick(&["be16 r3", "be32 r3", "be64 r3", "neg64 r3", "le32 r3"]);
    format!("{}{} {name} r3, r4\n {swap}\n mov64 r0, r3\n{}", set(3, a), set(4, b), log(64))
}

/// Points and signatures, most of them none.
fn curves(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => {
            let curve = rng.below(4);
            let point = address(2, "r6", FIRST + 8);
            format!(" mov64 r1, {curve}\n{point}{}{}", syscall("sol_curve_validate_point"), log(64))
        }
        1 => {
            let (left, right, out) = (address(3, "r6", FIRST + 8), address(4, "r6", FIRST + 8), on_stack(5, 600));
            let (curve, operation) = (rng.below(3), rng.below(4));
            let call = syscall("sol_curve_group_op");
            format!(" mov64 r1, {curve}\n mov64 r2, {operation}\n{left}{right}{out}{call}{}", log(600))
        }
        2 => {
            let (operation, len) = (*rng.pick(&[0, 2, 3, 9]), *rng.pick(&[128, 96, 192]));
            let (from, out) = (on_stack(2, 900), on_stack(4, 600));
            format!(
                " mov64 r1, {operation}\n{from} mov64 r3, {len}\n{out}{}{}",
                syscall("sol_alt_bn128_group_op"),
                log(600)
            )
        }
        _ => {
            let (hash, signature, out) = (address(1, "r6", FIRST + 8), address(3, "r6", FIRST + 8), on_stack(4, 600));
            format!(
                "{hash} mov64 r2, {}\n{signature}{out}{}{}",
                rng.below(5),
                syscall("sol_secp256k1_recover"),
                log(600)
            )
        }
    }
}

/// Lets the system program move lamports from the payer to the second account.
fn transfer(rng: &mut Rng) -> String {
    let lamports = *rng.pick(&[0, 1, 890_880, 1 << 50]);
    // Program, two account descriptions, data, the instruction; then what is known about both accounts.
    let mut source = key(&solana_sdk_ids::system_program::id(), 1_024);
    let signs = if rng.chance(90) { 0x101 } else { 1 };
    for (at, account, flags) in [(992, FIRST, signs), (976, SECOND, 1)] {
        source += &address(3, "r6", account + 8);
        source += &format!(" stxdw [r10-{at}], r3\n mov64 r3, {flags}\n stxdw [r10-{}], r3\n", at - 8);
    }
    source += &format!(" mov64 r3, 2\n stxdw [r10-960], r3\n{} stxdw [r10-956], r3\n", set(3, lamports));
    source += &format!("{} stxdw [r10-936], r3\n", on_stack(3, 1_024));
    source += &slice("r10", -992, 2, 928);
    source += &slice("r10", -960, 12, 912);
    for (at, account, flags) in [(896, FIRST, 0x101), (840, SECOND, 0x100)] {
        let fields = [(0, 8), (8, 72), (24, 88), (32, 40)];
        for (field, offset) in fields {
            source += &format!("{} stxdw [r10-{}], r3\n", address(3, "r6", account + offset), at - field);
        }
        source += &format!(" ldxdw r3, [r6+{}]\n stxdw [r10-{}], r3\n", account + 80, at - 16);
        source +=
            &format!(" mov64 r3, 0\n stxdw [r10-{}], r3\n mov64 r3, {flags}\n stxdw [r10-{}], r3\n", at - 40, at - 48);
    }
    source += &format!("{}{} mov64 r3, 2\n mov64 r4, 0\n mov64 r5, 0\n", on_stack(1, 936), on_stack(2, 896));
    source + &syscall("sol_invoke_signed_c") + &log(64)
}

/// Instructions that end a program at once, or are seldom used.
fn rare(rng: &mut Rng) -> String {
    match rng.below(9) {
        0 => syscall("abort"),
        1 => format!("{} mov64 r2, 4\n mov64 r3, 12\n mov64 r4, 3\n{}", on_stack(1, 16), syscall("sol_panic_")),
        2 => " ldxdw r3, [r10+64]\n".to_owned(),
        3 => " lddw r3, 0x300008000\n ldxb r4, [r3+0]\n".to_owned(),
        4 => " mov64 r3, 0\n ldxdw r4, [r3+0]\n".to_owned(),
        5 => format!("{} mov64 r2, 0\n{}{}", " mov64 r1, 16\n", syscall("sol_alloc_free_"), log(64)),
        6 => " mov64 r3, 5\n div64 r3, r9\n".to_owned(),
        7 => " lddw r3, 0x300000100\n mov64 r4, 77\n stxdw [r3+0], r4\n ldxdw r0, [r3+0]\n".to_owned() + &log(64),
        _ => format!("{}{}", syscall("sol_remaining_compute_units"), log(64)),
    }
}
