//! Quoted texts, in the form of Go, which Kubernetes' library uses.

use std::fmt::Write as _;

/// The text in quotes; characters that cannot be printed are escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let escape = match character {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\\' => "\\\\",
            '"' => "\\\"",
            other => {
                put(&mut quoted, other);
                continue;
            }
        };
        quoted.push_str(escape);
    }
    quoted.push('"');
    quoted
}

fn put(quoted: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a string cannot fail.
    let _ = match code {
        _ if is_printable(character) => write!(quoted, "{character}"),
        0..=0x7f => write!(quoted, "\\x{code:02x}"),
        0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}

fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // Only at its start a text may have an escape for a mark that can be printed.
    let after_another = ['x', character].iter().collect::<String>();
    after_another.escape_debug().nth(2).is_none()
}
