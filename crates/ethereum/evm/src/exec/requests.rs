//! Requests of a block to the consensus layer, and faults that make a block impossible.
//!
//! reads   the logs of the block's transactions; the outputs of the request contracts
//! writes  requests, each with its type before it; or the first fault
//! memory  the requests
//! source  EIP-6110 (deposits), EIP-7002 (withdrawals), EIP-7251 (consolidations), EIP-7685 (their order)

use alloy_eips::eip6110::DEPOSIT_REQUEST_TYPE;
use alloy_eips::eip7002;
use alloy_primitives::{Address, B256, Bytes, Log, b256};
use revm::primitives::hardfork::SpecId;

use super::{BlockEnv, Verdict};

/// The topic of the deposit contract's event: keccak-256 of `DepositEvent(bytes,bytes,bytes,bytes,bytes)`.
const DEPOSIT_EVENT: B256 = b256!("649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");
/// Bytes of the event's data.
const DEPOSIT_BYTES: usize = 576;
/// The offset of each part's length in it, and that length: key, credentials, amount, signature, index.
const DEPOSIT_PARTS: [(usize, usize); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];
/// Bytes of a word. The first five words say where each part's length stands.
const WORD: usize = 32;

/// Why the executed transactions cannot form a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockFault {
    /// A contract that each block calls is not there.
    #[error("there is no contract at {contract}, which each block calls from Prague on ({eip})")]
    NoSystemContract {
        /// The address that the EIP assigns to the contract.
        contract: Address,
        /// The EIP that requires it.
        eip: &'static str,
    },
    /// A contract that each block calls fails.
    #[error("the contract at {contract}, which each block calls from Prague on ({eip}), fails")]
    SystemCallFailed {
        /// The address of the contract that fails.
        contract: Address,
        /// The EIP that requires it.
        eip: &'static str,
    },
    /// A log of the deposit contract that is no deposit.
    #[error("transaction {tx} logs a deposit that is not of EIP-6110's form")]
    DepositLayout {
        /// Its place in the block.
        tx: usize,
    },
}

/// Why a call by the system returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoOutput {
    /// The contract has no code.
    NoCode,
    /// It reverted, or ran out of gas.
    Failed,
}

/// The output of a system call.
pub(crate) type SystemOutput = Result<Bytes, NoOutput>;

/// The requests of one block, as they come about.
pub(crate) struct RequestsMade {
    pub requests: Vec<Bytes>,
    /// The first fault; `None` while there is none.
    pub fault: Option<BlockFault>,
}

impl RequestsMade {
    /// The deposits that a block's transactions logged; nothing before Prague.
    pub fn by_logs(env: &BlockEnv, verdicts: &[Verdict]) -> Self {
        let mut made = Self { requests: Vec::new(), fault: None };
        if !env.spec.is_enabled_in(SpecId::PRAGUE) {
            return made;
        }
        let mut deposits = vec![DEPOSIT_REQUEST_TYPE];
        let included = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Included(outcome) => Some(outcome),
            Verdict::Refused(_) => None,
        });
        for (tx, outcome) in included.enumerate() {
            let is_deposit =
                |log: &&Log| log.address == env.deposit_contract && log.topics().first() == Some(&DEPOSIT_EVENT);
            for log in outcome.logs.iter().filter(is_deposit) {
                if !add_deposit(&log.data.data, &mut deposits) {
                    made.fault = made.fault.or(Some(BlockFault::DepositLayout { tx }));
                }
            }
        }
        if deposits.len() > 1 {
            made.requests.push(deposits.into());
        }
        made
    }

    /// Appends the output of a request contract.
    pub fn by_call(&mut self, request_type: u8, contract: Address, output: SystemOutput) {
        let eip = if contract == eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS { "EIP-7002" } else { "EIP-7251" };
        match output {
            Ok(output) if output.is_empty() => {}
            Ok(output) => self.requests.push(std::iter::once(request_type).chain(output.iter().copied()).collect()),
            Err(why) => {
                let fault = match why {
                    NoOutput::NoCode => BlockFault::NoSystemContract { contract, eip },
                    NoOutput::Failed => BlockFault::SystemCallFailed { contract, eip },
                };
                self.fault.get_or_insert(fault);
            }
        }
    }
}

