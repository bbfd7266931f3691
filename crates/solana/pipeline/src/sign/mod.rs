//! sign: the only tile that holds the identity key.
//!
//! reads   `shred_sign` ×S, reliable: Merkle roots of FEC sets; `tower_sign`, reliable, if the node votes: messages of
//!         votes; in a cluster, reliable: `repair_sign`: the signed part of a repair request, or a ping's token;
//!         `gossip_sign`: values, prunes, pings and pongs; `rserve_sign`: the random part of a ping's token;
//!         `txsend_sign`: the handshake of a QUIC client
//! writes  `sign_shred` ×S, `sign_tower`, `sign_repair`, `sign_gossip`, `sign_rserve`, `sign_txsend`, reliable: the
//!         signature, or nothing if the request is refused, with the request's tag
//! memory  the key, in a locked page that is excluded from core dumps: [`Keypair`]. Another identity's takes its place,
//!         and the page of the old one is wiped
//! drops   requests whose form does not match the role of their link, counted as refused: each gets an empty answer, so
//!         that the requester knows which of its requests are still pending
//! source  Firedancer's keyguard: this tile decides what may be signed, not the requester
//!
//! Before it answers a request it takes the key of another identity, if there is one: from the node's
//! [`IdentityWatch`], or from the [pipe](crate::key_pipe) where it has a process of its own. A tile that knows the new
//! address finds its key here.
//!
//! A request is copied before it is looked at, since code that has taken the node's process over may write to the link
//! at any time. It could exchange bytes that were checked; and a signature reads its message twice, so that bytes which
//! change in between reveal the key.
//!
//! Each link has one role, and no two roles share a form. Shred's requests are Merkle roots: 32 bytes without the zeros
//! that end a ping's token. Repair's are requests, 88 or 96 bytes that name this node as the sender, and pongs, each
//! over a hash computed here. Rserve's are pings, whose tokens are built here from 8 random bytes. A transaction's
//! message, a gossip value or a vote is none of those, so an attacker that takes over one of these tiles cannot get any
//! signed.
//!
//! Tower's request must be a message with one instruction, to the vote program, for this node's vote account, with this
//! node as its payer and a key of [`VoterKeys`] as its authorized voter: it moves no lamports except the fee. If that
//! is another key than the node's, the answer is both signatures. Txsend's must be the 130 bytes that a
//! TLS client signs, which start with 64 spaces. `gossip.rs` says what gossip may have signed, and why none of it can
//! be anything else.

mod gossip;

use std::io::{self, Read, Write};

use hearth_tile::sys::sandbox::Call;
use hearth_tile::{Frag, Host, In, InitError, Out, Port, Tile};

use hearth_gossip::{SignKind, pong_hash};
use hearth_keys::Keypair;
use hearth_quic::deferred::is_client_handshake;
use hearth_wire::Pubkey;
use hearth_wire::repair::is_repair_request;
use hearth_wire::vote::is_vote_message_by;

use crate::identity::IdentityWatch;
use crate::key_pipe::{TakeOverError, read_key};
use crate::links::{
    GOSSIP_SIGN, PING_NONCE, PONG, REPAIR_SIGN, RSERVE_SIGN, SHRED_SIGN, SIGN_GOSSIP, SIGN_REPAIR, SIGN_RSERVE,
    SIGN_SHRED, SIGN_TOWER, SIGN_TXSEND, TOWER_SIGN, TXN_MTU, TXSEND_SIGN, ping_token,
};
use crate::voters::VoterKeys;

/// The system calls of its process, where it has one of its own: it waits, keeps time, has memory, and takes keys from
/// a pipe. It opens nothing.
pub const SYSTEM_CALLS: [Call; 18] = [
    Call::Read,
    Call::ReadAt,
    Call::Write,
    Call::Close,
    Call::Poll,
    Call::Futex,
    Call::Time,
    Call::Sleep,
    Call::Yield,
    Call::Usage,
    Call::ThreadId,
    Call::MapMemory,
    Call::Unmap,
    Call::Advise,
    Call::Lock,
    Call::Break,
    Call::Resume,
    Call::Exit,
];

hearth_tile::counters! {
    /// The counters of sign.
    pub struct Counters {
        /// Merkle roots signed for shred.
        signed_shred: Counter,
        /// Repair requests signed for repair.
        signed_repair: Counter,
        /// Pongs signed for repair.
        signed_pongs: Counter,
        /// Pings signed for rserve.
        signed_pings: Counter,
        /// Votes signed for tower.
        signed_votes: Counter,
        /// Values of this node signed for gossip.
        signed_values: Counter,
        /// Prunes signed for gossip.
        signed_prunes: Counter,
        /// Pings signed for gossip, and answers to pings.
        signed_gossip_pings: Counter,
        /// Handshakes with leaders signed for txsend.
        signed_handshakes: Counter,
        /// Requests refused because their form does not fit the role of the asking link.
        refused: Counter,
    }
}

