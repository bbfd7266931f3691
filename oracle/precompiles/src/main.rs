//! Makes the vectors that Hearth's own signature-checking programs are tested against, with the cluster's own crate.
//!
//! reads   nothing; everything is derived from constants
//! writes  the file named on the command line
//! memory  a few megabytes
//! source  `agave-precompiles` 4.2.2
//!
//! Run by hand, when a rule changes; it builds OpenSSL, which needs `perl` and `make`:
//!
//! ```text
//! cd oracle/precompiles && cargo run --locked -- ../../crates/solana/svm/tests/vectors/precompiles.bin
//! ```
//!
//! The file is a sequence of cases, all integers little endian, to the end of the file:
//!
//! ```text
//! case    program u8 (0 ed25519, 1 secp256k1, 2 secp256r1), verdict u8 (0 fine, or 1 + the error's number),
//!         size u16 and bytes of the instruction, which is also the first of the transaction;
//!         size u16 and bytes of the transaction's second instruction
//! ```

use agave_feature_set::FeatureSet;
use agave_precompiles::{Verify, ed25519, secp256k1, secp256r1};
use ed25519_dalek::Signer;
use sha3::{Digest, Keccak256};

const PROGRAMS: [Verify; 3] = [ed25519::verify, secp256k1::verify, secp256r1::verify];
const MESSAGES: [&[u8]; 3] = [b"", b"signed", &[0x5a; 150]];

/// Bytes that are changed in each way, and where the instruction begins to be signatures' parts.
struct SignatureCase {
    program: u8,
    data: Vec<u8>,
    parts: usize,
}

fn main() {
    let path = std::env::args().nth(1).expect("usage: hearth-oracle-precompiles FILE");
    let mut cases = Cases::default();
    for program in 0..3 {
        for count in [0, 1, 2, 3, 8, 9] {
            let signed = signed(program, count);
            cases.add(program, &signed.data, &signed.data);
            match count {
                0 => cases.headers(program),
                1 => cases.all_of_one(&signed),
                3 => cases.some_of_many(&signed),
                _ => {}
            }
        }
    }
    cases.edges_of_ed25519();
    cases.edges_of_secp256r1();
    cases.edges_of_secp256k1();
    std::fs::write(&path, &cases.bytes).expect("the file can be written");
    println!("{} cases, {:?} of each verdict", cases.count, cases.verdicts);
}

#[derive(Default)]
struct Cases {
    bytes: Vec<u8>,
    count: usize,
    verdicts: [usize; 6],
}

impl Cases {
    fn add(&mut self, program: u8, own: &[u8], other: &[u8]) {
        let result = PROGRAMS[usize::from(program)](own, &[own, other], &FeatureSet::all_enabled());
        let verdict = result.map_or_else(|error| 1 + error as u8, |()| 0);
        self.count += 1;
        self.verdicts[usize::from(verdict)] += 1;
        self.bytes.extend([program, verdict]);
        for data in [own, other] {
            self.bytes.extend((data.len() as u16).to_le_bytes());
            self.bytes.extend(data);
        }
    }

    /// Headers without anything behind them, and with too little.
    fn headers(&mut self, program: u8) {
        for data in [&[][..], &[0], &[0, 0], &[0, 7], &[0, 0, 0], &[1], &[1, 0], &[255, 0], &[2; 14], &[1; 40]] {
            self.add(program, data, &[]);
        }
    }

