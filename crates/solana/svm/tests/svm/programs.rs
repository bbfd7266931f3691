//! Programs of the genesis, called by transactions as clients send them.

use hearth_ledger::bank::Outcome;
use hearth_ledger::rent::minimum_balance;
use hearth_ledger::{Account, InstructionError, TransactionError};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::system::{SystemInstruction, transfer};

use crate::common::instructions::*;
use crate::common::{Chain, SOL, bytes_of, wallet};

fn create_account(new: Pubkey, lamports: u64, space: u64, owner: Pubkey) -> Instruction {
    let accounts = vec![AccountMeta::writable(wallet(0), true), AccountMeta::writable(new, true)];
    call(SYSTEM_PROGRAM, accounts, SystemInstruction::CreateAccount { lamports, space, owner }.encode())
}

fn amount(chain: &Chain, account: &Pubkey) -> u64 {
    u64::from_le_bytes(chain.data(account)[64..72].try_into().expect("a token account"))
}

/// A mint and two accounts of it, of wallets 0 and 1, the first with 1,000 units.
fn mint(chain: &mut Chain, program: Pubkey) -> (Pubkey, Pubkey, Pubkey) {
    let mint = wallet(100);
    let create = create_account(mint, minimum_balance(82), 82, program);
    chain.succeed(&[create, initialize_mint(program, mint, &wallet(0), 2)]);
    let [from, to] = [0, 1].map(|n| associated_account(program, &wallet(n), &mint));
    for n in [0, 1] {
        chain.succeed(&[create_associated(program, wallet(0), wallet(n), mint)]);
    }
    chain.succeed(&[mint_to(program, mint, from, wallet(0), 1_000)]);
    (mint, from, to)
}

#[test]
fn tokens_are_minted_and_sent() {
    for program in [token_program(), token_2022_program()] {
        let mut chain = Chain::new(2);
        let (mint, from, to) = mint(&mut chain, program);
        let landed = chain.succeed(&[token_transfer(program, from, to, wallet(0), 300)]);
        assert!(landed.compute_units > 50 && landed.loaded_bytes > 10_000, "{landed:?}");
        assert_eq!((amount(&chain, &from), amount(&chain, &to)), (700, 300));
        let record = chain.records[0].clone().expect("a record");
        let name = encode_32(&program);
        assert_eq!(record.logs.first(), Some(&format!("Program {name} invoke [1]")));
        assert_eq!(record.logs.last(), Some(&format!("Program {name} success")));
        let units = |tokens: &[hearth_ledger::bank::TokenAmount]| {
            let mut amounts: Vec<_> = tokens.iter().map(|token| (token.owner, token.amount)).collect();
            amounts.sort_unstable();
            amounts
        };
        let mut owners = [(wallet(0), 1_000), (wallet(1), 0)];
        owners.sort_unstable();
        assert_eq!(units(&record.tokens_before), owners);
        assert!(record.tokens_after.iter().all(|token| token.mint == mint && token.decimals == 2));
        // More than the balance: the program's own error, and the fee.
        let before = chain.ledger.balance(&wallet(0));
        let failed = chain.fail(&[token_transfer(program, from, to, wallet(0), 701)]);
        assert_eq!(failed, (0, InstructionError::Custom(1)));
        assert_eq!(chain.ledger.balance(&wallet(0)), before - 5_000);
        assert_eq!((amount(&chain, &from), amount(&chain, &to)), (700, 300));
    }
}

fn sync_native(account: Pubkey) -> Instruction {
    call(token_program(), vec![writable(account)], vec![17])
}

