//! How plainly a crate speaks: its comments, its identifiers, and where a type's methods stand. Tests are left out.

use super::modules::without_tests;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Words by which a comment is about somebody instead of the thing that it describes.
const DIALECT: [&str; 14] = [
    "what",
    "whom",
    "whoever",
    "nobody",
    "somebody",
    "told",
    "tells",
    "telling",
    "goes",
    "gone",
    "hitherto",
    "thereof",
    "whereof",
    "wherefore",
];

/// The most words of a sentence.
const LONGEST_SENTENCE: usize = 30;

/// The measures of one crate.
#[derive(Default)]
pub(crate) struct Language {
    words: usize,
    dialect: usize,
    /// Where a sentence is too long, with its first words.
    pub(crate) long: Vec<String>,
    /// How often something is called `own`.
    pub(crate) own: usize,
    /// For each type the files with its methods beside the file that defines it.
    methods: BTreeMap<String, BTreeSet<PathBuf>>,
}

impl Language {
    /// Of the files of one crate.
    pub(crate) fn of<'a>(files: impl Iterator<Item = &'a (PathBuf, String)>) -> Self {
        let mut language = Self::default();
        for (path, text) in files {
            if !is_of_tests(path) {
                language.read(path, text);
            }
        }
        language
    }

    /// Of ten thousand words in comments, how many are of the dialect.
    pub(crate) fn dialect(&self) -> usize {
        (10_000 * self.dialect).div_ceil(self.words.max(1))
    }

    /// The types whose methods stand in more than three files, with their number.
    pub(crate) fn spread(&self) -> impl Iterator<Item = (&str, usize)> {
        let of_types = self.methods.iter();
        let numbers = of_types.map(|(name, files)| (name.as_str(), files.len() + 1));
        numbers.filter(|(_, files)| *files > 3)
    }

    fn read(&mut self, path: &Path, text: &str) {
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
        for (line, sentence) in sentences(code) {
            let words: Vec<&str> = words(&sentence).collect();
            let odd = |word: &&&str| DIALECT.contains(&word.to_lowercase().as_str());
            self.words += words.len();
            self.dialect += words.iter().filter(odd).count();
            if words.len() > LONGEST_SENTENCE {
                let first = words[..6].join(" ");
                let path = path.display();
                self.long.push(format!("{path}:{line}: {first} …"));
            }
        }
        let tokens = without_tests(text.parse().unwrap());
        self.own += owns(&tokens);
        let (defined, implemented) = types(&tokens);
        for name in implemented.difference(&defined) {
            let files = self.methods.entry(name.clone()).or_default();
            files.insert(path.to_owned());
        }
    }
}

fn is_of_tests(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy();
    let folder = path.components().any(|part| part.as_os_str() == "tests");
    folder || name == "tests" || name.ends_with("_tests")
}

/// The sentences of the comments, each with the line where its comment begins. Code, tables and headings do not count.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let comment = line.trim_start().strip_prefix("//");
        let Some(comment) = comment.map(|rest| rest.trim_start_matches(['/', '!']).trim()) else {
            (open, fenced) = (false, false);
            continue;
        };
        let fence = comment.starts_with("```");
        fenced ^= fence;
        if fence || fenced || comment.starts_with(['|', '#']) {
            open = false;
        } else if open {
            let last = &mut comments.last_mut().unwrap().1;
            last.push(' ');
            last.push_str(comment);
        } else {
            comments.push((number, comment.to_owned()));
            open = true;
        }
    }
    let split = |(line, comment): (usize, String)| {
        // What stands between backticks is a name.
        let named = comment.split('`').enumerate();
        let named: String = named
            .map(|(index, part)| if index % 2 == 1 { "X" } else { part })
            .collect();
        let mut found = Vec::new();
        let mut sentence = String::new();
        for word in named.split_whitespace() {
            sentence.push_str(word);
            if word.ends_with(['.', ';', ':', '!', '?']) {
                found.push((line, std::mem::take(&mut sentence)));
            } else {
                sentence.push(' ');
            }
        }
        found.push((line, sentence));
        found
    };
    comments.into_iter().flat_map(split).collect()
}

