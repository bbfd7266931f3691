//! Random blocks with everything that a chain runs, on few accounts: transfers, programs, votes, nonces, lookup tables,
//! fees; some fail. Any number of threads must produce the result of serial execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::history::{self, BatchWriter, HistoryKey};
use hearth_ledger::{Account, BlockSummary, Executor, GenesisConfig, LedgerConfig, Outcome, rent, stakes};
use hearth_pipeline::bank::record_transaction;
use hearth_testkit::random::Random;
use hearth_wire::consts::*;
use hearth_wire::entry::{write_batch_header, write_entry};
use hearth_wire::message::{AccountMeta, Instruction, Message};
use hearth_wire::program::system::SystemInstruction;
use hearth_wire::vote::{Lockout, TowerSync, VotedBlock};
use hearth_wire::{Hash, Txn};

use super::*;

const WALLETS: usize = 8;
const NONCES: usize = 6;
const TABLE: Pubkey = [0x7a; 32];
const VOTE_ACCOUNT: Pubkey = [0x7b; 32];

fn nonce(number: usize) -> Pubkey {
    [0x20 + number as u8; 32]
}

/// A lookup table of all wallets, created in slot 0.
fn table(wallets: &[SigningKey]) -> Account {
    let mut data = 1u32.to_le_bytes().to_vec();
    data.extend(u64::MAX.to_le_bytes());
    data.extend(0u64.to_le_bytes());
    // The first of the addresses added last; an authority; padding.
    data.extend([0, 1]);
    data.extend(wallets[0].public_key());
    data.extend([0; 2]);
    wallets.iter().for_each(|wallet| data.extend(wallet.public_key()));
    Account::with_data(LAMPORTS_PER_SOL, ADDRESS_LOOKUP_TABLE_PROGRAM, &data)
}

/// A chain at the end of its first block, which created nonce accounts.
struct World {
    genesis: Genesis,
    wallets: Vec<SigningKey>,
    key: HistoryKey,
}

impl World {
    fn new() -> Self {
        let wallets: Vec<SigningKey> = (0..WALLETS).map(funded_account_key).collect();
        let node = wallets[0].public_key();
        let mut extra_accounts = hearth_svm::programs::genesis_accounts();
        extra_accounts.extend(stakes::genesis_accounts(&VOTE_ACCOUNT, &[0x7c; 32], &node));
        extra_accounts.push((TABLE, table(&wallets)));
        let config = GenesisConfig {
            fund_initial_accounts: WALLETS,
            extra_accounts,
            ..GenesisConfig::development(node, [2; 32], 1_700_000_000)
        };
        let folder = tempfile::tempdir().unwrap();
        let key = History::open(folder.path(), history::Config::new(1 << 20, [1; 32]), 0).unwrap().key();
        Self { genesis: Genesis::create(config, |_| {}).unwrap(), wallets, key }
    }

    fn ledger(&self) -> Arc<Ledger> {
        let config = LedgerConfig { general: Box::new(hearth_svm::Svm::new()), ..LedgerConfig::default() };
        let ledger = Ledger::new(&self.genesis, config);
        let bank = ledger.begin_slot(1, 0).unwrap();
        let (mut executor, mut outcomes) = (Executor::new(), vec![]);
        for number in 0..NONCES {
            let bytes = self.make_nonce(number, bank.parent_blockhash());
            bank.execute(&mut executor, &[Txn::parse(&bytes).unwrap()], &mut outcomes);
            assert!(matches!(outcomes[0], Outcome::Committed(landed) if landed.err.is_none()), "{:?}", outcomes[0]);
        }
        ledger.end_slot(1, [7; 32]).unwrap();
        ledger.hash_all();
        ledger
    }

    fn signed(&self, payer: usize, instructions: &[Instruction], blockhash: &Hash) -> Vec<u8> {
        self.sign(&Message::compile(&self.wallets[payer].public_key(), instructions, blockhash).unwrap())
    }

    fn sign(&self, message: &Message) -> Vec<u8> {
        message.sign_with(|signer, bytes| match self.wallets.iter().find(|wallet| wallet.public_key() == *signer) {
            Some(wallet) => wallet.sign(bytes),
            // A newly created nonce account: its signature is not checked here.
            None => [0; 64],
        })
    }

    fn make_nonce(&self, number: usize, blockhash: &Hash) -> Vec<u8> {
        let (payer, key) = (self.wallets[number % WALLETS].public_key(), nonce(number));
        let create = SystemInstruction::CreateAccount {
            lamports: 10 * rent::minimum_balance(80),
            space: 80,
            owner: SYSTEM_PROGRAM,
        };
        let create = Instruction {
            program_id: SYSTEM_PROGRAM,
            accounts: vec![AccountMeta::writable(payer, true), AccountMeta::writable(key, true)],
            data: create.encode(),
        };
        let initialize = Instruction {
            program_id: SYSTEM_PROGRAM,
            accounts: vec![
                AccountMeta::writable(key, false),
                AccountMeta::readonly(SYSVAR_RECENT_BLOCKHASHES, false),
                AccountMeta::readonly(SYSVAR_RENT, false),
            ],
            data: SystemInstruction::InitializeNonceAccount { authority: payer }.encode(),
        };
        self.signed(number % WALLETS, &[create, initialize], blockhash)
    }

