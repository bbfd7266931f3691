use hearth_crypto::ed25519::SigningKey;
use hearth_tile::rig::Rig;
use hearth_wire::transfer::TransferTemplate;

use super::*;

fn transfer(lamports: u64) -> Vec<u8> {
    let key = SigningKey::from_seed(&[1; 32]);
    let mut template = TransferTemplate::new();
    template.set_from(&key.public_key());
    template.set_to(&[2; 32]);
    template.set_lamports(lamports);
    template.sign_with(|message| key.sign(message)).to_vec()
}

fn rig() -> Rig<Verify> {
    let config = Config { history: 1024, table_bytes: 1 << 20, tag_key: 7 };
    Rig::new(&config, &["quic_verify:0"], &["verify_dedup:0"])
}

#[test]
fn good_transactions_pass_with_their_tag() {
    let mut rig = rig();
    let given: Vec<Vec<u8>> = (0..100).map(transfer).collect();
    for bytes in &given {
        rig.give("quic_verify:0", 0, bytes);
    }
    rig.run();
    let taken = rig.take("verify_dedup:0");
    assert_eq!(taken.len(), 100);
    for ((tag, bytes), expected) in taken.iter().zip(&given) {
        assert_eq!(bytes, expected);
        assert_eq!(*tag, hash64(7, Txn::parse(bytes).unwrap().first_signature()));
    }
    assert_eq!((rig.count().forwarded, rig.count().signatures), (100, 100));
}

#[test]
fn each_drop_is_counted() {
    let mut rig = rig();
    let good = transfer(1);
    let mut forged = transfer(2);
    forged[10] ^= 1;
    rig.give("quic_verify:0", 0, &good);
    rig.give("quic_verify:0", 0, &forged);
    rig.give("quic_verify:0", 0, &good); // again, in the same burst
    rig.run();
    rig.give("quic_verify:0", 0, &good); // and later
    rig.give("quic_verify:0", 0, &good[..100]);
    rig.give("quic_verify:0", 0, b"");
    rig.run();
    assert_eq!(rig.take("verify_dedup:0").len(), 1);
    let expected =
        Counters { forwarded: 1, signatures: 3, dropped_malformed: 2, dropped_duplicate: 2, dropped_signature: 1 };
    assert_eq!(*rig.count(), expected);
}

#[test]
fn a_forged_copy_does_not_displace_the_original() {
    let mut rig = rig();
    let good = transfer(1);
    // Same first signature, so the same tag; another message, so the signature is wrong.
    let mut copy = good.clone();
    *copy.last_mut().unwrap() ^= 1;
    rig.give("quic_verify:0", 0, &copy);
    rig.run();
    rig.give("quic_verify:0", 0, &good);
    rig.run();
    assert_eq!(rig.take("verify_dedup:0").len(), 1);
    assert_eq!(rig.count().dropped_signature, 1);
}
