//! runs: shreds on their way to net, gathered by destination: those for one address travel together.
//!
//! reads   shreds, and the addresses to which each goes
//! writes  `shred_net`: messages of shreds of equal size
//! memory  the bytes of at most [`HELD_MAX`] shreds; 8 B for each of them and destination
//! drops   shreds for which net has no room: the caller counts them
//!
//! The root of a shred's tree sends it to all others of the tree's first layer, and a burst of datagrams brings several
//! shreds of which this node is the root. In a message of its own each shred would be for each child a frag, a delay on
//! an emulated link, a datagram that the kernel carries alone and a wake-up of the child. A run of equal sizes is one
//! of each. The runs for one address, of data and of parity, follow each other: an emulated link carries them as a
//! train.

use std::collections::HashMap;
use std::net::SocketAddr;

use hearth_tile::{Out, Port, Tile};

use crate::links::{OUTGOING_MTU, Outgoing, PortKind};

/// Shreds that are held at most: those of a set.
const HELD_MAX: usize = 64;

/// How many shreds were sent, and for how many net had no room; each destination counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SendCounts {
    pub sent: u64,
    pub dropped: u64,
}

/// Sends shreds of equal size to one address, as many in a message as it holds.
pub(super) fn send_run(net: Port, to: SocketAddr, shreds: &[&[u8]], out: &mut Out<'_, impl Tile>) -> SendCounts {
    let mut all = SendCounts::default();
    let size = shreds.first().map_or(1, |shred| shred.len());
    for part in shreds.chunks((OUTGOING_MTU - Outgoing::HEADER) / size) {
        if out.credits(net, 1) == 0 {
            all.dropped += part.len() as u64;
            continue;
        }
        out.publish_with(net, 0, |buffer| {
            let data = &mut buffer[Outgoing::HEADER..][..part.len() * size];
            data.chunks_exact_mut(size).zip(part).for_each(|(place, shred)| place.copy_from_slice(shred));
            Outgoing::write_header(buffer, (to, PortKind::Tvu), size as u16, part.len() * size)
        });
        all.sent += part.len() as u64;
    }
    all
}

/// The shreds that are held for one address.
struct Destination {
    to: SocketAddr,
    /// A run for each size: the size, and where each shred begins in the bytes.
    runs: Vec<(usize, Vec<usize>)>,
}

/// Holds shreds until they are sent, in the order in which their destinations were first named.
#[derive(Default)]
pub(super) struct Runs {
    bytes: Vec<u8>,
    count: usize,
    destinations: Vec<Destination>,
    /// The place of an address in `destinations`.
    places: HashMap<SocketAddr, usize>,
}

impl Runs {
    /// Holds a shred for these destinations.
    pub fn hold(&mut self, shred: &[u8], to: impl Iterator<Item = SocketAddr>) {
        let Self { bytes, count, destinations, places } = self;
        let (start, size) = (bytes.len(), shred.len());
        let mut is_wanted = false;
        for to in to {
            let place = *places.entry(to).or_insert(destinations.len());
            if place == destinations.len() {
                destinations.push(Destination { to, runs: vec![] });
            }
            let runs = &mut destinations[place].runs;
            match runs.iter().position(|(of, _)| *of == size) {
                Some(at) => runs[at].1.push(start),
                None => runs.push((size, vec![start])),
            }
            is_wanted = true;
        }
        if is_wanted {
            bytes.extend_from_slice(shred);
            *count += 1;
        }
    }

    /// Whether to send what is held now, even if more may come.
    pub fn is_full(&self) -> bool {
        self.count >= HELD_MAX
    }

    /// Sends all that is held, as far as net has room, and drops the rest.
    pub fn send(&mut self, net: Port, out: &mut Out<'_, impl Tile>) -> SendCounts {
        let mut all = SendCounts::default();
        for Destination { to, runs } in self.destinations.drain(..) {
            for (size, starts) in runs {
                let shreds: Vec<&[u8]> = starts.iter().map(|start| &self.bytes[*start..start + size]).collect();
                let SendCounts { sent, dropped } = send_run(net, to, &shreds, out);
                all.sent += sent;
                all.dropped += dropped;
            }
        }
        self.places.clear();
        self.bytes.clear();
        self.count = 0;
        all
    }
}

