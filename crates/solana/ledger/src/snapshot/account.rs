//! account: the encoding of an account in a snapshot.
//!
//! reads   a chunk's content
//! writes  the same
//! source  our own layout: `flags u8 | address | lamports u64 | [owner] | [rent epoch u64] | [length u32 | data]`
//!
//! Values that nearly all accounts share are encoded as a flag, so that a wallet takes 41 bytes.

use hearth_wire::Pubkey;
use hearth_wire::consts::SYSTEM_PROGRAM;

use super::format::u64_at;
use crate::account::Account;
use crate::rent::RENT_EXEMPT_EPOCH;

const EXECUTABLE: u8 = 1;
const SYSTEM_OWNED: u8 = 2;
const RENT_EXEMPT: u8 = 4;
const NO_DATA: u8 = 8;
const KNOWN: u8 = 15;

pub(super) fn encode(out: &mut Vec<u8>, address: &Pubkey, account: &Account) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let data = account.data();
    let flags = flag(account.executable, EXECUTABLE)
        | flag(account.owner == SYSTEM_PROGRAM, SYSTEM_OWNED)
        | flag(account.rent_epoch == RENT_EXEMPT_EPOCH, RENT_EXEMPT)
        | flag(data.is_empty(), NO_DATA);
    out.push(flags);
    out.extend_from_slice(address);
    out.extend_from_slice(&account.lamports.to_le_bytes());
    if flags & SYSTEM_OWNED == 0 {
        out.extend_from_slice(&account.owner);
    }
    if flags & RENT_EXEMPT == 0 {
        out.extend_from_slice(&account.rent_epoch.to_le_bytes());
    }
    if flags & NO_DATA == 0 {
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        out.extend_from_slice(data);
    }
}

/// Decodes the account at the start of `bytes`, and advances past it.
pub(super) fn decode(bytes: &mut &[u8]) -> Option<(Pubkey, Account)> {
    let flags = *take(bytes, 1)?.first()?;
    let address = *take(bytes, 32)?.first_chunk()?;
    let lamports = u64_at(take(bytes, 8)?, 0)?;
    let owner = if flags & SYSTEM_OWNED == 0 { *take(bytes, 32)?.first_chunk()? } else { SYSTEM_PROGRAM };
    let rent_epoch = if flags & RENT_EXEMPT == 0 { u64_at(take(bytes, 8)?, 0)? } else { RENT_EXEMPT_EPOCH };
    let data = if flags & NO_DATA == 0 {
        let len = u32::from_le_bytes(*take(bytes, 4)?.first_chunk()?);
        take(bytes, len as usize)?
    } else {
        &[]
    };
    let mut account = Account::with_data(lamports, owner, data);
    (account.rent_epoch, account.executable) = (rent_epoch, flags & EXECUTABLE != 0);
    (flags & !KNOWN == 0 && lamports != 0).then_some((address, account))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_account_comes_back(
            address: [u8; 32], lamports in 1u64.., system: bool, owner: [u8; 32], exempt: bool, rent_epoch: u64,
            executable: bool, data in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut account = Account::with_data(lamports, if system { SYSTEM_PROGRAM } else { owner }, &data);
            account.rent_epoch = if exempt { RENT_EXEMPT_EPOCH } else { rent_epoch };
            account.executable = executable;
            let mut bytes = vec![];
            encode(&mut bytes, &address, &account);
            let mut rest = &bytes[..];
            prop_assert_eq!(decode(&mut rest), Some((address, account)));
            prop_assert!(rest.is_empty());
            for len in 0..bytes.len() {
                prop_assert_eq!(decode(&mut &bytes[..len]), None);
            }
        }
    }

    #[test]
    fn a_wallet_takes_41_bytes() {
        let mut bytes = vec![];
        encode(&mut bytes, &[7; 32], &Account::wallet(5));
        assert_eq!(bytes.len(), 41);
        bytes[0] |= 16;
        assert_eq!(decode(&mut &bytes[..]), None, "a flag of a later version");
    }
}
