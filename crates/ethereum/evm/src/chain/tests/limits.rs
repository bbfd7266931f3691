//! Chains that lift a limit, or begin with older rules.

use alloy_eips::{eip7002, eip7251};

use super::*;
use crate::limits::TxLimits;

fn limited(dir: Option<&std::path::Path>, limits: TxLimits) -> Result<Chain, ChainError> {
    let genesis = Genesis { limits, ..Genesis::dev(CHAIN, &rich(1..=2), 500_000_000) };
    let dir = dir.map(std::path::Path::to_owned);
    Chain::open(ChainConfig { dir, block_time: BlockTime::Manual, ..ChainConfig::new(genesis) })
}

/// A transaction that deploys `bytes` zeros of code.
fn deploying(nonce: u64, bytes: u32, gas_limit: u64) -> Bytes {
    let mut input = vec![0x62];
    input.extend_from_slice(&bytes.to_be_bytes()[1..]);
    // PUSH3 bytes, PUSH0 RETURN
    input.extend([0x5f, 0xf3]);
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: 1,
        to: TxKind::Create,
        input: input.into(),
        ..Default::default()
    };
    Tx::signed(tx.into(), &signer(1)).raw
}

fn deploys(chain: &Chain, nonce: u64, bytes: u32) -> bool {
    accepted(chain.submit(vec![deploying(nonce, bytes, 12_000_000)]));
    chain.mine().expect("it is made").receipts[0].status
}

#[test]
fn code_size_is_the_chains_choice() {
    for (code_size, larger) in [(None, false), (Some(30_000), true), (Some(usize::MAX), true)] {
        let chain = limited(None, TxLimits { code_size, ..TxLimits::default() }).expect("it opens");
        assert!(deploys(&chain, 0, 24_576), "{code_size:?}");
        assert_eq!(deploys(&chain, 1, 24_577), larger, "{code_size:?}");
        assert_eq!(deploys(&chain, 2, 30_001), code_size == Some(usize::MAX), "{code_size:?}");
    }
}

#[test]
fn gas_cap_is_the_chains_choice() {
    for without_gas_cap in [false, true] {
        let chain = limited(None, TxLimits { without_gas_cap, ..TxLimits::default() }).expect("it opens");
        let result = chain.submit(vec![deploying(0, 1, 20_000_000)]).remove(0);
        assert_eq!(result.is_ok(), without_gas_cap, "{result:?}");
        let included = chain.mine().expect("it is made").txs.len();
        assert_eq!(included, usize::from(without_gas_cap));
    }
}

/// A transfer that may use three times the gas that it uses.
fn generous(seed: u8, nonce: u64) -> Bytes {
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 63_000,
        max_fee_per_gas: 1000 * GWEI,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(Address::repeat_byte(0x77)),
        value: U256::from(1),
        ..Default::default()
    };
    Tx::signed(tx.into(), &signer(seed)).raw
}

#[test]
fn blocks_are_full_by_the_gas_that_is_used() {
    let genesis = Genesis::dev(CHAIN, &rich(1..=8), 20 * 63_000);
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    let chain = Chain::open(config).expect("it opens");
    let raw: Vec<Bytes> = (0..20).flat_map(|nonce| (1..=8).map(move |seed| generous(seed, nonce))).collect();
    let hashes = accepted(chain.submit(raw));
    let mine = || chain.mine().expect("it is made").txs.len();
    assert_eq!(mine(), 20, "as many as the block has gas for if they use what they name");
    // After 57 of them exactly the gas that another one names is left.
    let pending = chain.pending().expect("it is executed").txs().len();
    assert_eq!((pending, mine()), (58, 58));
    assert_eq!((mine(), mine(), mine()), (58, 24, 0), "none is lost");
    assert!(hashes.iter().all(|hash| chain.tx(hash).is_some()));
}

#[test]
fn folder_keeps_the_limits_of_its_blocks() {
    let dir = tempfile::tempdir().expect("a folder");
    let lifted = TxLimits { code_size: Some(30_000), without_gas_cap: true };
    let chain = limited(Some(dir.path()), lifted).expect("it opens");
    assert!(deploys(&chain, 0, 30_000));
    chain.stop();
    drop(chain);
    let refused = limited(Some(dir.path()), TxLimits::default()).err().expect("it is refused").to_string();
    assert!(refused.contains("code size 30000, transactions without a gas cap"), "{refused}");
    assert_eq!(super::super::limits_in_folder(dir.path()), lifted);
    assert_eq!(super::super::limits_in_folder(&dir.path().join("none")), TxLimits::default());
    limited(Some(dir.path()), lifted).expect("it opens");
}

#[test]
fn folder_keeps_the_contract_of_deposits() {
    let dir = tempfile::tempdir().expect("a folder");
    let opened = |byte: u8| {
        let deposit_contract = alloy_primitives::Address::repeat_byte(byte);
        let genesis = Genesis { deposit_contract, ..Genesis::dev(CHAIN, &rich(1..=2), 500_000_000) };
        let dir = Some(dir.path().to_owned());
        Chain::open(ChainConfig { dir, block_time: BlockTime::Manual, ..ChainConfig::new(genesis) })
    };
    let chain = opened(7).expect("it opens");
    chain.mine().expect("it is made");
    chain.stop();
    drop(chain);
    let refused = opened(8).err().expect("it is refused").to_string();
    assert!(refused.contains("deposits at 0x0707") && refused.contains("has them at 0x0808"), "{refused}");
    opened(7).expect("it opens");
}

#[test]
fn prague_from_the_beginning_needs_its_contracts() {
    let contracts = [
        (eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, "EIP-7002"),
        (eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, "EIP-7251"),
    ];
    for (address, eip) in contracts {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("chain");
        let mut genesis = Genesis::dev(CHAIN, &rich(1..=1), 500_000_000);
        // An account is there, but no code.
        genesis.alloc.get_mut(&address).expect("a contract of the genesis").code = None;
        let open = |genesis: Genesis| {
            let dir = Some(folder.clone());
            Chain::open(ChainConfig { dir, block_time: BlockTime::Manual, ..ChainConfig::new(genesis) })
        };
        let refused = open(genesis.clone()).err().expect("it is refused").to_string();
        assert!(refused.contains(&address.to_string()) && refused.contains(eip), "{refused}");
        assert!(!folder.exists(), "nothing is begun");
        let before = genesis.under(SpecId::CANCUN).expect("it carries no side ledger");
        assert_eq!(open(before).expect("no block calls it").mine().expect("it is made").number(), 1);
    }
}

#[test]
fn older_forks_have_their_headers() {
    use SpecId::{CANCUN, MERGE, OSAKA, PRAGUE, SHANGHAI};
    for spec in [MERGE, SHANGHAI, CANCUN, PRAGUE, OSAKA] {
        let genesis = Genesis::dev(CHAIN, &rich(1..=1), 500_000_000);
        let genesis = genesis.under(spec).expect("it carries no side ledger");
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let chain = Chain::open(config).expect("it opens");
        accepted(chain.submit(vec![transfer(1, 0)]));
        let block = chain.mine().expect("it is made");
        assert_eq!(block.txs.len(), 1, "{spec:?}");
        assert_eq!(chain.env_of(&block).spec, spec);
        assert_eq!(block.header.withdrawals_root.is_some(), spec >= SHANGHAI, "{spec:?}");
        assert_eq!(block.header.parent_beacon_block_root.is_some(), spec >= CANCUN, "{spec:?}");
        assert_eq!(block.header.requests_hash.is_some(), spec >= PRAGUE, "{spec:?}");
    }
}