#[cfg(test)]
mod tests {
    use hearth_tile::rig::{DEPTH, Rig};
    use hearth_tile::{Frag, Host, InitError};

    use super::*;

    /// A tile that holds what the test gives it, and sends it at the end of a burst.
    struct Sender {
        runs: Runs,
        net: Port,
        all: SendCounts,
    }

    impl Tile for Sender {
        const NAME: &'static str = "sender";
        type Config = ();
        type Counters = ();

        fn new(_: (), host: &mut Host<'_>) -> Result<Self, InitError> {
            let net = host.output("sender_net")?;
            host.elective(net);
            Ok(Self { runs: Runs::default(), net, all: SendCounts::default() })
        }

        /// The tag says to how many addresses the payload goes.
        fn on_frag(&mut self, frag: Frag<'_>, _: &mut Out<'_, Self>) {
            self.runs.hold(frag.payload(), (0..frag.tag()).map(|to| address(to as u16)));
        }

        fn end_burst(&mut self, out: &mut Out<'_, Self>) {
            self.all = self.runs.send(self.net, out);
        }
    }

    fn address(number: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1 + number))
    }

    fn rig() -> Rig<Sender> {
        Rig::new((), &["in_sender"], &["sender_net"])
    }

    /// The messages that were sent: address, size of each shred, and the first byte of each.
    fn messages(rig: &mut Rig<Sender>) -> Vec<(SocketAddr, u16, Vec<u8>)> {
        let read = |(_, message): (u64, Vec<u8>)| {
            assert!(message.len() <= OUTGOING_MTU);
            let Outgoing { to, port, segment, data } = Outgoing::read(&message);
            assert_eq!((port, data.len() % usize::from(segment)), (PortKind::Tvu, 0));
            (to, segment, data.chunks(segment.into()).map(|shred| shred[0]).collect())
        };
        rig.take("sender_net").into_iter().map(read).collect()
    }

    #[test]
    fn shreds_of_one_size_for_one_address_share_a_message() {
        let mut rig = rig();
        for (mark, size, children) in [(1, 1_203, 2), (2, 1_228, 1), (3, 1_203, 0), (4, 1_203, 3), (5, 1_228, 2)] {
            rig.give("in_sender", children, &vec![mark; size]);
        }
        rig.run();
        let [first, second, third] = [0, 1, 2].map(address);
        let expected = [
            (first, 1_203, vec![1, 4]),
            (first, 1_228, vec![2, 5]),
            (second, 1_203, vec![1, 4]),
            (second, 1_228, vec![5]),
            (third, 1_203, vec![4]),
        ];
        assert_eq!(messages(&mut rig), expected);
        assert_eq!(rig.tile().all, SendCounts { sent: 8, dropped: 0 });
        rig.give("in_sender", 1, &[9; 1_203]);
        rig.run();
        assert_eq!(messages(&mut rig), [(first, 1_203, vec![9])], "nothing is sent twice");
    }

    #[test]
    fn a_message_holds_as_many_as_fit() {
        let mut rig = rig();
        (0..17).for_each(|mark| rig.give("in_sender", 1, &[mark; 1_228]));
        rig.run();
        let marks: Vec<Vec<u8>> = messages(&mut rig).into_iter().map(|(_, _, marks)| marks).collect();
        assert_eq!(marks, [(0..7).collect::<Vec<u8>>(), (7..14).collect(), (14..17).collect()]);
    }

    #[test]
    fn excess_is_dropped_and_counted() {
        let mut rig = rig();
        let children = u64::from(DEPTH) + 10;
        (0..3).for_each(|mark| rig.give("in_sender", children, &[mark; 1_203]));
        rig.run();
        assert_eq!(rig.tile().all, SendCounts { sent: 3 * u64::from(DEPTH), dropped: 30 });
        assert_eq!(messages(&mut rig).len(), DEPTH as usize);
    }

    #[test]
    fn no_more_than_a_set_is_held() {
        let mut runs = Runs::default();
        (1..HELD_MAX).for_each(|_| runs.hold(&[1; 1_203], [address(1)].into_iter()));
        runs.hold(&[1; 1_203], std::iter::empty());
        assert!(!runs.is_full());
        runs.hold(&[1; 1_203], [address(1)].into_iter());
        assert!(runs.is_full());
    }
}
