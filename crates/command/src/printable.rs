//! Text from outside must not reach a terminal unchanged: a name may contain bytes that move the cursor, change colours or
//! rename the window.

use crate::colour::is_mark;
use std::borrow::Cow;
use std::fmt::Write;

/// The text with control characters escaped as in JSON (`\\u001b`); line ends and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    written_out(text, |c| steers(c) && !matches!(c, '\n' | '\t'))
}

/// The same for text that already contains evictd's own colours.
pub(crate) fn printable_but_marks(text: &str) -> Cow<'_, str> {
    written_out(text, |c| {
        steers(c) && !matches!(c, '\n' | '\t') && !is_mark(c)
    })
}

/// Escapes text that must stay on one line.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    written_out(text, steers)
}

/// Control characters, characters that reverse the direction of writing, and the marks that become colours.
fn steers(c: char) -> bool {
    c.is_control() || is_mark(c) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn written_out(text: &str, steers: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) {
            // A `String` takes whatever it is given.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, line, lines) in [
            ("shop/web-1 é", "shop/web-1 é", "shop/web-1 é"),
            ("\u{1b}[2J", "\\u001b[2J", "\\u001b[2J"),
            (
                "a\u{9b}2Jb\u{7f}\u{7}",
                "a\\u009b2Jb\\u007f\\u0007",
                "a\\u009b2Jb\\u007f\\u0007",
            ),
            ("a\r\u{202e}b", "a\\u000d\\u202eb", "a\\u000d\\u202eb"),
            ("a\n\tb", "a\\u000a\\u0009b", "a\n\tb"),
        ] {
            assert_eq!(printable_line(text), line);
            assert_eq!(printable(text), lines);
        }
    }
}
