//! A page on the whole terminal that is taken anew until a person quits it.

use crate::colour::is_mark;
use crate::output::rendered_page;
use crate::{Colour, Failure, View, write_to_stdout};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The other screen, without a cursor and without line breaks of the terminal's.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// How often the size of the terminal is compared.
const SLICE: Duration = Duration::from_millis(200);
/// The lines that a section keeps where rows are short: its title, its headings, and one more.
const KEPT: usize = 3;

/// A part of a live page: a title above lines.
#[derive(Debug, Clone)]
pub struct Section {
    title: Option<String>,
    lines: Vec<String>,
    gives_way: bool,
}

impl Section {
    /// Lines without a title, which are always shown.
    pub fn head(text: &str) -> Self {
        Self {
            title: None,
            lines: text.lines().map(str::to_owned).collect(),
            gives_way: false,
        }
    }

    /// Lines below a title, which are always shown.
    pub fn new(title: impl Into<String>, text: &str) -> Self {
        Self {
            title: Some(title.into()),
            ..Self::head(text)
        }
    }

    /// The same, which loses its last lines where rows are short.
    #[must_use]
    pub fn giving_way(self) -> Self {
        Self {
            gives_way: true,
            ..self
        }
    }

    fn rows(&self) -> usize {
        self.lines.len() + usize::from(self.title.is_some())
    }

    /// The page of these sections, with so many rows at most where they are limited.
    pub fn page(sections: &[Self], view: View, rows: Option<usize>) -> String {
        let mut sections = sections.to_vec();
        let most = rows.unwrap_or(usize::MAX);
        while sections.iter().map(Self::rows).sum::<usize>() > most {
            let shrinking = sections.iter_mut().filter(|section| section.gives_way);
            let longest = shrinking.max_by_key(|section| section.rows());
            let Some(longest) = longest.filter(|section| section.rows() > KEPT) else {
                break;
            };
            longest.lines.pop();
        }
        let mut lines = Vec::new();
        for section in sections {
            lines.extend(section.title.map(|title| ruled(&title, view)));
            lines.extend(section.lines);
        }
        lines.truncate(most);
        let lines = lines.iter().map(|line| clipped(line, view));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The line without what exceeds the width: a line that the terminal breaks would move all others.
fn clipped(line: &str, view: View) -> String {
    let mut room = view.width().unwrap_or(usize::MAX);
    let mut ended = false;
    let fits = line.chars().filter(|character| {
        if is_mark(*character) {
            return true;
        }
        let width = character.width().unwrap_or(0);
        ended |= width > room;
        room = room.saturating_sub(width);
        !ended
    });
    fits.collect()
}

/// A title as the beginning of a line across the page.
fn ruled(title: &str, view: View) -> String {
    let title = format!("── {title} ");
    let rest = view
        .width()
        .map_or(2, |width| width.saturating_sub(title.width()));
    view.paint(Colour::Faint, &format!("{title}{}", "─".repeat(rest)))
}

/// Shows a page that is taken anew after `every`, until `q`, Escape or Ctrl-C. `page` gets the last data, the reason why it is
/// old, the width and the rows. Where standard input or output is no terminal, the page is printed once, in its whole length.
///
/// # Errors
/// Of the terminal only: a failure of `take` is shown in the page, because the daemon may come back.
pub fn show_live<T>(
    mut data: T,
    every: Duration,
    mut take: impl FnMut(&T) -> Result<T, Failure>,
    page: impl Fn(&T, Option<&str>, View, Option<usize>) -> String,
) -> Result<(), Failure> {
    if !is_live() {
        let view = View::of_stdout().plain();
        return write_to_stdout(&page(&data, None, view, None));
    }
    let _screen = Screen::open()?;
    let mut lost = None;
    loop {
        let size = Screen::draw(|view, rows| page(&data, lost.as_deref(), view, Some(rows)))?;
        match Screen::wait(every, size)? {
            Event::Quit => return Ok(()),
            Event::Resized => continue,
            Event::Due => {}
        }
        match take(&data) {
            Ok(next) => (data, lost) = (next, None),
            Err(failure) => lost = Some(failure.to_string()),
        }
    }
}

/// An age in one unit, as `kubectl` shows it: `119s`, `2m`, `47h`, `2d`. A time in the future has the age 0.
pub fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Whether [`show_live`] redraws the page, or prints it once.
pub fn is_live() -> bool {
    let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    !dumb && io::stdout().is_terminal() && io::stdin().is_terminal()
}

enum Event {
    Quit,
    Resized,
    /// The page is old.
    Due,
}

/// The other screen of the terminal. Dropping it restores the terminal, before any error is shown.
struct Screen {
    before: Termios,
}

impl Screen {
    fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        let screen = Self { before };
        write(ENTER)?;
        Ok(screen)
    }

    /// Draws a page, and returns the size of the terminal.
    fn draw(page: impl FnOnce(View, usize) -> String) -> io::Result<(u16, u16)> {
        let view = View::of_stdout();
        let size = Self::size();
        let rows = match size.1 {
            0 => 24,
            rows => usize::from(rows),
        };
        let page = rendered_page(&page(view, rows));
        let lines: Vec<&str> = page.lines().take(rows).collect();
        write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))?;
        Ok(size)
    }

    /// Columns and rows; zero where the terminal does not know.
    fn size() -> (u16, u16) {
        let size = tcgetwinsize(io::stdout());
        size.map_or((0, 0), |size| (size.ws_col, size.ws_row))
    }

    fn wait(time: Duration, size: (u16, u16)) -> io::Result<Event> {
        let slice = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(SLICE.subsec_nanos()),
        };
        let mut left = time;
        while !left.is_zero() {
            let stdin = io::stdin();
            let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut ready, Some(&slice)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => {
                    let mut keys = [0; 64];
                    let count = rustix::io::read(&stdin, &mut keys)?;
                    if quits(&keys[..count]) {
                        return Ok(Event::Quit);
                    }
                }
                Err(error) => return Err(error.into()),
            }
            if Self::size() != size {
                return Ok(Event::Resized);
            }
            left = left.saturating_sub(SLICE);
        }
        Ok(Event::Due)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing else can be done for a terminal that cannot be restored.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// `q`, Escape, Ctrl-C, and the end of the input. Other keys send Escape with more behind it.