/// The configuration of sign.
pub struct Config {
    /// The identity. Nothing else in the process holds it.
    pub key: Keypair,
    /// The account that the node votes with, if it votes.
    pub vote_account: Option<Pubkey>,
    /// The keys of which one must be that account's authorized voter.
    pub voters: VoterKeys,
    /// Has the key of another identity. In a process of its own sign has it from the pipe by which it took this over,
    /// and this one never changes.
    pub identity: IdentityWatch,
}

impl Config {
    /// Writes all of it to the process that takes the tile over; changes of the identity and of the voters' keys follow
    /// on the same pipe: its writes should not wait from then on. No key remains in this process.
    ///
    /// # Errors
    /// The pipe fails.
    pub fn hand_over(self, mut pipe: Box<dyn Write + Send>) -> io::Result<()> {
        let Self { key, vote_account, voters, identity } = self;
        pipe.write_all(&[u8::from(vote_account.is_some())])?;
        pipe.write_all(&vote_account.unwrap_or_default())?;
        pipe.write_all(key.seed())?;
        drop(key);
        identity.hand_over(voters.hand_over(pipe)?)
    }

    /// Reads what [`Config::hand_over`] writes. Reads from the pipe must not wait once this has returned.
    ///
    /// # Errors
    /// The pipe fails, or there is no locked page for a key.
    pub fn take_over(mut pipe: Box<dyn Read + Send>) -> Result<Self, TakeOverError> {
        let mut votes = [0];
        pipe.read_exact(&mut votes)?;
        let mut account = [0; 32];
        pipe.read_exact(&mut account)?;
        let key = read_key(&mut pipe)?;
        let voters = VoterKeys::take_over(pipe)?;
        let identity = key.public_key().into();
        Ok(Self { key, vote_account: (votes != [0]).then_some(account), voters, identity })
    }
}

/// The links and rules for tower's requests.
struct TowerRole {
    input: In,
    port: Port,
    account: Pubkey,
}

/// Signs requests according to the role of their link.
pub struct Sign {
    key: Keypair,
    identity: IdentityWatch,
    voters: VoterKeys,
    shred: Vec<(In, Port)>,
    tower: Option<TowerRole>,
    /// Requests for handshakes, and their answers.
    handshakes: Option<(In, Port)>,
    /// Repair requests and pongs, and their answers.
    repair: Option<(In, Port)>,
    /// Gossip's requests, and their answers.
    gossip: Option<(In, Port)>,
    /// Pings, and their answers.
    rserve: Option<(In, Port)>,
    /// The bytes of the request in progress.
    request: Vec<u8>,
}

impl Tile for Sign {
    const NAME: &'static str = "sign";
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let shred = host.inputs_named(SHRED_SIGN).into_iter().zip(host.outputs(SIGN_SHRED)).collect();
        let links = host.inputs_named(TOWER_SIGN).into_iter().zip(host.outputs(SIGN_TOWER)).next();
        let tower = links.zip(config.vote_account).map(|((input, port), account)| TowerRole { input, port, account });
        let handshakes = host.inputs_named(TXSEND_SIGN).into_iter().zip(host.outputs(SIGN_TXSEND)).next();
        let repair = host.inputs_named(REPAIR_SIGN).into_iter().zip(host.outputs(SIGN_REPAIR)).next();
        let gossip = host.inputs_named(GOSSIP_SIGN).into_iter().zip(host.outputs(SIGN_GOSSIP)).next();
        let rserve = host.inputs_named(RSERVE_SIGN).into_iter().zip(host.outputs(SIGN_RSERVE)).next();
        let Config { key, voters, identity, .. } = config;
        let request = Vec::with_capacity(TXN_MTU);
        Ok(Self { key, identity, voters, shred, tower, handshakes, repair, gossip, rserve, request })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        // The requester may know of a change already.
        self.take_key();
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        request.extend_from_slice(frag.payload());
        // The compiler must not read the link in place of the copy.
        let request = std::hint::black_box(request);
        self.answer(&frag.with_payload(&request), out);
        self.request = request;
    }

    fn housekeep(&mut self, _: &mut Out<'_, Self>) {
        // Tower asks for nothing once all keys are removed, and they must not stay.
        self.voters.update();
        self.take_key();
    }
}

impl Sign {
    /// Takes the key of another identity; the old one is wiped.
    fn take_key(&mut self) {
        if let Some(key) = self.identity.take_key().or_else(|| self.voters.take_identity()) {
            self.key = key;
        }
    }

