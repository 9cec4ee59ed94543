//! Encodes and decodes messages, with a limit on the entries of an answer.

use prost::Message;
use prost::bytes::Buf;
use std::marker::PhantomData;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};

/// The status message of an answer with too many entries; no server sends it.
pub(crate) const TOO_MANY: &str = "more entries than are read";

/// Counts entries before decoding: an empty entry takes 2 bytes on the wire but hundreds in memory.
pub(crate) struct Bounded<Request, Answer> {
    pub(crate) entries: usize,
    messages: PhantomData<fn(Request) -> Answer>,
}

impl<Request, Answer> Bounded<Request, Answer> {
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            entries,
            messages: PhantomData,
        }
    }
}

impl<Request, Answer> Codec for Bounded<Request, Answer>
where
    Request: Message + 'static,
    Answer: Message + Default + 'static,
{
    type Encode = Request;
    type Decode = Answer;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::new(self.entries)
    }

    fn decoder(&mut self) -> Self {
        Self::new(self.entries)
    }
}

impl<Request: Message, Answer> Encoder for Bounded<Request, Answer> {
    type Item = Request;
    type Error = Status;

    fn encode(&mut self, request: Request, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        request
            .encode(into)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

impl<Request, Answer: Message + Default> Decoder for Bounded<Request, Answer> {
    type Item = Answer;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Answer>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        if entries(&bytes) > self.entries {
            return Err(Status::new(Code::ResourceExhausted, TOO_MANY));
        }
        Answer::decode(bytes)
            .map(Some)
            .map_err(|error| Status::new(Code::DataLoss, error.to_string()))
    }
}

/// The number of length-delimited fields at the top level. Counting stops at a malformed field, which decoding reports.
fn entries(mut bytes: &[u8]) -> usize {
    let mut entries = 0;
    while let Some((key, rest)) = varint(bytes) {
        let skip = match key & 7 {
            0 => varint(rest).map(|(_, after)| after),
            1 => rest.get(8..),
            2 => {
                entries += 1;
                varint(rest).and_then(|(length, after)| after.get(usize::try_from(length).ok()?..))
            }
            5 => rest.get(4..),
            // Groups, which proto3 does not have, or no message at all: the decoder refuses it.
            _ => None,
        };
        match skip {
            Some(after) => bytes = after,
            None => break,
        }
    }
    entries
}

/// Decodes the leading varint and returns the rest.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_top_is_counted() {
        // Fields 1 (12 bytes whose content looks like fields), 2 (a number), 1 (empty), 3 (8 bytes), 4 (4 bytes), 1
        // (truncated).
        let mut message = vec![0x0a, 12];
        message.extend([0x0a; 12]);
        message.extend([0x10, 0x80, 0x01, 0x0a, 0]);
        message.extend([0x19, 0, 0, 0, 0, 0, 0, 0, 0, 0x25, 0, 0, 0, 0]);
        assert_eq!(entries(&message), 2);
        message.extend([0x0a, 5, 0]);
        assert_eq!(entries(&message), 3);
    }

    #[test]
    fn nonsense_ends_the_count() {
        for nonsense in [&[][..], &[0x80; 20], &[0x0f], &[0x0a], &[0x0a, 0xff, 0xff]] {
            assert!(entries(nonsense) <= 1, "{nonsense:?}");
        }
        assert_eq!(
            entries(&[
                0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f
            ]),
            1
        );
    }
}
