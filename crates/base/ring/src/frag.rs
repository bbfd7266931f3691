//! frag: the 32 bytes of metadata of every frag, and their encoding in four words.

/// Metadata of one frag, as a consumer sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FragMeta {
    /// Sequence number on its link, from 0.
    pub seq: u64,
    /// Defined by the link's producer, usually a hash to filter by.
    pub tag: u64,
    /// Where the payload starts, in chunks of 64 bytes from the start of the link's payload region.
    pub chunk: u32,
    /// Bytes of payload, at most the link's `mtu`.
    pub size: u16,
    /// Flags defined by the link's two ends.
    pub control: u16,
    /// When the original cause of this frag entered the node, in microseconds modulo 2³²; 0 if it has none.
    pub origin_us: u32,
    /// When this frag was published, in nanoseconds modulo 2³².
    pub publish_ns: u32,
}

const _: () = assert!(size_of::<FragMeta>() == 32);

impl FragMeta {
    /// Encodes the metadata as the four words of a ring entry.
    #[inline(always)]
    pub(crate) fn to_words(self) -> [u64; 4] {
        let place = u64::from(self.chunk) | u64::from(self.size) << 32 | u64::from(self.control) << 48;
        let times = u64::from(self.origin_us) | u64::from(self.publish_ns) << 32;
        [self.seq, self.tag, place, times]
    }

    /// The inverse of [`FragMeta::to_words`].
    #[inline(always)]
    pub(crate) fn from_words([seq, tag, place, times]: [u64; 4]) -> Self {
        Self {
            seq,
            tag,
            chunk: place as u32,
            size: (place >> 32) as u16,
            control: (place >> 48) as u16,
            origin_us: times as u32,
            publish_ns: (times >> 32) as u32,
        }
    }
}
