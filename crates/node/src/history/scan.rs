//! Finds the complete records in a segment, whatever damage is between them.

use super::LARGEST_RECORD;
use serde::de::IgnoredAny;
use std::io::{self, BufRead, Read};
use std::ops::Range;

/// `crc32 length ` before the JSON.
const LARGEST_HEADER: usize = 8 + 1 + 10 + 1;

/// Steps from one complete record to the next.
///
/// A record can begin at the start of a line, right after a complete record, and after any control byte. JSON text
/// contains no control bytes, so text that is quoted inside a damaged record is never taken for a record.
#[derive(Debug)]
pub struct Scanner<R> {
    input: R,
    line: Vec<u8>,
    /// Where to continue in `line`.
    at: usize,
    /// Where the last good record of `line` ended.
    after_good: Option<usize>,
    /// Bytes of input before `line`.
    line_start: u64,
    good_end: u64,
    good_bytes: u64,
    unterminated: bool,
}

impl<R: BufRead> Scanner<R> {
    /// Scans `input` from its beginning.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            at: 0,
            after_good: None,
            line_start: 0,
            good_end: 0,
            good_bytes: 0,
            unterminated: false,
        }
    }

    /// The next complete record as JSON; `None` at the end.
    pub fn next_record(&mut self) -> io::Result<Option<String>> {
        loop {
            while self.at < self.line.len() {
                if let Some(json) = self.record_here() {
                    return Ok(Some(json));
                }
                self.at += 1;
            }
            if !self.next_line()? {
                return Ok(None);
            }
        }
    }

    /// The bytes read so far.
    pub fn position(&self) -> u64 {
        self.line_start + self.line.len() as u64
    }

    /// Where the last complete record ended, including its newline.
    pub fn good_end(&self) -> u64 {
        self.good_end
    }

    /// Whether that record lacks its newline.
    pub fn unterminated(&self) -> bool {
        self.unterminated
    }

    /// The bytes before [`Scanner::good_end`] that belong to no complete record.
    pub fn damaged_before_good_end(&self) -> u64 {
        self.good_end - self.good_bytes
    }

    fn next_line(&mut self) -> io::Result<bool> {
        self.line_start += self.line.len() as u64;
        self.line.clear();
        self.at = 0;
        self.after_good = None;
        let limit = (LARGEST_HEADER + LARGEST_RECORD + 1) as u64;
        let read = self
            .input
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut self.line)?;
        Ok(read > 0)
    }

    fn record_here(&mut self) -> Option<String> {
        if !self.may_begin_here() {
            return None;
        }
        let rest = &self.line[self.at..];
        let json = good_record(rest)?;
        let text = std::str::from_utf8(&rest[json.clone()]).ok()?.to_owned();
        self.unterminated = rest.get(json.end) != Some(&b'\n');
        let length = json.end + usize::from(!self.unterminated);
        self.at += length;
        self.after_good = Some(self.at);
        self.good_end = self.line_start + self.at as u64;
        self.good_bytes += length as u64;
        Some(text)
    }

    fn may_begin_here(&self) -> bool {
        // One byte after a complete record, in case its newline is damaged.
        let follows_good = self
            .after_good
            .is_some_and(|end| self.at == end || self.at == end + 1);
        self.at == 0 || follows_good || self.line[self.at - 1].is_ascii_control()
    }
}

/// The range of the JSON if `bytes` begins with a complete record.
pub(super) fn good_record(bytes: &[u8]) -> Option<Range<usize>> {
    let (checksum, rest) = bytes.split_at_checked(8)?;
    let rest = rest.strip_prefix(b" ")?;
    let digits = rest
        .iter()
        .take(10)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let length: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let checksum = u32::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    let start = 8 + 1 + digits + 1;
    if bytes.get(start - 1) != Some(&b' ') {
        return None;
    }
    let json = bytes.get(start..start.checked_add(length)?)?;
    let good =
        crc32fast::hash(json) == checksum && serde_json::from_slice::<IgnoredAny>(json).is_ok();
    good.then_some(start..start + length)
}
