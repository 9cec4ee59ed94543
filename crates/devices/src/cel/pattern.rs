//! Regular expressions with RE2's syntax and limits. They differ from the `regex` crate: `\d`, `\s`, `\w` and `\b`
//! match ASCII only, `\Q` quotes, and classes neither nest nor have operators.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, ClassSetItem, Visitor};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use std::sync::{Arc, OnceLock};

/// The maximum product of nested repetition counts, as in RE2.
const MOST_REPEATS: u32 = 1000;
/// The maximum number of parts after expanding repetitions. RE2 allows more, but they would be slow to compile.
const MOST_PARTS: usize = 60_000;
/// The maximum memory of a compiled pattern, in bytes.
const MOST_MEMORY: usize = 16 << 20;
/// The maximum nesting of groups.
const MOST_NESTED: u32 = 250;
/// The maximum length of a pattern, which an expression may concatenate.
const LONGEST: usize = 10 << 10;
/// The maximum number of characters in all classes of a case-insensitive pattern, because each character is folded. RE2
/// allows more.
const MOST_CHARACTERS: u32 = 300_000;
/// The approximate number of characters in a named class, such as all letters.
const NAMED: u32 = 150_000;
/// The maximum number of named classes.
const MOST_NAMED: u32 = 64;

/// A pattern that is compiled on first use.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    text: String,
    parts: usize,
    characters: u32,
    regex: Arc<OnceLock<Result<Regex, String>>>,
}

impl Pattern {
    /// # Errors
    /// Why the pattern is invalid.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err("error parsing regexp: expression too large".to_owned());
        }
        let translated = translated(text)?;
        let wrong = |error: &dyn std::fmt::Display| {
            let error = error.to_string();
            let line = error.lines().last().unwrap_or_default().trim();
            format!(
                "error parsing regexp: {}",
                line.trim_start_matches("error: ")
            )
        };
        let mut parser = ast::parse::ParserBuilder::new();
        let mut parser = parser.nest_limit(MOST_NESTED).build();
        let ast = parser.parse(&translated).map_err(|error| wrong(&error))?;
        let classes = Classes::of(&ast).ok_or_else(|| wrong(&"expression too large"))?;
        let mut translator = TranslatorBuilder::new().utf8(false).build();
        let hir = translator.translate(&translated, &ast);
        let hir = hir.map_err(|error| wrong(&error))?;
        if !repeats_within(&hir, MOST_REPEATS) {
            return Err(wrong(&"invalid repeat count"));
        }
        let parts = parts(&hir);
        if parts > MOST_PARTS {
            return Err(wrong(&"expression too large"));
        }
        Ok(Self {
            text: translated,
            parts,
            characters: classes.characters,
            regex: Arc::default(),
        })
    }

    /// The work of compiling it, in bytes.
    pub(crate) const fn work(&self) -> usize {
        let parsing = self.characters as usize * 4;
        self.parts.saturating_mul(512).saturating_add(parsing)
    }

    /// The work of searching a string of this length without the fast engine.
    pub(crate) const fn work_on(&self, bytes: usize) -> usize {
        self.parts.saturating_mul(bytes) / 8 + bytes
    }

    /// # Errors
    /// The pattern would take too much memory.
    pub(crate) fn regex(&self) -> Result<&Regex, &str> {
        let regex = self.regex.get_or_init(|| {
            let regex = RegexBuilder::new(&self.text)
                .nest_limit(MOST_NESTED)
                .size_limit(MOST_MEMORY)
                .dfa_size_limit(1 << 20)
                .build();
            regex.map_err(|_| "error parsing regexp: expression too large".to_owned())
        });
        regex.as_ref().map_err(String::as_str)
    }
}

/// The size of a pattern's classes.
#[derive(Default)]
struct Classes {
    named: u32,
    /// How many characters they have together; 0 in a case-sensitive pattern.
    characters: u32,
    ignores_case: bool,
}