    fn transfer(&self, from: usize, to: &Pubkey, lamports: u64) -> Instruction {
        let from = self.wallets[from].public_key();
        Instruction {
            program_id: SYSTEM_PROGRAM,
            accounts: vec![AccountMeta::writable(from, true), AccountMeta::writable(*to, false)],
            data: SystemInstruction::Transfer { lamports }.encode(),
        }
    }

    /// A transfer to a wallet that is given by its index in the table.
    fn by_table(&self, from: usize, to: usize, lamports: u64, blockhash: &Hash) -> Vec<u8> {
        let payer = self.wallets[from].public_key();
        let mut message = vec![0x80, 1, 0, 1, 2];
        message.extend(payer);
        message.extend(SYSTEM_PROGRAM);
        message.extend(blockhash);
        message.extend([1, 1, 2, 0, 2, 12]);
        message.extend(SystemInstruction::Transfer { lamports }.encode());
        message.push(1);
        message.extend(TABLE);
        message.extend([1, to as u8, 0]);
        [&[1][..], &self.wallets[from].sign(&message)[..], &message[..]].concat()
    }

    fn vote(&self, ledger: &Ledger, confirmations: u32) -> Vec<u8> {
        let (slot, bank_hash) = ledger.hash_all();
        let votes = [Lockout { slot, confirmation_count: confirmations }];
        let sync = TowerSync { votes: &votes, root: None, timestamp: None, is_switch: false };
        let blockhash = ledger.recent_blocks(1)[0].blockhash;
        let block = VotedBlock { slot, bank_hash, block_id: [4; 32], blockhash };
        self.sign(&sync.message(&self.wallets[0].public_key(), &VOTE_ACCOUNT, &block))
    }

    /// A transaction of any kind. `nonces` are the unused ones; `kinds` counts.
    fn transaction(
        &self,
        random: &mut Random,
        ledger: &Ledger,
        nonces: &mut Vec<usize>,
        kinds: &mut BTreeMap<&'static str, usize>,
    ) -> Vec<u8> {
        let blockhash = ledger.recent_blocks(1)[0].blockhash;
        let (from, to) = (random.index(WALLETS), random.index(WALLETS));
        let to = if to == from { (from + 1) % WALLETS } else { to };
        let wallet = self.wallets[to].public_key();
        // Some send more than they have.
        let most = if random.chance(200) { u64::MAX / 2 } else { LAMPORTS_PER_SOL };
        let lamports = 1 + random.below(most);
        let mut count = |kind| *kinds.entry(kind).or_default() += 1;
        match random.below(7) {
            0 => {
                count("priority");
                // SetComputeUnitPrice
                let mut data = vec![3];
                data.extend((1 + random.below(1_000_000)).to_le_bytes());
                let price = Instruction { program_id: COMPUTE_BUDGET_PROGRAM, accounts: vec![], data };
                self.signed(from, &[price, self.transfer(from, &wallet, lamports)], &blockhash)
            }
            1 => {
                count("program");
                let program_id = MEMO_PROGRAM;
                // Invalid UTF-8 fails.
                let data = vec![if random.chance(300) { 0xff } else { b'a' }; 1 + random.index(20)];
                let memo = Instruction { program_id, accounts: vec![], data };
                self.signed(from, &[self.transfer(from, &wallet, lamports), memo], &blockhash)
            }
            2 => {
                count("vote");
                self.vote(ledger, 1 + random.below(30) as u32)
            }
            3 if !nonces.is_empty() => {
                count("nonce");
                let number = nonces.swap_remove(random.index(nonces.len()));
                let authority = number % WALLETS;
                let advance = Instruction {
                    program_id: SYSTEM_PROGRAM,
                    accounts: vec![
                        AccountMeta::writable(nonce(number), false),
                        AccountMeta::readonly(SYSVAR_RECENT_BLOCKHASHES, false),
                        AccountMeta::readonly(self.wallets[authority].public_key(), true),
                    ],
                    data: SystemInstruction::AdvanceNonceAccount.encode(),
                };
                let account = ledger.account(&nonce(number)).unwrap();
                let value: Hash = account.data()[40..72].try_into().unwrap();
                self.signed(authority, &[advance, self.transfer(authority, &wallet, lamports)], &value)
            }
            4 => {
                count("table");
                self.by_table(from, to, lamports, &blockhash)
            }
            _ => {
                count("transfer");
                self.signed(from, &[self.transfer(from, &wallet, lamports)], &blockhash)
            }
        }
    }

