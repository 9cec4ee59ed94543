//! Pages for people that are drawn one over the other.

use crate::output::rendered_page;
use rustix::termios::tcgetwinsize;
use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

/// Draws pages on standard output, each over the one before; the last one stays.
#[derive(Debug)]
pub struct Frames {
    rows: usize,
    /// How many lines the last page has.
    lines: usize,
}

impl Frames {
    /// `None` unless standard output is a terminal that supports redrawing.
    pub fn open() -> Option<Self> {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        if dumb || !io::stdout().is_terminal() {
            return None;
        }
        let rows = tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_row);
        Some(Self {
            rows: usize::from(rows),
            lines: 0,
        })
    }

    /// Draws a page that was laid out for [`View::of_stdout`](crate::View::of_stdout). Of one that is higher than the terminal the beginning is left
    /// out.
    pub fn show(&mut self, page: &str) -> io::Result<()> {
        let page = rendered_page(page);
        let all: Vec<&str> = page.lines().collect();
        // The cursor needs the line below the page.
        let room = self.rows.saturating_sub(1).max(1);
        let shown = &all[all.len().saturating_sub(room)..];
        let mut text = String::new();
        // Lines are overwritten in their place, because a cleared terminal flickers.
        if self.lines > 0 {
            let _ = write!(text, "\x1b[{}A", self.lines);
        }
        for line in shown {
            let _ = write!(text, "\r{line}\x1b[K\n");
        }
        // The page before may have been longer.
        text.push_str("\x1b[J");
        self.lines = shown.len();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}
