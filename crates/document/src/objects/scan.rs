//! A window that moves over a JSON text of any length and finds where its values end.
//!
//! It reads only strings and brackets; the parser of a value checks whether that is correct JSON.

use crate::mistake::Place;
use memchr::{memchr, memchr_iter, memchr2, memrchr};
use std::io::{self, Read};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// The most bytes that one object may have; etcd stores none above 1.5 MiB.
pub(super) const LARGEST: usize = 64 << 20;

/// Why the text cannot be read further.
#[derive(Debug)]
pub(super) enum Stop {
    /// It cannot be read.
    Read(io::Error),
    /// It is not JSON from here on.
    Syntax(&'static str),
}

pub(super) struct Scanner<R> {
    source: R,
    buffer: Vec<u8>,
    /// The next byte.
    at: usize,
    /// The end of the bytes that were read.
    filled: usize,
    /// From here on the buffer is still needed.
    kept: Option<usize>,
    /// Where the buffer begins in the text.
    origin: Place,
}

impl<R: Read> Scanner<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            buffer: vec![0; CHUNK],
            at: 0,
            filled: 0,
            kept: None,
            origin: Place::START,
        }
    }

    /// The bytes that were read and not passed yet, and the source of the rest.
    pub(super) fn into_rest(self) -> (Vec<u8>, R) {
        let Self {
            mut buffer,
            at,
            filled,
            source,
            ..
        } = self;
        buffer.truncate(filled);
        buffer.drain(..at);
        (buffer, source)
    }

    /// Reads more; false at the end.
    fn more(&mut self) -> Result<bool, Stop> {
        let done = self.kept.unwrap_or(self.at);
        if done > 0 {
            self.origin = self.place_at(done);
            self.buffer.copy_within(done..self.filled, 0);
            self.filled -= done;
            self.at -= done;
            self.kept = self.kept.map(|_| 0);
        }
        // The buffer grows only if a whole object does not fit.
        if self.filled == self.buffer.len() {
            if self.filled >= LARGEST {
                return Err(Stop::Syntax("one object is larger than 64 MiB"));
            }
            self.buffer.resize(self.filled * 2, 0);
        }
        let count = loop {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result.map_err(Stop::Read)?,
            }
        };
        self.filled += count;
        Ok(count > 0)
    }

    /// The next byte that is no white space; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, Stop> {
        let mut passed = 0;
        loop {
            let ahead = &self.buffer[self.at..self.filled];
            let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            if let Some(offset) = ahead.iter().position(|byte| !blank(byte)) {
                self.at += offset;
                return Ok(Some(self.buffer[self.at]));
            }
            passed += ahead.len();
            self.at = self.filled;
            if passed > LARGEST {
                return Err(Stop::Syntax("nothing but white space for 64 MiB"));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// Passes the byte order mark that some editors write.
    pub(super) fn skip_byte_order_mark(&mut self) -> Result<(), Stop> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        loop {
            let ahead = &self.buffer[self.at..self.filled];
            if ahead.starts_with(MARK) {
                self.at += MARK.len();
                return Ok(());
            }
            // Only a part of it may have been read so far.
            if !MARK.starts_with(ahead) || !self.more()? {
                return Ok(());
            }
        }
    }

    /// The next byte that is no white space; its absence is an error.
    pub(super) fn must_peek(&mut self) -> Result<u8, Stop> {
        self.peek()?.ok_or(END)
    }

    /// Passes the byte that was peeked at.
    pub(super) fn pass(&mut self) {
        self.at += 1;
    }

    /// Passes a byte that must come next.
    pub(super) fn expect(&mut self, byte: u8, otherwise: &'static str) -> Result<(), Stop> {
        if self.must_peek()? != byte {
            return Err(Stop::Syntax(otherwise));
        }
        self.pass();
        Ok(())
    }

    /// The string that begins at the next byte, which is a quotation mark; escapes are left as they are.
    pub(super) fn string(&mut self) -> Result<&[u8], Stop> {
        let mut length = 1;
        loop {
            let ahead = &self.buffer[self.at..self.filled];
            match memchr2(b'"', b'\\', ahead.get(length..).unwrap_or_default()) {
                Some(offset) if ahead[length + offset] == b'"' => {
                    let begin = self.at + 1;
                    let end = self.at + length + offset;
                    self.at = end + 1;
                    return Ok(&self.buffer[begin..end]);
                }
                Some(offset) => length += offset + 2,
                None => {
                    length = length.max(ahead.len());
                    if !self.more()? {
                        return Err(END);
                    }
                }
            }
        }
    }

    /// Passes the lines of a log, from `==== START logs for ... ====` to the line that ends it.
    pub(super) fn skip_log(&mut self) -> Result<(), Stop> {
        const START: &[u8] = b"==== START logs";
        const END_OF_LOG: &[u8] = b"==== END logs";
        let mut is_first = true;
        loop {
            let line = self.line()?;
            if is_first && !line.starts_with(START) {
                return Err(Stop::Syntax("expected an object"));
            }
            if line.starts_with(END_OF_LOG) {
                return Ok(());
            }
            is_first = false;
        }
    }

    /// Passes a line, and returns its first bytes.
    fn line(&mut self) -> Result<Vec<u8>, Stop> {
        const SHOWN: usize = 32;
        let mut start = Vec::new();
        loop {
            let ahead = &self.buffer[self.at..self.filled];
            let end = memchr(b'\n', ahead);
            let rest = &ahead[..end.unwrap_or(ahead.len())];
            let wanted = SHOWN - start.len();
            start.extend_from_slice(&rest[..rest.len().min(wanted)]);
            self.at += end.map_or(ahead.len(), |end| end + 1);
            if end.is_some() {
                return Ok(start);
            }
            if !self.more()? {
                return Err(END);
            }
        }
    }

    /// Passes the value that begins at the next byte that is no white space.
    pub(super) fn skip_value(&mut self) -> Result<(), Stop> {
        match self.must_peek()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.skip_nested(),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.skip_word(),
            _ => Err(Stop::Syntax("expected a value")),
        }
    }

    /// A number, `true`, `false` or `null`.
    fn skip_word(&mut self) -> Result<(), Stop> {
        loop {
            let ahead = &self.buffer[self.at..self.filled];
            let within =
                |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
            match ahead.iter().position(|byte| !within(byte)) {
                Some(offset) => {
                    self.at += offset;
                    return Ok(());
                }
                None => self.at = self.filled,
            }
            if !self.more()? {
                return Ok(());
            }
        }
    }

    /// An object or a list with all that is in it.
    fn skip_nested(&mut self) -> Result<(), Stop> {
        let mut depth = 0_usize;
        let mut in_string = false;
        loop {
            let ahead = &self.buffer[self.at..self.filled];
            let mut at = 0;
            while at < ahead.len() {
                if in_string {
                    match memchr2(b'"', b'\\', &ahead[at..]) {
                        Some(offset) if ahead[at + offset] == b'"' => {
                            in_string = false;
                            at += offset + 1;
                        }
                        Some(offset) => at += offset + 2,
                        None => at = ahead.len(),
                    }
                    continue;
                }
                match ahead[at] {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            self.at += at + 1;
                            return Ok(());
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
            // An escape may reach beyond the bytes that were read.
            let beyond = at - ahead.len();
            self.at = self.filled;
            if !self.more()? {
                return Err(END);
            }
            self.at += beyond;
        }
    }

    /// From the next byte on, passed bytes are kept.
    pub(super) fn keep(&mut self) {
        self.kept = Some(self.at);
    }

    /// Kept bytes are no longer needed.
    pub(super) fn forget(&mut self) {
        self.kept = None;
    }

    /// The bytes passed since [`Self::keep`].
    pub(super) fn kept(&self) -> &[u8] {
        &self.buffer[self.kept.unwrap_or(self.at)..self.at]
    }

    /// The place of the first kept byte.
    pub(super) fn kept_place(&self) -> Place {
        self.place_at(self.kept.unwrap_or(self.at))
    }

    /// Where the next byte is.
    pub(super) fn place(&self) -> Place {
        self.place_at(self.at)
    }

    fn place_at(&self, index: usize) -> Place {
        let origin = self.origin;
        let passed = &self.buffer[..index];
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let lines = memchr_iter(b'\n', passed).count();
        let (last_line, before) = match memrchr(b'\n', passed) {
            Some(end) => (&passed[end + 1..], 0),
            None => (passed, origin.column - 1),
        };
        // Columns count characters: bytes that do not continue one.
        let characters = last_line
            .iter()
            .filter(|byte| **byte & 0xc0 != 0x80)
            .count();
        Place {
            line: origin.line + count(lines),
            column: before + count(characters) + 1,
        }
    }
}

/// The text ends unexpectedly.
const END: Stop = Stop::Syntax("the text ends here unexpectedly; it may be truncated");
