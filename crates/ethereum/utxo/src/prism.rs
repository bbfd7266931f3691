//! Transfers between the two ledgers.
//!
//! To the EVM: a transaction of kind prism removes units from the set, and the block credits the account with a
//! withdrawal as in EIP-4895, which any Ethereum implementation executes. From the EVM: a call of the contract at
//! [`ADDRESS`] leaves its value there and logs the owner and the units; the ledger turns each log into an output in the
//! same block. A reverted call logs nothing. The contract cannot pay out, so its balance is out of the EVM's
//! circulation for good; withdrawals mint units instead:
//!
//! ```text
//! balances of all accounts − the contract's + units in outputs + what was burnt  =  constant
//! ```
//!
//! The contract in Solidity (`prism(bytes32)` is its only function; any other call reverts):
//!
//! ```solidity
//! event Prism(bytes32 indexed owner, address indexed sender, uint256 units);
//! function prism(bytes32 owner) external payable {
//!     require(msg.value > 0 && msg.value % 10**12 == 0 && msg.value / 10**12 <= CROSSING_MAX);
//!     emit Prism(owner, msg.sender, msg.value / 10**12);
//! }
//! ```
//!
//! source  EIP-4895

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use hearth_crypto::keccak::keccak256;

use crate::address::OwnerKey;
use crate::amount::{CROSSING_MAX, GWEI_PER_UNIT, WEI_PER_UNIT};

/// The address of the contract: "prism" in ASCII, at the end of zeros.
pub const ADDRESS: Address = address!("000000000000000000000000000000707269736d");

/// Revert message of the contract.
const COMPLAINT: &[u8] = b"prism(bytes32) takes a positive multiple of 10^12 wei";

/// The first four bytes of a call.
pub fn selector() -> [u8; 4] {
    let hash = keccak256(b"prism(bytes32)");
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The first topic of the contract's log.
pub static TOPIC: LazyLock<B256> = LazyLock::new(|| B256::new(keccak256(b"Prism(bytes32,address,uint256)")));

/// Bytecode of the contract.
pub static CODE: LazyLock<Bytes> = LazyLock::new(|| {
    // The offset of the revert block appears in the code before it; both passes have the same length.
    let draft = code(0, 0);
    let fail = draft.iter().rposition(|byte| *byte == 0x5b).expect("there is one JUMPDEST");
    let tail = draft.len();
    let mut whole = code(u8::try_from(fail).expect("short"), u8::try_from(tail).expect("short"));
    whole.extend(revert_data());
    whole.into()
});

/// A call of the contract that makes an output for `owner`.
pub fn call_data(owner: &OwnerKey) -> Bytes {
    [&selector()[..], &owner.0].concat().into()
}

/// `Error(string)`, as Solidity encodes it.
fn revert_data() -> Vec<u8> {
    let mut data = keccak256(b"Error(string)")[..4].to_vec();
    data.extend(U256::from(32).to_be_bytes::<32>());
    data.extend(U256::from(COMPLAINT.len()).to_be_bytes::<32>());
    data.extend(COMPLAINT);
    data.resize(4 + 64 + COMPLAINT.len().next_multiple_of(32), 0);
    data
}

/// The code up to the text of its failure: `fail` is the place of its JUMPDEST, `tail` of that text. No opcode is
/// younger than Constantinople.
fn code(fail: u8, tail: u8) -> Vec<u8> {
    const PUSH1: u8 = 0x60;
    let fail_if = [PUSH1, fail, 0x57 /* JUMPI */];
    let length = u8::try_from(revert_data().len()).expect("short");
    let mut out = Vec::new();
    let mut add = |bytes: &[u8]| out.extend_from_slice(bytes);
    add(&[0x36 /* CALLDATASIZE */, PUSH1, 36, 0x18 /* XOR */]);
    add(&fail_if);
    add(&[PUSH1, 0, 0x35 /* CALLDATALOAD */, PUSH1, 224, 0x1c /* SHR */, 0x63 /* PUSH4 */]);
    add(&selector());
    add(&[0x18 /* XOR */]);
    add(&fail_if);
    add(&[0x64 /* PUSH5 */]);
    add(&WEI_PER_UNIT.to_be_bytes()[3..]);
    add(&[0x80 /* DUP1 */, 0x34 /* CALLVALUE */, 0x06 /* MOD */]);
    add(&fail_if);
    // [10¹²] → [units]
    add(&[0x34 /* CALLVALUE */, 0x04 /* DIV */, 0x80 /* DUP1 */, 0x15 /* ISZERO */]);
    add(&fail_if);
    add(&[0x80 /* DUP1 */, 0x67 /* PUSH8 */]);
    add(&CROSSING_MAX.to_be_bytes());
    add(&[0x10 /* LT: the most < units */]);
    add(&fail_if);
    add(&[
        PUSH1, 0, 0x52, /* MSTORE */
        0x33, /* CALLER */
        PUSH1, 4, 0x35, /* CALLDATALOAD */
        0x7f, /* PUSH32 */
    ]);
    add(&TOPIC.0);
    add(&[PUSH1, 32, PUSH1, 0, 0xa3 /* LOG3 */, 0x00 /* STOP */]);
    add(&[0x5b /* JUMPDEST */, PUSH1, length, PUSH1, tail, PUSH1, 0, 0x39 /* CODECOPY */]);
    add(&[PUSH1, length, PUSH1, 0, 0xfd /* REVERT */]);
    out
}

/// A transfer that a log of the contract requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// The transaction of the EVM that called.
    pub transaction: B256,
    /// The place of the log among that transaction's logs.
    pub log: u32,
    /// The account that called the contract.
    pub sender: Address,
    /// The owner of the new output.
    pub owner: OwnerKey,
    /// Units that were left with the contract.
    pub amount: u64,
}