#[test]
fn sol_is_wrapped_and_unwrapped() {
    let mut chain = Chain::new(2);
    let (program, mint) = (token_program(), native_mint());
    // As `spl-token wrap` and the web libraries do: an associated account, lamports into it, then a sync.
    let [associated, to] = [0, 1].map(|n| associated_account(program, &wallet(n), &mint));
    chain.succeed(&[
        create_associated(program, wallet(0), wallet(0), mint),
        transfer(&wallet(0), &associated, 3 * SOL),
        sync_native(associated),
    ]);
    assert_eq!(amount(&chain, &associated), 3 * SOL);
    // Also for an ordinary account: the balance above its rent is wrapped at initialization.
    let own = wallet(100);
    let create = create_account(own, minimum_balance(165) + SOL, 165, program);
    chain.succeed(&[create, initialize_account(program, own, mint, &wallet(0))]);
    assert_eq!(amount(&chain, &own), SOL);
    chain.succeed(&[
        create_associated(program, wallet(0), wallet(1), mint),
        token_transfer(program, associated, to, wallet(0), SOL / 2),
    ]);
    assert_eq!((amount(&chain, &associated), amount(&chain, &to)), (5 * SOL / 2, SOL / 2));
    let record = chain.records[0].clone().expect("a record");
    assert!(record.tokens_after.iter().all(|token| token.mint == mint && token.decimals == 9), "{record:?}");
    // Closing the account unwraps everything.
    let before = chain.ledger.balance(&wallet(0));
    let close = vec![writable(own), writable(wallet(0)), AccountMeta::readonly(wallet(0), true)];
    chain.succeed(&[call(program, close, vec![9])]);
    assert_eq!(chain.ledger.balance(&wallet(0)), before + minimum_balance(165) + SOL - 5_000);
}

#[test]
fn the_native_mint_of_token_2022_is_made_by_its_program() {
    let mut chain = Chain::new(1);
    let (program, mint) = (token_2022_program(), native_mint_2022());
    assert_eq!(chain.ledger.account(&mint), None, "as on the cluster's test node");
    let accounts = vec![AccountMeta::writable(wallet(0), true), writable(mint), readonly(SYSTEM_PROGRAM)];
    chain.succeed(&[call(program, accounts, vec![31])]);
    let associated = associated_account(program, &wallet(0), &mint);
    chain.succeed(&[
        create_associated(program, wallet(0), wallet(0), mint),
        transfer(&wallet(0), &associated, 2 * SOL),
        call(program, vec![writable(associated)], vec![17]),
    ]);
    assert_eq!(amount(&chain, &associated), 2 * SOL);
}

#[test]
fn a_microblock_runs_in_order() {
    let mut chain = Chain::new(2);
    let program = token_program();
    let (_, from, to) = mint(&mut chain, program);
    let txns = [
        chain.txn(&wallet(0), &[token_transfer(program, from, to, wallet(0), 1_000)]),
        chain.txn(&wallet(0), &[transfer(&wallet(0), &wallet(1), 5)]),
        chain.txn(&wallet(1), &[token_transfer(program, to, from, wallet(1), 400)]),
        chain.txn(&wallet(0), &[token_transfer(program, from, to, wallet(0), 401)]),
        chain.txn(&wallet(0), &[token_transfer(program, from, to, wallet(0), 400)]),
    ];
    let outcomes = chain.run(&txns);
    let failed: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Committed(landed) => landed.err.is_some(),
            outcome => panic!("{outcome:?}"),
        })
        .collect();
    assert_eq!(failed, [false, false, false, true, false]);
    assert_eq!((amount(&chain, &from), amount(&chain, &to)), (0, 1_000));
}

#[test]
fn calls_of_programs_by_programs_are_recorded() {
    let mut chain = Chain::new(2);
    let (mint, ..) = mint(&mut chain, token_program());
    chain.succeed(&[create_associated(token_program(), wallet(0), wallet(7), mint)]);
    let record = chain.records[0].clone().expect("a record");
    let [(0, calls)] = &record.inner[..] else { panic!("{:?}", record.inner) };
    assert!(calls.len() >= 3 && calls.iter().all(|call| call.stack_height == 2), "{calls:?}");
    assert!(record.logs.iter().any(|line| line.ends_with("invoke [2]")));
    // The token program returns the size of an account as return data.
    let ask = call(token_program(), vec![readonly(mint)], vec![21]);
    chain.succeed(&[ask]);
    let returned = chain.records[0].clone().expect("a record").return_data;
    assert_eq!(returned, Some((token_program(), 165u64.to_le_bytes().to_vec())));
}

