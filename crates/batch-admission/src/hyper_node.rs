//! The members of a hyper node: at least one, with patterns that Go can compile (S6-248).

use super::field::Mistakes;
use regex_syntax::ast::ErrorKind;
use regex_syntax::ast::parse::Parser;
use serde_json::Value;

/// The mistakes of a hyper node.
pub(super) fn check(object: &Value) -> Result<(), String> {
    let mut mistakes = Mistakes::default();
    let members = &object["spec"]["members"];
    let list = members.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        let value = if members.is_array() { "[]" } else { "null" };
        let why = "member must have at least one member";
        mistakes.invalid_value(".spec.members", value, why);
    }
    for member in list {
        let pattern = &member["selector"]["regexMatch"]["pattern"];
        let pattern = pattern.as_str().unwrap_or_default();
        if let Some(why) = pattern_error(pattern) {
            mistakes.invalid(
                ".spec.members.selector.regexMatch.pattern",
                pattern,
                &format!("member regexMatch pattern is invalid: error parsing regexp: {why}"),
            );
        }
    }
    mistakes.aggregate().map_or(Ok(()), Err)
}

/// Why a pattern is invalid, in Go's words where Go has words for it.
fn pattern_error(pattern: &str) -> Option<String> {
    let error = Parser::new().parse(pattern).err()?;
    let (start, end) = (error.span().start.offset, error.span().end.offset);
    let part = pattern.get(start..end).unwrap_or(pattern);
    let (why, part) = match error.kind() {
        ErrorKind::GroupUnclosed => ("missing closing )", pattern),
        ErrorKind::GroupUnopened => ("unexpected )", pattern),
        ErrorKind::ClassUnclosed => ("missing closing ]", pattern.get(start..).unwrap_or(pattern)),
        ErrorKind::ClassRangeInvalid => ("invalid character class range", part),
        ErrorKind::RepetitionMissing => ("missing argument to repetition operator", part),
        ErrorKind::EscapeUnexpectedEof => ("trailing backslash at end of expression", ""),
        ErrorKind::EscapeUnrecognized => ("invalid escape sequence", part),
        ErrorKind::UnsupportedLookAround => ("invalid or unsupported Perl syntax", part),
        kind => return Some(format!("{kind}: `{part}`")),
    };
    Some(format!("{why}: `{part}`"))
}
