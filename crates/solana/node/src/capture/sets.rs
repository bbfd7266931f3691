//! Stores whole FEC sets in short, and makes their shreds again.
//!
//! reads   the events of a session
//! writes  the same, with each whole set stored once and a short record for each of its packets; or back
//! memory  a session, and 78 KiB for each set whose shreds are made
//! drops   nothing: the packets of a set stay as they are, unless each of them is made again byte for byte
//! source  [`FecSet`]
//!
//! A leader makes the 64 shreds of a set from a header, entry bytes, the root of the previous set and its signature.
//! So these give all shreds again: zeros that fill them up, parity, Merkle proofs. A packet of the set keeps its time,
//! its sender, and what follows the proof: the retransmitter's signature, and the nonce of a response to repair.

use std::collections::BTreeMap;

use hearth_pipeline::capture::{CapturedPacket, PacketSource};
use hearth_pipeline::shred::{FecSet, SetHeader};
use hearth_wire::repair::Answer;
use hearth_wire::shred::{DATA_PER_SET, FLAG_TICK_MASK, Fields, Shred, ShredKind, Variant};

use super::format::{self, FormatError, Session, SessionEvent, ShredSet, StoredEvent, StoredShred};

/// A set: its slot, and the index of its first data shred.
type SetKey = (u64, u32);

impl ShredSet {
    /// The set of these shreds; `None` unless all its data shreds are among them and it gives each shred again.
    fn of(shreds: &[Shred<'_>]) -> Option<Self> {
        let mut data: [Option<&Shred<'_>>; DATA_PER_SET] = [None; DATA_PER_SET];
        for shred in shreds.iter().filter(|shred| shred.variant().kind == ShredKind::Data) {
            if let Some(place) = data.get_mut(shred.shard_index()) {
                place.get_or_insert(shred);
            }
        }
        let data: Vec<&Shred<'_>> = data.into_iter().collect::<Option<_>>()?;
        let first = data.first()?;
        let last = data.last()?;
        let Fields::Data(fields) = first.fields() else { return None };
        let set = Self {
            header: SetHeader {
                slot: first.slot(),
                parent_offset: fields.parent_offset,
                version: first.version(),
                set_index: first.set_index(),
                reference_tick: fields.flags & FLAG_TICK_MASK,
                ends_batch: last.ends_batch(),
                ends_slot: last.ends_slot(),
                resigned: first.variant().resigned,
            },
            chained_root: first.chained_root(),
            signature: first.signature(),
            entry_bytes: data.iter().filter_map(|shred| shred.entry_bytes()).flatten().copied().collect(),
        };
        let made = set.remake()?;
        let is_made = |shred: &Shred<'_>| {
            made.get(shred.shard_index()).is_some_and(|made| shred.bytes().get(..made.len()) == Some(&made[..]))
        };
        shreds.iter().all(is_made).then_some(set)
    }

    /// All shreds of the set, data first, each up to the end of its Merkle proof. `None` if no leader makes such a set.
    fn remake(&self) -> Option<Vec<Vec<u8>>> {
        let Self { header, chained_root, signature, entry_bytes } = self;
        header.set_index.checked_add(DATA_PER_SET as u32)?;
        if entry_bytes.len() > header.capacity() {
            return None;
        }
        let mut set = FecSet::new();
        set.prepare(*header, entry_bytes);
        set.chain(chained_root);
        set.sign(signature);
        let end = |kind| Variant::of_full_set(kind, header.resigned).proof().end;
        let ends = [end(ShredKind::Data), end(ShredKind::Code)];
        let shreds = set.shreds().enumerate();
        Some(shreds.map(|(place, shred)| shred[..ends[place / DATA_PER_SET]].to_vec()).collect())
    }

    fn key(&self) -> SetKey {
        (self.header.slot, self.header.set_index)
    }
}

/// The shred that a packet holds.
fn shred_of(packet: &CapturedPacket) -> Option<Shred<'_>> {
    let bytes = match packet.source {
        PacketSource::Turbine | PacketSource::Own => &packet.data[..],
        PacketSource::Repair => match Answer::parse(&packet.data) {
            Some(Answer::Shred(bytes, _)) => bytes,
            _ => return None,
        },
        PacketSource::Request | PacketSource::Gossip | PacketSource::Transaction => return None,
    };
    Shred::parse(bytes).ok()
}

/// The sets that give all their packets again.
fn whole_sets(events: &[SessionEvent]) -> BTreeMap<SetKey, ShredSet> {
    let mut received: BTreeMap<SetKey, Vec<Shred<'_>>> = BTreeMap::new();
    for event in events {
        let SessionEvent::Packet(packet) = event else { continue };
        if let Some(shred) = shred_of(packet) {
            received.entry((shred.slot(), shred.set_index())).or_default().push(shred);
        }
    }
    received.values().filter_map(|shreds| ShredSet::of(shreds)).map(|set| (set.key(), set)).collect()
}

/// Stores in short what [`restore`] will make again. Each set precedes its packets; their order is the same.
pub fn shorten(events: Vec<SessionEvent>) -> Vec<StoredEvent> {
    let mut sets = whole_sets(&events);
    let mut numbers: BTreeMap<SetKey, u32> = BTreeMap::new();
    let mut stored = Vec::with_capacity(events.len() + sets.len());
    for event in events {
        let place = match &event {
            SessionEvent::Packet(packet) => shred_of(packet).map(|shred| {
                let key = (shred.slot(), shred.set_index());
                (key, shred.shard_index() as u8, shred.variant().proof().end)
            }),
            SessionEvent::Rooted { .. } => None,
        };
        if let Some((key, _, _)) = place
            && let Some(set) = sets.remove(&key)
        {
            numbers.insert(key, numbers.len() as u32);
            stored.push(StoredEvent::Set(set));
        }
        let number = place.and_then(|(key, place, end)| Some((*numbers.get(&key)?, place, end)));
        stored.push(match (event, number) {
            (SessionEvent::Packet(packet), Some((set, place, end))) => {
                let CapturedPacket { at_ns, source, from, data } = packet;
                StoredEvent::Shred(StoredShred { at_ns, source, from, set, place, rest: data[end..].to_vec() })
            }
            (event, _) => StoredEvent::Event(event),
        });
    }
    stored
}

/// Makes the packets again that were stored in short.
///
/// # Errors
/// A set is none, or a packet is of a set that does not precede it.
pub fn restore(stored: Vec<StoredEvent>) -> Result<Vec<SessionEvent>, FormatError> {
    let mut sets: Vec<Vec<Vec<u8>>> = vec![];
    let mut events = Vec::with_capacity(stored.len());
    for stored in stored {
        match stored {
            StoredEvent::Event(event) => events.push(event),
            StoredEvent::Set(set) => {
                let (slot, set_index) = set.key();
                sets.push(set.remake().ok_or(FormatError::Set { slot, set_index })?);
            }
            StoredEvent::Shred(StoredShred { at_ns, source, from, set, place, rest }) => {
                let made = sets.get(set as usize).and_then(|shreds| shreds.get(usize::from(place)));
                let made = made.ok_or(FormatError::NoSet(set))?;
                let data = [&made[..], &rest[..]].concat();
                events.push(SessionEvent::Packet(CapturedPacket { at_ns, source, from, data }));
            }
        }
    }
    Ok(events)
}

/// Reads a session, with all its packets.
///
/// # Errors
/// The bytes are not a whole session: why, and where.
pub fn read(bytes: &[u8]) -> Result<Session, FormatError> {
    let Session { header, events, end_ns, dropped } = format::read(bytes)?;
    Ok(Session { header, events: restore(events)?, end_ns, dropped })
}
