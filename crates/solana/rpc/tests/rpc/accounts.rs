//! Parsed accounts, tokens, and scans over all accounts.

use hearth_ledger::Account;
use hearth_rpc::Limits;
use hearth_wire::Pubkey;
use hearth_wire::base58::decode_32;
use serde_json::{Value, json};
use solana_program_pack::Pack;
use spl_token_2022_interface::state;

use crate::common::*;

const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const TOKEN_2022: &str = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb";
const MINT: Pubkey = [0x40; 32];
const OWNER: Pubkey = [0x41; 32];
const DELEGATE: Pubkey = [0x42; 32];
const LAMPORTS: u64 = 3_000_000;

fn packed<T: Pack>(state: T) -> Vec<u8> {
    let mut data = vec![0; T::LEN];
    state.pack_into_slice(&mut data);
    data
}

fn store(chain: &Chain, key: &Pubkey, program: &str, data: &[u8]) {
    chain.ledger.accounts().store(key, Account::with_data(LAMPORTS, decode_32(program).unwrap(), data));
}

fn mint(supply: u64) -> Vec<u8> {
    packed(state::Mint { supply, decimals: 6, is_initialized: true, ..state::Mint::default() })
}

fn token_account(owner: &Pubkey, amount: u64, delegate: Option<Pubkey>) -> Vec<u8> {
    packed(state::Account {
        mint: MINT.into(),
        owner: (*owner).into(),
        amount,
        delegate: delegate.map(Into::into).into(),
        delegated_amount: if delegate.is_some() { 5 } else { 0 },
        state: state::AccountState::Initialized,
        ..state::Account::default()
    })
}

/// Stores an account at every commitment.
fn put(chain: &Chain, key: &Pubkey, program: &str, data: &[u8]) {
    store(chain, key, program, data);
    chain.settle();
}

/// A chain with a mint of 6 decimals and three accounts of it: 25 tokens, 0.5 and 0.
fn chain_with_tokens() -> Chain {
    let chain = Chain::new();
    store(&chain, &MINT, TOKEN, &mint(25_500_000));
    store(&chain, &[0x51; 32], TOKEN, &token_account(&OWNER, 25_000_000, None));
    store(&chain, &[0x52; 32], TOKEN, &token_account(&OWNER, 500_000, Some(DELEGATE)));
    put(&chain, &[0x53; 32], TOKEN, &token_account(&[9; 32], 0, None));
    chain
}

fn parsed(chain: &Chain, key: &Pubkey) -> Value {
    chain.call("getAccountInfo", json!([text(key), { "encoding": "jsonParsed" }]))["value"]["data"].clone()
}

#[test]
fn token_accounts_are_parsed_with_their_mint() {
    let chain = chain_with_tokens();
    let info = json!({
        "mint": text(&MINT),
        "owner": text(&OWNER),
        "state": "initialized",
        "isNative": false,
        "tokenAmount": { "amount": "500000", "decimals": 6, "uiAmount": 0.5, "uiAmountString": "0.5" },
        "delegate": text(&DELEGATE),
        "delegatedAmount": { "amount": "5", "decimals": 6, "uiAmount": 0.000005, "uiAmountString": "0.000005" },
    });
    let whole = json!({ "program": "spl-token", "space": 165, "parsed": { "type": "account", "info": info } });
    assert_eq!(parsed(&chain, &[0x52; 32]), whole);
    let mint = json!({
        "mintAuthority": null,
        "supply": "25500000",
        "decimals": 6,
        "isInitialized": true,
        "freezeAuthority": null,
    });
    assert_eq!(parsed(&chain, &MINT)["parsed"], json!({ "type": "mint", "info": mint }));
    let signers = std::array::from_fn(|n| [if n < 2 { n as u8 + 1 } else { 0 }; 32].into());
    let multisig = state::Multisig { m: 1, n: 2, is_initialized: true, signers };
    put(&chain, &[0x54; 32], TOKEN_2022, &packed(multisig));
    let shown = parsed(&chain, &[0x54; 32]);
    assert_eq!((&shown["program"], &shown["parsed"]["type"]), (&json!("spl-token-2022"), &json!("multisig")));
    assert_eq!(shown["parsed"]["info"]["signers"], json!([text(&[1; 32]), text(&[2; 32])]));
    // Without its mint, or with another length, an account is not parsed.
    chain.ledger.accounts().store(&MINT, Account::wallet(0));
    chain.settle();
    assert_eq!(parsed(&chain, &[0x52; 32])[1], "base64");
    put(&chain, &[0x55; 32], TOKEN, &[1; 40]);
    assert_eq!(parsed(&chain, &[0x55; 32]), json!([base64(&[1; 40]), "base64"]));
}