    /// A block of slot 2, and its transactions by entry.
    fn block(&self, random: &mut Random, kinds: &mut BTreeMap<&'static str, usize>) -> (Vec<u8>, Vec<Vec<Vec<u8>>>) {
        let ledger = self.ledger();
        let mut nonces: Vec<usize> = (0..NONCES).collect();
        let mut seen = std::collections::BTreeSet::new();
        let mut entries: Vec<Vec<Vec<u8>>> = vec![];
        for _ in 0..40 {
            let txns = (0..1 + random.below(9)).map(|_| self.transaction(random, &ledger, &mut nonces, kinds));
            // A duplicate would not land.
            let entry: Vec<_> = txns.filter(|bytes| seen.insert(bytes.clone())).collect();
            entries.extend(Some(entry).filter(|entry| !entry.is_empty()));
        }
        let (mut hash, mut tree) = (ledger.recent_blocks(1)[0].blockhash, MixinTree::default());
        let ticks = self.genesis.config().ticks_per_slot as usize;
        let mut data = vec![];
        write_batch_header(entries.len() + ticks, &mut data);
        for entry in &entries {
            entry.iter().flat_map(|b| Txn::parse(b).unwrap().signatures()).for_each(|signature| tree.push(signature));
            hash = sha256_mix(hash, tree.take_root());
            write_entry(1, &hash, entry.len(), &entry.concat(), &mut data);
        }
        for _ in 0..ticks {
            hash = sha256_chain(hash, 1);
            write_entry(1, &hash, 0, &[], &mut data);
        }
        (data, entries)
    }
}

/// The final state after a block.
#[derive(Debug, PartialEq)]
struct End {
    block: BlockSummary,
    batches: Vec<Vec<u8>>,
    accounts: BTreeMap<Pubkey, Account>,
}

fn end(ledger: &Ledger, batches: Vec<Vec<u8>>) -> End {
    ledger.hash_all();
    let mut accounts = BTreeMap::new();
    ledger.accounts().for_each(|key, account| _ = accounts.insert(*key, account.clone()));
    End { block: ledger.recent_blocks(1)[0], batches, accounts }
}

fn serial(world: &World, entries: &[Vec<Vec<u8>>], hash: Hash) -> End {
    let ledger = world.ledger();
    let bank = ledger.begin_slot(2, 1).unwrap();
    let (mut executor, mut outcomes, mut writer) = (Executor::new(), vec![], BatchWriter::new(world.key.clone()));
    executor.set_recording(true);
    let mut batches = vec![];
    for (number, entry) in entries.iter().enumerate() {
        writer.begin(2, number as u64);
        for bytes in entry {
            let txn = Txn::parse(bytes).unwrap();
            bank.execute(&mut executor, &[txn], &mut outcomes);
            assert!(outcomes[0].is_committed(), "{:?}", outcomes[0]);
            record_transaction(&mut writer, true, &txn, &outcomes[0], executor.records()[0].as_deref());
        }
        batches.extend(writer.finish().map(<[u8]>::to_vec));
    }
    ledger.end_slot(2, hash).unwrap();
    end(&ledger, batches)
}

#[test]
fn threads_come_to_what_one_after_the_other_does() {
    let world = World::new();
    let mut kinds = BTreeMap::new();
    let (mut failed, mut votes) = (0, 0);
    for seed in 1..=12 {
        let (data, entries) = world.block(&mut Random(seed), &mut kinds);
        let parsed = hearth_ledger::blockstore::entries(&data).unwrap();
        let expected = serial(&world, &entries, *parsed.last().unwrap().hash);
        failed += expected.block.counts.failed;
        votes += expected.block.counts.votes;
        for workers in [1, 2, 4] {
            let ledger = world.ledger();
            let recording = Some(RecorderConfig { key: world.key.clone(), extended: true });
            let mut pool = Pool::new(workers, &WorkerConfig { table_bytes: 1 << 20, recording });
            let rules = rules(&world.genesis);
            let parent_hash = ledger.recent_blocks(1)[0].blockhash;
            let job = Job { rules, slot: 2, parent: 1, parent_hash, is_known: false, records: true };
            let executed = pool.block(&ledger, job, &data).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert_eq!(executed.votes.len() as u64, expected.block.counts.votes, "seed {seed}");
            let end = end(&ledger, executed.batches);
            assert_eq!(end.batches, expected.batches, "seed {seed}, {workers} workers");
            assert_eq!(end.block, expected.block, "seed {seed}, {workers} workers");
            assert!(end.accounts == expected.accounts, "seed {seed}, {workers} workers: accounts differ");
        }
    }
    assert!(failed > 100 && votes > 100, "{failed} failed, {votes} votes");
    assert!(kinds.len() == 6 && kinds.values().all(|count| *count >= 50), "{kinds:?}");
}