    /// Answers a request by the role of its link.
    fn answer(&mut self, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        if self.tower.as_ref().is_some_and(|role| role.input == frag.input()) {
            return self.tower_vote(frag, out);
        }
        if let Some((input, port)) = self.handshakes
            && input == frag.input()
        {
            return self.handshake(port, frag, out);
        }
        if let Some((input, port)) = self.repair
            && input == frag.input()
        {
            return self.repair(port, frag, out);
        }
        if let Some((input, port)) = self.gossip
            && input == frag.input()
        {
            return self.gossip(port, frag, out);
        }
        if let Some((input, port)) = self.rserve
            && input == frag.input()
        {
            return self.ping(port, frag, out);
        }
        let answer = self.shred.iter().find(|(input, _)| *input == frag.input()).map(|(_, port)| *port);
        let Some(port) = answer else {
            out.count.refused += 1;
            return out.filtered();
        };
        if !is_root(frag.payload()) {
            return refuse(port, frag, out);
        }
        out.publish(port, frag.tag(), &self.key.sign(frag.payload()));
        out.count.signed_shred += 1;
    }

    /// Whether this is the signed part of a repair request, and cannot be a gossip value.
    fn is_request(&self, bytes: &[u8]) -> bool {
        let own = self.key.public_key();
        is_repair_request(bytes, &own) && !gossip::is_value_of(bytes, &own)
    }

    fn gossip(&self, port: Port, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        let own = self.key.public_key();
        let now_ms = out.wall_ns() / 1_000_000;
        let signed = gossip::sign(self.key.key(), &own, frag.control(), frag.payload(), now_ms);
        let Some((kind, signature)) = signed else {
            return refuse(port, frag, out);
        };
        match kind {
            SignKind::Value => out.count.signed_values += 1,
            SignKind::Prune => out.count.signed_prunes += 1,
            SignKind::Ping | SignKind::Pong => out.count.signed_gossip_pings += 1,
        }
        out.publish(port, frag.tag(), &signature);
    }

    fn handshake(&self, port: Port, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        if !is_client_handshake(frag.payload()) {
            return refuse(port, frag, out);
        }
        out.publish(port, frag.tag(), &self.key.sign(frag.payload()));
        out.count.signed_handshakes += 1;
    }

    fn tower_vote(&mut self, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        self.voters.update();
        let TowerRole { port, account, .. } = self.tower.as_ref().expect("the link has the role");
        let message = frag.payload();
        let node = self.key.public_key();
        let voter = self.voters.find(&self.key, |voter| is_vote_message_by(message, &node, voter, account));
        let Some(voter) = voter else { return refuse(*port, frag, out) };
        let own = self.key.sign(message);
        if voter.public_key() == node {
            out.publish(*port, frag.tag(), &own);
        } else {
            out.publish(*port, frag.tag(), [own, voter.sign(message)].as_flattened());
        }
        out.count.signed_votes += 1;
    }

    fn repair(&mut self, port: Port, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        let signature = match frag.payload() {
            request if self.is_request(request) => {
                out.count.signed_repair += 1;
                self.key.sign(request)
            }
            ping if ping.len() == 36 && ping.starts_with(&PONG) => {
                out.count.signed_pongs += 1;
                self.key.sign(&pong_hash(ping[4..].try_into().expect("32 bytes")))
            }
            _ => return refuse(port, frag, out),
        };
        out.publish(port, frag.tag(), &signature);
    }

    fn ping(&mut self, port: Port, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        let Ok(nonce) = frag.payload().try_into() else {
            return refuse(port, frag, out);
        };
        out.publish(port, frag.tag(), &self.key.sign(&ping_token(nonce)));
        out.count.signed_pings += 1;
    }
}

/// Whether this is a Merkle root and not a ping's token, which ends in zeros that no hash has.
fn is_root(bytes: &[u8]) -> bool {
    bytes.len() == 32 && bytes[PING_NONCE..].iter().any(|byte| *byte != 0)
}