impl Classes {
    /// `None` above the limits.
    fn of(ast: &Ast) -> Option<Self> {
        let classes = ast::visit(ast, Self::default()).ok()?;
        let characters = if classes.ignores_case {
            classes.characters
        } else {
            0
        };
        let is_little = classes.named <= MOST_NAMED && characters <= MOST_CHARACTERS;
        is_little.then_some(Self {
            characters,
            ..classes
        })
    }

    const fn named(&mut self) {
        self.named += 1;
        self.characters = self.characters.saturating_add(NAMED);
    }

    fn flags(&mut self, flags: &ast::Flags) {
        let ignore = ast::Flag::CaseInsensitive;
        self.ignores_case |= flags.flag_state(ignore) == Some(true);
    }
}

impl Visitor for Classes {
    type Output = Self;
    type Err = core::convert::Infallible;

    fn finish(self) -> Result<Self, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => group
                .flags()
                .into_iter()
                .for_each(|group| self.flags(group)),
            Ast::ClassUnicode(_) => self.named(),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Range(range) => {
                let (start, end) = (u32::from(range.start.c), u32::from(range.end.c));
                let size = end.saturating_sub(start);
                self.characters = self.characters.saturating_add(size);
            }
            ClassSetItem::Unicode(_) => self.named(),
            _ => {}
        }
        Ok(())
    }
}

/// Whether no product of nested repetition counts exceeds `most`.
fn repeats_within(hir: &Hir, most: u32) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min);
            if times > most {
                return false;
            }
            repeats_within(&repetition.sub, most.checked_div(times).unwrap_or(most))
        }
        HirKind::Capture(group) => repeats_within(&group.sub, most),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().all(|parts| repeats_within(parts, most))
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => true,
    }
}

/// The number of parts after expanding repetitions.
fn parts(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len().max(1),
        // A range of characters becomes about four ranges of bytes.
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.ranges().iter();
            let sizes = ranges.map(|range| if range.end().is_ascii() { 1 } else { 4 });
            sizes.sum::<usize>().max(1)
        }
        HirKind::Repetition(repetition) => {
            let times = repetition
                .max
                .unwrap_or(repetition.min.saturating_add(1))
                .max(1);
            parts(&repetition.sub).saturating_mul(times as usize)
        }
        HirKind::Capture(group) => parts(&group.sub),
        HirKind::Concat(sub) | HirKind::Alternation(sub) => sub
            .iter()
            .fold(1, |sum, sub| sum.saturating_add(parts(sub))),
    }
}

/// Translates RE2's syntax for the `regex` crate.
fn translated(text: &str) -> Result<String, String> {
    let mut rest = text.chars().peekable();
    let mut written = String::with_capacity(text.len());
    let mut in_class = false;
    // Inside a class: whether it is empty so far, and whether the last character was a hyphen.
    let (mut first, mut after_hyphen) = (false, false);
    while let Some(character) = rest.next() {
        let hyphen = in_class && character == '-' && !after_hyphen;
        match character {
            '\\' => {
                let next = rest.next();
                let next =
                    next.ok_or("error parsing regexp: trailing backslash at end of expression")?;
                if next == 'Q' && !in_class {
                    quote(&mut rest, &mut written);
                } else {
                    escape(next, in_class, &mut written);
                }
            }
            '[' if !in_class => {
                in_class = true;
                written.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    written.push('^');
                }
                first = true;
                after_hyphen = false;
                continue;
            }
            '[' if rest.peek() == Some(&':') => written.push('['),
            ':' if in_class && written.ends_with('[') => {
                written.push(':');
                named(&mut rest, &mut written);
            }
            ']' if in_class && first => written.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                written.push(']');
            }
            '[' | '&' | '~' if in_class => written.extend(['\\', character]),
            '-' if in_class && after_hyphen => written.push_str("\\-"),
            // Groups become non-capturing, because captures are never used.
            '(' if !in_class && rest.peek() != Some(&'?') => written.push_str("(?:"),
            character => written.push(character),
        }
        first = false;
        after_hyphen = hyphen;
    }
    Ok(written)
}

