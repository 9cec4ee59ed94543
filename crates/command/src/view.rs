//! The layout of a text: how wide its lines may be, and whether it may have colours.

use crate::{
    colour::{Colour, painted},
    printable_line,
};
use rustix::termios::tcgetwinsize;
use std::{
    env,
    io::{self, IsTerminal},
    os::fd::AsFd,
};
use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

/// The assumed width of a terminal that does not report one.
const USUAL: usize = 80;
/// The least width that is used; a narrower terminal breaks lines itself.
const NARROWEST: usize = 40;
/// The least columns that a shortened namespace keeps.
const LEAST_NAMESPACE: usize = 6;
/// The least columns that a hanging indent must leave.
const SHORTEST_LINE: usize = 20;

/// How wide the lines of a text may be, and whether it may have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    width: Option<usize>,
    colour: bool,
}

impl View {
    /// The text in this colour, line by line, if colours are used.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        if !self.has_colour() || text.is_empty() {
            return text.to_owned();
        }
        painted(colour, text)
    }

    /// Nothing is shortened, wrapped or left out, and nothing has a colour.
    pub const WHOLE: Self = Self {
        width: None,
        colour: false,
    };

    /// Lines of at most so many columns, without colours.
    pub fn of_width(width: usize) -> Self {
        Self {
            width: Some(width.max(NARROWEST)),
            colour: false,
        }
    }

    /// The view of standard error. In a pipe, messages stay whole lines, so that they can be searched.
    pub fn of_stderr() -> Self {
        let stderr = io::stderr();
        if stderr.is_terminal() {
            Self::of_stream(&stderr)
        } else {
            Self::WHOLE
        }
    }

    /// The view of standard output. `COLUMNS` sets the width; else a terminal has its own, and a pipe or a file has none, so
    /// that nothing is shortened for the program that reads it. Colours are used only on terminals, and not if `NO_COLOR`
    /// is set or `TERM` is `dumb`.
    pub fn of_stdout() -> Self {
        Self::of_stream(&io::stdout())
    }

    fn of_stream(stream: &(impl IsTerminal + AsFd)) -> Self {
        let is_terminal = stream.is_terminal();
        let terminal_width = || tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
        Self::of(is_terminal, terminal_width, |name| env::var(name).ok())
    }

    fn of(
        is_terminal: bool,
        terminal_width: impl FnOnce() -> usize,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let asked = variable("COLUMNS").and_then(|columns| columns.parse().ok());
        let asked = asked.filter(|columns| *columns > 0);
        let actual = || is_terminal.then(terminal_width);
        let width = asked.or_else(actual);
        // A terminal over a serial line may not know its size.
        let width = width.map(|width| if width == 0 { USUAL } else { width });
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
        // By the convention of no-color.org an empty value does not refuse colours.
        let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            width: width.map(|width| width.max(NARROWEST)),
            colour: is_terminal && !is_dumb && !refused,
        }
    }

    /// Without colours.
    #[must_use]
    pub fn plain(self) -> Self {
        Self {
            colour: false,
            ..self
        }
    }

    /// Without a limit of the width.
    #[must_use]
    pub fn wide(self) -> Self {
        Self {
            width: None,
            ..self
        }
    }

    /// For text that is indented by this many columns.
    #[must_use]
    pub fn within(self, indent: usize) -> Self {
        Self {
            width: self
                .width
                .map(|width| width.saturating_sub(indent).max(SHORTEST_LINE)),
            ..self
        }
    }

    /// The most columns of a line, if there is a limit.
    pub fn width(self) -> Option<usize> {
        self.width
    }

    #[cfg(test)]
    pub(crate) fn coloured(self) -> Self {
        Self {
            colour: true,
            ..self
        }
    }

    /// Whether it may have colours.
    pub fn has_colour(self) -> bool {
        self.colour
    }

    /// A sentence, wrapped.
    pub fn sentence(self, text: &str) -> String {
        self.hanging("", text)
    }

    /// Sentences below each other, each wrapped. A line end inside of one is escaped, since a name may contain it.
    pub fn sentences<S: AsRef<str>>(self, all: impl IntoIterator<Item = S>) -> String {
        let wrapped = all.into_iter().map(|one| self.sentence(one.as_ref()));
        wrapped.collect::<Vec<_>>().join("\n")
    }

    /// `heading`, then a text whose further lines are indented as far as the first. A line end after the text is dropped.
    pub fn hanging(self, heading: &str, text: &str) -> String {
        let text = printable_line(text.trim_end_matches('\n'));
        let Some(width) = self.width else {
            return format!("{heading}{text}");
        };
        let indent = " ".repeat(heading.width());
        // A long heading would leave a column of single words.
        let indent = if indent.len() + SHORTEST_LINE > width {
            "  "
        } else {
            indent.as_str()
        };
        let options = options(width)
            .initial_indent(heading)
            .subsequent_indent(indent);
        textwrap::fill(&text, options)
    }
}