#[test]
fn memos_are_logged() {
    let mut chain = Chain::new(1);
    for version in [1, 3] {
        chain.succeed(&[call(memo_program(version), vec![], "grüße".into())]);
        // The first version does not log it.
        assert_eq!(chain.logs().iter().any(|line| line.contains("grüße")), version == 3, "{:?}", chain.logs());
        let (index, error) = chain.fail(&[call(memo_program(version), vec![], vec![0xff])]);
        assert_eq!((index, error), (0, InstructionError::InvalidInstructionData));
    }
}

/// A transaction of version 0: one transfer from its payer to the first address of a table.
fn transfer_by_table(payer: Pubkey, table: Pubkey, index: u8, lamports: u64, blockhash: &[u8; 32]) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(payer);
    bytes.extend([0; 32]);
    bytes.extend([0x80, 1, 0, 1, 2]);
    bytes.extend(payer);
    bytes.extend(SYSTEM_PROGRAM);
    bytes.extend(blockhash);
    bytes.extend([1, 1, 2, 0, 2, 12]);
    bytes.extend(SystemInstruction::Transfer { lamports }.encode());
    bytes.push(1);
    bytes.extend(table);
    bytes.extend([1, index, 0]);
    bytes
}

#[test]
fn lookup_tables_are_made_extended_used_and_ended() {
    let mut chain = Chain::new(2);
    chain.next_slot();
    let (create, table) = create_table(wallet(0), chain.bank.parent());
    chain.succeed(&[create, extend_table(table, wallet(0), &[wallet(1), wallet(2)])]);
    let by_table = |chain: &Chain, index, lamports| {
        transfer_by_table(wallet(0), table, index, lamports, chain.bank.parent_blockhash())
    };
    // The new addresses are usable from the next slot on.
    let early = by_table(&chain, 0, 7);
    let invalid_index = Outcome::NotCommitted(TransactionError::InvalidAddressLookupTableIndex);
    assert_eq!(chain.run(&[early]), [invalid_index]);
    chain.next_slot();
    let txn = by_table(&chain, 0, 7);
    let outcome = chain.run(&[txn])[0];
    assert!(matches!(outcome, Outcome::Committed(landed) if landed.err.is_none()), "{outcome:?}");
    assert_eq!(chain.ledger.balance(&wallet(1)), 1_000 * SOL + 7);
    let record = chain.records[0].clone().expect("a record");
    assert_eq!((record.loaded_writable.len(), record.loaded_readonly.len()), (1, 0));
    assert_eq!(record.balances[2], (1_000 * SOL, 1_000 * SOL + 7));
    let beyond = by_table(&chain, 2, 7);
    assert_eq!(chain.run(&[beyond]), [invalid_index]);
    // Also an address that the transaction itself names.
    chain.succeed(&[extend_table(table, wallet(0), &[wallet(0)])]);
    chain.next_slot();
    let twice = by_table(&chain, 2, 8);
    assert_eq!(chain.run(&[twice]), [Outcome::NotCommitted(TransactionError::AccountLoadedTwice)]);
    // A deactivated table stays usable while its deactivation slot is recent.
    chain.succeed(&[deactivate_table(table, wallet(0))]);
    chain.next_slot();
    let late = by_table(&chain, 0, 9);
    let outcome = chain.run(&[late])[0];
    assert!(outcome.is_committed(), "{outcome:?}");
    let nothing = transfer_by_table(wallet(0), wallet(50), 0, 9, chain.bank.parent_blockhash());
    assert_eq!(chain.run(&[nothing]), [Outcome::NotCommitted(TransactionError::AddressLookupTableNotFound)]);
    let foreign = transfer_by_table(wallet(0), wallet(1), 0, 9, chain.bank.parent_blockhash());
    assert_eq!(chain.run(&[foreign]), [Outcome::NotCommitted(TransactionError::InvalidAddressLookupTableOwner)]);
}

