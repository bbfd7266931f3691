//! Leaves parity shreds out of a session, and makes them again.
//!
//! reads   the events of a session
//! writes  the same, with parity left out or back at its place
//! memory  a session, and 38 KiB for each set whose parity is made
//! drops   nothing: parity that the data shreds of its set do not give, byte for byte, stays
//! source  [`remake_parity`]
//!
//! Half of all shreds are parity. The data shreds of a set give all of it, its Merkle proofs and the leader's signature
//! too. What a retransmitter adds behind the proof is kept.

use std::collections::BTreeMap;

use hearth_pipeline::capture::{CapturedPacket, PacketSource};
use hearth_pipeline::shred::remake_parity;
use hearth_wire::repair::Answer;
use hearth_wire::shred::{DATA_PER_SET, Shred, ShredKind};

use super::format::{FormatError, LeftOutParity, SessionEvent};

/// A set: its slot, and the index of its first data shred.
type SetKey = (u64, u32);

/// The data shreds of each set, and the parity that was made of them.
struct ParitySource<'a> {
    data: BTreeMap<SetKey, [Option<&'a [u8]>; DATA_PER_SET]>,
    /// The parity of a set, by position; empty if its data shreds do not give it.
    made: BTreeMap<SetKey, Vec<Vec<u8>>>,
}

impl<'a> ParitySource<'a> {
    fn of(events: &'a [SessionEvent]) -> Self {
        let mut data: BTreeMap<SetKey, [Option<&[u8]>; DATA_PER_SET]> = BTreeMap::new();
        for event in events {
            let SessionEvent::Packet(packet) = event else { continue };
            let Some(shred) = shred_of(packet).filter(|shred| shred.variant().kind == ShredKind::Data) else {
                continue;
            };
            let set = data.entry((shred.slot(), shred.set_index())).or_default();
            if let Some(place) = set.get_mut(shred.shard_index()) {
                place.get_or_insert(shred.bytes());
            }
        }
        Self { data, made: BTreeMap::new() }
    }

    /// A parity shred of a set; `None` if the data shreds of the set do not give it.
    fn parity(&mut self, key: SetKey, position: usize) -> Option<&[u8]> {
        let Self { data, made } = self;
        let made = made.entry(key).or_insert_with(|| {
            let whole = data.get(&key).and_then(|set| {
                let shreds: Vec<&[u8]> = set.iter().copied().collect::<Option<_>>()?;
                <[&[u8]; DATA_PER_SET]>::try_from(shreds).ok()
            });
            let set = whole.and_then(|shreds| remake_parity(&shreds));
            set.map_or_else(Vec::new, |set| set.shreds().skip(DATA_PER_SET).map(<[u8]>::to_vec).collect())
        });
        made.get(position).map(Vec::as_slice)
    }
}

/// The shred that a packet holds, if it was received.
fn shred_of(packet: &CapturedPacket) -> Option<Shred<'_>> {
    let bytes = match packet.source {
        PacketSource::Turbine => &packet.data[..],
        PacketSource::Repair => match Answer::parse(&packet.data) {
            Some(Answer::Shred(bytes, _)) => bytes,
            _ => return None,
        },
        _ => return None,
    };
    Shred::parse(bytes).ok()
}

/// Leaves out the parity that [`restore`] will make again.
pub fn leave_out(events: &[SessionEvent]) -> Vec<SessionEvent> {
    let mut source = ParitySource::of(events);
    let mut left_out = |event: &SessionEvent| match event {
        SessionEvent::Packet(packet) => without_parity(&mut source, packet).map(SessionEvent::Parity),
        SessionEvent::Parity(_) | SessionEvent::Rooted { .. } => None,
    };
    events.iter().map(|event| left_out(event).unwrap_or_else(|| event.clone())).collect()
}

/// A packet in short, if it is parity that can be made again.
fn without_parity(source: &mut ParitySource<'_>, packet: &CapturedPacket) -> Option<LeftOutParity> {
    let shred = shred_of(packet).filter(|shred| shred.variant().kind == ShredKind::Code)?;
    let slot = shred.slot();
    let set_index = shred.set_index();
    let position = shred.shard_index().checked_sub(DATA_PER_SET)?;
    let end = shred.variant().proof().end;
    let made = source.parity((slot, set_index), position)?;
    if made.get(..end) != packet.data.get(..end) {
        return None;
    }
    Some(LeftOutParity {
        at_ns: packet.at_ns,
        source: packet.source,
        from: packet.from,
        slot,
        set_index,
        position: position as u8,
        rest: packet.data[end..].to_vec(),
    })
}

/// Makes the parity again that was left out.
///
/// # Errors
/// The session does not have the data shreds of its set.
pub fn restore(events: &[SessionEvent]) -> Result<Vec<SessionEvent>, FormatError> {
    let mut source = ParitySource::of(events);
    let restored = events.iter().map(|event| match event {
        SessionEvent::Parity(parity) => {
            let LeftOutParity { slot, set_index, .. } = *parity;
            let packet = with_parity(&mut source, parity);
            packet.map(SessionEvent::Packet).ok_or(FormatError::Parity { slot, set_index })
        }
        other => Ok(other.clone()),
    });
    restored.collect()
}

fn with_parity(source: &mut ParitySource<'_>, parity: &LeftOutParity) -> Option<CapturedPacket> {
    let made = source.parity((parity.slot, parity.set_index), usize::from(parity.position))?;
    let head = &made[..made.len().checked_sub(parity.rest.len())?];
    let LeftOutParity { at_ns, source, from, .. } = *parity;
    Some(CapturedPacket { at_ns, source, from, data: [head, &parity.rest[..]].concat() })
}
