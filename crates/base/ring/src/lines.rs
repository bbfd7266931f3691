//! The cache lines through which the two ends of a link, and observers, learn of each other. Every line has one writer.

use crate::sync::AtomicU64;

/// What a producer tells observers.
#[repr(C, align(128))]
pub(crate) struct ProducerLines {
    /// Next sequence number, written now and then; the ring tells the rest.
    pub(crate) seq: AtomicU64,
    _pad: [AtomicU64; 15],
}

/// What a consumer and its producer tell each other and observers; each writes lines of its own.
#[repr(C, align(128))]
pub(crate) struct ConsumerLines {
    /// All frags below this are consumed. This line is written by the consumer.
    pub(crate) progress: AtomicU64,
    /// Frags lost because they were overtaken before their metadata was read.
    pub(crate) overrun_poll: AtomicU64,
    /// Frags lost because they were overtaken while their payload was read.
    pub(crate) overrun_read: AtomicU64,
    /// Frags that the consumer skipped unread.
    pub(crate) filtered: AtomicU64,
    /// Payload bytes read.
    pub(crate) bytes: AtomicU64,
    _pad: [AtomicU64; 11],
    /// How often the producer was short of credits because of this consumer. Written by the producer.
    pub(crate) slow: AtomicU64,
    _pad_slow: [AtomicU64; 15],
}

const _: () = assert!(size_of::<ProducerLines>() as u64 == crate::plan::PRODUCER_LINES);
const _: () = assert!(size_of::<ConsumerLines>() as u64 == crate::plan::CONSUMER_LINES);
