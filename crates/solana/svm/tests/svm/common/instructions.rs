//! Instructions of the programs that a chain begins with.

use hearth_wire::Pubkey;
use hearth_wire::base58::decode_32;
use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use solana_pubkey::Pubkey as EnginePubkey;

pub fn token_program() -> Pubkey {
    decode_32("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA").expect("an address")
}

pub fn token_2022_program() -> Pubkey {
    decode_32("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb").expect("an address")
}

pub fn native_mint() -> Pubkey {
    decode_32("So11111111111111111111111111111111111111112").expect("an address")
}

pub fn native_mint_2022() -> Pubkey {
    decode_32("9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXejP").expect("an address")
}

pub fn associated_token_program() -> Pubkey {
    decode_32("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL").expect("an address")
}

pub fn memo_program(version: u8) -> Pubkey {
    decode_32(match version {
        1 => "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
        _ => "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
    })
    .expect("an address")
}

/// An address that a program owns, and its bump.
pub fn derived(seeds: &[&[u8]], program: &Pubkey) -> (Pubkey, u8) {
    let (key, bump) = EnginePubkey::find_program_address(seeds, &EnginePubkey::new_from_array(*program));
    (key.to_bytes(), bump)
}

pub fn writable(key: Pubkey) -> AccountMeta {
    AccountMeta::writable(key, false)
}

pub fn readonly(key: Pubkey) -> AccountMeta {
    AccountMeta::readonly(key, false)
}

pub fn call(program_id: Pubkey, accounts: Vec<AccountMeta>, data: Vec<u8>) -> Instruction {
    Instruction { program_id, accounts, data }
}

pub fn initialize_mint(program: Pubkey, mint: Pubkey, authority: &Pubkey, decimals: u8) -> Instruction {
    call(program, vec![writable(mint)], [&[20, decimals][..], authority, &[0]].concat())
}

pub fn initialize_account(program: Pubkey, account: Pubkey, mint: Pubkey, owner: &Pubkey) -> Instruction {
    call(program, vec![writable(account), readonly(mint)], [&[18][..], owner].concat())
}

pub fn mint_to(program: Pubkey, mint: Pubkey, to: Pubkey, authority: Pubkey, amount: u64) -> Instruction {
    let accounts = vec![writable(mint), writable(to), AccountMeta::readonly(authority, true)];
    call(program, accounts, [&[7][..], &amount.to_le_bytes()].concat())
}

pub fn token_transfer(program: Pubkey, from: Pubkey, to: Pubkey, owner: Pubkey, amount: u64) -> Instruction {
    let accounts = vec![writable(from), writable(to), AccountMeta::readonly(owner, true)];
    call(program, accounts, [&[3][..], &amount.to_le_bytes()].concat())
}

pub fn associated_account(program: Pubkey, wallet: &Pubkey, mint: &Pubkey) -> Pubkey {
    derived(&[wallet, &program, mint], &associated_token_program()).0
}

pub fn create_associated(program: Pubkey, payer: Pubkey, wallet: Pubkey, mint: Pubkey) -> Instruction {
    let accounts = vec![
        AccountMeta::writable(payer, true),
        writable(associated_account(program, &wallet, &mint)),
        readonly(wallet),
        readonly(mint),
        readonly(SYSTEM_PROGRAM),
        readonly(program),
    ];
    call(associated_token_program(), accounts, vec![0])
}

/// Makes a lookup table; its address comes with it.
pub fn create_table(authority: Pubkey, recent_slot: u64) -> (Instruction, Pubkey) {
    let (table, bump) = derived(&[&authority, &recent_slot.to_le_bytes()], &ADDRESS_LOOKUP_TABLE_PROGRAM);
    let accounts = vec![
        writable(table),
        AccountMeta::readonly(authority, true),
        AccountMeta::writable(authority, true),
        readonly(SYSTEM_PROGRAM),
    ];
    let data = [&0u32.to_le_bytes()[..], &recent_slot.to_le_bytes(), &[bump]].concat();
    (call(ADDRESS_LOOKUP_TABLE_PROGRAM, accounts, data), table)
}

pub fn extend_table(table: Pubkey, authority: Pubkey, addresses: &[Pubkey]) -> Instruction {
    let accounts = vec![
        writable(table),
        AccountMeta::readonly(authority, true),
        AccountMeta::writable(authority, true),
        readonly(SYSTEM_PROGRAM),
    ];
    let count = (addresses.len() as u64).to_le_bytes();
    let data = [&2u32.to_le_bytes()[..], &count, addresses.as_flattened()].concat();
    call(ADDRESS_LOOKUP_TABLE_PROGRAM, accounts, data)
}

pub fn deactivate_table(table: Pubkey, authority: Pubkey) -> Instruction {
    let accounts = vec![writable(table), AccountMeta::readonly(authority, true)];
    call(ADDRESS_LOOKUP_TABLE_PROGRAM, accounts, 3u32.to_le_bytes().to_vec())
}

pub fn programdata_of(program: &Pubkey) -> Pubkey {
    derived(&[program], &BPF_LOADER_UPGRADEABLE).0
}

fn loader(accounts: Vec<AccountMeta>, tag: u32, data: &[u8]) -> Instruction {
    call(BPF_LOADER_UPGRADEABLE, accounts, [&tag.to_le_bytes()[..], data].concat())
}

pub fn initialize_buffer(buffer: Pubkey, authority: Pubkey) -> Instruction {
    loader(vec![writable(buffer), readonly(authority)], 0, &[])
}

pub fn write_buffer(buffer: Pubkey, authority: Pubkey, offset: usize, bytes: &[u8]) -> Instruction {
    let data = [&(offset as u32).to_le_bytes()[..], &(bytes.len() as u64).to_le_bytes(), bytes].concat();
    loader(vec![writable(buffer), AccountMeta::readonly(authority, true)], 1, &data)
}

pub fn deploy(payer: Pubkey, program: Pubkey, buffer: Pubkey, authority: Pubkey, max_len: usize) -> Instruction {
    let accounts = vec![
        AccountMeta::writable(payer, true),
        writable(programdata_of(&program)),
        writable(program),
        writable(buffer),
        readonly(SYSVAR_RENT),
        readonly(SYSVAR_CLOCK),
        readonly(SYSTEM_PROGRAM),
        AccountMeta::readonly(authority, true),
    ];
    loader(accounts, 2, &(max_len as u64).to_le_bytes())
}

pub fn upgrade(program: Pubkey, buffer: Pubkey, spill: Pubkey, authority: Pubkey) -> Instruction {
    let accounts = vec![
        writable(programdata_of(&program)),
        writable(program),
        writable(buffer),
        writable(spill),
        readonly(SYSVAR_RENT),
        readonly(SYSVAR_CLOCK),
        AccountMeta::readonly(authority, true),
    ];
    loader(accounts, 3, &[])
}

pub fn close_program(program: Pubkey, recipient: Pubkey, authority: Pubkey) -> Instruction {
    let accounts = vec![
        writable(programdata_of(&program)),
        writable(recipient),
        AccountMeta::readonly(authority, true),
        writable(program),
    ];
    loader(accounts, 5, &[])
}
