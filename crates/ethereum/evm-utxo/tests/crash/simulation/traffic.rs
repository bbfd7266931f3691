//! Seeded traffic: transfers, contracts, tokens, replacements, gaps, outputs.

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, KECCAK256_EMPTY, TxKind, U256};
use hearth_evm::block::Block;
use hearth_evm::builders::{account, signer};
use hearth_evm::chain::Chain;
use hearth_evm::tx::{Tx, TypedTransaction};
use hearth_evm_utxo::UtxoChain;
use hearth_evm_utxo::prism::call;
use hearth_testkit::random::Random;
use hearth_utxo::tx::{Action, Builder};
use hearth_utxo::{AssetId, OutPoint, Output};

use super::node::{CHAIN, N, key, owner};

/// Maximum fee in wei per unit of gas: above any base fee in the runs.
const PRICE: u128 = 100_000_000_000;
const COIN: u64 = 1_000_000;
/// Initial supply that a token's creator holds.
const SUPPLY: u64 = 1_000_000;

/// `SSTORE(caller, SUPPLY)`, as a token's constructor does it.
const MINT: [u8; 6] = [0x62, 0x0f, 0x42, 0x40, 0x33, 0x55];
/// A token: takes the second word of its input from the caller and gives it to the first, and logs it; reverts where
/// the caller has less.
const TOKEN: [u8; 42] = [
    0x60, 0x20, 0x35, // amount
    0x33, 0x54, // what the caller has
    0x81, 0x81, 0x10, 0x60, 0x24, 0x57, // less than that: to the end
    0x81, 0x90, 0x03, 0x33, 0x55, // the caller's is less
    0x60, 0x00, 0x35, 0x80, 0x54, 0x82, 0x01, 0x90, 0x55, // the other's is more
    0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xa0, 0x00, // LOG0(amount), STOP
    0x00, 0x00, // never reached
    0x5b, 0x60, 0x00, 0x60, 0x00, 0xfd, // REVERT
];
/// Self-destructs during its creation; its balance goes to its creator.
const GONE: [u8; 2] = [0x33, 0xff];

/// Generates transactions. It knows which tokens exist.
#[derive(Default)]
pub struct Traffic {
    tokens: Vec<Address>,
}

/// A burst that grows: the nonce of each account's next transaction is that of the pool, and one more for each here.
struct Burst<'a> {
    chain: &'a Chain,
    nonces: [u64; N as usize + 1],
    raw: Vec<Bytes>,
}

impl Burst<'_> {
    fn nonce(&mut self, n: u8) -> u64 {
        let nonce = &mut self.nonces[usize::from(n)];
        *nonce += 1;
        *nonce - 1
    }

    fn send(&mut self, n: u8, nonce: u64, to: TxKind, value: u64, input: Bytes, fee: u128) {
        let transaction: TypedTransaction = TxEip1559 {
            chain_id: CHAIN,
            nonce,
            gas_limit: 300_000,
            max_fee_per_gas: PRICE * fee,
            max_priority_fee_per_gas: 7 * fee,
            to,
            value: U256::from(value),
            input,
            ..Default::default()
        }
        .into();
        self.raw.push(Tx::signed(transaction, &signer(n)).raw);
    }

    /// As [`Burst::send`], with the account's next nonce.
    fn send_next(&mut self, n: u8, to: TxKind, value: u64, input: Bytes) {
        let nonce = self.nonce(n);
        self.send(n, nonce, to, value, input, 1);
    }

    fn available(&self, n: u8) -> Vec<(OutPoint, Output)> {
        let all = self.chain.outputs().outputs_of(&owner(n), None, 8);
        all.into_iter().filter(|(at, _)| self.chain.outputs_pool().spender(at).is_none()).collect()
    }

    /// Spends some of these outputs; nothing where they do not suffice.
    fn spend(&mut self, n: u8, available: &[(OutPoint, Output)], outputs: Vec<Output>, action: Action) {
        let key = key(n);
        let is_issue = matches!(action, Action::Issue { .. });
        let builder = Builder { chain_id: CHAIN, key: &key, available, outputs, action };
        let built = if is_issue { builder.issue(owner(n)) } else { builder.build() };
        self.raw.extend(built.ok().map(Bytes::from));
    }
}

fn native(to: u8, amount: u64) -> Vec<Output> {
    vec![Output { asset: AssetId::NATIVE, amount, owner: owner(to), memo: Bytes::new() }]
}