fn words(sentence: &str) -> impl Iterator<Item = &str> {
    let is_of_word = |c: char| c.is_ascii_alphabetic() || c == '\'';
    sentence
        .split(move |c| !is_of_word(c))
        .filter(|word| !word.is_empty())
}

/// How many identifiers are `own`.
fn owns(tokens: &[TokenTree]) -> usize {
    let of = |token: &TokenTree| match token {
        TokenTree::Ident(word) => usize::from(word == "own"),
        TokenTree::Group(group) => owns(&without_tests(group.stream())),
        _ => 0,
    };
    tokens.iter().map(of).sum()
}

/// The types that a file defines, and those that it gives methods.
fn types(tokens: &[TokenTree]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut defined, mut implemented) = (BTreeSet::new(), BTreeSet::new());
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "struct" || word == "enum" => {
                defined.extend(tokens.get(at + 1).map(ToString::to_string));
            }
            TokenTree::Ident(word) if word == "impl" && begins_item(&tokens[..at]) => {
                let until = tokens[at + 1..].iter().take_while(|token| {
                    !matches!(token, TokenTree::Group(body) if body.delimiter() == Delimiter::Brace)
                });
                implemented.extend(subject(&until.collect::<Vec<_>>()));
            }
            _ => {}
        }
    }
    (defined, implemented)
}

/// Whether an item can begin after these tokens; `-> impl Iterator` is none.
fn begins_item(before: &[TokenTree]) -> bool {
    match before.last() {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() != Delimiter::Parenthesis,
        Some(TokenTree::Punct(punct)) => punct.as_char() == ';',
        Some(_) => false,
    }
}

/// The type of an `impl` without a trait, from the tokens between the word and the body.
fn subject(tokens: &[&TokenTree]) -> Option<String> {
    let is_for = |token: &&&TokenTree| matches!(token, TokenTree::Ident(word) if word == "for");
    if tokens.iter().any(|token| is_for(&token)) {
        return None;
    }
    let mut depth = 0_usize;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
            TokenTree::Punct(punct) if punct.as_char() == '>' => depth = depth.saturating_sub(1),
            TokenTree::Ident(word) if depth == 0 => return Some(word.to_string()),
            _ => {}
        }
    }
    None
}

#[test]
fn words_sentences_identifiers_and_methods_are_counted_as_a_reader_sees_them() {
    let thirty_one = ["word"; 31].join(" ");
    let main = format!(
        "//! What it is. {thirty_one}\nstruct A; // a `what` is a name\nimpl A {{ fn f() {{ let own = 1; }} }}\n\
         #[cfg(test)]\nmod tests {{\n    // told\n    fn own() {{}}\n}}\n"
    );
    let beside = |text: &str| text.to_owned();
    let files = [
        ("a.rs", main),
        ("b.rs", beside("impl<T> A<T> {}\nimpl Clone for A {}")),
        ("c.rs", beside("impl A {}")),
        ("d.rs", beside("impl A {}\nstruct B;\nimpl B {}")),
        ("tests.rs", beside("// nobody\nimpl A {}")),
    ];
    let files = files.map(|(path, text)| (PathBuf::from(path), text));
    let language = Language::of(files.iter());
    // One of "What it is" and of the long sentence.
    assert_eq!((language.dialect, language.words), (1, 34));
    assert_eq!(language.long, ["a.rs:1: word word word word word word …"]);
    assert_eq!(language.own, 1);
    assert_eq!(language.spread().collect::<Vec<_>>(), [("A", 4)]);
    let none: TokenStream = String::new().parse().unwrap();
    assert_eq!(owns(&without_tests(none)), 0);
}
