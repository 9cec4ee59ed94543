//! The face of a crate: the names that another crate can write, at its root and in its public modules.

use super::modules::{children, is, path, without_tests};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The words before the name of an item.
const KINDS: [&str; 8] = [
    "struct", "enum", "union", "trait", "type", "fn", "static", "const",
];

/// The names of the crate that begins with this file. Methods, fields and variants come with their types.
pub(crate) fn face(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let text = fs::read_to_string(root).unwrap();
    read(
        text.parse().unwrap(),
        root.parent().unwrap(),
        "",
        &mut names,
    );
    names
}

/// Reads a module; its children's files lie in `directory`.
fn read(tokens: TokenStream, directory: &Path, place: &str, names: &mut BTreeSet<String>) {
    let tokens = without_tests(tokens);
    let children = children(&tokens);
    for (at, token) in tokens.iter().enumerate() {
        if !matches!(token, TokenTree::Ident(word) if word == "pub") {
            continue;
        }
        let after = &tokens[at + 1..];
        // `pub(crate)`
        if let Some(TokenTree::Group(group)) = after.first()
            && group.delimiter() == Delimiter::Parenthesis
        {
            continue;
        }
        match words(after).as_slice() {
            [first, name, ..] if first == "mod" => {
                let place = format!("{place}{name}::");
                let below = directory.join(name);
                let body = children[name].clone();
                let body = body.unwrap_or_else(|| module(directory, name).parse().unwrap());
                read(body, &below, &place, names);
            }
            [first, ..] if first == "use" => import(&after[1..], place, names),
            all => {
                // `const fn name` and `const NAME`: the last kind before the name decides.
                let item = all.iter().find(|word| !is_before_name(word));
                names.extend(item.map(|item| format!("{place}{item}")));
            }
        }
    }
}

fn is_before_name(word: &str) -> bool {
    KINDS.contains(&word) || matches!(word, "async" | "unsafe" | "extern" | "mut")
}

/// The words that the tokens begin with.
fn words(tokens: &[TokenTree]) -> Vec<String> {
    let words = tokens.iter().map_while(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    });
    words.collect()
}

fn module(directory: &Path, name: &str) -> String {
    let beside = fs::read_to_string(directory.join(format!("{name}.rs")));
    beside.unwrap_or_else(|_| fs::read_to_string(directory.join(name).join("mod.rs")).unwrap())
}

/// The names at the leaves of a `use`.
fn import(tokens: &[TokenTree], place: &str, names: &mut BTreeSet<String>) {
    let start = tokens.iter().take_while(|token| is(token, ':')).count();
    let (path, length) = path(&tokens[start..]);
    let rest = &tokens[start + length..];
    match rest.first() {
        Some(TokenTree::Group(group)) => {
            let inner: Vec<_> = group.stream().into_iter().collect();
            for tree in inner.split(|token| is(token, ',')) {
                if !tree.is_empty() {
                    import(tree, place, names);
                }
            }
        }
        Some(TokenTree::Ident(word)) if word == "as" => {
            names.insert(format!("{place}{}", rest[1]));
        }
        Some(token) if is(token, '*') => {
            names.insert(format!("{place}*"));
        }
        _ => names.extend(path.last().map(|name| format!("{place}{name}"))),
    }
}

#[test]
fn a_face_is_what_another_crate_can_write() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write(
        "lib.rs",
        "mod hidden; pub mod shown; pub(crate) mod inner; pub use hidden::{A, b as c}; use hidden::D;\
         pub struct S { pub field: u8 } impl S { pub fn method() {} } pub const fn f() {} pub const N: u8 = 1;\
         #[cfg(test)] pub mod tests; pub mod inline { pub use crate::hidden::E; struct P; }",
    );
    write("hidden.rs", "pub struct Hidden;");
    write(
        "shown.rs",
        "pub enum Shown { V } fn g() { pub struct Local; }",
    );
    write("inner.rs", "pub struct Inner;");
    let found: Vec<_> = face(&directory.path().join("lib.rs")).into_iter().collect();
    let expected = ["A", "N", "S", "c", "f", "inline::E", "shown::Shown"];
    assert_eq!(found, expected);
}
