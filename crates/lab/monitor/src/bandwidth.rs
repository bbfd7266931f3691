//! Traffic by peer: the largest ones, and the sum of all others.
//!
//! reads   the increase of the tiles' peer tables between two looks
//! writes  [`Bandwidth`], and a line about it
//! memory  [`SHOWN`] rows

use hearth_tile::bandwidth::{Bytes, Tally};
use serde::Serialize;

use crate::numbers::scaled;

/// Peers with a row of their own.
const SHOWN: usize = 16;
/// Peers that the line names.
const NAMED: usize = 3;

/// Received and sent traffic, in bits of datagrams without IP and UDP headers. The rows and the others add up to the
/// total.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bandwidth {
    /// From all peers, per second.
    pub received_bits_per_s: f64,
    /// To all peers, per second.
    pub sent_bits_per_s: f64,
    /// Peers with any traffic, the largest first.
    pub peers: Vec<PeerSample>,
    /// The sum of all peers without a row.
    pub others: PeerSample,
}

/// Traffic with one peer, as bits of UDP payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeerSample {
    /// IP address of the peer; on loopback with its port.
    pub peer: String,
    /// From this peer, per second.
    pub received_bits_per_s: f64,
    /// To this peer, per second.
    pub sent_bits_per_s: f64,
}

impl PeerSample {
    fn of(peer: String, bytes: Bytes, seconds: f64) -> Self {
        let rate = |bytes: u64| 8.0 * bytes as f64 / seconds;
        Self { peer, received_bits_per_s: rate(bytes.received), sent_bits_per_s: rate(bytes.sent) }
    }
}

impl Bandwidth {
    /// Computes the traffic from a tally's increase over this many seconds.
    pub(crate) fn of(gained: &Tally, seconds: f64) -> Self {
        let total = PeerSample::of(String::new(), gained.total(), seconds);
        let mut peers: Vec<(String, Bytes)> = gained
            .peers
            .iter()
            .filter(|(_, bytes)| **bytes != Bytes::default())
            .map(|(peer, bytes)| (peer.to_string(), *bytes))
            .collect();
        peers.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.received + bytes.sent));
        let unnamed = peers.split_off(peers.len().min(SHOWN));
        let others = unnamed.iter().fold(gained.others, |sum, (_, bytes)| sum.plus(*bytes));
        Self {
            received_bits_per_s: total.received_bits_per_s,
            sent_bits_per_s: total.sent_bits_per_s,
            peers: peers.into_iter().map(|(peer, bytes)| PeerSample::of(peer, bytes, seconds)).collect(),
            others: PeerSample::of("others".into(), others, seconds),
        }
    }

    /// Describes the traffic and its largest peers; empty if there was none.
    pub(crate) fn line(&self) -> String {
        let Self { received_bits_per_s: received, sent_bits_per_s: sent, peers, others } = self;
        if received + sent <= 0.0 {
            return String::new();
        }
        let share = |of: &PeerSample| 100.0 * (of.received_bits_per_s + of.sent_bits_per_s) / (received + sent);
        let named = peers.iter().take(NAMED).map(|peer| (peer.peer.clone(), share(peer)));
        let rest: f64 = peers.iter().skip(NAMED).chain([others]).map(share).sum();
        let rest = (rest >= 0.5).then(|| ("others".into(), rest));
        let shares: Vec<String> = named.chain(rest).map(|(peer, share)| format!("{peer} {share:.0} %")).collect();
        format!("in {}bps, out {}bps: {}\n", spaced(*received), spaced(*sent), shares.join(", "))
    }
}

/// Formats bits as `12.3 M` rather than `12.3M`, for a unit behind it.
fn spaced(bits: f64) -> String {
    let mut text = scaled(bits);
    let at = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    text.insert(at, ' ');
    text
}

#[cfg(test)]
mod tests {
    use hearth_tile::bandwidth::Peer;

    use super::*;

    fn tally(peers: usize, others: u64) -> Tally {
        let of = |n: usize| {
            let peer = Peer::at(format!("192.0.2.{n}:8001").parse().unwrap());
            (peer, Bytes { received: 1_000 * n as u64, sent: 10 * n as u64 })
        };
        Tally { peers: (0..peers).map(of).collect(), others: Bytes { received: others, sent: 0 } }
    }

    #[test]
    fn rows_and_others_add_up_to_all() {
        let all = Bandwidth::of(&tally(30, 500), 2.0);
        assert_eq!(all.peers.len(), SHOWN);
        let first = PeerSample { peer: "192.0.2.29".into(), received_bits_per_s: 116_000.0, sent_bits_per_s: 1_160.0 };
        assert_eq!(all.peers[0], first);
        let rows = || all.peers.iter().chain([&all.others]);
        assert_eq!(rows().map(|row| row.received_bits_per_s).sum::<f64>(), all.received_bits_per_s);
        assert_eq!(rows().map(|row| row.sent_bits_per_s).sum::<f64>(), all.sent_bits_per_s);
        assert_eq!(all.received_bits_per_s, 4.0 * (435_000.0 + 500.0));
        // A peer without traffic has no row.
        assert_eq!(Bandwidth::of(&tally(3, 0), 1.0).peers.len(), 2);
    }

    #[test]
    fn the_line_names_those_with_most() {
        let line = |peers, others| Bandwidth::of(&tally(peers, others), 1.0).line();
        assert_eq!(line(0, 0), "");
        assert_eq!(line(3, 0), "in 24.0 Kbps, out 240 bps: 192.0.2.2 67 %, 192.0.2.1 33 %\n");
        let many = line(20, 1_000);
        assert!(many.ends_with("192.0.2.19 10 %, 192.0.2.18 9 %, 192.0.2.17 9 %, others 72 %\n"), "{many}");
    }
}