/// The code that makes a contract of this code.
fn creation(constructor: &[u8], code: &[u8]) -> Bytes {
    let (length, offset) = (code.len() as u8, constructor.len() as u8 + 12);
    let copy = [0x60, length, 0x60, offset, 0x60, 0x00, 0x39, 0x60, length, 0x60, 0x00, 0xf3];
    [constructor, &copy, code].concat().into()
}

/// Encodes two words: recipient and token amount.
fn token_input(to: Address, amount: u64) -> Bytes {
    [to.into_word().0, U256::from(amount).to_be_bytes::<32>()].concat().into()
}

impl Traffic {
    /// The first burst: every owner gets outputs.
    pub fn first(chain: &Chain) -> Vec<Bytes> {
        let calls = (1..=N).map(|n| call(CHAIN, 0, PRICE, &owner(n), 5 * COIN, &signer(n)));
        let mut raw: Vec<Bytes> = calls.map(|tx| tx.raw).collect();
        let mut burst = Burst { chain, nonces: [1; N as usize + 1], raw: Vec::new() };
        burst.send_next(1, TxKind::Create, 0, creation(&MINT, &TOKEN));
        raw.append(&mut burst.raw);
        raw
    }

    /// The next burst: one to three kinds of traffic that are possible now.
    pub fn burst(&self, chain: &Chain, random: &mut Random) -> Vec<Bytes> {
        let mut nonces = [0; N as usize + 1];
        for n in 1..=N {
            let nonce = chain.view().account(&account(n)).map_or(0, |account| account.nonce);
            nonces[usize::from(n)] = chain.pool().next_nonce(&account(n), nonce);
        }
        let mut burst = Burst { chain, nonces, raw: Vec::new() };
        for _ in 0..=random.below(3) {
            self.add(&mut burst, random);
        }
        burst.raw
    }

    fn add(&self, burst: &mut Burst<'_>, random: &mut Random) {
        let (n, to) = (random.below(N.into()) as u8 + 1, random.below(N.into()) as u8 + 1);
        let amount = 1 + random.below(COIN / 8);
        let someone = TxKind::Call(account(to));
        match random.below(12) {
            0 => burst.send_next(n, someone, amount, Bytes::new()),
            1 => burst.send_next(n, TxKind::Create, 0, creation(&MINT, &TOKEN)),
            2 => burst.send_next(n, TxKind::Create, amount, Bytes::from_static(&GONE)),
            // More than it has is reverted.
            3..=5 => {
                let token = self.tokens[random.index(self.tokens.len())];
                let amount = random.below(SUPPLY + SUPPLY / 2);
                burst.send_next(n, TxKind::Call(token), 0, token_input(account(to), amount));
            }
            // Replaced by one that pays twice as much.
            6 => {
                let nonce = burst.nonce(n);
                burst.send(n, nonce, someone, amount, Bytes::new(), 1);
                burst.send(n, nonce, someone, amount + 1, Bytes::new(), 2);
            }
            // One that has to wait for the one before it.
            7 => {
                let nonce = burst.nonces[usize::from(n)];
                burst.send(n, nonce + 1, someone, amount, Bytes::new(), 1);
            }
            8 => {
                let nonce = burst.nonce(n);
                burst.raw.push(call(CHAIN, nonce, PRICE, &owner(to), COIN + amount, &signer(n)).raw);
            }
            9 => {
                let available = burst.available(n);
                burst.spend(n, &available, native(to, amount), Action::Transfer);
                // The same outputs a second time.
                burst.spend(n, &available, native(to, amount + 1), Action::Transfer);
            }
            10 => {
                let available = burst.available(n);
                burst.spend(n, &available, vec![], Action::Prism { recipient: account(to), amount });
            }
            _ => {
                let available = burst.available(n);
                let (code, issuer) = ("SIM".to_owned(), owner(n));
                let issue = Action::Issue { code, decimals: 2, open: false, issuer, amount };
                burst.spend(n, &available, vec![], issue);
            }
        }
    }

    /// Learns which tokens a block has made.
    pub fn note(&mut self, chain: &Chain, block: &Block) {
        let made =
            block.receipts.iter().filter(|receipt| receipt.status).filter_map(|receipt| receipt.contract_address);
        let view = chain.view();
        self.tokens
            .extend(made.filter(|at| view.account(at).is_some_and(|account| account.code_hash != KECCAK256_EMPTY)));
    }
}
