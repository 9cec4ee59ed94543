//! Regular expressions in RE2's syntax and within its limits. They differ from those of the library here: `\d`, `\s`, `\w` and `\b`
//! are about ASCII only, `\Q` quotes, and a class has neither nested classes nor operators.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, ClassSetItem, Visitor};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use std::sync::{Arc, OnceLock};

/// Nested repetitions may repeat something so many times in all, as in RE2.
const MOST_REPEATS: u32 = 1000;
/// The most parts that a pattern may have when its repetitions are written out. RE2 allows more; they would be slow to prepare.
const MOST_PARTS: usize = 60_000;
/// The most memory of a compiled pattern, in bytes.
const MOST_MEMORY: usize = 16 << 20;
/// How deeply groups may be nested.
const MOST_NESTED: u32 = 250;
/// The longest pattern, which an expression may put together.
const LONGEST: usize = 10 << 10;
/// The most characters that all classes of a pattern have together where it may ignore case: then each is looked at. RE2 allows
/// more.
const MOST_CHARACTERS: u32 = 300_000;
/// About as many characters has a class with a name, such as all letters.
const NAMED: u32 = 150_000;
/// The most classes with a name.
const MOST_NAMED: u32 = 64;

/// A pattern that is compiled when it is used for the first time.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    text: String,
    parts: usize,
    characters: u32,
    regex: Arc<OnceLock<Result<Regex, String>>>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with it.
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

    /// The work of compiling it, in bytes that are handled.
    pub(crate) const fn work(&self) -> usize {
        let parsing = self.characters as usize * 4;
        self.parts.saturating_mul(512).saturating_add(parsing)
    }

    /// The work of a search in a text of so many bytes, where the search does not go by the shortest way.
    pub(crate) const fn work_on(&self, bytes: usize) -> usize {
        self.parts.saturating_mul(bytes) / 8 + bytes
    }

    /// # Errors
    /// It would take too much memory.
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

/// What has to be looked at of the classes of a pattern.
#[derive(Default)]
struct Classes {
    named: u32,
    /// How many characters they have together; 0 where case matters.
    characters: u32,
    ignores_case: bool,
}

impl Classes {
    /// `None` where that is too much.
    fn of(ast: &Ast) -> Option<Self> {
        let own = ast::visit(ast, Self::default()).ok()?;
        let characters = if own.ignores_case { own.characters } else { 0 };
        let is_little = own.named <= MOST_NAMED && characters <= MOST_CHARACTERS;
        is_little.then_some(Self { characters, ..own })
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
            Ast::Flags(own) => self.flags(&own.flags),
            Ast::Group(own) => own.flags().into_iter().for_each(|own| self.flags(own)),
            Ast::ClassUnicode(_) => self.named(),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Range(own) => {
                let (start, end) = (u32::from(own.start.c), u32::from(own.end.c));
                let size = end.saturating_sub(start);
                self.characters = self.characters.saturating_add(size);
            }
            ClassSetItem::Unicode(_) => self.named(),
            _ => {}
        }
        Ok(())
    }
}

/// Whether repetitions within each other repeat something at most so many times.
fn repeats_within(hir: &Hir, most: u32) -> bool {
    match hir.kind() {
        HirKind::Repetition(own) => {
            let times = own.max.unwrap_or(own.min);
            if times > most {
                return false;
            }
            repeats_within(&own.sub, most.checked_div(times).unwrap_or(most))
        }
        HirKind::Capture(own) => repeats_within(&own.sub, most),
        HirKind::Concat(own) | HirKind::Alternation(own) => {
            own.iter().all(|own| repeats_within(own, most))
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => true,
    }
}

/// How many parts a pattern has when its repetitions are written out.
fn parts(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(own) => own.0.len(),
        HirKind::Class(Class::Bytes(own)) => own.ranges().len().max(1),
        // A range of characters takes about four of bytes.
        HirKind::Class(Class::Unicode(own)) => {
            let ranges = own.ranges().iter();
            let sizes = ranges.map(|own| if own.end().is_ascii() { 1 } else { 4 });
            sizes.sum::<usize>().max(1)
        }
        HirKind::Repetition(own) => {
            let times = own.max.unwrap_or(own.min.saturating_add(1)).max(1);
            parts(&own.sub).saturating_mul(times as usize)
        }
        HirKind::Capture(own) => parts(&own.sub),
        HirKind::Concat(own) | HirKind::Alternation(own) => own
            .iter()
            .fold(1, |sum, own| sum.saturating_add(parts(own))),
    }
}

/// The pattern as the library here reads it.
fn translated(text: &str) -> Result<String, String> {
    let mut rest = text.chars().peekable();
    let mut written = String::with_capacity(text.len());
    let mut in_class = false;
    // In a class: whether nothing has been read of it yet, and whether the last character was a hyphen.
    let (mut first, mut after_hyphen) = (false, false);
    while let Some(own) = rest.next() {
        let hyphen = in_class && own == '-' && !after_hyphen;
        match own {
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
            '[' | '&' | '~' if in_class => written.extend(['\\', own]),
            '-' if in_class && after_hyphen => written.push_str("\\-"),
            // Nobody asks for what a group has matched.
            '(' if !in_class && rest.peek() != Some(&'?') => written.push_str("(?:"),
            own => written.push(own),
        }
        first = false;
        after_hyphen = hyphen;
    }
    Ok(written)
}

/// The rest of a class with a name, such as `[:alpha:]`.
fn named(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, written: &mut String) {
    for own in rest.by_ref() {
        written.push(own);
        if own == ']' {
            break;
        }
    }
}

/// What stands between `\Q` and `\E`.
fn quote(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, written: &mut String) {
    while let Some(own) = rest.next() {
        if own == '\\' && rest.next_if_eq(&'E').is_some() {
            return;
        }
        written.push_str(&regex_syntax::escape(own.encode_utf8(&mut [0; 4])));
    }
}

fn escape(own: char, in_class: bool, written: &mut String) {
    let class = match own {
        'd' | 'D' => "0-9",
        's' | 'S' => "\\t\\n\\f\\r ",
        'w' | 'W' => "0-9A-Za-z_",
        _ => "",
    };
    match own {
        'd' | 's' | 'w' if in_class => written.push_str(class),
        'd' | 's' | 'w' => written.extend(["[", class, "]"]),
        'D' | 'S' | 'W' => written.extend(["[^", class, "]"]),
        'b' | 'B' if !in_class => {
            written.push_str("(?-u:\\");
            written.push(own);
            written.push(')');
        }
        // They have a meaning of their own here.
        '<' | '>' => written.push(own),
        own => written.extend(['\\', own]),
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
    fn patterns_mean_what_they_mean_in_re2() {
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
    fn patterns_have_the_limits_of_re2_and_are_refused_before_they_are_compiled() {
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
                // It is the same as `a*` here, and RE2 refuses it: the API server does, too.
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
