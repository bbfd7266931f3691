//! Frames: a message's length as a varint, then the message.
//!
//! memory  only the bytes of a frame that have arrived: a claimed length allocates nothing. The decoded message takes
//!         at most about forty times as much (a repeated message of two bytes)
//! drops   nothing: an invalid frame is an error, after which the connection is closed
//! source  CometBFT's `spec/abci/abci++_client_server.md`; Protobuf's varints

use std::io::{self, BufRead, Read};

use bytes::Bytes;
use prost::Message;

/// A varint of 64 bits has at most ten bytes.
const VARINT_BYTES_MAX: u32 = 10;
/// Initial allocation for a frame, before any of its bytes have arrived.
const FIRST_BYTES: u64 = 64 << 10;

/// Why reading or writing a frame failed.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection failed while a frame was read or written.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// More than 64 bits.
    #[error("the length of a frame is not a varint")]
    Length,
    /// The frame exceeds the limit.
    #[error("a frame of {length} bytes, at most {max} are taken")]
    TooLong {
        /// The claimed length in bytes.
        length: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The connection ended within a frame.
    #[error("the connection ended within a frame")]
    CutOff,
    /// The bytes are no message of this protocol.
    #[error("a frame that is no message: {0}")]
    Message(#[from] prost::DecodeError),
}

/// Reads a frame's bytes; `None` if the connection ended before it.
pub fn read(from: &mut impl BufRead, bytes_max: u64) -> Result<Option<Bytes>, FrameError> {
    let Some(length) = read_length(from)? else { return Ok(None) };
    if length > bytes_max {
        return Err(FrameError::TooLong { length, max: bytes_max });
    }
    let mut frame = Vec::with_capacity(length.min(FIRST_BYTES) as usize);
    from.take(length).read_to_end(&mut frame)?;
    if (frame.len() as u64) < length { Err(FrameError::CutOff) } else { Ok(Some(frame.into())) }
}

/// Reads a message; `None` if the connection ended before it. Its byte strings share the frame's memory.
pub fn read_message<M: Message + Default>(from: &mut impl BufRead, bytes_max: u64) -> Result<Option<M>, FrameError> {
    let Some(frame) = read(from, bytes_max)? else { return Ok(None) };
    Ok(Some(M::decode(frame)?))
}

fn read_length(from: &mut impl BufRead) -> Result<Option<u64>, FrameError> {
    let mut length = 0_u64;
    for index in 0..VARINT_BYTES_MAX {
        let mut byte = [0];
        match from.read_exact(&mut byte) {
            Ok(()) => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            Err(_) if index == 0 => return Ok(None),
            Err(_) => return Err(FrameError::CutOff),
        }
        let bits = u64::from(byte[0] & 0x7f);
        if index == VARINT_BYTES_MAX - 1 && byte[0] > 1 {
            return Err(FrameError::Length);
        }
        length |= bits << (7 * index);
        if byte[0] < 0x80 {
            return Ok(Some(length));
        }
    }
    Err(FrameError::Length)
}

/// Appends a message's frame.
pub fn append(message: &impl Message, to: &mut Vec<u8>) {
    // It fails where a buffer is full, which a Vec never is.
    message.encode_length_delimited(to).expect("a Vec grows");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::{self, Request};
    use crate::types::{CommitInfo, Timestamp, Validator, VoteInfo};

    const MAX: u64 = 1 << 20;

    fn framed(message: &impl Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        append(message, &mut bytes);
        bytes
    }

    fn finalize(txs: Vec<Vec<u8>>, height: i64, seconds: i64, votes: Vec<(Vec<u8>, i64)>) -> Request {
        let votes = votes.into_iter().map(|(address, power)| VoteInfo {
            validator: Some(Validator { address: address.into(), power }),
            block_id_flag: 2,
        });
        let request = request::FinalizeBlock {
            txs: txs.into_iter().map(Bytes::from).collect(),
            decided_last_commit: Some(CommitInfo { round: 1, votes: votes.collect() }),
            height,
            time: Some(Timestamp { seconds, nanos: 5 }),
            ..Default::default()
        };
        Request { value: Some(request::Value::FinalizeBlock(request)) }
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        // By hand: field 8 of Request, 8 bytes long, with field 1 of 4 bytes and field 2 of 1.
        let check = request::CheckTx { tx: Bytes::from_static(b"abcd"), r#type: 1 };
        let bytes = framed(&Request { value: Some(request::Value::CheckTx(check)) });
        assert_eq!(bytes, [10, 0x42, 8, 0x0a, 4, b'a', b'b', b'c', b'd', 0x10, 1]);
        let flush = framed(&Request { value: Some(request::Value::Flush(request::Flush {})) });
        assert_eq!(flush, [2, 0x12, 0]);
    }

    #[test]
    fn invalid_frame_is_an_error() {
        let read = |bytes: &[u8]| read_message::<Request>(&mut &*bytes, MAX);
        assert!(matches!(read(&[]), Ok(None)));
        assert!(matches!(read(&[0x80]), Err(FrameError::CutOff)));
        assert!(matches!(read(&[5, 1]), Err(FrameError::CutOff)));
        assert!(matches!(read(&[0xff; 12]), Err(FrameError::Length)));
        assert!(matches!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Err(FrameError::TooLong { .. })));
        assert!(matches!(read(&[2, 0x42, 9]), Err(FrameError::Message(_))));
        // A request that this version does not know.
        assert!(matches!(read(&[3, 0xf2, 0x07, 0]), Ok(Some(Request { value: None }))));
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        // The largest frame is claimed and nothing sent; allocating it up front would take 2^40 bytes.
        let mut bytes = Vec::new();
        prost::encoding::encode_varint(1 << 40, &mut bytes);
        assert!(matches!(read(&mut &bytes[..], 1 << 41), Err(FrameError::CutOff)));
    }

    proptest! {
        #[test]
        fn messages_come_back(
            txs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            height: i64,
            seconds: i64,
            votes in prop::collection::vec((prop::collection::vec(any::<u8>(), 20), any::<i64>()), 0..5),
        ) {
            let message = finalize(txs, height, seconds, votes);
            let mut bytes = framed(&message);
            bytes.extend(framed(&Request { value: Some(request::Value::Flush(request::Flush {})) }));
            let mut from = &bytes[..];
            prop_assert_eq!(read_message::<Request>(&mut from, MAX).unwrap(), Some(message));
            prop_assert!(read_message::<Request>(&mut from, MAX).unwrap().is_some());
            prop_assert_eq!(read_message::<Request>(&mut from, MAX).unwrap(), None);
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut from = &bytes[..];
            while let Ok(Some(_)) = read_message::<Request>(&mut from, MAX) {}
        }

        #[test]
        fn a_changed_byte_is_a_message_or_an_error(
            txs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..5),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let mut bytes = framed(&finalize(txs, 7, 8, vec![(vec![1; 20], 10)]));
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut from = &bytes[..];
            while let Ok(Some(_)) = read_message::<Request>(&mut from, MAX) {}
        }
    }
}