fn quits(keys: &[u8]) -> bool {
    matches!(keys, [] | [0x1b]) || keys.iter().any(|key| matches!(key, b'q' | 0x03))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_section_that_gives_way_loses_lines_first() {
        let sections = [
            Section::head("a\nb"),
            Section::new("long", "HEAD\n1\n2\n3\n4\n5\n6").giving_way(),
            Section::new("short", "HEAD\nx\ny").giving_way(),
            Section::new("kept", "z"),
        ];
        let lines = |rows| {
            let page = Section::page(&sections, View::WHOLE, rows);
            let lines = page.lines().map(|line| line.trim_end_matches(['─', ' ']));
            lines.collect::<Vec<_>>().join(" ")
        };
        let all = "a b ── long HEAD 1 2 3 4 5 6 ── short HEAD x y ── kept z";
        assert_eq!(lines(None), all);
        assert_eq!(lines(Some(16)), all);
        assert_eq!(
            lines(Some(12)),
            "a b ── long HEAD 1 2 ── short HEAD x y ── kept z"
        );
        assert_eq!(
            lines(Some(10)),
            "a b ── long HEAD 1 ── short HEAD x ── kept z"
        );
        // Less than what is always shown: the beginning.
        assert_eq!(lines(Some(4)), "a b ── long HEAD");
    }

    #[test]
    fn a_line_is_cut_at_the_width_and_keeps_its_colour() {
        let view = View::of_width(40).coloured();
        let long = view.paint(Colour::Bad, &"日本".repeat(30));
        let page = Section::page(&[Section::head(&long)], view, Some(3));
        assert_eq!(page.width(), 40);
        assert_eq!(page, view.paint(Colour::Bad, &"日本".repeat(10)));
        assert!(Section::page(&[Section::head(&long)], View::WHOLE, None).width() > 40);
    }

    #[test]
    fn an_age_has_one_unit() {
        let ages = [-5, 0, 119, 120, 7199, 7200, 172_799, 172_800].map(age);
        assert_eq!(ages, ["0s", "0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }

    #[test]
    fn only_these_keys_quit() {
        for (keys, expected) in [
            (&b"q"[..], true),
            (b"\x03", true),
            (b"\x1b", true),
            (b"", true),
            (b"\x1b[A", false),
            (b"x", false),
        ] {
            assert_eq!(quits(keys), expected, "{keys:?}");
        }
    }
}
