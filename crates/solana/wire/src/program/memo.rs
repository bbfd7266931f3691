//! The memo program: a text, signed by the named accounts.
//!
//! writes  one [`Instruction`]
//! memory  the text
//! source  `spl-memo-interface`

use crate::consts::{MEMO_PROGRAM, Pubkey};
use crate::message::{AccountMeta, Instruction};

/// A memo of `text` that each of `signers` signs.
pub fn memo(text: &str, signers: &[Pubkey]) -> Instruction {
    Instruction {
        program_id: MEMO_PROGRAM,
        accounts: signers.iter().map(|signer| AccountMeta::readonly(*signer, true)).collect(),
        data: text.as_bytes().to_vec(),
    }
}

/// The text of a memo; `None` if it is not UTF-8, which the program refuses.
pub fn text(data: &[u8]) -> Option<&str> {
    str::from_utf8(data).ok()
}
