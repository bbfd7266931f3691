//! sign: the only tile that holds the identity key.
//!
//! reads   `shred_sign` ×S, reliable: the Merkle root of an FEC set
//! writes  `sign_shred` ×S, reliable: the signature, with the request's tag
//! memory  the key
//! drops   requests whose form is not what the role of the asking link may have signed, counted as refused
//! source  Firedancer's keyguard: what may be signed is decided here and not by the asker
//!
//! A Merkle root is 32 bytes. A transaction's message, a gossip value or a vote is longer, so a shred tile that was
//! taken over cannot have any of those signed.

use hearth_crypto::ed25519::SigningKey;
use hearth_tile::{Frag, Host, In, InitError, Out, Port, Tile};
use zeroize::Zeroize;

use crate::links::{SHRED_SIGN, SIGN_SHRED};

hearth_tile::counters! {
    /// What sign counts.
    pub struct Counters {
        /// Merkle roots signed for shred.
        signed_shred: Counter,
        /// Requests refused because their form does not fit the role of the asking link.
        refused: Counter,
    }
}

/// The identity key's seed; wiped when dropped.
pub struct Config {
    /// The seed of an ed25519 key.
    pub seed: [u8; 32],
}

impl Drop for Config {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

/// The tile.
pub struct Sign {
    key: SigningKey,
    shred: Vec<(In, Port)>,
}

impl Tile for Sign {
    const NAME: &'static str = "sign";
    type Config = Config;
    type Counters = Counters;

    fn new(config: &Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let shred = host.inputs_named(SHRED_SIGN).into_iter().zip(host.outputs(SIGN_SHRED)).collect();
        Ok(Self { key: SigningKey::from_seed(&config.seed), shred })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let answer = self.shred.iter().find(|(input, _)| *input == frag.input()).map(|(_, port)| *port);
        let (Some(port), Ok(root)) = (answer, <&[u8; 32]>::try_from(frag.payload())) else {
            out.count.refused += 1;
            return out.filtered();
        };
        out.publish(port, frag.tag(), &self.key.sign(root));
        out.count.signed_shred += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_crypto::ed25519::verify_strict;
    use hearth_tile::rig::Rig;

    #[test]
    fn signs_a_root_and_nothing_else() {
        let config = Config { seed: [7; 32] };
        let public = SigningKey::from_seed(&config.seed).public_key();
        let mut rig = Rig::<Sign>::new(&config, &["shred_sign:0"], &["sign_shred:0"]);
        rig.give("shred_sign:0", 5, &[1; 32]);
        rig.give("shred_sign:0", 6, &[1; 31]);
        rig.give("shred_sign:0", 7, &[1; 150]);
        rig.run();
        let answers = rig.take("sign_shred:0");
        assert_eq!(answers.len(), 1);
        let (tag, signature) = &answers[0];
        assert_eq!(*tag, 5);
        assert!(verify_strict(&public, signature.as_slice().try_into().unwrap(), &[1; 32]).is_ok());
        assert_eq!((rig.count().signed_shred, rig.count().refused), (1, 2));
    }
    #[test]
    fn each_asker_is_answered_on_its_own_link() {
        let config = Config { seed: [7; 32] };
        let public = SigningKey::from_seed(&config.seed).public_key();
        let mut rig = Rig::<Sign>::new(&config, &["shred_sign:0", "shred_sign:1"], &["sign_shred:0", "sign_shred:1"]);
        for number in 0..20u8 {
            let asker = if number % 3 == 0 { "shred_sign:1" } else { "shred_sign:0" };
            rig.give(asker, number.into(), &[number; 32]);
        }
        rig.run();
        for (link, wanted) in [("sign_shred:0", [1, 2].as_slice()), ("sign_shred:1", &[0])] {
            let answers = rig.take(link);
            let expected: Vec<u64> = (0..20).filter(|n| wanted.contains(&(n % 3))).collect();
            assert_eq!(answers.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), expected, "in the order asked");
            for (tag, signature) in &answers {
                let signature = signature.as_slice().try_into().unwrap();
                assert!(verify_strict(&public, signature, &[*tag as u8; 32]).is_ok());
            }
        }
    }

    #[test]
    fn a_link_of_another_role_is_refused() {
        let mut rig = Rig::<Sign>::new(&Config { seed: [7; 32] }, &["rpc_sign:0"], &["sign_shred:0"]);
        rig.give("rpc_sign:0", 1, &[1; 32]);
        rig.run();
        assert_eq!(rig.take("sign_shred:0"), []);
        assert_eq!((rig.count().signed_shred, rig.count().refused), (0, 1));
    }

    #[test]
    fn no_request_is_lost_while_answers_wait() {
        let mut rig = Rig::<Sign>::new(&Config { seed: [7; 32] }, &["shred_sign:0"], &["sign_shred:0"]);
        let mut tags = vec![];
        for round in 0..3u64 {
            (0..200).for_each(|n| rig.give("shred_sign:0", round * 200 + n, &[n as u8; 32]));
            rig.run();
            tags.extend(rig.take("sign_shred:0").iter().map(|(tag, _)| *tag));
            rig.run();
        }
        tags.extend(rig.take("sign_shred:0").iter().map(|(tag, _)| *tag));
        assert!(tags.into_iter().eq(0..600));
    }
}