#[test]
fn nonces_and_sysvars_are_parsed() {
    let chain = Chain::new();
    let mut nonce = [0; 80];
    (nonce[0], nonce[4]) = (1, 1);
    nonce[8..40].fill(3);
    nonce[40..72].fill(4);
    nonce[72..].copy_from_slice(&5_000u64.to_le_bytes());
    put(&chain, &[0x60; 32], "11111111111111111111111111111111", &nonce);
    let info = json!({
        "authority": text(&[3; 32]),
        "blockhash": text(&[4; 32]),
        "feeCalculator": { "lamportsPerSignature": "5000" },
    });
    let whole = json!({ "program": "nonce", "space": 80, "parsed": { "type": "initialized", "info": info } });
    assert_eq!(parsed(&chain, &[0x60; 32]), whole);
    let rent = [&6_960u64.to_le_bytes()[..], &1f64.to_le_bytes(), &[50]].concat();
    let key = decode_32("SysvarRent111111111111111111111111111111111").unwrap();
    put(&chain, &key, "Sysvar1111111111111111111111111111111111111", &rent);
    let shown = parsed(&chain, &key);
    assert_eq!((&shown["program"], &shown["parsed"]["type"]), (&json!("sysvar"), &json!("rent")));
    assert_eq!(shown["parsed"]["info"]["lamportsPerByte"], "6960");
    // A wallet has nothing to parse.
    assert_eq!(parsed(&chain, &address(0)), json!(["", "base64"]));
}

#[test]
fn zstd_packs_the_part_that_is_asked_for() {
    let chain = Chain::new();
    put(&chain, &[8; 32], TOKEN, &[7; 1_000]);
    let options = json!({ "encoding": "base64+zstd", "dataSlice": { "offset": 10, "length": 500 } });
    let data = chain.call("getAccountInfo", json!([text(&[8; 32]), options]))["value"]["data"].clone();
    assert_eq!(data[1], "base64+zstd");
    use base64::Engine;
    let packed = base64::engine::general_purpose::STANDARD.decode(data[0].as_str().unwrap()).unwrap();
    assert!(packed.len() < 100);
    assert_eq!(zstd::decode_all(&packed[..]).unwrap(), [7; 500]);
}

#[test]
fn token_balances_and_supply() {
    let chain = chain_with_tokens();
    let balance = chain.call("getTokenAccountBalance", json!([text(&[0x51; 32])]));
    let amount = json!({ "amount": "25000000", "decimals": 6, "uiAmount": 25.0, "uiAmountString": "25" });
    assert_eq!((&balance["value"], &balance["context"]["slot"]), (&amount, &chain.call("getSlot", json!([]))));
    let supply = chain.call("getTokenSupply", json!([text(&MINT)]))["value"].clone();
    assert_eq!((&supply["amount"], &supply["uiAmountString"]), (&json!("25500000"), &json!("25.5")));
    let largest = chain.call("getTokenLargestAccounts", json!([text(&MINT)]))["value"].clone();
    let addresses: Vec<&Value> = largest.as_array().unwrap().iter().map(|one| &one["address"]).collect();
    assert_eq!(addresses, [&text(&[0x51; 32]), &text(&[0x52; 32]), &text(&[0x53; 32])]);
    assert_eq!(largest[1]["uiAmount"], 0.5);
    // Wrapped SOL needs no mint account.
    let mut wrapped = token_account(&OWNER, 1_500_000_000, None);
    wrapped[..32].copy_from_slice(&decode_32("So11111111111111111111111111111111111111112").unwrap());
    put(&chain, &[0x56; 32], TOKEN, &wrapped);
    assert_eq!(chain.call("getTokenAccountBalance", json!([text(&[0x56; 32])]))["value"]["uiAmount"], 1.5);
    let wrong = [
        ("getTokenAccountBalance", &[1; 32], "could not find account"),
        ("getTokenAccountBalance", &address(0), "not a Token account"),
        ("getTokenAccountBalance", &MINT, "not a Token account"),
        ("getTokenSupply", &[1; 32], "could not find account"),
        ("getTokenSupply", &address(0), "not a Token mint"),
        ("getTokenSupply", &[0x51; 32], "mint could not be unpacked"),
        ("getTokenLargestAccounts", &[1; 32], "could not find mint"),
        ("getTokenLargestAccounts", &address(0), "Token mint could not be unpacked"),
    ];
    for (method, key, what) in wrong {
        let (code, message, _) = chain.error(method, json!([text(key)]));
        assert!(code == -32602 && message.contains(what), "{method}: {code} {message}");
    }
}

