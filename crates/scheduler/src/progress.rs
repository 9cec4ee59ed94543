//! A progress bar on the terminal while a large input is read or many pods are scheduled.

use evictd_command::bar;
use std::io::{self, IsTerminal, Read, Write};

/// Smaller inputs are read so fast that a bar would only flicker.
const LARGE: u64 = 32 << 20;
/// The bar is drawn again after this many bytes.
const STEP: u64 = 8 << 20;

/// A reader that shows its progress on stderr if that is a terminal.
pub(crate) struct Progress<R> {
    source: R,
    name: String,
    /// Its length in bytes, if known.
    length: Option<u64>,
    read: u64,
    next: u64,
    shown: bool,
}

impl<R> Progress<R> {
    pub(crate) fn new(source: R, name: &str, length: Option<u64>) -> Self {
        let visible = io::stderr().is_terminal() && length.is_none_or(|length| length >= LARGE);
        Self {
            source,
            name: name.to_owned(),
            length,
            read: 0,
            next: if visible { LARGE / 2 } else { u64::MAX },
            shown: false,
        }
    }

    fn show(&mut self) {
        self.next = self.read + STEP;
        self.shown = true;
        let line = line(&self.name, self.read, self.length);
        // The progress bar is optional, so that an error while drawing is ignored.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }
}

fn line(name: &str, read: u64, length: Option<u64>) -> String {
    let mebibytes = read >> 20;
    let Some(length) = length.filter(|length| *length > 0) else {
        return format!("reading {name}: {mebibytes} MiB");
    };
    let bar = bar(read, length);
    format!("reading {name} {bar}, {mebibytes} of {} MiB", length >> 20)
}

/// Fewer pods are scheduled faster than a bar can be read.
const MANY: usize = 1000;

/// Shows that `done` of `all` pods are scheduled.
pub(crate) fn placed(bar: &mut evictd_command::Progress, done: usize, all: usize) {
    if all >= MANY {
        bar.show(format_args!("scheduling {all} pods"), done, all);
    }
}

impl<R: Read> Read for Progress<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.read += u64::try_from(count).unwrap_or(0);
        if self.read >= self.next {
            self.show();
        }
        Ok(count)
    }
}

impl<R> Drop for Progress<R> {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_bar_shows_the_share_that_was_read() {
        let half = "[###############...............] 50 %, 50 of 100 MiB";
        assert_eq!(
            line("a", 50 << 20, Some(100 << 20)),
            format!("reading a {half}")
        );
        assert_eq!(line("-", 50 << 20, None), "reading -: 50 MiB");
        // A file that has grown since it was opened.
        assert!(line("a", 2 << 20, Some(1 << 20)).contains("100 %"));
        assert_eq!(line("a", 0, Some(0)), "reading a: 0 MiB");
    }
}
