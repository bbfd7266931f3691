//! Funding on misbehaving nodes: every account gets its money, and nothing is paid twice.

use std::cell::{Cell, RefCell};

use alloy_primitives::{Address, U256};
use hearth_crypto::secp256k1::Signer;
use hearth_load::account::{AccountError, address, generate};
use hearth_load::ethereum::fund::FundError;
use hearth_load::ethereum::node::{Node, connect};
use hearth_load::ethereum::run::prepare;
use hearth_load::retry::Caller;

use crate::TIMEOUT;
use crate::stub::{Manners, Stub};

const ETHER: u64 = 1_000_000_000_000_000_000;

struct Scene {
    stub: Stub,
    node: Node,
    rich: Signer,
    accounts: Vec<Signer>,
}

fn scene(accounts: usize, manners: Manners) -> Scene {
    let rich = generate(1).unwrap().remove(0);
    let stub = Stub::start(manners, &[address(&rich)]);
    let node = connect(&stub.url, TIMEOUT).unwrap();
    Scene { stub, node, rich, accounts: generate(accounts).unwrap() }
}

impl Scene {
    fn fund(&self, stop: &dyn Fn() -> bool) -> Result<usize, FundError> {
        prepare(&self.node, &self.rich, &self.accounts, U256::from(ETHER), Caller::new(stop), |_, _| {})
    }

    fn funded(&self) -> usize {
        let has = |account: Address| self.stub.with(|world| world.balance(account));
        self.accounts.iter().filter(|signer| has(address(signer)) >= U256::from(ETHER)).count()
    }

    /// Asserts that every account is funded, and that the rich account has paid for each once.
    fn check(&self) {
        assert_eq!(self.funded(), self.accounts.len());
        let left = self.stub.with(|world| world.balance(address(&self.rich)));
        let paid = U256::from(10).pow(U256::from(24)) - left;
        let fee = U256::from(self.node.terms.max_fee) * U256::from(21_000);
        let each = U256::from(ETHER) + fee;
        assert!(paid <= each * U256::from(self.accounts.len()), "paid {paid}, {each} each");
    }
}

#[test]
fn everybody_gets_theirs_in_a_few_levels() {
    let scene = scene(50, Manners { block_ms: 20, ..Manners::default() });
    assert_eq!(scene.fund(&|| false).unwrap(), 50);
    scene.check();
    assert_eq!(scene.fund(&|| false).unwrap(), 0, "nobody is short any more");
    scene.check();
}

#[test]
fn stopped_funding_continues_without_double_payment() {
    // The test decides when blocks come.
    let scene = scene(60, Manners { block_ms: 600_000, ..Manners::default() });
    let why = scene.fund(&|| scene.stub.with(|world| world.waiting() > 0)).unwrap_err();
    assert!(matches!(why, FundError::Stopped { done: 0, count: 60 }), "{why}");
    let mine_until = |enough: usize| {
        scene.stub.mine();
        scene.funded() >= enough
    };
    let why = scene.fund(&|| mine_until(1)).unwrap_err();
    assert!(matches!(why, FundError::Stopped { .. }), "{why}");
    assert_eq!(scene.funded(), 15, "what waited was waited for");
    scene.fund(&|| mine_until(1000)).unwrap();
    scene.check();
}

#[test]
fn lost_answers_and_a_full_pool_cost_nothing() {
    for manners in [
        Manners { answer_lost_every: 2, ..Manners::default() },
        Manners { pool_max: 4, ..Manners::default() },
        Manners { busy_every: 3, ..Manners::default() },
        Manners { garbles_every: 3, ..Manners::default() },
    ] {
        let scene = scene(40, Manners { block_ms: 20, ..Manners::default() });
        scene.stub.behave(manners);
        assert_eq!(scene.fund(&|| false).unwrap(), 40);
        scene.check();
    }
}

#[test]
fn poor_funder_is_named_with_the_needed_sum() {
    let mut scene = scene(3, Manners::default());
    scene.rich = generate(1).unwrap().remove(0);
    let why = scene.fund(&|| false).unwrap_err().to_string();
    assert!(why.contains(&address(&scene.rich).to_string()) && why.contains("3 accounts"), "{why}");
}

#[test]
fn payer_is_named() {
    let mut scene = scene(3, Manners { pays: true, block_ms: 20, ..Manners::default() });
    scene.rich = generate(1).unwrap().remove(0);
    let said = RefCell::new(vec![]);
    let says = |text: &str| said.borrow_mut().push(text.to_owned());
    let stop = || false;
    let caller = Caller { says: &says, ..Caller::new(&stop) };
    let short = prepare(&scene.node, &scene.rich, &scene.accounts, U256::from(ETHER), caller, |_, _| {}).unwrap();
    let said = said.borrow();
    assert_eq!((short, said.len()), (3, 1), "{said:?}");
    let payer = address(&scene.rich).to_string();
    assert!(said[0].starts_with(&format!("{payer} has only 0.0")) && said[0].contains("0x5555"), "{said:?}");
}

#[test]
fn keys_are_kept_before_any_money_goes_out_and_not_without() {
    let mut scene = scene(3, Manners::default());
    let kept = Cell::new(0);
    let fund = |scene: &Scene, result: fn() -> Result<(), AccountError>| {
        let keep = || {
            kept.set(kept.get() + 1);
            result()
        };
        let caller = Caller { stop: &|| false, before_paying: &keep, says: &|_| {} };
        prepare(&scene.node, &scene.rich, &scene.accounts, U256::from(ETHER), caller, |_, _| {})
    };
    let rich = std::mem::replace(&mut scene.rich, generate(1).unwrap().remove(0));
    assert!(matches!(fund(&scene, || Ok(())), Err(FundError::Poor { .. })));
    assert_eq!(kept.get(), 0, "without money there is nothing to keep");
    scene.rich = rich;
    let why = fund(&scene, || Err(AccountError::There("keys.json".into()))).unwrap_err();
    assert!(matches!(why, FundError::Keys(_)) && scene.funded() == 0, "{why}");
    assert_eq!(fund(&scene, || Ok(())).unwrap(), 3);
    assert!(kept.get() >= 2);
}