#[test]
fn a_chain_that_stands_simulates_in_the_slot_to_come() {
    let mut chain = Chain::new(2);
    chain.stand();
    let (slot, newest) = (chain.bank.slot(), chain.bank.parent());
    assert_eq!((slot, newest, chain.ledger.open_slot()), (2, 1, 2));
    // A table may be created with the newest slot, but not with a future one.
    let (create, table) = create_table(wallet(0), newest);
    let made = [create, extend_table(table, wallet(0), &[wallet(1)])];
    let landed = |simulation: hearth_ledger::bank::Simulation| match simulation.outcome {
        Outcome::Committed(landed) => landed.err,
        outcome => panic!("{outcome:?}"),
    };
    assert_eq!(landed(chain.simulate(&made)), None);
    let (early, _) = create_table(wallet(0), slot);
    assert!(landed(chain.simulate(&[early])).is_some());
    assert_eq!(chain.run_one(&made), Outcome::SlotEnded, "nothing lands");
    chain.go_on();
    chain.succeed(&made);
    // An extension takes effect in the next slot, and so does a deactivation in the last.
    for end in [None, Some(deactivate_table(table, wallet(0)))] {
        if let Some(end) = &end {
            chain.succeed(std::slice::from_ref(end));
        }
        chain.stand();
        let bytes = transfer_by_table(wallet(0), table, 0, 7, chain.bank.parent_blockhash());
        let txn = hearth_wire::Txn::parse(&bytes).unwrap();
        assert_eq!(landed(chain.bank.simulate(&mut chain.executor, &txn)), None);
        chain.go_on();
        assert!(chain.run(&[bytes])[0].is_committed());
    }
}

fn nonce_value(chain: &Chain, nonce: &Pubkey) -> [u8; 32] {
    chain.data(nonce)[40..72].try_into().expect("a nonce account")
}

fn advance(nonce: Pubkey, authority: Pubkey) -> Instruction {
    let accounts = vec![writable(nonce), readonly(SYSVAR_RECENT_BLOCKHASHES), AccountMeta::readonly(authority, true)];
    call(SYSTEM_PROGRAM, accounts, SystemInstruction::AdvanceNonceAccount.encode())
}

#[test]
fn a_nonce_outlives_blockhashes_and_is_used_once() {
    let mut chain = Chain::new(2);
    let nonce = wallet(60);
    let accounts = vec![writable(nonce), readonly(SYSVAR_RECENT_BLOCKHASHES), readonly(SYSVAR_RENT)];
    let initialize = SystemInstruction::InitializeNonceAccount { authority: wallet(0) }.encode();
    let create = create_account(nonce, minimum_balance(80), 80, SYSTEM_PROGRAM);
    chain.succeed(&[create, call(SYSTEM_PROGRAM, accounts, initialize)]);
    let value = nonce_value(&chain, &nonce);
    let price = |chain: &Chain| u64::from_le_bytes(chain.data(&nonce)[72..].try_into().expect("8 bytes"));
    assert_eq!(price(&chain), 0, "the genesis hash is free");
    let with_nonce = |value: &[u8; 32], lamports: u64| {
        bytes_of(&wallet(0), &[advance(nonce, wallet(0)), transfer(&wallet(0), &wallet(1), lamports)], value)
    };
    // The nonce may not be used in the slot that set it.
    let not_found = [Outcome::NotCommitted(TransactionError::BlockhashNotFound)];
    assert_eq!(chain.run(&[with_nonce(&value, 1)]), not_found);
    chain.next_slot();
    assert_eq!(chain.run(&[with_nonce(&[8; 32], 1)]), not_found, "another value");
    // A failing transaction still advances it, and pays.
    let before = chain.ledger.balance(&wallet(0));
    let Outcome::Committed(failed) = chain.run(&[with_nonce(&value, u64::MAX)])[0] else { panic!("it lands") };
    assert_eq!(failed.err, Some(TransactionError::InstructionError(1, InstructionError::Custom(1))));
    assert_eq!(chain.ledger.balance(&wallet(0)), before - 5_000);
    let next = nonce_value(&chain, &nonce);
    assert_ne!(next, value);
    assert_eq!(price(&chain), 5_000, "that of the newest blockhash");
    chain.next_slot();
    assert_eq!(chain.run(&[with_nonce(&value, 2)]), not_found, "used");
    let (good, again) = (with_nonce(&next, 3), with_nonce(&next, 4));
    let outcomes = chain.run(&[good.clone(), again]);
    assert!(matches!(outcomes[0], Outcome::Committed(landed) if landed.err.is_none()), "{outcomes:?}");
    assert_eq!(outcomes[1], not_found[0], "once in a microblock too");
    assert_eq!(chain.ledger.balance(&wallet(1)), 1_000 * SOL + 3);
    // The same transaction again: its nonce has advanced, which is what the cluster checks first.
    assert_eq!(chain.run(std::slice::from_ref(&good)), not_found, "in the same slot");
    chain.next_slot();
    assert_eq!(chain.run(std::slice::from_ref(&good)), not_found);
    let txn = hearth_wire::Txn::parse(&good).unwrap();
    assert_eq!(chain.bank.simulate(&mut chain.executor, &txn).outcome, not_found[0]);
}