    /// Each byte of the places changed in several ways, some of the parts', and each way to cut it short.
    fn all_of_one(&mut self, signed: &SignatureCase) {
        let data = &signed.data;
        for at in 0..data.len() {
            let ways: &[u8] = if at < signed.parts { &[1, 2, 0x80, 0xff] } else { &[1, 0x80] };
            for way in ways.iter().filter(|_| at < signed.parts || at % 5 == 0) {
                let mut changed = data.clone();
                changed[at] ^= way;
                self.add(signed.program, &changed, data);
            }
        }
        for size in (0..data.len()).step_by(3) {
            self.add(signed.program, &data[..size], data);
            self.add(signed.program, data, &data[..size]);
        }
        // Its parts in the other instruction.
        for mask in 0..8_u8 {
            let mut moved = data.clone();
            let width = if signed.program == 1 { 1 } else { 2 };
            let starts = if signed.program == 1 { [3, 6, 11] } else { [4, 8, 14] };
            for (_, start) in starts.iter().enumerate().filter(|(bit, _)| mask & 1 << bit != 0) {
                moved[*start..*start + width].copy_from_slice(&1_u16.to_le_bytes()[..width]);
            }
            self.add(signed.program, &moved, data);
            self.add(signed.program, &moved, &data[..data.len() - 1]);
            self.add(signed.program, &moved, &[]);
        }
    }

    fn some_of_many(&mut self, signed: &SignatureCase) {
        for at in (0..signed.data.len()).step_by(17) {
            let mut changed = signed.data.clone();
            changed[at] ^= 0x41;
            self.add(signed.program, &changed, &[]);
        }
    }

