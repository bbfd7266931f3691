//! The system program: creates accounts, transfers lamports, keeps nonces.
//!
//! reads   the data of one instruction
//! writes  [`Instruction`]s, or their data alone
//! memory  decoding borrows the seed and copies the rest; nothing is allocated
//! drops   unknown tags, short data, seeds that are not UTF-8: `None`. Bytes after a known
//!         instruction are ignored, as the program does
//! source  `solana-system-interface` 3: bincode with a tag of four bytes

use crate::consts::{Pubkey, SYSTEM_PROGRAM, SYSVAR_RECENT_BLOCKHASHES, SYSVAR_RENT};
use crate::message::{AccountMeta, Instruction};

/// An instruction's data, by the tag's order. Sizes in bytes, amounts in lamports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the program's own words")]
pub enum SystemInstruction<'a> {
    /// 0: creates and funds an account. Accounts: funder (signer), new account (signer).
    CreateAccount { lamports: u64, space: u64, owner: Pubkey },
    /// 1: assigns an account to a program. Accounts: account (signer).
    Assign { owner: Pubkey },
    /// 2: transfers lamports. Accounts: from (signer), to.
    Transfer { lamports: u64 },
    /// 3: like 0, at an address derived from `base` and `seed`. Accounts: funder (signer), new
    /// account, base (signer, when it is not the funder).
    CreateAccountWithSeed { base: Pubkey, seed: &'a str, lamports: u64, space: u64, owner: Pubkey },
    /// 4: consumes a nonce. Accounts: nonce, recent-blockhashes sysvar, authority (signer).
    AdvanceNonceAccount,
    /// 5: withdraws lamports from a nonce account. Accounts: nonce, to, recent-blockhashes sysvar, rent sysvar,
    /// authority (signer).
    WithdrawNonceAccount { lamports: u64 },
    /// 6: initializes a nonce. Accounts: nonce, recent-blockhashes sysvar, rent sysvar.
    InitializeNonceAccount { authority: Pubkey },
    /// 7: changes a nonce's authority. Accounts: nonce, authority (signer).
    AuthorizeNonceAccount { authority: Pubkey },
    /// 8: allocates an account's data. Accounts: account (signer).
    Allocate { space: u64 },
    /// 9: like 8 and 1, at a derived address. Accounts: account, base (signer).
    AllocateWithSeed { base: Pubkey, seed: &'a str, space: u64, owner: Pubkey },
    /// 10: like 1, at a derived address. Accounts: account, base (signer).
    AssignWithSeed { base: Pubkey, seed: &'a str, owner: Pubkey },
    /// 11: like 2, from a derived address. Accounts: from, base (signer), to.
    TransferWithSeed { lamports: u64, from_seed: &'a str, from_owner: Pubkey },
    /// 12: upgrades an old nonce account. Accounts: nonce.
    UpgradeNonceAccount,
    /// 13: like 0, for an account that may hold lamports already. Accounts: new account (signer),
    /// funder (signer, when there are lamports).
    CreateAccountAllowPrefund { lamports: u64, space: u64, owner: Pubkey },
}

/// Reads consecutive fields of an instruction's data.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn pubkey(&mut self) -> Option<Pubkey> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn seed(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.u64()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        str::from_utf8(bytes).ok()
    }
}

/// The bytes of an instruction's data, to which fields are appended.
struct Writer(Vec<u8>);

impl Writer {
    fn tag(tag: u32) -> Self {
        Self(tag.to_le_bytes().to_vec())
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn pubkey(mut self, key: &Pubkey) -> Self {
        self.0.extend_from_slice(key);
        self
    }

    fn seed(self, seed: &str) -> Self {
        let mut with_len = self.u64(seed.len() as u64);
        with_len.0.extend_from_slice(seed.as_bytes());
        with_len
    }
}

impl<'a> SystemInstruction<'a> {
    /// Reads an instruction's data.
    pub fn decode(data: &'a [u8]) -> Option<Self> {
        let (tag, rest) = data.split_first_chunk()?;
        let r = &mut Reader(rest);
        Some(match u32::from_le_bytes(*tag) {
            0 => Self::CreateAccount { lamports: r.u64()?, space: r.u64()?, owner: r.pubkey()? },
            1 => Self::Assign { owner: r.pubkey()? },
            2 => Self::Transfer { lamports: r.u64()? },
            3 => Self::CreateAccountWithSeed {
                base: r.pubkey()?,
                seed: r.seed()?,
                lamports: r.u64()?,
                space: r.u64()?,
                owner: r.pubkey()?,
            },
            4 => Self::AdvanceNonceAccount,
            5 => Self::WithdrawNonceAccount { lamports: r.u64()? },
            6 => Self::InitializeNonceAccount { authority: r.pubkey()? },
            7 => Self::AuthorizeNonceAccount { authority: r.pubkey()? },
            8 => Self::Allocate { space: r.u64()? },
            9 => Self::AllocateWithSeed { base: r.pubkey()?, seed: r.seed()?, space: r.u64()?, owner: r.pubkey()? },
            10 => Self::AssignWithSeed { base: r.pubkey()?, seed: r.seed()?, owner: r.pubkey()? },
            11 => Self::TransferWithSeed { lamports: r.u64()?, from_seed: r.seed()?, from_owner: r.pubkey()? },
            12 => Self::UpgradeNonceAccount,
            13 => Self::CreateAccountAllowPrefund { lamports: r.u64()?, space: r.u64()?, owner: r.pubkey()? },
            _ => return None,
        })
    }

    /// Serializes the instruction's data: a tag of four bytes, then the fields, as bincode does.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = match self {
            Self::CreateAccount { lamports, space, owner } => Writer::tag(0).u64(*lamports).u64(*space).pubkey(owner),
            Self::Assign { owner } => Writer::tag(1).pubkey(owner),
            Self::Transfer { lamports } => Writer::tag(2).u64(*lamports),
            Self::CreateAccountWithSeed { base, seed, lamports, space, owner } => {
                Writer::tag(3).pubkey(base).seed(seed).u64(*lamports).u64(*space).pubkey(owner)
            }
            Self::AdvanceNonceAccount => Writer::tag(4),
            Self::WithdrawNonceAccount { lamports } => Writer::tag(5).u64(*lamports),
            Self::InitializeNonceAccount { authority } => Writer::tag(6).pubkey(authority),
            Self::AuthorizeNonceAccount { authority } => Writer::tag(7).pubkey(authority),
            Self::Allocate { space } => Writer::tag(8).u64(*space),
            Self::AllocateWithSeed { base, seed, space, owner } => {
                Writer::tag(9).pubkey(base).seed(seed).u64(*space).pubkey(owner)
            }
            Self::AssignWithSeed { base, seed, owner } => Writer::tag(10).pubkey(base).seed(seed).pubkey(owner),
            Self::TransferWithSeed { lamports, from_seed, from_owner } => {
                Writer::tag(11).u64(*lamports).seed(from_seed).pubkey(from_owner)
            }
            Self::UpgradeNonceAccount => Writer::tag(12),
            Self::CreateAccountAllowPrefund { lamports, space, owner } => {
                Writer::tag(13).u64(*lamports).u64(*space).pubkey(owner)
            }
        };
        bytes.0
    }

    /// The instruction with its accounts in the program's order.
    fn with(&self, accounts: Vec<AccountMeta>) -> Instruction {
        Instruction { program_id: SYSTEM_PROGRAM, accounts, data: self.encode() }
    }
}