#[test]
fn a_nonce_that_is_none_is_an_unknown_blockhash() {
    let mut chain = Chain::new(2);
    chain.next_slot();
    let not_found = [Outcome::NotCommitted(TransactionError::BlockhashNotFound)];
    let pays = |payer: u64, nonce: Pubkey| bytes_of(&wallet(payer), &[advance(nonce, wallet(payer))], &[8; 32]);
    assert_eq!(chain.run(&[pays(0, wallet(61))]), not_found, "no account");
    assert_eq!(chain.run(&[pays(9, wallet(61))]), not_found, "neither nonce nor payer");
    assert_eq!(chain.run(&[pays(0, wallet(1))]), not_found, "a wallet");
    // A nonce that the transaction may only read is none.
    let accounts =
        vec![readonly(wallet(61)), readonly(SYSVAR_RECENT_BLOCKHASHES), AccountMeta::readonly(wallet(0), true)];
    let reads = call(SYSTEM_PROGRAM, accounts, SystemInstruction::AdvanceNonceAccount.encode());
    assert_eq!(chain.run(&[bytes_of(&wallet(0), &[reads], &[8; 32])]), not_found);
}

#[test]
fn vote_and_stake_accounts_are_set_up() {
    let mut chain = Chain::new(2);
    let (vote, stake, node) = (wallet(70), wallet(71), wallet(1));
    let accounts =
        vec![writable(vote), readonly(SYSVAR_RENT), readonly(SYSVAR_CLOCK), AccountMeta::readonly(node, true)];
    // Tag 0: node, voter, withdrawer, commission.
    let data = [&0u32.to_le_bytes()[..], &node, &wallet(0), &wallet(0), &[10]].concat();
    let create = create_account(vote, minimum_balance(3_762), 3_762, VOTE_PROGRAM);
    chain.succeed(&[create, call(VOTE_PROGRAM, accounts, data)]);
    assert_eq!(chain.data(&vote)[4..36], node);
    // Tag 0: staker, withdrawer, no lock-up; then tag 2 delegates.
    let data = [&0u32.to_le_bytes()[..], &wallet(0), &wallet(0), &[0; 48]].concat();
    let create = create_account(stake, minimum_balance(200) + 2 * SOL, 200, STAKE_PROGRAM);
    chain.succeed(&[create, call(STAKE_PROGRAM, vec![writable(stake), readonly(SYSVAR_RENT)], data)]);
    let config = hearth_wire::base58::decode_32("StakeConfig11111111111111111111111111111111").expect("an address");
    let accounts = vec![
        writable(stake),
        readonly(vote),
        readonly(SYSVAR_CLOCK),
        readonly(SYSVAR_STAKE_HISTORY),
        readonly(config),
        AccountMeta::readonly(wallet(0), true),
    ];
    chain.succeed(&[call(STAKE_PROGRAM, accounts, 2u32.to_le_bytes().to_vec())]);
    assert_eq!(chain.data(&stake)[..4], 2u32.to_le_bytes(), "delegated");
    assert!(chain.data(&stake).windows(32).any(|bytes| bytes == vote));
}

#[test]
fn precompiles_check_signatures() {
    let mut chain = Chain::new(1);
    let (key, message) = (hearth_crypto::ed25519::SigningKey::from_seed(&[9; 32]), b"signed");
    let mut data = vec![1, 0];
    // Where signature, key and message lie: offsets in this instruction.
    let (signature_at, key_at, message_at) = (16u16, 80u16, 112u16);
    for half in [signature_at, u16::MAX, key_at, u16::MAX, message_at, message.len() as u16, u16::MAX] {
        data.extend(half.to_le_bytes());
    }
    data.extend(key.sign(message));
    data.extend(key.public_key());
    data.extend(message);
    let landed = chain.succeed(&[call(ED25519_PROGRAM, vec![], data.clone())]);
    assert_eq!(landed.fee, 10_000, "its signature is paid for too");
    *data.last_mut().expect("a message") ^= 1;
    assert_eq!(chain.fail(&[call(ED25519_PROGRAM, vec![], data)]), (0, InstructionError::Custom(2)));
}

