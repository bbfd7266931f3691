//! How a chain begins by the options of `hearth run`: programs, accounts, epochs, a later slot; `--reset` and clones.

use std::fs;
use std::path::Path;
use std::process::Command;

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::genesis::funded_account_key;
use hearth_wire::base58::{decode_32, encode_32, encode_64};
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::{Pubkey, Signature};
use serde_json::{Value, json};

use super::client::{fresh_address, signature_of, transaction};
use super::node::{Node, Process, Rpc, Setup, hearth, output, same, wait_until};

/// The memo program: logs its input and checks the signers. Every chain has it, under the second loader.
const MEMO: &str = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
/// The slot in which the chain begins.
const WARP: u64 = 1_000_010;
const LOADER: &str = "BPFLoaderUpgradeab1e11111111111111111111111";

pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

fn account(rpc: Rpc, address: &str) -> Value {
    rpc.call("getAccountInfo", json!([address, { "encoding": "base64", "commitment": "processed" }]))["value"].take()
}

/// Sends a transaction over RPC and waits until it has landed and is `commitment`; gives its status.
pub fn landed(rpc: Rpc, bytes: &[u8], commitment: &str) -> Value {
    let options = json!({ "encoding": "base64", "skipPreflight": true });
    rpc.call("sendTransaction", json!([base64(bytes), options]));
    let signature: Signature = signature_of(bytes);
    wait_until("the transaction to land", || {
        let status = rpc.statuses(&[signature]).remove(0);
        let has = status["confirmationStatus"].as_str().unwrap_or("none").to_owned();
        let ranks = ["none", "processed", "confirmed", "finalized"];
        let rank = |of: &str| ranks.iter().position(|rank| *rank == of);
        if rank(&has) >= rank(commitment) { Ok(status) } else { Err(format!("{has}: {}", encode_64(&signature))) }
    })
}

/// Calls a program with the payer as its signer.
fn call(rpc: Rpc, payer: &SigningKey, program: &str, data: &[u8]) -> Value {
    let accounts = vec![AccountMeta::readonly(payer.public_key(), true)];
    let call = Instruction { program_id: decode_32(program).expect("an address"), accounts, data: data.to_vec() };
    landed(rpc, &transaction(payer, &[call], &rpc.latest_blockhash()), "confirmed")
}

fn text(address: &Pubkey) -> String {
    encode_32(address).to_string()
}

/// The program of the chain's Memo as a file.
fn dump_memo(rpc: Rpc, path: &Path) {
    use base64::Engine;
    let memo = account(rpc, MEMO);
    let data = memo["data"][0].as_str().expect("base64");
    fs::write(path, base64::prelude::BASE64_STANDARD.decode(data).unwrap()).unwrap();
}

/// An account as `solana account --output json` writes it.
fn dump_account(path: &Path, address: &str, lamports: u64, data: &[u8]) {
    dump_owned(path, (address, MEMO), lamports, data);
}

/// The same of an account with this owner.
fn dump_owned(path: &Path, (address, owner): (&str, &str), lamports: u64, data: &[u8]) {
    let account = json!({
        "lamports": lamports, "data": [base64(data), "base64"], "owner": owner, "executable": false,
        "rentEpoch": u64::MAX, "space": data.len(),
    });
    fs::write(path, json!({ "pubkey": address, "account": account }).to_string()).unwrap();
}

fn refused(setup: &Setup, options: &[&str], parts: &[&str]) {
    let output = setup.output("run", options);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "{options:?}: `{part}` is not in: {said}"));
}

fn slot(node: &Node) -> u64 {
    node.rpc().call("getSlot", json!([{ "commitment": "processed" }])).as_u64().expect("a slot")
}

/// An epoch of 64 slots ends, and the next one begins.
pub fn an_epoch_ends(rpc: Rpc) {
    let epoch = rpc.call("getEpochInfo", json!([{ "commitment": "processed" }]));
    assert_eq!(epoch["slotsInEpoch"], 64);
    assert_eq!(epoch["epoch"].as_u64().unwrap(), epoch["absoluteSlot"].as_u64().unwrap() / 64, "{epoch}");
    let first = epoch["epoch"].as_u64().unwrap();
    wait_until("the next epoch, and slots of it that are final", || {
        let epoch = rpc.call("getEpochInfo", json!([{ "commitment": "finalized" }]));
        if epoch["epoch"].as_u64() > Some(first) { Ok(()) } else { Err(epoch.to_string()) }
    });
}

