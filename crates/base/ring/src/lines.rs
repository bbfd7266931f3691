//! lines: the cache lines by which the ends of a link inform each other and observers. Every line has one writer.

use crate::sync::AtomicU64;

/// The words that a producer publishes for observers.
#[repr(C, align(128))]
pub(crate) struct ProducerLines {
    /// Next sequence number, written from time to time; the ring provides the rest.
    pub(crate) seq: AtomicU64,
    _pad: [AtomicU64; 15],
}

/// The words that a consumer and its producer publish for each other and observers; each writes its own lines.
#[repr(C, align(128))]
pub(crate) struct ConsumerLines {
    /// All frags below this are consumed. The consumer writes this line.
    pub(crate) progress: AtomicU64,
    /// Frags lost because they were overtaken before their metadata was read.
    pub(crate) overrun_poll: AtomicU64,
    /// Frags lost because they were overtaken while their payload was read.
    pub(crate) overrun_read: AtomicU64,
    /// Frags that the consumer skipped unread.
    pub(crate) filtered: AtomicU64,
    /// Payload bytes that the consumer read.
    pub(crate) bytes: AtomicU64,
    _pad: [AtomicU64; 11],
    /// How often the producer lacked credits because of this consumer. The producer writes this line.
    pub(crate) slow: AtomicU64,
    _pad_slow: [AtomicU64; 15],
}

const _: () = assert!(size_of::<ProducerLines>() as u64 == crate::plan::PRODUCER_LINES);
const _: () = assert!(size_of::<ConsumerLines>() as u64 == crate::plan::CONSUMER_LINES);