#[test]
fn token_accounts_are_found_by_owner_and_by_delegate() {
    let chain = chain_with_tokens();
    let found = |method: &str, key: &Pubkey, filter: Value| {
        let answer = chain.call(method, json!([text(key), filter, { "encoding": "jsonParsed" }]));
        let keys = answer["value"].as_array().unwrap().iter().map(|one| one["pubkey"].as_str().unwrap().to_owned());
        keys.collect::<Vec<_>>()
    };
    let by_program = json!({ "programId": TOKEN });
    let by_mint = json!({ "mint": text(&MINT) });
    let both = [text(&[0x51; 32]), text(&[0x52; 32])];
    for filter in [&by_program, &by_mint] {
        assert_eq!(found("getTokenAccountsByOwner", &OWNER, filter.clone()), both);
        assert_eq!(found("getTokenAccountsByDelegate", &DELEGATE, filter.clone()), both[1..]);
        assert!(found("getTokenAccountsByDelegate", &OWNER, filter.clone()).is_empty());
    }
    assert!(found("getTokenAccountsByOwner", &OWNER, json!({ "programId": TOKEN_2022 })).is_empty());
    let bare = chain.call("getTokenAccountsByOwner", json!([text(&OWNER), by_mint, { "encoding": "base64" }]));
    assert_eq!(bare["value"][0]["account"]["data"][0], base64(&token_account(&OWNER, 25_000_000, None)));
    // 165 bytes are too many for base58, the default encoding.
    assert_eq!(chain.error("getTokenAccountsByOwner", json!([text(&OWNER), by_mint])).0, -32600);
    let wrong = [
        (json!({}), "either a mint or a programId"),
        (json!({ "mint": text(&MINT), "programId": TOKEN }), "either a mint or a programId"),
        (json!({ "mint": 5 }), "mint: expected a string"),
        (json!({ "mint": text(&[1; 32]) }), "could not find mint"),
        (json!({ "programId": text(&[1; 32]) }), "unrecognized Token program id"),
        (json!("x"), "expected an object"),
    ];
    for (filter, what) in wrong {
        let (code, message, _) = chain.error("getTokenAccountsByOwner", json!([text(&OWNER), filter]));
        assert!(code == -32602 && message.contains(what), "{code} {message}");
    }
}