/// Appends the deposit of an event's data; whether that has the event's form.
fn add_deposit(data: &[u8], out: &mut Vec<u8>) -> bool {
    let number = |at: usize| {
        let word = data.get(at..at + WORD)?;
        let (high, low) = word.split_at(WORD - 8);
        let low = u64::from_be_bytes(low.try_into().ok()?);
        high.iter().all(|byte| *byte == 0).then_some(low)
    };
    let is_whole = data.len() == DEPOSIT_BYTES
        && DEPOSIT_PARTS.iter().enumerate().all(|(index, (at, length))| {
            number(index * WORD) == Some(*at as u64) && number(*at) == Some(*length as u64)
        });
    if is_whole {
        for (at, length) in DEPOSIT_PARTS {
            out.extend_from_slice(&data[at + WORD..at + WORD + length]);
        }
    }
    is_whole
}

#[cfg(test)]
mod tests {
    use alloy_primitives::keccak256;

    use super::*;
    use crate::exec::Outcome;

    /// Returns the data of an event whose parts are filled with 1, 2, 3, 4, 5.
    fn data() -> Vec<u8> {
        let mut data = vec![0; DEPOSIT_BYTES];
        for (index, (at, length)) in DEPOSIT_PARTS.iter().enumerate() {
            data[index * WORD + 24..][..8].copy_from_slice(&(*at as u64).to_be_bytes());
            data[at + 24..][..8].copy_from_slice(&(*length as u64).to_be_bytes());
            data[at + WORD..][..*length].fill(index as u8 + 1);
        }
        data
    }

    fn verdicts(log: Log) -> [Verdict; 1] {
        [Verdict::Included(Outcome { status: true, gas_used: 50_000, logs: vec![log] })]
    }

    #[test]
    fn deposits_are_read_from_logs() {
        assert_eq!(DEPOSIT_EVENT, keccak256("DepositEvent(bytes,bytes,bytes,bytes,bytes)"));
        let contract = Address::repeat_byte(7);
        let env = crate::exec::tests::env_of(SpecId::PRAGUE, contract);
        let log = |address, data: Vec<u8>| Log::new_unchecked(address, vec![DEPOSIT_EVENT], data.into());
        let made = RequestsMade::by_logs(&env, &verdicts(log(contract, data())));
        let deposit = [vec![1; 48], vec![2; 32], vec![3; 8], vec![4; 96], vec![5; 8]].concat();
        assert_eq!(made.requests, [Bytes::from([vec![0], deposit].concat())]);
        assert_eq!(made.fault, None);
        // Another contract's logs, and those before Prague, are none.
        assert!(RequestsMade::by_logs(&env, &verdicts(log(Address::ZERO, data()))).requests.is_empty());
        let cancun = crate::exec::tests::env_of(SpecId::CANCUN, contract);
        assert!(RequestsMade::by_logs(&cancun, &verdicts(log(contract, data()))).requests.is_empty());
        // Each word with the offset or the length of a part, and the total length.
        let words: Vec<usize> = (0..5).map(|index| index * WORD).chain(DEPOSIT_PARTS.map(|(at, _)| at)).collect();
        for at in words {
            for byte in [at, at + 31] {
                let mut wrong = data();
                wrong[byte] ^= 1;
                let made = RequestsMade::by_logs(&env, &verdicts(log(contract, wrong)));
                assert_eq!(made.fault, Some(BlockFault::DepositLayout { tx: 0 }), "byte {byte}");
            }
        }
        for length in [0, 575, 577] {
            let mut wrong = data();
            wrong.resize(length, 0);
            let made = RequestsMade::by_logs(&env, &verdicts(log(contract, wrong)));
            assert_eq!(made.fault, Some(BlockFault::DepositLayout { tx: 0 }), "{length} bytes");
        }
    }
}
