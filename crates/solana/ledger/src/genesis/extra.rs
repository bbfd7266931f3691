//! The additional accounts of a genesis: a binary file beside the genesis file.
//!
//! memory  the accounts
//! drops   a file that is truncated or altered: the error says what is wrong
//!
//! ```text
//! magic "hearthGA" │ count u64 │ each: address 32, owner 32, lamports u64, rent epoch u64, executable u8,
//! length u64, data │ CRC-32 of all before
//! ```

use hearth_wire::Pubkey;

use crate::account::Account;

const MAGIC: &[u8; 8] = b"hearthGA";

/// Encodes the accounts as a file.
pub(super) fn encode(accounts: &[(Pubkey, Account)]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend((accounts.len() as u64).to_le_bytes());
    for (key, account) in accounts {
        bytes.extend(key);
        bytes.extend(account.owner);
        bytes.extend(account.lamports.to_le_bytes());
        bytes.extend(account.rent_epoch.to_le_bytes());
        bytes.push(account.executable.into());
        bytes.extend((account.data().len() as u64).to_le_bytes());
        bytes.extend(account.data());
    }
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Decodes a file's accounts; the error says what is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<(Pubkey, Account)>, String> {
    let (body, checksum) = bytes.split_last_chunk().ok_or("it is cut")?;
    let found = crc32fast::hash(body);
    let said = u32::from_le_bytes(*checksum);
    if found != said {
        return Err(format!("its checksum is {found}, it says {said}"));
    }
    read(body).ok_or_else(|| "it holds no accounts".to_owned())
}

fn read(body: &[u8]) -> Option<Vec<(Pubkey, Account)>> {
    let mut rest = body.strip_prefix(MAGIC)?;
    let count = take_u64(&mut rest)?;
    let mut accounts = vec![];
    for _ in 0..count {
        let (key, owner) = (*take::<32>(&mut rest)?, *take::<32>(&mut rest)?);
        let (lamports, rent_epoch) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
        let [executable] = *take(&mut rest)?;
        let length = usize::try_from(take_u64(&mut rest)?).ok()?;
        let (data, after) = rest.split_at_checked(length)?;
        rest = after;
        let mut account = Account::with_data(lamports, owner, data);
        (account.rent_epoch, account.executable) = (rent_epoch, executable != 0);
        accounts.push((key, account));
    }
    rest.is_empty().then_some(accounts)
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_and_detects_every_cut_and_change() {
        let mut program = Account::with_data(7, [4; 32], b"code");
        program.executable = true;
        let accounts = vec![([1; 32], Account::wallet(5)), ([2; 32], program)];
        let bytes = encode(&accounts);
        assert_eq!(decode(&bytes), Ok(accounts));
        assert_eq!(decode(&encode(&[])), Ok(vec![]));
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "cut at {end}");
            let mut changed = bytes.clone();
            changed[end] ^= 1;
            assert!(decode(&changed).is_err(), "changed at {end}");
        }
        // A correct checksum over a count that is too large.
        let mut long = encode(&[]);
        long.truncate(8);
        long.extend(u64::MAX.to_le_bytes());
        long.extend(crc32fast::hash(&long).to_le_bytes());
        assert!(decode(&long).is_err());
    }
}