#[test]
fn program_accounts_are_filtered_sorted_and_cut() {
    let chain = Chain::new();
    let program = [0x70; 32];
    for n in (0..40u8).rev() {
        let data = vec![n; usize::from(n % 4) + 1];
        chain.ledger.accounts().store(&[n + 100; 32], Account::with_data(LAMPORTS, program, &data));
    }
    chain.settle();
    let find = |options: Value| chain.call("getProgramAccounts", json!([text(&program), options]));
    let all = find(json!({}));
    let keys: Vec<Pubkey> =
        all.as_array().unwrap().iter().map(|one| decode_32(one["pubkey"].as_str().unwrap()).unwrap()).collect();
    assert_eq!(keys, (0..40).map(|n| [n + 100; 32]).collect::<Vec<_>>());
    assert_eq!(all[5]["account"]["data"], bs58::encode([5, 5]).into_string());
    assert_eq!(find(json!({ "filters": [{ "dataSize": 4 }] })).as_array().unwrap().len(), 10);
    let one = json!([{ "dataSize": 2 }, { "memcmp": { "offset": 1, "bytes": bs58::encode([9]).into_string() } }]);
    let options = json!({ "filters": one, "encoding": "base64", "dataSlice": { "offset": 1, "length": 1 } });
    let found = find(options);
    assert_eq!((found.as_array().unwrap().len(), &found[0]["pubkey"]), (1, &json!(text(&[109; 32]))));
    assert_eq!((&found[0]["account"]["data"][0], &found[0]["account"]["space"]), (&json!("CQ=="), &json!(2)));
    let with_context = find(json!({ "withContext": true, "sortResults": false }));
    assert_eq!(with_context["context"]["slot"], chain.call("getSlot", json!([])));
    assert_eq!(with_context["value"].as_array().unwrap().len(), 40);
    assert_eq!(chain.call("getProgramAccounts", json!([text(&[1; 32])])), json!([]));
    assert_eq!(chain.error("getProgramAccounts", json!([text(&program), { "minContextSlot": 99 }])).0, -32016);
    let wrong = [
        (json!({ "filters": {} }), "filters: expected an array"),
        (json!({ "filters": [1, 2, 3, 4, 5] }), "Too many filters provided; max 4"),
        (json!({ "filters": ["all"] }), "filters, element 0"),
        (json!({ "withContext": 1 }), "withContext"),
        (json!({ "sortResults": "yes" }), "sortResults"),
    ];
    for (options, what) in wrong {
        let (code, message, _) = chain.error("getProgramAccounts", json!([text(&program), options]));
        assert!(code == -32602 && message.contains(what), "{code} {message}");
    }
}

#[test]
fn a_walk_that_finds_too_much_is_ended() {
    let chain = Chain::with(Limits { answer_bytes: 1_000, ..Limits::default() }, true);
    for n in 0..20 {
        chain.ledger.accounts().store(&[n + 100; 32], Account::with_data(LAMPORTS, [0x70; 32], &[1; 100]));
    }
    chain.settle();
    let (code, message, _) = chain.error("getProgramAccounts", json!([text(&[0x70; 32])]));
    assert!(code == -32012 && message.contains("exceeded the limit"), "{message}");
}

#[test]
fn parsed_lists_leave_out_what_is_no_token() {
    let chain = chain_with_tokens();
    put(&chain, &[0x57; 32], TOKEN, &[1; 40]);
    let count = |encoding: &str| {
        let options = json!({ "encoding": encoding });
        chain.call("getProgramAccounts", json!([TOKEN, options])).as_array().unwrap().len()
    };
    assert_eq!((count("base64"), count("jsonParsed")), (5, 4));
}

#[test]
fn the_largest_accounts_and_the_supply() {
    let chain = Chain::new();
    let largest = chain.call("getLargestAccounts", json!([]))["value"].clone();
    let lamports: Vec<u64> = largest.as_array().unwrap().iter().map(|one| one["lamports"].as_u64().unwrap()).collect();
    assert!(lamports.len() <= 20 && lamports.is_sorted_by(|a, b| a >= b), "{lamports:?}");
    assert!(lamports[0] > RICH);
    assert_eq!(chain.call("getLargestAccounts", json!([{ "filter": "nonCirculating" }]))["value"], json!([]));
    assert_eq!(chain.error("getLargestAccounts", json!([{ "filter": "none" }])).0, -32602);
    let supply = chain
        .call("getSupply", json!([{ "excludeNonCirculatingAccountsList": true, "commitment": "processed" }]))["value"]
        .clone();
    assert_eq!(u128::from(supply["total"].as_u64().unwrap()), chain.ledger.accounts().total_lamports());
    assert_eq!(supply["total"], supply["circulating"]);
    assert_eq!((&supply["nonCirculating"], &supply["nonCirculatingAccounts"]), (&json!(0), &json!([])));
}