    /// Scalars and points at the borders, each with a good and a bad partner.
    fn edges_of_ed25519(&mut self) {
        let order = hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
        let keys: Vec<Vec<u8>> = [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "0200000000000000000000000000000000000000000000000000000000000000",
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        ]
        .map(hex)
        .into();
        let good = signed(0, 1);
        let (signature, key) = (good.parts, good.parts + 64);
        for bytes in &keys {
            for at in [signature, key] {
                let mut data = good.data.clone();
                data[at..at + 32].copy_from_slice(bytes);
                self.add(0, &data, &[]);
            }
            let mut both = good.data.clone();
            both[key..key + 32].copy_from_slice(bytes);
            // A scalar not below the order, next to a key that may be invalid: which of the two errors is reported?
            for scalar in [order.clone(), hex(&"ff".repeat(32)), [&order[..31], &[0x1f]].concat()] {
                both[signature + 32..signature + 64].copy_from_slice(&scalar);
                self.add(0, &both, &[]);
            }
        }
        // The same scalar, larger by the order.
        let mut data = good.data.clone();
        let mut carry = 0;
        for (byte, add) in data[signature + 32..signature + 64].iter_mut().zip(&order) {
            let sum = u16::from(*byte) + u16::from(*add) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
        self.add(0, &data, &[]);
        // A bad key, and a message that is nowhere.
        let mut data = good.data;
        data[key..key + 32].copy_from_slice(&keys[7]);
        data[14..16].copy_from_slice(&9_u16.to_le_bytes());
        self.add(0, &data, &[]);
    }

    fn edges_of_secp256r1(&mut self) {
        let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
        let half = "7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a8";
        let past_half = "7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a9";
        let last = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550";
        let (zero, one) = ("00".repeat(32), format!("{}01", "00".repeat(31)));
        let good = signed(2, 1);
        let (signature, key) = (good.parts, good.parts + 64);
        for scalar in [order, half, past_half, last, &zero, &one, &"ff".repeat(32)] {
            for at in [signature, signature + 32] {
                let mut data = good.data.clone();
                data[at..at + 32].copy_from_slice(&hex(scalar));
                self.add(2, &data, &[]);
            }
        }
        // The higher of the two scalars that fit.
        let mut data = good.data.clone();
        let low = p256::ecdsa::Signature::from_slice(&data[signature..signature + 64]).expect("a signature");
        let high = p256::ecdsa::Signature::from_scalars(low.r().to_bytes(), (-*low.s()).to_bytes()).expect("one too");
        data[signature..signature + 64].copy_from_slice(&high.to_bytes());
        self.add(2, &data, &[]);
        for form in 0..=8 {
            let mut data = good.data.clone();
            data[key] = form;
            self.add(2, &data, &[]);
        }
        // Abscissas: the field's modulus and its neighbours, zero, and one without a point on the curve.
        let modulus = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";
        let before = "ffffffff00000001000000000000000000000000fffffffffffffffffffffffe";
        for x in [modulus, before, &zero, &one, &"ff".repeat(32)] {
            let mut data = good.data.clone();
            data[key + 1..key + 33].copy_from_slice(&hex(x));
            self.add(2, &data, &[]);
        }
    }

    fn edges_of_secp256k1(&mut self) {
        let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
        let good = signed(1, 1);
        for scalar in [order, &"00".repeat(32), &"ff".repeat(32), &format!("{}01", "00".repeat(31))] {
            for at in [good.parts, good.parts + 32] {
                let mut data = good.data.clone();
                data[at..at + 32].copy_from_slice(&hex(scalar));
                self.add(1, &data, &[]);
            }
        }
        for recovery in 0..=5 {
            let mut data = good.data.clone();
            data[good.parts + 64] = recovery;
            self.add(1, &data, &[]);
        }
        // The other scalar, with the other recovery: anyone can make it, and it is valid.
        let mut data = good.data.clone();
        let at = good.parts;
        let mut other = libsecp256k1::Signature::parse_standard_slice(&data[at..at + 64]).expect("a signature");
        other.s = -other.s;
        data[at..at + 64].copy_from_slice(&other.serialize());
        self.add(1, &data, &[]);
        data[at + 64] ^= 1;
        self.add(1, &data, &[]);
    }
}

/// Builds an instruction with `count` valid signatures.
fn signed(program: u8, count: u8) -> SignatureCase {
    let header = if program == 1 { 1 } else { 2 };
    let places = if program == 1 { 11 } else { 14 };
    let parts = header + places * usize::from(count);
    let (mut head, mut body) = (vec![count], vec![]);
    head.resize(header, 0);
    for index in 0..count {
        let message = MESSAGES[usize::from(index + 1) % 3];
        let (signature, key) = sign(program, index, message);
        let at = |size: usize, body: &[u8]| ((parts + body.len()) as u16, size as u16);
        let (signature_at, _) = at(signature.len(), &body);
        body.extend(&signature);
        let (key_at, _) = at(key.len(), &body);
        body.extend(&key);
        let (message_at, size) = at(message.len(), &body);
        body.extend(message);
        if program == 1 {
            head.extend(signature_at.to_le_bytes());
            head.push(0);
            head.extend(key_at.to_le_bytes());
            head.push(0);
            head.extend([message_at, size].map(u16::to_le_bytes).concat());
            head.push(0);
        } else {
            let own = u16::MAX;
            head.extend([signature_at, own, key_at, own, message_at, size, own].map(u16::to_le_bytes).concat());
        }
    }
    SignatureCase { program, data: [head, body].concat(), parts }
}

/// A signature, and the key or address that it is checked against.
fn sign(program: u8, index: u8, message: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let seed = [index + 1; 32];
    match program {
        0 => {
            let key = ed25519_dalek::SigningKey::from_bytes(&seed);
            (key.sign(message).to_vec(), key.verifying_key().to_bytes().into())
        }
        1 => {
            let key = libsecp256k1::SecretKey::parse(&seed).expect("below the order");
            let digest = libsecp256k1::Message::parse(&Keccak256::digest(message).into());
            let (signature, recovery) = libsecp256k1::sign(&digest, &key);
            let public = libsecp256k1::PublicKey::from_secret_key(&key).serialize();
            let address = Keccak256::digest(&public[1..])[12..].to_vec();
            ([&signature.serialize()[..], &[recovery.serialize()]].concat(), address)
        }
        _ => {
            let key = p256::ecdsa::SigningKey::from_slice(&seed).expect("below the order");
            let signature: p256::ecdsa::Signature = key.sign(message);
            let signature = signature.normalize_s().unwrap_or(signature);
            (signature.to_vec(), key.verifying_key().to_encoded_point(true).as_bytes().into())
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}
