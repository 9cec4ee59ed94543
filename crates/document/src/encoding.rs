//! The text of files in the encodings that shells and editors write, as UTF-8.
//!
//! `kubectl get -o json > cluster.json` writes UTF-16 in Windows PowerShell.

use std::io::{self, Read};

/// Bytes that are decoded at once.
const CHUNK: usize = 64 << 10;

/// Reads a text of UTF-8 or UTF-16, by its byte order mark, as UTF-8 without the mark.
pub(crate) struct Utf8<R> {
    source: R,
    encoding: Option<Encoding>,
    /// Bytes of the source that are not decoded yet: those before the encoding was known, or a part of a character.
    raw: Vec<u8>,
    /// Decoded bytes that were not read yet.
    text: Vec<u8>,
    at: usize,
}

#[derive(Clone, Copy)]
enum Encoding {
    Utf8,
    /// Each number begins with its low byte.
    Utf16Little,
    /// Each number begins with its high byte.
    Utf16Big,
}

impl<R: Read> Utf8<R> {
    pub(crate) const fn new(source: R) -> Self {
        Self {
            source,
            encoding: None,
            raw: Vec::new(),
            text: Vec::new(),
            at: 0,
        }
    }

    /// Finds the encoding by the first bytes.
    fn begin(&mut self) -> io::Result<Encoding> {
        let head = &mut self.raw;
        self.source.by_ref().take(4).read_to_end(head)?;
        let (mark, encoding) = match head.as_slice() {
            [0xef, 0xbb, 0xbf, ..] => (3, Encoding::Utf8),
            [0xff, 0xfe, ..] => (2, Encoding::Utf16Little),
            [0xfe, 0xff, ..] => (2, Encoding::Utf16Big),
            // JSON and YAML begin with two ASCII characters, which show the encoding without a mark.
            [a, 0, b, 0] if is_text(*a) && is_text(*b) => (0, Encoding::Utf16Little),
            [0, a, 0, b] if is_text(*a) && is_text(*b) => (0, Encoding::Utf16Big),
            [0x1f, 0x8b, ..] => return Err(invalid("is compressed with gzip; unpack it first")),
            [b'P', b'K', 3, 4] => return Err(invalid("is a zip archive; unpack it first")),
            _ => (0, Encoding::Utf8),
        };
        head.drain(..mark);
        if matches!(encoding, Encoding::Utf8) {
            self.text = std::mem::take(head);
        }
        self.encoding = Some(encoding);
        Ok(encoding)
    }

    /// Decodes a part of UTF-16. At the end nothing is left to read. Returns whether more may come.
    fn decode(&mut self, number: fn([u8; 2]) -> u16) -> io::Result<bool> {
        let limit = u64::try_from(CHUNK).unwrap_or(u64::MAX);
        let count = self
            .source
            .by_ref()
            .take(limit)
            .read_to_end(&mut self.raw)?;
        let mut numbers: Vec<u16> = self
            .raw
            .chunks_exact(2)
            .map(|pair| number([pair[0], pair[1]]))
            .collect();
        // The second half of the last character may still come.
        let is_split = numbers
            .last()
            .is_some_and(|last| (0xd800..0xdc00).contains(last));
        if is_split && count > 0 {
            numbers.pop();
        }
        let is_cut = count == 0 && self.raw.len() % 2 == 1;
        self.raw.drain(..numbers.len() * 2);
        self.at = 0;
        let text = String::from_utf16(&numbers).ok().filter(|_| !is_cut);
        self.text = text
            .ok_or_else(|| invalid("is not UTF-16 text"))?
            .into_bytes();
        Ok(count > 0)
    }
}

impl<R: Read> Read for Utf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let encoding = match self.encoding {
            Some(encoding) => encoding,
            None => self.begin()?,
        };
        // A part may be less than a character, which is not the end.
        let mut more = true;
        while more && self.at == self.text.len() {
            more = match encoding {
                Encoding::Utf8 => return self.source.read(buffer),
                Encoding::Utf16Little => self.decode(u16::from_le_bytes)?,
                Encoding::Utf16Big => self.decode(u16::from_be_bytes)?,
            };
        }
        let ready = &self.text[self.at..];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.at += count;
        Ok(count)
    }
}

const fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace()
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time, as a slow pipe does.
    struct Slow<'t>(&'t [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1);
            (&mut self.0).take(1).read(&mut buffer[..count])
        }
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    fn read(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        let mut slow = String::new();
        Utf8::new(bytes).read_to_string(&mut text)?;
        Utf8::new(Slow(bytes)).read_to_string(&mut slow)?;
        assert_eq!(text, slow);
        Ok(text)
    }

    #[test]
    fn a_text_is_the_same_in_every_encoding() {
        let long = format!("{{\"name\": \"größer 😀 {}\"}}\r\n", "😀".repeat(CHUNK / 3));
        for text in ["", "{", "{}", "kind: Pod\r\n", &long] {
            let marked = format!("\u{feff}{text}");
            assert_eq!(read(text.as_bytes()).unwrap(), text);
            assert_eq!(read(marked.as_bytes()).unwrap(), text);
            for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
                assert_eq!(read(&utf16(&marked, bytes)).unwrap(), text);
            }
        }
        assert_eq!(read(&utf16("{}", u16::to_le_bytes)).unwrap(), "{}");
        assert_eq!(read(&utf16("[]", u16::to_be_bytes)).unwrap(), "[]");
    }

    #[test]
    fn other_formats_are_refused_by_name() {
        let half = [
            &[0xff, 0xfe][..],
            &utf16("{", u16::to_le_bytes),
            &[0x00, 0xd8],
        ]
        .concat();
        let odd = [&[0xff, 0xfe][..], b"{"].concat();
        // The last part is less than a character.
        let part = utf16(&"{".repeat(CHUNK / 2 + 1), u16::to_le_bytes);
        let cut = [&[0xff, 0xfe][..], &part, &[0x00, 0xd8]].concat();
        let cut_in_two = [&[0xff, 0xfe][..], &part, b"{"].concat();
        let cases = [
            (half, "is not UTF-16 text"),
            (cut, "is not UTF-16 text"),
            (cut_in_two, "is not UTF-16 text"),
            (odd, "is not UTF-16 text"),
            (
                vec![0x1f, 0x8b, 8, 0],
                "is compressed with gzip; unpack it first",
            ),
            (b"PK\x03\x04".to_vec(), "is a zip archive; unpack it first"),
        ];
        for (bytes, message) in cases {
            assert_eq!(read(&bytes).unwrap_err().to_string(), message);
        }
    }
}
