//! Chains that keep more states than the last 128.

use super::*;

#[test]
fn an_archive_has_what_was_before_a_revert_and_what_came_after() {
    let genesis = Genesis::dev(CHAIN, &rich(1..=8), 500_000_000);
    let history = Some(History { blocks: u64::MAX, bytes: History::BYTES });
    let config = ChainConfig { history, block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    let chain = Chain::open(config).expect("it opens");
    let paid = |number: u64| {
        let view = chain.view_at(number).unwrap_or_else(|| panic!("block {number} is not kept"));
        assert_eq!(view.state_root(), chain.block(number).expect("it is there").header.state_root);
        view.account(&Address::repeat_byte(0x77)).map_or(U256::ZERO, |account| account.balance)
    };
    let pay = |seed: u8, nonce: u64| {
        accepted(chain.submit(vec![transfer(seed, nonce)]));
        chain.mine().expect("it is made");
    };
    (0..150).for_each(|nonce| pay(1, nonce));
    let id = chain.snapshot();
    (150..300).for_each(|nonce| pay(1, nonce));
    for number in 0..=300 {
        assert_eq!(paid(number), U256::from(number));
    }
    assert!(chain.revert(id).expect("it goes back"));
    assert!(chain.view_at(151).is_none());
    chain.mine_many(10, None).expect("they are made");
    pay(2, 0);
    for number in 0..=150 {
        assert_eq!(paid(number), U256::from(number));
    }
    assert_eq!(((151..=160).map(paid).all(|paid| paid == U256::from(150)), paid(161)), (true, U256::from(151)));
    let states = chain.metrics().states;
    assert_eq!((states.oldest, states.blocks, states.evicted), (0, 162, 0));
    assert!(states.bytes > 0);
}