/// The ledger verifies, and replays to the same result.
fn is_sound(setup: &Setup) {
    for arguments in [&["ledger", "verify"][..], &["ledger", "replay"]] {
        let config = setup.config();
        let output = output(hearth().args(arguments).arg("--config").arg(config).current_dir(setup.folder.path()));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn chain_begins_as_requested_and_continues() {
    let mut setup = Setup::new("begin");
    setup.with("consensus.vote", true);
    let in_folder = |name: &str| setup.folder.path().join(name);
    let (memo, dump, folder) = (in_folder("memo.so"), in_folder("account.json"), in_folder("accounts"));
    fs::create_dir(&folder).unwrap();
    let [fixed, upgradeable, loaded, also, mint] = [1, 2, 3, 4, 5].map(|n| text(&fresh_address(0xd0, n)));
    dump_account(&dump, &loaded, 5_000_000, b"a note");
    dump_account(&folder.join("also.json"), &also, 6_000_000, b"");
    let node = setup.start();
    dump_memo(node.rpc(), &memo);
    let identity = node.rpc().identity();
    node.stop();

    let authority = text(&funded_account_key(1).public_key());
    let [memo, dump, folder] = [memo, dump, folder].map(|path| path.display().to_string());
    let options = format!(
        "--bpf-program {fixed} {memo} --upgradeable-program {upgradeable} {memo} {authority} --account - {dump} \
         --account-dir {folder} --mint {mint} --faucet-sol 1000.5 --slots-per-epoch 64 --ticks-per-slot 8 \
         --warp-slot {WARP}"
    );
    let options: Vec<&str> = options.split(' ').collect();
    refused(&setup, &options[..3], &["--bpf-program: the chain in", "has begun, without an account at", "add --reset"]);
    refused(&setup, &["--ticks-per-slot", "8"], &["--ticks-per-slot: the chain", "with 64 and not 8", "add --reset"]);
    let node = setup.start_with(&[&options[..], &["--reset"]].concat());
    let rpc = node.rpc();
    assert_eq!(rpc.identity(), identity, "the keys stay");

    let payer = funded_account_key(0);
    for program in [&fixed, &upgradeable] {
        assert_eq!(account(rpc, program)["owner"], LOADER);
        let status = call(rpc, &payer, program, b"written");
        assert_eq!(status["err"], Value::Null, "{status}");
        assert!(status["slot"].as_u64().unwrap() > WARP);
        let status = call(rpc, &payer, program, &[0xff]);
        assert_eq!(status["err"]["InstructionError"][1], "InvalidInstructionData", "no UTF-8: {status}");
    }
    assert_eq!(account(rpc, &loaded)["data"][0], base64(b"a note"));
    assert_eq!(
        (account(rpc, &also)["lamports"].as_u64(), account(rpc, &also)["owner"].as_str()),
        (Some(6_000_000), Some(MEMO))
    );
    assert_eq!(account(rpc, &mint)["lamports"], 500_000_000_000_000_000u64);
    an_epoch_ends(rpc);
    let stopped_at = slot(&node);
    node.kill();

    is_sound(&setup);
    // The same options are no obstacle, and neither are fewer.
    let node = setup.start_with(&options);
    assert!(slot(&node) + 32 > stopped_at, "it goes on");
    assert_eq!(call(node.rpc(), &payer, &fixed, b"again")["err"], Value::Null);
    node.stop();
    refused(&setup, &["--warp-slot", "7"], &["--warp-slot: the chain", "with 1000010 and not 7"]);
    refused(&setup, &["--mint", &fixed], &["--mint: the chain", "with another account at", &fixed]);
    let node = setup.start_with(&["--reset", "--slot-ms", "50"]);
    assert!(slot(&node) < 1_000, "a new chain, from slot 0");
    assert_eq!(account(node.rpc(), &fixed), Value::Null);
    node.stop();
}

#[test]
fn precedence_of_options_is_reported() {
    let mut setup = Setup::new("notices");
    let in_folder = |name: &str| setup.folder.path().join(name).display().to_string();
    let (memo, poor) = (in_folder("memo.so"), in_folder("poor.json"));
    dump_account(Path::new(&poor), &text(&fresh_address(0xd1, 1)), 1, b"hardly anything");
    let node = setup.start();
    dump_memo(node.rpc(), Path::new(&memo));
    node.stop();
    let node = setup.start_with(&["--reset", "--bpf-program", MEMO, &memo, "--account", "-", &poor]);
    let said = node.process.errors();
    for part in
        ["MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr is a program that every chain begins with", "has 1 lamports"]
    {
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
    let rpc = node.rpc();
    assert_eq!(account(rpc, MEMO)["owner"], LOADER, "the second loader's before");
    assert_eq!(call(rpc, &funded_account_key(0), MEMO, b"mine")["err"], Value::Null);
    node.stop();
    // On an existing chain, the error says which genesis settings it keeps.
    setup.with("development.genesis.slots_per_epoch", 64).with("development.genesis.fund_initial_accounts", 65);
    let node = setup.start();
    let said = node.process.errors();
    let kept = "keeps what it began with: fund_initial_accounts 64 (and not 65), slots_per_epoch 432000 (and not 64);";
    assert!(said.contains(kept) && said.contains("`hearth run --reset` begins a new one"), "{said}");
    node.stop();
}

#[test]
fn logs_are_cut_where_it_is_asked_for() {
    let setup = Setup::new("logs");
    let node = setup.start_with(&["--log-messages-bytes-limit", "300"]);
    let rpc = node.rpc();
    let payer = funded_account_key(0);
    let program = decode_32(MEMO).expect("an address");
    let long = Instruction { program_id: program, accounts: vec![], data: vec![b'x'; 400] };
    let bytes = transaction(&payer, &[long], &rpc.latest_blockhash());
    let simulated = rpc.call("simulateTransaction", json!([base64(&bytes), { "encoding": "base64" }]));
    let logs = simulated["value"]["logs"].as_array().expect("logs").clone();
    assert!(logs.contains(&json!("Log truncated")), "{simulated}");
    node.stop();
}

/// Dumps of the two accounts of a program that was deployed on another chain in slot 200.
fn dump_of_slot_200(folder: &Path, program: &Pubkey, elf: &[u8]) -> [String; 2] {
    let code = fresh_address(0xc1, 2);
    let program_data = [&2u32.to_le_bytes()[..], &code].concat();
    let code_data = [&3u32.to_le_bytes()[..], &200u64.to_le_bytes(), &[0; 33], elf].concat();
    [("program", program, program_data, true), ("code", &code, code_data, false)].map(
        |(name, key, data, executable)| {
            let account = json!({
                "lamports": 10_000_000_000u64, "data": [base64(&data), "base64"], "owner": LOADER,
                "executable": executable, "rentEpoch": u64::MAX, "space": data.len(),
            });
            let path = folder.join(format!("{name}.json"));
            fs::write(&path, json!({ "pubkey": text(key), "account": account }).to_string()).unwrap();
            path.display().to_string()
        },
    )
}

#[test]
fn a_program_deployed_later_elsewhere_runs_at_once() {
    let setup = Setup::new("later");
    let memo = setup.folder.path().join("memo.so");
    let node = setup.start();
    dump_memo(node.rpc(), &memo);
    node.stop();
    let program = fresh_address(0xc1, 1);
    let [account, code] = dump_of_slot_200(setup.folder.path(), &program, &fs::read(memo).unwrap());
    let node = setup.start_with(&["--reset", "--account", "-", &account, "--account", "-", &code]);
    let rpc = node.rpc();
    let payer = funded_account_key(0);
    let called = Instruction { program_id: program, accounts: vec![], data: b"written".to_vec() };
    let bytes = transaction(&payer, &[called], &rpc.latest_blockhash());
    let simulated = rpc.call("simulateTransaction", json!([base64(&bytes), { "encoding": "base64" }]));
    assert_eq!(simulated["value"]["err"], Value::Null, "{simulated}");
    let status = call(rpc, &payer, &text(&program), b"written");
    assert_eq!(status["err"], Value::Null, "{status}");
    assert!(slot(&node) < 200, "it does not wait for that slot");
    node.stop();
}

#[test]
fn accounts_are_cloned_from_dumps_and_from_another_node() {
    let there = Setup::new("original");
    let [program, noted, nowhere] = [1, 2, 3].map(|n| text(&fresh_address(0xc0, n)));
    let [memo, dump] = ["memo.so", "dump.json"].map(|name| there.folder.path().join(name));
    dump_account(&dump, &noted, 7_000_000, b"as dumped");
    let original = there.start();
    dump_memo(original.rpc(), &memo);
    original.stop();
    let [memo, dump] = [memo, dump].map(|path| path.display().to_string());
    let upgradeable = text(&fresh_address(0xc0, 4));
    let authority = text(&funded_account_key(1).public_key());
    let begins = ["--reset", "--upgradeable-program", &upgradeable, &memo, &authority, "--warp-slot", "5000"];
    let original = there.start_with(&begins);
    let url = format!("http://127.0.0.1:{}", original.ports.rpc);

    let here = Setup::new("clones");
    let clones = [
        "--url",
        &url,
        "--clone",
        &program,
        &memo,
        "--clone",
        &noted,
        &dump,
        "--clone",
        MEMO,
        "--maybe-clone",
        &nowhere,
        "--clone-upgradeable-program",
        &upgradeable,
        "--warp-slot",
    ];
    refused(&here, &["--url", &url, "--clone", &nowhere], &["--clone: there is no account", &nowhere]);
    refused(&here, &["--clone", &nowhere], &["--clone: ", "needs the file of a dump, or --url"]);
    refused(&here, &["--url", "https://node", "--clone", MEMO], &["--clone: `https://node` is not http://"]);
    assert!(!here.ledger().join("genesis.bin").exists());
    let process = Process::start(here.command("run").args(clones));
    let lines = process.wait_for_line("ready;");
    let cloned = format!("  cloned    3 accounts of {url} at commitment `confirmed`");
    assert!(lines.contains(&cloned), "{lines:#?}");
    let node = Node { process, ports: here.ports };
    let rpc = node.rpc();
    assert!(slot(&node) > 5_000, "{}", slot(&node));
    assert_eq!(account(rpc, &noted)["data"][0], base64(b"as dumped"));
    assert_eq!(account(rpc, &upgradeable), account(original.rpc(), &upgradeable));
    assert_eq!(account(rpc, &nowhere), Value::Null);
    for program in [&program, &upgradeable] {
        assert_eq!(call(rpc, &funded_account_key(0), program, b"cloned")["err"], Value::Null);
    }
    // Cloned accounts are not fetched again.
    original.stop();
    node.stop();
    here.start_with(&clones[..clones.len() - 1]).stop();
}

#[test]
fn the_faucet_gives_no_more_than_it_may() {
    let setup = Setup::new("faucet");
    let node = setup.start_with(&[
        "--faucet-sol",
        "100",
        "--faucet-per-request-sol-cap",
        "2",
        "--faucet-per-time-sol-cap",
        "3",
    ]);
    let rpc = node.rpc();
    let to = fresh_address(0xfa, 1);
    let airdrop = |lamports: u64| rpc.try_call("requestAirdrop", json!([text(&to), lamports]));
    assert!(airdrop(100_000_000_001).unwrap_err().contains("the faucet has 100000000000 lamports left"));
    assert!(airdrop(2_000_000_001).unwrap_err().contains("2000000000 lamports"));
    airdrop(2_000_000_000).unwrap();
    wait_until("the airdrop", || same(rpc.balance(&to), 2_000_000_000));
    assert!(airdrop(1_000_000_001).unwrap_err().contains("2000000000 are gone"));
    airdrop(1_000_000_000).unwrap();
    wait_until("the second", || same(rpc.balance(&to), 3_000_000_000));
    node.stop();
}

/// Features of the cluster's release that this program does not run: shorter slots, tickets, and what comes with
/// another consensus.
const NOT_RUN: [&str; 7] = [
    "iBRL5RuWhw4yqaAZu96RUULHckHTZAoe2b77qaV38JZ",
    "iBRLL3k18HST852F1Mf3Lv83waTNQmmqvKDxvYGwQFL",
    "iBRLMc81UjRa8fn8A6eE8bJTnRbgQoPTynM51akENCV",
    "iBRLjhJnkmDZgNoZRDMW11d8ZV7HvsL3vAyRjZB5npW",
    "VAT9huvhPjRN9cyrPytq9rwvEJ3J4ADtjdncgZRyANJ",
    "txv1aq4pp281K9um3tnPgkfX8UqtFT6wcVW3hNezGLL",
    "FLHoAWBDjNh6zwmJ5i1NKK4KyD8otAiv7XxvmnFnVnKH",
];

/// `hearth genesis create` in the ledger folder, with a new identity and without the features of [`NOT_RUN`].
fn create_genesis(setup: &Setup) -> Command {
    let (ledger, identity) = (setup.ledger(), setup.ledger().join("identity.json"));
    fs::create_dir_all(&ledger).unwrap();
    let made = output(hearth().args(["keys", "new"]).arg(&identity));
    assert!(made.status.success(), "{made:?}");
    let (vote, stake) = (text(&fresh_address(0xc1, 1)), text(&fresh_address(0xc1, 2)));
    let mut create = hearth();
    create.args(["genesis", "create", "--ledger"]).arg(&ledger).arg("--bootstrap-validator").arg(&identity);
    create.args([&vote, &stake]).args(["--hashes-per-tick", "500", "--inflation", "none"]);
    create.args(["--usual-programs", "--enable-warmup-epochs"]);
    for feature in NOT_RUN {
        create.args(["--deactivate-feature", feature]);
    }
    create
}

#[test]
fn a_chain_with_other_rules_has_its_own_exit_code() {
    let setup = Setup::new("other-rules");
    let required = "P1BCUMpAC7V2GRBRiJCNUgpMyWZhoqt3LKo712ePqsz";
    let made = output(create_genesis(&setup).args(["--deactivate-feature", required]));
    assert!(made.status.success(), "Agave may run it: {made:?}");
    for _ in 0..2 {
        let refused = setup.output("run", &[]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(6), "{said}");
        assert!(said.contains("the feature raise_block_limits_to_100m is not active"), "{said}");
    }
}

#[test]
fn an_unsupported_feature_ends_the_node_at_the_boundary() {
    let setup = Setup::new("boundary");
    let file = setup.folder.path().join("alpenglow.json");
    let names = ("a1penGLz8Vm2QHYB3JPefBiU4BY3Z6JkW2k3Scw5GWP", "Feature111111111111111111111111111111111111");
    dump_owned(&file, names, 1_000_000, &[0; 9]);
    let file = file.display().to_string();
    let node = setup.start_with(&["--account", "-", &file, "--slots-per-epoch", "32", "--slot-ms", "50"]);
    let (status, said) = node.process.wait_with_errors();
    let part = "the feature alpenglow is active from slot 32 on";
    assert!(status.code() == Some(6) && said.contains(part), "{status}: {said}");
    assert!(!said.contains("panic"), "{said}");
    let again = setup.output("run", &[]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.code() == Some(6) && said.contains(part), "{}: {said}", again.status);
}

#[test]
fn the_genesis_of_a_cluster_is_run() {
    let setup = Setup::new("cluster-genesis");
    let ledger = setup.ledger();
    let mut create = create_genesis(&setup);
    let made = output(&mut create);
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(ledger.join("genesis.tar.bz2").exists());
    let node = setup.start();
    let rpc = node.rpc();
    let says = |value: &Value| value.as_str().is_some_and(|text| said.contains(text));
    assert!(says(&rpc.call("getGenesisHash", json!([]))), "{said}");
    let zero = rpc.call("getBlock", json!([0]));
    assert!(says(&zero["blockhash"]), "{zero}: {said}");
    assert_eq!(rpc.call("getEpochSchedule", json!([]))["warmup"], true);
    // Its votes land.
    wait_until("a rooted slot", || {
        let slot = rpc.call("getSlot", json!([{ "commitment": "finalized" }]));
        if slot.as_u64() > Some(0) { Ok(()) } else { Err(slot.to_string()) }
    });
    node.stop();
    let shown = output(hearth().args(["genesis", "show"]).arg(&ledger));
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), said);
    fs::write(ledger.join("hard-forks.json"), "[5]").unwrap();
    let shown = output(hearth().args(["genesis", "show"]).arg(&ledger));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("with the hard forks at [5]; "), "{shown:?}");
    // A second one is not written over it.
    let again = output(&mut create);
    assert!(String::from_utf8_lossy(&again.stderr).contains("a genesis is never overwritten"), "{again:?}");
}

#[test]
fn quiet_node_listens_where_configured() {
    let setup = Setup::new("quiet");
    let port = setup.ports.rpc.to_string();
    let ledger = setup.folder.path().join("elsewhere").display().to_string();
    let options = ["run", "--quiet", "--rpc-port", &port, "--ledger", &ledger, "--bind-address", "127.0.0.1"];
    let process = super::node::Process::start(setup.command("run").args(&options[1..]));
    let node = Node { process, ports: setup.ports };
    wait_until("an answer", || node.rpc().try_call("getHealth", json!([])));
    assert!(Path::new(&ledger).join("genesis.bin").exists() && !setup.ledger().exists());
    node.process.signal(rustix::process::Signal::INT);
    let (status, said) = node.process.wait_with_errors();
    assert!(status.success() && said.is_empty(), "{said}");
}
