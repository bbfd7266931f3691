//! Sizes, limits and well-known addresses of the cluster.
//!
//! source  `solana-packet`, `solana-sdk-ids`, `solana-clock` and `solana-entry`; the addresses are compared with the
//!         published crate in `tests/`

/// An account's address: an ed25519 public key or a derived address, 32 bytes as on the wire.
pub type Pubkey = [u8; 32];
/// A SHA-256 digest: a blockhash, an entry's hash, a Merkle root.
pub type Hash = [u8; 32];
/// An ed25519 signature: R then S, 32 bytes each.
pub type Signature = [u8; 64];

/// Maximum size of a serialised legacy or version 0 transaction: the minimum MTU of IPv6 without 40 B of IPv6 header
/// and 8 B of fragment header.
pub const PACKET_DATA_SIZE: usize = 1280 - 40 - 8;

/// Maximum accounts that an index of one byte can name, lookups included.
pub const MAX_ACCOUNT_INDEXES: usize = 256;

/// Maximum accounts that one transaction may lock. The cluster checks it when it takes the locks, not when it parses
/// (128 by feature `increase_tx_account_lock_limit`, 64 before).
pub const MAX_ACCOUNT_LOCKS: usize = 128;

/// Maximum instructions of a transaction (feature `static_instruction_limit`).
pub const MAX_INSTRUCTIONS: usize = 64;

/// Maximum accounts of an instruction (feature `limit_instruction_accounts`).
pub const MAX_ACCOUNTS_PER_INSTRUCTION: usize = 255;

/// Maximum transactions per entry, as leaders build them.
pub const MAX_TRANSACTIONS_PER_ENTRY: usize = 64;

/// Number of blocks for which a recent blockhash stays valid.
pub const MAX_BLOCKHASH_AGE_BLOCKS: u64 = 150;

/// Lamports in one SOL.
pub const LAMPORTS_PER_SOL: u64 = 1_000_000_000;

const fn address(text: &str) -> Pubkey {
    five8_const::decode_32_const(text)
}

/// System program: creates accounts, transfers lamports, keeps nonces.
pub const SYSTEM_PROGRAM: Pubkey = address("11111111111111111111111111111111");
/// Compute-budget program: limits and price of a transaction.
pub const COMPUTE_BUDGET_PROGRAM: Pubkey = address("ComputeBudget111111111111111111111111111111");
/// Vote program: keeps each validator's tower in its vote account.
pub const VOTE_PROGRAM: Pubkey = address("Vote111111111111111111111111111111111111111");
/// Stake program: delegates lamports to vote accounts.
pub const STAKE_PROGRAM: Pubkey = address("Stake11111111111111111111111111111111111111");
/// Config program: keeps what the holders of keys publish, such as a validator's name.
pub const CONFIG_PROGRAM: Pubkey = address("Config1111111111111111111111111111111111111");
/// Address-lookup-table program: owner of the tables whose addresses a transaction names by one byte each.
pub const ADDRESS_LOOKUP_TABLE_PROGRAM: Pubkey = address("AddressLookupTab1e1111111111111111111111111");
/// Memo program, version 2 of its interface.
pub const MEMO_PROGRAM: Pubkey = address("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr");
/// The token program (SPL Token).
pub const TOKEN_PROGRAM: Pubkey = address("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
/// Ed25519 precompile: verifies the signatures that its instruction's data points to.
pub const ED25519_PROGRAM: Pubkey = address("Ed25519SigVerify111111111111111111111111111");
/// Secp256k1 precompile: the same for ECDSA signatures of Ethereum addresses.
pub const SECP256K1_PROGRAM: Pubkey = address("KeccakSecp256k11111111111111111111111111111");
/// Secp256r1 precompile: the same for ECDSA signatures on the curve P-256.
pub const SECP256R1_PROGRAM: Pubkey = address("Secp256r1SigVerify1111111111111111111111111");
/// Owner of accounts that hold native code.
pub const NATIVE_LOADER: Pubkey = address("NativeLoader1111111111111111111111111111111");
/// First BPF loader, owner of the oldest programs, which have a parameter format of their own.
pub const BPF_LOADER_DEPRECATED: Pubkey = address("BPFLoader1111111111111111111111111111111111");
/// Second BPF loader, owner of programs that cannot be upgraded.
pub const BPF_LOADER: Pubkey = address("BPFLoader2111111111111111111111111111111111");
/// Upgradeable BPF loader; its presence keeps a called program writable.
pub const BPF_LOADER_UPGRADEABLE: Pubkey = address("BPFLoaderUpgradeab1e11111111111111111111111");
/// Loader, version 4 (feature `enable_loader_v4`).
pub const LOADER_V4: Pubkey = address("LoaderV411111111111111111111111111111111111");
/// Feature-gate program, the owner of feature accounts.
pub const FEATURE_PROGRAM: Pubkey = address("Feature111111111111111111111111111111111111");
/// Incinerator: lamports sent there are destroyed at the block's end.
pub const INCINERATOR: Pubkey = address("1nc1nerator11111111111111111111111111111111");

/// Owner of all sysvar accounts.
pub const SYSVAR_OWNER: Pubkey = address("Sysvar1111111111111111111111111111111111111");
/// Clock sysvar: slot, epoch and Unix time of the block.
pub const SYSVAR_CLOCK: Pubkey = address("SysvarC1ock11111111111111111111111111111111");
/// Epoch-rewards sysvar: the progress of distributing an epoch's rewards.
pub const SYSVAR_EPOCH_REWARDS: Pubkey = address("SysvarEpochRewards1111111111111111111111111");
/// Epoch-schedule sysvar: how slots are divided into epochs.
pub const SYSVAR_EPOCH_SCHEDULE: Pubkey = address("SysvarEpochSchedu1e111111111111111111111111");
/// Fees sysvar: the price of a signature; no longer written.
pub const SYSVAR_FEES: Pubkey = address("SysvarFees111111111111111111111111111111111");
/// Instructions sysvar: made for each transaction.
pub const SYSVAR_INSTRUCTIONS: Pubkey = address("Sysvar1nstructions1111111111111111111111111");
/// Last-restart-slot sysvar: the slot of the last hard fork.
pub const SYSVAR_LAST_RESTART_SLOT: Pubkey = address("SysvarLastRestartS1ot1111111111111111111111");
/// Recent-blockhashes sysvar; nonce instructions still name it.
pub const SYSVAR_RECENT_BLOCKHASHES: Pubkey = address("SysvarRecentB1ockHashes11111111111111111111");
/// Rent sysvar: the lamports that an account must hold for each byte.
pub const SYSVAR_RENT: Pubkey = address("SysvarRent111111111111111111111111111111111");
/// Rewards sysvar: no longer in use.
pub const SYSVAR_REWARDS: Pubkey = address("SysvarRewards111111111111111111111111111111");
/// Slot-hashes sysvar: the bank hashes of the last 512 slots with blocks.
pub const SYSVAR_SLOT_HASHES: Pubkey = address("SysvarS1otHashes111111111111111111111111111");
/// Slot-history sysvar: for each of the last 1,048,576 slots, whether it has a block.
pub const SYSVAR_SLOT_HISTORY: Pubkey = address("SysvarS1otHistory11111111111111111111111111");
/// Stake-history sysvar: the active stake of all in each of the last 512 epochs.
pub const SYSVAR_STAKE_HISTORY: Pubkey = address("SysvarStakeHistory1111111111111111111111111");

const _: () = assert!(PACKET_DATA_SIZE == 1232);