impl Incoming {
    /// Decodes a log of `transaction`; `None` for a log of another contract.
    pub fn of_log(transaction: B256, log: u32, address: &Address, topics: &[B256], data: &[u8]) -> Option<Self> {
        let [event, owner, sender] = topics else { return None };
        if *address != ADDRESS || *event != *TOPIC {
            return None;
        }
        let amount = u64::try_from(U256::try_from_be_slice(data)?).ok()?;
        Some(Self { transaction, log, sender: Address::from_word(*sender), owner: OwnerKey(owner.0), amount })
    }
}

/// A credit to an EVM account, as in EIP-4895.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withdrawal {
    /// Counts up from 0, over all blocks.
    pub index: u64,
    /// The account that is credited.
    pub address: Address,
    /// How many units of this ledger.
    pub units: u64,
}

impl Withdrawal {
    /// As the block holds it. Units that cross are bounded, so that this fits.
    pub fn gwei(&self) -> u64 {
        self.units * GWEI_PER_UNIT
    }

    /// The credit in wei.
    pub fn wei(&self) -> U256 {
        crate::amount::to_wei(self.units.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_jumps_to_its_failing_end() {
        let code = &*CODE;
        let at = code.iter().position(|byte| *byte == 0x57).unwrap();
        let fail = usize::from(code[at - 1]);
        assert_eq!(code[fail], 0x5b, "{code}");
        assert!(code.ends_with(&revert_data()));
        let tail = code.len() - revert_data().len();
        assert_eq!(usize::from(code[fail + 4]), tail);
    }

    #[test]
    fn the_page_has_the_code() {
        let page = include_str!("../../../../docs/wallet.md");
        assert!(page.contains(&format!("    {}\n", *CODE)), "docs/wallet.md, under alloc: {}", *CODE);
    }

    #[test]
    fn only_the_contract_s_own_log_counts() {
        let topics = [*TOPIC, B256::repeat_byte(5), Address::repeat_byte(6).into_word()];
        let data = U256::from(7).to_be_bytes::<32>();
        let hash = B256::repeat_byte(1);
        let incoming = Incoming::of_log(hash, 3, &ADDRESS, &topics, &data).unwrap();
        assert_eq!(incoming.owner, OwnerKey([5; 32]));
        assert_eq!((incoming.sender, incoming.amount, incoming.log), (Address::repeat_byte(6), 7, 3));
        assert_eq!(Incoming::of_log(hash, 3, &Address::ZERO, &topics, &data), None);
        assert_eq!(Incoming::of_log(hash, 3, &ADDRESS, &topics[..2], &data), None);
        assert_eq!(Incoming::of_log(hash, 3, &ADDRESS, &[topics[1], topics[1], topics[2]], &data), None);
    }
}
