//! Encoding and decoding, and rejected transactions.

use alloy_primitives::{Address, B256};
use proptest::prelude::*;

use super::*;
use crate::testing::{CHAIN, key, owner, shared};

fn payload(action: Action) -> Payload {
    let inputs = vec![OutPoint { transaction: B256::repeat_byte(9), index: 1 }];
    let memo = Bytes::from_static(b"for the coffee");
    let outputs = vec![
        Output { asset: AssetId::NATIVE, amount: 5, owner: owner(2), memo },
        Output { asset: AssetId(B256::repeat_byte(7)), amount: u64::MAX, owner: owner(1), memo: Bytes::new() },
    ];
    Payload { chain_id: CHAIN, inputs, outputs, fee: 3_000, action }
}

fn actions() -> [Action; 4] {
    let issue = Action::Issue { code: "GOLD".into(), decimals: 2, open: true, issuer: owner(1), amount: 7 };
    let more = Action::IssueMore { asset: AssetId(B256::repeat_byte(7)), amount: 1 };
    [Action::Transfer, issue, more, Action::Prism { recipient: Address::repeat_byte(3), amount: 12 }]
}

fn refused(change: impl FnOnce(&mut Payload)) -> TxError {
    let mut payload = payload(Action::Transfer);
    change(&mut payload);
    decode(&signed(&payload, &[&key(1)]), CHAIN).unwrap_err()
}

#[test]
fn signed_transaction_reads_back() {
    for action in actions() {
        let raw = signed(&payload(action.clone()), &[&key(1), &key(2)]);
        assert!(is_ours(&raw));
        let tx = shared(&raw);
        assert_eq!((&tx.payload, &tx.raw[..]), (&payload(action), &raw[..]));
        let mut owners = vec![owner(1), owner(2)];
        owners.sort();
        assert_eq!(tx.owners, owners);
    }
}

#[test]
fn the_id_is_of_what_is_signed_only() {
    let one = shared(&signed(&payload(Action::Transfer), &[&key(1)]));
    let other = shared(&signed(&payload(Action::Transfer), &[&key(2)]));
    assert_eq!(one.id, other.id);
    let mut elsewhere = payload(Action::Transfer);
    elsewhere.chain_id += 1;
    let raw = signed(&elsewhere, &[&key(1)]);
    assert_ne!(decode(&raw, CHAIN + 1).unwrap().id(), one.id);
    assert_eq!(decode(&raw, CHAIN).unwrap_err(), TxError::ChainId { have: CHAIN + 1, want: CHAIN });
    assert_eq!(decode(&raw, CHAIN).unwrap_err().to_string(), "invalid chain id for signer: have 31338 want 31337");
}

#[test]
fn a_wrong_signature_is_named_and_harms_no_other() {
    let mut burst = Vec::new();
    for n in 0..40u8 {
        let mut payload = payload(Action::Transfer);
        payload.fee += u64::from(n);
        let mut raw = signed(&payload, &[&key(1), &key(2)]);
        if n % 5 == 0 {
            let last = raw.len() - 1;
            raw[last - 40] ^= 1;
        }
        burst.push(decode(&raw, CHAIN).unwrap());
    }
    for (n, verdict) in Checker::default().verify(burst).into_iter().enumerate() {
        match n % 5 {
            0 => assert_eq!(verdict.unwrap_err(), TxError::Signature(owner(1).max(owner(2))), "{n}"),
            _ => assert!(verdict.is_ok(), "{n}"),
        }
    }
}

#[test]
fn a_transaction_has_one_form() {
    for action in actions() {
        let raw = signed(&payload(action), &[&key(1)]);
        for at in 1..raw.len() {
            let mut wrong = raw.clone();
            wrong[at] ^= 1;
            // Whatever still decodes is another transaction, or has another signature.
            if let Ok(other) = decode(&wrong, CHAIN) {
                assert_eq!(other.tx.raw, wrong);
            }
            assert!(decode(&raw[..at], CHAIN).is_err());
        }
        let longer = [&raw[..], &[0]].concat();
        assert_eq!(decode(&longer, CHAIN).unwrap_err(), TxError::Form);
    }
}

#[test]
fn impossible_transaction_is_refused_at_once() {
    let first = payload(Action::Transfer).inputs[0];
    assert_eq!(refused(|payload| payload.inputs.push(first)), TxError::InputTwice(first));
    let field = |change: fn(&mut Payload)| match refused(change) {
        TxError::Field(what) => what,
        other => panic!("{other}"),
    };
    assert!(field(|payload| payload.inputs.clear()).contains("at least one output"));
    assert!(field(|payload| payload.outputs[0].amount = 0).contains("at least one unit"));
    assert!(field(|payload| payload.outputs[0].memo = vec![0; 257].into()).contains("256 bytes"));
    let prism = |amount| Action::Prism { recipient: Address::ZERO, amount };
    for amount in [0, crate::amount::CROSSING_MAX + 1, u64::MAX] {
        assert!(matches!(refused(|payload| payload.action = prism(amount)), TxError::Field(_)), "{amount}");
    }
    let issue = |code: &str, decimals| {
        let action = Action::Issue { code: code.into(), decimals, open: false, issuer: owner(1), amount: 1 };
        refused(|payload| payload.action = action)
    };
    for error in [issue("", 0), issue("a b", 0), issue("GOLD", 19), issue(&"x".repeat(17), 0)] {
        assert!(matches!(error, TxError::Field(_)), "{error}");
    }
    let many = |payload: &mut Payload| {
        payload.inputs = (0..257).map(|index| OutPoint { transaction: B256::ZERO, index }).collect();
    };
    assert!(matches!(refused(many), TxError::Rlp(_)));
    let large = refused(|payload| {
        payload.outputs[0].memo = vec![0; 256].into();
        payload.outputs = vec![payload.outputs[0].clone(); 256];
    });
    assert!(matches!(large, TxError::Size(_)), "{large}");
    let unsorted = {
        let raw = signed(&payload(Action::Transfer), &[&key(1), &key(1)]);
        decode(&raw, CHAIN).unwrap_err()
    };
    assert!(matches!(unsorted, TxError::Field(_)), "{unsorted}");
    assert!(matches!(decode(&[], CHAIN), Err(TxError::Rlp(_))));
    assert!(matches!(decode(&[0x02, 0xc0], CHAIN), Err(TxError::Rlp(_))));
    assert!(matches!(decode(&vec![0x68; SIZE_MAX + 1], CHAIN), Err(TxError::Size(_))));
}

proptest! {
    #[test]
    fn garbage_is_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(first) = bytes.first_mut() {
            *first = FIRST_BYTE;
        }
        prop_assert!(decode(&bytes, CHAIN).is_err());
    }
}