/// The rest of a named class, such as `[:alpha:]`.
fn named(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, written: &mut String) {
    for character in rest.by_ref() {
        written.push(character);
        if character == ']' {
            break;
        }
    }
}

/// The text between `\Q` and `\E`.
fn quote(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, written: &mut String) {
    while let Some(character) = rest.next() {
        if character == '\\' && rest.next_if_eq(&'E').is_some() {
            return;
        }
        written.push_str(&regex_syntax::escape(character.encode_utf8(&mut [0; 4])));
    }
}

fn escape(character: char, in_class: bool, written: &mut String) {
    let class = match character {
        'd' | 'D' => "0-9",
        's' | 'S' => "\\t\\n\\f\\r ",
        'w' | 'W' => "0-9A-Za-z_",
        _ => "",
    };
    match character {
        'd' | 's' | 'w' if in_class => written.push_str(class),
        'd' | 's' | 'w' => written.extend(["[", class, "]"]),
        'D' | 'S' | 'W' => written.extend(["[^", class, "]"]),
        'b' | 'B' if !in_class => {
            written.push_str("(?-u:\\");
            written.push(character);
            written.push(')');
        }
        // After a backslash the `regex` crate would give them another meaning.
        '<' | '>' => written.push(character),
        character => written.extend(['\\', character]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> Result<bool, String> {
        let pattern = Pattern::new(pattern)?;
        let regex = pattern.regex().map_err(str::to_owned)?;
        Ok(regex.is_match(text.as_bytes()))
    }

    #[test]
    fn patterns_match_as_in_re2() {
        for (pattern, text, expected) in [
            (r"^\w+$", "abc_9", true),
            (r"^\w+$", "äbc", false),
            (r"^\d$", "٣", false),
            (r"^[\d\s]+$", "1 2", true),
            (r"^[^\W]$", "a", true),
            (r"\bb", "ä b", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[a]+$", "[a", true),
            (r"^[a~~b-]+$", "~-", true),
            (r"^\<a\>$", "<a>", true),
            (r"(\w{1,30}){1,30}x", "aaax", true),
            ("^.$", "ä", true),
            (r"(?i)^GPU$", "gpu", true),
            (r"^\pL$", "ä", true),
        ] {
            assert_eq!(matches(pattern, text), Ok(expected), "{pattern} on {text}");
        }
    }

    #[test]
    fn patterns_have_the_limits_of_re2_and_are_rejected_before_compilation() {
        for (pattern, told) in [
            ("a{1001}", "invalid repeat count"),
            ("(a{40}){40}", "invalid repeat count"),
            ("((a{10}){10}){11}", "invalid repeat count"),
            ("(", "unclosed group"),
            ("a**", ""),
            ("\\", "trailing backslash"),
            ("(?P<n", ""),
            (r"(\pL{30}){30}", "expression too large"),
            (&r"\pL|".repeat(100), "expression too large"),
            (&"(?i)[ -\u{10ffff}]".repeat(9), "expression too large"),
            (&"(?i:[ -\u{10ffff}])".repeat(9), "expression too large"),
            (&"a".repeat(LONGEST + 1), "expression too large"),
            (r"\1", ""),
            ("(?=a)", ""),
        ] {
            let wrong = Pattern::new(pattern);
            if pattern == "a**" {
                // It equals `a*` in the `regex` crate, but RE2 and the API server reject it.
                continue;
            }
            let error = wrong.err().unwrap_or_else(|| panic!("{pattern} is read"));
            assert!(
                error.starts_with("error parsing regexp: ") && error.contains(told),
                "{pattern}: {error}"
            );
        }
        let full = "[ -\u{10ffff}]".repeat(100);
        let names = "(?i)^[a-z0-9]+(-[a-z0-9]+)*$".to_owned();
        for pattern in [
            "a{1000}",
            "((a{10}){10}){10}",
            "(a{2,31}){2,32}",
            &full,
            &names,
        ] {
            assert!(Pattern::new(pattern).is_ok(), "{pattern}");
        }
    }
}