/// Transfers `lamports` from `from`, which signs, to `to`.
pub fn transfer(from: &Pubkey, to: &Pubkey, lamports: u64) -> Instruction {
    let accounts = vec![AccountMeta::writable(*from, true), AccountMeta::writable(*to, false)];
    SystemInstruction::Transfer { lamports }.with(accounts)
}

/// Creates an account of `space` bytes owned by `owner`, with `lamports` of `from`.
pub fn create_account(from: &Pubkey, new: &Pubkey, lamports: u64, space: u64, owner: &Pubkey) -> Instruction {
    let accounts = vec![AccountMeta::writable(*from, true), AccountMeta::writable(*new, true)];
    SystemInstruction::CreateAccount { lamports, space, owner: *owner }.with(accounts)
}

/// As [`create_account`], at the address derived from `from`, `seed` and `owner`, which does not sign.
pub fn create_account_with_seed(
    from: &Pubkey,
    new: &Pubkey,
    seed: &str,
    lamports: u64,
    space: u64,
    owner: &Pubkey,
) -> Instruction {
    let accounts = vec![AccountMeta::writable(*from, true), AccountMeta::writable(*new, false)];
    SystemInstruction::CreateAccountWithSeed { base: *from, seed, lamports, space, owner: *owner }.with(accounts)
}

/// Assigns `account` to the program `owner`.
pub fn assign(account: &Pubkey, owner: &Pubkey) -> Instruction {
    SystemInstruction::Assign { owner: *owner }.with(vec![AccountMeta::writable(*account, true)])
}

/// Allocates `space` bytes of data for `account`.
pub fn allocate(account: &Pubkey, space: u64) -> Instruction {
    SystemInstruction::Allocate { space }.with(vec![AccountMeta::writable(*account, true)])
}

/// Advances the nonce in `nonce`; as the first instruction it makes the transaction a durable one.
pub fn advance_nonce_account(nonce: &Pubkey, authority: &Pubkey) -> Instruction {
    SystemInstruction::AdvanceNonceAccount.with(vec![
        AccountMeta::writable(*nonce, false),
        AccountMeta::readonly(SYSVAR_RECENT_BLOCKHASHES, false),
        AccountMeta::readonly(*authority, true),
    ])
}

/// Withdraws `lamports` from the nonce account `nonce`.
pub fn withdraw_nonce_account(nonce: &Pubkey, authority: &Pubkey, to: &Pubkey, lamports: u64) -> Instruction {
    SystemInstruction::WithdrawNonceAccount { lamports }.with(vec![
        AccountMeta::writable(*nonce, false),
        AccountMeta::writable(*to, false),
        AccountMeta::readonly(SYSVAR_RECENT_BLOCKHASHES, false),
        AccountMeta::readonly(SYSVAR_RENT, false),
        AccountMeta::readonly(*authority, true),
    ])
}

/// Initializes `nonce`, an account of 80 bytes that the system program owns.
pub fn initialize_nonce_account(nonce: &Pubkey, authority: &Pubkey) -> Instruction {
    SystemInstruction::InitializeNonceAccount { authority: *authority }.with(vec![
        AccountMeta::writable(*nonce, false),
        AccountMeta::readonly(SYSVAR_RECENT_BLOCKHASHES, false),
        AccountMeta::readonly(SYSVAR_RENT, false),
    ])
}

/// Sets the authority of the nonce account `nonce` to `new_authority`.
pub fn authorize_nonce_account(nonce: &Pubkey, authority: &Pubkey, new_authority: &Pubkey) -> Instruction {
    SystemInstruction::AuthorizeNonceAccount { authority: *new_authority }
        .with(vec![AccountMeta::writable(*nonce, false), AccountMeta::readonly(*authority, true)])
}