#[test]
fn limits_and_prices_hold() {
    use ComputeBudgetInstruction::*;
    let mut chain = Chain::new(2);
    let (_, from, to) = mint(&mut chain, token_program());
    let send = || token_transfer(token_program(), from, to, wallet(0), 1);
    let used = chain.succeed(&[send()]).compute_units as u32;
    let budget = [SetComputeUnitLimit(used + 300), SetComputeUnitPrice(2_000_000)].map(|budget| budget.instruction());
    let landed = chain.succeed(&[&budget[..], &[send()]].concat());
    assert_eq!(landed.fee, 5_000 + 2 * u64::from(used + 300));
    let short = SetComputeUnitLimit(used + 149).instruction();
    let (index, error) = chain.fail(&[short, send()]);
    assert_eq!(index, 1);
    assert!(
        matches!(error, InstructionError::ComputationalBudgetExceeded | InstructionError::ProgramFailedToComplete),
        "{error:?}"
    );
    // Less data than the program itself has: nothing runs, and the fee is paid.
    let little = SetLoadedAccountsDataSizeLimit(5_000).instruction();
    let Outcome::Committed(landed) = chain.run_one(&[little, send()]) else { panic!("it lands") };
    assert_eq!(landed.err, Some(TransactionError::MaxLoadedAccountsDataSizeExceeded));
    assert_eq!((landed.fee, landed.compute_units), (5_000, 0));
}

#[test]
fn a_simulation_shows_all_and_changes_nothing() {
    let mut chain = Chain::new(2);
    let (_, from, to) = mint(&mut chain, token_program());
    let send = token_transfer(token_program(), from, to, wallet(0), 250);
    for _ in 0..2 {
        let simulation = chain.simulate(std::slice::from_ref(&send));
        assert!(
            matches!(simulation.outcome, Outcome::Committed(landed) if landed.err.is_none() && landed.fee == 5_000)
        );
        let after = simulation.accounts.iter().find(|(key, _)| *key == to).and_then(|(_, account)| account.clone());
        assert_eq!(after.expect("the account").data()[64..72], 250u64.to_le_bytes());
        let record = simulation.record.expect("a record");
        assert!(record.logs.iter().any(|line| line.contains("consumed")), "{:?}", record.logs);
    }
    assert_eq!(amount(&chain, &to), 0);
    let failing = chain.simulate(&[transfer(&wallet(0), &wallet(1), u64::MAX)]);
    let logs = failing.record.expect("a record").logs;
    assert!(logs.iter().any(|line| line.starts_with("Transfer: insufficient lamports")), "{logs:?}");
    chain.succeed(&[send]);
    assert_eq!(amount(&chain, &to), 250);
}

#[test]
fn non_program_is_not_run() {
    let mut chain = Chain::new(2);
    let outcome = |chain: &mut Chain, program| match chain.run_one(&[call(program, vec![], vec![])]) {
        Outcome::Committed(landed) => (landed.err, landed.fee, landed.compute_units),
        outcome => panic!("{outcome:?}"),
    };
    assert_eq!(outcome(&mut chain, wallet(90)), (Some(TransactionError::ProgramAccountNotFound), 5_000, 0));
    assert_eq!(outcome(&mut chain, wallet(1)), (Some(TransactionError::InvalidProgramForExecution), 5_000, 0));
    // Marked executable, owned by a loader, and nothing in it.
    let mut broken = Account::with_data(SOL, BPF_LOADER, b"no program");
    broken.executable = true;
    chain.ledger.accounts().store(&wallet(91), broken);
    let unsupported = TransactionError::InstructionError(0, InstructionError::UnsupportedProgramId);
    assert_eq!(outcome(&mut chain, wallet(91)).0, Some(unsupported));
}
