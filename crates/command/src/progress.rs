//! A bar on the terminal while something takes long.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

const WIDTH: u64 = 30;

/// `[###...] 10 %`; `all` is above zero.
pub fn bar(done: u64, all: u64) -> String {
    let share = |of: u64| done.min(all) * of / all;
    let filled = "#".repeat(usize::try_from(share(WIDTH)).unwrap_or(0));
    format!("[{filled:.<30}] {} %", share(100))
}

/// How much has been done, on standard error if that is a terminal. It is wiped away at its end.
#[derive(Debug)]
pub struct Progress {
    visible: bool,
    /// The bar as drawn; empty before the first draw.
    drawn: String,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            visible: io::stderr().is_terminal(),
            drawn: String::new(),
        }
    }
}

impl Progress {
    /// Shows that `done` of `all` is finished; `what` names the work.
    pub fn show(&mut self, what: impl Display, done: usize, all: usize) {
        if !self.visible || all == 0 {
            return;
        }
        let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let bar = bar(number(done), number(all));
        if bar == self.drawn {
            return;
        }
        // The progress bar is optional: an error of drawing it is ignored.
        let _ = write!(io::stderr(), "\r\x1b[K{what} {bar}");
        self.drawn = bar;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