/// Names are not broken at hyphens; only a word that is longer than a line is broken.
fn options<'a>(width: usize) -> Options<'a> {
    Options::new(width).word_splitter(WordSplitter::NoHyphenation)
}

/// The lines of a text in a column of a table.
pub(crate) fn lines_of(text: &str, width: usize) -> String {
    textwrap::fill(text, options(width))
}

/// Shortens a name to a number of columns. It loses its middle, because the beginning names the workload and the end
/// the pod. In `namespace/name` the namespace is shortened first.
pub fn shortened(name: &str, columns: usize) -> String {
    if name.width() <= columns {
        return name.to_owned();
    }
    match name.split_once('/') {
        Some((namespace, name)) if columns >= 4 * LEAST_NAMESPACE => {
            let room = columns.saturating_sub(name.width() + 1);
            let namespace = middle_out(namespace, room.max(columns / 4).max(LEAST_NAMESPACE));
            let rest = columns.saturating_sub(namespace.width() + 1);
            format!("{namespace}/{}", middle_out(name, rest))
        }
        _ => middle_out(name, columns),
    }
}

fn middle_out(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let tail = room * 2 / 5;
    let head = taken(text.chars(), room - tail);
    let tail: String = taken(text.chars().rev(), tail).chars().rev().collect();
    format!("{head}…{tail}")
}

/// As many characters as fit.
fn taken(characters: impl Iterator<Item = char>, columns: usize) -> String {
    let mut text = String::new();
    for character in characters {
        text.push(character);
        if text.width() > columns {
            text.pop();
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(is_terminal: bool, terminal_width: usize, variables: &[(&str, &str)]) -> View {
        let variable = |name: &str| {
            let mut set = variables.iter().filter(|(key, _)| *key == name);
            set.next().map(|(_, value)| (*value).to_owned())
        };
        View::of(is_terminal, || terminal_width, variable)
    }

    #[test]
    fn a_terminal_has_a_width_and_a_pipe_has_none() {
        let xterm = ("TERM", "xterm");
        for (is_terminal, terminal_width, variables, width, colour) in [
            (true, 100, vec![xterm], Some(100), true),
            (true, 0, vec![xterm], Some(80), true),
            (true, 10, vec![xterm], Some(NARROWEST), true),
            (true, 100, vec![xterm, ("COLUMNS", "120")], Some(120), true),
            (true, 100, vec![xterm, ("COLUMNS", "0")], Some(100), true),
            (true, 100, vec![xterm, ("COLUMNS", "x")], Some(100), true),
            (true, 100, vec![xterm, ("NO_COLOR", "1")], Some(100), false),
            (true, 100, vec![xterm, ("NO_COLOR", "")], Some(100), true),
            (true, 100, vec![("TERM", "dumb")], Some(100), false),
            (true, 100, vec![], Some(100), false),
            (false, 100, vec![xterm], None, false),
            (false, 0, vec![xterm, ("COLUMNS", "90")], Some(90), false),
        ] {
            let found = view(is_terminal, terminal_width, &variables);
            assert_eq!(
                (found.width, found.colour),
                (width, colour),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn a_name_loses_its_middle() {
        for (name, columns, short) in [
            ("shop/web-7d9f8-x2k9z", 20, "shop/web-7d9f8-x2k9z"),
            ("shop/web-7d9f8-x2k9z", 11, "shop/w…2k9z"),
            ("web-7d9f8-x2k9z", 10, "web-7d…k9z"),
            (
                "payments-production/checkout-worker-7d9f8c6b0a-w8m3t",
                36,
                "payme…ion/checkout-worker…6b0a-w8m3t",
            ),
            (
                "payments-production/checkout-7d9f8-w8m3t",
                36,
                "payments-…ction/checkout-7d9f8-w8m3t",
            ),
            ("日本語日本語", 7, "日本…語"),
            ("abc", 1, "…"),
        ] {
            assert_eq!(shortened(name, columns), short);
            assert!(short.width() <= columns, "{short}");
        }
    }

    #[test]
    fn a_sentence_hangs_below_its_heading_and_keeps_its_names() {
        let text = "shop/checkout-payments-worker goes now, at once, since memory is short";
        assert_eq!(
            View::of_width(40).hanging("LAST      ", text),
            "LAST      shop/checkout-payments-worker\n          goes now, at once, since\n          memory is short"
        );
        assert_eq!(View::WHOLE.hanging("LAST  ", text), format!("LAST  {text}"));
        let long = "a-name-that-is-much-longer-than-any-line-of-a-narrow-terminal";
        for line in View::of_width(40).sentence(long).lines() {
            assert!(line.width() <= 40, "{line}");
        }
        assert_eq!(View::WHOLE.sentence("a\u{1b}[2J\nb"), "a\\u001b[2J\\u000ab");
        assert_eq!(View::WHOLE.sentence("done.\n"), "done.");
        assert_eq!(View::WHOLE.sentences(["a.", "b\nc."]), "a.\nb\\u000ac.");
    }
}
