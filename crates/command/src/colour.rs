//! Colours in a text for people. In the text they are marks, which no name can contain because names are escaped before;
//! standard output replaces them with a terminal's control sequences.

use evictd_html::Tone;

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Everything is in order.
    Good,
    /// A pod is evicted, or something failed.
    Bad,
    /// An operator should check it.
    Warning,
    /// The most important text; the headings of tables.
    Strong,
    /// Less important than the rest.
    Faint,
}

impl From<Colour> for Tone {
    fn from(colour: Colour) -> Self {
        match colour {
            Colour::Good => Self::Good,
            Colour::Bad => Self::Bad,
            Colour::Warning => Self::Warning,
            Colour::Strong | Colour::Faint => Self::Plain,
        }
    }
}

/// Characters of Unicode's tag block: they have no width, and no terminal shows them.
const END: char = '\u{e007f}';

impl Colour {
    const ALL: [Self; 5] = [
        Self::Good,
        Self::Bad,
        Self::Warning,
        Self::Strong,
        Self::Faint,
    ];

    fn mark(self) -> char {
        match self {
            Self::Good => '\u{e0067}',
            Self::Bad => '\u{e0072}',
            Self::Warning => '\u{e0079}',
            Self::Strong => '\u{e0062}',
            Self::Faint => '\u{e0064}',
        }
    }

    /// Select Graphic Rendition, ECMA-48.
    fn sequence(self) -> &'static str {
        match self {
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[1;31m",
            Self::Warning => "\u{1b}[33m",
            Self::Strong => "\u{1b}[1m",
            Self::Faint => "\u{1b}[2m",
        }
    }
}

/// The text in this colour, line by line.
pub(crate) fn painted(colour: Colour, text: &str) -> String {
    let mark = colour.mark();
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| format!("{mark}{line}{END}"))
        .collect();
    lines.join("\n")
}

/// Whether a character is a mark, which a name may not contain.
pub(crate) fn is_mark(character: char) -> bool {
    ('\u{e0000}'..='\u{e007f}').contains(&character)
}

/// The text with control sequences in place of the marks.
pub(crate) fn rendered(text: &str) -> String {
    let text = text.replace(END, "\u{1b}[0m");
    Colour::ALL.into_iter().fold(text, |text, colour| {
        text.replace(colour.mark(), colour.sequence())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{View, printable_line};
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn a_colour_has_no_width_and_no_name_can_bring_one() {
        let view = View::of_width(80).coloured();
        let painted = view.paint(Colour::Bad, "LOW\nB");
        assert_eq!(painted.width(), "LOW\nB".width());
        assert_eq!(
            rendered(&painted),
            "\u{1b}[1;31mLOW\u{1b}[0m\n\u{1b}[1;31mB\u{1b}[0m"
        );
        assert!(!printable_line(&painted).contains(is_mark));
        assert_eq!(View::of_width(80).paint(Colour::Bad, "LOW"), "LOW");
    }
}