/// Refuses a request with an empty answer.
fn refuse(port: Port, frag: &Frag<'_>, out: &mut Out<'_, Sign>) {
    out.publish(port, frag.tag(), &[]);
    out.count.refused += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_crypto::ed25519::verify_strict;
    use hearth_tile::rig::Rig;

    use crate::voters::VoterDesk;

    /// The vote account of the node, if it votes.
    const ACCOUNT: Pubkey = [8; 32];

    fn config() -> Config {
        let key = Keypair::from_seed(&[7; 32]).expect("a page may be locked");
        let identity = key.public_key().into();
        Config { key, vote_account: None, voters: VoterKeys::identity_alone(), identity }
    }

    #[test]
    fn another_process_takes_over_the_same() {
        for vote_account in [None, Some(ACCOUNT)] {
            let (reads, writes) = io::pipe().unwrap();
            Config { vote_account, ..config() }.hand_over(Box::new(writes)).unwrap();
            let taken = Config::take_over(Box::new(reads)).unwrap();
            assert_eq!(taken.key.public_key(), config().key.public_key());
            assert_eq!(taken.vote_account, vote_account);
            assert!(taken.voters.find(&taken.key, |_| true).is_some());
        }
    }

    /// Takes the answers on a link: the signatures, and the tags of the refused requests.
    fn answers(rig: &mut Rig<Sign>, link: &str) -> (Vec<(u64, Vec<u8>)>, Vec<u64>) {
        let (signed, refused): (Vec<_>, Vec<_>) =
            rig.take(link).into_iter().partition(|(_, answer)| !answer.is_empty());
        (signed, refused.into_iter().map(|(tag, _)| tag).collect())
    }

    #[test]
    fn signs_a_root_and_nothing_else() {
        let config = config();
        let public = config.key.public_key();
        let mut rig = Rig::<Sign>::new(config, &["shred_sign:0"], &["sign_shred:0"]);
        rig.give("shred_sign:0", 5, &[1; 32]);
        rig.give("shred_sign:0", 6, &[1; 31]);
        rig.give("shred_sign:0", 7, &[1; 150]);
        rig.run();
        let (signed, refused) = answers(&mut rig, "sign_shred:0");
        assert_eq!(signed.len(), 1);
        let (tag, signature) = &signed[0];
        assert_eq!(*tag, 5);
        assert_eq!(refused, [6, 7]);
        assert!(verify_strict(&public, signature.as_slice().try_into().unwrap(), &[1; 32]).is_ok());
        assert_eq!((rig.count().signed_shred, rig.count().refused), (1, 2));
    }

    #[test]
    fn gossip_role_signs_only_gossip() {
        use hearth_wire::gossip::{CrdsData, LowestSlot};
        let config = config();
        let node = config.key.public_key();
        let mut value = vec![];
        CrdsData::LowestSlot(LowestSlot { from: node, lowest: 9, wallclock: 5 }).write(&mut value);
        let inputs = ["shred_sign:0", "gossip_sign"];
        let mut rig = Rig::<Sign>::new(config, &inputs, &["sign_shred:0", "sign_gossip"]);
        rig.give_control("gossip_sign", 1, SignKind::Value as u16, &value);
        rig.give_control("gossip_sign", 2, SignKind::Pong as u16, &[6; 32]);
        rig.give_control("gossip_sign", 3, SignKind::Ping as u16, &[6; 32]);
        rig.give_control("gossip_sign", 4, 77, &value);
        rig.give("shred_sign:0", 5, &value);
        rig.run();
        let (signed, refused) = answers(&mut rig, "sign_gossip");
        assert_eq!(signed.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(refused, [3, 4]);
        for ((_, signature), message) in signed.iter().zip([&value[..], &pong_hash(&[6; 32])]) {
            assert!(verify_strict(&node, signature.as_slice().try_into().unwrap(), message).is_ok());
        }
        assert_eq!(rig.take("sign_shred:0"), [(5, vec![])], "a value is none of shred's business");
        let count = rig.count();
        assert_eq!((count.signed_values, count.signed_gossip_pings, count.refused), (1, 1, 3));
    }

    #[test]
    fn signs_votes_of_its_account_for_tower() {
        use hearth_wire::vote::{Lockout, TowerSync, VotedBlock};
        let [node, other] = [7, 9].map(|seed| Keypair::from_seed(&[seed; 32]).unwrap().public_key());
        let votes = [Lockout { slot: 9, confirmation_count: 1 }];
        let vote = |node: &Pubkey, voter: &Pubkey, account: &Pubkey, is_switch: bool| {
            let sync = TowerSync { votes: &votes, root: None, timestamp: None, is_switch };
            let block = VotedBlock { slot: 9, bank_hash: [1; 32], block_id: [2; 32], blockhash: [3; 32] };
            sync.message_by(node, voter, account, &block).bytes().to_vec()
        };
        let config = Config { vote_account: Some(ACCOUNT), ..config() };
        let mut rig = Rig::<Sign>::new(config, &["shred_sign:0", "tower_sign"], &["sign_shred:0", "sign_tower"]);
        let mut transfer = hearth_wire::transfer::TransferTemplate::new();
        transfer.set_from(&node);
        let transfer = hearth_wire::Txn::parse(transfer.bytes()).unwrap().message().to_vec();
        let own = [vote(&node, &node, &ACCOUNT, false), vote(&node, &node, &ACCOUNT, true)];
        let refused = [
            vote(&node, &node, &[6; 32], false),
            vote(&node, &other, &ACCOUNT, false),
            vote(&other, &other, &ACCOUNT, false),
            vec![1; 32],
            b"PONG0123456789abcdef0123456789abcdef".to_vec(),
            transfer,
        ];
        rig.give("tower_sign", 1, &own[0]);
        rig.give("tower_sign", 2, &own[1]);
        refused.iter().for_each(|message| rig.give("tower_sign", 3, message));
        rig.give("shred_sign:0", 4, &own[0]);
        rig.run();
        let (signed, refused_tags) = answers(&mut rig, "sign_tower");
        assert_eq!(signed.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(refused_tags, [3; 6]);
        for (message, (_, signature)) in own.iter().zip(&signed) {
            assert!(verify_strict(&node, signature.as_slice().try_into().unwrap(), message).is_ok());
        }
        assert_eq!(rig.count().signed_votes, 2);
        assert_eq!(rig.count().refused, 7);
        assert_eq!(rig.take("sign_shred:0"), [(4, vec![])]);
    }

    #[test]
    fn vote_of_another_voter_has_both_signatures() {
        use hearth_wire::vote::{Lockout, TowerSync, VotedBlock};
        let [node, voter] = [7, 9].map(|seed| Keypair::from_seed(&[seed; 32]).unwrap().public_key());
        let votes = [Lockout { slot: 9, confirmation_count: 1 }];
        let sync = TowerSync { votes: &votes, root: None, timestamp: None, is_switch: false };
        let block = VotedBlock { slot: 9, bank_hash: [1; 32], block_id: [2; 32], blockhash: [3; 32] };
        let by = |voter: &Pubkey| sync.message_by(&node, voter, &ACCOUNT, &block).bytes().to_vec();
        let (desk, _, voters) = VoterDesk::new(node, vec![Keypair::from_seed(&[9; 32]).unwrap()]);
        let config = Config { vote_account: Some(ACCOUNT), voters, ..config() };
        let mut rig = Rig::<Sign>::new(config, &["tower_sign"], &["sign_tower"]);
        rig.give("tower_sign", 1, &by(&voter));
        // The identity is no authorized voter here.
        rig.give("tower_sign", 2, &by(&node));
        rig.run();
        let (signed, refused) = answers(&mut rig, "sign_tower");
        let [(1, signatures)] = &signed[..] else { panic!("{signed:?}") };
        assert_eq!(refused, [2]);
        let (signatures, rest) = signatures.as_chunks::<64>();
        assert_eq!((signatures.len(), rest.len()), (2, 0));
        for (key, signature) in [node, voter].iter().zip(signatures) {
            assert!(verify_strict(key, signature, &by(&voter)).is_ok());
        }
        desk.remove_all().unwrap();
        rig.give("tower_sign", 3, &by(&voter));
        desk.add(Keypair::from_seed(&[7; 32]).unwrap()).unwrap();
        rig.give("tower_sign", 4, &by(&node));
        rig.run();
        let (signed, refused) = answers(&mut rig, "sign_tower");
        assert_eq!(signed.iter().map(|(tag, signature)| (*tag, signature.len())).collect::<Vec<_>>(), [(4, 64)]);
        assert_eq!(refused, [3]);
        // It drops removed keys although tower asks for nothing more.
        desk.remove_all().unwrap();
        rig.advance(std::time::Duration::from_secs(10));
        rig.run();
        let identity = Keypair::from_seed(&[7; 32]).unwrap();
        assert!(rig.tile().voters.find(&identity, |_| true).is_none());
    }

    #[test]
    fn another_identity_signs_from_its_commit_on() {
        use crate::identity::{IdentityRequest, Role};
        let config = config();
        let [old, new] = [7, 9].map(|seed| Keypair::from_seed(&[seed; 32]).unwrap());
        let mut tower = config.identity.clone();
        let inputs = ["shred_sign:0", "repair_sign"];
        let mut rig = Rig::<Sign>::new(config, &inputs, &["sign_shred:0", "sign_repair"]);
        let request = |sender: &Keypair| [&9u32.to_le_bytes()[..], &sender.public_key(), &[1; 60]].concat();
        let mut signer = |tag: u64| {
            rig.give("shred_sign:0", tag, &[1; 32]);
            rig.give("repair_sign", tag, &request(&old));
            rig.give("repair_sign", tag + 1, &request(&new));
            rig.run();
            let (roots, _) = answers(&mut rig, "sign_shred:0");
            let signature: [u8; 64] = roots[0].1.as_slice().try_into().unwrap();
            let is_by = |key: &Keypair| verify_strict(&key.public_key(), &signature, &[1; 32]).is_ok();
            let (requests, refused) = answers(&mut rig, "sign_repair");
            assert_eq!((requests.len(), refused.len()), (1, 1));
            (is_by(&old), is_by(&new), requests[0].0)
        };
        assert_eq!(signer(1), (true, false, 1));
        let role = Role { vote_account: None, leads: false, tower: None };
        let key = Keypair::from_seed(&[9; 32]).unwrap();
        tower.desk().request(IdentityRequest { key, role }).unwrap();
        assert_eq!(signer(3), (true, false, 3), "tower has not committed it");
        tower.commit();
        assert_eq!(signer(5), (false, true, 6));
    }

    #[test]
    fn another_identity_signs_once_its_key_is_on_the_pipe() {
        use crate::identity::{IdentityRequest, Role};
        use hearth_tile::sys::process::never_wait_for;
        use hearth_wire::vote::{Lockout, TowerSync, VotedBlock};
        use std::os::fd::AsRawFd;
        let [old, new] = [7, 9].map(|seed| Keypair::from_seed(&[seed; 32]).unwrap().public_key());
        let votes = [Lockout { slot: 9, confirmation_count: 1 }];
        let sync = TowerSync { votes: &votes, root: None, timestamp: None, is_switch: false };
        let block = VotedBlock { slot: 9, bank_hash: [1; 32], block_id: [2; 32], blockhash: [3; 32] };
        let vote = |voter: &Pubkey| sync.message_by(voter, voter, &ACCOUNT, &block).bytes().to_vec();
        let (desk, _, voters) = VoterDesk::new(old, vec![]);
        let config = Config { vote_account: Some(ACCOUNT), voters, ..config() };
        let mut tower = config.identity.clone();
        let (reads, writes) = io::pipe().unwrap();
        let descriptor = reads.as_raw_fd();
        config.hand_over(Box::new(writes)).unwrap();
        let taken = Config::take_over(Box::new(reads)).unwrap();
        never_wait_for(descriptor).unwrap();
        let mut rig = Rig::<Sign>::new(taken, &["tower_sign"], &["sign_tower"]);
        let mut signed = |tag: u64| {
            rig.give("tower_sign", tag, &vote(&old));
            rig.give("tower_sign", tag + 1, &vote(&new));
            rig.run();
            let (signed, refused) = answers(&mut rig, "sign_tower");
            (signed.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), refused)
        };
        assert_eq!(signed(1), (vec![1], vec![2]));
        let role = Role { vote_account: Some(ACCOUNT), leads: false, tower: None };
        let key = Keypair::from_seed(&[9; 32]).unwrap();
        tower.desk().request(IdentityRequest { key, role }).unwrap();
        assert_eq!(signed(3), (vec![3], vec![4]), "tower has not sent it");
        tower.send_key().unwrap();
        tower.commit();
        assert_eq!(signed(5), (vec![6], vec![5]), "the identity may sign votes as the old one could");
        // Both desks have the pipe: changes of the voters' keys still come.
        desk.remove_all().unwrap();
        assert_eq!(signed(7), (vec![], vec![7, 8]));
    }

    #[test]
    fn signs_handshakes_for_txsend_alone() {
        let config = config();
        let public = config.key.public_key();
        let mut handshake = [b' '; 130];
        handshake[64..97].copy_from_slice(b"TLS 1.3, client CertificateVerify");
        handshake[97] = 0;
        let mut server = handshake;
        server[73..79].copy_from_slice(b"server");
        let mut rig = Rig::<Sign>::new(config, &["shred_sign:0", "txsend_sign"], &["sign_shred:0", "sign_txsend"]);
        rig.give("txsend_sign", 1, &handshake);
        rig.give("txsend_sign", 2, &server);
        rig.give("txsend_sign", 3, &[1; 32]);
        rig.give("shred_sign:0", 4, &handshake);
        rig.run();
        let (signed, refused) = answers(&mut rig, "sign_txsend");
        assert_eq!((signed.len(), signed[0].0), (1, 1));
        assert_eq!(refused, [2, 3]);
        assert!(verify_strict(&public, signed[0].1.as_slice().try_into().unwrap(), &handshake).is_ok());
        assert_eq!((rig.count().signed_handshakes, rig.count().refused), (1, 3));
        assert_eq!(rig.take("sign_shred:0"), [(4, vec![])]);
    }

    #[test]
    fn repair_gets_requests_and_pongs_and_nothing_else() {
        let config = config();
        let node = config.key.public_key();
        let inputs = ["shred_sign:0", "repair_sign"];
        let mut rig = Rig::<Sign>::new(config, &inputs, &["sign_shred:0", "sign_repair"]);
        let request = |sender: &[u8]| [&9u32.to_le_bytes()[..], sender, &[1; 60]].concat();
        let pong = [&PONG[..], &[5; 32]].concat();
        // A Merkle root, another node's request, a request that is also a gossip value, a ping's token, nothing.
        for refused in [&[1; 32][..], &request(&[8; 32]), &gossip::tests::request_and_value(), &[3; 8], &[]] {
            rig.give("repair_sign", 1, refused);
        }
        rig.give("repair_sign", 2, &request(&node));
        rig.give("repair_sign", 3, &pong);
        // Neither is signed for shred.
        rig.give("shred_sign:0", 4, &request(&node));
        rig.give("shred_sign:0", 5, &pong);
        rig.run();
        let (signed, refused) = answers(&mut rig, "sign_repair");
        assert_eq!(signed.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(refused, [1; 5]);
        let is_over = |place: usize, message: &[u8]| {
            verify_strict(&node, signed[place].1.as_slice().try_into().unwrap(), message).is_ok()
        };
        assert!(is_over(0, &request(&node)) && is_over(1, &pong_hash(&[5; 32])));
        assert_eq!(rig.count().signed_repair, 1);
        assert_eq!(rig.count().signed_pongs, 1);
        assert_eq!(rig.count().refused, 7);
        assert_eq!(rig.take("sign_shred:0"), [(4, vec![]), (5, vec![])]);
    }

    #[test]
    fn rserve_gets_pings_and_nothing_else() {
        let config = config();
        let node = config.key.public_key();
        let inputs = ["shred_sign:0", "rserve_sign"];
        let mut rig = Rig::<Sign>::new(config, &inputs, &["sign_shred:0", "sign_rserve"]);
        let request = [&9u32.to_le_bytes()[..], &node, &[1; 60]].concat();
        let pong = [&PONG[..], &[5; 32]].concat();
        // A Merkle root, a repair request, a pong, a token padded by the requester, nothing.
        for refused in [&[1; 32][..], &request, &pong, &ping_token(&[3; 8]), &[]] {
            rig.give("rserve_sign", 1, refused);
        }
        rig.give("rserve_sign", 2, &[3; 8]);
        // Shred cannot get a ping signed either.
        rig.give("shred_sign:0", 3, &[3; 8]);
        rig.run();
        let (signed, refused) = answers(&mut rig, "sign_rserve");
        assert_eq!(signed.len(), 1);
        let (tag, signature) = &signed[0];
        assert_eq!(*tag, 2);
        assert_eq!(refused, [1; 5]);
        assert!(verify_strict(&node, signature.as_slice().try_into().unwrap(), &ping_token(&[3; 8])).is_ok());
        assert_eq!(rig.count().signed_pings, 1);
        assert_eq!(rig.count().refused, 6);
        assert_eq!(rig.take("sign_shred:0"), [(3, vec![])]);
    }

    /// A request of some role: the requester, the control word, the bytes sent, and the bytes signed.
    struct Form {
        name: &'static str,
        owner: &'static str,
        control: u16,
        bytes: Vec<u8>,
        signed: Vec<u8>,
    }

    /// Lists every form that some role may have signed, for this node.
    fn forms(node: &Pubkey) -> Vec<Form> {
        use hearth_wire::gossip::{CrdsData, LowestSlot};
        use hearth_wire::vote::{Lockout, TowerSync, VotedBlock};
        let form = |name, owner, control, bytes: &[u8], signed: &[u8]| Form {
            name,
            owner,
            control,
            bytes: bytes.to_vec(),
            signed: signed.to_vec(),
        };
        let votes = [Lockout { slot: 9, confirmation_count: 1 }];
        let sync = TowerSync { votes: &votes, root: None, timestamp: None, is_switch: false };
        let block = VotedBlock { slot: 9, bank_hash: [1; 32], block_id: [2; 32], blockhash: [3; 32] };
        let vote = sync.message_by(node, node, &ACCOUNT, &block).bytes().to_vec();
        let request = [&9u32.to_le_bytes()[..], node, &[1; 60]].concat();
        let mut value = vec![];
        CrdsData::LowestSlot(LowestSlot { from: *node, lowest: 9, wallclock: 5 }).write(&mut value);
        let prune = gossip::tests::prune(*node, 2);
        let (ping, pinged) = (ping_token(&[5; PING_NONCE]), ping_token(&[6; PING_NONCE]));
        let mut handshake = [b' '; 130];
        handshake[64..97].copy_from_slice(b"TLS 1.3, client CertificateVerify");
        handshake[97] = 0;
        vec![
            form("a Merkle root", "shred_sign:0", 0, &[1; 32], &[1; 32]),
            form("a vote", TOWER_SIGN, 0, &vote, &vote),
            form("a repair request", REPAIR_SIGN, 0, &request, &request),
            form("repair's pong", REPAIR_SIGN, 0, &[&PONG[..], &[5; 32]].concat(), &pong_hash(&[5; 32])),
            form("a value", GOSSIP_SIGN, SignKind::Value as u16, &value, &value),
            form("a prune", GOSSIP_SIGN, SignKind::Prune as u16, &prune, &prune),
            form("gossip's ping", GOSSIP_SIGN, SignKind::Ping as u16, &ping, &ping),
            form("gossip's pong", GOSSIP_SIGN, SignKind::Pong as u16, &pinged, &pong_hash(&pinged)),
            form("rserve's ping", RSERVE_SIGN, 0, &[3; PING_NONCE], &ping_token(&[3; PING_NONCE])),
            form("a handshake", TXSEND_SIGN, 0, &handshake, &handshake),
        ]
    }

    #[test]
    fn each_form_is_signed_for_its_role_alone() {
        const LINKS: [(&str, &str); 6] = [
            ("shred_sign:0", "sign_shred:0"),
            (TOWER_SIGN, SIGN_TOWER),
            (REPAIR_SIGN, SIGN_REPAIR),
            (GOSSIP_SIGN, SIGN_GOSSIP),
            (RSERVE_SIGN, SIGN_RSERVE),
            (TXSEND_SIGN, SIGN_TXSEND),
        ];
        let kinds = [SignKind::Value, SignKind::Prune, SignKind::Ping, SignKind::Pong].map(|kind| kind as u16);
        let config = Config { vote_account: Some(ACCOUNT), ..config() };
        let node = config.key.public_key();
        let mut rig = Rig::<Sign>::new(config, &LINKS.map(|(asks, _)| asks), &LINKS.map(|(_, answers)| answers));
        for Form { name, owner, control, bytes, signed } in forms(&node) {
            let own = [control];
            for (asks, answers) in LINKS {
                // Gossip's requests are tried as each of its kinds.
                let controls = if asks == GOSSIP_SIGN && owner != asks { &kinds[..] } else { &own[..] };
                for control in controls {
                    rig.give_control(asks, 1, *control, &bytes);
                    rig.run();
                    let answer = rig.take(answers).pop().expect("each request has an answer").1;
                    let signature: Option<[u8; 64]> = answer.try_into().ok();
                    let is_signed = signature.is_some_and(|it| verify_strict(&node, &it, &signed).is_ok());
                    assert_eq!(is_signed, asks == owner, "{name} by {asks}, {control}");
                    // Any 32 bytes may be the token of a ping: a pong signs their hash with a domain prefix.
                    let is_token = asks == GOSSIP_SIGN && *control == SignKind::Pong as u16 && bytes.len() == 32;
                    assert!(asks == owner || signature.is_none() || is_token, "{name} is refused to {asks}, {control}");
                }
            }
        }
    }

    #[test]
    fn each_asker_is_answered_on_its_own_link() {
        let config = config();
        let public = config.key.public_key();
        let mut rig = Rig::<Sign>::new(config, &["shred_sign:0", "shred_sign:1"], &["sign_shred:0", "sign_shred:1"]);
        for number in 0..20u8 {
            let asker = if number % 3 == 0 { "shred_sign:1" } else { "shred_sign:0" };
            rig.give(asker, number.into(), &[number + 1; 32]);
        }
        rig.run();
        for (link, wanted) in [("sign_shred:0", [1, 2].as_slice()), ("sign_shred:1", &[0])] {
            let answers = rig.take(link);
            let expected: Vec<u64> = (0..20).filter(|n| wanted.contains(&(n % 3))).collect();
            assert_eq!(answers.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), expected, "in the order asked");
            for (tag, signature) in &answers {
                let signature = signature.as_slice().try_into().unwrap();
                assert!(verify_strict(&public, signature, &[*tag as u8 + 1; 32]).is_ok());
            }
        }
    }

    #[test]
    fn every_request_has_one_answer_in_order() {
        let mut rig = Rig::<Sign>::new(config(), &["shred_sign:0", "gossip_sign"], &["sign_shred:0", "sign_gossip"]);
        for tag in 0..40u64 {
            // Every third one is refused.
            let size = if tag % 3 == 0 { 31 } else { 32 };
            rig.give("shred_sign:0", tag, &vec![1; size]);
            rig.give_control("gossip_sign", tag, SignKind::Pong as u16, &vec![6; size]);
        }
        rig.run();
        for link in ["sign_shred:0", "sign_gossip"] {
            let sizes: Vec<(u64, usize)> = rig.take(link).iter().map(|(tag, answer)| (*tag, answer.len())).collect();
            let expected = (0..40).map(|tag| (tag, if tag % 3 == 0 { 0 } else { 64 }));
            assert_eq!(sizes, expected.collect::<Vec<_>>(), "{link}");
        }
        assert_eq!(rig.count().refused, 28);
    }

    #[test]
    fn a_link_of_another_role_is_refused() {
        let mut rig = Rig::<Sign>::new(config(), &["rpc_sign:0"], &["sign_shred:0"]);
        rig.give("rpc_sign:0", 1, &[1; 32]);
        rig.run();
        assert_eq!(rig.take("sign_shred:0"), []);
        assert_eq!((rig.count().signed_shred, rig.count().refused), (0, 1));
    }

    #[test]
    fn no_request_is_lost_while_answers_wait() {
        let mut rig = Rig::<Sign>::new(config(), &["shred_sign:0"], &["sign_shred:0"]);
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
